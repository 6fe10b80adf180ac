# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of calls on files: the processes that read or write, and chunks of the blocks.

The processes are as given, or one for each stripe of a file system. Only Lustre reports stripes
(`lustre.lov`, the `lov_user_md` of its user library). Other file systems are not supported. With
chunks that are blocks of a layout, processes write their own.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.arguments import integers
from datamover.errors import InvalidArgument, WrongType
from datamover.files import addresses
from datamover.files.chunk_grid import Sizes, said_sizes
from datamover.layouts import BlockCyclic, FloorPlan, Layout, shape_of

ATTRIBUTE = "lustre.lov"
#: Beginning of a plain description of stripes; composite ones differ along a file.
PLAIN = (0x0BD10BD0, 0x0BD30BD0)
#: Its kind, pattern, object, bytes of a stripe, number of stripes, and index of the first.
DESCRIPTION = struct.Struct("<II16sIHH")
#: Number that means stripes over all disks.
ALL = 0xFFFF


def stripe_count(path: str) -> int | None:
    """Return the number of disks of a file, or of one created there; None if it is unknown.

    Examples
    --------
    >>> from datamover.files.file_arguments import stripe_count
    >>> stripe_count("/proc/self/stat") is None
    True
    """
    place = path if os.path.isfile(path) else os.path.dirname(path) or "."
    try:
        told = os.getxattr(place, ATTRIBUTE)
    except (OSError, AttributeError):  # another file system; another system than Linux
        return None
    if len(told) < DESCRIPTION.size:
        return None
    magic, _, _, _, count, _ = DESCRIPTION.unpack_from(told)
    return count if magic in PLAIN and 0 < count < ALL else None


def writers_of(path: str, said: Any, nprocs: int) -> Any:
    """Return the requested writers, or one per stripe of a single file; None for all."""
    if said is not None or addresses.is_address(path) or path.endswith(".zarr"):
        return said
    # An existing file does not count: the new one gets the stripes that its directory specifies.
    count = stripe_count(os.path.join(os.path.dirname(path), ""))
    return None if count is None else min(count, nprocs)


def file_ranks(given: Any, name: str, nprocs: int) -> tuple[int, ...]:
    """Return the processes that read or write: all, a number of evenly spaced ones, or those given.

    Examples
    --------
    >>> from datamover.files.file_arguments import file_ranks
    >>> file_ranks(None, "writers", 3), file_ranks(2, "writers", 4), file_ranks([3], "writers", 4)
    ((0, 1, 2), (0, 2), (3,))
    """
    if given is None:
        return tuple(range(nprocs))
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 1 <= given <= nprocs:
            raise InvalidArgument(f"{name} is {given}; it must be from 1 to {nprocs}, or ranks")
        return tuple(nprocs * i // int(given) for i in range(int(given)))
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, (str, bytes)):
        raise WrongType(f"{name} is {given!r}, it must be a number or a sequence of ranks")
    ranks = integers(given, name)
    if not ranks or len(set(ranks)) < len(ranks) or not all(0 <= r < nprocs for r in ranks):
        raise InvalidArgument(
            f"{name} is {ranks}; it must be one or more different ranks from 0 to {nprocs - 1}"
        )
    return tuple(sorted(ranks))


def chunk_shape(layout: Layout) -> tuple[int, ...]:
    """Return the extents of a layout's blocks, those of the largest if they differ.

    Examples
    --------
    >>> import datamover as dm
    >>> chunk_shape(dm.BlockCyclic((10, 8), "(block, cyclic(3))", nprocs=4, grid=(2, 2)))
    (5, 3)
    """
    if isinstance(layout, BlockCyclic):
        extents = zip(layout.shape, layout.block, strict=True)
        return tuple(max(1, min(n, b)) for n, b in extents)
    if isinstance(layout, FloorPlan) and len(layout):
        shapes = [layout.region(k).shape for k in range(len(layout))]
        return tuple(max(1, *extents) for extents in zip(*shapes, strict=True))
    return tuple(max(1, n) for n in shape_of(layout))


def block_sizes(layout: Layout) -> Sizes:
    """Return chunks that end at the ends of all blocks, as in `MoveOptions`.

    Examples
    --------
    >>> import datamover as dm
    >>> block_sizes(dm.FloorPlan([dm.Region(0, 3), dm.Region(3, 8), dm.Region(8, 10)], [0, 1, 2]))
    ((3, 5, 2),)
    """
    if not isinstance(layout, FloorPlan):
        return chunk_shape(layout)
    blocks = [layout.region(k) for k in range(len(layout)) if not layout.region(k).empty]
    ends = [sorted({e for b in blocks for e in (b.lo[d], b.hi[d])}) for d in range(layout.dims)]
    return tuple(tuple(b - a for a, b in itertools.pairwise(along)) or 1 for along in ends)


def sizes_for(layout: Layout, said: Any, name: str) -> Sizes:
    """Return chunks as users pass them; "blocks" are those of a layout."""
    is_word = isinstance(said, str) and said == "blocks"
    return block_sizes(layout) if is_word else said_sizes(said, name)
