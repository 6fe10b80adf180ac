# SPDX-License-Identifier: BSD-3-Clause
"""Feeds: each keeps the newest step of a view while a stream runs, ends and starts again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import (
    Error,
    InvalidArgument,
    InvalidState,
    Mismatch,
    PeerFailed,
    Timeout,
    Unsupported,
)
from datamover.stream import wire
from datamover.stream.consumer import Consumer, connect
from datamover.stream.view import (
    View,
    first_view,
    layout_of_view,
    owners_of,
    view_of_words,
    why_not_shown,
)
from datamover.stream.wire import ArrayInfo

#: Magic, CRC32C of everything after it, bytes of the name, rows, columns, stride of the elements in
#: each dimension, number of the view, 0, step, steps taken so far. Then the
#: name in UTF-8, zeros up to a multiple of 8, the elements as float32, row by row; little-endian.
HEADER = struct.Struct("<4sIIIIIIiqQ")
MAGIC = b"DMF1"
#: Larger planes are sent with every second element only, or every third, and so on.
MAX_ELEMS = 1 << 24
#: Limit of browsers' canvases.
MAX_EXTENT = 1 << 13
#: Screens show no more, and the sending program has to pack each step.
MAX_STEPS_PER_SECOND = 60
#: Seconds of one attempt to reach a stream, and between two attempts.
CONNECT_SECONDS = 1.0
RETRY_SECONDS = 0.3
JOIN_SECONDS = 2.0
#: Seconds between two requests for the arrays of a stream, which may send others later.
ARRAYS_SECONDS = 1.0

_VIEW_NUMBERS = itertools.count(1)


@dataclasses.dataclass
class Newest:
    """A step of a view, as received."""

    count: int
    step: int
    view: View
    view_number: int
    plane: np.ndarray
    message: bytearray | None = None


@dataclasses.dataclass(frozen=True)
class Status:
    """State of a feed.

    Attributes
    ----------
    state : {"connecting", "waiting", "running", "ended", "failed"}
    words : str
        The reason, if it failed.
    view : View, optional
    owners : dict, optional
        The result of `owners_of`.
    view_number : int
        Unique in this process, also over several runs of the sending program.
    """

    state: str
    words: str = ""
    view: View | None = None
    owners: dict[str, Any] | None = None
    view_number: int = 0


def message_of(newest: Newest) -> bytearray:
    """Return a step as a message for a page; built once."""
    if newest.message is None:
        every = -(-max(newest.plane.shape) // MAX_EXTENT)
        while newest.plane[::every, ::every].size > MAX_ELEMS:
            every += 1
        plane = newest.plane[::every, ::every]
        name = newest.view.name.encode()
        begin = -(-(HEADER.size + len(name)) // 8) * 8
        message = bytearray(begin + 4 * plane.size)
        elems = np.frombuffer(message, "<f4", offset=begin).reshape(plane.shape)
        with np.errstate(all="ignore"):
            elems[...] = (
                np.abs(plane) if plane.dtype.kind == "c" else plane.astype("f4", copy=False)
            )
        words = (len(name), *plane.shape, every, newest.view_number, 0, newest.step, newest.count)
        HEADER.pack_into(message, 0, MAGIC, 0, *words)
        message[HEADER.size : HEADER.size + len(name)] = name
        struct.pack_into("<I", message, 4, wire.crc32c(memoryview(message)[8:]))
        newest.message = message
    return newest.message


class Feed:
    """A consumer of a stream, in a thread of its own, that keeps the newest step.

    Parameters
    ----------
    address : str
        Address of the stream.
    wish : View, optional
        The view to keep. By default, and until it is sent, the first view of the first array that
        can be shown.
    name : str, optional
        The array whose first view to keep.
    learn : callable
        Called in the thread with all known arrays, by name.
    changed : callable
        Called in the thread when the step or the state changes.
    """

    def __init__(
        self,
        address: str,
        wish: View | None,
        name: str | None,
        learn: Callable[[dict[str, ArrayInfo]], None],
        changed: Callable[[], None],
    ):
        self._address, self._wish, self._name = address, wish, name
        self._learn, self._changed = learn, changed
        self.status = Status("connecting", view=wish)
        self.newest: Newest | None = None
        self.users = 0
        self._source: Consumer | None = None
        self._past = {"bytes_received": 0, "checksum_errors": 0, "steps_dropped": 0}
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="datamover feed", daemon=True)
        self._thread.start()

    def counters(self) -> dict[str, int]:
        """Count bytes, steps taken, steps that the stream dropped, and checksum errors."""
        now = dict(self._past)
        source = self._source
        if source is not None:
            counters = source.counters()
            now = {key: value + counters[key] for key, value in now.items()}
        return {**now, "steps": self._count}

    def stop(self) -> None:
        """Leave the stream, soon."""
        self._stop.set()
        source = self._source
        if source is not None:
            source.close()

    def join(self) -> None:
        """Wait until the stream is left, unless the program at its address does not answer."""
        self._thread.join(JOIN_SECONDS)

    def _say(self, state: str, words: str = "", **rest: Any) -> None:
        self.status = dataclasses.replace(self.status, state=state, words=words, **rest)
        self._changed()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._follow():
                    self._say("ended")
                    self._stop.wait(RETRY_SECONDS)
                continue
            except Timeout:
                if self.status.state not in ("ended", "failed"):
                    self._say("connecting")
            except InvalidState:  # raised by `connect` alone: the stream has ended
                self._say("ended")
            except PeerFailed as error:
                self._say("failed", f"the stream broke off: {error}")
            except Exception as error:  # a defect too is reported instead of stopping silently
                kind = "" if isinstance(error, Error) else f"{type(error).__name__}: "
                self._say("failed", f"{kind}{error}")
            self._stop.wait(RETRY_SECONDS)

    def _follow(self) -> bool:
        """Take the steps of one run of the sending program, or until another view is requested."""
        with connect(self._address, timeout=CONNECT_SECONDS, ahead=1, newest=True) as source:
            self._source = source
            try:
                # If it is set, no other thread closes this connection.
                return not self._stop.is_set() and self._take_steps(source)
            finally:
                for key, value in source.counters().items():
                    if key in self._past:
                        self._past[key] += value
                self._source = None

    def _take_steps(self, source: Consumer) -> bool:
        if self.status.state == "connecting":
            self._say("waiting")
        known = source.arrays()
        self._learn(known)
        view = self._choose(known)
        if view is None:
            raise Unsupported("the stream has not sent an array that can be shown")
        info, number = known[view.name], next(_VIEW_NUMBERS)
        told: Any = {"view": view, "owners": owners_of(view, info), "view_number": number}
        steps = source.steps({view.name: layout_of_view(view, info)})
        next_time = next_request = 0.0
        for step, arrays in steps:
            plane = arrays[view.name].reshape(view.extents(info.shape))
            self._count += 1
            self.newest = Newest(self._count, step, view, number, plane)
            if self.status.state != "running" or told:
                self._say("running", **told)
                told = {}
            else:
                self._changed()
            if time.monotonic() >= next_request:
                next_request = time.monotonic() + ARRAYS_SECONDS
                known = source.arrays()
                self._learn(known)
                if self._wished(known) not in (None, view):
                    return False
            self._stop.wait(max(next_time - time.monotonic(), 0))
            next_time = time.monotonic() + 1 / MAX_STEPS_PER_SECOND
        return True

    def _choose(self, known: dict[str, ArrayInfo]) -> View | None:
        shown = [info for info in known.values() if not why_not_shown(info)]
        return self._wished(known) or (first_view(shown[0]) if shown else None)

    def _wished(self, known: dict[str, ArrayInfo]) -> View | None:
        wish = {"name": self._name} if self._wish is None else self._wish.as_words()
        with contextlib.suppress(InvalidArgument, Mismatch):
            return view_of_words(wish, known)
        return None


class Feeds:
    """The feeds of a stream: one for each view that a page shows, and the one shown last.

    Parameters
    ----------
    address : str
        Address of the stream.
    name : str, optional
        The array that is shown first.
    changed : callable
        Called in the threads of feeds when a step, a state or the known arrays change.

    Attributes
    ----------
    known : dict of str to ArrayInfo
        The arrays of the stream.
    words : list of dict
        Their descriptions for a page.
    """

    def __init__(self, address: str, name: str | None, changed: Callable[[], None]):
        self.address, self._name, self._changed = address, name, changed
        self.known: dict[str, ArrayInfo] = {}
        self.words: list[dict[str, Any]] = []
        self.feeds: list[Feed] = []

    def of(self, view: View | None) -> Feed:
        """Return the feed of a view, or any; start one if there is none."""
        for feed in self.feeds:
            if view is None or feed.status.view == view:
                return feed
        self.feeds.append(Feed(self.address, view, self._name, self._learn, self._changed))
        return self.feeds[-1]

    def leave(self, feed: Feed) -> None:
        """Count a user less; end feeds without users, except the newest."""
        feed.users -= 1
        for unused in [feed for feed in self.feeds[:-1] if not feed.users]:
            self.feeds.remove(unused)
            unused.stop()

    def close(self) -> None:
        """Leave the stream."""
        for feed in self.feeds:
            feed.stop()
        for feed in self.feeds:
            feed.join()

    def _learn(self, known: dict[str, ArrayInfo]) -> None:
        """Called by the threads of feeds."""
        self.known, self.words = known, [_words_of_array(info) for info in known.values()]
        self._changed()


def _words_of_array(info: ArrayInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "shape": list(info.shape),
        "dtype": str(info.dtype),
        "nprocs": info.layout.nprocs,
        "layout": str(info.layout).strip("<>")[:200],
        "why_not": why_not_shown(info),
    }
