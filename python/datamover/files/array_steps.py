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

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover._plan import HaloExchange, MotionPlan, Redistribution, Region, SectionCopy
from datamover.errors import NoMemory, OutOfRange, Unsupported
from datamover.files.formats import Shape, grid_of, num_boxes, option
from datamover.layouts import FloorPlan, IndexList, Layout

Box = tuple[Shape, Shape]


def range_boxes(grid: Shape, begin: int, end: int) -> list[Box]:
    """Cut the cells begin .. end-1 of a grid, counted in C order, into at most 2d - 1 boxes.

    Examples
    --------
    >>> from datamover.files.array_steps import range_boxes
    >>> range_boxes((3, 4), 2, 9)
    [((0, 2), (1, 4)), ((1, 0), (2, 4)), ((2, 0), (3, 1))]
    """
    if begin >= end:
        return []
    if len(grid) == 1:
        return [((begin,), (end,))]
    inner = math.prod(grid[1:])

    def row(c: int) -> list[Box]:
        """Return the boxes in one index of the first dimension."""
        lo, hi = max(begin - c * inner, 0), min(end - c * inner, inner)
        return [((c, *a), (c + 1, *b)) for a, b in range_boxes(grid[1:], lo, hi)]

    whole_begin, whole_end = -(-begin // inner), end // inner
    if whole_begin > whole_end:
        return row(whole_end)
    boxes = row(whole_begin - 1)
    if whole_begin < whole_end:
        boxes.append(((whole_begin, *(0,) * (len(grid) - 1)), (whole_end, *grid[1:])))
    return boxes + row(whole_end)


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
            boxes.append(box)
            ranks.append(rank)
    scaled = np.minimum(np.asarray(boxes, np.int64) * np.asarray(unit, np.int64), shape)
    return scaled, np.asarray(ranks, np.int64)


def share_elems(shape: Shape, unit: Shape, nprocs: int) -> int:
    """Return an upper bound of the elements that `deal` assigns to one process."""
    units = num_boxes(shape, unit)
    clipped = math.prod(min(n, u) for n, u in zip(shape, unit, strict=True))
    return min(-(-units // nprocs) * clipped, math.prod(shape))


def slab_shape(
    shape: Shape, granule: Shape, order: str, max_bytes: int, elem_bytes: int, share
) -> Shape:
    """Choose the shape of the slabs in which an array is moved.

    Parameters
    ----------
    shape, granule : tuple of int
        Slabs are multiples of `granule`, except at the upper ends of the array.
    order : str
        "C" or "F": the slowest dimension is cut first.
    max_bytes, elem_bytes : int
        The memory limit of each process, and the memory of an element.
    share : callable
        Returns the elements of a slab of a given shape on one process.

    Raises
    ------
    NoMemory
        Not even a slab of one granule fits.
    """
    slab, max_elems = list(shape), max_bytes // elem_bytes
    for d in range(len(shape)) if order == "C" else reversed(range(len(shape))):
        if share(tuple(slab)) <= max_elems:
            break
        granules = -(-shape[d] // granule[d])
        # The most granules that fit, at least one.
        counts = range(2, granules + 1)
        most = 1 + bisect.bisect_right(
            counts, max_elems, key=lambda count: share(_cut(slab, d, count * granule[d]))
        )
        slabs = -(-granules // most)
        # The same number of slabs, but of equal thickness.
        slab = list(_cut(slab, d, min(-(-granules // slabs) * granule[d], shape[d])))
    if share(tuple(slab)) > max_elems:
        raise NoMemory(
            f"the memory limit of {max_bytes:,} bytes is too little for boxes of {tuple(slab)}; "
            f"allow at least {option('max_bytes', share(tuple(slab)) * elem_bytes)} or make the "
            "chunks smaller"
        )
    return tuple(slab)


def _cut(slab: list[int], d: int, thickness: int) -> Shape:
    return (*slab[:d], thickness, *slab[d + 1 :])


def slabs(shape: Shape, slab: Shape) -> Iterator[Box]:
    """Yield an array slab by slab, as (lo, hi)."""
    starts = [range(0, n, s) for n, s in zip(shape, slab, strict=True)]
    for lo in itertools.product(*starts):
        yield lo, tuple(min(a + s, n) for a, s, n in zip(lo, slab, shape, strict=True))


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
    """

    lo: Shape
    hi: Shape
    plan: MotionPlan
    is_covered: bool


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """All steps of a plan, and the layout of the staging memory that all of them share.

    `most_bytes` is what one process holds of staging memory, at most.
    """

    staging: FloorPlan | None
    steps: list[Step]
    most_bytes: int = 0


def steps_of(
    plan: MotionPlan, name: str, file: Any, to_file: bool, ranks: tuple[int, ...], most_bytes: int
) -> StepPlan:
    """Cut a plan into steps. Local.

    Parameters
    ----------
    plan : MotionPlan
        From or to the layout of the file.
    name : str
        Of the file, for errors.
    file : Reader
        Has `spec`, `granule` and `unit`.
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
        return StepPlan(None, [])
    shape, order, count = tuple(touched.shape), file.spec.order, len(ranks)
    try:
        slab = slab_shape(
            shape,
            file.granule,
            order,
            2 * most_bytes,  # half of the limit is for the elements
            2 * file.spec.dtype.itemsize,
            lambda slab: share_elems(slab, file.unit(slab, count), count),
        )
    except NoMemory as e:
        raise NoMemory(f"{name}: {e}") from e
    unit = file.unit(slab, count)
    regions, owners = deal(slab, unit, order, count)
    staging = FloorPlan(regions, np.asarray(ranks, np.int64)[owners], plan.nprocs)
    found = []
    for first, end in slabs(shape, slab):
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
            found.append(Step(lo, hi, part, covered))
    most_elems = share_elems(slab, unit, count)
    return StepPlan(staging, found, most_elems * file.spec.dtype.itemsize)


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
    if isinstance(layout, IndexList):
        raise Unsupported("sections of an index list cannot be read from or written to a file")
    region = term.destination_region if to_file else term.source_region
    block = term.destination_block if to_file else term.source_block
    held = layout.region(block) if isinstance(layout, FloorPlan) else layout.domain
    if not held.contains(region):
        raise OutOfRange(
            f"{region} reaches outside block {block} of the file, {held}: files have no ghosts"
        )
    counts = [
        tuple(-(-n // s) for n, s in zip(box.shape, step or (1,) * box.dims, strict=True))
        for box, step in (
            (term.source_region, term.source_step),
            (term.destination_region, term.destination_step),
        )
    ]
    if term.axes is None and counts[0] != counts[1]:
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
    whole = zip(found.lo, found.hi, file.granule, file.spec.shape, strict=True)
    ends = [(a // g * g, min(-(-b // g) * g, n)) for a, b, g, n in whole]
    return Region([a for a, _ in ends], [b for _, b in ends])


def _covers(term: Any, section: Region) -> bool:
    plain = isinstance(term, Redistribution) and not (term.partial or term.reversed or term.adjoint)
    return plain and term.destination_region.contains(section)


def _pieces(
    term: Redistribution | SectionCopy, section: Region, staging: FloorPlan, to_file: bool
) -> Iterator[Redistribution | SectionCopy]:
    """Yield the part of a term in a section of the file, with staging memory in its place."""
    if isinstance(term, SectionCopy):
        yield from _copies(term, section, staging, to_file)
        return
    here = _region(term, to_file) & section
    if here.empty:
        return
    there = term.source_region if to_file else term.destination_region
    axes = term.axes or tuple(range(section.dims))
    offsets = _from(_region(term, to_file), here).lo
    begin, extents = list(there.lo), list(there.shape)
    for k, axis in enumerate(axes):  # dimension k of the destination is `axis` of the source
        mine, other = (k, axis) if to_file else (axis, k)
        extents[other] = here.shape[mine]
        flips = term.flip and term.flip[k]
        left = there.shape[other] - offsets[mine] - extents[other]
        begin[other] += left if flips else offsets[mine]
    other_region = Region(begin, _plus(begin, extents))
    staged = _from(section, here)
    regions = (other_region, staged) if to_file else (staged, other_region)
    piece = Redistribution.__new__(Redistribution)
    flags = (term.partial, term.reversed, term.adjoint)
    piece.__setstate__((*regions, list(term.axes or ()), *flags, list(term.flip or ())))
    yield piece


def _copies(
    term: SectionCopy, section: Region, staging: FloorPlan, to_file: bool
) -> Iterator[SectionCopy]:
    """Yield the same for a section copy: one for each block of staging memory that it meets."""
    region = _region(term, to_file)
    if not region.intersects(section):
        return
    found = staging.find(_from(section, region & section))
    region = _from(section, region)
    steps = [step or (1,) * section.dims for step in (term.source_step, term.destination_step)]
    other = term.source_region if to_file else term.destination_region
    own_step, other_step = (steps[1], steps[0]) if to_file else (steps[0], steps[1])
    axes = term.axes or tuple(range(section.dims))
    for block in found:
        held = staging.region(block)
        lo, hi = [0] * section.dims, [0] * section.dims
        other_lo, other_hi = list(other.lo), list(other.hi)
        for k, axis in enumerate(axes):
            mine, its = (k, axis) if to_file else (axis, k)
            first, count = _positions(
                region.lo[mine], region.hi[mine], own_step[mine], held.lo[mine], held.hi[mine]
            )
            if count < 1:
                break
            lo[mine] = region.lo[mine] + first * own_step[mine]
            hi[mine] = lo[mine] + (count - 1) * own_step[mine] + 1
            if term.flip and term.flip[k]:
                first = -(-(region.hi[mine] - region.lo[mine]) // own_step[mine]) - first - count
            other_lo[its] = other.lo[its] + first * other_step[its]
            other_hi[its] = other_lo[its] + (count - 1) * other_step[its] + 1
        else:
            here, there = Region(lo, hi), Region(other_lo, other_hi)
            if to_file:
                ends = (term.source_block, there, int(block), here)
            else:
                ends = (int(block), here, term.destination_block, there)
            yield SectionCopy(*ends, term.axes, steps[0], steps[1], term.flip)


def _positions(lo: int, hi: int, step: int, begin: int, end: int) -> tuple[int, int]:
    """Return first and count of the lo, lo + step, ... below hi that are in begin .. end - 1."""
    first = max(0, -(-(begin - lo) // step))
    last = min(-(-(hi - lo) // step), -(-(end - lo) // step))
    return first, last - first
