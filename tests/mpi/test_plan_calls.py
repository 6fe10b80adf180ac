# SPDX-License-Identifier: BSD-3-Clause
"""Calls of a plan: the result, `out=`, halos in place, and errors on all processes."""

import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm


def layouts(comm):
    rows = dm.BlockCyclic((6, 4), "(block, *)", nprocs=comm.size)
    return rows, dm.BlockCyclic((6, 4), "(*, cyclic)", nprocs=comm.size)


def part(layout, rank, whole):
    """What a process stores of an array."""
    return whole[np.ix_(*layout.global_indices(rank))]


def test_the_result_is_an_array_of_the_destination(comm):
    rows, columns = layouts(comm)
    whole = np.arange(24, dtype="i4").reshape(6, 4)
    a = part(rows, comm.rank, whole)
    b = dm.redistribute(rows, columns)(a, comm=comm)
    assert b.dtype == "i4" and b.layout == columns and b.shape == (6, 4)
    assert (b.ndim, b.itemsize, b.nbytes) == (2, 4, 96)
    np.testing.assert_array_equal(b.interior(), part(columns, comm.rank, whole))
    back = np.zeros_like(a)
    assert dm.redistribute(columns, rows)(b, out=back) is back
    np.testing.assert_array_equal(back, a)


def test_what_the_plan_does_not_write_is_zero(comm):
    rows, columns = layouts(comm)
    whole = np.arange(1.0, 25).reshape(6, 4)
    upper = dm.redistribute(
        rows,
        columns,
        source_region=(slice(0, 2), slice(None)),
        destination_region=(slice(4, 6), slice(None)),
    )
    b = upper(part(rows, comm.rank, whole), comm=comm)
    want = np.zeros((6, 4))
    want[4:] = whole[:2]
    np.testing.assert_array_equal(b.interior(), part(columns, comm.rank, want))


def test_the_dtype_comes_from_the_processes_that_have_elements(comm):
    last = comm.size - 1
    held = dm.FloorPlan([dm.Region(0, 5)], [last], nprocs=comm.size)
    spread = dm.BlockCyclic(5, "block", nprocs=comm.size)
    a = np.arange(5, dtype="f4") if comm.rank == last else None
    b = dm.redistribute(held, spread)(a, comm=comm)
    assert b.dtype == "f4"
    assert b.interior().tolist() == spread.global_indices(comm.rank)[0].tolist()


def test_a_halo_is_filled_in_place(comm):
    line = dm.FloorPlan.uniform((4 * comm.size,), comm.size, nprocs=comm.size)
    u = dm.Array(line, "i8", ghost=1, comm=comm)
    u.local[...] = comm.rank
    assert dm.halo(line, 1, periodic=True)(u) is u
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    assert u.local.tolist() == [left, *[comm.rank] * 4, right]
    assert u.block(comm.rank).tolist() == u.local.tolist()


def test_errors_are_raised_on_all(comm):
    rows, columns = layouts(comm)
    plan = dm.redistribute(rows, columns)
    a = np.zeros(rows.local_shape(comm.rank))
    wrong = np.zeros(a.shape, object) if comm.rank == comm.size - 1 else a
    with pytest.raises(dm.errors.WrongType, match="Python objects"):
        plan(wrong, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument, match="out="):
        plan([a, a], comm=comm)
    with pytest.raises(dm.errors.InvalidArgument, match="'comm'"):
        plan(a)
    with pytest.raises(dm.errors.WrongType, match="missing argument 'destination'"):
        dm.Mover(plan, a, comm=comm)
    with pytest.raises(dm.Error):
        if comm.rank == comm.size - 1:
            plan(a, None, comm)
        else:
            plan(a, comm=comm)
    b = np.zeros(columns.local_shape(comm.rank))
    with pytest.raises(dm.errors.WrongType, match="a list was given"):
        dm.Mover([(plan, a, b)], destination=b, comm=comm)


def test_none_is_the_part_of_a_process_without_blocks(comm):
    held = dm.FloorPlan([dm.Region(0, 5)], [0], nprocs=comm.size)
    spread = dm.BlockCyclic(5, "block", nprocs=comm.size)
    a = np.asarray(spread.global_indices(comm.rank)[0], "f8")
    out = np.zeros(5) if comm.rank == 0 else None
    assert dm.redistribute(spread, held)(a, out, comm=comm) is out
    if comm.rank == 0:
        assert out.tolist() == [0, 1, 2, 3, 4]


def test_a_layout_of_the_processes_of_a_communicator(comm):
    half = comm.Split(comm.rank % 2)
    layout = dm.BlockCyclic((6, 4), "(block, *)", comm=half)
    assert layout == dm.BlockCyclic((6, 4), "(block, *)", nprocs=half.size)
    half.Free()
    assert layout.nprocs == (comm.size + 1 - comm.rank % 2) // 2
    for wrong in (half, MPI.COMM_NULL):
        with pytest.raises(dm.errors.InvalidArgument, match="comm has no processes"):
            dm.BlockCyclic((6, 4), "(block, *)", comm=wrong)
