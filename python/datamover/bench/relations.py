# SPDX-License-Identifier: BSD-3-Clause
"""How fast are relations decoded, beside hand-written loops and NumPy? `bench relations`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import numpy_copies, options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

ENCODINGS = ("pairs", "blocks", "runs", "dictionary", "product", "offsets", "chosen")
STYLE = Style(references=("loop", "memcpy", "mpi_pack", "numpy"), judged=ENCODINGS)

REDISTRIBUTIONS = ("block_rows-block_cols", "block-cyclic", "cyclic-block", "transpose")


@dataclass(frozen=True)
class Case:
    """A case of the program, by the beginning of its name."""

    name: str


CASES = (
    *(Case(f"{r}-{n}") for n in (1024, 2048, 4096) for r in REDISTRIBUTIONS),
    *(Case(f"dense_transpose-{n}") for n in (1024, 2048, 4096, 8192)),
    *(Case(f"pieces-{n}") for n in (8, 24, 64, 256, 1024, 4096, 16384)),
    Case("halo-16"),
    Case("mesh_ordered"),
    Case("mesh_shuffled"),
)


def bench(
    nprocs: options.Processes = 1,
    json_file: options.JsonFile = None,
    rounds: options.Rounds = 1,
    case: options.CaseNames = None,
    png_file: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Draw the encodings' speed.")
    ] = None,
) -> None:
    """Decode relations while copying: assembly, disassembly and direct copy, every encoding.

    -n is accepted as everywhere; one process does it all.
    """
    with options.errors_to_exit():
        mpi = programs.own_mpi()
        results = Results()
        compilers = []
        for chosen in options.choose(CASES, case):
            for _ in range(rounds):
                printed = programs.run(mpi, 1, [programs.program("relations"), chosen.name], 60)
                compilers.append(printed.compiler)
                for line in printed.lines:
                    results.add(line, printed.mpi)
                for line in numpy_copies.measure(chosen.name):
                    results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file, [c for c in compilers if c])
        if png_file is not None:
            from datamover.bench.plot import draw_encodings

            draw_encodings(results.rows(), ENCODINGS, png_file)
