# SPDX-License-Identifier: BSD-3-Clause
"""How are the figures of a benchmark shown on a terminal and written to a file?"""

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


@dataclass(frozen=True)
class Style:
    """What a benchmark's tables compare with.

    Parameters
    ----------
    references : tuple of str
        Contenders that all others are set in relation to, one column each.
    judged : tuple of str
        Beginnings of the names of the contenders that the summary counts.
    hide : tuple of str
        Beginnings of the names of cases that are only summed up, not listed.
    """

    references: tuple[str, ...]
    judged: tuple[str, ...] = ("datamover",)
    hide: tuple[str, ...] = (RANDOM_PREFIX,)


def as_json(results: Results, style: Style, compilers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the one object that `--json` writes.

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

    Listed cases and random ones are summed up apart, as `of` says.
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
    """Print one table per case and phase, the summary, and who was left out."""
    rows = [r for r in results.rows() if not r["case"].startswith(style.hide)]
    rows.sort(key=lambda r: r["phase"])  # stable: cases stay in their order
    parts: list[Any] = []
    order = list(dict.fromkeys((r["phase"], r["case"]) for r in rows))
    rows.sort(key=lambda r: order.index((r["phase"], r["case"])))
    for (phase, case), chosen in groupby(rows, key=lambda r: (r["phase"], r["case"])):
        parts.append(_case_table(case, phase, list(chosen), style))
    sums = summarize(results.rows(), style)
    if sums:
        parts.append(_summary_table(sums))
    for contender, reason, cases in _left_out(results):
        parts.append(Text(f"left out: {contender}{cases}: {reason}", style="yellow"))
    console.print(Group(*parts), highlight=False)


def write(document: dict[str, Any], path: Path) -> None:
    """Write the object as JSON, one row per line."""
    rows = ",\n    ".join(json.dumps(row) for row in document["rows"])
    rest = {k: v for k, v in document.items() if k != "rows"}
    text = json.dumps(rest, indent=2)
    path.write_text(f'{text[:-2]},\n  "rows": [\n    {rows}\n  ]\n}}\n')


def _case_table(case: str, phase: str, rows: list[dict[str, Any]], style: Style) -> Group:
    processes, mpi = rows[0]["processes"], rows[0]["mpi"]
    many = counted(processes, "process", "processes")
    table = _plain_table()
    table.add_column("contender", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    moved = any(row["bytes"] for row in rows)
    if moved:
        table.add_column("GB/s", justify="right", no_wrap=True)
    references = [r for r in style.references if any(row["contender"] == r for row in rows)]
    for reference in references:
        table.add_column(f"× {reference.replace(':', ': ')}", justify="right")
    sizes = any("nbytes" in row for row in rows)
    if sizes:
        table.add_column("nbytes", justify="right", no_wrap=True)
    per_peer = any("seconds_per_peer" in row for row in rows)
    if per_peer:
        table.add_column("per peer", justify="right", no_wrap=True)
    peaks = [key for key in ("peak_bytes", "allowed_bytes") if any(key in row for row in rows)]
    for key in peaks:
        table.add_column(key.replace("_bytes", " MiB"), justify="right", no_wrap=True)
    seconds = {row["contender"]: row["seconds"] for row in rows}
    for row in rows:
        ours = row["contender"].startswith(style.judged)
        speed = row["bytes"] / row["seconds"] / 1e9 if row["bytes"] else None
        table.add_row(
            Text(_name(row, mpi), style="bold" if ours else ""),
            as_time(row["seconds"]),
            *([f"{speed:.3g}" if speed else ""] if moved else []),
            *(f"{seconds[r] / row['seconds']:.2f}" for r in references),
            *([f"{row['nbytes']:,}" if "nbytes" in row else ""] if sizes else []),
            *([_per_peer(row)] if per_peer else []),
            *(f"{row[key] >> 20:,}" if key in row else "" for key in peaks),
        )
    return titled(f"{case}, {phase}, {many}, MPI: {mpi}", table)


def _per_peer(row: dict[str, Any]) -> str:
    if "seconds_per_peer" not in row:
        return ""
    return f"{as_time(row['seconds_per_peer'])} × {row['peers']:,}"


def _name(row: dict[str, Any], usual_mpi: str) -> str:
    return row["contender"] + ("" if row["mpi"] == usual_mpi else f" ({row['mpi']})")


def _summary_table(sums: list[dict[str, Any]]) -> Group:
    table = _plain_table()
    for column in ("contender", "phase", "than"):
        table.add_column(column, no_wrap=True)
    for column in ("cases", "median", "worst decile", "worst"):
        table.add_column(column, justify="right")
    table.add_column("in case")
    for s in sums:
        table.add_row(
            s["contender"],
            s["phase"],
            s["reference"],
            f"{s['cases']}{' random' if s['of'] == 'random' else ''}",
            *(f"{s[k]:.2f}" for k in ("median", "worst_decile", "worst")),
            s["worst_case"],
        )
    return titled("times as fast, over all cases", table)


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)


def _left_out(results: Results) -> list[tuple[str, str, str]]:
    """Notes that differ only in their case are told together."""
    cases: dict[tuple[str, str], list[str]] = {}
    for note in results.left_out:
        cases.setdefault((note.contender, note.reason), []).append(note.case)
    told = []
    for (contender, reason), names in cases.items():
        where = "" if not any(names) else f" in {names[0]}"
        more = f" and {len(names) - 1} more cases" if len(names) > 1 else ""
        told.append((contender, reason, where + more))
    return told
