# SPDX-License-Identifier: BSD-3-Clause
"""Output in chunks that many processes encode and one process writes.

The others append what they have encoded to files of their own, in a hidden directory. When all
have encoded their chunks, the one that writes the output copies these files to it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.formats import Shape, option
from datamover.files.space import is_no_space

#: In place of a number of bytes: the last record of a file, without which it is not whole.
END = -1


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
            with self._lock, _naming(self._directory):
                self._file.write(self._header.pack(memoryview(data).nbytes, *cell))
                self._file.write(data)

    def end(self) -> None:
        """Complete what this process hands over. Local."""
        if self._file is not None:
            with _naming(self._directory):
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
def _naming(directory: str) -> Iterator[None]:
    """Name the directory in the error of a full disk."""
    try:
        yield
    except OSError as e:
        if is_no_space(e):
            raise IoFailed(
                f"not enough space in {os.path.dirname(directory)} for encoded chunks on their way "
                f"to the output; {option('temporary')} names another directory"
            ) from e
        raise
