# SPDX-License-Identifier: BSD-3-Clause
"""A program of a schedule, which sends or receives and writes its history.

    python stream_program.py DIRECTORY NAME [ADDRESS TOKEN]

The directory has the pickled schedule. Process `rank` writes `NAME-rank`, one JSON list per line.
If it is one of several processes, a child does the work. The launcher then does not notice that a
process is killed, and does not end the others.
"""

import faulthandler
import json
import os
import pickle
import random
import signal
import sys
import time
import zlib
from pathlib import Path

from stream_histories import (
    CONNECT_SECONDS,
    PEER_SECONDS,
    SENDER,
    SLACK_SECONDS,
    STEP_SECONDS,
    part,
    values,
)

#: After how many seconds a process is ended whose test has not ended it.
LIFE_SECONDS = 600
#: How many timeouts in a row a program answers by another attempt.
ATTEMPTS = 100


class History:
    """The actions of a process, in a file that has all of them if the process is killed."""

    def __init__(self, path):
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def __call__(self, *values):
        os.write(self._file, (json.dumps([time.monotonic(), *values]) + "\n").encode())


def compute(pace):
    """Sleep in place of a computation, for a random time of this mean."""
    if pace:
        time.sleep(random.expovariate(1 / pace))


def send(dm, out, history, place, rank, sender):
    """Send steps until the file `stop` is there."""
    size = sender.processes
    layouts = {
        name: dm.BlockCyclic(elems, kind, nprocs=size)
        for name, (elems, kind) in sender.arrays.items()
    }
    last, step, timeouts = place / "last", 0, 0
    # No process returns from a call before process 0 has begun it, and decided whether it is last.
    while not (step and last.exists() and int(last.read_text()) < step):
        if rank == 0 and (place / "stop").exists() and not last.exists():
            (place / "last.new").write_text(str(step))
            (place / "last.new").rename(last)
        history("send", step)
        for name in sender.arrays_of(step):
            elems, kind = sender.arrays[name]
            mine = part(values(name, elems, step), kind, rank, size)
            is_sent = False
            while not is_sent:
                begin = time.monotonic()
                try:
                    out.send(name, mine, layout=layouts[name], step=step)
                    is_sent, timeouts = True, 0
                except dm.Timeout as error:
                    history("timeout", step, time.monotonic() - begin, str(error))
                    timeouts += 1
                    if timeouts == ATTEMPTS:
                        raise
        if sender.ends_steps:
            out.end_step()
        history("sent", step)
        step += 1
        compute(sender.pace)


def counters_once_free(out):
    """Wait until nothing is kept for any consumer, as long as a busy machine may take."""
    deadline = time.monotonic() + SLACK_SECONDS
    while (counters := out.counters())["bytes_kept"] and time.monotonic() < deadline:
        time.sleep(0.005)
    return counters


def run_sender(dm, history, place, comm, sender):
    rank = 0 if comm is None else comm.rank
    with dm.Stream(
        "tcp://127.0.0.1:0",
        policy=sender.policy,
        consumers=sender.consumers,
        queue_steps=sender.queue_steps,
        pathways=sender.pathways,
        timeout=sender.timeout,
        local=sender.local,
        comm=comm,
    ) as out:
        history("open", out.address, out.token)
        try:
            send(dm, out, history, place, rank, sender)
            history("closing")
            out.close(sender.close_seconds)
        except BaseException as error:
            history("error", type(error).__name__, str(error))
            raise
    history("closed", counters_once_free(out))


def receive(dm, source, history, comm, receiver, arrays):
    """Take steps until the end, or until it leaves."""
    history("subscribing")
    wanted = {
        name: dm.BlockCyclic(arrays[name][0], kind, nprocs=receiver.processes)
        for name, kind in receiver.wanted.items()
    }
    if receiver.in_place:
        wanted = {name: dm.Array(layout, "u4", comm=comm) for name, layout in wanted.items()}
    steps = source.steps(None if receiver.whole else wanted, STEP_SECONDS)
    history("joined")
    leaves = receiver.leaver in (None, 0 if comm is None else comm.rank)
    count, timeouts = 0, 0
    while not (leaves and count == receiver.leaves_after):
        begin = time.monotonic()
        try:
            step, found = next(steps)
        except StopIteration:
            return "end"
        except dm.Timeout as error:
            history("timeout", time.monotonic() - begin, str(error))
            timeouts += 1
            if timeouts == ATTEMPTS:
                raise
            continue
        checksums = {
            name: zlib.crc32(array.local if receiver.in_place else array)
            for name, array in found.items()
        }
        history("got", step, checksums, source.dropped)
        count, timeouts = count + 1, 0
        compute(receiver.pace)
    return "left"


def run_receiver(dm, history, comm, receiver, arrays, address, token):
    try:
        with dm.stream.connect(
            address,
            token=token or None,
            timeout=CONNECT_SECONDS,
            ahead=receiver.ahead,
            local=receiver.local,
            newest=receiver.newest,
            comm=comm,
        ) as source:
            history("connected")
            how = receive(dm, source, history, comm, receiver, arrays)
            history(how, source.dropped)
    except BaseException as error:
        history("error", type(error).__name__, str(error))
        raise


def shared_files():
    """Return the files of MPI's shared memory, which stay if a process of it is killed."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[5] for line in lines if " /dev/shm/" in line})


def work(place, name, *way):
    """Run this program's part of the schedule."""
    schedule = pickle.loads((place / "schedule").read_bytes())
    program = schedule.sender if name == SENDER else schedule.receivers[name]
    comm = None
    if program.processes > 1:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    import datamover as dm

    if comm is not None:
        comm.Barrier()  # all have imported it; nothing has been done to any process before
    rank = 0 if comm is None else comm.rank
    history = History(place / f"{name}-{rank}")
    stacks = open(place / f"{name}-{rank}.stacks", "w")  # noqa: SIM115
    signal.alarm(LIFE_SECONDS)
    faulthandler.register(signal.SIGUSR1, stacks)
    history("start", os.getpid(), shared_files())
    dm.set_timeout(PEER_SECONDS)
    try:
        if name == SENDER:
            run_sender(dm, history, place, comm, program)
        else:
            run_receiver(dm, history, comm, program, schedule.sender.arrays, *way)
    finally:
        history("ended")
        if comm is not None:
            os._exit(0)  # MPI would wait for processes that were killed


def main():
    place, name = Path(sys.argv[1]), sys.argv[2]
    schedule = pickle.loads((place / "schedule").read_bytes())
    program = schedule.sender if name == SENDER else schedule.receivers[name]
    child = os.fork() if program.processes > 1 else 0
    if child == 0:
        work(place, *sys.argv[2:])
        return
    os.waitpid(child, 0)
    (place / f"{name}.{child}.over").touch()
    while len(list(place.glob(f"{name}.*.over"))) < program.processes:
        time.sleep(0.02)
    os._exit(0)


if __name__ == "__main__":
    main()
