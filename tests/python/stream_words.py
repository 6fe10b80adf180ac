# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made messages of a stream's protocol, valid and invalid, for tests."""

import contextlib
import json
import os
import socket
import struct
import threading

from datamover._plan import crc32c

VERSION = 7
LIMIT_SECONDS = 60
#: Magic, bytes that follow, their CRC32C; then its own.
FRAME = struct.Struct("!4sII")
FRAME_MAGIC = b"DMS2"
#: Magic, operation, number of the array, place of the step, offset, bytes; then its CRC32C.
REQUEST = struct.Struct("!4sIIQQQ")
REQUEST_MAGIC = b"DMR3"
FETCH, ADVANCE = 1, 2
#: Magic, CRC32C, number of the array, place of the step, offset, bytes, segment, position, number
#: of the step; then its CRC32C.
CHUNK = struct.Struct("!4sIIQQQQQQ")
CHUNK_MAGIC, SHARED_MAGIC = b"DMC4", b"DMS4"
CHUNK_BYTES = 1 << 20
#: Where more comes of a step, or perhaps.
NO_NUMBER = 2**64 - 1


def said(words):
    """A frame of which anything may be wrong."""
    body = json.dumps(words).encode()
    return frame_header(len(body), crc32c(body)) + body


def frame_header(count, checksum):
    """What stands before so many bytes; they may be others."""
    return checked(FRAME.pack(FRAME_MAGIC, count, checksum))


def chunk_header(magic, checksum, array, place, offset, count, segment=0, position=0,
                 number=NO_NUMBER):  # fmt: skip
    """What stands before a chunk; anything may be wrong."""
    fields = magic, checksum, array, place, offset, count, segment, position, number
    return checked(CHUNK.pack(*fields))


def request(operation, array, place, offset, count):
    """What a consumer asks for; anything may be wrong."""
    return checked(REQUEST.pack(REQUEST_MAGIC, operation, array, place, offset, count))


def checked(words):
    """Words with their checksum behind them."""
    return words + struct.pack("!I", crc32c(words))


def read_exactly(sock, count):
    """Bytes of a connection; it ends: ConnectionError."""
    data = b""
    sock.settimeout(LIMIT_SECONDS)
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("it was closed")
        data += more
    return data


def read_frame(sock):
    header = read_exactly(sock, FRAME.size)
    assert checked(header) == header + read_exactly(sock, 4)
    magic, count, checksum = FRAME.unpack(header)
    body = read_exactly(sock, count)
    assert magic == FRAME_MAGIC and checksum == crc32c(body)
    return json.loads(body)


def answer(greeting, **words):
    """What a consumer says first, with the token that was put to the greeting, if any."""
    return said({**words, "token": greeting.get("token", "")})


def close(sock):
    """End a connection, also for a thread that waits for it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


class HandmadeStream:
    """The sending end of a stream, of one process, that does what a function says in a thread.

    Parameters
    ----------
    work : callable
        Gets this object.
    local : bool
        Whether data goes over a local connection.
    """

    def __init__(self, work, local=False):
        self._control = socket.create_server(("127.0.0.1", 0))
        self._name = f"datamover-test-{os.urandom(8).hex()}" if local else ""
        self._data = self._control
        if local:
            self._data = socket.socket(socket.AF_UNIX)
            self._data.bind("\0" + self._name)
            self._data.listen()
        self._port = self._control.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._open = [self._control, self._data]
        self.failures = []
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work):
        try:
            work(self)
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._thread.join(LIMIT_SECONDS)
        for sock in self._open:
            close(sock)
        self._thread.join(LIMIT_SECONDS)
        if kind is None and self.failures:
            raise self.failures[0]

    def _greeted(self, listener, before=lambda: None):
        sock = listener.accept()[0]
        self._open.append(sock)
        before()
        sock.sendall(said({"datamover_stream": VERSION}))
        self.hello = read_frame(sock)
        return sock

    def control(self, ahead=True, tells_by_messages=False):
        """The control connection of a consumer, which has been welcomed."""
        sock = self._greeted(self._control)
        sock.sendall(
            said({"type": "welcome", "key": "k", "pathways": 1, "ahead": ahead,
                  "tells_by_messages": tells_by_messages,
                  "producers": [["127.0.0.1", self._port, self._name]]})
        )  # fmt: skip
        return sock

    def data(self, before=lambda: None):
        """A data connection of a consumer; `before` is called before it is greeted."""
        return self._greeted(self._data, before)


def heard(sock, kind):
    """The next frame of a type, whatever comes before."""
    while (words := read_frame(sock))["type"] != kind:
        pass
    return words


def fetched(sock):
    """The next chunk that is asked for again: array, place, offset, bytes."""
    while True:
        words = read_exactly(sock, REQUEST.size)
        assert checked(words) == words + read_exactly(sock, 4)
        magic, operation, *rest = REQUEST.unpack(words)
        assert magic == REQUEST_MAGIC
        if operation == FETCH:
            return rest
