# SPDX-License-Identifier: BSD-3-Clause
"""The processes that read or write a file: as given, or one for each stripe of a file system.

Only Lustre reports stripes (`lustre.lov`, the `lov_user_md` of its user library). Other file
systems are not supported.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.arguments import integers
from datamover.errors import InvalidArgument, WrongType
from datamover.files import addresses

ATTRIBUTE = "lustre.lov"
#: How a plain description of stripes begins; composite ones differ along a file.
PLAIN = (0x0BD10BD0, 0x0BD30BD0)
#: What it is for, its pattern, the object, bytes of a stripe, stripes, and where the first is.
DESCRIPTION = struct.Struct("<II16sIHH")
#: Stripes over all that there are.
ALL = 0xFFFF


def stripe_count(path: str) -> int | None:
    """Return over how many disks a file lies, or one that is made there; None: it is not told.

    Examples
    --------
    >>> from datamover.files.stripes import stripe_count
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
    """Return the writers that were said, else one per stripe of a single file; None: all."""
    if said is not None or addresses.is_address(path) or path.endswith(".zarr"):
        return said
    # What is there already does not count: the new file is made beside it, as its directory says.
    count = stripe_count(os.path.join(os.path.dirname(path), ""))
    return None if count is None else min(count, nprocs)


def file_ranks(given: Any, name: str, nprocs: int) -> tuple[int, ...]:
    """Say which processes read or write: all, so many that lie evenly among all, or those given.

    Examples
    --------
    >>> from datamover.files.stripes import file_ranks
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
