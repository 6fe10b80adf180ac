# SPDX-License-Identifier: BSD-3-Clause
"""Does writing one flat file depend on how finely the array is partitioned? `datamover bench flat`.

Source: the paper on network I/O, section 6.3 and figure 12.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

#: Bytes of a partition's blocks: the paper's, and coarser ones.
BLOCK_BYTES = (128, 256, 512, 1024, 2048, 4096, 8192, 65536)
STYLE = Style(references=("pieces", "mpi-io", "write-only"))
#: A memory file system, where there is one.
MEMORY = Path("/dev/shm")


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 2.0,
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the array.")] = 128,
    directory: Annotated[
        Path | None, typer.Option(help="Where the file is made; else in memory, if possible.")
    ] = None,
) -> None:
    """Write an array in blocks of 128 B to 64 KiB to one flat file, reshuffled first."""
    with options.errors_to_exit():
        own = programs.own_mpi()
        results = Results()
        base = directory or (MEMORY if MEMORY.is_dir() else None)
        with tempfile.TemporaryDirectory(prefix="datamover-bench-", dir=base) as place:
            arguments = [str(seconds), str(megabytes), place, *map(str, BLOCK_BYTES)]
            command = programs.python_program("datamover.bench.flat_writes", *arguments)
            printed = programs.run(own, nprocs, command, seconds * len(BLOCK_BYTES))
        for line in printed.lines:
            results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file, more={"flatness": flatness(results)})


def flatness(results: Results) -> float | None:
    """Return the slowest of our cases over the fastest: 1 where the partition does not matter."""
    speeds = [r["bytes"] / r["seconds"] for r in results.rows() if r["contender"] == "datamover"]
    return min(speeds) / max(speeds) if speeds else None
