# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of relations against hand-written loops and NumPy. `datamover bench relations`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from datamover.bench import further_encodings, meshes, node_zero, numpy_copies, programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.chart import Panel, panels_by_phase
from datamover.bench.programs import Line
from datamover.errors import Unsupported

ENCODINGS = ("pairs", "blocks", "runs", "dictionary", "product", "offsets", "chosen")
#: Phases that are drawn.
PHASES = ("assembly", "disassembly", "copy")

SIZES = (1024, 2048, 4096)
NODE_ZERO = "node_zero-"
#: As the C++ program names them; it takes the beginnings of names.
OF_PROGRAM = (
    *(f"{r}-{n}" for n in SIZES for r in node_zero.REDISTRIBUTIONS),
    *(f"dense_transpose-{n}" for n in (1024, 2048, 4096, 8192)),
    *(f"pieces-{n}" for n in (8, 24, 64, 256, 1024, 4096, 16384)),
    "halo-16",
    "mesh_ordered",
    "mesh_shuffled",
)
CASES = tuple(
    Case(name)
    for name in (
        *OF_PROGRAM,
        *(f"{NODE_ZERO}{r}-{n}" for n in (*SIZES, 1 << 20) for r in node_zero.REDISTRIBUTIONS),
        *meshes.NAMES,
    )
)


def players(run: Run) -> Iterator[Player]:
    """Give the program and NumPy, the sizes on one process, and the meshes."""

    def in_python(measure: Callable[[str], Iterator[Line]]) -> Callable[..., Iterator[Line]]:
        mpi = {"mpi": run.mpi.name}  # as the rows of the program that they are compared with
        return lambda cases, seconds: ({**mpi, **line} for line in measure(cases[0].name))

    def names(cases: Sequence[Case], seconds: float) -> list[str]:
        return [case.name for case in cases]

    def of_mesh(name: str) -> Iterator[Line]:
        try:
            index = meshes.columns(name)
        except Unsupported as missing:
            yield {"left_out": "mesh", "reason": str(missing), "case": name}
            return
        file = run.scratch / "index"
        index.tofile(file)
        command = [programs.program("relations"), "--index", name, str(file)]
        yield from programs.run(run.mpi, 1, command, 60)
        yield from numpy_copies.measure_index(name, index)
        yield from further_encodings.measure(name, index)

    def plays(case: Any) -> bool:
        return case.name in OF_PROGRAM

    program = programs.program("relations")
    yield run.player(program, arguments=names, processes=1, plays=plays)
    yield Player(in_python(numpy_copies.measure), plays=plays)
    yield Player(in_python(node_zero.measure), lambda case: case.name.startswith(NODE_ZERO))
    yield Player(in_python(of_mesh), lambda case: case.name in meshes.NAMES)


def panels(rows: list[Line]) -> list[Panel]:
    """Return a panel of speeds per phase that decodes."""
    return panels_by_phase([row for row in rows if row["phase"] in PHASES])


BENCHMARK = Benchmark(
    name="relations",
    help="Decode relations while copying, in every encoding: assembly, disassembly, straight.\n\n"
    "-n is accepted as everywhere; one process does it all.",
    options={"rounds": 1},
    cases=lambda run: CASES,
    players=players,
    references=("loop", "memcpy", "mpi_pack", "numpy"),
    judged=ENCODINGS,
    shown=("chosen",),
    panels=panels,
    quick={
        "case": [*(f"{r}-1024" for r in node_zero.REDISTRIBUTIONS), "dense_transpose-2048", "mesh_"]
    },
)
