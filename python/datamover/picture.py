# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of plans: owners before and after, and bytes sent between processes."""

from __future__ import annotations

import io
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.filesize import decimal

from datamover import _plan
from datamover.counted import counted
from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.explanation_tables import message_sizes, peer_words
from datamover.layout_picture import ACCENT, FAINT, INK, PAPER, SIDE, Painter, frame, text_color

if TYPE_CHECKING:
    from datamover import Layout, MotionPlan
    from datamover.explanation import Explanation, Pairs

#: The traffic of more processes is summed over groups of consecutive ranks.
MAX_GROUPS = 64

#: Places in inches: the figure, and the left ends of three squares above `BOTTOM`.
WIDTH, HEIGHT, BOTTOM = 13.6, 5.3, 0.6
LEFTS = (0.7, 4.9, 9.2)

#: Maximum number of processes whose ranks are all written below the bars.
MAX_TICKS = 16
KEPT = "#cdd3da"

#: Extensions of picture files.
SUFFIXES = (".png", ".pdf", ".svg")
NO_MATPLOTLIB = "pictures need matplotlib: pip install 'datamover[plot]'"


def check_drawable(path: Path) -> None:
    """Raise, before anything is computed, if a picture cannot be drawn at the end.

    Parameters
    ----------
    path : Path
        Its extension selects the format: .png, .pdf, .svg.

    Raises
    ------
    InvalidArgument
        It has another extension.
    IoFailed
        Its directory does not exist.
    Unsupported
        matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgument(f"{path} does not end in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise IoFailed(
            f"{path} cannot be written: there is no directory {path.parent}; create it first"
        )
    if find_spec("matplotlib") is None:
        raise Unsupported(NO_MATPLOTLIB)


def _groups(nprocs: int) -> int:
    """Return the number of groups of ranks; all have one size, because larger ones look busier."""
    each = -(-nprocs // MAX_GROUPS)
    return -(-nprocs // each)


def _draw_matrix(figure: Any, axes: Any, plan: MotionPlan, e: Explanation) -> None:
    """Draw how much each process sends to each, as a square of colors."""
    from matplotlib.colors import ListedColormap, LogNorm, Normalize

    bounds, elems = _plan.traffic_matrix(plan, _groups(plan.nprocs))
    groups = len(bounds) - 1
    nbytes = elems.reshape(groups, groups).astype(float) * e.elem_bytes
    single = groups == plan.nprocs  # then everything on the diagonal stays, otherwise a part of it
    shown = np.ma.masked_equal(nbytes, 0)
    if single:
        shown[np.diag_indices(groups)] = np.ma.masked
    low, high = (float(shown.min()), float(shown.max())) if shown.count() else (1.0, 1.0)
    logarithmic = high > 50 * low
    norm = LogNorm(low, high) if logarithmic else Normalize(0, high)
    axes.set_facecolor("#f6f7f9")
    if single:
        kept = np.ma.masked_where((np.eye(groups) == 0) | (nbytes == 0), np.ones_like(nbytes))
        axes.imshow(kept, cmap=ListedColormap([KEPT]), interpolation="nearest")
    image = axes.imshow(shown, cmap=_heat(), norm=norm, interpolation="nearest")
    frame(axes)
    if groups <= 64:
        for k in range(1, groups):
            axes.axhline(k - 0.5, color=PAPER, lw=min(0.8, 16 / groups))
            axes.axvline(k - 0.5, color=PAPER, lw=min(0.8, 16 / groups))
    _rank_ticks(axes, bounds, groups)
    axes.set_xlabel("to process", fontsize=9, color=INK)
    axes.set_ylabel("from process", fontsize=9, color=INK)
    if groups <= 8:
        for (row, column), value in np.ndenumerate(nbytes):
            if value:
                is_kept = single and row == column
                color = INK if is_kept else text_color(image.cmap(norm(value)))
                text = decimal(int(value)).replace(" bytes", " B").replace(" byte", " B")
                text = text.replace(" ", "\n")
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
    if not shown.count():
        return
    bar = figure.colorbar(image, cax=axes.inset_axes((1.035, 0, 0.04, 1)))
    bar.outline.set_visible(False)
    if not logarithmic:
        bar.ax.yaxis.set_major_locator(_byte_locator(5))
    bar.ax.yaxis.set_major_formatter(_tick_bytes)
    bar.ax.tick_params(labelsize=7.5, labelcolor=FAINT, color=FAINT, length=2)
    bar.ax.minorticks_off()


def _byte_locator(intervals: int) -> Any:
    """Return ticks at round numbers of bytes."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(intervals, steps=[1, 2, 5, 10], integer=True)


def _tick_bytes(value: float, _: Any = None) -> str:
    """Return bytes as short text: 0, 500 B, 2 kB."""
    number, unit = decimal(round(abs(value))).split()
    return f"{number.removesuffix('.0')} {unit if 'byte' not in unit else 'B'}"


def _heat() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "traffic", ["#e3eef6", "#9cc5e0", "#4a97c6", "#1f659f", "#164e82"]
    )


def _rank_ticks(axes: Any, bounds: np.ndarray, groups: int) -> None:
    if bounds[-1] == groups:
        step = max(1, -(-groups // 16))
        ticks: list[float] = list(range(0, groups, step))
        labels = [str(t) for t in ticks]
    else:
        ticks = [-0.5, groups // 2 - 0.5, groups - 0.5]
        labels = ["0", f"{bounds[groups // 2]:,}", f"{bounds[-1] - 1:,}"]
    axes.set_xticks(ticks, labels=labels)
    axes.set_yticks(ticks, labels=labels)
    axes.tick_params(length=2, labelsize=7.5, labelcolor=FAINT, color=FAINT)


def _draw_peers(axes: Any, e: Explanation) -> None:
    """Draw what one rank sends and receives, over the ranks of its peers."""
    outgoing, incoming = cast("Pairs", e.outgoing), cast("Pairs", e.incoming)
    series = (
        (outgoing.destination, outgoing.bytes, 1, "#3f8fc0", "sends"),
        (incoming.source, incoming.bytes, -1, "#e9a53a", "receives"),
    )
    edges = np.linspace(0, e.nprocs, min(e.nprocs, 256) + 1) - 0.5
    tallest = 0.0
    for peers, nbytes, sign, color, word in series:
        total, _ = np.histogram(peers, edges, weights=nbytes)
        kept, _ = np.histogram(peers, edges, weights=np.where(peers == e.rank, nbytes, 0))
        going = sign * (total - kept)
        axes.bar(edges[:-1], going, np.diff(edges), align="edge", color=color, lw=0)
        axes.bar(
            edges[:-1], sign * kept, np.diff(edges), going, align="edge", color=KEPT, lw=0
        )  # fmt: skip
        tallest = max(tallest, float(total.max(initial=0)))
        place = 0.97 if sign > 0 else 0.03
        what = peer_words(e, word)
        axes.text(
            0.02, place, what, transform=axes.transAxes, fontsize=9, color=color,
            ha="left", va="top" if sign > 0 else "bottom", fontweight="bold", zorder=3,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
    reach = 1.3 * max(tallest, 1.0)
    axes.set_ylim(-reach, reach)
    axes.set_xlim(-0.5, e.nprocs - 0.5)
    axes.axhline(0, color=INK, lw=0.8)
    axes.axvline(e.rank, color=ACCENT, lw=1, ls=(0, (2, 2)))
    few = range(e.nprocs) if e.nprocs <= MAX_TICKS else (0, e.nprocs - 1)
    axes.set_xticks(list(few), labels=[f"{rank:,}" for rank in few])
    axes.yaxis.set_major_locator(_byte_locator(8))
    axes.yaxis.set_major_formatter(_tick_bytes)
    axes.tick_params(length=2, labelsize=7.5, labelcolor=FAINT, color=FAINT)
    axes.set_xlabel("peer", fontsize=9, color=INK)
    axes.set_box_aspect(1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _title(axes: Any, title: str, subtitle: str) -> None:
    """Write above the area of a picture, whatever part of it the picture fills."""
    place = axes.get_position(original=True)
    text = axes.figure.text
    text(place.x0, place.y1 + 0.072, title, fontsize=12, fontweight="bold", color=INK)
    text(place.x0, place.y1 + 0.025, subtitle, fontsize=8.5, color=FAINT)


def draw(plan: MotionPlan, e: Explanation, path: str | os.PathLike[str]) -> None:
    """Draw the owners before and after a plan, and its traffic, to a picture file.

    Parameters
    ----------
    plan : MotionPlan
    e : Explanation
        The result of `explain` for this plan. If it is about one rank, so is the picture.
    path : path
        Its extension selects the format: .png, .pdf, .svg.

    Raises
    ------
    IoFailed
        The file cannot be written.
    InvalidArgument, Unsupported
        As `check_drawable`.
    """
    check_drawable(Path(path))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=150, facecolor=PAPER)
    before, after, traffic = (
        figure.add_axes((x / WIDTH, BOTTOM / HEIGHT, SIDE / WIDTH, SIDE / HEIGHT)) for x in LEFTS
    )
    figure.text(LEFTS[0] / WIDTH, 0.93, _headline(e), fontsize=13.5, color=INK, fontweight="bold")
    painter = Painter(plan.nprocs, e.rank, (plan.source, plan.destination))
    who = "who holds what" if e.rank is None else f"what process {e.rank:,} holds"
    for axes, when, layout, words in (
        (before, "Before", plan.source, e.source),
        (after, "After", plan.destination, e.destination + _permutation(plan)),
    ):
        painter.draw(axes, layout)
        axes.set_anchor("NW")
        words = re.sub(r" of \([^)]*\)", "", words.removeprefix("block-cyclic "))
        _title(axes, f"{when}: {who}", words)
    if e.rank is None:
        _draw_matrix(figure, traffic, plan, e)
        few = plan.nprocs <= MAX_GROUPS
        groups = _groups(plan.nprocs)
        note = "gray stays" if few else f"summed over {groups} groups of consecutive ranks"
        _title(traffic, "Traffic: who sends to whom", f"bytes; {note}")
    else:
        _draw_peers(traffic, e)
        _title(traffic, f"Traffic of process {e.rank:,}", "bytes, by rank of the peer; gray stays")
    figure.savefig(path)


def _permutation(plan: MotionPlan) -> str:
    """Return which dimensions change their places, if the plan is one transpose."""
    axes = getattr(plan[0], "axes", None) if len(plan) == 1 else None
    moved = [f"{k} was {d}" for k, d in enumerate(axes or ()) if k != d]
    return f"; dimension {', '.join(moved)}" if moved else ""


def layout_png(layout: Layout) -> bytes:
    """Draw the owners in a layout, as the bytes of a small PNG picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIDE, SIDE), dpi=80, facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot()
    axes.set_anchor("N")
    Painter(layout.nprocs, None, (layout,)).draw(axes, layout)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")  # bars leave most of it empty
    return picture.getvalue()


def _headline(e: Explanation) -> str:
    stays = f"{decimal(e.kept_bytes)} stay{'s' if e.kept_bytes == 1 else ''}"
    who = counted(e.nprocs, "process", "processes")
    if not e.messages:
        return f"{who}: nothing moves, {stays}"
    return (
        f"{who} exchange {decimal(e.moved_bytes)} in {counted(e.messages, 'message')} "
        f"of {message_sizes(e)}; {stays}"
    )
