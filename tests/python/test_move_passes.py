# SPDX-License-Identifier: BSD-3-Clause
"""Moves in two passes: traffic, elements, refusals, and what is left of intermediates."""

import json
import math
import os
import signal
import subprocess
import sys

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import given, settings

import datamover as dm
from datamover import move_command
from datamover.files import intend, intermediate, move, move_job, move_plan, rechunk, space
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.chunk_plan import Limits
from datamover.files.chunk_sides import Sink, Source
from datamover.files.formats import DEFAULT_LIMIT, ArraySpec
from datamover.files.intermediate import Intermediate
from datamover.files.unfinished import temporary_path
from datamover.launch import outer_environment

ROOM = move_plan.Room("/nowhere", 0, 1 << 60)


class Described(ChunkedArray):
    """An array of which nothing is read or written."""

    def __init__(self, shape, chunk, is_encoded):
        self.spec, self.granule = ArraySpec(shape, np.dtype("f4")), chunk
        self.fill_bytes, self.is_encoded = bytes(4), is_encoded


def planned(shape, read, written, axes, max_bytes, threads=1, processes=1, is_encoded=True):
    """Plan between arrays of such chunks; `axes` as of `numpy.transpose`."""
    reader = Described(shape, read, is_encoded)
    writer = Described(tuple(shape[a] for a in axes), written, is_encoded)
    limits = Limits(max_bytes, threads, processes)
    return move_plan.plan_move(Source(reader, axes), Sink(writer, writer.spec), limits, ROOM)


@st.composite
def problems(draw):
    shape = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple))
    read, written = (tuple(draw(st.integers(1, 12)) for _ in shape) for _ in range(2))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    return shape, read, written, axes, draw(st.integers(0, 4000))


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([1, 4]), st.booleans())
def test_no_more_than_twice_the_data_is_read_and_written(problem, threads, is_encoded):
    """If memory suffices for three chunks of each side, whatever the size of the array."""
    shape, read, written, axes, more = problem
    least = 3 * 4 * (math.prod(read) + math.prod(written))
    plan = planned(shape, read, written, axes, least + more, threads, is_encoded=is_encoded)
    whole_chunks = math.prod(-(-n // c) * c for n, c in zip(shape, read, strict=True))
    assert plan.read_bytes <= 2 * 4 * whole_chunks
    assert plan.written_bytes == 4 * math.prod(shape) * len(plan.passes)
    assert plan.memory_bytes <= least + more


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    ("shape", "read", "written", "limit"),
    [
        ((8760, 721, 1440), (1, 721, 1440), (8760, 24, 24), 1 << 28),
        ((8760, 721, 1440), (8760, 24, 24), (1, 721, 1440), 1 << 28),
        ((96432, 721, 1440), (1, 721, 1440), (8760, 72, 144), 1100 << 20),
        ((10_000, 10_000, 10_000), (97, 83, 89), (71, 73, 79), 1 << 24),
        ((40_000, 40_000), (200, 40_000), (40_000, 200), 1 << 27),
    ],
)
def test_large_arrays_are_read_once_in_each_pass(shape, read, written, limit, threads, processes):
    plan = planned(shape, read, written, tuple(range(len(shape))), limit, threads, processes)
    first, _ = plan.passes
    assert first.reads == first.source_chunks and plan.memory_bytes <= limit
    nbytes = 4 * math.prod(shape)
    traffic = [(one.read_bytes, one.written_bytes) for one in plan.passes]
    assert traffic == [(first.read_bytes, nbytes), (nbytes, nbytes)]
    assert plan.reason.startswith("not in one pass: ") and not plan.lack


def in_two_passes(monkeypatch):
    """Have moves go in two passes if memory allows; give the plans that were made."""
    plans = []

    def plan_move(source, sink, limits, room):
        found = move_plan._two_passes(source, sink, limits)
        plans.append(found or move_plan.plan_move(source, sink, limits, room))
        return plans[-1]

    monkeypatch.setattr(move_job, "plan_move", plan_move)
    return plans


def made_source(random, place, array, chunks):
    """Write an array in a random format; give its name."""
    kind = str(random.choice(["npy", "F", "zarr", "fill", "shards", "h5", "v2"]))
    if kind in ("npy", "F"):
        np.save(place / "a.npy", np.asarray(array, order="F" if kind == "F" else "C"))
        return place / "a.npy"
    if kind == "h5":
        with h5py.File(place / "a.h5", "w") as file:
            chunks = tuple(map(min, chunks, array.shape))
            file.create_dataset("g/u", data=array, chunks=chunks, compression="gzip")
        return f"{place}/a.h5:/g/u"
    said = {"chunks": chunks}
    if kind == "shards":
        said["shards"] = tuple(2 * c for c in chunks)
    if kind == "fill":
        said |= {"fill_value": array.flat[0], "config": {"write_empty_chunks": False}}
    zarr.create_array(
        place / "a.zarr", shape=array.shape, dtype=array.dtype,
        zarr_format=2 if kind == "v2" else 3, **said,
    )[...] = array  # fmt: skip
    return place / "a.zarr"


def stored(name):
    """Read an array by the library of its format."""
    path, _, member = str(name).partition(":/")
    if member:
        with h5py.File(path) as file:
            return file[member][()]
    return np.load(path) if path.endswith(".npy") else zarr.open_array(path, mode="r")[...]


@pytest.mark.parametrize("seed", range(30))
def test_any_files_go_through_an_intermediate(tmp_path, monkeypatch, seed):
    random = np.random.default_rng(seed)
    dims = int(random.integers(1, 5))
    shape = tuple(int(n) for n in random.integers(1, 12, dims))
    array = random.integers(0, 3, shape).astype(str(random.choice(["f8", "<i4", ">i2", "u1"])))
    chunks, wanted = (tuple(int(n) for n in random.integers(1, 6, dims)) for _ in range(2))
    source = made_source(random, tmp_path, array, chunks)
    said = {"axes": tuple(int(a) for a in random.permutation(dims)), "check": "crc32c"}
    expected = array
    if random.random() < 0.4:
        region = [(int(random.integers(0, n)), n) for n in shape]
        said["region"], expected = region, array[tuple(slice(*ends) for ends in region)]
    if random.random() < 0.4:
        said["output_dtype"], expected = "f4", expected.astype("f4", casting="unsafe")
        if not np.can_cast(array.dtype, "f4", "same_kind"):
            said.pop("output_dtype"), (expected := expected.astype(array.dtype))
    output = [tmp_path / "b.npy", tmp_path / "b.zarr", f"{tmp_path}/b.h5:/v"][random.integers(3)]
    if not str(output).endswith(".npy"):
        said["chunks"] = wanted
    if str(output).endswith(".zarr") and random.random() < 0.3:
        said["shards"] = tuple(2 * n for n in wanted)
    plans = in_two_passes(monkeypatch)
    before = set(os.listdir(tmp_path))
    (tmp_path / "t").mkdir()
    report = move(source, output, max_bytes=1 << 16, temporary=tmp_path / "t", **said)
    assert report.passes == len(plans[0].passes) == 2
    assert report.written_bytes == plans[0].written_bytes
    np.testing.assert_array_equal(stored(output), expected.transpose(said["axes"]))
    made = os.path.basename(str(output).partition(":/")[0])
    assert set(os.listdir(tmp_path)) == before | {made, "t"} and not os.listdir(tmp_path / "t")


def test_one_pass_and_two_make_the_same_output(tmp_path, monkeypatch):
    """Attributes, names of dimensions, fill value and what is beyond the array among it."""
    given = zarr.create_array(
        tmp_path / "a.zarr", shape=(50, 35), chunks=(15, 15), dtype="f4", fill_value=np.nan,
        dimension_names=("y", "x"), attributes={"units": "K"},
    )  # fmt: skip
    given[:25] = np.arange(25.0 * 35).reshape(25, 35)
    said = {"chunks": (8, 20), "axes": (1, 0)}
    move(tmp_path / "a.zarr", tmp_path / "one.zarr", **said)
    in_two_passes(monkeypatch)
    assert move(tmp_path / "a.zarr", tmp_path / "two.zarr", **said).passes == 2
    files = [
        {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}
        for top in (tmp_path / "one.zarr", tmp_path / "two.zarr")
    ]
    assert files[0] == files[1]


@pytest.fixture
def slices(tmp_path):
    """An array in slices of 8 KiB, with which pencils take two passes within 50,000 bytes."""
    array = np.random.default_rng(0).integers(0, 100, (32, 32, 64)).astype("f4")
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(1, 32, 64))
    return array


PENCILS = {"chunks": (32, 4, 4), "max_bytes": 50_000}


def test_an_intermediate_is_chosen_and_said(tmp_path, slices, capsys):
    words = [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "32,4,4"]
    words += ["--max-bytes", "50000", "--dry-run"]
    assert move_command.run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    passes = [line for line in lines if line.startswith("pass ")]
    assert passes == [f"pass {k}: reads 262.1 kB, writes 262.1 kB" for k in (1, 2)]
    assert lines[-1].startswith("not in one pass: ") and lines[-1].endswith(" would be read")
    assert move_command.run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["read_bytes"] == found["written_bytes"] == 2 * slices.nbytes
    assert [one["read_bytes"] for one in found["passes"]] == [slices.nbytes] * 2
    assert os.listdir(tmp_path) == ["a.zarr"]
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", **PENCILS)
    assert (report.passes, report.read_bytes) == (2, 2 * slices.nbytes)
    assert ", in 2 passes: " in repr(report)
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), slices)


def test_the_parameters_of_rechunker(tmp_path, slices):
    (tmp_path / "t").mkdir()
    given = zarr.open_array(tmp_path / "a.zarr")
    report = rechunk(given, (32, 4, 4), 50_000, tmp_path / "b.zarr", tmp_path / "t")
    assert report.passes == 2
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), slices)
    with pytest.raises(dm.errors.WrongType, match="source is int"):
        rechunk(3, (1,), 50_000, tmp_path / "c.zarr")


def test_room_is_looked_for_before_anything_is_written(tmp_path, slices, monkeypatch, caplog):
    monkeypatch.setattr(move_plan, "BLOCK_BYTES", 0)
    monkeypatch.setattr(move_plan, "FILE_COST_BYTES", 0)
    monkeypatch.setattr(space, "free_bytes", lambda directory: slices.nbytes - 1)
    places = tmp_path / "a.zarr", tmp_path / "b.zarr"
    words = f"{tmp_path} has 262.1 kB free, 262.1 kB are needed; temporary= names another directory"
    monkeypatch.setattr(move_plan, "BEARABLE", 1)
    assert intend(*places, **PENCILS).plan.lack == words
    assert repr(intend(*places, **PENCILS)).endswith(words)
    with pytest.raises(dm.errors.IoFailed, match=f"not enough space for the intermediate: {words}"):
        move(*places, **PENCILS)
    assert os.listdir(tmp_path) == ["a.zarr"]
    monkeypatch.setattr(move_plan, "BEARABLE", 1000)
    found = intend(*places, **PENCILS).plan
    assert len(found.passes) == 1 and found.reason == f"no intermediate: {words}"
    assert move(*places, **PENCILS).passes == 1
    assert f"a.zarr is read {found.rereads:.3g} times; no intermediate: " in caplog.text
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), slices)


@pytest.mark.parametrize("encoded", [True, False])
def test_the_output_needs_room_too_if_its_size_is_known(tmp_path, slices, monkeypatch, encoded):
    monkeypatch.setattr(move_plan, "BLOCK_BYTES", 0)
    monkeypatch.setattr(space, "free_bytes", lambda directory: slices.nbytes)
    said = PENCILS | {"compressor": "zstd" if encoded else "none"}
    found = intend(tmp_path / "a.zarr", tmp_path / "b.zarr", **said).plan
    assert bool(found.lack or len(found.passes) == 1) == (not encoded)


@pytest.mark.parametrize("parts", [2, 3])
def test_the_outputs_of_all_arrays_of_a_file_need_room(tmp_path, slices, monkeypatch, parts):
    """An intermediate, and the two arrays of the output."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "uv":
            file.create_dataset(name, data=slices, chunks=(1, *slices.shape[1:]))
    monkeypatch.setattr(move_plan, "BLOCK_BYTES", 0)
    monkeypatch.setattr(move_plan, "FILE_COST_BYTES", 0)
    monkeypatch.setattr(space, "free_bytes", lambda directory: parts * slices.nbytes)
    found = intend(tmp_path / "a.h5", tmp_path / "b.h5", **PENCILS).members
    for one in found.values():
        assert bool(one.plan.lack or len(one.plan.passes) == 1) == (parts == 2)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path, slices):
    for name, words in (("none", "is not a directory"), ("a.zarr/zarr.json", "is not a directory")):
        with pytest.raises(dm.errors.IoFailed, match=f"temporary= {tmp_path}/{name} {words}"):
            move(tmp_path / "a.zarr", tmp_path / "b.npy", temporary=tmp_path / name)
    assert os.listdir(tmp_path) == ["a.zarr"]


def failing(monkeypatch, name, kind, count, error):
    """Have the `count`-th call of a method fail; give how often it was called."""
    calls = [0]
    work = getattr(kind, name)

    def fails(*given):
        calls[0] += 1
        if calls[0] == count:
            raise type(error)(*error.args)
        return work(*given)

    monkeypatch.setattr(kind, name, fails)
    return calls


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Intermediate, "_write"),
        (Intermediate, "read"),
        (Sink, "write"),
        (Source, "read"),
        (move_job.Job, "_run"),
    ],
)
def test_a_failure_at_any_step_leaves_nothing(tmp_path, slices, monkeypatch, kind, name, error):
    places = tmp_path / "a.zarr", tmp_path / "b.zarr"
    (tmp_path / "t").mkdir()
    said = PENCILS | {"temporary": tmp_path / "t", "overwrite": True}
    counting = failing(monkeypatch, name, kind, 0, error)
    move(*places, **said)
    monkeypatch.undo()
    old = {p: p.read_bytes() for p in (tmp_path / "b.zarr").rglob("*") if p.is_file()}
    total = counting[0]
    assert total > 1
    for count in sorted({1, total // 2, total}):
        calls = failing(monkeypatch, name, kind, count, error)
        with pytest.raises((OSError, KeyboardInterrupt)):
            move(*places, **said)
        monkeypatch.undo()
        assert calls[0] >= count
        assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr", "t"]
        assert not os.listdir(tmp_path / "t")
        assert {p: p.read_bytes() for p in (tmp_path / "b.zarr").rglob("*") if p.is_file()} == old


def test_a_disk_that_fills_up_is_named_with_the_remedy(tmp_path, slices, monkeypatch):
    def full(data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(intermediate, "crc32c", full)
    words = (
        f"not enough space in {tmp_path}; [0-9,]+ bytes are free; it is for the intermediate of "
        "262,144 bytes: temporary= names"
    )
    with pytest.raises(dm.errors.IoFailed, match=words):
        move(tmp_path / "a.zarr", tmp_path / "b.zarr", **PENCILS)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("how", ["flip", "cut", "longer", "gone"])
@pytest.mark.parametrize("at", [0, -1])
def test_a_damaged_intermediate_is_an_error(tmp_path, slices, monkeypatch, how, at):
    run = move_job.Job._run
    (tmp_path / "t").mkdir()

    def damaging(job, plan, source, sink, tell):
        if plan is job.move_plan.passes[-1]:
            files = sorted(p for p in (tmp_path / "t").rglob("*") if p.is_file())
            data = bytearray(files[at].read_bytes())
            data[len(data) // 2] ^= 1
            files[at].write_bytes(
                {"flip": data, "cut": data[:-1], "longer": data + b"0"}.get(how, b"")
            )
            if how == "gone":
                files[at].unlink()
        run(job, plan, source, sink, tell)

    monkeypatch.setattr(move_job.Job, "_run", damaging)
    with pytest.raises(dm.errors.IoFailed, match="the intermediate of this move, was damaged"):
        move(tmp_path / "a.zarr", tmp_path / "b.zarr", temporary=tmp_path / "t", **PENCILS)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "t"] and not os.listdir(tmp_path / "t")


def test_an_input_that_changes_before_the_second_pass_may_do_so(tmp_path, monkeypatch):
    """The second pass reads the intermediate alone."""
    array = np.arange(4096.0).reshape(64, 64)
    np.save(tmp_path / "a.npy", array)
    in_two_passes(monkeypatch)
    run = move_job.Job._run

    def removing(job, plan, source, sink, tell):
        if plan is job.move_plan.passes[-1]:
            (tmp_path / "a.npy").unlink()
        run(job, plan, source, sink, tell)

    monkeypatch.setattr(move_job.Job, "_run", removing)
    move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(7, 9))
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), array)


#: Kills a process that reads an intermediate; Python runs it at its start.
KILLER = """
import os, signal
from datamover.files.intermediate import Intermediate

Intermediate.read = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def command(words, place, kills=False):
    """Run the command `datamover move`, in processes that are killed or not."""
    environment = outer_environment()
    if kills:
        (place / "start").mkdir()
        (place / "start" / "sitecustomize.py").write_text(KILLER)
        environment["PYTHONPATH"] = str(place / "start")
    return subprocess.run(
        [sys.executable, "-m", "datamover", "move", *words],
        capture_output=True, text=True, timeout=200, env=environment,
    )  # fmt: skip


def test_what_a_killed_move_left_is_removed_by_the_next(tmp_path, slices, caplog):
    (tmp_path / "t").mkdir()
    words = [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "32,4,4"]
    words += ["--max-bytes", "50000", "--temporary", str(tmp_path / "t")]
    done = command(words, tmp_path, kills=True)
    assert done.returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path / "t")
    assert left.startswith(f".datamover.rechunk.{os.getuid()}.") and left.endswith(".partial")
    (tmp_path / "t" / "mine").touch()
    other = intermediate.place_in(str(tmp_path / "t"), "0" * 12)
    other.claim(True)  # removes it; and is at work itself
    assert left not in os.listdir(tmp_path / "t") and left in caplog.text
    held = os.path.basename(temporary_path(str(tmp_path / "t" / intermediate.NAME), "0" * 12))
    assert move_command.run([*words, "--quiet"]) == 0
    assert sorted(os.listdir(tmp_path / "t")) == sorted([held, "mine"])
    other.give_back()
    assert os.listdir(tmp_path / "t") == ["mine"]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr", "start", "t"]
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), slices)


@pytest.mark.parametrize("kills", [False, True])
def test_several_processes_share_both_passes(tmp_path, slices, kills):
    (tmp_path / "t").mkdir()
    words = [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "32,4,4", "-n", "2"]
    words += ["--max-bytes", "50000", "--temporary", str(tmp_path / "t"), "--json"]
    done = command(words, tmp_path, kills)
    assert not os.listdir(tmp_path / "t")
    if kills:
        assert done.returncode != 0
        assert sorted(os.listdir(tmp_path)) == ["a.zarr", "start", "t"]
        return
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passes"] == 2
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), slices)


def test_the_default_limit_grows_to_what_a_chunk_takes(tmp_path):
    zarr.create_array(
        tmp_path / "a.zarr", shape=(96432, 721, 1440), chunks=(1, 721, 1440), dtype="f4"
    )
    places, chunks = (tmp_path / "a.zarr", tmp_path / "b.zarr"), (8760, 72, 144)
    found = intend(*places, chunks=chunks).plan
    nbytes = 4 * 96432 * 721 * 1440
    assert len(found.passes) == 2 and found.read_bytes == found.written_bytes == 2 * nbytes
    assert DEFAULT_LIMIT < found.memory_bytes <= 3.1 * 4 * math.prod(chunks)
    for said in ({"chunks": chunks, "max_bytes": 1 << 28}, {"chunks": (96432, 721, 1440)}):
        with pytest.raises(dm.errors.NoMemory, match="the least that would do is"):
            intend(*places, **said)


@pytest.mark.parametrize("output", ["b.zarr", "b.npy"])
def test_the_least_limit_that_is_named_is_enough(tmp_path, output):
    """Slices to pencils, and chunks to single elements."""
    said = {"chunks": (2048, 8, 8)} if output == "b.zarr" else {}
    chunks, endian = ((1, 512, 512), "little") if said else ((256, 512, 512), "big")
    zarr.create_array(
        tmp_path / "a.zarr", shape=(2048, 2048, 512), dtype="f8", chunks=chunks,
        serializer={"name": "bytes", "configuration": {"endian": endian}},
    )  # fmt: skip

    def planned_with(max_bytes):
        return intend(tmp_path / "a.zarr", tmp_path / output, max_bytes=max_bytes, **said)

    with pytest.raises(dm.errors.NoMemory) as caught:
        planned_with(1000)
    words = str(caught.value).partition("the least that would do is ")[2]
    least = int(words.partition(";")[0].replace(",", ""))
    assert planned_with(least).plan.memory_bytes <= least
    with pytest.raises(dm.errors.NoMemory):
        planned_with(least // 2)


def test_what_cannot_be_planned(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    for said, error in (
        ({"nprocs": 0}, dm.errors.InvalidArgument),
        ({"nprocs": 2.5}, dm.errors.InvalidArgument),
        ({"chunks": (1,)}, dm.errors.InvalidArgument),
        ({"axes": (0, 0)}, dm.errors.InvalidArgument),
        ({"max_bytes": 1}, dm.errors.NoMemory),
    ):
        with pytest.raises(error):
            intend(tmp_path / "a.npy", tmp_path / "b.zarr", **said)
    np.save(tmp_path / "b.npy", np.zeros(()))
    assert "nothing to plan" in repr(intend(tmp_path / "b.npy", tmp_path / "b.zarr"))


def test_a_plan_for_processes_loads_no_mpi(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    code = (
        "import sys, datamover as dm; "
        f"dm.files.intend({str(tmp_path / 'a.npy')!r}, {str(tmp_path / 'b.npy')!r}, nprocs=4); "
        "assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
