# SPDX-License-Identifier: BSD-3-Clause
"""How does every single element get to its process, and how does it come back?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import element_dtype
from .errors import InvalidArgument, Mismatch, WrongType
from .mpi import collectively, comm_address, core
from .targets import TargetMap

if TYPE_CHECKING:
    from mpi4py import MPI

    Targets = ArrayLike | tuple[ArrayLike, ArrayLike]

#: How elements can be carried: ours, and the paper's.
METHODS = ("auto", "partition", "alltoallv", "alltoallw", "sendrecv")


class _TargetArray:
    """Target ranks in memory: one per element, a table of k per element, or lists by rows."""

    def __init__(self, targets: Targets):
        self.row_starts = None
        if isinstance(targets, tuple):
            if len(targets) != 2:
                raise InvalidArgument("targets by rows are a pair (row starts, ranks)")
            starts, targets = targets
            self.row_starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.ranks = np.asarray(targets)
        if self.ranks.size == 0:
            self.ranks = self.ranks.astype(np.int64)
        if self.ranks.dtype.kind not in "iu":
            raise WrongType(f"targets must be integers, not of dtype {self.ranks.dtype}")
        if not self.ranks.dtype.isnative:
            self.ranks = self.ranks.astype(self.ranks.dtype.newbyteorder("="))
        self._shape()

    def _shape(self) -> None:
        if self.row_starts is not None:
            if self.ranks.ndim != 1 or self.row_starts.ndim != 1 or self.row_starts.size == 0:
                raise InvalidArgument("row starts and ranks must have one dimension")
            if self.row_starts[-1] != len(self.ranks):
                raise Mismatch(
                    f"the last row ends at {self.row_starts[-1]}, there are {len(self.ranks)} ranks"
                )
            self.elems, self.per_elem = len(self.row_starts) - 1, 1
        elif self.ranks.ndim == 1:
            self.elems, self.per_elem = len(self.ranks), 1
        elif self.ranks.ndim == 2 and self.ranks.shape[1] > 0:
            self.elems, self.per_elem = self.ranks.shape
            self.ranks = np.ascontiguousarray(self.ranks).reshape(-1)
        else:
            raise InvalidArgument(
                f"targets have shape {self.ranks.shape}; it must be (n,) or (n, k) with k > 0"
            )

    @property
    def stride_bytes(self) -> int:
        return self.ranks.strides[0] if len(self.ranks) else self.ranks.itemsize


class _Column:
    """An array of which the first dimension counts elements."""

    def __init__(self, array: ArrayLike, elems: int, what: str = "column"):
        array = np.asarray(array)
        element_dtype(array.dtype)
        if array.ndim == 0 or len(array) != elems:
            raise Mismatch(f"a {what} has shape {array.shape}, there are {elems} elements")
        if array.size and not array[0].flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape[1:]
        self.elem_bytes = array.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        if self.elem_bytes == 0:
            raise WrongType(f"elements of shape {self.shape} have no bytes")

    @property
    def described(self) -> tuple[int, int, int]:
        stride = self.array.strides[0] if len(self.array) else self.elem_bytes
        return (self.array.__array_interface__["data"][0], self.elem_bytes, stride)

    def view(self, raw: np.ndarray, elems: int) -> np.ndarray:
        """View pooled bytes as elements like those of this column."""
        return raw[: elems * self.elem_bytes].view(self.dtype).reshape(elems, *self.shape)


def _writable(array: np.ndarray, like: _Column, elems: int) -> tuple[int, int]:
    """Describe memory that results are written to."""
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != like.dtype
        or array.shape[1:] != like.shape
    ):
        raise WrongType(f"out must be an array of {like.dtype} with elements of shape {like.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidArgument("out must be contiguous and writable")
    if len(array) < elems:
        raise Mismatch(f"out has room for {len(array)} elements, {elems} are needed")
    return array.__array_interface__["data"][0], array.nbytes


class Distribution:
    """A plan that takes every element to the process of its rank: built once, used again and again.

    Elements arrive ordered by source process, and those of one source in the order they had there
    (the stable order of the paper). Each is copied once on a node; no index travels with the data.
    Collective to make: reads every rank once, exchanges counts, and keeps one byte per target (two
    from 256 processes on).

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The processes.
    ranks : array_like of int, (n,) or (n, k), or pair of array_like of int
        The target rank of each of this process's n elements; -1 drops. With k ranks per element, or
        rows as in CSR (`(row_starts, ranks)` with n + 1 row starts), elements are duplicated.
    method : {"auto", "partition", "alltoallv", "alltoallw", "sendrecv"}
        How to carry: "partition" is ours and what "auto" takes, the others are the paper's; the
        result is the same.
    max_bytes : int, optional
        Extra memory for elements on their way ("partition" only); it works in rounds then.

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
        self, comm: MPI.Comm, ranks: Targets, *, method: str = "auto", max_bytes: int | None = None
    ):
        address = comm_address(comm)

        def prepare() -> _TargetArray:
            if method not in METHODS:
                raise InvalidArgument(f"method {method!r} is none of {', '.join(METHODS)}")
            return _TargetArray(ranks)

        targets = collectively(address, prepare)
        self.comm = comm
        self.method = method
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
            The elements that arrive, in stable order; `out`, cut to `received`, if it was given.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            Columns or `out` that do not fit, with `out` on every process.
        """
        if out is not None:
            given = [out] if isinstance(out, np.ndarray) else list(out)
            return self._move_into(columns, given)
        listed = [_Column(c, self.elems) for c in columns]
        if self.method not in ("auto", "partition"):
            raw = [self._core.allocate(self.received * c.elem_bytes) for c in listed]
            for column, memory in zip(listed, raw, strict=True):
                place = (memory.__array_interface__["data"][0], memory.nbytes)
                self._core.move_by(self.method, column.described, place)
        else:
            raw = self._core.move([c.described for c in listed])
        moved = tuple(c.view(r, self.received) for c, r in zip(listed, raw, strict=True))
        return moved[0] if len(moved) == 1 else moved

    def _move_into(self, columns: Sequence[ArrayLike], out: Sequence[np.ndarray]) -> Any:
        def prepare() -> tuple[list[_Column], list[tuple[int, int]]]:
            if len(out) != len(columns):
                raise Mismatch(f"{len(columns)} columns and {len(out)} arrays as out")
            listed = [_Column(c, self.elems) for c in columns]
            pairs = zip(out, listed, strict=True)
            return listed, [_writable(o, c, self.received) for o, c in pairs]

        listed, places = collectively(comm_address(self.comm), prepare)
        if self.method not in ("auto", "partition"):
            for column, place in zip(listed, places, strict=True):
                self._core.move_by(self.method, column.described, place)
        else:
            self._core.move_into([c.described for c in listed], places)
        moved = tuple(array[: self.received] for array in out)
        return moved[0] if len(moved) == 1 else moved

    def move_in_place(self, buffer: np.ndarray) -> np.ndarray:
        """Replace the first `elems` elements of a buffer by those that arrive. Collective.

        Arrivals take the places of elements that left, then follow at the end; the order among the
        elements that stay is kept. Only what leaves and arrives is moved.

        Parameters
        ----------
        buffer : ndarray
            Contiguous, with room for `elems` and for `received` elements.

        Returns
        -------
        ndarray
            The first `received` elements of `buffer`.

        Raises
        ------
        Mismatch
            On every process, and nothing has moved: too little room on some process.
        Unsupported
            For several targets per element.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [0, -1, 0])
        >>> d.move_in_place(np.array([5, 6, 7]))
        array([5, 7])
        """

        def prepare() -> _Column:
            if len(buffer) < self.elems:
                raise Mismatch(f"the buffer has {len(buffer)} elements, {self.elems} are given")
            column = _Column(buffer, len(buffer), "buffer")
            _writable(buffer, column, 0)
            return column

        column = collectively(comm_address(self.comm), prepare)
        self._core.move_in_place(column.described[0], column.elem_bytes, len(buffer))
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

        def prepare() -> tuple[_Column, np.ndarray]:
            column = _Column(values, self.received, "column of values")
            result = out
            if result is None:
                result = column.view(
                    self._core.allocate(self.elems * column.elem_bytes), self.elems
                )
            if op not in (None, "add", "multiply", "min", "max"):
                raise InvalidArgument(f"op {op!r} is none of add, multiply, min, max")
            return column, result, _writable(result, column, self.elems)

        column, result, place = collectively(comm_address(self.comm), prepare)
        self._core.reverse(column.described, place, op or "replace", column.dtype.str)
        return result[: self.elems]

    def counters(self) -> dict[str, int]:
        """Count elements kept, sent and dropped, messages and extra bytes of the last. Local."""
        return self._core.counters()


def distribute(
    comm: MPI.Comm,
    elements: np.ndarray,
    target: str | Targets | TargetMap,
    *,
    method: str = "auto",
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
    target : str, array_like of int, pair of array_like of int, or target map
        A field of the elements that holds ranks; ranks as for `Distribution`; or a map of
        `datamover.targets`.
    method, max_bytes
        As for `Distribution`.
    out : ndarray, optional
        As for `Distribution.move`.

    Returns
    -------
    ndarray
        The elements whose target is this process, ordered by source process and then as they were
        there.

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
        given = _TargetArray(target)
        if given.elems != len(array):
            raise Mismatch(f"targets for {given.elems} elements were given, there are {len(array)}")
        return target

    ranks = collectively(address, ranks_of)
    d = Distribution(comm, ranks, method=method, max_bytes=max_bytes)
    return d.move(elements, out=out)
