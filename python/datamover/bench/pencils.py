# SPDX-License-Identifier: BSD-3-Clause
"""Contender: mpi4py-fft's transfer between pencils. A program to be run under mpiexec.

Arguments: the seconds to measure, the name of the case, its shape (three numbers), the process grid
(two numbers), the axes that are whole before and after.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def measure(
    seconds: float, shape: list[int], grid: list[int], axes: tuple[int, int]
) -> tuple[list[float], bool]:
    """Return the seconds of each transfer on its slowest process, and whether data is right."""
    from mpi4py import MPI
    from mpi4py_fft.pencil import Pencil, Subcomm

    comm = MPI.COMM_WORLD
    dims = list(grid)
    dims.insert(axes[0], 1)
    before = Pencil(Subcomm(comm, dims), shape, axis=axes[0])
    after = before.pencil(axes[1])
    transfer = before.transfer(after, np.float64)
    source = np.empty(before.subshape)
    destination = np.full(after.subshape, -1.0)
    source[...] = _values(before, shape)

    samples: list[float] = []
    begin = time.perf_counter()
    enough = False
    while not enough:
        comm.Barrier()
        start = time.perf_counter()
        transfer.forward(source, destination)
        mine = time.perf_counter() - start
        samples.append(comm.allreduce(mine, MPI.MAX))
        enough = comm.bcast(len(samples) > 3 and time.perf_counter() - begin > seconds)
    right = comm.allreduce(bool((destination == _values(after, shape)).all()), MPI.LAND)
    return samples[1:], right  # the first one warms up


def _values(pencil, shape: list[int]) -> np.ndarray:
    i, j, k = (
        np.arange(start, start + n, dtype=np.float64)
        for start, n in zip(pencil.substart, pencil.subshape, strict=True)
    )
    return (i[:, None, None] * shape[1] + j[:, None]) * shape[2] + k


def main() -> None:
    """Measure one case and print its row."""
    from mpi4py import MPI

    seconds, case = float(sys.argv[1]), sys.argv[2]
    numbers = [int(word) for word in sys.argv[3:]]
    shape, grid, axes = numbers[:3], numbers[3:5], (numbers[5], numbers[6])
    samples, right = measure(seconds, shape, grid, axes)
    if MPI.COMM_WORLD.rank != 0:
        return
    print(json.dumps({"mpi": MPI.Get_library_version()}))
    row = {
        "case": case,
        "phase": "move",
        "contender": "mpi4py-fft",
        "processes": MPI.COMM_WORLD.size,
        "bytes": 8 * shape[0] * shape[1] * shape[2],
        "samples": samples,
    }
    wrong = {"left_out": "mpi4py-fft", "case": case, "reason": "it moved wrong data"}
    print(json.dumps(row if right else wrong))


if __name__ == "__main__":
    main()
