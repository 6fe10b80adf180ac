# SPDX-License-Identifier: BSD-3-Clause
"""The page of results of all benchmarks: Markdown, with a chart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datamover.bench import report
from datamover.bench.rows import Row, pairs_of, spreads
from datamover.errors import InvalidState
from datamover.time_words import as_time

#: Length of the table of the worst rows.
WORST_ROWS = 15
#: Phase of first calls, which have a table of their own.
FIRST = "first"

INTRODUCTION = """\
A speed-up is the time of the alternative divided by the time of datamover: above 1, datamover is
faster. All contenders of a case take turns in one run. Medians are over all cases and phases except
first calls."""

Documents = Mapping[str, dict[str, Any]]


def cells_of(p: Row) -> dict[str, str]:
    """Return the row of a table of pairs."""
    names = {name.capitalize(): p[name] for name in ("benchmark", "case", "phase", "contender")}
    theirs = {"Compared with": p["reference"], "Its time": as_time(p["reference_seconds"])}
    return {**names, "Time": as_time(p["seconds"]), **theirs, "Ratio": f"{p['ratio']:.2f}"}


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    r"""Return a table in Markdown, "None." if it has no rows.

    Examples
    --------
    >>> from datamover.bench.results_page import markdown_table
    >>> print(markdown_table([{"name": "a|b", "size": 1}]))
    | name | size |
    | --- | --- |
    | a\|b | 1 |
    """
    if not rows:
        return "None."
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def facts(documents: Documents) -> dict[str, str]:
    """Return the machine and versions of the measurements."""
    machine = next(iter(documents.values()))["machine"]
    versions = {k: v for d in documents.values() for k, v in d["versions"].items()}
    mpis = sorted({mpi for d in documents.values() for mpi in d["versions"]["mpi"]})
    return {
        "Processor": f"{machine['processor']} ({machine['architecture']})",
        "Instruction set": machine["instruction_set"],
        "Cores": f"{machine['cores']}; others used {machine['cores_used_by_others']} at the start",
        "Caches": ", ".join(f"{name} {size}" for name, size in machine["caches"].items()),
        "Memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB",
        "System": machine["system"],
        "MPI": ", ".join(mpis),
        "Versions": ", ".join(f"{k} {v}" for k, v in versions.items() if isinstance(v, str)),
    }


def draw(medians: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw a line from the worst to the median speed-up for each benchmark and reference."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.22 * len(medians)), layout="constrained")
    axes = figure.subplots()
    places = range(len(medians))
    middle = [m["median"] for m in medians]
    axes.hlines(places, [m["worst"] for m in medians], middle, color="tab:gray", linewidth=1)
    axes.plot(middle, places, "o", color="tab:blue", markersize=5)
    names = [f"{m['benchmark']}: {m['contender']} / {m['reference']}" for m in medians]
    axes.set_yticks(places, names, fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("speed-up: median (dot), down to the worst row (line)")
    axes.grid(axis="x", linewidth=0.3)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "datamover"}):
        figure.savefig(path, metadata={"Date": None})


def write(documents: Documents, setting: Mapping[str, str], place: Path, day: str) -> Path:
    """Write the page and its chart to a directory, and return the page's path.

    Parameters
    ----------
    documents : mapping
        From the names of benchmarks to their JSON objects, or to `{"failed": reason}`.
    setting : mapping
        Date, command and duration.
    place : Path
    day : str
        Begins the names of both files.

    Raises
    ------
    InvalidState
        No benchmark was measured.
    """
    measured = {name: d for name, d in documents.items() if "rows" in d}
    failed = {name: d["failed"] for name, d in documents.items() if "failed" in d}
    if not measured:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise InvalidState(f"no benchmark was measured: {reasons}")
    processor = next(iter(measured.values()))["machine"]["processor"]
    words = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")
    path = place / f"{day}-{words}.md"
    chart, machine = path.with_suffix(".svg"), facts(measured)
    pairs = [
        pair
        for name, d in measured.items()
        for pair in pairs_of(d["rows"], d["page"]["contenders"], d["page"]["references"], name)
    ]
    again = [p for p in pairs if p["phase"] != FIRST]
    sums = spreads(again, "benchmark", "contender", "reference")
    medians = [
        {"Benchmark": m["benchmark"], "Contender": m["contender"], "Compared with": m["reference"],
         "Rows": m["cases"], "Median": f"{m['median']:.2f}", "Worst": f"{m['worst']:.2f}",
         "Worst case": m["worst_case"]}
        for m in sums
    ]  # fmt: skip
    worst = sorted(again, key=lambda p: p["ratio"])[:WORST_ROWS]
    notes = [f"- `{name}` failed: {reason}" for name, reason in failed.items()]
    for name, document in measured.items():
        notes += [f"- `{name}`, {line}" for line in report.left_out(document["left_out"])]
    parts = [
        f"# Benchmarks on {machine['Processor']}, {setting['Date']}",
        markdown_table([{"Setting": k, "Value": v} for k, v in {**setting, **machine}.items()]),
        "## Speed-ups",
        INTRODUCTION,
        f"![Median and worst speed-up of each benchmark]({chart.name})",
        markdown_table(medians),
        "## Worst rows",
        markdown_table([cells_of(p) for p in worst]),
        "## First calls",
        markdown_table([cells_of(p) for p in pairs if p["phase"] == FIRST]),
        *(["## Left out", "\n".join(notes)] if notes else []),
    ]
    draw(sums, chart)
    path.write_text("\n\n".join(parts) + "\n")
    return path
