# SPDX-License-Identifier: BSD-3-Clause
"""Producer: sends the arrays of a distributed program, step by step."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from datamover._plan import Producer, is_loopback
from datamover.arguments import integer, memory_limit, seconds, text
from datamover.arrays import UserArrays, XArray
from datamover.collective_calls import agreeing, leaving, refused_by
from datamover.counted import counted
from datamover.errors import InvalidArgument, InvalidState, Mismatch
from datamover.layouts import Layout, checked
from datamover.stream import wire
from datamover.stream.group import Group
from datamover.stream.message_parts import KnownMemory, LocalMemory, local_memory

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover._plan import Places
    from datamover.movers import OneArray

QUEUE_BYTES = 1 << 30

log = logging.getLogger("datamover")


class SentArray:
    """An array that was sent before: its layout, and where its elements lay."""

    def __init__(self, layout: Layout):
        self.layout, self.memory = layout, KnownMemory()


class Stream:
    """The sending end of a stream: arrays go, step by step, to whoever listens.

    Consumers may come, leave, fail and come again at any time; each gets every step from the first
    one that begins after it has come, except those that the policy drops for it. Collective to
    make, to send and to close.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or None
        The processes that send; None for this one alone, without MPI.
    address : str
        Where process 0 listens: "tcp://host:port", with an address of this machine that consumers
        can reach; port 0 for any that is free, which `address` then tells. The other processes
        listen at ports of their own.
    pathways : int
        Connections from each sending to each receiving process, which share a message; 1 to 16.
    policy : {"block", "drop_oldest"}
        Action of `send` if a consumer's queue is full: wait, or drop the consumer's oldest waiting
        step.
    queue_steps : int
        Most steps that wait for a consumer beyond those that it has asked for.
    queue_bytes : int or None
        Most bytes that wait for a consumer, of all processes together, None for no limit; as many
        more may be on their way to it. A consumer for which one step takes more is refused.
    consumers : int
        The first `send` waits until so many consumers have asked for arrays. By default it does not
        wait, and steps that are sent before a consumer is there go to nobody. Pass 1 if the other
        program needs every step, as one that also sends to this program does.
    token : str, optional
        The secret that consumers must present, 16 to 256 printable ASCII characters. By default,
        one is made, which consumers of the same user on the machine of process 0 find by
        themselves. Others need it as `token=` or in DATAMOVER_STREAM_TOKEN.
    timeout : float, optional
        Seconds after which a wait for consumers gives up; never without it.
    local : bool
        Whether consumers on this machine get messages through shared memory.
    open : bool
        Whether everybody who can reach the address may connect, without a token.

    Attributes
    ----------
    address : str
        Where consumers connect to.
    token : str
        "" if everybody may connect.

    Raises
    ------
    IoError
        The address cannot be listened at.
    InvalidArgument
        An address, policy, token or number is not valid.

    Notes
    -----
    Source: Network I/O for a distributed-memory machine, sections 5 and 6. Nothing is encrypted.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> line = dm.BlockCyclic(6, "block", nprocs=1)
    >>> with dm.Stream(None, "tcp://127.0.0.1:0") as out:
    ...     out.send("u", np.arange(6.0), layout=line)  # nobody listens
    ...     out.counters()["consumers"]
    0
    """

    @refused_by(agreeing)
    def __init__(
        self,
        comm: MPI.Comm | None,
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
        _place: tuple[Places | None, str] = (None, ""),
    ):
        self._group = Group(comm)
        self._sent: dict[str, SentArray] = {}
        self._raised: BaseException | None = None  # the other processes know of it
        with self._refusing():
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

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Have what is raised here be raised by the collective call that the others make."""
        try:
            yield
        except BaseException as error:
            self._group.refuse(error)

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def send(
        self,
        name: str,
        array: OneArray,
        *,
        step: int | None = None,
        layout: Layout | None = None,
    ) -> None:
        """Send an array of a step to all consumers that want it. Collective.

        Returns when the array may be written again: it has been packed, once for each consumer
        that gets it, and travels meanwhile. Of many steps that are alike and come within
        microseconds, processes may be up to 16 ahead of one whose call fails, and raise its error
        then.

        Parameters
        ----------
        name : str
            Consumers ask for it by this name. All steps have the same dtype and layout of it.
        array : XArray, ndarray, mapping of block to ndarray, UserArrays or None
            This process's part, as movers take it.
        step : int, optional
            The number of the step. Arrays that are sent one after the other with the same number
            are one step; without a number each is a step of its own, numbered from the last one on.
        layout : BlockCyclic, FloorPlan or IndexList, optional
            Of arrays that are no `XArray`; needed once.

        Raises
        ------
        Mismatch
            Shape, layout, name or step that differ between processes or from the step before.
        WrongType
            The dtype differs from the step before.
        InvalidArgument
            An array that was sent in this step before.
        Timeout
            Consumers took nothing in time, with policy "block", or those of a manager's other
            streams.
        InvalidState
            The stream is closed, or waits for what its own thread has to send first.
        """
        try:
            self._send(name, array, step, layout)
        except BaseException as error:
            self._raised = error
            raise

    def _send(self, name: str, array: Any, step: Any, layout: Any) -> None:
        if self._end.is_closed:  # for all, who make no further calls
            raise InvalidState("the stream is closed")
        try:
            said, local, words = self._part(name, array, layout)
            number = None if step is None else _count(step, "step")
        except BaseException as error:
            self._group.take_part(self._end.refuse, error)
        try:
            self._end.send(name, said, local.memory, local.layout, *words, number)
        finally:
            if name not in self._sent and self._end.knows(name):
                self._sent[name] = SentArray(said)

    def _part(
        self, name: str, array: Any, layout: Any
    ) -> tuple[Layout | None, LocalMemory, tuple[str, int]]:
        """Find this process's part: layout, memory; dtype and bytes of an element.

        Of the layout that the array had before nothing is said.
        """
        known = self._sent.get(name) if isinstance(name, str) else None
        if known is not None and layout is known.layout and type(array) is np.ndarray:
            local = known.memory.find(array)  # as most programs send it
            if local is not None:
                return None, local, known.memory.words
        if known is None and not text(name, "name").isprintable():
            raise InvalidArgument(f"the array name {name!r} is not printable text")
        layout = self._layout_of(array, layout, known)
        said = None if known is not None and layout is known.layout else layout
        local = known.memory.find(array) if known is not None else None
        if local is not None:
            return said, local, known.memory.words
        given = array if isinstance(array, (XArray, UserArrays)) else UserArrays(array)
        dtype = given.dtype
        words = ("", 0) if dtype is None else _said_of(dtype)
        if layout.nprocs != self._group.size:
            raise Mismatch(
                f"the layout has {layout.nprocs} processes; the stream has {self._group.size}"
            )
        local = local_memory(given, layout, self._group.rank, dtype or np.dtype("u1"))
        if known is not None:
            known.memory.remember(array, local, words)
        return said, local, words

    def _layout_of(self, array: Any, layout: Any, known: SentArray | None) -> Layout:
        if layout is None:
            if isinstance(array, XArray):
                layout = array.layout
            elif known is not None:
                return known.layout
            else:
                raise InvalidArgument("pass layout= for an array that is not an XArray")
        checked(layout)
        if isinstance(array, XArray) and layout != array.layout:
            raise Mismatch("layout= differs from the layout of the XArray")
        return layout

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def end_step(self) -> None:
        """End the step that was sent last: nothing more comes of it. Collective.

        Consumers get it now, without arrays that they want and that were not sent. What is sent
        next is a step of its own, also where it has the same number.

        Raises
        ------
        Mismatch
            Another process makes another call.
        InvalidState
            The stream is closed.
        """
        try:
            self._end.end_step()
        except BaseException as error:
            self._raised = error
            raise

    def _refuse(self, error: BaseException) -> NoReturn:
        """Have a call that this process cannot make be an error of all. Collective."""
        if self._end.is_closed:
            raise error  # there are no calls of the others
        try:
            self._group.take_part(self._end.refuse, error)
        except BaseException as raised:
            self._raised = raised
            raise

    @property
    def _comm(self) -> MPI.Comm | None:
        """Whom a call tells that ends where no agreement does; see `collective_calls`."""
        return self._group.comm

    def counters(self) -> dict[str, int]:
        """Count bytes kept and sent by this process, on process 0 also consumers. Local.

        `bytes_kept` wait for consumers or are on their way; `bytes_held` are these and memory that
        is there to be packed into again. `connections_refused` were ended by this process: what
        came over them made no sense, or not in time, or there were too many.
        A consumer counts in `consumers_came` when the first step begins after it has called
        `steps()`. After that it counts in exactly one of `consumers`, while it gets steps;
        `consumers_left`, when all its processes left without an error or the stream has ended; and
        `consumers_lost`, when one of its processes failed, was killed or was refused. A program
        that connects and never gets a step, such as `datamover stream ADDRESS --info`, is not
        counted. `steps_dropped` were dropped, for all consumers together; what `close` cuts on its
        way, of which nobody here knows whether it came, its consumer alone counts.
        """
        return self._end.counters()

    @refused_by(lambda given, _, error: given[0]._refuse(error))
    def close(self, timeout: float | None = 30.0) -> None:
        """Wait until consumers have what was sent to them, then end the stream. Collective.

        What they have not taken after `timeout` seconds (None: wait for ever) they do not get; it
        counts as dropped. A second call does nothing, nor does one in a forked process. Where the
        arguments of a process are wrong, such as a `timeout` of 0, all raise that, also from other
        calls that they make, and the stream stays open.
        """
        if self._end.is_closed:
            return
        try:
            limit = seconds(timeout)
        except BaseException as error:
            self._refuse(error)
        try:
            self._end.close(limit)
        except BaseException as error:
            self._raised = error
            raise
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
        """Close the stream; after an exception end it at once, and tell the other processes."""
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
    """Give a text that can be told."""
    if not text(value, name).isprintable():
        raise InvalidArgument(f"{name} is not printable text")
    return value


def _count(value: Any, name: str) -> int:
    """Give an integer; whether it makes sense the engine says."""
    count = integer(value, name)
    if not 0 <= count <= wire.MAX_NUMBER:
        raise InvalidArgument(f"{name} is {count}; it must be 0 to {wire.MAX_NUMBER}")
    return count


@functools.cache
def _said_of(dtype: np.dtype) -> tuple[str, int]:
    """Write a dtype down for the engine, with the bytes of an element."""
    return wire.text_of_dtype(dtype), dtype.itemsize
