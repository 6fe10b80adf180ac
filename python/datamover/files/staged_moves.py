# SPDX-License-Identifier: BSD-3-Clause
"""Staged moves: plans between arrays in memory and arrays in files, executed in steps.

In each step (`array_steps`), a mover moves elements between the arrays and staging memory, and
threads read or write the parts of staging memory that belong to their process. `datamover.save` and
`datamover.load` execute one plan per array, a `FileMover` executes one plan repeatedly.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from datamover.arguments import memory_limit
from datamover.arrays import Array
from datamover.errors import InvalidState, WrongType
from datamover.files.array_steps import StepPlan
from datamover.files.at_work import boxes, do_all, threads_within
from datamover.files.formats import Shape
from datamover.movers import Mover

if TYPE_CHECKING:
    from mpi4py import MPI

#: Default memory limit of each process for its part of what is read or written.
MAX_BYTES = 1 << 28
#: Messages of a step may take this much with any limit.
LEAST_MESSAGE_BYTES = 1 << 20
#: If a plan has at most this many steps, their movers stay bound. Otherwise, one is bound at a
#: time.
KEPT_STEPS = 8

#: A part of an array in a file: its name, the index of the first element, and the elements.
Part = tuple[str, Shape, np.ndarray]


def limit_of(max_bytes: Any) -> int:
    """Return the memory limit that was given, checked. Local."""
    if max_bytes is None:
        raise WrongType("max_bytes is None, it must be a number of bytes")
    return memory_limit(max_bytes)


class Files:
    """Arrays in files, opened by name while threads read or write parts of them. Local.

    Parameters
    ----------
    open : callable
        Returns a context of the open array of a name.
    threads : int
    max_bytes : int
        Limit of the memory for elements that are being encoded or decoded.
    """

    def __init__(
        self,
        open: Callable[[str], contextlib.AbstractContextManager[Any]],
        threads: int,
        max_bytes: int,
    ):
        self._open, self._threads, self._max_bytes = open, threads, max_bytes

    def read(self, parts: Iterator[Part]) -> None:
        """Fill parts with elements in the byte order of the machine, which movers need."""

        def work(file: Any, at: Shape, piece: np.ndarray) -> None:
            file.read(at, piece)
            if piece.dtype != file.spec.dtype:
                piece.view(file.spec.dtype).byteswap(inplace=True)

        self._do(parts, work)

    def write(self, parts: Iterator[Part]) -> None:
        """Write parts."""

        def work(file: Any, at: Shape, piece: np.ndarray) -> None:
            file.write(at, piece.astype(file.spec.dtype, copy=False))

        self._do(parts, work)

    def _do(self, parts: Iterator[Part], work: Callable[[Any, Shape, np.ndarray], None]) -> None:
        found = list(parts)
        with contextlib.ExitStack() as opened:
            files: dict[str, Any] = {}
            for name, _, _ in found:
                if name not in files:
                    files[name] = opened.enter_context(self._open(name))
            tasks = (
                (files[name], *box)
                for name, lo, part in found
                for box in boxes(lo, part, files[name].granule, files[name].spec.order)
            )
            threads = threads_within(self._threads, files.values(), self._max_bytes)
            do_all(tasks, lambda task: work(*task), threads)


@dataclasses.dataclass(frozen=True)
class StagedMove:
    """A plan between an array in memory and one in a file.

    Attributes
    ----------
    name : str
        Of the array in the file.
    array : Array, UserArrays or what else a mover takes
    plan : StepPlan
    dtype, order
        Of staging memory.
    """

    name: str
    array: Any
    plan: StepPlan
    dtype: np.dtype
    order: str


class StagedMoves:
    """Staging memory of several moves that go at once, and their movers. Collective to make.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    moves : sequence of StagedMove
    to_file : bool
        Whether the files are the destinations.
    message_bytes : int
        Memory of each process for messages, unless `max_bytes` is one of the options.
    keeps : bool
        Whether the movers of few steps stay bound.
    **options
        Of the movers.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        moves: Sequence[StagedMove],
        to_file: bool,
        message_bytes: int,
        keeps: bool = False,
        **options: Any,
    ):
        self._comm, self._moves, self._to_file = comm, list(moves), to_file
        self.num_steps = max((len(move.plan.steps) for move in moves), default=0)
        self._is_kept = keeps and self.num_steps <= KEPT_STEPS
        if options.get("max_bytes") is None:
            at_once = max(self.num_steps, 1) if self._is_kept else 1
            options["max_bytes"] = max(message_bytes // at_once, LEAST_MESSAGE_BYTES)
        self._options = options
        self._bound: dict[int, Mover] = {}
        self._staging: list[Array] = []
        try:
            for move in moves:
                layout = move.plan.staging
                self._staging.append(Array(layout, move.dtype, order=move.order, comm=comm))
        except BaseException:
            self.close()
            raise

    def mover(self, k: int) -> Mover:
        """Return the mover of step k; bind it unless it is bound. Collective."""
        if k not in self._bound:
            if not self._is_kept:
                self.free_movers()
            moves = [
                (move.plan.steps[k].plan, *self._ends(move.array, staging))
                for move, staging in zip(self._moves, self._staging, strict=True)
                if k < len(move.plan.steps)
            ]
            self._bound[k] = Mover(moves, comm=self._comm, **self._options)
        return self._bound[k]

    def bind(self) -> None:
        """Bind the movers that stay bound, or the first one. Collective."""
        for k in range(self.num_steps if self._is_kept else min(self.num_steps, 1)):
            self.mover(k)

    @property
    def bound(self) -> list[Mover]:
        """Movers that are bound."""
        return [*self._bound.values()]

    def _ends(self, array: Any, staging: Array) -> tuple[Any, Any]:
        return (array, staging) if self._to_file else (staging, array)

    def rebind(self, array: Any) -> None:
        """Use another array for the only move, if there is one. Collective."""
        for mover in self.bound:
            mover.rebind(*(self._ends(array, staging) for staging in self._staging))
        self._moves = [dataclasses.replace(move, array=array) for move in self._moves]

    def parts(self, k: int) -> Iterator[Part]:
        """Iterate over the parts of staging memory that this process reads or writes in step k."""
        for move, staging in zip(self._moves, self._staging, strict=True):
            for step in move.plan.steps[k : k + 1]:
                for block, part in staging.grids():
                    first = cast(Any, staging.layout).region(block).lo
                    lo = tuple(a + b for a, b in zip(step.lo, first, strict=True))
                    ends = zip(lo, step.hi, strict=True)
                    here = part[tuple(slice(0, max(0, e - a)) for a, e in ends)]
                    if here.size:
                        yield move.name, lo, here

    def free_movers(self) -> None:
        """Give back what only moving needs. Local."""
        for mover in self._bound.values():
            with contextlib.suppress(InvalidState):
                mover.close()
        self._bound.clear()

    def close(self) -> None:
        """Give all memory back. Local."""
        self.free_movers()
        for staging in self._staging:
            staging.close()
        self._staging.clear()
