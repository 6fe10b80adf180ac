# SPDX-License-Identifier: BSD-3-Clause
"""Who may connect to a stream, and how does a connection begin?

The listening end greets with a number of its own, used once; the other end answers with who it is
and, where there is a token, with a keyed hash of that number: the token itself never travels.
Without a token only this machine can connect.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any

from datamover._plan import keyed_hash
from datamover.errors import InvalidArgument, IoError, Timeout
from datamover.stream import wire

#: Where a consumer finds the token if it is not given.
TOKEN_VARIABLE = "DATAMOVER_STREAM_TOKEN"
GREETING_SECONDS = 10.0
#: Seconds without an answer until a silent machine is asked, between questions, and how many.
KEEPALIVE = (30, 10, 3)
RETRY_SECONDS = 0.05


def _words(error: OSError | UnicodeError) -> str:
    return getattr(error, "strerror", None) or str(error)


def known_token(token: str | None) -> str:
    """Give the token that a consumer answers with."""
    known = token if token is not None else os.environ.get(TOKEN_VARIABLE, "")
    if not isinstance(known, str) or not known.isprintable():
        raise InvalidArgument("a token must be a printable text")
    return known


def _prepare(sock: socket.socket) -> None:
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    for option, value in zip(options, KEEPALIVE, strict=True):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def after(seconds: float) -> float:
    """Give the deadline that many seconds from now."""
    return time.monotonic() + seconds


def wake(sock: socket.socket) -> None:
    """End a connection; whoever reads or writes it in another thread wakes up, and closes it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def close(sock: socket.socket) -> None:
    """Close a connection; whoever reads or writes it in another thread wakes up."""
    wake(sock)
    sock.close()


def dial(
    host: str,
    port: int,
    token: str,
    words: dict[str, Any],
    seconds: float | None,
    *,
    again: bool = True,
) -> socket.socket:
    """Connect and say who this is; with `again`, try again while nobody listens.

    Raises
    ------
    Timeout
        Nobody listened in time.
    Error
        The other end is no stream.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = GREETING_SECONDS if deadline is None else deadline - time.monotonic()
        try:
            sock = socket.create_connection((host, port), max(min(left, GREETING_SECONDS), 1e-3))
            break
        except (ConnectionRefusedError, TimeoutError):
            if left <= RETRY_SECONDS or not again:
                raise Timeout(f"nobody listens at tcp://{host}:{port}") from None
            threading.Event().wait(RETRY_SECONDS)
        except (OSError, UnicodeError) as error:
            raise IoError(f"tcp://{host}:{port}: {_words(error)}") from None
    left = GREETING_SECONDS if deadline is None else deadline - time.monotonic()
    return _introduce(sock, f"tcp://{host}:{port}", token, words, min(left, GREETING_SECONDS))


def dial_local(name: str, token: str, words: dict[str, Any]) -> socket.socket | None:
    """Connect to a process of this machine; None where nobody of that name is here."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(GREETING_SECONDS)
        sock.connect("\0" + name)
    except OSError:
        sock.close()
        return None
    return _introduce(sock, "the local connection", token, words, GREETING_SECONDS)


def _introduce(
    sock: socket.socket, where: str, token: str, words: dict[str, Any], seconds: float
) -> socket.socket:
    try:
        _prepare(sock)
        greeting = wire.read_frame(sock, wire.MAX_GREETING_BYTES, after(seconds))
        if wire.number(greeting, "datamover_stream") != wire.VERSION:
            raise IoError(f"{where} is a stream of another version")
        nonce = wire.text(greeting, "nonce")
        wire.limit_sending(sock, GREETING_SECONDS)
        wire.write_all(sock, wire.frame({**words, "answer": keyed_hash(token, nonce)}))
    except BaseException:
        close(sock)
        raise
    return sock
