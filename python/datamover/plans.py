# SPDX-License-Identifier: BSD-3-Clause
"""Which section of which block goes where: plans, and the functions that make them.

>>> import datamover as dm
>>> rows = dm.BlockCyclic((1000, 600), "(block, *)", nprocs=4)
>>> tiles = dm.BlockCyclic((1000, 600), "(cyclic(64), cyclic(64))", nprocs=4, grid=(2, 2))
>>> plan = dm.redistribute(rows, tiles)
>>> plan.outgoing(0)
{0: 40960, 1: 35840, 2: 39040, 3: 34160}
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Literal, overload

from . import _plan
from ._plan import FloorPlan, HaloExchange, MotionPlan, Redistribution, Region, SectionCopy
from .errors import Mismatch
from .layouts import Layout

if TYPE_CHECKING:
    from .relabelling import Relabelling

__all__ = [
    "HaloExchange",
    "MotionPlan",
    "Redistribution",
    "SectionCopy",
    "halo",
    "redistribute",
]

# Here is where users, their pickles and doctest find the classes.
for _class in (HaloExchange, MotionPlan, Redistribution, SectionCopy):
    _class.__module__ = __name__

#: The width of a halo: one for all sides, one for each dimension, or (lower, upper) for each.
Width = int | Sequence[int] | Sequence[tuple[int, int]]


@overload
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Region | None = None,
    destination_region: Region | None = None,
    relabel: Literal[False] = False,
) -> MotionPlan: ...
@overload
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Region | None = None,
    destination_region: Region | None = None,
    *,
    relabel: Literal[True] | Sequence[int],
) -> Relabelling: ...
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Region | None = None,
    destination_region: Region | None = None,
    relabel: bool | Sequence[int] = False,
) -> MotionPlan | Relabelling:
    """Plan that everything of one layout goes to the same index of another.

    Parameters
    ----------
    source, destination : BlockCyclic, FloorPlan or IndexList
        Layouts for equally many processes.
    axes : sequence of int, optional
        Dimension k of the destination is dimension axes[k] of the source, as in `numpy.transpose`.
    source_region, destination_region : Region, optional
        Sections of the index spaces; all of them without.
    relabel : bool or sequence of int
        Whether to choose anew which rank plays which role of the destination, so that the fewest
        bytes cross between processes: among the ranks that have a role there (True), or among
        those given. The assignment problem is solved by SciPy's `linear_sum_assignment`, in time
        and memory of at least the square of the number of processes.

    Returns
    -------
    MotionPlan or Relabelling
        Of one term. Local; takes no time, whatever the sizes. With `relabel` the plan stands in a
        tuple with the relabelled layout and what crosses with and without it.

    Raises
    ------
    Mismatch
        When the shapes (after `axes`) or the numbers of processes differ.
    InvalidArgument
        When `axes` is no permutation.
    OutOfRange
        When a region is not inside its index space, or `relabel` names a rank that is none.
    Unsupported
        When SciPy is not installed, with `relabel`.

    Examples
    --------
    >>> import datamover as dm
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
    >>> transposed = dm.BlockCyclic((6, 4), "(block, *)", nprocs=2)
    >>> dm.redistribute(rows, transposed, axes=(1, 0)).outgoing(1)
    {0: 6, 1: 6}
    >>> reverse = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2, first_process=(1, 0))
    >>> plan, layout, before, after = dm.redistribute(rows, reverse, relabel=True)
    >>> before, after, layout.ranks.tolist()
    (24, 0, [1, 0])
    """
    plan = _plan.redistribute(source, destination, axes, source_region, destination_region)
    if relabel is False:
        return plan
    from .relabelling import relabelled

    return relabelled(plan, relabel)


def halo(
    floorplan: FloorPlan,
    width: Width,
    periodic: Region | bool | None = None,
    wraps: Sequence[bool] | None = None,
    corners: bool = True,
) -> MotionPlan:
    """Plan that the ghosts of all blocks are filled from the interiors.

    Parameters
    ----------
    floorplan : FloorPlan
        The interiors. Where they overlap, the block with the lowest number sends.
    width : int, sequence of int, or sequence of (int, int)
        How deep: everywhere, for each dimension, or below and above for each dimension. May exceed
        the extent of a block.
    periodic : Region or bool, optional
        The domain that wraps around; True for the floor plan's bounding box.
    wraps : sequence of bool, optional
        The dimensions that wrap around, where not all of a periodic domain do.
    corners : bool
        Whether edges and corners are filled, or only faces.

    Returns
    -------
    MotionPlan
        Of one term, from the floor plan to itself. Local; takes no time, whatever the sizes.

    Raises
    ------
    InvalidArgument
        When a width is negative.
    Mismatch
        When `width`, `periodic` or `wraps` have other dimensions than the floor plan.

    Notes
    -----
    Source: KeLP's halo update from grow and intersect.

    Examples
    --------
    >>> import datamover as dm
    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)
    >>> dm.halo(blocks, 1).incoming(0)
    {1: 4, 2: 4, 3: 1}
    >>> dm.halo(blocks, ((1, 0), (0, 0)), periodic=True).incoming(0)
    {2: 4}
    """
    lower, upper = _sides(width, floorplan.dims)
    if periodic is True:
        periodic = floorplan.domain
    elif periodic is None or periodic is False:
        periodic = Region.empty_region(floorplan.dims)
    return _plan.halo(floorplan, lower, upper, periodic, wraps, corners)


def _sides(width: Width, dims: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the widths of the lower and of the upper sides, one for each dimension."""
    if isinstance(width, Integral):
        width = (width,) * dims
    if len(width) != dims:
        raise Mismatch(
            f"width {width!r} has {len(width)} entries, the floor plan {dims} dimensions"
        )
    pairs = [(w, w) if isinstance(w, Integral) else tuple(w) for w in width]
    if any(len(pair) != 2 for pair in pairs):
        raise Mismatch(f"width {width!r} must hold a number, or (lower, upper), for each dimension")
    return tuple(lower for lower, _ in pairs), tuple(upper for _, upper in pairs)
