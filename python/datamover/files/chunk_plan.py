# SPDX-License-Identifier: BSD-3-Clause
"""Order in which chunks are read and written, within the memory limit and with few repeated reads.

All shapes are in the dimensions of the output as stored in its file, slowest first. The output is
made step by step; a step is a box of it. Within a step, the source chunks that meet it are read one
after the other, in C order of some order of the dimensions. Chunks of the output are filled in
*groups*, boxes of chunks about as large as a source chunk: a group is opened when the first source
chunk that meets it is read, and closed after the last one. A source chunk that meets several steps
is read in each of them. Several processes divide the steps among themselves, and each works
independently.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from datamover.errors import NoMemory
from datamover.files.chunk_grid import (
    Uneven,
    cells,
    chunks_in,
    inner_ends,
    mean,
    most_met,
    several,
)
from datamover.files.formats import Shape, boxes_of, num_boxes, option, product

#: Cost, in bytes, of reading or writing a piece of a flat file by a call of its own.
RUN_COST_BYTES = 8 << 10
#: Cost, in bytes, of copying a piece of a source chunk separately.
COPY_COST_BYTES = 16
#: Maximum number of dimensions of which all orders are tried.
MAX_ORDERED_DIMS = 4
#: Limit of the boxes that are tried as steps.
MAX_STEP_SHAPES = 20_000


@dataclasses.dataclass(frozen=True)
class Side:
    """The chunks of a file on one side of a move.

    Attributes
    ----------
    chunk : tuple of int
        Extents of a chunk, per dimension of the output's file; `Uneven` if there are several.
    axes : tuple of int
        The same dimensions in the order of this side's file, slowest first; empty if each box is
        contiguous.
    chunk_scratch_bytes : int
        Additional memory of a thread to read and decode, or encode and write, a chunk.
    is_flat : bool
        Whether any box can be read or written separately, as in .npy and raw files.
    """

    chunk: Shape
    axes: Shape
    chunk_scratch_bytes: int
    is_flat: bool


@dataclasses.dataclass(frozen=True)
class Limits:
    """Memory of a process for a pass, its threads, and the processes that share the steps.

    Attributes
    ----------
    max_bytes : int
        Memory for groups and for the additional needs of threads.
    threads : int
        Number of cores of a process; a plan may use fewer if memory is short.
    processes : int
        Memory and threads are those of each. Steps are chosen so that the process with the most to
        do has as little as possible.
    """

    max_bytes: int
    threads: int
    processes: int = 1

    def counts(self) -> list[int]:
        """Return all threads, and ever fewer, down to one."""
        found = [self.threads]
        while found[-1] > 1:
            found.append(found[-1] // 2)
        return found

    def shares(self) -> list[tuple[int, int]]:
        """Return possible threads, and how many of them encode and write at once; 0 means all."""
        counts = self.counts()
        return [(n, 0) for n in counts] + [(n, w) for n in counts for w in counts if w < n]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both sides of a pass.

    Attributes
    ----------
    shape : tuple of int
        Extents of the output, all above 0, in the order of its file.
    itemsize : int
        Bytes of an element.
    source, output : Side
    """

    shape: Shape
    itemsize: int
    source: Side
    output: Side

    def thread_bytes(self, threads: int, writers: int) -> int:
        """Return the additional memory of threads, of which this number write at once; 0: all."""
        read, written = self.source.chunk_scratch_bytes, self.output.chunk_scratch_bytes
        return threads * read + writers * written if writers else threads * max(read, written)

    @property
    def written_bytes(self) -> int:
        """Bytes written, before encoding, without the parts of chunks beyond the array."""
        return math.prod(self.shape) * self.itemsize

    def read_elems(self, reads: Any) -> Any:
        """Return the elements of a number of source chunks."""
        along = list(zip(self.shape, self.source.chunk, strict=True))
        elems = math.prod(n if isinstance(c, Uneven) else c for n, c in along)
        return reads * elems // math.prod(len(c.ends) for _, c in along if isinstance(c, Uneven))

    def memory_of(self, group: Shape) -> int:
        """Return the memory of a group, in which each chunk has the size of the largest."""
        held = (
            chunks_in(g, c) * int(c) if isinstance(g, Uneven) else g
            for g, c in zip(group, self.output.chunk, strict=True)
        )
        return math.prod(held) * self.itemsize

    def copy_cost_bytes(self) -> int:
        """Return the cost of copying from chunks to chunks, in bytes read."""
        box = tuple(map(min, self.source.chunk, self.output.chunk))
        pieces = runs(box, self.output.chunk, self.output.axes)
        return math.prod(self.shape) * pieces * COPY_COST_BYTES // math.prod(box)

    def costs(self, extents: Sequence[Sequence[int]], processes: int) -> np.ndarray:
        """Return the costs of the process with the most to do, in bytes read.

        Parameters
        ----------
        extents : list of tuple of int
            Extents of steps, per dimension, in all combinations.
        processes : int

        Returns
        -------
        ndarray of float, a dimension for each of the array
        """
        shape, source, output = self.shape, self.source, self.output
        boxes = np.meshgrid(*(np.array(n, float) for n in extents), indexing="ij", sparse=True)
        reads = steps = elems = np.array(1.0)
        for d, (n, c, box) in enumerate(zip(shape, source.chunk, boxes, strict=True)):
            reads = reads * np.reshape([float(reads_of(n, c, b)) for b in extents[d]], box.shape)
            steps = steps * np.reshape([float(chunks_in(n, b)) for b in extents[d]], box.shape)
            elems = elems * box
        nbytes = self.written_bytes
        if source.is_flat:
            part = [np.minimum(c, box) for c, box in zip(source.chunk, boxes, strict=True)]
            cost = nbytes + reads * _runs(part, shape, source.axes) * RUN_COST_BYTES
        else:
            cost = self.read_elems(reads) * self.itemsize
        if output.is_flat:
            pieces = num_boxes(shape, output.chunk) * runs(output.chunk, shape, output.axes)
            cost = cost + pieces * RUN_COST_BYTES
        # Steps are whole, but are cut at the end of the array.
        share = elems * np.ceil(steps / processes) / math.prod(shape)
        return (cost + nbytes) * np.clip(share, 1 / processes, 1.0)

    def cheapest(
        self, room_bytes: int, processes: int, most_shapes: int
    ) -> tuple[float, Shape, Shape, Shape, int] | None:
        """Return the steps with the least cost: (cost, group, box, order, open groups)."""
        shape, source, output = self.shape, self.source, self.output
        if math.prod(output.chunk) * self.itemsize > room_bytes:
            return None
        tries = max(2, int(most_shapes ** (1 / max(len(shape), 1))))
        extents = [
            _box_extents(n, s, c, min(tries, 24))
            for n, s, c in zip(shape, source.chunk, output.chunk, strict=True)
        ]
        costs = self.costs(extents, processes).ravel()
        boxes = list(itertools.product(*extents))
        sizes = np.array([math.prod(box) for box in boxes], float)
        orders = _orders(shape, source.chunk)
        # Among equal costs the largest box; among these the one that is long in late dimensions.
        for at in np.lexsort((-np.arange(len(boxes)), -sizes, costs)):
            box = boxes[at]
            group = tuple(map(_group_extent, shape, source.chunk, output.chunk, box))
            fitting = room_bytes // self.memory_of(group)
            if fitting < 1:
                continue
            opened, order = min(
                (most_open_groups(shape, source.chunk, group, box, order), order)
                for order in orders
            )
            if opened <= fitting:
                return float(costs[at]), group, box, order, opened
        return None


@dataclasses.dataclass(frozen=True)
class ChunkPlan(Pair):
    """The order of reading and writing; created by `plan_chunks`.

    Attributes
    ----------
    group : tuple of int
        Extents of the groups, multiples of the output's chunks.
    box : tuple of int
        Extents of the steps, multiples of the groups or the whole array.
    order : tuple of int
        Dimensions from that in which source chunks change slowest to that in which fastest.
    open_groups : int
        Maximum number of groups that are open at the same time.
    threads : int
        Number of threads of each process.
    processes : int
        Number of processes that share the steps.
    writers : int
        Maximum number of threads that encode and write at the same time; 0 means all.
    """

    group: Shape
    box: Shape
    order: Shape
    open_groups: int
    threads: int
    processes: int = 1
    writers: int = 0

    @property
    def group_bytes(self) -> int:
        """Memory of a group."""
        return self.memory_of(self.group)

    @property
    def scratch_bytes(self) -> int:
        """Memory of all threads, without the groups."""
        return self.thread_bytes(self.threads, self.writers)

    @property
    def memory_bytes(self) -> int:
        """Sufficient memory."""
        return self.open_groups * self.group_bytes + self.scratch_bytes

    @property
    def steps(self) -> int:
        """Number of steps: boxes of the output that are made one after the other."""
        return num_boxes(self.shape, self.box)

    @property
    def source_chunks(self) -> int:
        """Number of chunks of the source."""
        return num_boxes(self.shape, self.source.chunk)

    @property
    def chunks(self) -> int:
        """Number of chunks of the output."""
        return num_boxes(self.shape, self.output.chunk)

    @property
    def reads(self) -> int:
        """Number of source chunks that are read in all steps; for a flat file, perhaps parts."""
        return math.prod(
            reads_of(*along) for along in zip(self.shape, self.source.chunk, self.box, strict=True)
        )

    @property
    def read_bytes(self) -> int:
        """Bytes read, after decoding."""
        if self.source.is_flat:
            return self.written_bytes
        return self.read_elems(self.reads) * self.itemsize

    @property
    def cost_bytes(self) -> float:
        """Cost of the process with the most to do, in bytes read."""
        return float(self.costs([(b,) for b in self.box], self.processes).item())

    @property
    def cost_per_thread(self) -> float:
        """Cost of the thread with the most to do, in bytes read."""
        return max(self.cost_bytes / self.threads, self.write_cost)

    @property
    def write_cost(self) -> float:
        """Bytes that a thread encodes and writes."""
        return self.written_bytes / self.processes / (self.writers or self.threads)

    def boxes(self, rank: int | None = None) -> Iterator[tuple[Shape, Shape]]:
        """Yield the steps as (lo, hi): all, or those of one process."""
        first, last = 0, self.steps
        if rank is not None:
            first, last = (self.steps * r // self.processes for r in (rank, rank + 1))
        return itertools.islice(boxes_of(self.shape, self.box), first, last)

    def source_cells(self, lo: Shape, hi: Shape) -> Iterator[Shape]:
        """Yield the indices of the source chunks that a step meets, in order."""
        ranges = [cells(lo[d], hi[d], self.source.chunk[d]) for d in self.order]
        places = [self.order.index(d) for d in range(len(self.shape))]
        for cell in product(ranges):
            yield tuple(cell[p] for p in places)


def reads_of(extent: int, chunk: int, box: int) -> int:
    """Count source chunks along a dimension, once for every step that they meet."""
    return chunks_in(extent, chunk) + inner_ends(extent, box, chunk)


def most_open_groups(shape: Shape, chunk: Shape, group: Shape, box: Shape, order: Shape) -> int:
    """Return a bound on the groups that are open while source chunks are read one by one.

    Parameters
    ----------
    shape, chunk, group, box : tuple of int
        Extents of the array, a source chunk, a group and a step.
    order : tuple of int
        Dimensions, slowest first.

    Notes
    -----
    From the fastest dimension outwards. In a row of source chunks in one dimension, groups that
    began before it close while those that end after it open, in the same order of the inner
    dimensions. Both together are therefore never more than all of one kind and the open ones of
    the other. In this dimension, at most one group began before a row and one ends after it. The
    row that meets most groups counts.
    """
    peak = whole = 1
    for d in reversed(order):
        groups = chunks_in(min(box[d], shape[d]), group[d])
        met = min(most_met(shape[d], chunk[d], group[d]), groups)
        is_aligned = inner_ends(shape[d], chunk[d], group[d]) == 0  # no group is in two rows
        peak = met * peak if is_aligned else min(whole + (met - 1) * peak, groups * whole)
        whole *= groups
    return peak


def _group_extent(extent: int, source: int, chunk: int, box: int) -> int:
    """Return whole chunks of the output that cover a source chunk, at most a step."""
    return several(chunk, min(_covering(extent, source, chunk), chunks_in(min(box, extent), chunk)))


def _covering(extent: int, source: int, chunk: int) -> int:
    """Return about how many chunks of the output cover a source chunk."""
    return -(-min(int(source), extent) // mean(extent, chunk))


def _box_extents(extent: int, source: int, chunk: int, tries: int) -> list[int]:
    """Return the possible extents of steps along a dimension: whole groups, or parts of one."""
    chunks = chunks_in(extent, chunk)
    group = min(_covering(extent, source, chunk), chunks)
    found: set[int] = set()  # numbers of chunks
    for unit, whole in ((group, chunks), (1, group)):
        units = -(-whole // unit)
        for pieces in itertools.islice(counts_up_to(units), tries // 2):
            found.add(-(-units // pieces) * unit)
        found.add(unit)
    counts = sorted(filter(chunks.__gt__, found), reverse=True)
    return [extent, *(several(chunk, count) for count in counts)]


def counts_up_to(most: int) -> Iterator[int]:
    """Yield numbers to try, from 1 on: all small ones, then each a third larger than the last."""
    count = 1
    while count <= most:
        yield count
        count = max(count + 1, count * 4 // 3)


def _orders(shape: Shape, chunk: Shape) -> list[Shape]:
    """Return the orders of the dimensions in which source chunks may be read."""
    dims = range(len(shape))
    active = [d for d in dims if chunk[d] < shape[d]]
    passive = tuple(d for d in dims if chunk[d] >= shape[d])
    if len(active) <= MAX_ORDERED_DIMS:
        return [(*order, *passive) for order in itertools.permutations(active)]
    return [(*active[i:], *active[:i], *passive) for i in range(len(active))]


def runs(box: Shape, shape: Shape, axes: Shape) -> int:
    """Count the contiguous pieces of a box in a flat file.

    Examples
    --------
    >>> from datamover.files.chunk_plan import runs
    >>> runs((4, 5, 6), (9, 5, 6), (0, 1, 2)), runs((4, 5, 6), (9, 5, 6), (2, 1, 0))
    (1, 30)
    """
    return int(_runs([np.array(float(extent)) for extent in box], shape, axes))


def _runs(box: list[np.ndarray], shape: Shape, axes: Shape) -> np.ndarray:
    """Return `runs` for all combinations of extents."""
    pieces, whole = np.array(1.0), np.array(True)
    for d in reversed(axes):
        pieces = np.where(whole, pieces, pieces * np.minimum(box[d], shape[d]))
        whole = whole & (box[d] >= shape[d])
    return pieces


def plan_chunks(
    pairs: Sequence[Pair],
    limits: Limits,
    most_shapes: int = MAX_STEP_SHAPES,
    reads_least: bool = False,
) -> ChunkPlan:
    """Find the plan with the least cost within a memory limit.

    If memory is short because every thread needs some to encode a chunk, fewer threads may encode
    at the same time than read. Local; accesses no file.

    Parameters
    ----------
    pairs : sequence of Pair
        Chunks of source and output; several if a flat file leaves the choice.
    limits : Limits
    most_shapes : int
        Approximate limit of the boxes that are tried as steps.
    reads_least : bool
        Whether to find, of the plans with the least cost for each number of threads, the one that
        reads least.

    Raises
    ------
    NoMemory
        No plan fits; names a sufficient limit.

    Examples
    --------
    >>> from datamover.files.chunk_plan import Limits, Pair, Side, plan_chunks
    >>> slices = Side((1, 64, 64), (0, 1, 2), 0, is_flat=False)
    >>> pencils = Side((64, 8, 8), (0, 1, 2), 0, is_flat=False)
    >>> pair = Pair((64, 64, 64), 4, slices, pencils)
    >>> whole = plan_chunks([pair], Limits(2 << 20, threads=1))
    >>> whole.steps, whole.reads
    (1, 64)
    >>> half = plan_chunks([pair], Limits(1 << 19, threads=1))
    >>> half.steps, half.reads, half.memory_bytes
    (2, 128, 524288)
    """
    found: list[tuple[tuple[float, ...], ChunkPlan]] = []

    def least(threads: int) -> ChunkPlan | None:
        """Return the plan with the least costs that has at most this number of threads."""
        fitting = (one for one in found if one[1].threads <= threads)
        best = min(fitting, key=lambda one: one[0], default=None)
        return best and best[1]

    for pair in pairs:
        copied = pair.copy_cost_bytes()
        for count, writers in limits.shares():
            best = least(limits.threads)
            is_good = best and best.threads == limits.threads and best.reads == best.source_chunks
            if writers and (pair.output.is_flat or is_good):
                break
            room_bytes = limits.max_bytes - pair.thread_bytes(count, writers)
            steps = pair.cheapest(room_bytes, limits.processes, most_shapes)
            if steps is None:
                continue
            cost, group, box, order, opened = steps
            plan = ChunkPlan(
                pair.shape, pair.itemsize, pair.source, pair.output,
                group, box, order, opened, count, limits.processes, writers,
            )  # fmt: skip
            cost = (cost + copied) / count
            found.append(((max(cost, plan.write_cost), cost, plan.memory_bytes), plan))
    if not found:
        raise too_little(limits.max_bytes, least_bytes(pairs))
    counts = limits.counts() if reads_least else [limits.threads]
    return min(filter(None, map(least, counts)), key=lambda plan: plan.reads)


def least_bytes(pairs: Sequence[Pair]) -> int:
    """Return the least memory for which a plan exists, however often it reads a chunk."""
    return min(math.prod(p.output.chunk) * p.itemsize + p.thread_bytes(1, 0) for p in pairs)


def too_little(max_bytes: int, least: int) -> NoMemory:
    """Return the error for a limit that is too small, with a sufficient one."""
    return NoMemory(
        f"the memory limit of {max_bytes:,} bytes is too little: the least that would do is "
        f"{least:,}; allow more with {option('max_bytes')} or make the chunks smaller"
    )
