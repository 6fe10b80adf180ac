# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of block-cyclic redistributions. `bench redistribute`."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from datamover.bench import options, programs, scalapack
from datamover.bench.redistribution_cases import Case, fixed_cases, random_cases
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("memcpy", "loop", "pdgemr2d", "alltoallw"))

#: Random cases are given to each program this many at a time, so that programs still take turns.
BATCH = 25

#: The axes of `pencils` that are whole before and after.
PENCIL_AXES = (2, 1)


@dataclass(frozen=True)
class Contender:
    """A separate program: the cases that it supports, and how it is started for some of them."""

    mpi: programs.Mpi
    plays: Callable[[Case], bool]
    command: Callable[[Sequence[Case], Path, float], list[str]]


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 4.0,
    rounds: options.Rounds = 2,
    case: options.CaseNames = None,
    random: options.RandomCases = 0,
    seed: options.Seed = 0,
    size: Annotated[int, typer.Option(min=64, help="Rows and columns of the arrays.")] = 4096,
) -> None:
    """Move doubles from one block-cyclic layout to another: start and wait."""
    with options.measuring(nprocs), tempfile.TemporaryDirectory(prefix="datamover-") as scratch:
        results = Results()
        contenders = _contenders(results, Path(scratch))
        compilers: list[str] = []
        groups = [[c] for c in options.choose(fixed_cases(nprocs, size), case)]
        drawn = random_cases(nprocs, random, seed)
        groups += [drawn[i : i + BATCH] for i in range(0, len(drawn), BATCH)]
        for group in groups:
            # Random cases are small and many: 25 of them get the time of one listed case.
            share = seconds / rounds / len(group)
            for _ in range(rounds):
                compilers += _one_round(contenders, group, nprocs, share, results, Path(scratch))
        results.add_best("loop", lambda name: name.startswith("loop:"))
        options.finish(results, STYLE, json_file, [c for c in compilers if c])


def _one_round(
    contenders: Sequence[Contender],
    group: Sequence[Case],
    nprocs: int,
    seconds: float,
    results: Results,
    scratch: Path,
) -> list[str]:
    compilers = []
    for contender in contenders:
        played = [c for c in group if contender.plays(c)]
        if not played:
            continue
        file = scratch / "cases"
        file.write_text("".join(c.line() + "\n" for c in played))
        command = contender.command(played, file, seconds)
        printed = programs.run(contender.mpi, nprocs, command, seconds * len(played))
        compilers.append(printed.compiler)
        for line in printed.lines:
            results.add(line, printed.mpi)
    return compilers


def _contenders(results: Results, scratch: Path) -> list[Contender]:
    """Return the installed programs; record the others."""
    own = programs.own_mpi()
    found = [
        Contender(
            own,
            lambda case: True,
            lambda cases, file, s: [programs.program("redistribute"), str(file), str(s)],
        )
    ]
    pdgemr2d, why_not = scalapack.compile_pdgemr2d(scratch)
    open_mpi = programs.debian_open_mpi()
    if pdgemr2d and open_mpi:
        found.append(
            Contender(
                open_mpi,
                lambda case: case.order == "F",
                lambda cases, file, s: [pdgemr2d, str(file), str(s)],
            )
        )
    else:
        results.leave_out("pdgemr2d", why_not or "mpiexec.openmpi is not installed")
    if importlib.util.find_spec("mpi4py_fft"):
        found.append(Contender(own, lambda case: case.name == "pencils", _pencil_command))
    else:
        results.leave_out("mpi4py-fft", "it is not installed (pip install mpi4py-fft)")
    return found


def _pencil_command(cases: Sequence[Case], file: Path, seconds: float) -> list[str]:
    case = cases[0]
    numbers = (*case.source.shape, *case.source.grid[:2], *PENCIL_AXES)
    return programs.python_program(
        "datamover.bench.pencils", str(seconds), case.name, *map(str, numbers)
    )
