# SPDX-License-Identifier: BSD-3-Clause
"""Transpose of the Parallel Research Kernels: B += Aᵀ, then A += 1, matrices in slabs of columns.

Usage: `mpiexec -n P python transpose.py [ITERATIONS [ORDER]]`. P must divide ORDER. Written after
the description and the verification of MPI1/Transpose in https://github.com/ParRes/Kernels.
"""

import sys

import kernel
import numpy as np
from kernel import COMM

import datamover as dm


class Kernel:
    """Columns of A and B: `a[j, i]` is element (i, j), as the kernel stores them."""

    def __init__(self, order):
        self.order, self.own = order, order // COMM.size
        self.first = self.own * COMM.rank
        self.a = np.arange(float(self.own * order)).reshape(self.own, order) + self.first * order
        self.b = np.zeros_like(self.a)

    def step(self):
        """Add the transposed matrix, and change the matrix."""
        self.add_transposed()
        self.a += 1

    def error(self, iterations):
        """Return the sum of the absolute errors of B."""
        row = np.arange(self.order)
        column = np.arange(self.first, self.first + self.own)[:, None]
        wanted = (self.order * row + column) * (iterations + 1) + iterations * (iterations + 1) / 2
        return np.abs(self.b - wanted).sum()


class Movers(Kernel):
    """With a mover that adds."""

    def __init__(self, order):
        super().__init__(order)
        columns = dm.FloorPlan.uniform((order, order), (COMM.size, 1), COMM.size)
        plan = dm.redistribute(columns, columns, axes=(1, 0))
        self.add_transposed = dm.Mover(plan, self.a, self.b, op="add", comm=COMM)


class Messages(Kernel):
    """With a message per phase to one process and from another, as the original."""

    def add_transposed(self):
        """Exchange the blocks with each process, beginning with this one."""
        for phase in range(COMM.size):
            source, target = (COMM.rank + phase) % COMM.size, (COMM.rank - phase) % COMM.size
            sent = np.ascontiguousarray(self._block(self.a, target).T)
            received = sent
            if phase:
                received = np.empty_like(sent)
                COMM.Sendrecv(sent, target, recvbuf=received, source=source)
            self._block(self.b, source)[...] += received

    def _block(self, columns, process):
        return columns[:, process * self.own : (process + 1) * self.own]


def main(iterations=20, order=1200):
    """Run both on a matrix of doubles."""
    if order % COMM.size:
        sys.exit(f"error: {COMM.size} processes do not divide the order {order}")
    contenders = {"datamover": Movers(order), "messages": Messages(order)}
    kernel.run(contenders, iterations, {"MB": 2e-6 * 8 * order**2})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
