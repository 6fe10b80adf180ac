# SPDX-License-Identifier: BSD-3-Clause
"""pylops-mpi: `DistributedArray`, cut along one axis or the same on all processes."""

from __future__ import annotations

from typing import Any

from datamover.errors import Mismatch

from .parts import Boxes, Shape


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return hasattr(x, "local_array") and hasattr(x, "partition")


def describe(x: Any, _shape: Shape | None) -> Boxes:
    """Give the layout, or this process's part of it."""
    shape, local = tuple(x.global_shape), tuple(x.local_shape)
    if tuple(x.local_array.shape) != local:
        raise Mismatch(f"local_array has shape {x.local_array.shape}, local_shape is {local}")
    if x.partition.name != "SCATTER":
        return Boxes(shape, [((0,) * len(shape), shape)], replicated=True)
    return Boxes(shape, [((0,) * len(shape), local)], stacked=x.axis)


def comm_of(x: Any, _ghosts: bool) -> Any:
    """Give the communicator by which parts are put together."""
    return x.base_comm


def memory(x: Any) -> tuple[list[Any], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    return [x.local_array], 0
