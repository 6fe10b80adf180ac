# SPDX-License-Identifier: BSD-3-Clause
"""Relabeling of ranks to minimize the data moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from . import _plan
from ._plan import BlockCyclic, FlatCyclic, FloorPlan, IndexList, MotionPlan
from .arguments import integers
from .errors import InvalidArgument, OutOfRange, Unsupported
from .layouts import Layout, changed


class Relabelling(NamedTuple):
    """A plan to a destination layout with reassigned ranks, and the savings.

    Attributes
    ----------
    plan : MotionPlan
        From the source layout to `destination`.
    destination : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        The destination layout with other ranks; create arrays with this one.
    elems_before, elems_after : int
        Elements that move between processes with the given ranks, and with these.

    Examples
    --------
    >>> import datamover as dm
    >>> there = dm.BlockCyclic(8, "block", nprocs=2)
    >>> swapped = dm.BlockCyclic(8, "block", nprocs=2, ranks=[1, 0])
    >>> found = dm.redistribute(there, swapped, relabel=True)
    >>> found.destination.ranks.tolist(), found.crossing_bytes("f8")
    ([0, 1], (64, 0))
    """

    plan: MotionPlan
    destination: Layout
    elems_before: int
    elems_after: int

    def crossing_bytes(self, dtype: np.typing.DTypeLike) -> tuple[int, int]:
        """Return the bytes that move between processes, before and after, for a dtype. Local."""
        elem_bytes = np.dtype(dtype).itemsize
        return self.elems_before * elem_bytes, self.elems_after * elem_bytes


def relabelled(plan: MotionPlan, among: Sequence[int] | Literal[True]) -> Relabelling:
    """Choose ranks for the roles of the destination of a plan with one redistribution.

    Local; memory and time follow the square of the number of processes, and the assignment its
    cube in the worst case.
    """
    destination = plan.destination
    holders = _holders(destination)
    ranks = holders if among is True else _checked(among, plan.nprocs, len(holders))
    kept = _elems_held(plan)
    chosen = _best(kept[np.ix_(ranks, holders)], ranks)
    # Roles stay if changing them gains nothing.
    if kept[chosen, holders].sum() > kept[holders, holders].sum() or among is not True:
        new_rank = np.arange(plan.nprocs)
        new_rank[holders] = chosen
        destination = _with_ranks(destination, new_rank)
    result = MotionPlan(plan.source, destination)
    for term in range(len(plan)):
        result.add(plan[term])
    return Relabelling(result, destination, _crossing(_elems(plan)), _crossing(_elems(result)))


def _best(kept: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return for each role (column) the rank (of the rows) that plays it, keeping the most."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise Unsupported(
            "relabeling needs SciPy, which is not installed: pip install datamover[relabel]"
        ) from None
    rows, columns = linear_sum_assignment(kept, maximize=True)
    return ranks[rows[np.argsort(columns)]]


def _elems(plan: MotionPlan) -> np.ndarray:
    """Return the elements that each rank (row) sends to each rank (column)."""
    _, elems = _plan.traffic_matrix(plan, plan.nprocs)
    return np.asarray(elems).reshape(plan.nprocs, plan.nprocs)


def _crossing(elems: np.ndarray) -> int:
    """Return how many elements move from one rank to another."""
    return int(elems.sum() - elems.trace())


def _elems_held(plan: MotionPlan) -> np.ndarray:
    """Return the elements that each rank (row) holds of what each rank (column) receives."""
    source = plan.source
    if not isinstance(source, BlockCyclic) or source.replicas == 1:
        return _elems(plan)
    held = np.zeros((plan.nprocs, plan.nprocs), np.int64)
    for ranks in source.ranks.reshape(source.replicas, -1):
        copy = MotionPlan(changed(source, ranks=ranks, replicas=1), plan.destination)
        for term in range(len(plan)):
            copy.add(plan[term])
        held += _elems(copy)
    return held


def _holders(layout: Layout) -> np.ndarray:
    """Return the ranks that hold blocks, ascending."""
    if isinstance(layout, IndexList):
        return np.flatnonzero([len(layout.indices_of(rank)) for rank in range(layout.nprocs)])
    return np.unique(layout.ranks if isinstance(layout, BlockCyclic) else layout.owners)


def _checked(among: Sequence[int], nprocs: int, roles: int) -> np.ndarray:
    """Return the ranks to choose from. Raises if they are empty, unknown, repeated or too few."""
    ranks = np.array(integers(among, "relabel"), np.int64)
    for rank in ranks:
        if not 0 <= rank < nprocs:
            raise OutOfRange(f"rank {rank} to choose from is not in 0..{nprocs - 1}")
    if len(np.unique(ranks)) != len(ranks):
        raise InvalidArgument(f"a rank occurs twice in relabel={ranks.tolist()}")
    if len(ranks) < roles:
        raise InvalidArgument(f"relabel has {len(ranks)} ranks; the destination needs {roles}")
    return np.sort(ranks)


def _with_ranks(layout: Layout, new_rank: np.ndarray) -> Layout:
    """Return the layout with other ranks."""
    if isinstance(layout, BlockCyclic):
        return changed(layout, ranks=new_rank[layout.ranks])
    if isinstance(layout, FloorPlan):
        return FloorPlan(layout.regions, new_rank[layout.owners], layout.nprocs)
    if isinstance(layout, FlatCyclic):
        owners = new_rank[layout.owners]
        return FlatCyclic(layout.shape, layout.block_elems, layout.nprocs, owners)
    lists = [np.empty(0, np.int64)] * layout.nprocs
    for role in _holders(layout):
        lists[new_rank[role]] = layout.indices_of(role)
    return IndexList(layout.shape, lists)
