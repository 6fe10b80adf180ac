# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of flat files: partition, message size and pathways. `datamover bench flat`.

Source: the paper on network I/O, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.chart import Panel
from datamover.bench.programs import Line
from datamover.bench.rows import Results

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
    yield run.python_player("flat_writes", run.megabytes, places)


def flatness(results: Results) -> float | None:
    """Return the slowest partition of ours over the fastest: 1 if it does not matter."""
    speeds = [
        row["bytes"] / row["seconds"]
        for row in results.rows()
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
    found = [
        Panel("datamover, messages to 1, 2 and 4 files", striped, "message_bytes", series="files"),
        Panel("partitions to one file", partitions, "block_bytes"),
    ]
    return [panel for panel in found if panel.rows]


BENCHMARK = Benchmark(
    name="flat",
    help="Write an array in blocks of 128 B to 64 KiB to flat files, reshuffled first.\n\n"
    "One file, for each size of blocks; 1, 2 and 4 files in turn, for each size of messages.",
    options={"nprocs": 2, "seconds": 2.0, "megabytes": 128, "directories": None},
    cases=lambda run: CASES,
    players=players,
    references=("pieces", "mpi-io", "write-only"),
    shown=("datamover",),
    figures=lambda run: {"flatness": flatness(run.results)},
    panels=panels,
    quick={"seconds": 1.0, "megabytes": 32},
)
