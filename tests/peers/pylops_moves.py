# SPDX-License-Identifier: BSD-3-Clause
"""pylops-mpi's `DistributedArray.redistribute` and `add_ghost_cells`, by our movers."""

import numpy as np
from pylops_mpi import DistributedArray, Partition

import datamover as dm


def redistribute(x, axis):
    """Return the array cut along another axis, evenly."""
    if x.axis == axis or x.partition is not Partition.SCATTER:
        return x
    y = DistributedArray(
        x.global_shape, base_comm=x.base_comm, mask=x.mask, axis=axis, dtype=x.dtype
    )
    plan = dm.redistribute(dm.layout_of(x), dm.layout_of(y))
    dm.Mover(plan, x, y, comm=x.base_comm)()
    return y


def add_ghost_cells(x, cells_front=None, cells_back=None):
    """Return this process's part with ghosts along its axis, fewer at the ends of the array.

    Each process passes the depths that it needs.
    """
    layout, axis, comm = dm.layout_of(x), x.axis, x.base_comm
    depths = comm.allgather((cells_front or 0, cells_back or 0))
    boxes = []
    for block, (front, back) in enumerate(depths):
        lo, hi = list(layout.region(block).lo), list(layout.region(block).hi)
        lo[axis] = max(0, lo[axis] - front)
        hi[axis] = min(x.global_shape[axis], hi[axis] + back)
        boxes.append(dm.Region(lo, hi))
    ghosted = np.empty(boxes[comm.rank].shape, x.dtype)
    grown = dm.FloorPlan(boxes, owners=range(comm.size), nprocs=comm.size)
    dm.Mover(dm.redistribute(layout, grown), x, ghosted, comm=comm)()
    return ghosted


def patch():
    """Put both in place of pylops-mpi's."""
    DistributedArray.redistribute = redistribute
    DistributedArray.add_ghost_cells = add_ghost_cells
