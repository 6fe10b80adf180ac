# SPDX-License-Identifier: BSD-3-Clause
"""Stages of a distributed transform: which axes are transformed together, and in which layout."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arguments import integer
from ..errors import OutOfRange
from ..layouts import BlockCyclic, FloorPlan, Layout, changed

#: Dimensions of a process grid that are split at most.
MOST_SPLIT = 3


@dataclass(frozen=True)
class Extents:
    """Extents of an array before and after each of its axes is transformed.

    `real_axis` is transformed first, from real to complex numbers; None if all numbers are complex.
    """

    physical: tuple[int, ...]
    modes: tuple[int, ...]
    axes: tuple[int, ...]
    real_axis: int | None

    def shape(self, done: Iterable[int]) -> tuple[int, ...]:
        """Return the shape of the array once some axes are transformed."""
        shape = list(self.physical)
        for axis in done:
            shape[axis] = self.modes[axis]
            if axis == self.real_axis:
                shape[axis] = shape[axis] // 2 + 1
        return tuple(shape)


def dimension(axis: int, dims: int) -> int:
    """Return the number of a dimension that may be counted from the last."""
    if not -dims <= integer(axis, "an axis") < dims:
        raise OutOfRange(f"axis {axis} is not one of {dims} dimensions")
    return axis % dims


class Stage(NamedTuple):
    """Axes that are whole on each process, and the layouts of the array before and after."""

    axes: tuple[int, ...]
    before: Layout
    after: Layout


def stages(extents: Extents, nprocs: int, layout: Layout | None = None) -> list[Stage]:
    """Choose the stages that cost the least.

    A stage costs as much as the elements of its busiest process, for each axis that it transforms
    and for the exchange before it.

    Parameters
    ----------
    extents : Extents
    nprocs : int
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic, optional
        Of the array before the first stage. The first stage keeps it if that costs no more.
    """

    @functools.cache
    def cheapest(done: frozenset[int]) -> tuple[int, tuple[tuple[int, ...], ...]]:
        """Return the cost and the axes of each stage that remains."""
        left = [axis for axis in extents.axes if axis not in done]
        if not left:
            return 0, ()
        costs = []
        for count in range(min(len(left), MOST_SPLIT)):
            for split in itertools.combinations(left, count):
                if extents.real_axis not in split:
                    whole = tuple(axis for axis in left if axis not in split)
                    cost, others = cheapest(done.union(whole))
                    shape = extents.shape(done)
                    busiest = _busiest(shape, _grid(shape, whole, nprocs))
                    costs.append((busiest * (len(whole) + 1) + cost, (whole, *others)))
        return min(costs, key=lambda found: found[0])

    cost, order = cheapest(frozenset())
    in_place = () if layout is None else _whole(layout, extents)
    if layout is not None and in_place:
        others, later = cheapest(frozenset(in_place))
        busiest = max(layout.local_elems(rank) for rank in range(nprocs))
        if others + busiest * len(in_place) <= cost:
            order = (in_place, *later)
        else:
            in_place = ()
    result: list[Stage] = []
    done: set[int] = set()
    for axes in order:
        shape = extents.shape(done)
        before: Any = layout if in_place and not done else _blocks(shape, axes, nprocs)
        done.update(axes)
        result.append(Stage(axes, before, _reshaped(before, extents.shape(done))))
    return result


def _grids(extents: Sequence[int], nprocs: int) -> Iterator[tuple[int, ...]]:
    """Yield grids of at most `nprocs` processes, each with at least one index per dimension."""
    if not extents:
        yield ()
        return
    n, *others = extents
    most = min(n, nprocs)
    counts = {-(-n // -(-n // p)) for p in (range(1, most + 1) if others else (most,))}
    for count in counts:
        for grid in _grids(others, nprocs // count):
            yield (count, *grid)


@functools.cache
def _grid(shape: tuple[int, ...], whole: tuple[int, ...], nprocs: int) -> tuple[int, ...]:
    """Return the best process grid that does not split some axes: it prefers outer dimensions."""
    free = [axis for axis in range(len(shape)) if axis not in whole]
    free = sorted(sorted(free, key=lambda axis: -shape[axis])[:MOST_SPLIT])
    candidates = []
    for counts in _grids([shape[axis] for axis in free], nprocs):
        grid = [1] * len(shape)
        for axis, count in zip(free, counts, strict=True):
            grid[axis] = count
        split = sum(count > 1 for count in grid)
        candidates.append((_busiest(shape, grid), split, [-count for count in grid]))
    return tuple(-count for count in min(candidates)[2])


def _busiest(shape: Sequence[int], grid: Sequence[int]) -> int:
    return math.prod(-(-n // p) for n, p in zip(shape, grid, strict=True))


def _blocks(shape: tuple[int, ...], whole: tuple[int, ...], nprocs: int) -> BlockCyclic:
    grid = _grid(shape, whole, nprocs)
    words = ", ".join("*" if count == 1 else "block" for count in grid)
    return BlockCyclic(shape, f"({words})", nprocs, grid=grid)


def _whole(layout: Layout, extents: Extents) -> tuple[int, ...]:
    """Return the axes that a first stage can transform in a layout."""
    axes: list[int] = []
    if isinstance(layout, BlockCyclic):
        axes = [axis for axis in extents.axes if layout.grid[axis] == 1]
    elif isinstance(layout, FloorPlan):
        lower, upper = layout.regions[_filled(layout)].swapaxes(0, 1)
        whole = ((lower == 0) & (upper == extents.physical)).all(axis=0)
        axes = [axis for axis in extents.axes if whole[axis]]
    return tuple(axes) if extents.real_axis in (None, *axes) else ()


def _filled(layout: FloorPlan) -> np.ndarray:
    """Return which blocks have elements."""
    regions = layout.regions
    return np.all(regions[:, 0] < regions[:, 1], axis=1)


def _reshaped(layout: BlockCyclic | FloorPlan, shape: tuple[int, ...]) -> BlockCyclic | FloorPlan:
    """Return the layout with other extents of axes that are whole on each process."""
    if shape == layout.domain.shape:
        return layout
    if isinstance(layout, FloorPlan):
        regions, filled = layout.regions, _filled(layout)
        differs = np.not_equal(shape, layout.domain.shape)
        regions[np.ix_(filled, np.array([1]), differs)] = np.array(shape)[differs]
        return FloorPlan(regions, layout.owners, layout.nprocs)
    text = layout.distribution.strip()
    words = (text[1:-1] if text.startswith("(") else text).split(",")
    words = ["*" if n == 1 else word.strip() for word, n in zip(words, layout.grid, strict=True)]
    return changed(layout, shape=shape, distribution=f"({', '.join(words)})")
