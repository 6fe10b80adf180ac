# SPDX-License-Identifier: BSD-3-Clause
"""Do processes that move a file together write it whole, and tell of exactly what each does?"""

import os

import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import move


@pytest.mark.parametrize("case", range(8))
def test_progress_ends_at_the_bytes_that_were_promised(comm, rng, place, case):
    shape = tuple(int(n) for n in rng.integers(1, 12, 3))
    chunks = tuple(int(n) for n in rng.integers(1, 6, 3))
    axes = tuple(int(a) for a in rng.permutation(3))
    array = rng.integers(0, 1000, shape).astype("i4")
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    promised, told = [], []

    def progress(total):
        promised.append(total)
        return told.append

    max_bytes = int(rng.choice([4 * 2 * 125 * 2, 1 << 20]))
    move(
        comm, f"{place}/a.npy", f"{place}/b.zarr", chunks=chunks, axes=axes,
        max_bytes=max_bytes, progress=progress,
    )  # fmt: skip
    assert promised == [sum(told)]
    assert comm.allreduce(sum(told)) == 2 * array.nbytes
    stored = zarr.open_array(f"{place}/b.zarr", mode="r")[...]
    np.testing.assert_array_equal(stored, array.transpose(axes))


def test_a_failure_on_one_process_leaves_nothing(comm, place, monkeypatch):
    array = np.arange(4.0 * 600).reshape(60, 40)
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    if comm.rank == comm.size - 1:
        from zarr.storage import LocalStore

        def full(store, key, value):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(LocalStore, "set", full)
    with pytest.raises(dm.IoError, match=r"not enough space in .* needs 19,200 bytes"):
        move(comm, f"{place}/a.npy", f"{place}/b.zarr", chunks=(5, 5))
    comm.barrier()
    assert os.listdir(place) == ["a.npy"]
    comm.barrier()
