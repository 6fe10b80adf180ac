# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of HDF5 datasets, which the library's threads decode and encode.

h5py admits one thread at a time. To read, it only finds the offset of a chunk in the file.
To write, HDF5 accepts encoded chunks (`write_direct_chunk`), one thread at a time and from one
process. Shuffling and gzip, which take most of the time, are done before, by all threads of all
processes in parallel (`intermediate.Handover`).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import os
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument
from datamover.files import chunk_boxes, hdf5, hdf5_attributes, hdf5_types
from datamover.files.addresses import failing, needing
from datamover.files.chunk_boxes import ChunkedArray, read_fully, read_into
from datamover.files.chunk_grid import several_extents
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape, grid_of
from datamover.files.hdf5_types import h5py

COMPRESSORS = ("none", "gzip")
#: h5py's default compression level.
GZIP_LEVEL = 4
PAST_END = "the file ends within it"
#: Of each stored chunk: its first index, and its offset in the file, bytes and filter mask.
Rows = list[tuple[int, ...]]
#: Held while the chunks of a dataset are listed, so that only one of its threads does so.
_indexing = threading.Lock()


def shuffle_of(spec: ArraySpec) -> Any:
    """Return numcodecs' shuffle, which is HDF5's."""
    with needing("HDF5 with gzip needs numcodecs", "files"):
        from numcodecs import Shuffle
    return Shuffle(spec.dtype.itemsize)


class ChunkedDataset(hdf5.OpenDataset, ChunkedArray):
    """A chunked dataset, plain or with shuffle and gzip; may be read by several threads."""

    def __post_init__(self) -> None:
        spec, dataset = self.spec, self._dataset
        self.granule: Shape = tuple(dataset.chunks)
        self._filters = filters(dataset)
        self.is_encoded = bool(self._filters)
        self.fill_bytes = hdf5_types.fill_bytes(dataset)
        self._opaque = np.dtype((np.void, spec.dtype.itemsize))
        self._chunk_bytes = math.prod(self.granule) * spec.dtype.itemsize
        self._fd = self._opened_bytes()
        #: The result of `index_of`, once a chunk has been read.
        self._index: Any = None

    def _opened_bytes(self) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC
        return -1 if self._data is not None else os.open(self._place[0], flags)

    def at(self, path: str, shape: Shape, rows: Rows) -> Reader:
        """Return the same dataset in another file, which HDF5 does not open, with its chunks."""
        spec = dataclasses.replace(self.spec, shape=shape)
        sizes = [size for *_, size, _ in rows]
        if not self._filters and shape == self.granule and sizes == [spec.nbytes]:
            return FlatFile(path, spec, rows[0][-3], writable=False)
        found = copy.copy(self)
        found._place, found.spec = (path, self._place[1]), spec
        found._index = numbered(rows, shape, self.granule)
        found._fd = found._opened_bytes()
        return found

    def reopen(self) -> None:
        """Open the file again after `close`."""
        super().reopen()
        self._fd = self._opened_bytes()

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a whole chunk; None if it does not exist and has the fill value."""
        with self._failing_in(cell) as first:
            found = self._place_of(cell, first)
            if found is None:
                return None
            offset, size, mask = found
            data = self._stored(offset, size)
            for k in reversed(range(len(self._filters))):
                if not mask >> k & 1:
                    data = self._decoded(self._filters[k], data)
            if len(data) != self._chunk_bytes:
                raise ValueError(f"it holds {len(data):,} bytes, not {self._chunk_bytes:,}")
        return np.frombuffer(data, self._opaque).reshape(self.granule)

    def read_part(self, cell: Shape, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Fill `out`, of opaque elements, with a part of a chunk; directly if it is the whole."""
        is_whole = out.shape == self.granule and out.flags.c_contiguous
        if is_whole and not self._filters and self._data is None:
            with self._failing_in(cell) as first:
                found = self._place_of(cell, first)
                if found is not None and found[1] == out.nbytes:
                    if read_into(self._fd, out.reshape(-1).view(np.uint8), found[0]) < out.nbytes:
                        raise ValueError(PAST_END)
                    return
        super().read_part(cell, part, out)

    @contextlib.contextmanager
    def _failing_in(self, cell: Shape) -> Iterator[Shape]:
        """Give the first index of a chunk; convert errors of its reading."""
        first = tuple(i * c for i, c in zip(cell, self.granule, strict=True))
        with failing(f"{self._where} cannot be read in the chunk at {first}"):
            yield first

    def _place_of(self, cell: Shape, first: Shape) -> tuple[int, int, int] | None:
        """Return offset and bytes of a chunk in the file, and its filter mask; None without it."""
        with _indexing:
            if self._index is None:
                self._index = index_of(self._dataset)
        numbers, places = self._index
        if places is None:
            info = self._dataset.id.get_chunk_info_by_coord(first)
            found = info.byte_offset, info.size, info.filter_mask
            return None if info.byte_offset is None else found
        number = np.ravel_multi_index(cell, grid_of(self.spec.shape, self.granule))
        k = int(np.searchsorted(numbers, number))
        is_stored = k < len(numbers) and numbers[k] == number
        return tuple(places[k].tolist()) if is_stored else None

    def _stored(self, offset: int, size: int) -> Any:
        if self._data is not None:
            return self._data.read(offset, offset + size)
        data = read_fully(self._fd, size, offset)
        if len(data) < size:
            raise ValueError(PAST_END)
        return data

    def _decoded(self, code: int, data: Any) -> Any:
        if code == h5py.h5z.FILTER_DEFLATE:
            return chunk_boxes.inflated(data, chunk_boxes.WBITS["zlib"], self._chunk_bytes)
        return shuffle_of(self.spec).decode(data)

    def close(self) -> None:
        """Close the file."""
        super().close()
        fd, self._fd = self._fd, -1  # it is closed even if the system reports an error
        if fd >= 0:
            os.close(fd)


def index_of(dataset: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the numbers of the stored chunks, ascending, and each one's offset, bytes and mask.

    HDF5 searches all chunks for each one that it is asked for. The places are None if this version
    of HDF5 cannot list them, or lists others than it finds: some count offsets from another place.
    """
    rows = rows_of(dataset.id)
    if rows is None:
        return np.empty(0, np.int64), None
    return numbered(rows, dataset.shape, dataset.chunks)


def rows_of(held: Any) -> Rows | None:
    """Return first index, offset, bytes and mask of each stored chunk; None if not known."""
    rows: Rows = []
    if not hasattr(held, "chunk_iter"):
        return None

    def row(info: Any) -> tuple[int, ...]:
        return (*info.chunk_offset, info.byte_offset, info.size, info.filter_mask)

    held.chunk_iter(lambda info: rows.append(row(info)))
    for found in rows and (rows[0], rows[-1]):
        if row(held.get_chunk_info_by_coord(found[:-3])) != found:
            return None
    return rows


def numbered(rows: Rows, shape: Shape, chunks: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of an array's chunks."""
    listed = np.array(rows, np.int64).reshape(len(rows), len(shape) + 3)
    first, places = listed[:, :-3], listed[:, -3:]
    within = (first < shape).all(axis=1)  # a dataset that shrank may have others
    first, places = first[within], places[within]
    numbers = np.ravel_multi_index(tuple((first // chunks).T), grid_of(shape, chunks))
    order = np.argsort(numbers)
    return numbers[order], places[order]


def filters(dataset: Any) -> list[int]:
    """Return the codes of a dataset's filters, in the order in which they encode."""
    said = dataset.id.get_create_plist()
    return [said.get_filter(k)[0] for k in range(said.get_nfilters())]


def is_compressed(dataset: Any) -> bool:
    """Return whether any filter makes chunks smaller in the file than in memory."""
    h5z = h5py.h5z
    return bool(set(filters(dataset)) - {h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32})


@dataclasses.dataclass(frozen=True, repr=False)
class GrowingOptions(MoveOptions):
    """Options of a dataset that may grow to extents of `most`; None is unlimited."""

    most: tuple[int | None, ...] | None = None


def most_of(options: MoveOptions) -> tuple[int | None, ...] | None:
    """Return the extents to which a dataset may grow; None if they are its own."""
    return getattr(options, "most", None)


def is_chunked(spec: ArraySpec, options: MoveOptions) -> bool:
    """Return whether chunks are requested, after a check of the options. Empty arrays have none.

    Raises
    ------
    InvalidArgument
    """
    if (options.compressor or "none") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r} of HDF5; there are {', '.join(COMPRESSORS)}"
        )
    said = options.chunks is not None or options.compressor is not None
    if not spec.shape and said:
        raise InvalidArgument("an array of one element has no chunks in HDF5")
    return said and spec.nbytes > 0


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the requested chunks, the input's, or ones of a megabyte, within the array.

    The input's chunks stay if the array may grow, as one of a few records.
    """
    chunks = chunk_boxes.chunk_shape(spec, options)
    if several_extents(chunks):
        if options.chunks is not None:
            raise InvalidArgument(f"chunks {chunks}: HDF5 has one extent per dimension")
        chunks = chunk_boxes.nearly_cubic(spec, chunk_boxes.DEFAULT_CHUNK_BYTES)
    most = most_of(options) if options.chunks is None else None
    limits = (c if n is None else n for c, n in zip(chunks, most or spec.shape, strict=True))
    return tuple(map(min, chunks, limits))


def set_chunks(properties: Any, spec: ArraySpec, options: MoveOptions) -> None:
    """Set the filters and extents of the chunks of a new dataset."""
    if options.compressor == "gzip":
        properties.set_shuffle()
        properties.set_deflate(GZIP_LEVEL)
    chunks = chunk_shape(spec, options)
    with hdf5_types.refusing(f"HDF5 cannot hold chunks {chunks} of dtype {spec.dtype}"):
        properties.set_chunk(chunks)


class ChunkedOutput(hdf5.OpenOutput, ChunkedArray):
    """A chunked dataset that several threads write.

    Parameters
    ----------
    path, name : str
        Names of a dataset that `create_dataset` created; an empty path is for planning only.
    spec : ArraySpec
    options : MoveOptions
    """

    has_one_writer = True

    def __init__(self, path: str, name: str, spec: ArraySpec, options: MoveOptions):
        self.granule = chunk_shape(spec, options)
        self.is_encoded = options.compressor == "gzip"
        fill = hdf5_attributes.fill_bytes(spec)
        self.fill_bytes = fill or bytes(spec.dtype.itemsize)
        self._leaves_out_fill = fill is not None
        super().__init__(path, name, spec)

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order."""
        self.put(cell, self.encode(chunk))

    def encode(self, chunk: np.ndarray) -> Any:
        """Return the bytes to store in the file; None if all elements are fill value.

        Any process may call it.
        """
        elems = np.ascontiguousarray(chunk).reshape(-1)
        if self._leaves_out_fill and self.is_fill(elems):
            return None
        data = elems.view(np.uint8)
        if not self.is_encoded:
            return data
        return zlib.compress(shuffle_of(self.spec).encode(data), GZIP_LEVEL)

    def put(self, cell: Shape, data: Any) -> None:
        """Write an encoded chunk; for None, HDF5 returns the fill value without a chunk."""
        if data is None:
            return
        first = tuple(i * c for i, c in zip(cell, self.granule, strict=True))
        with self.naming_errors():
            self._dataset.id.write_direct_chunk(first, data)
