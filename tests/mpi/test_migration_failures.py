# SPDX-License-Identifier: BSD-3-Clause
"""Failures in distributions: waiting processes get an error if another fails or never comes."""

import numpy as np
import pytest
from interrupter import AlarmError, alarm_in_a_call

import datamover as dm

METHODS = ("auto", "partition", "alltoallv", "sendrecv", "sort")


def ranks_for(comm, elems=50):
    """Every process sends some elements to every other."""
    return (np.arange(elems) + comm.rank) % comm.size


def assert_works(comm):
    """A new communicator of the same processes distributes as ever."""
    ranks = ranks_for(comm)
    got = dm.migrate(100 * comm.rank + np.arange(len(ranks)), target=ranks, comm=comm.Dup())
    expected = [
        100 * r + i
        for r in range(comm.size)
        for i in range(len(ranks))
        if (i + r) % comm.size == comm.rank
    ]
    assert got.tolist() == expected


class Calls:
    """Every collective call of a distribution, on a communicator that may be spoilt."""

    def __init__(self, comm, method="partition"):
        self.comm = comm.Dup()
        self.elems = len(ranks_for(comm))
        self.made = dm.Migration(ranks_for(comm), method=method, comm=self.comm)
        self.given = np.arange(self.elems, dtype="i8")
        self.room = np.full(max(self.elems, self.made.received), -1, dtype="i8")
        self.home = np.full(self.elems, -1, dtype="i8")

    def make(self):
        dm.Migration(ranks_for(self.comm), comm=self.comm)

    def move(self):
        self.made.move(self.given, out=self.room)

    def move_in_place(self):
        self.room[: self.elems] = self.given
        self.made.move_in_place(self.room)

    def reverse(self):
        self.made.reverse(np.arange(self.made.received), out=self.home)

    def layouts(self):
        self.made.layouts()

    def assert_untouched(self):
        assert (self.given == np.arange(self.elems)).all()
        assert (self.home == -1).all()
        assert (self.room == -1).all() or (self.room[: self.elems] == self.given).all()

    def mover(self):
        """Bind a mover of the same communicator, to be dropped in flight."""
        size = self.comm.size
        plan = dm.redistribute(
            dm.BlockCyclic((size, size), "(block, *)", size),
            dm.BlockCyclic((size, size), "(*, block)", size),
        )
        a, b = (np.zeros(x.local_shape(self.comm.rank)) for x in (plan.source, plan.destination))
        return dm.Mover(plan, a, b, comm=self.comm)


CALLS = ("make", "move", "move_in_place", "reverse", "layouts")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("method", METHODS)
def test_those_who_wait_are_told_that_one_failed(comm, method, call):
    if comm.size == 1:
        pytest.skip("takes several processes")
    calls = Calls(comm, method)
    mover = calls.mover()
    comm.barrier()  # all are through with binding
    if comm.rank == 0:
        mover.start()
        del mover
    else:
        with pytest.raises(dm.PeerFailed, match="process 0"):
            getattr(calls, call)()
        calls.assert_untouched()
    with pytest.raises(dm.PeerFailed):
        getattr(calls, call)()
    comm.barrier()
    assert_works(comm)


@pytest.mark.parametrize("call", CALLS)
def test_a_deadline_ends_the_wait_for_one_that_never_comes(comm, call):
    if comm.size == 1:
        pytest.skip("takes several processes")
    calls = Calls(comm)
    if comm.rank > 0:
        dm.set_timeout(0.05)
        try:
            # Whose deadline passes first tells the others.
            with pytest.raises((dm.Timeout, dm.PeerFailed), match="waited") as caught:
                getattr(calls, call)()
        finally:
            dm.set_timeout(None)
        calls.assert_untouched()
    timeouts = comm.allgather(comm.rank > 0 and caught.errisinstance(dm.Timeout))
    assert any(timeouts)
    with pytest.raises(dm.PeerFailed, match="waited"):  # also the one that comes too late
        getattr(calls, call)()
    assert_works(comm)


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_interrupts_the_wait(comm, call):
    """A handler that raises, as that of Ctrl-C does, ends the wait; the others are told."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    calls = Calls(comm)
    if comm.rank == comm.size - 1:
        with pytest.raises(AlarmError), alarm_in_a_call():
            getattr(calls, call)()
        calls.assert_untouched()
    elif comm.rank > 0:
        with pytest.raises(dm.PeerFailed, match=f"process {comm.size - 1}"):
            getattr(calls, call)()
        calls.assert_untouched()
    comm.barrier()
    with pytest.raises(dm.PeerFailed, match=f"process {comm.size - 1}"):
        getattr(calls, call)()
    assert_works(comm)


def test_what_one_process_raises_all_raise(comm):
    """An exception of the user's own work is told to those who wait, and spoils nothing."""

    def targets(elements):
        if comm.rank == comm.size - 1:
            raise ValueError("no targets today")
        return ranks_for(comm)

    fresh = comm.Dup()
    with pytest.raises(dm.errors.InvalidArgument, match="no targets today"):
        dm.migrate(np.arange(50), target=targets, comm=fresh)
    assert_works(fresh)
