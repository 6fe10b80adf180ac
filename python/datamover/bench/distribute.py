# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of distributions of single elements. `datamover bench distribute`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

import datamover as dm
from datamover.bench.benchmark import Benchmark, Case, Player, Run, match
from datamover.bench.chart import Panel, panels_by_phase
from datamover.bench.contest import Contest
from datamover.bench.programs import Line

#: A case's program may take this many times the seconds of the case: phases, slow contenders.
PHASES = 8

EXAMPLES = ("A", "B", "C", "B-inplace", "C-inplace")
TRAJECTORY = Case("md-frames")

#: Phases of the paper's figures 2 and 3, and of the same for a plan used again.
DRAWN = {"once": "set-up and move", "again": "a plan used again"}


def parse(name: str) -> Case:
    """Return one of the paper's examples with a number of elements per process.

    Examples
    --------
    >>> from datamover.bench.distribute import parse
    >>> parse("C-inplace-500")
    Case(name='C-inplace-500', words=('C-inplace', 500))
    """
    pattern = rf"({'|'.join(EXAMPLES)})-([1-9]\d*)"
    found = match(pattern, name, "a case: pass EXAMPLE-ELEMENTS, or md-frames")
    return Case(name, (found[1], int(found[2])))


def panels(rows: list[Line]) -> list[Panel]:
    """Return the paper's panels with times against processes; of other cases, one per phase."""
    found: dict[str, list[Line]] = {}
    for row in rows:
        example, _, count = row["case"].rpartition("-")
        if example in EXAMPLES and row["phase"] in DRAWN:
            title = f"Example {example}: {DRAWN[row['phase']]}, {int(count):,} elements per process"
            found.setdefault(title, []).append(row)
    drawn = [Panel(title, of, along="processes", value="ms") for title, of in found.items()]
    return drawn or panels_by_phase(rows)


def players(run: Run) -> Iterator[Player]:
    """Give the program of ours and the counting sort, NumPy's, and that of the trajectory."""
    yield run.player("distribute", patience=PHASES, plays=lambda case: case != TRAJECTORY)
    yield run.python_player(
        measure_numpy,
        patience=PHASES,
        plays=lambda case: case != TRAJECTORY and "inplace" not in case.name,
    )
    yield run.python_player(measure_frames, plays=lambda case: case == TRAJECTORY)


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
            [self.sent.view("u1"), counts, self.type],
            [self.received.view("u1"), arriving, self.type],
        )
        return self.received[: arriving.sum()]


def measure_numpy(comm, seconds: float, name: str, example: str, count: int) -> None:
    """Measure a distribution with NumPy and mpi4py, and print its row."""
    elements = elements_of(example, count, comm.rank, comm.size)
    targets = elements if example == "A" else elements["tproc"]
    by_numpy = SortAndSend(comm, elements.dtype)
    expected = dm.migrate(elements, targets, comm=comm)
    nbytes = elements.nbytes * comm.size
    contest = Contest(comm, seconds, case=name, phase="once", bytes=nbytes)
    contest.add_copy("numpy", lambda: by_numpy(elements, targets), expected)
    contest.finish()


ATOM = np.dtype([("pos", "f4", 3), ("vel", "f4", 3), ("id", "i4"), ("tproc", "i4")])
FRAME_CELLS = 16


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
    steps = [
        (transform_RtoS(step.positions, step.dimensions) % 1.0, step.velocities.copy())
        for step in universe.trajectory
    ]
    positions, velocities = (np.asarray(of, "f4") for of in zip(*steps, strict=True))
    return positions, velocities


def measure_frames(comm, seconds: float, case: str) -> None:
    """Measure the first frame and the later ones, by datamover, NumPy and a plain copy."""
    packages = ("MDAnalysis", "MDAnalysisTests")
    if not all(map(Contest(comm, seconds, case=case).can_import, packages)):
        return
    positions, velocities = frames()
    z_order = dm.targets.morton(((0,) * 3, (1,) * 3), (FRAME_CELLS,) * 3, periodic=True)
    by_numpy = SortAndSend(comm, ATOM)
    atoms = np.zeros(positions.shape[1], ATOM)
    atoms["id"] = np.arange(len(atoms))
    atoms = np.array_split(atoms, comm.size)[comm.rank]
    moves = []  # the atoms of this process before and after each frame's move
    for position, velocity in zip(positions, velocities, strict=True):
        atoms = atoms.copy()
        atoms["pos"], atoms["vel"] = position[atoms["id"]], velocity[atoms["id"]]
        atoms["tproc"] = z_order.ranks(atoms, comm.size)
        arrived = by_numpy(atoms, atoms["tproc"]).copy()
        ids = np.concatenate(comm.allgather(arrived["id"]))
        if not (arrived["tproc"] == comm.rank).all() or len(np.unique(ids)) != len(ids):
            raise AssertionError("atoms have gone astray")
        moves.append((atoms, arrived))
        atoms = arrived

    contenders = {
        "datamover:auto": lambda given: dm.migrate(given, "tproc", comm=comm),
        "numpy": lambda given: by_numpy(given, given["tproc"]),
    }
    nbytes = positions.shape[1] * ATOM.itemsize
    for phase, part in (("first frame", moves[:1]), ("later frames", moves[1:])):
        contest = Contest(comm, seconds / 2, case=case, phase=phase, bytes=nbytes)
        for name, carry in contenders.items():
            results = [np.array_equal(carry(given), wanted) for given, wanted in part]
            carried = map(carry, itertools.cycle([given for given, _ in part]))
            contest.add(name, partial(next, carried), partial(all, results))
        contest.add("memcpy", np.zeros(positions.shape[1] // comm.size, ATOM).copy)
        contest.finish()


BENCHMARK = Benchmark(
    name="distribute",
    help="Distribute integers (A) and particles (B; C: most stay) to their processes, one by one.",
    options={"nprocs": 2, "seconds": 3.0, "add": None},
    cases=lambda run: [
        *(parse(f"{e}-{n}") for e in EXAMPLES for n in (100_000, 2_000_000)),
        TRAJECTORY,
    ],
    parse=parse,
    players=players,
    references=("counting_sort_alltoallv", "numpy", "memcpy"),
    shown=("datamover:auto",),
    panels=panels,
    quick={"seconds": 0.5},
)
