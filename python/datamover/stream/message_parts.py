# SPDX-License-Identifier: BSD-3-Clause
"""Which elements go from a process of one program to a process of the other, and from where?

The plan is that of `_plan.plan_between`. Both ends derive it by themselves, and with it the order
of every message.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.arrays import UserArrays, XArray
from datamover.errors import Mismatch
from datamover.layouts import (
    BlockMemory,
    FlatCyclic,
    IndexList,
    Layout,
    MemoryLayout,
    Region,
    dense_memory,
)
from datamover.plans import MotionPlan
from datamover.relations import AddressRelation


class LocalMemory:
    """Where this process keeps its blocks of an array.

    Attributes
    ----------
    memory : object
        All of it, as anything with NumPy's array interface; kept alive.
    layout : MemoryLayout
        Offsets from the beginning of `memory`.
    """

    def __init__(self, memory: Any, layout: MemoryLayout):
        self.memory, self.layout = memory, layout


class _Span:
    """The memory from the lowest to the highest element of several arrays, as bytes."""

    def __init__(self, begin: int, nbytes: int, kept: Any):
        self._kept = kept
        self.__array_interface__ = {
            "data": (begin, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


def local_memory(array: Any, layout: Layout, rank: int, dtype: np.dtype) -> LocalMemory:
    """Find where the elements of an array that was given lie.

    Raises
    ------
    Mismatch
        Its shape or blocks are not the layout's.
    """
    if isinstance(array, XArray):
        return LocalMemory(*array.memory())
    user = array if isinstance(array, UserArrays) else UserArrays(array)
    places = user.places(layout, rank)
    blocks, begins, ends = [], [], []
    for block, address, shape, strides, lower, upper in places:
        extents = tuple(layout.block_extents(block))
        wanted = tuple(sum(n) for n in zip(lower, extents, upper, strict=True))
        if tuple(shape) != wanted:
            raise Mismatch(
                f"block {block} on process {rank} has shape {tuple(shape)}, it must be {wanted}"
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
    span = _Span(begin, end - begin, array)
    return LocalMemory(span, MemoryLayout(memory, 0, end - begin))


class KnownMemory:
    """Remembers where the elements of one array lie: most programs send the same one every time."""

    def __init__(self) -> None:
        self._key: Any = None
        self._begin = self._nbytes = 0
        self._layout: MemoryLayout | None = None

    def find(self, array: Any) -> LocalMemory | None:
        """Give what is remembered, where a bare ndarray lies where the last one did."""
        if self._layout is None or self._key_of(array) != self._key:
            return None
        return LocalMemory(_Span(self._begin, self._nbytes, array), self._layout)

    def remember(self, array: Any, local: LocalMemory) -> None:
        """Take note of where an array lies. The array is not kept."""
        self._layout = None
        if type(array) is np.ndarray:
            interface = local.memory.__array_interface__
            self._key, self._layout = self._key_of(array), local.layout
            self._begin, self._nbytes = interface["data"][0], interface["shape"][0]

    @staticmethod
    def _key_of(array: Any) -> Any:
        if type(array) is not np.ndarray:
            return None
        return array.ctypes.data, array.shape, array.strides, array.dtype


def new_arrays(
    layout: Layout, rank: int, dtype: np.dtype
) -> tuple[LocalMemory, np.ndarray | dict[int, np.ndarray]]:
    """Make arrays for this process's blocks: one, or a mapping where it holds several."""
    places = dense_memory(layout, rank, dtype.itemsize)
    memory = np.empty(places.end_bytes, np.uint8)
    views = {}
    for block in layout.blocks_of(rank):
        extents = tuple(layout.block_extents(block))
        if 0 in extents:
            views[block] = np.empty(extents, dtype)
    for place in places.blocks:
        extents = tuple(layout.block_extents(place.block))
        if 0 not in extents:
            views[place.block] = np.ndarray(
                extents, dtype, memory, place.offset_bytes, tuple(place.strides_bytes)
            )
    views = dict(sorted(views.items()))
    local = LocalMemory(memory, places)
    if len(views) > 1:
        return local, views
    if not views:
        dims = 1 if isinstance(layout, IndexList | FlatCyclic) else layout.dims
        return local, np.empty((0,) * dims, dtype)
    return local, next(iter(views.values()))


class Unpacker:
    """Puts messages from the processes of a producer where their elements belong."""

    def __init__(self, plan: MotionPlan, rank: int, dtype: np.dtype):
        self._plan, self._rank, self._itemsize = plan, rank, dtype.itemsize
        self._memory: MemoryLayout | None = None
        self._relations: dict[int, AddressRelation] = {}
        #: Bytes of the message from each sending process.
        self.sizes = {p: n * self._itemsize for p, n in plan.incoming(rank).items()}

    def unpack(self, messages: dict[int, np.ndarray], local: LocalMemory) -> None:
        """Take messages apart."""
        if local.layout is not self._memory and local.layout != self._memory:
            self._memory = local.layout
            self._relations = {
                peer: self._plan.relation(
                    peer, self._rank, self._itemsize, destination_memory=local.layout
                )
                for peer in self.sizes
            }
        for peer, relation in self._relations.items():
            relation.scatter(messages[peer], local.memory)
