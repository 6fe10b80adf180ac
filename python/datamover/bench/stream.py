# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of streams against hand-written sockets. `datamover bench stream`.

Source: Network I/O for a distributed-memory machine, section 6 and figures 11 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(
    references=(
        "sockets:packed",
        "sockets:contiguous",
        "shared:packed",
        "gather",
        "sst",
        "memcpy",
        "memcpy:checked",
    )
)
#: Bytes of a message, and of the blocks that it is gathered from.
MESSAGES = {"4K": 4 << 10, "64K": 64 << 10, "1M": 1 << 20, "8M": 8 << 20}
BLOCK_BYTES = (128, 1024, 8192)
#: Waiting processes yield, because there may be more of them than cores.
GIVE_WAY = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}


@dataclass(frozen=True)
class Case:
    """Sizes of messages, and of the blocks from which they are gathered, in bytes."""

    message: str
    block_bytes: int

    @property
    def name(self) -> str:
        """Both, as "64K-128"."""
        return f"{self.message}-{self.block_bytes}"


#: A message of at least two blocks has something to gather.
CASES = tuple(
    Case(message, block)
    for message, nbytes in MESSAGES.items()
    for block in BLOCK_BYTES
    if 2 * block <= nbytes
)


def bench(
    nprocs: Annotated[
        int, typer.Option("-n", "--nprocs", min=1, help="Number of processes that send.")
    ] = 1,
    consumers: Annotated[int, typer.Option(min=1, help="Number of processes that receive.")] = 1,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    case: options.CaseNames = None,
    launcher: options.Launcher = None,
    png_file: options.picture_file("Draw the speeds.") = None,
) -> None:
    """Send an array stored in blocks to another program that stores it in order."""
    with options.measuring(nprocs + consumers):
        chosen = options.choose(CASES, case)
        words = [w for c in chosen for w in (c.name, str(MESSAGES[c.message]), str(c.block_bytes))]
        arguments = [str(seconds), str(nprocs), *words]
        command = programs.python_program("datamover.bench.stream_ends", *arguments)
        mpi = programs.own_mpi().started_by(launcher)
        seconds = seconds * len(chosen)
        printed = programs.run(mpi, nprocs + consumers, command, seconds, GIVE_WAY)
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file)
        if png_file is not None:
            from datamover.bench.plot_stream import draw

            draw(results.rows(), png_file)
