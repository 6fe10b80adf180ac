# SPDX-License-Identifier: BSD-3-Clause
"""Red-black Gauss-Seidel relaxation on n³ points, with NumPy, on any number of processes.

mpiexec -n 4 python redblack3d.py SIZE ITERATIONS [JSON_FILE]
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import datamover as dm
from datamover import launch


def points(u, starts, shift=(0, 0, 0)):
    """Every second point of each dimension, without the ghosts; or their neighbours."""
    slices = zip(starts, shift, u.shape, strict=True)
    return u[tuple(slice(1 + s + o, n - 1 + o, 2) for s, o, n in slices)]


def sweep(u, f, lo, color):
    """Give the points with (i + j + k) % 2 == color new values; u begins at lo of the grid."""
    for i, j in itertools.product((0, 1), repeat=2):
        starts = (i, j, (i + j + color + sum(lo)) % 2)
        neighbours = sum(
            points(u, starts, step)
            for step in [(-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)]
        )
        points(u, starts)[...] = (neighbours - f[tuple(slice(s, None, 2) for s in starts)]) / 6


def beginning(n):
    """The same values on every process: of the grid with its fixed surroundings, and right side."""
    random = np.random.default_rng(0)
    return random.random((n + 2,) * 3), random.random((n,) * 3) * 0.01


def relax(comm, n, iterations):
    """Return this process's box, its values, and the seconds in all and for communication."""
    # communication: begin
    grid = dm.Region((0, 0, 0), (n, n, n))
    boxes = dm.FloorPlan.uniform(grid, grid=MPI.Compute_dims(comm.size, 3), nprocs=comm.size)
    array = dm.Array(boxes, dtype="f8", ghost=1, comm=comm)
    exchange = dm.Mover(dm.halo(boxes, width=1, corners=False), array, array)
    box = boxes.region(comm.rank)
    u = array[comm.rank]
    # communication: end
    mine = tuple(slice(a, b) for a, b in zip(box.lo, box.hi, strict=True))
    with_ghosts = tuple(slice(a, b + 2) for a, b in zip(box.lo, box.hi, strict=True))
    values, right = beginning(n)
    f = right[mine].copy()
    inside = (slice(1, -1),) * 3
    own = values[with_ghosts][inside].copy()
    # What a neighbour has to fill would spoil every result.
    values[inside] = np.nan
    u[...] = values[with_ghosts]
    u[inside] = own
    comm.Barrier()
    communication, begin = 0.0, MPI.Wtime()
    for _, color in itertools.product(range(iterations), (0, 1)):
        before = MPI.Wtime()
        exchange()  # communication
        communication += MPI.Wtime() - before
        sweep(u, f, box.lo, color)
    return mine, u[inside], MPI.Wtime() - begin, communication


def points_that_differ(comm, n, iterations, mine, u):
    """How many points are not those that process 0 computes alone."""
    values, right = beginning(n)
    if comm.rank == 0:
        for _, color in itertools.product(range(iterations), (0, 1)):
            sweep(values, right, (0, 0, 0), color)
    serial = np.ascontiguousarray(values[1:-1, 1:-1, 1:-1])
    for plane in serial:
        comm.Bcast(plane)
    return comm.allreduce(int(np.count_nonzero(serial[mine] != u)))


def main():
    """Run on all processes; return the code to exit with."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    comm = MPI.COMM_WORLD
    n, iterations = int(sys.argv[1]), int(sys.argv[2])
    grid = MPI.Compute_dims(comm.size, 3)
    if n < grid[0]:
        if comm.rank == 0:
            text = " x ".join(map(str, grid))
            print(f"error: {comm.size} processes stand as {text}: at least {grid[0]} points along "
                  f"an edge are needed, not {n}", file=sys.stderr)  # fmt: skip
        return 1
    mine, u, *seconds = relax(comm, n, iterations)
    total, communication = (comm.allreduce(s, MPI.MAX) for s in seconds)
    differ = points_that_differ(comm, n, iterations, mine, u)
    if comm.rank == 0:
        verdict = f"FAILED: {differ} points differ from" if differ else "passed: every point equals"
        print(f"redblack3d in Python: {n} x {n} x {n} points, {iterations} iterations, "
              f"{comm.size} processes\n{total:.4g} s, communication {communication:.4g} s "
              f"({100 * communication / total:.1f} %), {verdict} the serial result")  # fmt: skip
        row = {"application": "redblack3d", "case": f"redblack3d-{n}", "contender": "python",
               "processes": comm.size, "verified": not differ, "seconds": total,
               "communication_seconds": communication}  # fmt: skip
        for file in sys.argv[3:]:
            Path(file).write_text(json.dumps({"rows": [row]}))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(launch.leave(main(), MPI.COMM_WORLD.rank))
