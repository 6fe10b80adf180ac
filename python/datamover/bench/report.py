# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark results on a terminal and in a JSON file."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from datamover.bench.machine import describe_machine, describe_versions
from datamover.bench.rows import RANDOM_PREFIX, Row, notes_of, rows_of, summarize
from datamover.counted import counted
from datamover.explanation_tables import titled
from datamover.time_words import as_time

#: Characters between two columns of a table; around all of them there is one less.
BETWEEN = 3
#: Header of the one column of figures that holds names.
WORST_CASE = "in case"

#: A row of a table: a cell for each header.
Cells = Mapping[str, str | Text]


def as_json(
    lines: Sequence[Row], references: Sequence[str], judged: tuple[str, ...]
) -> dict[str, Any]:
    """Return the object that `--json` writes, without the entries of single benchmarks.

    Parameters
    ----------
    lines : sequence of dict
        All that programs printed: rows, notes on contenders that were left out, and headers.
    references : sequence of str
    judged : tuple of str
        As `rows.summarize` takes them.
    """
    rows = rows_of(lines)
    mpis = sorted({row["mpi"] for row in rows if row["mpi"]})
    versions: dict[str, Any] = {**describe_versions(), "mpi": mpis}
    if compilers := {line["compiler"] for line in lines if "compiler" in line}:
        versions["compiler"] = sorted(compilers)
    return {
        "machine": describe_machine(),
        "versions": versions,
        "command": shlex.join(["datamover", *sys.argv[1:]]),
        "rows": rows,
        "summary": summarize(rows, references, judged),
        "left_out": notes_of(lines),
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
    places: dict[tuple[str, str], list[Row]] = {}
    for row in document["rows"]:
        if not row["case"].startswith(RANDOM_PREFIX):
            places.setdefault((row["phase"], row["case"]), []).append(row)
    parts: list[RenderableType] = []
    for phase, case in sorted(places, key=lambda place: place[0]):  # stable: as cases are listed
        rows = places[phase, case]
        mpi, many = rows[0]["mpi"], counted(rows[0]["processes"], "process", "processes")
        seconds = {row["contender"]: row["seconds"] for row in rows}
        known = {name: seconds[name] for name in references if name in seconds}
        cells = []
        for row in rows:
            name = row["contender"] + ("" if row["mpi"] == mpi else f" ({row['mpi']})")
            style = "bold" if row["contender"].startswith(judged) else ""
            cells.append({"contender": Text(name, style), **_figures(row, known)})
        parts.append(table(console, f"{case}, {phase}, {many}, MPI: {mpi}", 1, cells))
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


def _figures(row: Row, references: dict[str, float]) -> Cells:
    """Return a row's figures, compared with the seconds of references."""
    seconds, per_peer = row["seconds"], row.get("seconds_per_peer")

    def mib(name: str) -> str:
        return f"{row[name] >> 20:,}" if name in row else ""

    return {
        "time": as_time(seconds),
        "GB/s": f"{row['bytes'] / seconds / 1e9:.3g}" if row.get("bytes") else "",
        **{f"× {k.replace(':', ': ')}": f"{s / seconds:.2f}" for k, s in references.items()},
        "nbytes": f"{row['nbytes']:,}" if "nbytes" in row else "",
        "per peer": "" if per_peer is None else f"{as_time(per_peer)} × {row['peers']:,}",
        "peak MiB": mib("peak_bytes"),
        "allowed MiB": mib("allowed_bytes"),
    }


def _summary_table(sums: list[dict[str, Any]], console: Console) -> Group:
    phases = len({s["phase"] for s in sums}) > 1
    cells = [
        {
            "contender": s["contender"],
            **({"phase": s["phase"]} if phases else {}),
            "than": s["reference"],
            "cases": f"{s['cases']}{' random' * (s['of'] == 'random')}",
            **spread_cells(s),
        }
        for s in sums
    ]
    return table(console, "times as fast, over all cases", 2 + phases, cells)


def spread_cells(figures: Mapping[str, Any]) -> Cells:
    """Return the cells of an entry of `rows.spreads`."""
    keys = ("median", "worst_decile", "worst")
    cells = {key.replace("_", " "): f"{figures[key]:.2f}" for key in keys}
    return cells | {WORST_CASE: figures["worst_case"]}


def table(console: Console, title: str, names: int, rows: Sequence[Cells]) -> Group:
    """Return a table, or several with the same names if not all columns fit next to each other.

    Parameters
    ----------
    console : Console
    title : str
    names : int
        How many of the columns name the rows; the others have figures.
    rows : sequence of mapping
        A cell for each header; columns without any content are left out.
    """
    headers = [h for h in (rows[0] if rows else ()) if any(str(row[h]) for row in rows)]
    cells = {h: max(len(str(row[h])) for row in rows) for h in headers}
    whole = {h: max(len(h), width) for h, width in cells.items()}
    # No word is cut; headers of figures may take several lines.
    words = {h: max(*map(len, h.split()), cells[h]) for h in headers[names:]}
    narrow = whole | words

    def fits(chosen: Sequence[str], widths: Mapping[str, int]) -> bool:
        return sum(widths[h] + BETWEEN for h in chosen) - 1 <= console.width

    parts = [headers[:names]]
    for header in headers[names:]:
        if len(parts[-1]) > names and not fits([*parts[-1], header], narrow):
            parts.append(headers[:names])
        parts[-1].append(header)
    tables = []
    for part in parts:
        widths = whole if fits(part, whole) else narrow
        made = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
        for header in part:
            left = header in headers[:names] or header == WORST_CASE
            made.add_column(header, justify="left" if left else "right", width=widths[header])
        for row in rows:
            made.add_row(*(row[header] for header in part))
        tables.append(made)
    return titled(title, *tables)
