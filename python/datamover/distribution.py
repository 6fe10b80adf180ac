# SPDX-License-Identifier: BSD-3-Clause
"""Distributions of single elements to their target processes, and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from . import notebook
from .arguments import as_array, byte_count, memory_limit, operation, seconds, word
from .collective_calls import agreeing, refused_by
from .counted import counted
from .distribution_methods import DistributionMethods
from .dlpack import array_of
from .element_arrays import Arrays, Column, TargetArray, is_several, writable
from .errors import Error, InvalidArgument, InvalidState, Mismatch, OutOfRange, WrongType
from .layouts import IndexList
from .mpi import collectively, comm_address, core, gathered, take_part_with, told
from .targets import NO_TARGET, TargetMap

if TYPE_CHECKING:
    from mpi4py import MPI

    Targets = ArrayLike | tuple[ArrayLike, ArrayLike]

#: What an element's target can be computed by: all elements of a process to as many ranks.
TargetFunction = Callable[[np.ndarray], ArrayLike]

Result = TypeVar("Result")


class _Moving:
    """The columns of one move, where they go, and what it gives."""

    def __init__(self, plan: Distribution, columns: tuple[Any, ...], out: Any):
        self.received = plan.received
        self.given = Arrays(columns)
        self.columns = self.given.columns(plan.elems)
        self.outputs = self.given.outputs(out)
        self.raw: list[np.ndarray] = []
        self.arguments: list[Any] = [[c.described for c in self.columns]]
        if self.outputs is not None:
            pairs = zip(self.outputs, self.columns, strict=True)
            self.arguments.append([writable(o, c, self.received) for o, c in pairs])

    def results(self) -> Any:
        """Give what has arrived, as the columns were given."""
        if self.outputs is None:
            pairs = zip(self.columns, self.raw, strict=True)
            return self.given.container_of([c.view(r, self.received) for c, r in pairs])
        return self.given.container_of([array[: self.received] for array in self.outputs])


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
        How to carry: "partition" is ours, the others are the paper's. "auto" takes "partition"; if
        not all processes share the memory of one node, "alltoallv" or "sendrecv" if one of them was
        faster by a tenth when this communicator was first used with "auto". `explain` returns the
        choice.
    stable : bool
        Elements arrive ordered by source process, and those of one source in the order they had
        there (the paper's definition). False lets "sendrecv" and "sort" deliver in an order of
        their own, the same in all moves of this distribution.
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
    PeerFailed, Timeout
        Another process failed or gave up; the deadline of `set_timeout` passed. So do all calls.

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

    @refused_by(agreeing)
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

        def prepare() -> tuple[TargetArray, bool, int]:
            word(method, "method")
            return TargetArray(ranks), bool(stable), memory_limit(max_bytes)

        targets, self.stable, limit = collectively(address, prepare)
        self.comm = comm
        # The communicator may be freed before the distribution is printed.
        self._place = (comm.rank, comm.size)
        self.method = method
        #: What was started and not given yet; an error where this process could not take part.
        self._moving: _Moving | BaseException | None = None
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
        """Give up a move in flight while what it reads and writes is there."""
        self.__dict__.pop("_core", None)

    def _prepared(self, work: Callable[[], Result]) -> Result:
        """Run `work` before a collective call; what it raises all processes raise in that call."""
        try:
            return work()
        except BaseException as error:
            self._refuse(error)

    def _refuse(self, error: BaseException) -> NoReturn:
        take_part_with(lambda _, code, text: self._core.refuse(code, text), 0, error)

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

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def move(self, *columns: Any, out: Any = None) -> Any:
        """Move any number of columns, one message per pair of processes. Collective.

        Parameters
        ----------
        *columns : array_like, or one list, tuple or mapping of ndarray
            Arrays whose first dimension counts this process's elements; any dtype of fixed size,
            the same on all processes. All arrive in the same order.
        out : ndarray, sequence or mapping of ndarray, optional
            Where the results go, for each column (by its key in a mapping): contiguous, with room
            for `received` elements, memory of its own. Results of earlier calls are the fastest,
            since other processes reach them. Without it results lie in memory of a pool, which is
            used again when they are gone.

        Returns
        -------
        ndarray, or tuple, list or dict of ndarray
            The elements that arrive, as the columns were given: one array for one, a tuple for
            several or for a tuple, a list for a list, a dict for a mapping; `out`, cut to
            `received`, if it was given.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process, and nothing has moved: columns or `out` that do not fit, on any of
            them; an `out` that overlaps a column or another `out`; elements of another size or
            dtype than on other processes.
        InvalidState
            On every process: a move that was started is in flight on one of them.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [0, -1, 0])
        >>> d.move({"x": np.array([1.5, 2.5, 3.5]), "id": np.arange(3)})
        {'x': array([1.5, 3.5]), 'id': array([0, 2])}
        """
        moving = self._prepared(lambda: _Moving(self, columns, out))
        if moving.outputs is None:
            moving.raw = self._core.move(*moving.arguments)
        else:
            self._core.move_into(*moving.arguments)
        return moving.results()

    def _refuse_start(self, error: BaseException) -> NoReturn:
        """Begin a move as one that cannot, which `wait` and `test` then tell on all processes."""
        if self._moving is None:
            self._core.start_refused(*told(error))
            self._moving = error
        raise error

    @refused_by(lambda given, _, error: given[0]._refuse_start(error))
    def start(self, *columns: Any, out: Any = None) -> None:
        """Begin to move, by "partition" in stable order, without waiting for others. Collective.

        With a `progress_thread` the move goes on by itself, else in every `test` and `wait` of the
        library. Until `wait` or `test` says that it is complete, columns are not changed, and `out`
        is not touched. One move of a distribution is in flight, eight of a communicator. All
        processes start moves in the same order, and wait for them in any: where the eighth call
        before this one started a move that is not complete, that is completed first.

        Parameters
        ----------
        *columns, out
            As for `move`.

        Raises
        ------
        InvalidState
            A move of this distribution is in flight.

        Notes
        -----
        What does not fit on any process is raised by `wait` or `test`, on all of them.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [0, -1, 0])
        >>> d.start(np.array([1.5, 2.5, 3.5]))
        >>> d.wait()
        array([1.5, 3.5])
        """
        if self._moving is not None:
            raise InvalidState("a move of this distribution is in flight; wait for it first")

        def prepare() -> _Moving | Exception:
            try:
                return _Moving(self, columns, out)
            except Exception as error:
                return error

        moving = self._prepared(prepare)
        try:
            self._moving = moving  # before, so that an interrupt leaves there what is being read
            if isinstance(moving, Exception):
                self._core.start_refused(*told(moving))
            elif moving.outputs is None:
                moving.raw = self._core.start(*moving.arguments)
            else:
                self._core.start_into(*moving.arguments)
        finally:
            if not self._core.in_flight:
                self._moving = None

    def test(self) -> bool:
        """Do what can be done now for the move that was started; True when it is complete.

        Then `wait` gives the results at once. Raises what `wait` raises.
        """
        return self._complete(lambda: self._core.test())

    def wait(self, timeout: float | None = None) -> Any:
        """Complete the move that was started, and give what `move` gives.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which `Timeout` is raised; `set_timeout` without it. The move is then
            still in flight, and can be waited for again.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument, Unsupported
            On every process, and nothing has moved: what `start` was given does not fit on one.
        InvalidState
            Nothing was started.
        PeerFailed
            Another process has failed.
        """
        limit = seconds(timeout)
        self._complete(lambda: self._core.wait(limit))
        results = self._moving.results()
        self._moving = (
            None  # last: after an interrupt before it the results can be waited for again
        )
        return results

    def _complete(self, work: Callable[[], bool | None]) -> bool:
        """Test or wait for the move that was started, unless it is complete.

        An interrupt at any line leaves what has come, results or an error, to the next call.
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
        """Whether a move was started that is not complete here."""
        return self._core.in_flight

    @refused_by(lambda given, _, error: given[0]._refuse(error))
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

        def prepare() -> tuple[np.ndarray, tuple[Any, ...], bool]:
            array = array_of(buffer, "buffer")
            if not isinstance(array, np.ndarray) or array.ndim == 0:
                raise WrongType(
                    f"buffer, a {type(buffer).__name__}, must be an array with a first dimension"
                )
            column = Column(array, len(array), "buffer")
            writable(array, column, 0, "buffer")
            if len(array) < self.elems:
                raise Mismatch(f"the buffer has {len(array)} elements, {self.elems} are given")
            return array, column.described, bool(stable)

        array, described, in_order = self._prepared(prepare)
        self._core.move_in_place(described, len(array), self.method, in_order)
        return array[: self.received]

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def reverse(
        self, values: Any, op: Any = None, out: Any = None, *, after: str | None = None
    ) -> Any:
        """Take values of the received elements home, in the original order. Collective.

        Parameters
        ----------
        values : array_like, or list, tuple or mapping of ndarray
            One per received element, in the order of arrival; several arrays go in one call, as one
            list, tuple or mapping.
        op : {None, "add", "multiply", "min", "max"}, ufunc or MPI.Op
            How the values of an element with several targets are combined, in their order; None:
            the last one stays.
        out : ndarray, sequence or mapping of ndarray, optional
            Where the results go: contiguous, with room for `elems` elements, memory of its own.
        after : {None, "move", "move_in_place"}
            By which call, the last of its kind, the elements have arrived. None does where all
            calls delivered in one order, as all do in stable order.

        Returns
        -------
        ndarray, or tuple, list or dict of ndarray
            One value per element of this process, for each array; 0 for those without a target.

        Raises
        ------
        Mismatch, WrongType, InvalidArgument
            On every process: values or `out` that do not fit, an unknown `op`, an `out` that
            overlaps values or another `out`.
        InvalidState
            On every process: calls delivered in different orders, `after` does not say which.

        Notes
        -----
        After moves with `stable=False`, and in place without `stable`, the order of arrival is
        found out by a move of labels when values first go back, which takes 40 bytes per element
        for a while and keeps 8.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> import numpy as np, datamover as dm
        >>> d = dm.Distribution(MPI.COMM_SELF, [-1, 0, 0])
        >>> buffer = np.array([1.5, 2.5, 3.5])
        >>> d.reverse(d.move_in_place(buffer) * 10)
        array([ 0., 25., 35.])
        """

        def prepare() -> tuple[Arrays, list[Column], list[np.ndarray], list[tuple], str]:
            if isinstance(op, np.ndarray | list | tuple | Mapping):
                raise InvalidArgument(
                    f"op is of type {type(op).__name__}; pass several arrays as one list, tuple or "
                    "mapping"
                )
            combine = operation(op)
            if after not in (None, "move", "move_in_place"):
                raise InvalidArgument(f"after {after!r} is neither move nor move_in_place")
            given = Arrays((values,))
            listed = given.columns(self.received, "column of values")
            results = given.outputs(out)
            if results is None:
                results = [
                    c.view(self._core.allocate(self.elems * c.elem_bytes), self.elems)
                    for c in listed
                ]
            pairs = zip(results, listed, strict=True)
            return given, listed, results, [writable(r, c, self.elems) for r, c in pairs], combine

        # Columns may be copies of what was given, which have to be there until they were moved.
        given, listed, results, places, combine = self._prepared(prepare)
        described = [column.described for column in listed]
        self._core.reverse(described, places, combine, after or "")
        return given.container_of([result[: self.elems] for result in results])

    @refused_by(lambda given, _, error: given[0]._refuse(error))
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
        address = self._prepared(lambda: comm_address(self.comm))
        arrived = self._core_moved(np.arange(self.elems))
        counts = np.concatenate(gathered(address, [self.elems]))
        starts = np.concatenate(([0], np.cumsum(counts)))
        arrived += np.repeat(starts[:-1], self.receive_counts)  # in stable order: by source
        lists = [np.arange(a, b) for a, b in itertools.pairwise(starts.tolist())]
        shape = (int(starts[-1]),)
        return IndexList(shape, lists), IndexList(shape, gathered(address, arrived))

    def _core_moved(self, numbers: np.ndarray) -> np.ndarray:
        """Move numbers in stable order, whatever was asked for."""
        column = Column(numbers, self.elems)
        return column.view(self._core.move_stably(column.described), self.received).copy()

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def explain(self, elem_bytes: int = 8) -> dict[str, Any]:
        """Return the methods that carry elements of a size. Collective.

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
        >>> dm.Distribution(MPI.COMM_SELF, [0, 0], method="sort").explain()
        moves by sort, moves in place by sort
        >>> dm.Distribution(MPI.COMM_SELF, [0, 0]).explain()  # all processes on one node
        moves by partition, moves in place by partition
        """
        size = self._prepared(lambda: byte_count(elem_bytes, "elem_bytes"))
        return DistributionMethods(
            method=self._core.chosen_method(size, False),
            in_place=self._core.chosen_method(size, True),
            measured=self._core.measured_methods(),
        )

    def counters(self) -> dict[str, Any]:
        """Count elements kept, sent and dropped, messages and extra bytes of the last. Local."""
        return self._core.counters()

    def __repr__(self) -> str:
        counters = self.counters()
        rank, nprocs = self._place
        return (
            f"Distribution(process {rank} of {nprocs}: keeps "
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
            f"Distribution, process {rank} of {nprocs}: gives {self.elems} "
            f"elements, receives {self.received}, drops {self.counters()['elems_dropped']}"
        )
        rows = ((rank, sent[rank], received[rank]) for rank in largest)
        head = ("process", "elements to it", "elements from it")
        return notebook.table(caption, head, rows, notebook.others(len(peers), "processes"))


@refused_by(agreeing)
def distribute(
    comm: MPI.Comm,
    elements: Any,
    target: str | Targets | TargetMap | TargetFunction,
    *,
    method: str = "auto",
    stable: bool = True,
    out: Any = None,
    max_bytes: int | None = None,
) -> Any:
    """Take every element to its process, once. Collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The processes.
    elements : array_like, or list, tuple or mapping of ndarray
        The first dimension counts elements; any dtype of fixed size, structured ones too. Several
        arrays travel together, the same elements in each.
    target : str, array_like of int, pair of array_like of int, target map or function
        A field of the elements, or the name of one array among several, that holds ranks; ranks as
        for `Distribution`; a map of `datamover.targets`; or a function that is called once, with
        `elements`, and returns ranks.
    method, stable, max_bytes
        As for `Distribution`.
    out : ndarray, optional
        As for `Distribution.move`.

    Returns
    -------
    ndarray, or tuple, list or dict of ndarray
        The elements whose target is this process, as they were given; if `stable`, ordered by
        source process and then as they were there.

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
        if isinstance(elements, Mapping):
            given = {name: as_array(array, name) for name, array in elements.items()}
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
            raise Mismatch(f"arrays of {sorted(counts)} elements cannot travel together")
        return _ranks(given, target, counts.pop(), comm)

    ranks = collectively(address, ranks_of)
    d = Distribution(comm, ranks, method=method, stable=stable, max_bytes=max_bytes)
    return d.move(elements, out=out)


def _ranks(
    elements: Any, target: str | Targets | TargetMap | TargetFunction, elems: int, comm: MPI.Comm
) -> Targets:
    """Find the ranks of elements, whatever tells them."""
    if isinstance(target, str):
        return _field(elements, target)
    if isinstance(target, TargetMap):
        return _mapped(elements, target, comm)
    ranks = _called(target, elements) if callable(target) else target
    given = TargetArray(ranks)
    if given.elems != elems:
        raise Mismatch(f"targets for {given.elems} elements were given, there are {elems}")
    return ranks


def _field(elements: Any, name: str) -> np.ndarray:
    """Give the ranks in a field of structured elements, or in one array among several."""
    if isinstance(elements, list | tuple):
        raise InvalidArgument(f"a list of arrays has no field {name!r}; give a mapping")
    if isinstance(elements, Mapping):
        if name not in elements:
            raise InvalidArgument(f"there is no array {name!r} among {list(elements)}")
    elif elements.dtype.names is None or name not in elements.dtype.names:
        raise InvalidArgument(f"elements of {elements.dtype} have no field {name!r}")
    return elements[name]


def _mapped(elements: Any, target: TargetMap, comm: MPI.Comm) -> np.ndarray:
    """Evaluate a map, and name the first key that has no target."""
    if isinstance(elements, list | tuple):
        raise InvalidArgument("a list of arrays has no key for a map; give a mapping")
    ranks = target.ranks(elements, comm.size)
    lost = np.flatnonzero(ranks == NO_TARGET)
    if len(lost):
        key = target.keys(elements)[lost[0]]
        raise OutOfRange(
            f"element {lost[0]} of process {comm.rank} has no target: its key is {key.tolist()}"
        )
    return ranks


def _called(target: TargetFunction, elements: Any) -> ArrayLike:
    """Ask a user's function; say so where it raises."""
    try:
        return target(elements)
    except Error:
        raise
    except Exception as error:
        raise InvalidArgument(f"the function for targets raised {error!r}") from error
