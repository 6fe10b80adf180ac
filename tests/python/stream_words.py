# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made messages of a stream's protocol, valid and invalid, for tests."""

import contextlib
import os
import socket
import struct
import threading

from datamover._plan import crc32c

VERSION = 12
LIMIT_SECONDS = 60
#: The CRC32C of what follows, magic, bytes after the header, their CRC32C.
FRAME = struct.Struct("<I4sII")
FRAME_MAGIC = b"DMF8"
#: The CRC32C of what follows, magic, place before which all is taken, place before which all may be
#: sent, whether one step alone is granted.
GRANT = struct.Struct("<I4sQQQ")
GRANT_MAGIC = b"DMG8"
#: The CRC32C of what follows, magic, CRC32C of the bytes, number of the array, place of the step,
#: offset, bytes, segment, position, number of the step.
CHUNK = struct.Struct("<I4sIIQQQQQQ")
CHUNK_MAGIC, SHARED_MAGIC = b"DMC8", b"DMS8"
CHUNK_BYTES = 1 << 20
#: Where more comes of a step, or perhaps.
NO_NUMBER = 2**64 - 1
#: Codes of errors, from 1 on.
CODES = [
    "invalid_argument",
    "out_of_range",
    "wrong_type",
    "mismatch",
    "no_memory",
    "io",
    "mpi",
    "peer_failed",
    "timeout",
    "invalid_state",
    "unsupported",
]
#: The fields of each type of frame, by the type's number, with what they are if they are not given:
#: an integer, a text, or a list of items like the one in it.
FIELDS = {
    "greeting": {"datamover_stream": 0},
    "control": {"key": "", "nprocs": 1, "rank": 0, "token": ""},
    "data": {"key": "", "rank": 0, "pathway": 0, "token": ""},
    "welcome": {"key": "", "pathways": 1, "ahead": 0, "pressed": 0, "tells_by_messages": 0,
                "producers": [("", 0, "")]},
    "array": {"number": 0, "name": "", "dtype": "", "elem_bytes": 0, "layout": ""},
    "arrays": {},
    "subscribe": {"newest": 0, "hears_by_messages": 0, "arrays": [("", "")]},
    "credit": {"steps": 0},
    "subscribed": {},
    "step": {"place": 0, "step": 0, "dropped": 0, "arrays": [0]},
    "done": {"place": 0},
    "bye": {"place": 0, "error": ()},
    "end": {"dropped": 0, "steps": 0},
    "failed": {"place": 0, "error": ()},
}  # fmt: skip
TYPES = list(FIELDS)


def said(words):
    """A frame of which anything may be wrong."""
    return framed(record(words))


def framed(body):
    """A frame of any bytes, with a right header."""
    return frame_header(len(body), crc32c(body)) + body


def cut(rng, frame):
    """A frame without its last words or bytes, with a right header."""
    return framed(frame[FRAME.size : rng.randrange(FRAME.size, len(frame))])


def many(rng):
    """The fields of a request for more arrays than there are, or of none of these."""
    count = rng.choice([70_000, 2**32, 2**62, -1])
    return b"".join(map(encoded, [TYPES.index("subscribe"), 0, 0, count, "u"]))


def record(words):
    """Fields as the engine encodes them; of a type that it does not have, all that are given."""
    kind = words.get("type", words.get("role", "greeting"))
    if not isinstance(kind, str) or kind not in FIELDS:
        return b"".join(map(encoded, [kind, *words.values()]))
    body = encoded(TYPES.index(kind))
    for key, default in FIELDS[kind].items():
        if key != "error":
            body += encoded(words.get(key, [] if isinstance(default, list) else default))
        elif "code" not in words:
            body += encoded(0)
        else:
            code = words["code"]
            is_known = isinstance(code, str) and code in CODES
            body += encoded(1) + encoded(1 + CODES.index(code) if is_known else code)
            body += encoded(words.get("words", ""))
    return body


def is_for_data(data):
    """Whether who connects comes for messages, by the first that it says."""
    return data[FRAME.size :].startswith(encoded(TYPES.index("data")))


def encoded(value):
    """A value in words of 8 bytes; what the engine does not know takes some, too."""
    if isinstance(value, int) and -(2**63) <= value < 2**63:  # True and False are 1 and 0
        return struct.pack("<q", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return struct.pack("<q", len(value)) + value + bytes(-len(value) % 8)
    if isinstance(value, list):
        items = [one if isinstance(one, list) else [one] for one in value]
        return struct.pack("<q", len(value)) + b"".join(encoded(v) for one in items for v in one)
    return repr(value).encode()


def decoded(body):
    """The fields of a record, which is right; texts that are not UTF-8 as bytes."""
    number, body = _value(body, 0)
    kind = TYPES[number]
    words = {} if kind == "greeting" else {"role" if kind in ("control", "data") else "type": kind}
    for key, default in FIELDS[kind].items():
        if key == "error":
            has_error, body = _value(body, 0)
            if has_error:
                code, body = _value(body, 0)
                words["code"] = CODES[code - 1]
                words["words"], body = _value(body, "")
        else:
            words[key], body = _value(body, default)
    assert not body
    return words


def _value(body, like):
    (count,), rest = struct.unpack("<q", body[:8]), body[8:]
    if isinstance(like, int):
        return count, rest
    if isinstance(like, str):
        text = rest[:count]
        with contextlib.suppress(UnicodeDecodeError):
            text = text.decode()
        return text, rest[count + -count % 8 :]
    items = []
    for _ in range(count):
        item = like[0]
        if isinstance(item, tuple):
            parts = []
            for one in item:
                part, rest = _value(rest, one)
                parts.append(part)
            items.append(parts)
        else:
            part, rest = _value(rest, item)
            items.append(part)
    return items, rest


def frame_header(count, checksum):
    """What stands before so many bytes; they may be others."""
    return checked(FRAME.pack(0, FRAME_MAGIC, count, checksum))


def chunk_header(magic, checksum, array, place, offset, count, segment=0, position=0,
                 number=NO_NUMBER):  # fmt: skip
    """What stands before a chunk; anything may be wrong."""
    fields = magic, checksum, array, place, offset, count, segment, position, number
    return checked(CHUNK.pack(0, *fields))


def grant(taken, may, alone=0):
    """What a consumer has taken and grants; anything may be wrong."""
    return checked(GRANT.pack(0, GRANT_MAGIC, taken, may, alone))


def checked(words):
    """A header with its checksum, which is its first word."""
    return struct.pack("<I", crc32c(words[4:])) + words[4:]


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
    assert checked(header) == header
    _, magic, count, checksum = FRAME.unpack(header)
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
