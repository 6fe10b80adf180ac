# SPDX-License-Identifier: BSD-3-Clause
"""Objects whose end all processes wait for, in a program that ends before.

It reports to the others, which would wait forever for a process that is gone, and removes what is
not complete.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from typing import Any

from datamover.mpi import comm_address, core

#: Such objects: communicator, the message for the other processes, and the number of the process.
_objects: weakref.WeakKeyDictionary[Any, tuple[Any, str, int]] = weakref.WeakKeyDictionary()


def add(held: Any, comm: Any, what: str) -> None:
    """Note an object that is to be ended, and has `_drop`. Local.

    `what` is in the error that the others get otherwise.
    """
    where = f"on process {comm.rank} of {comm.size}"
    _objects[held] = comm, f"{what} {where}: its program ended", os.getpid()


def remove(held: Any) -> None:
    """Note that an object is ended, or given up. Local."""
    _objects.pop(held, None)


@atexit.register
def _report() -> None:
    for held, (comm, words, process) in list(_objects.items()):
        if process == os.getpid():  # a child's is its parent's
            with contextlib.suppress(Exception):  # MPI has ended, for one
                core().fail(comm_address(comm), words)
            with contextlib.suppress(Exception):
                held._drop()
