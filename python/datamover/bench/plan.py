# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of planning, up to a million processes. `bench plan`."""

from __future__ import annotations

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("walk",))


def bench(
    nprocs: options.Processes = 1,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 0.3,
) -> None:
    """Plan one process's part of a redistribution; arrays up to 10^6 × 10^6. Needs no MPI.

    Cases are named by both layouts, the array's rows, and the processes.

    -n is accepted as everywhere; one process does all the work.
    """
    with options.measuring(nprocs):
        printed = programs.run(None, 1, [programs.program("plan"), str(seconds)], 36 * seconds)
        results = Results()
        for line in printed.lines:
            results.add(line, "none")
        options.finish(results, STYLE, json_file)
