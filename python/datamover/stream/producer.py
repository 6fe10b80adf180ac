# SPDX-License-Identifier: BSD-3-Clause
"""Producer: sends the arrays of a distributed program, step by step."""

from __future__ import annotations

import functools
import logging
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from datamover._plan import Producer, is_loopback
from datamover.arguments import integer, memory_limit, seconds, text
from datamover.arrays import Array, UserArrays
from datamover.collective_calls import agreeing, leaving, refused_by
from datamover.counted import counted
from datamover.deprecated import comm_by_place
from datamover.errors import InvalidArgument, InvalidState, Mismatch
from datamover.layouts import Layout, checked
from datamover.stream import wire
from datamover.stream.group import Group
from datamover.stream.message_parts import LocalMemory, SentArray, local_memory

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover._plan import Places
    from datamover.movers import OneArray

QUEUE_BYTES = 1 << 30

log = logging.getLogger("datamover")

Call = TypeVar("Call", bound=Callable[..., Any])


def _noting(call: Call) -> Call:
    """Decorate a collective call, whose errors the other processes know when it has ended."""

    @functools.wraps(call)
    def called(self: Stream, *given: Any, **said: Any) -> Any:
        try:
            return call(self, *given, **said)
        except BaseException as error:
            self._raised = error
            raise

    return cast("Call", called)


class Stream:
    """The sending end of a stream, which sends arrays step by step to its consumers.

    Consumers may connect, leave, fail and connect again at any time. Each gets every step from the
    first one that begins after it has connected, except those that the policy drops for it.
    Opening, sending and closing are collective.

    Parameters
    ----------
    address : str
        Where process 0 listens: "tcp://host:port", with an address of this machine that consumers
        can reach. Port 0 selects a free port, which the attribute `address` contains. The other
        processes listen at ports of their own.
    pathways : int
        Connections from each sending to each receiving process, among which a message is divided;
        1 to 16.
    policy : {"block", "drop_oldest"}
        Action of `send` if a consumer's queue is full: wait, or drop the consumer's oldest waiting
        step.
    queue_steps : int
        Maximum number of steps that wait for a consumer, beyond those for which it has granted
        credit.
    queue_bytes : int or None
        Maximum number of bytes that wait for a consumer, of all processes together; None for no
        limit. The same amount again may be in flight to it. A consumer for which one step needs
        more is rejected.
    consumers : int
        The number of consumers for which the first `send` waits. By default it does not wait, and
        steps that are sent without a consumer are discarded. Pass 1 if the other program needs
        every step, for example because it also sends to this program.
    token : str, optional
        The secret that consumers must present, 16 to 256 printable ASCII characters. By default,
        a new one, which consumers of the same user on the machine of process 0 find by
        themselves. Others need it as `token=` or in DATAMOVER_STREAM_TOKEN.
    timeout : float, optional
        Seconds after which a wait for consumers raises `Timeout`; by default never.
    local : bool
        Whether consumers on this machine get messages through shared memory.
    open : bool
        Whether everybody who can reach the address may connect, without a token.
    comm : mpi4py.MPI.Comm or None
        The processes that send; None for this one alone, without MPI.

    Attributes
    ----------
    address : str
        The address to which consumers connect.
    token : str
        "" if everybody may connect.

    Raises
    ------
    IoFailed
        The stream cannot listen at the address.
    InvalidArgument
        An address, policy, token or number is not valid.

    Notes
    -----
    Source: Network I/O for a distributed-memory machine, sections 5 and 6. Nothing is encrypted.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> line = dm.BlockCyclic(6, "block", nprocs=1)
    >>> with dm.Stream("tcp://127.0.0.1:0") as out:
    ...     out.send("u", np.arange(6.0), layout=line)  # nobody listens
    ...     out.counters()["consumers"]
    0
    """

    @comm_by_place(1)
    @refused_by(agreeing)
    def __init__(
        self,
        address: str,
        *,
        pathways: int = 1,
        policy: str = "block",
        queue_steps: int = 2,
        queue_bytes: int | None = QUEUE_BYTES,
        consumers: int = 0,
        token: str | None = None,
        timeout: float | None = None,
        local: bool = True,
        open: bool = False,
        comm: MPI.Comm | None = None,
        _place: tuple[Places | None, str] = (None, ""),
    ):
        self._group = Group(comm)
        self._comm = comm  # notified if a call ends outside of an agreement: `collective_calls`
        self._sent: dict[str, SentArray] = {}
        self._raised: BaseException | None = None  # the other processes were notified of it
        with self._group.refusing():
            wire.parse_address(address)
            options = (
                address,
                _count(pathways, "pathways"),
                _text(policy, "policy"),
                _count(queue_steps, "queue_steps"),
                memory_limit(queue_bytes, "queue_bytes"),
                _count(consumers, "consumers"),
                None if token is None else _text(token, "token"),
                seconds(timeout),
                bool(local),
                bool(open),
            )
        self._end = Producer(self._group.members(), *options, *_place)
        self.address, self.token = self._end.address, self._end.token
        if self._group.rank == 0:
            _report_access(self.address, self.token, is_given=token is not None)
        self._finalizer = weakref.finalize(self, self._end.stop)
        self._process = os.getpid()

    @_noting
    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def send(
        self,
        name: str,
        array: OneArray,
        *,
        step: int | None = None,
        layout: Layout | None = None,
    ) -> None:
        """Send an array of a step to all consumers that requested it. Collective.

        Returns when the array may be written again: it has been packed, once for each consumer
        that gets it, and is sent in the background.

        Parameters
        ----------
        name : str
            The name by which consumers request it. Its dtype and layout are the same in all steps.
        array : Array, ndarray, mapping of block to ndarray, UserArrays or None
            This process's part, as for movers.
        step : int, optional
            The number of the step. Arrays that are sent one after the other with the same number
            are one step. By default, each is a step of its own, numbered from the last one on.
        layout : BlockCyclic, FloorPlan or IndexList, optional
            The layout of an array that is not an `Array`; required the first time.

        Raises
        ------
        Mismatch
            Shape, layout, name or step differ between processes or from the previous step.
        WrongType
            The dtype differs from that of the previous step.
        InvalidArgument
            The array was already sent in this step.
        Timeout
            The consumers received nothing in time, with policy "block", or those of a manager's
            other streams.
        InvalidState
            The stream is closed, or waits for data that its own thread must send first.
        """
        if self._end.is_closed:  # on all processes, which make no further calls
            raise InvalidState("the stream is closed")
        try:
            said, local, words = self._part(name, array, layout)
            number = None if step is None else _count(step, "step")
        except BaseException as error:
            self._group.refuse(error, self._end.refuse)
        try:
            self._end.send(name, said, local.memory, local.layout, *words, number)
        finally:
            if name not in self._sent and self._end.knows(name):
                self._sent[name] = SentArray(cast("Layout", said))

    def _part(
        self, name: str, array: Any, layout: Any
    ) -> tuple[Layout | None, LocalMemory, tuple[str, int]]:
        """Return this process's part: layout, memory; dtype and bytes of an element.

        The layout is None if it is the one that the array had before.
        """
        known = self._sent.get(name) if isinstance(name, str) else None
        if known is not None and layout is known.layout and type(array) is np.ndarray:
            local = known.find(array)  # as most programs send it
            if local is not None:
                return None, local, known.words
        if known is None and not text(name, "name").isprintable():
            raise InvalidArgument(f"the array name {name!r} is not printable text")
        layout = self._layout_of(array, layout, known)
        said = None if known is not None and layout is known.layout else layout
        if known is not None and (local := known.find(array)) is not None:
            return said, local, known.words
        given = array if isinstance(array, (Array, UserArrays)) else UserArrays(array)
        dtype = given.dtype
        words = ("", 0) if dtype is None else _said_of(dtype)
        if layout.nprocs != self._group.size:
            raise Mismatch(
                f"the layout has {layout.nprocs} processes; the stream has {self._group.size}"
            )
        local = local_memory(given, layout, self._group.rank, dtype or np.dtype("u1"))
        if known is not None:
            known.remember(array, local, words)
        return said, local, words

    def _layout_of(self, array: Any, layout: Any, known: SentArray | None) -> Layout:
        if layout is None and isinstance(array, Array):
            return array.layout
        if layout is None and known is not None:
            return known.layout
        if layout is None:
            raise InvalidArgument("pass layout= for an array that is not an Array")
        checked(layout)
        if isinstance(array, Array) and layout != array.layout:
            raise Mismatch("layout= differs from the layout of the Array")
        return layout

    @_noting
    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def end_step(self) -> None:
        """End the step that was sent last. Collective.

        Consumers get it now, without requested arrays that were not sent. The next array begins a
        new step, even if it has the same number.

        Raises
        ------
        Mismatch
            The processes make different calls.
        InvalidState
            The stream is closed.
        """
        self._end.end_step()

    @_noting
    def _refuse(self, error: BaseException) -> NoReturn:
        """Raise on all processes the error of a call that this one cannot make. Collective."""
        if self._end.is_closed:
            raise error  # the others make no calls
        self._group.refuse(error, self._end.refuse)

    def counters(self) -> dict[str, int]:
        """Return counters of bytes of this process, and on process 0 of consumers. Local.

        - `bytes_kept`: bytes that wait for consumers or are being sent.
        - `bytes_held`: these, and memory that is kept for reuse.
        - `connections_refused`: connections that this process closed, because their input was
          malformed or late, or because there were too many.
        - `consumers_came`: consumers, counted when the first step begins after they have called
          `steps()`. Each also counts in exactly one of the next three. A program that connects and
          never gets a step, such as `datamover stream info ADDRESS`, is not counted.
        - `consumers`: those that get steps now.
        - `consumers_left`: those whose processes all left without an error, or whose stream ended.
        - `consumers_lost`: those of which a process failed, was killed or was rejected.
        - `steps_dropped`: dropped steps, for all consumers together. If `close` interrupts a step
          while it is sent, only its consumer counts it.
        """
        return self._end.counters()

    @_noting
    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def close(self, timeout: float | None = 30.0) -> None:
        """Wait until consumers have received everything, then end the stream. Collective.

        After `timeout` seconds (None waits forever), the remaining steps are dropped and counted
        as such. A second call has no effect, and neither has one in a forked process. If an
        argument of one process is wrong, such as a `timeout` of 0, all processes raise that error,
        even from other calls, and the stream stays open.
        """
        if self._end.is_closed:
            return
        try:
            limit = seconds(timeout)
        except BaseException as error:
            self._refuse(error)
        try:
            self._end.close(limit)
        finally:
            if self._end.is_closed:
                self._stop()

    def _stop(self) -> None:
        self._finalizer()
        self._sent = {}

    def __enter__(self) -> Stream:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        """Close the stream; after an exception end it at once, and notify the other processes."""
        if os.getpid() != self._process:  # a forked process that ends: the stream is its parent's
            return
        if error is None:
            self.close()
            return
        if not self._end.is_closed and error is not self._raised:
            self._group.tell_failure(error)
        self._stop()

    def __repr__(self) -> str:
        state = "closed" if self._end.is_closed else counted(self._end.num_arrays, "array")
        return f"Stream({self.address!r}, {state})"


def _report_access(address: str, token: str, *, is_given: bool) -> None:
    """Log who may connect, and with which token."""
    if not token:
        log.warning("%s is open: everybody who can reach it can read what it sends", address)
    elif not is_given:
        is_local = is_loopback(wire.parse_address(address)[0])
        level = logging.INFO if is_local else logging.WARNING
        variable = wire.TOKEN_VARIABLE
        log.log(level, "consumers of %s elsewhere need %s=%s", address, variable, token)


def _text(value: Any, name: str) -> str:
    """Return a printable text. Raises InvalidArgument."""
    if not text(value, name).isprintable():
        raise InvalidArgument(f"{name} is not printable text")
    return value


def _count(value: Any, name: str) -> int:
    """Return an integer; the engine checks whether it makes sense."""
    count = integer(value, name)
    if not 0 <= count <= wire.MAX_NUMBER:
        raise InvalidArgument(f"{name} is {count}; it must be 0 to {wire.MAX_NUMBER}")
    return count


@functools.cache
def _said_of(dtype: np.dtype) -> tuple[str, int]:
    """Return a dtype as the text for the engine, and the bytes of an element."""
    return wire.text_of_dtype(dtype), dtype.itemsize
