# SPDX-License-Identifier: BSD-3-Clause
"""Contender: a distribution with NumPy and mpi4py. A program to be run under mpiexec."""

from __future__ import annotations

import numpy as np

import datamover as dm
from datamover.bench.contest import Contest, main

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
        self.count = 0

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
        self.count = arriving.sum()
        return self.arrived()

    def arrived(self) -> np.ndarray:
        """Return the elements that the last call received."""
        return self.received[: self.count]


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts)[:-1]))


def measure(comm, seconds: float, name: str, example: str, count: int) -> None:
    """Measure one case and print its row."""
    elements = elements_of(example, count, comm.rank, comm.size)
    targets = elements if example == "A" else elements["tproc"]
    by_numpy = SortAndSend(comm, elements.dtype)
    expected = dm.migrate(elements, targets, comm=comm).tobytes()
    nbytes = elements.nbytes * comm.size
    contest = Contest(comm, seconds, case=name, phase="once", bytes=nbytes)
    contest.add(
        "numpy",
        lambda: by_numpy(elements, targets),
        lambda: by_numpy.arrived().tobytes() == expected,
    )
    contest.run()
    contest.print_all()


if __name__ == "__main__":
    main(measure)
