# SPDX-License-Identifier: BSD-3-Clause
"""Steps of a plan between arrays and a file, and the part of the plan that each step executes.

A file is an array whose elements are stored on disk. A plan reads and writes it slab by slab
through *staging memory*: a slab of whole chunks is distributed, in pieces that are contiguous in
the file, over the processes that do the I/O. For each term of the plan, the part inside the slab is
used, with staging memory in the place of the file: redistributions remain redistributions, of a
smaller section; halos and section copies become section copies. All of this is local and the same
on every process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from datamover._plan import HaloExchange, MotionPlan, Redistribution, Region, SectionCopy
from datamover.errors import NoMemory, OutOfRange, Unsupported
from datamover.files.chunk_grid import Uneven, begin_of, cells, chunks_in, end_of, window
from datamover.files.chunk_sides import contiguous, grown
from datamover.files.formats import Order, Shape, boxes_of, grid_of, option
from datamover.layouts import FloorPlan, Layout

#: Approximate number of pieces of a flat file in the share of a process.
PIECES_PER_PROCESS = 64

Box = tuple[Shape, Shape]


def range_boxes(grid: Shape, begin: int, end: int) -> list[Box]:
    """Cut the cells begin .. end-1 of a grid, counted in C order, into at most 2d - 1 boxes.

    Examples
    --------
    >>> from datamover.files.array_steps import range_boxes
    >>> range_boxes((3, 4), 2, 9)
    [((0, 2), (1, 4)), ((1, 0), (2, 4)), ((2, 0), (3, 1))]
    """
    boxes: list[Box] = []
    while begin < end:
        # The longest run of whole rows of some dimension that begins here.
        d, inner = len(grid) - 1, 1
        while d > 0 and begin % (inner * grid[d]) == 0 and begin + inner * grid[d] <= end:
            inner, d = inner * grid[d], d - 1
        lo = tuple(int(i) for i in np.unravel_index(begin, grid))
        count = min(grid[d] - lo[d], (end - begin) // inner)
        boxes.append((lo, (*(i + 1 for i in lo[:d]), lo[d] + count, *grid[d + 1 :])))
        begin += count * inner
    return boxes


def deal(shape: Shape, unit: Shape, order: str, nprocs: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribute an array to processes in equal shares of units that are adjacent in the file.

    Parameters
    ----------
    shape, unit : tuple of int
    order : str
        "C" or "F": order of the units in the file.
    nprocs : int

    Returns
    -------
    regions : ndarray of int64, shape (n, 2, d)
    owners : ndarray of int64, shape (n,)
    """
    if order == "F":
        regions, owners = deal(shape[::-1], unit[::-1], "C", nprocs)
        return np.ascontiguousarray(regions[:, :, ::-1]), owners
    grid = grid_of(shape, unit)
    units = math.prod(grid)
    boxes: list[Any] = []
    ranks: list[int] = []
    for rank in range(nprocs):
        for box in range_boxes(grid, units * rank // nprocs, units * (rank + 1) // nprocs):
            boxes.append([tuple(map(begin_of, cell, unit)) for cell in box])
            ranks.append(rank)
    return np.minimum(np.asarray(boxes, np.int64), shape), np.asarray(ranks, np.int64)


def share_elems(shape: Shape, unit: Shape, nprocs: int) -> int:
    """Return an upper bound of the elements that `deal` assigns to one process."""
    units = math.prod(map(chunks_in, shape, unit))
    clipped = math.prod(min(n, u) for n, u in zip(shape, unit, strict=True))
    return min(-(-units // nprocs) * clipped, math.prod(shape))


def unit_of(slab: Shape, granule: Shape, file: Any, nprocs: int) -> Shape:
    """Return the boxes in which a slab is distributed: chunks, or contiguous pieces of a file."""
    if not file.is_flat:
        return granule
    elems = math.prod(slab) // (PIECES_PER_PROCESS * nprocs)
    return contiguous(slab, file.spec.axes, 1, elems)


def slab_shape(shape: Shape, granule: Shape, file: Any, most_bytes: int, nprocs: int) -> Shape:
    """Choose the shape of the slabs in which an array is moved; the slowest dimension is cut first.

    Parameters
    ----------
    shape, granule : tuple of int
        Slabs are multiples of the granule, except at the upper ends of the array.
    file : Reader
    most_bytes : int
        Maximum bytes of a slab on one of the processes: half of the limit is for elements.
    nprocs : int
        Number of processes that share a slab.

    Raises
    ------
    NoMemory
        Not even a slab of one granule fits.
    """
    itemsize, least = file.spec.dtype.itemsize, tuple(map(min, granule, shape))
    limit = nprocs * most_bytes
    while True:
        slab = grown(granule, shape, [file.spec.axes], itemsize, limit, good_run_bytes=1 << 62)
        held_bytes = share_elems(slab, unit_of(slab, granule, file, nprocs), nprocs) * itemsize
        if held_bytes <= most_bytes:
            return slab
        if slab == least:
            raise NoMemory(
                f"the memory limit of {2 * most_bytes:,} bytes is too little for boxes of {slab}; "
                f"allow at least {option('max_bytes', 2 * held_bytes)} or make the chunks smaller"
            )
        limit = limit * 7 // 8


@dataclasses.dataclass(frozen=True)
class Step:
    """A slab of the file, and the part of the plan between it and the arrays.

    Attributes
    ----------
    lo, hi : tuple of int
        Indices of the file.
    plan : MotionPlan
        With the layout of staging memory, which begins at `lo`, instead of the file's.
    is_covered : bool
        Whether the plan writes every element of the slab.
    staging : FloorPlan
        That layout; the same for all steps, unless chunks have several extents along a dimension.
    """

    lo: Shape
    hi: Shape
    plan: MotionPlan
    is_covered: bool
    staging: FloorPlan


@dataclasses.dataclass(frozen=True)
class StagedMove:
    """A plan between an array in memory and one in a file, cut into steps.

    Attributes
    ----------
    name, where : str
        Of the array in the file, and how errors name it.
    array : Array, UserArrays or what else a mover takes
    dtype, order
        Of staging memory.
    steps : list of Step
    most_bytes : int
        What one process holds of staging memory, at most.
    """

    name: str
    where: str
    array: Any
    dtype: np.dtype
    order: Order
    steps: list[Step] = dataclasses.field(default_factory=list)
    most_bytes: int = 0


def steps_of(
    plan: MotionPlan, move: StagedMove, file: Any, to_file: bool, ranks: Shape, most_bytes: int
) -> StagedMove:
    """Cut a plan into steps; return `move` with them. Local.

    Parameters
    ----------
    plan : MotionPlan
        From or to the layout of the file.
    move : StagedMove
    file : Reader
        Has `spec`, `granule` and `is_flat`.
    to_file : bool
        Whether the file is the destination.
    ranks : tuple of int
        The processes that read or write.
    most_bytes : int
        Maximum bytes of a slab on one process.

    Raises
    ------
    NoMemory
        A chunk is larger.
    OutOfRange
        A section is outside its block of the file, which has no ghosts.
    Unsupported
        A section changes its shape.
    """
    layout = plan.destination if to_file else plan.source
    terms = list(_terms(plan, layout, to_file))
    touched = _touched(terms, layout.domain, file, to_file)
    if touched.empty or not terms:
        return move
    shape, order, count = tuple(touched.shape), file.spec.order, len(ranks)
    granule = tuple(map(window, file.granule, touched.lo, shape))
    try:
        slab = slab_shape(shape, granule, file, most_bytes, count)
    except NoMemory as e:
        raise NoMemory(f"{move.where}: {e}") from e
    unit = unit_of(slab, granule, file, count)
    stagings: dict[tuple[Shape, Shape], FloorPlan] = {}
    found = []
    for first, end in boxes_of(shape, slab):
        box = tuple(
            b - a if isinstance(u, Uneven) else n
            for a, b, n, u in zip(first, end, slab, unit, strict=True)
        )
        units = tuple(map(window, unit, first, box))
        if (box, units) not in stagings:
            regions, owners = deal(box, units, order, count)
            held_by = np.asarray(ranks, np.int64)[owners]
            stagings[box, units] = FloorPlan(regions, held_by, plan.nprocs)
        staging = stagings[box, units]
        lo, hi = _plus(first, touched.lo), _plus(end, touched.lo)
        origin = _plus(lo, layout.domain.lo)
        section = Region(origin, _plus(hi, layout.domain.lo))
        layouts = (plan.source, staging) if to_file else (staging, plan.destination)
        part = MotionPlan(*layouts)
        for term in terms:
            for piece in _pieces(term, section, staging, to_file):
                part.add(piece)
        if len(part):
            covered = to_file and any(_covers(term, section) for term in terms)
            found.append(Step(lo, hi, part, covered, staging))
    held_bytes = share_elems(slab, unit, count) * file.spec.dtype.itemsize
    return dataclasses.replace(move, steps=found, most_bytes=held_bytes)


def _plus(a: Any, b: Any) -> Shape:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _from(whole: Region, part: Region) -> Region:
    """Return a part in indices from the lowest corner of the whole."""
    return part.shifted([-a for a in whole.lo])


def _terms(
    plan: MotionPlan, layout: Layout, to_file: bool
) -> Iterator[Redistribution | SectionCopy]:
    """Yield the terms of a plan, halos as their sections; check their use of the file."""
    for k in range(len(plan)):
        term = plan[k]
        if isinstance(term, Redistribution):
            if term.adjoint and not to_file:
                raise Unsupported("the adjoint of a plan cannot read a file: use an Array")
            yield term
            continue
        if isinstance(term, HaloExchange):
            alone = MotionPlan(plan.source, plan.destination)
            alone.add(term)
            sections: Iterator[SectionCopy] = alone.sections()
        else:
            sections = iter([term])
        for section in sections:
            _check_section(section, layout, to_file)
            yield section


def _check_section(term: SectionCopy, layout: Layout, to_file: bool) -> None:
    region = term.destination_region if to_file else term.source_region
    block = term.destination_block if to_file else term.source_block
    held = layout.region(block) if isinstance(layout, FloorPlan) else layout.domain
    if not held.contains(region):
        raise OutOfRange(
            f"{region} reaches outside block {block} of the file, {held}: files have no ghosts"
        )
    # With axes or steps, plans require one shape of both sections.
    has_one_shape = term.axes or term.source_step or term.destination_step
    if not has_one_shape and term.source_region.shape != term.destination_region.shape:
        raise Unsupported(
            f"a section of {term.source_region.shape} that becomes one of "
            f"{term.destination_region.shape} cannot be read from or written to a file in steps"
        )


def _region(term: Redistribution | SectionCopy, to_file: bool) -> Region:
    return term.destination_region if to_file else term.source_region


def _touched(terms: list[Any], domain: Region, file: Any, to_file: bool) -> Region:
    """Return the box of whole chunks that the terms read or write, in indices of the file."""
    found = Region.empty_region(domain.dims)
    for term in terms:
        region = _region(term, to_file) & domain
        if not region.empty:
            found = region if found.empty else found | region
    if found.empty:
        return found
    found = _from(domain, found)
    met = list(map(cells, found.lo, found.hi, file.granule))
    lo = [begin_of(along[0], g) for along, g in zip(met, file.granule, strict=True)]
    hi = [end_of(along[-1], g) for along, g in zip(met, file.granule, strict=True)]
    return Region(lo, list(map(min, hi, file.spec.shape)))


def _covers(term: Any, section: Region) -> bool:
    plain = isinstance(term, Redistribution) and not (term.partial or term.reversed or term.adjoint)
    return plain and term.destination_region.contains(section)


def _pieces(
    term: Redistribution | SectionCopy, section: Region, staging: FloorPlan, to_file: bool
) -> Iterator[Redistribution | SectionCopy]:
    """Yield the part of a term in a section of the file, with staging memory in its place.

    Of a section copy, one for each block of staging memory that it meets.
    """
    if not _region(term, to_file).intersects(section):
        return
    if isinstance(term, Redistribution):
        here, there = cast(Any, _part(term, (None, None), section, to_file))
        regions = _ordered(there, _from(section, here), to_file)
        piece = Redistribution.__new__(Redistribution)
        flags = (term.partial, term.reversed, term.adjoint)
        piece.__setstate__((*regions, list(term.axes or ()), *flags, list(term.flip or ())))
        yield piece
        return
    steps = term.source_step, term.destination_step
    for block in staging.find(_from(section, _region(term, to_file) & section)):
        held = staging.region(block).shifted(section.lo)
        found = _part(term, steps, held, to_file)
        if found is not None:
            here, there = found
            other = term.source_block if to_file else term.destination_block
            staged = int(block), _from(section, here)
            (source, taken), (destination, filled) = _ordered((other, there), staged, to_file)
            yield SectionCopy(source, taken, destination, filled, term.axes, *steps, term.flip)


def _ordered(of_array: Any, of_file: Any, to_file: bool) -> tuple[Any, Any]:
    """Return source and destination."""
    return (of_array, of_file) if to_file else (of_file, of_array)


def _part(
    term: Redistribution | SectionCopy, steps: Any, window: Region, to_file: bool
) -> tuple[Region, Region] | None:
    """Return the part of a term in a window of the file, there and in the array; None if empty."""
    ones = (1,) * window.dims
    of_source: Any = term.source_region, steps[0] or ones
    of_destination: Any = term.destination_region, steps[1] or ones
    sides = of_source, of_destination
    (other, other_step), (own, own_step) = sides if to_file else sides[::-1]
    lo, hi, other_lo, other_hi = (list(ends) for ends in (own.lo, own.hi, other.lo, other.hi))
    for k, axis in enumerate(term.axes or range(window.dims)):
        # Dimension k of the destination is `axis` of the source.
        mine, its = (k, axis) if to_file else (axis, k)
        a, s = own.lo[mine], own_step[mine]
        total = -(-(own.hi[mine] - a) // s)
        first = max(0, -(-(window.lo[mine] - a) // s))
        count = min(total, -(-(window.hi[mine] - a) // s)) - first
        if count < 1:
            return None
        lo[mine] = a + first * s
        hi[mine] = lo[mine] + (count - 1) * s + 1
        if term.flip and term.flip[k]:
            first = total - first - count
        other_lo[its] = other.lo[its] + first * other_step[its]
        other_hi[its] = other_lo[its] + (count - 1) * other_step[its] + 1
    return Region(lo, hi), Region(other_lo, other_hi)
