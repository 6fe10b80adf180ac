# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of halo exchanges against other libraries. `bench halo`."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import options, petsc, programs
from datamover.bench.report import RANDOM_PREFIX, Style
from datamover.bench.rows import Results
from datamover.errors import InvalidArgument

STYLE = Style(references=("loops", "persistent:best", "phases", "petsc"))

#: The rows of the best of several variants, and the beginnings of the variants' names.
BEST_OF = {"loops": "loop:", "persistent:best": "persistent:", "petsc": "petsc:"}


@dataclass(frozen=True)
class Halo:
    """Cubic blocks of doubles, the same small cube of them on every process.

    Parameters
    ----------
    edge : int
        Points along a block.
    width : int
        Width of the ghosts, at most `edge`.
    along : int
        Blocks of a process along each of the three dimensions.
    label : str, optional
        The name, by default from the sizes.
    """

    edge: int
    width: int
    along: int = 1
    label: str = ""

    @property
    def name(self) -> str:
        """`EDGE-WIDTH`, with `BLOCKSx` before it where a process has several blocks."""
        many = f"{self.along**3}x" if self.along > 1 else ""
        return self.label or f"{many}{self.edge}-{self.width}"

    def arguments(self) -> list[str]:
        """Return the case as the program's arguments."""
        return [self.name, *map(str, (self.edge, self.width, self.along))]


WIDTHS = (1, 2, 3)
CASES = tuple(
    Halo(edge, width, along)
    for edge, along in ((64, 1), (256, 1), (64, 4), (8, 16))
    for width in WIDTHS
)


def parse(name: str) -> Halo:
    """Return the halo of a name.

    Raises
    ------
    InvalidArgument
        The name is not valid.

    Examples
    --------
    >>> from datamover.bench.halo import parse
    >>> parse("8x5-2")
    Halo(edge=5, width=2, along=2, label='')
    """
    found = re.fullmatch(r"(?:(\d+)x)?(\d+)-(\d+)", name)
    if found is None:
        raise InvalidArgument(f"{name!r} is no halo: EDGE-WIDTH or BLOCKSxEDGE-WIDTH is one")
    blocks, edge, width = int(found[1] or 1), int(found[2]), int(found[3])
    along = round(blocks ** (1 / 3))
    if along < 1 or along**3 != blocks:
        raise InvalidArgument(f"{name!r}: {blocks} blocks make no cube; 8, 27 and 64 do")
    if not 1 <= width <= edge:
        raise InvalidArgument(f"{name!r}: ghosts are 1 to {edge} wide here, as the blocks are")
    return Halo(edge, width, along)


def random_halos(count: int, seed: int) -> list[Halo]:
    """Return halos of random small blocks.

    Examples
    --------
    >>> from datamover.bench.halo import random_halos
    >>> random_halos(3, seed=1) == random_halos(3, seed=1)
    True
    """
    draw = random.Random(seed)
    halos = []
    for i in range(count):
        edge = draw.randint(1, 32)
        width = draw.randint(1, min(edge, 4))
        halos.append(Halo(edge, width, draw.randint(1, 3), f"{RANDOM_PREFIX}{i}"))
    return halos


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    rounds: options.Rounds = 2,
    case: options.CaseNames = None,
    halo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[BLOCKSx]EDGE-WIDTH",
            help="This halo instead of the listed ones; may be repeated.",
        ),
    ] = None,
    random_cases: options.RandomCases = 0,
    seed: options.Seed = 0,
) -> None:
    """Fill all ghosts of 64³, 256³, 64 × 64³ or 4,096 × 8³ doubles per process, 26 neighbors."""
    with options.measuring(nprocs), tempfile.TemporaryDirectory(prefix="datamover-") as scratch:
        listed = [parse(name) for name in halo] if halo else CASES
        cases = [*options.choose(listed, case), *random_halos(random_cases, seed)]
        results = Results()
        players = [(programs.own_mpi(), programs.program("halo"), cases)]
        players += _petsc(results, cases, Path(scratch))
        compilers = []
        for _ in range(rounds):
            for mpi, program, played in players:
                words = [word for c in played for word in c.arguments()]
                command = [program, str(seconds / rounds), *words]
                printed = programs.run(mpi, nprocs, command, seconds / rounds * len(played))
                compilers.append(printed.compiler)
                for line in printed.lines:
                    results.add(line, printed.mpi)
        for name, start in BEST_OF.items():
            results.add_best(name, lambda contender, start=start: contender.startswith(start))
        options.finish(results, STYLE, json_file, compilers)


def _petsc(
    results: Results, cases: Iterable[Halo], scratch: Path
) -> list[tuple[programs.Mpi, str, list[Halo]]]:
    """Return PETSc's program with the cases that it supports; record the others."""
    program, why_not = petsc.compile_dmda(scratch)
    open_mpi = programs.debian_open_mpi()
    if not program or open_mpi is None:
        results.leave_out("petsc", why_not or "mpiexec.openmpi is not installed")
        return []
    for c in cases:
        if c.along > 1:
            results.leave_out("petsc", "a DMDA has one block per process", c.name)
    played = [c for c in cases if c.along == 1]
    return [(open_mpi, program, played)] if played else []
