# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of the latency of halos of tiny blocks. `datamover bench latency`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from datamover.bench.benchmark import Benchmark, Case, Player, Run

#: Points along a block, and the blocks of a process along each dimension.
CASES = (
    Case("blocks-1", (16, 1, 1, 1)),
    Case("blocks-2", (16, 2, 1, 1)),
    Case("blocks-8", (16, 2, 2, 2)),
    Case("blocks-27", (16, 3, 3, 3)),
)


def random_halo(draw: random.Random, name: str, run: Run) -> Case:
    """Return a halo of random small blocks."""
    return Case(name, (draw.randint(2, 32), *(draw.randint(1, 3) for _ in range(3))))


def players(run: Run) -> Iterator[Player]:
    """Give the one program: all contenders are written in C++, C and Fortran."""
    # Pretend nodes of half of the processes: messages between, shared memory within.
    node_size = max(1, run.nprocs // 2) if run.nprocs > 1 else 0
    yield run.player("latency", before=(node_size,))


BENCHMARK = Benchmark(
    name="latency",
    help="Exchange the six faces of 16³ blocks of doubles in a periodic box: start and wait.",
    options={"nprocs": 2, "seconds": 2.0, "random": 0, "seed": 0},
    cases=lambda run: CASES,
    random_case=random_halo,
    players=players,
    references=("persistent:faces", "persistent:best"),
    shown=("datamover:auto",),
    best={"persistent:best": ("persistent:", "isend:")},
)
