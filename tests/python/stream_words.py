# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made messages of a stream's protocol, valid and invalid, for tests."""

import contextlib
import os
import socket
import struct
import threading

from datamover._plan import crc32c

VERSION = 10
LIMIT_SECONDS = 60
#: Magic, bytes that follow, their CRC32C; then its own.
FRAME = struct.Struct("!4sII")
FRAME_MAGIC = b"DMF7"
#: Magic, whether one step alone is granted, place before which all is taken, place before which all
#: may be sent; then its CRC32C.
GRANT = struct.Struct("!4sIQQ")
GRANT_MAGIC = b"DMG7"
#: Magic, CRC32C, number of the array, place of the step, offset, bytes, segment, position, number
#: of the step; then its CRC32C.
CHUNK = struct.Struct("!4sIIQQQQQQ")
CHUNK_MAGIC, SHARED_MAGIC = b"DMC7", b"DMS7"
CHUNK_BYTES = 1 << 20
#: Where more comes of a step, or perhaps.
NO_NUMBER = 2**64 - 1


def said(words):
    """A frame of which anything may be wrong."""
    body = record(words)
    return frame_header(len(body), crc32c(body)) + body


def record(words):
    """Fields as the engine encodes them; what it does not know has a tag of its own."""
    body = b""
    for key, value in words.items():
        name = str(key).encode()
        body += bytes([len(name)]) + name + encoded(value)
    return body


def encoded(value):
    if isinstance(value, int) and -(2**63) <= value < 2**63:  # True and False are 1 and 0
        return b"i" + struct.pack("!q", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"t" + struct.pack("!I", len(value)) + value
    if isinstance(value, list):
        return b"l" + struct.pack("!I", len(value)) + b"".join(map(encoded, value))
    return b"?" + repr(value).encode()


def decoded(body):
    """The fields of a record, which is right; texts that are not UTF-8 as bytes."""
    words = {}
    while body:
        key, body = body[1 : 1 + body[0]].decode(), body[1 + body[0] :]
        words[key], body = _value(body)
    return words


def _value(body):
    tag, body = body[:1], body[1:]
    if tag == b"i":
        return struct.unpack("!q", body[:8])[0], body[8:]
    (count,), body = struct.unpack("!I", body[:4]), body[4:]
    if tag == b"t":
        text = body[:count]
        with contextlib.suppress(UnicodeDecodeError):
            text = text.decode()
        return text, body[count:]
    assert tag == b"l"
    items = []
    for _ in range(count):
        item, body = _value(body)
        items.append(item)
    return items, body


def frame_header(count, checksum):
    """What stands before so many bytes; they may be others."""
    return checked(FRAME.pack(FRAME_MAGIC, count, checksum))


def chunk_header(magic, checksum, array, place, offset, count, segment=0, position=0,
                 number=NO_NUMBER):  # fmt: skip
    """What stands before a chunk; anything may be wrong."""
    fields = magic, checksum, array, place, offset, count, segment, position, number
    return checked(CHUNK.pack(*fields))


def grant(taken, may, alone=0):
    """What a consumer has taken and grants; anything may be wrong."""
    return checked(GRANT.pack(GRANT_MAGIC, alone, taken, may))


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
    return decoded(body)


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
                  "tells_by_messages": tells_by_messages, "pressed": True,
                  "producers": [["127.0.0.1", self._port, self._name]]})
        )  # fmt: skip
        return sock

    def data(self, before=lambda: None):
        """A data connection of a consumer; `before` is called before it is greeted."""
        return self._greeted(self._data, before)


def confirm(control):
    """Confirm the arrays that a consumer of one process requests; return the request."""
    request = heard(control, "subscribe")
    heard(control, "credit")
    control.sendall(said({"type": "subscribed"}))
    return request


def heard(sock, kind):
    """The next frame of a type, whatever comes before."""
    while (words := read_frame(sock))["type"] != kind:
        pass
    return words
