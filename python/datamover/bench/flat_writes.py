# SPDX-License-Identifier: BSD-3-Clause
"""Writing a partitioned array to one flat file. A program to be run under mpiexec.

Arguments: the seconds to measure each case, the megabytes of the array, the directories (separated
as in PATH), and the cases: NAME:BLOCK:MESSAGE:PATHWAYS. Columns are distributed cyclically in
blocks of BLOCK bytes, which have the same length in the file. Flat ranges of MESSAGE bytes are
distributed to the processes after reshuffling, and to PATHWAYS files, in the directories in turn.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import datamover as dm

#: A row of the array, of doubles.
ROW_ELEMS = 16384


class Partitioned:
    """One process's part of an array whose elements are their flat indices, and files for it."""

    def __init__(
        self, comm: Any, rows: int, block_bytes: int, message_bytes: int, paths: list[Path]
    ):
        self.comm, self.paths, self.message_bytes = comm, paths, message_bytes
        self.shape = (rows, ROW_ELEMS)
        self.block = block_bytes // 8
        words = f"(*, cyclic({self.block}))"
        self.layout = dm.BlockCyclic(self.shape, words, comm.size, grid=(1, comm.size))
        i, j = self.layout.global_indices(comm.rank)
        self.array = dm.XArray(comm, self.layout, dtype="f8")
        self.array.local[...] = i[:, None] * float(ROW_ELEMS) + j
        self.ranges = dm.FlatCyclic.of_bytes(self.shape, message_bytes, "f8", comm.size)
        self.flat = dm.XArray(comm, self.ranges, dtype="f8")
        self.mover = dm.Mover(dm.redistribute(self.layout, self.ranges), self.array, self.flat)
        self.files = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in paths]

    def write_ranges(self) -> None:
        """Write the flat array: a write for each range, the files in turn."""
        data = self.flat.local.view("u1")  # empty on some processes
        for k, begin in enumerate(range(0, len(data), self.message_bytes)):
            stripe, file = divmod(k * self.comm.size + self.comm.rank, len(self.files))
            piece = data[begin : begin + self.message_bytes]
            _write_all(self.files[file], piece, stripe * self.message_bytes)

    def reshuffled(self) -> None:
        """Move to ranges of the flattened array, then write those."""
        self.mover()
        self.write_ranges()

    def piece_by_piece(self) -> None:
        """Write every block of every row at its place, without communication."""
        row_bytes = self.array.local.shape[1] * 8
        data = self.array.local.reshape(-1).view("u1")
        step = self.block * 8
        for row in range(self.shape[0]):
            for k in range(row_bytes // step):
                begin = row * row_bytes + k * step
                place = row * ROW_ELEMS * 8 + (k * self.comm.size + self.comm.rank) * step
                _write_all(self.files[0], data[begin : begin + step], place)

    def by_mpi(self) -> None:
        """Write collectively through MPI's view of the same partition."""
        from mpi4py import MPI

        kind = MPI.DOUBLE.Create_darray(
            self.comm.size, self.comm.rank, self.shape,
            (MPI.DISTRIBUTE_NONE, MPI.DISTRIBUTE_CYCLIC), (MPI.DISTRIBUTE_DFLT_DARG, self.block),
            (1, self.comm.size),
        ).Commit()  # fmt: skip
        file = MPI.File.Open(self.comm, str(self.paths[0]), MPI.MODE_WRONLY)
        file.Set_view(0, MPI.DOUBLE, kind)
        file.Write_all(self.array.local)
        file.Close()
        kind.Free()

    def contenders(self) -> dict[str, Callable[[], None]]:
        """Return all contenders; the last writes only previously reshuffled data."""
        ways = {"datamover": self.reshuffled}
        if len(self.files) == 1:
            ways |= {"pieces": self.piece_by_piece, "mpi-io": self.by_mpi}
        return ways | {"write-only": self.write_ranges}

    def is_written(self) -> bool:
        """Return whether the files contain the array, on all processes; then empty them."""
        self.comm.Barrier()
        right = True
        if self.comm.rank == 0:
            right = self._holds_the_array([np.fromfile(path, "f8") for path in self.paths])
            for path in self.paths:
                os.truncate(path, 0)
        return self.comm.bcast(right)

    def _holds_the_array(self, found: list[np.ndarray]) -> bool:
        elems, total = self.message_bytes // 8, int(np.prod(self.shape))
        if sum(part.size for part in found) != total:
            return False
        for number, begin in enumerate(range(0, total, elems)):
            stripe, file = divmod(number, len(found))
            part = found[file][stripe * elems : (stripe + 1) * elems]
            if not np.array_equal(part, np.arange(begin, min(begin + elems, total))):
                return False
        return True

    def close(self) -> None:
        """Close the files and free the arrays."""
        self.comm.Barrier()
        for file, path in zip(self.files, self.paths, strict=True):
            os.close(file)
            if self.comm.rank == 0:
                path.unlink()
        self.mover.free()
        self.array.free()
        self.flat.free()


def _write_all(file: int, data: Any, place: int) -> None:
    """Write all data, in as many calls as the system needs."""
    while len(data):
        done = os.pwrite(file, data, place)
        data, place = data[done:], place + done


def measure(work: Partitioned, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of each turn on its slowest process, for correct contenders.

    Each has its share of the time, and fast ones have more turns. The first allocation of a file's
    pages is not counted, because they stay.
    """
    from mpi4py import MPI

    comm = work.comm
    samples: dict[str, list[float]] = {}
    for name, write in work.contenders().items():
        write()
        if work.is_written():
            samples[name] = []
    work.reshuffled()
    left = list(samples)
    while left:
        for name in left:
            comm.Barrier()
            start = time.perf_counter()
            work.contenders()[name]()
            samples[name].append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        left = [name for name in left if sum(samples[name]) < seconds / len(samples)]
    return samples


def main() -> None:
    """Measure all block sizes and print their rows."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    seconds, megabytes, directories = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    places = [Path(place) for place in directories.split(os.pathsep)]
    rows = max(1, megabytes * 1_000_000 // (8 * ROW_ELEMS))
    if comm.rank == 0:
        print(json.dumps({"mpi": MPI.Get_library_version()}))
    for word in sys.argv[4:]:
        case, *sizes = word.split(":")
        block_bytes, message_bytes, pathways = map(int, sizes)
        paths = [places[k % len(places)] / f"flat-{k}.bin" for k in range(pathways)]
        work = Partitioned(comm, rows, block_bytes, message_bytes, paths)
        samples = measure(work, seconds)
        names = list(work.contenders())
        work.close()
        for name in names if comm.rank == 0 else ():
            row: dict[str, Any] = {"case": case, "phase": "write", "contender": name}
            row |= {"processes": comm.size, "bytes": rows * ROW_ELEMS * 8}
            row |= {"block_bytes": block_bytes, "message_bytes": message_bytes}
            row |= {"pathways": pathways}
            wrong = {"left_out": name, "case": case, "reason": "it wrote wrong data"}
            found = samples.get(name)
            print(json.dumps(row | {"samples": found} if found else wrong), flush=True)


if __name__ == "__main__":
    main()
