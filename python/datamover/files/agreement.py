# SPDX-License-Identifier: BSD-3-Clause
"""How do all processes come to fail together, with the same error, when one of them fails?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error, IoError, NoMemory, class_of
from datamover.files.space import is_no_space, no_space
from datamover.mpi import comm_address, core, take_part_with

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
