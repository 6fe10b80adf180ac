# SPDX-License-Identifier: BSD-3-Clause
"""Exchange between two pencils, with the interface of `mpi4py_fft.pencil.Transfer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from ..arguments import integers
from ..arrays import element_dtype
from ..collective_calls import agreeing, refused_by
from ..errors import InvalidArgument, InvalidState
from ..layouts import FloorPlan
from ..movers import Mover
from ..mpi import collectively, comm_address, gathered
from ..plans import redistribute
from .stages import dimension

if TYPE_CHECKING:
    from mpi4py import MPI


class Transfer:
    """Moves an array between two pencils: drop-in for `mpi4py_fft.pencil.Transfer`.

    Set ``mpi4py_fft.pencil.Transfer = datamover.fft.Transfer`` before you make an
    `mpi4py_fft.PFFT`, and its exchanges are movers. Collective to make.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The processes between which elements move: a row or column of a process grid.
    shape : sequence of int
        Of the part of the array that these processes hold together.
    dtype : dtype
    subshapeA, subshapeB : sequence of int
        Shape of this process's array in each of the pencils.
    axisA, axisB : int
        The axis that is whole on each process. In the other pencil it is split among the processes,
        in extents that differ by at most one, the larger ones first.

    Raises
    ------
    Error
        On all processes: `InvalidArgument` for equal axes, `OutOfRange` for an axis beyond `shape`.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> transfer = dm.fft.Transfer(MPI.COMM_SELF, (2, 3), "f8", (2, 3), 1, (2, 3), 0)
    >>> a, b = np.arange(6.0).reshape(2, 3), np.empty((2, 3))
    >>> transfer.forward(a, b)
    >>> b[1]
    array([3., 4., 5.])
    >>> transfer.destroy()
    """

    @refused_by(agreeing)
    def __init__(
        self,
        comm: MPI.Comm,
        shape: Sequence[int],
        dtype: DTypeLike,
        subshapeA: Sequence[int],
        axisA: int,
        subshapeB: Sequence[int],
        axisB: int,
    ):
        self.comm = comm
        self._address = comm_address(comm)

        def prepare() -> None:
            self.shape, self.dtype = integers(shape, "shape"), element_dtype(dtype)
            self.subshapeA, self.axisA = tuple(subshapeA), dimension(axisA, len(self.shape))
            self.subshapeB, self.axisB = tuple(subshapeB), dimension(axisB, len(self.shape))
            if self.axisA == self.axisB:
                raise InvalidArgument(f"axisA and axisB are both {axisA}; they must differ")
            a, b = (_split(self.shape, axis, comm.size) for axis in (self.axisB, self.axisA))
            self._plans = redistribute(a, b), redistribute(b, a)

        collectively(self._address, prepare)
        #: The places of the arrays of the last call, and their mover, by direction.
        self._bound: dict[int, tuple[Any, Any]] = {}
        self._destroyed = False

    def forward(self, arrayA: np.ndarray, arrayB: np.ndarray) -> None:
        """Move the elements of `arrayA`, of shape `subshapeA`, to `arrayB`. Collective.

        Fast if all processes pass the same arrays as in the call before; otherwise it makes a new
        mover. Errors are those of `Mover`.
        """
        self._move(0, arrayA, arrayB)

    def backward(self, arrayB: np.ndarray, arrayA: np.ndarray) -> None:
        """Move the elements of `arrayB`, of shape `subshapeB`, to `arrayA`. Collective."""
        self._move(1, arrayB, arrayA)

    @refused_by(agreeing)
    def _move(self, direction: int, source: np.ndarray, destination: np.ndarray) -> None:
        given = _place(source), _place(destination)
        known, mover = self._bound.get(direction, (None, None))
        state = 2 if self._destroyed else int(None in given or given != known)
        states = [int(found[0]) for found in gathered(self._address, [state])]
        if 2 in states:
            raise InvalidState(
                f"process {states.index(2)} has destroyed the transfer: make a new one"
            )
        if any(states):
            self._bound.pop(direction, None)
            ends: list[Any] = [array if np.size(array) else {} for array in (source, destination)]
            mover = Mover(self._plans[direction], *ends, comm=self.comm)
            self._bound[direction] = given, mover
        mover()

    def destroy(self) -> None:
        """Release the movers. Local.

        `forward` and `backward` then raise `InvalidState` on all processes.
        """
        self._destroyed = True
        for _, mover in self._bound.values():
            mover.close()
        self._bound = {}


def _split(shape: tuple[int, ...], axis: int, nprocs: int) -> FloorPlan:
    """Return the layout in which one axis is split among the processes."""
    grid = [nprocs if d == axis else 1 for d in range(len(shape))]
    return FloorPlan.uniform(shape, grid, nprocs)


def _place(array: np.ndarray) -> tuple | None:
    """Return what identifies an array that a mover keeps alive; None if it has to be read first."""
    if not isinstance(array, np.ndarray):
        return None
    return array.__array_interface__["data"], array.strides, array.shape, array.dtype
