# SPDX-License-Identifier: BSD-3-Clause
"""Variables of a time series: the chunks of an array, and the processes that write them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.arguments import integers
from datamover.errors import InvalidArgument, Mismatch
from datamover.files.at_work import do_all
from datamover.files.state_items import Item
from datamover.layouts import BlockCyclic, FloorPlan, Layout


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
    return tuple(max(1, n) for n in layout.domain.shape)


def chunk_layout(layout: Layout, chunks: Sequence[int]) -> FloorPlan:
    """Return the chunks of an array as a floor plan; the owner of its first element has a chunk.

    Examples
    --------
    >>> import datamover as dm
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
    >>> plan = chunk_layout(rows, (2, 3))
    >>> [plan.owner(k) for k in range(len(plan))]
    [0, 0, 1, 1]
    """
    lo, shape = np.asarray(layout.domain.lo), layout.domain.shape
    starts = [range(0, n, c) for n, c in zip(shape, chunks, strict=True)]
    first = np.array(list(itertools.product(*starts)), np.int64).reshape(-1, len(shape))
    regions = np.stack([first, np.minimum(first + chunks, shape)], axis=1) + lo
    # Other kinds of layouts distribute elements too finely to follow.
    owners = np.arange(len(first)) * layout.nprocs // max(len(first), 1)
    if isinstance(layout, FloorPlan):
        for k in reversed(range(len(layout))):
            box = layout.region(k)
            inside = (regions[:, 0] >= box.lo) & (regions[:, 0] < box.hi)
            owners[inside.all(axis=1)] = layout.owner(k)
    elif isinstance(layout, BlockCyclic):
        owners = np.array([layout.owner_of(tuple(at)) for at in first.tolist()], np.int64)
    return FloorPlan(regions, owners, layout.nprocs)


class Variable:
    """An array of a series, and the chunks of a step that this process writes.

    Attributes
    ----------
    name : str
    item : Item
    names : tuple of str
        Names of all dimensions.
    chunks : tuple of int
        Extents of a chunk, without the first dimension.
    parts : dict of int to ndarray
        The elements of this process's chunks of the current step, by the number of the chunk.
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
        self.parts: dict[int, np.ndarray] = {}
        self._boxes: dict[int, tuple[slice, ...]] = {}

    def create(self, group: Any) -> None:
        """Create the array in the file, without a step."""
        group.create_array(
            self.name,
            shape=(0, *self.item.shape),
            chunks=(1, *self.chunks),
            dtype=self.item.dtype,
            dimension_names=self.names,
        )

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

    def allocate(self, rank: int) -> FloorPlan:
        """Allocate this process's chunks of a step, and return the layout of all chunks."""
        layout = chunk_layout(self.item.layout, self.chunks)
        for k in layout.blocks_of(rank):
            region = layout.region(k)
            self.parts[k] = np.zeros(region.shape, self.item.dtype)
            ends = zip(region.lo, region.hi, self.item.origin, strict=True)
            self._boxes[k] = tuple(slice(lo - at, hi - at) for lo, hi, at in ends)
        return layout

    def write(self, group: Any, step: int, threads: int) -> None:
        """Write this process's chunks of a step, which is after the end of the array."""
        array = _longer(group[self.name], step + 1)

        def write(k: int) -> None:
            array[(step, *self._boxes[k])] = self.parts[k]

        do_all(self.parts, write, threads)


def _longer(array: Any, steps: int) -> Any:
    """Return an array with more steps than the file records: its chunks can be written."""
    from zarr.core.array import Array, AsyncArray

    metadata = array.metadata.update_shape((steps, *array.shape[1:]))
    return Array(AsyncArray(metadata=metadata, store_path=array.store_path, config=array.config))
