# SPDX-License-Identifier: BSD-3-Clause
"""What does a sending process keep for consumers, and how does it get to them?"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import IoError, PeerFailed
from datamover.stream import shared_memory, wire
from datamover.stream.shared_memory import Segment

#: A consumer that takes none of a message for so long has failed.
STALLED_SECONDS = 600.0
#: Steps that a receiving process may have granted one by one and not taken.
MAX_GRANTED = 1 << 12
#: What is read of requests at once.
READ_BYTES = 1 << 12


@dataclasses.dataclass
class Message:
    """Memory for a message; `segment` where a local consumer reads it there."""

    memory: np.ndarray
    segment: Segment | None = None


@dataclasses.dataclass
class _Kept:
    place: int
    array: int
    message: Message


class _Box:
    """What is kept for one receiving process, in the order in which it is sent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: dict[int, _Kept] = {}
        self.count = 0  # of all that were ever put
        self.links: set[_Link] = set()
        self.shares_memory = False
        self._unused: dict[int, list[Message]] = {}
        self._segments = 0

    def memory(self, nbytes: int) -> Message:
        """Give memory for a message: such as was used before, where there is any."""
        with self.lock:
            unused = self._unused.get(nbytes)
            while unused:
                message = unused.pop()
                if message.segment is not None or not self._takes_segments(nbytes):
                    return message
            if self._takes_segments(nbytes):
                with contextlib.suppress(OSError):
                    segment = Segment(nbytes)
                    self._segments += 1
                    return Message(segment.memory, segment)
        return Message(np.empty(nbytes, np.uint8))

    def _takes_segments(self, nbytes: int) -> bool:
        return (
            self.shares_memory
            and nbytes >= shared_memory.LEAST_BYTES
            and self._segments < shared_memory.MAX_SEGMENTS
        )

    def put(self, place: int, array_: int, message: Message) -> None:
        """Keep a message, and have it sent."""
        with self.lock:
            self.kept[self.count] = _Kept(place, array_, message)
            self.count += 1
            for link in self.links:
                link.wake()

    def drop(self, place: int) -> None:
        """Forget what is kept of a step."""
        self._remove(lambda kept: kept.place == place)

    def advance(self, taken: int) -> None:
        """Forget what is kept of all steps before a place."""
        self._remove(lambda kept: kept.place < taken)

    def _remove(self, which: Callable[[_Kept], bool]) -> None:
        with self.lock:
            for number in [n for n, kept in self.kept.items() if which(kept)]:
                message = self.kept.pop(number).message
                self._unused.setdefault(message.memory.nbytes, []).append(message)

    def next(self, number: int, may: int, alone: set[int] | None) -> tuple[int, _Kept | None]:
        """Give the first that is kept from a number on, if it may be sent, and its number.

        Where steps are granted `alone`, what is kept of others before `may` has been dropped: this
        process has only not heard of it yet.
        """
        with self.lock:
            while number < self.count:
                kept = self.kept.get(number)
                skipped = kept and alone is not None and kept.place not in alone
                if kept is not None and not (skipped and kept.place < may):
                    return number, kept if kept.place < may else None
                number += 1
            return number, None

    def find(self, place: int, array_: int) -> Message | None:
        """Give a message that is still kept."""
        with self.lock:
            for kept in self.kept.values():
                if (kept.place, kept.array) == (place, array_):
                    return kept.message
            return None

    def nbytes(self) -> int:
        """Count what is kept."""
        with self.lock:
            return sum(kept.message.memory.nbytes for kept in self.kept.values())


class Outbox:
    """Packed messages, by consumer and receiving process."""

    def __init__(self, pathways: int) -> None:
        self._pathways = pathways
        self._lock = threading.Lock()
        self._boxes: dict[str, list[_Box]] = {}
        self._bytes_sent = 0

    def open(self, key: str, nprocs: int) -> None:
        """Let a consumer connect."""
        with self._lock:
            self._boxes[key] = [_Box() for _ in range(nprocs)]

    def memory(self, key: str, peer: int, nbytes: int) -> Message:
        """Give memory for a message to a process of a consumer."""
        return self._boxes[key][peer].memory(nbytes)

    def put(self, key: str, place: int, array_: int, messages: dict[int, Message]) -> None:
        """Keep messages to the processes of a consumer until they have been taken."""
        boxes = self._boxes[key]
        for peer, message in messages.items():
            boxes[peer].put(place, array_, message)

    def drop(self, key: str, place: int) -> None:
        """Forget what is kept of a step."""
        for box in self._boxes.get(key, ()):
            box.drop(place)

    def forget(self, key: str) -> None:
        """Forget a consumer that has gone, and end its connections."""
        with self._lock:
            boxes = self._boxes.pop(key, ())
        for box in boxes:
            with box.lock:
                links = list(box.links)
            for link in links:
                link.end()

    def counters(self) -> dict[str, int]:
        """Count what is kept and what was sent, in bytes."""
        with self._lock:
            boxes = [box for boxes in self._boxes.values() for box in boxes]
            sent = self._bytes_sent
            for box in boxes:
                sent += sum(link.bytes_sent for link in box.links)
        return {"bytes_kept": sum(box.nbytes() for box in boxes), "bytes_sent": sent}

    def keys(self) -> list[str]:
        """Name the consumers that may connect."""
        with self._lock:
            return list(self._boxes)

    def serve(self, sock: socket.socket, words: dict[str, Any]) -> None:
        """Send over one data connection until it ends.

        Raises
        ------
        Error
            It has ended, or what came makes no sense.
        """
        key = wire.text(words, "key")
        pathway = wire.number(words, "pathway", 0, self._pathways - 1)
        with self._lock:
            boxes = self._boxes.get(key)
            if boxes is None:
                raise IoError("no consumer has this key")
            box = boxes[wire.number(words, "rank", 0, len(boxes) - 1)]
        is_local = sock.family == socket.AF_UNIX
        link = _Link(sock, box, pathway, self._pathways)
        with box.lock:
            box.links.add(link)
            box.shares_memory = box.shares_memory or is_local
        try:
            link.serve()
        finally:
            with box.lock:
                box.links.discard(link)
            with self._lock:
                self._bytes_sent += link.bytes_sent
            link.close()


class _Link:
    """One data connection: sends what its receiving process may be sent, and hears what it asks."""

    def __init__(self, sock: socket.socket, box: _Box, pathway: int, pathways: int):
        self._sock, self._box = sock, box
        self._is_local = sock.family == socket.AF_UNIX
        self._pathway, self._pathways = pathway, 1 if self._is_local else pathways
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_closed = False
        self._next = self._may = 0
        self._alone: set[int] | None = None  # places, where each is granted by itself
        self._asked: list[tuple[int, int, int, int]] = []
        self._requests = bytearray()
        self._known_segments: set[int] = set()
        self.bytes_sent = 0

    def wake(self) -> None:
        """Have it look for what there is to send. Under the box's lock."""
        os.eventfd_write(self._wake, 1)

    def end(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back, when the box does not know this link any more."""
        os.close(self._wake)

    def serve(self) -> None:
        """Go on until the connection ends."""
        wire.limit_sending(self._sock, STALLED_SECONDS)
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        while True:
            for found, _ in waiting.poll():
                if found == self._wake:
                    os.eventfd_read(self._wake)
                else:
                    self._hear()
            while self._send_next():
                pass

    def _hear(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerFailed(str(error)) from None
        if not data:
            raise PeerFailed("the other end closed the connection")
        self._requests += data
        size = wire.REQUEST.size
        whole = len(self._requests) // size * size
        for request in wire.REQUEST.iter_unpack(bytes(self._requests[:whole])):
            self._obey(*request)
        del self._requests[:whole]

    def _obey(
        self, magic: bytes, operation: int, array_: int, place: int, offset: int, count: int
    ) -> None:
        if magic != wire.REQUEST_MAGIC or operation not in (wire.FETCH, wire.ADVANCE):
            raise IoError(f"these bytes are no request: {magic!r} {operation}")
        if operation == wire.ADVANCE:
            self._may = max(self._may, offset)
            if count:
                self._alone = {p for p in self._alone or () if p >= place} | {offset - 1}
                if len(self._alone) > MAX_GRANTED:
                    raise IoError(f"more than {MAX_GRANTED} steps granted and not taken")
            self._box.advance(place)
            return
        if self._asked or not 0 < count <= wire.CHUNK_BYTES:
            raise IoError("one chunk can be asked for again at a time")
        self._asked.append((array_, place, offset, count))

    def _send_next(self) -> bool:
        if self._asked:
            array_, place, offset, count = self._asked.pop()
            message = self._box.find(place, array_)
            if message is None or offset + count > message.memory.nbytes:
                raise IoError(
                    f"there are no {count} bytes at {offset} of array {array_} of step {place}"
                )
            self._send(_Kept(place, array_, message), offset, offset + count, shared=False)
            return True
        self._next, kept = self._box.next(self._next, self._may, self._alone)
        if kept is None:
            return False
        self._next += 1
        nbytes = kept.message.memory.nbytes
        begin, end = wire.share_of(nbytes, self._pathway, self._pathways)
        self._send(kept, begin, end, shared=self._is_local)
        return True

    def _send(self, kept: _Kept, begin: int, end: int, *, shared: bool) -> None:
        if shared and kept.message.segment is not None:
            self._send_shared(kept, kept.message.segment, begin, end)
            return
        for at in range(begin, end, wire.CHUNK_BYTES):
            chunk = kept.message.memory[at : min(at + wire.CHUNK_BYTES, end)]
            header = wire.CHUNK.pack(
                wire.CHUNK_MAGIC, wire.crc32c(chunk), kept.array, kept.place, at, chunk.nbytes, 0, 0
            )
            wire.write_all(self._sock, header, chunk)
            self.bytes_sent += chunk.nbytes

    def _send_shared(self, kept: _Kept, segment: Segment, begin: int, end: int) -> None:
        """Tell where a message lies; hand its segment over when it is used first."""
        for at in range(begin, end, wire.CHUNK_BYTES):
            chunk = kept.message.memory[at : min(at + wire.CHUNK_BYTES, end)]
            what = kept.array, kept.place, at, chunk.nbytes, segment.number, at
            header = wire.CHUNK.pack(wire.SHARED_MAGIC, wire.crc32c(chunk), *what)
            if segment.number not in self._known_segments:
                self._known_segments.add(segment.number)
                self._hand_over(segment, header)
            else:
                wire.write_all(self._sock, header)
            self.bytes_sent += chunk.nbytes

    def _hand_over(self, segment: Segment, header: bytes) -> None:
        try:
            file = segment.read_only()
            try:
                rights = array.array("i", [file])
                count = self._sock.sendmsg(
                    [header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
            finally:
                os.close(file)
        except OSError as error:
            raise PeerFailed(f"a segment cannot be handed over: {error}") from None
        wire.write_all(self._sock, header[count:])
