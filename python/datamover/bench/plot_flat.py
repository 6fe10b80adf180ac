# SPDX-License-Identifier: BSD-3-Clause
"""Plots of the speed of writing flat files. As the figures 11 and 12 of the paper.

Source: Network I/O for a distributed-memory machine, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamover.bench.plot import draw_speeds

Rows = Sequence[dict[str, Any]]

#: One color per contender, for different partitions; the bound is dashed.
COLOURS = {
    "datamover": "tab:blue",
    "pieces": "tab:orange",
    "mpi-io": "tab:red",
    "write-only": "tab:gray",
}
BOUND = "write-only"
#: Colors of 1, 2 and 4 pathways.
PATHWAY_COLOURS = ("tab:cyan", "tab:blue", "tab:purple")


def draw(rows: Rows, path: Path) -> None:
    """Draw speed against the size of messages, for each number of pathways, and of blocks.

    Parameters
    ----------
    rows : sequence of dict
        Rows of one number of processes.
    path : Path
        File of the picture; its extension selects the format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    striped = [r for r in rows if r["case"].startswith("pathways-")]
    ours = [r for r in striped if r["contender"] == "datamover"]
    for pathways, colour in zip(
        sorted({r["pathways"] for r in ours}), PATHWAY_COLOURS, strict=False
    ):
        own = [r for r in ours if r["pathways"] == pathways]
        label = "datamover, 1 file" if pathways == 1 else f"datamover, {pathways} files"
        draw_speeds(left, own, "message_bytes", color=colour, label=label)
    left.set(title="messages to 1, 2 and 4 files", xlabel="bytes of a message")
    partitions = [r for r in rows if r["case"].startswith("blocks-")]
    for contender, colour in COLOURS.items():
        own = [r for r in partitions if r["contender"] == contender]
        style = "--" if contender == BOUND else "-"
        draw_speeds(right, own, "block_bytes", linestyle=style, color=colour, label=contender)
    right.set(title="partitions to one file", xlabel="bytes of a block")
    for panel in (left, right):
        panel.set_ylim(bottom=0)
        if panel.get_lines():
            panel.legend(frameon=False)
    figure.savefig(path, dpi=120)
