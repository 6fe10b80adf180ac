# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of block-cyclic redistributions. `datamover bench redistribute`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench import debian
from datamover.bench.benchmark import Benchmark, Player, Run
from datamover.bench.contest import Contest
from datamover.bench.doors import flat_indices


def players(run: Run) -> Iterator[Player]:
    """Give the program of ours, ScaLAPACK's and that of mpi4py-fft."""
    yield run.player("redistribute", in_file=True)
    yield from debian.player(
        run,
        "pdgemr2d",
        ("scalapack_pdgemr2d.cpp", "redistribute_case.cpp"),
        "libscalapack-openmpi-dev and openmpi-bin",
        "echo -lscalapack-openmpi",
        in_file=True,
        plays=lambda case: case.order == "F",
    )
    yield run.python_player(measure_pencils, plays=lambda case: case.name == "pencils")


Extents = tuple[int, ...]


@dataclass(frozen=True)
class Side:
    """A block-cyclic array on the first processes of a row-major grid, and a section's begin.

    Blocks of 0 stand for the whole extent, like `*`; None stands for zeros.
    """

    shape: Extents
    block: Extents
    grid: Extents
    first_process: Extents | None = None
    section_begin: Extents | None = None

    def numbers(self) -> list[int]:
        """Return the numbers as the programs read them (`bench/redistribute_case.hpp`)."""
        zeros = (0,) * len(self.shape)
        whole = (b or n for b, n in zip(self.block, self.shape, strict=True))
        first, begin = self.first_process or zeros, self.section_begin or zeros
        return [*self.shape, *whole, *self.grid, *first, *begin]


@dataclass(frozen=True)
class Redistribution:
    """A redistribution of doubles; `extent` in dimensions of the source (default: all of it)."""

    name: str
    source: Side
    destination: Side
    axes: Extents | None = None
    extent: Extents | None = None
    order: str = "F"

    @property
    def words(self) -> tuple[Any, ...]:
        """The words that programs read after the name."""
        dims = len(self.source.shape)
        sides = (*self.source.numbers(), *self.destination.numbers())
        extent, axes = self.extent or self.source.shape, self.axes or tuple(range(dims))
        return (self.order, dims, *sides, *extent, *axes)


def split(processes: int) -> tuple[int, int]:
    """Return a process grid with fewer rows than columns, as near to square as that allows.

    Examples
    --------
    >>> from datamover.bench.redistribute import split
    >>> split(1), split(2), split(4), split(6)
    ((1, 1), (1, 2), (1, 4), (2, 3))
    """
    rows = max(
        r for r in range(1, processes + 1) if processes % r == 0 and (r == 1 or r * r < processes)
    )
    return rows, processes // rows


def fixed_cases(processes: int, n: int = 4096) -> list[Redistribution]:
    """Return the listed cases for n × n doubles, column-major as in ScaLAPACK.

    Parameters
    ----------
    processes : int
    n : int
        Rows and columns; the case beyond 1 GB has three times as many.
    """
    p, q = split(processes)

    def square(block: int | Extents, grid: Extents, size: int = n, **more: Extents) -> Side:
        blocks = (block, block) if isinstance(block, int) else block
        return Side((size, size), blocks, grid, **more)

    def blocks_of(parts: int) -> int:
        return -(-n // parts)

    wide, tall = (p, q), (q, p)
    rows = square((blocks_of(processes), 0), (processes, 1))
    columns = square((0, blocks_of(processes)), (1, processes))
    tiles = square((blocks_of(p), blocks_of(q)), wide)
    cut, at, to = n * 3 // 4, (n // 40, n // 53), (n // 8, 3)
    return [
        Redistribution("rows-columns", rows, columns),
        Redistribution("columns-rows", columns, rows),
        Redistribution("32-128", square(32, wide), square(128, tall)),
        Redistribution("64-64", square(64, wide), square(64, tall)),
        Redistribution("1-2048", square(1, wide), square(n // 2, tall)),
        Redistribution("3-7", square(3, wide), square(7, tall)),
        Redistribution("16-16-one", square(16, (1, 1)), square(16, (1, 1))),
        Redistribution("rows-cyclic", rows, square((1, 0), (processes, 1))),
        Redistribution("offset", square(64, wide), square(64, wide, first_process=(p - 1, q - 1))),
        Redistribution("gather", tiles, square(0, (1, 1))),
        Redistribution("scatter", square(0, (1, 1)), square(8, wide)),
        Redistribution(
            "section",
            square(64, wide, section_begin=at),
            square(32, tall, section_begin=to),
            extent=(cut, cut),
        ),
        Redistribution("transpose", square(64, wide), square(64, wide), axes=(1, 0)),
        Redistribution("transpose-rows", rows, rows, axes=(1, 0)),
        contiguous(processes, n),
        pencils(processes, n),
        Redistribution("large-32-128", square(32, wide, 3 * n), square(128, tall, 3 * n)),
    ]


def contiguous(processes: int, n: int) -> Redistribution:
    """Return a transpose of blocks whose messages are contiguous on both sides, n² elements."""
    part = n * n // processes**2
    shape = (part * processes, processes)
    return Redistribution(
        "contiguous",
        Side(shape, (0, 1), (1, processes)),
        Side(shape, (part, 0), (processes, 1)),
    )


def pencils(processes: int, n: int) -> Redistribution:
    """Return the pencil-to-pencil transfer of a parallel FFT: about n² elements, row-major."""
    p, q = split(processes)
    edge = round((n * n) ** (1 / 3))
    edge -= edge % (p * q)  # mpi4py-fft and HPF distribute the remainder differently
    shape = (edge, edge, edge)
    return Redistribution(
        "pencils",
        Side(shape, (edge // p, edge // q, 0), (p, q, 1)),
        Side(shape, (edge // p, 0, edge // q), (p, 1, q)),
        order="C",
    )


def random_case(draw: random.Random, name: str, processes: int) -> Redistribution:
    """Return a pair of random two-dimensional layouts."""
    grids = [(r, c) for r in range(1, processes + 1) for c in range(1, processes // r + 1)]
    shape = (draw.randint(64, 2048), draw.randint(64, 2048))

    def side() -> Side:
        grid = draw.choice(grids)
        sizes = [(1, 2, 3, draw.randint(1, 64), draw.randint(1, 512)) for _ in shape]
        return Side(shape, tuple(map(draw.choice, sizes)), grid, tuple(map(draw.randrange, grid)))

    return Redistribution(name, side(), side())


def measure_pencils(comm: Any, seconds: float, case: str, *words: Any) -> None:
    """Measure mpi4py-fft's transfer between pencils and print its row.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
    case : str
    *words
        Those of `pencils`: each side has its shape, blocks and process grid.
    """
    shape, grid = list(words[2:5]), words[8:11]
    contest = Contest(comm, seconds, case=case, phase="move", bytes=8 * prod(shape))
    if not contest.can_import("mpi4py_fft"):
        return
    from mpi4py_fft.pencil import Pencil, Subcomm

    before = Pencil(Subcomm(comm, grid), shape, axis=2)
    after = before.pencil(1)
    transfer = before.transfer(after, np.float64)
    source, wanted = (
        flat_indices(dm.Region(pencil.substart, np.add(pencil.substart, pencil.subshape)), shape)
        for pencil in (before, after)
    )
    destination = np.full(after.subshape, -1.0)
    contest.add_copy(
        "mpi4py-fft", lambda: transfer.forward(source, destination), wanted, destination
    )
    contest.finish()


BENCHMARK = Benchmark(
    name="redistribute",
    help="Move doubles from one block-cyclic layout to another: start and wait.",
    options={"nprocs": 2, "seconds": 4.0, "rounds": 2, "random": 0, "seed": 0, "size": 4096},
    cases=lambda run: fixed_cases(run.nprocs, run.size),
    random_case=lambda draw, name, run: random_case(draw, name, run.nprocs),
    players=players,
    references=("memcpy", "loop", "pdgemr2d", "alltoallw"),
    shown=("datamover:auto:library", "datamover:auto:user"),
    best={"loop": ("loop:",)},
    quick={"size": 2048, "rounds": 1, "seconds": 2.0},
)
