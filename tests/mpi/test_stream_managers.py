# SPDX-License-Identifier: BSD-3-Clause
"""Stream managers: the processes of a program agree on which of its streams hold buffers.

All processes but the last one send; the last one receives. On one process it does both.
"""

import contextlib
import threading
import time

import numpy as np
import pytest

import datamover as dm

HERE = "tcp://127.0.0.1:0"
LIMIT_SECONDS = 60
ELEMS = 1 << 16
COUNT, STEPS = 4, 3


@pytest.mark.parametrize("local", [True, False])
def test_a_few_hold_buffers_on_every_process(comm, rng, local):
    active = int(rng.integers(1, 3))
    senders = max(comm.size - 1, 1)
    sends, receives = comm.rank < senders, comm.rank == comm.size - 1
    part = comm.Split(int(sends), comm.rank)
    line = dm.BlockCyclic(ELEMS, "block", nprocs=senders)
    whole = dm.BlockCyclic(ELEMS, "block", nprocs=1)
    values = np.arange(float(ELEMS))
    with contextlib.ExitStack() as stack:
        outs, steps = [], []
        if sends:
            manager = stack.enter_context(dm.stream.Manager(active=active, comm=part))
            outs = [
                manager.open(str(n), HERE, consumers=1, local=local, timeout=LIMIT_SECONDS)
                for n in range(COUNT)
            ]
        for address in comm.bcast([out.address for out in outs], 0):
            if receives:
                consumer = stack.enter_context(
                    dm.stream.connect(address, ahead=1, timeout=LIMIT_SECONDS)
                )
                steps.append(consumer.steps({"u": whole}, LIMIT_SECONDS))
        for step in range(STEPS):
            for n in range(COUNT):
                if sends:
                    mine = values[_part(line, part.rank)] + 10 * step + n
                    outs[n].send("u", mine, layout=line, step=step)
                    assert outs[n].counters()["bytes_held"] >= mine.nbytes
                    # A connection may not yet have given back what was taken from it.
                    assert _soon(lambda: _holding(outs) <= active)
                if receives:
                    number, arrays = next(steps[n])
                    assert number == step
                    np.testing.assert_array_equal(arrays["u"], values + 10 * step + n)
        comm.Barrier()  # nothing is held for a consumer that has left
    part.Free()


@pytest.mark.parametrize("unit", ["step", "array"])
def test_threads_on_communicators_of_their_own_take_turns(comm, unit):
    """All processes send, a stream from each thread; process 0 receives all, too."""
    line = dm.BlockCyclic(ELEMS, "block", nprocs=comm.size)
    whole = dm.BlockCyclic(ELEMS, "block", nprocs=1)
    values = np.arange(float(ELEMS))
    comms = [comm.Dup() for _ in range(3)]
    failures = []

    def run(work, *arguments):
        try:
            work(*arguments)
        except BaseException as error:
            failures.append(error)

    def send(n, out):
        for step in range(5):
            mine = values[_part(line, comm.rank)] + 10 * step + n
            out.send("u", mine, layout=line, step=step)
        out.close(LIMIT_SECONDS)

    def receive(n, consumer):
        for step, arrays in consumer.steps({"u": whole}, LIMIT_SECONDS):
            np.testing.assert_array_equal(arrays["u"], values + 10 * step + n)
        assert step == 4

    with (
        dm.stream.Manager(active=1, unit=unit, comm=comm) as manager,
        contextlib.ExitStack() as stack,
    ):
        works = []
        for n, own in enumerate(comms):
            out = manager.open(str(n), HERE, comm=own, consumers=1, timeout=LIMIT_SECONDS)
            works.append((send, n, out))
            if comm.rank == 0:
                consumer = dm.stream.connect(out.address, timeout=LIMIT_SECONDS)
                works.append((receive, n, stack.enter_context(consumer)))
        threads = [threading.Thread(target=run, args=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
    for own in comms:
        own.Free()


def _holding(outs):
    return sum(out.counters()["bytes_held"] > 0 for out in outs)


def _soon(condition):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return holds


def _part(line, rank):
    """Where this process's block of a line lies."""
    each = -(-ELEMS // line.nprocs)
    return slice(min(rank * each, ELEMS), min((rank + 1) * each, ELEMS))


def test_wrong_arguments_on_one_process_are_errors_on_all(comm):
    last = comm.rank == comm.size - 1
    with pytest.raises(dm.errors.InvalidArgument):
        dm.stream.Manager(active=0 if last else 1, comm=comm)
    with pytest.raises((dm.Error, TypeError)):
        dm.stream.Manager(comm=comm, **({"color": 1} if last else {}))
    with dm.stream.Manager(comm=comm) as manager:
        with pytest.raises(dm.errors.InvalidArgument):
            manager.open("" if last else "u", HERE)
        with pytest.raises((dm.Error, TypeError)):
            manager.open("u", HERE, **({"color": 1} if last else {}))
        with pytest.raises(dm.errors.InvalidArgument):
            manager.open("u", "udp://127.0.0.1:1" if last else HERE)
        if comm.size > 1:
            with pytest.raises(dm.Mismatch):
                manager.open("other" if last else "u", HERE)
        out = manager.open("u", HERE)
        line = dm.BlockCyclic(64, "block", nprocs=comm.size)
        mine = np.zeros(line.local_shape(comm.rank))
        out.send("u", mine, layout=line, step=0)
        if comm.size > 1:
            with pytest.raises(dm.Mismatch):
                if last:
                    out.end_step()
                else:
                    out.send("u", mine, step=1)
        out.end_step()
        out.send("u", mine, step=0)


def test_a_program_that_fails_on_one_process_ends_all_streams(comm):
    own = comm.Dup()
    last = comm.rank == comm.size - 1
    line = dm.BlockCyclic(64, "block", nprocs=comm.size)
    mine = np.zeros(line.local_shape(comm.rank))
    with (
        pytest.raises(ZeroDivisionError if last else dm.errors.InvalidArgument),
        dm.stream.Manager(comm=own) as manager,
    ):
        outs = [manager.open(name, HERE) for name in "ab"]
        outs[0].send("u", mine, layout=line)
        if last:
            raise ZeroDivisionError
        outs[1].send("u", mine, layout=line)
    assert all(out._end.is_closed for out in outs)
    own.Free()


def test_who_caught_the_error_of_a_process_that_left_waits_for_it_in_no_stream(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    own = comm.Dup()
    leaves = comm.rank == comm.size - 1
    line = dm.BlockCyclic(64, "block", nprocs=comm.size)
    mine = np.zeros(line.local_shape(comm.rank))
    manager = dm.stream.Manager(comm=own)
    outs = [manager.open(name, HERE) for name in "ab"]
    for out in outs:
        out.send("u", mine, layout=line)
    if leaves:
        with pytest.raises(ZeroDivisionError), manager:
            raise ZeroDivisionError("of the program's own")
    else:
        with pytest.raises(dm.errors.InvalidArgument):
            outs[0].send("u", mine)
        for out in outs:
            with pytest.raises(dm.errors.InvalidState):
                out.send("u", mine)
        manager.close()
    own.Free()
