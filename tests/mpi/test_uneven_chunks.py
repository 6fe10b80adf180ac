# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays with chunks of several extents along a dimension: saved, loaded, moved and appended.

zarr-python reads what processes wrote, and they read what it wrote.
"""

import itertools
import os

import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import formats, move, staged_moves, zarr_array

pytestmark = pytest.mark.skipif(
    "rectilinear_chunks" not in zarr.config.get("array"),
    reason=f"zarr {zarr.__version__} has no rectilinear chunk grids",
)


def sizes_of(rng, n):
    """The sizes of some chunks of a dimension."""
    cuts = rng.choice(np.arange(1, n), size=rng.integers(0, n), replace=False) if n > 1 else []
    return tuple(int(size) for size in np.diff([0, *sorted(cuts), n]))


def opened(path, mode="r"):
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(path, mode=mode)


def field(comm, layout, dtype="i4"):
    """An array of the library, and what it holds as a whole."""
    shape = tuple(layout.domain.shape)
    values = np.arange(1, np.prod(shape) + 1, dtype=dtype).reshape(shape)
    array = dm.Array(layout, dtype, comm=comm)
    whole = dm.FloorPlan([layout.domain], [0], nprocs=comm.size)
    source = {0: values} if comm.rank == 0 else {}
    dm.Mover(dm.redistribute(whole, layout), source, array, comm=comm)()
    return array, values


def drawn_layout(rng, comm, shape):
    if rng.random() < 0.5:
        return dm.BlockCyclic(shape, f"({', '.join(['block', *'*' * len(shape)][: len(shape)])})",
                              nprocs=comm.size)  # fmt: skip
    lo = tuple(int(n) for n in rng.integers(-3, 4, len(shape)))
    domain = dm.Region(lo, tuple(a + n for a, n in zip(lo, shape, strict=True)))
    return dm.FloorPlan.uniform(domain, (2,) + (1,) * (len(shape) - 1), nprocs=comm.size)


def uneven_rows(comm):
    """Blocks of rows of several extents, two for each process."""
    heights = [3, 5, 2, 6] * ((comm.size + 1) // 2)
    heights = heights[: 2 * comm.size]
    ends = np.cumsum([0, *heights]).tolist()
    regions = [dm.Region((a, 0), (b, 6)) for a, b in itertools.pairwise(ends)]
    owners = [k // 2 for k in range(len(regions))]
    return dm.FloorPlan(regions, owners, nprocs=comm.size), tuple(heights)


@pytest.mark.parametrize("draw", range(8))
def test_any_layout_in_any_chunks(comm, rng, place, draw):
    shape = tuple(int(n) for n in rng.integers(2, 30, rng.integers(1, 4)))
    chunks = tuple(sizes_of(rng, n) for n in shape)
    array, values = field(comm, drawn_layout(rng, comm, shape))
    itemsize, most = 4, int(np.prod([max(along) for along in chunks]))
    # From a step for each chunk to all at once.
    limit = max(2, int(rng.choice([1, 4, 1000]))) * most * itemsize * 2
    options = {"chunks": {"u": chunks}, "max_bytes": limit, "comm": comm}
    if limit < 2000 * most or rng.random() < 0.5:
        dm.save(f"{place}/a.zarr", {"u": array}, **options)
    else:
        dm.save(f"{place}/a.zarr", {"u": array}, wait=False, **options).wait()
    found = opened(f"{place}/a.zarr/u")
    assert np.array_equal(found[...], values) and found.write_chunk_sizes == chunks

    other = drawn_layout(rng, comm, shape)
    got = dm.load(f"{place}/a.zarr", {"u": other}, comm=comm, max_bytes=limit)["u"]
    plain = {"comm": comm, "max_bytes": limit}
    with dm.files.open(f"{place}/b.npy", other, mode="w", dtype="i4", **plain) as file:
        dm.Mover(dm.redistribute(other, other), got, file)()
    assert np.array_equal(np.load(f"{place}/b.npy"), values)

    lo = tuple(int(rng.integers(0, n)) for n in shape)
    hi = tuple(int(rng.integers(a + 1, n + 1)) for a, n in zip(lo, shape, strict=True))
    indices = dm.BlockCyclic(shape, f"({', '.join(['block', *'***'][: len(shape)])})", comm.size)
    ones = dm.Array(indices, "i4", comm=comm)
    ones.local[...] = 1
    box = dm.Region(lo, hi)
    plan = dm.redistribute(indices, indices, None, box, box)
    with dm.files.open(f"{place}/a.zarr/u", indices, mode="r+", **plain) as file:
        mover = dm.Mover(plan, ones, file, op="add")
        for _ in range(2):
            mover()
        mover.close()
    values[tuple(map(slice, lo, hi))] += 2
    assert np.array_equal(opened(f"{place}/a.zarr/u")[...], values)
    again = dm.Array(indices, "i4", comm=comm)
    with dm.files.open(f"{place}/a.zarr/u", indices, **plain) as file:
        dm.Mover(dm.redistribute(indices, indices), file, again)()
    whole = dm.load(f"{place}/a.zarr", {"u": None}, comm=comm)["u"]
    assert np.array_equal(whole, values)


@pytest.mark.parametrize("draw", range(6))
def test_moves_by_several_processes(comm, rng, place, draw, monkeypatch):
    shape = tuple(int(n) for n in rng.integers(1, 40, rng.integers(1, 4)))
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    chunks = [sizes_of(rng, n) for n in shape]
    if comm.rank == 0:
        np.save(f"{place}/a.npy", values)
    comm.barrier()
    written = []
    write = zarr_array.ZarrArray.write

    def noting(self, lo, array):
        written.append((lo, array.shape))
        write(self, lo, array)

    monkeypatch.setattr(zarr_array.ZarrArray, "write", noting)
    move(f"{place}/a.npy", f"{place}/b.zarr", chunks=chunks, comm=comm, max_bytes=1 << 14)
    found = opened(f"{place}/b.zarr")
    assert np.array_equal(found[...], values) and found.write_chunk_sizes == tuple(chunks)
    # Each chunk by one process, once, and whole.
    everybody = [box for boxes in comm.allgather(written) for box in boxes]
    if any(
        formats.num_boxes((n,), (along[0],)) != len(along)
        for n, along in zip(shape, chunks, strict=True)
    ):
        assert len(everybody) == len(set(everybody)) == np.prod([len(along) for along in chunks])

    axes = tuple(int(a) for a in rng.permutation(len(shape)))
    to = tuple(sizes_of(rng, shape[a]) for a in axes)
    move(f"{place}/b.zarr", f"{place}/c.zarr", chunks=to, axes=axes, comm=comm, check="crc32c")
    found = opened(f"{place}/c.zarr")
    assert np.array_equal(found[...], values.transpose(axes)) and found.write_chunk_sizes == to
    move(f"{place}/c.zarr", f"{place}/d.npy", comm=comm)
    assert np.array_equal(np.load(f"{place}/d.npy"), values.transpose(axes))


def test_blocks_are_chunks_and_do_not_move(comm, place, monkeypatch):
    layout, heights = uneven_rows(comm)
    array, values = field(comm, layout)
    monkeypatch.setattr(staged_moves.StagedMoves, "__init__", None)  # nothing is staged
    blocks = {"u": "blocks"}
    dm.save(f"{place}/a.zarr", {"u": array}, comm=comm, chunks=blocks)
    found = opened(f"{place}/a.zarr/u")
    assert np.array_equal(found[...], values) and found.write_chunk_sizes == (heights, (6,))
    with dm.series(f"{place}/run.zarr", {"u": array}, comm=comm, chunks=blocks) as run:
        for step in range(3):
            run.append(time=step)
    with dm.series(f"{place}/run.zarr", {"u": array}, comm=comm, chunks=blocks, resume=True) as run:
        run.append(time=3)
    found = opened(f"{place}/run.zarr/u")
    assert found.shape == (4, *values.shape) and (found[...] == values).all()
    assert found.write_chunk_sizes == ((1,) * 4, heights, (6,))
    assert sorted(os.listdir(f"{place}/run.zarr/u/c/3")) == sorted(map(str, range(len(heights))))


def test_series_in_other_chunks(comm, place):
    layout, heights = uneven_rows(comm)
    array, values = field(comm, layout)
    path, n = f"{place}/run.zarr", sum(heights)
    chunks = {"u": ((1, n - 3, 2), (4, 2))}
    with dm.series(path, {"u": array}, comm=comm, chunks=chunks) as run:
        run.append()
        run.append()
    with pytest.raises(dm.Mismatch, match=r"has chunks \(1, 1\+.*rechunk=True"):
        dm.series(path, {"u": array}, comm=comm, resume=True)
    with dm.series(path, {"u": array}, comm=comm, resume=True, rechunk=True) as run:
        run.append()
    found = opened(f"{path}/u")
    assert (found[...] == values).all() and found.shape[0] == 3
    assert found.write_chunk_sizes == ((1, 1, 1), *chunks["u"])
    with zarr.config.set({"array.rectilinear_chunks": True}):
        assert zarr.open_group(path, mode="r")["u"].shape == found.shape


def test_new_files_of_movers(comm, place):
    layout, heights = uneven_rows(comm)
    array, values = field(comm, layout)
    plan, said = dm.redistribute(layout, layout), {"mode": "w", "dtype": "i4", "comm": comm}
    for chunks, sizes in (("blocks", (heights, (6,))), (((1, sum(heights) - 1), 6), None)):
        path = f"{place}/{len(chunks)}.zarr"
        with dm.files.open(path, layout, chunks=chunks, **said) as file:
            dm.Mover(plan, array, file)()
        found = opened(path)
        assert np.array_equal(found[...], values)
        assert found.write_chunk_sizes == (sizes or (chunks[0], (6,)))
