# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark results on a terminal and in a file."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from datamover.bench.machine import describe_machine, describe_versions
from datamover.bench.rows import Results, speed_ratios, worst_decile
from datamover.counted import counted
from datamover.explanation_tables import titled
from datamover.time_words import as_time

RANDOM_PREFIX = "random-"
WORST_CASE = "in case"

#: A column of a table: a header, and a cell for each row.
Column = tuple[str, Sequence[str | Text]]


@dataclass(frozen=True)
class Style:
    """Comparisons in a benchmark's tables.

    Parameters
    ----------
    references : tuple of str
        Contenders with which all others are compared, one column each.
    judged : tuple of str
        Beginnings of the names of the contenders that the summary counts.
    hide : tuple of str
        Beginnings of the names of cases that are only summarized, not listed.
    """

    references: tuple[str, ...]
    judged: tuple[str, ...] = ("datamover",)
    hide: tuple[str, ...] = (RANDOM_PREFIX,)


def as_json(results: Results, style: Style, compilers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object that `--json` writes.

    Parameters
    ----------
    results : Results
    style : Style
    compilers : sequence of str
        Versions of the compilers that the programs were built with.
    """
    rows = results.rows()
    mpis = sorted({row["mpi"] for row in rows if row["mpi"]})
    versions: dict[str, Any] = {**describe_versions(), "mpi": mpis}
    if compilers:
        versions["compiler"] = sorted(set(compilers))
    return {
        "machine": describe_machine(),
        "versions": versions,
        "command": shlex.join(["datamover", *sys.argv[1:]]),
        "rows": rows,
        "summary": summarize(rows, style),
        "left_out": [vars(note) for note in results.left_out],
    }


def summarize(rows: Sequence[dict[str, Any]], style: Style) -> list[dict[str, Any]]:
    """Return ratios of speed over all cases: median, worst decile and worst, per phase.

    Listed and random cases are summarized separately; `of` names them.
    """
    sums = []
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    for kind, phase in ((k, p) for k in ("listed", "random") for p in phases):
        chosen = [
            row
            for row in rows
            if row["phase"] == phase and row["case"].startswith(RANDOM_PREFIX) == (kind == "random")
        ]
        contenders = dict.fromkeys(r["contender"] for r in chosen)
        for contender in (c for c in contenders if c.startswith(style.judged)):
            for reference in (r for r in style.references if r != contender):
                ratios = speed_ratios(chosen, contender, reference)
                if not ratios:
                    continue
                worst = min(ratios, key=lambda place: ratios[place])
                sums.append(
                    {
                        "of": kind,
                        "phase": phase,
                        "contender": contender,
                        "reference": reference,
                        "cases": len(ratios),
                        "median": statistics.median(ratios.values()),
                        "worst_decile": worst_decile(ratios.values()),
                        "worst": ratios[worst],
                        "worst_case": worst[0],
                    }
                )
    return sums


def show(results: Results, style: Style, console: Console) -> None:
    """Print one table per case and phase, the summary, and the contenders left out."""
    rows = [r for r in results.rows() if not r["case"].startswith(style.hide)]
    rows.sort(key=lambda r: r["phase"])  # stable: cases stay in their order
    parts: list[Any] = []
    order = list(dict.fromkeys((r["phase"], r["case"]) for r in rows))
    rows.sort(key=lambda r: order.index((r["phase"], r["case"])))
    for (phase, case), chosen in groupby(rows, key=lambda r: (r["phase"], r["case"])):
        parts.append(_case_table(case, phase, list(chosen), style, console))
    sums = summarize(results.rows(), style)
    if sums:
        parts.append(_summary_table(sums, console))
    for contender, reason, cases in _left_out(results):
        parts.append(Text(f"left out: {contender}{cases}: {reason}", style="yellow"))
    console.print(Group(*parts), highlight=False)


def write(document: dict[str, Any], path: Path) -> None:
    """Write the object as JSON, one row per line."""
    rows = ",\n    ".join(json.dumps(row) for row in document["rows"])
    rest = {k: v for k, v in document.items() if k != "rows"}
    text = json.dumps(rest, indent=2)
    path.write_text(f'{text[:-2]},\n  "rows": [\n    {rows}\n  ]\n}}\n')


def _case_table(
    case: str, phase: str, rows: list[dict[str, Any]], style: Style, console: Console
) -> Group:
    processes, mpi = rows[0]["processes"], rows[0]["mpi"]
    many = counted(processes, "process", "processes")
    names = [
        Text(_name(row, mpi), "bold" if row["contender"].startswith(style.judged) else "")
        for row in rows
    ]
    tables = _side_by_side([("contender", names)], _columns(rows, style), console)
    return titled(f"{case}, {phase}, {many}, MPI: {mpi}", *tables)


def _columns(rows: list[dict[str, Any]], style: Style) -> list[Column]:
    """Return the columns of a table without names: a header, and a cell for each row."""
    columns: list[Column] = [("time", [as_time(row["seconds"]) for row in rows])]
    if any(row["bytes"] for row in rows):
        columns.append(("GB/s", [_speed(row) for row in rows]))
    seconds = {row["contender"]: row["seconds"] for row in rows}
    for reference in (r for r in style.references if r in seconds):
        ratios = [f"{seconds[reference] / row['seconds']:.2f}" for row in rows]
        columns.append((f"× {reference.replace(':', ': ')}", ratios))
    if any("nbytes" in row for row in rows):
        columns.append(("nbytes", [f"{r['nbytes']:,}" if "nbytes" in r else "" for r in rows]))
    if any("seconds_per_peer" in row for row in rows):
        columns.append(("per peer", [_per_peer(row) for row in rows]))
    for key in ("peak_bytes", "allowed_bytes"):
        if any(key in row for row in rows):
            cells = [f"{row[key] >> 20:,}" if key in row else "" for row in rows]
            columns.append((key.replace("_bytes", " MiB"), cells))
    return columns


def _side_by_side(names: list[Column], columns: list[Column], console: Console) -> list[Table]:
    """Return one table, or several with the same names if not all columns fit in one."""
    unlimited = console.options.update(max_width=1_000_000)
    tables: list[Table] = []
    chosen: list[Column] = []
    for column in columns:
        wider = console.measure(_table(names, [*chosen, column]), options=unlimited)
        if chosen and wider.minimum > console.width:
            tables.append(_table(names, chosen))
            chosen = []
        chosen.append(column)
    return [*tables, _table(names, chosen)]


def _table(names: list[Column], columns: list[Column]) -> Table:
    """Return a table without cut words; headers of several words may take several lines."""
    table = _plain_table()
    for header, _ in names:
        table.add_column(header, no_wrap=True)
    for header, cells in columns:
        width = max(map(len, [*header.split(), *map(str, cells)]))
        justify = "left" if header == WORST_CASE else "right"
        table.add_column(header, justify=justify, min_width=width)
    for row in zip(*(cells for _, cells in [*names, *columns]), strict=True):
        table.add_row(*row)
    return table


def _speed(row: dict[str, Any]) -> str:
    return f"{row['bytes'] / row['seconds'] / 1e9:.3g}" if row["bytes"] else ""


def _per_peer(row: dict[str, Any]) -> str:
    if "seconds_per_peer" not in row:
        return ""
    return f"{as_time(row['seconds_per_peer'])} × {row['peers']:,}"


def _name(row: dict[str, Any], usual_mpi: str) -> str:
    return row["contender"] + ("" if row["mpi"] == usual_mpi else f" ({row['mpi']})")


def _summary_table(sums: list[dict[str, Any]], console: Console) -> Group:
    names: list[Column] = [("contender", [s["contender"] for s in sums])]
    if len({s["phase"] for s in sums}) > 1:
        names.append(("phase", [s["phase"] for s in sums]))
    names.append(("than", [s["reference"] for s in sums]))
    cases = [f"{s['cases']}{' random' if s['of'] == 'random' else ''}" for s in sums]
    columns: list[Column] = [("cases", cases)]
    for key in ("median", "worst_decile", "worst"):
        columns.append((key.replace("_", " "), [f"{s[key]:.2f}" for s in sums]))
    columns.append((WORST_CASE, [s["worst_case"] for s in sums]))
    return titled("times as fast, over all cases", *_side_by_side(names, columns, console))


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)


def _left_out(results: Results) -> list[tuple[str, str, str]]:
    """Return the notes; those that differ only in their case are joined."""
    cases: dict[tuple[str, str], list[str]] = {}
    for note in results.left_out:
        cases.setdefault((note.contender, note.reason), []).append(note.case)
    told = []
    for (contender, reason), names in cases.items():
        where = "" if not any(names) else f" in {names[0]}"
        more = f" and {len(names) - 1} more cases" if len(names) > 1 else ""
        told.append((contender, reason, where + more))
    return told
