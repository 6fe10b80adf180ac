# SPDX-License-Identifier: BSD-3-Clause
"""Agreement of the processes of one end of a stream, one or many, with MPI or without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from datamover.errors import Error

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover._plan import Together


class Group:
    """The processes of one end: those of a communicator, or this one alone (None).

    Waits are the library's own: they have timeouts, notice failures and can be interrupted.
    """

    def __init__(self, comm: MPI.Comm | None):
        self.comm, self._address = comm, 0
        self.rank, self.size = 0, 1
        if comm is not None:
            from datamover.mpi import comm_address

            self._address = comm_address(comm)
            self.rank, self.size = comm.rank, comm.size

    def members(self) -> Together | None:
        """Return these processes in the form that the engine's streams take. Collective."""
        if self.comm is None:
            return None
        from datamover.mpi import core

        return core().together(self._address)  # also for one process: MPI progresses while it waits

    def together(self, work: Callable[[], Any]) -> Any:
        """Run `work` on all processes; if it raises on one, raise that on all. Collective."""
        if self.size == 1:
            return work()
        from datamover.mpi import collectively

        return collectively(self._address, work)

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise this on all processes, while the others call `together`. Collective."""
        from datamover.mpi import core

        self.take_part(lambda code, words: core().agree(self._address, code, words), error)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Raise an error of this block also in the collective call of the other processes."""
        try:
            yield
        except BaseException as error:
            self.refuse(error)

    def take_part(self, refuse: Callable[[str, str], None], error: BaseException) -> NoReturn:
        """Raise this here, and on the other processes by `refuse`. Collective."""
        from datamover.mpi import error_of, join_as_failed

        if self.size == 1:
            raise error_of(error) if isinstance(error, Exception) else error
        join_as_failed(refuse, error)

    def tell_failure(self, error: BaseException, *, of_manager: bool = False) -> None:
        """Make the next call of a sending end raise an error on the other processes. Collective.

        The stream of that call ends there, or all streams of its manager, because this process
        sends nothing more.
        """
        if self.size == 1:
            return
        from datamover.mpi import core, told

        ends = core().StreamEnds.ALL_STREAMS if of_manager else core().StreamEnds.STREAM
        with contextlib.suppress(Error):
            core().end_sending(self._address, *told(error), ends)
