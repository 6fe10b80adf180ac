# SPDX-License-Identifier: BSD-3-Clause
"""Plans: which section of which block moves where, and functions that create them.

>>> import datamover as dm
>>> rows = dm.BlockCyclic((1000, 600), "(block, *)", nprocs=4)
>>> tiles = dm.BlockCyclic((1000, 600), "(cyclic(64), cyclic(64))", nprocs=4, grid=(2, 2))
>>> plan = dm.redistribute(rows, tiles)
>>> plan.outgoing(0)
{0: 40960, 1: 35840, 2: 39040, 3: 34160}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

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
from .collective_calls import agreeing, refused_by
from .deprecated import colour, colours, halo_arguments
from .deprecated import copy as deprecated_copy
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

# Users, their pickles and doctest find the classes here.
for _class in (HaloExchange, MotionPlan, Redistribution, SectionCopy):
    _class.__module__ = __name__


def add_section(
    self: MotionPlan,
    source_block: int,
    source_region: Section,
    destination_block: int,
    destination_region: Section,
    axes: Sequence[int] | None = None,
    source_step: int | Sequence[int] | None = None,
    destination_step: int | Sequence[int] | None = None,
    flip: Sequence[bool] | None = None,
) -> None:
    """Add the copy of a section of one block to a section of another.

    Parameters
    ----------
    source_block, destination_block : int
        Numbers of blocks in the two layouts.
    source_region, destination_region : Region or tuple of slices
        In global indices; they may reach into ghosts, which is checked when arrays are bound.
    axes : sequence of int, optional
        Dimension k of the destination region is dimension axes[k] of the source region.
    source_step, destination_step : int or sequence of int, optional
        Only every step-th index of a region takes part, from its lower corner on: in each dimension
        ``range(lo, hi, step)``. Both regions must then hold as many in each dimension.
    flip : sequence of bool, optional
        The dimensions of the destination region that get the source's indices in descending order,
        as in `numpy.flip`.

    Raises
    ------
    OutOfRange
        If a layout has no such block.
    Mismatch
        If the regions hold different numbers of points, or their shapes differ after `axes`; if
        `flip` has other dimensions.
    InvalidArgument
        If `axes` is not a permutation, or a step is below 1.
    Unsupported
        If a layout is an `IndexList`.

    Examples
    --------
    Every second point of a line, packed:

    >>> import datamover as dm
    >>> line, packed = dm.FloorPlan([dm.Region(0, 9)], [0]), dm.FloorPlan([dm.Region(0, 5)], [0])
    >>> plan = dm.MotionPlan(line, packed)
    >>> plan.add_section(0, slice(0, 9), 0, slice(0, 5), source_step=2)
    >>> plan.outgoing(0)
    {0: 5}
    """
    term = SectionCopy(
        source_block,
        _required(source_region, "source_region"),
        destination_block,
        _required(destination_region, "destination_region"),
        axes,
        source_step,
        destination_step,
        flip,
    )
    self.add(term)


@refused_by(agreeing)
def execute(self: MotionPlan, source: Any, out: Any = None, **options: Any) -> Any:
    """Execute the plan once, from an array to a new one, or to `out`. Collective.

    A plan of `halo` fills the ghosts of `source` itself; for others, such as those of `axis_halo`,
    pass ``out=source``. To execute a plan repeatedly, keep a `Mover`, because planning takes most
    of the time of the first move.

    Parameters
    ----------
    source : Array, ndarray or mapping
        As for `Mover`.
    out : Array, ndarray or mapping, optional
        The destination, as for `Mover`. By default, a new `Array` of the destination layout, with
        the dtype of the source, and zeros in elements that the plan does not write; for a halo
        plan, `source`.
    **options
        Those of `Mover`: `comm`, which is required if no array is an `Array`, `op`, and so on.

    Returns
    -------
    Array, or `out`
        The destination.

    Raises
    ------
    Error
        As `Mover`, on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> comm = MPI.COMM_SELF
    >>> rows = dm.BlockCyclic((2, 3), "(block, *)", nprocs=1)
    >>> columns = dm.BlockCyclic((3, 2), "(block, *)", nprocs=1)
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> b = dm.redistribute(rows, columns, axes=(1, 0))(a, comm=comm)
    >>> b.local
    array([[0., 3.],
           [1., 4.],
           [2., 5.]])
    >>> halves = dm.FloorPlan.uniform((4,), 2, nprocs=1)
    >>> u = dm.Array(halves, "f8", ghost=1, comm=comm)
    >>> for block in u.blocks:
    ...     u[block][...] = block
    >>> dm.halo(halves, 1)(u) is u, u[0].tolist()
    (True, [0.0, 0.0, 0.0, 1.0])
    """
    from .movers import execute_once

    return execute_once(self, source, out, **options)


for _name, _method in (
    ("add_section", add_section),
    ("copy", deprecated_copy),
    ("__call__", execute),
):
    setattr(MotionPlan, _name, _method)
for _old in (colours, colour):
    setattr(HaloExchange, _old.__name__, property(_old))

#: A box of indices: a region, or a slice for each dimension.
Section = Region | slice | tuple[slice, ...]

#: Which dimensions are periodic: none, all, or those that are True; or the periodic domain.
Periodic = bool | Sequence[bool] | Region | None

#: The width of a halo: one for all sides, one for each dimension, or (lower, upper) for each.
Width = int | Sequence[int] | Sequence[tuple[int, int]]


@overload
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Section | None = None,
    destination_region: Section | None = None,
    relabel: Literal[False] = False,
    partial: bool = False,
    flip: Sequence[bool] | None = None,
) -> MotionPlan: ...
@overload
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Section | None = None,
    destination_region: Section | None = None,
    *,
    relabel: Literal[True] | Sequence[int],
    partial: bool = False,
    flip: Sequence[bool] | None = None,
) -> Relabelling: ...
def redistribute(
    source: Layout,
    destination: Layout,
    axes: Sequence[int] | None = None,
    source_region: Section | None = None,
    destination_region: Section | None = None,
    relabel: bool | Sequence[int] = False,
    partial: bool = False,
    flip: Sequence[bool] | None = None,
) -> MotionPlan | Relabelling:
    """Plan to move each index that both layouts hold from one to the other.

    An index of the source moves to the same index of the destination, wherever the domains of the
    layouts begin and end. Local, needs no MPI; takes no time, whatever the sizes.

    Parameters
    ----------
    source, destination : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        Layouts for the same number of processes. The domain of a floor plan is the box around its
        regions, which may begin anywhere; those of the others begin at 0.
    axes : sequence of int, optional
        Dimension k of the destination is dimension axes[k] of the source, as in `numpy.transpose`.
    source_region, destination_region : Region or tuple of slices, optional
        Sections of the index spaces, of the same shape (after `axes`). The first element of one
        moves to the first element of the other, whatever their indices. If only one is given, the
        other is the domain of its layout.
    relabel : bool or sequence of int
        Whether to reassign the ranks of the destination so that the fewest bytes move between
        processes. True reassigns the ranks that the destination has; a sequence lists the ranks to
        choose from. SciPy's `linear_sum_assignment` solves the assignment problem, in time and
        memory of at least the square of the number of processes.
    partial : bool
        Whether elements of the destination that no block of the source holds are left unchanged.
        By default they raise Mismatch, which names such an index: here if the index is outside the
        domain of the source, otherwise when the plan is bound to arrays or `incoming` is called.
        Elements of the source that no block of the destination holds are never sent.
    flip : sequence of bool, optional
        The dimensions of the destination that get the source's indices in descending order, as in
        `numpy.flip` after `numpy.transpose`. Then also without regions, the whole domains are
        moved as sections. Index lists, and with `flip` also flattened ranges, are planned element
        by element.

    Returns
    -------
    MotionPlan or Relabelling
        A plan of one term. With `relabel`, a named tuple of the plan, the relabeled layout, and
        the elements that move between processes before and after relabeling.

    Raises
    ------
    Mismatch
        If the destination needs an index outside the domain of the source, without `partial`; or if
        the shapes of the regions (after `axes`), the numbers of dimensions, also of `flip`, or the
        numbers of processes differ.
    InvalidArgument
        If `axes` is not a permutation.
    OutOfRange
        If a region is not inside its index space, or `relabel` contains an invalid rank.
    Unsupported
        With `relabel`, if SciPy is not installed.

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

    A window that moves keeps the part that its old and its new place have in common:

    >>> before = dm.FloorPlan([dm.Region((0, 0), (8, 8))], [0])
    >>> after = dm.FloorPlan([dm.Region((4, 4), (12, 12))], [0])
    >>> dm.redistribute(before, after, partial=True).incoming(0)
    {0: 16}
    >>> dm.redistribute(before, after)
    Traceback (most recent call last):
    datamover.errors.Mismatch: the destination needs index (8, 4) of the source, whose blocks are \
within [0:8, 0:8); for a transpose, pass axes=; pass partial=True to redistribute to leave such \
elements unchanged

    Elements that an old set of boxes holds move to a new one:

    >>> old = dm.FloorPlan([dm.Region(0, 4), dm.Region(6, 8)], [0, 1])
    >>> new = dm.FloorPlan([dm.Region(0, 8)], [0], nprocs=2)
    >>> dm.redistribute(old, new, partial=True).incoming(0)
    {0: 4, 1: 2}
    >>> dm.redistribute(old, new).incoming(0)
    Traceback (most recent call last):
    datamover.errors.Mismatch: process 0 needs index (4) of the source for its block 0, and no \
block of the source holds it; pass partial=True to redistribute to leave such elements unchanged
    """
    if flip is not None and (isinstance(flip, str) or not is_several(flip)):
        raise WrongType(
            f"flip is {flip!r}; it must be a sequence of True or False, one for each dimension"
        )
    plan = _plan.redistribute(
        checked(source),
        checked(destination),
        None if axes is None else integers(axes, "axes"),
        _section(source_region, "source_region", source),
        _section(destination_region, "destination_region", destination),
        flag(partial, "partial"),
        None if flip is None else [flag(f, "flip") for f in flip],
    )
    if relabel is False:
        return plan
    from .relabelling import relabelled

    return relabelled(plan, relabel)


@halo_arguments("layout", "width", "periodic", "wraps", "corners", "colours", "colour")
def halo(
    layout: FloorPlan | BlockCyclic,
    width: Width,
    periodic: Periodic = False,
    *,
    corners: bool = True,
    colors: int = 1,
    color: int = 0,
) -> MotionPlan:
    """Plan to fill the ghosts of all blocks from the interiors.

    Local, needs no MPI; takes no time, whatever the sizes (for a block-cyclic layout, time in the
    number of processes).

    Parameters
    ----------
    layout : FloorPlan or BlockCyclic
        The interiors. If they overlap, the block with the lowest number sends. Every process must
        hold one interval in each dimension of a block-cyclic layout (`block` or `*`), because a
        local array has no room for ghosts between separate blocks. For tiles that are distributed
        cyclically, use a floor plan: `FloorPlan.tiles(domain, tile, nprocs, "cyclic")`.
    width : int, sequence of int, or sequence of (int, int)
        Depth of the ghosts: everywhere, for each dimension, or below and above for each dimension.
        May exceed the extent of a block.
    periodic : bool, sequence of bool, or Region
        Whether ``layout.domain`` is periodic, in all dimensions or in each: for example, ``(True,
        False)`` selects the first of two. A `Region` is a periodic domain that differs from
        ``layout.domain``, at least as long as the blocks together. By default, it is not periodic.
    corners : bool
        Whether to fill edges and corners too, or only faces.
    colors, color : int
        With several colors (at most 64), only the ghosts of one are filled: those of points whose
        indices sum to `color` modulo `colors`. For example, with 2 colors, 0 selects the red
        points of a checkerboard and 1 the black ones.

    Returns
    -------
    MotionPlan
        A plan of one term, from the layout to itself. Ghosts that no interior and no periodic image
        holds are left unchanged.

    Raises
    ------
    InvalidArgument
        If a width is negative, the periodic domain is shorter than the blocks together, or `color`
        is not below `colors`.
    WrongType
        If `periodic` is neither a bool, nor a bool for each dimension, nor a Region.
    Mismatch
        If `width` or `periodic` have other dimensions than the layout.
    Unsupported
        If a process holds several separate blocks of a block-cyclic layout; for index lists.

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
    >>> dm.halo(rows, (1, 0), colors=2, color=1).incoming(1)
    {0: 4, 2: 4}
    """
    sides, domain = _sides(width, layout), _periodic_domain(periodic, layout)
    counts = integer(colors, "colors"), integer(color, "color")
    return _plan.halo(layout, *sides, *domain, flag(corners, "corners"), *counts)


@halo_arguments("layout", "width", "axis", "periodic", "wraps")
def axis_halo(
    layout: FloorPlan | BlockCyclic,
    width: Width,
    axis: int,
    periodic: Periodic = False,
) -> MotionPlan:
    """Plan to fill the ghosts on both sides of all blocks along one axis, corners included.

    Each axis also forwards the corner ghosts received along earlier axes. Executed one after the
    other (``Mover(moves, together=False)``), the plans of axes 0, 1, ... fill the same ghosts as
    `halo`, with messages only to the neighbors along the axes. Corners are complete if blocks touch
    by faces, as those of a grid do; corners outside the domain receive the values that the sender
    has there. Local; takes time in the number of blocks.

    Parameters
    ----------
    layout, width, periodic
        As for `halo`; pass the same for all axes.
    axis : int
        The dimension.

    Returns
    -------
    MotionPlan
        A plan of section copies, from the layout to itself.

    Raises
    ------
    OutOfRange
        If there is no such axis.
    Error
        As `halo`.

    Examples
    --------
    >>> import datamover as dm
    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)
    >>> [dm.advanced.axis_halo(blocks, 1, axis).incoming(0) for axis in (0, 1)]
    [{2: 4}, {1: 6}]
    """
    sides, domain = _sides(width, layout), _periodic_domain(periodic, layout)
    return _plan.axis_halo(layout, *sides, integer(axis, "axis"), *domain)


def panel_broadcast(layout: BlockCyclic, region: Section, along: int) -> MotionPlan:
    """Plan to send a panel to all processes of its row or column of the process grid.

    Every process receives the parts of a region that the processes differing only in grid
    coordinate `along` hold together, as each step of SUMMA, LU or Cholesky requires. Local; takes
    time in the number of processes.

    Parameters
    ----------
    layout : BlockCyclic
        Layout of the array that contains the panel.
    region : Region or tuple of slices
        The panel, in indices of the array.
    along : int
        The dimension along which the panel is sent: 1 sends a panel of columns to all processes of
        each row of a two-dimensional grid, 0 a panel of rows to all of each column.

    Returns
    -------
    MotionPlan
        A plan of one term. Its destination layout, ``plan.destination``, has the extent of the
        region in dimension `along`, which begins at 0 and is not distributed. In every other
        dimension it has the extent and the distribution of the array, so an index has the same
        local index in both. It has a replica for each process along `along`. Regions of the same
        extent along `along` have the same destination layout, so one array can receive panel after
        panel. Elements of it outside the region are left unchanged.

    Raises
    ------
    Unsupported
        If the layout is not block-cyclic.
    OutOfRange
        If the region is not inside the array, or dimension `along` does not exist.
    Mismatch
        If the region has other dimensions than the layout.
    InvalidArgument
        If the region is empty.

    Examples
    --------
    Send the first panel of eight columns along the rows of a grid of two by two processes:

    >>> import datamover as dm
    >>> tiles = dm.BlockCyclic((24, 32), "(cyclic(4), cyclic(8))", nprocs=4, grid=(2, 2))
    >>> plan = dm.advanced.panel_broadcast(tiles, dm.Region((0, 0), (24, 8)), along=1)
    >>> plan.destination.shape, plan.destination.local_shape(3), tiles.local_shape(3)
    ((24, 8), (12, 8), (12, 16))
    >>> plan.outgoing(0), plan.outgoing(1), plan.outgoing(2)
    ({0: 96, 1: 96}, {}, {2: 96, 3: 96})
    """
    return _plan.panel_broadcast(
        checked(layout), _required(region, "region", layout), integer(along, "along")
    )


@halo_arguments("coarse", "fine", "factor", "width", "periodic", "wraps", "partial")
def prolongation(
    coarse: FloorPlan | BlockCyclic,
    fine: FloorPlan | BlockCyclic,
    factor: int | Sequence[int],
    width: Width = 0,
    periodic: Periodic = False,
    *,
    partial: bool = False,
) -> MotionPlan:
    """Plan to send to every block of a fine level the coarse points that cover it.

    Coarse point c covers the fine points ``c * factor`` to ``(c + 1) * factor - 1``. The caller
    does the arithmetic of the interpolation. Local; takes time in the number of blocks.

    Parameters
    ----------
    coarse, fine : FloorPlan or BlockCyclic
        The two levels, for the same number of processes; some may have no blocks. Blocks need not
        be aligned. Every process must hold one interval in each dimension of a block-cyclic `fine`.
    factor : int or sequence of int
        Refinement, for all dimensions or for each; at least 1, and above 1 in some dimension.
    width : int, sequence of int, or sequence of (int, int)
        Number of coarse points that are needed beyond those that cover a block: everywhere, for
        each dimension, or below and above for each dimension. Linear interpolation between cell
        centers needs 1; between vertices, every `factor`-th of which is coarse, it needs (0, 1) in
        each dimension.
    periodic : bool, sequence of bool, or Region
        The periodic dimensions or domain of the coarse level, as for `halo`.
    partial : bool
        Whether coarse points that a fine block needs and no coarse block holds are left unchanged.
        By default they are an error inside the bounding box of the coarse level. Outside it, and in
        the width, they are always left unchanged: the caller stores boundary values there.

    Returns
    -------
    MotionPlan
        Its destination layout, ``plan.destination``, is a floor plan of the boxes of coarse points,
        width included, with the numbers and owners of the fine blocks. Without a width,
        ``plan.reversed()`` returns coarse values computed by the owners of the fine blocks to the
        coarse level (one of them if several blocks have the point), and ``plan.adjoint()`` with
        ``op="add"`` returns the sum over all blocks.

    Raises
    ------
    Mismatch
        If dimensions or numbers of processes differ, or coarse points are missing.
    InvalidArgument
        If a factor is below 1 or none is above 1, a width is negative, or the periodic domain is
        shorter than the blocks together.
    Unsupported
        For index lists, and if the blocks of `fine` are not boxes.
    OutOfRange
        If coordinates do not fit 64 bits.

    Examples
    --------
    Three processes hold the fine level, one of them also the coarse one:

    >>> import datamover as dm
    >>> fine = dm.FloorPlan.uniform(dm.Region(0, 16), 3, nprocs=3)
    >>> coarse = dm.FloorPlan([dm.Region(0, 8)], owners=[0], nprocs=3)
    >>> plan = dm.advanced.prolongation(coarse, fine, 2, width=1)
    >>> [plan.destination.region(i) for i in range(3)]
    [Region((-1,), (4,)), Region((2,), (7,)), Region((4,), (9,))]
    >>> plan.outgoing(0)
    {0: 4, 1: 5, 2: 4}
    """
    sides, domain = _sides(width, fine), _periodic_domain(periodic, coarse)
    factors, is_partial = integers(factor, "factor"), flag(partial, "partial")
    return _plan.prolongation(checked(coarse), fine, factors, *sides, *domain, is_partial)


@halo_arguments("fine", "coarse", "factor", "width", "periodic", "wraps", "partial")
def restriction(
    fine: FloorPlan | BlockCyclic,
    coarse: FloorPlan | BlockCyclic,
    factor: int | Sequence[int],
    width: Width = 0,
    periodic: Periodic = False,
    *,
    partial: bool = False,
) -> MotionPlan:
    """Plan to send to every block of a coarse level the fine points that it covers.

    The owners of the coarse blocks do the arithmetic. If the owners of the fine blocks can do it
    instead, fewer elements move with the reverse or the adjoint of a `prolongation`. Local; takes
    time in the number of blocks.

    Parameters
    ----------
    fine, coarse : FloorPlan or BlockCyclic
        The two levels, as for `prolongation`; here the blocks of `coarse` must be boxes.
    factor : int or sequence of int
        As for `prolongation`.
    width : int, sequence of int, or sequence of (int, int)
        Number of fine points that are needed beyond those that a block covers, as for
        `prolongation`. Full weighting of vertices with factor 2 needs (1, 0) in each dimension.
    periodic : bool, sequence of bool, or Region
        The periodic dimensions or domain of the fine level, as for `halo`.
    partial
        As for `prolongation`, of fine points.

    Returns
    -------
    MotionPlan
        Its destination layout, ``plan.destination``, is a floor plan of the boxes of fine points,
        width included, with the numbers and owners of the coarse blocks.

    Raises
    ------
    Error
        As `prolongation`.

    Examples
    --------
    >>> import datamover as dm
    >>> fine = dm.FloorPlan.uniform(dm.Region((0, 0), (6, 6)), (2, 1), nprocs=2)
    >>> coarse = dm.FloorPlan([dm.Region((0, 0), (2, 2))], owners=[1], nprocs=2)
    >>> plan = dm.advanced.restriction(fine, coarse, 3)
    >>> plan.destination.region(0), plan.incoming(1)
    (Region((0, 0), (6, 6)), {0: 18, 1: 18})
    """
    sides, domain = _sides(width, coarse), _periodic_domain(periodic, fine)
    factors, is_partial = integers(factor, "factor"), flag(partial, "partial")
    return _plan.restriction(checked(fine), coarse, factors, *sides, *domain, is_partial)


def _section(section: Section | None, name: str, layout: Layout | None) -> Region | None:
    """Return a section as a region; a slice without an end reaches that of the layout's domain."""
    if section is None or isinstance(section, Region):
        return section
    slices = section if isinstance(section, tuple) else (section,)
    if not slices or not all(isinstance(s, slice) and s.step in (None, 1) for s in slices):
        raise WrongType(
            f"{name} is {section!r}, it must be a Region or a tuple of slices of step 1"
        )
    lo, hi = [s.start for s in slices], [s.stop for s in slices]
    if None in (*lo, *hi):
        if layout is None:
            raise InvalidArgument(f"{name} is {section!r}; pass both ends of each slice")
        domain = layout.domain
        if len(slices) != len(domain.shape):
            raise Mismatch(
                f"{name} has {len(slices)} slices, the layout {len(domain.shape)} dimensions"
            )
        lo = [at if x is None else x for x, at in zip(lo, domain.lo, strict=True)]
        hi = [at if x is None else x for x, at in zip(hi, domain.hi, strict=True)]
    return Region(integers(lo, name), integers(hi, name))


def _required(section: Section, name: str, layout: Layout | None = None) -> Region:
    """Return a section that must be passed as a region."""
    region = _section(section, name, layout)
    if region is None:
        raise WrongType(f"{name} is None, it must be a Region or a tuple of slices")
    return region


def _periodic_domain(periodic: Periodic, layout: Layout) -> tuple[Region, Sequence[bool]]:
    """Return the periodic domain, without dimensions if there is none, and its dimensions or []."""
    if periodic is None or periodic is False:
        return Region.empty_region(0), []
    if periodic is True:
        return checked(layout).domain, []
    if isinstance(periodic, Region):
        return periodic, []
    if isinstance(periodic, tuple) and len(periodic) == 2 and isinstance(periodic[0], Region):
        periodic, dims = periodic  # with `wraps`, see datamover.deprecated
    else:
        periodic, dims = checked(layout).domain, periodic
    if not (is_several(dims) and all(isinstance(dim, bool) for dim in dims)):
        raise WrongType(
            f"periodic is {dims!r}, it must be True, False, a bool for each dimension, or the "
            "periodic Region"
        )
    if len(dims) == len(periodic.shape) and not any(dims):
        return Region.empty_region(0), []
    return periodic, list(dims)


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
