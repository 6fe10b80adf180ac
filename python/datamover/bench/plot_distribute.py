# SPDX-License-Identifier: BSD-3-Clause
"""How are times of distributions drawn? As the figures 2 and 3 of the paper.

Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
section 5.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from datamover.counted import counted

Rows = Sequence[dict[str, Any]]

#: One colour per implementation; what is not stable is dashed.
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
PANELS = (
    ("A", "once", "Example A: set-up and move"),
    ("A", "again", "Example A: a plan used again"),
    ("C-inplace", "once", "Example C: in place"),
)


def rows_of(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows of files that `--json` wrote."""
    return [row for file in files for row in json.loads(Path(file).read_text())["rows"]]


def draw(rows: Rows, path: Path) -> None:
    """Draw times against processes (above) and of Examples B and C as bars (below).

    Parameters
    ----------
    rows : sequence of dict
        Of any numbers of processes and elements; each number of elements is a column of panels.
    path : Path
        Where the picture goes; its ending says in which format.
    """
    from matplotlib.figure import Figure

    counts = sorted({_count(row) for row in rows if _count(row)})
    figure = Figure(figsize=(8.5 * len(counts), 17), layout="constrained")
    panels = figure.subplots(len(PANELS) + 2, len(counts), squeeze=False)
    for column, count in enumerate(counts):
        chosen = [row for row in rows if _count(row) == count]
        for line, (example, phase, title) in enumerate(PANELS):
            panel = panels[line, column]
            _draw_lines(panel, [r for r in chosen if r["case"] == f"{example}-{count}"], phase)
            panel.set_title(f"{title}, {count:,} elements per process", loc="left")
        for line, phase in enumerate(("once", "again"), start=len(PANELS)):
            panel = panels[line, column]
            _draw_bars(panel, chosen, phase, count)
            what = "set-up and move" if phase == "once" else "a plan used again"
            panel.set_title(
                f"Examples B (solid) and C (hatched): {what}, {count:,} elements", loc="left"
            )
    figure.savefig(path, dpi=110)


def _count(row: dict[str, Any]) -> int:
    last = row["case"].rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def _style(contender: str) -> tuple[str | None, str]:
    stable = contender.removesuffix("-unstable")
    return COLOURS.get(stable), "-" if stable == contender else "--"


def _draw_lines(panel: Any, rows: Rows, phase: str) -> None:
    chosen = [row for row in rows if row["phase"] == phase]
    processes = sorted({row["processes"] for row in chosen})
    for contender in dict.fromkeys(row["contender"] for row in chosen):
        times = {r["processes"]: r["seconds"] for r in chosen if r["contender"] == contender}
        colour, line = _style(contender)
        panel.plot(
            list(times), [1e3 * t for t in times.values()], line, marker="o", ms=4,
            color=colour, label=contender.removeprefix("datamover:"),
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(processes, [str(p) for p in processes])
    panel.minorticks_off()
    panel.set_xlabel("processes")
    _finish(panel)


def _draw_bars(panel: Any, rows: Rows, phase: str, count: int) -> None:
    chosen = [r for r in rows if r["phase"] == phase and not r["contender"].endswith("-unstable")]
    processes = sorted({row["processes"] for row in chosen if row["case"] == f"B-{count}"})
    contenders = [c for c in COLOURS if any(r["contender"] == c for r in chosen)]
    width = 0.85 / max(1, len(contenders))
    for k, contender in enumerate(contenders):
        places = [i - 0.425 + (k + 0.5) * width for i in range(len(processes))]
        for example, hatch in (("B", None), ("C", "//")):
            seconds = {
                r["processes"]: r["seconds"]
                for r in chosen
                if r["contender"] == contender and r["case"] == f"{example}-{count}"
            }
            panel.bar(
                places, [1e3 * seconds.get(p, float("nan")) for p in processes],
                width * (1.0 if example == "B" else 0.55), color=COLOURS[contender],
                hatch=hatch, edgecolor="white" if hatch else "none", linewidth=0.3,
                label=contender.removeprefix("datamover:") if example == "B" else None,
            )  # fmt: skip
    panel.set_yscale("log")
    panel.set_xticks(range(len(processes)), [counted(p, "process", "processes") for p in processes])
    _finish(panel)


def _finish(panel: Any) -> None:
    panel.set_ylabel("ms")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
