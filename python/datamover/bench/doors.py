# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of arrays of other libraries: redistribution and ghosts. `datamover bench doors`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.errors import InvalidArgument

CASES = """slabs-128x128 slabs-4096x2048 slabs-192x192x192 ghosts-1-1024x1024
ghosts-2-192x192x192"""


def parse(name: str) -> Case:
    """Return the case of a name: a depth of ghosts or none, and the extents of the array.

    Raises
    ------
    InvalidArgument
        The name is not valid.

    Examples
    --------
    >>> from datamover.bench.doors import parse
    >>> parse("ghosts-2-64x32")
    Case(name='ghosts-2-64x32', words=(2, (64, 32)))
    """
    found = re.fullmatch(r"(?:slabs|ghosts-([1-9]\d*))-([1-9]\d*(?:x[1-9]\d*)+)", name)
    if found is None:
        raise InvalidArgument(
            f"{name!r} is not a case: pass slabs-SHAPE or ghosts-DEPTH-SHAPE, with a SHAPE such "
            "as 64x32"
        )
    return Case(name, (int(found[1] or 0), tuple(map(int, found[2].split("x")))))


def players(run: Run) -> Iterator[Player]:
    """Give the program in which all contenders take turns."""
    for package in BENCHMARK.references:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            run.results.leave_out(package, f"it is not installed (pip install {package})")
    yield run.python_player("library_arrays")


BENCHMARK = Benchmark(
    name="doors",
    help="Redistribute slabs and fill their ghosts, as libraries of distributed arrays do.",
    options={"nprocs": 2, "seconds": 3.0},
    cases=lambda run: map(parse, CASES.split()),
    parse=parse,
    players=players,
    references=("pylops-mpi", "mpi4py-fft"),
    quick={"seconds": 1.5},
)
