# SPDX-License-Identifier: BSD-3-Clause
"""Relabeling: finds the ranks for which the fewest elements are sent, and moves the same array."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plans import layouts

import datamover as dm


def elements_of(layout, rank):
    """The flat indices that a rank holds."""
    whole = np.arange(np.prod(layout.domain.hi)).reshape(layout.domain.hi)
    held = set()
    for block in layout.blocks_of(rank):
        if isinstance(layout, dm.IndexList | dm.FlatCyclic):
            held.update(layout.indices_of(rank).tolist())
        elif isinstance(layout, dm.FloorPlan):
            held.update(whole[layout.region(block).slices()].ravel().tolist())
        else:
            held.update(whole[np.ix_(*layout.global_indices(rank))].ravel().tolist())
    return frozenset(held)


def fewest_crossing(source, destination, axes, roles, among):
    """The least that crosses over all ways to give the roles to ranks, by trying them."""
    shape = source.domain.hi
    moved = np.arange(np.prod(shape)).reshape(shape).transpose(axes).ravel()
    wanted = [frozenset(moved[sorted(elements_of(destination, role))].tolist()) for role in roles]
    held = {rank: elements_of(source, rank) for rank in among}
    total = sum(len(w) for w in wanted)
    return min(
        total - sum(len(w & held[rank]) for w, rank in zip(wanted, ranks, strict=True))
        for ranks in itertools.permutations(among, len(roles))
    )


def crossing(plan):
    return sum(n for r in range(plan.nprocs) for p, n in plan.outgoing(r).items() if p != r)


def roles_of(layout):
    return [rank for rank in range(layout.nprocs) if elements_of(layout, rank)]


@st.composite
def pairs(draw):
    nprocs = draw(st.integers(1, 5))
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=2))
    axes = draw(st.permutations(range(len(shape))))
    source = draw(layouts(shape, nprocs))
    return source, draw(layouts([shape[a] for a in axes], nprocs)), axes


@given(pairs())
def test_best_of_all_permutations(drawn):
    source, destination, axes = drawn
    found = dm.redistribute(source, destination, axes=axes, relabel=True)
    roles = roles_of(destination)
    assert found.elems_before == crossing(dm.redistribute(source, destination, axes=axes))
    assert found.elems_after == crossing(found.plan) <= found.elems_before
    assert found.plan.destination == found.destination
    blocks = [
        Counter(elements_of(layout, rank) for rank in range(layout.nprocs))
        for layout in (destination, found.destination)
    ]
    assert blocks[0] == blocks[1]
    if not isinstance(destination, dm.BlockCyclic | dm.FlatCyclic):
        assert roles == roles_of(found.destination)
    assert found.elems_after == fewest_crossing(
        source, destination, axes, roles, _candidates(destination, roles)
    )


def _candidates(destination, roles):
    """The ranks with a role; blocks of a grid that hold nothing are roles too."""
    if isinstance(destination, dm.BlockCyclic):
        return destination.ranks.tolist()
    if isinstance(destination, dm.FlatCyclic):
        return destination.owners.tolist()
    return roles


@given(pairs(), st.randoms(use_true_random=False))
def test_best_among_given_ranks(drawn, random):
    source, destination, axes = drawn
    roles = roles_of(destination)
    least = len(_candidates(destination, roles))
    among = random.sample(range(source.nprocs), random.randint(least, source.nprocs))
    found = dm.redistribute(source, destination, axes=axes, relabel=among)
    assert set(roles_of(found.destination)) <= set(among)
    assert found.elems_after == crossing(found.plan)
    assert found.elems_after == fewest_crossing(source, destination, axes, roles, among)


def test_nothing_changes_where_nothing_is_saved():
    rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
    columns = dm.BlockCyclic((8, 8), "(*, block)", nprocs=4)
    found = dm.redistribute(rows, columns, relabel=True)
    assert found.destination == columns
    assert found.crossing_bytes("c16") == (48 * 16, 48 * 16)


def test_wrong_ranks_to_choose_from():
    rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
    half = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4, grid=(2, 1))
    with pytest.raises(dm.errors.OutOfRange, match="4"):
        dm.redistribute(rows, half, relabel=[3, 4])
    with pytest.raises(dm.errors.InvalidArgument, match="twice"):
        dm.redistribute(rows, half, relabel=[3, 3])
    with pytest.raises(dm.errors.InvalidArgument, match="has 1 ranks; the destination needs 2"):
        dm.redistribute(rows, half, relabel=[3])
