# SPDX-License-Identifier: BSD-3-Clause
"""The owner of each pixel of a picture of an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from datamover import _plan
from datamover.layout_json import grid_ranks

#: Pixels along the longer side of a picture of holdings.
MAX_PIXELS = 480
#: The same if the parts of one process are shown, which may be single pixels.
MAX_PIXELS_OF_ONE = 160
#: Blocks are drawn at least this many pixels wide: finer layouts show their first blocks only.
MIN_BLOCK_PIXELS = 4
#: Minimum pixels of a cyclic round over many processes, which then looks like a ramp.
MIN_PERIOD_PIXELS = 24

NOBODY = -1


class Holdings:
    """The owner of each pixel of a window into an array.

    Parameters
    ----------
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
    dims : sequence of int
        The dimensions that are shown, rows last but one, columns last.
    window : tuple of int, optional
        Extents to show, from the lower ends on; chosen by default.
    at : sequence of int, optional
        The index in each dimension that is not shown; 0 by default.
    edges : list of ndarray of int, optional
        Begins of the pixels of each shown dimension, and the end of the last; chosen by default.
    most_pixels : int
        Maximum number of pixels along a dimension, unless `edges` are given.

    Attributes
    ----------
    owners : ndarray of int64
        One rank per pixel, `NOBODY` if no process owns it.
    window : tuple of int
        Extents of the shown part, in elements per shown dimension.
    """

    def __init__(
        self,
        layout: Any,
        dims: Sequence[int],
        window: tuple[int, ...] | None = None,
        *,
        at: Sequence[int] | None = None,
        edges: list[np.ndarray] | None = None,
        most_pixels: int = MAX_PIXELS,
    ):
        self.layout, self.dims = layout, tuple(dims)
        domain = layout.domain
        self.lo = tuple(domain.lo)
        self.shape = tuple(domain.shape)
        self._at = tuple(at or (0,) * len(self.shape))
        self.window = window or tuple(self._shown_extent(d) for d in dims)
        self.edges = edges or [
            np.linspace(0, n, min(n, most_pixels) + 1).astype(np.int64) for n in self.window
        ]
        self.owners = self._paint([edges[:-1] for edges in self.edges])

    @property
    def rows_and_columns(self) -> tuple[int, int]:
        """Extents of the picture, which has one row if there is one dimension."""
        rows, columns = (1, *self.window)[-2:]
        return rows, columns

    @property
    def whole(self) -> bool:
        """Whether the window is all of the shown dimensions."""
        return all(n == self.shape[d] for n, d in zip(self.window, self.dims, strict=True))

    def _shown_extent(self, d: int) -> int:
        """Return the whole extent, unless blocks are so fine that pixels would hide the pattern."""
        extent = self.shape[d]
        if not isinstance(self.layout, _plan.BlockCyclic) or self.layout.grid[d] == 1:
            return extent
        block, period = self.layout.block[d], self.layout.block[d] * self.layout.grid[d]
        seen = block * MAX_PIXELS >= MIN_BLOCK_PIXELS * extent
        ramp = period * MAX_PIXELS >= MIN_PERIOD_PIXELS * extent
        if seen or (ramp and self.layout.grid[d] >= MIN_PERIOD_PIXELS):
            return extent
        return min(extent, block * MAX_PIXELS // MIN_BLOCK_PIXELS)

    def _paint(self, samples: list[np.ndarray]) -> np.ndarray:
        if isinstance(self.layout, _plan.BlockCyclic):
            return self._paint_grid(samples)
        if isinstance(self.layout, _plan.FloorPlan):
            return self._paint_boxes(samples)
        return self._paint_flat(samples)

    def _paint_grid(self, samples: list[np.ndarray]) -> np.ndarray:
        layout = self.layout
        index = [np.array([place], np.int64) for place in self._at]
        for d, sample in zip(self.dims, samples, strict=True):
            index[d] = sample
        axes = zip(index, layout.block, layout.grid, strict=True)
        places = [sample // block % processes for sample, block, processes in axes]
        return grid_ranks(layout)[0][np.ix_(*places)].reshape([len(s) for s in samples])

    def _hidden(self) -> list[int]:
        """Return the dimensions that are not shown."""
        return [d for d in range(len(self.shape)) if d not in self.dims]

    def _boxes(self) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yield the bounds of each box of a floor plan that meets the shown part, and its rank.

        If boxes overlap, the lowest-numbered one counts, so it comes last.
        """
        regions, ranks = self.layout.regions, self.layout.owners
        for block in range(len(ranks) - 1, -1, -1):
            lo, hi = regions[block] - np.asarray(self.lo)
            shown = all(lo[d] <= self._at[d] < hi[d] for d in self._hidden())
            if shown and (lo < hi).all():
                yield lo[list(self.dims)], hi[list(self.dims)], int(ranks[block])

    def _paint_boxes(self, samples: list[np.ndarray]) -> np.ndarray:
        owners = np.full([len(s) for s in samples], NOBODY, np.int64)
        for lo, hi, rank in self._boxes():
            bounds = zip(samples, lo, hi, strict=True)
            owners[tuple(slice(*np.searchsorted(s, [a, b])) for s, a, b in bounds)] = rank
        return owners

    def _paint_flat(self, samples: list[np.ndarray]) -> np.ndarray:
        flat = np.zeros((), np.int64)
        for d, extent in enumerate(self.shape):
            here = samples[self.dims.index(d)] if d in self.dims else self._at[d]
            flat = np.add.outer(flat * extent, here)
        if isinstance(self.layout, _plan.FlatCyclic):
            return self.layout.owners[flat // self.layout.block_elems % self.layout.num_blocks]
        owners = np.full(math.prod(self.shape), NOBODY, np.int64)
        for rank in range(self.layout.nprocs - 1, -1, -1):
            owners[np.asarray(self.layout.indices_of(rank))] = rank
        return owners[flat]

    def held_by(self, rank: int) -> np.ndarray:
        """Return for each pixel whether the rank owns any element in it."""
        layout = self.layout
        if isinstance(layout, _plan.FlatCyclic):
            return self.owners == rank
        held = np.zeros(self.owners.shape, bool)
        if isinstance(layout, _plan.FloorPlan):
            for lo, hi, owner in self._boxes():
                if owner == rank:
                    ends = zip(self.edges, lo, hi, strict=True)
                    held[np.ix_(*(np.diff(edges.clip(a, b)) > 0 for edges, a, b in ends))] = True
        elif isinstance(layout, _plan.BlockCyclic):
            every = [np.array([place, place + 1]) for place in self._at]
            for d, edges in zip(self.dims, self.edges, strict=True):
                every[d] = edges
            for place in np.argwhere((grid_ranks(layout) == rank).any(axis=0)):
                sides = [*zip(every, layout.block, layout.grid, place, strict=True)]
                if all(_any_in(*sides[d])[0] for d in self._hidden()):
                    held[np.ix_(*(_any_in(*sides[d]) for d in self.dims))] = True
        else:
            flat = np.zeros(math.prod(self.shape), bool)
            flat[np.asarray(layout.indices_of(rank))] = True
            cut = tuple(slice(None) if d in self.dims else at for d, at in enumerate(self._at))
            held = flat.reshape(self.shape)[cut][tuple(slice(n) for n in self.window)]
            for axis, edges in enumerate(self.edges):
                held = np.logical_or.reduceat(held, edges[:-1], axis)
        return held


def _any_in(edges: np.ndarray, block: int, grid: int, place: int) -> np.ndarray:
    """Return whether a place along the grid owns any index of each interval between edges."""
    period, first = block * grid, block * place
    below = (edges - first) // period * block + np.clip((edges - first) % period, 0, block)
    return np.diff(below) > 0
