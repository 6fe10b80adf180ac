# SPDX-License-Identifier: BSD-3-Clause
"""Moves of HDF5 files at addresses: as h5py reads them locally, complete or not at all."""

import functools
import gc
import os
import random
import shutil
import subprocess
import sys
import typing

import h5py
import numpy as np
import pytest
import zarr
from loopback import Ranges, Silent, serving
from mpi4py import MPI
from test_move_whole_hdf5 import check_same_files

import datamover as dm
from datamover.files import addresses, intend, move

pytest.importorskip("obstore")
SHAPE = (30, 41, 23)
KINDS = {
    "contiguous": {},
    "chunked": {"chunks": (7, 8, 23)},
    "shuffled": {"chunks": (7, 8, 9), "compression": "gzip", "shuffle": True},
    "of_h5py": {"chunks": (7, 8, 9), "compression": "lzf", "fletcher32": True},
}


def values(dtype="f8"):
    return np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(dtype)


@pytest.fixture
def made(tmp_path):
    """A directory to be served, with run.h5 in it."""
    place = tmp_path / "served"
    place.mkdir()
    with h5py.File(place / "run.h5", "w") as file:
        file.attrs["title"] = "a run"
        for k, (name, said) in enumerate(KINDS.items()):
            made = file.create_dataset(f"fields/deep/{name}", data=values() + k, **said)
            made.attrs["units"] = "m"
            made.dims[0].label = "z"
        file["fields"].attrs["of"] = np.arange(3)
        file["fields/big"] = values(">i2")
        file["none"] = np.zeros((0, 4))
        file["one"] = 7.5
        part = file.create_dataset("part", (50, 50), "f4", chunks=(20, 20), fillvalue=3)
        part[25:30, 25:30] = np.arange(25).reshape(5, 5)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_INT32, space, dcpl=plist)
        file["compact"][...] = np.arange(5)
        file["again"] = file["fields/big"]
        file["soft"] = h5py.SoftLink("/part")
    return place


def assert_same(path, group):
    """Compare all that h5py finds in a file, with a group of Zarr."""
    names, found = [], []
    with h5py.File(path) as file:
        assert dict(group.attrs) == dict(file.attrs)
        # Compared later: h5py holds its lock meanwhile, for which zarr's thread may wait where
        # Python has it destroy one of h5py's objects.
        file.visit(names.append)
        for name in names:
            there, held = group[name], file[name]
            assert {k: v for k, v in there.attrs.items()} == {
                k: np.asarray(v).tolist() for k, v in held.attrs.items() if k != "DIMENSION_LABELS"
            }
            if isinstance(held, h5py.Dataset):
                found.append(name)
                assert there.dtype == held.dtype.newbyteorder("=")  # zarr tells the order apart
                np.testing.assert_array_equal(there[...], held[...])
    assert len(found) == 9


def command(*words, nprocs=None):
    said = () if nprocs is None else ("-n", str(nprocs))
    return subprocess.run(
        [sys.executable, "-m", "datamover", "move", *said, *words],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def some_of(first, last):
    """Give both, and some between."""
    between = range(first + 1, last)
    return [first, *random.sample(between, min(6, len(between))), last]


def test_a_whole_file(made, tmp_path, caplog):
    with serving(made, Ranges) as server:
        address = f"{server}/run.h5"
        intention = intend(address, tmp_path / "a.zarr")
        assert set(intention.members) > {"fields/deep/shuffled", "none", "one", "again"}
        report = move(address, tmp_path / "a.zarr", check="crc32c")
    assert_same(made / "run.h5", zarr.open_group(tmp_path / "a.zarr", mode="r"))
    assert report.bytes > 5 * values().nbytes / 2 and "/soft is left out" in caplog.text


def test_a_state_is_loaded(made):
    """Arrays in each way in which elements are stored, values and the title."""
    columns = dm.BlockCyclic(SHAPE, "(*, cyclic(3), *)", nprocs=1)
    targets = {f"fields/deep/{name}": columns for name in KINDS} | {"part": None, "none": None}
    with serving(made, Ranges) as server:
        found = dm.load(f"{server}/run.h5", targets, comm=MPI.COMM_SELF)
        with pytest.raises(dm.errors.IoFailed, match="no array 'soft'"):
            dm.load(f"{server}/run.h5", {"soft": None}, comm=MPI.COMM_SELF)
    for k, name in enumerate(KINDS):
        np.testing.assert_array_equal(found[f"fields/deep/{name}"].local, values() + k)
    assert found["part"][27, 26] == 11 and found["part"][0, 0] == 3
    assert found["none"].shape == (0, 4) and found["one"] == 7.5 and found["title"] == "a run"


def test_a_whole_file_to_hdf5(made, tmp_path, caplog):
    with serving(made, Ranges) as server:
        assert intend(f"{server}/run.h5", tmp_path / "a.h5").files == 1
        move(f"{server}/run.h5", tmp_path / "a.h5", check="crc32c")
    check_same_files(made / "run.h5", tmp_path / "a.h5")
    assert [record.getMessage().rsplit(": ", 1)[-1] for record in caplog.records] == [
        "the checksums of its chunks are left out"
    ]


def test_in_a_bucket(made, bucket, tmp_path):
    """By the command, which finds the server in its environment, on one and several processes."""
    import obstore

    data = (made / "run.h5").read_bytes()
    obstore.put(obstore.store.from_url(bucket), "runs/a run.h5", data)
    address = f"{bucket}/runs/a run.h5"
    assert set(intend(address, tmp_path / "a.zarr").members) > {"fields/deep/shuffled", "one"}
    assert move(address, tmp_path / "a.zarr", check="crc32c").bytes > 2 * values().nbytes
    assert_same(made / "run.h5", zarr.open_group(tmp_path / "a.zarr", mode="r"))
    member = "fields/deep/shuffled"
    done = command(f"{address}:/{member}", f"{bucket}/b.zarr", "--chunks", "9,9,9", nprocs=2)
    assert done.returncode == 0, done.stderr
    move(f"{bucket}/b.zarr", tmp_path / "b.npy")
    move(address, tmp_path / "c.npy", member=member, region=((3, 9), (None, None), (0, 2)))
    with h5py.File(made / "run.h5") as file:
        np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), file[member][...])
        np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), file[member][3:9, :, 0:2])
    for name in ("runs/none.h5", "runs"):
        with pytest.raises(dm.Error) as caught:
            move(f"{bucket}/{name}", tmp_path / "d.npy", member=member)
        assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.npy", "c.npy", "served"]


def test_by_processes_of_the_command(made, tmp_path):
    with serving(made, Ranges) as server:
        address = f"{server}/run.h5"
        done = command(address, tmp_path / "a.zarr", nprocs=2)
        assert done.returncode == 0, done.stderr
        assert_same(made / "run.h5", zarr.open_group(tmp_path / "a.zarr", mode="r"))
        member = "fields/deep/shuffled"
        done = command(f"{address}:/{member}", tmp_path / "b.npy", "--axes", "2,0,1", nprocs=2)
        assert done.returncode == 0, done.stderr
        before = sorted(os.listdir(tmp_path))
        done = command(f"{address}:/{member}", tmp_path / "c.zarr", "--dry-run")
        assert done.returncode == 0 and "30 x 41 x 23" in done.stdout
        done = command(f"{address}:/{member}x", tmp_path / "c.zarr", nprocs=2)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    with h5py.File(made / "run.h5") as file:
        expected = file[member][...].transpose(2, 0, 1)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), expected)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_array_and_parts_of_it(made, tmp_path, kind):
    member = f"fields/deep/{kind}"
    with h5py.File(made / "run.h5") as file:
        expected = file[member][...]
    rows = dm.BlockCyclic(SHAPE, "(block, *, *)", nprocs=1)
    got = np.zeros_like(expected)
    with serving(made, Ranges) as server:
        address = f"{server}/run.h5:/{member}"
        move(address, tmp_path / "a.zarr", axes=(1, 0, 2), chunks=(10, 7, 23), check="crc32c")
        region = ((5, 17), (None, None), (-9, None))
        move(address, tmp_path / "b.npy", region=region, output_dtype="f4")
        with dm.files.open(address, rows, comm=MPI.COMM_SELF) as f:
            dm.Mover(dm.redistribute(rows, rows), f, got)()
        move(address, tmp_path / "c.h5", chunks=(9, 9, 9))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(array[...], expected.transpose(1, 0, 2))
    assert array.metadata.dimension_names == (None, "z", None) and array.attrs["units"] == "m"
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), expected[5:17, :, -9:].astype("f4"))
    np.testing.assert_array_equal(got, expected)
    with h5py.File(tmp_path / "c.h5") as file:
        np.testing.assert_array_equal(file[member][...], expected)


@pytest.mark.parametrize("name", ["/fields/deep/{}", "fields//deep/{}", "./fields/deep/./{}/"])
def test_names_may_be_written_as_paths_are(made, tmp_path, name):
    kind = next(iter(KINDS))
    with h5py.File(made / "run.h5") as file:
        expected = file[f"fields/deep/{kind}"][...]
    member = name.format(kind)
    with serving(made, Ranges) as server:
        for source in (made / "run.h5", f"{server}/run.h5"):
            move(source, tmp_path / "a.npy", member=member, overwrite=True)
            np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


@pytest.mark.parametrize("said", [{}, {"chunks": (1, 1 << 18)}], ids=["contiguous", "chunked"])
def test_of_a_region_only_its_bytes_are_asked_for(tmp_path, monkeypatch, said):
    monkeypatch.setattr(Ranges, "asked", [])
    array = np.arange(32 << 18, dtype="i4").reshape(32, 1 << 18)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("u", data=array, **said)
    with serving(tmp_path, Ranges) as server:
        move(f"{server}/a.nc", tmp_path / "b.npy", region=((7, 9), (None, None)))
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array[7:9])
    assert sum(Ranges.asked) < array.nbytes // 8 and len(Ranges.asked) < 20


def test_small_blocks_that_are_forgotten(made, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "BLOCK_BYTES", 100)
    monkeypatch.setattr(addresses, "KEPT_BLOCKS", 2)
    with serving(made, Ranges) as server:
        move(f"{server}/run.h5", tmp_path / "a.zarr")
    assert_same(made / "run.h5", zarr.open_group(tmp_path / "a.zarr", mode="r"))


def test_the_garbage_collector_is_off_only_during_requests():
    """A thread that answers one must not wait for h5py, which waits for the answer."""
    content = random.Random(0).randbytes(3 * addresses.BLOCK_BYTES)
    seen = []

    class Kept(addresses.AddressBlocks):
        def __init__(self):
            self.size, self._kept = len(content), functools.cache(self._fetched)

        def read(self, begin, end):
            seen.append(("asked", gc.isenabled()))
            return memoryview(content)[begin:end]

        def block(self, number):
            found = self._kept(number)
            seen.append(("copied", gc.isenabled()))
            return found

    file, out = addresses.AddressFile(Kept()), bytearray(100)
    for _ in range(2):
        file.seek(50)
        assert file.readinto(out) == 100 and out == content[50:150]
    assert seen == [("asked", False), ("copied", True), ("copied", True)]
    seen.clear()
    whole = bytearray(len(content))
    file.seek(0)
    assert file.readinto(whole) == len(content) and whole == content
    assert seen == [("asked", False)] and gc.isenabled()
    gc.disable()
    try:
        file.seek(0)
        file.readinto(whole)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.fixture
def hostile(made):
    whole = (made / "run.h5").read_bytes()
    for name, data in {
        "short.h5": whole[:-9000],
        "begun.h5": whole[:40],
        "foreign.h5": b"no header" * 999,
        "empty.h5": b"",
    }.items():
        (made / name).write_bytes(data)
    source = h5py.VirtualSource(made / "run.h5", "part", (50, 50))
    layout = h5py.VirtualLayout((50, 50), "f4")
    layout[...] = source
    (made / "raw").write_bytes(bytes(80))
    with h5py.File(made / "others.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (10,), "f8", external=[(str(made / "raw"), 0, 80)])
        file["link"] = h5py.ExternalLink(str(made / "run.h5"), "/part")
        file["soft"] = h5py.SoftLink("/link")
        file.create_dataset("group/lists", (2,), h5py.vlen_dtype("i4"))
        file["null"] = h5py.Empty("f4")
    return made


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("short.h5", "truncated"), ("begun.h5", "not a readable HDF5 file"),
        ("foreign.h5", "not a readable HDF5 file"), ("empty.h5", "not a readable HDF5 file"),
        ("missing.h5", "cannot be read"),
        ("run.h5:/nothing", "no dataset"), ("run.h5:/part/x", "no dataset"),
        ("run.h5:/fields", "is a group"), ("run.h5:/soft", "link"),
        ("others.h5:/virtual", "other files"), ("others.h5:/raw", "other files"),
        ("others.h5:/link", "link"), ("others.h5:/soft", "link"),
        ("others.h5:/link/x", "link"), ("others.h5:/group/lists", "Python objects"),
        ("others.h5:/null", "no elements"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_clear_line(hostile, tmp_path, name, words):
    with serving(hostile, Ranges) as server:
        output = tmp_path / "b.zarr"
        with pytest.raises(dm.Error, match=words) as caught:
            move(f"{server}/{name}", output)
    assert "\n" not in str(caught.value) and server in str(caught.value)
    assert os.listdir(tmp_path) == ["served"]


def test_whom_cannot_be_asked(made, tmp_path):
    with serving(made, Silent) as server:
        for name in ("run.h5", "run.h5:/part"):
            with pytest.raises(dm.errors.IoFailed, match=r"run\.h5 cannot be read") as caught:
                move(f"{server}/{name}", tmp_path / "b.zarr")
            assert "\n" not in str(caught.value)
        with pytest.raises(dm.errors.Unsupported, match=r"use the extension \.zarr"):
            move(made / "run.h5", "s3://bucket/a.h5", member="part")
    assert os.listdir(tmp_path) == ["served"]


class Replacing(Ranges):
    """Has another file in place, after so many requests."""

    left: typing.ClassVar[int] = 0

    def has_read(self):
        type(self).left -= 1
        if self.left == 0:
            path = self.translate_path(self.path)
            shutil.copyfile(path + ".other", path)
            os.utime(path, (10, 10))


@pytest.mark.parametrize("member", [*(f":/fields/deep/{kind}" for kind in KINDS), ""])
def test_a_file_that_is_replaced_while_it_is_read_is_noticed(made, tmp_path, monkeypatch, member):
    path, other = made / "run.h5", made / "run.h5.other"
    shutil.copyfile(path, tmp_path / "kept.h5")
    shutil.copyfile(path, other)
    with h5py.File(other, "r+") as file:
        for kind in KINDS:
            file["fields/deep"][kind][...] = file["fields/deep"][kind][...] + 1
    with serving(made, Replacing) as server:
        address = f"{server}/run.h5{member}"

        def move_with(left):
            shutil.copyfile(tmp_path / "kept.h5", path)
            os.utime(path, (0, 0))
            monkeypatch.setattr(Replacing, "left", left)
            move(address, tmp_path / "b.zarr", overwrite_group=True)

        move_with(10**6)
        requests = 10**6 - Replacing.left
        assert requests > 1
        shutil.rmtree(tmp_path / "b.zarr")
        noticed = []
        for left in some_of(1, requests):
            try:
                move_with(left)
            except dm.errors.IoFailed as error:
                assert "run.h5" in str(error)
                assert not (tmp_path / "b.zarr").exists()
                noticed.append(left)
            else:  # replaced before it was opened to be read: all is of the other file
                assert member
                with h5py.File(other) as file:
                    moved = zarr.open(tmp_path / "b.zarr")[...]
                    assert np.array_equal(moved, file[member.removeprefix(":")][...])
                shutil.rmtree(tmp_path / "b.zarr")
        assert noticed[-1] == requests


class Tired(Ranges):
    """Refuses all after so many requests."""

    left: typing.ClassVar[int] = 0

    def do_GET(self):
        type(self).left -= 1
        if self.left < 0:
            self.send_error(403, "not\\nthis", "many\nlines")
        else:
            super().do_GET()


@pytest.mark.parametrize("member", [*(f":/fields/deep/{kind}" for kind in KINDS), ""])
def test_any_request_may_be_refused(made, tmp_path, monkeypatch, member):
    monkeypatch.setattr(addresses, "BLOCK_BYTES", 1 << 12)
    with serving(made, Tired) as server:
        address = f"{server}/run.h5{member}"
        monkeypatch.setattr(Tired, "left", 10**6)
        move(address, tmp_path / "a.zarr")
        requests = 10**6 - Tired.left
        for left in some_of(0, requests - 1):
            monkeypatch.setattr(Tired, "left", left)
            with pytest.raises(dm.errors.IoFailed, match=r"run\.h5") as caught:
                move(address, tmp_path / "b.zarr")
            assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "served"]
