# SPDX-License-Identifier: BSD-3-Clause
"""Flat files: reading and writing of boxes of an array that a file stores as one piece.

Data that is not contiguous is copied through scratch memory. Each thread reuses the same memory,
which fits into the second-level cache. The system would have to clear fresh memory first, and large
scratch memory would not stay in the cache.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
import threading
from typing import Any

import numpy as np

from datamover import _plan
from datamover.errors import IoFailed, Unsupported
from datamover.files.addresses import AddressBytes
from datamover.files.chunk_boxes import read_into
from datamover.files.formats import ArraySpec, MoveOptions, Order, Output, Reader, Shape
from datamover.files.space import begin_write_back, check_room, naming_no_space, opened

#: Scratch memory of a thread, and pieces of files that are read through it.
SCRATCH_BYTES = PIECE_BYTES = 1 << 19
#: Runs with smaller gaps are read together with the gaps, which costs as much as a call, or as a
#: request to a server.
MAX_GAP_BYTES = 16 * 1024
MAX_GAP_AT_ADDRESS_BYTES = 1 << 20
#: Maximum bytes of one request to an address.
MAX_SPAN_AT_ADDRESS_BYTES = 4 << 20
#: Minimum bytes of parts that are stored past the caches, which they would leave before their use.
MIN_STREAMED_BYTES = 1 << 20


class Scratch(threading.local):
    """Memory that each thread uses repeatedly."""

    _memory = np.empty(0, np.uint8)

    def memory(self, nbytes: int) -> np.ndarray:
        """Return bytes with undefined contents, valid until the next call of this thread."""
        if self._memory.nbytes < nbytes:
            # Begins at a page: rows are then loaded by whole lines, and the system copies fastest.
            fresh = np.empty(nbytes + mmap.PAGESIZE, np.uint8)
            self._memory = fresh[-fresh.ctypes.data % mmap.PAGESIZE :]
        return self._memory[:nbytes]


_own = Scratch()


def scratch(nbytes: int) -> np.ndarray:
    """Return this many bytes of this thread's memory, valid until its next call."""
    return _own.memory(nbytes) if nbytes <= SCRATCH_BYTES else np.empty(nbytes, np.uint8)


class FlatFile(Reader):
    """Elements of any kind, contiguous in C or Fortran order, from a byte offset on.

    Parameters
    ----------
    path : str
    spec : ArraySpec
    offset : int
        Offset of the first element, in bytes.
    writable : bool
    opens : bool
        Whether it is a file that must be opened.
    """

    is_flat = True
    read_copies = write_copies = 1

    def __init__(self, path: str, spec: ArraySpec, offset: int, writable: bool, opens: bool = True):
        self.spec = spec
        self.granule = (1,) * len(spec.shape)
        self._max_gap_bytes = MAX_GAP_BYTES
        self._max_span_bytes = PIECE_BYTES
        self._path = path
        self._offset = offset
        # A Fortran array is a C array with reversed dimensions.
        self._shape = (spec.shape if spec.order == "C" else spec.shape[::-1]) or (1,)
        inner = (self._shape[d + 1 :] for d in range(len(self._shape)))
        #: In bytes.
        self._strides = [math.prod(map(int, extents)) * spec.dtype.itemsize for extents in inner]
        # Avoids waiting for a pipe with the name of a chunk.
        self._flags = os.O_RDWR if writable else os.O_RDONLY | os.O_NONBLOCK
        self._fd = os.open(path, self._flags) if opens else -1

    def at(self, path: str, shape: Shape, offset: int) -> FlatFile:
        """Open elements of the same kind in another file for reading."""
        return FlatFile(path, dataclasses.replace(self.spec, shape=shape), offset, writable=False)

    def reopened_to_write(self) -> FlatFile:
        """Open the same elements for reading and writing; close this file."""
        again = FlatFile(self._path, self.spec, self._offset, writable=True)
        self.close()
        return again

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on.

        Not through a mapping: if the file becomes shorter, this must be an error, not a SIGBUS.
        """
        lo, out = _in_file_order(self.spec.order, lo, out)
        if out.size > 0:
            self._read_box(self._position(lo), out, self._strides)

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on.

        By calls, not through a mapping: mapped pages count as memory of the process, and would
        overwrite those of other nodes.
        """
        lo, array = _in_file_order(self.spec.order, lo, array)
        if array.size > 0:
            with naming_no_space(self._path, self._offset + self.spec.nbytes):
                self._write_box(lo, array)

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1  # it is closed even if the system reports an error
        if fd >= 0:
            os.close(fd)

    def reopen(self) -> None:
        """Open the file again after `close`; the caller checks that it is the same."""
        self._fd = os.open(self._path, self._flags)

    def _position(self, index: Shape) -> int:
        """Return the offset of an element; indices of the last dimensions may be left out."""
        return self._offset + sum(int(i) * s for i, s in zip(index, self._strides, strict=False))

    def _read_box(self, position: int, out: np.ndarray, strides: list[int]) -> None:
        """Fill `out` with the box at a byte position; `strides` (bytes) are those in the file."""
        inner_bytes = self.spec.dtype.itemsize + sum(
            (n - 1) * s for n, s in zip(out.shape[1:], strides[1:], strict=True)
        )
        if out.flags.c_contiguous and (len(out) - 1) * strides[0] + inner_bytes == out.nbytes:
            self._read_run(position, out.reshape(-1).view(np.uint8))
        elif out.ndim > 1 and (
            strides[0] > self._max_span_bytes or strides[0] - inner_bytes > self._max_gap_bytes
        ):
            for i, part in enumerate(out):
                self._read_box(position + i * strides[0], part, strides[1:])
        else:
            rows = max(1, self._max_span_bytes // strides[0])
            for i in range(0, len(out), rows):
                part = out[i : i + rows]
                span = scratch((len(part) - 1) * strides[0] + inner_bytes)
                self._read_run(position + i * strides[0], span)
                read = np.ndarray(part.shape, part.dtype, span, strides=strides)
                if out.nbytes < MIN_STREAMED_BYTES:
                    part[...] = read
                else:
                    _plan.copy_strided(read, part, around_caches=True)

    def _write_box(self, lo: Shape, array: np.ndarray) -> None:
        shape, begin = array.shape, self._position(lo)
        # Dimensions after `split` are whole: from it on, a run is contiguous.
        split = len(shape) - 1
        while split > 0 and shape[split] == self._shape[split]:
            split -= 1
        array = np.ascontiguousarray(array)
        for index in np.ndindex(*shape[:split]):
            position = begin + self._position(index) - self._offset
            self._write_run(position, array[index].reshape(-1).view(np.uint8))

    def _read_run(self, position: int, out: np.ndarray) -> None:
        position += (done := read_into(self._fd, out, position))
        if done < len(out):
            raise IoFailed(f"{self._path} ends at byte {position}: it became shorter meanwhile")

    def _write_run(self, position: int, data: np.ndarray) -> None:
        view, at = memoryview(data), position
        while len(view):
            done = os.pwritev(self._fd, [view], at)
            view, at = view[done:], at + done
        begin_write_back(self._fd, position, len(data))


def _in_file_order(order: Order, lo: Shape, array: np.ndarray) -> tuple[Shape, np.ndarray]:
    """Return a box of a file of this order as one of a C array of at least one dimension."""
    if not lo:
        return (0,), array.reshape(1)
    return (lo, array) if order == "C" else (lo[::-1], array.T)


class FlatObject(FlatFile):
    """A flat file at an address, for reading.

    Parameters
    ----------
    path : str
    spec : ArraySpec
    offset : int
    data : AddressBytes
    """

    def __init__(self, path: str, spec: ArraySpec, offset: int, data: AddressBytes):
        super().__init__(path, spec, offset, writable=False, opens=False)
        self._max_gap_bytes = MAX_GAP_AT_ADDRESS_BYTES
        self._max_span_bytes = MAX_SPAN_AT_ADDRESS_BYTES
        self._data = data

    def check_unchanged(self) -> None:
        """Raise if the object has changed since it was opened."""
        self._data.check_unchanged()

    def reopen(self) -> None:
        """Do nothing: each read is a request of its own."""

    def _read_run(self, position: int, out: np.ndarray) -> None:
        for begin in range(0, len(out), MAX_SPAN_AT_ADDRESS_BYTES):
            end = min(begin + MAX_SPAN_AT_ADDRESS_BYTES, len(out))
            out[begin:end] = np.frombuffer(
                self._data.read(position + begin, position + end), np.uint8
            )


class FlatOutput(Output):
    """An output whose elements are contiguous."""

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        check_flat_dtype(spec.dtype, "the output")
        super().__init__(spec, options)

    def open(self, path: str) -> FlatFile:
        """Open the file, which ends with the elements, for writing."""
        offset = os.path.getsize(path) - self.spec.nbytes
        return FlatFile(path, self.spec, offset, writable=True)


def reserve(path: str, nbytes: int, needed_bytes: int | None = None) -> None:
    """Set the size of a file and reserve its space, so that a full disk is detected at once.

    Errors report `needed_bytes` if the file is only a part of the output.

    Raises
    ------
    IoFailed
        There is not enough space.
    """
    with naming_no_space(path, needed_bytes or nbytes), opened(path, os.O_RDWR | os.O_CREAT) as fd:
        if nbytes > 0:
            check_room(fd, nbytes)
            os.posix_fallocate(fd, 0, nbytes)


def check_flat_dtype(dtype: Any, where: str) -> None:
    """Reject dtypes whose elements do not have a fixed size.

    Raises
    ------
    Unsupported
    """
    is_flexible = not isinstance(dtype, np.dtype) or dtype.kind == "T"  # text of zarr or NumPy
    if is_flexible or dtype.hasobject:
        raise Unsupported(
            f"{where} has dtype {dtype}: Python objects and strings of any length have no fixed "
            "size in bytes; convert it to numbers, fixed-length strings or a structured dtype of "
            "those"
        )
    if dtype.subdtype is not None:
        raise Unsupported(
            f"{where} has dtype {dtype}, whose elements are arrays; add their extents to the shape "
            "instead"
        )
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")
