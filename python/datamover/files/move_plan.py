# SPDX-License-Identifier: BSD-3-Clause
"""Plan of a move: one pass from the input to the output, or two with an intermediate between them.

If the chunks of input and output cross each other and memory is too little for all that meet, one
pass reads chunks again and again. The idea of the second pass is rechunker's (R. Abernathey et al.,
"Rechunker", https://rechunker.readthedocs.io/en/latest/algorithm.html): the first pass reads as
many input chunks as memory holds and writes chunks of an intermediate, the second one reads as many
of these as memory holds and writes output chunks. Each element is then read and written twice.
The extents of the intermediate's chunks are searched for here, by planning both passes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import NoMemory
from datamover.files.chunk_plan import ChunkPlan, Limits, counts_up_to
from datamover.files.chunk_sides import Sink, Source, cheapest
from datamover.files.formats import ArraySpec, Shape, num_boxes, option
from datamover.files.intermediate import Intermediate
from datamover.files.move_words import size

#: Cost, in bytes, of creating and reading a file of the intermediate.
FILE_COST_BYTES = 1 << 18
#: Limits of the search: chunk shapes considered, shapes of each kind planned with, and boxes tried
#: as steps for each.
MAX_SHAPES, MAX_PLANNED, MAX_STEPS = 20_000, 12, 216
#: How passes that read least are planned.
LEAST: dict[str, Any] = {"most_shapes": MAX_STEPS, "reads_least": True}
#: Maximum additional bytes of a file on the disk.
BLOCK_BYTES = 4096
#: Number of times that one pass may read each chunk of the input.
MOST_READS = 2
#: Least ratio of costs for two passes if one pass reads everything once, but in short pieces.
CLEAR_GAIN = 2
#: Without room for an intermediate, one pass may cost this many times as much as two.
BEARABLE = 5
#: A plan is good enough if no other can cost less than this part of its cost.
ENOUGH = 0.95


@dataclasses.dataclass(frozen=True)
class MovePlan:
    """Passes of a move.

    Attributes
    ----------
    passes : tuple of ChunkPlan
        One, or two.
    reason : str
        The reason for the number of passes.
    chunk : tuple of int, optional
        Extents of the intermediate's chunks, in the dimensions of the output's file.
    lack : str
        The directory with too little room for the intermediate; "" if there is enough.
    """

    passes: tuple[ChunkPlan, ...]
    reason: str
    chunk: Shape | None = None
    lack: str = ""

    @property
    def read_bytes(self) -> int:
        """Bytes read by all passes."""
        return sum(plan.read_bytes for plan in self.passes)

    @property
    def written_bytes(self) -> int:
        """Bytes written by all passes."""
        return sum(plan.written_bytes for plan in self.passes)

    @property
    def reads(self) -> int:
        """Number of chunks or pieces of the input that are read."""
        return self.passes[0].reads

    @property
    def rereads(self) -> float:
        """How often a chunk of the input is read on average; pieces of flat files once."""
        first = self.passes[0]
        return 1.0 if first.source.is_flat else first.reads / first.source_chunks

    @property
    def memory_bytes(self) -> int:
        """Sufficient memory for each pass."""
        return max(plan.memory_bytes for plan in self.passes)

    @property
    def cost(self) -> float:
        """Cost of the thread with the most to do, in bytes read."""
        cost = sum(plan.cost_per_thread for plan in self.passes)
        return cost + self._files() * FILE_COST_BYTES

    def _files(self) -> float:
        """Return the number of files of the intermediate, for each process."""
        if self.chunk is None:
            return 0
        return self.passes[1].reads / self.passes[1].processes


@dataclasses.dataclass(frozen=True)
class Room:
    """Free space, and that needed by an intermediate, and by the output if on the same disk."""

    directory: str
    needed_bytes: int
    free_bytes: int


def plan_move(source: Source, sink: Sink, limits: Limits, room: Room) -> MovePlan:
    """Choose the passes: two if they read fewer bytes, or cost far less, and there is room.

    Raises
    ------
    NoMemory
        No plan fits.
    """
    plan = cheapest(source, sink, limits)
    one = MovePlan((plan,), "")
    if one.rereads > MOST_READS:
        plan = cheapest(source, sink, limits, **LEAST)
        one = MovePlan((plan,), "")
    if not plan.source.is_flat and one.rereads <= MOST_READS:
        times = "once" if one.rereads == 1 else "twice at most"
        return MovePlan((plan,), f"no intermediate: one pass reads each chunk {times}")
    if one.rereads <= MOST_READS and one.cost <= CLEAR_GAIN * FILE_COST_BYTES / limits.processes:
        return MovePlan((plan,), "no intermediate: one pass costs less")  # than its first file
    two = _two_passes(source, sink, limits)
    if two is None:
        return MovePlan((plan,), "no intermediate: none fits the memory limit")
    reads_less = two.read_bytes < one.read_bytes
    if not reads_less and CLEAR_GAIN * two.cost >= one.cost:
        return MovePlan((plan,), "no intermediate: one pass costs less")
    lack = ""
    needed_bytes = room.needed_bytes + two.passes[1].reads * BLOCK_BYTES
    if needed_bytes > room.free_bytes:
        lack = (
            f"{room.directory} has {size(room.free_bytes)} free, {size(needed_bytes)} are needed; "
            f"{option('temporary')} names another directory"
        )
        if one.cost <= BEARABLE * two.cost:
            return MovePlan((plan,), f"no intermediate: {lack}")
    why = f"{size(one.read_bytes)} would be read" if reads_less else "its pieces would be short"
    return dataclasses.replace(two, reason=f"not in one pass: {why}", lack=lack)


def _two_passes(source: Source, sink: Sink, limits: Limits) -> MovePlan | None:
    """Return the intermediate with the least cost of two passes; None if there is none."""
    best: MovePlan | None = None
    for count in limits.counts():
        least = 4 * math.prod(sink.shape) * source.itemsize / count / limits.processes
        for chunk, files in _chunks(source, sink, limits.max_bytes, count):
            file_cost = files / limits.processes * FILE_COST_BYTES
            if best and best.rereads == 1 and least + file_cost >= ENOUGH * best.cost:
                continue
            to, back = between(Intermediate(ArraySpec(sink.shape, source.dtype), chunk))
            with contextlib.suppress(NoMemory):
                first = cheapest(source, to, limits, **LEAST)
                second = cheapest(back, sink, limits, most_shapes=MAX_STEPS)
                found = MovePlan((first, second), "", chunk)
                best = min((best or found, found), key=lambda plan: (plan.rereads > 1, plan.cost))
        if best:
            break
    return best


def between(middle: Intermediate) -> tuple[Sink, Source]:
    """Return an intermediate as output of the first and input of the second pass.

    Its dimensions are those of the output's file.
    """
    return Sink(middle, middle.spec), Source(middle, tuple(range(len(middle.granule))))


def _chunks(
    source: Source, sink: Sink, max_bytes: int, threads: int
) -> Iterator[tuple[Shape, int]]:
    """Yield possible extents of chunks of the intermediate: (extents, number of chunks).

    For each, the threads have memory to cover a chunk of the input in the first pass. The first
    ones end at the ends of the input's chunks, so that the first pass reads these once; among them,
    the first ones are those that output chunks can cover in the second pass.
    """
    shape, itemsize = sink.shape, source.itemsize
    read = (1,) * len(shape) if source.is_flat else source.chunk_within(max_bytes)
    written = (1,) * len(shape) if sink.is_flat else sink.chunk
    # If there are several extents along a dimension, the largest ones.
    read, written = tuple(map(int, read)), tuple(map(int, written))
    most = max(3, int(MAX_SHAPES ** (1 / len(shape))))
    extents = [_extents(*along, most) for along in zip(shape, read, written, strict=True)]
    chunks = np.meshgrid(*(np.array(e, float) for e in extents), indexing="ij", sparse=True)
    count = elems = covering_input = covered = np.array(1.0)
    is_aligned = np.array(True)
    for n, r, w, c in zip(shape, read, written, chunks, strict=True):
        count = count * np.ceil(n / c)
        elems = elems * c
        covering_input = covering_input * np.ceil(min(r, n) / c) * c
        covered = covered * np.ceil(c / w) * w
        is_aligned = is_aligned & ((c % r == 0) | (r % c == 0) | (np.maximum(c, r) >= n))
    scratch = [
        0 if file.is_flat else file.side(chunk).chunk_scratch_bytes
        for file, chunk in ((source, read), (sink, written))
    ]
    room = max_bytes - threads * np.maximum(scratch[1], elems * itemsize)
    fits = covering_input * itemsize <= max_bytes - threads * scratch[0]
    fits &= math.prod(written) * itemsize <= room
    is_covered = covered * itemsize <= room
    for some in (is_aligned & is_covered, is_aligned & ~is_covered, ~is_aligned & is_covered):
        at = np.flatnonzero(fits & some)
        at = at[np.argsort(count.ravel()[at], kind="stable")][:MAX_PLANNED]
        for places in zip(*np.unravel_index(at, fits.shape), strict=True):
            chunk = tuple(e[int(p)] for e, p in zip(extents, places, strict=True))
            yield chunk, num_boxes(shape, chunk)


def _extents(n: int, read: int, written: int, most: int) -> list[int]:
    """Return possible extents of chunks along a dimension: multiples and divisors of the others.

    Examples
    --------
    >>> from datamover.files.move_plan import _extents
    >>> _extents(24, 1, 8, 20)
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 17, 22, 24]
    """
    found = {min(read, n), min(written, n), n}
    for unit in (read, written):
        found |= {count * unit for count in counts_up_to((n - 1) // unit)}
        for k in range(1, math.isqrt(unit) + 1):
            if unit % k == 0:
                found |= {k, unit // k}
    kept = sorted(extent for extent in found if extent <= n)
    if len(kept) <= most:
        return kept
    thinned = {kept[i * (len(kept) - 1) // (most - 1)] for i in range(most)}
    return sorted(thinned | {min(read, n), min(written, n)})
