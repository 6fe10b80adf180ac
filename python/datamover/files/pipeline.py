# SPDX-License-Identifier: BSD-3-Clause
"""Pipeline: the threads of one process execute a plan of chunks, reading and writing at once.

Every thread takes the next task. If a group is complete, its chunks are encoded and written.
Otherwise, the next source chunk of the plan is read, decoded and copied into the groups that need
it, if there is memory for the groups that it opens. No thread waits for the slowest one.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import time
from collections.abc import Callable, Iterator

import numpy as np

from datamover import _plan
from datamover.files.at_work import Crew, Task
from datamover.files.chunk_grid import Uneven, begin_of, cell_of, cells, chunks_in, end_of
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.chunk_sides import Scratch, Sink, Source
from datamover.files.formats import Shape, pieces_of, within

#: Approximate bytes of small chunks that are written together.
WRITE_BYTES = 1 << 18

Box = tuple[Shape, Shape]


class _Group:
    """Chunks of the output that are being filled."""

    def __init__(self, lo: Shape, memory: np.ndarray, reads: int):
        self.lo = lo
        self.memory = memory  # chunk by chunk: the grid of chunks, then a chunk
        self.reads_left = reads
        self.writes_left = 0
        dims = memory.ndim // 2
        pairs = [axis for d in range(dims) for axis in (d, dims + d)]
        self.by_dimension = memory.transpose(pairs)


class Pipeline(Crew):
    """Execution of one plan by threads.

    Parameters
    ----------
    plan : ChunkPlan
    source : Source
    sink : Sink
    max_bytes : int
        Groups are opened ahead if it allows more than the plan needs.
    tell : callable
        Called with the bytes of each piece read or written.
    rank : int
        Number of this process among those that share the plan's steps.
    """

    def __init__(
        self,
        plan: ChunkPlan,
        source: Source,
        sink: Sink,
        max_bytes: int,
        tell: Callable[[int], None],
        rank: int = 0,
    ):
        super().__init__(self._take)
        self._rank = rank
        self._plan, self._source, self._sink, self._tell = plan, source, sink, tell
        #: Seconds of work, summed over all threads.
        self.busy = {"read": 0.0, "redistribute": 0.0, "write": 0.0}
        fitting = (max_bytes - plan.scratch_bytes) // plan.group_bytes
        self._most_groups = max(plan.open_groups, min(fitting, plan.open_groups + plan.threads))
        self._scratch = Scratch()
        self._reads = self._all_reads()
        self._next_read = next(self._reads, None)
        self._writes: collections.deque[Task] = collections.deque()
        self._open: dict[Shape, _Group] = {}
        self._groups = 0  # groups with memory
        self._free: list[np.ndarray] = []
        self._at_work = 0
        self._writing = 0
        self._most_writing = plan.writers or plan.threads

    def run(self, gives_up: Callable[[], bool] | None = None) -> None:
        """Execute the plan; the first error of any thread is raised when all have stopped.

        See `Crew.run_by` for `gives_up`.
        """
        self.run_by(min(self._plan.threads, max(self._plan.reads, self._plan.chunks)), gives_up)

    def _take(self) -> Task | None:
        """Wait for the next task; return None when everything is done, or given up."""
        while self._failure is None:
            if self._writes and self._writing < self._most_writing:
                self._at_work += 1
                self._writing += 1
                return self._writes.popleft()
            if self._next_read is not None:
                task = self._open_groups(*self._next_read)
                if task is not None:
                    self._next_read = next(self._reads, None)
                    self._at_work += 1
                    return task
            elif self._at_work == 0:
                return None
            self._changed.wait()
        return None

    def _all_reads(self) -> Iterator[tuple[Shape, Box]]:
        """Yield the reads of the plan: a source chunk, and its part inside the step."""
        chunk = self._plan.source.chunk
        for lo, hi in self._plan.boxes(self._rank):
            for cell in self._plan.source_cells(lo, hi):
                first, last = map(begin_of, cell, chunk), map(end_of, cell, chunk)
                yield cell, (tuple(map(max, first, lo)), tuple(map(min, last, hi)))

    def _open_groups(self, cell: Shape, box: Box) -> Task | None:
        """Open the groups that a source chunk needs; None while memory for them is missing."""
        lo, hi = box
        needed = list(pieces_of(lo, tuple(map(operator.sub, hi, lo)), self._plan.group))
        new = [(index, lo) for index, lo, *_ in needed if index not in self._open]
        if self._groups + len(new) > self._most_groups:
            return None
        for index, lo in new:
            self._open[index] = _Group(lo, self._memory(lo), self._reads_of(lo))
            self._groups += 1
        parts = [(self._open[index], (lo, hi)) for index, _, lo, hi in needed]
        return functools.partial(self._read, cell, box, parts)

    def _reads_of(self, lo: Shape) -> int:
        """Count the source chunks that meet a group, in its step."""
        plan = self._plan
        reads = 1
        for a, g, b, n, c in zip(
            lo, plan.group, plan.box, plan.shape, plan.source.chunk, strict=True
        ):
            hi = min(end_of(cell_of(a, g), g), end_of(cell_of(a, b), b), n)
            reads *= len(cells(a, hi, c))
        return reads

    def _memory(self, lo: Shape) -> np.ndarray:
        plan = self._plan
        if self._free:
            memory = self._free.pop()
        else:
            grid = list(map(chunks_in, plan.group, plan.output.chunk))
            memory = np.empty((*grid, *plan.output.chunk), np.dtype((np.void, plan.itemsize)))
        fill = self._sink.fill_bytes
        if fill is not None and any(
            a + g > n for a, g, n in zip(lo, plan.group, plan.shape, strict=True)
        ):
            memory[...] = np.frombuffer(fill, memory.dtype)[0]
        return memory

    def _read(self, cell: Shape, box: Box, parts: list[tuple[_Group, Box]]) -> None:
        """Read the part of a chunk inside the step, and copy it into the groups that it meets."""
        begin = time.perf_counter()
        array, first = self._source.read(cell, *box, self._scratch)
        middle = time.perf_counter()
        for group, part in parts:
            _copy_box(array, first, group, self._plan.output.chunk, part)
        end = time.perf_counter()
        with self._changed:
            self.busy["read"] += middle - begin
            self.busy["redistribute"] += end - middle
            for group, _ in parts:
                group.reads_left -= 1
                if group.reads_left == 0:
                    self._complete(group)
            self._at_work -= 1
            self._tell(math.prod(b - a for a, b in zip(*box, strict=True)) * self._plan.itemsize)
            self._changed.notify_all()

    def _complete(self, group: _Group) -> None:
        """Queue the chunks of a group for writing."""
        plan = self._plan
        index = tuple(map(cell_of, group.lo, plan.group))
        del self._open[index]
        hi = tuple(map(min, map(end_of, index, plan.group), plan.shape))
        found = list(itertools.product(*map(cells, group.lo, hi, plan.output.chunk)))
        several = max(1, WRITE_BYTES // (math.prod(plan.output.chunk) * plan.itemsize))
        for i in range(0, len(found), several):
            self._writes.append(functools.partial(self._write, group, found[i : i + several]))
            group.writes_left += 1

    def _write(self, group: _Group, found: list[Shape]) -> None:
        plan = self._plan
        begin = time.perf_counter()
        elems = 0
        chunk = plan.output.chunk
        origin = tuple(map(cell_of, group.lo, chunk))
        for cell in found:
            if self._failure is not None:
                break
            lo, hi = tuple(map(begin_of, cell, chunk)), tuple(map(end_of, cell, chunk))
            place = tuple(i - first for i, first in zip(cell, origin, strict=True))
            self._sink.write(lo, group.memory[place][within(lo, hi, lo)])
            elems += math.prod(min(b, n) - a for a, b, n in zip(lo, hi, plan.shape, strict=True))
        end = time.perf_counter()
        with self._changed:
            self.busy["write"] += end - begin
            self._writing -= 1
            group.writes_left -= 1
            if group.writes_left == 0:
                self._free.append(group.memory)
                self._groups -= 1
            self._at_work -= 1
            self._tell(elems * plan.itemsize)
            self._changed.notify_all()


def _segments(a: int, b: int, chunk: int) -> list[tuple[int, int, int, int]]:
    """Cut a .. b into whole chunks and parts: (first chunk, chunks, begin in each, length)."""
    if isinstance(chunk, Uneven):
        found = []
        for cell in cells(a, b, chunk):
            first = begin_of(cell, chunk)
            begin = max(a, first)
            found.append((cell, 1, begin - first, min(b, end_of(cell, chunk)) - begin))
        return found
    cuts = sorted({a, min(b, -(-a // chunk) * chunk), max(a, b // chunk * chunk), b})
    found = []
    for begin, end in itertools.pairwise(cuts):
        count = max(1, (end - begin) // chunk)
        found.append((begin // chunk, count, begin % chunk, (end - begin) // count))
    return found


def _copy_box(array: np.ndarray, first: Shape, group: _Group, chunk: Shape, box: Box) -> None:
    """Copy a box of an array that begins at `first` to the chunks of a group."""
    along = list(map(_segments, *box, chunk))
    origin = tuple(map(cell_of, group.lo, chunk))
    for segments in itertools.product(*along):
        to: list[slice] = []
        taken: list[slice] = []
        shape: list[int] = []
        for (cell, count, begin, length), o, c, f in zip(
            segments, origin, chunk, first, strict=True
        ):
            to += [slice(cell - o, cell - o + count), slice(begin, begin + length)]
            at = begin_of(cell, c) + begin - f
            taken.append(slice(at, at + count * length))
            shape += [count, length]
        # Dimensions are only split; this copies no elements.
        part = array[tuple(taken)].reshape(shape)
        _plan.copy_strided(part, group.by_dimension[tuple(to)])
