# SPDX-License-Identifier: BSD-3-Clause
"""Contenders: pieces of an array by plain sockets, shared memory, and ADIOS2's SST engine.

A contender is a function of the `Ends` of `stream`, which returns a function of a step's number: at
a sending process it sends the step, at a receiving one it receives it in place. `Ends.stack` closes
what it opens. Those written by hand send the data only: no greeting, no credits, no names;
the sizes are known.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.stream.wire import crc32c

CHECKSUM = struct.Struct("!I")

#: Sends or receives the step of a number; returns an array that is not that of `Ends`, if any.
Way = Callable[[int], Any]


def connected(ends: Any, pairs: dict[int, Any]) -> dict[int, socket.socket]:
    """Connect each sending process with the receivers of its pieces."""
    listener = None if ends.sends else socket.create_server((ends.address, 0))
    addresses = ends.world.allgather(listener.getsockname() if listener else None)
    sockets = {}
    for other in pairs:
        if listener is None:
            sock = socket.create_connection(addresses[ends.senders + other])
            sock.sendall(bytes([ends.part.rank]))
        else:
            sock = listener.accept()[0]
            other = sock.recv(1)[0]
        sockets[other] = ends.stack.enter_context(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sock.getsockname()[0] == sock.getpeername()[0]:  # like the library
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    if listener is not None:
        listener.close()
    return sockets


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
    check(part, *CHECKSUM.unpack(checksum))


def check(part: np.ndarray, checksum: int) -> None:
    """Raise an error if a message does not have a checksum."""
    if checksum != crc32c(part):
        raise ValueError("a damaged message")


def sockets(ends: Any, packs: bool) -> Way:
    """Use one connection for each pair of processes.

    Parameters
    ----------
    ends : Ends
    packs : bool
        Whether each piece is gathered into a message first, with its CRC32C, which the other end
        compares; otherwise the same number of bytes is sent from contiguous memory.
    """
    connections = connected(ends, ends.pieces)
    messages = {o: np.ascontiguousarray(ends.array[rows]) for o, rows in ends.pieces.items()}

    def send(step: int) -> None:
        for other, rows in ends.pieces.items():
            message = messages[other]
            if packs:
                np.copyto(message, ends.array[rows])
                send_checked(connections[other], message)
            else:
                message[0, 0, 0] = step
                connections[other].sendall(message)

    def take(step: int) -> None:
        for other, rows in ends.pieces.items():
            (receive_checked if packs else receive)(connections[other], ends.array[rows])

    return send if ends.sends else take


def gather(ends: Any) -> Way:
    """Gather to one process by mpi4py, one connection, and scatter at its other end."""
    first = ends.part.rank == 0
    connections = connected(ends, {0: None} if first else {})
    local = np.empty(ends.array.shape) if ends.sends else ends.array
    whole = np.empty(ends.shape if first else 0)
    counts = ends.part.gather(local.size)
    everything = [whole, counts] if first else None

    def send(step: int) -> None:
        np.copyto(local, ends.array)
        ends.part.Gatherv(local, everything)
        if first:
            send_checked(connections[0], whole)

    def take(step: int) -> None:
        if first:
            receive_checked(connections[0], whole)
        ends.part.Scatterv(everything, local)

    return send if ends.sends else take


#: Number of slots: a message is packed while the other end still reads the previous one.
SLOTS = 2


def shared_memory(ends: Any) -> Way:
    """Use two slots for each pair of processes, gathered into by NumPy, CRC32C at both ends.

    The processor must keep the order of stores (x86), and no process sleeps.
    """
    from mpi4py import MPI

    if not ends.on_one_machine:
        raise Unsupported("the processes are on different machines")
    sizes = [ends.array[rows].size for rows in ends.pieces.values()]
    room = -(-ends.world.allreduce(max(sizes, default=0), MPI.MAX) // 16) * 16
    # Numbers of steps that are sent and taken, and checksums, each in cache lines of its own; then
    # the slots.
    heads = [(name, "i8", 16) for name in ("sent", "taken", "checksums")]
    kind = np.dtype([*heads, ("slots", "f8", (SLOTS, room))])
    nbytes = kind.itemsize * ends.senders * ends.receivers
    window = MPI.Win.Allocate_shared(0 if ends.world.rank else nbytes, 1, comm=ends.world)
    ends.stack.callback(window.Free)
    memory = np.frombuffer(window.Shared_query(0)[0], kind).reshape(ends.senders, ends.receivers)
    for name, *_ in heads:
        memory[name][...] = 0
    ends.world.Barrier()

    pairs = []
    for other, rows in ends.pieces.items():
        place = (ends.part.rank, other) if ends.sends else (other, ends.part.rank)
        shape = ends.array[rows].shape
        slots = memory["slots"][place][:, : np.prod(shape)].reshape(SLOTS, *shape)
        pairs.append((rows, slots, *(memory[name][place] for name, *_ in heads)))

    def send(step: int) -> None:
        for rows, slots, sent, taken, checksums in pairs:
            while taken[0] <= step - SLOTS:
                os.sched_yield()
            slot = slots[step % SLOTS]
            np.copyto(slot, ends.array[rows])
            checksums[step % SLOTS] = crc32c(slot)
            sent[0] = step + 1

    def take(step: int) -> None:
        for rows, slots, sent, taken, checksums in pairs:
            while sent[0] <= step:
                os.sched_yield()
            np.copyto(ends.array[rows], slots[step % SLOTS])
            check(ends.array[rows], checksums[step % SLOTS])
            taken[0] = step + 1

    return send if ends.sends else take


def memcpy(ends: Any, checked: bool = False) -> Way:
    """Copy a receiving process's data within its memory: the bound.

    With a checksum at each end, `checked`, it is the bound for shared memory.
    """
    parts = list(ends.pieces.values()) if checked else []
    values = np.ascontiguousarray(ends.array) if ends.sends else ends.expected.copy()

    def send(step: int) -> None:
        for rows in parts:
            crc32c(values[rows])

    def take(step: int) -> None:
        for rows in ends.pieces.values():
            values[rows.start, 0, 0] = step
        np.copyto(ends.array, values)
        for rows in parts:
            crc32c(ends.array[rows])

    return send if ends.sends else take


def sst(ends: Any) -> Way:
    """Use ADIOS2's SST: a stream of each sending process to all receivers of its pieces.

    PyPI's `adios2` is built without MPI, so each receiving process opens the streams that it needs.
    Pieces are gathered by NumPy and received in place.
    """
    if importlib.util.find_spec("adios2") is None:
        raise Unsupported("adios2 is not installed (pip install adios2)")
    import adios2.bindings

    made = tempfile.mkdtemp(prefix="datamover-bench-") if ends.world.rank == 0 else None
    place, adios = Path(ends.world.bcast(made)), adios2.Adios()
    own, mode = str(ends.part.rank), adios2.bindings.Mode
    ios: dict[int, Any] = {}
    engines: dict[int, Any] = {}
    # Used by a sending process, which sends all of its messages in one stream.
    messages = {o: np.ascontiguousarray(ends.array[rows]) for o, rows in ends.pieces.items()}
    variables = {}
    for name in [0] if ends.sends else list(ends.pieces):
        ios[name] = io = adios.declare_io(f"io{name}")
        io.set_engine("SST")
        readers = str(len(ends.pieces) if ends.sends else 1)
        waits = {"QueueLimit": "2", "QueueFullPolicy": "Block", "OpenTimeoutSecs": "60"}
        io.set_parameters({"RendezvousReaderCount": readers, **waits})
        for other, message in messages.items() if ends.sends else ():
            shape, zero = list(message.shape), [0] * message.ndim
            variables[other] = io.define_variable(f"u{other}", message, shape, zero, shape, True)
        path = str(place / (own if ends.sends else str(name)))
        engines[name] = io.open(path, mode.Write if ends.sends else mode.Read)

    def send(step: int) -> None:
        engines[0].begin_step()
        for other, rows in ends.pieces.items():
            np.copyto(messages[other], ends.array[rows])
            engines[0].put(variables[other], messages[other])
        engines[0].end_step()

    def take(step: int) -> None:
        for other, rows in ends.pieces.items():
            engines[other].begin_step()
            variable = ios[other].inquire_variable(f"u{own}")
            engines[other].get(variable, ends.array[rows])
            engines[other].end_step()

    @ends.stack.callback
    def close() -> None:
        for engine in engines.values():
            engine.close()
        adios.remove_all_ios()  # also keeps `adios` until here: its streams end with it
        ends.wait_for_all()
        if ends.world.rank == 0:
            shutil.rmtree(place, ignore_errors=True)

    return send if ends.sends else take
