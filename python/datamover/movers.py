# SPDX-License-Identifier: BSD-3-Clause
"""How is a plan carried out between two arrays, again and again?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import UserArrays, XArray, number_name
from .errors import InvalidArgument, Mismatch, WrongType
from .mpi import collectively, comm_address, core

if TYPE_CHECKING:
    from mpi4py import MPI

    from ._plan import MotionPlan

    Arrays = (
        XArray | UserArrays | np.ndarray | Mapping[int, np.ndarray] | Sequence[np.ndarray] | None
    )


def _wrapped(arrays: Arrays) -> XArray | UserArrays:
    return arrays if isinstance(arrays, (XArray, UserArrays)) else UserArrays(arrays)


def _communicator(comm: MPI.Comm | None, *arrays: Arrays) -> MPI.Comm:
    if comm is not None:
        return comm
    for array in arrays:
        if isinstance(array, XArray):
            return array.comm
    raise InvalidArgument("comm is needed when neither source nor destination is an XArray")


def _converts(source: np.dtype, destination: np.dtype) -> bool:
    """Tell whether elements can be converted on the way."""
    numbers = "opaque" not in (number_name(source), number_name(destination))
    return numbers and np.can_cast(source, destination, "same_kind")


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
    alpha : number
        Factor of arriving elements.
    beta : number
        Factor of the elements in place, with `op="add"`.
    conjugate : bool
        Whether arriving complex elements are conjugated.
    transport : str
        "auto", or the name of a transport that must carry all that leaves a process.
    check : bool
        Whether to verify, here and in `rebind`, that all processes bring the same plan and options,
        that sizes match for every pair, that no element is written twice (without `op`), and that
        none is read that is written, also through arrays that share memory. The error names
        process, block and region. Where one process asks, all do. Takes time and memory in the
        elements.
    max_bytes : int, optional
        Most bytes of message buffers and staging memory of this process; what does not fit goes in
        rounds, with the same result. `counters()["extra_bytes"]` tells what is used.
    comm : mpi4py.MPI.Comm, optional
        The processes; needed when no array is an `XArray`.

    Raises
    ------
    Mismatch
        Layouts, shapes or numbers of processes that do not fit each other; with `check` also plans
        or options that differ between processes.
    WrongType
        Dtypes that NumPy does not convert under "same_kind" (number types otherwise convert on the
        way, and the narrower crosses the wire), or arithmetic on elements that are no numbers.
    OutOfRange
        A section outside what a block's memory holds (ghosts too shallow).
    InvalidArgument
        A read-only destination, an unknown `op` or transport, a `max_bytes` that leaves no room for
        an element per message; with `check` also an element that is written twice, or read and
        written.
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
        alpha: complex = 1,
        beta: complex = 1,
        conjugate: bool = False,
        check: bool = False,
        max_bytes: int | None = None,
        comm: MPI.Comm | None = None,
    ):
        self._comm = _communicator(comm, source, destination)
        self._address = comm_address(self._comm)
        self.plan = plan
        arrays, parts = self._checked(source, destination)
        self._core = core().Mover(
            self._address,
            plan,
            *parts,
            op or "replace",
            transport,
            alpha,
            beta,
            conjugate,
            check,
            max_bytes or 0,
        )
        self._arrays = arrays  # the memory lives as long as the mover is bound to it

    def _checked(self, source: Arrays, destination: Arrays) -> tuple[tuple, tuple]:
        """Check both arrays on all processes; give them and what the engine binds. Collective."""

        def prepare() -> tuple[tuple, tuple]:
            if self.plan.nprocs != self._comm.size:
                raise Mismatch(
                    f"the plan is for {self.plan.nprocs} processes, "
                    f"the communicator has {self._comm.size}"
                )
            arrays = (_wrapped(source), _wrapped(destination))
            dtypes = [array.dtype for array in arrays if array.dtype is not None]
            if len(set(dtypes)) > 1 and not _converts(*dtypes):
                raise WrongType(
                    f"source elements are {dtypes[0]}, destination elements {dtypes[1]}: "
                    'NumPy does not convert these under "same_kind"'
                )
            dtype = dtypes[0] if dtypes else np.dtype("u1")
            layouts = (self.plan.source, self.plan.destination)
            rank = self._comm.rank
            return arrays, tuple(
                array.part() if isinstance(array, XArray) else array.part(layout, rank, dtype)
                for array, layout in zip(arrays, layouts, strict=True)
            )

        return collectively(self._address, prepare)

    def rebind(self, source: Arrays, destination: Arrays) -> None:
        """Go over to other arrays of the same plan, without planning again. Collective.

        Errors are those of making a mover, after which it is bound as before; InvalidState in
        flight.
        """
        arrays, parts = self._checked(source, destination)
        self._core.rebind(*parts)
        self._arrays = arrays

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
        """Tell for each pair here: transport, elements, bytes, encoding, loops. Local."""
        return self._core.legs()

    def counters(self) -> dict[str, int | float]:
        """Count messages and bytes per round, rounds, and seconds spent waiting. Local."""
        return {**self._core.counters(), "extra_bytes": self._core.extra_bytes}

    def free(self) -> None:
        """Give back buffers and references to the arrays. Local. InvalidState in flight."""
        self._core.free()
        self._arrays = ()

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
