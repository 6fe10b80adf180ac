# SPDX-License-Identifier: BSD-3-Clause
"""Interrupts anywhere in a collective call: end the call on all processes."""

import os
import signal
import sys
import threading
import time

import drawn
import numpy as np
import pytest
from interrupter import Interrupter

import datamover as dm


def calls_of(comm, place):
    """Collective calls of every kind."""
    line = dm.BlockCyclic(4 * comm.size, "block", nprocs=comm.size)
    same = dm.redistribute(line, line)
    turned = dm.redistribute(line, dm.BlockCyclic(4 * comm.size, "cyclic", nprocs=comm.size))
    a, b = np.arange(4.0), np.zeros(4)
    ranks = np.arange(4) % comm.size

    def distributed(on):
        return dm.Migration(ranks, method="partition", comm=on)

    def opened(on):
        how = dict(mode="w", dtype="f8", overwrite=True)
        return dm.files.open(f"{place}/new.npy", line, comm=on, **how)

    def saving(on):
        given = {"a": (a, line)}
        return dm.save(f"{place}/a.npy", given, comm=on, overwrite=True, wait=False)

    return {
        "Array": lambda on: dm.Array(line, comm=on),
        "Mover": lambda on: dm.Mover(same, a, b, comm=on),
        "Mover of several": lambda on: dm.Mover([(same, a, b)], comm=on),
        "rebind": lambda on: dm.Mover(same, a, b, comm=on).rebind(a, b.copy()),
        "rebind of several": lambda on: dm.Mover([(same, a, b)], comm=on).rebind((a, b.copy())),
        "tune": lambda on: dm.Mover(turned, a, b, comm=on).tune(1e-3),
        "Mover of a file": lambda on: dm.Mover(
            turned, dm.files.open(f"{place}/in.npy", line, comm=on), b
        ),
        "index_lists": lambda on: dm.advanced.index_lists(
            4 * comm.size, comm.rank * 4 + np.arange(4), comm=on
        ),
        "Migration": distributed,
        "move": lambda on: distributed(on).move(a),
        "reverse": lambda on: distributed(on).reverse(a),
        "migrate": lambda on: dm.migrate(a, ranks, method="partition", comm=on),
        "save": lambda on: dm.save(f"{place}/a.npy", {"a": (a, line)}, comm=on, overwrite=True),
        "close of a file": lambda on: opened(on).close(),
        "end of a file's block": lambda on: opened(on).__exit__(None, None, None),
        "wait of a save": lambda on: saving(on).wait(),
        "end of a save's block": lambda on: saving(on).__exit__(None, None, None),
    }


def ends_on_all(comm, n, call):
    """Check that a call ends on all if the last process is interrupted at its line n.

    `call` takes a communicator and the interrupter. Tells whether it came to that line.
    """
    last = comm.rank == comm.size - 1
    alone = comm.Dup()
    outcome, interrupter = "done", Interrupter(n if last else None)
    try:
        call(alone, interrupter)
        dm.Migration([0] * 3, method="partition", comm=alone)  # the others are told by now
    except (KeyboardInterrupt, dm.Error) as error:
        outcome = type(error).__name__
    came = comm.bcast(interrupter.came, comm.size - 1)
    ended = "KeyboardInterrupt" if last else "PeerFailed"
    assert outcome == (ended if came else "done"), n
    comm.Barrier()
    alone.Free()
    return came


def lines_of_this_run(comm, counted, cases):
    """Every fourth line of a call, with one, two, three and four processes all of them together."""
    step = 4 if cases == 1 else 1
    first = 1 + (comm.size + drawn.NODE_SIZE) % step
    return range(first, comm.bcast(counted.lines, comm.size - 1) + 1, step)


def interrupt_within(function):
    """Send this process SIGINT, as Ctrl-C, when its main thread has been in a call for a while."""

    def is_within():
        frame = sys._current_frames()[threading.main_thread().ident]
        while frame is not None and frame.f_code is not function.__wrapped__.__code__:
            frame = frame.f_back
        return frame is not None

    def run():
        while not is_within():
            os.sched_yield()
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run, daemon=True).start()


def test_tuning_looks_for_an_interrupt(comm, monkeypatch):
    """Though no round is long enough for its wait to look: else it came after the time's limit."""
    if comm.size == 1:
        pytest.skip("nothing is tried")
    monkeypatch.setenv("DATAMOVER_TUNING_FILE", "")
    # Of which no other test has found the fastest transport, and which are tried for minutes.
    each = 100_003
    layouts = [
        dm.BlockCyclic(each * comm.size, kind, nprocs=comm.size) for kind in ("block", "cyclic")
    ]
    alone, last = comm.Dup(), comm.rank == comm.size - 1
    mover = dm.Mover(dm.redistribute(*layouts), np.zeros(each), np.zeros(each), comm=alone)
    if last:
        interrupt_within(dm.Mover.tune)
    with pytest.raises(KeyboardInterrupt if last else dm.PeerFailed):
        mover.tune(3600)


@pytest.mark.parametrize("name", calls_of(type("Comm", (), {"size": 1, "rank": 0}), ""))
def test_an_interrupt_at_any_line_ends_the_call_on_all(comm, rng, place, cases, name):
    def call(on):
        if name == "reverse":  # as many values as have arrived
            d = dm.Migration(np.full(4, comm.rank), method="partition", comm=on)
            return d.reverse(np.zeros(4))
        return calls_of(comm, place)[name](on)

    if comm.rank == 0:
        np.save(f"{place}/in.npy", np.zeros(4 * comm.size))
    comm.Barrier()
    call(comm)  # imports more than the next
    with Interrupter() as counted:
        call(comm)

    def interrupted(on, interrupter):
        with interrupter:
            call(on)
            dm.Migration([0] * 3, method="partition", comm=on)  # where the call took fewer lines

    for _ in range(8 * cases):
        n = comm.bcast(int(rng.integers(1, counted.lines + 1)), comm.size - 1)
        ends_on_all(comm, n, interrupted)


def test_an_interrupt_at_any_line_of_start_is_heard_by_who_waits(comm, cases):
    def started(on, interrupter):
        d = dm.Migration(np.arange(4) % comm.size, method="partition", comm=on)
        with interrupter:
            d.start(np.zeros(4))
        d.wait()

    counted = Interrupter()
    started(comm, counted)
    for n in lines_of_this_run(comm, counted, cases):
        assert ends_on_all(comm, n, started), n


STREAM_CALLS = {
    "send": lambda out, a, line: out.send("u", a, layout=line),
    "end_step": lambda out, a, line: out.end_step(),
    "close": lambda out, a, line: out.close(),
    "end of its block": lambda out, a, line: out.__exit__(None, None, None),
}


@pytest.mark.parametrize("name", STREAM_CALLS)
def test_an_interrupt_at_any_line_of_a_streams_call_ends_it_on_all(comm, cases, name):
    line = dm.BlockCyclic(4 * comm.size, "block", nprocs=comm.size)

    def call(on, interrupter):
        out = dm.Stream("tcp://127.0.0.1:0", comm=on)
        with interrupter:
            STREAM_CALLS[name](out, np.zeros(4), line)

    counted = Interrupter()
    call(comm, counted)
    for n in lines_of_this_run(comm, counted, cases):
        ends_on_all(comm, n, call)


def test_who_moves_hears_it_and_not_where_the_arrays_live(comm):
    """Of a mover on another communicator than that of its arrays."""
    home = comm.Dup()
    line = dm.BlockCyclic(4 * comm.size, "block", nprocs=comm.size)
    same = dm.redistribute(line, line)
    a, b = dm.Array(line, comm=home), dm.Array(line, comm=home)
    last = comm.rank == comm.size - 1
    for n in range(1, 9):  # from the first line on, before the mover knows where it is
        alone = comm.Dup()
        outcome = "done"
        with Interrupter(n if last else None):
            try:
                dm.Mover(same, a, b, comm=alone)
            except (KeyboardInterrupt, dm.Error) as error:
                outcome = type(error).__name__
        assert outcome == ("KeyboardInterrupt" if last else "PeerFailed"), n
        comm.Barrier()
        alone.Free()
    a.local[...], b.local[...] = 1, 0
    dm.Mover(same, a, b)()
    assert (b.local == 1).all()
