# SPDX-License-Identifier: BSD-3-Clause
"""Agreement of the processes of one end of a stream, one or many, with MPI or without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from datamover.errors import Error

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover._plan import Together


class Group:
    """The processes of one end: those of a communicator, or this one alone (None).

    All waiting is the library's own: with deadlines, told of failures, interruptible.
    """

    def __init__(self, comm: MPI.Comm | None):
        self.comm, self._address = comm, None
        self.rank, self.size = 0, 1
        if comm is not None:
            from datamover.mpi import comm_address

            self._address = comm_address(comm)
            self.rank, self.size = comm.rank, comm.size

    def members(self) -> Together | None:
        """Give these processes as the engine's streams want them. Collective."""
        if self._address is None:
            return None
        from datamover.mpi import core

        return core().together(self._address)  # also of one process: MPI goes on while it waits

    def together(self, work: Callable[[], Any]) -> Any:
        """Run `work` everywhere; where it raises anywhere, raise that everywhere. Collective."""
        if self.size == 1:
            return work()
        from datamover.mpi import collectively

        return collectively(self._address, work)

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise this everywhere, where the others call `together`. Collective."""
        from datamover.mpi import core

        self.take_part(lambda code, words: core().agree(self._address, code, words), error)

    def take_part(self, refuse: Callable[[str, str], None], error: BaseException) -> NoReturn:
        """Raise this here, and everywhere else by `refuse`. Collective."""
        from datamover.mpi import error_of, take_part_with

        if self.size == 1:
            raise error_of(error) if isinstance(error, Exception) else error
        take_part_with(lambda _, *said: refuse(*said), 0, error)

    def tell_failure(self, error: BaseException, *, of_manager: bool = False) -> None:
        """Have the other processes' next call of a sending end raise an error. Collective.

        That call's stream ends there, or all of its manager, since this process sends no more.
        """
        if self.size == 1:
            return
        from datamover.mpi import core, told

        ends = core().StreamEnds.ALL_STREAMS if of_manager else core().StreamEnds.STREAM
        with contextlib.suppress(Error):
            core().end_sending(self._address, *told(error), ends)
