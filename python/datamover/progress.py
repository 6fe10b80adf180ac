# SPDX-License-Identifier: BSD-3-Clause
"""The progress thread and timeouts."""

from __future__ import annotations

import logging
from typing import Any

from . import arguments
from .mpi import core


class ProgressThread:
    """A thread that pushes on all movers in flight; see `progress_thread`."""

    def __init__(self) -> None:
        self._core: Any = core().ProgressThread()
        if not self.carries_messages:
            logging.getLogger("datamover").warning(
                "MPI was not initialised with MPI_THREAD_MULTIPLE: the progress thread carries no "
                "messages, only what moves through shared memory"
            )

    @property
    def carries_messages(self) -> bool:
        """Whether MPI's thread level lets it carry messages too."""
        return self._core is not None and self._core.carries_messages

    def stop(self) -> None:
        """End the thread, unless others asked for one too. Movers in flight go on without it."""
        self._core = None

    def __enter__(self) -> ProgressThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        if self._core is None:
            return "ProgressThread(stopped)"
        carried = "all" if self.carries_messages else "what moves through shared memory"
        return f"ProgressThread(carries {carried})"


def progress_thread() -> ProgressThread:
    """Start a thread that moves data while the program computes. Local.

    `start` of a mover then only announces the move; the copying and the messages are the thread's,
    until `wait`, which helps. The thread sleeps when nothing is in flight. Messages need MPI
    initialised with MPI_THREAD_MULTIPLE, as mpi4py does. `DATAMOVER_PROGRESS=thread` in the
    environment starts one for the whole program.

    Returns
    -------
    ProgressThread
        Keep it; the thread ends with its `stop()`, with its ``with`` block, or when it goes.

    Raises
    ------
    MpiError
        When MPI is not running.

    Notes
    -----
    Source: the proxy of the KeLP Data Mover, section 3.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> from mpi4py import MPI
    >>> line = dm.BlockCyclic((4,), "(block)", nprocs=1)
    >>> a, b = np.arange(4.0), np.zeros(4)
    >>> mover = dm.Mover(dm.redistribute(line, line), a, b, comm=MPI.COMM_SELF)
    >>> with dm.progress_thread():
    ...     mover.start()
    ...     total = sum(i * i for i in range(1000))  # meanwhile
    ...     mover.wait()
    >>> b.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    return ProgressThread()


def set_timeout(seconds: float | None) -> None:
    """Set after how long a wait gives up that is given no time of its own. Local.

    Holds for every wait of the library, also while movers and arrays are made. `DATAMOVER_TIMEOUT`
    in the environment sets it too.

    Parameters
    ----------
    seconds : float or None
        None: never.

    Raises
    ------
    InvalidArgument
        For a number that is not above 0.
    WrongType
        For anything else.

    Examples
    --------
    >>> import datamover as dm
    >>> dm.set_timeout(60)
    >>> dm.set_timeout(None)
    """
    core().set_default_timeout(arguments.seconds(seconds))
