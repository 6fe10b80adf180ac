# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in a shared MPI window: moved correctly, and accessed directly if requested."""

import contextlib

import drawn
import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm

BYTES = 1 << 17


@contextlib.contextmanager
def window_of_node(comm):
    """A window of the real node, and the memory of this process's part of it, full of one byte."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    window = MPI.Win.Allocate_shared(BYTES, 1, comm=node)
    memory = np.frombuffer(window.Shared_query(node.rank)[0], "u1")
    memory[...] = drawn.Poisoned.BYTE
    yield window, memory
    comm.barrier()
    window.Free()
    node.Free()


def block_in(memory, first_byte, shape, step):
    """An int64 array in the memory, with a step in its last dimension; and where it ends."""
    widths = (*shape[:-1], shape[-1] * step)
    end = first_byte + 8 * int(np.prod(widths))
    return memory[first_byte:end].view("i8").reshape(widths)[..., ::step], end


def moved(comm, rng, window, memory, says):
    """Move between random layouts in the window; the transports that carried it."""
    shape = drawn.shape(rng)
    layouts = [drawn.block_cyclic(rng, shape, comm.size) for _ in "ab"]
    whole = rng.integers(0, 1 << 60, shape)
    local_rng = np.random.default_rng([comm.rank, int(rng.integers(1 << 30))])
    first_byte, blocks = 8, []
    for layout in layouts:
        mine = {}
        for block, _ in drawn.indices_of_blocks(layout, comm.rank):
            extents = drawn.block_shape(layout, comm.rank, block)
            array, first_byte = block_in(memory, first_byte, extents, int(local_rng.integers(1, 4)))
            mine[block] = dm.advanced.in_window(window, array) if says else array
        blocks.append(mine)
    for block, index in drawn.indices_of_blocks(layouts[0], comm.rank):
        blocks[0][block][...] = whole[index]
    expected = memory.copy()
    mover = dm.Mover(dm.redistribute(*layouts), *blocks, comm=comm)
    mover()
    for block, index in drawn.indices_of_blocks(layouts[1], comm.rank):
        offset = blocks[1][block].ctypes.data - memory.ctypes.data
        there = np.ndarray(blocks[1][block].shape, "i8", expected, offset, blocks[1][block].strides)
        there[...] = whole[index]
    comm.barrier()
    np.testing.assert_array_equal(memory, expected)  # nothing beside the arrays was written
    return {pair["transport"] for pair in mover.explain()} - {"self"}


@pytest.mark.parametrize("who", ["all", "process 0", "nobody"])
def test_random_layouts(comm, rng, cases, who):
    """What is moved is right, whoever has said where it lies."""
    says = who == "all" or (who == "process 0" and comm.rank == 0)
    used = set()
    for _ in range(8 * cases):
        with window_of_node(comm) as (window, memory):
            used |= moved(comm, rng, window, memory, says)
    used = set().union(*comm.allgather(used))
    if who == "all" and not drawn.NODE_SIZE:
        assert used <= {"shared"}
    if who == "nobody":
        assert "shared" not in used


def test_the_array_itself_is_known_as_long_as_the_result_lives(comm):
    """And a mover that was bound meanwhile goes on after that."""
    rows = dm.BlockCyclic((comm.size, 4), "(block, *)", comm.size)
    columns = dm.BlockCyclic((comm.size, 4), "(*, cyclic)", comm.size)
    with window_of_node(comm) as (window, memory):
        a, _ = block_in(memory, 0, rows.local_shape(comm.rank), 1)
        b = dm.Array(columns, "i8", comm=comm)
        a[...] = comm.rank
        known = dm.advanced.in_window(window, a)
        assert known.ctypes.data == a.ctypes.data
        mover = dm.Mover(dm.redistribute(rows, columns), a, b, comm=comm)
        del known
        for k in range(3):
            a[...] = comm.rank + k
            mover()
            assert (b.local == np.arange(comm.size)[:, None] + k).all()
        later = dm.Mover(dm.redistribute(rows, columns), a, b, comm=comm)
        pairs = [p for p in later.explain() if p["sends"] and p["transport"] != "self"]
        if not drawn.NODE_SIZE:
            assert all(
                p["transport"] == "shared" for p in mover.explain() if p["peer"] != comm.rank
            )
        later()
        assert len(pairs) == 0 or (b.local == np.arange(comm.size)[:, None] + 2).all()
        del mover, later


@pytest.mark.parametrize(
    "what", ["elsewhere", "longer", "no window", "null", "list", "masked", "kind"]
)
def test_what_is_wrong_is_said_here(comm, what):
    """Of this process alone: nothing is collective."""
    if what == "kind" and comm.size == 1:
        pytest.skip("Open MPI makes no other window on one process")
    with window_of_node(comm) as (window, memory):
        array, error = memory, dm.errors.InvalidArgument
        if what == "elsewhere":
            array = np.zeros(5)
        elif what == "longer":
            array = np.lib.stride_tricks.as_strided(memory, (2,), (BYTES,))
        elif what == "masked":
            array, error = np.ma.masked_equal(memory, 1), dm.errors.WrongType
        elif what == "no window":
            error = dm.errors.WrongType
        elif what == "null":
            pass
        elif what == "list":
            array, error = [1, 2], dm.errors.WrongType
        given = {"no window": comm, "null": MPI.WIN_NULL}.get(what, window)
        if what == "kind":
            given = MPI.Win.Create(memory, comm=comm)
        with pytest.raises(error):
            dm.advanced.in_window(given, array)
        if what == "kind":
            given.Free()


def test_empty_arrays_and_other_dtypes(comm):
    """Kinds of elements that only NumPy knows stay what they are."""
    with window_of_node(comm) as (window, memory):
        assert dm.advanced.in_window(window, np.empty((3, 0))).shape == (3, 0)
        for dtype in [">i8", "S3", [("a", "u1"), ("b", "f8")], "c16"]:
            array = memory[: 10 * np.dtype(dtype).itemsize].view(dtype)
            known = dm.advanced.in_window(window, array[::-2])
            assert known.dtype == array.dtype
            assert known.tobytes() == array[::-2].tobytes()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats_of_another_package(comm, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    line = dm.BlockCyclic(4 * comm.size, "block", nprocs=comm.size)
    turned = dm.BlockCyclic(4 * comm.size, "cyclic", nprocs=comm.size)
    with window_of_node(comm) as (window, memory):
        kind = np.dtype(getattr(ml_dtypes, name))
        array = memory[: 8 * kind.itemsize].view(kind)[::-2]
        array[...] = comm.rank
        known = dm.advanced.in_window(window, array)
        assert known.dtype == kind
        moved = np.zeros(4, kind)
        dm.Mover(dm.redistribute(line, turned), known, moved, comm=comm)()
        sources = np.arange(comm.rank, 4 * comm.size, comm.size) // 4
        np.testing.assert_array_equal(moved, sources.astype(kind))
