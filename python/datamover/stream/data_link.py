# SPDX-License-Identifier: BSD-3-Clause
"""How does a receiving process get messages from one sending process over one connection?"""

from __future__ import annotations

import queue
import socket
import threading
from concurrent.futures import Future

from datamover.errors import Error, IoError, PeerFailed
from datamover.stream import endpoint, wire

#: A sending process that is computing still answers: its connections have threads of their own.
ANSWER_SECONDS = 600.0
#: A damaged chunk is asked for so many times more.
RETRIES = 3


class DataLink:
    """One connection to one sending process, with a thread that reads from it."""

    def __init__(self, sock: socket.socket, producer: int):
        self._sock, self._producer = sock, producer
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._lock, self._closed = threading.Lock(), False
        self.bytes_received = self.checksum_errors = 0
        threading.Thread(target=self._run, name="datamover-stream", daemon=True).start()

    def fetch(
        self, array: int, sequence: int, message: memoryview, begin: int, end: int
    ) -> Future[None]:
        """Begin to fill bytes `begin` to `end` of a message; what comes back is done then."""
        done: Future[None] = Future()
        with self._lock:
            if self._closed:
                done.set_exception(PeerFailed("the connection was closed"))
            else:
                self._jobs.put((done, array, sequence, message, begin, end))
        return done

    def release(self, array: int, sequence: int) -> None:
        """Say that the message is complete and need not be kept any more."""
        request = wire.REQUEST.pack(wire.REQUEST_MAGIC, wire.RELEASE, array, sequence, 0, 0)
        wire.write_all(self._sock, request, seconds=ANSWER_SECONDS)

    def close(self) -> None:
        """End the connection and the thread."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)  # what was asked for before fails: the connection is gone
        endpoint.close(self._sock)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            done, *what = job
            try:
                self._fetch(*what)
            except Error as error:
                told = type(error)(f"sending process {self._producer}: {error}")
                done.set_exception(told)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _fetch(self, array: int, sequence: int, message: memoryview, begin: int, end: int) -> None:
        damaged = self._request(array, sequence, message, begin, end)
        for _ in range(RETRIES):
            again = []
            for first, last in damaged:
                again += self._request(array, sequence, message, first, last)
            damaged = again
        if damaged:
            first, last = damaged[0]
            raise IoError(
                f"bytes {first} to {last} of its message with array {array} of step {sequence} "
                f"arrived damaged {RETRIES + 1} times"
            )

    def _request(
        self, array: int, sequence: int, message: memoryview, begin: int, end: int
    ) -> list[tuple[int, int]]:
        """Ask for bytes, read them, and give the parts of them that were damaged."""
        request = wire.REQUEST.pack(
            wire.REQUEST_MAGIC, wire.FETCH, array, sequence, begin, end - begin
        )
        wire.write_all(self._sock, request, seconds=ANSWER_SECONDS)
        header = bytearray(wire.CHUNK.size)
        damaged, at = [], begin
        while at < end:
            wire.read_exactly(self._sock, memoryview(header), endpoint.after(ANSWER_SECONDS))
            magic, checksum, *which, offset, count = wire.CHUNK.unpack(header)
            fits = which == [array, sequence] and offset == at
            if (
                magic != wire.CHUNK_MAGIC
                or not fits
                or not 0 < count <= min(wire.CHUNK_BYTES, end - at)
            ):
                raise PeerFailed("what it sent is not what it was asked for")
            chunk = message[at : at + count]
            wire.read_exactly(self._sock, chunk, endpoint.after(ANSWER_SECONDS))
            self.bytes_received += count
            if wire.crc32c(chunk) != checksum:
                self.checksum_errors += 1
                damaged.append((at, at + count))
            at += count
        return damaged
