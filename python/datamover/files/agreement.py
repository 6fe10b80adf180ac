# SPDX-License-Identifier: BSD-3-Clause
"""Agreement on failures, and objects that all processes end together: saves, open files, series.

All processes raise the same error when one of them fails. If one process drops its object, leaves
its ``with`` block by an exception or ends its program, what is not complete is removed there. In
the last two cases the others raise an error, because they would otherwise wait forever.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

from datamover import mpi
from datamover.collective_calls import leaving, refused_by
from datamover.errors import Error, IoFailed, NoMemory, PeerFailed, Timeout, class_of
from datamover.files.at_work import share_of_cores
from datamover.files.space import is_no_space, no_space
from datamover.lifeline import uninterrupted
from datamover.mpi import Comm, comm_address, core, gathered, set_told, take_part_with, told


def _told(error: Error | OSError | MemoryError, comm: Comm | None) -> Error:
    """Return an error with the name of its file, and of its process if that is not the first."""
    is_first = comm is None or comm.rank == 0
    where = "" if comm is None or is_first else f" (on process {comm.rank} of {comm.size})"
    if isinstance(error, Error):
        return class_of(error.code)(f"{error}{where}")
    if isinstance(error, MemoryError):
        return NoMemory(f"not enough memory: {error}{where}")
    words = error.strerror or str(error)
    if is_no_space(error) and error.filename:
        return IoFailed(no_space(str(error.filename), error) + where)
    return IoFailed((f"{words}: {error.filename}" if error.filename else words) + where)


def threads_here(address: int) -> int:
    """Return the number of threads for this process, among those of its node. Collective."""
    node = zlib.crc32(os.uname().nodename.encode())
    return share_of_cores(sum(found[0] == node for found in gathered(address, [node])))


def is_agreed(error: BaseException | None) -> bool:
    """Return whether all processes raised this error, and can go on together.

    Otherwise this process has left the others, which may be anywhere, and must not wait for them.
    See `refused_by`, which notifies them.
    """
    if isinstance(error, Timeout):  # of this process alone
        return False
    return error is None or isinstance(error, Error) or getattr(error, "is_told", False)


def leave_block(comm: Comm, what: str, error: BaseException) -> None:
    """Notify the others that an exception of this process alone ended its `with` block. Local.

    They may be anywhere: from now on they raise PeerFailed in every call on `comm`.
    """
    if comm.size > 1 and not is_agreed(error):
        words = f"the block of {what} was left by {type(error).__name__}: {told(error)[1]}"
        core().fail(comm_address(comm), words)
        set_told(error)


@contextlib.contextmanager
def alarmed(comm: Comm | None) -> Iterator[Callable[[], bool] | None]:
    """Run a block, as `together`, in which processes work independently for a while. Collective.

    Yields what returns whether another process has failed, or raises PeerFailed if one has left;
    None for a process alone. At the end all messages are received, so that the communicator stays
    usable.
    """
    alarm = None if comm is None else core().Alarm(comm_address(comm))
    settles = True
    try:
        with together(comm, alarm):
            yield None if alarm is None else alarm.rings
    except BaseException as error:
        settles = is_agreed(error)
        raise
    finally:
        if alarm is not None and settles:
            with contextlib.suppress(PeerFailed):  # of one that has left
                alarm.settle()


@contextlib.contextmanager
def together(comm: Comm | None, alarm: Any = None) -> Iterator[None]:
    """Run a block that communicates nothing; when it fails on one process, it fails on all.

    Collective: one small reduction at the end of the block.

    Parameters
    ----------
    comm : MPI.Comm or None
        None: this process is alone, without MPI.
    alarm : Alarm of the core, optional
        Rings if the block fails, before this process waits for the others.

    Raises
    ------
    Error
        On all processes, the error of the lowest failing one, in the class of its code. An
        exception that is not an error of the library or the system continues unchanged on its
        process.
    """
    address = None if comm is None else comm_address(comm)
    try:
        yield
    except BaseException as error:
        if alarm is not None:
            alarm.ring()
        if not isinstance(error, (Error, OSError, MemoryError)):
            if address is not None:
                with contextlib.suppress(Error):
                    take_part_with(core().agree, address, error)
            raise
        agreed = _told(error, comm)
        if address is None:
            raise agreed from error
        take_part_with(core().agree, address, agreed)
    if address is not None:
        core().agree(address, None, "")


def agree_on(address: int, passed: Mapping[str, Any], verb: str = "passed") -> None:
    """Raise if values differ between processes. Collective.

    Parameters
    ----------
    address : int
        Address of the communicator.
    passed : mapping
        The values, by their plural noun, or by "NAME=" for an option. Values with the same text are
        the same.
    verb : str
        For the message.

    Raises
    ------
    Mismatch
        On all processes; names two processes and the first values that differ.
    """

    def described() -> list[tuple[str, str]]:
        return [
            ("options", f"{name}{value!r}") if name.endswith("=") else (name, repr(value))
            for name, value in passed.items()
        ]

    core().require_same(address, mpi.collectively(address, described), verb)


#: Those that are not ended, with the error message of the other processes.
_objects: weakref.WeakKeyDictionary[Unfinished, str] = weakref.WeakKeyDictionary()


class Unfinished:
    """An object that all processes end together.

    Attributes
    ----------
    closed : bool
        Whether it is ended, or was never begun.
    """

    closed = True
    _process = -1  # of the class: an interrupt may leave an object without its own

    def _begin(self, comm: Comm, path: str, words: str, lost: str = "") -> None:
        """Register it as an object that all processes must end. Local.

        Parameters
        ----------
        comm : mpi4py.MPI.Comm
        path : str
        words, lost : str
            What is wrong if that does not happen, and what is lost then.
        """
        self._ends_on, self._place_of_end, self._dropped = comm, path, f"{words}{lost}"
        self._process = os.getpid()
        where = f"on process {comm.rank} of {comm.size}"
        _objects[self] = f"{words} {where}: its program ended"

    def _end(self) -> None:
        """Complete what it makes, after `_finish_writing`. Collective."""
        raise NotImplementedError

    def _finish_writing(self) -> None:
        """Wait for what still writes here, which others may remove once they hear of it. Local."""

    def _stop(self) -> None:
        """End what this process does for it. Local."""

    def _release(self) -> None:
        """Give everything back, and remove what is not complete. Local, any number of times."""
        raise NotImplementedError

    def _drop(self) -> None:
        """End it on this process. Local."""
        with uninterrupted():
            _objects.pop(self, None)
            self.closed = True
            self._release()

    def _finish(self, instead: Callable[[], object] | None = None) -> None:
        """End it; `instead` of completing it, notify the others of an error. Collective."""
        try:
            self._finish_writing()
            (instead or self._end)()
        finally:
            try:
                self._stop()
            finally:  # also if an interrupt, or a communicator that was freed, ended that
                self._drop()

    def __enter__(self) -> Self:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        """End it; if the block failed on one process, all fail, and nothing is completed."""
        if self.closed:
            return
        if error is None:
            self._finish()
        else:
            self._finish(partial(leave_block, self._ends_on, self._place_of_end, error))

    def __del__(self) -> None:
        """Warn, as Python's files do, if it was not ended."""
        if self._process != os.getpid() or self.closed:  # in a child, it belongs to the parent
            return
        warnings.warn(self._dropped, ResourceWarning, stacklevel=2, source=self)
        if not sys.is_finalizing():  # otherwise the next program that writes there removes the rest
            self._drop()


@atexit.register
def _report_unfinished() -> None:
    for held, words in list(_objects.items()):
        if held._process == os.getpid():
            with contextlib.suppress(Exception):  # for example because MPI has ended
                core().fail(comm_address(held._ends_on), words)
            with contextlib.suppress(Exception):
                held._drop()
