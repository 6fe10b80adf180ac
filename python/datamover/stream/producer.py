# SPDX-License-Identifier: BSD-3-Clause
"""How does a distributed program send its arrays out, step by step?"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import operator
import os
import socket
import time
import weakref
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover._plan import SendingEnd, plan_between
from datamover.arguments import MOST_BYTES, memory_limit, seconds, text
from datamover.arrays import UserArrays, XArray
from datamover.collective_calls import agreeing, refused_by
from datamover.errors import (
    InvalidArgument,
    InvalidState,
    Mismatch,
    PeerFailed,
    Timeout,
    WrongType,
)
from datamover.layouts import Layout
from datamover.mpi import told
from datamover.stream import endpoint, wire
from datamover.stream.group import Group
from datamover.stream.message_parts import KnownMemory, LocalMemory, Packer, local_memory

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover.movers import OneArray

POLICIES = ("block", "drop_oldest", "drop_newest")
MAX_PATHWAYS = 16
QUEUE_BYTES = 1 << 30
#: While process 0 waits for a consumer the others hear from it this often.
ROUND_SECONDS = 0.05

log = logging.getLogger("datamover")


@dataclasses.dataclass
class SentArray:
    """An array that a stream sends: the same in every step."""

    number: int
    name: str
    layout: Layout
    dtype: np.dtype


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
    policy : {"block", "drop_oldest", "drop_newest"}
        What `send` does where a consumer's queue is full: wait; drop the consumer's oldest waiting
        step; drop the new step for this consumer.
    queue_steps : int
        Most steps that wait for a consumer beyond those that it has asked for.
    queue_bytes : int or None
        Most bytes that wait for a consumer, of all processes together, None for no limit; as many
        more may be on their way to it. A consumer for which one step takes more is refused.
    consumers : int
        The first `send` waits until so many consumers are there.
    token : str, optional
        What consumers must know. Without it only processes of this machine may connect where the
        address is the loopback's; for any other address a token is made.
    timeout : float, optional
        Seconds after which a wait for consumers gives up; never without it.
    local : bool
        Whether consumers on this machine get messages through shared memory.

    Attributes
    ----------
    address : str
        Where consumers connect to.
    token : str
        "" where none is needed.

    Raises
    ------
    IoError
        The address cannot be listened at.
    InvalidArgument
        An address, policy, token or number that makes no sense.

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
    ):
        self._group = Group(comm)
        self._arrays: dict[str, SentArray] = {}
        self._memories: dict[str, KnownMemory] = {}
        self._packers: dict[tuple[str, int], Packer] = {}
        self._wanted: dict[str, dict[str, Layout]] = {}
        self._sequence, self._step, self._names_of_step = -1, None, set()
        self._closed = False
        self._raised: BaseException | None = None  # by `send`: the other processes know of it
        self._sending: tuple[int, int] | None = None  # sequence and number, while it is decided on

        def prepare() -> socket.socket:
            self._timeout = seconds(timeout)
            self._pathways = _count(pathways, "pathways", 1, MAX_PATHWAYS)
            if text(policy, "policy") not in POLICIES:
                raise InvalidArgument(f'policy is "{policy}", known are {", ".join(POLICIES)}')
            least = _count(consumers, "consumers", 0, wire.MAX_PROCESSES)
            steps = _count(queue_steps, "queue_steps", 1, wire.MAX_PROCESSES)
            self._flow = policy, steps, memory_limit(queue_bytes, "queue_bytes") or MOST_BYTES
            host, port = wire.parse_address(address)
            if endpoint.is_any(host):
                raise InvalidArgument(f"{address!r} {endpoint.ANY}")
            self.token = endpoint.make_token(host, token)
            self._least = least
            own = endpoint.own_host(host, self._group.rank)
            return endpoint.listen(own, port if self._group.rank == 0 else 0)

        self._socket = self._group.together(prepare)
        self.token = self._group.told_by_first(self.token)
        local_socket, name = endpoint.listen_locally() if local else (None, "")
        producers = self._group.told_by_all([*self._socket.getsockname()[:2], name])
        host, port, _ = producers[0]
        self.address = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        sockets = [self._socket] if local_socket is None else [self._socket, local_socket]
        self._end = self._begin([sock.detach() for sock in sockets], json.dumps(producers))
        self._is_first = self._group.rank == 0
        if self._is_first and token is None and self.token:
            log.warning("consumers of %s need the token %s", self.address, self.token)
        self._finalizer = weakref.finalize(self, self._end.close)
        self._process = os.getpid()

    def _begin(self, sockets: list[int], producers: str) -> SendingEnd:
        """Let consumers connect."""
        if self._group.rank > 0:
            return SendingEnd(sockets, self.token, self._pathways)
        return SendingEnd(sockets, self.token, self._pathways, producers, *self._flow, self._least)

    @refused_by(lambda given, _, error: given[0]._group.refuse(error))
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
        that gets it, and travels meanwhile.

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
            Consumers took nothing in time, with policy "block".
        InvalidState
            The stream is closed.
        """
        try:
            self._send(name, array, step, layout)
        except BaseException as error:
            self._raised = error
            if self._sending is not None and not isinstance(error, (Mismatch, Timeout)):
                self._abandon()
            raise
        finally:
            self._sending = None

    def _abandon(self) -> None:
        """End a step of which consumers got perhaps a part: an exception came in between."""
        self._sequence, self._step = self._sending
        self._names_of_step = set()
        if self._is_first:
            self._end.withdraw()

    def _send(self, name: str, array: Any, step: Any, layout: Any) -> None:
        number, local, layout, dtype = self._group.together(
            lambda: self._checked(name, array, step, layout)
        )
        if name not in self._arrays:
            self._register(name, layout, dtype)
        sent = self._arrays[name]
        begins = number != self._step or step is None or not self._names_of_step
        sequence = self._sequence + begins
        self._sending = sequence, number
        decision = self._decide(sent, sequence, number)
        self._sequence, self._step = sequence, number
        self._names_of_step = {name} if begins else self._names_of_step | {name}
        self._pack(sent, sequence, decision, local)

    def _checked(self, name: str, array: Any, step: Any, layout: Any) -> tuple:
        if self._closed:
            raise InvalidState("the stream is closed")
        if os.getpid() != self._process:
            raise InvalidState("the stream is of the process that this one was forked from")
        if not 0 < len(text(name, "name").encode()) <= wire.MAX_NAME_BYTES:
            raise InvalidArgument(f"a name has 1 to {wire.MAX_NAME_BYTES} bytes")
        if not name.isprintable():
            raise InvalidArgument(f"name is {name!r}, which cannot be printed")
        known = self._arrays.get(name)
        if len(self._arrays) >= wire.MAX_ARRAYS and known is None:
            raise InvalidArgument(f"a stream sends at most {wire.MAX_ARRAYS} arrays")
        number = self._number_of(step)
        if number == self._step and step is not None and name in self._names_of_step:
            raise InvalidArgument(f"array {name!r} was sent in step {number} before")
        layout = self._layout_of(array, layout, known)
        found = self._memories[name].find(array) if known is not None else None
        if found is not None:
            return number, found, layout, known.dtype
        if known is None:
            wire.text_of_layout(layout)  # one that cannot be told is an error here, on all
        given = array if isinstance(array, (XArray, UserArrays)) else UserArrays(array)
        dtype = given.dtype
        if known is not None and dtype not in (None, known.dtype):
            raise WrongType(f"array {name!r} has dtype {dtype}, it was {known.dtype} before")
        if dtype is not None:
            wire.words_of_dtype(dtype)
            if dtype.itemsize > wire.MAX_ELEM_BYTES:
                raise WrongType(f"elements of {dtype.itemsize} bytes; at most 65536 are sent")
        local = local_memory(given, layout, self._group.rank, dtype or np.dtype("u1"))
        if known is not None:
            self._memories[name].remember(array, local)
        return number, local, layout, dtype

    def _number_of(self, step: Any) -> int:
        if step is None:
            step = 0 if self._step is None else self._step + 1
        return _count(step, "step", 0, wire.MAX_NUMBER)

    def _layout_of(self, array: Any, layout: Any, known: SentArray | None) -> Layout:
        if layout is None:
            if isinstance(array, XArray):
                layout = array.layout
            elif known is not None:
                return known.layout
            else:
                raise InvalidArgument("layout is needed where the array is no XArray")
        if not isinstance(layout, Layout):
            raise WrongType(f"a {type(layout).__name__} was given, it must be a layout")
        if isinstance(array, XArray) and layout != array.layout:
            raise Mismatch("the layout is not that of the XArray")
        if layout.nprocs != self._group.size:
            raise Mismatch(f"the layout is for {layout.nprocs} processes, {self._group.size} send")
        if known is not None and layout is not known.layout and layout != known.layout:
            raise Mismatch(f"array {known.name!r} had another layout before")
        return layout

    def _register(self, name: str, layout: Layout, dtype: np.dtype | None) -> None:
        """Compare between all processes what an array is, and take note of it."""
        mine = {
            "name": name,
            "layout": zlib.crc32(wire.text_of_layout(layout).encode()),
            "dtype": None if dtype is None else wire.words_of_dtype(dtype),
        }
        everyone = self._group.told_by_all(mine)
        kinds = [said.get("dtype") for said in everyone if said.get("dtype") is not None]
        for rank, said in enumerate(everyone):
            if (said.get("name"), said.get("layout")) != (name, mine["layout"]):
                raise Mismatch(f"process {rank} sends another array or layout than {name!r} here")
        if any(kind != kinds[0] for kind in kinds):
            raise WrongType(f"array {name!r} has different dtypes on different processes")
        if not kinds:
            raise WrongType(f"array {name!r} has no dtype: no process brings an element")
        found = wire.dtype_of_words(kinds[0])
        sent = SentArray(len(self._arrays), name, layout, found)
        if self._is_first:
            self._end.add_array(
                name, json.dumps(kinds[0]), wire.text_of_layout(layout), layout.nprocs,
                found.itemsize, sent.number,
            )  # fmt: skip
        self._memories[name] = KnownMemory()
        self._arrays[name] = sent

    def _decide(self, array: SentArray, sequence: int, number: int) -> dict[str, Any]:
        """Learn from process 0 who gets an array; wait where a consumer must not miss it."""
        deadline = math.inf if self._timeout is None else time.monotonic() + self._timeout
        call = [array.name, sequence, number]
        while True:
            decision, ended = None, None
            try:
                if self._is_first:
                    decision = self._end.decide(array.number, sequence, number, ROUND_SECONDS)
                if self._is_first and decision is None and time.monotonic() > deadline:
                    decision = {"late": True}
            except BaseException as error:  # told to the others before it goes on here
                decision, ended = {"ended": True}, error
            everyone = self._group.told_by_all({"call": call, "decision": decision})
            for rank, said in enumerate(everyone):
                if "close" in said:
                    self._withdraw(sequence, decision)
                    raise Mismatch(f"process {rank} closes the stream, here it sends {call}")
                if said.get("call") != call:
                    self._withdraw(sequence, decision)
                    raise Mismatch(f"process {rank} sends {said.get('call')}, here it is {call}")
            if ended is not None:
                raise ended
            decision = everyone[0]["decision"]
            if decision is not None and "ended" in decision:
                raise PeerFailed("process 0 was interrupted while it sent")
            if decision is not None and "late" in decision:
                raise Timeout(f"no consumer took a step in {self._timeout} s, or too few came")
            if decision is not None:
                return decision

    def _withdraw(self, sequence: int, decision: Any) -> None:
        if self._is_first and decision and "to" in decision:
            for key in decision["to"]:
                self._end.refuse(key, "peer_failed", f"step {sequence} could not be sent")

    def _hear(self, decision: dict[str, Any]) -> None:
        """Take note of consumers that came and went, and of dropped steps."""
        for key, nprocs, wanted in decision["new"]:
            self._wanted[key] = {name: wire.layout_of_text(words, nprocs) for name, words in wanted}
            self._end.open(key, nprocs)
        for key, place in decision["dropped"]:
            self._end.drop(key, place)
        for key in decision["gone"]:
            self._end.forget(key)
            self._wanted.pop(key, None)
            self._packers = {who: p for who, p in self._packers.items() if who[0] != key}

    def _pack(
        self, array: SentArray, sequence: int, decision: dict[str, Any], local: LocalMemory
    ) -> None:
        """Pack an array for each consumer. One for which that fails anywhere is refused."""
        places: dict[str, int] = decision["to"]
        failed: dict[str, tuple[str, str]] = {}
        ended: BaseException | None = None
        try:
            self._hear(decision)
            for key, place in places.items():
                try:
                    relations = self._packer(key, array).relations(local)
                    self._end.pack(key, place, array.number, relations, local.memory)
                except Exception as error:
                    failed[key] = told(error)
        except BaseException as error:  # told to the others before it goes on here
            if not places:
                raise
            ended = error
        if not places:
            return
        everyone = self._group.told_by_all({"failed": failed, "ended": ended is not None})
        if ended is not None:
            raise ended
        for rank, said in enumerate(everyone):
            if said["ended"]:
                raise PeerFailed(f"process {rank} was interrupted while it sent")
            failed.update(said["failed"])
        for key in failed:
            self._end.drop(key, places[key])
        if self._is_first:
            for key, (code, words) in failed.items():
                self._end.refuse(key, code, words)
            self._end.sent([key for key in places if key not in failed], sequence)

    def _packer(self, key: str, array: SentArray) -> Packer:
        which = key, array.number
        if which not in self._packers:
            plan = plan_between(array.layout, self._wanted[key][array.name])
            self._packers[which] = Packer(plan, self._group.rank, array.dtype)
        return self._packers[which]

    def counters(self) -> dict[str, int]:
        """Count bytes kept and sent by this process, on process 0 also consumers. Local.

        `consumers` listen now, `consumers_came` did at some time, `consumers_lost` left or failed;
        `steps_dropped` were dropped, for all consumers together.
        """
        return self._end.counters()

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait until consumers have what was sent to them, then end the stream. Collective.

        What they have not taken after `timeout` seconds (None: wait for ever) they do not get; it
        counts as dropped. A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            limit = self._group.together(lambda: seconds(timeout))
            self._wait_until_taken(limit)
        finally:
            self._stop()

    def _wait_until_taken(self, limit: float | None) -> None:
        deadline = math.inf if limit is None else time.monotonic() + limit
        if self._is_first:
            self._end.finish_steps()
        done = False
        while not done:
            if self._is_first:
                done = self._end.wait_until_taken(ROUND_SECONDS)
                done = done or time.monotonic() > deadline
            done = self._all_close(done)
        if self._is_first:
            self._end.end()
        self._all_close(True)  # until then the others answer

    def _all_close(self, done: bool) -> bool:
        everyone = self._group.told_by_all({"close": done})
        for rank, said in enumerate(everyone):
            if "close" not in said:
                raise Mismatch(f"process {rank} still sends, here the stream is closed")
        return everyone[0]["close"]

    def _stop(self) -> None:
        self._closed = True
        self._finalizer()
        self._arrays, self._packers, self._wanted = {}, {}, {}

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        """Close the stream; after an exception end it at once, and tell the other processes."""
        if os.getpid() != self._process:  # a forked process that ends: the stream is its parent's
            return
        if error is None:
            self.close()
            return
        if not self._closed and error is not self._raised:
            self._group.tell_failure(error)
        self._stop()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._arrays)} arrays"
        return f"Stream({self.address!r}, {state})"


def _count(value: Any, name: str, least: int, most: int) -> int:
    """Give an integer within limits."""
    try:
        count = operator.index(value)
    except TypeError:
        raise WrongType(f"{name} is {value!r}, it must be an integer") from None
    if not least <= count <= most:
        raise InvalidArgument(f"{name} is {count}, it must be {least} to {most}")
    return count
