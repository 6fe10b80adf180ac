# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of overlap with computation by a progress thread. `datamover bench overlap`.

Source: the KeLP Data Mover's proxy, which progresses messages while the program computes.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from datamover import launch
from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("in_turn",))
OVERLAPPED = ("overlap", "overlap:thread")


def hidden(seconds: dict[str, float], contender: str) -> float:
    """Return the part of a move that is hidden behind the arithmetic: 1 is all of it.

    Below 0, both together took longer than one after the other.

    Examples
    --------
    >>> from datamover.bench.overlap import hidden
    >>> hidden({"move": 2.0, "arithmetic": 3.0, "overlap": 3.5}, "overlap")
    0.75
    """
    both = seconds["move"] + seconds["arithmetic"]
    return (both - seconds[contender]) / seconds["move"]


def bench(
    nprocs: options.Processes = 1,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    size: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=1, help="Rows and columns of a matrix; may be repeated."),
    ] = None,
    launcher: options.Launcher = None,
) -> None:
    """Transpose a matrix while the program computes half as long again, in its first-level cache.

    The thread needs a core in addition to those of the processes, or a slow link.
    """
    with options.measuring(nprocs):
        sizes = size or [2048, 4096]
        mpi = programs.own_mpi().started_by(launcher)
        command = [programs.program("overlap"), str(seconds), *map(str, sizes)]
        printed = programs.run(mpi, nprocs, command, seconds * len(sizes))
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        figures = hidden_in_cases(results.rows())
        options.finish(results, STYLE, json_file, [printed.compiler], {"hidden": figures})
        for case, found in figures.items():
            parts = ", ".join(f"{part:.0%} by {contender}" for contender, part in found.items())
            launch.console().print(f"{case}: hidden of the move: {parts}", highlight=False)


def hidden_in_cases(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return for each case the part of the move that each overlapped contender hides."""
    cases: dict[str, dict[str, float]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contender"]] = row["seconds"]
    return {
        case: {contender: hidden(seconds, contender) for contender in OVERLAPPED}
        for case, seconds in cases.items()
    }
