# SPDX-License-Identifier: BSD-3-Clause
"""Plans of chunks: agree with an enumeration chunk by chunk."""

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from datamover.errors import NoMemory
from datamover.files import chunk_sides
from datamover.files.chunk_plan import (
    ChunkPlan,
    Limits,
    Pair,
    Side,
    most_open_groups,
    plan_chunks,
    reads_of,
    runs,
)

SHAPES = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)


def extents(draw, shape, most=14):
    return tuple(draw(st.integers(1, most)) for _ in shape)


@st.composite
def problems(draw):
    shape = draw(SHAPES)
    dims = tuple(range(len(shape)))
    sides = [
        Side(extents(draw, shape), draw(st.permutations(dims).map(tuple)), draw(st.integers(0, 50)),
             draw(st.booleans()))
        for _ in range(2)
    ]  # fmt: skip
    return shape, draw(st.sampled_from([1, 3, 8])), sides, draw(st.integers(1, 9000))


def planned(shape, itemsize, sides, max_bytes, threads, processes=1):
    pairs = [Pair(shape, itemsize, *pair) for pair in sides]
    return plan_chunks(pairs, Limits(max_bytes, threads, processes))


def cells_of(box, chunk):
    """The indices of the chunks that meet a box."""
    return set(
        itertools.product(*(range(a // c, -(-b // c)) for a, b, c in zip(*box, chunk, strict=True)))
    )


def box_of(cell, chunk, shape):
    lo = tuple(i * c for i, c in zip(cell, chunk, strict=True))
    return lo, tuple(min(a + c, n) for a, c, n in zip(lo, chunk, shape, strict=True))


def walk(plan):
    """Carry a plan out with counters: reads of each element, and the most open groups."""
    seen = np.zeros(plan.shape, int)
    reads = most = 0
    for lo, hi in plan.boxes():
        cells = list(plan.source_cells(lo, hi))
        assert len(set(cells)) == len(cells) and set(cells) == cells_of((lo, hi), plan.source.chunk)
        groups_of = []
        for cell in cells:
            first, last = box_of(cell, plan.source.chunk, plan.shape)
            part = tuple(map(max, first, lo)), tuple(map(min, last, hi))
            seen[tuple(map(slice, *part))] += 1
            groups_of.append(cells_of(part, plan.group))
        reads += len(cells)
        closes = {group: i for i, groups in enumerate(groups_of) for group in groups}
        opened = set()
        for i, groups in enumerate(groups_of):
            opened |= groups
            most = max(most, len(opened))
            opened -= {group for group in groups if closes[group] == i}
        assert not opened
        # A group lies in one step.
        for group in closes:
            a, b = box_of(group, plan.group, plan.shape)
            assert all(map(int.__ge__, a, lo)) and all(map(int.__le__, b, hi))
    return seen, reads, most


@settings(max_examples=60, deadline=None)
@given(problems())
def test_every_element_is_read_once_and_groups_fit(problem):
    shape, itemsize, (source, output), max_bytes = problem
    least = math.prod(output.chunk) * itemsize + max(
        source.chunk_scratch_bytes, output.chunk_scratch_bytes
    )
    try:
        plan = planned(shape, itemsize, [(source, output)], max_bytes, threads=4)
    except NoMemory as e:
        assert max_bytes < least and f"{least:,}" in str(e)
        return
    assert max_bytes >= least  # whatever is refused could not be done
    seen, reads, most = walk(plan)
    assert (seen == 1).all()
    assert reads == plan.reads and most <= plan.open_groups
    assert plan.memory_bytes <= max_bytes and 1 <= plan.threads <= 4
    assert all(g % c == 0 for g, c in zip(plan.group, output.chunk, strict=True))
    assert plan.source_chunks == len(cells_of(((0,) * len(shape), shape), source.chunk))
    if not source.is_flat:
        assert plan.read_bytes == reads * math.prod(source.chunk) * itemsize
    assert plan.read_bytes >= plan.written_bytes == math.prod(shape) * itemsize


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES)
def test_the_bound_on_open_groups_is_above_what_is_open(data, shape):
    chunk = extents(data.draw, shape)
    unit = extents(data.draw, shape, 5)
    group = tuple(u * data.draw(st.integers(1, 3)) for u in unit)
    box = tuple(min(g * data.draw(st.integers(1, 4)), n) for g, n in zip(group, shape, strict=True))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    plain = tuple(range(len(shape)))
    source, output = Side(chunk, plain, 0, False), Side(unit, plain, 0, False)
    bound = most_open_groups(shape, chunk, group, box, order)
    _, _, most = walk(ChunkPlan(shape, 1, source, output, group, box, order, bound, 1))
    assert most <= bound
    if all(g % c == 0 or c % g == 0 for g, c in zip(group, chunk, strict=True)) and box == shape:
        assert most == bound  # exact where chunks and groups end together


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 60), st.integers(1, 60))
def test_reads_are_counted_step_by_step(extent, chunk, box):
    steps = [(lo, min(lo + box, extent)) for lo in range(0, extent, box)]
    assert reads_of(extent, chunk, box) == sum(-(-hi // chunk) - lo // chunk for lo, hi in steps)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4), st.integers(1, 5))
def test_a_long_dimension_has_no_more_open_groups_than_several_periods(chunk, unit, groups, boxes):
    """What repeats is not gone through again: no list is as long as the dimension."""
    group = unit * groups
    box = group * boxes
    period = math.lcm(chunk, box)
    some, most = (
        most_open_groups((n * period + 1,), (chunk,), (group,), (box,), (0,)) for n in (3, 1 << 40)
    )
    assert some == most


@pytest.mark.parametrize("shape", [(1 << 40,), (2, 1 << 39), (1 << 20, 1 << 20)])
def test_one_chunk_of_a_long_flat_file_is_planned_without_going_through_it(shape):
    plain = tuple(range(len(shape)))
    sides = [(Side((1,) * len(shape), plain, 0, True), Side(shape, plain, 0, False))]
    plan = planned(shape, 4, sides, 1 << 43, threads=2)
    assert plan.steps == plan.open_groups == 1


@settings(max_examples=60, deadline=None)
@given(problems())
def test_enough_memory_reads_each_chunk_once(problem):
    shape, itemsize, (source, output), _ = problem
    source = Side(source.chunk, source.axes, source.chunk_scratch_bytes, is_flat=False)
    plan = planned(shape, itemsize, [(source, output)], 1 << 40, threads=2)
    assert plan.reads == plan.source_chunks and plan.threads == 2


@pytest.mark.parametrize("chunk", [(100, 100), (64, 1000), (7, 13)])
def test_chunks_that_do_not_divide_each_other_go_by_in_a_band(chunk):
    """One step, without the whole array in memory."""
    plain = (0, 1)
    sides = [(Side(chunk, plain, 0, False), Side((64, 64), plain, 0, False))]
    plan = planned((1000, 1000), 4, sides, 1_600_000, threads=1)
    assert plan.steps == 1 and plan.memory_bytes <= 1_600_000 < 4_000_000


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES, st.sampled_from([1, 4, 8]))
def test_boxes_of_flat_files(data, shape, itemsize):
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    other = tuple(data.draw(st.permutations(range(len(shape)))))
    limit = data.draw(st.integers(1, 20_000))
    box = chunk_sides.contiguous(shape, axes, itemsize, limit)
    assert runs(box, shape, axes) == 1 and all(1 <= b <= n for b, n in zip(box, shape, strict=True))
    assert math.prod(box) * itemsize <= max(limit, itemsize)
    start = extents(data.draw, shape, 3)
    tile = chunk_sides.grown(start, shape, [axes, other], itemsize, limit)
    first = math.prod(map(min, start, shape)) * itemsize
    assert math.prod(tile) * itemsize <= max(limit, first)
    assert all(t % s == 0 or t == n for t, s, n in zip(tile, start, shape, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES)
def test_runs_are_the_contiguous_pieces_of_a_box(data, shape):
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    box = tuple(data.draw(st.integers(1, n)) for n in shape)
    addresses = np.arange(math.prod(shape)).reshape([shape[a] for a in axes])
    inside = np.sort(addresses[tuple(slice(0, box[a]) for a in axes)].ravel())
    assert runs(box, shape, axes) >= 1 + (np.diff(inside) != 1).sum()


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(2, 7))
def test_processes_share_all_steps_and_none_has_more_than_said(problem, processes):
    shape, itemsize, sides, _ = problem
    plan = planned(shape, itemsize, [tuple(sides)], 1 << 30, threads=2, processes=processes)
    seen = np.zeros(shape, int)
    most = 0
    for rank in range(processes):
        own = list(plan.boxes(rank))
        for box in own:
            seen[tuple(map(slice, *box))] += 1
        most = max(most, sum(math.prod(b - a for a, b in zip(*box, strict=True)) for box in own))
    assert (seen == 1).all()
    alone = planned(shape, itemsize, [tuple(sides)], 1 << 30, threads=2)
    assert plan.cost_bytes <= alone.cost_bytes
    nbytes = alone.written_bytes
    assert plan.cost_bytes >= most / math.prod(shape) * 2 * nbytes - 1


def test_processes_do_not_read_the_same_chunks_where_they_need_not():
    cubes = Side((8, 8, 8), (0, 1, 2), 0, is_flat=False)
    plates = Side((64, 64, 4), (0, 1, 2), 0, is_flat=False)
    for processes in (2, 4, 8):
        plan = planned((64, 64, 64), 4, [(cubes, plates)], 1 << 30, 1, processes)
        assert plan.reads == plan.source_chunks and plan.steps == processes
