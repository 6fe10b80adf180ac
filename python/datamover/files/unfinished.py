# SPDX-License-Identifier: BSD-3-Clause
"""Unfinished outputs: their hidden names, their locks, and leftovers of killed processes.

A time series is unfinished as long as its only writer, which a file next to its group names, holds
the lock of that file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator

from datamover.errors import IoFailed
from datamover.files.addresses import enclosing
from datamover.files.formats import log
from datamover.files.space import HIDDEN, opened
from datamover.launch import boot_word, new_token


def temporary_path(output: str, token: str) -> str:
    """Return the hidden name next to the output under which it is written."""
    directory, name = os.path.split(output)
    return os.path.join(directory, f".{name}.{token}.partial")


def sync_directory(directory: str) -> None:
    """Sync names to the disk. The output is in place already, so a failure is only logged."""
    try:
        with opened(directory) as fd:
            os.fsync(fd)
    except OSError as e:
        log.warning("%s could not be synced to the disk: %s", directory, e.strerror)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yield the locked hidden name of a new file next to a path; if a block fails, remove it."""
    temporary = temporary_path(path, new_token())
    lock = claim(temporary, is_directory=False)
    try:
        yield temporary
    except BaseException:
        remove(temporary)
        raise
    finally:
        let_go(lock)


def replace_file(path: str, data: bytes) -> None:
    """Write a small file atomically and sync it, so that others see the old or the new one."""
    remove_leftovers(path)
    with replacing(path) as temporary:
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(os.path.dirname(path))


def remove_file(path: str) -> None:
    """Remove a file if it exists, and sync the removal."""
    remove(path)
    sync_directory(os.path.dirname(path))


def claim(temporary: str, is_directory: bool) -> int:
    """Create the empty unfinished output and lock it, which shows others that its owner lives.

    Returns
    -------
    int
        A file descriptor; the lock ends when it is closed or its process dies.
    """
    while True:
        if is_directory:
            os.mkdir(temporary)
        else:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            fd = hold(temporary)
        except FileNotFoundError:
            continue
        if is_still(fd, temporary):
            return fd
        let_go(fd)  # another move mistook it for a leftover before it was locked


def hold(temporary: str) -> int:
    """Lock an unfinished output as one of several processes that write it; see `claim`."""
    fd = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    # Without locks on this file system, others cannot detect it, and leave it alone.
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def let_go(lock: int) -> None:
    """Release a lock. Never raises: it ends even if the system reports an error.

    An error here would be that of one process alone, and no written data depends on it.
    """
    with contextlib.suppress(OSError):
        os.close(lock)


def is_still(fd: int, path: str) -> bool:
    """Return whether a path is that of an open file or directory."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def remove_leftovers(output: str) -> None:
    """Remove unlocked leftovers next to an output, and log their names.

    These are the output's own, and those of other outputs if a process of this kernel left them. A
    replaced output has no lock while another program removes it, and a new one none before it is
    locked. The program therefore need not have been killed.
    """
    directory, own = os.path.split(output)
    found = {}
    for entry in os.listdir(directory):
        parts = HIDDEN.fullmatch(entry)
        if parts and (parts["name"] == own or parts["token"].startswith(boot_word())):
            of = os.path.join(directory, parts["name"])
            found[temporary_path(of, parts["token"])] = of
    for temporary, of in sorted(found.items()):
        if _remove_if_left(temporary, of):
            log.warning(
                "removed %s, which no program held: left by one that was killed, or that is just "
                "beginning or ending",
                temporary,
            )


def _remove_if_left(temporary: str, output: str) -> bool:
    """Remove an unfinished output (and put an old one back) unless its owner lives."""
    held = [temporary, temporary + ".gone"]
    if os.path.lexists(temporary + ".old"):
        held.append(output)  # between the two steps of a replacement, the owner's lock is on it
    with contextlib.ExitStack() as locks:
        for path in held:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            except OSError:
                return False
            locks.callback(let_go, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another process writes it, or this file system has no locks
                return False
        try:
            clean_up(temporary, output)
        except OSError:  # another user's
            return False
    return True


def clean_up(temporary: str, output: str) -> None:
    """Remove leftovers of killed processes: only the old or the new output stays.

    A directory is renamed before it is removed, to a name by which the next call finds what a
    killed process was removing. Other processes may still write chunks of it, for which they create
    missing directories. Inside the directory, that would prevent its removal. Outside, they find
    that it is another directory, and remove it.
    """
    old, gone = temporary + ".old", temporary + ".gone"
    if os.path.lexists(old) and not os.path.lexists(output):
        os.rename(old, output)
    remove(gone)
    aside = temporary
    if os.path.isdir(temporary) and not os.path.islink(temporary):
        with contextlib.suppress(OSError):
            os.rename(temporary, gone)
            aside = gone
    for path in (old, aside):
        remove(path)


def remove(path: str) -> None:
    """Remove a file or a directory with its contents, if it exists.

    Another process may remove it at the same time: replaced outputs have no lock.
    """
    with contextlib.suppress(FileNotFoundError):
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(path)  # raises for what could not be removed


def _lock_path(series: str) -> str:
    directory, name = os.path.split(series)
    return os.path.join(directory, f".{name}.lock")


def take_series(series: str) -> int:
    """Hold the lock until this process ends or calls `release_series`; return its descriptor.

    Raises
    ------
    IoFailed
        Another process holds it, which the message names, or this file system has no locks.
    """
    while True:
        fd = os.open(_lock_path(series), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(fd, fcntl.LOCK_EX, series)
        except BaseException:
            os.close(fd)
            raise
        if is_still(fd, _lock_path(series)):
            break
        os.close(fd)  # the last holder has removed it in between
    os.ftruncate(fd, 0)
    os.write(fd, f"process {os.getpid()} on {socket.gethostname()}".encode())
    return fd


def release_series(series: str, fd: int) -> None:
    """Remove the lock that `take_series` returned."""
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
