# SPDX-License-Identifier: BSD-3-Clause
"""Objects whose end all processes wait for, in a program that ends before.

The others are notified, because they would wait forever for a process that has ended, and
incomplete outputs are removed.
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
    """Register an object that must be ended, and has `_drop`. Local.

    `what` is part of the error that the others get otherwise.
    """
    where = f"on process {comm.rank} of {comm.size}"
    _objects[held] = comm, f"{what} {where}: its program ended", os.getpid()


def remove(held: Any) -> None:
    """Unregister an object that is ended, or given up. Local."""
    _objects.pop(held, None)


@atexit.register
def _report() -> None:
    for held, (comm, words, process) in list(_objects.items()):
        if process == os.getpid():  # in a child, it belongs to the parent
            with contextlib.suppress(Exception):  # for example because MPI has ended
                core().fail(comm_address(comm), words)
            with contextlib.suppress(Exception):
                held._drop()
