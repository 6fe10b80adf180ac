# SPDX-License-Identifier: BSD-3-Clause
"""Region of an input: a box that is read as if it were the whole input."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np

from datamover import _plan
from datamover.errors import InvalidArgument
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, Reader, Shape

#: Begin and end per dimension, None for that of the array.
Bounds = tuple[tuple[int | None, int | None], ...]


def box_of(region: _plan.Region | Bounds, shape: Shape) -> tuple[Shape, Shape]:
    """Return the first index and the extents of a region; negative numbers count from the end.

    A region is a `datamover.Region`, or has a pair of first and end, or a slice, per dimension.

    Raises
    ------
    InvalidArgument
        The region is not inside the array, is empty, or has other dimensions.

    Examples
    --------
    >>> from datamover.files.region import box_of
    >>> box_of(((0, 10), (None, None), (-3, -1)), (100, 5, 8))
    ((0, 0, 5), (10, 5, 2))
    """
    pairs = _pairs_of(region)
    if len(pairs) != len(shape):
        raise InvalidArgument(
            f"the region has {len(pairs)} dimensions, the input has {len(shape)}: {shape}"
        )
    lo, extents = [], []
    for d, ((begin, end), n) in enumerate(zip(pairs, shape, strict=True)):
        first = 0 if begin is None else begin + n if begin < 0 else begin
        last = n if end is None else end + n if end < 0 else end
        if (begin, end) != (None, None) and not 0 <= first < last <= n:
            raise InvalidArgument(
                f"the region is {'' if begin is None else begin}:{'' if end is None else end} in "
                f"dimension {d}, which has {n} indices; it must select some of them"
            )
        lo.append(first)
        extents.append(last - first)
    return tuple(lo), tuple(extents)


def _pairs_of(region: Any) -> list[tuple[int | None, int | None]]:
    """Return first and end of each dimension, from any form of a region."""
    if isinstance(region, _plan.Region):
        return list(zip(region.lo, region.hi, strict=True))
    pairs: list[tuple[int | None, int | None]] = []
    try:
        for one in region:
            is_slice = isinstance(one, slice) and one.step in (None, 1)
            bounds = (one.start, one.stop) if is_slice else one
            begin, end = (None if bound is None else operator.index(bound) for bound in bounds)
            pairs.append((begin, end))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"the region is {region!r}; it must be a datamover.Region, or have a pair of first and "
            "end, or a slice without a step, for each dimension"
        ) from None
    return pairs


def limited(reader: Any, region: _plan.Region | Bounds) -> Any:
    """Return an open input restricted to a region."""
    lo, shape = box_of(region, reader.spec.shape)
    if isinstance(reader, FlatFile):
        reader.limit_to(lo, shape)
        return reader
    aligned = all(a % g == 0 for a, g in zip(lo, reader.granule, strict=True))
    kind = _RegionOfChunks if aligned and isinstance(reader, ChunkedArray) else _RegionOfAny
    return kind(reader, lo, dataclasses.replace(reader.spec, shape=shape))


class _Region(Reader):
    """A region of the input `_reader`."""

    _reader: Any

    def check_unchanged(self) -> None:
        """Call that of the input."""
        self._reader.check_unchanged()

    def close(self) -> None:
        """Close the input."""
        self._reader.close()

    def reopen(self) -> None:
        """Open the input again."""
        self._reader.reopen()


class _RegionOfChunks(_Region, ChunkedArray):
    """A region that begins at the begin of a chunk."""

    def __init__(self, reader: Any, lo: Shape, spec: ArraySpec):
        self._reader = reader
        self._first = tuple(a // g for a, g in zip(lo, reader.granule, strict=True))
        self.spec, self.granule = spec, reader.granule
        self.fill_bytes, self.is_encoded = reader.fill_bytes, reader.is_encoded

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a whole chunk."""
        return self._reader.read_chunk(tuple(map(sum, zip(cell, self._first, strict=True))))


class _RegionOfAny(_Region):
    """A region of any input; chunks that meet several of its pieces are read for each of them."""

    def __init__(self, reader: Any, lo: Shape, spec: ArraySpec):
        self._reader, self._lo = reader, lo
        self.spec, self.granule = spec, reader.granule
        #: That of the input.
        self.parts: Shape | None = getattr(reader, "parts", None)
        #: Dimensions in which the region, and therefore its boxes, begin inside a part.
        self.begins_within = self.parts and tuple(
            a % n != 0 for a, n in zip(lo, self.parts, strict=True)
        )

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` of the region on."""
        self._reader.read(tuple(map(sum, zip(lo, self._lo, strict=True))), out)
