# SPDX-License-Identifier: BSD-3-Clause
"""Appointments: processes that work independently meet later, and detect one that will not come.

An agreement alone would wait forever for such a process. Instead, that process notifies the others
by messages. The others do not know whether such messages will be sent, and do not wait for them.
The messages therefore use a communicator of their own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from datamover.errors import PeerFailed, Timeout
from datamover.files.agreement import Alarm
from datamover.mpi import comm_address, core, duplicated, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

AWAY = 1  # tag
MOST_WORDS = 1000  # bytes: a message that leaves at once, whether or not anybody takes it
#: Others may wait for what movers in flight bring them, before they come: from then on a thread
#: pushes those on.
PATIENCE_SECONDS = 1e-3
LONGEST_SLEEP_SECONDS = 1e-3
#: Any sleep takes longer than those need that come at the same time.
SPIN_SECONDS = 1e-4
#: Of appointments that have failed so many at most are settled at a time.
MOST_SETTLED = 32


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
        self._comm, self.process = comm, os.getpid()
        self.where = f"on process {comm.rank} of {comm.size}"
        self._news = Alarm(comm)
        self._own: MPI.Comm | None = None
        if comm.size > 1:
            self._failed = _failed_of(comm)
            self._failed.settle(comm_address(comm), self._wait)
            self._own = duplicated(comm)
            self._number = self._failed.next_number()

    def come(self) -> None:
        """Wait until all have come. Collective.

        Raises
        ------
        PeerFailed
            In the words of one that stays away; or nothing moves on the communicator any more.
        Timeout
            Of `set_timeout`. The others are told.
        """
        own, self._own = self._own, None
        if own is None:
            return
        mine = _Mine(own)
        mine.come()
        self._wait(lambda: mine.has_ended() or self._has_failed(mine))
        own.Free()

    def _has_failed(self, mine: _Mine) -> bool:
        """Raise what one says that stays away; nobody waits for the others any more."""
        words = mine.take_in()
        if words is not None:
            self._failed.keep(self._number, mine)
            raise PeerFailed(words.decode())
        return False

    def _wait(self, has_ended: Callable[[], bool]) -> None:
        """Wait until something has ended that all processes take part in."""
        pushing: list[Any] = []  # a thread, while it is in it
        begin, limit = time.monotonic(), core().default_timeout()
        try:
            while not has_ended():
                self._news.rings()
                waited = time.monotonic() - begin
                if limit is not None and waited > limit:
                    self._give_up(limit)
                if not pushing and waited > PATIENCE_SECONDS:
                    pushing.append(core().ProgressThread())
                if waited > SPIN_SECONDS:
                    time.sleep(min(waited / 32, LONGEST_SLEEP_SECONDS))
                else:
                    os.sched_yield()
        finally:
            pushing.clear()

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
            mine = _Mine(own)
            mine.say(said)
            self._failed.keep(self._number, mine)


class _Mine:
    """What this process does in one appointment: it comes, or says why not; it hears of others.

    Parameters
    ----------
    own : MPI.Comm
        On which nothing else goes.
    """

    def __init__(self, own: MPI.Comm):
        self._own = own
        self._coming: MPI.Request | None = None
        self._sent: list[MPI.Request] = []
        self._heard: set[int] = set()

    @property
    def stays_away(self) -> bool:
        """Whether the others were told so."""
        return self._coming is None

    def come(self) -> None:
        """Take part in what ends when all do. Local."""
        self._coming = self._own.Ibarrier()

    def has_ended(self) -> bool:
        """Tell whether all have come. Local."""
        return self._coming.Test()

    def say(self, words: bytes) -> None:
        """Send to all others. Local."""
        from mpi4py import MPI

        self._words = words  # as long as MPI may need them
        others = [rank for rank in range(self._own.size) if rank != self._own.rank]
        self._sent = [self._own.Isend([words, MPI.BYTE], rank, AWAY) for rank in others]

    def take_in(self) -> bytearray | None:
        """Give what another process says that stays away, if one does. Local."""
        from mpi4py import MPI

        status = MPI.Status()
        if not self._own.Iprobe(MPI.ANY_SOURCE, AWAY, status):
            return None
        words = bytearray(status.Get_count(MPI.BYTE))
        self._own.Recv([words, MPI.BYTE], status.Get_source(), AWAY)
        self._heard.add(status.Get_source())
        return words

    def settle(self, away: set[int], wait: Callable[[Callable[[], bool]], None]) -> None:
        """Take in what those said who stayed away, come after all, and free all. Collective."""
        if self._coming is None:
            self.come()
        missing = away - {self._own.rank}

        def has_ended() -> bool:
            while not self._heard >= missing and self.take_in() is not None:
                pass
            return self._heard >= missing and self.has_ended()

        wait(has_ended)
        for request in self._sent:
            request.Wait()
        self._own.Free()


class _Failed:
    """The appointments on a communicator that have failed for this process, by their number.

    Others may still come, or not know yet. Where an operation of MPI never ended it would keep the
    communicator, of which MPI has some thousands.
    """

    def __init__(self) -> None:
        self._made = 0
        self._mine: dict[int, _Mine] = {}

    def __len__(self) -> int:
        return len(self._mine)

    def next_number(self) -> int:
        """Give the number of a new one: the same on all processes."""
        self._made += 1
        return self._made

    def keep(self, number: int, mine: _Mine) -> None:
        """Take note of one. Local; the garbage collector may call it at any time."""
        self._mine[number] = mine

    def settle(self, address: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """End those that have failed for all processes. Collective."""
        listed = sorted(self._mine)[:MOST_SETTLED]
        most = max(int(count[0]) for count in gathered(address, [len(listed)]))
        if not most:
            return
        said = [2 * number + self._mine[number].stays_away for number in listed]
        told = gathered(address, said + [-1] * (most - len(said)))
        common = set.intersection(*({int(n) // 2 for n in numbers if n >= 0} for numbers in told))
        for number in sorted(common):
            away = {rank for rank, numbers in enumerate(told) if 2 * number + 1 in numbers}
            self._mine.pop(number).settle(away, wait)


def _failed_of(comm: MPI.Comm) -> _Failed:
    """Give those of a communicator, whatever object of mpi4py it is given as."""
    found = comm.Get_attr(_attribute())
    if found is None:
        found = _Failed()
        comm.Set_attr(_attribute(), found)
    return found


@functools.cache
def _attribute() -> int:
    from mpi4py import MPI

    return MPI.Comm.Create_keyval()
