# SPDX-License-Identifier: BSD-3-Clause
"""Plans of file moves by many processes: they assign each element once, and whole chunks."""

import re
import subprocess
import sys

import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import intend


def owners_of(layout, shape):
    """Who holds each element, and how often elements are held."""
    owner, times = np.full(shape, -1), np.zeros(shape, int)
    for block, rank in enumerate(layout.owners):
        box = layout.region(block).slices()
        owner[box] = rank
        times[box] += 1
    return owner, times


@pytest.mark.parametrize("seed", range(6))
def test_every_element_is_dealt_once_and_every_chunk_to_one_process(tmp_path, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 30, 3))
    chunks = tuple(int(n) for n in rng.integers(1, 8, 3))
    axes = tuple(int(a) for a in rng.permutation(3))
    nprocs = int(rng.integers(1, 40))
    zarr.create_array(tmp_path / "a.zarr", shape=shape, dtype="f4", chunks=(5, 4, 3))
    limit = int(rng.choice([1 << 28, 7 * 7 * 7 * 4 * 2 + 5 * 4 * 3 * 4 * 2]))
    found = dm.files.plan(
        tmp_path / "a.zarr", chunks=chunks, nprocs=nprocs, axes=axes, max_bytes=limit
    )
    assert found.spec.shape == tuple(shape[a] for a in axes) and found.chunks == chunks
    owner, times = owners_of(found.plan.destination, found.slab)
    assert (times == 1).all()
    for cell in np.ndindex(*[-(-n // c) for n, c in zip(found.slab, chunks, strict=True)]):
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, chunks, strict=True))
        assert len(np.unique(owner[box])) == 1
    assert found.share_bytes == 4 * max(np.bincount(owner.ravel()))
    incoming = sum(sum(found.plan.incoming(rank).values()) for rank in range(nprocs))
    assert incoming == np.prod(found.slab)
    assert f"on {nprocs:,} processes" in repr(found)
    intended = dm.files.intend(
        tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=chunks, nprocs=nprocs, axes=axes,
        max_bytes=limit,
    )  # fmt: skip
    assert found.intention.figures() == intended.figures()
    ways = ("slab by slab", "chunk by chunk")
    assert f"a move goes {ways[intended.plan is not None]}" in repr(found)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"nprocs": 0}, dm.InvalidArgument),
        ({"nprocs": 2.5}, dm.InvalidArgument),
        ({"chunks": (1,)}, dm.InvalidArgument),
        ({"axes": (0, 0)}, dm.InvalidArgument),
        ({"max_bytes": 1}, dm.NoMemory),
    ],
)
def test_what_cannot_be_planned(tmp_path, said, error):
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    with pytest.raises(error):
        dm.files.plan(tmp_path / "a.npy", **said)
    np.save(tmp_path / "b.npy", np.zeros(()))
    with pytest.raises(dm.InvalidArgument, match="nothing to plan"):
        dm.files.plan(tmp_path / "b.npy")


@pytest.mark.parametrize("output", ["b.zarr", "b.npy"])
def test_the_least_limit_has_an_end(tmp_path, output):
    """Slices to pencils, and chunks to single elements, a few of which fit into memory."""
    said = {"chunks": (2048, 8, 8)} if output == "b.zarr" else {}
    chunks, endian = ((1, 512, 512), "little") if said else ((256, 512, 512), "big")
    zarr.create_array(
        tmp_path / "a.zarr", shape=(2048, 2048, 512), dtype="f8", chunks=chunks,
        serializer={"name": "bytes", "configuration": {"endian": endian}},
    )  # fmt: skip

    def planned(max_bytes):
        return intend(tmp_path / "a.zarr", tmp_path / output, max_bytes=max_bytes, **said)

    scratch_bytes = 0 if said else 4 * 256 * 512 * 512 * 8
    for limit in (1000, scratch_bytes + 8):
        with pytest.raises(dm.NoMemory) as caught:
            planned(limit)
        told = re.search("the least that would do is ([0-9,]+)", str(caught.value))[1]
        least = int(told.replace(",", ""))
        found = planned(least).plan
        assert found.memory_bytes <= least and found.reads <= 1000 * found.source_chunks
        with pytest.raises(dm.NoMemory):
            planned(least - (least - scratch_bytes) // 2)


def test_no_mpi_is_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    code = (
        f"import sys, datamover as dm; dm.files.plan({str(tmp_path / 'a.npy')!r}, nprocs=4); "
        "assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
