# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of several extents along a dimension: plans agree with an enumeration of all chunks, and
each chunk is written once, whole."""

import copy
import itertools
import math
import os
import subprocess
import sys
import tempfile
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from mpi4py import MPI

import datamover as dm
from datamover.errors import NoMemory
from datamover.files import array_steps, chunk_grid, intend, move
from datamover.files.chunk_grid import Uneven, window
from datamover.files.chunk_plan import Limits
from datamover.files.chunk_sides import Sink, Source, cheapest
from datamover.files.formats import ArraySpec, Reader
from datamover.files.pipeline import Pipeline

IS_IN_ZARR = "rectilinear_chunks" in zarr.config.get("array")
needs_zarr = pytest.mark.skipif(
    not IS_IN_ZARR, reason=f"zarr {zarr.__version__} has no rectilinear chunk grids"
)
COMM = MPI.COMM_SELF
QUICK = settings(deadline=None, suppress_health_check=[*HealthCheck])
FEW = settings(QUICK, max_examples=max(1, settings().max_examples // 4))
SHAPES = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)


@st.composite
def along(draw, n):
    """The chunks of a dimension: of one extent, or of several."""
    if draw(st.booleans()):
        return draw(st.integers(1, n + 2))
    ends = draw(st.sets(st.integers(1, n))) | {n}
    return window(sorted(ends), 0, n)


def ends_of(chunk, n):
    return list(chunk.ends) if isinstance(chunk, Uneven) else [*range(chunk, n, chunk), n]


def boxes_of(chunks, shape):
    """The chunks of an array, by their first elements: their ends."""
    ends = [ends_of(c, n) for c, n in zip(chunks, shape, strict=True)]
    pairs = [list(itertools.pairwise([0, *along])) for along in ends]
    return {tuple(a for a, _ in box): tuple(b for _, b in box) for box in itertools.product(*pairs)}


class InMemory(Reader):
    """An array with chunks that notes what is read and written."""

    def __init__(self, array, granule, is_flat=False):
        self.array, self.granule, self.is_flat = array, granule, is_flat
        self.spec = ArraySpec(array.shape, array.dtype)
        self.reads, self.writes, self.lock = [], [], threading.Lock()

    def _at(self, lo, part):
        return self.array[tuple(slice(a, a + n) for a, n in zip(lo, part.shape, strict=True))]

    def read(self, lo, out):
        with self.lock:
            self.reads.append((lo, out.shape))
        out.view(self.array.dtype)[...] = self._at(lo, out)

    def write(self, lo, part):
        with self.lock:
            self.writes.append((lo, part.shape))
        self._at(lo, part)[...] = part.view(self.array.dtype)


@settings(QUICK, max_examples=max(1, settings().max_examples))
@given(st.data(), SHAPES)
def test_each_chunk_is_written_once_and_whole(data, shape):
    values = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    lo = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    inner = tuple(data.draw(st.integers(1, n - a)) for a, n in zip(lo, shape, strict=True))
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    flat = data.draw(st.sampled_from(["neither", "source", "sink"]))
    grid = (1,) * len(shape)
    chunks = grid if flat == "source" else tuple(data.draw(along(n)) for n in shape)
    reader = InMemory(values, chunks, flat == "source")
    to = tuple(inner[a] for a in axes)
    written = grid if flat == "sink" else tuple(data.draw(along(n)) for n in to)
    writer = InMemory(np.full(to, -1, "i4"), written, flat == "sink")
    processes = data.draw(st.integers(1, 3))
    source = Source(reader, axes, None, lo, inner)
    sink = Sink(writer, writer.spec)
    limits = Limits(data.draw(st.integers(64, 20_000)), data.draw(st.integers(1, 3)), processes)
    try:
        plan = cheapest(source, sink, limits)
    except NoMemory:
        return
    assert plan.memory_bytes <= limits.max_bytes
    most = 0
    for rank in range(processes):
        pipeline = Pipeline(plan, source, sink, limits.max_bytes, lambda _: None, rank)
        taken = pipeline._memory
        allocated = []
        pipeline._memory = lambda lo: allocated.append(found := taken(lo)) or found  # noqa: B023
        pipeline.run()
        most = max([most, *(memory.nbytes for memory in allocated)])
    expected = values[tuple(slice(a, a + n) for a, n in zip(lo, inner, strict=True))]
    assert np.array_equal(writer.array, expected.transpose(axes))
    assert len(reader.reads) == plan.reads and most <= plan.group_bytes
    if flat != "sink":
        assert len(writer.writes) == len(set(writer.writes)) == plan.chunks
        boxes = boxes_of(written, to)
        for first, extents in writer.writes:
            assert boxes[first] == tuple(a + n for a, n in zip(first, extents, strict=True))
    if flat != "source" and plan.steps == 1:  # each chunk of several extents is read at once
        uneven = [d for d, chunk in enumerate(reader.granule) if isinstance(chunk, Uneven)]
        for first, extents in reader.reads:
            for d in uneven:
                met = chunk_grid.cells(first[d], first[d] + extents[d], reader.granule[d])
                assert len(met) == 1


@QUICK
@given(st.data(), SHAPES)
def test_processes_get_whole_chunks(data, shape):
    unit = tuple(data.draw(along(n)) for n in shape)
    nprocs = data.draw(st.integers(1, 5))
    regions, owners = array_steps.deal(shape, unit, data.draw(st.sampled_from("CF")), nprocs)
    owner = np.full(shape, -1)
    for (lo, hi), rank in zip(regions, owners, strict=True):
        here = owner[tuple(map(slice, lo, hi))]
        assert (here == -1).all()
        here[...] = rank
    assert owner.min() >= 0
    for lo, hi in boxes_of(unit, shape).items():
        assert len(np.unique(owner[tuple(map(slice, lo, hi))])) == 1


def test_what_is_asked_of_chunks_of_several_extents():
    chunk = window((3, 8, 10), 0, 10)
    assert (chunk, int(chunk), repr(chunk), f"{chunk}") == (Uneven((3, 8, 10)), 5, "3+5+2", "up to 5")
    assert copy.deepcopy(chunk) == chunk != 5
    assert window((4, 8, 10), 0, 10) == 4  # as ever
    assert window(chunk, 2, 7) == Uneven((1, 6, 7))
    twice = chunk_grid.several(chunk, 2)
    assert twice.ends == (8, 10) and chunk_grid.chunks_in(twice, chunk) == 2
    for act in (lambda: chunk // 2, lambda: 10 % chunk, lambda: 10 // chunk):
        with pytest.raises(TypeError, match="internal error"):
            act()
