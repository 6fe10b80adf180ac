# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of distributions of single elements. `datamover bench distribute`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from datamover.bench import programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.chart import Panel, panels_by_phase
from datamover.bench.programs import Line
from datamover.errors import InvalidArgument

#: A case's program may take this many times the seconds of the case: phases, slow contenders.
PHASES = 8

EXAMPLES = ("A", "B", "C", "B-inplace", "C-inplace")
TRAJECTORY = Case("md-frames")

#: Phases of the paper's figures 2 and 3, and of the same for a plan used again.
DRAWN = {"once": "set-up and move", "again": "a plan used again"}


def parse(name: str) -> Case:
    """Return one of the paper's examples with a number of elements per process.

    Examples
    --------
    >>> from datamover.bench.distribute import parse
    >>> parse("C-inplace-500")
    Case(name='C-inplace-500', words=('C-inplace', 500))
    """
    if not re.fullmatch(rf"({'|'.join(EXAMPLES)})-[1-9]\d*", name, re.ASCII):
        raise InvalidArgument(f"{name!r} is not a case: pass EXAMPLE-ELEMENTS, or md-frames")
    example, _, count = name.rpartition("-")
    return Case(name, (example, int(count)))


def panels(rows: list[Line]) -> list[Panel]:
    """Return the paper's panels with times against processes; of other cases, one per phase."""
    found: dict[str, list[Line]] = {}
    for row in rows:
        example, _, count = row["case"].rpartition("-")
        if example in EXAMPLES and row["phase"] in DRAWN:
            title = f"Example {example}: {DRAWN[row['phase']]}, {int(count):,} elements per process"
            found.setdefault(title, []).append(row)
    drawn = [Panel(title, of, along="processes", value="ms") for title, of in found.items()]
    return drawn or panels_by_phase(rows)


def players(run: Run) -> Iterator[Player]:
    """Give the program of ours and the counting sort, NumPy's, and that of the trajectory."""
    yield run.player(
        programs.program("distribute"), patience=PHASES, plays=lambda case: case != TRAJECTORY
    )
    yield run.python_player(
        "distribute_numpy",
        patience=PHASES,
        plays=lambda case: case != TRAJECTORY and "inplace" not in case.name,
    )
    if TRAJECTORY in run.cases:
        missing = [n for n in ("MDAnalysis", "MDAnalysisTests") if not importlib.util.find_spec(n)]
        if missing:
            reason = f"{missing[0]} is not installed (pip install {missing[0]})"
            run.results.leave_out("datamover:auto", reason, TRAJECTORY.name)
        else:
            yield run.python_player("md_frames", plays=lambda case: case == TRAJECTORY)


BENCHMARK = Benchmark(
    name="distribute",
    help="Distribute integers (A) and particles (B; C: most stay) to their processes, one by one.",
    options={"nprocs": 2, "seconds": 3.0, "add": None},
    cases=lambda run: [
        *(parse(f"{e}-{n}") for e in EXAMPLES for n in (100_000, 2_000_000)),
        TRAJECTORY,
    ],
    parse=parse,
    players=players,
    references=("counting_sort_alltoallv", "numpy", "memcpy"),
    shown=("datamover:auto",),
    panels=panels,
    quick={"seconds": 0.5},
)
