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

from collections.abc import Callable, Sequence
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
from .arguments import flag, integer, integers, is_several
from .errors import InvalidArgument, Mismatch, WrongType
from .layouts import Layout, checked

if TYPE_CHECKING:
    from .relabelling import Relabelling

__all__ = [
    "HaloExchange",
    "MotionPlan",
    "Redistribution",
    "SectionCopy",
    "axis_halo",
    "halo",
    "panel_broadcast",
    "prolongation",
    "redistribute",
    "restriction",
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
    """Plan that each index that both layouts hold goes from one to the other.

    An index of the source goes to the same index of the destination, wherever the domains of the
    layouts begin and end.

    Parameters
    ----------
    source, destination : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        Layouts for equally many processes. The domain of a floor plan is the box around its
        regions, which may begin anywhere; those of the others begin at 0.
    axes : sequence of int, optional
        Dimension k of the destination is dimension axes[k] of the source, as in `numpy.transpose`.
    source_region, destination_region : Region, optional
        Sections of the index spaces, of the same shape (after `axes`). The first element of one
        goes to the first element of the other, whatever their indices. If only one is given, the
        other is the domain of its layout.
    relabel : bool or sequence of int
        Whether to choose anew which rank plays which role of the destination, so that the fewest
        bytes cross between processes: among the ranks that have a role there (True), or among
        those given. The assignment problem is solved by SciPy's `linear_sum_assignment`, in time
        and memory of at least the square of the number of processes.
    partial : bool
        Whether elements of the destination that no block of the source holds are left unchanged.
        By default they are an error, Mismatch, that names such an index: raised here if the index
        is outside the domain of the source, else when the plan is bound to arrays or asked for what
        a process receives. Elements of the source that no block of the destination holds are not
        sent, in either case.

    Returns
    -------
    MotionPlan or Relabelling
        Of one term. Local; takes no time, whatever the sizes. With `relabel` the plan stands in a
        tuple with the relabelled layout and what crosses with and without it.

    Raises
    ------
    Mismatch
        When the destination needs an index outside the domain of the source, without `partial`; the
        shapes of given regions (after `axes`), the numbers of dimensions or the numbers of
        processes differ.
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

    A window that moves keeps the part that both its old and its new place have:

    >>> before = dm.FloorPlan([dm.Region((0, 0), (8, 8))], [0])
    >>> after = dm.FloorPlan([dm.Region((4, 4), (12, 12))], [0])
    >>> dm.redistribute(before, after, partial=True).incoming(0)
    {0: 16}
    >>> dm.redistribute(before, after)
    Traceback (most recent call last):
    datamover.errors.Mismatch: the destination needs index (8, 4) of the source, whose blocks lie \
within [0:8, 0:8); pass partial=True to redistribute to leave such elements unchanged

    What is there of an old set of boxes goes to a new one:

    >>> old = dm.FloorPlan([dm.Region(0, 4), dm.Region(6, 8)], [0, 1])
    >>> new = dm.FloorPlan([dm.Region(0, 8)], [0], nprocs=2)
    >>> dm.redistribute(old, new, partial=True).incoming(0)
    {0: 4, 1: 2}
    >>> dm.redistribute(old, new).incoming(0)
    Traceback (most recent call last):
    datamover.errors.Mismatch: process 0 needs index (4) of the source for its block 0, and no \
block of the source holds it; pass partial=True to redistribute to leave such elements unchanged
    """
    plan = _plan.redistribute(
        checked(source),
        checked(destination),
        None if axes is None else integers(axes, "axes"),
        None if source_region is None else _region(source_region, "source_region"),
        None if destination_region is None else _region(destination_region, "destination_region"),
        flag(partial, "partial"),
    )
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
    colours: int = 1,
    colour: int = 0,
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
        The dimensions that wrap around, where not all of a periodic domain do:
        ``periodic=True, wraps=(True, False)`` the first of two.
    corners : bool
        Whether edges and corners are filled, or only faces.
    colours, colour : int
        With several colours (at most 64) only the ghosts of one are filled: of points whose
        indices, summed where an interior holds them, leave `colour` when divided by `colours`. 2
        for the red (0) or the black (1) points of a checkerboard.

    Returns
    -------
    MotionPlan
        Of one term, from the layout to itself. Ghosts that no interior and no periodic image holds
        stay as they are. Local; takes no time, whatever the sizes (a block-cyclic layout: time in
        the number of processes).

    Raises
    ------
    InvalidArgument
        When a width is negative, the periodic domain is shorter than the blocks together, a
        dimension wraps without one, or the colour is none.
    WrongType
        When `periodic` is neither a bool nor a Region, or `wraps` no bools.
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
    >>> dm.halo(rows, (1, 0), colours=2, colour=1).incoming(1)
    {0: 4, 2: 4}
    """
    lower, upper = _sides(width, layout)
    domain = _wrapping_domain(periodic, wraps, layout)
    counts = integer(colours, "colours"), integer(colour, "colour")
    return _plan.halo(layout, lower, upper, domain, wraps, flag(corners, "corners"), *counts)


def axis_halo(
    layout: FloorPlan | BlockCyclic,
    width: Width,
    axis: int,
    periodic: Region | bool | None = None,
    wraps: Sequence[bool] | None = None,
) -> MotionPlan:
    """Plan that the ghosts beside all blocks along one axis are filled, corners included.

    With the ghosts beside a block go those at its corners that earlier axes brought to the sender.
    One after the other (`Phases`) the plans of axes 0, 1, … fill all that `halo` fills, with
    messages to the neighbours along the axes only. Corners come along where blocks touch by faces,
    as those of a grid do; at corners beyond the domain, what the sender has there.

    Parameters
    ----------
    layout, width, periodic, wraps
        As for `halo`; the same for all axes.
    axis : int
        The dimension.

    Returns
    -------
    MotionPlan
        Of section copies, from the layout to itself. Local; takes time in the number of blocks.

    Raises
    ------
    OutOfRange
        When there is no such axis.
    Error
        As `halo`.

    Examples
    --------
    >>> import datamover as dm
    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)
    >>> dm.axis_halo(blocks, 1, 0).incoming(0), dm.axis_halo(blocks, 1, 1).incoming(0)
    ({2: 4}, {1: 6})
    """
    lower, upper = _sides(width, layout)
    domain = _wrapping_domain(periodic, wraps, layout)
    return _plan.axis_halo(layout, lower, upper, integer(axis, "axis"), domain, wraps)


def panel_broadcast(layout: BlockCyclic, region: Region, along: int) -> MotionPlan:
    """Plan that a panel goes to all processes of its row or column of the process grid.

    What the processes that differ only in grid coordinate `along` hold of a region together, all of
    them get: what each step of SUMMA, LU or Cholesky asks for.

    Parameters
    ----------
    layout : BlockCyclic
        The array that the panel is a part of.
    region : Region
        The panel, in indices of the array.
    along : int
        The dimension along which the panel is handed on: 1 sends a panel of columns to all
        processes of each row of a two-dimensional grid, 0 a panel of rows to all of each column.

    Returns
    -------
    MotionPlan
        Of one term. Its destination layout, ``plan.destination``, is as long as the region along
        dimension `along`, which counts from 0 and is not dealt out; in every other dimension it is
        as long as the array and dealt out alike, so that an index has the local index that it has
        in the array. It has a replica for each process along `along`. All regions that are as long
        along `along` have the same one, so that one array takes panel after panel; what of it lies
        outside the region stays as it is. Local; takes time in the number of processes.

    Raises
    ------
    Unsupported
        When the layout is not block-cyclic.
    OutOfRange
        When the region is not inside the array, or there is no dimension `along`.
    Mismatch
        When the region has other dimensions than the layout.
    InvalidArgument
        When the region is empty.

    Examples
    --------
    The first panel of eight columns goes along the rows of a grid of two by two processes:

    >>> import datamover as dm
    >>> tiles = dm.BlockCyclic((24, 32), "(cyclic(4), cyclic(8))", nprocs=4, grid=(2, 2))
    >>> plan = dm.panel_broadcast(tiles, dm.Region((0, 0), (24, 8)), along=1)
    >>> plan.destination.shape, plan.destination.local_shape(3), tiles.local_shape(3)
    ((24, 8), (12, 8), (12, 16))
    >>> plan.outgoing(0), plan.outgoing(1), plan.outgoing(2)
    ({0: 96, 1: 96}, {}, {2: 96, 3: 96})
    """
    return _plan.panel_broadcast(
        checked(layout), _region(region, "region"), integer(along, "along")
    )


def prolongation(
    coarse: FloorPlan | BlockCyclic,
    fine: FloorPlan | BlockCyclic,
    factor: int | Sequence[int],
    width: Width = 0,
    periodic: Region | bool | None = None,
    wraps: Sequence[bool] | None = None,
    partial: bool = False,
) -> MotionPlan:
    """Plan that every block of a fine level gets the coarse points beneath it.

    Coarse point c lies beneath the fine points ``c * factor`` to ``(c + 1) * factor - 1``. The
    arithmetic of the interpolation is the caller's.

    Parameters
    ----------
    coarse, fine : FloorPlan or BlockCyclic
        The two levels, for equally many processes; some may have no blocks. Blocks need not be
        aligned. Of a block-cyclic `fine` every process must hold one interval in each dimension.
    factor : int or sequence of int
        How much finer `fine` is, for all dimensions or for each; at least 1, and somewhere above.
    width : int, sequence of int, or sequence of (int, int)
        How many coarse points beyond those beneath a block are wanted: everywhere, for each
        dimension, or below and above for each dimension. Linear interpolation between cell centres
        wants 1; between vertices, of which every `factor`-th is coarse, (0, 1) in each dimension.
    periodic : Region or bool, optional
        The domain of the coarse level that wraps around; True for ``coarse.domain``.
    wraps : sequence of bool, optional
        The dimensions that wrap around, where not all of a periodic domain do.
    partial : bool
        Whether coarse points beneath a fine block that no coarse block holds stay as they are. Else
        those within the bounding box of the coarse level are an error; beyond it, and in the width,
        is the caller's boundary.

    Returns
    -------
    MotionPlan
        Its destination layout, ``plan.destination``, is a floor plan with the numbers and owners of
        the fine blocks: the boxes of coarse points, width included. Without a width,
        ``plan.reversed()`` brings coarse values that were worked out beneath the fine blocks to
        their owners (one of them where several blocks have the point), and ``plan.adjoint()``, with
        ``op="add"``, the sums of what each block has. Local; takes time in the number of blocks.

    Raises
    ------
    Mismatch
        When dimensions or numbers of processes differ, or coarse points are missing.
    InvalidArgument
        When a factor is below 1 or none is above it, a width is negative, or the periodic domain is
        shorter than the blocks together.
    Unsupported
        For index lists, and where the blocks of `fine` are no boxes.
    OutOfRange
        When coordinates do not fit 64 bits.

    Examples
    --------
    Three processes have the fine level, one of them the coarse one:

    >>> import datamover as dm
    >>> fine = dm.FloorPlan.uniform(dm.Region(0, 16), 3, nprocs=3)
    >>> coarse = dm.FloorPlan([dm.Region(0, 8)], owners=[0], nprocs=3)
    >>> plan = dm.prolongation(coarse, fine, 2, width=1)
    >>> [plan.destination.region(i) for i in range(3)]
    [Region((-1,), (4,)), Region((2,), (7,)), Region((4,), (9,))]
    >>> plan.outgoing(0)
    {0: 4, 1: 5, 2: 4}
    """
    return _between_levels(
        _plan.prolongation, coarse, fine, factor, width, periodic, wraps, partial
    )


def restriction(
    fine: FloorPlan | BlockCyclic,
    coarse: FloorPlan | BlockCyclic,
    factor: int | Sequence[int],
    width: Width = 0,
    periodic: Region | bool | None = None,
    wraps: Sequence[bool] | None = None,
    partial: bool = False,
) -> MotionPlan:
    """Plan that every block of a coarse level gets the fine points above it.

    The arithmetic is the caller's, done by the owners of the coarse blocks. Where it can be done by
    those of the fine blocks instead, fewer elements move by the way back of a `prolongation`.

    Parameters
    ----------
    fine, coarse : FloorPlan or BlockCyclic
        The two levels, as for `prolongation`; here the blocks of `coarse` must be boxes.
    factor : int or sequence of int
        As for `prolongation`.
    width : int, sequence of int, or sequence of (int, int)
        How many fine points beyond those above a block are wanted, as for `prolongation`. Full
        weighting of vertices with factor 2 wants (1, 0) in each dimension.
    periodic : Region or bool, optional
        The domain of the fine level that wraps around; True for ``fine.domain``.
    wraps, partial
        As for `prolongation`, of fine points.

    Returns
    -------
    MotionPlan
        Its destination layout, ``plan.destination``, is a floor plan with the numbers and owners of
        the coarse blocks: the boxes of fine points, width included. Local; takes time in the number
        of blocks.

    Raises
    ------
    Error
        As `prolongation`.

    Examples
    --------
    >>> import datamover as dm
    >>> fine = dm.FloorPlan.uniform(dm.Region((0, 0), (6, 6)), (2, 1), nprocs=2)
    >>> coarse = dm.FloorPlan([dm.Region((0, 0), (2, 2))], owners=[1], nprocs=2)
    >>> plan = dm.restriction(fine, coarse, 3)
    >>> plan.destination.region(0), plan.incoming(1)
    (Region((0, 0), (6, 6)), {0: 18, 1: 18})
    """
    return _between_levels(_plan.restriction, fine, coarse, factor, width, periodic, wraps, partial)


def _between_levels(
    make: Callable[..., MotionPlan],
    read: Layout,
    filled: Layout,
    factor: int | Sequence[int],
    width: Width,
    periodic: Region | bool | None,
    wraps: Sequence[bool] | None,
    partial: bool,
) -> MotionPlan:
    lower, upper = _sides(width, filled)
    domain = _wrapping_domain(periodic, wraps, read)
    factors = integers(factor, "factor")
    return make(
        checked(read), filled, factors, lower, upper, domain, wraps, flag(partial, "partial")
    )


def _region(region: Region, name: str) -> Region:
    if not isinstance(region, Region):
        raise WrongType(f"{name} is {region!r}, it must be a Region")
    return region


def _wrapping_domain(
    periodic: Region | bool | None, wraps: Sequence[bool] | None, layout: Layout
) -> Region:
    """Return the domain that wraps around, of no dimensions for none; refuse what says neither."""
    if not isinstance(periodic, (bool, Region, type(None))):
        raise WrongType(
            f"periodic is {periodic!r}, it must be True, False or the Region that wraps around; "
            "wraps=(True, False, ...) says which of its dimensions do"
        )
    if wraps is not None and not (is_several(wraps) and all(isinstance(w, bool) for w in wraps)):
        raise WrongType(f"wraps is {wraps!r}, it must be a bool for each dimension")
    if periodic is True:
        return checked(layout).domain
    if periodic is None or periodic is False:
        if wraps is not None and any(wraps):
            raise InvalidArgument(
                "wraps says which dimensions of a periodic domain wrap around, and none is "
                "periodic: give periodic=True, or its Region, too"
            )
        return Region.empty_region(0)
    return periodic


def _sides(width: Width, layout: Layout) -> tuple[Sequence[int], Sequence[int]]:
    """Return the widths of the lower and of the upper sides, one for each dimension."""
    dims = checked(layout).dims
    entries = list(width) if is_several(width) else [width] * dims
    if len(entries) != dims:
        raise Mismatch(f"width {width!r} has {len(entries)} entries, the layout {dims} dimensions")
    pairs = [integers(entry, "an entry of width") for entry in entries]
    if any(len(pair) not in (1, 2) for pair in pairs):
        raise Mismatch(f"width {width!r} must hold a number, or (lower, upper), for each dimension")
    return tuple(pair[0] for pair in pairs), tuple(pair[-1] for pair in pairs)
