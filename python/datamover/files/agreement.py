# SPDX-License-Identifier: BSD-3-Clause
"""How do all processes come to fail together, with the same error, when one of them fails?"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error, PeerFailed, class_of
from datamover.files.flat import no_space

if TYPE_CHECKING:
    from mpi4py import MPI


def code_and_words(e: Exception) -> tuple[str, str]:
    """Name the error code of an exception and say what it says."""
    if isinstance(e, Error):
        return e.code, str(e)
    if isinstance(e, MemoryError):
        return "no_memory", f"not enough memory: {e}"
    if isinstance(e, OSError):
        words = e.strerror or str(e)
        if e.errno == errno.ENOSPC and e.filename:
            words = no_space(str(e.filename))
        return "io", f"{words}: {e.filename}" if e.filename else words
    return PeerFailed.code, f"{type(e).__name__}: {e}"


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
    mine: Exception | None = None
    try:
        yield
    except Exception as e:
        mine = e
    failing = comm.allreduce([] if mine is None else [comm.rank])
    if not failing:
        return
    code, words = comm.bcast(None if mine is None else code_and_words(mine), root=min(failing))
    if mine is not None and not isinstance(mine, (Error, OSError, MemoryError)):
        raise mine
    if len(failing) < comm.size and comm.size > 1 and min(failing) > 0:
        words += f" (on process {min(failing)} of {comm.size})"
    raise class_of(code)(words) from mine
