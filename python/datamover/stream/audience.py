# SPDX-License-Identifier: BSD-3-Clause
"""Who listens to a stream, and what does each consumer get next? Known to sending process 0.

The other sending processes hear of it in the collective calls of the sending program; the
processes of a consumer hear of it over one control connection each, in the same order.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
import threading
import time
from typing import Any

from datamover.errors import (
    Error,
    InvalidArgument,
    IoError,
    OutOfRange,
    PeerFailed,
    Timeout,
    class_of,
)
from datamover.layouts import Layout
from datamover.stream import wire
from datamover.stream.control import FrameWriter
from datamover.stream.message_parts import plan_between
from datamover.stream.step_queue import Step, StepQueue

MAX_CONSUMERS = 256
#: Steps that a consumer may ask for in advance.
MAX_CREDITS = 64
#: A consumer asks once which arrays there are.
MAX_TIMES_ASKED = 16
MAX_WORDS = 2000
#: So long a consumer that wants nothing keeps its place from others.
SUBSCRIBE_SECONDS = 30.0
#: A consumer that takes no frames for so long has failed.
STALLED_SECONDS = 600.0


@dataclasses.dataclass
class Flow:
    """How a stream bounds what waits for a consumer."""

    policy: str
    queue_steps: int
    queue_bytes: int


@dataclasses.dataclass
class SentArray:
    """An array that a stream sends: the same in every step."""

    number: int
    name: str
    layout: Layout
    dtype: Any

    def as_words(self) -> dict[str, Any]:
        """Give what a consumer is told."""
        return {
            "type": "array",
            "number": self.number,
            "name": self.name,
            "dtype": wire.words_of_dtype(self.dtype),
            "nprocs": self.layout.nprocs,
            "layout": wire.text_of_layout(self.layout),
        }


class _Consumer:
    """One program that listens: its processes, what it wants, and how far it is."""

    def __init__(self, nprocs: int, flow: Flow):
        self.key = secrets.token_hex(16)
        self.nprocs = nprocs
        self.came = time.monotonic()
        self.controls: dict[int, FrameWriter] = {}
        self.wanted: dict[str, Layout] | None = None
        self.wanted_words: list[Any] = []
        self.credits = [0] * nprocs
        self.queue = StepQueue(flow.policy, flow.queue_steps, flow.queue_bytes)
        self.missing: dict[int, set[int]] = {}
        self.step_bytes: dict[int, int] = {}
        self.told: set[int] = set()
        self.asks_for_arrays = False
        self.times_asked = 0
        self.is_active = self.is_gone = False

    @property
    def is_ready(self) -> bool:
        """Whether it has said what it wants, and all its processes have granted credits."""
        return self.wanted is not None and min(self.credits) > 0

    def say(self, words: dict[str, Any]) -> None:
        """Tell all processes."""
        for control in self.controls.values():
            control.say(words)


class Audience:
    """The consumers of a stream; called by the sending program and by connections' threads."""

    def __init__(self, flow: Flow, least: int, welcome: dict[str, Any]):
        self._flow, self._least, self._welcome = flow, least, welcome
        self.changed = threading.Condition()
        self._consumers: dict[str, _Consumer] = {}
        self._controls: set[FrameWriter] = set()
        self._arrays: dict[str, SentArray] = {}
        self._arrays_known = self._has_ended = False
        self._news: dict[str, list[Any]] = {"new": [], "gone": [], "dropped": []}
        self._lost = self._dropped = self._came = 0
        self._sequence = -1  # of the step that is being sent

    # What the sending program calls.

    def register(self, array: SentArray) -> None:
        """Take note of an array before its first step."""
        with self.changed:
            self._arrays[array.name] = array

    def decide(self, array: SentArray, sequence: int, number: int, seconds: float) -> Any:
        """Say who gets an array of a step, and what all sending processes have to know.

        Returns
        -------
        dict or None
            None: somebody who blocks has no room yet, also not after `seconds`.
        """
        with self.changed:
            decision = self._try_to_decide(array, sequence, number)
            if decision is None:
                self.changed.wait(seconds)
                decision = self._try_to_decide(array, sequence, number)
            return decision

    def _try_to_decide(self, array: SentArray, sequence: int, number: int) -> Any:
        # Within a step nobody is let in: the rest of it would be no step.
        if sequence != self._sequence and not self._admit(is_first=sequence == 0):
            return None
        active = [c for c in self._consumers.values() if c.is_active]
        chosen, must_wait = [], False
        for consumer in active:
            begun = consumer.queue.waiting and consumer.queue.waiting[-1].sequence != sequence
            if begun:
                consumer.queue.complete()
                self._pump(consumer)
            if array.name not in consumer.wanted or not self._fits(consumer, array):
                continue
            nbytes = consumer.step_bytes[array.number]
            if not self._bounds(consumer, array, sequence, nbytes):
                continue
            room, dropped = consumer.queue.make_room(sequence, nbytes)
            self._news["dropped"] += [[consumer.key, old] for old in dropped]
            must_wait = must_wait or room is None
            if room:
                chosen.append((consumer, nbytes))
        if must_wait:
            return None
        places = {
            consumer.key: consumer.queue.add(sequence, number, array.number, nbytes)
            for consumer, nbytes in chosen
        }
        news, self._news = self._news, {"new": [], "gone": [], "dropped": []}
        self._sequence = sequence
        return {**news, "to": places}

    def _admit(self, is_first: bool) -> bool:
        """Let in who is ready, between steps; False where too few are there for the first."""
        active = sum(c.is_active for c in self._consumers.values())
        ready = [c for c in self._consumers.values() if c.is_ready and not c.is_active]
        if is_first and active + len(ready) < self._least:
            self._answer_about_arrays()
            return False
        self._least = 0
        if not is_first:
            self._answer_about_arrays()
        for consumer in ready:
            consumer.is_active = True
            self._came += 1
            self._news["new"].append([consumer.key, consumer.nprocs, consumer.wanted_words])
        return True

    def _answer_about_arrays(self) -> None:
        self._arrays_known = True
        for consumer in self._consumers.values():
            if consumer.asks_for_arrays:
                self._tell_arrays(consumer)

    def _tell_arrays(self, consumer: _Consumer) -> None:
        consumer.asks_for_arrays = False
        for array in self._arrays.values():
            self._tell_array(consumer, array.number)
        consumer.controls[0].say({"type": "arrays"})

    def _fits(self, consumer: _Consumer, array: SentArray) -> bool:
        """Tell whether an array can go to a consumer at all; one to whom it cannot is refused."""
        if array.number in consumer.step_bytes:
            return True
        wanted = consumer.wanted[array.name]
        try:
            plan_between(array.layout, wanted)
            elems = sum(wanted.local_elems(rank) for rank in range(consumer.nprocs))
            nbytes = elems * array.dtype.itemsize
        except Error as error:
            self._refuse(consumer, error)
            return False
        consumer.step_bytes[array.number] = nbytes
        return True

    def _bounds(self, consumer: _Consumer, array: SentArray, sequence: int, nbytes: int) -> bool:
        """Tell whether a step has no more bytes than are kept; refuse a consumer for which not."""
        step_bytes = consumer.queue.nbytes_of(sequence) + nbytes
        if step_bytes <= self._flow.queue_bytes:
            return True
        words = (
            f"with array {array.name!r} a step takes {step_bytes} bytes here, the stream keeps at "
            f"most {self._flow.queue_bytes} (queue_bytes)"
        )
        self._refuse(consumer, OutOfRange(words))
        return False

    def sent(self, keys: list[str], sequence: int) -> None:
        """Take note that all processes have packed an array for these consumers."""
        with self.changed:
            for key in keys:
                consumer = self._consumers.get(key)
                if consumer is None or not consumer.queue.waiting:
                    continue
                newest = consumer.queue.waiting[-1]
                names = {a.name for a in self._arrays.values() if a.number in newest.arrays}
                if newest.sequence == sequence and names == set(consumer.wanted):
                    consumer.queue.complete()
                self._pump(consumer)

    def refuse(self, key: str, code: str, words: str) -> None:
        """End a consumer for which a sending process cannot do its part."""
        with self.changed:
            if key in self._consumers:
                self._refuse(self._consumers[key], class_of(code)(words))

    def finish_steps(self) -> None:
        """Say that no more arrays come."""
        with self.changed:
            for consumer in self._consumers.values():
                consumer.queue.complete()
                self._pump(consumer)

    def wait_until_taken(self, seconds: float) -> bool:
        """Wait until every consumer has all its steps, or so long."""
        with self.changed:
            return self.changed.wait_for(
                lambda: all(c.queue.is_empty for c in self._consumers.values()), seconds
            )

    def end(self) -> None:
        """Tell all consumers that this was all."""
        with self.changed:
            self._has_ended = True
            consumers = list(self._consumers.values())
            for consumer in consumers:
                consumer.asks_for_arrays = True  # all learn of arrays that came later
            self._answer_about_arrays()
            for consumer in consumers:
                consumer.queue.dropped += len(consumer.queue.waiting)
                self._dropped += consumer.queue.dropped
                consumer.say({"type": "end", "dropped": consumer.queue.dropped})
            controls = list(self._controls)
            self._consumers = {}
        for control in controls:
            control.finish()

    def counters(self) -> dict[str, int]:
        """Count consumers and dropped steps."""
        with self.changed:
            there = self._consumers.values()
            return {
                "consumers": sum(c.is_active for c in there),
                "consumers_came": self._came,
                "consumers_lost": self._lost,
                "steps_dropped": self._dropped + sum(c.queue.dropped for c in there),
            }

    # What the threads of connections call.

    def serve(self, sock: socket.socket, words: dict[str, Any]) -> None:
        """Serve the control connection of one process of a consumer until it ends."""
        wire.limit_sending(sock, STALLED_SECONDS)
        control = FrameWriter(sock)
        with self.changed:
            self._controls.add(control)
        try:
            self._serve(sock, words, control)
        finally:
            control.finish()
            with self.changed:
                self._controls.discard(control)

    def _serve(self, sock: socket.socket, words: dict[str, Any], control: FrameWriter) -> None:
        consumer, rank = self._join(words, control)
        left: Error = PeerFailed("it has left the stream")
        frames = wire.FrameReader(sock)
        try:
            while not consumer.is_gone:
                for said in frames.wait():
                    if said.get("type") == "bye":
                        if "code" in said:
                            code, reason = wire.text(said, "code"), said.get("words")
                            left = class_of(code)(str(reason)[:MAX_WORDS])
                        return
                    with self.changed:
                        self._hear(consumer, rank, said)
        except Error as error:
            left = error
        finally:
            with self.changed:
                self._lose(consumer, rank, left)

    def _join(self, words: dict[str, Any], control: FrameWriter) -> tuple[_Consumer, int]:
        with self.changed:
            if self._has_ended:
                control.say({"type": "end", "dropped": 0})
                raise PeerFailed("the stream has ended")
            if "key" not in words:
                nprocs = wire.number(words, "nprocs", 1, wire.MAX_PROCESSES)
                self._make_place()
                consumer, rank = _Consumer(nprocs, self._flow), 0
                self._consumers[consumer.key] = consumer
                control.say({**self._welcome, "key": consumer.key})
            else:
                found = self._consumers.get(wire.text(words, "key"))
                if found is None:
                    raise IoError("no consumer has this key")
                consumer, rank = found, wire.number(words, "rank", 1, found.nprocs - 1)
            if rank in consumer.controls:
                raise IoError(f"process {rank} of the consumer is there already")
            consumer.controls[rank] = control
            self.changed.notify_all()
            return consumer, rank

    def _make_place(self) -> None:
        """Where there are too many, those that want nothing make place for others."""
        if len(self._consumers) < MAX_CONSUMERS:
            return
        late = time.monotonic() - SUBSCRIBE_SECONDS
        for idle in list(self._consumers.values()):
            if idle.wanted is None and idle.came < late:
                self._leave(idle, Timeout(f"it wanted nothing for {SUBSCRIBE_SECONDS:g} s"))
                for control in idle.controls.values():
                    control.end()
                return
        raise IoError(f"there are {MAX_CONSUMERS} consumers already")

    def _hear(self, consumer: _Consumer, rank: int, said: dict[str, Any]) -> None:
        if consumer.is_gone:
            raise PeerFailed("the consumer has gone")
        kind = said.get("type")
        if kind == "done":
            self._done(consumer, rank, wire.number(said, "place"))
        elif kind == "credit":
            most = MAX_CREDITS - consumer.credits[rank]
            consumer.credits[rank] += wire.number(said, "steps", 1, most)
        elif kind == "subscribe" and rank == 0 and consumer.wanted is None:
            self._subscribe(consumer, said)
        elif kind == "arrays" and rank == 0:
            consumer.times_asked += 1
            if consumer.times_asked > MAX_TIMES_ASKED:
                raise IoError(f"a consumer asked for the arrays more than {MAX_TIMES_ASKED} times")
            consumer.asks_for_arrays = True
            if self._arrays_known:
                self._tell_arrays(consumer)
        else:
            raise IoError(f"a frame of type {str(kind)[:40]!r} makes no sense here")
        self._pump(consumer)
        self.changed.notify_all()

    def _subscribe(self, consumer: _Consumer, said: dict[str, Any]) -> None:
        words = wire.items(said, "arrays")
        wanted = {}
        for item in words:
            if not isinstance(item, list) or len(item) != 2:
                raise IoError("what is wanted are pairs of a name and a layout")
            name = wire.text({"name": item[0]}, "name")
            wanted[name] = wire.layout_of_text(item[1], consumer.nprocs)
        if not wanted:
            raise InvalidArgument("a consumer has to want at least one array")
        consumer.wanted, consumer.wanted_words = wanted, words
        if said.get("newest") is True:
            consumer.queue = StepQueue("drop_oldest", 1, self._flow.queue_bytes)

    def _done(self, consumer: _Consumer, rank: int, place: int) -> None:
        missing = consumer.missing.get(place, set())
        if rank not in missing:
            raise IoError(f"step {place} is not on its way to process {rank}")
        missing.discard(rank)
        consumer.credits[rank] += 1
        if not missing:
            del consumer.missing[place]
            del consumer.queue.on_their_way[place]

    def _pump(self, consumer: _Consumer) -> None:
        """Send a consumer what it has credits for."""
        while not consumer.is_gone and min(consumer.credits) > 0:
            step = consumer.queue.next_to_send()
            if step is None:
                return
            self._send(consumer, step)

    def _send(self, consumer: _Consumer, step: Step) -> None:
        consumer.credits = [credit - 1 for credit in consumer.credits]
        consumer.missing[step.place] = set(range(consumer.nprocs))
        for array in step.arrays:
            self._tell_array(consumer, array)
        consumer.say(
            {
                "type": "step",
                "place": step.place,
                "step": step.number,
                "arrays": step.arrays,
                "dropped": consumer.queue.dropped,
            }
        )

    def _tell_array(self, consumer: _Consumer, which: int) -> None:
        if which not in consumer.told:
            consumer.told.add(which)
            array = next(a for a in self._arrays.values() if a.number == which)
            consumer.say(array.as_words())

    def _refuse(self, consumer: _Consumer, error: Error) -> None:
        self._leave(consumer, error)

    def _lose(self, consumer: _Consumer, rank: int, why: Error) -> None:
        consumer.controls.pop(rank, None)
        if not consumer.is_gone and not self._has_ended:
            kind = type(why) if not isinstance(why, IoError) else PeerFailed
            self._leave(consumer, kind(f"process {rank} of the consumer: {why}"))

    def _leave(self, consumer: _Consumer, error: Error) -> None:
        """Tell what is left of a consumer that it gets no more, and forget it."""
        consumer.say({"type": "failed", "code": error.code, "words": str(error)})
        consumer.is_gone = True
        self._consumers.pop(consumer.key, None)
        self._lost += 1
        self._dropped += consumer.queue.dropped
        if consumer.is_active:
            self._news["gone"].append(consumer.key)
        self.changed.notify_all()
