# SPDX-License-Identifier: BSD-3-Clause
"""Temporary files of a move, in a hidden directory: intermediates, and chunks to hand over.

An intermediate is the plain array between two passes. Each file holds elements in C order, followed
by their CRC-32C as Zarr's codec "crc32c" stores it. A file that is missing or damaged is an error.

If only one process can write an output, the others append the chunks that they have encoded to
files of their own. When all are encoded, that process copies these files to the output.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from datamover._plan import crc32c
from datamover.errors import IoFailed
from datamover.files import addresses, placing
from datamover.files.chunk_boxes import ChunkedArray, within
from datamover.files.formats import ArraySpec, Shape, option
from datamover.files.space import is_no_space

#: In place of a number of bytes: the last record of a file, without which it is not whole.
END = -1
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
    placing.clean_up(placing.temporary_path(base, token), base)


class Intermediate(ChunkedArray):
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

    is_encoded = False
    is_cut = True
    fill_bytes = cast(bytes, None)  # chunks end with the array
    write_copies = 1

    def __init__(self, spec: ArraySpec, granule: Shape, path: str = "", cut: Shape | None = None):
        self.spec = ArraySpec(spec.shape, spec.dtype)
        self.granule = granule
        self._path, self._cut = path, cut or granule

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the part of a chunk inside a box, and verify its checksum."""
        data, end = memoryview(out.reshape(-1).view(np.uint8)), bytearray(4)
        try:
            with open(self._file(lo), "rb", buffering=0) as file:
                is_whole = _fill(file, data) and _fill(file, memoryview(end)) and not file.read(1)
        except FileNotFoundError:
            is_whole = False
        if not is_whole or crc32c(data) != int.from_bytes(end, "little"):
            raise IoFailed(
                f"{self._path}, the intermediate of this move, was damaged: the part from index "
                f"{lo} on is not what was written; run the move again"
            )

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Write the part of a chunk inside the array."""
        first = tuple(i * c for i, c in zip(cell, self.granule, strict=True))
        ends = zip(first, self.granule, self.spec.shape, self._cut, strict=True)
        along = [_parts(a, min(a + c, n), cut) for a, c, n, cut in ends]
        for part in itertools.product(*along):
            lo, hi = zip(*part, strict=True)
            self._write(lo, np.ascontiguousarray(chunk[within(lo, hi, first)]))

    def _write(self, lo: Shape, part: np.ndarray) -> None:
        data, path = memoryview(part.reshape(-1).view(np.uint8)), self._file(lo)
        with _naming(self._path, f"the intermediate of {self.spec.nbytes:,} bytes"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path))
            with open(path, "xb", buffering=0) as file:
                for piece in (data, memoryview(crc32c(data).to_bytes(4, "little"))):
                    while piece:
                        piece = piece[file.write(piece) :]

    def _file(self, lo: Shape) -> str:
        return os.path.join(self._path, str(lo[0]), ".".join(map(str, lo)))


def _parts(a: int, b: int, cut: int) -> list[tuple[int, int]]:
    """Cut a .. b at the ends of boxes of that extent."""
    ends = [a, *range((a // cut + 1) * cut, b, cut), b]
    return list(itertools.pairwise(ends))


def _fill(file: Any, data: memoryview) -> bool:
    """Fill a buffer from a file; return False if the file is shorter."""
    while data:
        count = file.readinto(data)
        if not count:
            return False
        data = data[count:]
    return True


def needs_handover(output: Any, processes: int) -> bool:
    """Return whether this number of processes can only write the output through one of them."""
    return processes > 1 and isinstance(output, ChunkedArray) and output.has_one_writer


class Handover(ChunkedArray):
    """An output that several processes write, the first of them its file.

    Parameters
    ----------
    output : ChunkedArray
        With `encode` and `put`; on all processes but the first it only encodes.
    directory : str
        Of the encoded chunks of the other processes.
    rank, processes : int
    """

    def __init__(self, output: Any, directory: str, rank: int, processes: int):
        self.spec, self.granule = output.spec, output.granule
        self.fill_bytes, self.is_encoded = output.fill_bytes, output.is_encoded
        self._output, self._directory = output, directory
        self._processes, self._is_writer = processes, rank == 0
        self._header = struct.Struct(f"<{1 + len(self.granule)}q")  # bytes, and which chunk
        self._lock = threading.Lock()
        path = self._path(rank)
        self._file: Any = None if self._is_writer else open(path, "xb")  # noqa: SIM115 (closed later)

    def _path(self, rank: int) -> str:
        return os.path.join(self._directory, f"chunks.{rank}")

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode a chunk, contiguous in C order, and write it to the output or for its writer."""
        data = self._output.encode(chunk)
        if self._is_writer:
            self._output.put(cell, data)
        elif data is not None:
            with self._lock, _naming(self._directory, ENCODED):
                self._file.write(self._header.pack(memoryview(data).nbytes, *cell))
                self._file.write(data)

    def end(self) -> None:
        """Complete what this process hands over. Local."""
        if self._file is not None:
            with _naming(self._directory, ENCODED):
                self._file.write(self._header.pack(END, *(0 for _ in self.granule)))
                self._file.close()

    def gather(self) -> None:
        """Write the chunks of the other processes to the output. By the first process."""
        for rank in range(1, self._processes):
            with open(self._path(rank), "rb") as file:
                while True:
                    nbytes, *cell = self._header.unpack(self._read(file, self._header.size))
                    if nbytes == END:
                        break
                    self._output.put(tuple(cell), self._read(file, nbytes))
            os.unlink(self._path(rank))

    def _read(self, file: Any, nbytes: int) -> bytes:
        data = file.read(max(nbytes, 0))
        if len(data) != nbytes:
            raise IoFailed(f"{file.name}, encoded chunks of this move, was damaged; move again")
        return data

    def close(self) -> None:
        """Close the files."""
        if self._is_writer:
            self._output.close()
        else:
            self._file.close()


@contextlib.contextmanager
def _naming(directory: str, what: str) -> Iterator[None]:
    """Name the directory, and what is written to it, in the error of a full disk."""
    try:
        yield
    except OSError as e:
        if is_no_space(e):
            raise IoFailed(
                f"not enough space in {os.path.dirname(directory)} for {what}; "
                f"{option('temporary')} names another directory"
            ) from e
        raise
