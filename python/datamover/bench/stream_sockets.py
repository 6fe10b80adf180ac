# SPDX-License-Identifier: BSD-3-Clause
"""Contenders: pieces of an array by plain sockets.

All take `Ends` of `stream_ends`. They send the data only: no greeting, no credits, no names; the
sizes are known.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import numpy as np

from datamover.stream.wire import crc32c

CHECKSUM = struct.Struct("!I")


def connected(ends: Any, pairs: dict[int, Any]) -> dict[int, socket.socket]:
    """Connect each sending process with the receivers of its pieces."""
    listener = None if ends.sends else socket.create_server((ends.address, 0))
    addresses = ends.world.allgather(listener.getsockname() if listener else None)
    sockets = {}
    if listener is None:
        for other in pairs:
            sock = socket.create_connection(addresses[ends.senders + other])
            sock.sendall(bytes([ends.part.rank]))
            sockets[other] = sock
    else:
        for _ in pairs:
            sock = listener.accept()[0]
            sockets[sock.recv(1)[0]] = sock
        listener.close()
    for sock in sockets.values():
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sock.getsockname()[0] == sock.getpeername()[0]:  # like the library
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    return dict(sorted(sockets.items()))


def send_all(sock: socket.socket, *parts: Any) -> None:
    """Send all bytes of some parts."""
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    while views:
        count = sock.sendmsg(views)
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]


def receive_all(sock: socket.socket, *parts: Any) -> None:
    """Fill all bytes of some parts. The system wakes the process once, when all have arrived."""
    views = [memoryview(part).cast("B") for part in parts]
    while views:
        count = sock.recvmsg_into(views, 0, socket.MSG_WAITALL)[0]
        if count == 0:
            raise ConnectionError("the other end closed the connection")
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]


class Sockets:
    """One connection for each pair of processes.

    Parameters
    ----------
    ends : Ends
    packs : bool
        Whether each piece is gathered into a message first, with its CRC32C, which the other end
        compares; otherwise the same number of bytes is sent from contiguous memory.
    """

    def __init__(self, ends: Any, packs: bool):
        self._ends, self._packs = ends, packs
        self._sockets = connected(ends, ends.pieces)
        self._messages = {
            other: np.ascontiguousarray(ends.array[rows])
            for other, rows in ends.pieces.items()
            if ends.sends
        }
        self._checksum = bytearray(CHECKSUM.size)

    def send(self, step: int) -> None:
        """Send the pieces of a step."""
        for other, rows in self._ends.pieces.items():
            message, checksum = self._messages[other], b""
            if self._packs:
                np.copyto(message, self._ends.array[rows])
                checksum = CHECKSUM.pack(crc32c(message))
            else:
                message[0, 0, 0] = step
            send_all(self._sockets[other], checksum, message)

    def receive(self) -> np.ndarray:
        """Receive the pieces of a step in place."""
        for other, rows in self._ends.pieces.items():
            part = self._ends.array[rows]
            if not self._packs:
                receive_all(self._sockets[other], part)
                continue
            receive_all(self._sockets[other], self._checksum, part)
            if CHECKSUM.unpack(self._checksum)[0] != crc32c(part):
                raise ValueError("a damaged message")
        return self._ends.array

    def close(self) -> None:
        """End the connections."""
        for sock in self._sockets.values():
            sock.close()


class Gather:
    """Gather to one process by mpi4py, one connection, and scatter at its other end."""

    def __init__(self, ends: Any):
        self._ends = ends
        first = ends.part.rank == 0
        pairs = {0: None} if first else {}
        self._sockets = connected(ends, pairs)
        self._local = np.empty(ends.array.shape) if ends.sends else ends.array
        self._whole = np.empty(ends.shape if first else 0)
        counts = ends.part.gather(self._local.size)
        self._all = [self._whole, counts] if first else None

    def send(self, step: int) -> None:
        """Gather a step and send it."""
        np.copyto(self._local, self._ends.array)
        self._ends.part.Gatherv(self._local, self._all)
        if self._ends.part.rank == 0:
            send_all(self._sockets[0], CHECKSUM.pack(crc32c(self._whole)), self._whole)

    def receive(self) -> np.ndarray:
        """Receive a step and scatter it."""
        if self._ends.part.rank == 0:
            checksum = bytearray(CHECKSUM.size)
            receive_all(self._sockets[0], checksum, self._whole)
            if CHECKSUM.unpack(checksum)[0] != crc32c(self._whole):
                raise ValueError("a damaged message")
        self._ends.part.Scatterv(self._all, self._local)
        return self._local

    def close(self) -> None:
        """End the connection."""
        for sock in self._sockets.values():
            sock.close()
