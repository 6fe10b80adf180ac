# SPDX-License-Identifier: BSD-3-Clause
"""Moves of Zarr arrays from and to addresses, complete or not at all. Servers run on loopback."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import typing

import h5py
import numpy as np
import pytest
import zarr
from loopback import Gate, Killed, Ranges, Silent, serving
from mpi4py import MPI
from zarr.storage import ObjectStore

import datamover as dm
from datamover import move_command
from datamover.files import address_place, addresses, intend, move
from datamover.files import zarr_output as zarr_files
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.launch import outer_environment

pytest.importorskip("obstore")
ARRAY = np.arange(7 * 11, dtype="f4").reshape(7, 11)


@pytest.fixture
def served(tmp_path):
    """The address of a directory, which holds a.zarr."""
    kept = zarr.create_array(
        tmp_path / "a.zarr", data=ARRAY, chunks=(3, 4), dimension_names=["y", "x"]
    )
    kept.attrs["units"] = "m"
    with serving(tmp_path, Silent) as address:
        yield address


def names(address):
    """What lies at an address, by another way than the one under test."""
    import obstore

    found = obstore.list(obstore.store.from_url(address)).collect()
    return sorted(entry["path"] for entry in found)


def opened(address):
    import obstore

    return zarr.open_array(ObjectStore(obstore.store.from_url(address), read_only=True), mode="r")


def test_http_is_read(served, tmp_path):
    move(f"{served}/a.zarr", tmp_path / "b.zarr", axes=(1, 0), check="crc32c")
    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    np.testing.assert_array_equal(found[...], ARRAY.T)
    assert found.metadata.dimension_names == ("x", "y") and found.attrs["units"] == "m"


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_read_by_ranges(tmp_path, order, monkeypatch):
    monkeypatch.setattr(Ranges, "asked", [])
    array = np.asarray(np.arange(50 * 64 * 80, dtype="f4").reshape(50, 64, 80), order=order)
    np.save(tmp_path / "a b.npy", array)
    with serving(tmp_path, Ranges) as server:
        address = f"{server}/a%20b.npy"
        part = {"region": ((3, 5), (None, None), (None, None))}
        move(address, tmp_path / "b.npy", **part, check="crc32c")
        if order == "C":
            assert sum(Ranges.asked) < array.nbytes // 4
        move(address, tmp_path / "c.zarr", axes=(2, 0, 1), chunks=(30, 20, 64))
        rows = dm.BlockCyclic(array.shape, "(block, *, *)", nprocs=1)
        got = np.zeros_like(array, order="C")
        with dm.files.open(address, rows, comm=MPI.COMM_SELF) as f:
            dm.Mover(dm.redistribute(rows, rows), f, got)()
            dm.Mover(dm.redistribute(rows, rows), f, got)()
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array[3:5])
    found = zarr.open_array(tmp_path / "c.zarr", mode="r")
    np.testing.assert_array_equal(found[...], array.transpose(2, 0, 1))
    np.testing.assert_array_equal(got, array)


def test_npy_that_cannot_be_read_is_one_clear_line(tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-4])
    (tmp_path / "foreign.npy").write_bytes(b"no header" * 100)
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "objects.npy").write_bytes(whole.replace(b"'<f4'", b"'|O' "))
    with serving(tmp_path, Ranges) as server:
        for name in ("short.npy", "foreign.npy", "empty.npy", "objects.npy", "none.npy"):
            with pytest.raises(dm.Error, match=f"{server}/{name}") as caught:
                move(f"{server}/{name}", tmp_path / "b.npy")
            assert "\n" not in str(caught.value) and not (tmp_path / "b.npy").exists()
    with serving(tmp_path, Silent) as server, pytest.raises(dm.errors.IoFailed, match=r"a\.npy"):
        move(f"{server}/a.npy", tmp_path / "b.npy", region=((1, 2), (None, None)))


class Replaced(Ranges):
    """Has another object of the same length, and says so, when most of the first one was read."""

    left: typing.ClassVar[int] = 0
    marks: typing.ClassVar[bool] = False

    def has_read(self):
        type(self).left -= 1
        if self.left == 0:
            path = self.translate_path(self.path)
            written = os.stat(path).st_mtime
            np.save(path, -np.load(path))
            os.utime(path, (written, written + (0 if self.marks else 10)))

    def end_headers(self):
        if self.marks:
            self.send_header("ETag", f'"{type(self).left > 0}"')
        super().end_headers()


@pytest.mark.parametrize("marks", [False, True], ids=["by time", "by mark"])
def test_npy_that_is_replaced_while_it_is_read_is_noticed(tmp_path, marks, monkeypatch):
    monkeypatch.setattr(Replaced, "marks", marks)
    array = np.arange(1.0, 1001)
    np.save(tmp_path / "a.npy", array)
    os.utime(tmp_path / "a.npy", (0, 0))
    rows = dm.BlockCyclic(array.shape, "(block)", nprocs=1)
    with serving(tmp_path, Replaced) as server:
        address = f"{server}/a.npy"
        monkeypatch.setattr(Replaced, "left", 10**6)
        move(address, tmp_path / "b.npy")
        requests = 10**6 - Replaced.left
        monkeypatch.setattr(Replaced, "left", requests)  # with the last piece of the elements
        with pytest.raises(dm.errors.IoFailed, match=f"{address} changed while it was read"):
            move(address, tmp_path / "c.npy")
        monkeypatch.setattr(Replaced, "left", 10**6)
        f = dm.files.open(address, rows, comm=MPI.COMM_SELF)
        monkeypatch.setattr(Replaced, "left", 1)
        dm.Mover(dm.redistribute(rows, rows), f, np.empty_like(array))()
        with pytest.raises(dm.errors.IoFailed, match=f"{address} changed while it was read"):
            f.close()
        monkeypatch.setattr(Replaced, "left", 10**6)
        got = dm.load(address, {"a": rows}, comm=MPI.COMM_SELF)["a"]
        np.testing.assert_array_equal(got.local, np.load(tmp_path / "a.npy"))
        requests = 10**6 - Replaced.left
        monkeypatch.setattr(Replaced, "left", requests)
        with pytest.raises(dm.errors.IoFailed, match=f"{address} changed while it was read"):
            dm.load(address, {"a": rows}, comm=MPI.COMM_SELF)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array)
    assert not (tmp_path / "c.npy").exists()


class Changed(Replaced):
    """Reports another time when most of the object was read."""

    def has_read(self):
        type(self).left -= 1
        if self.left == 0:
            os.utime(self.translate_path(self.path), (0, 10))


def test_strings_that_are_replaced_while_they_are_read_are_noticed(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("s", data=["a", "b"], dtype=h5py.string_dtype())
    os.utime(tmp_path / "a.h5", (0, 0))
    with serving(tmp_path, Changed) as server:
        address = f"{server}/a.h5"
        monkeypatch.setattr(Changed, "left", 10**6)
        move(f"{address}:/s", tmp_path / "b.zarr")
        monkeypatch.setattr(Changed, "left", 10**6 - Changed.left)
        with pytest.raises(dm.errors.IoFailed, match=f"{address} changed while it was read"):
            move(f"{address}:/s", tmp_path / "c.zarr")
    assert not (tmp_path / "c.zarr").exists()


class Counting(Silent):
    """Gives no ranges, and counts what it could send."""

    sent_bytes: typing.ClassVar[int] = 0

    def copyfile(self, source, outputfile):
        with contextlib.suppress(ConnectionError):
            while data := source.read(1 << 16):
                outputfile.write(data)
                type(self).sent_bytes += len(data)


def test_npy_of_a_server_without_ranges_is_refused_before_it_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "sent_bytes", 0)
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "f8", (1 << 23,))
    with serving(tmp_path, Counting) as server, pytest.raises(dm.errors.IoFailed, match=r"a\.npy"):
        move(f"{server}/a.npy", tmp_path / "b.npy")
    assert Counting.sent_bytes < 1 << 25 and not (tmp_path / "b.npy").exists()


def test_npy_in_a_bucket(bucket, tmp_path):
    import obstore

    np.save(tmp_path / "a.npy", ARRAY)
    store = obstore.store.from_url(bucket)
    obstore.put(store, "x/a.npy", (tmp_path / "a.npy").read_bytes())
    move(f"{bucket}/x/a.npy", f"{bucket}/b.zarr", chunks=(3, 4))
    np.testing.assert_array_equal(opened(f"{bucket}/b.zarr")[...], ARRAY)


def test_an_array_at_an_address_is_open_to_be_read(served, bucket, tmp_path):
    rows = dm.BlockCyclic(ARRAY.shape, "(block, *)", nprocs=1)
    columns = dm.BlockCyclic(ARRAY.T.shape, "(block, *)", nprocs=1)
    move(f"{served}/a.zarr", f"{bucket}/b.zarr", chunks=(2, 5))
    for address in (f"{served}/a.zarr", f"{bucket}/b.zarr"):
        got = np.zeros(ARRAY.T.shape, "f4")
        with dm.files.open(address, rows, comm=MPI.COMM_SELF) as f:
            dm.Mover(dm.redistribute(rows, columns, axes=(1, 0)), f, got)()
        np.testing.assert_array_equal(got, ARRAY.T)
        for mode in ("w", "r+"):
            with pytest.raises(dm.errors.Unsupported, match="mode"):
                dm.files.open(
                    address,
                    rows,
                    comm=MPI.COMM_SELF,
                    mode=mode,
                    dtype="f4" if mode == "w" else None,
                )


@pytest.mark.parametrize(
    ("source", "output", "words"),
    [("s3://b/a.raw", "b.npy", "copy it here"), ("a.npy", "s3://b/b.npy", "the extension .zarr"),
     ("a.npy", "s3://b/b.h5", "the extension .zarr"), ("http://h/a.raw", "b.npy", "copy it here")],
)  # fmt: skip
def test_what_is_not_done_at_addresses_is_said(tmp_path, monkeypatch, source, output, words):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", ARRAY)
    with pytest.raises(dm.errors.Unsupported, match=words):
        move(source, output)


def test_what_is_not_there_is_one_clear_line(served, tmp_path):
    for address in (f"{served}/none.zarr", "http://127.0.0.1:9/a.zarr"):
        with pytest.raises(dm.errors.IoFailed, match=address) as caught:
            move(address, tmp_path / "b.npy")
        assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr"]


def test_a_chunk_that_is_refused_is_one_clear_line(served, tmp_path, monkeypatch):
    def refuse(handler):
        if "/c/" not in handler.path:
            return real(handler)
        handler.send_error(403, "not\\nthis", "many\nlines")

    real = Silent.do_GET
    monkeypatch.setattr(Silent, "do_GET", refuse, raising=False)
    with pytest.raises(
        dm.errors.IoFailed, match=f"{served}/a.zarr cannot be read in chunk"
    ) as caught:
        move(f"{served}/a.zarr", tmp_path / "b.npy")
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr"]


def test_a_server_that_is_named_by_http_needs_no_other_word(bucket, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    np.save(tmp_path / "a.npy", np.arange(24.0))
    move(tmp_path / "a.npy", f"{bucket}/a.zarr")
    move(f"{bucket}/a.zarr", tmp_path / "b.npy")
    assert (np.load(tmp_path / "b.npy") == np.arange(24.0)).all()


def test_s3_and_back(bucket, tmp_path, served):
    report = move(f"{served}/a.zarr", f"{bucket}/x/b.zarr", chunks=(2, 5), check="crc32c")
    assert report.bytes == ARRAY.nbytes
    found = opened(f"{bucket}/x/b.zarr")
    np.testing.assert_array_equal(found[...], ARRAY)
    assert found.chunks == (2, 5) and found.metadata.dimension_names == ("y", "x")
    assert intend(f"{bucket}/x/b.zarr", tmp_path / "c.npy").spec.shape == ARRAY.shape
    move(f"{bucket}/x/b.zarr/", tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), ARRAY)


def test_what_an_array_here_has_besides_goes_there_too(bucket, served, tmp_path):
    move(tmp_path / "a.zarr", f"{bucket}/b.zarr", dtype="f8")
    found = opened(f"{bucket}/b.zarr")
    np.testing.assert_array_equal(found[...], ARRAY.astype("f8"))
    assert dict(found.attrs) == {"units": "m"} and found.chunks == (3, 4)
    assert found.metadata.dimension_names == ("y", "x")


def test_what_is_there_is_replaced_only_where_that_is_said(bucket, tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    output = f"{bucket}/b.zarr"
    move(tmp_path / "a.npy", output, chunks=(1, 1))
    before = names(output)
    for said in ({}, {"overwrite": True, "axes": (1, 2)}):
        with pytest.raises(dm.Error):
            move(tmp_path / "a.npy", output, **said)
        assert names(output) == before
    move(tmp_path / "a.npy", output, chunks=(7, 11), overwrite=True)
    assert names(output) == ["c/0/0", "zarr.json"]
    np.testing.assert_array_equal(opened(output)[...], ARRAY)
    with pytest.raises(dm.errors.IoFailed, match="no Zarr array"):
        move(tmp_path / "a.npy", bucket, overwrite=True)  # b.zarr lies in it
    with pytest.raises(dm.errors.InvalidArgument, match="nothing in it would be found"):
        move(output, f"{output}/inner.zarr")
    assert names(output) == ["c/0/0", "zarr.json"]


def test_a_missing_bucket_is_told_in_words(bucket, tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    with pytest.raises(dm.errors.IoFailed, match="bucket does not exist") as caught:
        move(tmp_path / "a.npy", f"{bucket}none/b.zarr")
    assert "<" not in str(caught.value) and "\n" not in str(caught.value)


def test_other_names_of_the_same_place_remove_nothing(bucket, tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    move(tmp_path / "a.npy", f"{bucket}/b.zarr", chunks=(7, 11))
    name = bucket.removeprefix("s3://")
    for other in (f"s3a://{name}/b.zarr", f"s3://u:p@{name}/b.zarr", f"s3://{name}:443/b.zarr",
                  f"{bucket}/b\t.zarr", f"{bucket}/b.zarr/x/.."):  # fmt: skip
        with pytest.raises(dm.errors.InvalidArgument):
            move(f"{bucket}/b.zarr", other, overwrite=True, chunks=(1, 1))
        assert names(f"{bucket}/b.zarr") == ["c/0/0", "zarr.json"]


def test_names_are_those_of_the_objects(bucket, tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    odd = "a%2Fb ä+*%zz.zarr"
    move(tmp_path / "a.npy", f"{bucket}/{odd}")
    assert {name.split("/")[0] for name in names(bucket)} == {odd}
    move(f"{bucket}/{odd}", tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), ARRAY)


def test_metadata_come_last_and_a_failure_leaves_nothing(bucket, tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", ARRAY)
    written = []
    real = ObjectStore.set
    limit = [10**6]

    async def set_some(self, key, value):
        if len(written) >= limit[0]:
            raise RuntimeError("the server is tired\nand says a lot")
        written.append(key)
        await real(self, key, value)

    monkeypatch.setattr(ObjectStore, "set", set_some)
    output = f"{bucket}/b.zarr"
    move(tmp_path / "a.npy", output, chunks=(3, 4))
    assert written[-1] == "zarr.json" and written.count("zarr.json") == 1
    count = len(written)
    for limit[0] in (0, 1, count - 1):
        written.clear()
        with pytest.raises(dm.errors.IoFailed, match="tired") as caught:
            move(tmp_path / "a.npy", f"{bucket}/c.zarr", chunks=(3, 4))
        assert "\n" not in str(caught.value)
        assert names(f"{bucket}/c.zarr") == []


def test_threads_that_give_up_at_once_do_not_wait_for_each_other():
    from zarr.core.sync import sync

    async def loop():
        return asyncio.get_running_loop()

    loop, are_there = sync(loop()), threading.Event()
    loop.call_soon_threadsafe(are_there.wait, 30)  # both are there before either begins
    both = [asyncio.run_coroutine_threadsafe(addresses.others_settle(), loop) for _ in range(2)]
    are_there.set()
    assert [one.result(timeout=20) for one in both] == [set(), set()]  # none is left


def test_a_failure_is_told_when_nothing_is_being_written(bucket, monkeypatch):
    ended = []

    async def tired(self, key, value):
        await asyncio.sleep(0.1)  # the others have begun
        if key.endswith("c/0"):
            raise RuntimeError("the server is tired")
        await asyncio.sleep(0.5)
        ended.append(key)

    monkeypatch.setattr(ObjectStore, "set", tired)
    spec = ArraySpec((3,), np.dtype("f4"))
    writer = zarr_files.ZarrOutput(spec, MoveOptions(chunks=(1,))).open(f"{bucket}/a.zarr")
    with pytest.raises(
        dm.errors.IoFailed, match=r"a\.zarr cannot be written: .*the server is tired"
    ):
        writer.write((0,), np.ones(3, "f4"))
    assert len(ended) == 2


def test_after_a_failure_nothing_more_is_written_and_the_first_one_is_told(bucket, monkeypatch):
    begun = []

    async def tired(self, key, value):
        begun.append(key)
        await asyncio.sleep(0.1)
        raise RuntimeError(f"the server is tired of {key}")

    monkeypatch.setattr(ObjectStore, "set", tired)
    spec = ArraySpec((200,), np.dtype("f4"))
    writer = zarr_files.ZarrOutput(spec, MoveOptions(chunks=(1,))).open(f"{bucket}/a.zarr")
    counts = []
    for _ in range(2):  # the second as a thread that writes another part
        with pytest.raises(dm.errors.IoFailed, match=r"a\.zarr cannot be written: .*is tired of"):
            writer.write((0,), np.ones(200, "f4"))
        counts.append(len(begun))
    # zarr writes 10 at once; if all of them fail in one turn of the loop, 10 more have begun.
    assert counts[0] <= 20 and counts[1] == counts[0]


def test_by_processes_of_the_command(bucket, tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    command = [sys.executable, "-m", "datamover", "move", "-n", "2"]
    done = subprocess.run(
        [*command, tmp_path / "a.npy", f"{bucket}/b.zarr", "--chunks", "2,3"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(opened(f"{bucket}/b.zarr")[...], ARRAY)
    done = subprocess.run(
        [*command, tmp_path / "a.npy", f"{bucket}/b.zarr"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1 and "exists" in done.stderr and len(done.stderr.splitlines()) < 3


def test_without_obstore_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    for name in ("a.zarr", "a.npy", "a.h5"):
        with pytest.raises(
            dm.errors.Unsupported, match=r"needs obstore \(pip install 'datamover\[stores"
        ):
            move(f"s3://b/{name}", tmp_path / "b.npy")
    np.save(tmp_path / "a.npy", ARRAY)
    for name in ("memory://b.zarr", "s3://b/b.zarr"):
        with pytest.raises(dm.Error, match=r"memory addresses are unknown|needs obstore"):
            move(tmp_path / "a.npy", name)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_the_command_prints_one_error_of_several(tmp_path, capfd, caplog, monkeypatch):
    """Zarr asks a store for several things at once, and leaves the others' errors to asyncio."""
    logger = logging.getLogger("asyncio")
    monkeypatch.setattr(logger, "level", logger.level)
    assert move_command.run(["http://127.0.0.1:9/a.zarr", str(tmp_path / "b.npy")]) == 1

    async def fail():
        raise OSError("of another question")

    async def ask():
        forgotten = asyncio.ensure_future(fail())
        await asyncio.wait([forgotten])
        del forgotten

    asyncio.run(ask())
    gc.collect()
    said = capfd.readouterr().err
    assert said.startswith("error: http://127.0.0.1:9/a.zarr") and len(said.splitlines()) == 1
    assert not caplog.records


def test_a_program_ends_when_no_answer_is_under_way(monkeypatch):
    """A thread of obstore's that comes back to a Python which has ended aborts the program."""
    registered, tasks = [], []
    addresses._settle_at_exit.cache_clear()
    monkeypatch.setattr(addresses.atexit, "register", registered.append)
    monkeypatch.setattr(addresses, "SETTLE_SECONDS", 0.1)
    addresses.store_at("http://127.0.0.1:9/a.zarr", read_only=True)
    assert registered == [addresses._settle]

    async def ask():
        tasks.append(asyncio.ensure_future(asyncio.sleep(0)))
        tasks.append(asyncio.ensure_future(asyncio.Event().wait()))  # never

    addresses.done(ask())
    addresses._settle()
    addresses.done(asyncio.sleep(0))  # one round more
    assert [task.done() for task in tasks] == [True, True]


#: Saves on the processes that run it, or loads there, in another layout.
PROGRAM = """
import sys
import numpy as np
import datamover as dm
from mpi4py import MPI

comm, (address, what) = MPI.COMM_WORLD, sys.argv[1:]
rows = dm.BlockCyclic((9, 11), "(block, *)", nprocs=comm.size)
tiles = dm.BlockCyclic((9, 11), "(cyclic(2), *)", nprocs=comm.size)
u = dm.Array(rows, "f8", comm=comm)
whole = np.arange(99.0).reshape(9, 11)
if what == "save":
    first = comm.rank * -(-9 // comm.size)
    u.local[...] = whole[first:first + len(u.local)]
    saved = dm.save(address, {"u": u, "deep/v": u, "same": (np.arange(3), None), "t": 7},
                    chunks={"u": (2, 5)}, wait=False)
    saved.wait()
else:
    state = dm.load(address, {"u": tiles, "deep/v": None, "same": None}, comm=comm)
    assert state["t"] == 7 and state["same"].tolist() == [0, 1, 2]
    assert np.array_equal(state["deep/v"], whole)
    mine = [whole[2 * b:2 * b + 2] for b in range(comm.rank, 5, comm.size)]
    assert np.array_equal(state["u"].local, np.concatenate(mine))
"""


def run_program(nprocs, *words):
    mpiexec = os.environ.get("MPIEXEC", "mpiexec")
    return subprocess.run(
        [mpiexec, "-n", str(nprocs), sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=100,
        env=outer_environment(),
    )


def test_a_program_saves_and_another_number_of_processes_loads(bucket):
    address = f"{bucket}/x/state.zarr"
    for nprocs, what in [(2, "save"), (3, "load"), (1, "load")]:
        done = run_program(nprocs, address, what)
        assert done.returncode == 0, done.stderr
    import obstore

    store = ObjectStore(obstore.store.from_url(address), read_only=True)
    group = zarr.open_group(store, mode="r")
    assert dict(group.attrs) == {"t": 7} and group["u"].chunks == (2, 5)
    np.testing.assert_array_equal(group["deep/v"][...], np.arange(99.0).reshape(9, 11))
    assert run_program(2, address, "save").returncode != 0  # it is there


def saved_arrays():
    rows = dm.BlockCyclic((7, 11), "(block, *)", nprocs=1)
    return {
        "u": (ARRAY, rows),
        "g/none": np.zeros((0, 4)),
    }


def test_metadata_of_a_group_come_last_and_a_failure_leaves_nothing(bucket, monkeypatch):
    written, limit = [], [10**6]
    real = ObjectStore.set

    async def set_some(self, key, value):
        if len(written) >= limit[0]:
            raise RuntimeError("the server is tired\nand says a lot")
        written.append((self.store.prefix, key))
        await real(self, key, value)

    monkeypatch.setattr(ObjectStore, "set", set_some)
    dm.save(f"{bucket}/b.zarr", {**saved_arrays(), "w": np.arange(3)}, comm=MPI.COMM_SELF)
    keys = [key for _, key in written]
    assert sorted(keys[-5:-1]) == [f"{name}zarr.json" for name in ("g/none/", "g/", "u/", "w/")]
    assert keys[-1] == "zarr.json" and not any(key.endswith("zarr.json") for key in keys[:-5])
    assert str(written[-1][0]).endswith("b.zarr")
    count = len(written)
    for limit[0] in (0, 1, count - 3, count - 1):
        written.clear()
        with pytest.raises(dm.errors.IoFailed, match="tired") as caught:
            dm.save(f"{bucket}/c.zarr", {**saved_arrays(), "w": np.arange(3)}, comm=MPI.COMM_SELF)
        assert "\n" not in str(caught.value)
        assert names(f"{bucket}/c.zarr") == []


def test_a_group_of_format_2(bucket):
    address, state = f"{bucket}/b.zarr", {**saved_arrays(), "w": np.arange(3), "step": 7}
    dm.save(address, state, comm=MPI.COMM_SELF, zarr_format=2)
    written = names(address)
    assert not any(name.endswith("zarr.json") for name in written)
    assert {".zgroup", "g/.zgroup", "u/.zarray", "g/none/.zarray", "w/.zarray"} <= {*written}
    found = dm.load(address, {"u": None, "w": None}, comm=MPI.COMM_SELF)
    np.testing.assert_array_equal(found["u"], ARRAY)
    assert found["w"].tolist() == [0, 1, 2] and found["step"] == 7
    with pytest.raises(dm.errors.InvalidArgument, match="a Zarr group of format 2"):
        dm.save(f"{address}/in.zarr", state, comm=MPI.COMM_SELF, zarr_format=3)
    dm.save(address, state, comm=MPI.COMM_SELF, overwrite=True)
    assert not any(".z" in name for name in names(address))


def test_a_group_is_replaced_only_where_that_is_said(bucket):
    address = f"{bucket}/b.zarr"
    dm.save(address, saved_arrays(), comm=MPI.COMM_SELF)
    before = names(address)
    with pytest.raises(dm.errors.IoFailed, match="overwrite=True"):
        dm.save(address, saved_arrays(), comm=MPI.COMM_SELF)
    assert names(address) == before
    dm.save(address, {"v": saved_arrays()["u"]}, comm=MPI.COMM_SELF, overwrite=True)
    assert names(address) == ["v/c/0/0", "v/zarr.json", "zarr.json"]
    state = dm.load(address, {"v": None}, comm=MPI.COMM_SELF)
    np.testing.assert_array_equal(state["v"], ARRAY)


def test_what_cannot_be_saved_or_loaded_there(bucket, served):
    rows = dm.BlockCyclic((7, 11), "(block, *)", nprocs=1)
    found = dm.load(f"{served}/a.zarr", {"any": rows}, comm=MPI.COMM_SELF)
    np.testing.assert_array_equal(found["any"].local, ARRAY)
    for name, error, words in [
        (f"{bucket}/b.h5", dm.errors.InvalidArgument, "the extension .zarr"),
        (f"{served}/b.zarr", dm.errors.Unsupported, "can only be read"),
        ("ftp://host/b.zarr", dm.errors.InvalidArgument, "ftp addresses are unknown"),
        ("http://127.0.0.1:9/b.zarr", dm.errors.Unsupported, "can only be read"),
    ]:
        with pytest.raises(error, match=words):
            dm.save(name, saved_arrays(), comm=MPI.COMM_SELF)
    for name, error, words in [
        (f"{bucket}/none.zarr", dm.errors.IoFailed, "none.zarr"),
        (f"{bucket}/b.h5", dm.errors.IoFailed, "b.h5"),
        (f"{bucket}/b.raw", dm.errors.Unsupported, "copy it here"),
        (f"{bucket}/b.npy", dm.errors.IoFailed, "b.npy"),
        ("http://127.0.0.1:9/b.zarr", dm.errors.IoFailed, "127.0.0.1:9"),
    ]:
        with pytest.raises(error, match=words):
            dm.load(name, {"u": None}, comm=MPI.COMM_SELF)
    dm.save(f"{bucket}/b.zarr", saved_arrays(), comm=MPI.COMM_SELF)
    for name in ("v", "../b.zarr/u", "u/", ""):
        with pytest.raises(dm.Error):
            dm.load(f"{bucket}/b.zarr", {name: None}, comm=MPI.COMM_SELF)
    with pytest.raises(dm.Mismatch, match="shape"):
        dm.load(
            f"{bucket}/b.zarr",
            {"u": dm.BlockCyclic((7, 12), "(*, *)", nprocs=1)},
            comm=MPI.COMM_SELF,
        )


def others(address, name, data=b"mine"):
    """Write an object of somebody else."""
    import obstore

    obstore.put(obstore.store.from_url(address), name, data)


@pytest.mark.parametrize("is_old_there", [False, True])
def test_a_save_that_was_killed_anywhere_is_replaced(killed_after, local_bucket, is_old_there):
    address = f"{local_bucket.address}/b.zarr"
    another = local_bucket.path / "b.zarr2/c/0/0"

    def save(arrays, overwrite=True):
        dm.save(address, arrays, comm=MPI.COMM_SELF, overwrite=overwrite)

    new = {**saved_arrays(), "g/w": np.arange(3), "t": np.float32(1)}
    outcomes = set()
    for count in range(100):
        another.parent.mkdir(parents=True)
        another.write_bytes(b"another's")
        if is_old_there:
            flat = dm.BlockCyclic((77,), "(*)", nprocs=1)
            save({"u": (ARRAY.ravel(), flat), "h/v": np.ones(2)})
        killed_after[0] = count
        try:
            save(new, overwrite=is_old_there)
            outcomes.add("whole")
        except Killed:
            outcomes.add("killed")
        is_last = killed_after[0] > 0
        killed_after[0] = 10**6
        if is_old_there or count:
            with pytest.raises(dm.errors.IoFailed, match="overwrite=True"):
                save(new, overwrite=False)
        save(new)
        state = dm.load(address, {"u": None, "g/w": None}, comm=MPI.COMM_SELF)
        np.testing.assert_array_equal(state["u"], ARRAY)
        save({"v": np.ones(2)})
        written = ["b.zarr/v/c/0", "b.zarr/v/zarr.json", "b.zarr/zarr.json", "b.zarr2/c/0/0"]
        assert local_bucket.names() == written
        local_bucket.clear()
        if is_last:
            break
    assert outcomes == {"killed", "whole"} and 9 < count < 99


@pytest.mark.parametrize("is_old_there", [False, True])
def test_what_killed_processes_left_is_removed(
    killed_after, local_bucket, monkeypatch, tmp_path, is_old_there
):
    address, token = f"{local_bucket.address}/b.zarr", "0123456789ab"
    np.save(tmp_path / "a.npy", ARRAY)
    found = set()
    for count in range(100):
        if is_old_there:
            dm.save(address, {"v": np.ones(2)}, comm=MPI.COMM_SELF)
        killed_after[0] = count
        monkeypatch.setenv("DATAMOVER_MOVE_TOKEN", token)
        with contextlib.suppress(Killed):
            said = {"chunks": (3, 11), "overwrite_group": is_old_there}
            move(tmp_path / "a.npy", address, **said)
        is_last, killed_after[0] = killed_after[0] > 0, 10**6
        monkeypatch.delenv("DATAMOVER_MOVE_TOKEN")
        before = local_bucket.names()
        is_there = address_place.clean_up(address, "of another move")
        assert local_bucket.names() == before
        assert address_place.clean_up(address, token) == is_there
        left = local_bucket.names()
        if is_there:
            node = zarr.open(ObjectStore(local_bucket.store(address), read_only=True), mode="r")
            is_new = isinstance(node, zarr.Array)
            np.testing.assert_array_equal(node if is_new else node["v"], ARRAY if is_new else 1)
            assert len(left) == (4 if is_new else 3)
            found.add("new" if is_new else "old")
        else:
            assert left == []
            found.add("none")
        local_bucket.clear()
        if is_last:
            break
    assert found == ({"old", "none", "new"} if is_old_there else {"none", "new"}) and count > 5


class Dropped(threading.Event):
    """An event that wakes those who wait and never counts as set: the gate stays closed."""

    def is_set(self):
        return False


def gate_after(server, changes, event=threading.Event):
    """What makes a `Gate` before a server, and the event that opens it."""
    is_open = event()
    return {"server": server, "changes": threading.Semaphore(changes), "is_open": is_open}, is_open


@pytest.mark.kills
@pytest.mark.parametrize("nprocs", [1, 2])
def test_an_interruption_leaves_nothing_there(bucket, s3_server, tmp_path, nprocs):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((40, 40, 40)))
    address = f"{bucket}/b.zarr"
    command = [sys.executable, "-m", "datamover", "move", tmp_path / "a.npy", address]
    command += ["--chunks", "4,4,4", "-n", str(nprocs)]
    gate, is_open = gate_after(s3_server, 9)
    with serving(tmp_path, Gate, **gate) as server:
        environment = os.environ | {"AWS_ENDPOINT_URL": server}
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            while process.poll() is None and len(names(address)) < 9:
                pass
            process.send_signal(signal.SIGTERM)
            is_open.set()  # it removes what it has written
            words = process.communicate(timeout=100)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert words == f"error: interrupted by SIGTERM; {address} is not there\n"
    assert names(address) == []


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_an_interrupted_launch_of_ones_own_leaves_is_named_and_removed(
    bucket, s3_server, tmp_path, number
):
    array = np.random.default_rng(0).random((24, 24, 24))
    np.save(tmp_path / "a.npy", array)
    address = f"{bucket}/b.zarr"
    command = [sys.executable, "-m", "datamover", "move", tmp_path / "a.npy", address]
    command += ["--chunks", "4,4,4"]
    launched = [os.environ.get("MPIEXEC", "mpiexec"), "-n", "2", *command]
    # A process may outlive the launcher for a moment, and ask again.
    gate, is_open = gate_after(s3_server, 9, Dropped)
    with serving(tmp_path, Gate, **gate) as server:
        environment = outer_environment() | {"AWS_ENDPOINT_URL": server}
        with subprocess.Popen(
            launched, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            while process.poll() is None and len(names(address)) < 9:
                pass
            process.send_signal(number)
            words = process.communicate(timeout=100)[1]
        is_open.set()
    assert process.returncode != 0, words
    left = names(address)
    assert address_place.MARKER in left and len(left) == 9 and "zarr.json" not in left
    # Open MPI's mpiexec passes SIGINT on as SIGTERM.
    passed_on = "SIGTERM" if MPI.get_vendor()[0] == "Open MPI" else "SIGINT"
    message = f"error: interrupted by {passed_on}; {address} may hold chunks of it, which a move"
    assert words.count(message) == (number == signal.SIGINT)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "--overwrite removes that" in done.stderr
    assert names(address) == left
    done = subprocess.run([*command, "--overwrite"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(opened(address)[...], array)
    assert len(names(address)) == 217


def clear(address):
    import obstore

    store = obstore.store.from_url(address)
    for name in names(address):
        obstore.delete(store, name)


def test_what_belongs_to_others_is_neither_removed_nor_replaced(bucket, tmp_path):
    """Objects at an address without Zarr metadata, and without the mark of an unfinished output."""
    np.save(tmp_path / "a.npy", ARRAY)
    address = f"{bucket}/b.zarr"
    for foreign in ("notes.txt", "u/c/0", "u/zarr.json", "c/0/0"):
        others(address, foreign)
        with pytest.raises(dm.errors.IoFailed, match=f"holds '{foreign}' but no Zarr array"):
            dm.save(address, saved_arrays(), comm=MPI.COMM_SELF, overwrite=True)
        with pytest.raises(dm.errors.IoFailed, match=f"holds '{foreign}' but no Zarr array"):
            move(tmp_path / "a.npy", address, overwrite=True, overwrite_group=True)
        assert names(address) == [foreign]
        clear(address)


@pytest.mark.parametrize("data", [b"none", b"[]", b'{"node_type": "arrays"}'])
def test_metadata_that_cannot_be_read_are_taken_for_those_of_a_group(bucket, tmp_path, data):
    np.save(tmp_path / "a.npy", ARRAY)
    address = f"{bucket}/b.zarr"
    others(address, "zarr.json", data)
    with pytest.raises(dm.errors.IoFailed, match="overwrite_group"):
        move(tmp_path / "a.npy", address, overwrite=True)
    assert names(address) == ["zarr.json"]


def test_a_move_that_was_killed_is_replaced_by_a_move(bucket, tmp_path, killed_after):
    np.save(tmp_path / "a.npy", ARRAY)
    address = f"{bucket}/b.zarr"
    killed_after[0] = 4
    with pytest.raises(Killed):
        move(tmp_path / "a.npy", address, chunks=(2, 5))
    killed_after[0] = 10**6
    assert len(names(address)) == 4
    with pytest.raises(dm.errors.IoFailed, match="overwrite=True removes"):
        move(tmp_path / "a.npy", address)
    move(tmp_path / "a.npy", address, chunks=(7, 11), overwrite=True)
    assert names(address) == ["c/0/0", "zarr.json"]


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_other_programs_saved_is_replaced(bucket, tmp_path, zarr_format, separator):
    import obstore

    address = f"{bucket}/b.zarr"
    encoding = {"name": "default" if zarr_format == 3 else "v2", "separator": separator}
    group = zarr.create_group(
        ObjectStore(obstore.store.from_url(address)),
        zarr_format=zarr_format,
        attributes={"by": "another"},
    )
    group.create_array("x/y", data=ARRAY, chunks=(3, 4), chunk_key_encoding=encoding)
    group.create_array("x/none", data=np.float32(1), chunk_key_encoding=encoding)
    zarr.consolidate_metadata(group.store)
    assert len(names(address)) > 12
    dm.save(address, {"v": np.ones(2)}, comm=MPI.COMM_SELF, overwrite=True)
    assert names(address) == ["v/c/0", "v/zarr.json", "zarr.json"]


def test_of_two_that_write_to_one_address_the_first_gives_up(bucket, caplog):
    address = f"{bucket}/b.zarr"
    first = dm.save(address, saved_arrays(), comm=MPI.COMM_SELF, wait=False)
    with pytest.raises(dm.errors.IoFailed, match="still at it"):
        dm.save(address, saved_arrays(), comm=MPI.COMM_SELF)
    dm.save(address, {"u": np.arange(3)}, comm=MPI.COMM_SELF, overwrite=True)
    with pytest.raises(dm.errors.IoFailed, match="replaced by another program"):
        first.wait()
    assert dm.load(address, {"u": None}, comm=MPI.COMM_SELF)["u"].tolist() == [0, 1, 2]
    assert "replaced by another program" in caplog.text


@pytest.mark.parametrize("has_conditions", [True, False], ids=["conditions", "none"])
def test_of_two_that_found_nothing_there_one_writes(local_bucket, monkeypatch, has_conditions):
    """Both looked before either wrote."""
    if not has_conditions:  # as of a server that does not know such requests

        async def refused(self, key, value):
            raise NotImplementedError

        monkeypatch.setattr(ObjectStore, "set_if_not_exists", refused)
    address = f"{local_bucket.address}/b.zarr"
    first, second = (address_place.AddressPlace(None, address, 12 * token) for token in "ab")
    first.check()
    second.check()
    first.claim(is_directory=True)
    if not has_conditions:
        dm.save(f"{local_bucket.address}/c.zarr", {"u": np.arange(3)}, comm=MPI.COMM_SELF)
        assert "c.zarr/zarr.json" in local_bucket.names()
        return
    with pytest.raises(dm.errors.IoFailed, match="was created in the meantime; overwrite=True"):
        second.claim(is_directory=True)
    second.give_back()
    first.write({"zarr.json": b"{}"})
    first.finish()
    assert local_bucket.names() == ["b.zarr/zarr.json"]


#: Saves; one process is killed when it has written so many objects.
KILLED = """
import asyncio, os, signal, sys
from zarr.storage import ObjectStore

left = [int(sys.argv.pop())]
one_at_a_time = asyncio.Lock()

def killing(real):
    async def put(self, key, value):
        async with one_at_a_time:  # what was begun before has been written when the process dies
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            await real(self, key, value)

    return put

ObjectStore.set = killing(ObjectStore.set)
ObjectStore.set_if_not_exists = killing(ObjectStore.set_if_not_exists)
"""


def test_a_program_that_is_killed_does_not_block_the_next(bucket):
    address = f"{bucket}/x/state.zarr"
    command = [sys.executable, "-c", KILLED + PROGRAM, address, "save", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = names(address)
    assert address_place.MARKER in left and len(left) == 5 and "zarr.json" not in left
    rows = dm.BlockCyclic((7, 11), "(block, *)", nprocs=1)
    with pytest.raises(
        dm.errors.IoFailed, match="was killed or is still at it; overwrite=True removes"
    ):
        dm.save(address, {"u": (ARRAY, rows)}, comm=MPI.COMM_SELF)
    assert names(address) == left
    dm.save(address, {"u": (ARRAY, rows)}, comm=MPI.COMM_SELF, overwrite=True)
    assert names(address) == ["u/c/0/0", "u/zarr.json", "zarr.json"]
