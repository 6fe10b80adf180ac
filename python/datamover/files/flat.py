# SPDX-License-Identifier: BSD-3-Clause
"""How is a box of an array read from, or written to, a file that holds the array as one piece?"""

from __future__ import annotations

import errno
import os

import numpy as np

from datamover.errors import IoError, Unsupported
from datamover.files.formats import ArraySpec, Shape

#: Runs at least this long are read and written by calls of their own, shorter ones by a mapping.
MIN_RUN_BYTES = 64 * 1024
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
    """

    def __init__(self, path: str, spec: ArraySpec, offset: int, writable: bool):
        self.spec = spec
        self.granule = (1,) * len(spec.shape)
        self._path = path
        self._offset = offset
        self._writable = writable
        # A Fortran array is a C array with its dimensions reversed.
        self._shape = (spec.shape if spec.order == "C" else spec.shape[::-1]) or (1,)
        self._fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
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

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        self._transfer(lo, out, self._read_run)

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        self._transfer(lo, array, self._write_run)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        if isinstance(self._mapped, np.memmap):
            self._mapped.flush()
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        self._mapped = None
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _transfer(self, lo: Shape, array: np.ndarray, run) -> None:
        if not lo:
            lo, array = (0,), array.reshape(1)
        if self.spec.order == "F":
            lo, array = lo[::-1], array.T
        if array.size == 0:
            return
        shape, itemsize = array.shape, self.spec.dtype.itemsize
        split = (
            len(shape) - 1
        )  # dimensions behind `split` are whole: from it on, a run is contiguous
        while split > 0 and shape[split] == self._shape[split]:
            split -= 1
        run_bytes = int(np.prod(shape[split:], dtype=object)) * itemsize
        whole = run_bytes == array.size * itemsize
        if not array.flags.c_contiguous or (run_bytes < MIN_RUN_BYTES and not whole):
            self._transfer_mapped(lo, array)
            return
        strides = np.cumprod((1, *self._shape[:0:-1]), dtype=object)[::-1]
        for index in np.ndindex(*shape[:split]):
            first = [a + b for a, b in zip(lo, (*index, *(0,) * len(lo)), strict=False)]
            position = sum(int(i) * int(s) for i, s in zip(first, strides, strict=True))
            run(self._offset + position * itemsize, array[index].reshape(-1).view(np.uint8))

    def _transfer_mapped(self, lo: Shape, array: np.ndarray) -> None:
        if self._mapped is None:
            self._mapped = np.memmap(
                self._path,
                dtype=np.dtype((np.void, self.spec.dtype.itemsize)),
                mode="r+" if self._writable else "r",
                offset=self._offset,
                shape=self._shape,
            )
        box = tuple(slice(a, a + n) for a, n in zip(lo, array.shape, strict=True))
        opaque = array.view(self._mapped.dtype)
        if self._writable:
            self._mapped[box] = opaque
        else:
            opaque[...] = self._mapped[box]

    def _read_run(self, position: int, out: np.ndarray) -> None:
        view = memoryview(out)
        while len(view):
            done = os.preadv(self._fd, [view], position)
            if done == 0:
                raise IoError(f"{self._path} ends at byte {position}: it became shorter meanwhile")
            view, position = view[done:], position + done

    def _write_run(self, position: int, data: np.ndarray) -> None:
        view = memoryview(data)
        while len(view):
            done = os.pwritev(self._fd, [view], position)
            view, position = view[done:], position + done


def reserve(path: str, nbytes: int) -> None:
    """Give a file its size and its space on the disk, so that a full disk shows at once.

    Raises
    ------
    IoError
        There is not enough space.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if nbytes > 0:
            os.posix_fallocate(fd, 0, nbytes)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        raise IoError(f"{no_space(path)}; the output needs {nbytes:,} bytes") from e
    finally:
        os.close(fd)


def no_space(path: str) -> str:
    """Say how much space is left where a path lies."""
    directory = os.path.dirname(path) or "."
    free = os.statvfs(directory)
    return f"not enough space in {directory}: {free.f_bavail * free.f_frsize:,} bytes are free"


def check_flat_dtype(dtype: np.dtype, where: str) -> None:
    """Refuse dtypes whose elements are no bytes of fixed size.

    Raises
    ------
    Unsupported
    """
    if dtype.hasobject:
        raise Unsupported(
            f"{where} has dtype {dtype}: Python objects have no fixed bytes that could be moved; "
            "convert it to numbers, fixed-length strings or a structured dtype of those"
        )
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")
