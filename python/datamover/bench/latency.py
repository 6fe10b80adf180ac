# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of the latency of halos of tiny blocks. `bench latency`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from datamover.bench import options, programs
from datamover.bench.report import RANDOM_PREFIX, Style
from datamover.bench.rows import Results

STYLE = Style(references=("persistent:faces", "persistent:best"))


@dataclass(frozen=True)
class Halo:
    """Cubic blocks of `edge` points; each process holds a small grid of them."""

    name: str
    edge: int = 16
    blocks: tuple[int, int, int] = (1, 1, 1)

    def arguments(self) -> list[str]:
        """Return the case as the program's arguments."""
        return [self.name, *map(str, (self.edge, *self.blocks))]


CASES = (
    Halo("blocks-1"),
    Halo("blocks-2", blocks=(2, 1, 1)),
    Halo("blocks-8", blocks=(2, 2, 2)),
    Halo("blocks-27", blocks=(3, 3, 3)),
)


def random_halos(count: int, seed: int) -> list[Halo]:
    """Return halos of random small blocks.

    Examples
    --------
    >>> from datamover.bench.latency import random_halos
    >>> random_halos(3, seed=1) == random_halos(3, seed=1)
    True
    """
    draw = random.Random(seed)
    return [
        Halo(
            f"{RANDOM_PREFIX}{i}",
            edge=draw.randint(2, 32),
            blocks=(draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 3)),
        )
        for i in range(count)
    ]


def is_hand_written(contender: str) -> bool:
    """Return whether a contender is MPI calls written by hand."""
    return contender.startswith(("persistent:", "isend:"))


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 2.0,
    case: options.CaseNames = None,
    random_cases: options.RandomCases = 0,
    seed: options.Seed = 0,
) -> None:
    """Exchange the six faces of 16³ blocks of doubles in a periodic box: start and wait."""
    with options.measuring(nprocs):
        cases = [*options.choose(CASES, case), *random_halos(random_cases, seed)]
        # Pretend nodes of half of the processes: messages between, shared memory within.
        node_size = max(1, nprocs // 2) if nprocs > 1 else 0
        words = [word for c in cases for word in c.arguments()]
        command = [programs.program("latency"), str(seconds), str(node_size), *words]
        printed = programs.run(programs.own_mpi(), nprocs, command, seconds * len(cases))
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        results.add_best("persistent:best", is_hand_written)
        options.finish(results, STYLE, json_file, [printed.compiler])
