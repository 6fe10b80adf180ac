# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a process's part of an array, at either end of a stream."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from datamover._plan import ArrayPlace, MemorySpan
from datamover.arrays import Array, UserArrays, block_dims
from datamover.errors import Mismatch, WrongType
from datamover.layouts import BlockMemory, Layout, MemoryLayout, Region, dense_memory


class LocalMemory(NamedTuple):
    """Memory of this process's blocks of an array.

    Attributes
    ----------
    memory : MemorySpan or ndarray
        The memory of all blocks.
    layout : MemoryLayout
        Offsets from the beginning of `memory`.
    kept : object
        The owner of a span's memory.
    """

    memory: MemorySpan | np.ndarray
    layout: MemoryLayout
    kept: Any = None


def local_memory(
    array: Array | UserArrays, layout: Layout, rank: int, dtype: np.dtype
) -> LocalMemory:
    """Return the memory of an array's elements.

    Raises
    ------
    Mismatch
        Its shape or blocks differ from the layout's, or are those of another process.
    """
    if isinstance(array, Array):
        array._require_rank(rank)
        return LocalMemory(*array._memory())
    blocks, begins, ends = [], [], []
    for block, address, shape, strides, lower, upper in array._placed_blocks(layout, rank):
        extents = tuple(layout.block_extents(block))
        wanted = tuple(sum(n) for n in zip(lower, extents, upper, strict=True))
        if tuple(shape) != wanted:
            raise Mismatch(
                f"block {block} on process {rank} has shape {tuple(shape)}; it must be {wanted}"
            )
        if 0 in wanted:
            continue
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        begins.append(address + sum(min(r, 0) for r in reach))
        ends.append(address + sum(max(r, 0) for r in reach) + dtype.itemsize)
        zero = address + sum(n * s for n, s in zip(lower, strides, strict=True))
        valid = Region([-n for n in lower], [n - a for n, a in zip(shape, lower, strict=True)])
        blocks.append((block, zero, strides, valid))
    begin, end = min(begins, default=0), max(ends, default=0)
    memory = [BlockMemory(block, zero - begin, strides, v) for block, zero, strides, v in blocks]
    span = MemorySpan(begin, end - begin)
    return LocalMemory(span, MemoryLayout(memory, 0, end - begin), array)


class SentArray:
    """An array that was sent before: its layout, and the memory of its elements in the last step.

    Most programs send the same array every time.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._last: tuple[ArrayPlace, np.dtype, LocalMemory] | None = None
        self.words = ("", 0)  #: its dtype and bytes per element

    def find(self, array: Any) -> LocalMemory | None:
        """Return the cached memory if a plain ndarray has the address and shape of the last one."""
        if self._last is None or type(array) is not np.ndarray:
            return None
        place, dtype, local = self._last
        same_type = array.dtype is dtype or array.dtype == dtype
        return local if same_type and place.is_of(array) else None

    def remember(self, array: Any, local: LocalMemory, words: tuple[str, int]) -> None:
        """Store the memory of an array, and the words of its dtype. The array is not kept."""
        self._last = None
        if type(array) is np.ndarray:
            with contextlib.suppress(WrongType):  # dates have no buffers
                kept = LocalMemory(local.memory, local.layout)
                self._last, self.words = (ArrayPlace(array), array.dtype, kept), words


class NewArrays:
    """Makes arrays of this process's blocks: one, or a mapping if it has several."""

    def __init__(self, layout: Layout, rank: int, dtype: np.dtype):
        self.dtype = dtype
        self.layout = dense_memory(layout, rank, dtype.itemsize)
        places = {place.block: place for place in self.layout.blocks}
        self._blocks = []
        for block in sorted(layout.blocks_of(rank)):
            extents = tuple(layout.block_extents(block))
            place = places.get(block) if 0 not in extents else None
            where = (0, None) if place is None else (place.offset_bytes, tuple(place.strides_bytes))
            self._blocks.append((block, extents, *where))
        self._empty = (0,) * block_dims(layout)

    def arrays_in(self, memory: np.ndarray) -> np.ndarray | dict[int, np.ndarray]:
        """Return the arrays in memory of this layout."""
        views = {
            block: np.ndarray(extents, self.dtype, memory, offset, strides)
            for block, extents, offset, strides in self._blocks
        }
        if len(views) > 1:
            return views
        return next(iter(views.values()), np.empty(self._empty, self.dtype))
