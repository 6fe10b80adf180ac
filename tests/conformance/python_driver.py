# SPDX-License-Identifier: BSD-3-Clause
"""Driver of the conformance cases in Python.

`mpiexec -n P python python_driver.py CASES DIRECTORY`, with the cases as JSON, writes
DIRECTORY/RANK: on each line, a case's name and this process's elements, or `error` and the code.
"""

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import datamover as dm

WORLD = MPI.COMM_WORLD
UNTOUCHED = -1


def layout_of(said):
    """The layout that a case says."""
    if "regions" in said:
        regions = [dm.Region(*map(tuple, bounds)) for bounds in said["regions"]]
        return dm.FloorPlan(regions, said["owners"], nprocs=WORLD.size)
    return dm.BlockCyclic(
        said["shape"],
        said["distribution"],
        nprocs=WORLD.size,
        grid=said["grid"],
        ranks=said.get("ranks"),
    )


def redistribute(case):
    """Between NumPy arrays."""
    source, destination = layout_of(case["source"]), layout_of(case["destination"])
    regions = {}
    for side in ("source", "destination"):
        if bounds := case.get(f"{side}_section"):
            regions[f"{side}_region"] = dm.Region(*map(tuple, bounds))
    partial = case.get("partial", False)
    plan = dm.redistribute(source, destination, case.get("axes"), **regions, partial=partial)
    domain = source.domain
    numbers = np.arange(domain.size).reshape(domain.shape)
    a = {
        block: numbers[
            tuple(index - first for index, first in zip(indices, domain.lo, strict=True))
        ]
        for block, indices in blocks_of(source)
    }
    b = {
        block: np.full(np.broadcast_shapes(*(index.shape for index in indices)), UNTOUCHED)
        for block, indices in blocks_of(destination)
    }
    dm.Mover(plan, a, b, comm=WORLD)()
    return [number for block in sorted(b) for number in b[block].ravel().tolist()]


def blocks_of(layout):
    """Each block of this process, and its indices in each dimension, as of `numpy.ix_`."""
    for block in layout.blocks_of(WORLD.rank):
        if isinstance(layout, dm.FloorPlan):
            region = layout.region(block)
            yield block, np.ix_(*map(np.arange, region.lo, region.hi))
        else:
            yield block, np.ix_(*layout.global_indices(WORLD.rank))


def halo(case):
    """Within an Array."""
    lo, hi = map(tuple, case["region"])
    blocks = dm.FloorPlan.uniform(dm.Region(lo, hi), case["grid"], nprocs=WORLD.size)
    width = list(zip(case["lower"], case["upper"], strict=True))
    periodic = dm.Region(*map(tuple, case["periodic"])) if "periodic" in case else None
    if "wraps" in case:  # of the domain of the blocks
        periodic = [bool(w) for w in case["wraps"]]
    plan = dm.halo(blocks, width, periodic=periodic, corners=case["corners"])
    array = dm.Array(blocks, np.int64, ghost=width, comm=WORLD)
    shape = np.subtract(hi, lo)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    for block, grid in array.grids():
        grid[...] = UNTOUCHED
        first = np.subtract(blocks.region(block).lo, lo)
        last = np.subtract(blocks.region(block).hi, lo)
        within = tuple(slice(f, e) for f, e in zip(first, last, strict=True))
        inner = tuple(
            slice(w, w + e - f) for w, f, e in zip(case["lower"], first, last, strict=True)
        )
        grid[inner] = numbers[within]
    dm.Mover(plan, array, array, comm=WORLD)()
    return [number for _, grid in array.grids() for number in grid.ravel().tolist()]


def main(cases, directory):
    """Run all cases."""
    lines = []
    for case in json.loads(Path(cases).read_text()):
        try:
            elements = {"redistribute": redistribute, "halo": halo}[case["operation"]](case)
        except dm.Error as error:
            elements = ["error", type(error).__name__]
        lines.append(" ".join(map(str, [case["name"].replace(" ", "_"), *elements])) + "\n")
    (Path(directory) / str(WORLD.rank)).write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
