# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of layouts: a bar, a square or three faces of a cuboid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover import _plan
from datamover.holdings import (
    MAX_PIXELS,
    MAX_PIXELS_OF_ONE,
    MIN_BLOCK_PIXELS,
    NOBODY,
    Holdings,
)

#: Maximum number of blocks in a picture that have their ranks as labels.
MAX_LABELS = 300
#: Blocks each way in a lens, which shows the first blocks if there are too many for labels.
LENS_BLOCKS = 5
#: Number of first blocks shown below a bar whose blocks are too small for labels.
ZOOMED_BLOCKS = 12
#: Number of places whose colors a pixel mixes, for a bar with blocks finer than pixels.
MIXED_PLACES = 128
#: Maximum number of processes with a legend entry each.
MAX_LEGEND = 16
#: Maximum number of processes for which neighboring ranks have clearly different colors.
MAX_DISTINCT = 64
LEGEND_COLUMNS = 8
#: Side of the square in which a layout is drawn, in inches.
SIDE = 3.5
BAR_ASPECT = 0.14

#: In points: lines between blocks take a tenth of the blocks; narrow blocks have none.
LINE, LEAST_LINED, SMALLEST_FONT = 0.8, 4.0, 4.5

PAPER, INK, FAINT, ACCENT = "#ffffff", "#1d2733", "#8a94a0", "#d1495b"
UNHELD = "#eceff2"
#: Okabe and Ito's colors, which color-blind readers can distinguish, softened.
FEW_COLORS = "#4c9bd0 #e9a53a #3fae8c #d97757 #b583b8 #e8d650 #3d6fa8 #9aa5b1"


#: A block in a picture: its rank, and its left, upper, right and lower ends.
Box = tuple[int, float, float, float, float]


def colors(nprocs: int) -> Any:
    """Return a color for each rank: distinct up to `MAX_DISTINCT` processes, a ramp for more."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, hsv_to_rgb

    if nprocs <= 8:
        return ListedColormap(FEW_COLORS.split()[:nprocs])
    if nprocs <= MAX_DISTINCT:
        # Hues at the golden section's distance, cyclically dark, medium and light: close ranks,
        # which are often neighbors in a grid, differ in both.
        ranks = np.arange(nprocs)
        light = ranks % 3 / 2
        return ListedColormap(
            hsv_to_rgb(
                np.stack([ranks * 0.618034 % 1, 0.68 - 0.28 * light, 0.55 + 0.4 * light], axis=1)
            )
        )
    ramp = colormaps["turbo"](np.linspace(0.06, 0.94, min(nprocs, 4096)))
    ramp[:, :3] = 0.80 * ramp[:, :3] + 0.20  # softened, so that labels can be read
    return ListedColormap(ramp)


def text_color(rgba: Any) -> str:
    """Return a text color that can be read on a color."""
    luminance = 0.299 * rgba[0] + 0.587 * rgba[1] + 0.114 * rgba[2]
    return INK if luminance > 0.5 else PAPER


def _size(aspect: float, share: float = 1) -> tuple[float, float]:
    """Return width and height, in points, of a picture of that aspect in a share of the square."""
    side = 72 * SIDE * share
    return side / max(aspect, 1), side * min(aspect, 1)


def _line(block: float) -> float:
    """Return the width of a line next to a block of that many points that leaves color visible."""
    return min(LINE, block / 10) if block >= LEAST_LINED else 0.0


class Painter:
    """Draws the layouts of one plan in one set of colors."""

    def __init__(self, nprocs: int, rank: int | None, layouts: Sequence[Any]):
        self.nprocs, self.rank = nprocs, rank
        self.colors = colors(nprocs)
        are_bars = all(len(layout.domain.shape) == 1 for layout in layouts)
        self.zoomed = self._zoomed_extent(layouts) if are_bars else 0
        self.layouts = layouts

    def rgba(self, owners: np.ndarray, held: np.ndarray | None) -> np.ndarray:
        """Return the colors of an array of ranks; for one rank, only of its elements."""
        from matplotlib.colors import to_rgba

        if held is not None:
            return np.where(held[..., None], to_rgba(ACCENT), to_rgba(UNHELD))
        scale = 1 if self.nprocs <= self.colors.N else self.nprocs / self.colors.N
        picture = self.colors((np.maximum(owners, 0) / scale).astype(np.int64))
        picture[owners == NOBODY] = to_rgba(UNHELD)
        return picture

    def draw(self, axes: Any, layout: Any) -> None:
        """Draw one layout: a bar for 1 dimension, a square for 2, faces of a cuboid for more."""
        if 0 in layout.domain.shape:
            axes.set(xticks=[], yticks=[], box_aspect=BAR_ASPECT)
            axes.set_xlabel("no elements", fontsize=8, color=FAINT)
            frame(axes)
        else:
            (self._flat if len(layout.domain.shape) < 3 else self._cuboid)(axes, layout)

    def _holdings(self, layout: Any, dims: Sequence[int], at: Any = None) -> Holdings:
        """Return the owners; for one rank of the whole array, however small its parts are."""
        if self.rank is None and len(layout.domain.shape) > 1:
            return Holdings(layout, dims, at=at)
        whole = tuple(layout.domain.shape[d] for d in dims)
        most_pixels = MAX_PIXELS if self.rank is None else MAX_PIXELS_OF_ONE
        return Holdings(layout, dims, whole, at=at, most_pixels=most_pixels)

    def _painted(self, holdings: Holdings) -> np.ndarray:
        held = None if self.rank is None else holdings.held_by(self.rank)
        return self.rgba(holdings.owners, held)

    def _zoomed_extent(self, layouts: Sequence[Any]) -> int:
        """Return the number of elements shown larger below bars, before and after; 0 for none."""
        block = min(_block_along(layout) for layout in layouts)
        extent = min(layout.domain.shape[0] for layout in layouts)
        block_width = _size(BAR_ASPECT)[0] * block / max(extent, 1)
        readable = self._font((block_width, math.inf)) >= SMALLEST_FONT
        zoomed = ZOOMED_BLOCKS * block
        return 0 if self.rank is not None or readable or 2 * zoomed > extent else zoomed

    def _flat(self, axes: Any, layout: Any) -> None:
        """Draw a bar, or rows and columns, and the first blocks larger if they are too small."""
        holdings = self._holdings(layout, range(len(layout.domain.shape)))
        rows, columns = holdings.rows_and_columns
        is_bar = len(holdings.window) == 1
        aspect = BAR_ASPECT if is_bar else min(max(rows / columns, 0.45), 1.6)
        axes.set_box_aspect(aspect)
        if is_bar and self.rank is None and _is_fine(layout):
            _show(axes, self._mixed(layout)[None], columns, rows)
            has_room = False
        else:
            has_room = self._show_blocks(axes, holdings, _size(aspect))
        _ticks(axes, layout, holdings)
        if not holdings.whole:
            axes.set_xlabel(f"the first {rows:,} × {columns:,} elements", fontsize=8, color=FAINT)
        has_lens = self.rank is None and isinstance(layout, _plan.BlockCyclic) and not is_bar
        if self.zoomed or (has_lens and not has_room):
            self._enlarge_first_blocks(axes, layout, aspect)

    def _show_blocks(self, axes: Any, holdings: Holdings, points: tuple[float, float]) -> bool:
        """Show owners, and ranks in their blocks; return whether any has room for that."""
        size = holdings.rows_and_columns[::-1]
        owners = np.atleast_2d(holdings.owners)
        _show(axes, np.reshape(self._painted(holdings), (*owners.shape, 4)), *size)
        boxes: Sequence[Box] = []
        if isinstance(holdings.layout, _plan.FloorPlan) and len(holdings.window) == 2:
            boxes = _boxes_of(holdings.layout)
        elif self.rank is None:
            boxes = _boxes_in(owners, size)
        return self._outline(axes, boxes, size, points)

    def _mixed(self, layout: Any) -> np.ndarray:
        """Color a whole bar; a pixel has the mean of the colors in it."""
        (n,) = layout.domain.shape
        edges = np.linspace(0, n, MAX_PIXELS + 1)
        # Places at equal distances might all belong to the same process.
        within = np.arange(MIXED_PLACES) + np.random.default_rng(0).random(MIXED_PLACES)
        within /= MIXED_PLACES
        places = np.outer(edges[:-1], 1 - within) + np.outer(edges[1:], within)
        places = np.append(np.minimum(places.ravel().astype(np.int64), n - 1), n)
        owners = Holdings(layout, (0,), (n,), edges=[places]).owners
        return self.rgba(owners, None).reshape(MAX_PIXELS, MIXED_PLACES, 4).mean(axis=1)

    def _enlarge_first_blocks(self, axes: Any, layout: Any, aspect: float) -> None:
        """Show the first blocks larger: below a bar, or in the lower right corner of a square."""
        from matplotlib.patches import Polygon

        window: tuple[int, ...]
        if self.zoomed:  # all are bars
            window, place, share = (self.zoomed,), (0.0, -2.0, 1.0, 1.0), 1.0
            corners = [(0, 0), (self.zoomed / layout.domain.shape[0], 0), (1, -1), (0, -1)]
            light: Any = {"clip_on": False, "color": UNHELD, "lw": 0, "zorder": 0}
            axes.add_patch(Polygon(corners, transform=axes.transAxes, **light))
        else:
            axis = zip(layout.block, layout.grid, layout.shape, strict=True)
            window = tuple(min(b * LENS_BLOCKS if p > 1 else n, n) for b, p, n in axis)
            place, share = (0.48, 0.04, 0.48, 0.48), 0.48
        inset = axes.inset_axes(place)
        self._show_blocks(inset, Holdings(layout, range(len(window)), window), _size(aspect, share))
        inset.set(xticks=[], yticks=[])
        frame(inset)
        inset.set_title(
            f"first {' × '.join(f'{n:,}' for n in window)}", fontsize=7.5, color=INK, pad=3,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 2},
        )  # fmt: skip

    def _outline(
        self, axes: Any, boxes: Sequence[Box], size: tuple[int, int], points: tuple[float, float]
    ) -> bool:
        """Outline blocks and write their ranks into them; return whether any has room for that.

        `size` is that of the array, `points` that of its picture.
        """
        from matplotlib.patches import Rectangle

        has_room = False
        for rank, left, top, right, bottom in boxes:
            across, down = right - left, bottom - top
            block = points[0] * across / size[0], points[1] * down / size[1]
            line, font = _line(min(block)), self._font(block)
            if line:
                axes.add_patch(Rectangle((left, top), across, down, fill=False, ec=PAPER, lw=line))
            if font >= SMALLEST_FONT and self.rank is None:
                has_room = True
                axes.text(
                    left + across / 2, top + down / 2, str(rank), ha="center", va="center",
                    fontsize=font, color=text_color(self.rgba(np.array([rank]), None)[0]),
                )  # fmt: skip
        return has_room

    def _font(self, block: Sequence[float]) -> float:
        """Return the font size of ranks in blocks of that width and height in points."""
        width = 1 + 0.45 * len(str(self.nprocs - 1))
        return min(11.0, 0.8 * block[0] / width, 0.65 * block[1])

    def _cuboid(self, axes: Any, layout: Any) -> None:
        """Draw the three visible faces of a cuboid of three dimensions."""
        from matplotlib.transforms import Affine2D

        dims = len(layout.domain.shape)
        shown = _most_split([other for other in self.layouts if len(other.domain.shape) == dims])
        z, y, x = shown
        front, top = (self._holdings(layout, dims) for dims in ((y, x), (z, x)))
        at = [0] * dims
        at[x] = front.window[1] - 1  # the right-hand face, seen at the far end of the front
        side = self._holdings(layout, (z, y), at)
        height, width = front.window
        depth = top.window[0]
        # In the shape of the array, whatever part is shown, so that before and after are alike.
        longest = max(layout.domain.shape[d] for d in shown)
        w, h, d = (max(layout.domain.shape[k] / longest, 0.25) for k in (x, y, z))
        slope = (0.45 * d, 0.38 * d)
        faces = [
            (front, 1.0, Affine2D().scale(w, -h).translate(0, h)),
            (top, 0.93, Affine2D.from_values(w, 0, *slope, 0, h)),
            # The side runs backwards along its rows, which are z; its columns are y.
            (side, 0.84, Affine2D.from_values(0, -h, *slope, w, h)),
        ]
        for holdings, shade, transform in faces:
            axes.imshow(
                self._painted(holdings) * (shade, shade, shade, 1),
                extent=(0, 1, 1, 0),
                transform=transform + axes.transData,
                interpolation="nearest",
                clip_on=False,
            )
            corners = transform.transform([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)])
            axes.plot(*corners.T, color=INK, lw=0.7, clip_on=False, solid_joinstyle="round")
        axes.set_xlim(-0.04, w + slope[0] + 0.04)
        axes.set_ylim(-0.04, h + slope[1] + 0.04)
        axes.set_aspect("equal")
        axes.set_axis_off()
        angle = math.atan2(slope[1], slope[0])
        self._extent(axes, layout, x, width, (w / 2, 0), 0)
        self._extent(axes, layout, y, height, (0, h / 2), 90, away=-1)
        # From the lower end on, so that the text of a short edge does not reach that of the first.
        self._extent(axes, layout, z, depth, (w, 0), math.degrees(angle), along=8, align="left")
        if self.rank is None and self.nprocs <= MAX_LEGEND:
            self._legend(axes)
        hidden = [str(d) for d in range(dims) if d not in shown]
        notes = [f"at the first index of dimension {' and '.join(hidden)}"] if hidden else []
        if self.rank is not None and not any(f.held_by(self.rank).any() for f, *_ in faces):
            notes.append(f"process {self.rank:,} holds nothing on these faces")
        below = -16 - 11 * (-(-self.nprocs // LEGEND_COLUMNS) if axes.get_legend() else 0)
        if notes:
            axes.annotate(
                "; ".join(notes), (0, 0), textcoords="offset points", xytext=(0, below), va="top",
                fontsize=7.5, color=FAINT, annotation_clip=False,
            )  # fmt: skip

    @staticmethod
    def _extent(
        axes: Any, layout: Any, d: int, shown: int, place: tuple[float, float], turned: float,
        away: int = 1, along: float = 0, align: str = "center",
    ) -> None:  # fmt: skip
        """Label an edge with its dimension, and with the part of it that is shown."""
        extent, lo = layout.domain.shape[d], layout.domain.lo[d]
        words = f"{shown:,}" if shown == extent else f"first {shown:,} of {extent:,}"
        words += f", from {lo:,}" if lo else ""
        sin, cos = math.sin(math.radians(turned)), math.cos(math.radians(turned))
        aside = 8 * away
        axes.annotate(
            f"dimension {d}: {words}", place, textcoords="offset points",
            xytext=(aside * sin + along * cos, along * sin - aside * cos), ha=align, va="center",
            rotation=turned, rotation_mode="anchor", fontsize=7.5, color=FAINT,
            annotation_clip=False,
        )  # fmt: skip

    def _legend(self, axes: Any) -> None:
        """Draw a legend of colors and ranks below a picture without room for labels."""
        from matplotlib.patches import Patch
        from matplotlib.transforms import ScaledTranslation

        # A legend is filled column by column, ranks are read row by row.
        ranks = [
            rank
            for column in range(LEGEND_COLUMNS)
            for rank in range(column, self.nprocs, LEGEND_COLUMNS)
        ]
        below_the_words = ScaledTranslation(0, -14 / 72, axes.figure.dpi_scale_trans)
        axes.legend(
            handles=[Patch(color=self.colors(r), label=str(r)) for r in ranks],
            loc="upper left", bbox_to_anchor=(0, 0), ncols=LEGEND_COLUMNS, frameon=False,
            bbox_transform=axes.transData + below_the_words, borderpad=0, borderaxespad=0,
            fontsize=7.5, handlelength=0.9, handleheight=0.9, handletextpad=0.4,
            columnspacing=1.2, labelcolor=FAINT,
        )  # fmt: skip


def _block_along(layout: Any) -> int:
    """Return the length of cyclic blocks along a bar; the whole length if it is not cyclic."""
    (n,) = layout.domain.shape
    if isinstance(layout, _plan.FlatCyclic):
        return min(layout.block_elems, n)
    return layout.block[0] if isinstance(layout, _plan.BlockCyclic) and layout.grid[0] > 1 else n


def _is_fine(layout: Any) -> bool:
    """Return whether blocks along a bar are too fine for its pixels."""
    return _block_along(layout) * MAX_PIXELS < MIN_BLOCK_PIXELS * layout.domain.shape[0]


def _most_split(layouts: Sequence[Any]) -> list[int]:
    """Choose the dimensions that are drawn, at most three: those that are split, then the last."""

    def is_split(layout: Any, d: int) -> bool:
        if isinstance(layout, _plan.BlockCyclic):
            return layout.grid[d] > 1
        if not isinstance(layout, _plan.FloorPlan):
            return False
        starts = layout.regions[:, 0, d]
        return bool((starts != starts[:1]).any())  # also without regions

    dims = range(len(layouts[0].domain.shape))
    split = [any(is_split(layout, d) for layout in layouts) for d in dims]
    return sorted(sorted(dims, key=lambda d: (split[d], d))[-3:])


def _boxes_of(layout: Any) -> list[Box]:
    """Return the blocks of a floor plan of two dimensions; none if they are too many to outline."""
    if len(layout) > MAX_LABELS:
        return []
    corners = (layout.regions - np.asarray(layout.domain.lo)).reshape(-1, 4).tolist()
    boxes = zip(layout.owners.tolist(), corners, strict=True)
    return [(rank, left, top, right, bottom) for rank, (top, left, bottom, right) in boxes]


def _boxes_in(owners: np.ndarray, size: tuple[int, int]) -> list[Box]:
    """Return the blocks between changes of the owner in pixels; none if there are too many.

    `size` is that of the array.
    """
    rows, columns = (
        np.flatnonzero(np.diff(owners, axis=axis, prepend=-2, append=-2).any(axis=1 - axis))
        for axis in (0, 1)
    )
    if (len(rows) - 1) * (len(columns) - 1) > MAX_LABELS:
        return []
    x, y = columns * size[0] / owners.shape[1], rows * size[1] / owners.shape[0]
    return [
        (int(owners[rows[i], columns[j]]), x[j], y[i], x[j + 1], y[i + 1])
        for i in range(len(rows) - 1)
        for j in range(len(columns) - 1)
        if owners[rows[i], columns[j]] != NOBODY
    ]


def _show(axes: Any, picture: np.ndarray, width: int, height: int) -> None:
    """Show the colors of an array of that width and height, without smoothing."""
    axes.imshow(picture, extent=(0, width, height, 0), aspect="auto", interpolation="nearest")


def _ticks(axes: Any, layout: Any, holdings: Holdings) -> None:
    """Mark both ends with the array's indices; those of the picture begin at 0."""
    axes.set_yticks([])
    for axis, lo, extent in zip(
        (axes.xaxis, axes.yaxis), layout.domain.lo[::-1], holdings.window[::-1], strict=False
    ):
        axis.set_ticks([0, extent], labels=[f"{lo:,}", f"{lo + extent:,}"])
        axis.set_tick_params(length=2, labelsize=7.5, labelcolor=FAINT, color=FAINT)
    frame(axes)


def frame(axes: Any) -> None:
    """Draw a thin line around a picture."""
    for spine in axes.spines.values():
        spine.set_color(INK)
        spine.set_linewidth(0.7)
