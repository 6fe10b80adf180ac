# SPDX-License-Identifier: BSD-3-Clause
"""Staged moves: plans between arrays in memory and arrays in files, executed in steps.

In each step (`array_steps`), a mover moves elements between the arrays and staging memory, and
threads read or write the parts of staging memory that belong to their process. `datamover.save` and
`datamover.load` execute one plan per array, a `FileMover` executes one plan repeatedly.

Saves, loads and series transfer arrays of which each process has whole chunks, or long runs of flat
files, directly between its own memory and the file: no other process is involved, so these elements
are not sent to one, and no process waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from datamover._plan import BlockCyclic, FloorPlan
from datamover.arrays import Array
from datamover.errors import InvalidState
from datamover.files.agreement import threads_here, together
from datamover.files.array_steps import StagedMove, steps_of
from datamover.files.at_work import PIECE_BYTES, do_all, threads_within
from datamover.files.chunk_grid import is_begin
from datamover.files.chunk_plan import runs
from datamover.files.chunk_sides import contiguous
from datamover.files.formats import Shape, pieces_of, within
from datamover.files.state_items import Item
from datamover.movers import Mover
from datamover.mpi import Comm, comm_address, gathered
from datamover.plans import redistribute

#: Shorter runs of a flat file are gathered to longer ones by a mover.
MIN_RUN_BYTES = 1 << 16
#: Multiple of its share that a process may transfer; if it has more, the others help it.
MOST_SHARES = 1.5
#: Staging memory that a process uses at once even if it may use more: memory that is used again
#: needs no fresh pages, which the system clears, and is still in the caches.
STEP_BYTES = 1 << 26
#: Arrays that are open at once.
MOST_AT_ONCE = 256

#: Default memory limit of each process for its part of what is read or written.
MAX_BYTES = 1 << 28
#: Messages of a step may take this much with any limit.
LEAST_MESSAGE_BYTES = 1 << 20
#: If a plan has at most this many steps, their movers stay bound. Otherwise, one is bound at a
#: time.
KEPT_STEPS = 8

#: A part of an array in a file: its name, the index of the first element, and the elements.
Part = tuple[str, Shape, np.ndarray]


def transfer(
    parts: list[Part], files: Mapping[str, Any], to_file: bool, threads: int, max_bytes: int
) -> None:
    """Write parts, or fill them in the byte order of the machine, which movers need. Local.

    Parameters
    ----------
    parts : list of Part
    files : mapping of str to Reader
        Open arrays, by name.
    to_file : bool
    threads : int
    max_bytes : int
        Limit of the memory for elements that are being encoded or decoded.
    """

    def work(task: tuple[Any, Shape, np.ndarray]) -> None:
        file, at, piece = task
        if to_file:
            file.write(at, piece.astype(file.spec.dtype, copy=False))
            return
        file.read(at, piece)
        if piece.dtype != file.spec.dtype:
            piece.view(file.spec.dtype).byteswap(inplace=True)

    tasks = (
        (files[name], *box) for name, lo, part in parts for box in boxes(lo, part, files[name])
    )
    do_all(tasks, work, threads_within(threads, files.values(), max_bytes))


def boxes(lo: Shape, array: np.ndarray, file: Any) -> Iterator[tuple[Shape, np.ndarray]]:
    """Cut a part of an array into boxes for threads: (index of the first element, view).

    Parameters
    ----------
    lo : tuple of int
        Index of the part's first element.
    array : ndarray
    file : Reader
        At whose chunks the part is cut; for a flat file, into pieces of about PIECE_BYTES.
    """
    if array.size == 0:
        return
    granule, origin = file.granule, lo
    if math.prod(granule) == 1:
        granule = contiguous(array.shape, file.spec.axes, array.itemsize, PIECE_BYTES)
        origin = (0,) * array.ndim
    for _, _, begin, end in pieces_of(origin, array.shape, granule):
        at = tuple(a + b - o for a, b, o in zip(lo, begin, origin, strict=True))
        yield at, array[within(begin, end, origin)]


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
        comm: Comm,
        moves: Sequence[StagedMove],
        to_file: bool,
        message_bytes: int,
        keeps: bool = False,
        **options: Any,
    ):
        self._comm, self._moves, self._to_file = comm, list(moves), to_file
        self.num_steps = max((len(move.steps) for move in moves), default=0)
        shared = all(step.staging is move.steps[0].staging for move in moves for step in move.steps)
        self._is_kept = keeps and shared and self.num_steps <= KEPT_STEPS
        if options.get("max_bytes") is None:
            at_once = max(self.num_steps, 1) if self._is_kept else 1
            options["max_bytes"] = max(message_bytes // at_once, LEAST_MESSAGE_BYTES)
        self._options = options
        self._bound: dict[int, Mover] = {}
        self._staging: list[Array | None] = [None] * len(moves)
        try:
            self.stage(0)
        except BaseException:
            self.close()
            raise

    def stage(self, k: int) -> None:
        """Provide the staging memory of step k, if it has another layout. Collective."""
        for i, move in enumerate(self._moves):
            if k >= len(move.steps):
                continue
            layout, held = move.steps[k].staging, self._staging[i]
            if held is not None and held.layout is layout:
                continue
            self.free_movers()
            if held is not None:
                held.close()
            self._staging[i] = None
            self._staging[i] = Array(layout, move.dtype, order=move.order, comm=self._comm)

    def mover(self, k: int) -> Mover:
        """Return the mover of step k; bind it unless it is bound. Collective."""
        if k not in self._bound:
            if not self._is_kept:
                self.free_movers()
            self.stage(k)
            moves = [
                (move.steps[k].plan, *self._ends(move.array, staging))
                for move, staging in zip(self._moves, self._staging, strict=True)
                if k < len(move.steps)
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

    def _ends(self, array: Any, staging: Array | None) -> tuple[Any, Any]:
        return (array, staging) if self._to_file else (staging, array)

    def rebind(self, array: Any) -> None:
        """Use another array for the only move, if there is one. Collective."""
        for mover in self.bound:
            mover.rebind(*(self._ends(array, staging) for staging in self._staging))
        self._moves = [dataclasses.replace(move, array=array) for move in self._moves]

    def parts(self, k: int) -> Iterator[Part]:
        """Iterate over the parts of staging memory that this process reads or writes in step k."""
        for move, staging in zip(self._moves, self._staging, strict=True):
            for step in move.steps[k : k + 1]:
                for block, part in cast(Array, staging).grids():
                    first = step.staging.region(block).lo
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
            if staging is not None:
                staging.close()
        self._staging.clear()


def own_parts(
    file: Any, item: Item, rank: int, to_file: bool
) -> list[tuple[Shape, np.ndarray]] | None:
    """Return this process's blocks of an array if it can transfer all of them directly. Local.

    Each is a pair of the index of its first element in the file, and a view. Returns None if a
    block is not a box of whole chunks or long runs, or a block of lower number holds its elements
    too. Elements that must be converted or transposed are better moved by the engine, which also
    rejects read-only memory.

    Parameters
    ----------
    file : Reader
        Has `spec`, `granule`, and perhaps `reads_parts`.
    item : Item
    rank : int
    to_file : bool

    Raises
    ------
    Error
        As from a mover, if arrays do not fit their layout.
    """
    layout, spec, array = item.layout, file.spec, cast(Any, item.array)
    if not isinstance(layout, (BlockCyclic, FloorPlan)) or item.dtype not in (None, spec.dtype):
        return None
    if getattr(layout, "replicas", 1) != 1:  # each copy is its own source
        return None
    array._part(layout, rank, item.dtype or spec.dtype)
    d = -1 if spec.order == "C" else 0
    views = {block: view for block, view in array._interiors(layout, rank) if view.size}
    found: list[Any] = []
    # A block of several boxes gets several sections, and an element one from its lowest block.
    for section in redistribute(layout, layout).sections(rank, rank):
        box, block = section.destination_region, section.destination_block
        view = views.pop(block, None)
        if view is None or section.source_block != block or view.shape != tuple(box.shape):
            return None
        lo = tuple(a - o for a, o in zip(box.lo, item.origin, strict=True))
        has_runs = view.shape[d] < 2 or view.strides[d] == view.itemsize
        is_fit = has_runs and (to_file or _takes_all(view))
        if not is_fit or not _is_whole(file, lo, view.shape, to_file):
            return None
        found.append((lo, view))
    return None if views else found


def is_shared_evenly(shares: Sequence[int], ranks: Sequence[int], size: int) -> bool:
    """Return whether an array is transferred directly.

    Parameters
    ----------
    shares : sequence of int
        Elements of `own_parts` on all processes; -1 for None.
    ranks : sequence of int
        The processes that read or write.
    size : int
        Elements of the array.
    """
    most = max(shares[rank] for rank in ranks)
    is_all = min(shares) >= 0 and sum(shares[rank] for rank in ranks) == size
    return is_all and most * len(ranks) <= MOST_SHARES * size


def _takes_all(view: np.ndarray) -> bool:
    """Return whether each element has its own writable place."""
    lies_apart = all(s != 0 or n < 2 for n, s in zip(view.shape, view.strides, strict=True))
    return view.flags.writeable and lies_apart


def _is_whole(file: Any, lo: Shape, shape: Shape, to_file: bool) -> bool:
    """Return whether a box of the file consists of whole chunks or long runs."""
    spec, granule = file.spec, file.granule
    if math.prod(granule) == 1:
        run_elems = math.prod(shape) // runs(shape, spec.shape, spec.axes)
        return run_elems * spec.dtype.itemsize >= MIN_RUN_BYTES
    if not to_file and getattr(file, "reads_parts", False):
        wide = zip(shape, granule, spec.shape, strict=True)
        if all(n >= g or n == whole for n, g, whole in wide):
            return True
    ends = zip(lo, shape, granule, spec.shape, strict=True)
    return all(is_begin(a, g) and (a + k == n or is_begin(a + k, g)) for a, k, g, n in ends)


def native_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of numbers in the byte order of the machine; records stay unchanged."""
    return dtype if dtype.names else dtype.newbyteorder("=")


class Work:
    """The transfer between arrays in memory and in files, of a save, a load or a series.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    items : dict of Item
    ranks : tuple of int
        The processes that read or write.
    max_bytes : int
    to_file : bool
    """

    def __init__(
        self, comm: Comm, items: dict[str, Item], ranks: Shape, max_bytes: int, to_file: bool
    ):
        self._comm, self._address = comm, comm_address(comm)
        self._items, self._ranks, self.max_bytes, self._to_file = items, ranks, max_bytes, to_file
        #: Parts of this process that need no mover.
        self.direct: list[Part] = []

    def plan(self, open: Callable[[str], Any], step_bytes: int = 0) -> list[list[StagedMove]]:
        """Find the arrays that need no mover; group the other moves into those made at once.

        No process has more than `step_bytes` of staging memory, or a chunk if that is larger. By
        default STEP_BYTES; otherwise all arrays go through staging memory. Collective, the same
        everywhere.
        """
        self._open, self._threads = open, threads_here(self._address)
        goes_direct, step_bytes = not step_bytes, step_bytes or STEP_BYTES
        most_bytes = self.max_bytes // 2
        moves: list[StagedMove] = []
        own: list[Any] = []
        with together(self._comm):
            for name, item in self._items.items():
                whole, rank = item.layout.domain, self._comm.rank
                if whole.empty:
                    continue
                with contextlib.closing(open(name)) as file:
                    chunk_bytes = math.prod(file.granule) * file.spec.dtype.itemsize
                    limit = min(most_bytes, max(step_bytes, chunk_bytes))
                    plan = redistribute(item.layout, item.layout, None, whole, whole)
                    dtype = item.spec().dtype if self._to_file else native_dtype(file.spec.dtype)
                    move = StagedMove(name, repr(name), item.array, dtype, file.spec.order)
                    moves.append(steps_of(plan, move, file, self._to_file, self._ranks, limit))
                    found = own_parts(file, item, rank, self._to_file)
                    own.append(found if goes_direct else None)
        sizes = (found and [view.size for _, view in found] for found in own)
        shares = gathered(self._address, [-1 if some is None else sum(some) for some in sizes])
        groups: list[list[StagedMove]] = []
        room = 0
        for k, move in enumerate(moves):
            item = self._items[move.name]
            all_of = [int(share[k]) for share in shares]
            if is_shared_evenly(all_of, self._ranks, item.layout.domain.size):
                self.direct += [(move.name, *part) for part in own[k]]
                continue
            if move.most_bytes > room or len(groups[-1]) == MOST_AT_ONCE:
                groups.append([])
                room = min(most_bytes, step_bytes)
            room -= move.most_bytes
            groups[-1].append(move)
        return groups

    def transfer(self, groups: list[list[StagedMove]]) -> None:
        """Read or write all parts. Collective."""
        self.transfer_direct()
        for group in groups:
            with contextlib.closing(self.staged(group)) as moves:
                self.execute(moves)

    def transfer_direct(self) -> None:
        """Read or write the arrays that need no mover, if none was closed. Collective."""
        with together(self._comm):
            for name in {name for name, _, _ in self.direct}:
                if isinstance(array := self._items[name].array, Array):
                    array._require_open()
            self.transfer_parts(self.direct)

    def transfer_parts(self, parts: Iterable[Part]) -> None:
        """Read or write parts of this process, in files that are open meanwhile. Local."""
        found = list(parts)
        with contextlib.ExitStack() as opened:
            files = {
                name: opened.enter_context(contextlib.closing(self._open(name)))
                for name in dict.fromkeys(name for name, _, _ in found)
            }
            transfer(found, files, self._to_file, self._threads, self.max_bytes // 4)

    def execute(self, moves: StagedMoves) -> None:
        """Read or write the arrays of a group. Collective."""
        for k in range(moves.num_steps):
            moves.stage(k)
            if self._to_file:
                moves.mover(k)()
            with together(self._comm):
                self.transfer_parts(moves.parts(k))
            if not self._to_file:
                moves.mover(k)()

    def staged(self, moves: list[StagedMove], keeps: bool = False) -> StagedMoves:
        """Make staging memory for moves. Collective."""
        return StagedMoves(self._comm, moves, self._to_file, self.max_bytes // 4, keeps)
