# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark with the atoms of a real trajectory. A program to be run under mpiexec.

A protein in water from MDAnalysisTests: 47,681 atoms, ten frames. At the first frame, atoms that
are distributed in blocks are sent to the processes of their cells (Z order). At each later frame,
those that have left their process's cells are sent on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np

import datamover as dm
from datamover.bench.contest import main
from datamover.bench.distribute_numpy import SortAndSend

ATOM = np.dtype([("pos", "f4", 3), ("vel", "f4", 3), ("id", "i4"), ("tproc", "i4")])
CELLS = 16


def frames() -> tuple[np.ndarray, np.ndarray]:
    """Read positions and velocities of all frames, in the box's own lengths from 0 to 1.

    Returns
    -------
    positions, velocities : ndarray of float32, (frames, atoms, 3)
    """
    import MDAnalysis
    from MDAnalysis.lib.distances import transform_RtoS
    from MDAnalysisTests.datafiles import GRO, TRR

    universe = MDAnalysis.Universe(GRO, TRR)
    positions, velocities = [], []
    for step in universe.trajectory:
        positions.append(transform_RtoS(step.positions, step.dimensions) % 1.0)
        velocities.append(step.velocities.copy())
    return np.asarray(positions, "f4"), np.asarray(velocities, "f4")


class Follower:
    """The atoms of one process, frame after frame."""

    def __init__(self, comm, positions: np.ndarray, velocities: np.ndarray, carry):
        self.comm, self.carry = comm, carry
        self.positions, self.velocities = positions, velocities
        self.map = dm.targets.morton(((0,) * 3, (1,) * 3), (CELLS,) * 3, periodic=True)

    def at_frame(self, atoms: np.ndarray, frame: int) -> np.ndarray:
        """Return the same atoms at their places in a frame; this is not measured."""
        atoms["pos"] = self.positions[frame][atoms["id"]]
        atoms["vel"] = self.velocities[frame][atoms["id"]]
        atoms["tproc"] = self.map.ranks(atoms, self.comm.size)
        return atoms

    def run(self) -> list[float]:
        """Follow all frames once; return the seconds of each on its slowest process."""
        from mpi4py import MPI

        atoms = np.zeros(self.positions.shape[1], ATOM)
        atoms["id"] = np.arange(len(atoms))
        atoms = np.array_split(atoms, self.comm.size)[self.comm.rank].copy()
        seconds = []
        for frame in range(len(self.positions)):
            atoms = self.at_frame(atoms, frame)
            self.comm.Barrier()
            begin = time.perf_counter()
            arrived = self.carry(atoms)
            seconds.append(self.comm.allreduce(time.perf_counter() - begin, MPI.MAX))
            atoms = arrived.copy()
            self.check(atoms)
        return seconds

    def check(self, atoms: np.ndarray) -> None:
        """Check that every atom exists once, at its process."""
        ids = np.concatenate(self.comm.allgather(atoms["id"]))
        if not (atoms["tproc"] == self.comm.rank).all() or len(np.unique(ids)) != len(ids):
            raise AssertionError("atoms have gone astray")


def measure(comm, enough_seconds: float, case: str) -> None:
    """Measure the first frame and the later ones, by datamover, NumPy and a plain copy."""
    from mpi4py import MPI

    positions, velocities = frames()
    copied = np.zeros(positions.shape[1] // comm.size, ATOM)
    by_numpy = SortAndSend(comm, ATOM)

    def copy() -> list[float]:
        start = time.perf_counter()
        copied.copy()
        return [comm.allreduce(time.perf_counter() - start, MPI.MAX)] * 2

    def follow(carry: Callable[[np.ndarray], np.ndarray]) -> Callable[[], list[float]]:
        return Follower(comm, positions, velocities, carry).run

    contenders = {
        "datamover:auto": follow(lambda atoms: dm.migrate(atoms, "tproc", comm=comm)),
        "numpy": follow(lambda atoms: by_numpy(atoms, atoms["tproc"])),
        "memcpy": copy,
    }
    samples: dict[str, list[list[float]]] = {name: [] for name in contenders}
    begin, enough = time.perf_counter(), False
    while not enough:
        for name, run in contenders.items():
            samples[name].append(run())
        enough = comm.bcast(time.perf_counter() - begin > enough_seconds)
    facts = {"case": case, "processes": comm.size}
    facts["bytes"] = positions.shape[1] * ATOM.itemsize
    for name, turns in samples.items() if comm.rank == 0 else ():
        turns = turns[1:] or turns
        first, later = [t[0] for t in turns], [s for t in turns for s in t[1:]]
        for phase, found in (("first frame", first), ("later frames", later)):
            row = {**facts, "phase": phase, "contender": name, "samples": found}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(measure)
