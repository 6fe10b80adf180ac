# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of saves, loads and series: what needs no mover, and the moves of the rest."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from datamover.files import state_direct
from datamover.files.agreement import threads_here, together
from datamover.files.array_steps import StepPlan, slab_shape, steps_of
from datamover.files.staged_moves import MAX_BYTES, Files, Part, StagedMove, StagedMoves
from datamover.files.state_items import Item
from datamover.mpi import collectively, gathered
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
        self._suiting: set[str] = set()
        self._splits: dict[str, state_direct.Split] = {}

    def open(self, name: str) -> Any:
        """Open an array of the file."""
        raise NotImplementedError

    def agree_on_files(self, specs: Mapping[str, Any], direct: bool = True) -> None:
        """Choose threads, and with `direct` arrays of which chunks need no mover. Collective."""

        def look() -> list[int]:
            return [
                int(state_direct.suits(item, spec.dtype, spec.order, self.comm.rank, self._to_file))
                for item, spec in ((item, specs[name]) for name, item in self.items.items())
            ]

        if direct:
            suits = gathered(self.address, collectively(self.address, look))
            self._suiting = {
                name for k, name in enumerate(self.items) if all(found[k] for found in suits)
            }
        held: Any = weakref.ref(self)  # a cycle would keep all arrays until it is collected
        self.files = Files(
            lambda name: contextlib.closing(held().open(name)),
            threads_here(self.address),
            self.max_bytes // 4,
        )

    def plan(
        self, dtypes: Mapping[str, np.dtype], step_bytes: int | None = None
    ) -> list[list[StagedMove]]:
        """Find the parts that need no mover; plan the other moves, grouped into those made at once.

        No process has more than `step_bytes` (by default STEP_BYTES) of staging memory, or a chunk
        if that is larger. Collective, the same everywhere.
        """
        step_bytes = STEP_BYTES if step_bytes is None else step_bytes
        most_bytes = self.max_bytes // 2
        groups: list[list[StagedMove]] = []
        room = 0
        with together(self.comm):
            for name, item in self.items.items():
                with contextlib.closing(self.open(name)) as file:
                    chunk_bytes = math.prod(file.granule) * file.spec.dtype.itemsize
                    limit = min(most_bytes, max(step_bytes, chunk_bytes))
                    for plan in self._plans_of(name, item, file, limit):
                        if plan.most_bytes > room or len(groups[-1]) == MOST_AT_ONCE:
                            groups.append([])
                            room = min(most_bytes, step_bytes)
                        room -= plan.most_bytes
                        move = StagedMove(name, item.array, plan, dtypes[name], file.spec.order)
                        groups[-1].append(move)
        return groups

    def _plans_of(self, name: str, item: Item, file: Any, limit: int) -> Iterator[StepPlan]:
        whole = item.layout.domain
        if whole.empty:
            return
        slab_shape(repr(name), file, file.spec.shape, self.ranks, limit)  # a chunk has to fit
        boxes = [whole]
        if name in self._suiting:
            split = state_direct.split(file, item.layout, self.ranks, self._to_file)
            self._splits[name], boxes = split, split.rest
        for box in boxes:
            plan = redistribute(item.layout, item.layout, None, box, box)
            yield steps_of(plan, repr(name), file, self._to_file, self.ranks, limit)

    def transfer(self, groups: list[list[StagedMove]]) -> None:
        """Read or write all parts. Collective."""
        self.transfer_direct()
        for group in groups:
            with self.staged(group) as moves:
                self.execute(moves)

    def transfer_direct(self) -> None:
        """Read or write the parts that need no mover. Collective."""
        with together(self.comm):
            self._do(state_direct.parts(self._splits, self.items, self.comm.rank))

    def execute(self, moves: StagedMoves) -> None:
        """Read or write the other parts of a group. Collective."""
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
