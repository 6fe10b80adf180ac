# SPDX-License-Identifier: BSD-3-Clause
"""Boxes of chunked arrays: reading them from the chunks that they meet, and writing them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator

import numpy as np

from datamover.errors import InvalidArgument
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape

#: Approximate default size of chunks.
DEFAULT_CHUNK_BYTES = 1 << 20


class ChunkedArray(Reader):
    """An array whose chunks the library reads and decodes.

    Attributes
    ----------
    spec : ArraySpec
    granule : tuple of int
        Extents of a chunk.
    fill_bytes : bytes
        The stored bytes of an element that was never written.
    is_encoded : bool
        Whether chunks have a codec.
    reads_parts : bool
        Whether a part of a chunk can be read without the rest.
    """

    spec: ArraySpec
    granule: Shape
    fill_bytes: bytes
    is_encoded: bool
    reads_parts = False

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a whole chunk as opaque elements; return None if it does not exist."""
        raise NotImplementedError

    #: Whether only one process can write. The others `encode`, it does `put`; see `intermediate`.
    has_one_writer = False

    @property
    def write_copies(self) -> int:
        """Number of temporary copies of a chunk while a thread encodes and writes it."""
        return 2 if self.is_encoded else 0  # numcodecs holds its result twice

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order."""
        raise NotImplementedError

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        out = out.view(np.dtype((np.void, self.spec.dtype.itemsize)))
        hi = tuple(a + n for a, n in zip(lo, out.shape, strict=True))
        for cell, first in self.cells(lo, hi):
            begin = tuple(map(max, first, lo))
            end = tuple(min(f + c, h) for f, c, h in zip(first, self.granule, hi, strict=True))
            self.read_part(cell, within(begin, end, first), out[within(begin, end, lo)])

    def read_part(self, cell: Shape, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Fill `out`, of opaque elements, with a part of a chunk."""
        found = self.read_chunk(cell)
        self.fill(out) if found is None else np.copyto(out, found[part])

    def fill(self, out: np.ndarray) -> None:
        """Fill `out` with the fill value."""
        out[...] = np.frombuffer(self.fill_bytes, out.dtype)[0]

    def is_fill(self, data: np.ndarray) -> bool:
        """Return whether all of contiguous elements have the bytes of the fill value."""
        if not self.may_be_fill(data):
            return False
        octets = data.view(np.uint8)
        if not any(self.fill_bytes):
            return not octets.any()
        # Equal to itself, shifted by an element: needs no temporary of the chunk's size.
        size = len(self.fill_bytes)
        step = 1 << 20
        return all(
            np.array_equal(
                octets[i : i + step][: len(octets) - size - i], octets[i + size :][:step]
            )
            for i in range(0, len(octets) - size, step)
        )

    def may_be_fill(self, data: np.ndarray) -> bool:
        """Return whether the first, the middle and the last element have the fill value."""
        corners = ([0 for n in data.shape], [n // 2 for n in data.shape], [-1 for n in data.shape])
        return all(data[tuple(i)].tobytes() == self.fill_bytes for i in corners)

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on: whole chunks, cut at the array's end.

        Chunks that extend beyond the array get the fill value there.
        """
        array = array.view(np.dtype((np.void, self.spec.dtype.itemsize)))
        hi = tuple(a + n for a, n in zip(lo, array.shape, strict=True))
        for cell, first in self.cells(lo, hi):
            end = tuple(min(f + c, h) for f, c, h in zip(first, self.granule, hi, strict=True))
            part = array[within(first, end, lo)]
            if part.shape == self.granule:
                self.write_view(cell, part)
                continue
            chunk = np.empty(self.granule, array.dtype)
            chunk[...] = np.frombuffer(self.fill_bytes, array.dtype)[0]
            chunk[tuple(map(slice, part.shape))] = part
            self.write_chunk(cell, chunk)

    def write_view(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a whole chunk with any strides."""
        self.write_chunk(cell, np.ascontiguousarray(chunk))

    def cells(self, lo: Shape, hi: Shape) -> Iterator[tuple[Shape, Shape]]:
        """Yield the chunks that a box meets: (index, first element)."""
        ranges = [range(a // c, -(-b // c)) for a, b, c in zip(lo, hi, self.granule, strict=True)]
        for cell in itertools.product(*ranges):
            yield cell, tuple(i * c for i, c in zip(cell, self.granule, strict=True))


def read_fully(fd: int, size: int, offset: int) -> bytes:
    """Read up to a size or the end of a file; the system returns less than 2 GiB at a time."""
    found = os.pread(fd, size, offset)
    while len(found) < size and (more := os.pread(fd, size - len(found), offset + len(found))):
        found += more
    return found


def within(lo: Shape, hi: Shape, first: Shape) -> tuple[slice, ...]:
    """Return the slices of a box in an array that begins at `first`."""
    return tuple(slice(a - f, b - f) for a, b, f in zip(lo, hi, first, strict=True))


def check_boxes(what: str, boxes: Shape | None, spec: ArraySpec) -> None:
    """Check that chunks, or shards, can be those of an array."""
    if boxes is None:
        return
    if len(boxes) != len(spec.shape):
        raise InvalidArgument(
            f"{what} {boxes} have {len(boxes)} dimensions; the output has {len(spec.shape)}: "
            f"{spec.shape}"
        )
    if any(extent < 1 for extent in boxes):
        raise InvalidArgument(f"{what} {boxes} must be positive in every dimension")
    if math.prod(boxes) * spec.dtype.itemsize >= 2**63:
        raise InvalidArgument(f"{what} {boxes} have 2**63 bytes or more each")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the requested chunks, the input's, or nearly cubic ones of a megabyte."""
    if options.chunks is not None:
        return tuple(options.chunks)
    return spec.kept.chunks if spec.kept is not None else nearly_cubic(spec, DEFAULT_CHUNK_BYTES)


def nearly_cubic(spec: ArraySpec, most_bytes: int) -> Shape:
    """Return nearly cubic chunks of at most this size, or of one element."""
    chunks = [max(extent, 1) for extent in spec.shape]
    while math.prod(chunks) * spec.dtype.itemsize > most_bytes and max(chunks) > 1:
        d = chunks.index(max(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)
