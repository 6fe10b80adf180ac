# SPDX-License-Identifier: BSD-3-Clause
"""Early write-back: the disk gets all large pieces during the writing, and no file stays open."""

import itertools
import mmap
import os
import threading

import numpy as np
import pytest
import zarr

from datamover.files import move, space

PAGE = mmap.PAGESIZE
ARRAY = np.arange(1 << 20, dtype="f4").reshape(64, 128, 128)


@pytest.fixture
def told(monkeypatch):
    """What the system was told: (inode, first byte, length)."""
    found = []

    def sync_file_range(fd, first, length, flags):
        assert flags == space.SYNC_FILE_RANGE_WRITE and first % PAGE == length % PAGE == 0
        found.append((os.fstat(fd).st_ino, first, length))
        return 0

    monkeypatch.setattr(space, "_sync_file_range", lambda: sync_file_range)
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
        space.begin_write_back(fd, begin, end - begin)
    os.close(fd)
    first = -(-cuts[3] // PAGE) * PAGE
    inode = path.stat().st_ino
    assert told == [(inode, PAGE, (1 << 20) - PAGE), (inode, first, (3 << 20) - first)]
    assert path.read_bytes() == data


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


def test_it_opens_nothing_and_starts_no_thread(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(space, "_sync_file_range", lambda: lambda *said: calls.append(said))
    before = open_files(), threading.enumerate()
    with open(tmp_path / "a", "wb") as file:
        for _ in range(100):
            space.begin_write_back(file.fileno(), 0, 1 << 20)
        assert calls == [(file.fileno(), 0, 1 << 20, space.SYNC_FILE_RANGE_WRITE)] * 100
        assert open_files() == before[0] + 1  # that file
    assert threading.enumerate() == before[1]


@pytest.mark.parametrize("call", [None, lambda *_: -1])
def test_where_it_fails_or_is_not_there_the_sync_does_it(tmp_path, monkeypatch, call):
    monkeypatch.setattr(space, "_sync_file_range", lambda: call)
    np.save(tmp_path / "a.npy", ARRAY)
    move(tmp_path / "a.npy", tmp_path / "b.npy", axes=(2, 1, 0))
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), ARRAY.T)


def test_a_descriptor_that_is_closed_is_no_error():
    space.begin_write_back(-1, 0, 1 << 20)  # the system's own call


def test_a_sync_that_fails_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    for path in (str(tmp_path), str(tmp_path / "a")):
        fd = os.open(path, os.O_RDONLY)
        space.sync(fd, path)
        os.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            space.sync(fd, path)
