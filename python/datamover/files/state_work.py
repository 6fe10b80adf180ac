# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of saves, loads and series: arrays that need no mover, and moves of the rest."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from datamover.files import state_direct
from datamover.files.agreement import threads_here, together
from datamover.files.array_steps import steps_of
from datamover.files.staged_moves import MAX_BYTES, Files, Part, StagedMove, StagedMoves
from datamover.files.state_items import Item
from datamover.mpi import gathered
from datamover.plans import redistribute

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

#: Staging memory that a process uses at once even if it may use more: memory that is used again
#: needs no fresh pages, which the system clears, and is still in the caches.
STEP_BYTES = 1 << 26
#: Arrays that are open at once.
MOST_AT_ONCE = 256


class Work:
    """Limits, threads and open files of a save, a load or a series on one process."""

    def __init__(self, comm: MPI.Comm, address: int, to_file: bool):
        self.comm, self.address = comm, address
        self.is_first = comm.rank == 0
        self.ranks: tuple[int, ...] = ()
        self.max_bytes = MAX_BYTES
        self.items: dict[str, Item] = {}
        self._to_file = to_file
        self._direct: dict[str, Item] = {}

    def open(self, name: str) -> Any:
        """Open an array of the file."""
        raise NotImplementedError

    def agree_on_files(self) -> None:
        """Choose the number of threads. Collective."""
        held: Any = weakref.ref(self)  # a cycle would keep all arrays until it is collected
        self.files = Files(
            lambda name: contextlib.closing(held().open(name)),
            threads_here(self.address),
            self.max_bytes // 4,
        )

    def plan(
        self, dtypes: Mapping[str, np.dtype], step_bytes: int | None = None
    ) -> list[list[StagedMove]]:
        """Find the arrays that need no mover; group the other moves into those made at once.

        No process has more than `step_bytes` of staging memory, or a chunk if that is larger. By
        default STEP_BYTES; otherwise all arrays go through staging memory. Collective, the same
        everywhere.
        """
        goes_direct, step_bytes = step_bytes is None, step_bytes or STEP_BYTES
        most_bytes = self.max_bytes // 2
        moves: list[StagedMove] = []
        mine: list[int] = []
        with together(self.comm):
            for name, item in self.items.items():
                whole, rank = item.layout.domain, self.comm.rank
                if whole.empty:
                    continue
                with contextlib.closing(self.open(name)) as file:
                    chunk_bytes = math.prod(file.granule) * file.spec.dtype.itemsize
                    limit = min(most_bytes, max(step_bytes, chunk_bytes))
                    plan = redistribute(item.layout, item.layout, None, whole, whole)
                    steps = steps_of(plan, repr(name), file, self._to_file, self.ranks, limit)
                    moves.append(StagedMove(name, item.array, steps, dtypes[name], file.spec.order))
                    share = state_direct.share(file, item, rank, self._to_file)
                    mine.append(share if goes_direct else -1)
        shares = gathered(self.address, mine)
        groups: list[list[StagedMove]] = []
        room = 0
        for k, move in enumerate(moves):
            item = self.items[move.name]
            all_of = [int(found[k]) for found in shares]
            if state_direct.is_even(all_of, self.ranks, item.layout.domain.size):
                self._direct[move.name] = item
                continue
            if move.plan.most_bytes > room or len(groups[-1]) == MOST_AT_ONCE:
                groups.append([])
                room = min(most_bytes, step_bytes)
            room -= move.plan.most_bytes
            groups[-1].append(move)
        return groups

    def transfer(self, groups: list[list[StagedMove]]) -> None:
        """Read or write all parts. Collective."""
        self.transfer_direct()
        for group in groups:
            with contextlib.closing(self.staged(group)) as moves:
                self.execute(moves)

    def transfer_direct(self) -> None:
        """Read or write the arrays that need no mover. Collective."""
        with together(self.comm):
            self._do(state_direct.parts(self._direct, self.comm.rank))

    def execute(self, moves: StagedMoves) -> None:
        """Read or write the arrays of a group. Collective."""
        for k in range(moves.num_steps):
            if self._to_file:
                moves.mover(k)()
            with together(self.comm):
                self._do(moves.parts(k))
            if not self._to_file:
                moves.mover(k)()

    def _do(self, parts: Iterator[Part]) -> None:
        (self.files.write if self._to_file else self.files.read)(parts)

    def staged(self, moves: list[StagedMove], keeps: bool = False) -> StagedMoves:
        """Make staging memory for moves. Collective."""
        return StagedMoves(self.comm, moves, self._to_file, self.max_bytes // 4, keeps)
