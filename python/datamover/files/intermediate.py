# SPDX-License-Identifier: BSD-3-Clause
"""Temporary files of a move, in a hidden directory: intermediates, and chunks to hand over.

An intermediate is the plain array between two passes: files of elements in C order. If only one
process can write an output, the others write each chunk that they have encoded to a file. When all
are encoded, that process copies these files to the output. After its data, each file has their
CRC-32C as Zarr's codec "crc32c" stores it. A file that is missing or damaged is an error.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any

import numpy as np

from datamover._plan import crc32c
from datamover.errors import IoFailed
from datamover.files import addresses, placing, unfinished
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.formats import ArraySpec, Reader, Shape, option, pieces_of, within
from datamover.files.space import naming_no_space

#: What is handed over, for errors.
ENCODED = "encoded chunks on their way to the output"

#: The directory is named like the unfinished output of this name. Each user has a name, because
#: users cannot remove the files of others.
NAME = f"datamover.rechunk.{os.getuid()}"


def directory_for(output: str, temporary: str | os.PathLike[str] | None) -> str:
    """Return the directory for intermediates: `temporary`, or by default that of the output.

    If the output has an address, the default is the system's directory for temporary files.
    """
    if temporary is not None:
        return os.path.abspath(temporary)
    if addresses.is_address(output):
        return tempfile.gettempdir()
    around = filter(os.path.isdir, addresses.enclosing(output))  # an array may be in a new group
    return next(around, "/" if os.path.isabs(output) else os.curdir)


def check_directory(directory: str) -> None:
    """Raise IoFailed if a directory does not exist or cannot be written."""
    if not os.path.isdir(directory):
        raise IoFailed(f"{option('temporary')} {directory} is not a directory")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise IoFailed(f"{option('temporary')} {directory} cannot be written")


def place_in(directory: str, token: str) -> placing.LocalPlace:
    """Return the place of an intermediate; it is removed when the place is given back.

    Its lock shows other moves that its owner is alive. `claim` removes intermediates of killed
    processes from the same directory.
    """
    return placing.LocalPlace(None, os.path.join(directory, NAME), token)


def clean_up(directory: str, token: str) -> None:
    """Remove the intermediate of processes that were killed, if there is one."""
    base = os.path.join(directory, NAME)
    unfinished.clean_up(unfinished.temporary_path(base, token), base)


class Intermediate(Reader):
    """An array in files; several threads and processes may use it at once.

    Parameters
    ----------
    spec : ArraySpec
        Shape and dtype; elements are in C order.
    granule : tuple of int
        Extents of the chunks in which it is written.
    path : str
        The directory.
    cut : tuple of int
        Extents of the boxes in which it is read, one after the other. A chunk becomes a file for
        each box that it meets, so that each element is read once.
    """

    is_cut = True
    read_copies = write_copies = 1

    def __init__(self, spec: ArraySpec, granule: Shape, path: str = "", cut: Shape | None = None):
        self.spec = ArraySpec(spec.shape, spec.dtype)
        self.granule = granule
        self._path, self._cut = path, cut or granule

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the part of a chunk inside a box, and verify its checksum."""
        data, end = memoryview(out.reshape(-1).view(np.uint8)), b""
        with contextlib.suppress(FileNotFoundError), open(self._file(lo), "rb") as file:
            end = file.read(5) if file.readinto(data) == len(data) else b""
        if end != _checksum(data):
            raise IoFailed(
                f"{self._path}, the intermediate of this move, was damaged: the part from index "
                f"{lo} on is not what was written; run the move again"
            )

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array`, the part of a chunk inside the whole array, from index `lo` on."""
        for _, _, begin, end in pieces_of(lo, array.shape, self._cut):
            self._write(begin, np.ascontiguousarray(array[within(begin, end, lo)]))

    def _write(self, lo: Shape, part: np.ndarray) -> None:
        data = memoryview(part.reshape(-1).view(np.uint8))
        what = f"the intermediate of {self.spec.nbytes:,} bytes"
        _write_checked(self._file(lo), data, self._path, what)

    def _file(self, lo: Shape) -> str:
        return os.path.join(self._path, str(lo[0]), ".".join(map(str, lo)))


class Handover(ChunkedArray):
    """An output that several processes write, the first of them its file.

    Parameters
    ----------
    output : ChunkedArray
        With `encode` and `put`; on all processes but the first it only encodes.
    directory : str
        Of the encoded chunks of the other processes.
    is_writer : bool
        Whether this is the first process.

    Attributes
    ----------
    handed : list of tuple of int
        The chunks that this process hands over.
    """

    def __init__(self, output: Any, directory: str, is_writer: bool):
        self.spec, self.granule = output.spec, output.granule
        self.fill_bytes, self.is_encoded = output.fill_bytes, output.is_encoded
        self._output, self._is_writer = output, is_writer
        self._directory = os.path.join(directory, "encoded")
        self.handed: list[Shape] = []

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode a chunk, contiguous in C order, and write it to the output or for its writer."""
        data = self._output.encode(chunk)
        if self._is_writer:
            self._output.put(cell, data)
        elif data is not None:
            self._hand_over(cell, data)

    def _hand_over(self, cell: Shape, data: Any) -> None:
        path = os.path.join(self._directory, ".".join(map(str, cell)))
        _write_checked(path, data, os.path.dirname(self._directory), ENCODED)
        self.handed.append(cell)

    def gather(self, count: int) -> None:
        """Write the `count` chunks of the other processes to the output. By the first process."""
        found = sorted(os.listdir(self._directory)) if count else []
        if len(found) != count:
            raise _damaged(self._directory)
        for name in found:
            path = os.path.join(self._directory, name)
            with open(path, "rb") as file:
                data = memoryview(file.read())
            if data[-4:] != _checksum(data[:-4]):
                raise _damaged(path)
            self._output.put(tuple(map(int, name.split("."))), data[:-4])
            os.unlink(path)

    def close(self) -> None:
        """Close the output."""
        if self._is_writer:
            self._output.close()


def _write_checked(path: str, data: Any, directory: str, what: str) -> None:
    """Write a new file: data, and their checksum. Its directory is made unless it exists.

    The error of a full disk names the hidden directory's place, and what is written to it.
    """
    remedy = f"; it is for {what}: {option('temporary')} names another directory"
    data = memoryview(data)
    with naming_no_space(directory, None, remedy):
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path))
        with open(path, "xb") as file:
            file.write(data)
            file.write(_checksum(data))


def _checksum(data: Any) -> bytes:
    return crc32c(data).to_bytes(4, "little")


def _damaged(path: str) -> IoFailed:
    return IoFailed(f"{path}, encoded chunks of this move, was damaged; move again")
