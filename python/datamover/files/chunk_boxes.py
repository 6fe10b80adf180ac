# SPDX-License-Identifier: BSD-3-Clause
"""Boxes of chunked arrays: reading them from the chunks that they meet, writing, regions, decoding.

A region of an input is a box that is read as if it were the whole input. Chunks are decoded with
bounded memory, whatever their bytes claim: a few kilobytes can decode to gigabytes.
"""

from __future__ import annotations

import math
import operator
import os
import struct
import zlib
from typing import Any

import numpy as np

from datamover import _plan
from datamover.errors import InvalidArgument
from datamover.files.chunk_grid import grids
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape, pieces_of, within

#: Approximate default size of chunks.
DEFAULT_CHUNK_BYTES = 1 << 20
#: Begin and end per dimension, None for that of the array.
Bounds = tuple[tuple[int | None, int | None], ...]

#: zlib's parameter for the header and trailer, by the codec's name.
WBITS = {"gzip": 31, "zlib": 15}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: Bytes of the size field and of the dictionary field in a zstd frame, by two bits each.
SIZE_BYTES, DICTIONARY_BYTES = (0, 2, 4, 8), (0, 1, 2, 4)


def decode(codec: Any, data: bytes, most: int) -> Any:
    r"""Decode a chunk of at most `most` bytes; the caller checks everything else.

    Zstd frames without their size are decoded without this check.

    Raises
    ------
    ValueError
        The decoded chunk is larger.

    Examples
    --------
    >>> import zlib
    >>> from types import SimpleNamespace
    >>> from datamover.files.chunk_boxes import decode
    >>> decode(SimpleNamespace(codec_id="zlib"), zlib.compress(bytes(4)), 4)
    b'\x00\x00\x00\x00'
    """
    if codec.codec_id in WBITS:
        return inflated(data, WBITS[codec.codec_id], most)
    said = said_bytes(codec.codec_id, data)
    if said is not None and said > most:
        raise ValueError(f"it holds {said:,} bytes, not {most:,}")
    return codec.decode(data)


def said_bytes(kind: str, data: bytes) -> int | None:
    """Return the size after decoding that encoded bytes declare; None if they do not."""
    if kind == "zstd":
        return _of_zstd(data)
    if kind in ("blosc", "lz4"):
        at = 4 if kind == "blosc" else 0
        return struct.unpack_from("<I", data, at)[0] if len(data) >= at + 4 else None
    return None


def _of_zstd(data: bytes) -> int | None:
    if len(data) < 5 or not data.startswith(ZSTD_MAGIC):
        return None
    said = data[4]
    has_window = not said >> 5 & 1
    size_bytes = SIZE_BYTES[said >> 6] or (0 if has_window else 1)
    at = 5 + has_window + DICTIONARY_BYTES[said & 3]
    if not size_bytes or len(data) < at + size_bytes:
        return None
    size = int.from_bytes(data[at : at + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size


def inflated(data: bytes, wbits: int, most: int) -> bytes:
    """Decode consecutive streams of gzip, or one of zlib."""
    pieces, left = [], most + 1
    while data and left > 0:
        stream = zlib.decompressobj(wbits)
        pieces.append(stream.decompress(data, left))
        left -= len(pieces[-1])
        if left > 0 and not stream.eof:
            raise ValueError("its compressed bytes end too early")
        data = stream.unused_data.lstrip(b"\0") if wbits == WBITS["gzip"] else b""
    if left == 0:
        raise ValueError(f"it decodes to more than {most:,} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


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
    def read_copies(self) -> int:  # type: ignore[override]
        """Number of temporary copies of a chunk while a thread reads and decodes it."""
        return 2 if self.is_encoded else 1

    @property
    def write_copies(self) -> int:  # type: ignore[override]
        """Number of temporary copies of a chunk while a thread encodes and writes it."""
        return 2 if self.is_encoded else 0  # numcodecs holds its result twice

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order."""
        raise NotImplementedError

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        out = out.view(np.dtype((np.void, self.spec.dtype.itemsize)))
        for cell, first, begin, end in pieces_of(lo, out.shape, self.granule):
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
        for cell, _, begin, end in pieces_of(lo, array.shape, self.granule):
            part = array[within(begin, end, lo)]
            if part.shape == self.granule:
                self.write_chunk(cell, np.ascontiguousarray(part))
                continue
            chunk = np.empty(self.granule, array.dtype)
            chunk[...] = np.frombuffer(self.fill_bytes, array.dtype)[0]
            chunk[tuple(map(slice, part.shape))] = part
            self.write_chunk(cell, chunk)


def read_fully(fd: int, size: int, offset: int) -> bytes:
    """Read up to a size or the end of a file; the system returns less than 2 GiB at a time."""
    found = os.pread(fd, size, offset)
    while len(found) < size and (more := os.pread(fd, size - len(found), offset + len(found))):
        found += more
    return found


def read_into(fd: int, out: np.ndarray, offset: int) -> int:
    """Fill bytes from a file; return how many there are before its end."""
    view = memoryview(out)
    while len(view) and (done := os.preadv(fd, [view], offset + len(out) - len(view))):
        view = view[done:]
    return len(out) - len(view)


def check_boxes(what: str, boxes: Shape | None, spec: ArraySpec) -> None:
    """Check that chunks, or shards, can be those of an array."""
    if boxes is None:
        return
    if len(boxes) != len(spec.shape):
        raise InvalidArgument(
            f"{what} {boxes} have {len(boxes)} dimensions; the output has {len(spec.shape)}: "
            f"{spec.shape}"
        )
    if any(extent < 1 for extent in boxes if not isinstance(extent, tuple)):
        raise InvalidArgument(f"{what} {boxes} must be positive in every dimension")
    most = (max(n, default=1) if isinstance(n, tuple) else n for n in boxes)
    if math.prod(most) * spec.dtype.itemsize >= 2**63:
        raise InvalidArgument(f"{what} {boxes} have 2**63 bytes or more each")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the requested chunks, the input's, or nearly cubic ones of a megabyte."""
    if options.chunks is not None:
        check_boxes("chunks", options.chunks, spec)
        return grids("chunks", options.chunks, spec.shape)
    return spec.kept.chunks if spec.kept is not None else nearly_cubic(spec, DEFAULT_CHUNK_BYTES)


def nearly_cubic(spec: ArraySpec, most_bytes: int) -> Shape:
    """Return nearly cubic chunks of at most this size, or of one element."""
    chunks = [max(extent, 1) for extent in spec.shape]
    while math.prod(chunks) * spec.dtype.itemsize > most_bytes and max(chunks) > 1:
        d = chunks.index(max(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)


def box_of(region: _plan.Region | Bounds, shape: Shape) -> tuple[Shape, Shape]:
    """Return the first index and the extents of a region; negative numbers count from the end.

    A region is a `datamover.Region`, or has a pair of first and end, or a slice, per dimension.

    Raises
    ------
    InvalidArgument
        The region is not inside the array, is empty, or has other dimensions.

    Examples
    --------
    >>> from datamover.files.chunk_boxes import box_of
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
