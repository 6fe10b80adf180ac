# SPDX-License-Identifier: BSD-3-Clause
"""Migrations: send single elements to their target processes, and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from . import notebook
from .arguments import as_array, byte_count, memory_limit, operation, seconds, word
from .collective_calls import agreeing, refused_by
from .counted import counted
from .dlpack import array_of
from .element_arrays import Column, Moving, TargetArray, is_several, writable
from .errors import Error, InvalidArgument, InvalidState, Mismatch, OutOfRange, WrongType
from .layouts import IndexList
from .mover_pairs import table
from .mpi import Refusing, collectively, comm_address, core, gathered, join_as_failed, told
from .targets import NO_TARGET, TargetMap, field_of

if TYPE_CHECKING:
    from mpi4py import MPI

    Targets = ArrayLike | tuple[ArrayLike, ArrayLike]

#: Computes the targets of all elements of a process: one rank each.
TargetFunction = Callable[[np.ndarray], ArrayLike]


def _refuse(given: tuple[Any, ...], _: Any, error: BaseException) -> NoReturn:
    """Raise an error of a collective call of a migration on all processes."""
    join_as_failed(given[0]._core.refuse, error)


def _refuse_start(given: tuple[Any, ...], _: Any, error: BaseException) -> NoReturn:
    """Start a move with an error, which `wait` and `test` then raise on all processes."""
    migration = given[0]
    if migration._moving is None:
        migration._core.start_refused(*told(error))
        migration._moving = error
    raise error


class MigrationMethods(dict):
    """Result of `Migration.explain`; prints as a table.

    Examples
    --------
    >>> measured = [("partition", False, 4, 2.8e-4), ("alltoallv", True, 64, 8.9e-4)]
    >>> MigrationMethods(method="partition", in_place="sort", measured=measured)
    moves by partition, moves in place by sort
    <BLANKLINE>
    tried      in place  element   a round
    partition  no        4 bytes   280.0 us
    alltoallv  yes       64 bytes  890.0 us
    """

    def __repr__(self) -> str:
        words = f"moves by {self['method']}, moves in place by {self['in_place']}"
        rows = [
            (method, "yes" if in_place else "no", f"{nbytes} bytes", f"{seconds * 1e6:.1f} us")
            for method, in_place, nbytes, seconds in self["measured"]
        ]
        head = ("tried", "in place", "element", "a round")
        return f"{words}\n\n{table([head, *rows])}" if rows else words


class Migration:
    """A plan that sends every element to its target rank; built once, used repeatedly.

    Creating it is collective. It reads every rank once, exchanges counts, and stores one byte per
    target (two from 256 processes on). On a node each element is then copied once. No indices are
    sent with the data.

    Parameters
    ----------
    ranks : array_like of int, (n,) or (n, k), or pair of array_like of int
        The target rank of each of this process's n elements; -1 drops an element. With k ranks per
        element, or rows as in CSR (`(row_starts, ranks)` with n + 1 row starts), elements are
        duplicated.
    method : {"auto", "partition", "alltoallv", "alltoallw", "sendrecv", "sort"}
        "partition" is this library's method, the others are the paper's. "auto" uses "partition".
        If the processes do not all share the memory of one node, it uses "alltoallv" or "sendrecv"
        if one of them was faster by a tenth when this communicator was first used with "auto".
        `explain` returns the choice.
    stable : bool
        By default, elements arrive ordered by source process, and those of one source in their
        order there (the paper's definition). False lets "sendrecv" and "sort" deliver in an order
        of their own, the same in all moves of this migration.
    max_bytes : int, optional
        Limits the extra memory for elements in transit on this process, which then works in rounds.
        Not for "sort", except in place.
    comm : mpi4py.MPI.Comm
        The processes.

    Raises
    ------
    OutOfRange
        On every process: a process has a rank outside the communicator. The error names the process
        and its first such element.
    WrongType, InvalidArgument, Mismatch
        On every process: ranks are not integers, or rows do not fit.
    PeerFailed, Timeout
        Another process failed or gave up, or the timeout of `set_timeout` expired. All calls raise
        these.

    Notes
    -----
    Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> d = dm.Migration([0, -1, 0], comm=MPI.COMM_SELF)
    >>> d.move(np.array([1.5, 2.5, 3.5]))
    array([1.5, 3.5])
    >>> d.reverse(np.array([10.0, 30.0]))
    array([10.,  0., 30.])
    """

    @refused_by(agreeing)
    def __init__(
        self,
        ranks: Targets,
        *,
        method: str = "auto",
        stable: bool = True,
        max_bytes: int | None = None,
        comm: MPI.Comm,
    ):
        address = comm_address(comm)

        def prepare() -> tuple[TargetArray, bool, int]:
            word(method, "method")
            return TargetArray(ranks), bool(stable), memory_limit(max_bytes)

        targets, self.stable, limit = collectively(address, prepare)
        self.comm = comm
        # The communicator may be freed before the migration is printed.
        self._place = (comm.rank, comm.size)
        self.method = method
        #: The move that was started and not yet returned; an error if this process could not start.
        self._moving: Any = None  # a Moving, or the error that `wait` has to raise
        self._core = core().Distribution(
            address,
            targets.elems,
            targets.ranks.__array_interface__["data"][0],
            targets.ranks.dtype.str,
            targets.stride_bytes,
            targets.per_elem,
            targets.row_starts,
            limit,
            self.method,
            self.stable,
        )

    def __del__(self) -> None:
        """Give up a move in flight while its arrays still exist."""
        self.__dict__.pop("_core", None)

    @property
    def elems(self) -> int:
        """Number of elements of this process, including dropped ones."""
        return self._core.elems

    @property
    def received(self) -> int:
        """Number of elements that arrive here."""
        return self._core.received

    @property
    def send_counts(self) -> np.ndarray:
        """Elements from here to each rank."""
        return self._core.send_counts()

    @property
    def receive_counts(self) -> np.ndarray:
        """Elements from each rank to here."""
        return self._core.receive_counts()

    @refused_by(_refuse)
    def move(self, *columns: Any, out: Any = None) -> Any:
        """Move any number of columns, one message per pair of processes. Collective.

        Parameters
        ----------
        *columns : array_like, or one list, tuple or mapping of ndarray
            Arrays whose first dimension counts this process's elements; any dtype of fixed size,
            the same on all processes. All arrive in the same order.
        out : ndarray, sequence or mapping of ndarray, optional
            The destination of each column (by its key in a mapping): contiguous, with room
            for `received` elements, in separate memory. Results of earlier calls are the fastest,
            because other processes can access them. By default, results are in memory of a pool,
            which is reused when they no longer exist.

        Returns
        -------
        ndarray, or tuple, list or dict of ndarray
            The arrived elements in the form of the columns: one array for one, a tuple for
            several or for a tuple, a list for a list, a dict for a mapping. If `out` was passed,
            `out` cut to `received`.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process, and nothing has moved: on one of them, a column or `out` does not fit,
            an `out` overlaps a column or another `out`, or elements have another size or dtype than
            on the others.
        InvalidState
            On every process: a move that was started is in flight on one of them.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Migration([0, -1, 0], comm=MPI.COMM_SELF)
        >>> d.move({"x": np.array([1.5, 2.5, 3.5]), "id": np.arange(3)})
        {'x': array([1.5, 3.5]), 'id': array([0, 2])}
        """
        with Refusing(self._core.refuse):
            moving = Moving((self.elems, self.received), columns, out)
        moving.raw = self._core.move(*moving.arguments)
        return moving.results()

    @refused_by(_refuse_start)
    def start(self, *columns: Any, out: Any = None) -> None:
        """Start a move, by "partition" in stable order, without waiting for others. Collective.

        With a `progress_thread` the move progresses by itself, otherwise in every `test` and `wait`
        of the library. Until `wait` or `test` reports that it is complete, do not change the
        columns and do not access `out`. One move of a migration can be in flight, and eight of
        a communicator: if the move that was started eight calls earlier is not complete, it is
        completed first. All processes must start moves in the same order. They can wait for them
        in any order.

        Parameters
        ----------
        *columns, out
            As for `move`.

        Raises
        ------
        InvalidState
            A move of this migration is in flight.

        Notes
        -----
        If an argument does not fit on some process, `wait` or `test` raises on all of them.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Migration([0, -1, 0], comm=MPI.COMM_SELF)
        >>> d.start(np.array([1.5, 2.5, 3.5]))
        >>> d.wait()
        array([1.5, 3.5])
        """
        if self._moving is not None:
            raise InvalidState("a move of this migration is in flight; wait for it first")
        moving: Moving | Exception
        with Refusing(self._core.refuse):
            try:
                moving = Moving((self.elems, self.received), columns, out)
            except Exception as error:
                moving = error
        try:
            self._moving = moving  # first, so that the columns stay alive after an interrupt
            if isinstance(moving, Exception):
                self._core.start_refused(*told(moving))
            else:
                moving.raw = self._core.start(*moving.arguments)
        finally:
            if not self._core.in_flight:
                self._moving = None

    def test(self) -> bool:
        """Make progress on the move that was started; return whether it is complete.

        If so, `wait` returns the results at once. Raises the errors of `wait`.
        """
        return self._complete(lambda: self._core.test())

    def wait(self, timeout: float | None = None) -> Any:
        """Complete the move that was started, and return what `move` returns.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which `Timeout` is raised; by default that of `set_timeout`. The move is
            then still in flight, and you can wait again.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument, Unsupported
            On every process, and nothing has moved: an argument of `start` does not fit on one.
        InvalidState
            Nothing was started.
        PeerFailed
            Another process has failed.
        """
        limit = seconds(timeout)
        self._complete(lambda: self._core.wait(limit))
        results = self._moving.results()
        self._moving = None  # last, so that after an earlier interrupt `wait` can be called again
        return results

    def _complete(self, work: Callable[[], bool | None]) -> bool:
        """Test or wait for the move that was started, unless it is complete.

        After an interrupt at any line, the next call returns the results or raises the error.
        """
        moving = self._moving
        if moving is None:
            raise InvalidState("nothing was started; call start first")
        if self._core.in_flight:
            try:
                return work() is not False
            except Error as error:
                moving.failure = error
                if self._core.in_flight:
                    raise
        failure = getattr(moving, "failure", None)
        if failure is None:
            return True
        self._moving = None
        raise failure from (moving if isinstance(moving, Exception) else None)

    @property
    def in_flight(self) -> bool:
        """Whether a move was started and is not complete here."""
        return self._core.in_flight

    @refused_by(_refuse)
    def move_in_place(self, buffer: np.ndarray, *, stable: bool = False) -> np.ndarray:
        """Replace the first `elems` elements of a buffer by those that arrive. Collective.

        With "partition", the usual choice of "auto", arrivals take the places of elements that
        left, then follow at the end. Only elements that leave and arrive are moved and take extra
        memory, and the elements that stay keep their order. "sort" and "alltoallv" take extra
        memory for 1024 elements (4 per process if that is more) or `max_bytes`; without `stable`
        the order is arbitrary.

        Parameters
        ----------
        buffer : ndarray
            Contiguous, with room for `elems` and for `received` elements.
        stable : bool
            Whether all elements must be in the order of `move`.

        Returns
        -------
        ndarray
            The first `received` elements of `buffer`.

        Raises
        ------
        Mismatch
            On every process, and nothing has moved: the buffer of some process is too small.
        Unsupported
            An element has several targets, or the method is "alltoallw" or "sendrecv".

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Migration([0, -1, 0], method="partition", comm=MPI.COMM_SELF)
        >>> d.move_in_place(np.array([5, 6, 7]))
        array([5, 7])
        """
        with Refusing(self._core.refuse):
            array = array_of(buffer, "buffer")
            if not isinstance(array, np.ndarray) or array.ndim == 0:
                raise WrongType(
                    f"buffer, a {type(buffer).__name__}, must be an array with a first dimension"
                )
            column = Column(array, len(array), "buffer")
            writable(array, column, 0, "buffer")
            if len(array) < self.elems:
                raise Mismatch(
                    f"the buffer has {len(array)} elements; the migration has {self.elems}"
                )
            in_order = bool(stable)
        self._core.move_in_place(column.described, len(array), self.method, in_order)
        return array[: self.received]

    @refused_by(_refuse)
    def reverse(
        self, values: Any, op: Any = None, out: Any = None, *, after: str | None = None
    ) -> Any:
        """Send values of the received elements back, in the original order. Collective.

        Parameters
        ----------
        values : array_like, or list, tuple or mapping of ndarray
            One per received element, in the order of arrival. Pass several arrays as one list,
            tuple or mapping.
        op : {None, "add", "multiply", "min", "max"}, ufunc or MPI.Op
            How to combine the values of an element with several targets, in their order. By
            default, the last one stays.
        out : ndarray, sequence or mapping of ndarray, optional
            Destination of the results: contiguous, with room for `elems` elements, in separate
            memory.
        after : {None, "move", "move_in_place"}
            The call, the last of its kind, by which the elements have arrived. Required if calls
            delivered in different orders; calls in stable order do not.

        Returns
        -------
        ndarray, or tuple, list or dict of ndarray
            One value per element of this process, for each array; 0 for those without a target.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process: values or `out` do not fit, `op` is unknown, or an `out` overlaps
            values or another `out`.
        InvalidState
            On every process: calls delivered in different orders, and `after` is missing.

        Notes
        -----
        After moves with `stable=False`, and in place without `stable`, the first call moves labels
        to determine the order of arrival. This takes 40 bytes per element during the call, of which
        8 are kept.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Migration([-1, 0, 0], comm=MPI.COMM_SELF)
        >>> buffer = np.array([1.5, 2.5, 3.5])
        >>> d.reverse(d.move_in_place(buffer) * 10)
        array([ 0., 25., 35.])
        """
        with Refusing(self._core.refuse):
            if isinstance(op, np.ndarray | list | tuple | Mapping):
                raise InvalidArgument(
                    f"op is of type {type(op).__name__}; pass several arrays as one list, tuple or "
                    "mapping"
                )
            combine = operation(op)
            if after not in (None, "move", "move_in_place"):
                raise InvalidArgument(f'after={after!r} is neither "move" nor "move_in_place"')
            back = (self.received, self.elems)
            moving = Moving(back, (values,), out, "column of values", self._core.allocate)
        self._core.reverse(*moving.arguments, combine, after or "")
        return moving.results()

    @refused_by(_refuse)
    def layouts(self) -> tuple[IndexList, IndexList]:
        """Return the layouts of all elements before and after the move. Collective.

        With them, `redistribute(*d.layouts())` is an ordinary plan: it can be reversed, executed by
        a `Mover` with an `op` on any transport, and the arrived elements have a layout for
        further plans. Each process needs memory for every element of all processes, unlike for the
        distribution itself.

        Returns
        -------
        source, destination : IndexList
            Over numbers of elements, counted through all processes in order of rank.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import datamover as dm
        >>> source, destination = dm.Migration([0, -1, 0], comm=MPI.COMM_SELF).layouts()
        >>> source.indices_of(0).tolist(), destination.indices_of(0).tolist()
        ([0, 1, 2], [0, 2])
        """
        with Refusing(self._core.refuse):
            address = comm_address(self.comm)
        column = Column(np.arange(self.elems), self.elems)  # moved in stable order in any case
        moved = self._core.move_stably(column.described)
        arrived = column.view(moved, self.received).copy()
        counts = np.concatenate(gathered(address, [self.elems]))
        starts = np.concatenate(([0], np.cumsum(counts)))
        arrived += np.repeat(starts[:-1], self.receive_counts)  # in stable order: by source
        lists = [np.arange(a, b) for a, b in itertools.pairwise(starts.tolist())]
        shape = (int(starts[-1]),)
        return IndexList(shape, lists), IndexList(shape, gathered(address, arrived))

    @refused_by(_refuse)
    def explain(self, elem_bytes: int = 8) -> dict[str, Any]:
        """Return the methods for elements of a size. Collective.

        Parameters
        ----------
        elem_bytes : int
            Bytes of one element.

        Returns
        -------
        dict
            Prints as a table. `method` and `in_place`: the methods of `move` and `move_in_place`;
            `measured`: (method, in place, element bytes, seconds) of each sample that "auto"
            chooses from, measured once per communicator. It is empty for other methods, and if all
            processes share the memory of one node. "alltoallv" is among them if MPI has 64-bit
            counts (MPI 4).

        Raises
        ------
        WrongType, InvalidArgument
            On every process, if `elem_bytes` of one of them is not an integer of at least 1.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import datamover as dm
        >>> dm.Migration([0, 0], method="sort", comm=MPI.COMM_SELF).explain()
        moves by sort, moves in place by sort
        >>> dm.Migration([0, 0], comm=MPI.COMM_SELF).explain()  # all processes on one node
        moves by partition, moves in place by partition
        """
        with Refusing(self._core.refuse):
            size = byte_count(elem_bytes, "elem_bytes")
        return MigrationMethods(
            method=self._core.chosen_method(size, False),
            in_place=self._core.chosen_method(size, True),
            measured=self._core.measured_methods(),
        )

    def counters(self) -> dict[str, Any]:
        """Return counters: elements, and messages and extra bytes of the last move. Local."""
        return self._core.counters()

    def __repr__(self) -> str:
        counters = self.counters()
        rank, nprocs = self._place
        return (
            f"Migration(process {rank} of {nprocs}: keeps "
            f"{counted(counters['elems_kept'], 'element')}, sends {counters['elems_sent']:,}, "
            f"drops {counters['elems_dropped']:,}, receives {self.received:,}; "
            f"method {self.method!r})"
        )

    def _repr_html_(self) -> str:
        sent, received = self.send_counts, self.receive_counts
        peers = np.flatnonzero(sent + received)
        largest = peers[np.argsort(-(sent + received)[peers], kind="stable")][: notebook.SHOWN]
        rank, nprocs = self._place
        caption = (
            f"Migration, process {rank} of {nprocs}: gives {self.elems} "
            f"elements, receives {self.received}, drops {self.counters()['elems_dropped']}"
        )
        rows = ((rank, sent[rank], received[rank]) for rank in largest)
        head = ("process", "elements to it", "elements from it")
        return notebook.html_table(caption, head, rows, notebook.others(len(peers), "processes"))


@refused_by(agreeing)
def migrate(
    elements: Any,
    target: str | Targets | TargetMap | TargetFunction,
    *,
    method: str = "auto",
    stable: bool = True,
    out: Any = None,
    max_bytes: int | None = None,
    comm: MPI.Comm,
) -> Any:
    """Send every element to its target process, once. Collective.

    Parameters
    ----------
    elements : array_like, or list, tuple or mapping of ndarray
        The first dimension counts elements; any dtype of fixed size, including structured types.
        Several arrays are moved together, with the same elements in each.
    target : str, array_like of int, pair of array_like of int, target map or function
        The name of a field of the elements, or of one of several arrays, with the ranks; ranks as
        for `Migration`; a map of `datamover.targets`; or a function that is called once, with
        `elements`, and returns ranks.
    method, stable, max_bytes
        As for `Migration`.
    out : ndarray, optional
        As for `Migration.move`.
    comm : mpi4py.MPI.Comm
        The processes.

    Returns
    -------
    ndarray, or tuple, list or dict of ndarray
        The elements whose target is this process, in the form of `elements`. If `stable`, they are
        ordered by source process and then by their order there.

    Raises
    ------
    OutOfRange
        On every process: a target is outside the communicator.
    WrongType, InvalidArgument, Mismatch
        On every process: targets do not fit the elements.

    Notes
    -----
    Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
    sections 3 and 4 (`MPI_Alltoall_specific`).

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> particles = np.array([(0.5, 0), (1.5, -1)], dtype=[("x", "f8"), ("tproc", "i4")])
    >>> dm.migrate(particles, target="tproc", comm=MPI.COMM_SELF)["x"]
    array([0.5])
    >>> dm.migrate(np.arange(6), target=lambda x: np.where(x % 2, 0, -1), comm=MPI.COMM_SELF)
    array([1, 3, 5])
    """
    address = comm_address(comm)

    def ranks_of() -> Targets:
        if isinstance(elements, Mapping):
            given: Any = {name: as_array(array, name) for name, array in elements.items()}
            listed = list(given.values())
        elif is_several(elements):
            given, listed = elements, list(elements)
        else:
            given = as_array(elements, "elements")
            listed = [given]
        counts = {len(array) for array in listed if array.ndim > 0}
        if any(array.ndim == 0 for array in listed) or not listed:
            raise InvalidArgument("elements must have at least one dimension")
        if len(counts) > 1:
            raise Mismatch(
                f"the arrays have {sorted(counts)} elements; they must have the same number"
            )
        return _ranks(given, target, counts.pop(), comm)

    ranks = collectively(address, ranks_of)
    migration = Migration(ranks, method=method, stable=stable, max_bytes=max_bytes, comm=comm)
    return migration.move(elements, out=out)


def _ranks(
    elements: Any, target: str | Targets | TargetMap | TargetFunction, elems: int, comm: MPI.Comm
) -> Targets:
    """Return the ranks of elements from any form of target."""
    if isinstance(target, str):
        if isinstance(elements, list | tuple):
            raise InvalidArgument(f"a list of arrays has no field {target!r}; pass a mapping")
        return field_of(elements, target)
    if isinstance(target, TargetMap):
        return _mapped(elements, target, comm)
    ranks = _called(target, elements) if callable(target) else target
    given = TargetArray(ranks)
    if given.elems != elems:
        raise Mismatch(f"targets for {given.elems} elements were given, there are {elems}")
    return ranks


def _mapped(elements: Any, target: TargetMap, comm: MPI.Comm) -> np.ndarray:
    """Evaluate a map, and name the first key that has no target."""
    if isinstance(elements, list | tuple):
        raise InvalidArgument("a list of arrays has no key for a target map; pass a mapping")
    ranks = target.ranks(elements, comm.size)
    lost = np.flatnonzero(ranks == NO_TARGET)
    if len(lost):
        key = target.keys(elements)[lost[0]]
        raise OutOfRange(
            f"element {lost[0]} of process {comm.rank} has no target: its key is {key.tolist()}"
        )
    return ranks


def _called(target: TargetFunction, elements: Any) -> ArrayLike:
    """Call a user's function; name it in an error that it raises."""
    try:
        return target(elements)
    except Error:
        raise
    except Exception as error:
        raise InvalidArgument(f"the function for targets raised {error!r}") from error
