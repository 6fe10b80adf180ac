# SPDX-License-Identifier: BSD-3-Clause
"""How do all processes come to fail together, with the same error, when one of them fails?"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from datamover.errors import Error, IoError, NoMemory, class_of
from datamover.files.at_work import share_of_cores
from datamover.files.space import is_no_space, no_space
from datamover.mpi import comm_address, core, gathered, take_part_with

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

    Parameters
    ----------
    comm : MPI.Comm
    """

    def __init__(self, comm: MPI.Comm):
        # MPI waits where nobody can interrupt it, or look at deadlines: let all have come before.
        self._address = comm_address(comm)
        core().agree(self._address, None, "")
        self._comm = comm.Dup()
        self._sent: list[Any] = []

    def ring(self) -> None:
        """Tell all others. Local."""
        others = (rank for rank in range(self._comm.size) if rank != self._comm.rank)
        self._sent = [self._comm.Isend(b"", rank) for rank in others]

    def rings(self) -> bool:
        """Tell whether another process has failed. Local."""
        return self._comm.Iprobe()

    def free(self) -> None:
        """Take in what was sent, all of which is under way by then. Collective."""
        # On the communicator by which all hear of a process that does not come.
        rang = gathered(self._address, [int(bool(self._sent))])
        for rank, sent in enumerate(rang):
            if sent[0] and rank != self._comm.rank:
                self._comm.Recv(bytearray(), rank)
        for request in self._sent:
            request.Wait()
        self._comm.Free()


@contextlib.contextmanager
def together(comm: MPI.Comm | None) -> Iterator[None]:
    """Run a block that communicates nothing; when it fails on one process, it fails on all.

    Collective: one small reduction at the end of the block.

    Parameters
    ----------
    comm : MPI.Comm or None
        None: this process is alone, and there is no MPI.

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
        take_part_with(core().agree, address, _told(error, comm))
    except BaseException as error:
        with contextlib.suppress(Error):
            take_part_with(core().agree, address, error)
        raise
    core().agree(address, None, "")
