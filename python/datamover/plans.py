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
from ._plan import (
    BlockCyclic,
    FloorPlan,
    HaloExchange,
    MotionPlan,
    Redistribution,
    Region,
    SectionCopy,
)
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
    partial: bool = False,
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
    partial: bool = False,
) -> Relabelling: ...
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Region | None = None,
    destination_region: Region | None = None,
    relabel: bool | Sequence[int] = False,
    partial: bool = False,
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
    partial : bool
        Whether elements of the destination that no block of the source holds stay as they are.
        Without it they are an error, Mismatch, that names the index and the process: when the plan
        is bound to arrays, or asked what that process receives. Elements of the source that no
        block of the destination holds are not sent, in either case.

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

    What is there of an old set of boxes goes to a new one:

    >>> old = dm.FloorPlan([dm.Region(0, 4), dm.Region(6, 8)], [0, 1])
    >>> new = dm.FloorPlan([dm.Region(0, 8)], [0], nprocs=2)
    >>> dm.redistribute(old, new, partial=True).incoming(0)
    {0: 4, 1: 2}
    >>> dm.redistribute(old, new).incoming(0)
    Traceback (most recent call last):
    datamover.errors.Mismatch: process 0 needs index (4) of the source for its block 0, and no \
block of the source holds it; a partial redistribution leaves out such elements
    """
    plan = _plan.redistribute(source, destination, axes, source_region, destination_region, partial)
    if relabel is False:
        return plan
    from .relabelling import relabelled

    return relabelled(plan, relabel)


def halo(
    layout: FloorPlan | BlockCyclic,
    width: Width,
    periodic: Region | bool | None = None,
    wraps: Sequence[bool] | None = None,
    corners: bool = True,
) -> MotionPlan:
    """Plan that the ghosts of all blocks are filled from the interiors.

    Parameters
    ----------
    layout : FloorPlan or BlockCyclic
        The interiors. Where they overlap, the block with the lowest number sends. Of a block-cyclic
        layout every process must hold one interval in each dimension (`block` or `*`): between
        separate blocks a local array has no room for ghosts. Tiles that are dealt out cyclically
        are a floor plan, `FloorPlan.tiles(domain, tile, nprocs, "cyclic")`.
    width : int, sequence of int, or sequence of (int, int)
        How deep: everywhere, for each dimension, or below and above for each dimension. May exceed
        the extent of a block.
    periodic : Region or bool, optional
        The domain that wraps around, at least as long as the blocks together in each dimension that
        wraps; True for `layout.domain`.
    wraps : sequence of bool, optional
        The dimensions that wrap around, where not all of a periodic domain do.
    corners : bool
        Whether edges and corners are filled, or only faces.

    Returns
    -------
    MotionPlan
        Of one term, from the layout to itself. Ghosts that no interior and no periodic image holds
        stay as they are. Local; takes no time, whatever the sizes (a block-cyclic layout: time in
        the number of processes).

    Raises
    ------
    InvalidArgument
        When a width is negative, or the periodic domain is shorter than the blocks together.
    Mismatch
        When `width`, `periodic` or `wraps` have other dimensions than the layout.
    Unsupported
        When a process holds several separate blocks of a block-cyclic layout; for index lists.

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
    >>> rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
    >>> dm.halo(rows, (1, 0)).incoming(1)
    {0: 8, 2: 8}
    """
    lower, upper = _sides(width, layout.dims)
    if periodic is True:
        periodic = layout.domain
    elif periodic is None or periodic is False:
        periodic = Region.empty_region(layout.dims)
    return _plan.halo(layout, lower, upper, periodic, wraps, corners)


def _sides(width: Width, dims: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the widths of the lower and of the upper sides, one for each dimension."""
    if isinstance(width, Integral):
        width = (width,) * dims
    if len(width) != dims:
        raise Mismatch(f"width {width!r} has {len(width)} entries, the layout {dims} dimensions")
    pairs = [(w, w) if isinstance(w, Integral) else tuple(w) for w in width]
    if any(len(pair) != 2 for pair in pairs):
        raise Mismatch(f"width {width!r} must hold a number, or (lower, upper), for each dimension")
    return tuple(lower for lower, _ in pairs), tuple(upper for _, upper in pairs)
