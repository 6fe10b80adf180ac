# SPDX-License-Identifier: BSD-3-Clause
"""How fast does every element get to its process, beside a counting sort? `bench distribute`."""

from __future__ import annotations

from dataclasses import dataclass

from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("counting_sort_alltoallv", "memcpy"))


@dataclass(frozen=True)
class Example:
    """One of the paper's Examples A, B and C with so many elements per process."""

    example: str
    count: int

    @property
    def name(self) -> str:
        """The example and the number of elements."""
        return f"{self.example}-{self.count}"

    def arguments(self) -> list[str]:
        """Return the case as the program's arguments."""
        return [self.name, self.example, str(self.count)]


CASES = tuple(
    Example(example, count)
    for example in ("A", "B", "C", "C-inplace")
    for count in (100_000, 2_000_000)
)


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    case: options.CaseNames = None,
) -> None:
    """Distribute integers (A) and particles (B; C: most stay) to their processes, one by one."""
    with options.errors_to_exit():
        cases = options.choose(CASES, case)
        words = [word for c in cases for word in c.arguments()]
        command = [programs.program("distribute"), str(seconds), *words]
        printed = programs.run(programs.own_mpi(), nprocs, command, 2 * seconds * len(cases))
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        options.finish(results, STYLE, json_file, [printed.compiler])
