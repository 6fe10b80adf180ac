# SPDX-License-Identifier: BSD-3-Clause
"""View: the plane of an array that a page shows, and the processes that hold its parts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from datamover._plan import whole_of
from datamover.errors import InvalidArgument, Mismatch
from datamover.holdings import Holdings
from datamover.layouts import BlockCyclic, FloorPlan, Layout
from datamover.stream.wire import ArrayInfo

#: Maximum number of intervals per dimension with owners; finer layouts are sampled.
MAX_INTERVALS = 512


@dataclasses.dataclass(frozen=True)
class View:
    """A plane of an array.

    Attributes
    ----------
    name : str
        Name of the array.
    axes : tuple of int
        The dimensions that run down and across, ascending; the only one of a 1-dimensional array.
    at : tuple of int
        The index in every other dimension, counted from its lower end; 0 in those that are shown.
    """

    name: str
    axes: tuple[int, ...]
    at: tuple[int, ...]

    def extents(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return rows and columns for an array of a shape."""
        rows_and_columns = (1, *(shape[axis] for axis in self.axes))
        return rows_and_columns[-2], rows_and_columns[-1]

    def as_words(self) -> dict[str, Any]:
        """Return the description for a page."""
        return {"name": self.name, "axes": list(self.axes), "at": list(self.at)}


def why_not_shown(info: ArrayInfo) -> str:
    """Return why an array cannot be shown; "" if it can."""
    kind = info.dtype.kind
    if kind not in "biufcV" or (kind == "V" and not _is_number(info.dtype)):
        return f"elements of type {info.dtype} are not numbers"
    return "" if all(info.shape) else "it has no elements"


def _is_number(dtype: np.dtype) -> bool:
    try:
        return np.can_cast(dtype, np.float32, "unsafe") and float(np.ones(1, dtype)[0]) == 1
    except (TypeError, ValueError):
        return False


def first_view(info: ArrayInfo) -> View:
    """Return the first view of an array: its last two dimensions, in the middle of the others."""
    dims = len(info.shape)
    axes = tuple(range(max(dims - 2, 0), dims))
    at = tuple(0 if d in axes else n // 2 for d, n in enumerate(info.shape))
    return View(info.name, axes, at)


def view_of_words(words: dict[str, Any], known: dict[str, ArrayInfo]) -> View:
    """Read the view that a page requests; the input is not trusted.

    Raises
    ------
    InvalidArgument
        It is not a valid view of any array.
    Mismatch
        It does not fit any array known now, for example after another run of the program.
    """
    name = words.get("name")
    axes: Any = words.get("axes")
    at: Any = words.get("at")
    if not isinstance(name, str):
        raise InvalidArgument("a view must name an array")
    info = known.get(name)
    if info is None:
        raise Mismatch("the stream does not send an array of this name")
    if why_not_shown(info):
        raise Mismatch(f"this array cannot be shown: {why_not_shown(info)}")
    if axes is None and at is None:
        return first_view(info)
    dims = len(info.shape)
    for numbers in (axes, at):
        if not isinstance(numbers, list) or any(type(number) is not int for number in numbers):
            raise InvalidArgument("the dimensions and indices of a view must be lists of integers")
    if sorted(set(axes)) != axes:
        raise InvalidArgument("the dimensions of a view must ascend")
    if len(axes) != min(dims, 2) or len(at) != dims or not all(0 <= axis < dims for axis in axes):
        raise Mismatch(
            "a view must have two dimensions, and an index for each dimension of the array"
        )
    if not all(0 <= place < n for place, n in zip(at, info.shape, strict=True)):
        raise Mismatch("a view is outside the array")
    return View(name, tuple(axes), tuple(0 if d in axes else at[d] for d in range(dims)))


def layout_of_view(view: View, info: ArrayInfo) -> Layout:
    """Return the layout of a consumer of one process that requests this plane."""
    shape = np.array(info.shape)
    if len(shape) == len(view.axes):
        return whole_of(info.layout)
    lower, upper = np.array(view.at), np.array(view.at) + 1
    lower[list(view.axes)], upper[list(view.axes)] = 0, shape[list(view.axes)]
    return FloorPlan(np.array([[lower, upper]]) + np.array(info.layout.domain.lo), [0], nprocs=1)


def owners_of(view: View, info: ArrayInfo) -> dict[str, Any]:
    """Return which process of the sending program owns which part of a view.

    Returns
    -------
    dict
        `rows` and `columns`: the begins of the intervals, and the end of the last one; `owners`:
        a rank for each pair of intervals, -1 for none, row by row; `exact`: whether none was left
        out.
    """
    window = tuple(info.shape[axis] for axis in view.axes)
    cuts = [_cuts(info.layout, axis, n) for axis, n in zip(view.axes, window, strict=True)]
    edges = [
        np.unique(np.linspace(0, n, min(n, MAX_INTERVALS) + 1).astype(np.int64))
        if cut is None
        else cut
        for cut, n in zip(cuts, window, strict=True)
    ]
    owners = Holdings(info.layout, view.axes, window, at=view.at, edges=edges).owners
    both = [np.array([0, 1]), *edges]
    return {
        "rows": both[-2].tolist(),
        "columns": both[-1].tolist(),
        "owners": owners.ravel().tolist(),
        "exact": all(cut is not None for cut in cuts),
        "nprocs": info.layout.nprocs,
    }


def _cuts(layout: Layout, axis: int, extent: int) -> np.ndarray | None:
    """Return all places along a dimension where the owner may change; None if they are many."""
    if isinstance(layout, FloorPlan):
        inner = (layout.regions[:, :, axis] - layout.domain.lo[axis]).ravel()
    else:
        block = 1
        if isinstance(layout, BlockCyclic):
            block = layout.block[axis] if layout.grid[axis] > 1 else extent
        if extent > block * MAX_INTERVALS:
            return None
        inner = np.arange(0, extent, max(block, 1))
    cuts = np.unique(np.clip(np.concatenate([[0], inner, [extent]]), 0, extent)).astype(np.int64)
    return cuts if len(cuts) <= MAX_INTERVALS + 1 else None
