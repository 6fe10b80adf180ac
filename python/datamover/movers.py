# SPDX-License-Identifier: BSD-3-Clause
"""Movers: execute a plan between arrays, repeatedly."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._plan import MotionPlan
from .arguments import memory_limit, number, operation, seconds, word
from .arrays import UserArrays, XArray, number_name
from .collective_calls import address_of, agreeing, binding, leaving, refused_by
from .counted import counted
from .errors import InvalidArgument, Mismatch, Unsupported, WrongType
from .mover_pairs import MoverPairs
from .mpi import core, take_part_with

if TYPE_CHECKING:
    from mpi4py import MPI

    #: The parts of one distributed array on this process.
    OneArray = XArray | UserArrays | np.ndarray | Mapping[int, np.ndarray] | None
    Arrays = OneArray | Sequence[OneArray]


def _listed(arrays: Arrays) -> list[OneArray]:
    """List the arrays that were given: several in a list or tuple, else one."""
    return list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]


def _is_file(array: Any) -> bool:
    """Tell whether it is an array on the disk, without loading what opens these."""
    return getattr(type(array), "is_file_array", False)


def _wrapped(array: OneArray) -> XArray | UserArrays:
    if _is_file(array):
        raise Unsupported(
            f"{array!r} is on the disk: it is the source or the destination of a Mover by itself, "
            "not beside other arrays or plans"
        )
    return array if isinstance(array, (XArray, UserArrays)) else UserArrays(array)


def _real(value: Any, name: str) -> float:
    """Give a number as the engine takes it, which refuses what is not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise WrongType(f"{name} is {value!r}, it must be a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _triples(moves: Any) -> list[tuple] | BaseException:
    """List (plan, source, destination), or give the error that all processes are to raise."""
    listed: list[tuple] = []
    try:
        for move in moves:
            try:
                plan, source, destination = move
            except (TypeError, ValueError):
                many = f" of {len(move)}" if isinstance(move, (list, tuple)) else ""
                return WrongType(
                    f"move {len(listed)} is a {type(move).__name__}{many}; it must be "
                    "(plan, source, destination), and moves a sequence of such"
                )
            listed.append((plan, source, destination))
    except (TypeError, ValueError):
        return WrongType(
            f"moves, of type {type(moves).__name__}, must be a sequence of "
            "(plan, source, destination)"
        )
    except BaseException as error:  # of a sequence of the caller's own
        return error
    return listed


def _communicator(comm: MPI.Comm | None, moves: Sequence[tuple]) -> MPI.Comm:
    if comm is not None:
        return comm
    for move in moves:
        for arrays in move[1:]:
            for array in _listed(arrays):
                if isinstance(array, XArray) or _is_file(array):
                    return array.comm
    raise InvalidArgument("comm is needed when neither source nor destination is an XArray")


def converts(source: np.dtype, destination: np.dtype) -> bool:
    """Tell whether elements can be converted on the way."""
    numbers = "opaque" not in (number_name(source), number_name(destination))
    return numbers and np.can_cast(_as_numpy(source), _as_numpy(destination), "same_kind")


def _as_numpy(number: np.dtype) -> np.dtype:
    """Give the number type itself, or float16 for a float of another package.

    These packages say of each type anew what it may be cast to, imaginary parts cut off in some.
    """
    return number if number.isbuiltin == 1 else np.dtype("f2")


class MoverOptions:
    """How a mover works, checked; the defaults are those of `Mover`."""

    def __init__(
        self,
        op: Any = None,
        transport: str = "auto",
        alpha: complex = 1,
        beta: complex = 1,
        conjugate: bool = False,
        check: bool = False,
        max_bytes: int | None = None,
    ):
        self.op = operation(op)
        self.transport = word(transport, "transport")
        self.alpha, self.beta = number(alpha, "alpha"), number(beta, "beta")
        if self.beta != 1 and self.op != "add":
            raise InvalidArgument(
                f'beta is {beta!r}: it is the factor of the elements in place with op="add", and '
                f"op is {op!r}"
            )
        self.conjugate, self.check = bool(conjugate), bool(check)
        self.max_bytes = memory_limit(max_bytes)


class _Parts:
    """What the engine binds for one plan: sources and destinations, checked here."""

    def __init__(
        self,
        place: tuple[int, int],
        replaces: bool,
        plan: MotionPlan,
        source: Arrays,
        destination: Arrays,
    ):
        rank, nprocs = place
        if not isinstance(plan, MotionPlan):
            raise WrongType(f"a {type(plan).__name__} was given, it must be a MotionPlan")
        if plan.nprocs != nprocs:
            raise Mismatch(
                f"the plan is for {plan.nprocs} processes, the communicator has {nprocs}"
            )
        sources, destinations = _listed(source), _listed(destination)
        if len(sources) != len(destinations):
            raise Mismatch(
                f"{len(sources)} sources and {len(destinations)} destinations were given"
                + self._hint(plan, rank, sources, destinations)
            )
        self.plan = plan
        self.sources: list[Any] = []
        self.destinations: list[Any] = []
        for a, b in zip(sources, destinations, strict=True):
            dest = _wrapped(b)
            if replaces and isinstance(dest, UserArrays):
                dest.refuse_overlaps()
            for columns in self._columns(rank, _wrapped(a), dest):
                self._add(rank, *columns)

    def _columns(
        self, rank: int, *ends: XArray | UserArrays
    ) -> list[tuple[XArray | UserArrays, ...]]:
        """Pair the columns of a source and a destination of which the elements are rows."""
        layouts = (self.plan.source, self.plan.destination)
        listed = [
            array.columns(layout, rank) if isinstance(array, UserArrays) else [array]
            for array, layout in zip(ends, layouts, strict=True)
        ]
        most = max(map(len, listed))
        # Where a process holds nothing of one array it need not say how long the rows are.
        listed = [many * most if many[0].dtype is None else many for many in listed]
        if len(listed[0]) != len(listed[1]):
            raise Mismatch(
                f"elements of the source are rows of {len(listed[0])}, those of the destination of "
                f"{len(listed[1])}"
            )
        return list(zip(*listed, strict=True))

    @staticmethod
    def _hint(plan: MotionPlan, rank: int, *lists: list) -> str:
        layouts = (plan.source, plan.destination)
        for layout, arrays in zip(layouts, lists, strict=True):
            if len(arrays) > 1 and all(isinstance(a, (list, tuple, int, float)) for a in arrays):
                return "; a list holds arrays: make one of its numbers by numpy.array"
            if len(arrays) > 1 and len(arrays) == len(layout.blocks_of(rank)):
                return "; the blocks of one array are given as a mapping {block: array}"
        return ""

    def _add(self, rank: int, source: XArray | UserArrays, dest: XArray | UserArrays) -> None:
        dtypes = [array.dtype for array in (source, dest) if array.dtype is not None]
        if len(set(dtypes)) > 1 and not converts(*dtypes):
            raise WrongType(
                f"source elements are {dtypes[0]}, destination elements {dtypes[1]}: "
                "only numbers in this machine's byte order are converted, as NumPy does under "
                '"same_kind"'
            )
        dtype = dtypes[0] if dtypes else np.dtype("u1")
        for parts, array, layout in (
            (self.sources, source, self.plan.source),
            (self.destinations, dest, self.plan.destination),
        ):
            shared = isinstance(array, XArray)
            parts.append(array.part() if shared else array.part(layout, rank, dtype))


class MoverSet:
    """Carries out several plans, between several arrays each, at once.

    Everything that goes from one process to another travels together: over messages, one per pair
    of processes and round. Otherwise like `Mover`, which is the case of one plan. Collective to
    make.

    Parameters
    ----------
    moves : sequence of (MotionPlan, source, destination)
        Each source and destination is an array or a list of arrays as for `Mover`. All processes
        give equally many, in the same order.
    op, alpha, beta, conjugate, transport, check, max_bytes, comm
        As for `Mover`; they hold for all moves.

    Raises
    ------
    Error
        As `Mover`, on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> rows = dm.BlockCyclic((2, 2), "(block, *)", nprocs=1)
    >>> a, b, c = np.arange(4.0).reshape(2, 2), np.zeros((2, 2)), np.zeros((2, 2), "f4")
    >>> turn, keep = dm.redistribute(rows, rows, axes=(1, 0)), dm.redistribute(rows, rows)
    >>> dm.MoverSet([(turn, a, b), (keep, a, c)], comm=MPI.COMM_SELF)()
    >>> b.tolist(), c.tolist()
    ([[0.0, 2.0], [1.0, 3.0]], [[0.0, 1.0], [2.0, 3.0]])
    """

    _in_phases = False  # whether the plans go one after the other

    @refused_by(binding)
    def __init__(
        self,
        moves: Sequence[tuple[MotionPlan, Arrays, Arrays]],
        *,
        op: Any = None,
        transport: str = "auto",
        alpha: complex = 1,
        beta: complex = 1,
        conjugate: bool = False,
        check: bool = False,
        max_bytes: int | None = None,
        comm: MPI.Comm | None = None,
    ):
        listed = _triples(moves)
        if comm is None and isinstance(listed, BaseException):
            raise listed  # there is no communicator on which others could be told
        self._comm = _communicator(comm, [] if isinstance(listed, BaseException) else listed)
        self._address = address_of(self._comm, binding, moves)
        # The communicator may be freed before the mover is printed or bound again.
        self._place = (self._comm.rank, self._comm.size)
        try:
            if isinstance(listed, BaseException):
                raise listed
            options = MoverOptions(op, transport, alpha, beta, conjugate, check, max_bytes)
            self._replaces = options.op == "replace"
            parts = [_Parts(self._place, self._replaces, *move) for move in listed]
        except BaseException as error:
            take_part_with(core().refuse_binding, self._address, error)
        self._plans = [p.plan for p in parts]
        self._core = core().Mover(
            self._address,
            self._plans,
            [p.sources for p in parts],
            [p.destinations for p in parts],
            **vars(options),
            in_phases=self._in_phases,
        )

    @refused_by(lambda given, _, error: given[0]._refuse_rebind(error))
    def rebind(self, *arrays: tuple[Arrays, Arrays]) -> None:
        """Go over to other arrays of the same plans, without planning again. Collective.

        Parameters
        ----------
        *arrays : (source, destination)
            One pair per plan, in order.

        Raises
        ------
        Error
            As when the mover was made; it is then bound as before. InvalidState in flight.
        """
        try:
            if len(arrays) != len(self._plans):
                raise Mismatch(f"{len(arrays)} pairs of arrays for {len(self._plans)} plans")
            pairs = zip(self._plans, arrays, strict=True)
            parts = [_Parts(self._place, self._replaces, plan, a, b) for plan, (a, b) in pairs]
        except BaseException as error:
            self._refuse_rebind(error)
        self._core.rebind(
            [s for p in parts for s in p.sources], [d for p in parts for d in p.destinations]
        )

    def _refuse_rebind(self, error: BaseException) -> NoReturn:
        self._take_part_in(self._core.refuse_rebind, error)

    def _take_part_in(self, refuse: Callable[[str, str], None], error: BaseException) -> NoReturn:
        """Tell the others by the mover: the communicator may have been freed."""

        def told(_address: int, code: str, message: str) -> None:
            refuse(code, message)

        take_part_with(told, self._address, error)

    @refused_by(agreeing)
    def tune(self, seconds: float = 0.2) -> None:
        """Measure which transports are the fastest here and go over to them. Collective.

        Those that can carry the plan are tried on memory that stands in for the arrays, whose
        contents are not touched; where there is no such memory, nothing changes. All processes
        agree. Ctrl-C ends it on all of them, as one in any other collective call does: movers of
        this communicator are of no use then.

        The result is remembered: by this program for movers with transport "auto", by later
        programs for "measure", in the file that `DATAMOVER_TUNING_FILE` names (empty: none; else
        `datamover/tuning` in the user's cache folder). `explain` shows what was tried.

        Parameters
        ----------
        seconds : float
            About how long to measure in all, besides binding each of them, three to nine rounds of
            each, and 6 to 60 of those that seem faster than "auto", until one is. In the last
            quarter of it others copy, and messages have other lengths.

        Raises
        ------
        InvalidArgument
            Seconds that are not above 0, or above 3600.
        WrongType
            Seconds that are no number.
        InvalidState
            In flight, or freed.
        """
        try:
            about = _real(seconds, "seconds")
        except BaseException as error:
            self._take_part_in(self._core.refuse_tune, error)
        self._core.tune(about)

    def start(self) -> None:
        """Begin to move. Never waits for another process, but does what can be done now.

        On a node that is often all the copying. While a progress thread runs (`progress_thread`),
        it only announces the move. Without one the mover goes on only in calls that test or wait:
        do not wait elsewhere, before `wait`, for a process that waits for this one here.
        InvalidState when started already.
        """
        self._core.start()

    def test(self) -> bool:
        """Do what can be done now; True when complete here. InvalidState when not started.

        While it is not complete, the other movers in flight here are pushed on too.
        """
        return self._core.test()

    def wait(self, timeout: float | None = None) -> None:
        """Return when the destinations are complete here and the sources may be overwritten.

        Ctrl-C interrupts it.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which `Timeout` is raised, naming the processes waited for; `set_timeout`
            gives a default. After a `Timeout` or an interrupt the mover is still in flight and can
            be waited for again.
        """
        self._core.wait(seconds(timeout))

    def __call__(self, timeout: float | None = None) -> None:
        """Do start and wait."""
        self._core(seconds(timeout))

    @property
    def in_flight(self) -> bool:
        """Whether started and not yet complete."""
        return self._core.in_flight

    def explain(self) -> MoverPairs:
        """Tell for each pair here: transport and why, elements, bytes, encoding, loops. Local.

        Prints as a table, with a second one of what was tried where the transports were measured;
        a sequence of dicts for programs, and `trials`, another one.
        """
        return MoverPairs(self._core.pairs(), self._core.trials())

    def counters(self) -> dict[str, int | float]:
        """Count messages and bytes per round, rounds, and seconds spent waiting. Local."""
        return {**self._core.counters(), "extra_bytes": self._core.extra_bytes}

    def free(self) -> None:
        """Give back buffers and references to the arrays. Local. InvalidState in flight."""
        self._core.free()

    def __enter__(self) -> MoverSet:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Free the mover; one that is left in flight has failed, which all processes are told."""
        left = self.in_flight
        self._core.give_up()
        if left and kind is None:
            raise InvalidArgument("a mover was left in flight at the end of its with block")

    def __repr__(self) -> str:
        counters = self._core.counters()
        rank, nprocs = self._place
        return (
            f"{type(self).__name__}({counted(len(self._plans), 'plan')}, process "
            f"{rank} of {nprocs}: sends "
            f"{counted(counters['messages_sent'], 'message')}, "
            f"{counted(counters['bytes_sent'], 'byte')}, receives "
            f"{counters['messages_received']:,}, {counted(counters['bytes_received'], 'byte')}; "
            f"{counted(counters['rounds'], 'round')}"
            f"{', in flight' if self.in_flight else ''})"
        )

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


class Phases(MoverSet):
    """Carries out several plans one after the other, started and waited for as one.

    What a plan brings to this process is there before the next one reads it here. `start` begins
    the first; `test`, `wait`, any other wait of the process and the progress thread push on through
    all of them. Nothing is allocated meanwhile. `counters` and `explain` tell of all of them.
    Collective to make.

    Parameters
    ----------
    moves : sequence of (MotionPlan, source, destination)
        The phases in order; each source and destination as for `Mover`. All processes give equally
        many.
    op, alpha, beta, conjugate, transport, check, max_bytes, comm
        As for `Mover`; they hold for all phases, which share `max_bytes`.

    Raises
    ------
    Error
        As `Mover`, on all processes; Mismatch also where processes give different numbers of plans.

    Examples
    --------
    A halo axis by axis: the corners travel with the second axis (see `axis_halo`).

    >>> from mpi4py import MPI
    >>> import datamover as dm
    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (4, 4)), (2, 2), nprocs=1)
    >>> u = dm.XArray(MPI.COMM_SELF, blocks, "f8", ghost=1)
    >>> for block in u.blocks:
    ...     u[block][...] = block
    >>> dm.Phases([(dm.axis_halo(blocks, 1, axis), u, u) for axis in range(2)])()
    >>> u[0].tolist()
    [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 2.0, 2.0, 3.0]]
    """

    _in_phases = True


class Mover(MoverSet):
    """Carries out a plan between arrays as one collective operation, any number of times.

    Collective to make; all choices are made then, and errors are raised then, on all processes and
    before anything moves. Between `start` and `wait` the caller writes neither source nor
    destination. Several movers may be in flight; all processes start them in the same order, and
    wait for them in any order; none may write elements that another one reads or writes, whatever
    its `op` (a `MoverSet` may add several sources to one array). A mover that is dropped in flight
    has failed: the other processes raise `PeerFailed`.

    Parameters
    ----------
    plan : MotionPlan
        What goes where.
    source, destination : XArray, ndarray, mapping, UserArrays or FileArray, or a list of them
        The library's arrays or the user's (see `UserArrays`); they may be the same array. Arrays
        that support DLPack, and distributed arrays that `layout_of` takes, are used in place. One
        may be an array on the disk (`files.open`), by itself. A mapping holds the blocks of one
        array, an empty one where a process has none; a list holds several arrays, which travel
        together, each to the one at the same place of the other list. User arrays are used in
        place, and kept alive. Of index lists and flat ranges an element may be a row: the arrays
        are then (n, k), also where a process holds none: (0, k) for one of the two.
    op : {None, "add", "multiply", "min", "max"}, ufunc or MPI.Op
        How arriving elements are combined with those in place; None replaces them. An element that
        goes to itself, in the same memory, stays as it is, whatever `op` and `alpha` are.
    alpha : number
        Factor of arriving elements.
    beta : number
        Factor of the elements in place, with `op="add"` and no other. It is applied whenever an
        element arrives: where several arrive at one place, as from an `adjoint`, multiply the
        array before and leave `beta` at 1.
    conjugate : bool
        Whether arriving complex elements are conjugated.
    transport : str
        By default "auto". Otherwise the name of a transport that must carry all data that leaves a
        process ("shared", "read", "staged", "p2p", "datatype", "collective", "get", "put"), or
        several joined by "+", of which the first that can carry a pair is used. After a name you
        can give the side that copies or the longest message ("shared:receiver", "p2p:64K").
        "measure" uses the fastest, as found by `tune` or remembered from before. With "collective"
        all processes take part in each move, and must start such movers in the same order.
    check : bool
        Whether to verify, here and in `rebind`, byte by byte, that no element is written twice
        (without `op`) and none is read that is written, also through arrays that share memory, and
        that sizes match for every pair. The error names process, block and region. Where one
        process asks, all do. Takes time and memory in the elements. (Always verified are that all
        processes bring the same plan and options, and that no box or product is read that is
        written, as far as a few comparisons for each tell.)
    max_bytes : int, optional
        Most bytes of message buffers and shared slots of this process; what does not fit goes in
        pieces, with the same result. `counters()["extra_bytes"]` tells what is used.
    comm : mpi4py.MPI.Comm, optional
        The processes; needed when no array is an `XArray`.

    Raises
    ------
    Mismatch
        Layouts, shapes or numbers of processes that do not fit each other; plans or options that
        differ between processes.
    WrongType
        Dtypes that NumPy does not convert under "same_kind" (number types otherwise convert on the
        way, and the narrower crosses the wire), or arithmetic on elements that are no numbers.
    OutOfRange
        A section outside what a block's memory holds (ghosts too shallow).
    InvalidArgument
        A read-only destination, an unknown `op` or transport, a `beta` without `op="add"`, a
        `max_bytes` that leaves no room for an element per message; an element that is read and
        written, with `check` also one that is written twice; without `op` a destination with
        elements that lie on each other.
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

    @refused_by(leaving)
    def __new__(cls, *given: Any, **said: Any) -> Mover:
        """Make one that reads or writes a file where an array on the disk is given."""
        ends = (*given[1:3], said.get("source"), said.get("destination"))
        if cls is Mover and any(_is_file(end) for end in ends):
            from .files.file_mover import FileMover

            cls = FileMover
        return super().__new__(cls)

    @refused_by(binding)
    def __init__(
        self,
        plan: MotionPlan,
        source: Arrays,
        destination: Arrays,
        *,
        op: Any = None,
        transport: str = "auto",
        alpha: complex = 1,
        beta: complex = 1,
        conjugate: bool = False,
        check: bool = False,
        max_bytes: int | None = None,
        comm: MPI.Comm | None = None,
    ):
        super().__init__(
            [(plan, source, destination)],
            op=op,
            transport=transport,
            alpha=alpha,
            beta=beta,
            conjugate=conjugate,
            check=check,
            max_bytes=max_bytes,
            comm=comm,
        )

    @property
    def plan(self) -> MotionPlan:
        """The plan that is carried out."""
        return self._plans[0]

    @refused_by(lambda given, _, error: given[0]._refuse_rebind(error))
    def rebind(self, source: Arrays, destination: Arrays) -> None:
        """Go over to other arrays of the same plan, without planning again. Collective.

        Errors are those of making a mover, after which it is bound as before; InvalidState in
        flight.
        """
        super().rebind((source, destination))


def _show_parameters() -> None:
    """Have help show the parameters of a mover, which `__new__` hands on without a look at them."""
    made = inspect.signature(Mover.__init__)
    parameters = list(made.parameters.values())
    Mover.__signature__ = made.replace(parameters=parameters[1:])
    Mover.__new__.__signature__ = made.replace(
        parameters=[parameters[0].replace(name="cls"), *parameters[1:]]
    )


_show_parameters()
