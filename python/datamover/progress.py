# SPDX-License-Identifier: BSD-3-Clause
"""The progress thread and timeouts."""

from __future__ import annotations

import logging
from typing import Any

from . import arguments
from .mpi import core


class ProgressThread:
    """A thread that progresses all movers in flight; see `progress_thread`."""

    def __init__(self) -> None:
        self._core: Any = core().ProgressThread()
        if not self.carries_messages:
            logging.getLogger("datamover").warning(
                "MPI was not initialized with MPI_THREAD_MULTIPLE: the progress thread carries no "
                "messages, only data in shared memory"
            )

    @property
    def carries_messages(self) -> bool:
        """Whether MPI's thread level allows it to carry messages too."""
        return self._core is not None and self._core.carries_messages

    def stop(self) -> None:
        """End the thread, unless others requested one too. Movers in flight go on without it."""
        self._core = None

    def __enter__(self) -> ProgressThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        if self._core is None:
            return "ProgressThread(stopped)"
        carried = "all" if self.carries_messages else "data in shared memory"
        return f"ProgressThread(carries {carried})"


def progress_thread() -> ProgressThread:
    """Start a thread that moves data while the program computes. Local.

    `start` of a mover then only announces the move. The thread copies and handles messages until
    `wait`, which helps. It sleeps when nothing is in flight. Messages need MPI initialized with
    MPI_THREAD_MULTIPLE, as mpi4py does. Set `DATAMOVER_PROGRESS=thread` in the environment to start
    a thread for the whole program.

    Returns
    -------
    ProgressThread
        Keep it: the thread ends with its `stop()`, with its ``with`` block, or when it is deleted.

    Raises
    ------
    MpiFailed
        MPI is not running.

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
    """Set the default timeout of waits. Local.

    It applies to every wait of the library without a timeout of its own, also while movers and
    arrays are created. The exceptions are streams: their waits for consumers and for steps are
    limited by their own `timeout` only. `DATAMOVER_TIMEOUT` in the environment sets it too.

    Parameters
    ----------
    seconds : float or None
        None waits forever.

    Raises
    ------
    InvalidArgument
        The number is not above 0.
    WrongType
        It is not a number.

    Examples
    --------
    >>> import datamover as dm
    >>> dm.set_timeout(60)
    >>> dm.set_timeout(None)
    """
    core().set_default_timeout(arguments.seconds(seconds))
