# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of whole programs against hand-written MPI twins. `datamover bench applications`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from datamover.apps import command as apps
from datamover.apps.lines import lines_of
from datamover.bench import programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.programs import Line
from datamover.errors import IoFailed

#: The numbers of processes that the schemes of some applications require.
PROCESSES: dict[str, tuple[str, Callable[[int], bool]]] = {
    "nas_mg": ("1, 2, 4 or 8 processes", lambda number: number in (1, 2, 4, 8)),
    "nas_lu": ("a power of two of processes", lambda number: number & (number - 1) == 0),
    "nas_bt": ("a square number of processes", lambda number: math.isqrt(number) ** 2 == number),
}
PROCESSES["nas_sp"] = PROCESSES["nas_bt"]

#: The words are an application and its problem.
CASES = tuple(
    Case(f"{application}-{size}", (application, size, *more))
    for application, sizes, more in (
        ("redblack3d", ("128", "256", "360"), ("10",)),
        ("nas_ft", "SWA", ()),
        ("nas_mg", "SWA", ()),
        ("summa", ("700", "1111", "1400"), ("64",)),
        *((name, "SWA", ("10",)) for name in ("nas_lu", "nas_bt", "nas_sp")),
    )
    for size in sizes
)


def rows_of_phases(row: dict[str, Any]) -> Iterator[Line]:
    """Split an application's row: the total time, and the part for communication.

    Examples
    --------
    >>> from datamover.bench.applications import rows_of_phases
    >>> row = {"application": "redblack3d", "case": "redblack3d-128", "contender": "by_hand",
    ...        "processes": 2, "verified": True, "seconds": 3.0, "samples": [3.0],
    ...        "communication_seconds": 1.0, "communication_samples": [1.0]}
    >>> [(r["phase"], r["samples"]) for r in rows_of_phases(row)]
    [('total', [3.0]), ('communication', [1.0])]
    """
    facts = {k: v for k, v in row.items() if k not in ("seconds", "communication_samples")}
    # Lines of the overlapped version only are not part of a comparison with by_hand.
    lines = lines_of(row["application"]).get(row["contender"])
    facts |= {"bytes": 0, **({} if lines is None else {"lines": lines})}
    yield {**facts, "phase": "total"}
    yield {**facts, "phase": "communication", "samples": row["communication_samples"]}


def versions_of(application: str) -> Iterator[list[str]]:
    """Give the versions that run in turns; MPI is slower if threads may call it: they run alone.

    Examples
    --------
    >>> from datamover.bench.applications import versions_of
    >>> list(versions_of("summa"))
    [['datamover', 'overlap', 'by_hand', 'ring'], ['thread']]
    >>> list(versions_of("nas_lu"))
    [['datamover', 'by_hand', 'datatypes', 'original']]
    """
    alone = ("thread", "python")
    there = apps.APPLICATIONS[application].versions
    yield [version for version in there if version not in alone]
    yield from (["thread"] for version in there if version == "thread")


def players(run: Run) -> Iterator[Player]:
    """Give the applications, which take turns within their programs."""

    def play(cases: Sequence[Case], seconds: float) -> Iterator[Line]:
        ((application, *problem),) = (case.words for case in cases)
        wanted, allows = PROCESSES.get(application, ("", lambda number: True))
        if not allows(run.nprocs):
            yield {"left_out": application, "reason": f"wants {wanted}, not {run.nprocs}"}
            return
        try:
            program = apps.program(application)
        except IoFailed as e:
            yield {"left_out": application, "reason": str(e)}
            return
        file = run.scratch / "rows.json"
        for versions in versions_of(application):
            command = [program, ",".join(versions), *problem, str(run.turns), str(file)]
            # A program with wrong results ends with an error.
            programs.run(run.mpi, run.nprocs, command, seconds=60.0 * run.turns)
            for row in json.loads(file.read_text())["rows"]:
                yield from rows_of_phases({**row, "mpi": run.mpi.name})

    yield Player(play)


BENCHMARK = Benchmark(
    name="applications",
    help="Run the applications of `datamover app`, alternating between their versions.",
    options={"nprocs": 2, "turns": 5},
    cases=lambda run: CASES,
    players=players,
    references=("by_hand",),
    shown=("datamover",),
    quick={
        "turns": 3,
        "case": [case.name for case in CASES if case.words[1] in ("128", "S", "700")],
    },
)
