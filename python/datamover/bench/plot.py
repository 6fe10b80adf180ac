# SPDX-License-Identifier: BSD-3-Clause
"""Plots of benchmark figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Contenders that are drawn as marks above the bars: code without relations.
MARKS = {
    "loop": "_",
    "stride": "d",
    "memcpy": "^",
    "mpi_pack": "x",
    "numpy": "o",
    "recompute": "+",
}


def plain_log_axis(axis: Any) -> None:
    """Write 0.2, 0.5, 1 along a logarithmic axis, because factors and powers are hard to read.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def draw_speeds(panel: Any, rows: Sequence[dict[str, Any]], along: str, **line: Any) -> None:
    """Draw a line of speeds, if there are rows.

    Parameters
    ----------
    panel : matplotlib.axes.Axes
    rows : sequence of dict
        Rows of one contender.
    along : str
        The entry with the size in bytes.
    **line
        Options of matplotlib: color, linestyle, label.
    """
    points = sorted((row[along], row["bytes"] / row["seconds"] / 1e9) for row in rows)
    if points:
        panel.plot(*zip(*points, strict=True), marker="o", **line)
    panel.set_xscale("log", base=2)
    panel.set_ylabel("GB/s")
    panel.spines[["top", "right"]].set_visible(False)


def draw_encodings(rows: Sequence[dict[str, Any]], encodings: Sequence[str], path: Path) -> None:
    """Draw the speed of every encoding, one panel per phase and one group of bars per case.

    Parameters
    ----------
    rows : sequence of dict
    encodings : sequence of str
        The contenders that are drawn as bars, in this order.
    path : Path
        File of the picture; its extension selects the format.
    """
    from matplotlib.figure import Figure

    phases = [p for p in ("assembly", "disassembly", "copy") if any(r["phase"] == p for r in rows)]
    drawn = {r["contender"] for r in rows if r["phase"] in phases}
    encodings = [encoding for encoding in encodings if encoding in drawn]
    figure = Figure(figsize=(14, 3.6 * len(phases)), layout="constrained")
    panels = figure.subplots(len(phases), 1, squeeze=False)[:, 0]
    for panel, phase in zip(panels, phases, strict=True):
        speeds = {
            (r["case"], r["contender"]): r["bytes"] / r["seconds"] / 1e9
            for r in rows
            if r["phase"] == phase
        }
        cases = list(dict.fromkeys(case for case, _ in speeds))
        _draw_phase(panel, cases, speeds, encodings)
        panel.set_title(phase, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=-(-len(labels) // 2), frameon=False
    )
    figure.savefig(path, dpi=120)


def _draw_phase(
    panel: Any,
    cases: Sequence[str],
    speeds: dict[tuple[str, str], float],
    encodings: Sequence[str],
) -> None:
    width = 0.8 / len(encodings)
    for k, encoding in enumerate(encodings):
        places = [i - 0.4 + (k + 0.5) * width for i in range(len(cases))]
        heights = [speeds.get((case, encoding), 0.0) for case in cases]
        panel.bar(places, heights, width, label=encoding)
    for contender, mark in MARKS.items():
        heights = [speeds.get((case, contender), float("nan")) for case in cases]
        panel.plot(range(len(cases)), heights, mark, color="black", label=contender)
    panel.set_xticks(range(len(cases)), cases, rotation=30, ha="right", fontsize="small")
    panel.set_ylabel("GB/s")
    panel.spines[["top", "right"]].set_visible(False)
