# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of arrays of other libraries: redistribution and ghosts. `datamover bench doors`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench import debian
from datamover.bench.benchmark import Benchmark, Case, Player, Run, match
from datamover.bench.contest import Contest

CASES = """slabs-128x128 slabs-4096x2048 slabs-192x192x192 ghosts-1-1024x1024
ghosts-2-192x192x192 mesh-1-96x9216 shuffled-16384 shuffled-1048576"""
#: Of single elements, by their index.
SCATTERED = ("mesh", "shuffled")
#: As many of these are moved in a turn, at least.
SCATTERED_ELEMS = 1 << 20
#: Maximum number of calls in a turn.
MOST_CALLS = 1000


def parse(name: str) -> Case:
    """Return the case of a name: its kind, a depth of ghosts or 0, and the extents of the array.

    Raises
    ------
    InvalidArgument
        The name is not valid.

    Examples
    --------
    >>> from datamover.bench.doors import parse
    >>> parse("ghosts-2-64x32")
    Case(name='ghosts-2-64x32', words=('ghosts', 2, (64, 32)))
    """
    extent = r"[1-9]\d*"
    shape = f"{extent}(?:x{extent})+"
    found = match(
        rf"(slabs)-({shape})|(ghosts)-({extent})-({shape})|"
        rf"(mesh)-({extent})-({extent}x{extent})|(shuffled)-({extent})",
        name,
        "a case: pass slabs-SHAPE or ghosts-DEPTH-SHAPE, with a SHAPE such as 64x32, "
        "mesh-DEPTH-PLANESxNODES, or shuffled-ELEMENTS",
    )
    kind, *depth, extents = filter(None, found.groups())
    return Case(name, (kind, int(*depth or [0]), tuple(map(int, extents.split("x")))))


def players(run: Run) -> Iterator[Player]:
    """Give the program in which all contenders in Python take turns, and PETSc's."""
    yield run.python_player(measure)
    yield from debian.petsc(
        run,
        "petsc_scatter.cpp",
        words=lambda case: (case.name, case.words[1], case.words[2][0], case.words[2][-1]),
        plays=lambda case: case.words[0] in SCATTERED,
    )


def flat_indices(region: dm.Region, shape: list[int]) -> np.ndarray:
    """Return the index of each element of a region in the flattened array, as doubles.

    Contenders move them, so that a wrong element shows where it came from.
    """
    ranges = np.ix_(*map(np.arange, region.lo, region.hi))
    return np.ravel_multi_index(ranges, shape).astype(np.float64)


def measure(comm: Any, seconds: float, case: str, kind: str, depth: int, shape: list[int]) -> None:
    """Measure one case, of an array in slabs along its first dimension, and print its rows.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
    case : str
    kind : {"slabs", "ghosts", "mesh", "shuffled"}
    depth : int
        Of the ghosts, which are not periodic; 0: redistribute, to slabs along the second dimension.
    shape : list of int
    """
    if kind in SCATTERED:
        return _measure_scattered(comm, seconds, case, depth, shape)
    ones = [1] * (len(shape) - 2)
    grids = ([comm.size, 1, *ones], [1, comm.size, *ones])
    rows, result = (dm.FloorPlan.uniform(shape, grid, comm.size) for grid in grids)
    if depth:
        width = (depth, *[0] * (len(shape) - 1))
        grown = [rows.region(r).grown(width).intersected(rows.domain) for r in range(len(rows))]
        result = dm.FloorPlan(grown, owners=range(comm.size), nprocs=comm.size)
    x, wanted = (flat_indices(layout.region(comm.rank), shape) for layout in (rows, result))
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
    contest.add_copy("datamover", mover, wanted, part)

    def new() -> np.ndarray:
        made = np.empty_like(wanted)
        dm.Mover(dm.redistribute(rows, result), x, made, comm=comm)()
        return made

    contest.add_copy("datamover:new", new, wanted)
    if contest.can_import("pylops_mpi"):
        from pylops_mpi import DistributedArray

        pylops = DistributedArray(tuple(shape), base_comm=comm, axis=0)
        pylops[:] = x

        ghosts, slabs = pylops.add_ghost_cells, lambda: pylops.redistribute(axis=1).local_array
        contest.add_copy("pylops-mpi", partial(ghosts, depth, depth) if depth else slabs, wanted)
    if contest.can_import("heat"):
        import heat
        from heat.core.communication import MPICommunication

        split = heat.array(x, is_split=0, comm=MPICommunication(comm))

        def with_halos() -> np.ndarray:
            split.get_halo(depth)
            return split.array_with_halos.numpy()

        resplit = partial(heat.resplit, split, 1)
        contest.add_copy("heat", with_halos if depth else lambda: resplit().larray.numpy(), wanted)
    if not depth and contest.can_import("mpi4py_fft"):
        from mpi4py_fft import DistArray
        from mpi4py_fft.pencil import Subcomm

        pencils = DistArray(shape, Subcomm(comm, grids[0]), alignment=1)
        pencils[...] = x
        contest.add_copy("mpi4py-fft", lambda: pencils.redistribute(0), wanted)
    contest.finish()


def _shuffled(first: int, end: int) -> np.ndarray:
    """Return numbers in the order of their hashes (splitmix64), as `petsc_scatter.cpp` does."""
    z = (np.arange(first, end, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return first + np.argsort(z ^ (z >> np.uint64(31)))


def _share(total: int, rank: int, nprocs: int) -> tuple[int, int]:
    return total * rank // nprocs, total * (rank + 1) // nprocs


def _ghosts_of_mesh(depth: int, planes: int, nodes: int, nprocs: int) -> list[np.ndarray]:
    """Return the nodes next to each slab of planes; those of a slab have shuffled numbers."""
    near: list[list[np.ndarray]] = [[] for _ in range(nprocs)]
    for owner in range(nprocs):
        first, end = (nodes * plane for plane in _share(planes, owner, nprocs))
        plane = _shuffled(first, end) // nodes
        for rank in set(range(nprocs)) - {owner}:
            lo, hi = _share(planes, rank, nprocs)
            near[rank].append(first + np.flatnonzero((plane >= lo - depth) & (plane < hi + depth)))
    return [np.concatenate([np.empty(0, np.int64), *parts]) for parts in near]


def _measure_scattered(comm: Any, seconds: float, case: str, depth: int, shape: list[int]) -> None:
    """Measure single elements: all of them in another order, or the ghosts of a mesh."""
    elems = math.prod(shape)
    if depth:
        planes, nodes = shape
        parts = _ghosts_of_mesh(depth, planes, nodes, comm.size)
        moved = 2 * depth * (comm.size - 1) * nodes
    else:
        planes, nodes, order = elems, 1, _shuffled(0, elems)
        parts = [order[slice(*_share(elems, r, comm.size))] for r in range(comm.size)]
        moved = elems
    edges = (_share(planes, r, comm.size) for r in range(comm.size))
    regions = [dm.Region([lo * nodes], [hi * nodes]) for lo, hi in edges]
    own = dm.FloorPlan(regions, owners=range(comm.size), nprocs=comm.size)
    lists = dm.IndexList((elems,), parts)
    plan = dm.redistribute(own, lists)
    values, wanted = flat_indices(regions[comm.rank], [elems]), parts[comm.rank].astype(np.float64)
    # So many in a turn, which the barrier before it does not disturb.
    calls = min(max(1, SCATTERED_ELEMS // max(1, moved)), MOST_CALLS)
    contest = Contest(comm, seconds, calls=calls, case=case, phase="move", bytes=8 * moved)
    received = np.empty_like(wanted)
    ours = dm.Mover(plan, values, received, comm=comm)
    contest.add_copy("datamover", ours, wanted, received)
    source, result = (dm.Array(layout, np.float64, comm=comm) for layout in (own, lists))
    source.local[...] = values
    ours = dm.Mover(plan, source, result, comm=comm)
    contest.add_copy("datamover:library", ours, wanted, result.local)
    contest.finish()


BENCHMARK = Benchmark(
    name="doors",
    help="Redistribute and fill ghosts, compared with pylops-mpi, mpi4py-fft, heat and PETSc.",
    options={"nprocs": 2, "seconds": 3.0},
    cases=lambda run: map(parse, CASES.split()),
    parse=parse,
    players=players,
    references=("pylops-mpi", "mpi4py-fft", "heat", "petsc"),
    quick={"seconds": 1.5},
)
