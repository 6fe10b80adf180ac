# SPDX-License-Identifier: BSD-3-Clause
"""Movers: execute a plan between arrays, repeatedly."""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ._plan import HaloExchange, MotionPlan
from .arguments import flag, is_several, memory_limit, number, operation, seconds, word
from .arrays import Array, UserArrays, number_name
from .collective_calls import address_of, agreeing, binding, leaving, refused_by
from .counted import counted
from .deprecated import WithFree
from .errors import InvalidArgument, Mismatch, Unsupported, WrongType
from .layouts import Layout
from .mover_pairs import MoverPairs
from .mpi import Refusing, collectively, comm_address, core, gathered, join_as_failed

if TYPE_CHECKING:
    from mpi4py import MPI

    #: The parts of one distributed array on this process.
    OneArray = Array | UserArrays | np.ndarray | Mapping[int, np.ndarray] | None
    Arrays = OneArray | Sequence[OneArray]


#: An argument that was not passed; None is the array of a process without blocks.
NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _: "not given"})()


def _listed(arrays: Arrays) -> list[OneArray]:
    """Return arrays as a list: several in a list or tuple, otherwise one."""
    return list(arrays) if isinstance(arrays, (list, tuple)) else [cast("OneArray", arrays)]


def is_file(array: Any) -> bool:
    """Return whether this is an array on the disk, without loading the module that opens them."""
    return getattr(type(array), "is_file_array", False)


def wrapped(array: OneArray) -> Array | UserArrays:
    """Return an array in memory in the form that movers bind."""
    if is_file(array):
        raise Unsupported(
            f"{array!r} is on the disk: pass it alone as the source or destination of a Mover, "
            "without other arrays or plans"
        )
    return array if isinstance(array, (Array, UserArrays)) else UserArrays(array)


def _real(value: Any, name: str) -> float:
    """Return a number for the engine, which rejects infinite ones and NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise WrongType(f"{name} is {value!r}, it must be a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _triples(moves: Any) -> list[tuple]:
    """Return (plan, source, destination) tuples."""
    try:
        listed = list(moves)
    except (TypeError, ValueError):
        raise WrongType(
            f"moves, of type {type(moves).__name__}, must be a sequence of "
            "(plan, source, destination)"
        ) from None
    for i, move in enumerate(listed):
        try:
            plan, source, destination = move
        except (TypeError, ValueError):
            many = f" of {len(move)}" if isinstance(move, (list, tuple)) else ""
            raise WrongType(
                f"move {i} is a {type(move).__name__}{many}; it must be "
                "(plan, source, destination), and moves a sequence of such"
            ) from None
        listed[i] = (plan, source, destination)
    return listed


def communicator(comm: MPI.Comm | None, moves: Sequence[tuple]) -> MPI.Comm:
    """Return the communicator that was passed, or that of an array."""
    if comm is not None:
        return comm
    for move in moves:
        for arrays in move[1:]:
            for array in _listed(arrays):
                if isinstance(array, Array) or is_file(array):
                    return cast(Any, array).comm
    raise InvalidArgument("missing argument 'comm': neither source nor destination is an Array")


def converts(source: np.dtype, destination: np.dtype) -> bool:
    """Return whether elements can be converted during a move."""
    numbers = "opaque" not in (number_name(source), number_name(destination))
    return numbers and np.can_cast(_as_numpy(source), _as_numpy(destination), "same_kind")


def _as_numpy(number: np.dtype) -> np.dtype:
    """Return the number type itself, or float16 for a float type of another package.

    Each type of these packages defines its own casts, some of which drop imaginary parts.
    """
    return number if number.isbuiltin == 1 else np.dtype("f2")


class MoverOptions:
    """Checked options of a mover; the defaults are those of `Mover`."""

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


def _bindable(
    place: tuple[int, int], replaces: bool, plan: MotionPlan, source: Arrays, destination: Arrays
) -> tuple[MotionPlan, list[Any], list[Any]]:
    """Check a plan and its arrays; return it with the sources and destinations for the engine."""
    rank, nprocs = place
    if not isinstance(plan, MotionPlan):
        raise WrongType(f"a {type(plan).__name__} was given, it must be a MotionPlan")
    if source is NOT_GIVEN or destination is NOT_GIVEN:
        missing = "source" if source is NOT_GIVEN else "destination"
        raise WrongType(
            f"missing argument {missing!r}: a mover needs Mover(plan, source, destination)"
        )
    if plan.nprocs != nprocs:
        raise Mismatch(f"the plan is for {plan.nprocs} processes, the communicator has {nprocs}")
    sources, destinations = _listed(source), _listed(destination)
    layouts = (plan.source, plan.destination)
    if len(sources) != len(destinations):
        raise Mismatch(
            f"{len(sources)} sources and {len(destinations)} destinations were given"
            + _hint(rank, zip(layouts, (sources, destinations), strict=True))
        )
    parts: tuple[list[Any], list[Any]] = [], []
    for a, b in zip(sources, destinations, strict=True):
        ends = wrapped(a), wrapped(b)
        if replaces:
            ends[1]._refuse_overlaps()
        for columns in _columns(rank, list(zip(ends, layouts, strict=True))):
            dtype = _common_dtype([array.dtype for array in columns if array.dtype is not None])
            for many, array, layout in zip(parts, columns, layouts, strict=True):
                many.append(array._part(layout, rank, dtype))
    return plan, *parts


def _columns(rank: int, ends: list[tuple[Array | UserArrays, Layout]]) -> Iterator[tuple]:
    """Pair the columns of a source and a destination whose elements are rows."""
    listed: list[Any] = [array._columns(layout, rank) for array, layout in ends]
    most = max(map(len, listed))
    # A process without elements of an array need not know the length of the rows.
    listed = [many * most if many[0].dtype is None else many for many in listed]
    if len(listed[0]) != len(listed[1]):
        raise Mismatch(
            f"elements of the source are rows of {len(listed[0])}, those of the destination of "
            f"{len(listed[1])}"
        )
    return zip(*listed, strict=True)


def _hint(rank: int, ends: Iterable[tuple[Layout, list]]) -> str:
    for layout, arrays in ends:
        if len(arrays) > 1 and all(isinstance(a, (list, tuple, int, float)) for a in arrays):
            return "; a list must contain arrays: convert its numbers with numpy.array"
        if len(arrays) > 1 and len(arrays) == len(layout.blocks_of(rank)):
            return "; pass the blocks of one array as a mapping {block: array}"
    return ""


def _common_dtype(dtypes: list[np.dtype]) -> np.dtype:
    """Return the dtype for a side that has none, of a source and a destination that fit."""
    if len(set(dtypes)) > 1 and not converts(*dtypes):
        raise WrongType(
            f"source elements are {dtypes[0]}, destination elements {dtypes[1]}: "
            "only numbers in this machine's byte order are converted, if NumPy allows it under "
            '"same_kind"; convert one of the arrays with astype'
        )
    return dtypes[0] if dtypes else np.dtype("u1")


class Mover(WithFree):
    """Executes plans between arrays as one collective operation, any number of times.

    ``Mover(plan, source, destination)`` executes one plan, ``Mover([(plan, source, destination),
    ...])`` several: together, with one message per pair of processes, or one after the other, with
    ``together=False``.

    Creating a mover is collective. All choices are made and errors are raised then, on all
    processes and before anything moves. Between `start` and `wait` write neither source nor
    destination. Several movers may be in flight. All processes must start them in the same order,
    and may wait for them in any order. None may write elements that another one reads or writes,
    whatever its `op` (several plans of one mover may add to one array). If a mover is dropped in
    flight, it has failed and the other processes raise `PeerFailed`.

    Parameters
    ----------
    plan : MotionPlan, or sequence of (MotionPlan, source, destination)
        The plan to execute, or several with the arrays of each. All processes must pass the same
        number of plans, in the same order. Options apply to all of them.
    source, destination : Array, ndarray, mapping, UserArrays or FileArray, or a list of them
        Arrays of the library or of the user (see `UserArrays`); they may be the same array. A
        mapping contains the blocks of one array, and is empty if a process has none. A list
        contains several arrays, which are moved together, each to the one at the same position of
        the other list. An array on the disk (`files.open`) must be passed alone. User arrays,
        arrays that support DLPack, and distributed arrays that `layout_of` accepts are used in
        place, and kept alive. With index lists and flat ranges an element may be a row: the arrays
        are then (n, k), and (0, k) for one of the two if a process has none.
    together : bool
        How to execute several plans. True executes them together: all data from one process to
        another is sent together. False executes them one after the other: each plan reads what the
        plans before it have written, also on other processes. Waits between them happen in `test`
        and `wait`, or in the progress thread.
    op : {None, "add", "multiply", "min", "max"}, ufunc or MPI.Op
        How to combine arriving elements with existing ones; by default they replace them. An
        element that moves to itself, in the same memory, stays unchanged, whatever `op` and `alpha`
        are.
    alpha : number, or sequence of numbers
        Factor of arriving elements. With several plans it may be a sequence with one factor for
        each, for example for components of vectors that change their sign.
    beta : number
        Factor of the existing elements, with `op="add"` only. It is applied whenever an element
        arrives. If several arrive at one place, as from an `adjoint`, multiply the array before
        and leave `beta` at 1.
    conjugate : bool
        Whether arriving complex elements are conjugated.
    transport : str
        By default "auto". Otherwise the name of a transport that must carry all data that leaves a
        process ("shared", "read", "staged", "p2p", "datatype", "collective", "get", "put"), or
        several joined by "+", of which the first that can carry a pair is used. A name can be
        followed by the side that copies or the longest message ("shared:receiver", "p2p:64K").
        "measure" uses the fastest, as found by `tune` or stored before. With "collective" all
        processes take part in each move.
    check : bool
        Whether to verify, here and in `rebind`, byte by byte, that no element is written twice
        (without `op`), that none is read while it is written, also through arrays that share
        memory, and that sizes match for every pair. The error names process, block and region. If
        one process passes True, all check. Takes time and memory proportional to the elements. By
        default, movers still verify that all processes pass the same plan and options, and reject
        most moves that read an element while it is written.
    max_bytes : int, optional
        Maximum number of bytes of message buffers and shared slots of this process. Larger data is
        moved in pieces, with the same result. `counters()["extra_bytes"]` is the number in use.
    comm : mpi4py.MPI.Comm, optional
        The processes; required if no array is an `Array`.

    Raises
    ------
    Mismatch
        Layouts, shapes or numbers of processes do not fit each other, or plans or options differ
        between processes.
    WrongType
        NumPy does not convert the dtypes under "same_kind", or elements that are not numbers need
        arithmetic. (Other number types are converted during the move; the narrower one is sent.)
    OutOfRange
        A section is outside a block's memory, because the ghosts are not deep enough.
    InvalidArgument
        The destination is read-only; `op` or the transport is unknown; `beta` is passed without
        `op="add"`; `max_bytes` is too small for an element per message; an element is read and
        written or, with `check`, written twice; without `op`, elements of the destination share
        memory.
    Unsupported
        The transport cannot carry one of the pairs.

    Notes
    -----
    Source: the Mover of the KeLP Data Mover, section 2.

    Examples
    --------
    A transpose:

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

    Two plans together:

    >>> turn, keep = dm.redistribute(rows, columns, axes=(1, 0)), dm.redistribute(rows, rows)
    >>> c = np.empty((2, 3), "f4")
    >>> dm.Mover([(turn, a, b), (keep, a, c)], comm=comm)()
    >>> b[2].tolist(), c[1].tolist()
    ([2.0, 5.0], [3.0, 4.0, 5.0])

    A halo axis by axis: the second axis also forwards the corners (see `axis_halo`).

    >>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (4, 4)), (2, 2), nprocs=1)
    >>> u = dm.Array(blocks, "f8", ghost=1, comm=comm)
    >>> for block in u.blocks:
    ...     u[block][...] = block
    >>> axes = [dm.advanced.axis_halo(blocks, 1, axis) for axis in range(2)]
    >>> dm.Mover([(plan, u, u) for plan in axes], together=False).run()
    >>> u[0].tolist()
    [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 2.0, 2.0, 3.0]]
    """

    @refused_by(leaving)
    def __new__(cls, *given: Any, **said: Any) -> Mover:
        """Create a mover that reads or writes a file if an array on the disk is passed."""
        ends = (*given[1:3], said.get("source"), said.get("destination"))
        if cls is Mover and any(is_file(end) for end in ends):
            from .files.file_mover import FileMover

            cls = FileMover
        return super().__new__(cls)

    @refused_by(binding)
    def __init__(
        self,
        plan: MotionPlan | Sequence[tuple[MotionPlan, Arrays, Arrays]],
        source: Arrays = NOT_GIVEN,
        destination: Arrays = NOT_GIVEN,
        *,
        together: bool = True,
        op: Any = None,
        transport: str = "auto",
        alpha: complex | Sequence[complex] = 1,
        beta: complex = 1,
        conjugate: bool = False,
        check: bool = False,
        max_bytes: int | None = None,
        comm: MPI.Comm | None = None,
    ):
        no_arrays = source is NOT_GIVEN and destination is NOT_GIVEN
        self._is_several = no_arrays and not isinstance(plan, MotionPlan)
        moves: Any = plan if self._is_several else [(plan, source, destination)]
        if comm is None:  # then the others cannot be notified of an error
            moves = _triples(moves)
        self._comm = communicator(comm, moves)
        address = address_of(self._comm, binding, (plan, source, destination))
        # The communicator may be freed before the mover is printed or bound again.
        self._place = (self._comm.rank, self._comm.size)
        with Refusing(partial(core().refuse_binding, address)):
            moves = _triples(moves)
            factors = [number(a, "alpha") for a in alpha] if is_several(alpha) else None
            if factors is not None and len(factors) != len(moves):
                raise Mismatch(f"alpha has {len(factors)} factors; there are {len(moves)} plans")
            factor: Any = 1 if factors else alpha
            options = MoverOptions(op, transport, factor, beta, conjugate, check, max_bytes)
            in_phases = not flag(together, "together")
            self._replaces = options.op == "replace"
            parts = [_bindable(self._place, self._replaces, *move) for move in moves]
        self._plans = [plan for plan, _, _ in parts]
        self._core = core().Mover(
            address,
            self._plans,
            [sources for _, sources, _ in parts],
            [destinations for _, _, destinations in parts],
            **vars(options),
            factors=factors or [1] * len(parts),
            in_phases=in_phases,
        )

    # Through the mover, because the communicator may have been freed.
    @refused_by(lambda given, _, error: join_as_failed(given[0]._core.refuse_rebind, error))
    def rebind(self, source: Any, destination: Any = NOT_GIVEN, *others: Any) -> None:
        """Bind other arrays to the same plans, without planning again. Collective.

        Parameters
        ----------
        source, destination
            As for creating the mover. With several plans, pass a pair for each instead:
            ``rebind((a, b), (c, d))``.

        Raises
        ------
        Error
            As for creating the mover, which is then bound as before. InvalidState in flight.
        """
        arrays = [one for one in (source, destination, *others) if one is not NOT_GIVEN]
        if not self._is_several:
            arrays = [tuple(arrays)]
        with Refusing(self._core.refuse_rebind):
            if len(arrays) != len(self._plans):
                raise Mismatch(
                    f"there are {len(arrays)} pairs of arrays, but {len(self._plans)} plans"
                )
            if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in arrays):
                raise WrongType(
                    "arrays must be passed as rebind(source, destination), or for a mover of "
                    "several plans as rebind((source, destination), ...)"
                )
            parts = [
                _bindable(self._place, self._replaces, plan, *pair)
                for plan, pair in zip(self._plans, arrays, strict=True)
            ]
        self._core.rebind(
            [s for _, many, _ in parts for s in many], [d for _, _, many in parts for d in many]
        )

    @refused_by(agreeing)
    def tune(self, seconds: float = 0.2) -> None:
        """Measure which transports are the fastest here, and use them. Collective.

        The transports that can carry the plan are timed on memory of the same shape as the arrays,
        whose contents are not touched. If there is not enough memory, nothing changes. All
        processes agree on the choice. Ctrl-C ends the call on all of them, and the communicator can
        no longer be used, as in any other collective call.

        The result is stored: for movers with transport "auto" of this program, and for "measure"
        of later programs in the file given by `DATAMOVER_TUNING_FILE` (by default
        `datamover/tuning` in the user's cache directory; none if empty). `explain` shows the
        candidates.

        Parameters
        ----------
        seconds : float
            Approximate time to measure in all, in addition to binding each candidate, three to nine
            rounds of each, and 6 to 60 rounds of those that seem faster than "auto", until one is.
            The last quarter of the time tries the other side as the one that copies, and other
            message lengths.

        Raises
        ------
        InvalidArgument
            `seconds` is not above 0, or above 3600.
        WrongType
            `seconds` is not a number.
        InvalidState
            The mover is in flight or freed.
        """
        with Refusing(self._core.refuse_tune):
            about = _real(seconds, "seconds")
        self._core.tune(about)

    def start(self) -> None:
        """Start the move. Does whatever is possible now, and never waits for another process.

        On a node this is often all the copying. While a progress thread runs (`progress_thread`),
        `start` only announces the move. Otherwise the move only progresses in calls that test or
        wait: before `wait`, do not wait elsewhere for a process that waits for this one here.
        Raises InvalidState if already started.
        """
        self._core.start()

    def test(self) -> bool:
        """Make progress; return whether the move is complete here. InvalidState if not started.

        If it is not complete, the other movers in flight here progress too.
        """
        return self._core.test()

    def wait(self, timeout: float | None = None) -> None:
        """Return when the destinations are complete here and the sources may be overwritten.

        Ctrl-C interrupts it.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which `Timeout` is raised, which names the missing processes. The default
            is that of `set_timeout`. After a `Timeout` or an interrupt the mover is still in
            flight, and you can wait again.
        """
        self._core.wait(seconds(timeout))

    def run(self, timeout: float | None = None) -> None:
        """Start and wait; also by calling the mover."""
        self._core(seconds(timeout))

    __call__ = run

    @property
    def plans(self) -> tuple[MotionPlan, ...]:
        """The plans that are executed."""
        return tuple(self._plans)

    @property
    def plan(self) -> MotionPlan:
        """The plan that is executed; the first of several."""
        return self._plans[0]

    @property
    def in_flight(self) -> bool:
        """Whether the mover was started and is not yet complete."""
        return self._core.in_flight

    def explain(self) -> MoverPairs:
        """Return for each pair here: transport and why, elements, bytes, encoding, loops. Local.

        The result prints as a table, with a second one of the candidates if the transports were
        measured. For programs it is a sequence of dicts, and so are its `trials`.
        """
        return MoverPairs(self._core.pairs(), self._core.trials())

    def counters(self) -> dict[str, int | float]:
        """Return messages and bytes per round, rounds, and seconds spent waiting. Local."""
        return self._core.counters()

    def close(self) -> None:
        """Free buffers and references to the arrays. Local. InvalidState in flight."""
        self._core.free()

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Close the mover; one left in flight has failed, and all processes are notified."""
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


def _show_parameters() -> None:
    """Let help show the parameters of a mover, which `__new__` only passes on."""
    made = inspect.signature(Mover.__init__)
    parameters = list(made.parameters.values())
    shown: Any = Mover
    shown.__signature__ = made.replace(parameters=parameters[1:])
    shown.__new__.__signature__ = made.replace(
        parameters=[parameters[0].replace(name="cls"), *parameters[1:]]
    )


_show_parameters()


def execute_once(plan: MotionPlan, source: Any, out: Any, comm: Any = None, **options: Any) -> Any:
    """Execute a plan between arrays; see `MotionPlan.__call__`. Collective."""
    comm = communicator(comm, [(plan, source, out)])
    address = address_of(comm, agreeing, source)
    # None may also be a process's part of an array of which it has no blocks.
    passed = collectively(address, lambda: [int(out is not None)])
    if not any(numbers[0] for numbers in gathered(address, passed)):
        terms = (plan[i] for i in range(len(plan)))  # iterating over a plan expands it to sections
        is_halo = len(plan) > 0 and all(isinstance(term, HaloExchange) for term in terms)
        out = source if is_halo else _made_for(plan, source, comm)
    with Mover(plan, source, out, comm=comm, **options) as mover:
        mover.run()
    return out


def _made_for(plan: MotionPlan, source: Arrays, comm: MPI.Comm) -> Array:
    """Make an array of zeros for the destination of a plan. Collective."""
    address = comm_address(comm)

    def dtype_here() -> list[int]:
        if isinstance(source, (list, tuple)):
            raise InvalidArgument("several arrays need their destinations: pass out=[...]")
        array: Any = source if is_file(source) else wrapped(cast(Any, source))
        rows = isinstance(array, UserArrays) and array._columns(plan.source, comm.rank)
        if rows and len(rows) > 1:
            raise Unsupported(f"elements are rows of {len(rows)}: pass their destination as out=")
        return [] if array.dtype is None else list(pickle.dumps(array.dtype))

    # A process without elements does not know their dtype.
    dtypes = gathered(address, collectively(address, dtype_here))
    known = next((bytes(d.astype("u1")) for d in dtypes if len(d)), pickle.dumps(np.dtype("f8")))
    array = Array(plan.destination, pickle.loads(known), comm=comm)
    array._memory()[0][...] = 0
    return array
