# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of a benchmark's figures with those of an earlier run."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from datamover.bench import report
from datamover.bench.rows import Row, spreads
from datamover.counted import counted
from datamover.time_words import as_time

#: Entries of the machine and versions that make times differ.
SETTING = ("processor", "instruction_set", "cores", "datamover", "mpi")


def _place(row: Row) -> tuple[Any, ...]:
    """Return what identifies a row in runs with different versions of an MPI."""
    mpi = str(row.get("mpi", "")).rpartition(" ")[0]
    return (row["case"], row["phase"], row["contender"], row["processes"], mpi)


def compare(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Compare the rows of two JSON objects of a benchmark.

    Parameters
    ----------
    old, new : dict

    Returns
    -------
    dict
        `rows` in both, with `old` and `new` seconds and their `ratio` (above 1: faster now);
        `families`, the median and worst ratio per phase and contender; `only_old` and `only_new`,
        the numbers of other rows; `changed`, entries of the machine and versions that differ.

    Examples
    --------
    >>> from datamover.bench.compare import compare
    >>> row = {"case": "a", "phase": "move", "contender": "x", "processes": 2}
    >>> compare({"rows": [row | {"seconds": 3.0}]}, {"rows": [row | {"seconds": 2.0}]})["rows"]
    [{'case': 'a', 'phase': 'move', 'contender': 'x', 'old': 3.0, 'new': 2.0, 'ratio': 1.5}]
    """
    before = {_place(row): row["seconds"] for row in old["rows"]}
    after = {_place(row): row["seconds"] for row in new["rows"]}
    rows = [
        {
            "case": place[0],
            "phase": place[1],
            "contender": place[2],
            "old": before[place],
            "new": seconds,
            "ratio": before[place] / seconds,
        }
        for place, seconds in after.items()
        if place in before and seconds > 0
    ]
    settings = [{**d.get("machine", {}), **d.get("versions", {})} for d in (old, new)]
    return {
        "rows": rows,
        "families": spreads(rows, "phase", "contender"),
        "only_old": len(before.keys() - after.keys()),
        "only_new": len(after.keys() - before.keys()),
        "changed": {
            name: [setting.get(name) for setting in settings]
            for name in SETTING
            if settings[0].get(name) != settings[1].get(name)
        },
    }


def show(comparison: dict[str, Any], console: Console) -> None:
    """Print the ratios per row, the medians per family, and what else differs."""
    rows = comparison["rows"]
    if rows:
        cells = [
            {name: row[name] for name in ("case", "phase", "contender")}
            | {name: as_time(row[name]) for name in ("old", "new")}
            | {"old / new": f"{row['ratio']:.2f}"}
            for row in rows
        ]
        console.print(report.table(console, "compared with the earlier run", 3, cells))
        cells = [
            {"contender": family["contender"], "phase": family["phase"]}
            | {"rows": str(family["cases"]), **report.spread_cells(family)}
            for family in comparison["families"]
        ]
        title = "times as fast as in the earlier run"
        console.print(report.table(console, title, 2, cells))
        worst = min(rows, key=lambda row: row["ratio"])
        console.print(
            f"worst row: {worst['case']}, {worst['phase']}, {worst['contender']}: "
            f"{as_time(worst['old'])} before, {as_time(worst['new'])} now",
            highlight=False,
        )
    for number, where in ((comparison["only_old"], "earlier"), (comparison["only_new"], "later")):
        if number:
            console.print(f"{counted(number, 'row')} only in the {where} run", highlight=False)
    for name, (before, after) in comparison["changed"].items():
        line = f"{name} differs: {before} before, {after} now"
        console.print(line, style="yellow", highlight=False, soft_wrap=True)
