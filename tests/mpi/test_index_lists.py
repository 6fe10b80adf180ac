# SPDX-License-Identifier: BSD-3-Clause
"""Partial index lists, known to one process each: move the same elements as complete lists."""

import copy
import pickle

import drawn
import numpy as np
import pytest

import datamover as dm


def drawn_lists(rng, nprocs):
    """A length, who holds what (some is held by none), and what each wants of that, some twice."""
    n = int(rng.integers(1, 200))
    owner = rng.integers(-1 if n % 3 == 0 else 0, nprocs, n)
    held = [rng.permutation(np.flatnonzero(owner == r)) for r in range(nprocs)]
    there = np.concatenate(held)
    wanted = [rng.choice(there, rng.integers(0, len(there) + 1)) for _ in range(nprocs)]
    return n, held, wanted


@pytest.mark.parametrize("transport", ["auto", "p2p"])
def test_what_arrives_is_what_was_asked_for(comm, rng, cases, transport):
    for _ in range(4 * cases):
        n, held, wanted = drawn_lists(rng, comm.size)
        value = rng.random(n)
        mine, wishes = held[comm.rank], wanted[comm.rank]
        owned, ghosted = dm.advanced.index_lists(n, mine, wishes, comm=comm)
        assert owned.nprocs == comm.size and np.array_equal(owned.indices_of(comm.rank), mine)
        lengths = [ghosted.block_extents(r) for r in range(comm.size)]
        assert lengths == [(len(w),) for w in wanted]
        plan = dm.redistribute(owned, ghosted)
        arrived = np.full(len(wishes), -1.0)
        dm.Mover(plan, value[mine], arrived, comm=comm, transport=transport)()
        assert np.array_equal(arrived, value[wishes])
        # The same pairs as of lists that all know.
        known = dm.redistribute(dm.IndexList(n, held), dm.IndexList(n, wanted))
        assert plan.incoming(comm.rank) == known.incoming(comm.rank)
        assert plan.outgoing(comm.rank) == known.outgoing(comm.rank)


def test_sums_of_ghosts_come_home(comm, rng, cases):
    for _ in range(4 * cases):
        n, held, wanted = drawn_lists(rng, comm.size)
        mine, wishes = held[comm.rank], wanted[comm.rank]
        owned, ghosted = dm.advanced.index_lists(n, mine, wishes, comm=comm)
        total = np.ones(len(mine))
        plan = dm.redistribute(owned, ghosted).adjoint()
        dm.Mover(plan, np.full(len(wishes), 2.0), total, op="add", comm=comm)()
        asked = np.bincount(np.concatenate(wanted).astype(int), minlength=n)
        assert np.array_equal(total, 1 + 2.0 * asked[mine])


@pytest.mark.parametrize("kind", drawn.KINDS)
def test_to_and_from_a_partner(comm, rng, cases, kind):
    local_rng = np.random.default_rng([int(rng.integers(2**31)), comm.rank])
    for _ in range(2 * cases):
        shape = drawn.shape(rng, elems=300)
        dealt = drawn.KINDS[kind](rng, shape, comm.size)
        n = int(np.prod(shape))
        held = [rng.permutation(part) for part in np.array_split(rng.permutation(n), comm.size)]
        (lists,) = dm.advanced.index_lists(shape, held[comm.rank], partners=[dealt], comm=comm)
        value = rng.random(n)
        part = drawn.Part(comm, rng, local_rng, dealt, np.dtype("f8"))
        mine, back = value[held[comm.rank]], np.zeros(len(held[comm.rank]))
        dm.Mover(dm.redistribute(lists, dealt), mine, part.arrays, comm=comm)()
        for block, index in drawn.indices_of_blocks(dealt, comm.rank):
            assert np.array_equal(part.blocks[block], value.reshape(shape)[index])
        dm.Mover(dm.redistribute(dealt, lists, partial=True), part.arrays, back, comm=comm)()
        assert np.array_equal(back, mine)


def test_to_and_from_ranges_of_the_flattened_array(comm, rng):
    ranges = dm.FlatCyclic((6, 7), 5, comm.size)
    held = [rng.permutation(part) for part in np.array_split(rng.permutation(48), comm.size)]
    (lists,) = dm.advanced.index_lists((6, 8), held[comm.rank], partners=[ranges], comm=comm)
    value = rng.random((6, 8))
    out = np.zeros(ranges.local_elems(comm.rank))
    section = dm.Region((0, 0), (6, 7))
    sections = {"source_region": section, "destination_region": section}
    plan = dm.redistribute(lists, ranges, **sections)
    dm.Mover(plan, value.ravel()[held[comm.rank]], out, comm=comm)()
    assert np.array_equal(out, value[:, :7].ravel()[ranges.indices_of(comm.rank)])


def test_a_layout_that_was_not_named_is_refused_by_all(comm):
    own = np.array_split(np.arange(24)[::-1], comm.size)
    (lists,) = dm.advanced.index_lists(24, own[comm.rank], comm=comm)
    other = dm.BlockCyclic(24, "(cyclic)", nprocs=comm.size)
    a, b = np.zeros(len(own[comm.rank])), np.ones(other.local_shape(comm.rank))
    if comm.size == 1:
        dm.Mover(dm.redistribute(lists, other), a, b, comm=comm)()
        return
    with pytest.raises(dm.errors.Unsupported, match="does not know who holds index"):
        dm.Mover(dm.redistribute(lists, other), a, b, comm=comm)
    assert (b == 1).all()


def test_what_needs_all_lists_is_refused(comm):
    own = np.array_split(np.arange(20), comm.size)
    owned, other = dm.advanced.index_lists(20, own[comm.rank], own[comm.rank], comm=comm)
    (turned,) = dm.advanced.index_lists(20, own[comm.rank][::-1], comm=comm)
    assert owned == other and owned != turned
    plan = dm.redistribute(owned, other)
    mover = dm.Mover(plan, np.zeros(len(own[comm.rank])), np.zeros(len(own[comm.rank])), comm=comm)
    mover()
    assert "self" in str(mover.explain())
    if comm.size == 1:
        pytest.skip("takes several processes")
    elsewhere = (comm.rank + 1) % comm.size
    with pytest.raises(dm.errors.Unsupported, match="known to that process alone"):
        owned.indices_of(elsewhere)
    with pytest.raises(dm.errors.Unsupported, match="known to that process alone"):
        pickle.dumps(owned)
    with pytest.raises(dm.errors.Unsupported, match="only its own cannot be saved"):
        plan.to_bytes()
    with pytest.raises(dm.errors.Unsupported, match="known to that process alone"):
        dm.explain(plan)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ([10], dm.errors.OutOfRange, "index 10 in the list of rank"),
        ([-1], dm.errors.OutOfRange, "index -1 in the list of rank"),
        (["a"], dm.errors.WrongType, "must be integers"),
        ([1.5], dm.errors.WrongType, "must be integers"),
        (object(), dm.errors.WrongType, "must be integers"),
    ],
)
def test_a_wrong_list_on_one_process_is_told_to_all(comm, wrong, error, words):
    mine = wrong if comm.rank == comm.size - 1 else np.empty(0, int)
    with pytest.raises(error, match=words):
        dm.advanced.index_lists(10, mine, comm=comm)
    assert len(dm.advanced.index_lists(10, [], comm=comm)) == 1


def test_calls_that_differ_are_told_to_all(comm):
    if comm.size == 1:
        pytest.skip("one process cannot differ")
    last = comm.rank == comm.size - 1
    other = f"on process 0, .* on process {comm.size - 1}$"
    with pytest.raises(dm.Mismatch, match=f"different shapes: .*10.* {other}"):
        dm.advanced.index_lists(11 if last else 10, [], comm=comm)
    with pytest.raises(dm.Mismatch, match=f"numbers of lists: 1 {other}"):
        dm.advanced.index_lists(10, *([[], []] if last else [[]]), comm=comm)
    rows = dm.BlockCyclic(10, "(block)", nprocs=comm.size)
    with pytest.raises(dm.Mismatch, match=f"numbers of partners: 0 {other}"):
        dm.advanced.index_lists(10, [], partners=[rows] if last else [], comm=comm)
    with pytest.raises(dm.Mismatch, match="a partner is over"):
        dm.advanced.index_lists(9 if last else 10, [], partners=[rows], comm=comm)


def test_a_partner_that_memory_cannot_hold_is_an_error_at_once(comm):
    """Its elements on the last process are more than a list may ever have."""
    n = 1 << 62
    partner = dm.FloorPlan([dm.Region(0, n)], [comm.size - 1], comm.size)
    with pytest.raises(dm.errors.NoMemory, match=f"process {comm.size - 1} needs more entries"):
        dm.advanced.index_lists(n, [comm.rank], partners=[partner], comm=comm)
    assert len(dm.advanced.index_lists(10, [], comm=comm)) == 1


def test_no_lists_and_empty_arrays(comm):
    assert dm.advanced.index_lists(10, comm=comm) == ()
    (nothing,) = dm.advanced.index_lists((0, 4), [], comm=comm)
    assert nothing.nprocs == comm.size and nothing.shape == (0, 4)
    dm.Mover(dm.redistribute(nothing, nothing), np.zeros(0), np.zeros(0), comm=comm)()
    (far,) = dm.advanced.index_lists(2**62, [2**62 - 1 - comm.rank], comm=comm)
    out = np.zeros(1)
    dm.Mover(dm.redistribute(far, far), np.array([comm.rank + 1.0]), out, comm=comm)()
    assert out[0] == comm.rank + 1


def test_from_a_partner_list_of_another_shape(comm):
    small = dm.IndexList((2, 3), np.array_split(np.arange(6)[::-1], comm.size))
    own = np.array_split(np.arange(20), comm.size)[comm.rank]
    (lists,) = dm.advanced.index_lists((4, 5), own, partners=[small], comm=comm)
    corner = dm.Region((0, 0), (2, 3))
    plan = dm.redistribute(
        small, lists, source_region=corner, destination_region=corner, partial=True
    )
    arrived, whole = np.full(len(own), -1.0), np.full((4, 5), -1.0)
    whole[:2, :3] = np.arange(6).reshape(2, 3)
    dm.Mover(plan, small.indices_of(comm.rank).astype("f8"), arrived, comm=comm)()
    assert np.array_equal(arrived, whole.ravel()[own])


@pytest.mark.parametrize("transport", ["auto", "p2p"])
@pytest.mark.parametrize("op", [None, "add"])
def test_elements_that_are_rows(comm, rng, cases, transport, op):
    """(n, k) arrays, of other number types and directions too, beside arrays of one dimension."""
    for _ in range(2 * cases):
        n, held, wanted = drawn_lists(rng, comm.size)
        k = int(rng.integers(1, 5))
        value = rng.integers(-50, 50, (n, k)).astype("f8")
        mine, wishes = held[comm.rank], wanted[comm.rank]
        owned, ghosted = dm.advanced.index_lists(n, mine, wishes, comm=comm)
        backwards = np.asfortranarray(value[mine])[::-1].copy()[::-1]
        arrived, first = np.full((len(wishes), k), 1, "f4"), np.full(len(wishes), 1.0)
        dm.Mover(
            dm.redistribute(owned, ghosted),
            [backwards, value[mine, 0]], [{comm.rank: arrived}, first],
            comm=comm, transport=transport, op=op,
        )()  # fmt: skip
        assert np.array_equal(arrived, value[wishes] + (op == "add"))
        assert np.array_equal(first, value[wishes, 0] + (op == "add"))


def test_rows_to_ranges_that_few_hold(comm):
    """A process without a range need not say how long rows are."""
    rows = dm.BlockCyclic((5, 4), "(*, *)", nprocs=comm.size)
    held = np.arange(20)[::-1]
    lists = dm.IndexList((5, 4), [held, *[[]] * (comm.size - 1)])
    ranges = dm.FlatCyclic((5, 4), 3, comm.size, owners=[comm.size - 1])
    is_first, is_last = comm.rank == 0, comm.rank == comm.size - 1
    source = np.stack([held, -held], 1) if is_first else np.zeros((0, 2), int)
    out = np.zeros((20, 2), int) if is_last else None
    dm.Mover(dm.redistribute(lists, ranges), source, out, comm=comm)()
    if is_last:
        assert np.array_equal(out, np.stack([np.arange(20), -np.arange(20)], 1))
    with pytest.raises(dm.Mismatch, match="rows of 2, those of the destination of 1"):
        whole = np.zeros((5, 4), int) if is_first else None
        dm.Mover(dm.redistribute(lists, rows), source, whole, comm=comm)
    with pytest.raises(dm.Mismatch, match="rows of 2, those of the destination of 3"):
        dm.Mover(dm.redistribute(lists, lists), source, np.zeros((len(source), 3), int), comm=comm)


def test_an_array_of_another_shape_is_no_rows(comm):
    """The error reports the required shape, as for arrays of one dimension."""
    rows = dm.BlockCyclic((4, 6), "(*, *)", nprocs=comm.size)
    ranges = dm.FlatCyclic((4, 6), 24, comm.size, owners=[0])
    whole = np.zeros((4, 6)) if comm.rank == 0 else None
    with pytest.raises(dm.Mismatch, match=r"has shape \(4, 6\), its layout requires \(24\)"):
        dm.Mover(dm.redistribute(rows, ranges), whole, whole, comm=comm)


def test_a_plan_between_lists_that_only_their_process_knows_is_copied(comm):
    own = np.arange(2 * comm.rank, 2 * comm.rank + 2)
    near = (own + 1) % (2 * comm.size)
    owned, other = dm.advanced.index_lists(2 * comm.size, own, near, comm=comm)
    plan = dm.redistribute(owned, other)
    for copied in (copy.copy(plan), copy.deepcopy(plan)):
        seen = np.zeros(2)
        dm.Mover(copied, own * 10.0, seen, comm=comm)()
        assert (seen == near * 10.0).all()
