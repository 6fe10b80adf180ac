# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of flat files: partition, message size and pathways. `datamover bench flat`.

Source: the paper on network I/O, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.chart import Panel
from datamover.bench.contest import Contest
from datamover.bench.programs import Line
from datamover.bench.rows import rows_of

#: A memory file system, if there is one.
MEMORY = Path("/dev/shm")
#: Bytes that a process writes at once after reshuffling, in cases with different blocks.
USUAL_MESSAGE = 1 << 20
#: Bytes of blocks in cases with different messages and pathways.
USUAL_BLOCK = 1024

#: The words are the bytes of a block and of a message, and the number of files.
CASES = (
    *(
        Case(f"blocks-{block}", (block, USUAL_MESSAGE, 1))
        for block in (128, 256, 512, 1024, 2048, 4096, 8192, 65536)
    ),
    *(
        Case(f"pathways-{pathways}-{name}", (USUAL_BLOCK, message << 10, pathways))
        for pathways in (1, 2, 4)
        for name, message in {"4K": 4, "16K": 16, "64K": 64, "256K": 256, "1M": 1024}.items()
    ),
)


def players(run: Run) -> Iterator[Player]:
    """Give the one program, which writes to new directories."""
    bases = run.directories or [MEMORY if MEMORY.is_dir() else None]
    places = [
        run.stack.enter_context(tempfile.TemporaryDirectory(prefix="datamover-bench-", dir=base))
        for base in bases
    ]
    yield run.python_player(measure, run.megabytes, places)


def flatness(rows: list[Line]) -> float | None:
    """Return the slowest partition of ours over the fastest: 1 if it does not matter."""
    speeds = [
        row["bytes"] / row["seconds"]
        for row in rows
        if row["contender"] == "datamover" and row["case"].startswith("blocks-")
    ]
    return min(speeds) / max(speeds) if speeds else None


def panels(rows: list[Line]) -> list[Panel]:
    """Return the speeds of ours by message for each number of files, and of all by block."""
    striped = [
        {**row, "files": f"{row['pathways']} files"}
        for row in rows
        if row["case"].startswith("pathways-") and row["contender"] == "datamover"
    ]
    partitions = [row for row in rows if row["case"].startswith("blocks-")]
    return [
        Panel("datamover, messages to 1, 2 and 4 files", striped, "message_bytes", series="files"),
        Panel("partitions to one file", partitions, "block_bytes"),
    ]


#: A row of the array, of doubles.
ROW_ELEMS = 16384


class Partitioned:
    """One process's part of an array whose elements are their flat indices, and files for it."""

    def __init__(
        self,
        stack: ExitStack,
        comm: Any,
        rows: int,
        paths: list[Path],
        block_bytes: int,
        message_bytes: int,
    ):
        self.comm, self.paths, self.shape = comm, paths, (rows, ROW_ELEMS)
        self.block, self.message_bytes = block_bytes // 8, message_bytes
        words = f"(*, cyclic({self.block}))"
        layout = dm.BlockCyclic(self.shape, words, comm.size, grid=(1, comm.size))
        ranges = dm.FlatCyclic.of_bytes(self.shape, self.message_bytes, "f8", comm.size)
        self.array, self.flat = (
            stack.enter_context(closing(dm.Array(of, dtype="f8", comm=comm)))
            for of in (layout, ranges)
        )
        i, j = layout.global_indices(comm.rank)
        self.array.local[...] = i[:, None] * float(ROW_ELEMS) + j
        self.mover = dm.Mover(dm.redistribute(layout, ranges), self.array, self.flat)
        stack.callback(self.mover.close)
        self.files = [stack.enter_context(path.open("wb", buffering=0)).fileno() for path in paths]
        stack.callback(self._empty_files)

    def _empty_files(self) -> None:
        """Give back the memory of the files, which the next case may not use."""
        for file in self.files:
            os.truncate(file, 0)

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
        size = self.block * 8
        for row, blocks in enumerate(self.array.local.view("u1")):
            for k, begin in enumerate(range(0, len(blocks), size)):
                place = row * ROW_ELEMS * 8 + (k * self.comm.size + self.comm.rank) * size
                _write_all(self.files[0], blocks[begin : begin + size], place)

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

    def is_written(self) -> bool:
        """Return whether the files hold the array, on all processes, and empty them."""
        self.comm.Barrier()
        right = True
        if self.comm.rank == 0:
            found = [np.fromfile(path, "f8") for path in self.paths]
            stripe = self.message_bytes // 8
            begins = range(0, max(map(len, found)), stripe)
            messages = [file[begin : begin + stripe] for begin in begins for file in found]
            right = np.array_equal(np.concatenate([*messages, []]), np.arange(np.prod(self.shape)))
            for path in self.paths:
                os.truncate(path, 0)
        return self.comm.bcast(right)


def _write_all(file: int, data: Any, place: int) -> None:
    """Write all data, in as many calls as the system needs."""
    while len(data):
        done = os.pwrite(file, data, place)
        data, place = data[done:], place + done


def measure(
    comm: Any, seconds: float, megabytes: int, places: list[str], case: str, *sizes: int
) -> None:
    """Measure a case: blocks and messages of these sizes, and this number of files."""
    block_bytes, message_bytes, pathways = sizes
    rows = max(1, megabytes * 1_000_000 // (8 * ROW_ELEMS))
    paths = [Path(places[k % len(places)], f"flat-{k}.bin") for k in range(pathways)]
    facts: dict[str, Any] = {"case": case, "phase": "write", "pathways": pathways}
    facts |= {"bytes": rows * ROW_ELEMS * 8}
    facts |= {"block_bytes": block_bytes, "message_bytes": message_bytes}
    contest = Contest(comm, seconds, **facts)
    with ExitStack() as stack:
        work = Partitioned(stack, comm, rows, paths, block_bytes, message_bytes)
        contest.add("datamover", work.reshuffled, work.is_written)
        if pathways == 1:
            contest.add("pieces", work.piece_by_piece, work.is_written)
            contest.add("mpi-io", work.by_mpi, work.is_written)
        contest.add("write-only", work.write_ranges, work.is_written)
        work.reshuffled()  # the time for a file's first pages is not counted: they stay
        contest.finish()


BENCHMARK = Benchmark(
    name="flat",
    help="Write an array in blocks of 128 B to 64 KiB to flat files, reshuffled first.\n\n"
    "One file, for each size of blocks; 1, 2 and 4 files in turn, for each size of messages.",
    options={"nprocs": 2, "seconds": 2.0, "megabytes": 128, "directories": None},
    cases=lambda run: CASES,
    players=players,
    references=("pieces", "mpi-io", "write-only"),
    shown=("datamover",),
    figures=lambda run: {"flatness": flatness(rows_of(run.lines))},
    panels=panels,
    quick={"seconds": 1.0, "megabytes": 32},
)
