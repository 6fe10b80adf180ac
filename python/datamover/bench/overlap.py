# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of overlap with computation by a progress thread. `datamover bench overlap`.

Source: the KeLP Data Mover's proxy, which progresses messages while the program computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from datamover.bench.benchmark import Benchmark, Case, match
from datamover.bench.rows import rows_of

OVERLAPPED = ("overlap", "overlap:thread")


def matrix(name: str) -> Case:
    """Return the case of a matrix by its number of rows."""
    return Case(match(r"0*[1-9]\d*", name, "a case: pass the number of rows of a matrix")[0])


def hidden(seconds: dict[str, float], contender: str) -> float:
    """Return the part of a move that takes no time in addition to the arithmetic: 1 is all of it.

    Below 0, both together took longer than one after the other.

    Examples
    --------
    >>> from datamover.bench.overlap import hidden
    >>> hidden({"move": 2.0, "arithmetic": 3.0, "overlap": 3.5}, "overlap")
    0.75
    """
    both = seconds["move"] + seconds["arithmetic"]
    return (both - seconds[contender]) / seconds["move"]


def hidden_in_cases(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return for each case the part of the move that each overlapped contender hides."""
    cases: dict[str, dict[str, float]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contender"]] = row["seconds"]
    return {
        case: {contender: hidden(seconds, contender) for contender in OVERLAPPED}
        for case, seconds in cases.items()
    }


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Give a line per case."""
    for case, found in figures["hidden"].items():
        parts = ", ".join(f"{part:.0%} by {contender}" for contender, part in found.items())
        yield f"{case}: hidden of the move: {parts}"


BENCHMARK = Benchmark(
    name="overlap",
    help="Transpose a matrix while the program computes 1.5 times as long as the move takes.\n\n"
    "The thread needs a core in addition to those of the processes, or a link that takes the time.",
    options={"nprocs": 1, "seconds": 3.0, "launcher": None},
    cases=lambda run: map(matrix, ("2048", "4096")),
    parse=matrix,
    players=lambda run: [run.player("overlap")],
    references=("in_turn",),
    judged=OVERLAPPED,
    figures=lambda run: {"hidden": hidden_in_cases(rows_of(run.lines))},
    tables=lines,
    quick={"case": ["2048"], "seconds": 2.0},
)
