# SPDX-License-Identifier: BSD-3-Clause
"""How fast does a partitioned array get into one flat file? A program to be run under mpiexec.

Arguments: the seconds to measure each case, the megabytes of the array, a directory, and the bytes
of the partition's blocks, one case for each. Columns are dealt cyclically in such blocks, so that
each block is as long in the file.
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
#: What one process writes at once after reshuffling.
RANGE_BYTES = 1 << 20


class Partitioned:
    """One process's part of an array whose elements are their flat indices, and the file for it."""

    def __init__(self, comm: Any, rows: int, block_bytes: int, path: Path):
        self.comm, self.path = comm, path
        self.shape = (rows, ROW_ELEMS)
        self.block = block_bytes // 8
        words = f"(*, cyclic({self.block}))"
        self.layout = dm.BlockCyclic(self.shape, words, comm.size, grid=(1, comm.size))
        i, j = self.layout.global_indices(comm.rank)
        self.array = dm.XArray(comm, self.layout, dtype="f8")
        self.array.local[...] = i[:, None] * float(ROW_ELEMS) + j
        self.ranges = dm.FlatCyclic.of_bytes(self.shape, RANGE_BYTES, "f8", comm.size)
        self.flat = dm.XArray(comm, self.ranges, dtype="f8")
        self.mover = dm.Mover(dm.redistribute(self.layout, self.ranges), self.array, self.flat)
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def write_ranges(self) -> None:
        """Write what the flat array holds: a write for each range."""
        data = memoryview(self.flat.local).cast("B")
        for k, begin in enumerate(range(0, len(data), RANGE_BYTES)):
            place = (k * self.comm.size + self.comm.rank) * RANGE_BYTES
            _write_all(self.file, data[begin : begin + RANGE_BYTES], place)

    def reshuffled(self) -> None:
        """Move to ranges of the flattened array, then write those."""
        self.mover()
        self.write_ranges()

    def piece_by_piece(self) -> None:
        """Write every block of every row at its place, without communication."""
        row_bytes = self.array.local.shape[1] * 8
        data = memoryview(self.array.local).cast("B")
        step = self.block * 8
        for row in range(self.shape[0]):
            for k in range(row_bytes // step):
                begin = row * row_bytes + k * step
                place = row * ROW_ELEMS * 8 + (k * self.comm.size + self.comm.rank) * step
                _write_all(self.file, data[begin : begin + step], place)

    def by_mpi(self) -> None:
        """Write collectively through MPI's view of the same partition."""
        from mpi4py import MPI

        kind = MPI.DOUBLE.Create_darray(
            self.comm.size, self.comm.rank, self.shape,
            (MPI.DISTRIBUTE_NONE, MPI.DISTRIBUTE_CYCLIC), (MPI.DISTRIBUTE_DFLT_DARG, self.block),
            (1, self.comm.size),
        ).Commit()  # fmt: skip
        file = MPI.File.Open(self.comm, str(self.path), MPI.MODE_WRONLY)
        file.Set_view(0, MPI.DOUBLE, kind)
        file.Write_all(self.array.local)
        file.Close()
        kind.Free()

    def contenders(self) -> dict[str, Callable[[], None]]:
        """Return all ways; the last writes only what has been reshuffled before."""
        return {
            "datamover": self.reshuffled,
            "pieces": self.piece_by_piece,
            "mpi-io": self.by_mpi,
            "write-only": self.write_ranges,
        }

    def is_written(self) -> bool:
        """Tell whether the file holds the array, on all processes; it is empty then."""
        self.comm.Barrier()
        right = True
        if self.comm.rank == 0:
            found = np.fromfile(self.path, "f8")
            right = found.size == np.prod(self.shape) and bool(
                (found == np.arange(found.size)).all()
            )
            os.truncate(self.path, 0)
        return self.comm.bcast(right)

    def close(self) -> None:
        """Give the file and the arrays back."""
        self.comm.Barrier()
        os.close(self.file)
        if self.comm.rank == 0:
            self.path.unlink()
        self.mover.free()
        self.array.free()
        self.flat.free()


def _write_all(file: int, data: memoryview, place: int) -> None:
    """Write all of it, however little the system takes at once."""
    while data:
        done = os.pwrite(file, data, place)
        data, place = data[done:], place + done


def measure(work: Partitioned, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of each turn on its slowest process, for those that write the array."""
    from mpi4py import MPI

    comm = work.comm
    samples: dict[str, list[float]] = {}
    for name, write in work.contenders().items():
        write()
        if work.is_written():
            samples[name] = []
    begin, enough = time.perf_counter(), False
    while not enough:
        for name, taken in samples.items():
            comm.Barrier()
            start = time.perf_counter()
            work.contenders()[name]()
            taken.append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        enough = comm.bcast(time.perf_counter() - begin > seconds)
    return samples


def main() -> None:
    """Measure all block sizes and print their rows."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    seconds, megabytes, directory = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rows = max(1, megabytes * 1_000_000 // (8 * ROW_ELEMS))
    if comm.rank == 0:
        print(json.dumps({"mpi": MPI.Get_library_version()}))
    for block_bytes in map(int, sys.argv[4:]):
        work = Partitioned(comm, rows, block_bytes, directory / "flat.bin")
        case = f"blocks-{block_bytes}"
        samples = measure(work, seconds)
        names = list(work.contenders())
        work.close()
        for name in names if comm.rank == 0 else ():
            row: dict[str, Any] = {"case": case, "phase": "write", "contender": name}
            row |= {"processes": comm.size, "bytes": rows * ROW_ELEMS * 8}
            wrong = {"left_out": name, "case": case, "reason": "it wrote wrong data"}
            found = samples.get(name)
            print(json.dumps(row | {"samples": found} if found else wrong), flush=True)


if __name__ == "__main__":
    main()
