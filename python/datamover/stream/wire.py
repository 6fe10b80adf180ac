# SPDX-License-Identifier: BSD-3-Clause
"""In which words do the two ends of a stream talk, and how are they read without trusting them?

A *frame* is a small JSON object behind a header with its length and CRC32C: greetings,
subscriptions, credits, steps. A *chunk* is a part of a packed message behind a header that says
which part, and its CRC32C. Lengths are compared with limits before memory is taken.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from typing import Any

import numpy as np

from datamover import _plan
from datamover._plan import crc32c, share_of, text_of_layout
from datamover.arrays import element_dtype
from datamover.errors import Error, InvalidArgument, IoError, PeerFailed, Timeout, Unsupported
from datamover.layouts import Layout

__all__ = ["crc32c", "share_of", "text_of_layout"]  # besides what is defined here

VERSION = 2
#: Magic, bytes that follow, their CRC32C.
FRAME = struct.Struct("!4sII")
FRAME_MAGIC = b"DMS1"
#: Magic, operation, number of the array, place of the step, offset, bytes. To ADVANCE is to say up
#: to which place all is taken (in `place`) and up to which place steps may be sent (in `offset`),
#: or, where the last number is not 0, that of these the last may be sent.
REQUEST = struct.Struct("!4sIIQQQ")
REQUEST_MAGIC = b"DMR2"
FETCH, ADVANCE = 1, 2
#: Magic, CRC32C, number of the array, place of the step, offset, bytes, segment, position. These
#: bytes follow, or lie at a position in a segment of memory that both ends share.
CHUNK = struct.Struct("!4sIIQQQQQ")
CHUNK_MAGIC, SHARED_MAGIC = b"DMC2", b"DMS2"
#: A message travels in chunks of this size, each with its own checksum.
CHUNK_BYTES = 1 << 20
#: Of a frame from somebody who has not said yet who they are, and from one who has.
MAX_GREETING_BYTES = 1 << 14
MAX_FRAME_BYTES = 1 << 24
#: Of lists, objects and their members together: what JSON becomes takes more memory than its text.
MAX_FRAME_ITEMS = 1 << 16
#: What is begun has to be complete after this time.
FRAME_SECONDS = 30.0
MAX_NAME_BYTES = 256
MAX_ELEM_BYTES = 1 << 16
MAX_PROCESSES = 1 << 16
MAX_ARRAYS = 1 << 12
MAX_NUMBER = 2**63 - 1
#: Steps that a consumer may ask for in advance.
MAX_CREDITS = 64
#: Of the words of an error.
MAX_WORDS = 2000
#: A connection that takes nothing for so long has failed.
STALLED_SECONDS = 600.0
#: What is read of frames at once.
READ_BYTES = 1 << 16


def read_exactly(sock: socket.socket, view: memoryview, deadline: float | None) -> None:
    """Fill a memory from a connection.

    Raises
    ------
    PeerFailed
        The connection was closed or broke.
    Timeout
        The deadline, of `time.monotonic`, passed.
    """
    while view:
        try:
            sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-3))
            count = sock.recv_into(view)
        except TimeoutError:
            raise Timeout("the other end of the connection said nothing in time") from None
        except OSError as error:
            raise PeerFailed(f"the connection broke: {error.strerror or error}") from None
        if count == 0:
            raise PeerFailed("the other end closed the connection")
        view = view[count:]


def write_all(sock: socket.socket, *parts: Any) -> None:
    """Send bytes over a connection whose deadline, if any, is its own (`limit_sending`).

    Raises PeerFailed and Timeout as `read_exactly`.
    """
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    try:
        while views:
            count = sock.sendmsg(views)
            while views and count >= len(views[0]):
                count -= len(views.pop(0))
            if views and count:
                views[0] = views[0][count:]
    except (TimeoutError, BlockingIOError):
        raise Timeout("the other end of the connection takes nothing") from None
    except OSError as error:
        raise PeerFailed(f"the connection broke: {error.strerror or error}") from None


def limit_sending(sock: socket.socket, seconds: float) -> None:
    """Have whoever waits so long until a connection takes anything raise Timeout.

    By the system, not by `settimeout`, which would hold for reading threads too.
    """
    sock.setblocking(True)
    limit = struct.pack("ll", int(seconds), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def frame(words: dict[str, Any]) -> bytes:
    """Give a frame as bytes."""
    body = json.dumps(words, separators=(",", ":")).encode()
    return FRAME.pack(FRAME_MAGIC, len(body), crc32c(body)) + body


def read_frame(
    sock: socket.socket, max_bytes: int = MAX_FRAME_BYTES, deadline: float | None = None
) -> dict[str, Any]:
    """Read one frame, and nothing after it.

    Raises
    ------
    IoError
        What came is no frame, is longer than `max_bytes` or was damaged.
    Error
        As `read_exactly`.
    """
    header = memoryview(bytearray(FRAME.size))
    read_exactly(sock, header, deadline)
    body = bytearray(_length_of(header, max_bytes))
    read_exactly(sock, memoryview(body), deadline)
    return _words_of(header, body)


def _length_of(header: Any, max_bytes: int) -> int:
    magic, count, _ = FRAME.unpack(header)
    if magic != FRAME_MAGIC:
        raise IoError(f"these bytes are no frame of a stream: {bytes(magic)!r}")
    if count > max_bytes:
        raise IoError(f"a frame of {count} bytes; at most {max_bytes} are read")
    return count


def _words_of(header: Any, body: Any) -> dict[str, Any]:
    if crc32c(body) != FRAME.unpack(header)[2]:
        raise IoError(f"a frame of {len(body)} bytes arrived damaged")
    if sum(body.count(sign) for sign in b"[{,") > MAX_FRAME_ITEMS:
        raise IoError(f"a frame of more than {MAX_FRAME_ITEMS} items")
    try:
        words = json.loads(body)
    except (ValueError, RecursionError):
        raise IoError("a frame that is no JSON") from None
    if not isinstance(words, dict):
        raise IoError("a frame that is no JSON object")
    return words


class FrameReader:
    """Reads the frames of a connection as they come: several at once, or a part of one."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._bytes = bytearray()

    def wait(self) -> list[dict[str, Any]]:
        """Wait for at least one frame, as long as it takes; one that has begun must go on.

        Raises
        ------
        Error
            As `read_frame`.
        """
        while True:
            if self._bytes and not _is_readable(self._sock, FRAME_SECONDS):
                raise Timeout("the other end of the connection said nothing in time")
            frames = self.read(0)
            if frames:
                return frames

    def read(self, flags: int = socket.MSG_DONTWAIT) -> list[dict[str, Any]]:
        """Give the frames that have come. Raises as `read_frame`."""
        try:
            data = self._sock.recv(READ_BYTES, flags)
        except BlockingIOError:
            return []
        except OSError as error:
            raise PeerFailed(f"the connection broke: {error.strerror or error}") from None
        if not data:
            raise PeerFailed("the other end closed the connection")
        self._bytes += data
        frames, at = [], 0
        while len(self._bytes) - at >= FRAME.size:
            begin = at + FRAME.size
            header = bytes(self._bytes[at:begin])
            end = begin + _length_of(header, MAX_FRAME_BYTES)
            if len(self._bytes) < end:
                break
            frames.append(_words_of(header, bytes(self._bytes[begin:end])))
            at = end
        del self._bytes[:at]
        return frames


def _is_readable(sock: socket.socket, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(seconds * 1e3))


def number(words: dict[str, Any], key: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    """Give an integer of a frame. Raises IoError where it is none or outside its limits."""
    value = words.get(key)
    if type(value) is not int or not least <= value <= most:
        raise IoError(f"{key!r} of a frame must be an integer from {least} to {most}")
    return value


def text(words: dict[str, Any], key: str, most: int = MAX_NAME_BYTES) -> str:
    """Give a text of a frame. Raises IoError where it is none or too long."""
    value = words.get(key)
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise IoError(f"{key!r} of a frame must be a text of at most {most} characters")
    return value


def items(words: dict[str, Any], key: str, most: int = MAX_ARRAYS) -> list[Any]:
    """Give a list of a frame. Raises IoError where it is none or too long."""
    value = words.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise IoError(f"{key!r} of a frame must be a list of at most {most} items")
    return value


def layout_of_text(words: Any, nprocs: int) -> Layout:
    """Read a layout; nothing in it is trusted.

    Raises
    ------
    IoError
        It cannot be read, or is for another number of processes.
    """
    if not isinstance(words, str):
        raise IoError("a layout cannot be read: it is no text")
    return _plan.layout_of_text(words, nprocs)


def words_of_dtype(dtype: np.dtype) -> Any:
    """Write a dtype down. Raises Unsupported where that cannot be read again."""
    with contextlib.suppress(Error, ValueError):  # NumPy does so of fields that overlap
        words = json.loads(json.dumps(np.lib.format.dtype_to_descr(dtype)))
        if dtype_of_words(words) == dtype:
            return words
    raise Unsupported(f"dtype {dtype} cannot be told to another program; send a view of its bits")


def dtype_of_words(words: Any) -> np.dtype:
    """Read a dtype; nothing in it is trusted. Raises IoError."""
    try:
        dtype = element_dtype(np.lib.format.descr_to_dtype(_with_tuples(words)))
    except (TypeError, ValueError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise IoError(f"a dtype cannot be read: {error}") from None
    if dtype.itemsize > MAX_ELEM_BYTES:
        raise IoError(f"a dtype of {dtype.itemsize} bytes; at most {MAX_ELEM_BYTES} are read")
    return dtype


def _with_tuples(words: Any, depth: int = 0) -> Any:
    """Turn JSON's lists back into what NumPy wrote: a list of tuples."""
    if isinstance(words, str) and len(words) <= MAX_NAME_BYTES:
        return words
    if not isinstance(words, list) or len(words) > MAX_ARRAYS or depth > 8:
        raise IoError("a dtype that is neither a text nor a list of fields")
    fields = []
    for field in words:
        if not isinstance(field, list) or len(field) not in (2, 3):
            raise IoError("a field of a dtype is a name, a type and perhaps a shape")
        name, kind, *shape = field
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _with_tuples(kind, depth + 1), *map(tuple, shape)))
    return fields


def parse_address(address: Any) -> tuple[str, int]:
    """Give host and port of "tcp://host:port". Raises InvalidArgument."""
    if not isinstance(address, str) or not address.isprintable():
        raise InvalidArgument(f"{address!r} is no address of a stream")
    return _plan.parse_address(address)
