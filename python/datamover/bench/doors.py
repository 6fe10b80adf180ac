# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of arrays of other libraries: redistribution and ghosts. `datamover bench doors`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.contest import Contest
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
        run.has(package)
    yield run.python_player(measure)


def _slabs(shape: list[int], axis: int, nprocs: int) -> dm.FloorPlan:
    grid = [nprocs if d == axis else 1 for d in range(len(shape))]
    return dm.FloorPlan.uniform(shape, grid, nprocs)


def _values(region: dm.Region, shape: list[int]) -> np.ndarray:
    """Return what the elements of a region hold: their index in the flattened array."""
    ranges = np.ix_(*map(np.arange, region.lo, region.hi))
    return np.ravel_multi_index(ranges, shape).astype(np.float64)


def _add(contest: Contest, name: str, work: Callable[[], np.ndarray], wanted: np.ndarray) -> None:
    """Add a contender that returns its part of the result."""
    last: dict[str, np.ndarray] = {}
    contest.add(
        name,
        lambda: last.update(part=work()),
        lambda: np.array_equal(last["part"], wanted),
    )


def measure(comm: Any, seconds: float, case: str, depth: int, shape: list[int]) -> None:
    """Measure one case, of an array in slabs along its first dimension, and print its rows.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
    case : str
    depth : int
        Of the ghosts, which are not periodic; 0: redistribute, to slabs along the second dimension.
    shape : list of int
    """
    rows, result = (_slabs(shape, axis, comm.size) for axis in (0, 1))
    if depth:
        width = (depth, *[0] * (len(shape) - 1))
        grown = [rows.region(r).grown(width).intersected(rows.domain) for r in range(len(rows))]
        result = dm.FloorPlan(grown, owners=range(comm.size), nprocs=comm.size)
    x, wanted = (_values(layout.region(comm.rank), shape) for layout in (rows, result))
    moved = 2 * depth * (comm.size - 1) * int(np.prod(shape[1:])) if depth else int(np.prod(shape))
    contest = Contest(comm, seconds, case=case, phase="move", bytes=8 * moved)

    if depth:
        front = rows.region(comm.rank).lo[0] - result.region(comm.rank).lo[0]
        y = np.zeros((x.shape[0] + 2 * depth, *x.shape[1:]))
        y[depth:-depth] = x
        part = y[depth - front :][: len(wanted)]
        ours = dm.advanced.UserArrays(y, ghost=width)
        mover = dm.Mover(dm.halo(rows, width), ours, ours, comm=comm)
    else:
        y = part = np.empty_like(wanted)
        mover = dm.Mover(dm.redistribute(rows, result), x, y, comm=comm)
    contest.add("datamover", mover, lambda: np.array_equal(part, wanted))

    def new() -> np.ndarray:
        made = np.empty_like(wanted)
        dm.Mover(dm.redistribute(rows, result), x, made, comm=comm)()
        return made

    _add(contest, "datamover:new", new, wanted)
    if importlib.util.find_spec("pylops_mpi"):
        from pylops_mpi import DistributedArray

        pylops = DistributedArray(tuple(shape), base_comm=comm, axis=0)
        pylops[:] = x

        def theirs() -> np.ndarray:
            if depth:
                return pylops.add_ghost_cells(depth, depth)
            return pylops.redistribute(axis=1).local_array

        _add(contest, "pylops-mpi", theirs, wanted)
    if not depth and importlib.util.find_spec("mpi4py_fft"):
        from mpi4py_fft import DistArray
        from mpi4py_fft.pencil import Subcomm

        grid = [comm.size] + [1] * (len(shape) - 1)
        pencils = DistArray(shape, Subcomm(comm, grid), alignment=1)
        pencils[...] = x
        _add(contest, "mpi4py-fft", lambda: pencils.redistribute(0), wanted)
    contest.run()
    contest.print_all()


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
