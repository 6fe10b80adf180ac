# SPDX-License-Identifier: BSD-3-Clause
"""Distributed arrays: shapes, views, ghosts, and the lifetime of memory."""

import os
import subprocess
import sys

import drawn
import numpy as np
import pytest

import datamover as dm


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "S5", [("id", "i4"), ("x", "f8", 3)]])
def test_every_block_is_its_own_memory(comm, rng, order, dtype):
    layout = drawn.floor_plan(rng, drawn.shape(rng, 2, 200), comm.size)
    array = dm.Array(layout, dtype, order=order, ghost=((1, 0), (2, 1)), comm=comm)
    for block, grid in array.grids():
        lower, upper = (1, 2), (0, 1)
        shape = layout.region(block).shape
        assert grid.shape == tuple(n + a + b for n, a, b in zip(shape, lower, upper, strict=True))
        assert grid.dtype == np.dtype(dtype)
        assert grid.flags[f"{order}_CONTIGUOUS"]
        assert grid.ctypes.data % 64 == 0
        grid.view("u1" if order == "C" else grid.dtype)[...] = 0
    views = [grid for _, grid in array.grids()]
    for i, view in enumerate(views):
        assert not any(np.shares_memory(view, other) for other in views[i + 1 :])


def test_views_keep_the_memory(comm):
    layout = dm.BlockCyclic((comm.size, 1000), "(block, *)", comm.size)
    array = dm.Array(layout, "i8", comm=comm)
    view = array.local
    view[...] = comm.rank
    array.close()
    del array
    others = [dm.Array(layout, "i8", comm=comm) for _ in range(3)]
    for other in others:
        other.local[...] = -1
    assert (view == comm.rank).all()


def test_arrays_print_in_a_line(comm):
    boxes = np.stack([np.arange(100), np.arange(1, 101)], 1)[..., None]
    blocks = dm.FloorPlan(boxes, [0] * 100, comm.size)
    array = dm.Array(blocks, "f4", comm=comm)
    assert repr(array).endswith(f", blocks={'[0, 1, 2, 3, 4, 5, ...]' if comm.rank == 0 else []})")
    assert repr(dm.advanced.UserArrays(np.zeros((6, 8)))) == "UserArrays(6x8 of float64)"
    ghosts = dm.advanced.UserArrays(np.zeros((6, 8), "i4"), ghost=(1, 2))
    assert repr(ghosts) == "UserArrays(6x8 of int32, ghost=(1, 2))"
    several = dm.advanced.UserArrays({0: np.zeros(2), 3: np.zeros(1)})
    assert repr(several) == "UserArrays(2 blocks of float64)"
    assert repr(dm.advanced.UserArrays(None)) == "UserArrays(no block)"


def test_absent_block_is_a_lookup_error(comm):
    layout = dm.BlockCyclic((comm.size,), "(block)", comm.size)
    with dm.Array(layout, "f8", comm=comm) as array:
        assert comm.rank in array
        with pytest.raises(LookupError):
            array[comm.size]
    with pytest.raises(dm.errors.InvalidState):
        array[comm.rank]


def test_a_block_is_written_by_its_number_and_changed_in_place(comm):
    rows = dm.BlockCyclic((comm.size, 3), "(block, *)", comm.size)
    array = dm.Array(rows, ghost=1, comm=comm)
    array[comm.rank] = 1
    array.interior()[...] = 5
    array[comm.rank] += 1
    assert array.interior(comm.rank).tolist() == [[6, 6, 6]]
    assert array.local[0].tolist() == [2] * 5
    with pytest.raises(dm.errors.WrongType, match=r"array.local\[...\]"):
        array[...] = 1


def test_it_is_not_taken_for_one_numpy_array(comm):
    """NumPy went through blocks 0, 1, ... itself: all of process 0 with ghosts, else nothing."""
    rows = dm.BlockCyclic((comm.size, 3), "(block, *)", comm.size)
    array = dm.Array(rows, ghost=1, comm=comm)
    assert [*array] == [*array.blocks] == [comm.rank]
    for take in np.asarray, np.sum, np.array:
        with pytest.raises(dm.errors.WrongType, match=r"array.interior\(\)"):
            take(array)


def test_the_one_interior(comm):
    line = dm.BlockCyclic(2 * comm.size, "block", comm.size, ranks=[0])
    array = dm.Array(line, ghost=2, comm=comm)
    assert array.interior().shape == ((2 * comm.size,) if comm.rank == 0 else (0,))
    tiles = dm.FloorPlan.tiles(dm.Region(0, 2 * comm.size), 1, comm.size)
    with pytest.raises(dm.errors.InvalidState, match="holds 2 blocks"):
        dm.Array(tiles, comm=comm).interior()


def test_process_outside_the_grid_holds_nothing(comm):
    layout = dm.BlockCyclic((5, 5), "(block, block)", comm.size, grid=(1, 1))
    array = dm.Array(layout, "f8", comm=comm)
    assert array.local.shape == ((5, 5) if comm.rank == 0 else (0, 0))


def test_memory_is_used_again(comm):
    layout = dm.BlockCyclic((comm.size * 5000,), "(block)", comm.size)
    places = set()
    for _ in range(20):
        array = dm.Array(layout, "f8", comm=comm)
        places.add(array.local.ctypes.data)
        array.close()
    assert len(places) < 4


@pytest.mark.parametrize("ghost", [-1, (1, 2, 3), "deep", ((1, 2),)])
def test_wrong_ghosts(comm, ghost):
    layout = dm.BlockCyclic((8, 8), "(block, *)", comm.size)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Array(layout, "f8", ghost=ghost, comm=comm)


NO_SHARED_MEMORY = """
import numpy as np, datamover as dm
from mpi4py import MPI
comm = MPI.COMM_SELF
array = dm.Array(dm.BlockCyclic((1 << 20,), "(block)", 1), "f8", comm=comm)
array.local[...] = 3
assert not array.shared
print("private", array.local.sum())
"""


def test_more_than_there_is(comm):
    """An array that the system cannot hold is an error, not the end of the process."""
    layout = dm.BlockCyclic((comm.size << 45,), "(block)", comm.size)
    with pytest.raises(dm.errors.NoMemory, match="bytes that are left"):
        dm.Array(layout, "u1", comm=comm)


def test_too_little_shared_memory_falls_back(comm):
    """With room for signals only, arrays become private and everything still works."""
    if comm.rank == 0:
        environment = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PMI", "OMPI", "PMIX", "HYDRA", "MPI"))
        }
        done = subprocess.run(
            [sys.executable, "-c", NO_SHARED_MEMORY],
            env=environment | {"DATAMOVER_SHARED_BYTES": str(5 << 20)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == "private 3145728.0\n", done.stderr
    comm.barrier()
