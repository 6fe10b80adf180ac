# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of distributions of single elements against a counting sort. `bench distribute`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.errors import InvalidArgument

STYLE = Style(references=("counting_sort_alltoallv", "numpy", "memcpy"))

#: Multiple of the seconds of a case that its program may need, for phases and slow contenders.
PHASES = 8


@dataclass(frozen=True)
class Example:
    """One of the paper's Examples A, B and C with a number of elements per process."""

    example: str
    count: int

    @property
    def name(self) -> str:
        """The example and the number of elements."""
        return f"{self.example}-{self.count}"

    def arguments(self) -> list[str]:
        """Return the case as the programs' arguments."""
        return [self.name, self.example, str(self.count)]


@dataclass(frozen=True)
class Trajectory:
    """The atoms of a trajectory computed by other software."""

    name: str = "md-frames"


CASES: tuple[Example | Trajectory, ...] = (
    *(
        Example(example, count)
        for example in ("A", "B", "C", "B-inplace", "C-inplace")
        for count in (100_000, 2_000_000)
    ),
    Trajectory(),
)


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    case: options.CaseNames = None,
    png_file: options.picture_file("Draw times, from all --add files too.") = None,
    add: Annotated[
        list[Path] | None,
        typer.Option("--add", metavar="FILE", help="JSON of runs with other -n, for the picture."),
    ] = None,
) -> None:
    """Distribute integers (A) and particles (B; C: most stay) to their processes, one by one."""
    with options.measuring(nprocs):
        cases = options.choose(CASES, case)
        if png_file is not None and not add and cases == [Trajectory()]:
            raise InvalidArgument("md-frames is not drawn: choose other cases with it")
        own = programs.own_mpi()
        results = Results()
        compilers = []
        for chosen in cases:
            for command in _commands(chosen, seconds, results):
                # Each in a program of its own: its first call is then a first call.
                printed = programs.run(own, nprocs, command, PHASES * seconds)
                compilers.append(printed.compiler)
                for line in printed.lines:
                    results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file, [c for c in compilers if c])
        if png_file is not None:
            from datamover.bench.plot_distribute import draw, rows_of

            draw([*results.rows(), *rows_of(add or ())], png_file)


def _commands(case: Example | Trajectory, seconds: float, results: Results) -> list[list[str]]:
    if isinstance(case, Trajectory):
        wanted = ("MDAnalysis", "MDAnalysisTests")
        missing = [name for name in wanted if importlib.util.find_spec(name) is None]
        if missing:
            results.leave_out(
                "datamover:auto",
                f"{missing[0]} is not installed (pip install {missing[0]})",
                case.name,
            )
            return []
        return [programs.python_program("datamover.bench.md_frames", str(seconds))]
    found = [[programs.program("distribute"), str(seconds), *case.arguments()]]
    if not case.example.endswith("-inplace"):
        module = "datamover.bench.distribute_numpy"
        found.append(programs.python_program(module, str(seconds / 2), *case.arguments()))
    return found
