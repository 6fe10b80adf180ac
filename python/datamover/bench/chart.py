# SPDX-License-Identifier: BSD-3-Clause
"""Charts of benchmark rows: panels with a line or marks per contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Panel:
    """A panel of a chart.

    Parameters
    ----------
    title : str
    rows : sequence of dict
    along : str
        The field of a row along the horizontal axis. Cases are named; numbers are on an axis of
        powers of 2.
    value : str
        The vertical axis: GB/s or ms.
    series : str
        The field of a row that names its line.
    """

    title: str
    rows: Rows
    along: str = "case"
    value: str = "GB/s"
    series: str = "contender"


def panels_by_phase(rows: Rows) -> list[Panel]:
    """Return a panel per phase with all cases: speeds if bytes are moved, else times."""
    panels = []
    for phase in dict.fromkeys(row["phase"] for row in rows):
        chosen = [row for row in rows if row["phase"] == phase]
        moved = all(row.get("bytes") for row in chosen)
        panels.append(Panel(phase, chosen, value="GB/s" if moved else "ms"))
    return panels


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels one below the other.

    Parameters
    ----------
    panels : sequence of Panel
    path : Path
        The picture file; its suffix selects the format.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = [panel for panel in panels if panel.rows]
    figure = Figure(figsize=(11, 4.2 * max(1, len(panels))), layout="constrained")
    for axes, panel in zip(
        figure.subplots(max(1, len(panels)), 1, squeeze=False)[:, 0], panels, strict=False
    ):
        names = list(dict.fromkeys(row[panel.series] for row in panel.rows))
        for k, name in enumerate(names):
            points = [
                (row[panel.along], _value(row, panel.value))
                for row in panel.rows
                if row[panel.series] == name
            ]
            named = panel.along == "case"
            axes.plot(
                *zip(*(points if named else sorted(points)), strict=True),
                linestyle="" if named else "-" if k < 10 else "--",
                marker="os^vDPX"[k // 10 % 7],
                markersize=5,
                color=colormaps["tab10"](k % 10),
                label=str(name).removeprefix("datamover:"),
            )
        _finish(axes, panel)
    figure.savefig(path, dpi=110)


def _value(row: dict[str, Any], value: str) -> float:
    return row["bytes"] / row["seconds"] / 1e9 if value == "GB/s" else 1e3 * row["seconds"]


def _finish(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_title(panel.title, loc="left")
    axes.set_ylabel(panel.value)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if panel.along == "case":
        axes.tick_params(axis="x", rotation=30, labelsize="small")
    else:
        places = sorted({row[panel.along] for row in panel.rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{place:,}" for place in places])
        axes.minorticks_off()
        axes.set_xlabel(panel.along.replace("_", " "))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
