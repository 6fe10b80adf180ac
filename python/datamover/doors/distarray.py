# SPDX-License-Identifier: BSD-3-Clause
"""The Distributed Array Protocol of Enthought, `__distarray__`, version 0.10.

Arrays whose dimensions are all cut into blocks become a `FloorPlan`, cyclic ones a `BlockCyclic`.
All others become an `IndexList`, whose local arrays have one dimension.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from datamover.dlpack import shared_array
from datamover.errors import Mismatch, OutOfRange, Unsupported, WrongType
from datamover.layouts import BlockCyclic

from .parts import Boxes, Indices, Placed, Shape, world


def describe(x: Any, _shape: Shape | None) -> Boxes | Indices | Placed:
    """Give the layout, or this process's part of it."""
    _, dims = _read(x)
    shape = tuple(dim["size"] for dim in dims)
    if _is_cut(dims):
        own = [_owned(dim) for dim in dims]
        return Boxes(shape, [([a for a, _ in own], [b for _, b in own])])
    if _is_cyclic(dims):
        return _block_cyclic(shape, dims)
    return Indices(shape, np.ravel_multi_index(np.ix_(*map(_indices, dims)), shape))


def comm_of(_x: Any, _ghosts: bool) -> Any:
    """Give the communicator by which parts are put together."""
    return world()


def memory(x: Any) -> tuple[list[np.ndarray], Any]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    array, dims = _read(x)
    if _is_cyclic(dims) and not _is_cut(dims):
        return [array], 0
    if not _is_cut(dims):
        if not array.flags.c_contiguous:
            raise Unsupported("the buffer of a cyclic or unstructured array must be contiguous")
        return [array.reshape(-1)], 0
    own = zip(map(_owned, dims), dims, strict=True)
    return [array], [(a - dim["start"], dim["stop"] - b) for (a, b), dim in own]


def _read(x: Any) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Give the buffer, and what is known of each dimension with the defaults put in."""
    exported = x.__distarray__()
    array = shared_array(exported["buffer"], "the buffer")
    version = str(exported["__version__"])
    if version.split(".")[0] not in ("0", "1"):
        raise Unsupported(f"__distarray__ has version {version}; known are 0.9 to 1.x")
    whole = {"dist_type": "b", "proc_grid_rank": 0, "proc_grid_size": 1, "start": 0}
    dims = []
    for given, extent in zip(exported["dim_data"], array.shape, strict=True):
        dim = dict(given)
        if dim.get("dist_type", "n") == "n":  # not cut
            dim |= whole | {"size": extent, "stop": extent}
        if dim["dist_type"] not in ("b", "c", "u"):
            raise Unsupported(f"dist_type {dim['dist_type']!r} is unknown; known are b, c, n and u")
        dims.append(dim)
    return array, dims


def _is_cut(dims: list[dict[str, Any]]) -> bool:
    return all(dim["dist_type"] == "b" for dim in dims)


def _is_cyclic(dims: list[dict[str, Any]]) -> bool:
    return all(dim["dist_type"] == "c" or _is_whole(dim) for dim in dims)


def _is_whole(dim: dict[str, Any]) -> bool:
    return dim["dist_type"] == "b" and dim["proc_grid_size"] == 1


def _block_cyclic(shape: Shape, dims: list[dict[str, Any]]) -> Placed:
    words, grid, place = [], [], []
    for d, dim in enumerate(dims):
        block = dim.get("block_size", 1)
        words.append("*" if _is_whole(dim) else f"cyclic({block})")
        grid.append(dim["proc_grid_size"])
        place.append(dim["proc_grid_rank"])
        if not _is_whole(dim) and dim["start"] != min(place[d] * block, shape[d]):
            raise Mismatch(
                f"dimension {d} starts at {dim['start']} on process {place[d]} of its grid; a "
                f"cyclic one starts at {place[d] * block}"
            )
    nprocs = math.prod(grid)
    layout = BlockCyclic(shape, f"({', '.join(words)})", nprocs, grid=grid)
    return Placed(layout, int(np.ravel_multi_index(place, grid)))


def _owned(dim: dict[str, Any]) -> tuple[int, int]:
    """Give the range of a cut dimension without what pads it towards other processes.

    Padding at the ends of the array is part of it.
    """
    before, after = dim.get("padding", (0, 0))
    is_first = dim["proc_grid_rank"] == 0
    is_last = dim["proc_grid_rank"] == dim["proc_grid_size"] - 1
    return dim["start"] + (0 if is_first else before), dim["stop"] - (0 if is_last else after)


def _indices(dim: dict[str, Any]) -> Any:
    """Give the global indices of a dimension, in the order of the buffer."""
    if dim["dist_type"] == "u":
        indices = np.asarray(dim["indices"])
        if indices.size and indices.dtype.kind not in "iu":
            raise WrongType(f"indices must be integers, not of dtype {indices.dtype}")
        outside = indices[(indices < 0) | (indices >= dim["size"])]
        if outside.size:
            raise OutOfRange(f"index {outside[0]} is outside a dimension of size {dim['size']}")
        return indices.astype(np.int64)
    if dim["dist_type"] == "b":
        if any(dim.get("padding", (0, 0))):
            raise Unsupported("padding next to a cyclic or unstructured dimension is not supported")
        return np.arange(dim["start"], dim["stop"])
    block = dim.get("block_size", 1)
    every = np.arange(dim["start"], dim["size"], block * dim["proc_grid_size"])
    indices = (every[:, None] + np.arange(block)).ravel()
    return indices[indices < dim["size"]]
