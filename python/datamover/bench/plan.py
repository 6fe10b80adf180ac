# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of planning, up to a million processes. `datamover bench plan`."""

from __future__ import annotations

from datamover.bench.benchmark import Benchmark, Case

#: The program has this number of cases, which it plays all.
CASES_OF_PROGRAM = 36

BENCHMARK = Benchmark(
    name="plan",
    help="Plan one process's part of a redistribution, arrays up to 10^6 × 10^6, without MPI.\n\n"
    "Rows are named by both layouts, the array's rows, and the processes. One process does it all.",
    options={"seconds": 0.3},
    cases=lambda run: [Case("all")],
    players=lambda run: [
        run.player("plan", words=lambda case: (), processes=0, patience=CASES_OF_PROGRAM)
    ],
    references=("walk",),
    quick={"seconds": 0.05},
)
