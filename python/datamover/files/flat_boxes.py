# SPDX-License-Identifier: BSD-3-Clause
"""Division of a flat file, which has no chunks, into boxes for reading or writing."""

from __future__ import annotations

import math

from datamover.files.chunk_plan import runs
from datamover.files.formats import Shape

#: Minimum size of contiguous pieces of files, if memory allows.
GOOD_RUN_BYTES = 64 << 10


def contiguous(shape: Shape, axes: Shape, itemsize: int, target_bytes: int) -> Shape:
    """Return boxes of about `target_bytes` that are contiguous in the file.

    Parameters
    ----------
    shape, axes : tuple of int
        Extents, and the dimensions from the slowest to the fastest in the file.
    itemsize, target_bytes : int

    Examples
    --------
    >>> from datamover.files.flat_boxes import contiguous
    >>> contiguous((100, 8, 16), (0, 1, 2), 4, 2048)
    (4, 8, 16)
    """
    box = [1] * len(shape)
    left = max(target_bytes // itemsize, 1)
    for d in reversed(axes):
        box[d] = _even(shape[d], min(shape[d], left))
        left //= box[d]
        if left < 2:
            break
    return tuple(box)


def _even(extent: int, most: int) -> int:
    """Return the length of equal pieces, as many as of pieces of `most`."""
    return -(-extent // -(-extent // most))


def grown(
    start: Shape, shape: Shape, orders: list[Shape], itemsize: int, limit_bytes: int
) -> Shape:
    """Enlarge a box until its pieces are long in every given order of the dimensions.

    Parameters
    ----------
    start, shape : tuple of int
        Box to begin with; extents of the array. Boxes are multiples of it.
    orders : list of tuple of int
        Dimensions from the slowest to the fastest, for each file that holds the boxes.
    itemsize, limit_bytes : int

    Examples
    --------
    >>> from datamover.files.flat_boxes import grown
    >>> grown((1, 1), (1024, 1024), [(0, 1), (1, 0)], 4, 1 << 22)
    (1024, 1024)
    """
    box = [min(b, n) for b, n in zip(start, shape, strict=True)]

    def run_bytes(order: Shape) -> int:
        return math.prod(box) * itemsize // runs(tuple(box), shape, order)

    def room(d: int) -> int:
        """Return the largest extent of a dimension that the limit allows."""
        others = math.prod(box) // box[d] * itemsize
        most = limit_bytes // others // start[d] * start[d]
        return max(box[d], min(most, shape[d]))

    grows = True
    while grows:
        grows = False
        for order in sorted(orders, key=run_bytes):
            if run_bytes(order) >= GOOD_RUN_BYTES:
                continue
            d = next((d for d in reversed(order) if box[d] < shape[d]), None)
            if d is None:
                continue
            wanted = -(-GOOD_RUN_BYTES // run_bytes(order)) * box[d]
            wanted = shape[d] if 2 * wanted > shape[d] else wanted // start[d] * start[d]
            extent = min(room(d), max(wanted, box[d]))
            if extent < shape[d]:
                extent = _even_multiple(shape[d], extent, start[d])
            if extent > box[d]:
                box[d] = extent
                grows = True
                break
    return tuple(box)


def _even_multiple(extent: int, most: int, unit: int) -> int:
    """Return a multiple of `unit`, at most `most`, that cuts an extent into nearly equal pieces."""
    units = -(-extent // unit)
    return _even(units, max(most // unit, 1)) * unit
