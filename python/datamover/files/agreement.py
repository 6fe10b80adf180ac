# SPDX-License-Identifier: BSD-3-Clause
"""Agreement on failures: all processes raise the same error when one of them fails."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error, IoError, NoMemory, PeerFailed, Timeout, class_of
from datamover.files.at_work import share_of_cores
from datamover.files.space import is_no_space, no_space
from datamover.mpi import comm_address, core, gathered, take_part_with, told

if TYPE_CHECKING:
    from mpi4py import MPI


def _told(error: Error | OSError | MemoryError, comm: MPI.Comm | None) -> Error:
    """Say of an error which file it is about, and on which process where that is not the first."""
    is_first = comm is None or comm.rank == 0
    where = "" if is_first else f" (on process {comm.rank} of {comm.size})"
    if isinstance(error, Error):
        return class_of(error.code)(f"{error}{where}")
    if isinstance(error, MemoryError):
        return NoMemory(f"not enough memory: {error}{where}")
    words = error.strerror or str(error)
    if is_no_space(error) and error.filename:
        return IoError(no_space(str(error.filename), error) + where)
    return IoError((f"{words}: {error.filename}" if error.filename else words) + where)


def threads_here(address: int) -> int:
    """Count the threads for this process, beside the others of its node. Collective."""
    node = zlib.crc32(os.uname().nodename.encode())
    return share_of_cores(sum(found[0] == node for found in gathered(address, [node])))


class Alarm:
    """By which a process that fails has the others stop what they do by themselves. Collective.

    A context: at its end what was sent is taken in, so that the communicator can be used on.

    Parameters
    ----------
    comm : MPI.Comm
    """

    def __init__(self, comm: MPI.Comm):
        self._core = core().Alarm(comm_address(comm))

    def ring(self) -> None:
        """Tell all others. Local."""
        self._core.ring()

    def rings(self) -> bool:
        """Tell whether another process has failed. PeerFailed where one has left. Local."""
        return self._core.rings()

    def settle(self) -> None:
        """Take in what was sent. Collective, when all have stopped."""
        self._core.settle()

    def __enter__(self) -> Alarm:
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if is_agreed(error):
            with contextlib.suppress(PeerFailed):  # by one that has left meanwhile
                self.settle()


def is_agreed(error: BaseException | None) -> bool:
    """Tell whether all processes know what has ended a block, and can go on together.

    Else this one has left the others, who may be anywhere: it must not wait for them. See
    `refused_by`, which tells them.
    """
    if isinstance(error, Timeout):  # of this one alone
        return False
    return error is None or isinstance(error, Error) or getattr(error, "is_told", False)


def leave_block(comm: MPI.Comm, what: str, error: BaseException) -> None:
    """Tell the others that an exception of this process alone has ended its `with` block. Local.

    They may be anywhere: from now on they raise PeerFailed in whatever they do on `comm`.
    """
    if comm.size > 1 and not is_agreed(error):
        words = f"the block of {what} was left by {type(error).__name__}: {told(error)[1]}"
        core().fail(comm_address(comm), words)
        error.is_told = True  # see tell_that_left


@contextlib.contextmanager
def together(comm: MPI.Comm | None, alarm: Alarm | None = None) -> Iterator[None]:
    """Run a block that communicates nothing; when it fails on one process, it fails on all.

    Collective: one small reduction at the end of the block.

    Parameters
    ----------
    comm : MPI.Comm or None
        None: this process is alone, and there is no MPI.
    alarm : Alarm, optional
        Rings where the block fails, before this process waits for the others.

    Raises
    ------
    Error
        On all processes that of the lowest failing one; its class is the one of its code. An
        exception that is no error of ours or of the system goes on unchanged where it happened.
    """
    if comm is None:
        try:
            yield
        except (Error, OSError, MemoryError) as error:
            raise _told(error, None) from error
        return
    address = comm_address(comm)
    try:
        yield
    except (Error, OSError, MemoryError) as error:
        if alarm is not None:
            alarm.ring()
        take_part_with(core().agree, address, _told(error, comm))
    except BaseException as error:
        if alarm is not None:
            alarm.ring()
        with contextlib.suppress(Error):
            take_part_with(core().agree, address, error)
        raise
    core().agree(address, None, "")
