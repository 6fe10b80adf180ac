# SPDX-License-Identifier: BSD-3-Clause
"""What does a sending process keep for consumers to fetch, and how do they fetch it?"""

from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np

from datamover.errors import IoError
from datamover.stream import wire

#: A consumer that takes none of a message for so long has failed.
STALLED_SECONDS = 600.0


class Outbox:
    """Packed messages, by consumer; served to data connections by their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of each consumer by its key: messages by (sequence number, array, receiving process).
        self._held: dict[str, dict[tuple[int, int, int], np.ndarray]] = {}
        self._processes: dict[str, int] = {}
        self._connections: dict[str, set[socket.socket]] = {}
        self._bytes_sent = 0

    def open(self, key: str, nprocs: int) -> None:
        """Let a consumer fetch."""
        with self._lock:
            self._held.setdefault(key, {})
            self._processes[key] = nprocs

    def put(self, key: str, sequence: int, array: int, messages: dict[int, np.ndarray]) -> None:
        """Keep messages to the processes of a consumer until they have been fetched."""
        with self._lock:
            for peer, message in messages.items():
                self._held[key][sequence, array, peer] = message

    def drop(self, key: str, sequence: int) -> None:
        """Forget what is kept of a step."""
        with self._lock:
            held = self._held.get(key, {})
            for which in [which for which in held if which[0] == sequence]:
                del held[which]

    def forget(self, key: str) -> None:
        """Forget a consumer that has gone, and end its connections."""
        with self._lock:
            self._held.pop(key, None)
            self._processes.pop(key, None)
            for sock in self._connections.pop(key, ()):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def counters(self) -> dict[str, int]:
        """Count what is kept and what was sent, in bytes."""
        with self._lock:
            kept = sum(m.nbytes for held in self._held.values() for m in held.values())
            return {"bytes_kept": kept, "bytes_sent": self._bytes_sent}

    def serve(self, sock: socket.socket, words: dict[str, Any]) -> None:
        """Answer the requests of one data connection until it ends.

        Raises
        ------
        Error
            It has ended, or what came makes no sense.
        """
        key = wire.text(words, "key")
        with self._lock:
            if key not in self._processes:
                raise IoError("no consumer has this key")
            peer = wire.number(words, "rank", 0, self._processes[key] - 1)
            self._connections.setdefault(key, set()).add(sock)
        try:
            header = bytearray(wire.REQUEST.size)
            while True:
                self._answer(sock, key, peer, header)
        finally:
            with self._lock:
                self._connections.get(key, set()).discard(sock)

    def _answer(self, sock: socket.socket, key: str, peer: int, header: bytearray) -> None:
        wire.read_exactly(sock, memoryview(header), None)
        magic, operation, array, sequence, offset, count = wire.REQUEST.unpack(header)
        if magic != wire.REQUEST_MAGIC or operation not in (wire.FETCH, wire.RELEASE):
            raise IoError(f"these bytes are no request: {bytes(header[:8])!r}")
        with self._lock:
            held = self._held.get(key, {})
            message = held.get((sequence, array, peer))
            if message is not None and operation == wire.RELEASE:
                del held[sequence, array, peer]
        if message is None or offset + count > message.nbytes:
            raise IoError(
                f"there are no {count} bytes at {offset} of array {array} of step {sequence}"
            )
        if operation == wire.FETCH:
            self._send(sock, message[offset : offset + count], array, sequence, offset)

    def _send(
        self, sock: socket.socket, part: np.ndarray, array: int, sequence: int, offset: int
    ) -> None:
        for begin in range(0, part.nbytes, wire.CHUNK_BYTES):
            chunk = memoryview(part[begin : begin + wire.CHUNK_BYTES])
            header = wire.CHUNK.pack(
                wire.CHUNK_MAGIC,
                wire.crc32c(chunk),
                array,
                sequence,
                offset + begin,
                chunk.nbytes,
            )
            wire.write_all(sock, header, chunk, seconds=STALLED_SECONDS)
            with self._lock:
                self._bytes_sent += chunk.nbytes
