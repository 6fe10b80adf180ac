# SPDX-License-Identifier: BSD-3-Clause
"""Stripes of a file: the number of disks of a parallel file system, one writing process for each.

Only Lustre reports it (`lustre.lov`, the `lov_user_md` of its user library). Other file systems are
not supported.
"""

from __future__ import annotations

import os
import struct
from typing import Any

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
