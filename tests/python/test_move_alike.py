# SPDX-License-Identifier: BSD-3-Clause
"""Joined HDF5 files that store nearly the same: what HDF5 does not open, and what must be found."""

import gc
import os
import shutil
import subprocess
import sys
import weakref

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import MoveOptions, hdf5, hdf5_alike, joined, move

CHUNKS = {"one": (1, 3), "several": (1, 2), None: None}


def write(path, k, days=1, chunks=None, **more):
    """Write `days` rows of u, and t, from k on, with a fixed x."""
    with h5py.File(path, "w") as file:
        rows = np.arange(3.0 * k, 3.0 * (k + days)).reshape(days, 3)
        grows = {"chunks": chunks, "maxshape": (None, 3)} if chunks else {}
        file.create_dataset("u", data=rows, **grows, **more)
        for name, values in (("t", np.arange(k, k + days, dtype="f8")), ("x", np.arange(3.0))):
            file[name] = values
            file[name].make_scale(name)
        file["t"].attrs["units"] = np.bytes_("days since 2001-01-01")
        file["u"].attrs["units"] = "K"
        for dim, name in zip(file["u"].dims, "tx", strict=True):
            dim.attach_scale(file[name])


def files(tmp_path, count=6, **said):
    paths = [str(tmp_path / f"{k:02}.h5") for k in range(count)]
    for k, path in enumerate(paths):
        write(path, k, **said)
    return paths


def check(output, count):
    found = zarr.open_group(output, mode="r")
    np.testing.assert_array_equal(found["u"][:], np.arange(3.0 * count).reshape(count, 3))
    np.testing.assert_array_equal(found["t"][:], np.arange(float(count)))


@pytest.fixture
def opened(monkeypatch):
    """The paths that HDF5 opens."""
    found, by_hdf5 = [], hdf5.open_file
    monkeypatch.setattr(
        hdf5, "open_file", lambda path, *more: found.append(path) or by_hdf5(path, *more)
    )
    return found


@pytest.mark.parametrize("chunks", CHUNKS)
def test_twins_are_not_opened_by_hdf5(tmp_path, opened, chunks):
    paths = files(tmp_path, chunks=CHUNKS[chunks])
    move(paths, tmp_path / "out.zarr", along="t")
    check(tmp_path / "out.zarr", 6)
    assert set(opened) == {paths[0]}


@pytest.mark.parametrize("more", [{"compression": "gzip"}, {"fillvalue": 7.0}, {}])
def test_other_files_are_opened_once(tmp_path, opened, more):
    paths = files(tmp_path, chunks=(1, 3), **more)
    for k, path in enumerate(paths):
        with h5py.File(path, "r+") as file:
            file.attrs["history"] = "x" * (k + 1)
    move(paths, tmp_path / "out.zarr", along="t")
    check(tmp_path / "out.zarr", 6)
    assert all(opened.count(path) == 1 for path in paths[1:])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("x", lambda file: file["x"].write_direct(np.array([0.0, 1.0, 5.0])), "other elements"),
        ("u", lambda file: file["u"].attrs.modify("units", "C"), "units"),
        ("u", lambda file: file["u"].attrs.create("_FillValue", 3.0), "_FillValue 3.0"),
        ("t", lambda file: file["t"].write_direct(np.array([1.0])), "overlap"),
        ("u", lambda file: file["u"].dims[1].detach_scale(file["x"]), "dimensions"),
        ("w", lambda file: file.move("u", "w"), "has no"),
    ],
)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_what_differs_in_one_file_is_found(tmp_path, name, change, words, chunks):
    paths = files(tmp_path, chunks=CHUNKS[chunks])
    with h5py.File(paths[3], "r+") as file:
        change(file)
    with pytest.raises(dm.errors.Error, match=words) as told:
        move(paths, tmp_path / "out.zarr", along="t")
    assert paths[3] in str(told.value) and name in str(told.value)


def test_chunks_of_other_extents_and_lengths(tmp_path):
    paths, begin = [], 0
    for k, (days, rows) in enumerate([(2, 1), (3, 3), (2, 2), (2, 1), (3, 1)]):
        paths.append(str(tmp_path / f"{k}.h5"))
        write(paths[-1], begin, days, (rows, 2), compression="gzip" if k % 2 else None)
        begin += days
    move(paths, tmp_path / "out.zarr", along="t", chunks=(5, 2))
    check(tmp_path / "out.zarr", begin)


def test_other_names_and_links_are_told_apart(tmp_path):
    paths = files(tmp_path)
    for path in paths:
        with h5py.File(path, "r+") as file:
            file["again"] = file["u"]
            file["soft"] = h5py.SoftLink("/u")
            file.create_group("inner")["loop"] = file["/"]
    move(paths, tmp_path / "out.zarr", along="t")
    check(tmp_path / "out.zarr", 6)
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")
    np.testing.assert_array_equal(found["again"][:], found["u"][:])


@pytest.mark.parametrize("history", [False, True])
def test_a_file_that_changes_after_it_was_compared_is_refused(tmp_path, monkeypatch, history):
    paths = files(tmp_path)
    if history:  # no twin
        with h5py.File(paths[4], "r+") as file:
            file.attrs["history"] = "x"
    compare = hdf5_alike.Alike.twin

    def changed(self, path):
        if path == paths[5]:
            write(paths[4], 17)
        return compare(self, path)

    monkeypatch.setattr(hdf5_alike.Alike, "twin", changed)
    with pytest.raises(dm.errors.IoFailed, match="has changed since the move began") as told:
        move(paths, tmp_path / "out.zarr", along="t")
    assert paths[4] in str(told.value)


def test_a_twin_that_is_being_written_is_refused(tmp_path):
    paths = files(tmp_path)
    program = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
    command = [sys.executable, "-c", program, paths[3]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(dm.errors.IoFailed, match="lock") as told:
            move(paths, tmp_path / "out.zarr", along="t")
        writer.communicate(b"\n")
    assert paths[3] in str(told.value)


def test_an_array_is_freed_without_the_garbage_collector(tmp_path):
    spec = joined.ArraySpec((1, 3), np.dtype("f8"))
    (path,) = files(tmp_path, 1)
    part = joined.Part(path, 1, lambda options: hdf5_alike.hdf5_format.open_dataset(path, "u"))
    gc.disable()
    try:
        array = joined.JoinedArray("u", [part], 0, spec, MoveOptions(max_bytes=1 << 20))
        gone = weakref.ref(array)
        del array
        assert gone() is None
    finally:
        gc.enable()


def test_the_state_of_a_file_is_the_same_on_all_nodes(tmp_path):
    """Nodes number their devices each in its own way, and a copy is another file."""
    path, copy = tmp_path / "a.h5", tmp_path / "copy.h5"
    write(path, 0)
    shutil.copy2(path, copy)
    assert os.stat(path).st_ino != os.stat(copy).st_ino
    assert hdf5_alike._stamp(os.stat(path)) == hdf5_alike._stamp(os.stat(copy))


@pytest.mark.parametrize("end", ["h5", "zarr"])
@pytest.mark.parametrize(
    "value", ["text", np.bytes_("text"), np.arange(3), [["a"]], h5py.Empty("f8")], ids=str
)
def test_an_attribute_with_the_name_of_scales_is_none_of_theirs(tmp_path, value, end):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3)
        file["u"].attrs["DIMENSION_LIST"] = value
    move(tmp_path / "a.h5", tmp_path / f"b.{end}")
    if end == "h5":
        with h5py.File(tmp_path / "b.h5") as file:
            assert file["u"][:].tolist() == [0, 1, 2]
    else:
        assert zarr.open_group(tmp_path / "b.zarr")["u"][:].tolist() == [0, 1, 2]
