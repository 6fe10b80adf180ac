# SPDX-License-Identifier: BSD-3-Clause
"""How does a receiving process take in what one sending process sends over one connection?"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import Error, IoError, PeerFailed
from datamover.stream import shared_memory, wire
from datamover.stream.control import FrameWriter

#: A damaged chunk is asked for so many times more.
RETRIES = 3
_RIGHTS_BYTES = socket.CMSG_SPACE(4 * array.array("i").itemsize)


class IncomingMessage:
    """A message of one sending process, while it comes.

    Attributes
    ----------
    memory : ndarray
        Its bytes: this process's, or the sending one's.
    left : int
        Bytes that have not come, or not undamaged.
    """

    def __init__(self, nbytes: int, memory: Callable[[int], np.ndarray]):
        self.nbytes = self.left = nbytes
        self._get_memory = memory
        self._memory: np.ndarray | None = None
        self.is_shared = False
        #: From where on each connection continues.
        self.reached: dict[int, int] = {}

    @property
    def memory(self) -> np.ndarray:
        """Where the bytes are; memory is taken with the first of them."""
        if self._memory is None:
            self._memory = self._get_memory(self.nbytes)
        return self._memory

    def lies_in(self, segment: np.ndarray, begin: int, offset: int, count: int) -> None:
        """Take note of bytes in the sending process; copy them if others are here."""
        if self._memory is None:
            self._memory, self.is_shared = segment[begin : begin + self.nbytes], True
        elif not self.is_shared:
            part = slice(offset, offset + count)
            self._memory[part] = segment[begin : begin + self.nbytes][part]
        elif self._memory.ctypes.data != segment.ctypes.data + begin:
            raise PeerFailed("a message that lies in several places")

    def be_private(self) -> None:
        """Copy what lies in memory of the sending process."""
        if self.is_shared:
            self._memory, self.is_shared = self.memory.copy(), False


#: Gives the message for an array and a place; None: it is not known yet whether there is one.
Find = Callable[[int, int, int], "IncomingMessage | None"]


class DataLink:
    """One connection to one sending process. Nothing here waits.

    Attributes
    ----------
    is_paused : bool
        What comes next belongs to an array of which nothing is known yet: `resume` goes on.
    finished : list of int
        Places of the steps of which messages have become complete; emptied by who reads it.
    """

    def __init__(self, sock: socket.socket, producer: int, pathway: int, pathways: int):
        self.sock, self.producer = sock, producer
        self.writer = FrameWriter(sock)
        self.is_local = sock.family == socket.AF_UNIX
        self._pathway, self._pathways = pathway, pathways
        self._header, self._have = memoryview(bytearray(wire.CHUNK.size)), 0
        self._body: memoryview | None = None
        self._chunk: tuple[IncomingMessage, int, int, int, int, int] | None = None
        self._damaged: deque[tuple[Any, ...]] = deque()
        self._asked: tuple[int, int, int, int] | None = None
        self._tries: dict[tuple[int, int, int, int], int] = {}
        self._files: list[int] = []
        self._segments: dict[int, np.ndarray] = {}
        self.is_paused = self.is_ended = False
        self.finished: list[int] = []
        self.bytes_received = self.checksum_errors = 0

    def grant(self, taken: int, may: int, alone: bool = False) -> None:
        """Say that all steps before one place are taken, those before another may be sent.

        Or, of these, the last alone, besides those that were granted so before.
        """
        request = (wire.REQUEST_MAGIC, wire.ADVANCE, 0, taken, may, int(alone))
        self.writer.send(wire.REQUEST.pack(*request))

    def receive(self, find: Find) -> None:
        """Take in what has come.

        Raises
        ------
        PeerFailed
            What came makes no sense.
        IoError
            A chunk arrived damaged too often.
        """
        try:
            while not self.is_paused and not self.is_ended and self._receive(find):
                pass
        except Error as error:
            raise type(error)(f"sending process {self.producer}: {error}") from None

    def resume(self, find: Find) -> None:
        """Try again to find the message of what comes next."""
        self.is_paused = False
        self._begin(find)
        self.receive(find)

    def _receive(self, find: Find) -> bool:
        """Take in something; False where nothing more has come."""
        views = [self._header[self._have :]]
        if self._body is not None:
            views.insert(0, self._body)
        count = self._read(views)
        if count < 0:
            return False
        is_all = count == sum(map(len, views))
        if self._body is not None:
            of_body = min(count, len(self._body))
            self._body = self._body[of_body:]
            count -= of_body
            if not self._body:
                self._body = None
                self._check()
        self._have += count
        if self._body is None and self._have == len(self._header):
            self._begin(find)
            return True
        return is_all

    def _read(self, views: list[memoryview]) -> int:
        """Give how many bytes were read, -1 for none now."""
        rights, flags = 0, socket.MSG_DONTWAIT
        if self.is_local:
            rights, flags = _RIGHTS_BYTES, flags | socket.MSG_CMSG_CLOEXEC
        try:
            count, said, *_ = self.sock.recvmsg_into(views, rights, flags)
        except BlockingIOError:
            return -1
        except OSError:
            count, said = 0, []
        for level, kind, data in said:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files = array.array("i")
                files.frombytes(data[: len(data) // files.itemsize * files.itemsize])
                self._files += files
                if len(self._files) > shared_memory.MAX_SEGMENTS:
                    raise PeerFailed("more memory than it may share")
        if count == 0:
            self.is_ended = True
            return -1
        return count

    def _begin(self, find: Find) -> None:
        """Look at a header: where do its bytes belong?"""
        magic, checksum, which, place, offset, count, segment, at = wire.CHUNK.unpack(self._header)
        if magic not in (wire.CHUNK_MAGIC, wire.SHARED_MAGIC):
            raise PeerFailed("what it sent is no part of a message")
        message = find(self.producer, which, place)
        if message is None:
            self.is_paused = True
            return
        self._have = 0
        chunk = (which, place, offset, count)
        if self._asked is not None and chunk == self._asked:
            message.be_private()
            self._asked = None
        else:
            self._go_on(message, offset, count)
        self._chunk = (message, *chunk, checksum)
        if magic == wire.SHARED_MAGIC:
            found, begin = self._segment(segment), at - offset
            if not 0 <= begin <= found.nbytes - message.nbytes:
                raise PeerFailed("a message that is longer than the memory where it lies")
            message.lies_in(found, begin, offset, count)
            self._check()
        else:
            message.be_private()
            self._body = memoryview(message.memory)[offset : offset + count]

    def _go_on(self, message: IncomingMessage, offset: int, count: int) -> None:
        begin, end = wire.share_of(message.nbytes, self._pathway, self._pathways)
        reached = message.reached.get(self._pathway, begin)
        if offset != reached or not 0 < count <= min(wire.CHUNK_BYTES, end - offset):
            raise PeerFailed("what it sent is not what comes next")
        message.reached[self._pathway] = offset + count

    def _segment(self, number: int) -> np.ndarray:
        if number not in self._segments:
            if not self._files or len(self._segments) >= shared_memory.MAX_SEGMENTS:
                raise PeerFailed("a message in memory that it does not share")
            file = self._files.pop(0)
            try:
                self._segments[number] = shared_memory.mapped(file)
            finally:
                os.close(file)
        return self._segments[number]

    def _check(self) -> None:
        """Compare the checksum of the chunk that has come."""
        message, which, place, offset, count, checksum = self._chunk
        self._chunk = None
        self.bytes_received += count
        if wire.crc32c(message.memory[offset : offset + count]) == checksum:
            message.left -= count
            if message.left == 0:
                self.finished.append(place)
        else:
            self.checksum_errors += 1
            self._damaged.append((which, place, offset, count))
        self._ask_again()

    def _ask_again(self) -> None:
        """Ask for the next damaged chunk, one at a time."""
        if self._asked is not None or not self._damaged:
            return
        chunk = self._asked = self._damaged.popleft()
        self._tries[chunk] = self._tries.get(chunk, 0) + 1
        which, place, offset, count = chunk
        if self._tries[chunk] > RETRIES:
            raise IoError(
                f"bytes {offset} to {offset + count} of its message with array {which} of step "
                f"{place} arrived damaged {RETRIES + 1} times"
            )
        request = (wire.REQUEST_MAGIC, wire.FETCH, which, place, offset, count)
        self.writer.send(wire.REQUEST.pack(*request))

    def close(self) -> None:
        """End the connection."""
        self.writer.end()
        self.sock.close()
        for file in self._files:
            os.close(file)
        self._files, self._segments = [], {}
