# SPDX-License-Identifier: BSD-3-Clause
"""How do processes that go on by themselves meet later, and hear of one that will not come?

An agreement alone would wait for ever for that one. Here it tells the others, by messages of which
nobody knows beforehand whether they come, or waits for them; so they go over a communicator that
nothing else uses.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from datamover.errors import PeerFailed, Timeout
from datamover.files.agreement import Alarm
from datamover.mpi import comm_address, core, duplicated

if TYPE_CHECKING:
    from mpi4py import MPI

AWAY = 1  # tag
MOST_WORDS = 1000  # bytes: a message that leaves at once, whether or not anybody takes it
#: Others may wait for what movers in flight bring them, before they come: from then on a thread
#: pushes those on.
PATIENCE_SECONDS = 1e-3
LONGEST_SLEEP_SECONDS = 1e-3

#: Those from which this process has stayed away.
_left: list[_Left] = []


class Appointment:
    """All processes of a communicator meet once, later. Collective to make.

    Parameters
    ----------
    comm : MPI.Comm
        Where nothing moves on it any more, nobody waits.

    Attributes
    ----------
    where : str
        The words for this process, which may be said when the communicator has been freed.
    process : int
        Its number for the system; a forked child has another one.
    """

    def __init__(self, comm: MPI.Comm):
        _free_what_all_left()
        self._comm, self.process = comm, os.getpid()
        self.where = f"on process {comm.rank} of {comm.size}"
        self._news = Alarm(comm)
        self._own = duplicated(comm) if comm.size > 1 else None

    def come(self) -> None:
        """Wait until all have come. Collective.

        Raises
        ------
        PeerFailed
            In the words of one that stays away; or nothing moves on the communicator any more.
        Timeout
            Of `set_timeout`. The others are told.
        """
        own = self._own
        if own is None:
            return
        pushing: list[Any] = []  # a thread, while it is in it
        try:
            self._wait(own, pushing)
        finally:
            pushing.clear()
        self._own = None
        own.Free()

    def _wait(self, own: MPI.Comm, pushing: list[Any]) -> None:
        request, begin, limit = own.Ibarrier(), time.monotonic(), core().default_timeout()
        while not request.Test():
            self._news.rings()
            self._hear(own)
            waited = time.monotonic() - begin
            if limit is not None and waited > limit:
                self._give_up(limit)
            if not pushing and waited > PATIENCE_SECONDS:
                pushing.append(core().ProgressThread())
            time.sleep(min(waited / 32, LONGEST_SLEEP_SECONDS))

    @staticmethod
    def _hear(own: MPI.Comm) -> None:
        words = _said(own)
        if words is not None:
            raise PeerFailed(words.decode())

    def _give_up(self, seconds: float) -> None:
        """Leave those that wait: for them this one has come, and they agree on something next."""
        words = f"{self.where} a wait of {seconds:g} s for the other processes was in vain"
        core().fail(comm_address(self._comm), words)
        raise Timeout(words)

    def stay_away(self, words: str) -> None:
        """Have the others that come raise PeerFailed with these words. Local, never waits.

        Does nothing in a forked child, where MPI has ended, or where this thread may not call it.
        """
        from mpi4py import MPI

        own, self._own = self._own, None
        if own is None or os.getpid() != self.process or MPI.Is_finalized():
            return
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE and not MPI.Is_thread_main():
            return
        # Half a pair of surrogates, or of a character, can be told to nobody as it is.
        said = words.encode(errors="backslashreplace")[:MOST_WORDS].decode(errors="ignore").encode()
        with contextlib.suppress(MPI.Exception):
            _left.append(_Left(own, said))


class _Left:
    """An appointment from which this process has stayed away: messages that nobody may take.

    Parameters
    ----------
    own : MPI.Comm
    said : bytes
        What is sent; kept as long as MPI may need it.
    """

    def __init__(self, own: MPI.Comm, said: bytes):
        from mpi4py import MPI

        self.own, self._said = own, said
        others = [rank for rank in range(own.size) if rank != own.rank]
        self._missing = len(others)
        self._sent = [own.Isend([said, MPI.BYTE], rank, AWAY) for rank in others]

    def all_left(self) -> bool:
        """Take in what others say; tell whether all have stayed away, and it can be freed."""
        while self._missing and _said(self.own) is not None:
            self._missing -= 1
        return not self._missing and all(request.Test() for request in self._sent)


def _said(own: MPI.Comm) -> bytearray | None:
    """Take in what another process says that stays away, if one does."""
    from mpi4py import MPI

    status = MPI.Status()
    if not own.Iprobe(MPI.ANY_SOURCE, AWAY, status):
        return None
    words = bytearray(status.Get_count(MPI.BYTE))
    own.Recv([words, MPI.BYTE], status.Get_source(), AWAY)
    return words


def _free_what_all_left() -> None:
    """Free communicators, of which MPI has so many thousands. Local.

    Where somebody waited in vain, an operation of MPI that never ends keeps the communicator.
    """
    for _ in range(len(_left)):
        try:
            one = _left.pop(0)  # another thread does not find it meanwhile
        except IndexError:
            return
        if one.all_left():
            one.own.Free()
        else:
            _left.append(one)
