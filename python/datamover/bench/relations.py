# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of relations against hand-written loops and NumPy. `bench relations`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamover.bench import further_encodings, meshes, node_zero, numpy_copies, options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.errors import Unsupported

ENCODINGS = ("pairs", "blocks", "runs", "dictionary", "product", "offsets", "chosen")
STYLE = Style(references=("loop", "memcpy", "mpi_pack", "numpy"), judged=ENCODINGS)

SIZES = (1024, 2048, 4096)
REDISTRIBUTIONS = tuple(node_zero.REDISTRIBUTIONS)
NODE_ZERO_SIZES = (*SIZES, 1 << 20)


@dataclass(frozen=True)
class Case:
    """A case, by its name, with which the program's cases may begin."""

    name: str


CASES = (
    *(Case(f"{r}-{n}") for n in SIZES for r in REDISTRIBUTIONS),
    *(Case(f"node_zero-{r}-{n}") for n in NODE_ZERO_SIZES for r in REDISTRIBUTIONS),
    *(Case(f"dense_transpose-{n}") for n in (1024, 2048, 4096, 8192)),
    *(Case(f"pieces-{n}") for n in (8, 24, 64, 256, 1024, 4096, 16384)),
    Case("halo-16"),
    Case("mesh_ordered"),
    Case("mesh_shuffled"),
    *(Case(name) for name in meshes.NAMES),
)


def bench(
    nprocs: options.Processes = 1,
    json_file: options.JsonFile = None,
    rounds: options.Rounds = 1,
    case: options.CaseNames = None,
    png_file: options.picture_file("Draw the encodings' speed.") = None,
) -> None:
    """Decode relations while copying: assembly, disassembly and direct copy, every encoding.

    -n is accepted as everywhere; one process does all the work.
    """
    with options.measuring(nprocs):
        mpi = programs.own_mpi()
        results = Results()
        compilers = []
        for chosen in options.choose(CASES, case):
            for _ in range(rounds):
                try:
                    for printed in _measure(mpi, chosen.name):
                        compilers.append(printed.compiler)
                        for line in printed.lines:
                            results.add(line, printed.mpi)
                except Unsupported as missing:
                    results.leave_out("mesh", str(missing), chosen.name)
        options.finish(results, STYLE, json_file, [c for c in compilers if c])
        if png_file is not None:
            from datamover.bench.plot import draw_encodings

            draw_encodings(results.rows(), ENCODINGS, png_file)


def _measure(mpi: programs.Mpi, name: str) -> Iterator[programs.Printed]:
    """Yield the output of the program and of Python's contenders for a case."""
    if name.startswith("node_zero-"):
        redistribution, n = name.removeprefix("node_zero-").rsplit("-", 1)
        yield _said(node_zero.measure(redistribution, int(n)), mpi)
    elif name in meshes.NAMES:
        index = meshes.columns(name)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "index")
            index.tofile(file)
            yield programs.run(mpi, 1, [programs.program("relations"), "--index", name, file], 60)
        yield _said(numpy_copies.measure_index(name, index), mpi)
        yield _said(further_encodings.measure(name, index), mpi)
    else:
        yield programs.run(mpi, 1, [programs.program("relations"), name], 60)
        yield _said(numpy_copies.measure(name), mpi)


def _said(lines: Iterable[dict[str, Any]], mpi: programs.Mpi) -> programs.Printed:
    return programs.Printed(list(lines), mpi.name)
