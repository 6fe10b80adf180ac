# SPDX-License-Identifier: BSD-3-Clause
"""heat: `DNDarray`, split along one axis or the same on all processes.

Its `__partitioned__` is not read: heat caches it when parts are replaced, rounds the positions to
the precision of the elements, and locates an array that is not split on the last process only.
"""

from __future__ import annotations

from typing import Any

from .parts import Boxes, Shape


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return hasattr(x, "larray") and hasattr(x, "split")


def describe(x: Any, _shape: Shape | None) -> Boxes:
    """Give the layout, or this process's part of it."""
    shape, local = tuple(x.gshape), tuple(x.larray.shape)
    return Boxes(shape, [((0,) * len(shape), local)], replicated=x.split is None, stacked=x.split)


def comm_of(x: Any, _ghosts: bool) -> Any:
    """Give the communicator by which parts are put together."""
    return x.comm.handle


def memory(x: Any) -> tuple[list[Any], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    return [x.larray], 0
