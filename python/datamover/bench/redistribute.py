# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of block-cyclic redistributions. `datamover bench redistribute`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence

from datamover.bench import debian, programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.programs import Line
from datamover.bench.redistribution_cases import Redistribution, fixed_cases, random_case

#: The axes of `pencils` that are whole before and after.
PENCIL_AXES = (2, 1)


def players(run: Run) -> Iterator[Player]:
    """Give the program of ours, ScaLAPACK's and that of mpi4py-fft."""

    def arguments(cases: Sequence[Redistribution], seconds: float) -> list[str]:
        file = run.scratch / "cases"
        file.write_text("".join(" ".join(map(str, (c.name, *c.words))) + "\n" for c in cases))
        return [str(file), str(seconds)]

    yield run.player(programs.program("redistribute"), arguments=arguments)
    yield from debian.player(
        run,
        "pdgemr2d",
        ("scalapack_pdgemr2d.cpp", "redistribute_case.cpp"),
        "libscalapack-openmpi-dev and openmpi-bin",
        libraries=("scalapack-openmpi",),
        arguments=arguments,
        plays=lambda case: case.order == "F",
    )
    if importlib.util.find_spec("mpi4py_fft"):

        def play(cases: Sequence[Redistribution], seconds: float) -> Iterable[Line]:
            shape, grid = cases[0].source.shape, cases[0].source.grid[:2]
            return pencils.play([Case("pencils", (shape, *grid))], seconds)

        pencils = run.python_player("pencils", PENCIL_AXES)
        yield Player(play, lambda case: case.name == "pencils")
    else:
        reason = "it is not installed (pip install mpi4py-fft)"
        run.results.leave_out("mpi4py-fft", reason)


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
