# SPDX-License-Identifier: BSD-3-Clause
"""Contender: pieces of an array through shared memory, written by hand.

It takes `Ends` of `stream_ends`, and works only there: both programs share a communicator, the
processor keeps the order of stores (x86), and no process sleeps.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from datamover.stream.wire import crc32c

#: Number of slots: a message is packed while the other end still reads the previous one.
SLOTS = 2
#: Distance between the words of the two sides, in words of 8 bytes.
APART = 16


class Pair:
    """Memory that two processes share: how far each is, checksums, and slots for messages."""

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
