# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of whole programs against hand-written MPI twins. `bench applications`."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamover.apps import command as apps
from datamover.apps.lines import lines_of
from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.errors import IoError

STYLE = Style(references=("by_hand",))


def is_power_of_two(number: int) -> bool:
    """Return whether a number is 1, 2, 4, 8 and so on."""
    return number & (number - 1) == 0


def is_square(number: int) -> bool:
    """Return whether a number is 1, 4, 9, 16 and so on."""
    return math.isqrt(number) ** 2 == number


#: Requirements of some applications on the number of processes.
PROCESSES: dict[str, tuple[str, Callable[[int], bool]]] = {
    "nas_mg": ("1, 2, 4 or 8 processes", lambda number: number in (1, 2, 4, 8)),
    "nas_lu": ("a power of two of processes", is_power_of_two),
    "nas_bt": ("a square number of processes", is_square),
    "nas_sp": ("a square number of processes", is_square),
}


@dataclass(frozen=True)
class Case:
    """An application with a problem."""

    application: str
    problem: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name, such as redblack3d-256, by size or class."""
        return f"{self.application}-{self.problem[0]}"


CASES = (
    *(Case("redblack3d", (size, "10")) for size in ("128", "256", "360")),
    *(Case("nas_ft", (name,)) for name in "SWA"),
    *(Case("nas_mg", (name,)) for name in "SWA"),
    *(Case("summa", (size, "64")) for size in ("700", "1111", "1400")),
    *(Case(name, (of, "10")) for name in apps.PATTERNS for of in "SWA"),
)


def rows_of_phases(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split an application's row into its total time and its communication time.

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
    # The additions of the overlapped version are not part of a comparison with by_hand.
    lines = lines_of(row["application"]).get(row["contender"])
    facts |= {"bytes": 0, **({} if lines is None else {"lines": lines})}
    yield {**facts, "phase": "total"}
    yield {**facts, "phase": "communication", "samples": row["communication_samples"]}


def versions_of(application: str) -> Iterator[list[str]]:
    """Yield versions that run in turns; MPI is slower with threads, so `thread` is separate.

    Examples
    --------
    >>> from datamover.bench.applications import versions_of
    >>> list(versions_of("summa"))
    [['datamover', 'overlap', 'by_hand', 'ring'], ['thread']]
    >>> list(versions_of("nas_lu"))
    [['datamover', 'by_hand', 'datatypes', 'original']]
    """
    overlapped = application not in apps.PATTERNS
    yield ["datamover", *(["overlap"] if overlapped else []), *apps.twins(application)]
    if overlapped:
        yield ["thread"]


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    rounds: options.Rounds = 5,
    case: options.CaseNames = None,
) -> None:
    """Run the applications of `datamover app`, their versions in turns."""
    with options.measuring(nprocs), tempfile.TemporaryDirectory(prefix="datamover-") as directory:
        results, mpi = Results(), programs.own_mpi()
        file = Path(directory, "rows.json")
        for chosen in options.choose(CASES, case):
            try:
                program = apps.program(chosen.application)
            except IoError as e:
                results.leave_out(chosen.application, str(e))
                continue
            wanted, allows = PROCESSES.get(chosen.application, ("", lambda _: True))
            if not allows(nprocs):
                results.leave_out(chosen.application, f"wants {wanted}, not {nprocs}")
                continue
            for versions in versions_of(chosen.application):
                command = [program, ",".join(versions), *chosen.problem, str(rounds), str(file)]
                # A program with wrong results ends with an error.
                programs.run(mpi, nprocs, command, seconds=60.0 * rounds)
                for row in json.loads(file.read_text())["rows"]:
                    for phase in rows_of_phases(row):
                        results.add(phase, mpi.name)
        options.finish(results, STYLE, json_file)
