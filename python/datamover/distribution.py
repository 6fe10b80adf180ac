# SPDX-License-Identifier: BSD-3-Clause
"""How does every single element get to its process, and how does it come back?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .element_arrays import Column, TargetArray, writable
from .errors import Error, InvalidArgument, Mismatch
from .layouts import IndexList
from .mpi import collectively, comm_address, core
from .targets import TargetMap

if TYPE_CHECKING:
    from mpi4py import MPI

    Targets = ArrayLike | tuple[ArrayLike, ArrayLike]

#: How elements can be carried: ours, and the paper's.
METHODS = ("auto", "partition", "alltoallv", "alltoallw", "sendrecv", "sort")
#: What an element's target can be computed by: all elements of a process to as many ranks.
TargetFunction = Callable[[np.ndarray], ArrayLike]

Result = TypeVar("Result")


class Distribution:
    """A plan that takes every element to the process of its rank: built once, used again and again.

    Collective to make: reads every rank once, exchanges counts, and keeps one byte per target (two
    from 256 processes on). On a node each element is then copied once; no index travels with the
    data.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The processes.
    ranks : array_like of int, (n,) or (n, k), or pair of array_like of int
        The target rank of each of this process's n elements; -1 drops. With k ranks per element, or
        rows as in CSR (`(row_starts, ranks)` with n + 1 row starts), elements are duplicated.
    method : {"auto", "partition", "alltoallv", "alltoallw", "sendrecv", "sort"}
        How to carry: "partition" is ours, the others are the paper's. "auto" takes "partition", or
        "alltoallv" or "sendrecv" where one of them was faster by a tenth when this communicator was
        first used with "auto"; `explain` tells.
    stable : bool
        Elements arrive ordered by source process, and those of one source in the order they had
        there (the paper's definition). False lets "sendrecv" and "sort" deliver in any order.
    max_bytes : int, optional
        Extra memory for elements on their way, on this process; it works in rounds then. Not for
        "sort", except in place.

    Raises
    ------
    OutOfRange
        On every process: some process has a rank outside the communicator; names it and its first
        such element.
    WrongType, InvalidArgument, Mismatch
        On every process: ranks that are no integers, or rows that do not fit.

    Notes
    -----
    Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> d = dm.Distribution(MPI.COMM_SELF, [0, -1, 0])
    >>> d.move(np.array([1.5, 2.5, 3.5]))
    array([1.5, 3.5])
    >>> d.reverse(np.array([10.0, 30.0]))
    array([10.,  0., 30.])
    """

    def __init__(
        self,
        comm: MPI.Comm,
        ranks: Targets,
        *,
        method: str = "auto",
        stable: bool = True,
        max_bytes: int | None = None,
    ):
        address = comm_address(comm)

        def prepare() -> TargetArray:
            if method not in METHODS:
                raise InvalidArgument(f"method {method!r} is none of {', '.join(METHODS)}")
            return TargetArray(ranks)

        targets = collectively(address, prepare)
        self.comm = comm
        self.method = method
        self.stable = bool(stable)
        self._core = core().Distribution(
            address,
            targets.elems,
            targets.ranks.__array_interface__["data"][0],
            targets.ranks.dtype.str,
            targets.stride_bytes,
            targets.per_elem,
            targets.row_starts,
            max_bytes or 0,
        )

    def _prepared(self, work: Callable[[], Result]) -> Result:
        """Run `work` before a collective call; what it raises all processes raise in that call."""
        try:
            return work()
        except Error as error:
            self._core.refuse(error.code, str(error))
            raise

    @property
    def elems(self) -> int:
        """How many elements this process gives."""
        return self._core.elems

    @property
    def received(self) -> int:
        """How many elements arrive here."""
        return self._core.received

    @property
    def send_counts(self) -> np.ndarray:
        """Elements from here to each rank."""
        return self._core.send_counts()

    @property
    def receive_counts(self) -> np.ndarray:
        """Elements from each rank to here."""
        return self._core.receive_counts()

    def move(
        self, *columns: ArrayLike, out: np.ndarray | Sequence[np.ndarray] | None = None
    ) -> Any:
        """Move any number of columns, one message per pair of processes. Collective.

        Parameters
        ----------
        *columns : array_like
            Arrays whose first dimension counts this process's elements; any dtype of fixed size.
        out : ndarray or sequence of ndarray, optional
            Where the results go: contiguous, with room for `received` elements. Results of earlier
            calls are the fastest, since other processes reach them. Without it results lie in
            memory of a pool, which is used again when they are gone.

        Returns
        -------
        ndarray or tuple of ndarray
            The elements that arrive; `out`, cut to `received`, if it was given.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process, and nothing has moved: columns or `out` that do not fit, on any of
            them; elements of another size than on other processes.
        """
        given = None if out is None else [out] if isinstance(out, np.ndarray) else list(out)

        def prepare() -> tuple[list[Column], list[tuple[int, int]]]:
            listed = [Column(c, self.elems) for c in columns]
            if given is None:
                return listed, []
            if len(given) != len(columns):
                raise Mismatch(f"{len(columns)} columns and {len(given)} arrays as out")
            pairs = zip(given, listed, strict=True)
            return listed, [writable(o, c, self.received) for o, c in pairs]

        listed, places = self._prepared(prepare)
        described = [c.described for c in listed]
        if given is None:
            raw = self._core.move(described, self.method, self.stable)
            moved = tuple(c.view(r, self.received) for c, r in zip(listed, raw, strict=True))
        else:
            self._core.move_into(described, places, self.method, self.stable)
            moved = tuple(array[: self.received] for array in given)
        return moved[0] if len(moved) == 1 else moved

    def move_in_place(self, buffer: np.ndarray, *, stable: bool = False) -> np.ndarray:
        """Replace the first `elems` elements of a buffer by those that arrive. Collective.

        By "partition", which is what "auto" takes as a rule, arrivals take the places of elements
        that left, then follow at the end: only what leaves and arrives is moved and takes extra
        memory. Both keep the order among the elements that stay. "sort" and "alltoallv" take as
        extra memory 1024 elements (4 per process where that is more) or `max_bytes`, and without
        `stable` leave any order.

        Parameters
        ----------
        buffer : ndarray
            Contiguous, with room for `elems` and for `received` elements.
        stable : bool
            Whether all elements shall be in the order that `move` gives.

        Returns
        -------
        ndarray
            The first `received` elements of `buffer`.

        Raises
        ------
        Mismatch
            On every process, and nothing has moved: too little room on some process.
        Unsupported
            For several targets per element; by "alltoallw" and "sendrecv".

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [0, -1, 0], method="partition")
        >>> d.move_in_place(np.array([5, 6, 7]))
        array([5, 7])
        """

        def prepare() -> Column:
            if len(buffer) < self.elems:
                raise Mismatch(f"the buffer has {len(buffer)} elements, {self.elems} are given")
            column = Column(buffer, len(buffer), "buffer")
            writable(buffer, column, 0)
            return column

        column = self._prepared(prepare)
        self._core.move_in_place(
            column.described[0], column.elem_bytes, len(buffer), self.method, bool(stable)
        )
        return buffer[: self.received]

    def reverse(
        self, values: ArrayLike, op: str | None = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Take values of the received elements home, in the original order. Collective.

        Parameters
        ----------
        values : array_like
            One per received element, in the order of arrival.
        op : {None, "add", "multiply", "min", "max"}
            How the values of an element with several targets are combined, in their order; None:
            the last one stays.
        out : ndarray, optional
            Where the result goes: contiguous, with room for `elems` elements.

        Returns
        -------
        ndarray
            One value per element of this process; 0 for those without a target.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process: values or `out` that do not fit, an unknown `op`.
        """

        def prepare() -> tuple[Column, np.ndarray]:
            column = Column(values, self.received, "column of values")
            result = out
            if result is None:
                result = column.view(
                    self._core.allocate(self.elems * column.elem_bytes), self.elems
                )
            if op not in (None, "add", "multiply", "min", "max"):
                raise InvalidArgument(f"op {op!r} is none of add, multiply, min, max")
            return column, result, writable(result, column, self.elems)

        column, result, place = self._prepared(prepare)
        self._core.reverse(column.described, place, op or "replace", column.dtype.str)
        return result[: self.elems]

    def layouts(self) -> tuple[IndexList, IndexList]:
        """Give where all elements lie before and after, as layouts. Collective.

        With them a distribution is a plan as any other, `redistribute(*d.layouts())`: it can be
        reversed, carried by a `Mover` with an `op` on any transport, and what has arrived has a
        layout from which other plans go on. It takes memory for every element of all processes on
        each of them, which the distribution itself does not.

        Returns
        -------
        source, destination : IndexList
            Over numbers of elements, counted through all processes in order of rank.

        Raises
        ------
        InvalidArgument
            An element has the same target twice.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import datamover as dm
        >>> source, destination = dm.Distribution(MPI.COMM_SELF, [0, -1, 0]).layouts()
        >>> source.indices_of(0).tolist(), destination.indices_of(0).tolist()
        ([0, 1, 2], [0, 2])
        """
        counts = self.comm.allgather(self.elems)
        starts = np.concatenate(([0], np.cumsum(counts)))
        first = int(starts[self.comm.rank])
        arrived = self._core_moved(np.arange(first, first + self.elems))
        lists = [np.arange(a, b) for a, b in itertools.pairwise(starts.tolist())]
        shape = (int(starts[-1]),)
        return IndexList(shape, lists), IndexList(shape, self.comm.allgather(arrived))

    def _core_moved(self, numbers: np.ndarray) -> np.ndarray:
        """Move numbers in stable order, whatever was asked for."""
        column = Column(numbers, self.elems)
        raw = self._core.move([column.described], "partition", True)[0]
        return column.view(raw, self.received).copy()

    def explain(self, elem_bytes: int = 8) -> dict[str, Any]:
        """Tell what carries elements of a size, and why. Collective.

        Parameters
        ----------
        elem_bytes : int
            Bytes of one element.

        Returns
        -------
        dict
            `method` and `in_place`: what `move` and `move_in_place` are carried by; `measured`:
            (method, in place, element bytes, seconds) of each sample that "auto" chooses from,
            measured once per communicator; empty where another method was asked for. "alltoallv"
            is among them where MPI has 64-bit counts (MPI 4).

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [0, 0], method="sort")
        >>> d.explain()
        {'method': 'sort', 'in_place': 'sort', 'measured': []}
        >>> measured = dm.Distribution(MPI.COMM_SELF, [0]).explain()["measured"]
        >>> {"partition", "sendrecv"} <= {method for method, *_ in measured}
        True
        """
        if self.method != "auto":
            return {"method": self.method, "in_place": self.method, "measured": []}
        return {
            "method": self._core.chosen_method(elem_bytes, False),
            "in_place": self._core.chosen_method(elem_bytes, True),
            "measured": self._core.measured_methods(),
        }

    def counters(self) -> dict[str, Any]:
        """Count elements kept, sent and dropped, messages and extra bytes of the last. Local."""
        return self._core.counters()


def distribute(
    comm: MPI.Comm,
    elements: np.ndarray,
    target: str | Targets | TargetMap | TargetFunction,
    *,
    method: str = "auto",
    stable: bool = True,
    out: np.ndarray | None = None,
    max_bytes: int | None = None,
) -> np.ndarray:
    """Take every element to its process, once. Collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The processes.
    elements : ndarray
        The first dimension counts elements; any dtype of fixed size, structured ones too.
    target : str, array_like of int, pair of array_like of int, target map or function
        A field of the elements that holds ranks; ranks as for `Distribution`; a map of
        `datamover.targets`; or a function that is called once, with `elements`, and returns ranks.
    method, stable, max_bytes
        As for `Distribution`.
    out : ndarray, optional
        As for `Distribution.move`.

    Returns
    -------
    ndarray
        The elements whose target is this process; if `stable`, ordered by source process and then
        as they were there.

    Raises
    ------
    OutOfRange
        On every process: a target outside the communicator.
    WrongType, InvalidArgument, Mismatch
        On every process: targets that do not fit the elements.

    Notes
    -----
    Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
    sections 3 and 4 (`MPI_Alltoall_specific`).

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> particles = np.array([(0.5, 0), (1.5, -1)], dtype=[("x", "f8"), ("tproc", "i4")])
    >>> dm.distribute(MPI.COMM_SELF, particles, target="tproc")["x"]
    array([0.5])
    >>> dm.distribute(MPI.COMM_SELF, np.arange(6), target=lambda x: np.where(x % 2, 0, -1))
    array([1, 3, 5])
    """
    address = comm_address(comm)

    def ranks_of() -> Targets:
        array = np.asarray(elements)
        if array.ndim == 0:
            raise InvalidArgument("elements must have at least one dimension")
        if isinstance(target, str):
            if array.dtype.names is None or target not in array.dtype.names:
                raise InvalidArgument(f"elements of {array.dtype} have no field {target!r}")
            return array[target]
        if isinstance(target, TargetMap):
            return target.ranks(array, comm.size)
        if callable(target):
            return checked(_called(target, array), array)
        return checked(target, array)

    def checked(targets: Targets, array: np.ndarray) -> Targets:
        given = TargetArray(targets)
        if given.elems != len(array):
            raise Mismatch(f"targets for {given.elems} elements were given, there are {len(array)}")
        return targets

    ranks = collectively(address, ranks_of)
    d = Distribution(comm, ranks, method=method, stable=stable, max_bytes=max_bytes)
    return d.move(elements, out=out)


def _called(target: TargetFunction, elements: np.ndarray) -> ArrayLike:
    """Ask a user's function; whatever it raises becomes an error that all processes hear of."""
    try:
        return target(elements)
    except Error:
        raise
    except Exception as error:
        raise InvalidArgument(f"the function for targets raised {error!r}") from error
