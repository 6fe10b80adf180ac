# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the redistribution benchmark."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod

from datamover.bench.report import RANDOM_PREFIX

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

    def words(self) -> list[str]:
        """Return the numbers as the programs read them (`bench/redistribute_case.hpp`)."""
        zeros = (0,) * len(self.shape)
        whole = tuple(b or n for b, n in zip(self.block, self.shape, strict=True))
        lists = (
            self.shape,
            whole,
            self.grid,
            self.first_process or zeros,
            self.section_begin or zeros,
        )
        return [str(n) for numbers in lists for n in numbers]


@dataclass(frozen=True)
class Case:
    """A redistribution of doubles; `extent` in dimensions of the source (default: all of it)."""

    name: str
    source: Side
    destination: Side
    axes: Extents | None = None
    extent: Extents | None = None
    order: str = "F"

    @property
    def bytes(self) -> int:
        """Bytes of payload."""
        return 8 * prod(self.extent or self.source.shape)

    def line(self) -> str:
        """Return the line of the file of cases."""
        dims = len(self.source.shape)
        extent = self.extent or self.source.shape
        axes = self.axes or tuple(range(dims))
        return " ".join(
            [
                self.name,
                self.order,
                str(dims),
                *self.source.words(),
                *self.destination.words(),
                *map(str, extent),
                *map(str, axes),
            ]
        )


def split(processes: int) -> tuple[int, int]:
    """Return a process grid with fewer rows than columns, as near to square as that allows.

    Examples
    --------
    >>> from datamover.bench.redistribution_cases import split
    >>> split(1), split(2), split(4), split(6)
    ((1, 1), (1, 2), (1, 4), (2, 3))
    """
    rows = max(
        r for r in range(1, processes + 1) if processes % r == 0 and (r == 1 or r * r < processes)
    )
    return rows, processes // rows


def fixed_cases(processes: int, n: int = 4096) -> list[Case]:
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
        Case("rows-columns", rows, columns),
        Case("columns-rows", columns, rows),
        Case("32-128", square(32, wide), square(128, tall)),
        Case("64-64", square(64, wide), square(64, tall)),
        Case("1-2048", square(1, wide), square(n // 2, tall)),
        Case("3-7", square(3, wide), square(7, tall)),
        Case("16-16-one", square(16, (1, 1)), square(16, (1, 1))),
        Case("rows-cyclic", rows, square((1, 0), (processes, 1))),
        Case("offset", square(64, wide), square(64, wide, first_process=(p - 1, q - 1))),
        Case("gather", tiles, square(0, (1, 1))),
        Case("scatter", square(0, (1, 1)), square(8, wide)),
        Case(
            "section",
            square(64, wide, section_begin=at),
            square(32, tall, section_begin=to),
            extent=(cut, cut),
        ),
        Case("transpose", square(64, wide), square(64, wide), axes=(1, 0)),
        Case("transpose-rows", rows, rows, axes=(1, 0)),
        contiguous(processes, n),
        pencils(processes, n),
        Case("large-32-128", square(32, wide, 3 * n), square(128, tall, 3 * n)),
    ]


def contiguous(processes: int, n: int) -> Case:
    """Return a transpose of blocks whose messages are contiguous on both sides, n² elements."""
    part = n * n // processes**2
    shape = (part * processes, processes)
    return Case(
        "contiguous",
        Side(shape, (0, 1), (1, processes)),
        Side(shape, (part, 0), (processes, 1)),
    )


def pencils(processes: int, n: int) -> Case:
    """Return the pencil-to-pencil transfer of a parallel FFT: about n² elements, row-major."""
    p, q = split(processes)
    edge = round((n * n) ** (1 / 3))
    edge -= edge % (p * q)  # mpi4py-fft and HPF distribute the remainder differently
    shape = (edge, edge, edge)
    return Case(
        "pencils",
        Side(shape, (edge // p, edge // q, 0), (p, q, 1)),
        Side(shape, (edge // p, 0, edge // q), (p, 1, q)),
        order="C",
    )


def random_cases(processes: int, count: int, seed: int) -> list[Case]:
    """Return random pairs of two-dimensional layouts.

    Examples
    --------
    >>> from datamover.bench.redistribution_cases import random_cases
    >>> random_cases(4, 2, seed=1) == random_cases(4, 2, seed=1)
    True
    """
    draw = random.Random(seed)
    grids = [(r, c) for r in range(1, processes + 1) for c in range(1, processes // r + 1)]

    def side(shape: Extents) -> Side:
        grid = draw.choice(grids)
        block = tuple(
            draw.choice((1, 2, 3, draw.randint(1, 64), draw.randint(1, 512))) for _ in shape
        )
        first = tuple(draw.randrange(g) for g in grid)
        return Side(shape, block, grid, first)

    cases = []
    for i in range(count):
        shape = (draw.randint(64, 2048), draw.randint(64, 2048))
        cases.append(Case(f"{RANDOM_PREFIX}{i}", side(shape), side(shape)))
    return cases
