# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of input and output, in the dimensions of the output's file, and checksums of these."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from datamover._plan import crc32c
from datamover.errors import InvalidArgument, IoFailed, NoMemory
from datamover.files.at_work import do_all
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.chunk_grid import chunks_in, is_begin, several, window
from datamover.files.chunk_plan import (
    ChunkPlan,
    Limits,
    Pair,
    Side,
    least_bytes,
    plan_chunks,
    runs,
)
from datamover.files.flat import Scratch
from datamover.files.formats import ArraySpec, Reader, Shape, grid_of

#: Minimum size of contiguous pieces of files, if memory allows.
GOOD_RUN_BYTES = 64 << 10
#: Pieces of flat files, in order of preference.
FLAT_PIECE_BYTES = (4 << 20, 1 << 20, 1 << 18, 1 << 14, 1 << 10, 64, 1)
#: Minimum length of the pieces that are copied between files of different order: an element that is
#: written separately costs as much as a cache line.
COPY_BYTES = 64
#: Parts of the memory limit for a box of a flat file.
FLAT_BOX_PARTS = (8, 16, 64, 256)
#: Temporary copies of a box that is read from several chunks, or parts of a shard.
READ_COPIES = Reader.read_copies
#: Part of the memory limit for reading a shard; larger shards are read in parts.
SHARD_PARTS = 4

KINDS = ("crc32c",)


class Checksums:
    """Checksums of the boxes that this process wrote, to compare with those of the file.

    Parameters
    ----------
    kind : str
        "crc32c".
    dtype : numpy.dtype
        Dtype of the written elements.

    Raises
    ------
    InvalidArgument
        The kind is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from datamover.files.chunk_sides import Checksums
    >>> sums = Checksums("crc32c", np.dtype("u1"))
    >>> sums.add((0,), np.frombuffer(b"123456789", "u1"))
    >>> [hex(found) for _, found in sums.boxes.values()]
    ['0xe3069283']
    """

    def __init__(self, kind: str, dtype: np.dtype):
        if kind not in KINDS:
            raise InvalidArgument(f"check is {kind!r}; there is {', '.join(KINDS)}")
        self._dtype = dtype
        self._lock = threading.Lock()
        #: Extents and checksum of the elements in C order, by first index.
        self.boxes: dict[Shape, tuple[Shape, int]] = {}

    def _of(self, array: np.ndarray, dtype: np.dtype) -> int:
        """Return the checksum of elements, independent of their byte order and gaps in a file."""
        plain = _plain(dtype)
        elements = array.view(dtype)
        return crc32c((elements if plain == dtype else elements.astype(plain)).tobytes())

    def add(self, lo: Shape, array: np.ndarray) -> None:
        """Add a box that is written. May be called by several threads."""
        found = self._of(array, self._dtype)
        with self._lock:
            self.boxes[lo] = array.shape, found

    def verify(self, reader: Any, path: str, threads: int) -> None:
        """Read all boxes and compare.

        Raises
        ------
        IoFailed
            A checksum differs.
        """

        def check(box: tuple[Shape, tuple[Shape, int]]) -> None:
            lo, (shape, expected) = box
            out = np.empty(shape, np.dtype((np.void, reader.spec.dtype.itemsize)))
            reader.read(lo, out)
            if self._of(out, reader.spec.dtype) != expected:
                raise IoFailed(
                    f"{path} does not hold what was written, from index {lo} on: the checksum "
                    "differs"
                )

        do_all(list(self.boxes.items()), check, threads)


def _plain(dtype: np.dtype) -> np.dtype:
    """Return a dtype in little endian, and records without gaps."""
    if dtype.names is None:
        return dtype.newbyteorder("<")
    return np.dtype([(name, _plain(dtype[name])) for name in dtype.names])


def contiguous(shape: Shape, axes: Shape, itemsize: int, target_bytes: int) -> Shape:
    """Return boxes of about `target_bytes` that are contiguous in the file.

    Parameters
    ----------
    shape, axes : tuple of int
        Extents, and the dimensions from the slowest to the fastest in the file.
    itemsize, target_bytes : int

    Examples
    --------
    >>> from datamover.files.chunk_sides import contiguous
    >>> contiguous((100, 8, 16), (0, 1, 2), 4, 2048)
    (4, 8, 16)
    """
    return grown((1,) * len(shape), shape, [axes], itemsize, target_bytes, target_bytes)


def grown(
    start: Shape,
    shape: Shape,
    orders: list[Shape],
    itemsize: int,
    limit_bytes: int,
    good_run_bytes: int = GOOD_RUN_BYTES,
) -> Shape:
    """Enlarge a box until its pieces are long in every given order of the dimensions.

    Parameters
    ----------
    start, shape : tuple of int
        Box to begin with; extents of the array. Boxes are multiples of it.
    orders : list of tuple of int
        Dimensions from the slowest to the fastest, for each file that holds the boxes.
    itemsize, limit_bytes, good_run_bytes : int

    Examples
    --------
    >>> from datamover.files.chunk_sides import grown
    >>> grown((1, 1), (1024, 1024), [(0, 1), (1, 0)], 4, 1 << 22)
    (1024, 1024)
    """
    box = [min(b, n) for b, n in zip(start, shape, strict=True)]

    def run_bytes(order: Shape) -> int:
        return math.prod(box) * itemsize // runs(tuple(box), shape, order)

    def room(d: int) -> int:
        """Return the largest extent of a dimension that the limit allows."""
        most = limit_bytes // (math.prod(box) // int(box[d]) * itemsize)
        return shape[d] if most >= shape[d] else max(box[d], _at_most(start[d], most))

    while True:
        for order in sorted(orders, key=run_bytes):
            if run_bytes(order) >= good_run_bytes:
                continue
            d = next((d for d in reversed(order) if box[d] < shape[d]), None)
            if d is None:
                continue
            wanted = -(-good_run_bytes // run_bytes(order)) * box[d]
            wanted = shape[d] if 2 * wanted > shape[d] else _at_most(start[d], wanted)
            extent = min(room(d), max(wanted, box[d]))
            if extent < shape[d]:
                extent = _even_multiple(shape[d], extent, start[d])
            if extent > box[d]:
                box[d] = extent
                break
        else:
            return tuple(box)


def _at_most(unit: int, most: int) -> int:
    """Return the largest multiple of `unit` that is at most `most`, or one unit."""
    return several(unit, max(most // int(unit), 1))


def _even_multiple(extent: int, most: int, unit: int) -> int:
    """Return a multiple of `unit`, at most `most`, that cuts an extent into nearly equal pieces."""
    units = chunks_in(extent, unit)
    pieces = -(-units // max(int(most) // int(unit), 1))
    return several(unit, -(-units // pieces))


class Source:
    """An open input, or a region of it, from which several threads read boxes.

    Parameters
    ----------
    reader : Reader
    axes : tuple of int
        Dimension k of the output's file is dimension axes[k] of the input.
    dtype : numpy.dtype, optional
        Dtype to which elements are converted after reading.
    origin, extents : tuple of int, optional
        First index and extents of the region, in the dimensions of the input.
    """

    def __init__(
        self, reader: Any, axes: Shape, dtype: np.dtype | None = None, origin: Shape | None = None,
        extents: Shape | None = None,
    ):  # fmt: skip
        self._reader = reader
        self._axes = axes
        self._back = tuple(int(a) for a in np.argsort(axes))
        self._origin = origin or (0,) * len(axes)
        if extents is not None:
            self._granule = tuple(map(window, reader.granule, self._origin, extents))
        else:
            self._granule = reader.granule
        self._stored = reader.spec.dtype
        self.dtype = self._stored if dtype is None else dtype
        #: Bytes of an element after conversion.
        self.itemsize = self.dtype.itemsize
        self.is_flat = reader.is_flat
        begins_within = not all(map(is_begin, self._origin, reader.granule))
        self._has_chunks = isinstance(reader, ChunkedArray) and not begins_within
        self._copies = READ_COPIES if begins_within else reader.read_copies
        self._dtype = np.dtype((np.void, self._stored.itemsize))

    @property
    def chunk(self) -> Shape:
        """Extents of a chunk, in the dimensions of the output's file."""
        return tuple(self._granule[a] for a in self._axes)

    def chunk_within(self, max_bytes: int) -> Shape:
        """Return the extents of a chunk, or of a part of a shard that is large for the limit."""
        parts = self._reader.parts
        if parts is None:
            return self.chunk
        counts = [n // part for n, part in zip(self._reader.granule, parts, strict=True)]
        while READ_COPIES * self._parts_bytes(counts) * SHARD_PARTS > max_bytes:
            d = int(np.argmax(counts))
            if counts[d] == 1:
                break
            counts[d] = next(n for n in range(counts[d] // 2, 0, -1) if counts[d] % n == 0)
        return tuple(counts[a] * parts[a] for a in self._axes)

    def _parts_bytes(self, counts: Sequence[int]) -> int:
        """Return the bytes of the parts of a shard that a box of these extents may meet."""
        met = (
            min((count + (first % part != 0)) * part, whole)
            for count, first, part, whole in zip(
                counts, self._origin, self._reader.parts, self._reader.granule, strict=True
            )
        )
        return math.prod(met) * self._stored.itemsize

    @property
    def file_axes(self) -> Shape:
        """The dimensions of the output's file in the order of the input's, slowest first."""
        return self._back if self._reader.spec.order == "C" else self._back[::-1]

    def side(self, chunk: Shape) -> Side:
        """Describe the input as read in boxes of this shape."""
        elems = math.prod(chunk)
        nbytes = elems * self._stored.itemsize
        if parts := self._reader.parts:
            given = tuple(chunk[b] for b in self._back)
            nbytes = self._parts_bytes(grid_of(given, parts))
        scratch_bytes = self._copies * nbytes
        if self.dtype != self._stored:
            scratch_bytes += elems * self.itemsize
        is_cut = self._reader.is_cut
        return Side(chunk, () if is_cut else self.file_axes, scratch_bytes, self.is_flat or is_cut)

    def read(self, cell: Shape, lo: Shape, hi: Shape, scratch: Scratch) -> tuple[np.ndarray, Shape]:
        """Read a box inside a chunk, or more of the chunk.

        Returns
        -------
        array : ndarray
            Opaque elements, in the dimensions of the output's file.
        first : tuple of int
            Index of its first element.
        """
        array, first = self._read(cell, lo, hi, scratch)
        if self.dtype == self._stored:
            return array, first
        with np.errstate(all="ignore"):  # numbers that are too large become infinite, as in NumPy
            converted = array.view(self._stored).astype(self.dtype)
        return converted.view(np.dtype((np.void, self.itemsize))), first

    def _read(
        self, cell: Shape, lo: Shape, hi: Shape, scratch: Scratch
    ) -> tuple[np.ndarray, Shape]:
        reader = self._reader
        if self._has_chunks:
            begins = zip(self._back, self._origin, reader.granule, strict=True)
            found = reader.read_chunk(tuple(cell[b] + a // n for b, a, n in begins))
            if found is None:
                fill = np.frombuffer(reader.fill_bytes, self._dtype)
                return np.broadcast_to(fill, [b - a for a, b in zip(lo, hi, strict=True)]), lo
            first = tuple(i * c for i, c in zip(cell, self.chunk, strict=True))
            return found.transpose(self._axes), first
        shape = tuple(hi[b] - lo[b] for b in self._back)
        memory = scratch.memory(math.prod(shape) * self._dtype.itemsize)
        out = np.ndarray(shape, self._dtype, memory, order=reader.spec.order)
        reader.read(tuple(lo[b] + a for b, a in zip(self._back, self._origin, strict=True)), out)
        return out.transpose(self._axes), lo


class Sink:
    """An open output, to which several threads write chunks.

    Parameters
    ----------
    writer : Reader with `write` or `write_chunk`, or None
        None is a flat file that does not exist yet, for planning only.
    spec : ArraySpec
    sums : Checksums, optional
        Receives all written boxes.
    """

    def __init__(self, writer: Any, spec: ArraySpec, sums: Checksums | None = None):
        self._writer = writer
        self._sums = sums
        self._spec = spec
        self._has_chunks = isinstance(writer, ChunkedArray)
        self.is_flat = writer is None or writer.is_flat
        #: Bytes of chunks beyond the array; None if chunks end with it.
        self.fill_bytes: bytes | None = writer and writer.fill_bytes

    @property
    def shape(self) -> Shape:
        """Extents of the array, in the dimensions of the file."""
        return self._of_file(self._spec.shape)

    @property
    def chunk(self) -> Shape:
        """Extents of a chunk, in the dimensions of the file."""
        return self._of_file(self._writer.granule)

    def side(self, chunk: Shape) -> Side:
        """Describe the output as written in boxes of this shape."""
        nbytes = math.prod(chunk) * self._spec.dtype.itemsize
        copies = 1 if self.is_flat else self._writer.write_copies
        return Side(chunk, tuple(range(len(chunk))), copies * nbytes, self.is_flat)

    def write(self, lo: Shape, chunk: np.ndarray) -> None:
        """Write a chunk that begins at `lo`, including its part beyond the array."""
        ends: list[Any] = [slice(0, n - a) for n, a in zip(self.shape, lo, strict=True)]
        part = chunk[(*ends, ...)]  # an array also if it is a single element
        first, part = (lo, part) if self._spec.order == "C" else (lo[::-1], part.T)
        if self._sums is not None:
            self._sums.add(first, part)
        if self._has_chunks:
            cell = tuple(a // c for a, c in zip(lo, chunk.shape, strict=True))
            self._writer.write_chunk(cell, chunk)
        else:
            self._writer.write(first, part)

    def _of_file(self, per_dimension: Shape) -> Shape:
        return tuple(per_dimension if self._spec.order == "C" else per_dimension[::-1])


def enough_bytes(source: Source, sink: Sink, limits: Limits) -> int:
    """Return a limit for which a plan exists, at most a little above the least one."""
    limit = limits.max_bytes
    while True:
        limit = max(limit + limit // 8 + 1, least_bytes(_pairs(source, sink, limit)))
        with contextlib.suppress(NoMemory):
            cheapest(source, sink, dataclasses.replace(limits, max_bytes=limit))
            return limit


def cheapest(source: Source, sink: Sink, limits: Limits, **said: Any) -> ChunkPlan:
    """Find the plan with the least cost; other parameters are those of `plan_chunks`."""
    return plan_chunks(_pairs(source, sink, limits.max_bytes), limits, **said)


def _pairs(source: Source, sink: Sink, max_bytes: int) -> list[Pair]:
    """Return the possible chunks of both sides; flat files leave a choice."""
    return [
        Pair(sink.shape, source.itemsize, source.side(read), sink.side(written))
        for read, written in dict.fromkeys(_boxes(source, sink, max_bytes))
    ]


def _boxes(source: Source, sink: Sink, max_bytes: int) -> Iterator[tuple[Shape, Shape]]:
    if not source.is_flat and not sink.is_flat:
        yield source.chunk_within(max_bytes), sink.chunk
        return
    shape, itemsize = sink.shape, source.itemsize
    orders = [source.file_axes, tuple(range(len(shape)))]
    pieces = [n for n in FLAT_PIECE_BYTES if n * 4 <= max_bytes or n == 1]
    limits = [max_bytes // part for part in FLAT_BOX_PARTS]
    if source.is_flat and sink.is_flat:
        for n in pieces:
            read, written = (contiguous(shape, order, itemsize, n) for order in orders)
            yield read, written
            yield _widened(read, shape, orders[1][-1], itemsize), written
        for limit in limits:
            tile = grown((1,) * len(shape), shape, orders, itemsize, limit)
            yield tile, tile
        return
    given = sink.chunk if source.is_flat else source.chunk_within(max_bytes)
    order = orders[0 if source.is_flat else 1]
    boxes = [contiguous(shape, order, itemsize, n) for n in pieces]
    boxes += [grown(given, shape, [order], itemsize, limit) for limit in limits]
    boxes.append(tuple(map(min, given, shape)))
    for box in boxes:
        yield (box, sink.chunk) if source.is_flat else (given, box)


def _widened(box: Shape, shape: Shape, dim: int, itemsize: int) -> Shape:
    """Enlarge a box along a dimension to pieces of `COPY_BYTES`, at most to the whole array."""
    wanted = -(-COPY_BYTES // itemsize)
    return tuple(
        max(b, min(wanted, n)) if d == dim else b
        for d, (b, n) in enumerate(zip(box, shape, strict=True))
    )
