# SPDX-License-Identifier: BSD-3-Clause
"""Direct transfers between a process's own memory and a file, without a mover.

They are used for arrays of which each process has whole chunks, or long runs of flat files: no
other process is involved, so these elements are not sent to one, and no process waits. All other
arrays are transferred slab by slab (`staged_moves`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from datamover._plan import BlockCyclic, FloorPlan, Region
from datamover.arrays import UserArrays
from datamover.files.formats import Shape
from datamover.files.state_items import Item
from datamover.layouts import Layout

#: Shorter runs of a flat file are gathered to longer ones by a mover.
MIN_RUN_BYTES = 1 << 16
#: Multiple of its share that a process may transfer; if it has more, the others help it.
MOST_SHARES = 1.5


def share(file: Any, item: Item, rank: int, to_file: bool) -> int:
    """Return the elements of this process if it can transfer all of them directly, else -1. Local.

    Elements that must be converted or transposed are better moved by the engine, which also
    rejects read-only memory.

    Parameters
    ----------
    file : Reader or Writer
        Has `spec`, `granule`, and perhaps `reads_parts`.
    item : Item
    rank : int
    to_file : bool

    Raises
    ------
    Error
        As from a mover, if arrays do not fit their layout.
    """
    if item.dtype is not None and item.dtype != file.spec.dtype:
        return -1
    boxes = _boxes(item.layout, rank)
    if boxes is None:
        return -1
    if isinstance(item.array, UserArrays):
        item.array._part(item.layout, rank, item.dtype or file.spec.dtype)
    elif item.array is not None:
        item.array._part()
    d = -1 if file.spec.order == "C" else 0
    for _, view in cast(Any, item.array)._interiors(item.layout, rank):
        if view.size and not (_runs_along(view, d) and (to_file or _takes_all(view))):
            return -1
    origin = [-a for a in item.origin]
    if all(_is_whole(file, box.shifted(origin), to_file) for _, box in boxes):
        return sum(box.size for _, box in boxes)
    return -1


def is_even(shares: Sequence[int], ranks: Sequence[int], size: int) -> bool:
    """Return whether an array is transferred directly.

    Parameters
    ----------
    shares : sequence of int
        The results of `share` on all processes.
    ranks : sequence of int
        The processes that read or write.
    size : int
        Elements of the array.
    """
    most = max(shares[rank] for rank in ranks)
    is_all = min(shares) >= 0 and sum(shares[rank] for rank in ranks) == size
    return is_all and most * len(ranks) <= MOST_SHARES * size


def parts(items: dict[str, Item], rank: int) -> Iterator[tuple[str, Shape, np.ndarray]]:
    """Yield what this process transfers: (name, index of the first element in the file, view)."""
    for name, item in items.items():
        views = dict(cast(Any, item.array)._interiors(item.layout, rank))
        for block, box in _boxes(item.layout, rank) or ():
            yield name, tuple(a - o for a, o in zip(box.lo, item.origin, strict=True)), views[block]


def _runs_along(view: np.ndarray, d: int) -> bool:
    return view.shape[d] < 2 or view.strides[d] == view.itemsize


def _takes_all(view: np.ndarray) -> bool:
    """Return whether each element has its own writable place."""
    lies_apart = all(s != 0 or n < 2 for n, s in zip(view.shape, view.strides, strict=True))
    return view.flags.writeable and lies_apart


def _boxes(layout: Layout, rank: int) -> list[tuple[int, Region]] | None:
    """Return the blocks of a process with elements, as (number, box).

    None if they are not boxes, or others hold their elements too.
    """
    found = []
    if isinstance(layout, FloorPlan):
        for block in layout.blocks_of(rank):
            box = layout.region(block)
            if box.empty:
                continue
            if [(r.lo, r.hi) for r in layout.exclusive_regions(block)] != [(box.lo, box.hi)]:
                return None
            found.append((block, box))
        return found
    if not isinstance(layout, BlockCyclic) or layout.replicas != 1:
        return None
    extents = layout.local_shape(rank)
    if 0 in extents:
        return []
    for block in layout.blocks_of(rank):
        lo = layout.global_index(rank, [0] * layout.dims)
        last = layout.global_index(rank, [n - 1 for n in extents])
        if any(b - a + 1 != n for a, b, n in zip(lo, last, extents, strict=True)):
            return None
        found.append((block, Region(lo, [b + 1 for b in last])))
    return found


def _is_whole(file: Any, box: Region, to_file: bool) -> bool:
    """Return whether a box, in indices of the file, consists of whole chunks or long runs."""
    spec, granule = file.spec, file.granule
    if math.prod(granule) == 1:
        return _run_bytes(spec, box) >= MIN_RUN_BYTES
    if not to_file and getattr(file, "reads_parts", False):
        wide = zip(box.shape, granule, spec.shape, strict=True)
        if all(n >= g or n == whole for n, g, whole in wide):
            return True
    ends = zip(box.lo, box.hi, granule, spec.shape, strict=True)
    return all(a % g == 0 and (b == n or b % g == 0) for a, b, g, n in ends)


def _run_bytes(spec: Any, region: Region) -> int:
    """Return the bytes of a run that is contiguous in the file and in a box."""
    extents = zip(region.shape, spec.shape, strict=True)
    run = spec.dtype.itemsize
    for n, whole in reversed(list(extents)) if spec.order == "C" else extents:
        run *= n
        if n < whole:
            break
    return run
