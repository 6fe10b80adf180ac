# SPDX-License-Identifier: BSD-3-Clause
"""Early write-back: the disk gets all large pieces during the writing, and no file stays open."""

import errno
import itertools
import mmap
import os
import threading

import numpy as np
import pytest
import zarr

from datamover.files import move, write_back

PAGE = mmap.PAGESIZE
ARRAY = np.arange(1 << 20, dtype="f4").reshape(64, 128, 128)


@pytest.fixture
def told(monkeypatch):
    """What the system was told: (inode, first byte, length)."""
    found = []

    def sync_file_range(fd, first, length, flags):
        assert flags == write_back.SYNC_FILE_RANGE_WRITE and first % PAGE == length % PAGE == 0
        found.append((os.fstat(fd).st_ino, first, length))
        return 0

    monkeypatch.setattr(write_back, "_sync_file_range", lambda: sync_file_range)
    # All pieces, however slow the thread is.
    monkeypatch.setattr(write_back, "MOST_WAITING", 10**6)
    monkeypatch.setattr(write_back, "give_up", wait)
    return found


def open_files():
    """How many descriptors this process has, and the one with which that is looked up."""
    return len(os.listdir("/proc/self/fd"))


def test_all_but_the_ends_of_pieces_of_a_flat_file(tmp_path, told):
    path = tmp_path / "a"
    data = os.urandom(3 << 20)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    cuts = [0, 5, (1 << 20) + 5, (1 << 20) + 105, 3 << 20]
    for begin, end in itertools.pairwise(cuts):
        os.pwrite(fd, data[begin:end], begin)
        write_back.begin(fd, begin, end - begin)
    os.close(fd)
    wait()
    first = -(-cuts[3] // PAGE) * PAGE
    inode = path.stat().st_ino
    assert told == [(inode, PAGE, (1 << 20) - PAGE), (inode, first, (3 << 20) - first)]
    assert path.read_bytes() == data


def wait():
    for thread in threading.enumerate():
        if thread.name == write_back.THREAD:
            thread.join()


def test_chunks_are_told_of_whole_and_short_ones_not(tmp_path, told):
    np.save(tmp_path / "a.npy", ARRAY)
    move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(1, 128, 128))
    assert told == []
    # Of chunks that end within a page the rest is told of too.
    move(tmp_path / "a.npy", tmp_path / "c.zarr", chunks=(64, 128, 127), compressor="none")
    files = {p.stat().st_ino: p.stat().st_size for p in tmp_path.glob("c.zarr/c/0/0/*")}
    assert len(told) == len(files) == 2
    assert all(first == 0 and 0 <= n - files[inode] < PAGE for inode, first, n in told)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "c.zarr", mode="r")[...], ARRAY)


def test_nothing_is_open_when_it_was_given_up(tmp_path, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(write_back, "_sync_file_range", lambda: lambda *_: goes_on.wait())
    before = open_files()
    with open(tmp_path / "a", "wb") as file:
        for _ in range(2 * write_back.MOST_WAITING):
            write_back.begin(file.fileno(), 0, 1 << 20)
    assert open_files() - before <= write_back.MOST_WAITING + 2  # of these one is its own
    ends = threading.Thread(target=write_back.give_up)
    ends.start()
    goes_on.set()
    ends.join()
    assert open_files() == before


def test_where_nothing_waits_no_lock_is_taken():
    """An interrupt may have left it with a thread that never lets go of it."""
    giving_up = threading.Thread(target=write_back.give_up, daemon=True)
    with write_back._queue._changed:
        giving_up.start()
        giving_up.join(10)
        assert not giving_up.is_alive()


def test_a_forked_process_begins_anew(tmp_path, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(write_back, "_sync_file_range", lambda: lambda *_: goes_on.wait())
    with open(tmp_path / "a", "wb") as file:
        write_back.begin(file.fileno(), 0, 1 << 20)
        child = os.fork()
        if child == 0:
            goes_on.set()
            write_back.begin(file.fileno(), 0, 1 << 20)
            write_back.give_up()  # would wait for ever for a thread that is not here
            os._exit(0)
        goes_on.set()
    assert os.waitpid(child, 0)[1] == 0
    write_back.give_up()


def test_without_a_thread_or_a_descriptor_the_rest_is_left_to_the_sync(tmp_path, monkeypatch):
    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    def no_descriptor(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(write_back, "_sync_file_range", lambda: lambda *_: 0)
    before = open_files()
    with open(tmp_path / "a", "wb") as file:
        for what, name, fails in [
            (threading.Thread, "start", no_thread),
            (os, "dup", no_descriptor),
        ]:
            with monkeypatch.context() as patched:
                patched.setattr(what, name, fails)
                write_back.begin(file.fileno(), 0, 1 << 20)
            write_back.give_up()
    assert open_files() == before


def test_an_error_at_the_close_of_a_duplicate_ends_nothing(tmp_path, monkeypatch):
    close, closed, failures = os.close, [], []

    def failing(fd):
        close(fd)
        closed.append(fd)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(write_back, "_sync_file_range", lambda: lambda *_: 0)
    monkeypatch.setattr(threading, "excepthook", failures.append)
    with open(tmp_path / "a", "wb") as file:
        monkeypatch.setattr(os, "close", failing)
        write_back.begin(file.fileno(), 0, 1 << 20)
        write_back.give_up()
        monkeypatch.setattr(os, "close", close)
    assert len(closed) == 1 and failures == []


def test_a_sync_that_fails_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    for path in (str(tmp_path), str(tmp_path / "a")):
        fd = os.open(path, os.O_RDONLY)
        write_back.sync(fd, path)
        os.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            write_back.sync(fd, path)
