# SPDX-License-Identifier: BSD-3-Clause
"""How is a plan carried out between two arrays, again and again?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import UserArrays, XArray
from .errors import InvalidArgument, WrongType
from .mpi import collectively, comm_address, core

if TYPE_CHECKING:
    from mpi4py import MPI

    from ._plan import MotionPlan

    Arrays = XArray | UserArrays | np.ndarray | Mapping[int, np.ndarray] | Sequence[np.ndarray] | None


def _wrapped(arrays: Arrays) -> XArray | UserArrays:
    return arrays if isinstance(arrays, (XArray, UserArrays)) else UserArrays(arrays)


def _communicator(comm: MPI.Comm | None, *arrays: Arrays) -> MPI.Comm:
    if comm is not None:
        return comm
    for array in arrays:
        if isinstance(array, XArray):
            return array.comm
    raise InvalidArgument("comm is needed when neither source nor destination is an XArray")


class Mover:
    """Carries out a plan between two arrays as one collective operation, any number of times.

    Collective to make; all choices are made then, and errors are raised then, on all processes and
    before anything moves. Between `start` and `wait` the caller writes neither source nor
    destination. Several movers may be in flight; all processes start them in the same order.

    Parameters
    ----------
    plan : MotionPlan
        What goes where.
    source, destination : XArray, ndarray, mapping, sequence or UserArrays
        The library's arrays or the user's (see `UserArrays`); they may be the same array. User
        arrays are used in place and must be kept; None where a process holds no block.
    op : {None, "add", "multiply", "min", "max"}
        How arriving elements are combined with those in place; None replaces them.
    transport : str
        "auto", or the name of a transport that must carry all that leaves a process.
    comm : mpi4py.MPI.Comm, optional
        The processes; needed when no array is an `XArray`.

    Raises
    ------
    Mismatch
        Layouts, shapes or numbers of processes that do not fit each other.
    WrongType
        Different dtypes, or an `op` on elements that are no numbers.
    OutOfRange
        A section outside what a block's memory holds (ghosts too shallow).
    InvalidArgument
        A read-only destination, an unknown `op` or transport.
    Unsupported
        A transport that cannot carry one of the pairs.

    Notes
    -----
    Source: the Mover of the KeLP Data Mover, section 2.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> comm = MPI.COMM_SELF
    >>> rows = dm.BlockCyclic((2, 3), "(block, *)", nprocs=1)
    >>> columns = dm.BlockCyclic((3, 2), "(block, *)", nprocs=1)
    >>> a, b = np.arange(6.0).reshape(2, 3), np.empty((3, 2))
    >>> mover = dm.Mover(dm.redistribute(rows, columns, axes=(1, 0)), a, b, comm=comm)
    >>> mover()
    >>> b
    array([[0., 3.],
           [1., 4.],
           [2., 5.]])
    """

    def __init__(
        self,
        plan: MotionPlan,
        source: Arrays,
        destination: Arrays,
        *,
        op: str | None = None,
        transport: str = "auto",
        comm: MPI.Comm | None = None,
    ):
        comm = _communicator(comm, source, destination)
        address = comm_address(comm)

        def prepare() -> tuple[Any, Any]:
            self._arrays = (_wrapped(source), _wrapped(destination))
            dtypes = [array.dtype for array in self._arrays if array.dtype is not None]
            if len(set(dtypes)) > 1:
                raise WrongType(f"source elements are {dtypes[0]}, destination elements {dtypes[1]}")
            dtype = dtypes[0] if dtypes else np.dtype("u1")
            layouts = (plan.source, plan.destination)
            return tuple(
                array.part() if isinstance(array, XArray) else array.part(layout, comm.rank, dtype)
                for array, layout in zip(self._arrays, layouts, strict=True)
            )

        parts = collectively(address, prepare)
        self.plan = plan
        self._core = core().Mover(address, plan, *parts, op or "replace", transport)

    def start(self) -> None:
        """Begin to move; returns without waiting. InvalidState when started already."""
        self._core.start()

    def test(self) -> bool:
        """Do what can be done now; True when complete here. InvalidState when not started."""
        return self._core.test()

    def wait(self, timeout: float | None = None) -> None:
        """Return when the destination is complete here and the source may be overwritten.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which `Timeout` is raised, naming the processes waited for; the mover is
            then still in flight.
        """
        self._core.wait(timeout)

    def __call__(self) -> None:
        """Do start and wait."""
        self._core()

    @property
    def in_flight(self) -> bool:
        """Whether started and not yet complete."""
        return self._core.in_flight

    def explain(self) -> list[dict[str, Any]]:
        """Tell for each pair of this process: transport, elements, bytes, encoding, loops. Local."""
        return self._core.legs()

    def counters(self) -> dict[str, int | float]:
        """Count messages and bytes per round, completed rounds, and seconds spent waiting. Local."""
        return {**self._core.counters(), "extra_bytes": self._core.extra_bytes}

    def free(self) -> None:
        """Give back buffers and references to the arrays. Local. InvalidState in flight."""
        self._core.free()
        self._arrays = ()

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
