# SPDX-License-Identifier: BSD-3-Clause
"""Early write-back: written data is sent to the disk while more data is being written.

By default, the system keeps written data in memory for a while. If write-back begins at once, the
disk works during the move and not only in the sync at its end. The sync is still what makes the
output durable and reports all errors.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import mmap
import os
import stat
import threading
from collections.abc import Callable
from typing import cast

from datamover.files.space import opened

#: Minimum size of pieces: shorter ones are left to the sync, because a call costs too much.
MIN_BYTES = 1 << 18
#: Maximum number of pieces that wait for the disk; with more, it is busy anyway.
MOST_WAITING = 64
SYNC_FILE_RANGE_WRITE = 2
THREAD = "datamover write-back"


def begin(fd: int, position: int, nbytes: int) -> None:
    """Let the system begin to write a piece of a file to the disk, without waiting.

    Only whole pages: those at the ends may be written again. If a piece ends with its file, the
    rest of the page may count as part of it. If the system has no descriptor or thread left, the
    piece is left to the sync.
    """
    first = -(-position // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (position + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length >= MIN_BYTES and _sync_file_range() is not None:
        with contextlib.suppress(OSError, RuntimeError):
            _queue.add(fd, first, length)


def give_up() -> None:
    """Leave the rest to the sync; when this returns, this module has no file open."""
    _queue.empty()


def sync(fd: int, path: str) -> None:
    """Sync an open file, or the file system of an open directory, to the disk in one call.

    It reports all errors since the file or directory was opened.
    """
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        os.fsync(fd)
    elif ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)


def sync_path(path: str) -> None:
    """Sync a file, or the file system of a directory."""
    with opened(path) as fd:
        sync(fd, path)


class _Queue:
    """Pieces that a separate thread, which exists while there are any, passes to the disk.

    The call waits if the disk is busy, which the threads that write must not.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, int, int]] = collections.deque()
        self._is_served = False

    def add(self, fd: int, first: int, length: int) -> None:
        with self._changed:
            if len(self._waiting) == MOST_WAITING:
                return
            self._waiting.append((os.dup(fd), first, length))
            if self._is_served:
                return
            try:  # the thread gets the pieces when the lock is released
                threading.Thread(target=self._serve, name=THREAD).start()
                self._is_served = True
            except RuntimeError:
                self.drop()
                raise

    def drop(self) -> None:
        """Drop waiting pieces; the caller holds the lock."""
        while self._waiting:
            _close(self._waiting.popleft()[0])

    def empty(self) -> None:
        # An interrupt at the wrong moment leaves a lock taken forever: no lock if none is needed.
        if not self._waiting and not self._is_served:
            return
        with self._changed:
            self.drop()
            if threading.current_thread().name != THREAD:  # garbage may be collected in that thread
                self._changed.wait_for(lambda: not self._is_served)

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_served = False
                    self._changed.notify_all()
                    return
                fd, first, length = self._waiting.popleft()
            # The sync at the end reports an error.
            cast(Callable, _sync_file_range())(fd, first, length, SYNC_FILE_RANGE_WRITE)
            _close(fd)


def _close(fd: int) -> None:
    """Close a duplicate; its errors are reported at the close of the file too."""
    with contextlib.suppress(OSError):
        os.close(fd)


_queue = _Queue()


def _forget() -> None:
    """Reset in a forked process, which does not have the thread."""
    global _queue
    _queue.drop()
    _queue = _Queue()


os.register_at_fork(after_in_child=_forget)


@functools.cache
def _sync_file_range() -> Callable[..., int] | None:
    """Return Linux' call; None if the C library does not have it."""
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function
