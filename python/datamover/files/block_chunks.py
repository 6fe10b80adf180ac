# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of an array in a file from the blocks of a layout, so that processes write their own."""

from __future__ import annotations

import itertools
from typing import Any

from datamover.files.chunk_grid import Sizes, said_sizes
from datamover.layouts import BlockCyclic, FloorPlan, Layout, shape_of


def chunk_shape(layout: Layout) -> tuple[int, ...]:
    """Return the extents of a layout's blocks, those of the largest if they differ.

    Examples
    --------
    >>> import datamover as dm
    >>> chunk_shape(dm.BlockCyclic((10, 8), "(block, cyclic(3))", nprocs=4, grid=(2, 2)))
    (5, 3)
    """
    if isinstance(layout, BlockCyclic):
        extents = zip(layout.shape, layout.block, strict=True)
        return tuple(max(1, min(n, b)) for n, b in extents)
    if isinstance(layout, FloorPlan) and len(layout):
        shapes = [layout.region(k).shape for k in range(len(layout))]
        return tuple(max(1, *extents) for extents in zip(*shapes, strict=True))
    return tuple(max(1, n) for n in shape_of(layout))


def block_sizes(layout: Layout) -> Sizes:
    """Return chunks that end at the ends of all blocks, as in `MoveOptions`.

    Examples
    --------
    >>> import datamover as dm
    >>> block_sizes(dm.FloorPlan([dm.Region(0, 3), dm.Region(3, 8), dm.Region(8, 10)], [0, 1, 2]))
    ((3, 5, 2),)
    """
    if not isinstance(layout, FloorPlan):
        return chunk_shape(layout)
    blocks = [layout.region(k) for k in range(len(layout)) if not layout.region(k).empty]
    ends = [sorted({e for b in blocks for e in (b.lo[d], b.hi[d])}) for d in range(layout.dims)]
    return tuple(tuple(b - a for a, b in itertools.pairwise(along)) or 1 for along in ends)


def sizes_for(layout: Layout, said: Any, name: str) -> Sizes:
    """Return chunks as users pass them; "blocks" are those of a layout."""
    is_word = isinstance(said, str) and said == "blocks"
    return block_sizes(layout) if is_word else said_sizes(said, name)
