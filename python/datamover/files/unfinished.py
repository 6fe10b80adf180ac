# SPDX-License-Identifier: BSD-3-Clause
"""Objects that all processes end together: saves, open files and series.

If one process drops its object, leaves its ``with`` block by an exception or ends its program, what
is not complete is removed there. In the last two cases the others raise an error, because they
would otherwise wait forever.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, Self

from datamover.collective_calls import leaving, refused_by
from datamover.files.agreement import leave_block
from datamover.mpi import comm_address, core
from datamover.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from mpi4py import MPI

#: Those that are not ended, with the error message of the other processes.
_objects: weakref.WeakKeyDictionary[Unfinished, str] = weakref.WeakKeyDictionary()


class Unfinished:
    """An object that all processes end together.

    Attributes
    ----------
    closed : bool
        Whether it is ended, or was never begun.
    """

    closed = True
    _process = -1  # of the class: an interrupt may leave an object without its own

    def _begin(self, comm: MPI.Comm, path: str, words: str, lost: str = "") -> None:
        """Register it as an object that all processes must end. Local.

        Parameters
        ----------
        comm : mpi4py.MPI.Comm
        path : str
        words, lost : str
            What is wrong if that does not happen, and what is lost then.
        """
        self._ends_on, self._place_of_end, self._dropped = comm, path, f"{words}{lost}"
        self._process = os.getpid()
        where = f"on process {comm.rank} of {comm.size}"
        _objects[self] = f"{words} {where}: its program ended"

    def _end(self) -> None:
        """Complete what it makes, after `_finish_writing`. Collective."""
        raise NotImplementedError

    def _finish_writing(self) -> None:
        """Wait for what still writes here, which others may remove once they hear of it. Local."""

    def _stop(self) -> None:
        """End what this process does for it. Local."""

    def _release(self) -> None:
        """Give everything back, and remove what is not complete. Local, any number of times."""
        raise NotImplementedError

    def _drop(self) -> None:
        """End it on this process. Local."""
        with uninterrupted():
            _objects.pop(self, None)
            self.closed = True
            self._release()

    def _finish(self) -> None:
        """End it. Collective."""
        try:
            self._end()
        finally:
            self._drop()

    def _end_refused(self, agree: Callable[[], NoReturn]) -> None:
        """End it if this process passed wrong arguments to the call that ends it. Collective.

        See `ending`.
        """
        try:
            self._finish_writing()
            agree()
        finally:
            self._stop()
            self._drop()

    def __enter__(self) -> Self:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        """End it; if the block failed on one process, all fail, and nothing is completed."""
        if self.closed:
            return
        try:
            self._finish_writing()
            if error is None:
                self._end()
            else:
                leave_block(self._ends_on, self._place_of_end, error)
                self._stop()
        finally:
            self._drop()

    def __del__(self) -> None:
        """Warn, as Python's files do, if it was not ended."""
        if self._process != os.getpid() or self.closed:  # in a child, it belongs to the parent
            return
        warnings.warn(self._dropped, ResourceWarning, stacklevel=2, source=self)
        if not sys.is_finalizing():  # otherwise the next program that writes there removes the rest
            self._drop()


@atexit.register
def _report() -> None:
    for held, words in list(_objects.items()):
        if held._process == os.getpid():
            with contextlib.suppress(Exception):  # for example because MPI has ended
                core().fail(comm_address(held._ends_on), words)
            with contextlib.suppress(Exception):
                held._drop()
