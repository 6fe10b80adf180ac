# SPDX-License-Identifier: BSD-3-Clause
"""Contenders: pieces of an array by plain sockets, shared memory, and ADIOS2's SST engine.

All take `Ends` of `stream`. Those written by hand send the data only: no greeting, no credits, no
names; the sizes are known.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
from pathlib import Path
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


#: Number of slots: a message is packed while the other end still reads the previous one.
SLOTS = 2
#: Distance between the words of the two sides, in words of 8 bytes.
APART = 16


class Pair:
    """Memory that two processes share: how far each is, checksums, and slots for messages.

    The processor must keep the order of stores (x86), and no process sleeps.
    """

    def __init__(self, rows: slice, words: np.ndarray, shape: tuple[int, ...]):
        self.rows = rows
        self._words = words
        self._checksums = words[2 * APART :]
        size = int(np.prod(shape))
        slots = words[3 * APART :].view("f8")[: SLOTS * size]
        self._slots = slots.reshape(SLOTS, *shape)

    @staticmethod
    def words_for(size: int) -> int:
        """Return the words for messages of this number of elements of 8 bytes."""
        return 3 * APART + -(-SLOTS * size // APART) * APART

    def send(self, count: int, part: np.ndarray) -> None:
        """Hand over a message, after `count` others."""
        while self._words[APART] <= count - SLOTS:
            os.sched_yield()
        slot = self._slots[count % SLOTS]
        np.copyto(slot, part)
        self._checksums[count % SLOTS] = crc32c(slot)
        self._words[0] = count + 1

    def receive(self, count: int, part: np.ndarray) -> None:
        """Receive a message, after `count` others."""
        while self._words[0] <= count:
            os.sched_yield()
        np.copyto(part, self._slots[count % SLOTS])
        if self._checksums[count % SLOTS] != crc32c(part):
            raise ValueError("a damaged message")
        self._words[APART] = count + 1


class SharedMemory:
    """Two slots for each pair of processes, gathered into by NumPy, CRC32C at both ends."""

    def __init__(self, ends: Any):
        from mpi4py import MPI

        self._ends, self._count = ends, 0
        mine = {other: ends.array[rows].size for other, rows in ends.pieces.items()}
        sizes = ends.world.allgather(mine)
        room = sum(map(Pair.words_for, mine.values())) if ends.sends else 0
        self._window = MPI.Win.Allocate_shared(8 * room, 1, comm=ends.world)
        self._pairs = []
        for other, rows in ends.pieces.items():
            sender, receiver = (ends.part.rank, other) if ends.sends else (other, ends.part.rank)
            memory = np.frombuffer(self._window.Shared_query(sender)[0], "i8")
            before = [size for to, size in sizes[sender].items() if to < receiver]
            words = memory[sum(map(Pair.words_for, before)) :]
            if ends.sends:
                words[: 3 * APART] = 0
            self._pairs.append(Pair(rows, words, ends.array[rows].shape))
        ends.world.Barrier()

    def send(self, step: int) -> None:
        """Send the pieces of a step."""
        for pair in self._pairs:
            pair.send(self._count, self._ends.array[pair.rows])
        self._count += 1

    def receive(self) -> np.ndarray:
        """Receive the pieces of a step in place."""
        for pair in self._pairs:
            pair.receive(self._count, self._ends.array[pair.rows])
        self._count += 1
        return self._ends.array

    def close(self) -> None:
        """Free the memory."""
        self._pairs = []
        self._window.Free()


class Sst:
    """ADIOS2's SST: a stream of each sending process to all receivers of its pieces.

    PyPI's `adios2` is built without MPI, so each receiving process opens the streams that it needs.
    Pieces are gathered by NumPy and received in place.
    """

    def __init__(self, ends: Any):
        import adios2  # only where this contender takes part
        import adios2.bindings

        self._ends = ends
        place = tempfile.mkdtemp(prefix="datamover-bench-") if ends.world.rank == 0 else None
        self._place = Path(ends.world.bcast(place))
        self._adios = adios2.Adios()
        self._engines, self._variables, self._messages = {}, {}, {}
        if ends.sends:
            io = self._io("send", len(ends.pieces))
            for other, rows in ends.pieces.items():
                message = self._messages[other] = np.ascontiguousarray(ends.array[rows])
                shape, zero = list(message.shape), [0] * message.ndim
                variable = io.define_variable(f"u{other}", message, shape, zero, shape, True)
                self._variables[other] = variable
            path = str(self._place / str(ends.part.rank))
            self._engines[0] = io.open(path, adios2.bindings.Mode.Write)
        else:
            for other in ends.pieces:
                io = self._io(f"receive{other}", 1)
                path = str(self._place / str(other))
                self._engines[other] = io.open(path, adios2.bindings.Mode.Read)
                self._variables[other] = io

    def _io(self, name: str, readers: int) -> Any:
        io = self._adios.declare_io(name)
        io.set_engine("SST")
        io.set_parameters(
            {
                "RendezvousReaderCount": str(readers),
                "QueueLimit": "2",
                "QueueFullPolicy": "Block",
                "OpenTimeoutSecs": "60",
            }
        )
        return io

    def send(self, step: int) -> None:
        """Send the pieces of a step."""
        engine = self._engines[0]
        engine.begin_step()
        for other, rows in self._ends.pieces.items():
            np.copyto(self._messages[other], self._ends.array[rows])
            engine.put(self._variables[other], self._messages[other])
        engine.end_step()

    def receive(self) -> np.ndarray:
        """Receive the pieces of a step in place."""
        name = f"u{self._ends.part.rank}"
        for other, rows in self._ends.pieces.items():
            engine = self._engines[other]
            engine.begin_step()
            variable = self._variables[other].inquire_variable(name)
            engine.get(variable, self._ends.array[rows])
            engine.end_step()
        return self._ends.array

    def close(self) -> None:
        """End the streams."""
        for engine in self._engines.values():
            engine.close()
        self._ends.wait_for_all()
        if self._ends.world.rank == 0:
            shutil.rmtree(self._place, ignore_errors=True)
