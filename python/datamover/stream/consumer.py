# SPDX-License-Identifier: BSD-3-Clause
"""Consumer: receives the arrays that another program sends, step by step."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from datamover import _plan
from datamover.arguments import seconds, text
from datamover.arrays import Array
from datamover.collective_calls import agreeing, refused_by, stay_where_the_program_ends
from datamover.deprecated import comm_by_place
from datamover.errors import Error, InvalidArgument, InvalidState, WrongType
from datamover.layouts import Layout
from datamover.mpi import error_of
from datamover.stream import wire
from datamover.stream.group import Group
from datamover.stream.message_parts import NewArrays
from datamover.stream.wire import ArrayInfo

if TYPE_CHECKING:
    from mpi4py import MPI


class _Wanted:
    """A requested array, of which this process gets its part in every step."""

    def __init__(self, target: Layout | Array, rank: int):
        self.target, self._rank = target, rank
        self.layout = target.layout if isinstance(target, Array) else target
        self._new: NewArrays | None = None

    def text_of_dtype(self) -> str:
        """Return the dtype that the array must have, as JSON; "" for any."""
        return wire.text_of_dtype(self.target.dtype) if isinstance(self.target, Array) else ""

    def unpack(self, end: Any, name: str, dtype: str) -> Any:
        """Unpack the elements of a step; return the array for the user."""
        if isinstance(self.target, Array):
            end.unpack(name, *self.target._memory())
            return self.target
        if self._new is None:  # it is the same in every step
            self._new = NewArrays(self.layout, self._rank, wire.dtype_of_text(dtype))
        found = self._new
        return found.arrays_in(end.unpack_new(name, found.dtype.itemsize, found.layout.end_bytes))


@comm_by_place(1)
@refused_by(agreeing)
def connect(
    address: str,
    *,
    token: str | None = None,
    timeout: float | None = 30.0,
    ahead: int | None = None,
    local: bool = True,
    newest: bool = False,
    comm: MPI.Comm | None = None,
) -> Consumer:
    """Connect to a stream that another program sends. Collective.

    Parameters
    ----------
    address : str
        Where the stream's process 0 listens, "tcp://host:port".
    token : str, optional
        The token that the stream requires, given on process 0. By default, that of the environment
        variable DATAMOVER_STREAM_TOKEN, or the one that a stream of the same user on this machine
        has stored.
    timeout : float, optional
        Seconds to wait for the stream to open the address; None waits forever.
    ahead : int, optional
        Credit: number of steps for which each process reserves memory, beyond the one that the
        program is working on; 1 to 64. The stream sends no others. By default two, or as many as
        fit in 8 MiB for this process, at most 16. The default is two with `newest`, or if the
        stream drops its oldest steps, because more granted steps would be older.
    local : bool
        Whether processes on this machine may send messages through shared memory.
    newest : bool
        Whether this consumer gets the newest step only, whatever the policy of the stream: one
        step waits for it and is replaced by the next one, and `send` never waits for it.
    comm : mpi4py.MPI.Comm, optional
        The processes that receive. By default, this process alone, without MPI.

    Returns
    -------
    Consumer

    Raises
    ------
    Timeout
        No stream listens at the address.
    IoFailed
        Another program than a stream listens at the address.
    InvalidState
        The stream has ended.
    InvalidArgument
        The stream requires another token, or an argument is not valid.
    PeerFailed
        The stream ends during the call, or has as many consumers as it can serve.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> line = dm.BlockCyclic(6, "block", nprocs=1)
    >>> with dm.Stream("tcp://127.0.0.1:0", consumers=1) as out:
    ...     with dm.stream.connect(out.address) as source:
    ...         steps = source.steps({"u": line})
    ...         out.send("u", np.arange(6.0), layout=line, step=4)
    ...         step, arrays = next(steps)
    ...         step, arrays["u"].tolist()
    (4, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    """
    group = Group(comm)
    with group.refusing():
        wire.parse_address(address)
        if ahead is not None and not (type(ahead) is int and 1 <= ahead <= wire.MAX_AHEAD_STEPS):
            raise InvalidArgument(
                f"ahead is {ahead!r}; it must be 1 to {wire.MAX_AHEAD_STEPS} steps"
            )
        known = None if token is None else text(token, "token")
        options = known, seconds(timeout), ahead or 0, bool(local), bool(newest)
    return Consumer(address, group, _plan.Consumer(group.members(), address, *options))


class _Taken(threading.local):
    """A step that was taken, but not yet returned to the thread that took it."""

    step: tuple[int, dict[str, Any]] | None = None


class Consumer:
    """The receiving end of a stream; created by `connect`."""

    def __init__(self, address: str, group: Group, end: Any):
        self._address, self._group, self._end = address, group, end
        self._comm = group.comm  # notified if a call ends outside of an agreement
        self._wanted: dict[str, _Wanted] = {}
        self._turn = threading.Lock()  #: held while a step is taken
        self._unpacked: tuple[int, dict[str, Any]] | None = None  #: a step that is not taken yet
        self._taken = _Taken()
        self._finalizer = weakref.finalize(self, end.close)

    @property
    def dropped(self) -> int:
        """Steps that the stream's policy has dropped for this consumer so far."""
        return self._end.dropped

    @refused_by(lambda given, _, error: given[0]._group.refuse(error))
    def arrays(self, timeout: float | None = None) -> dict[str, ArrayInfo]:
        """Return the arrays that the stream has sent so far, at least one. Collective.

        Waits for the first array, but not for the end of its step: other arrays of that step may
        be missing.

        Raises
        ------
        Timeout
            Nothing was sent in time.
        """
        with self._group.refusing():
            limit = seconds(timeout)
        return {
            name: ArrayInfo(name, wire.dtype_of_text(dtype), layout)
            for name, dtype, layout in self._end.arrays(limit)
        }

    @refused_by(lambda given, _, error: given[0]._group.refuse(error))
    def steps(
        self,
        targets: Mapping[str, Layout | Array] | None = None,
        timeout: float | None = None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Request arrays, and iterate over the steps that begin from now on. Collective.

        Returns once the stream has confirmed the request: each step that begins after that is for
        this consumer. Only the call is collective. Each process then gets the same steps in the
        same order, without waiting for the others. The iteration ends when the stream is closed.
        Threads take turns: each step goes to one of them, and `timeout` counts from the beginning
        of its turn.

        Parameters
        ----------
        targets : mapping of name to layout or Array, optional
            The layout of each requested array on the processes of `comm`. Each index of a layout
            gets the element that is sent with the same index, so a floor plan may request a part of
            an array. An `Array` is written in every step, once all of the step has arrived. With
            a layout, each step has new arrays, which the program may keep; contiguous parts are
            received in place. By default, every array is requested, whole, including those that
            are sent for the first time later. Each array is then a step of its own, with the number
            of its step. The default works if one process receives.
        timeout : float, optional
            Seconds to wait for a step; by default forever. Before the first step of an array, this
            process connects to the senders, which takes up to 10 seconds more if one of them does
            not answer.

        Yields
        ------
        step : int
            The number that the sending program gave it.
        arrays : dict
            This process's part of each array that was sent in the step: an ndarray; a mapping of
            block to ndarray if it has several blocks; or the given `Array`.

        Raises
        ------
        Mismatch
            Indices are not sent, processes pass different targets, or the stream ended without
            any of the requested arrays, but with others.
        WrongType
            An `Array` has another dtype.
        InvalidArgument
            Several processes pass no targets, or one `Array` is the target of two arrays.
        PeerFailed
            A sending process failed; a receiving process was killed, or left without taking this
            step.
        Timeout
            No step arrived in time; the next call waits for it again. Or the stream was closed
            with a timeout before this process had received all of a step, which others may have.
            Or the stream did not confirm the request within the `timeout` of `connect`.
        IoFailed
            A message arrived damaged.
        """
        with self._group.refusing():
            limit = seconds(timeout)
            wanted = {} if targets is None else self._checked(targets)
            words = [
                (name, one.layout, one.text_of_dtype(), not isinstance(one.target, Array))
                for name, one in wanted.items()
            ]
        if targets is None:
            self._end.subscribe_to_all()
        else:
            self._end.subscribe(words)
        self._wanted = wanted
        return _Steps(self, limit)

    def _checked(self, targets: Any) -> dict[str, _Wanted]:
        if self._wanted:
            raise InvalidState("steps() was already called; connect again to request other arrays")
        if not isinstance(targets, Mapping) or not targets:
            raise WrongType("targets must map at least one array's name to its layout or Array")
        names: dict[int, str] = {}  # of the arrays that are written
        for name, target in targets.items():
            is_printable = text(name, "name of an array").isprintable()
            if not is_printable or not 1 <= len(name.encode()) <= wire.MAX_NAME_BYTES:
                raise InvalidArgument(
                    f"the array name {name[:24]!r}, of {len(name)} characters, is not printable "
                    f"text of 1 to {wire.MAX_NAME_BYTES} bytes"
                )
            if not isinstance(target, Layout | Array):
                raise WrongType(
                    f"the target of {name!r} is a {type(target).__name__}; it must be a layout or"
                    " an Array"
                )
            if isinstance(target, Array):
                target._require_rank(self._group.rank)
                target._memory()  # raises if it has been freed
                if (first := names.setdefault(id(target), name)) != name:
                    raise InvalidArgument(f"{first!r} and {name!r} have the same Array as target")
        return {name: _Wanted(target, self._group.rank) for name, target in targets.items()}

    def _next(self, limit: float | None) -> tuple[int, dict[str, Any]]:
        """Return a step. After Ctrl-C, the next call of this thread returns it."""
        taken = self._taken
        if taken.step is None:
            with self._turn:
                self._take(limit)
        step: Any = taken.step
        taken.step = None
        return step

    def _take(self, limit: float | None) -> None:
        """Take a step, and store it for this thread.

        An interruption may arrive after any call. Repeating the calls before it has no effect: the
        engine returns a step until it is taken, and takes it once.
        """
        if self._unpacked is None:
            found = self._end.next(limit)
            if found is None:
                raise StopIteration
            self._unpacked = found[0], self._arrays_of(found[1])
        self._end.taken()
        self._taken.step, self._unpacked = self._unpacked, None

    def _arrays_of(self, found: list[tuple[str, str]]) -> dict[str, Any]:
        """Unpack the arrays of the received step, with these names and dtypes."""
        try:
            return {
                name: self._target(name).unpack(self._end, name, dtype) for name, dtype in found
            }
        except Exception as error:
            self._fail(error)
            raise

    def _target(self, name: str) -> _Wanted:
        """Return the request for an array; if all are requested, create it the first time."""
        if name not in self._wanted:
            self._wanted[name] = _Wanted(self._end.layout(name), self._group.rank)
        return self._wanted[name]

    def _fail(self, error: BaseException) -> None:
        """Leave with an error, which the others get instead of steps that were not taken here."""
        said = error_of(error)
        self._end.fail(said.code, str(said))

    def counters(self) -> dict[str, int]:
        """Count what this process received, and steps that the stream dropped. Local."""
        return self._end.counters()

    def close(self) -> None:
        """Leave the stream. Local.

        The other processes of `comm` still get every step that this one took. If they ask for a
        further step, they get a `PeerFailed` that names this process.
        """
        self._end.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        if error is not None:
            self._fail(error)
        self.close()

    def __repr__(self) -> str:
        return f"Consumer({self._address}, process {self._group.rank} of {self._group.size})"


class _Steps(Iterator[tuple[int, dict[str, Any]]]):
    """Iterator over steps. Unlike a generator, it continues after a `Timeout` or Ctrl-C."""

    def __init__(self, consumer: Consumer, limit: float | None):
        self._consumer, self._limit = consumer, limit

    def __next__(self) -> tuple[int, dict[str, Any]]:
        try:
            return self._consumer._next(self._limit)
        except Error:
            stay_where_the_program_ends()
            raise

    def __repr__(self) -> str:
        return f"<steps of {self._consumer!r}>"
