# SPDX-License-Identifier: BSD-3-Clause
"""The disk: room for files, and the error if there is none; early write-back, and syncs.

By default, the system keeps written data in memory for a while. If write-back begins at once, the
disk works during the move and not only in the sync at its end. The sync is still what makes the
output durable and reports all errors. A thread that writes faster than the disk waits for it here:
otherwise the sync would wait for as long.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator

from datamover.errors import IoFailed

#: Hidden names of outputs that are not complete (`unfinished.temporary_path`), of old ones that are
#: replaced, and of directories that are being removed.
HIDDEN = re.compile(r"\.(?P<name>.+)\.(?P<token>[0-9a-f]{12})\.partial(\.old|\.gone)?", re.DOTALL)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Appended if the needed space is that of elements that are encoded.
ENCODED = " (the array before compression)"
#: Minimum size of pieces to write back: a call for a shorter one costs more than the sync.
MIN_BYTES = 1 << 18
SYNC_FILE_RANGE_WRITE = 2


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield the descriptor of a file or directory, open in a block."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)


def is_no_space(error: OSError) -> bool:
    """Return whether a disk is full, a quota used up, or a file above its size limit."""
    return error.errno in NO_SPACE


def check_room(fd: int, nbytes: int) -> None:
    """Raise if a disk has no room, before any is used: it would be full for others in between.

    Raises
    ------
    OSError
    """
    disk, file = os.fstatvfs(fd), os.fstat(fd)
    # Some file systems do not report their space.
    if disk.f_blocks > 0 and nbytes - 512 * file.st_blocks > disk.f_bfree * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def check_room_to_grow(path: str, nbytes: int) -> None:
    """Raise if a disk has no room for a file to grow, or the file would exceed the size limit.

    Raises
    ------
    OSError
    """
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and nbytes > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    with opened(path) as fd:
        check_room(fd, nbytes)


def free_bytes(directory: str) -> int:
    """Return the free bytes in a directory; 2**63 - 1 if its file system does not report them.

    Raises
    ------
    OSError
    """
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize if found.f_blocks else (1 << 63) - 1


@contextlib.contextmanager
def naming_no_space(path: str, needed_bytes: int | None = None, more: str = "") -> Iterator[None]:
    """Raise the error of a full disk in a block as IoFailed with the words of `no_space`."""
    try:
        yield
    except OSError as e:
        raise_no_space(e, path, needed_bytes, more)
        raise


def raise_no_space(
    error: BaseException, path: str, needed_bytes: int | None = None, more: str = ""
) -> None:
    """Raise IoFailed with the words of `no_space` if an error reports a full disk."""
    if isinstance(error, OSError) and is_no_space(error):
        raise IoFailed(no_space(path, error, needed_bytes) + more) from error


def no_space(path: str, error: OSError, needed_bytes: int | None = None) -> str:
    """Return a message with the directory or file, the needed space, and the free space."""
    directory = os.path.dirname(path) or "."
    if hidden := HIDDEN.fullmatch(os.path.basename(path)):
        path = os.path.join(directory, hidden["name"])
    needs = "" if needed_bytes is None else f"; the output needs {needed_bytes:,} bytes"
    if error.errno == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        why = (
            "the file system's limit"
            if limit == resource.RLIM_INFINITY
            else f"the limit of {limit:,} bytes (ulimit -f)"
        )
        return f"{path} would be larger than {why}{needs}; {_free(directory)}"
    if error.errno == errno.EDQUOT:
        return f"the disk quota in {directory} is used up{needs}; {_free(directory)}"
    return f"not enough space in {directory}{needs}; {_free(directory)}"


def _free(directory: str) -> str:
    found = os.statvfs(directory)
    if found.f_files > 0 and found.f_favail == 0:
        return "no inodes are free there"
    return f"{found.f_bavail * found.f_frsize:,} bytes are free"


def begin_write_back(fd: int, position: int, nbytes: int) -> None:
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
