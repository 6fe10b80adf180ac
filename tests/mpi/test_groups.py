# SPDX-License-Identifier: BSD-3-Clause
"""Groups of processes: moves between different ones, to one, from one, and to several copies."""

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]


@pytest.fixture
def local_rng(comm, rng):
    return np.random.default_rng([int(rng.integers(2**31)), comm.rank])


def on_ranks(shape, words, ranks, nprocs, **options):
    return dm.BlockCyclic(shape, words, nprocs, ranks=ranks, **options)


def groups(size):
    """Pairs of groups of ranks: all and one, halves, overlapping, the same in other order."""
    everyone = list(range(size))
    half, rest = everyone[: (size + 1) // 2], everyone[size // 2 :]
    return {
        "gather": (everyone, [size - 1]),
        "scatter": ([0], everyone),
        "disjoint": (half, rest if size % 2 == 0 else rest[1:] or rest),
        "overlapping": (half, rest),
        "reversed": (everyone, everyone[::-1]),
        "one to one": ([0], [size - 1]),
        "solver on half": (everyone, everyone[::2]),
    }


def move(comm, rng, local_rng, plan, shape, transport):
    library = transport == "shared" or None
    source = drawn.Part(comm, rng, local_rng, plan.source, "f8", library)
    destination = drawn.Part(comm, rng, local_rng, plan.destination, "f8", library)
    whole = drawn.numbered(shape, "f8")
    source.fill(whole)
    mover = dm.Mover(
        plan, source.arrays, destination.arrays, transport=transport, check=True, comm=comm
    )
    mover()
    destination.assert_holds(whole)
    counters = mover.counters()
    mover.close()
    return counters


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", groups(1))
def test_between_groups(comm, rng, local_rng, transport, name):
    source, destination = groups(comm.size)[name]
    shape = (13, 9)
    for words in ("(block, *)", "(cyclic(2), *)", "(*, cyclic(3))"):
        plan = dm.redistribute(
            on_ranks(shape, words, source, comm.size),
            on_ranks(shape, "(*, block)", destination, comm.size),
        )
        if drawn.impossible(plan, transport):
            continue
        counters = move(comm, rng, local_rng, plan, shape, transport)
        sent = sum(n for peer, n in plan.outgoing(comm.rank).items() if peer != comm.rank)
        assert counters["bytes_sent"] == 8 * sent


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_copies_are_sent_by_the_nearest(comm, rng, local_rng, transport):
    shape, size = (11, 10), comm.size
    for replicas in {1, 2, size}:
        if replicas > size:
            continue
        copies = dm.BlockCyclic(shape, "(block, *)", size, replicas=replicas)
        whole = on_ranks(shape, "(*, *)", [size - 1], size)
        node = drawn.NODE_SIZE or size
        nodes = np.arange(size) // node
        for plan in (dm.redistribute(whole, copies), dm.redistribute(copies, whole)):
            if drawn.impossible(plan, transport):
                continue
            move(comm, rng, local_rng, plan, shape, transport)
        holders = copies.ranks.reshape(replicas, -1)
        received = dm.redistribute(copies, whole).incoming(size - 1, nodes)
        for column in holders.T:
            near = [r for r in column if r == size - 1] or [
                r for r in column if nodes[r] == nodes[size - 1]
            ]
            assert min(near or column) in received or copies.local_shape(column[0])[0] == 0
        assert sum(received.values()) == 110


def test_everybody_has_a_copy_already(comm, rng, local_rng):
    shape = (7, 5)
    copies = dm.BlockCyclic(shape, "(*, *)", comm.size, replicas=comm.size)
    rows = dm.BlockCyclic(shape, "(block, *)", comm.size)
    counters = move(comm, rng, local_rng, dm.redistribute(copies, rows), shape, "auto")
    assert counters["messages_sent"] == counters["messages_received"] == 0


def test_relabelled_layouts_hold_the_same_array(comm, rng, local_rng, cases):
    pytest.importorskip("scipy")
    for _ in range(cases * 4):
        shape = drawn.shape(rng, elems=500)
        plan, layout, before, after = dm.redistribute(
            drawn.layout(rng, shape, comm.size), drawn.layout(rng, shape, comm.size), relabel=True
        )
        assert plan.destination == layout
        move(comm, rng, local_rng, plan, shape, "auto")
        crossing = sum(n for p, n in plan.outgoing(comm.rank).items() if p != comm.rank)
        assert comm.allreduce(crossing) == after <= before


def test_groups_that_make_no_sense(comm):
    size = comm.size
    with pytest.raises(dm.errors.InvalidArgument, match="twice"):
        on_ranks((4, 4), "(block, *)", [0, 0], max(size, 2))
    with pytest.raises(dm.errors.OutOfRange, match=f"rank {size}"):
        on_ranks((4, 4), "(block, *)", [size], size)
    with pytest.raises(dm.errors.InvalidArgument, match="positions"):
        on_ranks((4, 4), "(block, *)", [0, 1], 2, grid=(1, 1))
    with pytest.raises(dm.errors.InvalidArgument, match="needs 2 processes"):
        on_ranks((4, 4), "(block, *)", [0], 2, grid=(2, 1))
    with pytest.raises(dm.errors.InvalidArgument, match="replicas"):
        dm.BlockCyclic((4, 4), "(block, *)", size, replicas=size + 1)
    # A plan for more processes than the communicator has: it misses some.
    layout = dm.BlockCyclic((4, 4), "(block, *)", size + 1)
    with pytest.raises(dm.Mismatch, match="processes"):
        dm.Mover(dm.redistribute(layout, layout), None, None, comm=comm)
