# SPDX-License-Identifier: BSD-3-Clause
"""Layouts: regions of index space, their owners, and the places of blocks in memory.

>>> import datamover as dm
>>> rows = dm.BlockCyclic((1000, 600), "(block, *)", nprocs=4)
>>> rows.local_shape(3)
(250, 600)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _plan
from ._plan import (
    BlockCyclic,
    BlockMemory,
    FlatCyclic,
    FloorPlan,
    IndexList,
    MemoryLayout,
    Region,
)
from .arguments import integer, integers, is_several, text
from .errors import WrongType
from .lazy_names import attributes

if TYPE_CHECKING:
    from .layout_json import from_json, to_json

__all__ = [
    "BlockCyclic",
    "BlockMemory",
    "FlatCyclic",
    "FloorPlan",
    "IndexList",
    "Layout",
    "MemoryLayout",
    "Region",
    "dense_memory",
    "from_json",
    "to_json",
]

# Users, their pickles and doctest find the classes here.
for _class in (BlockCyclic, BlockMemory, FlatCyclic, FloorPlan, IndexList, MemoryLayout, Region):
    _class.__module__ = __name__

#: What is accepted wherever a layout is expected; also for `isinstance`.
Layout = BlockCyclic | FloorPlan | IndexList | FlatCyclic


def dense_memory(
    layout: Layout,
    rank: int,
    elem_bytes: int,
    order: str = "C",
    ghost: int | Sequence[int] = 0,
    ghost_upper: int | Sequence[int] | None = None,
) -> MemoryLayout:
    """Return the usual memory layout of a rank: its blocks densely, one after the other.

    Each block starts at a multiple of 64 bytes.

    Parameters
    ----------
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        The layout of the blocks.
    rank : int
        The process.
    elem_bytes : int
        Size of an element.
    order : {"C", "F"}
        Last dimension fastest, or first.
    ghost : int or sequence of int
        Extra elements on both sides of each dimension of each block.
    ghost_upper : int or sequence of int, optional
        Extra elements on the upper sides, if they differ.

    Returns
    -------
    MemoryLayout
        For this process. Local; takes time proportional to the number of its blocks.

    Raises
    ------
    InvalidArgument
        The element size is not positive, a ghost width is negative, or `order` is unknown.
    OutOfRange
        The rank does not exist, or the memory exceeds 63 bits.

    Examples
    --------
    >>> import datamover as dm
    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=2)
    >>> memory = dm.advanced.dense_memory(blocks, rank=0, elem_bytes=8, ghost=1)
    >>> [(b.block, b.offset_bytes, b.valid.lo) for b in memory.blocks], memory.end_bytes
    ([(0, 56, (-1, -1)), (2, 376, (-1, -1))], 640)
    """
    return _plan.dense_memory(
        checked(layout),
        integer(rank, "rank"),
        integer(elem_bytes, "elem_bytes"),
        text(order, "order"),
        _widths(ghost, "ghost"),
        None if ghost_upper is None else _widths(ghost_upper, "ghost_upper"),
    )


# Late, because they need NumPy.
__getattr__ = attributes(globals(), dict.fromkeys(("from_json", "to_json"), "layout_json"))


def checked(layout: Layout) -> Layout:
    """Return a layout; raise WrongType for anything else. Not for users."""
    if not isinstance(layout, Layout):
        raise WrongType(f"a {type(layout).__name__} was given, it must be a layout")
    return layout


def shape_of(layout: Layout) -> tuple[int, ...]:
    """Return the shape of the array, or of a floor plan's bounding box. Not for users.

    An empty region, such as `domain` of an array without elements, forgets its extents.
    """
    return tuple(getattr(layout, "shape", None) or layout.domain.shape)


def changed(layout: BlockCyclic, **others: Any) -> BlockCyclic:
    """Return a block-cyclic layout with other arguments. Not for users."""
    kept = ("shape", "distribution", "nprocs", "grid", "first_process", "grid_order", "ranks")
    arguments: Any = {name: getattr(layout, name) for name in (*kept, "replicas")}
    return BlockCyclic(**arguments | others)


def _widths(ghost: int | Sequence[int], name: str) -> int | tuple[int, ...]:
    """Return integers; one for all dimensions is returned as it is."""
    widths = integers(ghost, name)
    return widths if is_several(ghost) else widths[0]
