# SPDX-License-Identifier: BSD-3-Clause
"""Flat files: reading and writing of boxes of an array that a file stores as one piece."""

from __future__ import annotations

import dataclasses
import math
import os

import numpy as np

from datamover import _plan
from datamover.errors import IoError, Unsupported
from datamover.files import write_back
from datamover.files.address_bytes import AddressBytes
from datamover.files.formats import ArraySpec, Shape
from datamover.files.scratch import PIECE_BYTES, scratch
from datamover.files.space import check_room, is_no_space, no_space

#: Runs at least this long are written by calls of their own, shorter ones through a mapping.
MIN_RUN_BYTES = 64 * 1024
#: Runs are read together, with what lies between them, where that is less than this: it costs as
#: much as a call, or as a request to a server.
MAX_GAP_BYTES = 16 * 1024
MAX_GAP_AT_ADDRESS_BYTES = 1 << 20
#: At most so much is asked for together at an address.
MAX_SPAN_AT_ADDRESS_BYTES = 4 << 20
#: What is at least so large has left the caches before anybody looks at it: it is stored around
#: them.
MIN_STREAMED_BYTES = 1 << 20
#: Slabs are dealt in at least this many pieces per process.
PIECES_PER_PROCESS = 8


class FlatFile:
    """Elements of any kind, one behind the other in C or Fortran order, from a byte offset on.

    Parameters
    ----------
    path : str
    spec : ArraySpec
    offset : int
        Where the elements begin, in bytes.
    writable : bool
    opens : bool
        Whether it is a file, to be opened.
    """

    def __init__(self, path: str, spec: ArraySpec, offset: int, writable: bool, opens: bool = True):
        self.spec = spec
        self.granule = (1,) * len(spec.shape)
        #: Whether short runs are written through a mapping, which counts as memory of the process.
        self.maps_short_runs = True
        self._max_gap_bytes = MAX_GAP_BYTES
        self._max_span_bytes = PIECE_BYTES
        self._path = path
        self._offset = offset
        # A Fortran array is a C array with its dimensions reversed.
        self._shape = (spec.shape if spec.order == "C" else spec.shape[::-1]) or (1,)
        # Not to wait for a pipe that is called as a chunk is.
        flags = os.O_RDWR if writable else os.O_RDONLY | os.O_NONBLOCK
        self._fd = os.open(path, flags) if opens else -1
        self._mapped: np.ndarray | None = None

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Whole rows, planes, …: as large as leaves several for each process."""
        ordered = shape if self.spec.order == "C" else shape[::-1]
        unit = [1] * len(ordered)
        pieces = 1
        for d, extent in enumerate(ordered):
            if pieces >= PIECES_PER_PROCESS * nprocs:
                unit[d] = extent
            pieces *= extent
        return tuple(unit) if self.spec.order == "C" else tuple(unit[::-1])

    def limit_to(self, lo: Shape, shape: Shape) -> None:
        """Have the file seen as that box of its array; to be read."""
        first = lo if self.spec.order == "C" else lo[::-1]
        strides = self._strides_bytes()
        self._offset += sum(int(i) * s for i, s in zip(first, strides, strict=False))
        self.spec = dataclasses.replace(self.spec, shape=shape)

    def reopened_to_write(self) -> FlatFile:
        """Open the same elements to be read and written; this one is closed."""
        again = FlatFile(self._path, self.spec, self._offset, writable=True)
        self.close()
        return again

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on.

        Not through a mapping: a file that becomes shorter meanwhile shall be an error, no SIGBUS.
        """
        lo, out = self._in_file_order(lo, out)
        if out.size > 0:
            strides = self._strides_bytes()
            position = sum(int(i) * s for i, s in zip(lo, strides, strict=True))
            self._read_box(self._offset + position, out, strides)

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        lo, array = self._in_file_order(lo, array)
        if array.size > 0:
            self._write_box(lo, array)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        if isinstance(self._mapped, np.memmap):
            self._mapped.flush()
        os.fsync(self._fd)

    def check_unchanged(self) -> None:
        """What was opened is what is read, whatever gets its name."""

    def close(self) -> None:
        """Close the file."""
        self._mapped = None
        fd, self._fd = self._fd, -1  # it is closed whatever the system says then
        if fd >= 0:
            os.close(fd)

    def _in_file_order(self, lo: Shape, array: np.ndarray) -> tuple[Shape, np.ndarray]:
        """Give a box as one of a C array of at least one dimension."""
        if not lo:
            return (0,), array.reshape(1)
        return (lo, array) if self.spec.order == "C" else (lo[::-1], array.T)

    def _strides_bytes(self) -> list[int]:
        strides = [self.spec.dtype.itemsize]
        for extent in self._shape[:0:-1]:
            strides.insert(0, strides[0] * int(extent))
        return strides

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
        shape, strides = array.shape, self._strides_bytes()
        # Dimensions behind `split` are whole: from it on, a run is contiguous.
        split = len(shape) - 1
        while split > 0 and shape[split] == self._shape[split]:
            split -= 1
        run_bytes = math.prod(shape[split:]) * self.spec.dtype.itemsize
        whole = run_bytes == array.nbytes
        if self.maps_short_runs:
            if not array.flags.c_contiguous or (run_bytes < MIN_RUN_BYTES and not whole):
                self._write_mapped(lo, array)
                return
        else:
            array = np.ascontiguousarray(array)
        for index in np.ndindex(*shape[:split]):
            first = [a + b for a, b in zip(lo, (*index, *(0,) * len(lo)), strict=False)]
            position = sum(int(i) * s for i, s in zip(first, strides, strict=True))
            self._write_run(self._offset + position, array[index].reshape(-1).view(np.uint8))

    def _write_mapped(self, lo: Shape, array: np.ndarray) -> None:
        if self._mapped is None:
            self._mapped = np.memmap(
                self._path,
                dtype=np.dtype((np.void, self.spec.dtype.itemsize)),
                mode="r+",
                offset=self._offset,
                shape=self._shape,
            )
        box = tuple(slice(a, a + n) for a, n in zip(lo, array.shape, strict=True))
        self._mapped[box] = array.view(self._mapped.dtype)

    def _read_run(self, position: int, out: np.ndarray) -> None:
        view = memoryview(out)
        while len(view):
            done = os.preadv(self._fd, [view], position)
            if done == 0:
                raise IoError(f"{self._path} ends at byte {position}: it became shorter meanwhile")
            view, position = view[done:], position + done

    def _write_run(self, position: int, data: np.ndarray) -> None:
        view, at = memoryview(data), position
        try:
            while len(view):
                done = os.pwritev(self._fd, [view], at)
                view, at = view[done:], at + done
            write_back.begin(self._fd, position, len(data))
        except OSError as e:
            if is_no_space(e):
                raise IoError(no_space(self._path, e, self._offset + self.spec.nbytes)) from e
            raise


class FlatObject(FlatFile):
    """The same of an object at an address, to be read.

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
        """Refuse what is not the same any more as it was when it was opened."""
        self._data.check_unchanged()

    def reopened_to_write(self) -> FlatFile:
        """Nothing at an address is written in place."""
        raise Unsupported(f"{self._path}: what lies at an address is only read; copy it here first")

    def _read_run(self, position: int, out: np.ndarray) -> None:
        for begin in range(0, len(out), MAX_SPAN_AT_ADDRESS_BYTES):
            end = min(begin + MAX_SPAN_AT_ADDRESS_BYTES, len(out))
            out[begin:end] = np.frombuffer(
                self._data.read(position + begin, position + end), np.uint8
            )


def reserve(path: str, nbytes: int, needed_bytes: int | None = None) -> None:
    """Give a file its size and its space on the disk, so that a full disk shows at once.

    `needed_bytes` is what errors say where the file is not all of the output.

    Raises
    ------
    IoError
        There is not enough space.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if nbytes > 0:
            check_room(fd, nbytes)
            os.posix_fallocate(fd, 0, nbytes)
    except OSError as e:
        if is_no_space(e):
            raise IoError(no_space(path, e, needed_bytes or nbytes)) from e
        raise
    finally:
        os.close(fd)


def check_flat_dtype(dtype: np.dtype, where: str) -> None:
    """Refuse dtypes whose elements are no bytes of fixed size.

    Raises
    ------
    Unsupported
    """
    if dtype.subdtype is not None:
        raise Unsupported(
            f"{where} has dtype {dtype}, of which every element is an array; say its extents in "
            "the shape instead"
        )
    if dtype.hasobject:
        raise Unsupported(
            f"{where} has dtype {dtype}: Python objects have no fixed bytes that could be moved; "
            "convert it to numbers, fixed-length strings or a structured dtype of those"
        )
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")
