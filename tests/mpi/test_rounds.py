# SPDX-License-Identifier: BSD-3-Clause
"""Rounds from start to wait: any order, late peers, dropped movers, interrupts and threads."""

import gc
import threading
import time

import drawn
import numpy as np
import pytest
from interrupter import AlarmError, alarm_in_a_call
from mpi4py import MPI

import datamover as dm

TRANSPORTS = drawn.transports("self")


def rows_to_columns(n, nprocs):
    return dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", nprocs), dm.BlockCyclic((n, n), "(*, block)", nprocs)
    )


def library_arrays(comm, plan, dtype="i8"):
    return dm.Array(plan.source, dtype, comm=comm), dm.Array(plan.destination, dtype, comm=comm)


def user_arrays(comm, plan):
    return tuple(
        np.zeros(layout.local_shape(comm.rank)) for layout in (plan.source, plan.destination)
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_processes_may_wait_in_different_orders(comm, transport):
    """Each wait pushes all movers on: otherwise two that go in many pieces would lock."""
    plan = rows_to_columns(96 * comm.size, comm.size)
    if transport == "shared" or drawn.impossible(plan, transport):
        pytest.skip("takes a transport for memory of users")
    arrays = [user_arrays(comm, plan) for _ in range(3)]
    movers = [
        dm.Mover(plan, *pair, comm=comm, transport=transport, max_bytes=20_000 * comm.size)
        for pair in arrays
    ]
    for step in range(2):
        for k, (a, _) in enumerate(arrays):
            a[...] = 10 * step + k
        for mover in movers:
            mover.start()
        for mover in movers if comm.rank % 2 == 0 else reversed(movers):
            mover.wait()
        for k, (_, b) in enumerate(arrays):
            assert (b == 10 * step + k).all()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_set_up_pushes_movers_on(comm, transport):
    """Who makes arrays between start and wait leaves nobody waiting who does so afterwards."""
    plan = rows_to_columns(96 * comm.size, comm.size)
    if transport == "shared" or drawn.impossible(plan, transport):
        pytest.skip("takes a transport for memory of users")
    a, b = user_arrays(comm, plan)
    options = {"comm": comm, "transport": transport, "max_bytes": 20_000 * comm.size}
    mover = dm.Mover(plan, a, b, **options)
    a[...] = 7
    mover.start()
    if comm.rank == 0:
        made = dm.Array(plan.source, comm=comm)
        mover.wait()
    else:
        mover.wait()
        made = dm.Array(plan.source, comm=comm)
    assert made.local.shape == a.shape
    assert (b == 7).all()


def message_of_the_program(comm, large):
    """Begin a large message on even processes; the odd ones stay in their call until it is through.

    Returns what ends it on this process.
    """
    partner = comm.rank ^ 1
    if partner >= comm.size:
        return lambda: None
    if comm.rank % 2 == 0:
        return comm.Irecv(large, partner).Wait
    comm.Send(large, partner)
    return lambda: None


@pytest.mark.parametrize("waits_in", ["wait", "test", "distribution", "binding"])
def test_messages_of_the_program_go_on_while_it_waits(comm, waits_in):
    """A peer that stays in a send of its own comes only when MPI goes on here, too."""
    fresh = comm.Dup()
    plan = rows_to_columns(4 * comm.size, comm.size)
    a, b = library_arrays(fresh, plan)
    mover = dm.Mover(plan, a, b)
    d = dm.Migration(np.arange(comm.size), comm=fresh)
    a.local[...] = 5
    large = np.full(1_000_000, float(comm.rank))
    end_message = message_of_the_program(comm, large)
    if waits_in == "wait":
        mover()
    elif waits_in == "test":
        mover.start()
        while not mover.test():
            pass
    elif waits_in == "distribution":
        arrived = d.move(np.full(comm.size, comm.rank))
        assert (arrived == np.arange(comm.size)).all()
    else:
        dm.Mover(plan, a, b)()
    end_message()
    if comm.rank % 2 == 0 and comm.rank + 1 < comm.size:
        assert (large == comm.rank + 1).all()
    if waits_in != "distribution":
        assert (b.local == 5).all()


def test_after_a_timeout_the_mover_can_be_waited_for_again(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    plan = rows_to_columns(2 * comm.size, comm.size)
    a, b = library_arrays(comm, plan)
    a.local[...] = 3
    mover = dm.Mover(plan, a, b)
    if comm.rank > 0:
        mover.start()
        for _ in range(2):
            with pytest.raises(dm.Timeout, match=r"\b0\b.*still in flight"):
                mover.wait(timeout=0.02)
            assert mover.in_flight
    comm.barrier()
    if comm.rank == 0:
        mover.start()
    mover.wait()
    assert (b.local == 3).all()


def test_a_default_timeout_holds_for_every_wait(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    plan = rows_to_columns(2 * comm.size, comm.size)
    mover = dm.Mover(plan, *library_arrays(comm, plan))
    if comm.rank > 0:
        dm.set_timeout(0.02)
        try:
            with pytest.raises(dm.Timeout):
                mover()
        finally:
            dm.set_timeout(None)
    comm.barrier()
    if comm.rank == 0:
        mover.start()
    mover.wait()
    for wrong in (0, -1, np.nan, 10**400):
        with pytest.raises(dm.errors.InvalidArgument):
            dm.set_timeout(wrong)
    for wrong in ("x", "5", [5]):
        with pytest.raises(dm.errors.WrongType):
            dm.set_timeout(wrong)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", ["dropped", "with"])
def test_a_mover_dropped_in_flight_is_a_failure_that_all_hear(comm, transport, how):
    """Its arrays' memory is not given to anybody else before a late peer is through with it."""
    plan = rows_to_columns(64 * comm.size, comm.size)
    if comm.size == 1 or drawn.impossible(plan, transport):
        pytest.skip("takes several processes that this transport reaches")
    fresh = comm.Dup()
    a, b = library_arrays(fresh, plan)
    a.local[...], b.local[...] = 7, 8
    if transport == "shared" and not a.shared:
        pytest.skip("no shared memory here")
    mover = dm.Mover(plan, a, b, transport=transport)
    comm.barrier()  # all are through with binding
    if comm.rank == 0:
        if how == "with":
            with pytest.raises(KeyError), mover:
                mover.start()
                raise KeyError("the user's own exception comes through")
        else:
            mover.start()
        del mover, a, b
        gc.collect()
        own = dm.BlockCyclic((64, 64 * comm.size), "(*, *)", 1)
        taken = [dm.Array(own, "i8", comm=MPI.COMM_SELF) for _ in range(4)]
        for x in taken:
            x.local[...] = -1
    comm.barrier()
    if comm.rank > 0:
        with pytest.raises(dm.PeerFailed):
            mover()
        del mover
    comm.barrier()
    if comm.rank == 0:
        assert all((x.local == -1).all() for x in taken)
    with pytest.raises(dm.PeerFailed):
        dm.Array(plan.source, comm=fresh)
    # A new communicator works.
    again = comm.Dup()
    a, b = library_arrays(again, plan)
    a.local[...] = 9
    dm.Mover(plan, a, b)()
    assert (b.local == 9).all()


def test_a_peer_that_has_freed_its_mover_is_not_written_to(comm):
    plan = rows_to_columns(8 * comm.size, comm.size)
    if comm.size == 1 or drawn.crosses_nodes(plan):
        pytest.skip("takes several processes of one node")
    fresh = comm.Dup()
    mover = dm.Mover(plan, *user_arrays(fresh, plan), comm=fresh, transport="staged")
    mover()
    if comm.rank == 0:
        mover.close()
    comm.barrier()
    if comm.rank > 0:
        with pytest.raises(dm.PeerFailed, match="process"):
            mover.start()
            mover.wait()
    comm.barrier()


def test_wait_is_interrupted_and_goes_on(comm):
    """A signal with a handler that raises ends the wait; the mover stays in flight."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    plan = rows_to_columns(2 * comm.size, comm.size)
    a, b = library_arrays(comm, plan)
    a.local[...] = 4
    mover = dm.Mover(plan, a, b)
    if comm.rank > 0:
        mover.start()
        with pytest.raises(AlarmError), alarm_in_a_call():
            mover.wait()
        assert mover.in_flight
    comm.barrier()
    if comm.rank == 0:
        mover.start()
    mover.wait()
    assert (b.local == 4).all()


class TestProgressThread:
    @pytest.mark.parametrize("transport", TRANSPORTS)
    def test_movers_complete_without_the_program(self, comm, transport):
        plan = rows_to_columns(64 * comm.size, comm.size)
        if drawn.impossible(plan, transport):
            pytest.skip("the transport does not reach over nodes")
        arrays = [library_arrays(comm, plan) for _ in range(3)]
        if transport == "shared" and not all(a.shared for pair in arrays for a in pair):
            pytest.skip("no shared memory here")
        with dm.progress_thread() as thread:
            assert thread.carries_messages
            assert repr(thread) == "ProgressThread(carries all)"
            movers = [dm.Mover(plan, *pair, transport=transport) for pair in arrays]
            for step in range(3):
                for k, (a, _) in enumerate(arrays):
                    a.local[...] = 10 * step + k
                for mover in movers:
                    mover.start()
                while not all((b.local == 10 * step + k).all() for k, (_, b) in enumerate(arrays)):
                    time.sleep(0)  # the program calls nothing of the library
                for mover in movers:
                    mover.wait()
        assert repr(thread) == "ProgressThread(stopped)"
        mover = movers[0]
        mover()  # and without the thread again

    def test_threads_that_come_and_go(self, comm):
        plan = rows_to_columns(4 * comm.size, comm.size)
        a, b = library_arrays(comm, plan)
        mover = dm.Mover(plan, a, b)
        for step in range(20):
            a.local[...] = step
            if step % 3 == 0:
                thread = dm.progress_thread()
            mover.start()
            if step % 3 == 1:
                thread.stop()
            mover.wait()
            assert (b.local == step).all()
        del thread

    def test_two_threads_of_the_program_move_at_once(self, comm):
        plan = rows_to_columns(4 * comm.size, comm.size)
        comms = [comm.Dup() for _ in range(2)]
        arrays = [library_arrays(c, plan) for c in comms]
        movers = [dm.Mover(plan, *pair) for pair in arrays]
        problems = []

        def work(k):
            a, b = arrays[k]
            for step in range(50):
                a.local[...] = 100 * step + k
                movers[k]()
                if not (b.local == 100 * step + k).all():
                    problems.append((k, step))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert problems == []


def test_memory_of_the_library_is_reached_through_views(comm):
    """Parts of an Array, and arrays inside a slab, are copied straight between processes."""
    plan = rows_to_columns(8 * comm.size, comm.size)
    if comm.size == 1 or drawn.crosses_nodes(plan):
        pytest.skip("takes several processes of one node")
    slab = dm.Array(
        dm.BlockCyclic((2, 64, comm.size**2), "(*, *, block)", comm.size), "f8", comm=comm
    )
    if not comm.allreduce(int(slab.shared), op=MPI.MIN):
        pytest.skip("no shared memory here")
    flat = slab.local.reshape(-1)
    n = 8 * 8 * comm.size
    a = flat[:n].reshape(plan.source.local_shape(comm.rank))
    b = flat[n : 2 * n].reshape(plan.destination.local_shape(comm.rank))
    a[...], b[...] = 5, 6
    mover = dm.Mover(plan, a, b, comm=comm)
    assert {p["transport"] for p in mover.explain()} == {"self", "shared"}
    mover()
    assert (b == 5).all()
