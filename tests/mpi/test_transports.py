# SPDX-License-Identifier: BSD-3-Clause
"""Transports: used as requested, the fastest is found, and bytes outside the plan are unchanged."""

import mmap
import os
import re
import resource
import subprocess
import sys
import time

import drawn
import numpy as np
import pytest

import datamover as dm

NAMES = drawn.transports("self")
#: Who copies, and how long messages are at the most.
MANNERS = ["shared:sender", "shared:receiver", "read:sender", "read:receiver", "staged:4K",
           "p2p:1", "p2p:100", "get:1K", "put:1K", "auto:receiver:2K"]  # fmt: skip

#: Replaces the file again and again, as another program does, until it is told to stop.
OTHER_WRITER = """
import os, sys
path, stop = sys.argv[1:]
while not os.path.exists(stop):
    with open(path + ".other", "w") as file:
        file.write("datamover tuning 1\\n5 p2p 6\\n")
    os.replace(path + ".other", path)
"""


@pytest.fixture
def local_rng(comm, rng):
    return np.random.default_rng([int(rng.integers(2**31)), comm.rank])


@pytest.fixture
def tuning_file(comm, tmp_path_factory, monkeypatch):
    """A file of this test's, the same on all processes."""
    folder = comm.bcast(str(tmp_path_factory.mktemp("tuning")) if comm.rank == 0 else None)
    monkeypatch.setenv("DATAMOVER_TUNING_FILE", f"{folder}/new/choices")
    return f"{folder}/new/choices"


def rows_to_columns(n, nprocs):
    return dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", nprocs), dm.BlockCyclic((n, n), "(*, block)", nprocs)
    )


def arrays(comm, plan, library, dtype="i8"):
    if library:
        return dm.Array(plan.source, dtype, comm=comm), dm.Array(plan.destination, dtype, comm=comm)
    shapes = [layout.local_shape(comm.rank) for layout in (plan.source, plan.destination)]
    return tuple(np.zeros(shape, dtype) for shape in shapes)


def local(array):
    return array.local if isinstance(array, dm.Array) else array


def draw(comm, rng, local_rng):
    """A plan between two drawn layouts, and its arrays."""
    shape = drawn.shape(rng)
    plan = dm.redistribute(drawn.layout(rng, shape, comm.size), drawn.layout(rng, shape, comm.size))
    source = drawn.Part(comm, rng, local_rng, plan.source, "i8")
    destination = drawn.Part(comm, rng, local_rng, plan.destination, "i8")
    whole = drawn.numbered(shape, "i8")
    source.fill(whole)
    destination.fill(np.full_like(whole, -1))
    return plan, source, destination, whole


@pytest.mark.parametrize("transport", [*NAMES, *MANNERS])
def test_each_reads_and_writes_what_the_plan_says(comm, rng, local_rng, cases, transport):
    for _ in range(cases * 3):
        plan, source, destination, whole = draw(comm, rng, local_rng)
        options = {"transport": f"{transport}+auto", "comm": comm}
        if rng.integers(2):
            options["max_bytes"] = drawn.max_bytes(rng, comm.size)
        mover = dm.Mover(plan, source.arrays, destination.arrays, **options)
        for _ in range(2):
            mover()
        destination.assert_holds(whole)
        source.assert_holds(whole)


@pytest.mark.parametrize("transport", NAMES)
def test_halos_in_place_read_and_write_what_the_plan_says(comm, transport):
    domain = dm.Region((0, 0), (4 * comm.size, 6))
    blocks = dm.FloorPlan.uniform(domain, (comm.size, 1), nprocs=comm.size)
    u = dm.Array(blocks, "i8", ghost=1, comm=comm)
    for block in u.blocks:
        u[block][...] = block
    plan = dm.halo(blocks, 1, periodic=domain)
    dm.Mover(plan, u, u, transport=f"{transport}+auto")()
    for block in u.blocks:
        assert (u[block][0] == (block - 1) % comm.size).all()
        assert (u[block][-1] == (block + 1) % comm.size).all()
        assert (u[block][1:-1] == block).all()


@pytest.mark.parametrize("transport", ["collective", "self+collective"])
def test_collective_moves_are_in_flight_with_others(comm, transport):
    """Some processes start the next one when the first has ended, others before it has."""
    plan = rows_to_columns(2 * comm.size, comm.size)
    transports = [transport, transport, "collective", "p2p", transport, "collective"]
    pairs = [arrays(comm, plan, False) for _ in transports]
    movers = [
        dm.Mover(plan, a, b, transport=name, comm=comm)
        for name, (a, b) in zip(transports, pairs, strict=True)
    ]
    for turn in range(4):
        for i, (a, b) in enumerate(pairs):
            a[...], b[...] = 100 * turn + 10 * i + comm.rank, -1
        for i, mover in enumerate(movers):
            mover.start()
            if i % 2 == 0:  # all have begun it, and those of one half go on alone
                comm.barrier()
                for _ in range(100 * ((comm.rank + turn) % 2)):
                    if not mover.in_flight or mover.test():
                        break
        for mover in movers if comm.rank % 2 else reversed(movers):
            if mover.in_flight:
                mover.wait()
        sent = np.arange(comm.size).repeat(2)[:, None]
        for i, (_, b) in enumerate(pairs):
            assert (b == 100 * turn + 10 * i + sent).all()


@pytest.mark.parametrize("transport", ["auto", "measure"])
def test_blocks_may_lie_far_apart(comm, tuning_file, transport):
    """What lies between the blocks of an array is not the array's, and may be no memory."""
    n = comm.size
    blocks = dm.FloorPlan.uniform(dm.Region((0,), (8 * n,)), (2 * n,), nprocs=n)
    plan = dm.redistribute(blocks, dm.BlockCyclic((8 * n,), "(cyclic)", n))
    near, far = np.empty(4, "i8"), np.frombuffer(mmap.mmap(-1, 4096), "i8")[:4]
    first, second = blocks.blocks_of(comm.rank)
    whole = np.arange(8 * n)
    near[...], far[...] = whole[4 * first :][:4], whole[4 * second :][:4]
    result = np.zeros(8, "i8")
    mover = dm.Mover(plan, {first: near, second: far}, result, transport=transport, comm=comm)
    mover()
    assert (result == whole[comm.rank :: n]).all()
    assert transport != "measure" or n == 1 or mover.explain().trials[0]["rounds"] > 0


def test_the_first_of_several_that_can_carries(comm):
    plan = rows_to_columns(4 * comm.size, comm.size)
    for library in (False, True):
        a, b = arrays(comm, plan, library)
        local(a)[...] = 1 + comm.rank
        mover = dm.Mover(plan, a, b, transport="shared+staged+p2p", comm=comm)
        for pair in mover.explain():
            near = not drawn.NODE_SIZE or pair["peer"] // drawn.NODE_SIZE == (
                comm.rank // drawn.NODE_SIZE
            )
            shared = library and a.shared and b.shared
            right = ("shared" if shared else "staged") if near else "p2p"
            assert pair["transport"] == ("self" if pair["peer"] == comm.rank else right)
        mover()
        assert (local(b) == 1 + np.arange(comm.size).repeat(4)[:, None]).all()


def test_explain_says_whose_loops_run(comm):
    plan = rows_to_columns(4 * comm.size, comm.size)
    a, b = arrays(comm, plan, True)
    for pair in dm.Mover(plan, a, b, transport="datatype").explain():
        assert (pair["kernel"] == "MPI's own") == (pair["peer"] != comm.rank)
        assert pair["kernel"] != "nothing"


@pytest.mark.parametrize("op", [None, "add"])
@pytest.mark.parametrize("name", ["shared", "read", "auto"])
def test_who_copies_where_either_side_could(comm, name, op):
    """Elements that are combined are so by the receiver, who alone may write them."""
    plan = rows_to_columns(4 * comm.size, comm.size)
    a, b = arrays(comm, plan, True)
    for word in ("sender", "receiver"):
        local(a)[...], local(b)[...] = comm.rank, 2
        mover = dm.Mover(plan, a, b, transport=f"{name}:{word}+auto", op=op)
        mover()
        brought = np.arange(comm.size).repeat(4)[:, None]
        assert (local(b) == brought + (2 if op else 0)).all()
        for pair in mover.explain():
            if pair["transport"] in ("shared", "read"):
                copies = pair["kernel"] != "copied by the peer"
                assert copies == (pair["sends"] == (word == "sender" and not op))


def test_between_equals_receivers_copy_and_in_place_senders(comm):
    """So that lines into which several processes send have one writer, and ghosts are pushed."""
    n = comm.size
    cyclic, cyclic_2 = (dm.BlockCyclic((n * n * 8,), f"(cyclic({k}))", n) for k in (1, 2))
    apart = dm.redistribute(cyclic, cyclic_2)
    x, y = dm.Array(cyclic, comm=comm), dm.Array(cyclic_2, comm=comm)
    rows = dm.FloorPlan.uniform((8 * n, 8), (n, 1), n)
    u = dm.Array(rows, ghost=1, comm=comm)
    ghosts = dm.halo(rows, 1, periodic=True)
    for plan, source, destination, by_sender in ((apart, x, y, False), (ghosts, u, u, True)):
        mover = dm.Mover(plan, source, destination, transport="shared+auto")
        shared = [pair for pair in mover.explain() if pair["transport"] == "shared"]
        assert shared or n == 1 or "DATAMOVER_NODE_SIZE" in os.environ
        for pair in shared:
            assert (pair["kernel"] != "copied by the peer") == (pair["sends"] == by_sender)


@pytest.mark.parametrize("name", ["p2p", "staged", "get", "put", "auto"])
def test_no_message_is_longer_than_the_user_says(comm, name):
    plan = rows_to_columns(32 * comm.size, comm.size)
    a, b = arrays(comm, plan, False)
    local(a)[...] = comm.rank
    longest = {}
    for size, most_bytes in [("4096", 4096), ("4K", 4096), ("1M", 1 << 20)]:
        mover = dm.Mover(plan, a, b, transport=f"{name}:{size}+auto", comm=comm)
        mover()
        assert (b == np.arange(comm.size).repeat(32)[:, None]).all()
        named = ("p2p", "staged") if name == "auto" else (name,)
        pairs = [p for p in mover.explain() if p["transport"] in named]
        longest[size] = [(p["peer"], p["transport"], p["chunks"]) for p in pairs]
        for p in pairs:
            assert p["bytes"] == 8192
            assert p["chunks"] >= p["bytes"] / most_bytes
            assert p["chunks"] == 1 or size != "1M" or p["transport"] == "staged"
    assert longest["4096"] == longest["4K"]


@pytest.mark.parametrize("size", [1, 65, 100, 4100, 4700, 5000, 6001])
@pytest.mark.parametrize("elems", [40, 563, 2000])
def test_slots_of_any_length(comm, size, elems):
    """Also of lengths that are no whole lines, for messages that go around the caches."""
    n = comm.size
    layouts = [dm.BlockCyclic((n * n * elems,), f"({kind})", n) for kind in ("block", "cyclic")]
    plan = dm.redistribute(*layouts)
    whole = np.arange(n * n * elems, dtype="f8")
    a, b = whole[plan.source.global_indices(comm.rank)[0]].copy(), np.zeros(n * elems)
    mover = dm.Mover(plan, a, b, transport=f"staged:{size}+auto", comm=comm)
    for _ in range(3):  # in each of the slots
        b[...] = 0
        mover()
        assert (b == whole[plan.destination.global_indices(comm.rank)[0]]).all()
    for pair in mover.explain():
        if pair["transport"] == "staged":
            assert pair["chunks"] >= pair["bytes"] / max(size, b.itemsize)


@pytest.mark.parametrize("name", ["p2p", "staged", "shared"])
def test_a_name_behind_auto_says_nothing(comm, name):
    """Auto takes all pairs, in the manner that is said behind it."""
    plan = rows_to_columns(32 * comm.size, comm.size)
    a, b = arrays(comm, plan, False)
    said = [dm.Mover(plan, a, b, transport=f"auto:1K{more}", comm=comm).explain()
            for more in ("", f"+{name}")]  # fmt: skip
    first, second = [[(p["peer"], p["transport"], p["chunks"]) for p in s] for s in said]
    assert first == second


def test_one_that_cannot_carry_says_why(comm):
    """On all processes alike, and nothing has moved."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    plan = rows_to_columns(2 * comm.size, comm.size)
    apart = "(they are on different nodes|shared memory does not work)"
    private = f"(neither array is in memory that both can reach|{apart})"
    far = drawn.NODE_SIZE == 1
    for names, library, why in [
        ("self", True, "they are two processes"),
        ("shared", False, private),
        ("self+shared", False, f"self: they are two processes; shared: {private}"),
        *((name, True, apart) for name in ("shared", "read", "staged") if far),
    ]:
        a, b = arrays(comm, plan, library)
        local(a)[...], local(b)[...] = 1, 4
        with pytest.raises(dm.errors.Unsupported, match=f"process 0 to 1: {why}") as caught:
            dm.Mover(plan, a, b, transport=names, comm=comm)
        assert len(set(comm.allgather(str(caught.value)))) == 1
        assert (local(b) == 4).all()


@pytest.mark.parametrize("names", ["", "p2p+", "+", "p2p+pigeon", "p2p:measure",
                                   "measure+p2p", "poison:p2p", "measure:1K", "p2p:",
                                   "p2p:0", "p2p:-1", "p2p:64k", "p2p:1K ", "p2p:1025M", "p2p:1.5K",
                                   "p2p:99999999999999999999", "p2p:1K:2K", "p2p:1K+shared:1K",
                                   "p2p:sender", "shared:sender:receiver", "collective:1K",
                                   "self:1K", "auto:", "auto:fast", ":1K",
                                   "pigeon:1K"])  # fmt: skip
def test_names_that_are_none(comm, names):
    plan = rows_to_columns(2 * comm.size, comm.size)
    a, b = arrays(comm, plan, True)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Mover(plan, a, b, transport=names)


@pytest.mark.parametrize("names, said", [
    ("p2p+measure", 'transport "measure" stands alone'),
    ("pigeon" * 1000, 'there is no transport "' + "pigeon" * 10 + "…\"; known are auto"),
])  # fmt: skip
def test_what_is_wrong_with_a_name_is_said_in_short(comm, names, said):
    plan = rows_to_columns(2 * comm.size, comm.size)
    with pytest.raises(dm.errors.InvalidArgument, match=said) as caught:
        dm.Mover(plan, *arrays(comm, plan, True), transport=names)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("option", ["transport", "op"])
@pytest.mark.parametrize("word", ["p2p\0", "p2p:64K\0+auto", "p2p:1K\n", "add\r", "a\u2028b"])
def test_an_error_names_the_whole_of_a_word_in_one_line(comm, option, word):
    plan = rows_to_columns(2 * comm.size, comm.size)
    a, b = arrays(comm, plan, True)
    mine = word if comm.rank == comm.size - 1 else None if option == "op" else "auto"
    with pytest.raises(dm.errors.InvalidArgument) as caught:
        dm.Mover(plan, a, b, **{option: mine})
    assert repr(word) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    dm.Mover(plan, a, b)()


@pytest.mark.parametrize("transport", ["collective"])
class TestTurns:
    """Operations of MPI in which all processes take part."""

    def test_processes_without_a_part_take_part(self, comm, transport):
        """Process 0 sends to the last; the others have nothing to move."""
        n = comm.size
        pieces = dm.FloorPlan([dm.Region((i,), (i + 1,)) for i in range(n)], list(range(n)))
        plan = dm.MotionPlan(pieces, pieces)
        plan.add_section(0, dm.Region((0,), (1,)), n - 1, dm.Region((n - 1,), (n,)))
        a, b = dm.Array(pieces, "i8", comm=comm), dm.Array(pieces, "i8", comm=comm)
        for step in range(20):
            a.local[...], b.local[...] = step + comm.rank, -1
            mover = dm.Mover(plan, a, b, transport=transport)
            mover()
            assert b.local[0] == (step if comm.rank == n - 1 else -1)

    def test_several_in_flight_of_many_operations_and_phases(self, comm, rng, transport):
        """Their operations keep one order, whatever each process waits for first."""
        plan = rows_to_columns(16 * comm.size, comm.size)
        back = dm.redistribute(plan.destination, plan.source)
        sets = [arrays(comm, plan, False) for _ in range(3)]
        limits = [None, 4096 * comm.size, 1024 * comm.size]
        options = {"transport": transport, "comm": comm}
        movers = [
            dm.Mover(plan, *pair, max_bytes=limit, **options)
            for pair, limit in zip(sets, limits, strict=True)
        ]
        u, v = arrays(comm, plan, False)
        movers.insert(1, dm.Mover([(plan, u, v), (back, v, u)], together=False, **options))
        for step in range(3):
            for k, (a, _) in enumerate([*sets, (u, v)]):
                a[...] = 100 * step + 10 * k + comm.rank
            for mover in movers:
                mover.start()
            for i in local_order(rng, comm):
                movers[i].wait()
            senders = np.arange(comm.size).repeat(16)[:, None]
            for k, (_, b) in enumerate([*sets, (u, v)]):
                assert (b == 100 * step + 10 * k + senders).all()
            assert (u == 100 * step + 30 + comm.rank).all()

    def test_each_process_starts_movers_in_an_order_of_its_own(self, comm, rng, transport):
        plan = rows_to_columns(2 * comm.size, comm.size)
        pairs = [arrays(comm, plan, False) for _ in range(4)]
        movers = [dm.Mover(plan, *pair, transport=transport, comm=comm) for pair in pairs]
        senders = np.arange(comm.size).repeat(2)[:, None]
        for step in range(20):
            for k, (a, _) in enumerate(pairs):
                a[...] = 100 * step + 10 * comm.size * k + comm.rank
            for i in local_order(rng, comm):
                movers[i].start()
            for i in local_order(rng, comm):
                movers[i].wait(timeout=60)
            for k, (_, b) in enumerate(pairs):
                assert (b == 100 * step + 10 * comm.size * k + senders).all()

    def test_another_order_of_a_process_that_comes_late(self, comm, transport):
        """Those that send need not wait for it: they may be many rounds ahead."""
        n = comm.size
        pieces = dm.FloorPlan([dm.Region((i,), (i + 1,)) for i in range(n)], list(range(n)), n)
        plan = dm.MotionPlan(pieces, pieces)
        plan.add_section(0, dm.Region((0,), (1,)), n - 1, dm.Region((n - 1,), (n,)))
        pairs = [[dm.Array(pieces, "i8", comm=comm) for _ in range(2)] for _ in range(2)]
        movers = [dm.Mover(plan, a, b, transport=transport) for a, b in pairs]
        comm.barrier()
        is_late = comm.rank == n - 1
        if is_late:
            time.sleep(0.3)
        for step in range(50):
            for k, (a, b) in enumerate(pairs):
                a.local[...], b.local[...] = 2 * step + k, -1
            for mover in movers[::-1] if is_late else movers:
                mover.start()
            for mover in movers:
                mover.wait(timeout=60)
            if is_late:
                assert [b.local[0] for _, b in pairs] == [2 * step, 2 * step + 1]

    def test_movers_take_over_what_freed_ones_leave(self, comm, rng, transport):
        """Made by all in one order, freed by each process in an order of its own."""
        plan = rows_to_columns(comm.size, comm.size)
        a, b = arrays(comm, plan, False)
        kept = [dm.Mover(plan, a, b, transport=transport, comm=comm) for _ in range(4)]
        for step in range(100):
            kept[local_order(rng, comm)[0]] = None
            made = dm.Mover(plan, a, b, transport=transport, comm=comm)
            kept[kept.index(None)] = made
            if step % 10 == 0:
                a[...] = step + comm.rank
                made()
                assert (b == step + np.arange(comm.size)[:, None]).all()

    def test_some_are_many_rounds_ahead_of_others(self, comm, rng, transport):
        n = comm.size
        pieces = dm.FloorPlan([dm.Region((i,), (i + 1,)) for i in range(n)], list(range(n)), n)
        plan = dm.MotionPlan(pieces, pieces)
        plan.add_section(0, dm.Region((0,), (1,)), n - 1, dm.Region((n - 1,), (n,)))
        a, b = dm.Array(pieces, "i8", comm=comm), dm.Array(pieces, "i8", comm=comm)
        mover = dm.Mover(plan, a, b, transport=transport)
        late = int(rng.integers(0, n))
        for step in range(200):
            a.local[...] = step + comm.rank
            if comm.rank == late and step % 70 == 0:
                time.sleep(0.02)
            mover()
            assert b.local[0] == step or comm.rank < n - 1


class TestSameForAll:
    """The collective transport where every process that sends has one message for all others."""

    def calls(self, comm, rng, local_rng, plan, whole, arrived=None, **options):
        """Move a global array; give the operations of MPI that explain shows."""
        source = drawn.Part(comm, rng, local_rng, plan.source, "i8")
        destination = drawn.Part(comm, rng, local_rng, plan.destination, "i8")
        mover = dm.Mover(plan, source.arrays, destination.arrays, transport="collective",
                         comm=comm, **options)  # fmt: skip
        for step in range(3):
            source.fill(whole + step)
            destination.fill(np.full(plan.destination.shape, -1))
            mover()
            destination.assert_holds((whole if arrived is None else arrived) + step)
        return {p["why"].rpartition(", by ")[2] for p in mover.explain() if ", by " in p["why"]}

    @pytest.mark.parametrize("axes", ["(block, *)", "(*, block)", "(cyclic(2), *)"])
    def test_a_replica_is_gathered(self, comm, rng, local_rng, axes):
        n = comm.size
        shape = (5 * n + 1, 4 * n + 1)
        plan = dm.redistribute(
            dm.BlockCyclic(shape, axes, n), dm.BlockCyclic(shape, "(*, *)", n, replicas=n)
        )
        whole = drawn.numbered(shape, "i8")
        for max_bytes in (None, 512 * n):  # in one operation, in several
            calls = self.calls(comm, rng, local_rng, plan, whole, max_bytes=max_bytes)
            assert calls == ({"MPI_Iallgatherv"} if n > 2 else set())

    def test_a_panel_is_broadcast(self, comm, rng, local_rng):
        n = comm.size
        array = dm.BlockCyclic((50, 6 * n), "(*, cyclic(3))", n)
        whole = drawn.numbered(array.shape, "i8")
        for root, max_bytes in ((0, None), (n - 1, 512 * n)):
            first = 3 * root
            region = dm.Region((0, first), (50, first + 3))
            plan = dm.advanced.panel_broadcast(array, region, along=1)
            arrived = whole[:, first : first + 3]
            calls = self.calls(comm, rng, local_rng, plan, whole, arrived, max_bytes=max_bytes)
            assert calls == ({"MPI_Ibcast"} if n > 2 else set())

    def test_not_where_the_messages_differ(self, comm, rng, local_rng):
        """Process 0 sends all others as much, out of the same bounds, in another order or not."""
        n = comm.size
        plan = rows_to_columns(4 * n, n)
        whole = drawn.numbered((4 * n, 4 * n), "i8")
        assert self.calls(comm, rng, local_rng, plan, whole) == set()
        pieces = dm.FloorPlan([dm.Region((4 * i,), (4 * i + 4,)) for i in range(n)], list(range(n)))
        plan = dm.MotionPlan(pieces, pieces)
        for to in range(1, n):  # element 2 goes to the last process alone
            for at in (0, 2 if to == n - 1 else 1, 3):
                there = 4 * to + at
                plan.add_section(
                    0, dm.Region((at,), (at + 1,)), to, dm.Region((there,), (there + 1,))
                )
        whole = np.arange(4 * n)
        a, b = dm.Array(pieces, "i8", comm=comm), dm.Array(pieces, "i8", comm=comm)
        a.local[...], b.local[...] = whole[4 * comm.rank :][:4], -1
        mover = dm.Mover(plan, a, b, transport="collective")
        mover()
        last = comm.rank == n - 1
        right = [-1] * 4 if comm.rank == 0 else [0, -1, 2, 3] if last else [0, 1, -1, 3]
        assert b.local.tolist() == right
        assert not any("MPI_I" in p["why"] for p in mover.explain())

    def test_not_where_the_gaps_between_arrays_lie_elsewhere(self, comm):
        """The same elements in the same order, but of which plan differs at the last process."""
        n, size = comm.size, 8
        pieces = dm.FloorPlan(
            [dm.Region((size * i,), (size * (i + 1),)) for i in range(n)], list(range(n))
        )
        moved = [[0], [2, 4], [7]]  # each array of a message begins at a multiple of 16 bytes
        last_moved = [[0, 2], [4], [7]]
        a = dm.Array(pieces, "i8", comm=comm)
        a.local[...] = np.arange(size)
        moves = []
        for usual, last in zip(moved, last_moved, strict=True):
            plan = dm.MotionPlan(pieces, pieces)
            for to in range(1, n):
                for at in last if to == n - 1 else usual:
                    there = size * to + at
                    plan.add_section(
                        0, dm.Region((at,), (at + 1,)), to, dm.Region((there,), (there + 1,))
                    )
            b = dm.Array(pieces, "i8", comm=comm)
            b.local[...] = -1
            moves.append((plan, a, b))
        dm.Mover(moves, transport="collective")()
        mine = last_moved if comm.rank == n - 1 else moved
        for (_, _, b), elems in zip(moves, mine, strict=True):
            right = [i if comm.rank > 0 and i in elems else -1 for i in range(size)]
            assert b.local.tolist() == right

    @pytest.mark.parametrize("differs", [False, True])
    def test_parts_of_the_processes_have_operations_of_their_own(self, comm, rng, cases, differs):
        """Processes in drawn parts; in each, some send their message to all others of the part."""
        n, longest, least_bytes = comm.size, 9000, 64 << 10
        source, slots = (
            dm.FloorPlan([dm.Region((i * k,), (i * k + k,)) for i in range(n)], list(range(n)))
            for k in (longest, longest * n)
        )
        for _ in range(5 * cases):
            part = rng.integers(0, max(1, n // 2), n)
            lengths = rng.integers(longest - 1600, longest, n)
            lengths[rng.integers(0, 2, n) == 0] = 0  # sends nothing
            links = [
                (i, j) for i in range(n) for j in range(n) if i != j and part[i] == part[j]
                if lengths[i]
            ]  # fmt: skip
            twice = [i for i in range(n) if sum(i == sender for sender, _ in links) > 1]
            shifted = (twice[0], max(j for i, j in links if i == twice[0])) if twice else None
            plan, wanted = dm.MotionPlan(source, slots), np.full((n, n, longest), -1)
            for i, j in links:
                at = longest * i + (differs and (i, j) == shifted)
                to, k = longest * (n * j + i), int(lengths[i])
                plan.add_section(i, dm.Region((at,), (at + k,)), j, dm.Region((to,), (to + k,)))
                wanted[j, i, :k] = np.arange(at, at + k)
            a, b = dm.Array(source, "i8", comm=comm), dm.Array(slots, "i8", comm=comm)
            limit = [None, least_bytes * n][int(rng.integers(0, 2))]
            mover = dm.Mover(plan, a, b, transport="collective", max_bytes=limit)
            for step in range(2):
                a.local[...] = np.arange(longest * comm.rank, longest * (comm.rank + 1)) + step
                b.local[...] = -1
                mover()
                mine = wanted[comm.rank]
                assert (b.local.reshape(n, longest) == mine + step * (mine >= 0)).all()
            found = {
                p["why"].rpartition(", by ")[2] for p in mover.explain() if ", by " in p["why"]
            }
            sizes = {i: int((part == part[i]).sum()) for i, _ in links}
            short = 8 * max((int(lengths[i]) for i in sizes), default=0) < least_bytes
            parted = set(sizes.values()) != {n}
            if max(sizes.values(), default=0) < 3 or (differs and shifted) or (parted and short):
                assert not found
            elif any(comm.rank in link for link in links):
                own = [i for i in sizes if part[i] == part[comm.rank]]
                call = "MPI_Iallgatherv" if len(own) > 1 else "MPI_Ibcast"
                size = sizes[own[0]]
                assert found == {call if size == n else f"{call} of {size} processes"}


def local_order(rng, comm):
    """Draw an order of 4 that differs between processes."""
    return [rng.permutation(4) for _ in range(comm.size)][comm.rank]


class TestMeasure:
    @pytest.mark.parametrize("library", [False, True])
    def test_the_fastest_is_taken_and_the_arrays_are_left_alone(self, comm, tuning_file, library):
        plan = rows_to_columns(8 * comm.size, comm.size)
        a, b = arrays(comm, plan, library)
        local(a)[...], local(b)[...] = 5 + comm.rank, 9
        mover = dm.Mover(plan, a, b, transport="measure", comm=comm)
        assert (local(a) == 5 + comm.rank).all() and (local(b) == 9).all()
        mover()
        assert (local(b) == 5 + np.arange(comm.size).repeat(8)[:, None]).all()
        trials = mover.explain().trials
        assert comm.allgather(trials) == [trials] * comm.size
        if comm.size == 1:
            assert trials == []
            return
        chosen = [t for t in trials if t["chosen"]]
        able = [t for t in trials if not t["why_not"]]
        auto = next(t for t in able if t["transport"] == "auto")
        assert len(chosen) == 1
        assert {t["transport"] for t in able} >= {"p2p", "datatype", "collective"}
        assert all(t["rounds"] > 0 and t["seconds"] > 0 for t in able)
        assert chosen[0]["seconds"] <= auto["seconds"]
        for t in able:  # nothing that was faster is passed over without a word
            assert not t["passed_over"] or t["seconds"] <= chosen[0]["seconds"]
            assert t["passed_over"] or t["seconds"] >= chosen[0]["seconds"]
            assert t["passed_over"] in repr(mover.explain())
        assert chosen[0]["transport"] in repr(mover.explain())

    def test_other_manners_are_tried_of_what_was_found(self, comm, tuning_file):
        """Names of what was tried are names that a user may give, and give the same."""
        if comm.size != 2:
            pytest.skip("takes 2 processes, which need no time to meet")
        plan = rows_to_columns(256, comm.size)  # messages of 128 KiB
        a, b = arrays(comm, plan, True)
        mover = dm.Mover(plan, a, b)
        mover.tune(1.0)
        names = [t["transport"] for t in mover.explain().trials]
        manners = [name for name in names if ":" in name]
        assert manners and len(set(names)) == len(names)
        assert len({name.partition(":")[0] for name in manners}) == 1 or "+" in manners[0]
        for name in manners:
            local(a)[...], local(b)[...] = comm.rank, -1
            dm.Mover(plan, a, b, transport=name)()
            assert (local(b) == np.arange(comm.size).repeat(128)[:, None]).all()

    def test_it_is_remembered_by_this_program_and_by_the_next(self, comm, tuning_file):
        plan = rows_to_columns(8 * comm.size + 1, comm.size)
        a, b = arrays(comm, plan, True, "c16")
        first = dm.Mover(plan, a, b, transport="measure")
        chosen = [t["transport"] for t in first.explain().trials if t["chosen"]]
        if comm.size == 1:
            pytest.skip("takes several processes")
        again = dm.Mover(plan, a, b, transport="measure")
        assert again.explain().trials == []  # nothing was tried
        carried = [(p["peer"], p["transport"]) for p in first.explain()]
        for mover in (again, dm.Mover(plan, a, b)):
            assert [(p["peer"], p["transport"]) for p in mover.explain()] == carried
            others = [p["why"] for p in mover.explain() if p["peer"] != comm.rank]
            assert others and all("measured before" in why for why in others)
        if comm.rank == 0:
            with open(tuning_file) as file:
                assert file.readline() == "datamover tuning 1\n"
                assert [line.split()[1] for line in file] == chosen
        comm.barrier()

    def test_what_one_process_remembers_is_not_enough(self, comm, tuning_file):
        """One process brings memory as when it was measured, another one does not: all measure."""
        plan = rows_to_columns(4 * comm.size, comm.size)
        source, b = arrays(comm, plan, False)
        memory = np.zeros(source.nbytes + 128, "u1")
        aligned = -memory.ctypes.data % 64

        def at(shift):
            first = aligned + shift
            return memory[first : first + source.nbytes].view(source.dtype).reshape(source.shape)

        mover = dm.Mover(plan, at(0), b, transport="measure", comm=comm)
        for _ in range(20):  # what counts is that "auto" is remembered, which is usual
            if all(t["chosen"] for t in mover.explain().trials if t["transport"] == "auto"):
                break
            mover.tune(0.001)
        a = at(8 if comm.rank == comm.size - 1 else 0)
        a[...] = comm.rank
        mover = dm.Mover(plan, a, b, transport="measure", comm=comm)
        assert bool(mover.explain().trials) == (comm.size > 1)
        mover()
        assert (b == np.arange(comm.size).repeat(4)[:, None]).all()

    def test_tuning_again_and_other_arrays(self, comm, tuning_file):
        plan = rows_to_columns(4 * comm.size, comm.size)
        a, b = arrays(comm, plan, False)
        mover = dm.Mover(plan, a, b, comm=comm, transport="p2p")
        for _ in range(2):
            mover.tune(0.01)
            a[...] = comm.rank
            mover()
            assert (b == np.arange(comm.size).repeat(4)[:, None]).all()
            assert bool(mover.explain().trials) == (comm.size > 1)
            a, b = arrays(comm, plan, False)
            mover.rebind(a, b)
        phases = dm.Mover([(plan, a, b)] * 2, together=False, comm=comm)
        phases.tune(0.01)
        phases()

    def test_no_time_at_all(self, comm, tuning_file):
        plan = rows_to_columns(4 * comm.size, comm.size)
        mover = dm.Mover(plan, *arrays(comm, plan, True))
        mover.tune(1e-300)
        assert bool(mover.explain().trials) == (comm.size > 1)
        mover()

    def test_phases_are_tried_with_their_part_of_the_memory(self, comm, tuning_file):
        """What is tried can be bound then, and is remembered; those with buffers are left out."""
        plan = rows_to_columns(4 * comm.size, comm.size)
        moves = [(plan, *arrays(comm, plan, True)) for _ in range(4)]
        if comm.size == 1 or drawn.crosses_nodes(plan) or not moves[0][1].shared:
            pytest.skip("takes shared memory, for which no buffers are needed")
        limit = 2 * (comm.size - 1) * 192 * 2  # enough for one of the phases
        for transport in ("auto", "measure", "measure"):
            phases = dm.Mover(
                moves, together=False, max_bytes=limit, transport=transport, comm=comm
            )
            if transport == "auto":
                phases.tune(0.01)
                tried = {t["transport"]: t for t in phases.explain().trials}
                assert "max_bytes" in tried["p2p"]["why_not"]
            else:
                assert not phases.explain().trials  # it remembers
            phases()

    def test_all_processes_of_a_machine_need_room_at_once(self, comm, tuning_file):
        """Each alone finds it: nothing is measured, before pages are touched that are not there."""
        if comm.size == 1 or sys.platform != "linux":
            pytest.skip("takes several processes, on Linux")
        with open("/proc/meminfo") as file:
            left = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
        rows = max(comm.allgather(left << 10)) * 7 // 10 >> 22
        untouched = mmap.mmap(-1, rows << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        wide = np.frombuffer(untouched, "i8").reshape(rows, -1)[:, :1]  # spans all of it
        n = comm.size
        layouts = [dm.BlockCyclic((n * rows, 1), f"({kind}, *)", n) for kind in ("block", "cyclic")]
        b = np.zeros((rows, 1), "i8")
        mover = dm.Mover(dm.redistribute(*layouts), wide, b, transport="p2p", comm=comm)
        before = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * mmap.PAGESIZE
        try:  # what does ask for it gets none
            resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), before[1]))
            mover.tune(0.001)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        (trial,) = mover.explain().trials
        assert trial["transport"] == "p2p" and trial["chosen"]
        assert {p["transport"] for p in mover.explain()} <= {"p2p", "self"}
        assert "not measured" in trial["why_not"] and "bytes that are left" in trial["why_not"]
        mover()

    def test_wrong_calls(self, comm, tuning_file):
        plan = rows_to_columns(2 * comm.size, comm.size)
        a, b = arrays(comm, plan, True)
        mover = dm.Mover(plan, a, b)
        for seconds in (0, -1, np.nan, np.inf, 1e9, 10**400, -(10**400)):
            mine = seconds if comm.rank == comm.size - 1 else 0.2
            with pytest.raises(dm.errors.InvalidArgument):
                mover.tune(mine)
        for seconds in (1j, np.complex64(1), True, "x", None):
            mine = seconds if comm.rank == comm.size - 1 else 0.2
            with pytest.raises(
                dm.errors.WrongType, match=rf"{re.escape(repr(seconds))}.* a number"
            ):
                mover.tune(mine)
        mover.start()
        with pytest.raises(dm.errors.InvalidState):
            mover.tune()
        mover.wait()
        mover.close()
        with pytest.raises(dm.errors.InvalidState):
            mover.tune()

    @pytest.mark.parametrize("case", range(4))
    def test_a_file_that_is_none_does_no_harm(self, comm, tuning_file, case):
        damaged = b"datamover tuning 1\n12 p2p 13\n-1\n\n9"
        content = [b"", b"datamover tuning 2\nx", b"\xff" * 1000, damaged][case]
        if comm.rank == 0:
            os.makedirs(os.path.dirname(tuning_file))
            with open(tuning_file, "wb") as file:
                file.write(content)
        comm.barrier()
        plan = rows_to_columns(4 * comm.size + case, comm.size)  # each case measures
        a, b = arrays(comm, plan, True, "f4")
        dm.Mover(plan, a, b, transport="measure")
        if comm.rank == 0 and comm.size > 1:
            with open(tuning_file, "rb") as file:
                if content.startswith(b"\xff"):  # another program's: it is left alone
                    assert file.read() == content
                else:
                    assert file.readline() == b"datamover tuning 1\n"
                    assert len(file.readlines()) == 1
        comm.barrier()

    def test_two_programs_write_at_once(self, comm, tuning_file):
        """The file is always whole: each time what one of them has written."""
        movers = []
        for k in range(2):
            plan = rows_to_columns(6 * comm.size + k, comm.size)
            movers.append(dm.Mover(plan, *arrays(comm, plan, True), comm=comm))
        stop = f"{tuning_file}.stop"
        if comm.rank == 0:
            os.makedirs(os.path.dirname(tuning_file))
            other = subprocess.Popen([sys.executable, "-c", OTHER_WRITER, tuning_file, stop])
        comm.barrier()
        for mover in movers * 2:
            mover.tune(0.001)
            if comm.rank == 0 and comm.size > 1:
                with open(tuning_file) as file:
                    assert file.readline() == "datamover tuning 1\n"
                    assert all(len(line.split()) == 3 for line in file)
        if comm.rank == 0:
            open(stop, "w").close()
            assert other.wait(60) == 0
            left = set(os.listdir(os.path.dirname(tuning_file)))
            assert left - {"choices"} == {"choices.stop"}

    def test_a_read_only_disk(self, comm, tuning_file):
        """Nothing is kept, nothing is left behind, and what was there stays."""
        if comm.size == 1:
            pytest.skip("takes several processes")  # nothing is measured
        if comm.rank == 0:
            os.makedirs(os.path.dirname(tuning_file))
            with open(tuning_file, "w") as file:
                file.write("datamover tuning 1\n")
            os.chmod(os.path.dirname(tuning_file), 0o555)
        comm.barrier()
        plan = rows_to_columns(7 * comm.size, comm.size)
        a, b = arrays(comm, plan, True)
        a.local[...] = comm.rank
        mover = dm.Mover(plan, a, b)
        mover.tune(0.001)
        mover()
        assert (b.local == np.arange(comm.size).repeat(7)[:, None]).all()
        if comm.rank == 0:
            os.chmod(os.path.dirname(tuning_file), 0o755)
            with open(tuning_file) as file:
                assert file.readline() == "datamover tuning 1\n"
                # Root may write where nobody may.
                assert os.geteuid() == 0 or not file.readlines()
            assert os.listdir(os.path.dirname(tuning_file)) == ["choices"]

    def test_a_link_and_permissions_stay(self, comm, tuning_file):
        if comm.size == 1:
            pytest.skip("takes several processes")  # nothing is measured
        folder = os.path.dirname(tuning_file)
        if comm.rank == 0:
            os.makedirs(folder)
            with open(f"{folder}/elsewhere", "w") as file:
                file.write("datamover tuning 1\n")
            os.chmod(f"{folder}/elsewhere", 0o640)
            os.symlink("elsewhere", tuning_file)
        comm.barrier()
        plan = rows_to_columns(3 * comm.size + 1, comm.size)
        dm.Mover(plan, *arrays(comm, plan, True)).tune(0.001)
        if comm.rank == 0:
            assert os.readlink(tuning_file) == "elsewhere"
            assert os.stat(tuning_file).st_mode & 0o777 == 0o640
            with open(tuning_file) as file:
                assert len(file.readlines()) == 2
            assert sorted(os.listdir(folder)) == ["choices", "elsewhere"]
        comm.barrier()

    def test_no_home_is_made(self, comm, tmp_path, monkeypatch):
        if comm.size == 1:
            pytest.skip("takes several processes")  # nothing is measured
        monkeypatch.delenv("DATAMOVER_TUNING_FILE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
        plan = rows_to_columns(3 * comm.size + 2, comm.size)
        dm.Mover(plan, *arrays(comm, plan, True)).tune(0.001)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("path", ["", "/dev/null/x", "/proc/x", "/dev/null", "."])
    def test_no_file_can_be_written(self, comm, monkeypatch, path):
        monkeypatch.setenv("DATAMOVER_TUNING_FILE", path)
        plan = rows_to_columns(4 * comm.size, comm.size)
        a, b = arrays(comm, plan, True, "i2")
        a.local[...] = 3
        mover = dm.Mover(plan, a, b, transport="measure")
        mover()
        assert (b.local == 3).all()


@pytest.mark.parametrize("strided", [(), ("source",), ("destination",), ("source", "destination")])
def test_messages_in_pieces(comm, rng, strided):
    """One process sends, one receives; each knows of itself alone whether elements lie in order."""
    rows, columns = int(rng.integers(50, 200)), int(rng.integers(3, 300))
    shape = (rows, columns)
    first, last = ([rank] for rank in (0, comm.size - 1))
    plan = dm.redistribute(
        *(dm.FloorPlan([dm.Region((0, 0), shape)], w, comm.size) for w in (first, last))
    )

    def array(side, owner):
        wide = columns + 5 if side in strided else columns
        return np.full((rows, wide), -1.0)[:, :columns] if comm.rank == owner[0] else None

    sent, received = array("source", first), array("destination", last)
    values = rng.random(shape)
    if sent is not None:
        sent[...] = values
    for transport in ("p2p", "datatype"):
        if received is not None:
            received[...] = -1
        mover = dm.Mover(plan, sent, received, transport=transport, comm=comm)
        mover()
        if received is not None:
            np.testing.assert_array_equal(received, values)
