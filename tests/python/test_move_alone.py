# SPDX-License-Identifier: BSD-3-Clause
"""Moves by one process, chunk by chunk: equal NumPy's result, within the limit, and without MPI."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

import datamover as dm
from datamover import lifeline, move_command
from datamover.counted import counted
from datamover.files import (
    MoveOptions,
    direct_zarr,
    intend,
    move,
    move_job,
    move_plan,
    pipeline,
    unfinished,
)


@pytest.mark.parametrize("seed", range(60))
def test_any_files_and_chunks(tmp_path, monkeypatch, seed):
    random = np.random.default_rng(seed)
    monkeypatch.setattr(pipeline, "WRITE_BYTES", int(random.choice([1, 500])))
    dims = int(random.integers(1, 5))
    shape = tuple(int(n) for n in random.integers(1, 11, dims))
    axes = tuple(int(a) for a in random.permutation(dims))
    dtype = str(random.choice(["f8", "u1", "<i4", ">i4", "c16", "?"]))
    array = random.integers(0, 2 if dtype == "?" else 5, shape).astype(dtype)

    def chunks():
        return tuple(int(n) for n in random.integers(1, 7, dims))

    source = tmp_path / "a.zarr"
    zarr_format = int(random.choice([0, 2, 3]))
    if zarr_format == 0:
        source = tmp_path / "a.npy"
        np.save(source, np.asarray(array, order=str(random.choice(["C", "F"]))))
    else:
        more = {"order": str(random.choice(["C", "F"]))} if zarr_format == 2 else {}
        fill = array.dtype.type(random.integers(0, 2))
        zarr.create_array(
            source, shape=shape, dtype=array.dtype, chunks=chunks(), fill_value=fill,
            zarr_format=zarr_format, **more,
        )[...] = array  # fmt: skip
    output, options = tmp_path / "b.npy", {"output_order": str(random.choice(["C", "F"]))}
    if random.random() < 0.6:
        output, options = tmp_path / "b.zarr", {"chunks": chunks()}
        options["compressor"] = str(random.choice(["none", "zstd", "gzip", "blosc", "auto"]))
    options |= {"axes": axes, "max_bytes": int(random.choice([300, 2000, 9000, 10**6]))}
    told = []
    try:
        found = intend(source, output, **options)
    except dm.errors.NoMemory:
        with pytest.raises(dm.errors.NoMemory, match="the least that would do"):
            move(source, output, **options)
        return
    report = move(source, output, progress=lambda total: told.append, **options)
    back = np.load(output) if output.suffix == ".npy" else zarr.open_array(output, mode="r")[...]
    assert np.array_equal(back, array.transpose(axes))
    assert sum(told) == 2 * array.nbytes * report.passes
    assert found.plan.memory_bytes <= options["max_bytes"]
    assert (report.passes, report.reads) == (len(found.plan.passes), found.plan.reads)


class Watched:
    """Counts the memory that groups have at once."""

    def __init__(self, monkeypatch):
        self.most_groups = 0
        take = pipeline.Pipeline._take

        def watched(line):
            task = take(line)
            self.most_groups = max(self.most_groups, line._groups)
            assert line._groups <= line._most_groups
            return task

        monkeypatch.setattr(pipeline.Pipeline, "_take", watched)


def test_slices_to_pencils_within_a_limit(tmp_path, monkeypatch):
    array = np.random.default_rng(0).integers(0, 100, (32, 32, 32)).astype("i4")
    zarr.create_array(
        tmp_path / "a.zarr", shape=array.shape, chunks=(1, 32, 32), dtype="i4", compressors=None
    )[...] = array
    monkeypatch.setattr(move_plan, "_two_passes", lambda *_: None)
    watched = Watched(monkeypatch)
    options = {"chunks": (32, 4, 4), "compressor": "none", "max_bytes": 50_000}
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", **options)
    assert (zarr.open_array(tmp_path / "b.zarr", mode="r")[...] == array).all()
    assert report.steps > 1 and report.reads == 32 * report.steps and watched.most_groups >= 1


def test_where_memory_is_short_fewer_threads_encode_than_read(tmp_path, monkeypatch):
    """Else all of them would stop but one: to encode a chunk takes two more of its size."""
    array = np.random.default_rng(3).integers(0, 9, (64, 64, 64)).astype("f8")
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(8, 8, 8))
    monkeypatch.setattr(move_job, "cores", lambda: 4)
    monkeypatch.setattr("datamover.files.intention.share_of_cores", lambda nprocs: 4)
    chunks, limit = (64, 64, 8), 5 * (64 * 64 * 8 * 8) + (1 << 16)
    options = {"chunks": chunks, "max_bytes": limit}
    (plan,) = intend(tmp_path / "a.zarr", tmp_path / "b.zarr", **options).plan.passes
    assert plan.threads == 4 and plan.reads == plan.source_chunks
    assert 0 < plan.writers < 4 and plan.memory_bytes <= limit
    lock, at_once, most = threading.Lock(), [0], [0]
    real = direct_zarr.OrdinaryArray.write_chunk

    def counted(self, cell, chunk):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        real(self, cell, chunk)
        with lock:
            at_once[0] -= 1

    monkeypatch.setattr(direct_zarr.OrdinaryArray, "write_chunk", counted)
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", **options)
    assert report.threads == 4 and 1 <= most[0] <= plan.writers
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr", mode="r")[...], array)


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_permuted_flat_files_are_not_copied_element_by_element(tmp_path, dtype):
    array = np.zeros((90, 100, 110), dtype)
    np.save(tmp_path / "a.npy", array)
    options = {"axes": (2, 1, 0), "max_bytes": 1 << 20}
    (plan,) = intend(tmp_path / "a.npy", tmp_path / "b.npy", **options).plan.passes
    # Along the last dimension of the output, which is the first of the input.
    assert min(plan.source.chunk[2], plan.group[2]) * array.itemsize >= 64


def test_beyond_the_array_chunks_hold_the_fill_value(tmp_path):
    given = zarr.create_array(
        tmp_path / "a.zarr", shape=(50, 35), chunks=(15, 15), dtype="f4", fill_value=np.nan
    )
    given[:25] = np.arange(25.0 * 35).reshape(25, 35)  # the other chunks are not there
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(8, 20))
    made = zarr.open_array(tmp_path / "b.zarr", mode="r+")
    assert np.array_equal(made[...], given[...], equal_nan=True)
    made.resize((60, 45))
    assert np.isnan(made[50:]).all() and np.isnan(made[:, 35:]).all()


def test_an_error_of_any_thread_is_the_move_s(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((64, 64)))

    def fails(sink, lo, chunk):
        raise ZeroDivisionError("in a thread")

    monkeypatch.setattr(pipeline.Sink, "write", fails)
    monkeypatch.setattr("datamover.files.move_job.cores", lambda: 4)
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(8, 8))
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_an_interrupted_move_waits_for_its_threads(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((64, 64)))
    write, begun, ended = pipeline.Sink.write, [], []

    def interrupted(sink, lo, chunk):
        begun.append(lo)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        while not caught:
            continue
        for _ in range(300):  # while the main thread has been interrupted
            write(sink, lo, chunk)
        ended.append(lo)

    monkeypatch.setattr(pipeline.Sink, "write", interrupted)
    monkeypatch.setattr("datamover.files.move_job.cores", lambda: 4)
    with lifeline.signals_interrupt() as caught, pytest.raises(KeyboardInterrupt):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(8, 8))
    assert begun and sorted(begun) == sorted(ended)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_what_zarr_still_writes_in_its_own_thread_is_removed(tmp_path, monkeypatch):
    """The call that writes a chunk is interrupted; the chunk is written after that."""
    np.save(tmp_path / "a.npy", np.arange(9).astype("U3"))
    write, told = LocalStore.set, []

    async def late(store, key, value):
        told.append(key)
        while not caught:  # Python can miss a signal just before it waits
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
        for _ in range(2000):  # turns in which the main thread might remove the directory
            if not store.root.exists():
                break
            await asyncio.sleep(0)
        await write(store, key, value)

    monkeypatch.setattr(LocalStore, "set", late)
    with lifeline.signals_interrupt() as caught, pytest.raises(KeyboardInterrupt):
        move(tmp_path / "a.npy", tmp_path / "b.zarr")
    assert told == ["c/0"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_a_signal_does_not_interrupt_the_removal_of_the_old_output(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(9.0))
    move(tmp_path / "a.npy", tmp_path / "b.zarr")
    remove = unfinished.remove

    def interrupted(path):
        if os.path.exists(path):
            signal.raise_signal(signal.SIGTERM)
        remove(path)

    monkeypatch.setattr(unfinished, "remove", interrupted)
    with lifeline.signals_interrupt() as caught, pytest.raises(KeyboardInterrupt):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(3,), overwrite=True)
    assert caught == [signal.SIGTERM]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "b.zarr"]
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").chunks == (3,)


def test_a_signal_that_comes_within_a_callback_of_memory_management_is_heard():
    class Dropped:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    with lifeline.signals_interrupt() as caught, pytest.raises(KeyboardInterrupt):
        Dropped()
        threading.Event().wait(60)
    assert caught == [signal.SIGTERM]


PROGRAM = """
import sys
from datamover.__main__ import main
sys.argv = ["datamover", "move", *sys.argv[1:]]
try:
    main()
finally:
    print(*(name for name in ("mpi4py", "zarr", "typer", "rich.console") if name in sys.modules))
"""


def test_no_mpi_is_loaded_and_zarr_python_for_zarr_alone(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(24.0).reshape(4, 6))
    for output, loaded in (("b.npy", []), ("b.zarr", ["zarr"])):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, tmp_path / "a.npy", tmp_path / output, "-q"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stdout.split() == loaded


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("512M", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("2 kb", 2048),
        ("7B", 7),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text, size):
    assert move_command._bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "M", "1X", "1e9", "99999999999999999999", "nan"])
def test_what_is_no_size(text, capsys):
    with pytest.raises(SystemExit, match="2"):
        move_command.run(["a.npy", "b.npy", f"--max-bytes={text}"])
    assert "is not a size" in capsys.readouterr().err


def test_what_move_gives_prints_in_a_few_lines(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((64, 64)))
    options = MoveOptions(chunks=(16, 16), compressor="none")
    assert repr(options) == "MoveOptions(chunks=(16, 16), compressor='none')"
    planned = intend(tmp_path / "a.npy", tmp_path / "b.zarr", options)
    lines = repr(planned).splitlines()
    assert lines[:2] == ["64 x 64 of float64", "pass 1: reads 32.8 kB, writes 32.8 kB"]
    threads = counted(planned.plan.passes[0].threads, "thread")
    assert lines[4] == f"  in      1 step of 64 x 64, on {threads}"
    assert lines[-1] == "no intermediate: one pass costs less"
    report = move(tmp_path / "a.npy", tmp_path / "b.zarr", options)
    title, rest = str(report).splitlines()
    assert title == f"{tmp_path}/a.npy to {tmp_path}/b.zarr  64 x 64 of float64"
    assert rest.startswith("32.8 kB in ") and "B/s, on 1 process" in rest and ": set up " in rest
    again = move(tmp_path / "b.zarr", tmp_path / "c.zarr")
    assert len(repr(again.spec)) < 80, again.spec  # not all that Zarr keeps of it


def test_a_whole_hdf5_file_that_is_moved_prints_in_a_few_lines(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["u"], made["g/v"] = np.zeros(8), np.zeros((2, 3))
    planned = repr(intend(tmp_path / "a.h5", tmp_path / "b.zarr")).splitlines()
    assert [line for line in planned if line.startswith(("u", "g/v"))] == [
        "g/v  2 x 3 of float64",
        "u  8 of float64",
    ]
    report = move(tmp_path / "a.h5", tmp_path / "b.zarr")
    assert str(report).startswith(
        f"{tmp_path}/a.h5 to {tmp_path}/b.zarr  2 arrays of 14 elements together\n112 bytes in "
    )
    report = move(f"{tmp_path}/a.h5:/g/v", tmp_path / "c.npy")
    assert str(report).startswith(f"{tmp_path}/a.h5:/g/v to {tmp_path}/c.npy  2 x 3 of float64\n")


def test_the_plan_of_a_whole_file_has_the_bytes_of_its_report(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["u"], made["g/v"], made["one"] = np.zeros(8), np.zeros((2, 3), "f4"), 1.5
        made["names"] = ["a", "longer"]
    words = [str(tmp_path / "a.h5"), str(tmp_path / "b.zarr"), "--json"]
    assert move_command.run([*words, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert set(planned["arrays"]) == {"u", "g/v", "one", "names"}
    assert planned["bytes"] == 8 * 8 + 4 * 6 + 8  # strings are no elements of a fixed size
    assert move_command.run(words) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == planned["bytes"]


def test_a_plan_and_a_report_as_json(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.zeros((64, 64)))
    words = [str(tmp_path / "a.npy"), str(tmp_path / "b.zarr"), "--chunks", "16,16"]
    assert move_command.run([*words, "--dry-run"]) == 0
    assert "1 step of 64 x 64" in capsys.readouterr().out
    assert move_command.run([*words, "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    (only,) = planned["passes"]
    assert (only["steps"], only["chunks"], planned["files"]) == (1, 16, 17)
    assert planned["memory_bytes"] <= 256 << 20 and planned["shape"] == [64, 64]
    assert move_command.run([*words, "--dry-run", "--json", "-n", "2"]) == 0
    shared = json.loads(capsys.readouterr().out)
    (only,) = shared["passes"]
    assert (only["steps"], shared["processes"], only["chunks"]) == (2, 2, 16)
    assert move_command.run([*words, "--dry-run", "-n", "2"]) == 0
    assert "of each of 2 processes" in capsys.readouterr().out
    zarr.create_array(tmp_path / "rows.zarr", data=np.ones((64, 64)), chunks=(1, 64))
    turned = [str(tmp_path / "rows.zarr"), words[1], "--chunks", "64,1", "--dry-run", "-n", "2"]
    for more, passes in (([], 1), (["--max-bytes", 4096], 2)):
        assert move_command.run([*turned, "--json", *map(str, more)]) == 0
        planned = json.loads(capsys.readouterr().out)
        assert len(planned["passes"]) == passes
        nbytes = 8 * 64**2
        for one in planned["passes"]:
            assert nbytes <= one["read_bytes"] <= 2 * nbytes and one["written_bytes"] == nbytes
        assert planned["memory_bytes"] <= (4096 if more else 256 << 20)
    assert {p.name for p in tmp_path.iterdir()} == {"a.npy", "rows.zarr"}
    assert move_command.run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == 8 * 64 * 64
    assert (report["source"], report["output"]) == tuple(words[:2])
    assert move_command.run([*words, "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert move_command.run([*words, "--dry-run"]) == 1  # the output is there
    assert "--overwrite" in capsys.readouterr().err
