# SPDX-License-Identifier: BSD-3-Clause
"""Several arrays and plans in one mover: moved correctly, in one message per pair of processes."""

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.movers import MoverOptions
from datamover.mpi import comm_address, core

TRANSPORTS = drawn.transports("self")


class DrawnMove:
    """A plan between two random layouts and one or several pairs of arrays."""

    def __init__(self, comm, rng, local_rng, arrays):
        shape = drawn.shape(rng, elems=600)
        self.axes = tuple(int(a) for a in rng.permutation(len(shape)))
        turned = tuple(shape[a] for a in self.axes)
        source = drawn.layout(rng, shape, comm.size)
        destination = drawn.layout(rng, turned, comm.size)
        self.plan = dm.redistribute(source, destination, axes=self.axes)
        self.wholes, self.a, self.b = [], [], []
        for _ in range(arrays):
            dtype = str(rng.choice(drawn.NUMBER_DTYPES))
            self.wholes.append(rng.integers(0, 100, shape).astype(dtype))
            self.a.append(drawn.Part(comm, rng, local_rng, source, dtype))
            self.b.append(drawn.Part(comm, rng, local_rng, destination, dtype))

    def arguments(self):
        sources, destinations = [p.arrays for p in self.a], [p.arrays for p in self.b]
        if len(sources) == 1:
            return self.plan, sources[0], destinations[0]
        return self.plan, sources, destinations

    def fill(self, factor):
        for part, whole in zip(self.a, self.wholes, strict=True):
            part.fill((whole * factor).astype(whole.dtype))

    def assert_moved(self, factor):
        for part, whole in zip(self.b, self.wholes, strict=True):
            part.assert_holds((whole * factor).astype(whole.dtype).transpose(self.axes))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_plans_and_arrays_together(comm, rng, cases, transport):
    local_rng = np.random.default_rng([comm.rank, 7])
    for _ in range(4 * cases):
        moves = [
            DrawnMove(comm, rng, local_rng, int(rng.integers(1, 4)))
            for _ in range(int(rng.integers(1, 4)))
        ]
        options = {"transport": transport, "comm": comm}
        if rng.random() < 0.5:
            options["max_bytes"] = 64 * 1024
        make = lambda: dm.Mover([m.arguments() for m in moves], **options)  # noqa: E731, B023
        if transport == "shared" or any(drawn.impossible(m.plan, transport) for m in moves):
            try:
                mover = make()
            except dm.errors.Unsupported:
                continue
        else:
            mover = make()
        for factor in (1, 2):
            for m in moves:
                m.fill(factor)
            mover()
            for m in moves:
                m.assert_moved(factor)


def test_one_message_per_pair_carries_all_arrays(comm):
    columns = dm.BlockCyclic((4 * comm.size, 8 * comm.size), "(*, block)", comm.size)
    rows = dm.BlockCyclic(columns.shape, "(block, *)", comm.size)
    dtypes = ["f8", "i2", "u1", "f4", "c16"]
    sources = [np.full(rows.local_shape(comm.rank), k, d) for k, d in enumerate(dtypes)]
    targets = [np.zeros(columns.local_shape(comm.rank), d) for d in dtypes]
    mover = dm.Mover(dm.redistribute(rows, columns), sources, targets, comm=comm, transport="p2p")
    mover()
    for k, target in enumerate(targets):
        assert (target == k).all()
    counters = mover.counters()
    assert counters["messages_sent"] == counters["messages_received"] == comm.size - 1
    others = [pair for pair in mover.explain() if pair["peer"] != comm.rank]
    assert len(others) == 2 * (comm.size - 1)
    assert sum(p["elems"] for p in others if p["sends"]) == 5 * 32 * (comm.size - 1)
    assert len({p["why"] for p in others}) <= 1 and all("," not in p["why"] for p in others)


def test_halos_of_several_fields(comm, rng):
    domain = dm.Region((0, 0), (4 * comm.size, 6))
    blocks = dm.FloorPlan.uniform(domain, grid=(comm.size, 1), nprocs=comm.size)
    fields = [dm.Array(blocks, d, ghost=1, comm=comm) for d in ("f8", "f4", "i4")]
    plan = dm.halo(blocks, width=1, periodic=domain)
    wholes = [rng.integers(0, 1000, domain.shape).astype(f.dtype) for f in fields]
    for field, whole in zip(fields, wholes, strict=True):
        for block in field.blocks:
            field.interior(block)[...] = whole[blocks.region(block).slices()]
    dm.Mover(plan, fields, fields)()
    for field, whole in zip(fields, wholes, strict=True):
        padded = np.pad(whole, 1, mode="wrap")
        for block, grid in field.grids():
            (r0, _), (r1, _) = blocks.region(block).lo, blocks.region(block).hi
            np.testing.assert_array_equal(grid, padded[r0 : r1 + 2])


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_lies_between_two_arrays_stays(comm, transport):
    """They lie as in a message, in which the second array begins at a multiple of 16 bytes."""
    here = dm.BlockCyclic(3 * comm.size, "block", comm.size)
    next_one = dm.BlockCyclic(3 * comm.size, "block", comm.size, first_process=[1 % comm.size])
    plan = dm.redistribute(here, next_one)
    if transport == "shared" or drawn.impossible(plan, transport):
        pytest.skip("it does not carry arrays of the user's here")
    numbers = np.arange(6, dtype="f4").reshape(2, 3)
    table = np.full((2, 4), -7, "f4")
    sources, destinations = list(numbers + 10 * comm.rank), list(table[:, :3])
    dm.Mover(plan, sources, destinations, transport=transport, comm=comm)()
    np.testing.assert_array_equal(table[:, :3], numbers + 10 * ((comm.rank - 1) % comm.size))
    assert (table[:, 3] == -7).all()


def test_another_set_of_arrays_is_bound(comm):
    line = dm.BlockCyclic((3 * comm.size,), "(block)", comm.size)
    back = dm.BlockCyclic((3 * comm.size,), "(cyclic)", comm.size)
    plan = dm.redistribute(line, back)
    arrays = [[np.arange(3.0) + 3 * comm.rank + 100 * k for k in range(2)] for _ in range(2)]
    out = [[np.zeros(3) for _ in range(2)] for _ in range(2)]
    mover = dm.Mover(plan, arrays[0], out[0], comm=comm)
    mover.rebind(arrays[1], out[1])
    mover()
    want = comm.rank + comm.size * np.arange(3.0)
    for k in range(2):
        np.testing.assert_array_equal(out[1][k], want + 100 * k)
        assert (out[0][k] == 0).all()
    with pytest.raises(dm.Mismatch):
        mover.rebind(arrays[1], out[1][0])


class TestBadArguments:
    @pytest.fixture
    def plan(self, comm):
        line = dm.BlockCyclic((2 * comm.size,), "(block)", comm.size)
        return dm.redistribute(line, line)

    def test_lists_of_different_length(self, comm, plan):
        a = [np.zeros(2), np.zeros(2)]
        with pytest.raises(dm.Mismatch):
            dm.Mover(plan, a, a[: 1 if comm.rank == 0 else 2], comm=comm)

    def test_a_list_where_blocks_are_meant_names_the_mapping(self, comm):
        boxes = [dm.Region((i,), (i + 1,)) for i in range(2 * comm.size)]
        blocks = dm.FloorPlan(boxes, [i // 2 for i in range(2 * comm.size)], comm.size)
        line = dm.BlockCyclic((2 * comm.size,), "(block)", comm.size)
        plan = dm.redistribute(blocks, line)
        with pytest.raises(dm.Mismatch, match="mapping"):
            dm.Mover(plan, [np.zeros(1), np.zeros(1)], np.zeros(2), comm=comm)

    @pytest.mark.parametrize("key", [0.0, "0", None])
    def test_a_mapping_with_keys_that_are_no_numbers_of_blocks(self, comm, plan, key):
        key = key if comm.rank == comm.size - 1 else np.int64(comm.rank)
        with pytest.raises(dm.errors.WrongType, match="keys are numbers of blocks"):
            dm.Mover(plan, {key: np.zeros(2)}, np.ones(2), comm=comm)

    def test_sets_that_differ_between_processes(self, comm, plan):
        if comm.size == 1:
            pytest.skip("takes several processes")
        a, b = np.zeros(2), np.ones(2)
        moves = [(plan, a, b)] * (1 if comm.rank == 0 else 2)
        with pytest.raises(dm.Mismatch, match="numbers of arrays: 1 on process 0, 2 on process 1"):
            dm.Mover(moves, comm=comm)
        assert (b == 1).all()

    def test_no_arrays_at_all(self, comm, plan):
        with pytest.raises(dm.errors.InvalidArgument):
            dm.Mover([], comm=comm)
        with pytest.raises(dm.errors.InvalidArgument):
            dm.Mover(plan, [], [], comm=comm)

    def test_the_type_of_one_array_differs_on_one_process(self, comm, plan):
        if comm.size == 1:
            pytest.skip("takes several processes")
        dtype = "f4" if comm.rank == 1 else "f8"
        a, b = [np.zeros(2), np.zeros(2, dtype)], [np.ones(2), np.ones(2)]
        with pytest.raises(
            dm.errors.WrongType, match=r"source array: 8 .* process 0, 4 .* process 1"
        ):
            dm.Mover(plan, a, b, comm=comm)
        assert (b[0] == 1).all() and (b[1] == 1).all()


@pytest.mark.parametrize("sources, destinations", [(1, 2), (2, 1), (0, 0), (3, 2)])
def test_the_core_checks_that_every_plan_has_its_arrays(comm, sources, destinations):
    """On the last process; the others bind the same plans with theirs."""
    line = dm.BlockCyclic((4 * comm.size,), "block", nprocs=comm.size)
    plan = dm.redistribute(line, line)
    a, b, c = (dm.Array(line, "i8", comm=comm) for _ in range(3))
    with pytest.raises(dm.errors.InvalidArgument, match=f"2 plans.* {sources} of sources"):
        if comm.rank < comm.size - 1:
            dm.Mover([(plan, a, b), (plan, a, c)], comm=comm)
        else:
            core().Mover(
                comm_address(comm), [plan] * 2, [[]] * sources, [[]] * destinations,
                **vars(MoverOptions()), factors=[1], in_phases=False,
            )  # fmt: skip
    dm.Mover(plan, a, b, comm=comm)()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_factor_for_each_move(comm, rng, cases, together, transport):
    local_rng = np.random.default_rng([comm.rank, 11])
    for _ in range(2 * cases):
        moves = [DrawnMove(comm, rng, local_rng, int(rng.integers(1, 3))) for _ in range(3)]
        if transport == "shared" or any(drawn.impossible(m.plan, transport) for m in moves):
            continue
        alpha = (1, 2, 1)
        exchange = dm.Mover(
            [m.arguments() for m in moves],
            together=together,
            alpha=alpha,
            transport=transport,
            comm=comm,
        )
        for move in moves:
            move.fill(1)
        exchange()
        for move, factor in zip(moves, alpha, strict=True):
            for part, whole in zip(move.b, move.wholes, strict=True):
                part.assert_holds(whole.transpose(move.axes) * whole.dtype.type(factor))


def test_factors_that_do_not_fit_are_refused_by_all(comm):
    layout = dm.BlockCyclic((4 * comm.size,), "(block)", nprocs=comm.size)
    plan, a, b = dm.redistribute(layout, layout), np.ones(4), np.zeros(4)
    with pytest.raises(dm.Mismatch, match="alpha has 2 factors; there are 1 plans"):
        dm.Mover([(plan, a, b)], alpha=(1, 2), comm=comm)
    with pytest.raises(dm.errors.WrongType, match="alpha is 'two'"):
        dm.Mover([(plan, a, b)], alpha=["two"], comm=comm)
    times = np.zeros(4, "M8[s]")
    with pytest.raises(dm.errors.WrongType, match="need elements of a number type"):
        dm.Mover([(plan, times, times.copy())], alpha=[2], comm=comm)
    if comm.size > 1:
        with pytest.raises(dm.Mismatch, match=r"different factors.*alpha=2 on process 0"):
            dm.Mover([(plan, a, b)], alpha=[2 if comm.rank == 0 else 3], comm=comm)
    assert (b == 0).all()
