# SPDX-License-Identifier: BSD-3-Clause
"""Lock of the only writer of a time series: a file next to its group, with the writer's name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket

from datamover.errors import IoFailed
from datamover.files.addresses import enclosing


def _lock_path(series: str) -> str:
    directory, name = os.path.split(series)
    return os.path.join(directory, f".{name}.lock")


def take(series: str) -> int:
    """Hold the lock until this process ends or calls `release`; return its descriptor.

    Raises
    ------
    IoFailed
        Another process holds it, which the message names, or this file system has no locks.
    """
    while True:
        fd = os.open(_lock_path(series), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(fd, fcntl.LOCK_EX, series)
            if os.path.samestat(os.fstat(fd), os.stat(_lock_path(series))):
                break
        except FileNotFoundError:
            pass  # the last holder has removed it in between
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    os.ftruncate(fd, 0)
    os.write(fd, f"process {os.getpid()} on {socket.gethostname()}".encode())
    return fd


def release(series: str, fd: int) -> None:
    """Remove the lock that `take` returned."""
    with contextlib.suppress(OSError):
        os.unlink(_lock_path(series))
    os.close(fd)


def check_free(output: str) -> None:
    """Raise IoFailed if another process appends to the series at a path, or to one around it."""
    for series in (output, *enclosing(output)):
        path = _lock_path(series)
        no_lock = contextlib.suppress(FileNotFoundError, PermissionError)
        if os.path.isfile(path):
            with no_lock, open(path, "rb") as file:
                _lock(file.fileno(), fcntl.LOCK_SH, series)


def _lock(fd: int, kind: int, series: str) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise IoFailed(f"{_lock_path(series)} cannot be locked: {e.strerror}") from e
        who = os.pread(fd, 200, 0).decode(errors="replace") or "another process"
        raise IoFailed(f"{series} is being written by {who}") from None
