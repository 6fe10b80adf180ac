# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of several extents along a dimension: plans agree with an enumeration, and zarr-python.

Each chunk is written once, and whole.
"""

import copy
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import warnings

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from mpi4py import MPI
from zarr.testing import strategies

import datamover as dm
from datamover.errors import NoMemory
from datamover.files import array_steps, chunk_grid, intend, move, move_plan, zarr_traits
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
PLACE = tempfile.TemporaryDirectory()  # removed at the end
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


def drawn_box(data, shape):
    """A box of elements of an array: its first element, and its end."""
    lo = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    return lo, tuple(data.draw(st.integers(a + 1, n)) for a, n in zip(lo, shape, strict=True))


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


@QUICK
@given(st.data(), SHAPES)
def test_each_chunk_is_written_once_and_whole(data, shape):
    values = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    lo, hi = drawn_box(data, shape)
    inner = tuple(b - a for a, b in zip(lo, hi, strict=True))
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
    expected = values[tuple(map(slice, lo, hi))]
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


def test_an_intermediate_is_planned_for_crossing_chunks():
    slices, pencils = window(range(2, 65, 3), 0, 64), window([10, 40, 64], 0, 64)
    reader = InMemory(np.zeros((64, 64, 64), "i4"), (slices, 64, 64))
    writer = InMemory(np.zeros((64, 64, 64), "i4"), (64, pencils, 2))
    room = move_plan.Room("/tmp", 0, 1 << 60)
    source, sink = Source(reader, (0, 1, 2)), Sink(writer, writer.spec)
    plan = move_plan.plan_move(source, sink, Limits(400_000, 1), room)
    assert len(plan.passes) == 2 and plan.memory_bytes <= 400_000
    assert plan.passes[0].source_chunks == len(slices.ends) and plan.passes[1].chunks == 3 * 32


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
    assert (chunk, int(chunk), repr(chunk), f"{chunk}") == (
        Uneven((3, 8, 10)),
        5,
        "3+5+2",
        "up to 5",
    )
    assert copy.deepcopy(chunk) == chunk != 5
    assert window((4, 8, 10), 0, 10) == 4  # as ever
    assert window(chunk, 2, 7) == Uneven((1, 6, 7))
    for at in range(-1, 12):
        begins = chunk_grid.is_begin(at, chunk), chunk_grid.is_begin(np.array([at]), chunk)
        assert begins == (at in (0, 3, 8, 10),) * 2
    assert repr(window(range(2, 101, 3), 0, 101)) == "2" + "+3" * 19 + "+... (34 chunks)"
    twice = chunk_grid.several(chunk, 2)
    assert twice.ends == (8, 10) and chunk_grid.chunks_in(twice, chunk) == 2
    for act in (lambda: chunk // 2, lambda: 10 % chunk, lambda: 10 // chunk):
        with pytest.raises(TypeError, match="internal error"):
            act()


def chunk_shapes(path, said):
    """Replace the chunks in an array's metadata by those of a rectilinear grid."""
    with open(f"{path}/zarr.json") as file:
        metadata = json.load(file)
    configuration = {"kind": "inline", "chunk_shapes": said}
    metadata["chunk_grid"] = {"name": "rectilinear", "configuration": configuration}
    with open(f"{path}/zarr.json", "w") as file:
        json.dump(metadata, file)


def make(path, values, said, **options):
    """Write an array by zarr-python, and return it."""
    array = zarr.create_array(
        path, shape=values.shape, dtype=values.dtype, **{"chunks": (1,) * values.ndim} | options
    )
    chunk_shapes(path, said)
    if IS_IN_ZARR:
        array = opened(path, "r+")
        array[...] = values
    return array


def opened(path, mode="r"):
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(path, mode=mode)


@st.composite
def stored(draw):
    """An array of zarr-python's strategies with a rectilinear grid, in a directory."""
    place = tempfile.mkdtemp(dir=PLACE.name)
    shape = draw(st.lists(st.integers(1, 14), min_size=1, max_size=3).map(tuple))
    if hasattr(strategies, "rectilinear_chunk_shape_declarations"):
        said, _ = draw(strategies.rectilinear_chunk_shape_declarations(shape=shape))
    else:
        said = draw(strategies.rectilinear_chunks(shape=shape))
    dtype = draw(st.sampled_from(["i2", "f8", "c8", "u1"]))
    values = np.arange(math.prod(shape)).reshape(shape)
    values = (values * (values % 5 > 0)).astype(dtype)  # 0 is the fill value
    zarr.create_group(f"{place}/a.zarr")
    names = draw(st.sampled_from([None, "xyz"[: len(shape)]]))
    make(f"{place}/a.zarr/u", values, said, fill_value=0, dimension_names=names)
    return place, values, names


def inner_ends(array):
    return [tuple(itertools.accumulate(sizes)) for sizes in array.write_chunk_sizes]


@needs_zarr
@FEW
@given(stored(), st.data())
def test_zarr_python_reads_what_was_moved(drawn, data):
    place, values, names = drawn
    source, shape = f"{place}/a.zarr/u", values.shape
    before = opened(source)
    move(source, f"{place}/b.zarr", check="crc32c")
    made = opened(f"{place}/b.zarr")
    assert made[...].tobytes() == values.tobytes()
    assert made.write_chunk_sizes == before.write_chunk_sizes
    assert made.metadata.dimension_names == (names and tuple(names))
    assert sorted(os.listdir(f"{place}/b.zarr")) == sorted(os.listdir(source))

    region = list(zip(*drawn_box(data, shape), strict=True))
    axes = tuple(data.draw(st.permutations(range(values.ndim))))
    expected = values[tuple(slice(*one) for one in region)].transpose(axes)
    move(source, f"{place}/c.zarr", region=region, axes=axes)
    made = opened(f"{place}/c.zarr")
    assert np.array_equal(made[...], expected)
    for d, axis in enumerate(axes):  # chunks end where they did
        begin, end = region[axis]
        ends = {e - begin for e in inner_ends(before)[axis] if begin < e < end}
        first, *rest = before.write_chunk_sizes[axis]
        if any(size != first for size in rest[:-1]) or rest[-1:] > [first]:  # not as of one extent
            assert ends == set(inner_ends(made)[d][:-1])
    largest = math.prod(map(max, before.write_chunk_sizes)) * values.itemsize
    move(source, f"{place}/d.npy", region=region, axes=axes, max_bytes=4000 + 6 * largest)
    assert np.array_equal(np.load(f"{place}/d.npy"), expected)
    move(source, f"{place}/e.h5:/u", compressor="gzip")
    with h5py.File(f"{place}/e.h5") as file:
        assert np.array_equal(file["u"][...], values)
    chunks = tuple(tuple(sizes) for sizes in data.draw(strategies.rectilinear_chunks(shape=shape)))
    for other in (source, f"{place}/e.h5:/u"):
        move(other, f"{place}/f.zarr", chunks=chunks, overwrite=True, compressor="none")
        made = opened(f"{place}/f.zarr")
        assert np.array_equal(made[...], values) and made.write_chunk_sizes == chunks


@needs_zarr
@FEW
@given(stored(), st.data())
def test_programs_read_and_change_what_zarr_python_wrote(drawn, data):
    place, values, _ = drawn
    source, shape = f"{place}/a.zarr/u", values.shape
    move(f"{place}/a.zarr", f"{place}/b.zarr")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        copied = zarr.open_group(f"{place}/b.zarr", mode="r")["u"]  # by its consolidated metadata
    assert np.array_equal(copied[...], values)
    assert copied.write_chunk_sizes == opened(source).write_chunk_sizes
    move(f"{place}/a.zarr", f"{place}/b.h5")
    assert np.array_equal(dm.load(f"{place}/a.zarr", {"u": None}, comm=COMM)["u"], values)

    layout = dm.BlockCyclic(shape, f"({', '.join('*' * len(shape))})", nprocs=1)
    whole = dm.redistribute(layout, layout)
    largest = math.prod(map(max, opened(source).write_chunk_sizes)) * values.itemsize
    got = np.zeros(shape, values.dtype)
    most = 2 * largest * data.draw(st.sampled_from([1, 5, 1000]))
    with dm.files.open(source, layout, comm=COMM, max_bytes=most) as file:
        dm.Mover(whole, file, got)()
    assert np.array_equal(got, values)
    lo, hi = drawn_box(data, shape)
    part = dm.redistribute(layout, layout, None, dm.Region(lo, hi), dm.Region(lo, hi))
    with dm.files.open(source, layout, comm=COMM, mode="r+", max_bytes=most) as file:
        mover = dm.Mover(part, np.full(shape, 7, values.dtype), file)
        for _ in range(2):
            mover()
    values[tuple(map(slice, lo, hi))] = 7
    assert np.array_equal(opened(source)[...], values)


@needs_zarr
def test_shards_of_several_extents(tmp_path):
    values = np.arange(240, dtype="i4").reshape(20, 12)
    source = str(tmp_path / "a.zarr")
    make(source, values, [[8, 2, 10], 6], chunks=(2, 3), shards=(20, 6))
    move(source, tmp_path / "b.zarr")
    made = opened(tmp_path / "b.zarr")
    assert np.array_equal(made[...], values) and made.chunks == (2, 3)
    assert made.write_chunk_sizes == ((8, 2, 10), (6, 6))
    move(source, tmp_path / "c.zarr", region=((1, 20), (0, 12)))  # shards would end within chunks
    made = opened(tmp_path / "c.zarr")
    assert np.array_equal(made[...], values[1:]) and (made.chunks, made.shards) == ((2, 3), None)


@needs_zarr
@pytest.mark.parametrize("said", [[[4]], [4], [[4, 8]], [[4, 4, 4]]])
@pytest.mark.parametrize("n", [3, 4])
def test_shards_may_end_beyond_the_array(tmp_path, said, n):
    values = np.arange(n, dtype="i4")
    make(str(tmp_path / "a.zarr"), values, said, chunks=(2,), shards=(4,))
    move(tmp_path / "a.zarr", tmp_path / "b.zarr")
    made = opened(tmp_path / "b.zarr")
    assert np.array_equal(made[...], values) and made.chunks == (2,)


#: Programs: zarr-python refuses such arrays in each process that does not permit them.
JOINED = """if True:
    from datamover.files import move
    move(["a.zarr", "b.zarr"], "c.zarr", along="time", chunks={chunks})
"""
APPENDED = """if True:
    from datamover.files import move
    move(["d.zarr"], "c.zarr", along="time", append=True)
"""
RESUMED = """if True:
    import numpy as np
    import datamover as dm
    from mpi4py import MPI
    line = dm.BlockCyclic((8,), "(block)", nprocs=1)
    state = {"u": (np.arange(8.0), line)}
    with dm.series("run.zarr", state, comm=MPI.COMM_SELF, resume=%s) as run:
        run.append(time=1.0)
"""


def run_apart(place, program):
    subprocess.run([sys.executable, "-c", program], check=True, cwd=place, timeout=120)


@needs_zarr
@pytest.mark.parametrize("chunks", [None, (4, (3, 5))])
def test_groups_are_joined_and_appended_to(tmp_path, chunks):
    every = []
    for name, n, said in (("a", 6, [[1, 5], [3, 5]]), ("b", 4, [[3, 1], 8]), ("d", 5, [2, [3, 5]])):
        begin = 10 * len(every)
        zarr.create_group(tmp_path / f"{name}.zarr")
        zarr.create_array(
            tmp_path / f"{name}.zarr/time",
            data=np.arange(begin, begin + n, dtype="f8"),
            dimension_names=("time",),
        )
        every.append(np.arange(n * 8.0).reshape(n, 8) + begin)
        place = str(tmp_path / f"{name}.zarr/u")
        make(place, every[-1], said, dimension_names=("time", "x"))
    run_apart(tmp_path, JOINED.format(chunks=chunks))
    made = opened(tmp_path / "c.zarr/u")
    assert np.array_equal(made[...], np.concatenate(every[:2]))
    assert chunks is None or made.write_chunk_sizes == ((4, 4, 2), (3, 5))
    run_apart(tmp_path, APPENDED)
    assert np.array_equal(opened(tmp_path / "c.zarr/u")[...], np.concatenate(every))


@needs_zarr
def test_a_series_has_other_arrays_of_several_extents(tmp_path):
    run_apart(tmp_path, RESUMED % False)
    other = np.arange(8.0)[None]
    make(str(tmp_path / "run.zarr/v"), other, [1, [3, 5]], dimension_names=("time", "z"))
    run_apart(tmp_path, RESUMED % True)
    assert opened(tmp_path / "run.zarr/u").shape == (2, 8)
    assert np.array_equal(opened(tmp_path / "run.zarr/v")[:1], other)


@needs_zarr
def test_datasets_of_xarray_keep_their_chunks(tmp_path):
    xr = pytest.importorskip("xarray")
    from datamover.xarray import to_zarr

    values, place = np.arange(80.0).reshape(10, 8), str(tmp_path / "a.zarr")
    zarr.create_group(place)
    make(f"{place}/u", values, [[3, 5, 2], 4], dimension_names=("y", "x"))
    with zarr.config.set({"array.rectilinear_chunks": True}):
        found = xr.open_zarr(place, chunks=None, consolidated=False)
        if found.u.encoding["chunks"] != ((3, 5, 2), 4):
            pytest.skip("this xarray does not return such chunks")
        to_zarr(found, tmp_path / "b.zarr")
        to_zarr(found.isel(y=slice(1, 8)), tmp_path / "c.zarr")
        to_zarr(found, tmp_path / "d.zarr", {"y": 4})
    made = opened(tmp_path / "b.zarr/u")
    assert np.array_equal(made[...], values) and made.write_chunk_sizes == ((3, 5, 2), (4, 4))
    part = opened(tmp_path / "c.zarr/u")
    assert np.array_equal(part[...], values[1:8]) and part.chunks == (5, 4)
    assert opened(tmp_path / "d.zarr/u").chunks == (4, 4)


@needs_zarr
def test_strings_keep_their_chunks(tmp_path):
    values = np.array(["a", "bc", "", "def", "g"], dtype="T")
    source = str(tmp_path / "a.zarr")
    zarr.create_array(source, shape=(5,), chunks=(5,), dtype=str)
    chunk_shapes(source, [[1, 3, 1]])
    opened(source, "r+")[...] = values
    move(source, tmp_path / "b.zarr")
    made = opened(tmp_path / "b.zarr")
    assert list(made[...]) == list(values) and made.write_chunk_sizes == ((1, 3, 1),)


@needs_zarr
@pytest.mark.parametrize("processes", [[], ["-n", "2"]])
def test_on_the_command_line(tmp_path, processes):
    values = np.arange(80.0).reshape(10, 8)
    np.save(tmp_path / "a.npy", values)

    def run(*words):
        command = [sys.executable, "-m", "datamover", "move", *words, *processes, "-q"]
        subprocess.run(command, check=True, cwd=tmp_path, timeout=120)

    run("a.npy", "b.zarr", "--chunks", "3+5+2,4")
    run("b.zarr", "c.npy")
    made = opened(tmp_path / "b.zarr")
    assert np.array_equal(made[...], values) and made.write_chunk_sizes == ((3, 5, 2), (4, 4))
    assert np.array_equal(np.load(tmp_path / "c.npy"), values)


def test_format_2_is_read_without_warnings(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(10), chunks=(4,), zarr_format=2)
    with warnings.catch_warnings(action="error"):
        array = zarr.open_array(tmp_path / "a.zarr", mode="r")
        assert zarr_traits.granule_of(array) == (4,)


@needs_zarr
def test_plans_count_what_is_read_and_held(tmp_path):
    values = np.arange(10 * 8 * 50.0).reshape(10, 8, 50)
    source = str(tmp_path / "a.zarr")
    make(source, values, [[3, 5, 2], 4, [1, 2] * 16 + [2]])
    for output in ("b.zarr", "b.npy"):
        (plan,) = intend(source, str(tmp_path / output)).plan.passes
        assert plan.steps == 1 and plan.read_bytes == values.nbytes
        held = map(chunk_grid.chunks_in, plan.group, plan.output.chunk)
        cells = math.prod(held) * math.prod(map(int, plan.output.chunk))
        assert plan.group_bytes == cells * values.itemsize


@needs_zarr
def test_more_data_than_memory(tmp_path):
    """Slices become pencils: in two passes, and each chunk is written once."""
    values = np.random.default_rng(0).integers(0, 99, (40, 50, 60), "i4")
    source, sizes = str(tmp_path / "a.zarr"), [1, 2, 1, 3, 1, 2] * 4
    make(source, values, [sizes, 50, [7, 53]])
    options = {"chunks": (40, (20, 5, 25), 6), "max_bytes": 250_000, "compressor": "none"}
    plan = intend(source, str(tmp_path / "b.zarr"), **options).plan
    assert len(plan.passes) == 2 and plan.memory_bytes <= 250_000
    move(source, tmp_path / "b.zarr", check="crc32c", **options)
    assert np.array_equal(opened(tmp_path / "b.zarr")[...], values)


def test_what_is_refused(tmp_path):
    values = np.arange(80).reshape(10, 8)
    np.save(tmp_path / "a.npy", values)
    refused = dm.errors.InvalidArgument
    for chunks, words in (
        (((3, 5), 4), "3.5 of dimension 0 must be positive and have 10"),
        (((3, 7, 0), 4), "must be positive"),
        (((), 4), r"chunks \(\) of dimension 0"),
        (((3, 7), (4, 4), 1), "have 3 dimensions"),
        ((3, 7, 0), "have 3 dimensions"),
    ):
        with pytest.raises(refused, match=words):
            move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=chunks)
    uneven = ((3, 5, 2), 4)
    for name, options, words in (
        ("b.zarr", {"zarr_format": 2}, "Zarr format 2 cannot have"),
        ("b.zarr", {"shards": (10, 8)}, "which shards cannot have"),
        ("b.h5", {}, "HDF5 has one extent per dimension"),
    ):
        with pytest.raises(refused, match=words):
            move(tmp_path / "a.npy", tmp_path / name, chunks=uneven, **options)
    with pytest.raises(dm.errors.WrongType, match="chunks is 'abc'"):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks="abc")
    assert os.listdir(tmp_path) == ["a.npy"]
    move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=((4, 4, 2), (3, 3, 2)))  # as 4, 3
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").chunks == (4, 3)


@pytest.mark.skipif(IS_IN_ZARR, reason="this zarr-python has rectilinear chunk grids")
def test_older_versions_of_zarr_are_named(tmp_path):
    values = np.arange(80).reshape(10, 8)
    zarr.create_group(tmp_path / "a.zarr")
    make(str(tmp_path / "a.zarr/u"), values, [[3, 5, 2], 4])
    np.save(tmp_path / "a.npy", values)
    words = rf"zarr-python 3\.2 and Python 3\.12, or newer.* {zarr.__version__} and Python 3\."
    layout = dm.BlockCyclic((10, 8), "(*, *)", nprocs=1)
    for act in (
        lambda: move(tmp_path / "a.zarr", tmp_path / "b.zarr"),
        lambda: move(tmp_path / "a.zarr/u", tmp_path / "b.npy"),
        lambda: dm.load(tmp_path / "a.zarr", {"u": layout}, comm=COMM),
        lambda: dm.files.open(tmp_path / "a.zarr/u", layout, comm=COMM),
        lambda: move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=((3, 5, 2), 4)),
        lambda: dm.save(
            tmp_path / "b.zarr", {"u": (values, layout)}, comm=COMM, chunks={"u": ((3, 7), 8)}
        ),
    ):
        with pytest.raises(dm.errors.Unsupported, match=words) as raised:
            act()
        assert "pip install -U zarr" in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "a.zarr"]
