# SPDX-License-Identifier: BSD-3-Clause
"""Objects whose end all processes wait for; a program that ends before reports to the others.

Otherwise the others would wait forever for a process that is gone.
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
    """Note an object that is to be ended. Local; `what` describes what did not happen otherwise."""
    where = f"on process {comm.rank} of {comm.size}"
    _objects[held] = comm, f"{what} {where}: its program ended", os.getpid()


def remove(held: Any) -> None:
    """Note that an object is ended, or given up. Local."""
    _objects.pop(held, None)


@atexit.register
def _report() -> None:
    for comm, words, process in list(_objects.values()):
        if process == os.getpid():  # a child's is its parent's
            with contextlib.suppress(Exception):  # MPI has ended, for one
                core().fail(comm_address(comm), words)
