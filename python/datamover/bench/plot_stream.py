# SPDX-License-Identifier: BSD-3-Clause
"""Plots of the speed of streams. As the figures 11 and 12 of the paper.

Source: Network I/O for a distributed-memory machine, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamover.bench.plot import draw_speeds, plain_log_axis

Rows = Sequence[dict[str, Any]]

#: One color per contender; bounds are dashed.
COLOURS = {
    "datamover": "tab:blue",
    "datamover:into": "navy",
    "datamover:tcp": "tab:cyan",
    "datamover:tcp:into": "teal",
    "datamover:tcp:2": "tab:purple",
    "sockets:packed": "tab:orange",
    "gather": "tab:red",
    "sst": "tab:green",
    "shared:packed": "tab:brown",
    "sockets:contiguous": "black",
    "memcpy": "tab:gray",
    "memcpy:checked": "tab:olive",
}
BOUNDS = ("sockets:contiguous", "memcpy", "memcpy:checked")


def draw(rows: Rows, path: Path) -> None:
    """Draw speed against the size of messages (left) and of blocks (right).

    Parameters
    ----------
    rows : sequence of dict
        Rows of one number of processes; the left panel has the smallest blocks, the right one the
        largest messages.
    path : Path
        File of the picture; its extension selects the format.
    """
    from matplotlib.figure import Figure

    smallest = min(row["block_bytes"] for row in rows)
    largest = max(row["message_bytes"] for row in rows)
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _panel(left, [r for r in rows if r["block_bytes"] == smallest], "message_bytes")
    left.set(title=f"blocks of {smallest} bytes", xlabel="bytes of a message")
    _panel(right, [r for r in rows if r["message_bytes"] == largest], "block_bytes")
    right.set(title=f"messages of {largest >> 10} KiB", xlabel="bytes of a block")
    handles, labels = left.get_legend_handles_labels()
    columns = -(-len(labels) // 3)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    figure.savefig(path, dpi=120)


def _panel(panel: Any, rows: Rows, along: str) -> None:
    for contender, colour in COLOURS.items():
        own = [row for row in rows if row["contender"] == contender]
        style = "--" if contender in BOUNDS else "-"
        draw_speeds(panel, own, along, linestyle=style, color=colour, label=contender)
    panel.set_yscale("log")
    plain_log_axis(panel.yaxis)
