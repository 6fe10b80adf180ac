# SPDX-License-Identifier: BSD-3-Clause
"""Plots of the times of distributions. As the figures 2 and 3 of the paper.

Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
section 5.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from datamover.bench.plot import plain_log_axis
from datamover.counted import counted

Rows = Sequence[dict[str, Any]]

#: One color per implementation; unstable ones are dashed.
COLOURS = {
    "datamover:auto": "tab:blue",
    "datamover:partition": "tab:cyan",
    "datamover:alltoallv": "tab:orange",
    "datamover:alltoallw": "tab:green",
    "datamover:sendrecv": "tab:red",
    "datamover:sort": "tab:purple",
    "datamover:reverse": "tab:pink",
    "counting_sort_alltoallv": "black",
    "numpy": "tab:brown",
    "memcpy": "tab:gray",
}
#: The examples, the phase and the title of each panel: with lines, and with bars.
PANELS = (
    (("A",), "once", "Example A: set-up and move"),
    (("A",), "again", "Example A: a plan used again"),
    (("C-inplace",), "once", "Example C: in place"),
)
BARS = (
    (("B", "C"), "once", "Examples B (solid) and C (hatched): set-up and move"),
    (("B", "C"), "again", "Examples B (solid) and C (hatched): a plan used again"),
)


def rows_of(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows of files that `--json` wrote."""
    return [row for file in files for row in json.loads(Path(file).read_text())["rows"]]


def draw(rows: Rows, path: Path) -> None:
    """Draw times against processes (above) and of Examples B and C as bars (below).

    Parameters
    ----------
    rows : sequence of dict
        Rows of any numbers of processes and elements; each number of elements is a column of
        panels. Cases without measurements have no panel.
    path : Path
        File of the picture; its extension selects the format.
    """
    from matplotlib.figure import Figure

    counts = sorted({_count(row) for row in rows if _count(row)})
    lines = [p for p in (*PANELS, *BARS) if _measured(rows, *p[:2])]
    size = (8.5 * len(counts), 3.4 * len(lines))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(lines), len(counts), squeeze=False)
    for column, count in enumerate(counts):
        of_count = [row for row in rows if _count(row) == count]
        for line, (examples, phase, title) in enumerate(lines):
            panel = panels[line, column]
            chosen = _measured(of_count, examples, phase)
            if not chosen:
                panel.set_axis_off()
                continue
            draw_one = _draw_bars if (examples, phase, title) in BARS else _draw_lines
            draw_one(panel, chosen)
            panel.set_title(f"{title}, {count:,} elements per process", loc="left")
    figure.savefig(path, dpi=110)


def _measured(rows: Rows, examples: Sequence[str], phase: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["phase"] == phase and _example(row) in examples]


def _example(row: dict[str, Any]) -> str:
    return row["case"].rpartition("-")[0]


def _count(row: dict[str, Any]) -> int:
    last = row["case"].rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def _style(contender: str) -> tuple[str | None, str]:
    stable = contender.removesuffix("-unstable")
    return COLOURS.get(stable), "-" if stable == contender else "--"


def _draw_lines(panel: Any, rows: Rows) -> None:
    processes = sorted({row["processes"] for row in rows})
    for contender in dict.fromkeys(row["contender"] for row in rows):
        times = {r["processes"]: r["seconds"] for r in rows if r["contender"] == contender}
        colour, line = _style(contender)
        panel.plot(
            list(times), [1e3 * t for t in times.values()], line, marker="o", ms=4,
            color=colour, label=contender.removeprefix("datamover:"),
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_xticks(processes, [str(p) for p in processes])
    panel.minorticks_off()
    panel.set_xlabel("processes")
    _finish(panel)


def _draw_bars(panel: Any, rows: Rows) -> None:
    chosen = [row for row in rows if not row["contender"].endswith("-unstable")]
    processes = sorted({row["processes"] for row in chosen})
    contenders = [c for c in COLOURS if any(r["contender"] == c for r in chosen)]
    width = 0.85 / max(1, len(contenders))
    for k, contender in enumerate(contenders):
        places = [i - 0.425 + (k + 0.5) * width for i in range(len(processes))]
        for example, hatch in (("B", None), ("C", "//")):
            seconds = {
                r["processes"]: r["seconds"]
                for r in chosen
                if r["contender"] == contender and _example(r) == example
            }
            panel.bar(
                places, [1e3 * seconds.get(p, float("nan")) for p in processes],
                width * (1.0 if example == "B" else 0.55), color=COLOURS[contender],
                hatch=hatch, edgecolor="white" if hatch else "none", linewidth=0.3,
                label=contender.removeprefix("datamover:") if example == "B" else None,
            )  # fmt: skip
    panel.set_xticks(range(len(processes)), [counted(p, "process", "processes") for p in processes])
    _finish(panel)


def _finish(panel: Any) -> None:
    panel.set_yscale("log")
    plain_log_axis(panel.yaxis)
    panel.set_ylabel("ms")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
