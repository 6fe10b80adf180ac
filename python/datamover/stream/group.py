# SPDX-License-Identifier: BSD-3-Clause
"""Agreement of the processes of one end of a stream, one or many, with MPI or without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from datamover.errors import Error
from datamover.mpi import collectively, comm_address, core, error_of, join_as_failed, told

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
            self._address = comm_address(comm)
            self.rank, self.size = comm.rank, comm.size

    def members(self) -> Together | None:
        """Return these processes in the form that the engine's streams take. Collective."""
        if self.comm is None:
            return None
        return core().together(self._address)  # also for one process: MPI progresses while it waits

    def together(self, work: Callable[[], Any]) -> Any:
        """Run `work` on all processes; if it raises on one, raise that on all. Collective."""
        if self.size == 1:
            return work()
        return collectively(self._address, work)

    def refuse(
        self, error: BaseException, by: Callable[[str, str], None] | None = None
    ) -> NoReturn:
        """Raise this on all processes, while the others call `together`, or by `by`. Collective."""
        if self.size == 1:
            raise error_of(error) if isinstance(error, Exception) else error
        join_as_failed(by or partial(core().agree, self._address), error)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Raise an error of this block also in the collective call of the other processes."""
        try:
            yield
        except BaseException as error:
            self.refuse(error)

    def tell_failure(self, error: BaseException, *, of_manager: bool = False) -> None:
        """Make the next call of a sending end raise an error on the other processes. Collective.

        The stream of that call ends there, or all streams of its manager, because this process
        sends nothing more.
        """
        if self.size == 1:
            return
        ends = core().StreamEnds.ALL_STREAMS if of_manager else core().StreamEnds.STREAM
        with contextlib.suppress(Error):
            core().end_sending(self._address, *told(error), ends)
