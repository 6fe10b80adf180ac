# SPDX-License-Identifier: BSD-3-Clause
"""Memory of distributions: any strides of the arrays, and errors for memory that overlaps."""

import numpy as np
import pytest
from test_migration import METHODS, drawn_targets, expected, same_bytes

import datamover as dm


def strided(array, how):
    """The same elements with another stride; broadcast ones are all the first."""
    if how == "broadcast":
        return np.broadcast_to(array[:1], array.shape) if len(array) else array
    if how == "backwards":
        return array[::-1].copy()[::-1]
    if how == "backwards by two":
        return np.repeat(array, 2, axis=0)[::-1].copy()[::-2]
    if how == "field":
        holder = np.zeros(len(array), [("a", "u1"), ("it", array.dtype, array.shape[1:])])
        holder["it"] = array
        return holder["it"]
    raw = np.zeros(array.nbytes + 1, "u1")
    raw[1:] = np.frombuffer(array.tobytes(), "u1")
    return raw[1:].view(array.dtype).reshape(array.shape)


HOW = ["broadcast", "backwards", "backwards by two", "field", "misaligned"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", HOW)
def test_columns_of_any_stride(comm, rng, method, how):
    for dtype, shape in (("f8", ()), ("u1", ()), ("i4", (16,)), ("i2", (3,))):
        targets = drawn_targets(rng, comm.size, "random")
        everyone = [rng.integers(0, 250, (len(t), *shape)).astype(dtype) for t in targets]
        laid = [strided(column, how) for column in everyone]
        moved = dm.migrate(laid[comm.rank], targets[comm.rank], method=method, comm=comm)
        same_bytes(moved, expected(comm.rank, [np.array(c) for c in laid], targets))


@pytest.mark.parametrize("max_bytes", [None, 64])
@pytest.mark.parametrize("how", HOW)
def test_values_of_any_stride_go_home(comm, rng, how, max_bytes):
    targets = drawn_targets(rng, comm.size, "random")
    d = dm.Migration(targets[comm.rank], max_bytes=max_bytes, comm=comm)
    arrived = d.move(np.arange(len(targets[comm.rank]), dtype="f8") + 1000 * comm.rank)
    laid = strided(arrived, how)
    same_bytes(d.reverse(laid), d.reverse(np.array(laid)))
    if how != "broadcast":
        same_bytes(d.reverse(laid), np.arange(d.elems, dtype="f8") + 1000 * comm.rank)


@pytest.mark.parametrize("max_bytes", [None, 64])
@pytest.mark.parametrize("given", [np.ndarray.tolist, np.asfortranarray, lambda a: a[:, ::-1]])
def test_values_that_have_to_be_copied_go_home(comm, rng, given, max_bytes):
    """A list, or elements that lie scattered: the copy lives as long as it is read."""
    targets = drawn_targets(rng, comm.size, "random", 2000)
    d = dm.Migration(targets[comm.rank], max_bytes=max_bytes, comm=comm)
    home = rng.random((comm.size, len(targets[comm.rank]), 2))[comm.rank]
    arrived = d.move(home)
    same_bytes(d.reverse(given(arrived)), np.array(given(home)))
    for returned in d.reverse([np.asfortranarray(arrived), arrived]):
        same_bytes(returned, home)


@pytest.mark.parametrize("kind", ["i1", "i4", "i8", "u2", "u8"])
@pytest.mark.parametrize("how", HOW)
def test_targets_of_any_stride(comm, rng, how, kind):
    targets = drawn_targets(rng, comm.size, "random", 3000)
    laid = [strided(t.astype(kind), how) for t in targets]
    columns = [np.arange(len(t)) + 10000 * r for r, t in enumerate(targets)]
    moved = dm.migrate(columns[comm.rank], laid[comm.rank], comm=comm)
    same_bytes(moved, expected(comm.rank, columns, [np.array(t) for t in laid]))


@pytest.mark.parametrize("how", HOW)
def test_keys_of_any_stride(comm, rng, how):
    keys = rng.integers(0, 100, 500)
    laid = strided(keys, how)
    ranks = dm.targets.block(100).ranks(laid, 7)
    np.testing.assert_array_equal(ranks, np.array(laid) // 15)
    positions = rng.random((400, 2))
    laid = strided(positions, how)
    cells = dm.targets.morton(((0, 0), (1, 1)), (4, 4))
    np.testing.assert_array_equal(cells.ranks(laid, 5), cells.ranks(np.array(laid), 5))


def test_one_value_for_all(comm):
    moved = dm.migrate(np.broadcast_to(np.float64(7), (5,)), np.zeros(5, int), comm=comm)
    np.testing.assert_array_equal(moved, np.full(0 if comm.rank else 5 * comm.size, 7.0))


def overlapping_pairs(n):
    """(column, out) of n elements that share memory."""
    x = np.arange(2.0 * n)
    yield x[:n], x[:n]
    yield x[:n], x[n - 1 : 2 * n - 1]
    yield x[n - 1 : 2 * n - 1], x[:n]
    yield x[:n][::-1], x[:n]
    yield x[::2], x[n:]
    yield np.broadcast_to(x[n - 1 : n], (n,)), x[:n]


@pytest.mark.parametrize("method", METHODS)
def test_results_that_overlap_are_an_error_everywhere(comm, method):
    """On one process only; nothing has moved, and the next move is right."""
    n = 12
    d = dm.Migration(np.full(n, comm.rank), method=method, comm=comm)
    shift = dm.Migration(np.full(n, (comm.rank + 1) % comm.size), method=method, comm=comm)
    for guilty in {0, comm.size - 1}:
        for column, out in overlapping_pairs(n):
            assert np.shares_memory(column, out)
            mine = comm.rank == guilty
            before = out.copy()
            for plan in (d, shift):
                with pytest.raises(
                    dm.errors.InvalidArgument, match=f"process {guilty} result 0 overlaps"
                ):
                    plan.move(column, out=out if mine else np.zeros(n))
                with pytest.raises(
                    dm.errors.InvalidArgument, match=f"process {guilty} result 0 overlaps"
                ):
                    plan.reverse(column, out=out if mine else np.zeros(n))
            same_bytes(out, before)
    out = np.zeros((2, n))
    o = [out[0], out[0] if comm.rank == 0 else out[1]]
    with pytest.raises(dm.errors.InvalidArgument, match="process 0 result 1 overlaps result 0"):
        d.move(np.zeros(n), np.ones(n), out=o)
    with pytest.raises(dm.errors.InvalidArgument, match="process 0 result 1 overlaps result 0"):
        d.reverse([np.zeros(n), np.ones(n)], out=o)
    pooled = d.move(np.arange(n))
    with pytest.raises(dm.errors.InvalidArgument, match="overlaps column"):
        d.move(pooled, out=pooled)
    with pytest.raises(dm.errors.InvalidArgument, match="overlaps column"):
        d.reverse(pooled, out=pooled)
    same_bytes(d.move(pooled), pooled)
    same_bytes(pooled, np.arange(n))


def test_memory_side_by_side_is_no_overlap(comm):
    """Neighbours, columns of one table, and results between the elements of a column."""
    n = 10
    d = dm.Migration(np.full(n, comm.rank), comm=comm)
    x = np.arange(3.0 * n)
    same_bytes(d.move(x[:n], out=x[n : 2 * n]), np.arange(1.0 * n))
    same_bytes(d.move(x[2 * n :][::-1], out=x[:n]), np.arange(2.0 * n, 3 * n)[::-1].copy())
    one = dm.Migration([comm.rank], comm=comm)
    gap = np.array([1.0, 0.0, 3.0])
    same_bytes(one.move(gap[2:], out=gap[1:2]), np.array([3.0]))
    pair = dm.Migration([comm.rank, -1], comm=comm)
    gap = np.array([1.0, 0.0, 3.0])
    same_bytes(pair.move(gap[::2], out=gap[1:2]), np.array([1.0]))


def test_no_elements_overlap_nothing(comm):
    nothing = dm.Migration(np.zeros(0, int), comm=comm)
    empty = np.zeros(0)
    assert len(nothing.move(empty, out=empty)) == 0
    dropped = dm.Migration(np.full(4, -1), comm=comm)
    x = np.arange(4.0)
    assert len(dropped.move(x, out=x)) == 0
    same_bytes(x, np.arange(4.0))


def test_the_same_column_twice_is_fine(comm, rng):
    targets = drawn_targets(rng, comm.size, "random")
    x = rng.random(len(targets[comm.rank]))
    a, b = dm.Migration(targets[comm.rank], comm=comm).move(x, x)
    same_bytes(a, b)
