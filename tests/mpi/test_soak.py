# SPDX-License-Identifier: BSD-3-Clause
"""Long runs that bind, move and drop: memory and open files do not grow."""

import gc
import os

import drawn
import numpy as np
import pytest

import datamover as dm

TRANSPORTS = [t for t in drawn.transports("self") if t != "shared"]
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
# What allocators and MPI may keep besides, once all has been done twice; the address sanitizer
# keeps what is freed for a while, to see it used.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
SLACK_BYTES = (512 if SANITIZED else 8) << 20


def open_files():
    return len(os.listdir("/proc/self/fd"))


def mapped_bytes():
    """Bytes of private memory; pages of shared arrays come when somebody touches them."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = (int(word) for word in file.read().split())
    return (resident - shared) * PAGE_BYTES


def move_and_drop(comm, rng, local_rng):
    """Arrays and movers of every kind, of which nothing is left."""
    shape = drawn.shape(rng)
    source, destination = (drawn.layout(rng, shape, comm.size) for _ in range(2))
    plan = dm.redistribute(source, destination)
    transport = str(rng.choice(["auto", *TRANSPORTS]))
    a = drawn.Part(comm, rng, local_rng, source, "i4")
    b = drawn.Part(comm, rng, local_rng, destination, "i4")
    if drawn.impossible(plan, transport):
        return
    whole = drawn.numbered(shape, "i4")
    a.fill(whole)
    with dm.Mover(plan, a.arrays, b.arrays, comm=comm, transport=transport) as mover:
        mover()
    b.assert_holds(whole)


def distribute_and_drop(comm, rng, local_rng):
    n = int(local_rng.integers(0, 200))
    targets = local_rng.integers(0, comm.size, n)
    arrived = dm.migrate(targets.astype("i8"), targets, comm=comm)
    assert (np.asarray(arrived) == comm.rank).all()


def fail_everywhere(comm, rng, local_rng):
    """One process alone gives what cannot be bound."""
    plan = dm.redistribute(*[dm.BlockCyclic((8, comm.size), "(*, block)", comm.size)] * 2)
    shape = plan.source.local_shape(comm.rank)
    wrong = int(rng.integers(comm.size))
    a = np.zeros(shape if comm.rank != wrong else (3,))
    with pytest.raises(dm.Error):
        dm.Mover(plan, a, np.zeros(shape), comm=comm)


def on_a_communicator_of_its_own(comm, rng, local_rng):
    own = comm.Dup()
    move_and_drop(own, rng, local_rng)
    own.Free()


def work(comm, rounds):
    """The same random draws each time it is called."""
    rng, local_rng = np.random.default_rng(rounds), np.random.default_rng([rounds, comm.rank])
    ways = [move_and_drop] * 4 + [distribute_and_drop] * 2 + [fail_everywhere]
    for k in range(rounds):
        ways[k % len(ways)](comm, rng, local_rng)
        if k % 20 == 0:
            on_a_communicator_of_its_own(comm, rng, local_rng)
    gc.collect()


def test_nothing_grows(comm, cases):
    for _ in range(2):
        work(comm, 35)
    files, memory = open_files(), mapped_bytes()
    for _ in range(5 * cases - 3):
        work(comm, 35)
    assert open_files() <= files
    assert mapped_bytes() <= memory + SLACK_BYTES
