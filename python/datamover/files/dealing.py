# SPDX-License-Identifier: BSD-3-Clause
"""Distribution of an array over reading or writing processes: the boxes and slabs of each."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import NoMemory
from datamover.files.formats import Shape, option

Box = tuple[Shape, Shape]


def range_boxes(grid: Shape, begin: int, end: int) -> list[Box]:
    """Cut the cells begin .. end-1 of a grid, counted in C order, into at most 2d - 1 boxes.

    Examples
    --------
    >>> from datamover.files.dealing import range_boxes
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


def unit_grid(shape: Shape, unit: Shape) -> Shape:
    """Return how many units there are along each dimension."""
    return tuple(-(-n // u) for n, u in zip(shape, unit, strict=True))


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
    grid = unit_grid(shape, unit)
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
    units = math.prod(unit_grid(shape, unit))
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
