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


def send_checked(sock: socket.socket, message: np.ndarray) -> None:
    """Send the checksum of a message and the message."""
    sock.sendall(CHECKSUM.pack(crc32c(message)), socket.MSG_MORE)
    sock.sendall(message)


def receive(sock: socket.socket, *parts: Any) -> None:
    """Fill all bytes of some parts by one call."""
    size = sum(memoryview(part).nbytes for part in parts)
    if sock.recvmsg_into(parts, 0, socket.MSG_WAITALL)[0] != size:
        raise ConnectionError("the other end closed the connection")


def receive_checked(sock: socket.socket, part: np.ndarray) -> None:
    """Fill an array, and compare it with the checksum before it."""
    checksum = bytearray(CHECKSUM.size)
    receive(sock, checksum, part)
    if CHECKSUM.unpack(checksum)[0] != crc32c(part):
        raise ValueError("a damaged message")


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

    def send(self, step: int) -> None:
        """Send the pieces of a step."""
        for other, rows in self._ends.pieces.items():
            message = self._messages[other]
            if self._packs:
                np.copyto(message, self._ends.array[rows])
                send_checked(self._sockets[other], message)
            else:
                message[0, 0, 0] = step
                self._sockets[other].sendall(message)

    def receive(self) -> np.ndarray:
        """Receive the pieces of a step in place."""
        for other, rows in self._ends.pieces.items():
            how = receive_checked if self._packs else receive
            how(self._sockets[other], self._ends.array[rows])
        return self._ends.array

    def close(self) -> None:
        """End the connections."""
        for sock in self._sockets.values():
            sock.close()


class Gather(Sockets):
    """Gather to one process by mpi4py, one connection, and scatter at its other end."""

    def __init__(self, ends: Any):
        self._ends = ends
        first = ends.part.rank == 0
        self._sockets = connected(ends, {0: None} if first else {})
        self._local = np.empty(ends.array.shape) if ends.sends else ends.array
        self._whole = np.empty(ends.shape if first else 0)
        counts = ends.part.gather(self._local.size)
        self._all = [self._whole, counts] if first else None

    def send(self, step: int) -> None:
        """Gather a step and send it."""
        np.copyto(self._local, self._ends.array)
        self._ends.part.Gatherv(self._local, self._all)
        if self._ends.part.rank == 0:
            send_checked(self._sockets[0], self._whole)

    def receive(self) -> np.ndarray:
        """Receive a step and scatter it."""
        if self._ends.part.rank == 0:
            receive_checked(self._sockets[0], self._whole)
        self._ends.part.Scatterv(self._all, self._local)
        return self._local
