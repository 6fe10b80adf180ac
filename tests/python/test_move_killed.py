# SPDX-License-Identifier: BSD-3-Clause
"""Killed moves: the output is absent, old or complete, and no process keeps running.

Ten kills at random moments; twenty times as many with DATAMOVER_TEST_CASES=20 (`make test-long`).
DATAMOVER_TEST_SEED selects other moments. The only sleep is the random moment of the kill itself.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid

import h5py
import numpy as np
import pytest
import zarr
from mpi4py import MPI

from datamover import launch
from datamover.files import intermediate, move, unfinished

CASES = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))
SEED = int(os.environ.get("DATAMOVER_TEST_SEED", "0"))
OLD = np.arange(7.0)
NEW = np.random.default_rng(2).integers(0, 1000, (36, 36, 36)).astype("i2")
MARK = "DATAMOVER_TEST_MARK"
PATIENCE_SECONDS = 60
OPTIONS = {".zarr": ["--chunks", "6,6,6"]}
#: Who is killed, of `datamover move -n`.
TARGETS = [(1, "parent"), (2, "parent"), (2, "parent"), (2, "mpiexec"), (2, "worker")]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]

pytestmark = pytest.mark.kills


def place(output):
    return f"{output}:/u" if output.suffix == ".h5" else output


def start(source, output, nprocs, *more):
    """Start a move that can be found again with all that it starts; at its end in a new session."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "datamover", "move", source, place(output), "-n", nprocs]
    command += ["--overwrite", *OPTIONS.get(output.suffix, []), *more]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark},
    )
    return process, mark


def running(mark):
    """The processes of a move that live, as {pid: command line}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() not in file.read():
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found[int(pid)] = file.read().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, perhaps meanwhile
            continue
    return found


def until(condition):
    """Ask again and again until something holds; give it, or what was there last."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def target_pid(process, mark, who):
    """Wait until the process to be killed is there; None where the move was over before."""
    if who == "parent":
        return process.pid

    def find():
        if process.poll() is not None:
            return [None]
        of_others = {pid: line for pid, line in running(mark).items() if pid != process.pid}
        launchers = [pid for pid, line in of_others.items() if "mpiexec" in line.partition(" ")[0]]
        workers = [pid for pid, line in of_others.items() if "-m datamover" in line]
        workers = sorted(set(workers) - set(launchers))
        return launchers if who == "mpiexec" else workers[-1:]

    return until(find)[0]


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    """How long whole moves take here, by the number of processes."""
    place = tmp_path_factory.mktemp("whole")
    np.save(place / "a.npy", NEW)
    taken = {}
    for nprocs in (1, 2):
        begin = time.monotonic()
        process, mark = start(place / "a.npy", place / "b.zarr", nprocs)
        _, words = process.communicate(timeout=PATIENCE_SECONDS)
        taken[nprocs] = time.monotonic() - begin
        assert process.returncode == 0, words
        assert running(mark) == {}
    return taken


def content(path):
    if not path.exists():
        return None
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file["u"][...]
    return zarr.open_array(path, mode="r")[...] if path.is_dir() else np.load(path)


@pytest.mark.parametrize("case", range(10 * CASES))
def test_a_kill_at_any_moment(tmp_path, seconds, case):
    random = np.random.default_rng([SEED, case])
    nprocs, who = TARGETS[case % len(TARGETS)]
    number = SIGNALS[case // 2 % len(SIGNALS)]
    replaces, suffix = case % 4 < 2, ["zarr", "h5", "npy"][case % 3]
    np.save(tmp_path / "a.npy", NEW)
    output = tmp_path / f"out.{suffix}"
    encoded = suffix == "h5" and case % 2 == 1  # all processes encode, one writes
    more = ["--chunks", "6,6,6", "--compressor", "gzip"] if encoded else []
    if replaces:
        np.save(tmp_path / "old.npy", OLD)
        move(tmp_path / "old.npy", place(output), comm=MPI.COMM_SELF)
        (tmp_path / "old.npy").unlink()

    begin = time.monotonic()
    process, mark = start(tmp_path / "a.npy", output, nprocs, *more)
    pid = target_pid(process, mark, who)
    left = max(0.2, seconds[nprocs] - (time.monotonic() - begin))
    time.sleep(random.uniform(0, left))
    if pid is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    printed, words = process.communicate(timeout=PATIENCE_SECONDS)

    assert until(lambda: not running(mark)), f"left running: {running(mark)}"
    found = content(output)
    if found is None:
        assert not replaces and process.returncode != 0
    elif found.shape == NEW.shape:
        assert np.array_equal(found, NEW)
    else:
        assert replaces and np.array_equal(found, OLD) and process.returncode != 0
    if who == "parent" and "error:" in words:
        assert words.count("\n") == 1 and f"interrupted by {number.name}" in words
        assert str(output) in words
    assert "BAD TERMINATION" not in printed + words
    # Before the command's first line, while Python imports the package, it answers Ctrl-C itself.
    imports = "in main\n" not in words and words.rstrip().endswith("KeyboardInterrupt")
    assert "Traceback" not in words or (who == "parent" and imports)

    names = os.listdir(tmp_path)
    if who != "parent" or number != signal.SIGKILL:
        assert not any(name.startswith(".") for name in names)
    move(tmp_path / "a.npy", place(output), overwrite=True, comm=MPI.COMM_SELF)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", output.name]
    assert np.array_equal(content(output), NEW)


#: Has a process that moves stay in it until it is interrupted; Python runs it at its start.
STAYS = """
import signal
from datamover.files.move_job import Job

Job._run = lambda *_: signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_prints_one_line(tmp_path, monkeypatch, number):
    np.save(tmp_path / "a.npy", NEW)
    np.save(tmp_path / "b.npy", OLD)
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(STAYS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "start"))
    process, mark = start(tmp_path / "a.npy", tmp_path / "b.zarr", 2)
    target_pid(process, mark, "mpiexec")
    os.kill(process.pid, number)
    printed, words = process.communicate(timeout=PATIENCE_SECONDS)
    assert until(lambda: not running(mark)), f"left running: {running(mark)}"
    assert process.returncode == 128 + number
    assert printed == "" and words.count("\n") == 1 and words.startswith("error: interrupted by")


def test_what_another_move_writes_is_left_alone(tmp_path, caplog):
    """Only what has no owner any more is removed, and it is named."""
    np.save(tmp_path / "a.npy", OLD)
    output = str(tmp_path / "b.npy")
    alive = unfinished.temporary_path(output, "0123456789ab")
    lock = unfinished.claim(alive, is_directory=False)
    left = unfinished.temporary_path(output, "ba9876543210")
    os.close(unfinished.claim(left, is_directory=True))
    (tmp_path / ".b.npy.notes.partial").write_text("somebody's")
    move(tmp_path / "a.npy", output, comm=MPI.COMM_SELF)
    assert os.path.exists(alive) and not os.path.exists(left)
    assert (tmp_path / ".b.npy.notes.partial").read_text() == "somebody's"
    assert left in caplog.text and alive not in caplog.text
    os.close(lock)
    move(tmp_path / "a.npy", output, overwrite=True, comm=MPI.COMM_SELF)
    assert not os.path.exists(alive)


#: Waits for what never comes, and keeps Python to itself, as MPI does while it starts.
STARTS_FOREVER = """
import ctypes
print("starts", flush=True)
library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(mutex)
library.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_of_a_launcher_whose_mpi_never_starts(tmp_path, number):
    """Its peers may have been ended by the same signal before."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py/__init__.py").write_text("")
    (tmp_path / "mpi4py/MPI.py").write_text(STARTS_FOREVER)
    program = "from datamover.move_command import _move_as_one_of_several as m; m(None, None)"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    try:
        assert process.stdout.readline() == "starts\n"
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == -number
    finally:
        process.kill()
        process.wait()


def test_what_killed_ones_of_this_machine_left_is_removed_by_any_move(tmp_path, caplog):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    left = [intermediate.NAME, "c.zarr"]
    left = [unfinished.temporary_path(str(tmp_path / name), launch.new_token()) for name in left]
    for path in left:
        os.mkdir(path)
    old = unfinished.temporary_path(str(tmp_path / "d.npy"), launch.new_token())
    (tmp_path / f"{old}.old").write_text("replaced in two steps")
    elsewhere = unfinished.temporary_path(str(tmp_path / "c.npy"), "0123456789ab")
    os.close(unfinished.claim(elsewhere, is_directory=False))
    alive = unfinished.temporary_path(str(tmp_path / "e.npy"), launch.new_token())
    lock = unfinished.claim(alive, is_directory=False)
    move(tmp_path / "a.npy", tmp_path / "b.npy")
    kept = map(os.path.basename, (elsewhere, alive))
    assert sorted(os.listdir(tmp_path)) == sorted(["a.npy", "b.npy", "d.npy", *kept])
    assert (tmp_path / "d.npy").read_text() == "replaced in two steps"
    assert all(path in caplog.text for path in (*left, old))
    assert alive not in caplog.text and elsewhere not in caplog.text
    os.close(lock)
