# SPDX-License-Identifier: BSD-3-Clause
"""Moves that cannot succeed: one clear line, nothing left behind, everything as it was."""

import errno
import math
import os
import stat
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr
from mpi4py import MPI
from zarr.storage import LocalStore

import datamover as dm
from datamover.files import flat, intend, move, npy, placing

COMM = MPI.COMM_SELF
ARRAY = np.arange(24.0).reshape(4, 6)


@pytest.fixture(autouse=True, params=[None, MPI.COMM_SELF], ids=["alone", "mpi"])
def _either_way(request, monkeypatch):
    """Moves by this process alone, chunk by chunk, and by the processes of a communicator."""
    monkeypatch.setattr(sys.modules[__name__], "COMM", request.param)


@pytest.fixture
def place(tmp_path):
    """A directory with a.npy in it; afterwards nothing hidden may be there."""
    np.save(tmp_path / "a.npy", ARRAY)
    yield tmp_path
    assert [p for p in os.listdir(tmp_path) if p.startswith(".")] == []


def refused(place, error, match, source="a.npy", output="b.npy", **options):
    """Move, expect the error, and see that nothing came or went."""
    before = sorted(os.listdir(place))
    with pytest.raises(error, match=match):
        move(place / source, place / output, comm=COMM, **options)
    assert sorted(os.listdir(place)) == before


def test_missing_input(place):
    refused(place, dm.errors.IoFailed, "no input", source="none.npy")


def test_a_missing_input_that_is_in_a_file_or_group_is_named_as_it_should_be(place):
    with h5py.File(place / "run.h5", "w") as file:
        file["fields/u"] = ARRAY
    zarr.create_group(place / "run.zarr").create_array("u", data=ARRAY)
    for said in ("run.h5/fields/u", "run.h5:fields/u"):
        refused(place, dm.errors.IoFailed, r"no input .*named as .*run\.h5:/fields/u$", source=said)
    for said in ("run.zarr:/u", "run.zarr:u"):
        refused(place, dm.errors.IoFailed, r"no input .*named as .*run\.zarr/u$", source=said)
    refused(
        place,
        dm.errors.IoFailed,
        r"no input .*run\.zarr/v; .*run\.zarr has u$",
        source="run.zarr/v",
    )
    refused(
        place,
        dm.errors.IoFailed,
        r"no input .*/u/v; .*run\.zarr/u is an array, not a group$",
        source="run.zarr/u/v",
    )
    refused(place, dm.errors.InvalidArgument, r"named as .*run\.zarr/v$", output="run.zarr:/v")


def test_a_file_with_another_dataset_is_not_said_to_be_replaced(place):
    with h5py.File(place / "run.h5", "w") as file:
        file["u"] = ARRAY
    refused(
        place,
        dm.errors.IoFailed,
        "with the dataset 'u': datasets cannot be added",
        output="run.h5:/v",
    )
    refused(place, dm.errors.IoFailed, "exists; overwrite=True replaces it", output="run.h5:/u")
    with h5py.File(place / "run.h5", "a") as file:
        file["w"] = ARRAY
    refused(
        place, dm.errors.IoFailed, "'u' and others: datasets cannot be added", output="run.h5:/v"
    )


@pytest.mark.parametrize("keep", [0, 4, 30, 100, 200])
def test_truncated_npy(place, keep):
    whole = (place / "a.npy").read_bytes()
    (place / "short.npy").write_bytes(whole[:keep])
    refused(place, dm.errors.IoFailed, "short.npy", source="short.npy")


def test_foreign_npy(place):
    (place / "x.npy").write_bytes(b"\x89PNG\r\n" + bytes(200))
    refused(place, dm.errors.IoFailed, "not a readable .npy file", source="x.npy")


def test_objects_have_no_bytes(place):
    np.save(place / "o.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    refused(place, dm.errors.Unsupported, "Python objects", source="o.npy")


def test_unknown_kinds(place):
    (place / "x.tif").write_bytes(bytes(100))
    refused(place, dm.errors.IoFailed, "nor HDF5; if it is raw, pass", source="x.tif")
    refused(place, dm.errors.InvalidArgument, "the format of .*b.tif is unknown", output="b.tif")
    refused(place, dm.errors.InvalidArgument, "unknown format", output_format="tiff")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, dm.errors.InvalidArgument, "shape= and dtype="),
        ({"shape": (4, 6)}, dm.errors.InvalidArgument, "pass dtype="),
        ({"dtype": "f8"}, dm.errors.InvalidArgument, "pass shape="),
        ({"shape": (4, 6), "dtype": "f4"}, dm.errors.IoFailed, "192 bytes, but"),
        ({"shape": (5, 6), "dtype": "f8"}, dm.errors.IoFailed, "240"),
        ({"shape": (4, -6), "dtype": "f8"}, dm.errors.InvalidArgument, "negative"),
        ({"shape": (4, 6), "dtype": "f9"}, dm.errors.InvalidArgument, "not a NumPy dtype"),
        ({"shape": (4, 6), "dtype": "O"}, dm.errors.Unsupported, "Python objects"),
    ],
)
def test_raw_has_to_be_described(place, options, error, match):
    (place / "a.raw").write_bytes(ARRAY.tobytes())
    refused(place, error, match, source="a.raw", **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"chunks": (2,)}, "1 dimensions; the output has 2"),
        ({"chunks": (2, 0)}, "must be positive"),
        ({"chunks": (2, -1)}, "must be positive"),
        ({"chunks": (10**6, 10**13)}, "bytes or more"),
        ({"chunks": (2, 3), "shards": (4, 4)}, "not multiples"),
        ({"compressor": "lzma"}, "unknown compressor"),
        ({"axes": (0, 0)}, "not a permutation"),
        ({"axes": (0, 1, 2)}, "not a permutation"),
        ({"max_bytes": 0}, "must be positive"),
        ({"max_bytes": 2**63}, "below 2\\*\\*63"),
    ],
)
def test_options_that_do_not_fit(place, options, match):
    refused(place, dm.errors.InvalidArgument, match, output="b.zarr", **options)


@pytest.mark.parametrize("limit", [math.nan, math.inf, 1e9, "1G", None])
def test_a_limit_of_memory_that_is_no_integer(place, limit):
    refused(place, dm.errors.WrongType, "max_bytes", output="b.zarr", max_bytes=limit)


def test_too_little_memory_for_a_chunk(place):
    refused(place, dm.errors.NoMemory, "max_bytes=", output="b.zarr", chunks=(4, 6), max_bytes=100)


def test_dtypes_that_zarr_has_not(place):
    np.save(place / "v.npy", np.zeros(3, np.longdouble))
    refused(place, dm.errors.Unsupported, "Zarr cannot hold", source="v.npy", output="b.zarr")


def test_foreign_zarr(place):
    zarr.create_group(place / "g.zarr").create_array("inner", shape=(2,), dtype="f8")
    named = f"group; name one of its arrays, as {place}/g.zarr/inner: inner$"
    refused(place, dm.errors.IoFailed, named, source="g.zarr")
    (place / "bad.zarr").mkdir()
    without = r"a directory without zarr.json or .zarray or .zgroup: no Zarr array$"
    refused(place, dm.errors.IoFailed, without, source="bad.zarr")
    (place / "bad.zarr" / "zarr.json").write_text("{not json")
    refused(place, dm.errors.IoFailed, "not a readable Zarr array", source="bad.zarr")


def test_arrays_of_a_group_are_named_as_far_as_they_are_few(place):
    group = zarr.create_group(place / "g.zarr")
    refused(place, dm.errors.IoFailed, "group; there is no array in it$", source="g.zarr")
    for name in ("x", "fields/b", "a"):
        group.create_array(name, shape=(2,), dtype="f8")
    refused(place, dm.errors.IoFailed, "g.zarr/a: a, fields/b, x$", source="g.zarr")
    move(place / "g.zarr" / "fields" / "b", place / "b.npy", comm=COMM)
    for k in range(9):
        group.create_array(f"y{k}", shape=(2,), dtype="f8")
    refused(place, dm.errors.IoFailed, "x, y0, .*, y6, and 2 more$", source="g.zarr")


def test_an_option_that_there_is_not(place):
    words = "no option 'chunk'; there are shape, .*chunks, .*output_member$"
    refused(place, dm.errors.InvalidArgument, words, chunk=(2, 2))
    with pytest.raises(dm.errors.InvalidArgument, match=words):
        intend(place / "a.npy", place / "b.npy", chunk=(2, 2))


def test_broken_chunk(place):
    array = zarr.create_array(place / "z.zarr", shape=(8,), chunks=(4,), dtype="f8")
    array[...] = np.arange(1.0, 9.0)
    (place / "z.zarr" / "c" / "1").write_bytes(b"garbage")
    refused(place, dm.errors.IoFailed, "cannot be read in chunk c/1: ", source="z.zarr")


def test_output_exists(place):
    (place / "b.npy").write_text("old")
    refused(place, dm.errors.IoFailed, "overwrite=True")
    assert (place / "b.npy").read_text() == "old"
    move(place / "a.npy", place / "b.npy", overwrite=True, comm=COMM)
    assert np.array_equal(np.load(place / "b.npy"), ARRAY)


def test_a_directory_that_is_no_store_is_never_replaced(place):
    (place / "b.zarr").mkdir()
    (place / "b.zarr" / "thesis.txt").write_text("precious")
    refused(place, dm.errors.IoFailed, "not a Zarr store", output="b.zarr", overwrite=True)
    assert (place / "b.zarr" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_never_replaced(place, linked):
    pipe = place / "pipe.npy"
    os.mkfifo(pipe)
    if linked:
        (place / "link.npy").symlink_to(pipe)
    output = "link.npy" if linked else "pipe.npy"
    refused(place, dm.errors.IoFailed, "is not replaced", output=output, overwrite=True)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.parametrize("output", ["/dev/zero", "/dev/null", "/proc/self/fd/b.npy"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_the_system_makes_up_is_no_output(place, output, overwrite):
    with pytest.raises(dm.errors.IoFailed) as caught:
        move(place / "a.npy", output, output_format="npy", overwrite=overwrite)
    message = str(caught.value)
    assert message.startswith(output) and "partial" not in message
    assert len(message.splitlines()) == 1


def test_a_pipe_of_the_shell_is_no_output(place):
    command = [sys.executable, "-m", "datamover.cli", "move", "a.npy", "/dev/stdout"]
    done = subprocess.run(
        [*command, "--format", "npy"], cwd=place, capture_output=True, text=True, check=False
    )
    said = "error: /dev/stdout is a device, a pipe or a socket: it is not replaced\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("name", ["b.npy", "b.raw", "b.h5", "b.zarr", "c/b.npy"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nothing_goes_into_an_array_of_zarr(place, name, zarr_format):
    move(place / "a.npy", place / "old.zarr", zarr_format=zarr_format)
    (place / "old.zarr" / "c").mkdir(exist_ok=True)
    before = sorted(place.rglob("*"))
    with pytest.raises(dm.errors.InvalidArgument, match="is a Zarr array: nothing"):
        move(place / "a.npy", place / "old.zarr" / name)
    assert sorted(place.rglob("*")) == before
    assert np.array_equal(zarr.open(place / "old.zarr")[...], np.load(place / "a.npy"))


def test_input_and_output_must_differ(place):
    refused(place, dm.errors.InvalidArgument, "the same", output="a.npy", overwrite=True)
    (place / "link.npy").symlink_to("a.npy")
    refused(place, dm.errors.InvalidArgument, "the same", output="link.npy", overwrite=True)
    (place / "hard.npy").hardlink_to(place / "a.npy")
    refused(place, dm.errors.InvalidArgument, "the same", output="hard.npy", overwrite=True)
    move(place / "a.npy", place / "z.zarr", comm=COMM)
    refused(
        place,
        dm.errors.InvalidArgument,
        "one is inside the other",
        source="z.zarr",
        output="z.zarr/b.npy",
    )


@pytest.mark.parametrize("output", ["b.npy", "b.zarr", "b.h5:/u"])
def test_a_name_that_is_too_long(place, caplog, output):
    longest = os.pathconf(place, "PC_NAME_MAX")
    with pytest.raises(dm.errors.IoFailed, match="is too long: the limit here is"):
        move(place / "a.npy", place / ("é" * (longest // 2 - 8) + output), comm=COMM)
    assert not caplog.records
    move(place / "a.npy", place / ("b" * (longest - 40) + output), comm=COMM)


def test_no_such_directory(place):
    refused(place, dm.errors.IoFailed, "no directory", output="sub/b.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_that_cannot_be_written(place):
    (place / "closed").mkdir(mode=0o555)
    refused(place, dm.errors.IoFailed, "cannot be written", output="closed/b.npy")


def test_directory_that_access_refuses(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(place, dm.errors.IoFailed, "cannot be written")


def full(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("output", ["b.npy", "b.raw"])
def test_full_disk_shows_when_space_is_reserved(place, monkeypatch, output):
    monkeypatch.setattr(os, "posix_fallocate", full)
    refused(place, dm.errors.IoFailed, "not enough space", output=output)


@pytest.mark.parametrize("step", ["pwritev", "fsync", "replace"])
def test_failure_at_any_step_keeps_the_old_file(place, monkeypatch, step):
    (place / "b.npy").write_text("old")
    monkeypatch.setattr(os, step, full)
    refused(place, dm.errors.IoFailed, "No space left|not enough space", overwrite=True)
    assert (place / "b.npy").read_text() == "old"


def test_failure_while_chunks_are_written(place, monkeypatch):
    def set_metadata(store, key, value, set_any=LocalStore.set):
        return set_any(store, key, value) if key == "zarr.json" else full()

    def write_chunk(fd, data, write=os.write):
        return write(fd, data) if b"zarr_format" in data else full()

    monkeypatch.setattr(LocalStore, "set", set_metadata)
    monkeypatch.setattr(os, "write", write_chunk)  # of chunks that zarr-python does not write
    refused(place, dm.errors.IoFailed, "not enough space in .* needs 192 bytes", output="b.zarr")


def test_unexpected_errors_go_on_as_they_are(place, monkeypatch):
    monkeypatch.setattr(flat.FlatFile, "read", lambda *a: 1 / 0)
    refused(place, ZeroDivisionError, "division")
    monkeypatch.setattr(npy, "_header", lambda *a: 1 / 0)
    refused(place, ZeroDivisionError, "division")


def test_interruption_leaves_nothing(place, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(placing, "place", interrupt)
    refused(place, KeyboardInterrupt, None)
