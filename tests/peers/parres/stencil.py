# SPDX-License-Identifier: BSD-3-Clause
"""Stencil of the Parallel Research Kernels: a star of radius 2 on a square grid, in tiles.

Usage: `mpiexec -n P python stencil.py [ITERATIONS [EXTENT]]`. Written after the description and the
verification of MPI1/Stencil in https://github.com/ParRes/Kernels.
"""

import sys

import kernel
import numpy as np
from kernel import COMM
from mpi4py import MPI

import datamover as dm

RADIUS = 2


class Kernel:
    """A tile of the grid with ghosts in `padded`, and of the result in `out`."""

    #: The inverse of the distance between points, by which the weights are multiplied.
    scale = 1

    def __init__(self, extent):
        self.extent, self.counts = extent, MPI.Compute_dims(COMM.size, 2)
        self.tiles = dm.FloorPlan.uniform((extent, extent), self.counts, COMM.size)
        self.box = self.tiles.region(COMM.rank)
        self.padded = np.zeros([n + 2 * RADIUS for n in self.box.shape])
        self.inner = self.padded[RADIUS:-RADIUS, RADIUS:-RADIUS]
        self.out = np.zeros(self.box.shape)
        self.inner[...] = np.add.outer(*map(np.arange, self.box.lo, self.box.hi))
        #: The points of the tile that are not at the boundary of the grid.
        self.active = tuple(
            slice(max(RADIUS - lo, 0), min(extent - RADIUS, hi) - lo)
            for lo, hi in zip(self.box.lo, self.box.hi, strict=True)
        )

    def step(self):
        """Fill the ghosts, add the stencil's values, and change the grid."""
        self.fill_ghosts()
        for distance in range(1, RADIUS + 1):
            weight = self.scale / (2 * distance * RADIUS)
            for dim in (0, 1):
                self.out[self.active] += weight * self._shifted(dim, distance)
                self.out[self.active] -= weight * self._shifted(dim, -distance)
        self.inner += 1

    def _shifted(self, dim, distance):
        moved = [slice(s.start + RADIUS, s.stop + RADIUS) for s in self.active]
        moved[dim] = slice(moved[dim].start + distance, moved[dim].stop + distance)
        return self.padded[tuple(moved)]

    def error(self, iterations):
        """Return this process's part of the mean error; the gradient of the grid is (1, 1)."""
        wanted = 2 * (iterations + 1)
        points = (self.extent - 2 * RADIUS) ** 2
        return np.abs(self.out[self.active] - wanted).sum() / points


class Movers(Kernel):
    """With a mover that fills the ghosts."""

    def __init__(self, extent):
        super().__init__(extent)
        grid = dm.advanced.UserArrays(self.padded, ghost=RADIUS)
        plan = dm.halo(self.tiles, RADIUS, corners=False)
        self.fill_ghosts = dm.Mover(plan, grid, grid, comm=COMM)


class Messages(Kernel):
    """With a message to each neighbor, as the original."""

    def __init__(self, extent):
        super().__init__(extent)
        self.neighbors = COMM.Create_cart(self.counts)

    def fill_ghosts(self):
        """Send the edges of the tile up and down each dimension."""
        for dim in (0, 1):
            for sign in (1, -1):
                source, target = self.neighbors.Shift(dim, sign)
                edge, ghosts = [[slice(RADIUS, -RADIUS)] * 2 for _ in range(2)]
                edge[dim] = slice(-2 * RADIUS, -RADIUS) if sign > 0 else slice(RADIUS, 2 * RADIUS)
                ghosts[dim] = slice(0, RADIUS) if sign > 0 else slice(-RADIUS, None)
                sent = np.ascontiguousarray(self.padded[tuple(edge)])
                received = np.empty_like(sent)
                self.neighbors.Sendrecv(sent, target, recvbuf=received, source=source)
                if source != MPI.PROC_NULL:
                    self.padded[tuple(ghosts)] = received


def main(iterations=20, extent=1000):
    """Run both on a grid of doubles."""
    contenders = {"datamover": Movers(extent), "messages": Messages(extent)}
    flops = (2 * (4 * RADIUS + 1) + 1) * (extent - 2 * RADIUS) ** 2
    kernel.run(contenders, iterations, {"Mflop": 1e-6 * flops})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
