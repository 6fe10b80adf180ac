# SPDX-License-Identifier: BSD-3-Clause
"""Movers: hand-made plans, several in flight, invalid calls and arguments."""

import contextlib
import sys
import threading

import drawn
import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]


def rows_and_columns(n, nprocs):
    return (
        dm.BlockCyclic((n, n), "(block, *)", nprocs),
        dm.BlockCyclic((n, n), "(*, block)", nprocs),
    )


def filled(comm, layout, whole, **options):
    array = dm.Array(layout, whole.dtype, comm=comm, **options)
    for block, index in drawn.indices_of_blocks(layout, comm.rank):
        array.interior(block)[...] = whole[index]
    return array


def holds(comm, array, whole):
    for block, index in drawn.indices_of_blocks(array.layout, comm.rank):
        np.testing.assert_array_equal(array.interior(block), whole[index])


def test_several_movers_in_flight_complete_in_any_order(comm, rng):
    rows, columns = rows_and_columns(12, comm.size)
    wholes = [rng.integers(0, 1000, (12, 12)) for _ in range(4)]
    sources = [filled(comm, rows, whole) for whole in wholes]
    targets = [dm.Array(columns, whole.dtype, comm=comm) for whole in wholes]
    plan = dm.redistribute(rows, columns)
    transports = ["auto", "p2p", "auto", "p2p"]
    movers = [
        dm.Mover(plan, a, b, transport=t)
        for a, b, t in zip(sources, targets, transports, strict=True)
    ]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        for mover in movers:
            mover.start()
        for i in order:
            movers[i].wait()
        for target, whole in zip(targets, wholes, strict=True):
            holds(comm, target, whole)
    assert all(mover.counters()["rounds"] == 2 for mover in movers)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_source_may_change_after_wait(comm, transport):
    rows, columns = rows_and_columns(2 * comm.size, comm.size)
    plan = dm.redistribute(rows, columns)
    a, b = dm.Array(rows, "i8", comm=comm), dm.Array(columns, "i8", comm=comm)
    if drawn.impossible(plan, transport):
        with pytest.raises(dm.errors.Unsupported):
            dm.Mover(plan, a, b, transport=transport)
        return
    mover = dm.Mover(plan, a, b, transport=transport)
    for step in range(50):
        a.local[...] = step
        mover()
        assert (b.local == step).all()


def test_test_completes_too(comm):
    rows, columns = rows_and_columns(2 * comm.size, comm.size)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    a.local[...] = 5
    mover = dm.Mover(dm.redistribute(rows, columns), a, b)
    mover.start()
    while not mover.test():
        assert mover.in_flight
    assert not mover.in_flight
    assert (b.local == 5).all()


def test_hand_made_plan_is_merged_edited_and_reversed(comm):
    """A ring: block i's upper half goes to block i+1's lower half; then back."""
    p = comm.size
    floorplan = dm.FloorPlan([dm.Region((8 * i,), (8 * i + 8,)) for i in range(p)], list(range(p)))
    plans = []
    for i in range(p):
        plan, j = dm.MotionPlan(floorplan, floorplan), (i + 1) % p
        plan.add_section(
            i, dm.Region((8 * i + 4,), (8 * i + 8,)), j, dm.Region((8 * j,), (8 * j + 4,))
        )
        plans.append(plan)
    ring = plans[0]
    for plan in plans[1:]:
        ring = ring + plan
    assert len(ring) == p
    array = dm.Array(floorplan, "i4", comm=comm)
    array.local[...] = np.arange(8) + 8 * comm.rank
    dm.Mover(ring, array, array)()
    before = 8 * ((comm.rank - 1) % p) + np.arange(4, 8)
    np.testing.assert_array_equal(array.local[:4], before)
    array.local[4:] = 0
    dm.Mover(ring.reversed(), array, array)()
    np.testing.assert_array_equal(array.local, [*before, *(8 * comm.rank + np.arange(4, 8))])
    del ring[0]
    array.local[...] = -comm.rank
    dm.Mover(ring, array, array)()
    moved = comm.rank != 1 % p
    assert (array.local[:4] == (-((comm.rank - 1) % p) if moved else -comm.rank)).all()


def test_regions_of_different_shapes(comm, rng):
    """As many points in another shape, both walked with the last dimension fastest."""
    p = comm.size
    flat = dm.FloorPlan([dm.Region((0, 0), (1, 24))] * p, list(range(p)))
    cube = dm.FloorPlan([dm.Region((0, 0), (4, 6))] * p, list(range(p)))
    plan = dm.MotionPlan(flat, cube)
    for i in range(p):
        plan.add_section(i, dm.Region((0, 0), (1, 24)), (i + 1) % p, dm.Region((0, 0), (4, 6)))
    for transport in TRANSPORTS:
        if drawn.impossible(plan, transport):
            continue
        a = dm.Array(flat, "i8", comm=comm)
        b = dm.Array(cube, "i8", order=str(rng.choice(["C", "F"])), comm=comm)
        a.local[...] = np.arange(24) + 100 * comm.rank
        dm.Mover(plan, a, b, transport=transport)()
        np.testing.assert_array_equal(
            b.local, np.arange(24).reshape(4, 6) + 100 * ((comm.rank - 1) % p)
        )


def test_a_plan_and_then_another_is_their_composition(comm, rng):
    shape = (9, 7)
    whole = drawn.numbered(shape, "i8")
    first = dm.redistribute(
        drawn.floor_plan(rng, shape, comm.size), drawn.block_cyclic(rng, shape, comm.size)
    )
    second = dm.redistribute(
        first.destination, drawn.floor_plan(rng, shape[::-1], comm.size), axes=(1, 0)
    )
    source = filled(comm, first.source, whole)
    result = dm.Array(second.destination, "i8", comm=comm)
    dm.Mover(first.then(second), source, result)()
    holds(comm, result, whole.T)


def test_mover_keeps_user_arrays_in_place(comm, rng):
    rows, columns = rows_and_columns(4 * comm.size, comm.size)
    whole = rng.random((4 * comm.size,) * 2)
    a = np.asfortranarray(whole[4 * comm.rank : 4 * comm.rank + 4])
    frame = np.full((4 * comm.size + 2, 6), -1.0)
    b = dm.advanced.UserArrays(frame, ghost=1)
    dm.Mover(dm.redistribute(rows, columns), a, b, comm=comm)()
    np.testing.assert_array_equal(frame[1:-1, 1:-1], whole[:, 4 * comm.rank : 4 * comm.rank + 4])
    assert (frame[0] == -1).all() and (frame[-1] == -1).all()
    assert (frame[:, 0] == -1).all() and (frame[:, -1] == -1).all()


def test_counters_and_explain_agree_with_the_plan(comm):
    rows, columns = rows_and_columns(4 * comm.size, comm.size)
    plan = dm.redistribute(rows, columns)
    mover = dm.Mover(plan, dm.Array(rows, comm=comm), dm.Array(columns, comm=comm))
    counters = mover.counters()
    others = comm.size - 1
    assert counters["messages_sent"] == counters["messages_received"] == others
    assert counters["bytes_sent"] == counters["bytes_received"] == others * 16 * 8
    assert counters["bytes_kept"] == 16 * 8
    pairs = mover.explain()
    assert sum(pair["bytes"] for pair in pairs if pair["sends"]) == comm.size * 16 * 8
    assert {pair["peer"] for pair in pairs} == set(range(comm.size))


def test_calls_at_the_wrong_time(comm):
    rows, columns = rows_and_columns(comm.size, comm.size)
    mover = dm.Mover(
        dm.redistribute(rows, columns), dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    )
    with pytest.raises(dm.errors.InvalidState):
        mover.wait()
    with pytest.raises(dm.errors.InvalidState):
        mover.test()
    mover.start()
    with pytest.raises(dm.errors.InvalidState):
        mover.start()
    with pytest.raises(dm.errors.InvalidState):
        mover.close()
    mover.wait()
    mover.close()
    with pytest.raises(dm.errors.InvalidState):
        mover.start()


@pytest.mark.parametrize("state", ["in flight", "freed"])
@pytest.mark.parametrize("call", ["rebind", "tune"])
def test_in_flight_or_freed_on_one_process_alone(comm, call, state):
    rows, columns = rows_and_columns(comm.size, comm.size)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    a.local[...] = 3
    mover = dm.Mover(dm.redistribute(rows, columns), a, b)
    if state == "in flight":
        mover.start()
        if comm.rank:
            mover.wait()
    elif comm.rank == 0:
        mover.close()
    with pytest.raises(dm.errors.InvalidState, match="in flight"):
        mover.rebind(a, b) if call == "rebind" else mover.tune(0.001)
    if state == "in flight":
        if comm.rank == 0:
            mover.wait()
        mover()
        assert (b.local == 3).all()


def test_of_two_threads_that_start_one_does(comm):
    rows, columns = rows_and_columns(comm.size, comm.size)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    mover = dm.Mover(dm.redistribute(rows, columns), a, b, transport="p2p")
    together, started, wrong = threading.Barrier(2), [0, 0], []

    def start_again_and_again(thread, steps=3000):
        try:
            for step in range(1, steps + 1):
                together.wait()
                with contextlib.suppress(dm.errors.InvalidState):
                    mover.start()
                    started[thread] += 1
                together.wait()
                if thread == 0:
                    mover.wait()
                    assert sum(started) == step
        except BaseException as error:
            wrong.append(error)
            together.abort()

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=start_again_and_again, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(often)
    assert not wrong


def test_a_deadline_names_who_is_waited_for(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    rows, columns = rows_and_columns(comm.size, comm.size)
    mover = dm.Mover(
        dm.redistribute(rows, columns), dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    )
    last = comm.size - 1
    if comm.rank != last:
        mover.start()
        with pytest.raises(dm.Timeout, match=rf"\b{last}\b"):
            mover.wait(timeout=0.05)
    comm.barrier()
    if comm.rank == last:
        mover.start()
    mover.wait()


class TestBadArguments:
    """Wrong on one process or on all: the same error everywhere, and nothing has moved."""

    @pytest.fixture
    def plan(self, comm):
        return dm.redistribute(*rows_and_columns(2 * comm.size, comm.size))

    def both(self, comm, plan):
        a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
        a.local[...], b.local[...] = 1, 2
        return a, b

    def assert_refused(self, comm, error, plan, a, b, **options):
        kept = [x.copy() for x in (a, b) if isinstance(x, np.ndarray)]
        with pytest.raises(error) as caught:
            dm.Mover(plan, a, b, comm=comm, **options)
        assert len(set(comm.allgather(str(caught.value)))) == 1
        for x, old in zip([x for x in (a, b) if isinstance(x, np.ndarray)], kept, strict=True):
            np.testing.assert_array_equal(x, old)

    def test_dtype_differs_on_one_process(self, comm, plan):
        a, b = self.both(comm, plan)
        narrower = "f4" if comm.size > 1 else "i4"  # one process alone converts to f4
        dtype = narrower if comm.rank == comm.size - 1 else "f8"
        self.assert_refused(comm, dm.errors.WrongType, plan, a, b.local.astype(dtype))

    def test_shape_differs_on_one_process(self, comm, plan):
        a, b = self.both(comm, plan)
        wrong = b.local.copy() if comm.rank else np.zeros((1, 1))
        self.assert_refused(comm, dm.Mismatch, plan, a, wrong)

    def test_destination_is_read_only(self, comm, plan):
        a, b = self.both(comm, plan)
        frozen = b.local.copy()
        frozen.flags.writeable = comm.rank != 0
        self.assert_refused(comm, dm.errors.InvalidArgument, plan, a, frozen)

    def test_array_of_another_layout(self, comm, plan):
        a, _ = self.both(comm, plan)
        other = dm.BlockCyclic((2 * comm.size,) * 2, "(cyclic, *)", comm.size)
        self.assert_refused(comm, dm.Mismatch, plan, a, dm.Array(other, comm=comm))

    def test_missing_block(self, comm, plan):
        a, _ = self.both(comm, plan)
        self.assert_refused(comm, dm.Mismatch, plan, a, {})

    def test_unknown_words(self, comm, plan):
        a, b = self.both(comm, plan)
        self.assert_refused(comm, dm.errors.InvalidArgument, plan, a, b, op="subtract")
        if comm.size > 1:
            self.assert_refused(comm, dm.errors.InvalidArgument, plan, a, b, transport="pigeon")

    def test_limits_that_make_no_sense_or_no_progress(self, comm, plan):
        a, b = self.both(comm, plan)
        mine, out = a.local.copy(), b.local.copy()
        self.assert_refused(comm, dm.errors.InvalidArgument, plan, mine, out, max_bytes=-1)
        if comm.size == 1:
            pytest.skip("takes several processes")
        for transport in TRANSPORTS:
            if transport != "shared" and not drawn.impossible(plan, transport):
                options = {"max_bytes": 1, "transport": transport}
                self.assert_refused(comm, dm.errors.InvalidArgument, plan, mine, out, **options)

    def test_op_on_elements_that_are_no_numbers(self, comm, plan):
        a = dm.Array(plan.source, "S8", comm=comm)
        b = dm.Array(plan.destination, "S8", comm=comm)
        self.assert_refused(comm, dm.errors.WrongType, plan, a, b, op="add")

    def test_wrong_number_of_processes(self, comm):
        rows, columns = rows_and_columns(8, comm.size + 1)
        with pytest.raises(dm.Mismatch):
            dm.Array(rows, comm=comm)
        plan = dm.redistribute(rows, columns)
        self.assert_refused(comm, dm.Mismatch, plan, np.zeros((1, 1)), np.zeros((1, 1)))

    def test_python_objects(self, comm, plan):
        with pytest.raises(dm.errors.WrongType):
            dm.Array(plan.source, object, comm=comm)

    def test_use_after_free(self, comm, plan):
        a, b = self.both(comm, plan)
        a.close()
        with pytest.raises(dm.errors.InvalidState):
            a.local  # noqa: B018
        self.assert_refused(comm, dm.errors.InvalidState, plan, a, b)


def test_a_mover_goes_over_to_other_arrays(comm, rng):
    rows, columns = rows_and_columns(10, comm.size)
    plan = dm.redistribute(rows, columns)
    wholes = [rng.random((10, 10)) for _ in range(2)]
    sources = [filled(comm, rows, whole) for whole in wholes]
    targets = [dm.Array(columns, comm=comm) for _ in wholes]
    mover = dm.Mover(plan, sources[0], targets[0])
    mover()
    mover.rebind(sources[1], targets[1])
    mover()
    holds(comm, targets[0], wholes[0])
    holds(comm, targets[1], wholes[1])
    with pytest.raises(dm.Mismatch):
        mover.rebind(targets[0], targets[1]) if rows != columns else mover.rebind({}, {})
    targets[1].local[...] = 0
    mover()
    holds(comm, targets[1], wholes[1])
    assert mover.counters()["rounds"] == 3


@pytest.mark.parametrize("no_comm", [3, "world"])
def test_what_is_no_communicator_is_of_a_wrong_type(no_comm):
    rows, _ = rows_and_columns(4, 1)
    with pytest.raises(dm.errors.WrongType, match=r"^comm is of type \w+, it must be"):
        dm.Array(rows, comm=no_comm)


@pytest.mark.parametrize(
    ("numpys", "mpis", "name"),
    [
        (np.add, MPI.SUM, "add"),
        (np.multiply, MPI.PROD, "multiply"),
        (np.minimum, MPI.MIN, "min"),
        (np.maximum, MPI.MAX, "max"),
    ],
)
def test_operations_are_also_those_of_numpy_and_mpi(comm, rng, numpys, mpis, name):
    rows, columns = rows_and_columns(6, comm.size)
    plan = dm.redistribute(rows, columns)
    whole, before = rng.random((2, 6, 6))
    d = dm.Migration(np.zeros((2, 2), int) + comm.rank, comm=comm)  # two copies of each element
    values = rng.random(4)
    relation = dm.advanced.AddressRelation.from_pairs([0, 1], [1, 1])
    for op in (numpys, mpis, name):
        target = filled(comm, columns, before)
        dm.Mover(plan, filled(comm, rows, whole), target, op=op)()
        holds(comm, target, numpys(before, whole))
        np.testing.assert_array_equal(
            d.reverse(values, op), numpys.reduce(values.reshape(2, 2), axis=1)
        )
        for write in (
            lambda b, op=op: dm.advanced.copy(values[[0, 0]], b, op=op, destination_index=[1, 1]),
            lambda b, op=op: relation.copy(values[[0, 0]], b, op=op),
            lambda b, op=op: relation.scatter(values[[0, 0]], b, op=op),
            lambda b, op=op: relation.bind(values[[0, 0]], b, op=op)(),
            lambda b, op=op: dm.advanced.AddressRelation.accept_put(
                relation.put_message(values[[0, 0]]), b, op=op
            ),
        ):
            b = before[0, :2].copy()
            write(b)
            expected = numpys(numpys(before[0, 1], values[0]), values[0])
            np.testing.assert_array_equal(b, [before[0, 0], expected])


@pytest.mark.parametrize("op", [np.subtract, MPI.BAND, sum, 5, [np.add], np.zeros(2), "sub"])
def test_other_operations_are_refused_with_those_that_are_known(comm, op):
    rows, columns = rows_and_columns(4, comm.size)
    plan = dm.redistribute(rows, columns)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    kind = dm.errors.InvalidArgument if isinstance(op, str) else dm.errors.WrongType
    with pytest.raises(kind, match=r'"multiply", "min", "max", or .*np\.add, MPI\.SUM'):
        dm.Mover(plan, a, b, op=op)
    with pytest.raises(kind, match="op="):
        dm.advanced.copy(np.zeros(2), np.zeros(2), op=op)
