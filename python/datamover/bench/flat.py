# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of flat files: partition, message size and pathways. `datamover bench flat`.

Source: the paper on network I/O, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("pieces", "mpi-io", "write-only"))
#: A memory file system, if there is one.
MEMORY = Path("/dev/shm")
#: Bytes of the partition's blocks: the paper's, and coarser ones.
BLOCK_BYTES = (128, 256, 512, 1024, 2048, 4096, 8192, 65536)
#: Bytes of a write after reshuffling, in cases with different blocks.
USUAL_MESSAGE = 1 << 20
#: Bytes of a block in cases with different messages and pathways.
USUAL_BLOCK = 1024
MESSAGES = {"4K": 4 << 10, "16K": 16 << 10, "64K": 64 << 10, "256K": 256 << 10, "1M": 1 << 20}
PATHWAYS = (1, 2, 4)


@dataclass(frozen=True)
class Case:
    """Sizes of blocks and messages in bytes, and the number of files."""

    name: str
    block_bytes: int
    message_bytes: int = USUAL_MESSAGE
    pathways: int = 1

    @property
    def word(self) -> str:
        """The case as an argument of the program."""
        return f"{self.name}:{self.block_bytes}:{self.message_bytes}:{self.pathways}"


CASES = (
    *(Case(f"blocks-{block}", block) for block in BLOCK_BYTES),
    *(
        Case(f"pathways-{pathways}-{name}", USUAL_BLOCK, message, pathways)
        for pathways in PATHWAYS
        for name, message in MESSAGES.items()
    ),
)


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 2.0,
    case: options.CaseNames = None,
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the array.")] = 128,
    directory: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory of the files; by default in memory, if possible. If repeated, the "
            "files of several pathways use the directories in turn.",
        ),
    ] = None,
    png_file: options.picture_file("Draw the speeds.") = None,
) -> None:
    """Write an array in blocks of 128 B to 64 KiB to flat files, reshuffled first.

    One file, for each size of blocks; 1, 2 and 4 files in turn, for each size of messages.
    """
    with options.measuring(nprocs), contextlib.ExitStack() as made:
        chosen = options.choose(CASES, case)
        own = programs.own_mpi()
        bases = directory or [MEMORY if MEMORY.is_dir() else None]
        places = [
            made.enter_context(tempfile.TemporaryDirectory(prefix="datamover-bench-", dir=base))
            for base in bases
        ]
        arguments = [str(seconds), str(megabytes), os.pathsep.join(places)]
        arguments += [c.word for c in chosen]
        command = programs.python_program("datamover.bench.flat_writes", *arguments)
        printed = programs.run(own, nprocs, command, seconds * len(chosen))
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file, more={"flatness": flatness(results)})
        if png_file is not None:
            from datamover.bench.plot_flat import draw

            draw(results.rows(), png_file)


def flatness(results: Results) -> float | None:
    """Return datamover's slowest partition over its fastest: 1 if the partition has no effect."""
    speeds = [
        row["bytes"] / row["seconds"]
        for row in results.rows()
        if row["contender"] == "datamover" and row["case"].startswith("blocks-")
    ]
    return min(speeds) / max(speeds) if speeds else None
