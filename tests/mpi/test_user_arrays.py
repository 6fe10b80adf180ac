# SPDX-License-Identifier: BSD-3-Clause
"""Arrays from users: moved correctly, in many chunks, by every transport, with little memory."""

import weakref
from collections.abc import Mapping

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name not in ("self", "shared"))]

#: Large enough for several chunks between any two of up to seven processes.
SHAPE = (840, 1260)

LAYOUTS = [
    ("(block, *)", "(*, block)", (0, 1)),
    ("(cyclic(3), *)", "(*, cyclic(7))", (0, 1)),
    ("(block, *)", "(block, *)", (1, 0)),
    ("(*, cyclic(64))", "(cyclic, *)", (1, 0)),
]


def user_array(layout, rank, dtype, order):
    return np.empty(layout.local_shape(rank), dtype, order=order)


def part_of(whole, layout, rank):
    return whole[np.ix_(*layout.global_indices(rank))]


class Case:
    """Two layouts and this process's arrays, filled anew for every round."""

    def __init__(self, comm, rng, words, dtypes=("f8", "f8")):
        source, destination, self.axes = words
        self.comm = comm
        self.whole = rng.integers(0, 100, SHAPE).astype(dtypes[0])
        turned = tuple(SHAPE[a] for a in self.axes)
        self.plan = dm.redistribute(
            dm.BlockCyclic(SHAPE, source, comm.size),
            dm.BlockCyclic(turned, destination, comm.size),
            axes=self.axes,
        )
        orders = rng.choice(["C", "F"], 2)
        self.a = user_array(self.plan.source, comm.rank, dtypes[0], orders[0])
        self.b = user_array(self.plan.destination, comm.rank, dtypes[1], orders[1])
        self.a[...] = part_of(self.whole, self.plan.source, comm.rank)
        self.b[...] = 1

    def mover(self, **options):
        return dm.Mover(self.plan, self.a, self.b, comm=self.comm, **options)

    def assert_moved(self, factor=1, before=0):
        want = part_of(self.whole.transpose(self.axes), self.plan.destination, self.comm.rank)
        np.testing.assert_array_equal(self.b, want * factor + before)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("words", LAYOUTS)
def test_many_chunks(comm, rng, transport, words):
    case = Case(comm, rng, words)
    if drawn.impossible(case.plan, transport):
        with pytest.raises(dm.errors.Unsupported):
            case.mover(transport=transport)
        return
    for limit in (None, 400_000):
        case.b[...] = -1
        mover = case.mover(transport=transport, max_bytes=limit)
        for _ in range(3):
            mover()
        case.assert_moved()
        assert limit is None or mover.counters()["extra_bytes"] <= limit


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_chunks_are_combined_and_converted(comm, rng, transport):
    for words in LAYOUTS[1:3]:
        case = Case(comm, rng, words, ("i4", "f8"))
        if drawn.impossible(case.plan, transport):
            return
        case.mover(transport=transport, op="add", alpha=2, max_bytes=300_000)()
        case.assert_moved(factor=2, before=1)


def test_a_sender_may_be_through_and_gone_before_the_receiver_begins(comm):
    """Only the last process receives; the others free their mover and use its memory again."""
    last = comm.size - 1
    boxes = [dm.Region((10 * r,), (10 * r + 10,)) for r in range(comm.size)]
    pieces = dm.FloorPlan(boxes, list(range(comm.size)))
    whole = dm.FloorPlan([dm.Region((0,), (10 * comm.size,))], [last], comm.size)
    plan = dm.redistribute(pieces, whole)
    if comm.size == 1 or drawn.crosses_nodes(plan):
        return
    mine = np.arange(10.0) + 10 * comm.rank
    total = np.zeros(10 * comm.size) if comm.rank == last else None
    mover = dm.Mover(plan, mine, total, comm=comm, transport="staged")
    if comm.rank != last:
        mover()
        mover.close()
        mine[...] = -1
    other = dm.Array(dm.BlockCyclic((1000 * comm.size,), "(block)", comm.size), comm=comm)
    other.local[...] = -2
    comm.barrier()
    if comm.rank == last:
        mover()
        np.testing.assert_array_equal(total, np.arange(10.0 * comm.size))


def test_several_in_flight(comm, rng):
    cases = [Case(comm, rng, words) for words in LAYOUTS]
    movers = [case.mover() for case in cases]
    for mover in movers:
        mover.start()
    for mover in reversed(movers):
        mover.wait()
    for case in cases:
        case.assert_moved()


class MadeWhenAsked(Mapping):
    """Blocks that are made anew whenever the mapping is asked."""

    def __init__(self, blocks):
        self._blocks = blocks
        self.made = []

    def __getitem__(self, block):
        array = self._blocks[block].copy()
        self.made.append(weakref.ref(array))
        return array

    def __iter__(self):
        return iter(self._blocks)

    def __len__(self):
        return len(self._blocks)


def test_blocks_that_a_mapping_makes_when_it_is_asked_live_as_long_as_the_mover(comm, rng):
    case = Case(comm, rng, LAYOUTS[0])
    source = MadeWhenAsked({comm.rank: case.a})
    mover = dm.Mover(case.plan, source, case.b, comm=comm)
    assert len(source.made) == 1
    assert source.made[0]() is not None
    mover()
    case.assert_moved()


def test_explain_says_which_transport_and_why(comm, rng):
    case = Case(comm, rng, LAYOUTS[1])
    for pair in case.mover(transport="p2p").explain():
        local = pair["peer"] == comm.rank
        assert pair["transport"] == ("self" if local else "p2p")
        assert pair["why"] == ("within the process" if local else "asked for")
    for pair in case.mover(max_bytes=100_000).explain():
        other_node = (
            drawn.NODE_SIZE and pair["peer"] // drawn.NODE_SIZE != comm.rank // drawn.NODE_SIZE
        )
        assert (pair["why"] == "on another node") == bool(other_node)
        if pair["transport"] in ("p2p", "staged"):
            assert pair["chunks"] > 1


def test_without_shared_memory_messages_are_sent(comm, rng, monkeypatch):
    fresh = comm.Dup()
    layout = dm.BlockCyclic((comm.size << 16,), "(block)", comm.size)
    taken = [dm.Array(layout, "u1", comm=fresh)]
    monkeypatch.setenv("DATAMOVER_SHARED_BYTES", "0")
    monkeypatch.setenv("DATAMOVER_PEER_READS", "0")
    while comm.allreduce(taken[-1].shared):
        taken.append(dm.Array(layout, "u1", comm=fresh))
    case = Case(fresh, rng, LAYOUTS[0])
    mover = case.mover()
    mover()
    case.assert_moved()
    assert {pair["transport"] for pair in mover.explain()} <= {"self", "p2p"}


def test_where_reading_is_not_wanted_others_carry(comm, rng, monkeypatch):
    monkeypatch.setenv("DATAMOVER_PEER_READS", "0")
    case = Case(comm.Dup(), rng, LAYOUTS[0])
    mover = case.mover()
    mover()
    case.assert_moved()
    assert "read" not in {pair["transport"] for pair in mover.explain()}
    if comm.size > 1:
        with pytest.raises(dm.errors.Unsupported):
            case.mover(transport="read")


@pytest.mark.parametrize("order", ["C", "F"])
def test_whole_runs_are_read_in_either_order(comm, order):
    """A run is one piece for the system: single elements would take hundreds of times as long."""
    n = 256 * comm.size
    rows = dm.BlockCyclic((n, n), "(block, *)", comm.size)
    columns = dm.BlockCyclic((n, n), "(*, block)", comm.size)
    plan = dm.redistribute(rows, columns)
    arrays = [user_array(layout, comm.rank, "f8", order) for layout in (rows, columns)]
    try:
        mover = dm.Mover(plan, *arrays, comm=comm, transport="read")
    except dm.errors.Unsupported:
        assert comm.allreduce(1) == comm.size  # between nodes, or where the system refuses
        return
    read = [pair["kernel"] for pair in mover.explain() if pair["transport"] == "read"]
    assert set(read) <= {"the system's copy, pieces: 256", "copied by the peer"}
    assert comm.allreduce(len(read)) == 2 * comm.size * (comm.size - 1)
    whole = np.arange(n * n, dtype="f8").reshape(n, n)
    arrays[0][...] = part_of(whole, rows, comm.rank)
    mover()
    np.testing.assert_array_equal(arrays[1], part_of(whole, columns, comm.rank))


def test_ghosts_that_were_not_said_are_asked_for(comm):
    blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (4, 4 * comm.size)), (1, comm.size), comm.size)
    plan = dm.halo(blocks, 1)
    hint = r"UserArrays\(array, ghost=\.\.\.\)"
    array = np.zeros((6, 6))
    with pytest.raises(dm.Mismatch, match=hint):
        dm.Mover(plan, array, array, comm=comm)
    dm.Mover(plan, *[dm.advanced.UserArrays(array, ghost=1)] * 2, comm=comm)()
    for wrong in (np.zeros((3, 6)), dm.advanced.UserArrays(np.zeros((7, 7)), ghost=1)):
        with pytest.raises(dm.Mismatch, match=r"requires \(\d, \d\)( \(on|$)"):
            dm.Mover(plan, wrong, wrong, comm=comm)


@pytest.mark.parametrize("nothing", [None, {}], ids=str)
@pytest.mark.parametrize("kind", ["block", "index list", "boxes", "ranges"])
def test_a_process_without_elements_gives_nothing(comm, kind, nothing):
    """Also where its share is a block of no elements; of several blocks those may be left out."""
    n = comm.size
    only_first = [[0, 1], *[[]] * (n - 1)]
    layout = {
        "block": lambda: dm.BlockCyclic((1, 2), "(block, *)", nprocs=n),
        "index list": lambda: dm.IndexList(2, only_first),
        "boxes": lambda: dm.FloorPlan(
            [dm.Region(0, 2), *[dm.Region(2, 2)] * n], [*range(n), 0], nprocs=n
        ),
        "ranges": lambda: dm.FlatCyclic(2, 2, n),
    }[kind]()
    first = layout.blocks_of(0)[0]
    shape = layout.block_extents(first)
    source = {first: np.arange(1.0, 3).reshape(shape)} if comm.rank == 0 else nothing
    destination = {first: np.zeros(shape, "f4")} if comm.rank == 0 else nothing
    dm.Mover(dm.redistribute(layout, layout), source, destination, comm=comm)()
    if comm.rank == 0:
        assert destination[first].ravel().tolist() == [1, 2]
    with pytest.raises(dm.Mismatch, match="process 0 passed no array for its block"):
        dm.Mover(dm.redistribute(layout, layout), nothing, nothing, comm=comm)


@pytest.mark.parametrize("dtype", ["S3", ">f8", [("a", "u1"), ("b", "f8")], "f8"])
def test_nobody_holds_elements_on_one_side(comm, dtype):
    """As of a level without patches; only the last process knows a type, of the other side."""
    last = comm.size - 1
    nothing = dm.FloorPlan([dm.Region((0,), (0,))], [0], comm.size)
    line = dm.FloorPlan([dm.Region((0,), (4,))], [last], comm.size)
    array = np.zeros(4, dtype) if comm.rank == last else None
    before = np.zeros(4, dtype).tobytes()
    dm.Mover(dm.MotionPlan(nothing, line), None, array, comm=comm)()
    dm.Mover(dm.MotionPlan(line, nothing), array, None, comm=comm)()
    assert comm.rank != last or array.tobytes() == before
