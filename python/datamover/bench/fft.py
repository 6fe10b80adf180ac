# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of distributed Fourier transforms and their exchanges. `datamover bench fft`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench import debian
from datamover.bench.benchmark import Benchmark, Case, Player, Run, match
from datamover.bench.contest import Contest
from datamover.bench.doors import flat_indices

SHAPES = ("64x64x64", "128x128x128", "256x256x256", "250x180x140")
#: The one point that is not zero before the transform; extents of cases are larger.
POINT = (1, 2, 3)


def parse(name: str) -> Case:
    """Return the case of a name: kind of transform, distribution, and shape of the array.

    Raises
    ------
    InvalidArgument
        The name is not valid.

    Examples
    --------
    >>> from datamover.bench.fft import parse
    >>> parse("r2c-slabs-64x32x16")
    Case(name='r2c-slabs-64x32x16', words=('r2c', 'slabs', (64, 32, 16)))
    """
    extent = r"(?:[4-9]|[1-9]\d{1,3})"
    found = match(
        rf"(c2c|r2c)-(slabs|pencils)-({extent}x{extent}x{extent})",
        name,
        "a transform: pass KIND-slabs-SHAPE or KIND-pencils-SHAPE, with the KIND c2c or r2c, and a "
        "SHAPE such as 64x32x16 and extents of at least 4",
    )
    return Case(name, (found[1], found[2], tuple(map(int, found[3].split("x")))))


def players(run: Run) -> Iterator[Player]:
    """Give the program in which all contenders in Python take turns, and FFTW's."""
    yield run.python_player(measure)
    yield from debian.player(
        run,
        "fftw",
        ("fftw_mpi.cpp",),
        "libfftw3-mpi-dev, libfftw3-dev and libopenmpi-dev",
        "echo -lfftw3_mpi -lfftw3",
        words=lambda case: (case.name, int(case.words[0] == "r2c"), *case.words[2]),
        plays=lambda case: case.words[1] == "slabs",
    )


def _modes(shape: Sequence[int], starts: Sequence[int], counts: Sequence[int]) -> np.ndarray:
    """Return the modes of the array that is 1 at `POINT` and 0 elsewhere."""
    waves = [
        np.exp(-2j * np.pi * p * np.arange(a, a + k) / n)
        for n, p, a, k in zip(shape, POINT, starts, counts, strict=True)
    ]
    return waves[0][:, None, None] * waves[1][None, :, None] * waves[2][None, None, :]


def _starts(layout: Any, rank: int) -> list[int]:
    """Return the first index of a rank's block of a BlockCyclic along each dimension."""
    return [int(indices[0]) if len(indices) else 0 for indices in layout.global_indices(rank)]


def _fill(part: np.ndarray, starts: Sequence[int]) -> None:
    """Set this process's part of the array: 1 at `POINT`, 0 elsewhere."""
    part[...] = 0
    local = tuple(p - a for p, a in zip(POINT, starts, strict=True))
    if all(0 <= i < n for i, n in zip(local, part.shape, strict=True)):
        part[local] = 1


def measure(comm: Any, seconds: float, case: str, kind: str, cut: str, shape: list[int]) -> None:
    """Measure the forward transform, then the exchange between two of its stages.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
        For both together.
    case : str
    kind : {"c2c", "r2c"}
    cut : {"slabs", "pencils"}
    shape : list of int
    """
    modes = [*shape[:2], shape[2] // 2 + 1] if kind == "r2c" else shape
    facts: dict[str, Any] = {"case": case, "bytes": 16 * int(np.prod(modes))}
    forward = Contest(comm, seconds / 2, phase="forward", **facts)
    distribution = "(block, *, *)" if cut == "slabs" else "(block, block, *)"
    layout = dm.BlockCyclic(shape, distribution, comm.size)
    plan = dm.fft.Plan(shape, "f8" if kind == "r2c" else "c16", layout=layout, comm=comm)
    u, u_hat = (np.empty_like(end.interior()) for end in (plan.input, plan.output))
    wanted = _modes(shape, _starts(plan.output.layout, comm.rank), u_hat.shape)
    for contender, ends in {"datamover": (), "datamover:user": (u, u_hat)}.items():
        # Its own arrays, as those of the others, or a user's, which each call copies. Its own are
        # transformed again in each turn: the numbers grow beyond bounds, which takes no time.
        first, last = ends or (plan.input.interior(), plan.output.interior())
        last[...] = -1  # on one process it may be the first
        _fill(first, _starts(layout, comm.rank))
        is_right = partial(np.allclose, last, wanted)
        forward.add(contender, partial(plan.forward, *ends), is_right)
    if forward.can_import("mpi4py_fft"):
        _add_mpi4py_fft(forward, comm, kind, cut, shape)
    if forward.can_import("dtfft"):
        _add_dtfft(forward, comm, kind, cut, shape)
    forward.finish()
    _measure_exchange(Contest(comm, seconds / 2, phase="exchange", **facts), comm, modes)


def _add_mpi4py_fft(contest: Contest, comm: Any, kind: str, cut: str, shape: list[int]) -> None:
    from mpi4py import MPI
    from mpi4py_fft import PFFT
    from mpi4py_fft.pencil import Subcomm

    grid = [comm.size, 1] if cut == "slabs" else MPI.Compute_dims(comm.size, 2)
    fft = PFFT(Subcomm(comm, [*grid, 1]), shape, dtype="f8" if kind == "r2c" else "c16")
    # Its own arrays: with others, each call copies both.
    u, u_hat = fft.forward.input_array, fft.forward.output_array
    u_hat[...] = -1
    _fill(u, [s.start for s in fft.local_slice(forward_output=False)])
    starts = [s.start for s in fft.local_slice(forward_output=True)]
    wanted = _modes(shape, starts, u_hat.shape)

    def transform() -> None:
        fft.forward(normalize=False)

    contest.add("mpi4py-fft", transform, lambda: np.allclose(u_hat, wanted))


def _add_dtfft(contest: Contest, comm: Any, kind: str, cut: str, shape: list[int]) -> None:
    """Add dtFFT, whose dimensions are in Fortran's order and whose result is transposed."""
    import dtfft

    dtfft.set_config(dtfft.Config().set_enable_z_slab(cut == "slabs"))
    kinds = dtfft.PlanR2C if kind == "r2c" else dtfft.PlanC2C
    numbers = dtfft.Precision.DOUBLE, dtfft.Effort.PATIENT, dtfft.Executor.FFTW3
    plan = kinds(shape[::-1], comm.py2f(), *numbers)
    starts, counts, out_starts, out_counts, elems = plan.get_local_sizes()
    u = np.zeros(elems, "f8" if kind == "r2c" else "c16")
    u_hat, work = np.full(elems, -1, "c16"), np.empty(max(1, plan.get_aux_size()), "c16")
    local = int(np.prod(counts))
    _fill(u[:local].reshape(counts[::-1]), starts[::-1])
    # Fortran's z is now the fastest dimension, and x comes next.
    wanted = _modes(shape, out_starts[::-1], out_counts[::-1]).transpose(1, 2, 0)
    contest.add(
        "dtfft",
        lambda: plan.execute(u, u_hat, dtfft.Execute.FORWARD, work),
        lambda: np.allclose(u_hat[: wanted.size], wanted.ravel()),
    )


def _measure_exchange(contest: Contest, comm: Any, shape: list[int]) -> None:
    """Measure the exchange from slabs along the second dimension to slabs along the first."""
    before, after = (
        dm.FloorPlan.uniform(shape, grid, comm.size)
        for grid in ((1, comm.size, 1), (comm.size, 1, 1))
    )
    parts = [layout.region(comm.rank) for layout in (before, after)]
    x, wanted = (flat_indices(box, shape).astype("c16") for box in parts)
    source, result = dm.Array(before, "c16", comm=comm), dm.Array(after, "c16", comm=comm)
    source.interior()[...] = x
    y = np.full_like(wanted, -1)
    plan = dm.redistribute(before, after)
    ours = dm.Mover(plan, source, result, comm=comm)
    contest.add_copy("datamover", ours, wanted, result.interior())
    contest.add_copy("datamover:user", dm.Mover(plan, x, y, comm=comm), wanted, y)
    if contest.can_import("mpi4py_fft"):
        from mpi4py_fft.pencil import Pencil, Subcomm

        pencils = Pencil(Subcomm(comm, [comm.size, 1, 1]), shape, axis=1)
        transfer = pencils.pencil(0).transfer(pencils, np.dtype("c16"))
        y_0 = np.empty(pencils.subshape, "c16")
        contest.add_copy("mpi4py-fft", lambda: transfer.forward(x, y_0), wanted, y_0)
    contest.finish()


BENCHMARK = Benchmark(
    name="fft",
    help="Transform 64³ to 256³ points, complex and real, in slabs and pencils.",
    options={"nprocs": 2, "seconds": 6.0},
    cases=lambda run: [
        parse(f"{kind}-{cut}-{shape}")
        for kind in ("c2c", "r2c")
        for cut in ("slabs", "pencils")
        for shape in SHAPES
    ],
    parse=parse,
    players=players,
    references=("mpi4py-fft", "dtfft", "fftw"),
    quick={"seconds": 1.5},
)
