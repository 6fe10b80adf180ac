# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays that grow step by step along their first dimension, in chunks of one step.

A `Variable` is the array of a time series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import InvalidArgument, Mismatch
from datamover.files import direct_zarr, zarr_group
from datamover.files.chunk_boxes import check_boxes
from datamover.files.chunk_grid import Sizes, grids
from datamover.files.file_arguments import chunk_shape, sizes_for
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape
from datamover.files.names import checked_names, own_names
from datamover.files.zarr_array import ZarrArray, permitting, rebound, store_to_write, zarr_python
from datamover.files.zarr_output import ZarrOutput
from datamover.files.zarr_traits import granule_of

if TYPE_CHECKING:
    from datamover.files.state_items import Item

#: Steps whose numbers share a chunk.
STEPS_IN_CHUNK = 1024


def create(path: str, shape: Shape, dtype: Any, names: Sequence[str], chunks: Sizes = ()) -> Any:
    """Create an array without steps; return it as zarr-python's.

    Parameters
    ----------
    path : str
    shape : tuple of int
        Of a step.
    dtype : dtype
    names : sequence of str
        Names of all dimensions.
    chunks : tuple
        Of a step, as in `MoveOptions`; many steps without dimensions share a chunk.
    """
    steps = 1 if shape else STEPS_IN_CHUNK
    spec = ArraySpec((0, *shape), np.dtype(dtype), dimension_names=tuple(names))
    options = MoveOptions(chunks=(steps, *chunks))
    zarr_group.write_objects(path, ZarrOutput(spec, options).create(path))
    return zarr_python().open_array(path, mode="r+")


class StepWriter(Reader):
    """Writer of one step of an array, which may be after its end, where readers do not see it."""

    def __init__(self, path: str, step: int):
        self._file: Any = direct_zarr.opened(path)
        if self._file is None:
            array = zarr_python().open_array(store_to_write(path), mode="r+")
            # With more steps than the file records, their chunks can be written.
            longer = array.metadata.update_shape((step + 1, *array.shape[1:]))
            self._file = ZarrArray(rebound(array, metadata=longer), path, array.dtype)
        self._step = step
        self.spec = ArraySpec(self._file.spec.shape[1:], self._file.spec.dtype)
        self.granule: Shape = self._file.granule[1:]

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements of the step from index `lo` on."""
        self._file.write((self._step, *lo), array[None])


class Variable:
    """An array of a series.

    Attributes
    ----------
    name : str
    item : Item
    names : tuple of str
        Names of all dimensions.
    chunks : tuple
        As in `MoveOptions`, without the first dimension.
    """

    def __init__(self, name: str, item: Item, along: str, given: Any, chunks: Any):
        own = checked_names(repr(name), given, item.shape) or own_names(name, item.shape)
        if along in own:
            raise InvalidArgument(f"{along!r} cannot name another dimension of {name!r}")
        self.name, self.item, self.names = name, item, (along, *own)
        what, said = f"chunks of {name!r}:", chunk_shape(item.layout) if chunks is None else chunks
        self.chunks = sizes_for(item.layout, said, what)
        check_boxes(what, self.chunks, item.spec())
        self._granule = grids(what, self.chunks, item.shape)

    def check(self, group: Any, rechunk: bool) -> None:
        """Compare with the array in the file, whose chunks are used with `rechunk`."""
        found = permitting(lambda: group.get(self.name), f"{self.name!r}")
        if found is None or not hasattr(found, "dtype"):
            raise Mismatch(f"the series has no array {self.name!r}")
        in_file = (found.shape[1:], found.dtype, found.metadata.dimension_names)
        here = (self.item.shape, self.item.dtype, self.names)
        for what, theirs, ours in zip(("shape", "dtype", "dimensions"), in_file, here, strict=True):
            if theirs != ours:
                raise Mismatch(f"{self.name!r} has {what} {theirs} in the file, {ours} here")
        stored, own = granule_of(found), (1, *self._granule)
        if stored != own and (not rechunk or stored[0] != 1):
            raise Mismatch(
                f"{self.name!r} has chunks {stored} in the file, {own} here; pass rechunk=True to "
                "keep those of the file"
            )
