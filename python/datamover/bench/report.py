# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark results on a terminal and in a JSON file."""

from __future__ import annotations

import functools
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from datamover.bench.machine import describe_machine, describe_versions
from datamover.bench.rows import RANDOM_PREFIX, Results, Row, summarize
from datamover.counted import counted
from datamover.explanation_tables import titled
from datamover.time_words import as_time

#: Header of the one column of figures that holds names.
WORST_CASE = "in case"

#: A header, and a cell for each row of a table.
Columns = Mapping[str, Sequence[str | Text]]


def as_json(results: Results, references: Sequence[str], judged: tuple[str, ...]) -> dict[str, Any]:
    """Return the object that `--json` writes, without the entries of single benchmarks."""
    rows = results.rows()
    mpis = sorted({row["mpi"] for row in rows if row["mpi"]})
    versions: dict[str, Any] = {**describe_versions(), "mpi": mpis}
    if results.compilers:
        versions["compiler"] = sorted(results.compilers)
    return {
        "machine": describe_machine(),
        "versions": versions,
        "command": shlex.join(["datamover", *sys.argv[1:]]),
        "rows": rows,
        "summary": summarize(rows, references, judged),
        "left_out": results.left_out,
    }


def write(document: dict[str, Any], path: Path) -> None:
    """Write the object as JSON, one row per line."""
    rows = ",\n    ".join(json.dumps(row) for row in document["rows"])
    rest = {k: v for k, v in document.items() if k != "rows"}
    text = json.dumps(rest, indent=2)
    path.write_text(f'{text[:-2]},\n  "rows": [\n    {rows}\n  ]\n}}\n')


def show(
    document: dict[str, Any],
    references: Sequence[str],
    judged: tuple[str, ...],
    console: Console,
) -> None:
    """Print one table per case and phase, the summary, and the contenders left out."""
    rows = [r for r in document["rows"] if not r["case"].startswith(RANDOM_PREFIX)]
    order = list(dict.fromkeys((r["phase"], r["case"]) for r in rows))
    order.sort(key=lambda place: place[0])  # stable: cases stay in their order
    rows.sort(key=lambda r: order.index((r["phase"], r["case"])))
    parts: list[RenderableType] = []
    for (phase, case), chosen in groupby(rows, key=lambda r: (r["phase"], r["case"])):
        shown = list(chosen)
        mpi, many = shown[0]["mpi"], counted(shown[0]["processes"], "process", "processes")
        names = [
            Text(
                row["contender"] + ("" if row["mpi"] == mpi else f" ({row['mpi']})"),
                "bold" if row["contender"].startswith(judged) else "",
            )
            for row in shown
        ]
        title, figures = f"{case}, {phase}, {many}, MPI: {mpi}", _figures(shown, references)
        parts.append(table(title, {"contender": names}, figures, console))
    if document["summary"]:
        parts.append(_summary_table(document["summary"], console))
    for line in left_out(document["left_out"]):
        parts.append(Text(f"left out: {line}", style="yellow"))
    console.print(Group(*parts), highlight=False)


def left_out(notes: Sequence[dict[str, str]]) -> list[str]:
    """Return a line per contender and reason, with the cases."""
    cases: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        cases.setdefault((note["contender"], note["reason"]), []).append(note["case"])
    lines = []
    for (contender, reason), names in cases.items():
        where = f" in {names[0]}" if any(names) else ""
        more = f" and {len(names) - 1} more cases" if len(names) > 1 else ""
        lines.append(f"{contender}{where}{more}: {reason}")
    return lines


def _figures(rows: list[Row], references: Sequence[str]) -> Columns:
    """Return a table's columns besides names; columns without a figure are left out."""
    seconds = {row["contender"]: row["seconds"] for row in rows}
    cells = {
        "time": lambda row: as_time(row["seconds"]),
        "GB/s": lambda row: row["bytes"] and f"{row['bytes'] / row['seconds'] / 1e9:.3g}",
        **{
            f"× {name.replace(':', ': ')}": functools.partial(
                lambda name, row: f"{seconds[name] / row['seconds']:.2f}", name
            )
            for name in references
            if name in seconds
        },
        "nbytes": lambda row: f"{row['nbytes']:,}",
        "per peer": lambda row: f"{as_time(row['seconds_per_peer'])} × {row['peers']:,}",
        "peak MiB": lambda row: f"{row['peak_bytes'] >> 20:,}",
        "allowed MiB": lambda row: f"{row['allowed_bytes'] >> 20:,}",
    }

    def filled(cell: Any, row: Row) -> str:
        try:
            return cell(row) or ""
        except KeyError:  # a row of a contender without this figure
            return ""

    columns = {header: [filled(cell, row) for row in rows] for header, cell in cells.items()}
    return {header: column for header, column in columns.items() if any(column)}


def _summary_table(sums: list[dict[str, Any]], console: Console) -> Group:
    names = {"contender": [s["contender"] for s in sums], "phase": [s["phase"] for s in sums]}
    names["than"] = [s["reference"] for s in sums]
    if len(set(names["phase"])) == 1:
        del names["phase"]
    columns = {"cases": [f"{s['cases']}{' random' * (s['of'] == 'random')}" for s in sums]}
    return table("times as fast, over all cases", names, columns | spread_columns(sums), console)


def spread_columns(sums: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the columns of what `rows.spreads` returns."""
    keys = ("median", "worst_decile", "worst")
    columns = {key.replace("_", " "): [f"{s[key]:.2f}" for s in sums] for key in keys}
    return columns | {WORST_CASE: [s["worst_case"] for s in sums]}


def table(title: str, names: Columns, figures: Columns, console: Console) -> Group:
    """Return a table, or several with the same names if not all columns fit next to each other."""
    unlimited = console.options.update(max_width=1_000_000)
    tables: list[Table] = []
    chosen: dict[str, Sequence[str | Text]] = {}
    for header, cells in figures.items():
        wider = console.measure(_table(names, {**chosen, header: cells}), options=unlimited)
        if chosen and wider.minimum > console.width:
            tables.append(_table(names, chosen))
            chosen = {}
        chosen[header] = cells
    return titled(title, *tables, _table(names, chosen))


def _table(names: Columns, figures: Columns) -> Table:
    """Make a table in which no word is cut; headers of several words may take several lines."""
    made = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for header in names:
        made.add_column(header, no_wrap=True)
    for header, cells in figures.items():
        width = max(map(len, [*header.split(), *map(str, cells)]))
        justify: Literal["left", "right"] = "left" if header == WORST_CASE else "right"
        made.add_column(header, justify=justify, min_width=width)
    for row in zip(*names.values(), *figures.values(), strict=True):
        made.add_row(*row)
    return made
