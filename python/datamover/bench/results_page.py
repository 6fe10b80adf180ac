# SPDX-License-Identifier: BSD-3-Clause
"""The page of results of all benchmarks: Markdown, with a chart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datamover.bench import report
from datamover.bench.rows import Pair, pairs_of, spreads
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

#: Header of the tables of pairs.
HEADER = ("Benchmark", "Case", "Phase", "Contender", "Time", "Compared with", "Its time", "Ratio")

Documents = Mapping[str, dict[str, Any]]


def pairs_on_page(documents: Documents) -> list[Pair]:
    """Return all pairs of a contender on the page and a reference."""
    return [
        pair
        for name, d in documents.items()
        for pair in pairs_of(d["rows"], d["page"]["contenders"], d["page"]["references"], name)
    ]


def medians_of(pairs: Iterable[Pair]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the spread of the speed-ups of each benchmark, contender and reference."""
    again = (pair for pair in pairs if pair.phase != FIRST)
    return spreads(again, lambda p: (p.benchmark, p.contender, p.reference))


def cells_of(p: Pair) -> Sequence[str]:
    """Return the row of a table of pairs."""
    ours, theirs = as_time(p.seconds), as_time(p.reference_seconds)
    where = (p.benchmark, p.case, p.phase, p.contender)
    return (*where, ours, p.reference, theirs, f"{p.ratio:.2f}")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Return a table in Markdown.

    Examples
    --------
    >>> from datamover.bench.results_page import markdown_table
    >>> print(markdown_table(("name", "size"), [("a|b", 1)]))
    | name | size |
    | --- | --- |
    | a\|b | 1 |
    """
    lines = [header, ["---"] * len(header), *rows]
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


def page(documents: Documents, setting: Mapping[str, str], chart: str) -> str:
    """Return the page.

    Parameters
    ----------
    documents : mapping
        From the names of benchmarks to their JSON objects, or to `{"failed": reason}`.
    setting : mapping
        Date, command and duration.
    chart : str
        The address of the chart.
    """
    measured = {name: d for name, d in documents.items() if "rows" in d}
    pairs, machine = pairs_on_page(measured), facts(measured)
    medians = [
        (*of, m["cases"], *(f"{m[k]:.2f}" for k in ("median", "worst")), m["worst_case"])
        for of, m in medians_of(pairs).items()
    ]
    first = [cells_of(p) for p in pairs if p.phase == FIRST]
    again = sorted((p for p in pairs if p.phase != FIRST), key=lambda p: p.ratio)
    worst = [cells_of(p) for p in again[:WORST_ROWS]]
    notes = [f"- `{name}` failed: {d['failed']}" for name, d in documents.items() if "failed" in d]
    for name, document in measured.items():
        notes += [f"- `{name}`, {line}" for line in report.left_out(document["left_out"])]
    parts = [
        f"# Benchmarks on {machine['Processor']}, {setting['Date']}",
        markdown_table(("Setting", "Value"), {**setting, **machine}.items()),
        "## Speed-ups",
        INTRODUCTION,
        f"![Median and worst speed-up of each benchmark]({chart})",
        markdown_table(
            ("Benchmark", "Contender", "Compared with", "Rows", "Median", "Worst", "Worst case"),
            medians,
        ),
        "## Worst rows",
        markdown_table(HEADER, worst),
        "## First calls",
        markdown_table(HEADER, first),
        *(["## Left out", "\n".join(notes)] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def draw(medians: Mapping[tuple[str, ...], dict[str, Any]], path: Path) -> None:
    """Draw a line from the worst to the median speed-up for each benchmark and reference."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.22 * len(medians)), layout="constrained")
    axes = figure.subplots()
    for y, entry in enumerate(medians.values()):
        axes.plot([entry["worst"], entry["median"]], [y, y], color="tab:gray", linewidth=1)
        axes.plot(entry["median"], y, "o", color="tab:blue", markersize=5)
    names = ["{}: {} / {}".format(*of) for of in medians]
    axes.set_yticks(range(len(names)), names, fontsize=7)
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

    Raises
    ------
    InvalidState
        No benchmark was measured.
    """
    measured = {name: d for name, d in documents.items() if "rows" in d}
    if not measured:
        reasons = "; ".join(f"{name}: {d['failed']}" for name, d in documents.items())
        raise InvalidState(f"no benchmark was measured: {reasons}")
    processor = next(iter(measured.values()))["machine"]["processor"]
    words = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")
    path = place / f"{day}-{words}.md"
    chart = path.with_suffix(".svg")
    draw(medians_of(pairs_on_page(measured)), chart)
    path.write_text(page(documents, setting, chart.name))
    return path
