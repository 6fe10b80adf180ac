# SPDX-License-Identifier: BSD-3-Clause
"""Contender: a distribution with NumPy and mpi4py. A program to be run under mpiexec.

Arguments: the seconds to measure, then for each case its name, its example (A, B or C) and the
number of elements per process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import datamover as dm

PARTICLE = np.dtype(
    [("pos", "f8", 3), ("q", "f8"), ("vel", "f8", 3), ("tproc", "i4"), ("home", "i4")]
)
CELLS = 64


def elements_of(example: str, count: int, rank: int, nprocs: int) -> np.ndarray:
    """Return the elements of one process in the paper's example.

    Parameters
    ----------
    example : {"A", "B", "C"}
    count : int
        Elements of this process.
    rank, nprocs : int
    """
    draw = np.random.default_rng(rank)
    if example == "A":
        return draw.integers(0, nprocs, count, dtype=np.int32)
    z_order = dm.targets.morton(((0,) * 3, (1,) * 3), (CELLS,) * 3, periodic=True)
    particles = _anywhere(draw, count, rank)
    if example == "C":
        kept: list[np.ndarray] = []
        while sum(map(len, kept)) < count:
            some = _anywhere(draw, count, rank)
            kept.append(some[z_order.ranks(some, nprocs) == rank])
        particles = np.concatenate(kept)[:count]
        particles["pos"] += draw.uniform(-0.5 / CELLS, 0.5 / CELLS, (count, 3))
        particles["pos"] -= np.floor(particles["pos"])
    particles["tproc"] = z_order.ranks(particles, nprocs)
    return particles


def _anywhere(draw: np.random.Generator, count: int, rank: int) -> np.ndarray:
    particles = np.zeros(count, PARTICLE)
    particles["pos"], particles["vel"] = draw.random((2, count, 3))
    particles["q"], particles["home"] = draw.random(count), rank
    return particles


class SortAndSend:
    """A stable argsort by target, then `Alltoallv`; memory is kept from call to call."""

    def __init__(self, comm, dtype: np.dtype):
        from mpi4py import MPI

        self.comm = comm
        self.type = MPI.BYTE.Create_contiguous(dtype.itemsize).Commit()
        self.sent = self.received = np.empty(0, dtype)

    def __call__(self, elements: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the elements that arrive."""
        if len(self.sent) != len(elements):
            self.sent = np.empty_like(elements)
        order = np.argsort(targets, kind="stable")
        np.take(elements, order, out=self.sent, mode="clip")
        counts = np.bincount(targets, minlength=self.comm.size)
        arriving = np.empty_like(counts)
        self.comm.Alltoall(counts, arriving)
        if len(self.received) < arriving.sum():
            self.received = np.empty(arriving.sum(), elements.dtype)
        self.comm.Alltoallv(
            [self.sent.view("u1"), (counts, _starts(counts)), self.type],
            [self.received.view("u1"), (arriving, _starts(arriving)), self.type],
        )
        return self.received[: arriving.sum()]


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts)[:-1]))


def samples_of(comm, seconds: float, work: Callable[[], object], least: int = 3) -> list[float]:
    """Return the seconds of each call on its slowest process; the first call does not count.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
        Minimum time of all calls.
    work : callable
    least : int
        Minimum number of calls.
    """
    from mpi4py import MPI

    work()
    samples: list[float] = []
    begin = time.perf_counter()
    enough = False
    while not enough:
        comm.Barrier()
        start = time.perf_counter()
        work()
        samples.append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        late = time.perf_counter() - begin > seconds
        enough = comm.bcast(late and len(samples) >= least)
    return samples


def main() -> None:
    """Measure the cases of the command line; process 0 prints a row each."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    seconds, words = float(sys.argv[1]), sys.argv[2:]
    for name, example, count in zip(words[::3], words[1::3], words[2::3], strict=True):
        elements = elements_of(example, int(count), comm.rank, comm.size)
        targets = elements if example == "A" else elements["tproc"]
        by_numpy = SortAndSend(comm, elements.dtype)
        right = dm.distribute(comm, elements, targets)
        same = by_numpy(elements, targets).tobytes() == right.tobytes()
        if not comm.allreduce(same, MPI.LAND):
            line: dict[str, object] = {"left_out": "numpy", "case": name, "reason": "wrong data"}
        else:
            samples = samples_of(comm, seconds, partial(by_numpy, elements, targets))
            line = {
                "case": name,
                "phase": "once",
                "contender": "numpy",
                "processes": comm.size,
                "bytes": elements.nbytes * comm.size,
                "samples": samples,
            }
        if comm.rank == 0:
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
