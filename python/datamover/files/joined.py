# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of several files as one array, joined along a dimension."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files.described import named
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape
from datamover.files.zarr_output import chunk_shape

#: Files kept open; each takes two descriptors.
MOST_OPEN = 40
#: Maximum size of a box that is a whole file because its chunks do not fit its length.
WHOLE_FILE_BYTES = 1 << 24


@dataclasses.dataclass(frozen=True)
class Part:
    """The part of a joined array in one file.

    Attributes
    ----------
    path : str
    length : int
        Along the joined dimension.
    open : callable
        (MoveOptions) -> a `Reader`.
    convert : callable, optional
        Converts elements to those of the joined array; raises ValueError if that is not exact.
    """

    path: str
    length: int
    open: Callable[[MoveOptions], Any]
    convert: Callable[[np.ndarray], np.ndarray] | None = None


def with_length(shape: tuple[Any, ...], axis: int, length: int) -> tuple[Any, ...]:
    """Return a shape, or other values for each dimension, with another one along an axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])


class JoinedArray(Reader):
    """An array of several files, one after the other along a dimension; a `Reader`.

    Files are opened when they are read, and few stay open. Several threads may read.

    Parameters
    ----------
    name : str
        Of the array.
    parts : sequence of Part
    axis : int
        The joined dimension.
    spec : ArraySpec
        That of the output, except for the length along the joined dimension.
    options : MoveOptions
        By which the parts are opened.
    """

    def __init__(
        self, name: str, parts: Sequence[Part], axis: int, spec: ArraySpec, options: MoveOptions
    ):
        self._name, self._parts, self._axis, self._first = name, parts, axis, spec
        self._options = options
        ends = np.cumsum([part.length for part in parts]).tolist()
        self._begins = [0, *ends[:-1]]
        self.spec = dataclasses.replace(spec, shape=with_length(spec.shape, axis, ends[-1]))
        self._lock = threading.Lock()
        self._open: dict[int, list[Any]] = {}  # [reader, users] by part, the last used at the end
        with self._opened(len(parts) - 1) as reader:
            self.granule: Shape = self._boxes(reader)

    def _boxes(self, reader: Any) -> Shape:
        """Return the boxes that are read as a whole: chunks, or files if chunks end within them."""
        has_chunks = not isinstance(reader, FlatFile)
        found = list(reader.granule if has_chunks else chunk_shape(self._first, MoveOptions()))
        lengths = Counter(part.length for part in self._parts)
        usual = lengths.most_common(1)[0][0]
        along = min(found[self._axis], max(lengths))
        if any(length % along for length in lengths):
            found[self._axis] = usual
            if math.prod(found) * self.spec.dtype.itemsize <= WHOLE_FILE_BYTES:
                along = usual
        found[self._axis] = along
        return tuple(found)

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        begin, end = lo[self._axis], lo[self._axis] + out.shape[self._axis]
        at = begin
        while at < end:
            k = bisect.bisect_right(self._begins, at) - 1
            part, first = self._parts[k], self._begins[k]
            stop = min(end, first + part.length)
            here = [slice(None)] * out.ndim
            here[self._axis] = slice(at - begin, stop - begin)
            there = list(lo)
            there[self._axis] = at - first
            self._read_part(k, tuple(there), out[tuple(here)])
            at = stop

    def _read_part(self, k: int, lo: Shape, out: np.ndarray) -> None:
        part = self._parts[k]
        with self._opened(k) as reader:
            reader.read(lo, out)
        if part.convert is not None:
            elements = out.view(self.spec.dtype)
            try:
                elements[...] = part.convert(elements)
            except ValueError as e:
                raise IoFailed(
                    f"{named(part.path, self._name)}: {e} has no exact value in the units of "
                    f"{self._parts[0].path}"
                ) from None

    @contextlib.contextmanager
    def _opened(self, k: int) -> Iterator[Any]:
        """Open a part; those that were not used for the longest time are closed."""
        with self._lock:
            held = self._open.pop(k, None) or [self._reader(k), 0]
            self._open[k] = held
            held[1] += 1
            for other in list(self._open):
                if len(self._open) > MOST_OPEN and self._open[other][1] == 0:
                    self._open.pop(other)[0].close()
        try:
            yield held[0]
        finally:
            with self._lock:
                held[1] -= 1

    def _reader(self, k: int) -> Any:
        part = self._parts[k]
        reader: Any = part.open(self._options)
        spec = reader.spec
        if (spec.shape, spec.dtype) != (
            with_length(self._first.shape, self._axis, part.length),
            self._first.dtype,
        ):
            reader.close()
            raise IoFailed(f"{part.path} has changed since the move began")
        return reader

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._open:
                self._open.popitem()[1][0].close()
