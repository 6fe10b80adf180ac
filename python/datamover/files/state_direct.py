# SPDX-License-Identifier: BSD-3-Clause
"""Direct transfers between a process's own memory and a file, without a mover.

They are used for whole chunks inside one block of one process, and for long runs of flat files: no
other process is involved, so these elements are not sent to one, and no process waits. All other
elements are transferred slab by slab (`staged_moves`). The split is computed from layouts alone,
and is the same on all processes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from datamover._plan import BlockCyclic, FloorPlan, Region
from datamover.files.formats import Shape
from datamover.files.state_items import Item
from datamover.layouts import Layout

#: Shorter runs of a flat file are gathered to longer ones by a mover.
MIN_RUN_BYTES = 1 << 16
#: Maximum number of blocks of a layout that is considered: more would take time on every process.
MOST_BLOCKS = 4096
#: Number of blocks between which few boxes describe the rest.
MOST_BLOCKS_OF_MIXED = 256
#: Multiple of its share that a process may transfer; if it has more, the others help it.
MOST_SHARES = 1.5


@dataclasses.dataclass(frozen=True)
class Split:
    """Division of an array into direct transfers and slabs.

    Attributes
    ----------
    direct : list of (int, int, Region)
        The process, its block, and its box that is transferred directly; in indices of the layout.
    rest : list of Region
        Boxes that are transferred by slabs, in indices of the layout.
    """

    direct: list[tuple[int, int, Region]]
    rest: list[Region]


def split(file: Any, layout: Layout, ranks: Sequence[int], to_file: bool) -> Split:
    """Divide the transfer of an array between a layout and an open file.

    Local; the result is the same on all processes.

    Parameters
    ----------
    file : Reader or Writer
        Has `spec`, `granule`, and perhaps `reads_parts`.
    layout : Layout
    ranks : sequence of int
        The processes that read or write.
    to_file : bool
    """
    domain = layout.domain
    shape = Region.from_shape(domain.shape)
    by_slabs = Split([], [] if shape.empty else [domain])
    blocks = _blocks(layout)
    if shape.empty or not blocks:
        return by_slabs
    allowed = set(ranks)
    direct = []
    for rank, block, region in blocks:
        if rank in allowed:
            box = _aligned(file, region.shifted([-a for a in domain.lo]), to_file)
            if not box.empty:
                direct.append((rank, block, box))
    shares = dict.fromkeys(ranks, 0)
    for rank, _, box in direct:
        shares[rank] += box.size
    total = sum(shares.values())
    if total == 0 or max(shares.values()) * len(shares) > MOST_SHARES * total:
        return by_slabs
    rest: list[Region] = []
    if total < shape.size:
        if len(blocks) > MOST_BLOCKS_OF_MIXED:
            return by_slabs
        rest = [shape]
        for _, _, box in direct:
            rest = [part for left in rest for part in left.subtracted(box)]
    placed = [(rank, block, box.shifted(domain.lo)) for rank, block, box in direct]
    return Split(placed, [box.shifted(domain.lo) for box in rest])


def parts(
    splits: dict[str, Split], items: dict[str, Item], rank: int
) -> Iterator[tuple[str, Shape, np.ndarray]]:
    """Yield the direct transfers of this process: (name, index of the first element, view)."""
    for name, found in splits.items():
        item = items[name]
        views: dict[int, np.ndarray] = {}
        for owner, block, box in found.direct:
            if owner != rank:
                continue
            views = views or dict(cast(Any, item.array).interiors(item.layout, rank))
            lo = _first(item.layout, rank, block)
            here = tuple(slice(a - o, b - o) for a, b, o in zip(box.lo, box.hi, lo, strict=True))
            first = tuple(a - o for a, o in zip(box.lo, item.origin, strict=True))
            yield name, first, views[block][here]


def suits(item: Item, dtype: np.dtype, order: str, rank: int, to_file: bool) -> bool:
    """Return whether this process's memory has the form of the file; True without memory. Local.

    Elements that must be converted or transposed are better moved by the engine, which also
    rejects read-only memory.

    Raises
    ------
    Error
        As from a mover, if arrays do not fit their layout.
    """
    if item.array is None:  # it is created in C order
        return order == "C"
    if item.dtype is not None and item.dtype != dtype:
        return False
    if not isinstance(item.layout, (BlockCyclic, FloorPlan)):
        return False
    _check_arrays(item, rank)
    views = [view for _, view in item.array.interiors(item.layout, rank) if view.size]
    return all(_runs_along(view, -1 if order == "C" else 0) for view in views) and (
        to_file or all(map(_takes_all, views))
    )


def _runs_along(view: np.ndarray, d: int) -> bool:
    return view.shape[d] < 2 or view.strides[d] == view.itemsize


def _takes_all(view: np.ndarray) -> bool:
    """Return whether each element has its own writable place."""
    lies_apart = all(s != 0 or n < 2 for n, s in zip(view.shape, view.strides, strict=True))
    return view.flags.writeable and lies_apart


def _check_arrays(item: Item, rank: int) -> None:
    from datamover.arrays import UserArrays

    if isinstance(item.array, UserArrays):
        item.array.part(item.layout, rank, item.dtype or np.dtype("u1"))
    elif item.array is not None:
        item.array.part()


def _blocks(layout: Layout) -> list[tuple[int, int, Region]]:
    """Return (process, block, region) of all blocks, if all are boxes without overlap."""
    if isinstance(layout, BlockCyclic):
        return _boxes_of_block_cyclic(layout)
    if isinstance(layout, FloorPlan) and layout.num_blocks <= MOST_BLOCKS:
        found = [
            (int(layout.owner(block)), block, layout.region(block))
            for block in range(layout.num_blocks)
        ]
        alone = all(
            region.empty or [(r.lo, r.hi) for r in layout.exclusive_regions(block)]
            == [(region.lo, region.hi)]
            for _, block, region in found
        )  # fmt: skip
        return [entry for entry in found if not entry[2].empty] if alone else []
    return []


def _boxes_of_block_cyclic(layout: BlockCyclic) -> list[tuple[int, int, Region]]:
    if layout.replicas != 1 or layout.nprocs > MOST_BLOCKS:
        return []
    found = []
    for rank in range(layout.nprocs):
        for block in layout.blocks_of(rank):
            extents = layout.local_shape(rank)
            if 0 in extents:
                continue
            lo = layout.global_index(rank, [0] * layout.dims)
            last = layout.global_index(rank, [n - 1 for n in extents])
            if any(b - a + 1 != n for a, b, n in zip(lo, last, extents, strict=True)):
                return []
            found.append((rank, block, Region(lo, [b + 1 for b in last])))
    return found


def _first(layout: Layout, rank: int, block: int) -> Shape:
    if isinstance(layout, FloorPlan):
        return tuple(layout.region(block).lo)
    return tuple(cast(BlockCyclic, layout).global_index(rank, [0] * layout.dims))


def _aligned(file: Any, region: Region, to_file: bool) -> Region:
    """Return the part of a block, in indices of the file, that is transferred directly."""
    spec, granule = file.spec, file.granule
    if math.prod(granule) == 1:
        return region if _run_bytes(spec, region) >= MIN_RUN_BYTES else _nothing(region)
    if not to_file and getattr(file, "reads_parts", False):
        wide = zip(region.shape, granule, spec.shape, strict=True)
        if all(n >= g or n == whole for n, g, whole in wide):
            return region
    lo = [-(-a // g) * g for a, g in zip(region.lo, granule, strict=True)]
    hi = [
        b if b == n else b // g * g for b, g, n in zip(region.hi, granule, spec.shape, strict=True)
    ]
    return Region(lo, hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else _nothing(region)


def _nothing(region: Region) -> Region:
    return Region.empty_region(region.dims)


def _run_bytes(spec: Any, region: Region) -> int:
    """Return the bytes of a run that is contiguous in the file and in a box."""
    extents = zip(region.shape, spec.shape, strict=True)
    run = spec.dtype.itemsize
    for n, whole in reversed(list(extents)) if spec.order == "C" else extents:
        run *= n
        if n < whole:
            break
    return run
