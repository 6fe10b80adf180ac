# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays that grow step by step along their first dimension, in chunks of one step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.arguments import integers
from datamover.errors import InvalidArgument, Mismatch
from datamover.files import direct_zarr
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.state_items import Item
from datamover.files.zarr_array import ZarrArray
from datamover.files.zarr_output import check_output, create_in
from datamover.files.zarr_store import abandonable_store, zarr_python
from datamover.layouts import BlockCyclic, FloorPlan, Layout


def create(path: str, spec: ArraySpec, chunks: Sequence[int]) -> Any:
    """Create an array without steps; `spec` and chunks are those of one step, names those of all.

    Returns
    -------
    zarr.Array
    """
    shape = (0, *spec.shape)
    options = MoveOptions(chunks=(1, *chunks))
    whole = ArraySpec(shape, spec.dtype, dimension_names=spec.dimension_names)
    return create_in(path, check_output(whole, options), options)


class StepWriter:
    """Writer of one step of an array, which may be behind its end: nobody sees it there yet."""

    def __init__(self, path: str, step: int):
        self._file: Any = direct_zarr.opened(path)
        if self._file is None:
            store = abandonable_store(path)
            array = _longer(zarr_python().open_array(store, mode="r+"), step + 1)
            self._file = ZarrArray(array, path, array.dtype, store=store)
        self._step = step
        self.spec = ArraySpec(self._file.spec.shape[1:], self._file.spec.dtype)
        self.granule: Shape = self._file.granule[1:]
        self.close = self._file.close

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Chunks."""
        return self.granule

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements of the step from index `lo` on."""
        self._file.write((self._step, *lo), array[None])


def _longer(array: Any, steps: int) -> Any:
    """Return an array with more steps than the file records: its chunks can be written."""
    from zarr.core.array import Array, AsyncArray

    metadata = array.metadata.update_shape((steps, *array.shape[1:]))
    return Array(AsyncArray(metadata=metadata, store_path=array.store_path, config=array.config))


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


class Variable:
    """An array of a series.

    Attributes
    ----------
    name : str
    item : Item
    names : tuple of str
        Of all dimensions.
    chunks : tuple of int
        Without the first dimension.
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
        spec = ArraySpec(self.item.shape, self.item.dtype, dimension_names=self.names)
        create(os.path.join(path, self.name), spec, self.chunks)

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
