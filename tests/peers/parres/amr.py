# SPDX-License-Identifier: BSD-3-Clause
"""AMR of the Parallel Research Kernels: a stencil on a grid of which a corner is refined in turn.

Usage: `mpiexec -n P python amr.py [ITERATIONS [EXTENT [REFINED [LEVEL [PERIOD [DURATION
[SUB_ITERATIONS]]]]]]]`. Every PERIOD iterations the next corner of REFINED² points is interpolated
to a grid that is 2^LEVEL times as fine, which lives for DURATION iterations. Grid and refinements
are cut evenly for all processes (FINE_GRAIN). Written after the description and the verification of
MPI1/AMR in https://github.com/ParRes/Kernels.
"""

import sys
from dataclasses import dataclass

import kernel
import numpy as np
import stencil
from kernel import COMM

import datamover as dm


@dataclass
class Sizes:
    """Extents of the grid and of its refinements, and how long these live."""

    extent: int = 400
    refined: int = 100
    level: int = 1
    period: int = 4
    duration: int = 3
    sub_iterations: int = 2

    def __post_init__(self):
        self.expand = 2**self.level
        last = self.extent - self.refined
        self.corners = [(0, 0), (last, last), (0, last), (last, 0)]
        self.fine_extent = (self.refined - 1) * self.expand + 1


class Kernel:
    """A grid, its four refinements, and how often each has been updated since it was made."""

    def __init__(self, sizes, grid_type):
        self.sizes, self.iteration = sizes, 0
        self.grid = grid_type(sizes.extent)
        self.fine = [grid_type(sizes.fine_extent) for _ in sizes.corners]
        for fine in self.fine:
            fine.scale = sizes.expand
            fine.inner[...] = 0
        self.updates, self.all_updates, self.made_at = [0] * 4, [0] * 4, [None] * 4
        plans = [dm.FloorPlan(*self._wanted(c), nprocs=COMM.size) for c in sizes.corners]
        self.bring = [self.bringing(plan) for plan in plans]

    def _wanted(self, corner):
        """Return the points of the grid around each process's tile of a refinement."""
        regions = []
        for rank in range(COMM.size):
            tile = self.fine[0].tiles.region(rank)
            lo = [c + a // self.sizes.expand for c, a in zip(corner, tile.lo, strict=True)]
            hi = [c - (1 - b) // self.sizes.expand for c, b in zip(corner, tile.hi, strict=True)]
            regions.append(dm.Region(lo, [b + 1 for b in hi]))
        return regions, range(COMM.size)

    def step(self):
        """Begin a refinement if it is time for one, and apply the stencil to it and to the grid."""
        number, age = divmod(self.iteration, self.sizes.period)
        g = number % 4
        if age == 0:
            self._interpolate(g)
        if age < self.sizes.duration:
            for _ in range(self.sizes.sub_iterations):
                self.fine[g].step()
                self.updates[g] += 1
                self.all_updates[g] += 1
        self.grid.step()
        self.iteration += 1

    def _interpolate(self, g):
        values, tile = self.bring[g](), self.fine[g].tiles.region(COMM.rank)
        for dim in (0, 1):
            position = np.arange(tile.lo[dim], tile.hi[dim]) / self.sizes.expand
            below = np.floor(position).astype(int)
            share = position - below
            first = below - tile.lo[dim] // self.sizes.expand
            above = np.minimum(first + 1, values.shape[dim] - 1)
            shape = [-1, 1] if dim == 0 else [1, -1]
            share = share.reshape(shape)
            values = values.take(first, dim) * (1 - share) + values.take(above, dim) * share
        self.fine[g].inner[...] = values
        self.updates[g], self.made_at[g] = 0, self.iteration

    def error(self, iterations):
        """Return this process's part of the errors of all grids, and of what was interpolated."""
        error = self.grid.error(iterations)
        for g, fine in enumerate(self.fine):
            error += fine.error(self.all_updates[g] - 1)
            if self.made_at[g] is not None:
                index = [
                    corner + np.arange(lo, hi) / self.sizes.expand
                    for corner, lo, hi in zip(
                        self.sizes.corners[g], fine.box.lo, fine.box.hi, strict=True
                    )
                ]
                wanted = np.add.outer(*index) + self.made_at[g] + self.updates[g]
                error += np.abs(fine.inner - wanted).sum() / self.sizes.fine_extent**2
        return error


class Movers(Kernel):
    """With movers, which also bring what is interpolated."""

    def __init__(self, sizes):
        super().__init__(sizes, stencil.Movers)

    def bringing(self, plan):
        """Return a function that returns this process's points of a plan."""
        values = np.empty(plan.region(COMM.rank).shape)
        grid = dm.advanced.UserArrays(self.grid.padded, ghost=stencil.RADIUS)
        mover = dm.Mover(dm.redistribute(self.grid.tiles, plan), grid, values, comm=COMM)

        def bring():
            mover()
            return values

        return bring


class Messages(Kernel):
    """With a message to each process that shares points."""

    def __init__(self, sizes):
        super().__init__(sizes, stencil.Messages)

    def bringing(self, plan):
        """Return a function that returns this process's points of a plan."""
        tiles, own = self.grid.tiles, plan.region(COMM.rank)
        values = np.empty(own.shape)

        def part(box, of):
            return tuple(slice(a - o, b - o) for a, b, o in zip(box.lo, box.hi, of.lo, strict=True))

        def bring():
            requests = []
            for rank in range(COMM.size):
                box = self.grid.box.intersected(plan.region(rank))
                if not box.empty:
                    sent = np.ascontiguousarray(self.grid.inner[part(box, self.grid.box)])
                    requests.append((COMM.Isend(sent, rank), sent))
            for rank in range(COMM.size):
                box = own.intersected(tiles.region(rank))
                if not box.empty:
                    received = np.empty(box.shape)
                    COMM.Recv(received, rank)
                    values[part(box, own)] = received
            for request, _ in requests:
                request.Wait()
            return values

        return bring


def main(iterations=20, *sizes):
    """Run both on a grid of doubles."""
    chosen = Sizes(*sizes)
    contenders = {"datamover": Movers(chosen), "messages": Messages(chosen)}
    points = chosen.extent**2 + chosen.duration / chosen.period * (
        chosen.sub_iterations * chosen.fine_extent**2
    )
    flops = 2 * (4 * stencil.RADIUS + 1) + 1
    kernel.run(contenders, iterations, {"Mflop": 1e-6 * flops * points})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
