# SPDX-License-Identifier: BSD-3-Clause
"""Contender: mpi4py-fft's transfer between pencils. A program to be run under mpiexec."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.bench.contest import Contest, main


def _values(pencil: Any, shape: list[int]) -> np.ndarray:
    i, j, k = (
        np.arange(start, start + n, dtype=np.float64)
        for start, n in zip(pencil.substart, pencil.subshape, strict=True)
    )
    return (i[:, None, None] * shape[1] + j[:, None]) * shape[2] + k


def measure(
    comm: Any, seconds: float, whole: tuple[int, int], case: str, shape: list[int], *grid: int
) -> None:
    """Measure one case and print its row.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
    whole : (int, int)
        The axes that are whole before and after.
    case : str
    shape : list of int
    *grid : int
        Of processes, for the other two axes before.
    """
    from mpi4py_fft.pencil import Pencil, Subcomm

    first, last = whole
    dims = list(grid)
    dims.insert(first, 1)
    before = Pencil(Subcomm(comm, dims), shape, axis=first)
    after = before.pencil(last)
    transfer = before.transfer(after, np.float64)
    source = np.empty(before.subshape)
    destination = np.full(after.subshape, -1.0)
    source[...] = _values(before, shape)
    contest = Contest(comm, seconds, case=case, phase="move", bytes=8 * int(np.prod(shape)))
    contest.add(
        "mpi4py-fft",
        lambda: transfer.forward(source, destination),
        lambda: bool((destination == _values(after, shape)).all()),
    )
    contest.run()
    contest.print_all()


if __name__ == "__main__":
    main(measure)
