# SPDX-License-Identifier: BSD-3-Clause
"""Virtual datasets of HDF5 as inputs: read as one array, refused if a part is missing or broken."""

import os
import shutil

import h5py
import numpy as np
import pytest

import datamover as dm
from datamover.files import move


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("DATAMOVER_TEST_SEED", "11")))


@pytest.fixture
def place(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(7.0 * 30).reshape(7, 30))
    return tmp_path


def read(path, name="u"):
    with h5py.File(path) as file:
        return file[name][...]


def store(place, array, count, **said):
    """Write b.h5, whose dataset u has its rows in so many other files."""
    layout = h5py.VirtualLayout(array.shape, array.dtype)
    bounds = [len(array) * k // count for k in range(count + 1)]
    (place / "parts").mkdir()
    for k in range(count):
        part = array[bounds[k] : bounds[k + 1]]
        with h5py.File(place / f"parts/{k}.h5", "w") as file:
            file.create_dataset("u", data=part, **said)
        layout[bounds[k] : bounds[k + 1]] = h5py.VirtualSource(f"parts/{k}.h5", "u", part.shape)
    with h5py.File(place / "b.h5", "w") as file:
        file.create_virtual_dataset(
            "u", layout, fillvalue=np.nan if array.dtype.kind == "f" else None
        )


@pytest.mark.parametrize("dtype", ["f4", ">i2", "u1", "c16", "S5", [("a", "i1"), ("b", "<f8")]])
@pytest.mark.parametrize("said", [{}, {"chunks": (2, 3), "compression": "gzip"}], ids=str)
def test_several_files_are_read_as_one_array(tmp_path, rng, dtype, said):
    dtype = np.dtype(dtype)
    array = rng.integers(1, 100, 9 * 11 * dtype.itemsize, "u1").view(dtype).reshape(9, 11)
    store(tmp_path, array, 3, **said)
    move(f"{tmp_path}/b.h5:/u", tmp_path / "c.npy", max_bytes=1 << 16)
    assert np.load(tmp_path / "c.npy").tobytes() == array.tobytes()
    move(f"{tmp_path}/b.h5:/u", tmp_path / "d.npy", axes=(1, 0))
    assert np.load(tmp_path / "d.npy").tobytes() == array.T.tobytes()


def test_an_input_of_several_files_is_read_in_large_pieces(place, rng):
    array = rng.integers(0, 200, (120, 110, 100)).astype("u1")  # a bit more than one piece
    store(place, array, 3)
    report = move(f"{place}/b.h5:/u", place / "c.npy", check="crc32c")
    assert 2 <= report.reads <= 8
    np.testing.assert_array_equal(np.load(place / "c.npy"), array)
    move(f"{place}/b.h5:/u", place / "d.npy", region=dm.Region((7, 0, 3), (90, 110, 99)))
    np.testing.assert_array_equal(np.load(place / "d.npy"), array[7:90, :, 3:99])
    slices = (slice(7, 90), slice(None), slice(3, -1))
    move(f"{place}/b.h5:/u", place / "d.npy", region=slices, overwrite=True)
    np.testing.assert_array_equal(np.load(place / "d.npy"), array[slices])


@pytest.mark.parametrize(
    "region", [3, (slice(0, 4, 2), slice(None)), ((0, 1, 2), (0, 1)), ("a", "b")]
)
def test_what_is_no_region_is_refused(place, region):
    with pytest.raises(dm.errors.InvalidArgument, match=r"region is .*must be a datamover\.Region"):
        move(place / "a.npy", place / "b.npy", region=region)


def test_a_file_that_is_missing_or_broken_is_an_error(place):
    """HDF5 itself reads fill values there."""
    store(place, np.load(place / "a.npy"), 3)
    part = place / "parts/1.h5"
    shutil.copy(part, place / "whole.h5")
    os.truncate(part, part.stat().st_size - 9)
    with pytest.raises(dm.errors.IoFailed, match=r"1\.h5"):
        move(f"{place}/b.h5:/u", place / "c.npy")
    os.unlink(part)
    assert np.isnan(read(place / "b.h5")).any()
    with pytest.raises(dm.errors.IoFailed, match=r"file parts/1\.h5 is missing"):
        move(f"{place}/b.h5:/u", place / "c.npy")
    with h5py.File(part, "w") as file:
        file["other"] = 1
    with pytest.raises(dm.errors.IoFailed, match="u is missing in the file"):
        move(f"{place}/b.h5:/u", place / "c.npy")
    shutil.copy(place / "whole.h5", part)
    move(f"{place}/b.h5:/u", place / "c.npy")
    np.testing.assert_array_equal(np.load(place / "c.npy"), np.load(place / "a.npy"))


@pytest.mark.parametrize("names", [[("a.h5", "u")], [(".", "u")], [("b.h5", "v"), ("a.h5", "/u")]])
def test_a_virtual_dataset_of_itself_is_an_error(tmp_path, names):
    """HDF5 goes through it until its stack is at its end."""
    files = [("a.h5", "u"), ("b.h5", "v")]
    for (file_name, name), (leads_to, member) in zip(files, names, strict=False):
        with h5py.File(tmp_path / file_name, "w") as file:
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource(leads_to, member, (4,))
            file.create_virtual_dataset(name, layout)
    with pytest.raises(dm.errors.IoFailed, match="leads to itself"):
        move(f"{tmp_path}/a.h5:/u", tmp_path / "c.npy")
