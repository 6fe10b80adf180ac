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
    """Return the requested writers, or one per stripe of a single file; None for all."""
    if said is not None or addresses.is_address(path) or path.endswith(".zarr"):
        return said
    # An existing file does not count: the new one gets the stripes that its directory specifies.
    count = stripe_count(os.path.join(os.path.dirname(path), ""))
    return None if count is None else min(count, nprocs)
