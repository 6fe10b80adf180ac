# SPDX-License-Identifier: BSD-3-Clause
"""How do steps come together in a receiving process while its program does something else?

One thread hears what the stream says and takes in what all sending processes send. It holds memory
for the steps that were granted, no more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import Error, IoError, PeerFailed, Timeout, class_of
from datamover.layouts import Layout
from datamover.stream import wire
from datamover.stream.data_link import DataLink, IncomingMessage

#: When a data connection has ended, the reason is looked for so long.
REASON_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class ArrayInfo:
    """What an array of a stream is.

    Attributes
    ----------
    name : str
    dtype : dtype
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        Of the sending processes.
    """

    name: str
    dtype: np.dtype
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole array."""
        return tuple(self.layout.domain.shape)


@dataclasses.dataclass
class Arrived:
    """A step whose messages are all here."""

    place: int
    number: int
    messages: dict[str, dict[int, IncomingMessage]]


@dataclasses.dataclass
class _Announced:
    place: int
    number: int
    arrays: list[int]
    messages: int  # of all sending processes and arrays


@dataclasses.dataclass
class _Coming:
    """What has come of one step."""

    messages: dict[tuple[int, int], IncomingMessage] = dataclasses.field(default_factory=dict)
    finished: int = 0


class Receiver:
    """Receives the steps of one process of a consumer.

    Parameters
    ----------
    sock : socket
        The control connection; this closes it.
    dial : callable
        Gives the connections to a sending process.
    fail : callable
        Hears of the error that ends everything.

    Attributes
    ----------
    ready : SimpleQueue of Arrived
        Steps in their order; None at the end.
    infos : dict
        What is known of arrays, by number.
    """

    def __init__(
        self,
        sock: socket.socket,
        dial: Callable[[int], list[DataLink]],
        fail: Callable[[BaseException], None],
    ):
        self._sock, self._dial, self._fail = sock, dial, fail
        self._frames = wire.FrameReader(sock)
        self.ready: queue.SimpleQueue[Arrived | None] = queue.SimpleQueue()
        self.infos: dict[int, ArrayInfo] = {}
        self.arrays_known = threading.Event()
        self.dropped = 0
        self._wanted: dict[str, Any] = {}
        self._begun: dict[int, Any] = {}  # of what is wanted, by number
        self._lock = threading.Lock()  # of the links and of what they were granted
        self._links: dict[int, list[DataLink]] = {}
        self._taken = self._may = self._steps_open = 0
        self._ahead, self._goes_ahead = 0, False
        self._coming: dict[int, _Coming] = {}
        self._announced: deque[_Announced] = deque()
        self._awaited: list[int] = []  # places of steps that were announced and are not taken
        self._unused: dict[int, list[np.ndarray]] = {}
        self._poll = select.poll()
        self._by_file: dict[int, DataLink] = {}
        self._has_ended = False
        self._told: Error | None = None  # by the stream

    def start(self) -> None:
        """Begin to listen."""
        threading.Thread(target=self._run, name="datamover-stream", daemon=True).start()

    def want(self, wanted: dict[str, Any], ahead: int, goes_ahead: bool) -> None:
        """Say what is wanted, before the stream hears of it.

        Parameters
        ----------
        wanted : dict of name to what has `begin(info, number)` and then `unpacker`
        ahead : int
            Steps for which memory may be taken at the same time.
        goes_ahead : bool
            Whether sending processes send what they have, without its being announced first.
        """
        self._wanted, self._ahead, self._goes_ahead = wanted, ahead, goes_ahead
        self._may = ahead if goes_ahead else 0

    def taken(self, arrived: Arrived) -> None:
        """Say that a step was unpacked; another one may come for it."""
        with self._lock:
            for messages in arrived.messages.values():
                for message in messages.values():
                    if not message.is_shared:
                        self._unused.setdefault(message.nbytes, []).append(message.memory)
            self._coming.pop(arrived.place, None)
            if not self._goes_ahead:
                self._awaited.remove(arrived.place)
            self._taken = arrived.place + 1
            self._steps_open -= 1
            if self._goes_ahead:
                self._may = self._taken + self._ahead
            self._grant()

    def _grant(self) -> None:
        for link in self.links():
            self._grant_to(link)

    def _grant_to(self, link: DataLink) -> None:
        """Say what may be sent; each step by itself where others may have been dropped."""
        if self._goes_ahead:
            link.grant(self._taken, self._may)
            return
        for place in self._awaited:
            link.grant(self._taken, place + 1, alone=True)
        if not self._awaited:
            link.grant(self._taken, 0)

    def links(self) -> list[DataLink]:
        """Give all data connections."""
        return [link for links in list(self._links.values()) for link in links]

    # What runs in the thread.

    def _run(self) -> None:
        control = self._sock.fileno()
        try:
            self._poll.register(control, select.POLLIN)
            while not (self._has_ended and not self._announced):
                for file, _ in self._poll.poll():
                    if file in self._by_file:
                        self._receive(self._by_file[file])
                    elif file != control:
                        continue  # paused since
                    elif not self._has_ended:
                        frames = self._frames.read()
                        # What has failed is not begun any more.
                        for said in sorted(frames, key=lambda said: said.get("type") != "failed"):
                            self._hear(said)
                        if self._has_ended:
                            self._poll.unregister(control)
                self._deliver()
        except (PeerFailed, Timeout) as error:
            is_reason = error is self._told
            self._fail(error if is_reason else self._reason() or error)
        except BaseException as error:
            self._fail(error)
        finally:
            self.arrays_known.set()
            self.ready.put(None)
            with self._lock:
                for links in self._links.values():
                    for link in links:
                        link.close()
            self._sock.close()

    def _reason(self) -> Error | None:
        """Give what the stream says of why its connections end, where it does."""
        waiting, until = select.poll(), time.monotonic() + REASON_SECONDS
        waiting.register(self._sock, select.POLLIN)
        with contextlib.suppress(Error, OSError):
            while waiting.poll(max(until - time.monotonic(), 0) * 1e3):
                for said in self._frames.read():
                    if said.get("type") == "failed":
                        return told_error(said)
        return None

    def _hear(self, said: dict[str, Any]) -> None:
        kind = said.get("type")
        if kind == "array":
            if len(self.infos) >= wire.MAX_ARRAYS:
                raise IoError(f"more than {wire.MAX_ARRAYS} arrays")
            self._learn(wire.number(said, "number", 0, wire.MAX_ARRAYS), info_of_words(said))
        elif kind == "arrays":
            self.arrays_known.set()
        elif kind == "step":
            self._hear_of_step(said)
        elif kind == "end":
            self.dropped = wire.number(said, "dropped")
            self._has_ended = True
        elif kind == "failed":
            self._told = told_error(said)
            raise self._told
        else:
            raise IoError(f"the stream sent a frame of type {str(kind)[:40]!r}")

    def _learn(self, number: int, info: ArrayInfo) -> None:
        """Take note of an array; where it is wanted, have its sending processes send."""
        if number in self.infos:
            raise IoError(f"the stream tells of array {number} again")
        self.infos[number] = info
        wanted = self._wanted.get(info.name)
        if wanted is not None:
            self._begin(wanted, info, number)
        for link in [link for link in self.links() if link.is_paused]:
            link.resume(self._find)
            self._after(link)

    def _begin(self, wanted: Any, info: ArrayInfo, number: int) -> None:
        if wanted.number >= 0:
            raise IoError(f"the stream has two arrays of the name {info.name!r}")
        wanted.begin(info, number)
        self._begun[number] = wanted
        for producer in wanted.unpacker.sizes:
            if producer in self._links:
                continue
            links = self._dial(producer)
            with self._lock:
                self._links[producer] = links
                for link in links:
                    self._grant_to(link)
            for link in links:
                self._by_file[link.sock.fileno()] = link
                self._poll.register(link.sock, select.POLLIN)

    def _hear_of_step(self, said: dict[str, Any]) -> None:
        self.dropped = wire.number(said, "dropped")
        place = wire.number(said, "place")
        arrays = [
            wire.number({"array": number}, "array", 0, wire.MAX_ARRAYS)
            for number in wire.items(said, "arrays")
        ]
        for number in arrays:
            info = self.infos.get(number)
            if info is None or info.name not in self._wanted or arrays.count(number) > 1:
                raise IoError(f"the stream sends array {number}, which was not asked for")
            if number not in self._begun:
                self._begin(self._wanted[info.name], info, number)
        count = sum(len(self._begun[number].unpacker.sizes) for number in arrays)
        with self._lock:
            last = self._announced[-1].place if self._announced else self._taken - 1
            if place <= last or self._steps_open >= self._ahead:
                raise IoError(f"the stream sends step {place}, for which it has no credit")
            self._steps_open += 1
            self._announced.append(_Announced(place, wire.number(said, "step"), arrays, count))
            if not self._goes_ahead:
                self._may = place + 1
                self._awaited.append(place)
                self._grant()

    def _receive(self, link: DataLink) -> None:
        link.receive(self._find)
        self._after(link)

    def _after(self, link: DataLink) -> None:
        for place in link.finished:
            self._coming[place].finished += 1
        link.finished = []
        file = link.sock.fileno()
        if link.is_paused or link.is_ended:
            if self._by_file.pop(file, None) is not None:
                self._poll.unregister(file)
        elif file not in self._by_file:
            self._by_file[file] = link
            self._poll.register(file, select.POLLIN)

    def _find(self, producer: int, number: int, place: int) -> IncomingMessage | None:
        """Give the message that a sending process sends; None while its array is not known."""
        wanted = self._begun.get(number)
        if wanted is None:
            info = self.infos.get(number)
            if info is None and number <= wire.MAX_ARRAYS:
                return None
            if info is None or info.name not in self._wanted:
                raise PeerFailed(f"it sent array {number}, which was not asked for")
            wanted = self._wanted[info.name]
            self._begin(wanted, info, number)
        with self._lock:
            if not self._taken <= place < self._may:
                raise PeerFailed(f"it sent step {place}, which was not granted")
            messages = self._coming.setdefault(place, _Coming()).messages
        message = messages.get((number, producer))
        if message is None:
            nbytes = wanted.unpacker.sizes.get(producer)
            if nbytes is None:
                raise PeerFailed(f"it sent of array {number}, of which it has nothing for us")
            message = messages[number, producer] = IncomingMessage(nbytes, self._memory)
        return message

    def _memory(self, nbytes: int) -> np.ndarray:
        with self._lock:
            unused = self._unused.get(nbytes)
            return unused.pop() if unused else np.empty(nbytes, np.uint8)

    def _deliver(self) -> None:
        """Hand over the steps that are complete."""
        while self._announced:
            step = self._announced[0]
            coming = self._coming.get(step.place) or _Coming()
            if coming.finished < step.messages:
                self._look_for_ended(step, coming)
                return
            if len(coming.messages) > step.messages:
                raise IoError(f"more came of step {step.number} than the stream says it has")
            found = {
                self.infos[number].name: {
                    producer: coming.messages[number, producer]
                    for producer in self._begun[number].unpacker.sizes
                }
                for number in step.arrays
            }
            self._announced.popleft()
            self.ready.put(Arrived(step.place, step.number, found))

    def _look_for_ended(self, step: _Announced, coming: _Coming) -> None:
        """Raise an error where what is missing cannot come any more."""
        ended = {link.producer for link in self.links() if link.is_ended}
        for number in step.arrays if ended else ():
            for producer in ended & set(self._begun[number].unpacker.sizes):
                message = coming.messages.get((number, producer))
                if message is None or message.left:
                    raise PeerFailed(f"sending process {producer}: it closed the connection")


def info_of_words(said: dict[str, Any]) -> ArrayInfo:
    """Read what an array is; nothing in it is trusted."""
    nprocs = wire.number(said, "nprocs", 1, wire.MAX_PROCESSES)
    return ArrayInfo(
        wire.text(said, "name"),
        wire.dtype_of_words(said.get("dtype")),
        wire.layout_of_text(said.get("layout"), nprocs),
    )


def told_error(said: dict[str, Any]) -> Error:
    """Give the error that the stream tells of."""
    words = said.get("words")
    error = class_of(str(said.get("code")))
    if error is Error:
        error = PeerFailed
    return error(str(words)[: wire.MAX_WORDS])
