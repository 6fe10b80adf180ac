# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch: `DTensor`, by its mesh and placements. Ranks are those of torch.distributed."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.layouts import FloorPlan

from .meshes import sharded
from .parts import Shape


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return hasattr(x, "device_mesh") and hasattr(x, "placements")


def describe(x: Any, _shape: Shape | None) -> FloorPlan:
    """Give the layout, or this process's part of it."""
    cuts = []
    for along, placement in enumerate(x.placements):
        kind = type(placement).__name__
        if kind == "Shard":
            cuts.append((along, range(len(x.shape))[placement.dim]))  # may count from the last
        elif kind != "Replicate":
            raise Unsupported(
                f"the placement {placement!r} does not say which elements a process holds: "
                "redistribute the DTensor to Shard or Replicate first"
            )
    return sharded(tuple(x.shape), np.array(x.device_mesh.mesh.tolist()), cuts)


def comm_of(_x: Any, _ghosts: bool) -> None:
    """Each process knows the layout."""


def memory(x: Any) -> tuple[list[Any], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    return [x.to_local()], 0
