# SPDX-License-Identifier: BSD-3-Clause
"""Strings of a Zarr chunk, processed without converting all of them to Python objects at once.

Python strings take several times the memory of a decoded chunk, in which each string follows its
length. The chunk is copied unchanged, or converted some strings at a time.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from datamover.files import addresses, bounded_decode, string_sizes
from datamover.files.formats import Shape

#: So many strings at most become Python's at once, and about so many bytes of them.
PIECE_STRINGS, PIECE_BYTES = 1 << 12, 1 << 18
LENGTH = struct.Struct("<I")


def are_plain(array: Any) -> bool:
    """Tell whether chunks of an open array hold strings in such a way, each in an object."""
    if array.shards or array.order != "C" or string_sizes.has_checksum(array):
        return False
    if array.metadata.zarr_format == 2:
        return [codec.codec_id for codec in array.filters or ()] == ["vlen-utf8"]
    kinds = [codec.to_dict()["name"] for codec in array.metadata.codecs]
    return kinds[:1] == ["vlen-utf8"] and len(kinds) == 1 + len(array.compressors)


def several(
    most: int, do: Callable[[Shape], Any], cells: Iterator[Shape]
) -> Iterator[tuple[Shape, Any]]:
    """Do something with chunks, so many at once; give what comes of each, in their order."""
    if most == 1:
        yield from ((cell, do(cell)) for cell in cells)
        return
    threads = ThreadPoolExecutor(most)
    try:
        while some := list(itertools.islice(cells, most)):
            yield from zip(some, threads.map(do, some), strict=True)
    finally:
        threads.shutdown(cancel_futures=True)


class StringChunks:
    """The chunks of an open array of which `are_plain` is true.

    Parameters
    ----------
    array : zarr.Array
    path : str
    most_bytes : int
        That a decoded chunk may have.
    """

    def __init__(self, array: Any, path: str, most_bytes: int):
        self._array, self._most_bytes = array, most_bytes
        self._shape, self._chunks = tuple(array.shape), tuple(array.chunks)
        self._codec = string_sizes.codec_of(array, path)

    def is_encoded_as(self, other: StringChunks) -> bool:
        """Tell whether chunks of another array have the same bytes for the same strings."""
        configs = [one and one.get_config() for one in (self._codec, other._codec)]
        return configs[0] == configs[1]

    def cells(self) -> Iterator[Shape]:
        """Go through the indices of all chunks."""
        counts = [-(-n // c) for n, c in zip(self._shape, self._chunks, strict=True)]
        if 0 not in counts:
            yield from itertools.product(*map(range, counts))

    def name(self, cell: Shape) -> str:
        """Give the name of a chunk's object in the array's store."""
        key = self._array.metadata.encode_chunk_key(cell)
        return f"{self._array.path}/{key}" if self._array.path else key

    def box(self, cell: Shape) -> tuple[slice, ...]:
        """Give the indices of a chunk, as far as the array goes."""
        return tuple(
            slice(i * c, min((i + 1) * c, n))
            for i, c, n in zip(cell, self._chunks, self._shape, strict=True)
        )

    def read(self, cell: Shape) -> bytes | None:
        """Read the encoded bytes of a chunk; None where it is not there."""
        from zarr.core.buffer import default_buffer_prototype

        found = addresses.done(self._array.store.get(self.name(cell), default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def write(self, cell: Shape, encoded: bytes) -> None:
        """Write the encoded bytes of a chunk."""
        from zarr.core.buffer import default_buffer_prototype

        data = default_buffer_prototype().buffer.from_bytes(encoded)
        addresses.done(self._array.store.set(self.name(cell), data))

    def encode(self, strings: bytes) -> bytes:
        """Encode what `decode` gave."""
        return strings if self._codec is None else bytes(self._codec.encode(strings))

    def decode(self, encoded: bytes) -> bytes:
        """Give the bytes of the strings of a chunk.

        Raises
        ------
        Exception
            Whatever a codec says of bytes that it cannot decode; ValueError where they are more
            than memory is there for, or not as many strings as a chunk has.
        """
        found = encoded
        if self._codec is not None:
            found = bytes(bounded_decode.decode(self._codec, encoded, self._most_bytes))
        count = math.prod(self._chunks)
        if len(found) < LENGTH.size or LENGTH.unpack_from(found)[0] != count:
            raise ValueError(f"it does not hold the {count:,} strings of a chunk")
        return found

    def pieces(
        self, cell: Shape, strings: bytes | None
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        """Go through the strings that `decode` gave, some at a time: indices, and strings.

        None stands for a chunk that is not there, and holds the fill value.

        Raises
        ------
        ValueError, struct.error
            They are no UTF-8, or end too early.
        """
        origin = [i * c for i, c in zip(cell, self._chunks, strict=True)]
        source = _Filled(self._array.fill_value) if strings is None else _Walk(strings)
        for first, extents, unit in self._runs():
            done = 0
            while done < extents:
                rows, found = source.take(unit, extents - done)
                lo = [a + b for a, b in zip(origin, self._begin(first, done), strict=True)]
                yield from self._within(lo, found.reshape(self._extents(first, rows)))
                done += rows

    def _runs(self) -> Iterator[tuple[Shape, int, int]]:
        """Cut a chunk into pieces of consecutive strings: first indices, and rows of how many.

        Rows have all indices of the dimensions behind that in which they follow each other.
        """
        if not self._chunks:
            yield (), 1, 1
            return
        d = next(
            d for d in range(len(self._chunks))
            if math.prod(self._chunks[d + 1 :]) <= PIECE_STRINGS
        )  # fmt: skip
        unit = math.prod(self._chunks[d + 1 :])
        for first in itertools.product(*map(range, self._chunks[:d])):
            yield first, self._chunks[d], unit

    def _begin(self, first: Shape, row: int) -> Shape:
        if not self._chunks:
            return ()
        return (*first, row, *(0 for _ in self._chunks[len(first) + 1 :]))

    def _extents(self, first: Shape, rows: int) -> Shape:
        if not self._chunks:
            return ()
        return (*(1 for _ in first), rows, *self._chunks[len(first) + 1 :])

    def _within(
        self, lo: list[int], strings: np.ndarray
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        """Give what of a piece lies in the array, if anything does."""
        hi = [min(a + m, n) for a, m, n in zip(lo, strings.shape, self._shape, strict=True)]
        if all(a < b for a, b in zip(lo, hi, strict=True)):
            here = tuple(slice(0, b - a) for a, b in zip(lo, hi, strict=True))
            yield tuple(map(slice, lo, hi)), strings[here]


class _Walk:
    """Goes through the strings of a decoded chunk."""

    def __init__(self, strings: bytes):
        from numcodecs import VLenUTF8

        self._strings, self._at, self._decoder = strings, LENGTH.size, VLenUTF8()

    def take(self, unit: int, most_rows: int) -> tuple[int, np.ndarray]:
        """Give some of the next rows, of `unit` strings each: how many, and their strings."""
        rows, end = 0, self._at
        while (
            rows < most_rows and (rows + 1) * unit <= PIECE_STRINGS and end - self._at < PIECE_BYTES
        ):
            for _ in range(unit):
                end += LENGTH.size + LENGTH.unpack_from(self._strings, end)[0]
            rows += 1
        found = self._decoder.decode(LENGTH.pack(rows * unit) + self._strings[self._at : end])
        self._at = end
        return rows, found


class _Filled:
    """Has the same string everywhere."""

    def __init__(self, value: str):
        self._value = value

    def take(self, unit: int, most_rows: int) -> tuple[int, np.ndarray]:
        """As of `_Walk`."""
        rows = min(most_rows, PIECE_STRINGS // unit)
        return rows, np.full(rows * unit, self._value, object)
