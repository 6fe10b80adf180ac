# SPDX-License-Identifier: BSD-3-Clause
"""Variables of a time series: the chunks and names of an array of every step."""

from __future__ import annotations

import os
from typing import Any

from datamover.arguments import integers
from datamover.errors import InvalidArgument, Mismatch
from datamover.files import growing_array
from datamover.files.state_items import Item
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


class Variable:
    """An array of a series.

    Attributes
    ----------
    name : str
    item : Item
    names : tuple of str
        Names of all dimensions.
    chunks : tuple of int
        Extents of a chunk, without the first dimension.
    """

    def __init__(self, name: str, item: Item, along: str, given: Any, chunks: Any):
        dims = len(item.shape)
        own = tuple(given) if given is not None else tuple(f"{name}_{k}" for k in range(dims))
        if len(own) != dims or not all(isinstance(n, str) for n in own):
            raise InvalidArgument(f"dimensions of {name!r} are {given!r}: {dims} names are needed")
        if along in own:
            raise InvalidArgument(f"{along!r} cannot name another dimension of {name!r}")
        self.name, self.item, self.names = name, item, (along, *own)
        wanted = chunk_shape(item.layout) if chunks is None else integers(chunks, "chunks")
        if len(wanted) != dims or min(wanted, default=1) < 1:
            raise InvalidArgument(f"chunks of {name!r} are {chunks!r}: {dims} extents are needed")
        self.chunks = tuple(wanted)

    def create(self, path: str) -> None:
        """Create the array in a group, without a step."""
        place = os.path.join(path, self.name)
        growing_array.create(place, self.item.shape, self.item.dtype, self.names, self.chunks)

    def check(self, group: Any, rechunk: bool) -> None:
        """Compare with the array in the file, whose chunks are used with `rechunk`."""
        found = group.get(self.name)
        if found is None or not hasattr(found, "chunks"):
            raise Mismatch(f"the series has no array {self.name!r}")
        in_file = (found.shape[1:], found.dtype, found.metadata.dimension_names)
        here = (self.item.shape, self.item.dtype, self.names)
        for what, theirs, ours in zip(("shape", "dtype", "dimensions"), in_file, here, strict=True):
            if theirs != ours:
                raise Mismatch(f"{self.name!r} has {what} {theirs} in the file, {ours} here")
        if found.chunks != (1, *self.chunks):
            if not rechunk or found.chunks[0] != 1:
                raise Mismatch(
                    f"{self.name!r} has chunks {found.chunks} in the file, {(1, *self.chunks)} "
                    "here; pass rechunk=True to keep those of the file"
                )
            self.chunks = found.chunks[1:]
