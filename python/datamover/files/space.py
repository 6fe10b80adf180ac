# SPDX-License-Identifier: BSD-3-Clause
"""Check that a disk has room for a file, and the error if it does not."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from collections.abc import Iterator

from datamover.errors import IoFailed

#: Hidden names of outputs that are not complete (`unfinished.temporary_path`), of old ones that are
#: replaced, and of directories that are being removed.
HIDDEN = re.compile(r"\.(?P<name>.+)\.(?P<token>[0-9a-f]{12})\.partial(\.old|\.gone)?", re.DOTALL)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Appended if the needed space is that of elements that are encoded.
ENCODED = " (the array before compression)"


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
