# SPDX-License-Identifier: BSD-3-Clause
"""PIC of the Parallel Research Kernels: charged particles among fixed charges on a periodic grid.

Usage: `mpiexec -n P python pic.py [ITERATIONS [PARTICLES [EXTENT [K [M]]]]]`. EXTENT is even. Every
particle moves by 2 K + 1 cells along x and by M along y in each iteration. Written after the
description and the verification of MPI1/PIC-static in https://github.com/ParRes/Kernels.
"""

import sys

import kernel
import numpy as np
from kernel import COMM
from mpi4py import MPI

import datamover as dm

FIELDS = [(name, "f8") for name in ("x", "y", "vx", "vy", "charge", "x0", "y0", "id")]
MOST_ERROR = 1e-6


class Kernel:
    """The particles in the cells of a tile; charges of grid points are 1 and -1 by columns."""

    def __init__(self, particles, extent, k, m):
        self.extent, self.k, self.m, self.count = extent, k, m, particles
        self.cells = dm.FloorPlan.uniform(
            (extent, extent), MPI.Compute_dims(COMM.size, 2), COMM.size
        )
        rng = np.random.default_rng(extent)  # the same particles on any number of processes
        cells = rng.integers(0, extent, (particles, 2))
        box = self.cells.region(COMM.rank)
        here = ((cells >= box.lo) & (cells < box.hi)).all(axis=1)
        self.own = np.zeros(here.sum(), FIELDS)
        self.own["x0"], self.own["y0"] = cells[here].T + 0.5
        self.own["x"], self.own["y"] = self.own["x0"], self.own["y0"]
        self.own["id"] = 1 + np.flatnonzero(here)
        self.own["vy"] = m
        # So charged that one step from rest leads 2 k + 1 cells further.
        distance = np.sqrt(0.5)
        sign = np.where(cells[here][:, 0] % 2 == 0, 1, -1)
        self.own["charge"] = sign * (2 * k + 1) * distance**3

    def step(self):
        """Accelerate the particles, move them, and send them to the processes of their cells."""
        p = self.own
        column = np.floor(p["x"])
        x, y = p["x"] - column, p["y"] - np.floor(p["y"])
        left = np.where(column % 2 == 0, 1, -1)
        ax, ay = np.zeros(len(p)), np.zeros(len(p))
        for right in (0, 1):
            for up in (0, 1):
                dx, dy = x - right, y - up
                force = (-left if right else left) * p["charge"] / np.hypot(dx, dy) ** 3
                ax += force * dx
                ay += force * dy
        for at, v, a in (("x", "vx", ax), ("y", "vy", ay)):
            p[at] = np.mod(p[at] + p[v] + a / 2 + self.extent, self.extent)
            p[v] += a
        self.own = self.at_owners(p)

    def error(self, iterations):
        """Return 1 if a particle is not where it should be, or if one is lost; else 0."""
        p, steps, box = self.own, iterations + 1, self.cells.region(COMM.rank)
        for at, begin, by in (("x", "x0", 2 * self.k + 1), ("y", "y0", self.m)):
            apart = np.abs(p[at] - np.mod(p[begin] + steps * by, self.extent))
            if (np.minimum(apart, self.extent - apart) > MOST_ERROR).any():
                return 1
        cell = np.floor(np.stack([p["x"], p["y"]], axis=1))
        here = ((cell >= box.lo) & (cell < box.hi)).all()
        numbers = COMM.allreduce(p["id"].sum(), MPI.SUM)
        return int(not here or numbers != self.count * (self.count + 1) / 2)


class Movers(Kernel):
    """With a migration."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        box = ((0, 0), (self.extent, self.extent))
        self.grid = dm.targets.grid(box, (self.extent, self.extent), self.cells, periodic=True)

    def at_owners(self, particles):
        """Return the particles that are now in cells of this process."""
        position = np.stack([particles["x"], particles["y"]], axis=1)
        columns = {"pos": position, "particle": particles}
        return dm.migrate(columns, target=self.grid, comm=COMM)["particle"]


class Messages(Kernel):
    """With a sort by target and an MPI_Alltoallv."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.owners = np.empty((self.extent, self.extent), "i8")
        for rank in range(COMM.size):
            box = self.cells.region(rank)
            self.owners[box.lo[0] : box.hi[0], box.lo[1] : box.hi[1]] = rank
        self.type = MPI.BYTE.Create_contiguous(self.own.itemsize).Commit()

    def at_owners(self, particles):
        """Return the particles that are now in cells of this process."""
        target = self.owners[particles["x"].astype(int), particles["y"].astype(int)]
        sent = particles[np.argsort(target, kind="stable")]
        counts = np.bincount(target, minlength=COMM.size)
        to_me = np.empty_like(counts)
        COMM.Alltoall(counts, to_me)
        received = np.empty(to_me.sum(), FIELDS)
        COMM.Alltoallv([sent, counts, self.type], [received, to_me, self.type])
        return received


def main(iterations=20, particles=200_000, extent=1000, k=1, m=1):
    """Run both on the same particles."""
    sizes = (particles, extent, k, m)
    contenders = {"datamover": Movers(*sizes), "messages": Messages(*sizes)}
    kernel.run(contenders, iterations, {"Mparticle": 1e-6 * particles})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
