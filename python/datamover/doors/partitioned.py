# SPDX-License-Identifier: BSD-3-Clause
"""The protocol `__partitioned__`, as heat has it: a grid of boxes, with the data of this process.

Source: the draft in IntelPython/DPPY-Spec. There it is a method, in heat an attribute; both work.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from datamover.errors import Mismatch, Unsupported
from datamover.layouts import BlockCyclic, FloorPlan, Layout

from .parts import Boxes, Shape, world

if TYPE_CHECKING:
    from datamover.arrays import Array


def describe(x: Any, _shape: Shape | None) -> Boxes:
    """Give the layout, or this process's part of it."""
    table = _table(x)
    boxes = []
    for _, part in _own(table):
        start, shape = part["start"], part["shape"]
        boxes.append((start, [a + n for a, n in zip(start, shape, strict=True)]))
    return Boxes(
        table["shape"], boxes, replicated=True, check_rank=lambda rank: _check_locals(table, rank)
    )


def comm_of(x: Any, _ghosts: bool) -> Any:
    """Give that of heat, which wraps MPI's, or that of all processes."""
    comm = getattr(x, "comm", None)
    return getattr(comm, "handle", comm) or world()


def memory(x: Any) -> tuple[list[Any], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    table = _table(x)
    return [table["get"](part["data"]) for _, part in _own(table)], 0


def _table(x: Any) -> Any:
    table = x.__partitioned__
    table = table() if callable(table) else table
    if "locals" not in table:
        raise Unsupported("__partitioned__ without 'locals' is not an array of MPI processes")
    return table


def _own(table: Any) -> list[tuple[Any, Any]]:
    """Give the parts of this process, in order of their positions."""
    return [(position, table["partitions"][position]) for position in sorted(table["locals"])]


def _check_locals(table: Any, rank: int) -> None:
    """Compare `locals` with the locations of all parts, if these are ranks."""
    own = set(table["locals"])
    for position, part in table["partitions"].items():
        ranks = part.get("location")
        ranks = [ranks] if isinstance(ranks, (int, np.integer)) else ranks
        if ranks is None or not all(isinstance(r, (int, np.integer)) for r in ranks):
            continue  # names of hosts
        if (rank in ranks) != (position in own):
            held, found = ("not in", "is") if rank in ranks else ("in", "is not")
            raise Mismatch(
                f"process {rank}: part {position} is {held} 'locals' of __partitioned__, but "
                f"{rank} {found} among its locations {list(ranks)}"
            )


def table_of(array: Array) -> dict[str, Any]:
    """Return `__partitioned__` of an array of this library.

    Raises
    ------
    Unsupported
        Blocks that do not form a grid of boxes, such as cyclic ones, or leave gaps or overlap.
    """
    layout = array.layout
    sides, lo, hi = _sides(layout), np.asarray(layout.domain.lo), np.asarray(layout.domain.hi)
    # Along each dimension, the boxes that there are, in ascending order.
    axes = [sorted(set(map(tuple, sides[:, :, d].tolist()))) for d in range(sides.shape[2])]
    partitions: dict[tuple[int, ...], dict[str, Any]] = {}
    own = []
    for block, (start, stop) in enumerate(sides):
        ends = zip(start.tolist(), stop.tolist(), strict=True)
        inside = np.minimum(start, hi), np.minimum(stop, hi)
        position = tuple(axis.index(pair) for axis, pair in zip(axes, ends, strict=True))
        part = partitions.setdefault(
            position,
            {
                "start": tuple((inside[0] - lo).tolist()),
                "shape": tuple((inside[1] - inside[0]).tolist()),
                "data": None,
                "location": [],
                "dtype": array.dtype,
                "device": "cpu",
            },
        )
        part["location"].append(layout.owner(block))
        if block in array:
            part["data"] = array.interior(block)
            own.append(position)
    tiling = tuple(map(len, axes))
    limits = zip(axes, lo.tolist(), hi.tolist(), strict=True)
    if len(partitions) != math.prod(tiling) or not all(_fills(*axis) for axis in limits):
        raise Unsupported(
            f"the blocks of {layout!r} do not form a grid, as __partitioned__ requires"
        )
    return {
        "shape": tuple(layout.domain.shape),
        "partition_tiling": tiling,
        "partitions": partitions,
        "locals": own,
        "get": identity,
    }


def _fills(axis: list[tuple[int, int]], lo: int, hi: int) -> bool:
    """Return whether intervals in ascending order meet from lo to hi; the last may go beyond."""
    ends = [lo, *(min(end, hi) for interval in axis for end in interval), hi]
    return ends[::2] == ends[1::2]


def _sides(layout: Layout) -> np.ndarray:
    """Give the boxes of a layout as the regions of a `FloorPlan`; the last may reach beyond it."""
    if isinstance(layout, FloorPlan):
        return layout.regions
    if isinstance(layout, BlockCyclic):
        shape, block, grid = (np.asarray(n) for n in (layout.shape, layout.block, layout.grid))
        if (block * grid >= shape).all() and not any(layout.first_process):
            order = cast(Literal["C", "F"], layout.grid_order)
            places = np.unravel_index(np.arange(math.prod(layout.grid)), grid, order)
            start = np.stack(places, -1) * block
            return np.tile(np.stack((start, start + block), 1), (layout.replicas, 1, 1))
    raise Unsupported(f"{layout!r} is not a grid of boxes, as __partitioned__ requires")


def identity(part: Any) -> Any:
    """Give the data of a part, which the table holds itself."""
    return part
