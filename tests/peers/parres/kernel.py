# SPDX-License-Identifier: BSD-3-Clause
"""Runs of a kernel: verified and timed with our movers and with messages of mpi4py, in turns."""

import statistics
import sys

from mpi4py import MPI

COMM = MPI.COMM_WORLD


def run(contenders, iterations, work):
    """Iterate each contender, verify its result, and print its rate.

    Parameters
    ----------
    contenders : dict
        Objects with `step()`, which does an iteration, and `error(iterations)`, which returns this
        process's part of the error of the result.
    iterations : int
        Number of timed iterations. One more comes first, as in the originals.
    work : dict
        The unit of the rate, and the work of an iteration in this unit.
    """
    seconds = {name: [] for name in contenders}
    for _ in range(iterations + 1):
        for name, kernel in contenders.items():
            COMM.Barrier()
            start = MPI.Wtime()
            kernel.step()
            mine = MPI.Wtime() - start
            seconds[name].append(COMM.allreduce(mine, MPI.MAX))
    wrong = False
    for name, kernel in contenders.items():
        error = COMM.allreduce(kernel.error(iterations), MPI.SUM)
        wrong |= not error < 1e-8
        typical = statistics.median(seconds[name][1:])
        ((unit, amount),) = work.items()
        if COMM.rank == 0:
            found = "Solution validates" if error < 1e-8 else f"ERROR: {error} is not below 1e-8"
            print(f"{name}: {found}; {amount / typical:.0f} {unit}/s", flush=True)
    sys.exit(int(wrong))
