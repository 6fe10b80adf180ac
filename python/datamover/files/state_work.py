# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of saving and loading: limits, threads, and the parts of a step."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.arguments import memory_limit
from datamover.errors import WrongType
from datamover.files import state_direct
from datamover.files.at_work import boxes, do_all, threads_within
from datamover.files.state_items import Item
from datamover.files.state_steps import Slab, batches, check_fits, slabs_of
from datamover.mpi import collectively, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

#: Default memory of a process for its part of saved or loaded arrays.
MAX_BYTES = 1 << 28
#: Bytes of a step on a process, even if it may hold more: reused memory costs less than fresh
#: pages, which the system clears, and its contents are still in the caches.
STEP_BYTES = 1 << 26


def limit_of(max_bytes: Any) -> int:
    """Return the checked memory limit of a program. Local."""
    if max_bytes is None:
        raise WrongType("max_bytes is None, it must be a number of bytes")
    return memory_limit(max_bytes)


class Work:
    """Common state of saving and loading: limits, threads, open files of a step."""

    def __init__(self, comm: MPI.Comm, address: int):
        self.comm, self.address = comm, address
        self.is_first = comm.rank == 0
        self.ranks: tuple[int, ...] = ()
        self.max_bytes = MAX_BYTES
        self.threads = 1
        self.items: dict[str, Item] = {}
        self.splits: dict[str, state_direct.Split] = {}
        self._suiting: set[str] = set()
        self._to_file = False

    def open(self, name: str) -> Any:
        """Open an array of the file."""
        raise NotImplementedError

    def agree_on_direct(self, specs: Mapping[str, Any], to_file: bool) -> None:
        """Agree which arrays are transferred directly between memory and the file. Collective."""

        def look() -> list[int]:
            return [
                int(state_direct.suits(item, spec.dtype, spec.order, self.comm.rank, to_file))
                for item, spec in ((item, specs[name]) for name, item in self.items.items())
            ]

        suits = gathered(self.address, collectively(self.address, look))
        self._suiting = {
            name for k, name in enumerate(self.items) if all(found[k] for found in suits)
        }
        self._to_file = to_file

    def steps(self, step_bytes: int | None = None) -> list[list[Slab]]:
        """Choose the direct transfers of the arrays; return steps of slabs for the rest.

        No process holds more than `step_bytes` in a step (by default STEP_BYTES), or a chunk if
        that is larger. Local; the result is the same on all processes.
        """
        step_bytes = STEP_BYTES if step_bytes is None else step_bytes
        most_bytes = self.max_bytes // 2
        found = []
        for name, item in self.items.items():
            with contextlib.closing(self.open(name)) as file:
                chunk_bytes = math.prod(file.granule) * file.spec.dtype.itemsize
                limit = min(most_bytes, max(step_bytes, chunk_bytes))
                check_fits(name, file, self.ranks, limit)
                if name not in self._suiting:
                    found += slabs_of(name, file, self.ranks, limit)
                    continue
                split = state_direct.split(file, item.layout, self.ranks, self._to_file)
                self.splits[name] = split
                for box in split.rest:
                    found += slabs_of(name, file, self.ranks, limit, box)
        return batches(found, min(most_bytes, step_bytes))

    def direct_parts(self) -> Iterator[tuple[str, Any, np.ndarray]]:
        """Yield the direct transfers: (name, index of the first element, array). Local."""
        return state_direct.parts(self.splits, self.items, self.comm.rank)

    def do(self, parts: Iterator[tuple[str, Any, np.ndarray]], work: Any) -> None:
        """Call `work` with (file, index, array) for each box of these parts of arrays."""
        found = list(parts)
        with contextlib.ExitStack() as opened:
            files: dict[str, Any] = {}

            def tasks() -> Iterator[tuple[Any, Any, np.ndarray]]:
                for name, lo, part in found:
                    file = files[name]
                    for at, piece in boxes(lo, part, file.granule, file.spec.order):
                        yield file, at, piece

            for name, _, _ in found:
                if name not in files:
                    files[name] = opened.enter_context(contextlib.closing(self.open(name)))
            threads = threads_within(self.threads, files.values(), self.max_bytes // 4)
            do_all(tasks(), lambda task: work(*task), threads)
