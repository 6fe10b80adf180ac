# SPDX-License-Identifier: BSD-3-Clause
"""Agreement on failures: all processes raise the same error when one of them fails."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error, IoFailed, NoMemory, PeerFailed, Timeout, class_of
from datamover.files.at_work import share_of_cores
from datamover.files.space import is_no_space, no_space
from datamover.mpi import comm_address, core, gathered, set_told, take_part_with, told

if TYPE_CHECKING:
    from mpi4py import MPI


def _told(error: Error | OSError | MemoryError, comm: MPI.Comm | None) -> Error:
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


class Alarm:
    """Lets a failing process stop the others, which work independently. Collective.

    A context: at its end all messages are received, so that the communicator stays usable.

    Parameters
    ----------
    comm : MPI.Comm
    """

    def __init__(self, comm: MPI.Comm):
        self._core = core().Alarm(comm_address(comm))

    def ring(self) -> None:
        """Notify all others. Local."""
        self._core.ring()

    def rings(self) -> bool:
        """Return whether another process has failed. Raises PeerFailed if one has left. Local."""
        return self._core.rings()

    def settle(self) -> None:
        """Receive all messages. Collective, when all have stopped."""
        self._core.settle()

    def __enter__(self) -> Alarm:
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if is_agreed(error):
            with contextlib.suppress(PeerFailed):  # of one that has left
                self.settle()


def is_agreed(error: BaseException | None) -> bool:
    """Return whether all processes raised this error, and can go on together.

    Otherwise this process has left the others, which may be anywhere, and must not wait for them.
    See `refused_by`, which notifies them.
    """
    if isinstance(error, Timeout):  # of this process alone
        return False
    return error is None or isinstance(error, Error) or getattr(error, "is_told", False)


def leave_block(comm: MPI.Comm, what: str, error: BaseException) -> None:
    """Notify the others that an exception of this process alone ended its `with` block. Local.

    They may be anywhere: from now on they raise PeerFailed in every call on `comm`.
    """
    if comm.size > 1 and not is_agreed(error):
        words = f"the block of {what} was left by {type(error).__name__}: {told(error)[1]}"
        core().fail(comm_address(comm), words)
        set_told(error)


@contextlib.contextmanager
def together(comm: MPI.Comm | None, alarm: Alarm | None = None) -> Iterator[None]:
    """Run a block that communicates nothing; when it fails on one process, it fails on all.

    Collective: one small reduction at the end of the block.

    Parameters
    ----------
    comm : MPI.Comm or None
        None: this process is alone, without MPI.
    alarm : Alarm, optional
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
