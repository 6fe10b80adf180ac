# SPDX-License-Identifier: BSD-3-Clause
"""Full disks, and files that are too large or were shortened: one line, and no loss of data."""

import os
import shlex
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr
from mpi4py import MPI

import datamover as dm
from datamover.files import flat, move
from datamover.files.formats import ArraySpec

RANDOM = np.random.default_rng(3)
#: Does not compress: 3 MB.
ARRAY = RANDOM.integers(0, 2**32, (96, 64, 64, 2), dtype="u4")
OLD = np.arange(5.0)
OUTPUTS = [("out.npy", []), ("out.raw", []), ("out.zarr", ["--chunks", "16,16,16,2"])]


def run_move(*arguments, program=("-m", "datamover.cli")):
    """Run `datamover move` as a shell does."""
    return subprocess.run(
        [sys.executable, *program, "move", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def disk(tmp_path):
    """A disk of 2 MiB, where one can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-o", "size=2m,nr_inodes=1000"]
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", *options, "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def one_line(done, *words):
    """Check that a move failed with one line, which says all that is wanted."""
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("output", ["out.npy", "out.h5:/u"])
def test_a_disk_without_room_is_not_filled_meanwhile(tmp_path, disk, monkeypatch, output):
    np.save(tmp_path / "a.npy", ARRAY)
    monkeypatch.setattr(os, "posix_fallocate", lambda *given: pytest.fail("space is taken"))
    with pytest.raises(
        dm.errors.IoFailed, match=r"needs 3,\d*,\d* bytes; 2,\d*,\d* bytes are free"
    ):
        move(tmp_path / "a.npy", f"{disk}/{output}")
    assert os.listdir(disk) == []


@pytest.mark.parametrize(("output", "options"), OUTPUTS)
def test_a_full_disk(tmp_path, disk, output, options):
    np.save(tmp_path / "a.npy", ARRAY)
    np.save(tmp_path / "old.npy", OLD)
    move(tmp_path / "old.npy", disk / output, comm=MPI.COMM_SELF)
    free = os.statvfs(disk).f_bavail
    tree = {root: sorted(files) for root, _, files in os.walk(disk)}
    done = run_move(tmp_path / "a.npy", disk / output, *options, "-n", 2, "--overwrite")
    one_line(done, str(disk), "needs 3,145,", "bytes are free")
    assert {root: sorted(files) for root, _, files in os.walk(disk)} == tree
    assert os.statvfs(disk).f_bavail == free
    described = {"shape": OLD.shape, "dtype": "f8"} if output == "out.raw" else {}
    move(disk / output, tmp_path / "back.npy", comm=MPI.COMM_SELF, **described)
    assert np.array_equal(np.load(tmp_path / "back.npy"), OLD)


@pytest.mark.parametrize("source", ["a.h5", "a.zarr"])
def test_a_disk_without_room_for_strings(tmp_path, disk, source):
    """HDF5 crashes where it finds a disk full while it writes them."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        file.create_dataset("s", data=["x" * 100] * 20_000, dtype=h5py.string_dtype())
        lists = file.create_dataset("t", (20,), h5py.vlen_dtype("f8"))
        for k in range(20):
            lists[k] = np.arange(10_000.0)
        if source == "a.zarr":
            del file["t"]
    if source == "a.zarr":
        move(tmp_path / "a.h5", tmp_path / source)
    for words in ([], ["-n", 2]):
        done = run_move(tmp_path / source, disk / "out.h5", *words)
        one_line(done, str(disk), "the output needs", "bytes are free")
        assert os.listdir(disk) == []


@pytest.mark.parametrize("output", ["b.npy", "b.raw", "b.h5:/u"])
def test_more_than_any_file_system_holds(tmp_path, output):
    zarr.create_array(tmp_path / "a.zarr", shape=(10**12, 3200), chunks=(100, 3200), dtype="f4")
    done = run_move(tmp_path / "a.zarr", tmp_path / output)
    one_line(done, str(tmp_path), "needs 12,800,000,000,000,", "bytes are free")
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_disk_without_inodes(tmp_path, disk):
    np.save(tmp_path / "a.npy", ARRAY[:8])
    done = run_move(tmp_path / "a.npy", disk / "b.zarr", "--chunks", "2,4,4,2")
    one_line(done, str(disk), "needs 262,144 bytes", "no inodes are free")
    assert os.listdir(disk) == []


#: Runs a command in a process that may write no file larger than so; MPI has begun before, whose
#: own files may be larger. Not in the process of the tests, whose reports it would cut.
WITH_A_LIMIT = """
import resource, sys
from mpi4py import MPI
from datamover.cli import app
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
app(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("output", "options"),
    [
        ("b.npy", []), ("b.raw", []), ("b.zarr", ["--chunks", "16,32,32,2"]), ("b.h5:/u", []),
        ("b.h5:/u", ["--chunks", "16,32,32,2"]),
    ],
)  # fmt: skip
def test_a_file_that_is_too_large(tmp_path, output, options):
    np.save(tmp_path / "a.npy", ARRAY)
    done = run_move(tmp_path / "a.npy", tmp_path / output, *options, program=["-c", WITH_A_LIMIT])
    one_line(done, str(tmp_path), "20,000 bytes (ulimit -f)", "needs 3,145,", "bytes are free")
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("member", ["", ":/names"], ids=["whole", "single"])
def test_strings_that_are_too_large(tmp_path, member):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        texts = [f"{k:1000}" for k in range(200)]
        file.create_dataset("names", data=texts, dtype=h5py.string_dtype())
    source, output = f"{tmp_path}/a.h5{member}", f"{tmp_path}/b.h5{member}"
    done = run_move(source, output, program=["-c", WITH_A_LIMIT])
    one_line(done, str(tmp_path), "20,000 bytes (ulimit -f)", "the output needs", "bytes are free")
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.skipif(not shutil.which("bash"), reason="the shell sets the limit")
@pytest.mark.parametrize("output", ["b.npy", "b.h5:/u"])
def test_a_file_that_is_too_large_for_a_limit_of_the_shell(tmp_path, output):
    """MPI would meet the limit first, with many lines of its own."""
    np.save(tmp_path / "a.npy", ARRAY)
    words = f"-m datamover.cli move {tmp_path}/a.npy {tmp_path}/{output} -n 2"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 20; exec {shlex.quote(sys.executable)} {words}"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    one_line(done, f"{tmp_path}/b.", "20,480 bytes (ulimit -f)", "needs 3,145,", "bytes are free")
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_input_that_shrinks_while_it_is_read(tmp_path, order):
    """Short runs and long ones; a mapping of the file would end the process."""
    path = tmp_path / "a.raw"
    path.write_bytes(ARRAY.tobytes())
    file = flat.FlatFile(str(path), ArraySpec(ARRAY.shape, ARRAY.dtype, order), 0, writable=False)
    for box in (ARRAY.shape, (96, 64, 64, 1), (96, 3, 64, 2), (1, 64, 64, 2)):
        lo = (0,) * 4
        os.truncate(path, ARRAY.nbytes)
        file.read(lo, np.empty(box, "V4", order=order))
        os.truncate(path, 0)
        with pytest.raises(OSError, match="it became shorter"):
            file.read(lo, np.empty(box, "V4", order=order))
    file.close()


@pytest.mark.parametrize("seed", range(60))
def test_any_box_is_read_and_written_as_numpy_does(tmp_path, monkeypatch, seed):
    random = np.random.default_rng(seed)
    monkeypatch.setattr(flat, "MAX_GAP_BYTES", int(random.choice([0, 8, 64, 1 << 20])))
    monkeypatch.setattr(flat, "PIECE_BYTES", int(random.choice([1, 16, 100, 1 << 20])))
    monkeypatch.setattr(flat, "MIN_STREAMED_BYTES", int(random.choice([1, 1 << 20])))
    shape = tuple(int(n) for n in random.integers(1, 8, random.integers(1, 5)))
    order, offset = str(random.choice(["C", "F"])), int(random.integers(0, 9))
    whole = np.asarray(random.integers(0, 2**16, shape).astype("u2"), order=order)
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(offset) + whole.tobytes(order=order))
    file = flat.FlatFile(str(path), ArraySpec(shape, whole.dtype, order), offset, writable=True)
    for _ in range(10):
        lo = tuple(int(random.integers(0, n)) for n in shape)
        hi = tuple(int(random.integers(a, n + 1)) for a, n in zip(lo, shape, strict=True))
        box = tuple(map(slice, lo, hi))
        part = np.empty(whole[box].shape, "V2", order=str(random.choice(["C", "F"])))
        file.read(lo, part)
        assert np.array_equal(part.view("u2"), whole[box])
        new = random.integers(0, 2**16, part.shape).astype("u2")
        whole[box] = new
        file.write(lo, new.view("V2"))
    file.close()
    assert path.read_bytes() == bytes(offset) + whole.tobytes(order=order)
