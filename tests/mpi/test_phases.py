# SPDX-License-Identifier: BSD-3-Clause
"""Phases: several plans, executed one after the other by one mover."""

from itertools import pairwise

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]


def finish(mover, rng):
    """Carry a mover out in one of the ways there are."""
    way = rng.integers(3)
    if way == 0:
        mover()
        return
    mover.start()
    while way == 1 and not mover.test():
        pass
    if way == 2:
        mover.wait()
    assert not mover.in_flight


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_each_phase_reads_what_the_one_before_brought(comm, rng, cases, transport):
    """A chain of redistributions through arrays of random layouts ends where it should."""
    local_rng = np.random.default_rng([comm.rank, 11])
    for _ in range(4 * cases):
        shape = drawn.shape(rng, elems=400)
        layouts = [drawn.layout(rng, shape, comm.size) for _ in range(int(rng.integers(2, 6)))]
        plans = [dm.redistribute(a, b) for a, b in pairwise(layouts)]
        if any(drawn.impossible(plan, transport) for plan in plans):
            continue
        parts = [drawn.Part(comm, rng, local_rng, layout, "i8") for layout in layouts]
        arrays = [part.arrays for part in parts]
        moves = list(zip(plans, arrays, arrays[1:], strict=False))
        options = {"transport": transport, "comm": comm}
        if rng.random() < 0.3:
            options["max_bytes"] = 256 * 1024
        try:
            mover = dm.Mover(moves, together=False, **options)
        except dm.errors.Unsupported:
            assert transport == "shared"
            continue
        for factor in (1, -3):
            whole = factor * np.arange(np.prod(shape)).reshape(shape)
            parts[0].fill(whole)
            finish(mover, rng)
            for part in parts[1:]:
                part.assert_holds(whole)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_corners_travel_with_the_later_axes(comm, rng, cases, transport):
    """Grids of blocks of any extents, periodic or not: as a halo with corners at once."""
    for _ in range(4 * cases):
        dims = int(rng.integers(1, 4))
        domain = dm.Region((0,) * dims, rng.integers(2, 9, dims).tolist())
        splits = [sorted({int(x) for x in rng.integers(1, n, 2)}) for n in domain.shape]
        blocks = dm.FloorPlan.from_splits(domain, splits, comm.size)
        thinnest = np.diff(blocks.regions, axis=1)[:, 0].min(axis=0)
        width = [tuple(rng.integers(0, n + 1, 2).tolist()) for n in thinnest]
        around = {"periodic": rng.integers(0, 2, dims).astype(bool).tolist()}
        plans = [dm.advanced.axis_halo(blocks, width, axis, **around) for axis in range(dims)]
        at_once = dm.halo(blocks, width, **around)
        if any(drawn.impossible(plan, transport) for plan in (at_once, *plans)):
            continue
        u, v = (dm.Array(blocks, "f8", ghost=width, comm=comm) for _ in range(2))
        mover = dm.Mover(
            [(plan, u, u) for plan in plans], together=False, transport=transport, check=True
        )
        whole = np.arange(domain.size, dtype="f8").reshape(domain.shape)
        for _ in range(2):
            for array in (u, v):
                for block, grid in array.grids():
                    grid[...] = -1
                    array.interior(block)[...] = whole[blocks.region(block).slices()]
            mover()
            dm.Mover(at_once, v, v)()
            for block, grid in u.grids():
                np.testing.assert_array_equal(grid, v[block])
        assert mover.counters()["rounds"] == 2


def test_fewer_messages_than_with_corners_at_once(comm):
    """Faces to 2 neighbours per dimension carry what messages to all neighbours would."""
    if comm.size != 4:
        pytest.skip("for four processes")
    blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), comm.size)
    u = dm.Array(blocks, "f8", ghost=1, comm=comm)
    plans = [dm.advanced.axis_halo(blocks, 1, axis) for axis in range(2)]
    mover = dm.Mover([(plan, u, u) for plan in plans], together=False, transport="p2p")
    assert mover.counters()["messages_sent"] == 2
    assert dm.Mover(dm.halo(blocks, 1), u, u, transport="p2p").counters()["messages_sent"] == 3


def test_others_push_phases_on(comm, rng):
    """Waiting for another mover moves phases too, whichever order processes wait in."""
    rows = dm.BlockCyclic((12, 12), "(block, *)", comm.size)
    columns = dm.BlockCyclic((12, 12), "(*, block)", comm.size)
    arrays = [dm.Array(layout, "f8", comm=comm) for layout in (rows, columns, rows, columns)]
    there, back = dm.redistribute(rows, columns), dm.redistribute(columns, rows)
    plans = (there, back, there)
    whole = np.arange(144.0).reshape(12, 12)
    a, b = dm.Array(rows, "f8", comm=comm), dm.Array(columns, "f8", comm=comm)
    phases = dm.Mover(list(zip(plans, arrays, arrays[1:], strict=False)), together=False)
    other = dm.Mover(there, a, b)
    for factor in (1, 2):
        for array in (arrays[0], a):
            array.local[...] = factor * whole[np.ix_(*rows.global_indices(comm.rank))]
        phases.start()
        other.start()
        for mover in (phases, other) if comm.rank % 2 else (other, phases):
            mover.wait(timeout=60)
        want = factor * whole[np.ix_(*columns.global_indices(comm.rank))]
        np.testing.assert_array_equal(arrays[3].local, want)
        np.testing.assert_array_equal(b.local, want)
        comm.Barrier()


def test_testing_pushes_others_on(comm):
    """Processes that test movers until each is complete, in different orders, all finish."""
    rows = dm.BlockCyclic((8, 8), "(block, *)", comm.size)
    columns = dm.BlockCyclic((8, 8), "(*, block)", comm.size)
    there, back = dm.redistribute(rows, columns), dm.redistribute(columns, rows)
    movers, ends = [], []
    for factor in (1, 2):
        a, b, c = (dm.Array(layout, "f8", comm=comm) for layout in (rows, columns, rows))
        a.local[...] = factor * (comm.rank + 1)
        movers.append(
            dm.Mover([(there, a, b), (back, b, c), (there, c, b), (back, b, c)], together=False)
        )
        ends.append((a, c))
    for mover in movers:
        mover.start()
    for mover in movers[:: 1 if comm.rank % 2 else -1]:
        while not mover.test():  # else without end: the others test the other mover
            pass
    for a, c in ends:
        np.testing.assert_array_equal(c.local, a.local)


def test_the_progress_thread_goes_through_phases(comm):
    line = dm.BlockCyclic((4 * comm.size,), "(block)", comm.size)
    dealt = dm.BlockCyclic((4 * comm.size,), "(cyclic)", comm.size)
    a, b, c = (dm.Array(layout, "i8", comm=comm) for layout in (line, dealt, line))
    mover = dm.Mover(
        [(dm.redistribute(line, dealt), a, b), (dm.redistribute(dealt, line), b, c)], together=False
    )
    with dm.progress_thread():
        for factor in (1, 2, 3):
            a.local[...] = factor * np.arange(4 * comm.rank, 4 * comm.rank + 4)
            mover.start()
            mover.wait(timeout=60)
            assert c.local.tolist() == a.local.tolist()
            comm.Barrier()


def test_rebinding_goes_through_all_phases(comm):
    line = dm.BlockCyclic((3 * comm.size,), "(block)", comm.size)
    dealt = dm.BlockCyclic((3 * comm.size,), "(cyclic)", comm.size)
    there, back = dm.redistribute(line, dealt), dm.redistribute(dealt, line)
    first, second = (
        [dm.Array(layout, "i8", comm=comm) for layout in (line, dealt, line)] for _ in range(2)
    )
    mover = dm.Mover([(there, first[0], first[1]), (back, first[1], first[2])], together=False)
    mover.rebind((second[0], second[1]), (second[1], second[2]))
    first[2].local[...] = -1
    second[0].local[...] = comm.rank
    mover()
    assert (second[2].local == comm.rank).all() and (first[2].local == -1).all()
    with pytest.raises(dm.Mismatch, match="pairs of arrays"):
        mover.rebind((second[0], second[1]))
    # Where the last phase cannot be bound, all stay as they were.
    with pytest.raises(dm.Error):
        mover.rebind((first[0], first[1]), (first[1], first[1]))
    second[0].local[...] = 7
    mover()
    assert (second[2].local == 7).all()


def test_wrong_phases_are_refused_everywhere(comm):
    line = dm.BlockCyclic((comm.size,), "(block)", comm.size)
    dealt = dm.BlockCyclic((comm.size,), "(cyclic)", comm.size)
    plan = dm.redistribute(line, dealt)
    a, b = dm.Array(line, "i8", comm=comm), dm.Array(dealt, "i8", comm=comm)
    move = (plan, a, b)
    with pytest.raises(dm.errors.InvalidArgument, match="at least one plan"):
        dm.Mover([], together=False, comm=comm)
    with pytest.raises(dm.errors.WrongType):
        dm.Mover([plan, plan], together=False, comm=comm)
    if comm.size > 1:
        with pytest.raises(dm.Mismatch, match="phases"):
            dm.Mover([move] * (2 if comm.rank == 0 else 3), together=False)
        with pytest.raises(dm.Mismatch, match="phases"):
            dm.Mover([move] * 2, together=False) if comm.rank == 0 else dm.Mover(*move)
        other = dm.redistribute(line, dealt, partial=True)
        with pytest.raises(dm.Mismatch):
            dm.Mover([move, move if comm.rank == 0 else (other, a, b)], together=False)
    with pytest.raises(dm.errors.WrongType):  # on one process, in the second phase
        wrong = np.zeros(1, "S3") if comm.rank == comm.size - 1 else b
        dm.Mover([move, (plan, a, wrong)], together=False, comm=comm)
    mover = dm.Mover([move, move], together=False)
    with pytest.raises(dm.errors.InvalidState):
        mover.wait()
    mover.start()
    with pytest.raises(dm.errors.InvalidState):
        mover.start()
    mover.wait()
    mover.close()
    with pytest.raises(dm.errors.InvalidState):
        mover.start()


def test_after_a_timeout_phases_are_waited_for_again(comm):
    line = dm.BlockCyclic((2 * comm.size,), "(block)", comm.size)
    dealt = dm.BlockCyclic((2 * comm.size,), "(cyclic)", comm.size)
    a, b, c = (dm.Array(layout, "i8", comm=comm) for layout in (line, dealt, line))
    mover = dm.Mover(
        [(dm.redistribute(line, dealt), a, b), (dm.redistribute(dealt, line), b, c)], together=False
    )
    a.local[...] = comm.rank
    if comm.rank == 0:
        mover.start()
        if comm.size > 1:
            with pytest.raises(dm.Timeout):
                mover.wait(timeout=0.05)
            assert mover.in_flight
    comm.Barrier()
    if comm.rank > 0:
        mover.start()
    mover.wait(timeout=60)
    assert (c.local == comm.rank).all() and mover.counters()["rounds"] == 1


def test_phases_given_up_fail_on_all(comm):
    if comm.size == 1:
        pytest.skip("nobody waits")
    ours = comm.Dup()
    line = dm.BlockCyclic((comm.size**2,), "(block)", comm.size)
    dealt = dm.BlockCyclic((comm.size**2,), "(cyclic)", comm.size)
    a, b, c = (dm.Array(layout, "i8", comm=ours) for layout in (line, dealt, line))
    mover = dm.Mover(
        [(dm.redistribute(line, dealt), a, b), (dm.redistribute(dealt, line), b, c)], together=False
    )
    comm.Barrier()  # all are bound
    if comm.rank == 0:
        with pytest.raises(dm.errors.InvalidArgument, match="in flight"), mover:
            mover.start()  # which cannot be complete: the others have not started
    comm.Barrier()
    if comm.rank > 0:
        with pytest.raises(dm.PeerFailed):
            mover(timeout=60)
    comm.Barrier()
