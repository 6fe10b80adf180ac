# SPDX-License-Identifier: BSD-3-Clause
"""DOLFINx: `Function` (its degrees of freedom) and `IndexMap`."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.errors import InvalidArgument

from .parts import Boxes, Indices, Shape, world


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return hasattr(x, "local_range") or hasattr(x, "function_space")


def describe(x: Any, _shape: Shape | None) -> Boxes:
    """Give the layout, or this process's part of it."""
    index_map, width = _map_of(x)
    start, stop = index_map.local_range
    return Boxes((index_map.size_global * width,), [((start * width,), (stop * width,))])


def comm_of(x: Any, _ghosts: bool) -> Any:
    """Give the communicator by which parts are put together."""
    if hasattr(x, "function_space"):
        return x.function_space.mesh.comm
    return getattr(x, "comm", None) or world()


def memory(x: Any) -> tuple[list[np.ndarray], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    if not hasattr(x, "function_space"):
        raise InvalidArgument("an IndexMap does not have elements: pass a Function or an array")
    index_map, width = _map_of(x)
    return [x.x.array[: index_map.size_local * width]], 0


def ghosted(x: Any) -> Indices:
    """Give the indices of the local array with its ghosts."""
    index_map, width = _map_of(x)
    nodes = np.concatenate((np.arange(*index_map.local_range), index_map.ghosts))
    indices = nodes[:, None] * width + np.arange(width)
    owned = describe(x, None)
    return Indices(owned.shape, indices, partners=(owned,))


def _map_of(x: Any) -> tuple[Any, int]:
    """Give the index map, and how many degrees of freedom each of its indices has."""
    if not hasattr(x, "function_space"):
        return x, 1
    dofs = x.function_space.dofmap
    return dofs.index_map, dofs.index_map_bs
