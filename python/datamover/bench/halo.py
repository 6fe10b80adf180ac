# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of halo exchanges against other libraries. `datamover bench halo`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from datamover.bench import debian
from datamover.bench.benchmark import Benchmark, Case, Player, Run, match
from datamover.errors import InvalidArgument


def parse(name: str) -> Case:
    """Return the halo of a name: points along a block, width of the ghosts, blocks along a cube.

    Raises
    ------
    InvalidArgument
        The name is not valid.

    Examples
    --------
    >>> from datamover.bench.halo import parse
    >>> parse("8x5-2")
    Case(name='8x5-2', words=(5, 2, 2))
    """
    usage = "a halo: pass EDGE-WIDTH or BLOCKSxEDGE-WIDTH"
    found = match(r"(?:(\d+)x)?(\d+)-(\d+)", name, usage)
    blocks, edge, width = int(found[1] or 1), int(found[2]), int(found[3])
    along = round(blocks ** (1 / 3))
    if along < 1 or along**3 != blocks:
        raise InvalidArgument(f"{name!r}: {blocks} blocks make no cube; 8, 27 and 64 do")
    if not 1 <= width <= edge:
        raise InvalidArgument(f"{name!r}: ghosts are 1 to {edge} wide here, as the blocks are")
    return Case(name, (edge, width, along))


CASES = tuple(
    parse(f"{blocks}-{width}") for blocks in ("64", "256", "64x64", "4096x8") for width in (1, 2, 3)
)


def random_halo(draw: random.Random, name: str, run: Run) -> Case:
    """Return a halo of random small blocks."""
    edge = draw.randint(1, 32)
    return Case(name, (edge, draw.randint(1, min(edge, 4)), draw.randint(1, 3)))


def players(run: Run) -> Iterator[Player]:
    """Give the program of ours, loops and messages, and PETSc's."""
    yield run.player("halo")
    petsc = debian.petsc(run, "petsc_halo.cpp", plays=lambda case: case.words[2] == 1)
    for case in run.cases if petsc else ():
        if case.words[2] > 1:
            reason = "a DMDA has one block per process"
            run.lines.append({"left_out": "petsc", "case": case.name, "reason": reason})
    yield from petsc


BENCHMARK = Benchmark(
    name="halo",
    help="Fill all ghosts of 64³, 256³, 64 × 64³ or 4,096 × 8³ doubles per process, 26 neighbors.",
    options={"nprocs": 2, "seconds": 3.0, "rounds": 2, "random": 0, "seed": 0},
    cases=lambda run: CASES,
    parse=parse,
    random_case=random_halo,
    players=players,
    references=("loops", "persistent:best", "phases", "petsc"),
    shown=("datamover:auto:library", "datamover:auto:user"),
    best={"loops": ("loop:",), "persistent:best": ("persistent:",), "petsc": ("petsc:",)},
    quick={"rounds": 1, "seconds": 1.5},
)
