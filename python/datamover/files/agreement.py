# SPDX-License-Identifier: BSD-3-Clause
"""How do all processes come to fail together, with the same error, when one of them fails?"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error, IoError
from datamover.files.flat import no_space
from datamover.mpi import comm_address, core, take_part_with

if TYPE_CHECKING:
    from mpi4py import MPI


def _named(error: BaseException) -> BaseException:
    """Say which file an error of the system is about."""
    if isinstance(error, Error) or not isinstance(error, OSError) or not error.filename:
        return error
    words = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        words = no_space(str(error.filename))
    return IoError(f"{words}: {error.filename}")


@contextlib.contextmanager
def together(comm: MPI.Comm) -> Iterator[None]:
    """Run a block that communicates nothing; when it fails on one process, it fails on all.

    Collective: one small reduction at the end of the block.

    Parameters
    ----------
    comm : MPI.Comm

    Raises
    ------
    Error
        On all processes that of the lowest failing one; its class is the one of its code. An
        exception that is no error of ours or of the system goes on unchanged where it happened.
    """
    address = comm_address(comm)
    try:
        yield
    except (Error, OSError, MemoryError) as error:
        take_part_with(core().agree, address, _named(error))
    except BaseException as error:
        with contextlib.suppress(Error):
            take_part_with(core().agree, address, error)
        raise
    core().agree(address, None, "")
