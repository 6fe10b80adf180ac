# SPDX-License-Identifier: BSD-3-Clause
"""Index lists that are distributed: every process passes its own list and none holds all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy.typing as npt

from .collective_calls import listing, refused_by
from .deprecated import comm_by_place
from .layouts import IndexList, Layout
from .mpi import Refusing, comm_address, core

if TYPE_CHECKING:
    from mpi4py import MPI


@comm_by_place(0)
@refused_by(listing)
def index_lists(
    shape: int | Sequence[int],
    *mine: npt.ArrayLike,
    partners: Sequence[Layout] = (),
    comm: MPI.Comm,
) -> tuple[IndexList, ...]:
    """Make index lists of which each process passes its own; no process stores all. Collective.

    A process stores its own lists and, for each index in them or in its part of a partner, the
    other processes that hold it. This suffices to move elements among the results and to and from
    the partners: the ghost elements of an unstructured mesh, the rows of a sparse matrix.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array that the indices point into, the same on all processes.
    *mine : arrays of int
        This process's flat indices for each result, in the order of its local array.
    partners : sequence of layouts, optional
        Other layouts over `shape` that the results will move to or from, the same on all processes.
    comm : mpi4py.MPI.Comm
        The processes; all pass the same number of lists.

    Returns
    -------
    tuple of IndexList
        One for each list. `indices_of` returns this process's list only; whatever needs those of
        others (plans of other ranks, saving, pickling) raises Unsupported.

    Raises
    ------
    OutOfRange
        An index of some process is outside the shape.
    Mismatch
        Shape, partners or the number of lists differ between processes.
    WrongType
        Indices are not integers.

    Notes
    -----
    Takes O(n log n) time and O(n) memory for the n indices of the process, and O(P) for P
    processes. An error of one process is raised on all.

    Examples
    --------
    Each process owns two points of a ring, and needs the next point after them:

    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> comm = MPI.COMM_WORLD
    >>> n = 2 * comm.size
    >>> own = 2 * comm.rank + np.arange(2)
    >>> near = np.append(own, (own[-1] + 1) % n)[1:]
    >>> owned, with_ghost = dm.advanced.index_lists(n, own, near, comm=comm)
    >>> values, seen = own * 10.0, np.zeros(2)
    >>> dm.Mover(dm.redistribute(owned, with_ghost), values, seen, comm=comm)()
    >>> bool((seen == near * 10.0).all())
    True
    """
    address = comm_address(comm)
    with Refusing(partial(core().refuse_index_lists, address)):
        own = core().OwnLists(shape, list(mine), list(partners))
    return tuple(own.make(address))
