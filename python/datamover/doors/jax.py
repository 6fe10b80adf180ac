# SPDX-License-Identifier: BSD-3-Clause
"""JAX: arrays with a `NamedSharding`, and the sharding itself. A block for each device of the mesh.

JAX's arrays are immutable, so they are sources only. The rank is the `process_index` of the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, Mismatch
from datamover.layouts import FloorPlan

from .meshes import sharded
from .parts import Shape


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    sharding = getattr(x, "sharding", x)
    return hasattr(sharding, "mesh") and hasattr(sharding, "spec")


def describe(x: Any, shape: Shape | None) -> FloorPlan:
    """Give the layout, or this process's part of it."""
    sharding, shape = getattr(x, "sharding", x), getattr(x, "shape", shape)
    if shape is None:
        raise InvalidArgument("a NamedSharding needs the shape of the array: pass shape=")
    mesh, names = sharding.mesh.devices, list(sharding.mesh.axis_names)
    cuts, pieces = [], [1] * len(shape)
    for dim, axes in enumerate(sharding.spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            cuts.append((names.index(axis), dim))
            pieces[dim] *= mesh.shape[names.index(axis)]
    if any(n % p for n, p in zip(shape, pieces, strict=True)):
        raise Mismatch(f"an array of shape {tuple(shape)} cannot be cut into {pieces} equal pieces")
    ranks = np.array([device.process_index for device in mesh.flat]).reshape(mesh.shape)
    return sharded(tuple(shape), ranks, cuts)


def comm_of(_x: Any, _ghosts: bool) -> None:
    """Each process knows the layout."""


def memory(x: Any) -> tuple[list[Any], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    if not hasattr(x, "addressable_shards"):
        raise InvalidArgument("a NamedSharding does not have elements: pass a JAX array")
    place = {device: at for at, device in enumerate(x.sharding.mesh.devices.flat)}
    shards = sorted(x.addressable_shards, key=lambda shard: place[shard.device])
    return [shard.data for shard in shards], 0
