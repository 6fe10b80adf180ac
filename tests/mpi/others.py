# SPDX-License-Identifier: BSD-3-Clause
"""Arrays for the tests of files, and reading of files by NumPy, zarr-python and h5py."""

import h5py
import numpy as np
import zarr

from datamover.files import move_job, move_plan


def stored(name, like=None):
    """The array of a file; `like` says dtype and shape of one of raw bytes."""
    if name.endswith(".npy"):
        return np.load(name)
    if name.endswith(".raw"):
        return np.fromfile(name, like.dtype).reshape(like.shape)
    if name.endswith(".zarr"):
        return zarr.open_array(name, mode="r")[...]
    path, member = name.split(":/")
    with h5py.File(path, "r") as file:
        return file[member][()]


def drawn_input(comm, rng, place, way, dtypes):
    """Write a random a.zarr, for `way` passes; chunks are crossed if they are two. Collective.

    Returns the array, its chunks, those wanted of the output, and the order of its dimensions.
    """
    shape = tuple(int(n) for n in rng.integers(3, 14, 3))
    array = rng.integers(0, 1000, shape).astype(rng.choice(dtypes))
    # Whole planes to whole columns: every process needs every chunk.
    chunks = (1, *shape[1:]) if way == "two" else tuple(rng.integers(1, 5, 3).tolist())
    if comm.rank == 0:
        zarr.create_array(f"{place}/a.zarr", data=array, chunks=chunks, overwrite=True)
    comm.barrier()
    wanted = (shape[0], 1, 1) if way == "two" else tuple(rng.integers(1, 5, 3).tolist())
    axes = (0, 1, 2) if way == "two" else tuple(rng.permutation(3).tolist())
    return array, chunks, wanted, axes


def go_in_passes(monkeypatch, way):
    """Have moves go in one pass, or in two if memory allows."""
    two_passes = move_plan._two_passes
    if way == "one":
        monkeypatch.setattr(move_plan, "_two_passes", lambda *_: None)
        return

    def plan_move(source, sink, limits, room):
        found = two_passes(source, sink, limits)
        return found or move_plan.plan_move(source, sink, limits, room)

    monkeypatch.setattr(move_job, "plan_move", plan_move)


def least_reads(array, chunks):
    """How many chunks there are."""
    return np.prod([-(-n // c) for n, c in zip(array.shape, chunks, strict=True)])
