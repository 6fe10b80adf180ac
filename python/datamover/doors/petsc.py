# SPDX-License-Identifier: BSD-3-Clause
"""petsc4py: `Vec` (plain, of a DMDA, with ghosts), `DMDA`, `IS` and `LGMap`.

A Vec of a DMDA is an array over (z, y, x) or (z, y, x, dof), in the order of the grid.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.layouts import FloorPlan, Layout

from .parts import Indices, Shape

_KINDS = ("DMDA", "IS", "LGMap", "Vec")


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return _kind(x) is not None


def describe(x: Any, shape: Shape | None) -> Layout | Indices:
    """Give the layout, or this process's part of it."""
    kind = _kind(x)
    if kind in ("IS", "LGMap"):
        return Indices(shape, _required(x).getIndices())
    grid = x if kind == "DMDA" else _grid_of(x)
    if grid is not None:
        return _of_grid(_required(grid))
    ends = np.asarray(_required(x).getOwnershipRanges(), np.int64)
    nprocs = len(ends) - 1
    return FloorPlan(np.stack((ends[:-1], ends[1:]), 1)[:, :, None], range(nprocs), nprocs)


def comm_of(x: Any, ghosts: bool) -> Any:
    """Give that of indices; of the others each process knows the layout."""
    return _required(x).comm.tompi4py() if ghosts or _kind(x) in ("IS", "LGMap") else None


def memory(x: Any) -> tuple[list[np.ndarray], Any]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    if _kind(x) != "Vec":
        raise InvalidArgument(f"a {_kind(x)} does not have elements: pass a Vec")
    grid = _grid_of(x)
    values = x.getArray()
    if grid is None:
        return [values], 0
    own, with_ghosts = _extents(grid, grid.getRanges()), _extents(grid, grid.getGhostRanges())
    shape = [stop - start for start, stop in own]
    if values.size == math.prod(shape):
        return [values.reshape(shape)], 0
    # A local vector: the ghosts that the DMDA has put around the part of this process.
    shape = [stop - start for start, stop in with_ghosts]
    sides = zip(own, with_ghosts, strict=True)
    return [values.reshape(shape)], [(a - lo, hi - b) for (a, b), (lo, hi) in sides]


def ghosted(x: Any) -> Indices:
    """Give the indices of the local array with its ghosts."""
    if _kind(x) != "Vec" or _grid_of(x) is not None:
        raise Unsupported("ghosts=True is for a Vec with ghosts; for a DMDA use dm.halo")
    owned = describe(x, None)
    return Indices((int(x.getSize()),), x.getLGMap().getIndices(), partners=(owned,))


def _kind(x: Any) -> str | None:
    names = {kind.__name__ for kind in type(x).__mro__}
    return next((kind for kind in _KINDS if kind in names), None)


def _required(x: Any) -> Any:
    """Refuse one that was freed, of which PETSc must not be asked."""
    if not x:
        raise InvalidArgument(f"the {_kind(x)} was destroyed, or not created yet")
    return x


def _grid_of(vec: Any) -> Any:
    # getDM of petsc4py 3.18 returns a DM of no type, and destroys it without having a reference.
    manager = _required(vec).query("__PETSc_dm") or vec.getDM()
    return manager if manager and manager.getType() == "da" else None


def _extents(grid: Any, ranges: Any) -> list[tuple[int, int]]:
    """Give the range of each dimension, in the order of the array."""
    dof = grid.getDof()
    return [*reversed(ranges)] + ([(0, dof)] if dof > 1 else [])


def _of_grid(grid: Any) -> FloorPlan:
    """Cut the grid as its DMDA does; the ranks go along x first."""
    widths = [np.asarray(n, np.int64) for n in reversed(grid.getOwnershipRanges())]
    shape = tuple(reversed(grid.getSizes()))
    splits = [np.cumsum(n)[:-1].tolist() for n in widths]
    if grid.getDof() > 1:
        shape, splits = (*shape, grid.getDof()), [*splits, []]
    return FloorPlan.from_splits(shape, splits, math.prod(map(len, widths)))
