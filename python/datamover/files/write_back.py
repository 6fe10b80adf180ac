# SPDX-License-Identifier: BSD-3-Clause
"""Early write-back: written data is sent to the disk while more data is being written.

By default, the system keeps written data in memory for a while. If write-back begins at once, the
disk works during the move and not only in the sync at its end. The sync is still what makes the
output durable and reports all errors. A thread that writes faster than the disk waits for it here:
otherwise the sync would wait for as long.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import stat
from collections.abc import Callable

from datamover.files.space import opened

#: Minimum size of pieces: shorter ones are left to the sync, because a call costs too much.
MIN_BYTES = 1 << 18
SYNC_FILE_RANGE_WRITE = 2


def begin(fd: int, position: int, nbytes: int) -> None:
    """Let the system begin to write a piece of a file to the disk.

    Only whole pages: those at the ends may be written again. If a piece ends with its file, the
    rest of the page may count as part of it.
    """
    first = -(-position // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (position + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length >= MIN_BYTES and (sync_file_range := _sync_file_range()) is not None:
        sync_file_range(fd, first, length, SYNC_FILE_RANGE_WRITE)  # the sync reports an error


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


@functools.cache
def _sync_file_range() -> Callable[..., int] | None:
    """Return Linux' call; None if the C library does not have it."""
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function
