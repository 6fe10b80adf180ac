# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays that grow step by step along their first dimension, in chunks of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.files import direct_zarr
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.zarr import ZarrOutput
from datamover.files.zarr_array import ZarrArray
from datamover.files.zarr_store import abandonable_store, rebound, zarr_python

#: Steps whose numbers share a chunk.
STEPS_IN_CHUNK = 1024


def create(path: str, shape: Shape, dtype: Any, names: Sequence[str], chunks: Shape = ()) -> Any:
    """Create an array without steps; return it as zarr-python's.

    Parameters
    ----------
    path : str
    shape : tuple of int
        Of a step.
    dtype : dtype
    names : sequence of str
        Names of all dimensions.
    chunks : tuple of int
        Of a step; many steps without dimensions share a chunk.
    """
    steps = 1 if shape else STEPS_IN_CHUNK
    spec = ArraySpec((0, *shape), np.dtype(dtype), dimension_names=tuple(names))
    options = MoveOptions(chunks=(steps, *chunks))
    ZarrOutput(spec, options).create(path)
    return zarr_python().open_array(path, mode="r+")


class StepWriter:
    """Writer of one step of an array, which may be after its end, where readers do not see it."""

    def __init__(self, path: str, step: int):
        self._file: Any = direct_zarr.opened(path)
        if self._file is None:
            array = zarr_python().open_array(abandonable_store(path), mode="r+")
            # With more steps than the file records, their chunks can be written.
            longer = array.metadata.update_shape((step + 1, *array.shape[1:]))
            self._file = ZarrArray(rebound(array, metadata=longer), path, array.dtype)
        self._step = step
        self.spec = ArraySpec(self._file.spec.shape[1:], self._file.spec.dtype)
        self.granule: Shape = self._file.granule[1:]
        self.close = self._file.close

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Return the extents of a chunk."""
        return self.granule

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements of the step from index `lo` on."""
        self._file.write((self._step, *lo), array[None])
