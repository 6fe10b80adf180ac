# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on disk: any plan reads and writes them, section by section, and repeatedly.

NumPy, zarr-python and h5py read what is written and write what is read.
"""

import errno
import gc
import os
import threading
import warnings

import drawn
import h5py
import numpy as np
import pytest
import zarr
from mpi4py import MPI
from others import stored

import datamover as dm
from datamover.files import agreement, file_array, file_mover, flat, staged_moves

ENDS = ["npy", "raw", "zarr", "h5"]


@pytest.fixture
def local_rng(comm, rng):
    return np.random.default_rng([int(rng.integers(2**31)), comm.rank])


def name_of(place, end):
    return f"{place}/a.h5:/x/u" if end == "h5" else f"{place}/a.{end}"


def store(comm, name, whole, chunks=None):
    """Let others write."""
    if comm.rank == 0:
        if name.endswith(".npy"):
            np.save(name, whole)
        elif name.endswith(".raw"):
            whole.tofile(name)
        elif name.endswith(".zarr"):
            zarr.create_array(name, data=whole, chunks=chunks or whole.shape, overwrite=True)
        else:
            path, member = name.split(":/")
            with h5py.File(path, "w") as file:
                file.create_dataset(member, data=whole, chunks=chunks)
    comm.Barrier()


def some_chunks(rng, shape):
    return tuple(int(rng.integers(1, n + 1)) for n in shape)


def limit(rng, whole, chunks):
    """A limit of memory: none, or one with which the array goes in several steps."""
    chunk = int(np.prod(chunks)) if chunks else 8
    least = max(2 * chunk, whole.size // 3, 64) * whole.dtype.itemsize
    return int(rng.choice([1 << 28, least]))


def opened(comm, rng, name, layout, whole, mode, chunks=None):
    said = {"dtype": whole.dtype} if mode == "w" or name.endswith(".raw") else {}
    if mode == "w" and name.endswith(".zarr"):
        said["chunks"] = chunks
    ranks = [None, 1, [comm.size - 1]][rng.integers(3)]
    return dm.files.open(
        name, layout, comm=comm, mode=mode, ranks=ranks, max_bytes=limit(rng, whole, chunks), **said
    )


@pytest.mark.parametrize("end", ENDS)
def test_any_layout_to_a_file_and_back_transposed(comm, rng, local_rng, place, cases, end):
    for case in range(cases):
        os.makedirs(f"{place}/{case}", exist_ok=True)
        name = name_of(f"{place}/{case}", end)
        axes = [int(a) for a in rng.permutation(int(rng.integers(1, 4)))]
        whole = drawn.numbered(drawn.shape(rng, len(axes)), str(rng.choice(["f8", "i4", "c16"])))
        flip = rng.random(len(axes)) < 0.3
        turned = np.flip(whole.transpose(axes), np.flatnonzero(flip).tolist())
        chunks = some_chunks(rng, turned.shape) if end == "zarr" else None
        known = drawn.layout(rng, turned.shape, comm.size)
        given = drawn.Part(
            comm, rng, local_rng, drawn.layout(rng, whole.shape, comm.size), whole.dtype
        )
        given.fill(whole)
        comm.Barrier()
        with opened(comm, rng, name, known, turned, "w", chunks) as file:
            mover = dm.Mover(
                dm.redistribute(given.layout, known, axes=axes, flip=flip),
                given.arrays,
                file,
                comm=comm,
            )
            mover()
            given.fill(whole + 1)
            mover.start()
            mover.wait()
            mover.close()
        np.testing.assert_array_equal(stored(name, turned), turned + 1)
        back = drawn.Part(comm, rng, local_rng, drawn.layout(rng, whole.shape, comm.size), "c16")
        with opened(comm, rng, name, known, turned, "r", chunks) as file:
            way = [int(a) for a in np.argsort(axes)]
            plan = dm.redistribute(known, back.layout, axes=way, flip=flip[way])
            mover = dm.Mover(plan, file, back.arrays)
            mover.start()
            while not mover.test():
                pass
        back.assert_holds((whole + 1).astype("c16"))
        comm.Barrier()


@pytest.mark.parametrize("end", ENDS)
def test_sections_are_written_in_place_and_nothing_else(comm, rng, local_rng, place, cases, end):
    for _ in range(cases):
        shape = drawn.shape(rng, 2)
        whole = drawn.numbered(shape, "i4") + 1
        name = name_of(place, end)
        store(comm, name, whole, some_chunks(rng, shape) if end == "zarr" else None)
        known = drawn.layout(rng, shape, comm.size)
        lo = [int(rng.integers(0, n)) for n in shape]
        section = dm.Region(
            lo, [int(rng.integers(a + 1, n + 1)) for a, n in zip(lo, shape, strict=True)]
        )
        new = -drawn.numbered(section.shape, "i4")
        given = drawn.Part(comm, rng, local_rng, drawn.layout(rng, section.shape, comm.size), "i4")
        given.fill(new)
        expected = whole.copy()
        here = expected[section.slices()]
        op = [None, "add", "max"][rng.integers(3)]
        here[...] = {None: new, "add": here + 2 * new, "max": np.maximum(here, new)}[op]
        plan = dm.redistribute(given.layout, known, destination_region=section)
        # Who holds an element twice adds it once: a file has it once.
        chunks = None if end != "zarr" else zarr.open_array(name, mode="r").chunks
        with opened(comm, rng, name, known, whole, "r+", chunks) as file:
            mover = dm.Mover(plan, given.arrays, file, op=op, comm=comm)
            mover()
            if op == "add":
                mover()
        np.testing.assert_array_equal(stored(name, whole), expected)
        comm.Barrier()


def test_chunks_that_become_fill_value_are_not_left_as_they_were(comm, rng, place):
    name, whole = f"{place}/a.zarr", np.ones((8, 6))
    store(comm, name, whole, (2, 6))
    rows = dm.BlockCyclic((8, 6), "(block, *)", nprocs=comm.size)
    zeros = dm.Array(rows, "f8", comm=comm)
    for block in zeros.blocks:
        zeros[block][...] = 0
    half = dm.Region((2, 0), (6, 6))
    with dm.files.open(name, rows, comm=comm, mode="r+") as file:
        dm.Mover(dm.redistribute(rows, rows, None, half, half), zeros, file)()
    expected = whole.copy()
    expected[2:6] = 0
    np.testing.assert_array_equal(stored(name, whole), expected)
    comm.Barrier()


@pytest.mark.parametrize(
    "said",
    [
        {"shards": (4, 6), "chunks": (2, 3)},
        {"zarr_format": 2, "order": "F", "chunks": (3, 2)},
        {"zarr_format": 2, "chunks": (3, 2), "dtype": ">f8", "compressors": None},
    ],
)
def test_stores_of_others_are_changed_in_place(comm, place, said):
    name, dtype = f"{place}/a.zarr", said.get("dtype", "<f8")
    whole = drawn.numbered((8, 6), "f8") + 1
    if comm.rank == 0:
        zarr.create_array(name, shape=whole.shape, **{"dtype": dtype, **said})[...] = whole
    comm.Barrier()
    rows = dm.BlockCyclic((8, 6), "(block, *)", nprocs=comm.size)
    part = dm.BlockCyclic((3, 4), "(*, cyclic)", nprocs=comm.size)
    section = dm.Region((2, 1), (5, 5))
    added = dm.Array(part, "f8", comm=comm)
    for block in added.blocks:
        added[block][...] = 100
    with dm.files.open(name, rows, comm=comm, mode="r+") as file:
        dm.Mover(dm.redistribute(part, rows, destination_region=section), added, file, op="add")()
    whole[section.slices()] += 100
    found = zarr.open_array(name, mode="r")
    np.testing.assert_array_equal(found[...], whole)
    assert found.chunks == said["chunks"] and found.dtype == dtype
    comm.Barrier()


@pytest.mark.parametrize("chunks", [None, (3, 4)])
@pytest.mark.parametrize("max_bytes", [1 << 28, 600])
def test_halos_are_read_from_the_disk(comm, place, max_bytes, chunks):
    shape = (13, 9)
    whole = drawn.numbered(shape, "f8") + 1
    name = f"{place}/a.{'npy' if chunks is None else 'zarr'}"
    store(comm, name, whole, chunks)
    blocks = dm.FloorPlan.uniform(dm.Region((0, 0), shape), (3, 2), nprocs=comm.size)
    for periodic, colors in ((None, 1), (True, 1), (True, 2)):
        plan = dm.halo(blocks, 2, periodic=periodic, colors=colors)
        arrays = [dm.Array(blocks, "f8", ghost=2, comm=comm) for _ in range(3)]
        held, read, expected = arrays
        for block in held.blocks:
            for array in (held, read, expected):
                array[block][...] = -1
            held.interior(block)[...] = whole[blocks.region(block).slices()]
        dm.Mover(plan, held, expected)()
        with dm.files.open(name, blocks, comm=comm, max_bytes=max_bytes) as file:
            dm.Mover(plan, file, read)()
        for block in held.blocks:
            np.testing.assert_array_equal(read[block], expected[block])
    # Interiors and all that the domain has around them, which is what a program begins with.
    wide = dm.Array(blocks, "f8", ghost=2, comm=comm)
    padded = np.pad(whole, 2, mode="wrap")
    plan = dm.redistribute(blocks, blocks) + dm.halo(blocks, 2, periodic=True)
    with dm.files.open(name, blocks, comm=comm, max_bytes=max_bytes) as file:
        dm.Mover(plan, file, wide)()
    for block in wide.blocks:
        region = blocks.region(block)
        box = tuple(slice(a, b + 4) for a, b in zip(region.lo, region.hi, strict=True))
        np.testing.assert_array_equal(wide[block], padded[box])


@pytest.mark.parametrize("max_bytes", [1 << 28, 200])
def test_layouts_that_begin_elsewhere(comm, place, max_bytes):
    """Plans move the same indices to and from a file; `save` and `load` begin at corners."""
    rows = 2 * comm.size

    def window(lo):
        box = dm.Region(lo, (lo[0] + rows, lo[1] + 8))
        return dm.FloorPlan.uniform(box, (comm.size, 1), nprocs=comm.size)

    def indices(layout, part, block):
        return np.indices(part.shape) + np.reshape(layout.region(block).lo, (2, 1, 1))

    before, after = window((4, -3)), window((5, -1))
    u, v = dm.Array(before, "i8", comm=comm), dm.Array(after, "i8", comm=comm)
    for block, part in u.grids():
        i, j = indices(before, part, block)
        part[...] = 100 * i + j
    name = f"{place}/u.npy"
    with dm.files.open(name, before, comm=comm, mode="w", dtype="i8", max_bytes=max_bytes) as file:
        dm.Mover(dm.redistribute(before, before), u, file)()
    i, j = np.mgrid[4 : 4 + rows, -3:5]
    np.testing.assert_array_equal(np.load(name), 100 * i + j)

    for _, part in v.grids():
        part[...] = -1
    with dm.files.open(name, before, comm=comm, max_bytes=max_bytes) as file:
        dm.Mover(dm.redistribute(before, after, partial=True), file, v)()
        for block, part in v.grids():
            i, j = indices(after, part, block)
            want = np.where((i < 4 + rows) & (j < 5), 100 * i + j, -1)
            np.testing.assert_array_equal(part, want)

        # Lists of an array of which the file holds some rows and columns.
        shape = (rows + 20, 8)
        held = dm.IndexList(shape, [[8 * row, 8 * row + 4] for row in range(4, 4 + comm.size)])
        needed = dm.IndexList(shape, [[*held.indices_of(r), r] for r in range(comm.size)])
        few, more = np.zeros(2, "i8"), np.full(3, -1)
        dm.Mover(dm.redistribute(before, held), file, few)()
        assert few.tolist() == [100 * (4 + comm.rank), 100 * (4 + comm.rank) + 4]
        with pytest.raises(dm.Mismatch, match=r"needs index \(0, \d+\) of .* partial=True"):
            dm.Mover(dm.redistribute(before, needed), file, more)
        dm.Mover(dm.redistribute(before, needed, partial=True), file, more)()
        assert more.tolist() == [*few.tolist(), -1]
    with dm.files.open(name, before, comm=comm, mode="r+", max_bytes=max_bytes) as file:
        dm.Mover(dm.redistribute(before, held).reversed(), -few, file)()
    again = np.load(name)
    assert np.count_nonzero(again < 0) == 2 * comm.size
    assert again[comm.rank, [3, 7]].tolist() == (-few).tolist()

    dm.save(f"{place}/u.zarr", {"u": u}, comm=comm)
    dm.load(f"{place}/u.zarr", {"u": v}, comm=comm)
    for block, part in v.grids():
        i, j = indices(after, part, block)
        np.testing.assert_array_equal(part, 100 * (i - 1) + j - 2)


def spanned(lo, counts, steps):
    """The region of so many indices from `lo` on, so far apart."""
    ends = zip(lo, counts, steps, strict=True)
    return dm.Region(lo, [a + (n - 1) * s + 1 for a, n, s in ends])


@pytest.mark.parametrize("max_bytes", [1 << 28, 400])
def test_section_copies_with_steps_axes_and_flips(comm, rng, place, cases, max_bytes):
    for _ in range(2 * cases):
        shape, other = (11, 14), (30, 40)
        whole = drawn.numbered(shape, "i4")
        name = f"{place}/a.npy"
        known = dm.FloorPlan(
            [dm.Region((3, 5), (14, 19))], [int(rng.integers(comm.size))], comm.size
        )
        memory = dm.FloorPlan([dm.Region((0, 0), other)], [0], comm.size)
        counts = [int(rng.integers(1, 5)) for _ in shape]
        steps = [int(rng.integers(1, 3)) for _ in range(4)]
        axes = [(0, 1), (1, 0), None][rng.integers(3)]
        flip = (rng.random(2) < 0.3).tolist()
        lo = [int(rng.integers(0, 3)) for _ in shape]
        in_file = tuple(
            slice(a, a + n * s, s) for a, n, s in zip(lo, counts, steps[:2], strict=True)
        )
        turned = counts if axes is None else [counts[a] for a in axes]
        at = [int(rng.integers(0, 9)) for _ in shape]
        in_memory = tuple(
            slice(a, a + n * s, s) for a, n, s in zip(at, turned, steps[2:], strict=True)
        )
        plan = dm.MotionPlan(known, memory)
        file_lo = [lo[0] + 3, lo[1] + 5]
        plan.add_section(
            0,
            spanned(file_lo, counts, steps[:2]),
            0,
            spanned(at, turned, steps[2:]),
            axes=axes,
            source_step=steps[:2],
            destination_step=steps[2:],
            flip=flip,
        )
        store(comm, name, whole)
        array = np.full(other, -1, "i4") if comm.rank == 0 else None
        with dm.files.open(name, known, comm=comm, max_bytes=max_bytes) as file:
            dm.Mover(plan, file, array, comm=comm)()
        part = whole[in_file] if axes is None else whole[in_file].transpose(axes)
        expected = np.full(other, -1, "i4")
        expected[in_memory] = np.flip(part, np.flatnonzero(flip).tolist())
        if comm.rank == 0:
            np.testing.assert_array_equal(array, expected)
            array *= 3
        with dm.files.open(name, known, comm=comm, mode="r+", max_bytes=max_bytes) as file:
            dm.Mover(plan.reversed(), array, file, comm=comm)()
        changed = whole.copy()
        changed[in_file] *= 3
        np.testing.assert_array_equal(np.load(name), changed)
        comm.Barrier()


def test_another_array_takes_the_place_of_the_first(comm, place):
    name, whole = f"{place}/a.npy", drawn.numbered((9, 5), "f8")
    store(comm, name, whole)
    rows = dm.BlockCyclic((9, 5), "(block, *)", nprocs=comm.size)
    first, second = (dm.Array(rows, "f8", comm=comm) for _ in range(2))
    with (
        dm.files.open(name, rows, comm=comm, max_bytes=200) as file,
        dm.Mover(dm.redistribute(rows, rows), file, first) as mover,
    ):
        mover()
        mover.rebind(file, second)
        mover()
        assert not mover.in_flight and mover.counters()["rounds"] == 2
    for block, index in drawn.indices_of_blocks(rows, comm.rank):
        for array in (first, second):
            np.testing.assert_array_equal(array[block], whole[index])


def test_bytes_of_the_other_order_and_of_records(comm, place):
    rows = dm.BlockCyclic((7, 3), "(block, *)", nprocs=comm.size)
    for dtype in (">f8", [("a", "<u1"), ("b", ">i4")], "S3"):
        name, whole = f"{place}/a.npy", drawn.numbered((7, 3), dtype)
        store(comm, name, whole)
        array = None
        with dm.files.open(name, rows, comm=comm, mode="r+", max_bytes=400) as file:
            array = dm.Array(rows, file.dtype, comm=comm)
            dm.Mover(dm.redistribute(rows, rows), file, array)()
            for block, index in drawn.indices_of_blocks(rows, comm.rank):
                np.testing.assert_array_equal(array[block], whole[index])
                array[block][...] = array[block][::-1].copy()
            dm.Mover(dm.redistribute(rows, rows), array, file)()
        expected = np.concatenate(
            [whole[i][::-1] for r in range(comm.size) for _, i in drawn.indices_of_blocks(rows, r)]
        )
        np.testing.assert_array_equal(np.load(name), expected)
        comm.Barrier()


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("end", ENDS)
def test_one_process_without_space_tells_all_and_leaves_no_new_file(comm, place, monkeypatch, end):
    name = name_of(place, end)
    rows = dm.BlockCyclic((12, 10), "(block, *)", nprocs=comm.size)
    array = dm.Array(rows, "f8", comm=comm)
    for block in array.blocks:
        array[block][...] = 1
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):  # noqa: SIM117
        with dm.files.open(
            name, rows, comm=comm, mode="w", dtype="f8", chunks=(2, 5) if end == "zarr" else None
        ) as file:
            mover = dm.Mover(dm.redistribute(rows, rows), array, file)
            if comm.rank == comm.size - 1:
                monkeypatch.setattr(flat.os, "pwritev", full)
                monkeypatch.setattr("datamover.files.direct_zarr.os.write", full)
            try:
                mover()
            finally:
                monkeypatch.undo()
    comm.Barrier()
    if comm.rank == 0:
        assert os.listdir(place) == []
    comm.Barrier()


def test_a_process_that_cannot_read_tells_all_and_the_mover_can_be_used_again(
    comm, place, monkeypatch
):
    name, whole = f"{place}/a.npy", drawn.numbered((8, 4), "f8")
    store(comm, name, whole)
    rows = dm.BlockCyclic((8, 4), "(block, *)", nprocs=comm.size)
    array = dm.Array(rows, "f8", comm=comm)
    with dm.files.open(name, rows, comm=comm) as file:
        mover = dm.Mover(dm.redistribute(rows, rows), file, array)
        for block in array.blocks:
            array[block][...] = -5
        if comm.rank == 0:
            monkeypatch.setattr(file._open_file, "read", full)
        with pytest.raises(dm.errors.IoFailed):
            mover()
        for block in array.blocks:
            assert (array[block] == -5).all()
        monkeypatch.undo()
        mover()
        for block, index in drawn.indices_of_blocks(rows, comm.rank):
            np.testing.assert_array_equal(array[block], whole[index])
        mover.close()


def test_a_new_file_has_its_name_when_it_is_closed(comm, place):
    rows = dm.BlockCyclic((6, 4), "(block, *)", nprocs=comm.size)
    name = f"{place}/a.npy"
    store(comm, name, np.ones(3))
    with pytest.raises(dm.errors.IoFailed, match="exists"):
        dm.files.open(name, rows, comm=comm, mode="w", dtype="i4")
    comm.Barrier()
    with dm.files.open(name, rows, comm=comm, mode="w", dtype="i4", overwrite=True) as file:
        assert np.load(name).tolist() == [1, 1, 1]
        comm.Barrier()
    assert np.load(name).shape == (6, 4) and not np.load(name).any()
    with pytest.raises(dm.errors.InvalidState):
        dm.Mover(dm.redistribute(rows, rows), file, dm.Array(rows, "i4", comm=comm))
    comm.Barrier()
    alone = comm.Dup()  # nothing moves on it afterwards
    with (
        pytest.raises(KeyError),
        dm.files.open(name, rows, comm=alone, mode="w", dtype="f4", overwrite=True),
    ):
        comm.Barrier()  # all are in it
        raise KeyError("of the program")
    comm.Barrier()
    alone.Free()
    assert np.load(name).dtype == "i4"
    if comm.rank == 0:
        assert os.listdir(place) == ["a.npy"]
    comm.Barrier()


def test_what_cannot_be_is_refused_on_all(comm, place):
    nprocs = comm.size
    rows = dm.BlockCyclic((8, 4), "(block, *)", nprocs=nprocs)
    columns = dm.BlockCyclic((8, 4), "(*, block)", nprocs=nprocs)
    name = f"{place}/a.npy"
    store(comm, name, np.zeros((8, 4)))
    with h5py.File(f"{place}/{comm.rank}.h5", "w") as made:
        made.create_dataset("u", data=np.zeros((8, 4)), chunks=(2, 2), compression="gzip")
    holes = dm.FloorPlan([dm.Region((0, 0), (2, 4)), dm.Region((4, 0), (8, 4))], [0, 0], nprocs)
    other = dm.BlockCyclic((8, 5), "(block, *)", nprocs=nprocs)
    for error, path, layout, said in (
        (dm.errors.IoFailed, f"{place}/none.npy", rows, {}),
        (dm.Mismatch, name, other, {}),
        (dm.Mismatch, name, holes, {}),
        (dm.Mismatch, name, dm.BlockCyclic((8, 4), "(block, *)", nprocs=nprocs + 1), {}),
        (dm.Mismatch, name, rows, {"dtype": "f4"}),
        (dm.errors.WrongType, name, 3, {}),
        (dm.errors.WrongType, name, rows, {"dtype": object}),
        (dm.errors.InvalidArgument, name, rows, {"mode": "a"}),
        (dm.errors.InvalidArgument, name, rows, {"chunks": (2, 2)}),
        (dm.errors.InvalidArgument, name, rows, {"order": "F"}),
        (dm.errors.InvalidArgument, name, rows, {"ranks": 0}),
        (dm.errors.InvalidArgument, f"{place}/b.npy", rows, {"mode": "w"}),
        (dm.errors.InvalidArgument, f"{place}/b", rows, {"mode": "w", "dtype": "f8"}),
        (dm.errors.InvalidArgument, f"{place}/b.h5", rows, {"mode": "w", "dtype": "f8"}),
        (dm.errors.InvalidArgument, f"{place}/b.raw", rows,
         {"mode": "w", "dtype": "f8", "chunks": (1,)}),
        (dm.errors.WrongType, f"{place}/b.npy", rows,
         {"mode": "w", "dtype": "f8", "overwrite": "no"}),
        (dm.errors.IoFailed, f"{place}/no/b.npy", rows, {"mode": "w", "dtype": "f8"}),
        (dm.errors.Unsupported, f"{place}/0.h5", rows, {"mode": "r+"}),
    ):  # fmt: skip
        with pytest.raises(error):
            dm.files.open(path, layout, comm=comm, **said)
    if nprocs > 1:
        with pytest.raises(dm.Mismatch, match="max_bytes=1000 on process 0, max_bytes=1001 on"):
            dm.files.open(
                name, rows if comm.rank else columns, comm=comm, max_bytes=1000 + comm.rank
            )
    array = dm.Array(rows, "f8", comm=comm)
    with dm.files.open(name, rows, comm=comm) as file:
        plan = dm.redistribute(rows, rows)
        with pytest.raises(dm.errors.InvalidArgument, match="to be read"):
            dm.Mover(plan, array, file)
        with pytest.raises(dm.errors.Unsupported, match="both files"):
            dm.Mover(plan, file, file)
        with pytest.raises(dm.Mismatch, match="was opened as"):
            dm.Mover(dm.redistribute(dm.FlatCyclic((8, 4), 3, nprocs), rows), file, array)
        with pytest.raises(dm.errors.WrongType):
            dm.Mover(plan, file, dm.Array(rows, "S3", comm=comm))
        with pytest.raises(dm.errors.InvalidArgument, match="op"):
            dm.Mover(plan, file, array, op="bogus")
        with pytest.raises(dm.errors.Unsupported):
            dm.Mover(plan, file, [array, array])
        mover = dm.Mover(plan, file, array)
        mover.start()
        with pytest.raises(dm.errors.InvalidState):
            mover.start()
        mover.wait()
        with pytest.raises(dm.errors.InvalidState):
            mover.wait()
    with (
        dm.files.open(name, rows, comm=comm, max_bytes=8) as file,
        pytest.raises(dm.errors.NoMemory),
    ):
        dm.Mover(plan, file, array)


def test_what_cannot_be_replaced_is_refused_in_words_of_open(comm, place):
    rows = dm.BlockCyclic((4,), "(block)", nprocs=comm.size)
    if comm.rank == 0:
        for name, members in (("one", ["a"]), ("two", ["a", "b"])):
            with h5py.File(f"{place}/{name}.h5", "w") as made:
                for member in members:
                    made[member] = np.zeros(4)
        zarr.create_group(f"{place}/g.zarr")
    comm.Barrier()
    for name in ("one.h5:/c", "two.h5:/c", "g.zarr"):
        with pytest.raises(
            dm.errors.IoFailed, match="remove it first, or give another name"
        ) as caught:
            dm.files.open(f"{place}/{name}", rows, comm=comm, mode="w", dtype="f8", overwrite=True)
        assert "overwrite_group" not in str(caught.value)


def test_of_a_raw_file_only_the_dtype_is_to_be_said(comm, place):
    name, whole = f"{place}/a.raw", drawn.numbered((8, 6), "f4")
    if comm.rank == 0:
        whole.tofile(name)
    comm.Barrier()
    rows = dm.BlockCyclic(whole.shape, "(block, *)", nprocs=comm.size)
    with pytest.raises(dm.errors.InvalidArgument, match="is raw: pass dtype=") as caught:
        dm.files.open(name, rows, comm=comm)
    assert "shape" not in str(caught.value)  # the layout's, which is no argument
    part = np.zeros(rows.local_shape(comm.rank), "f4")
    with dm.files.open(name, rows, comm=comm, dtype="f4") as file:
        dm.Mover(dm.redistribute(rows, rows), file, part)()
    assert (part == whole[np.ix_(*rows.global_indices(comm.rank))]).all()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mode", ["r", "w"])
def test_one_that_is_dropped_without_a_close_is_named_by_a_warning(comm, place, end, mode):
    rows = dm.BlockCyclic((4,), "(block)", nprocs=comm.size)
    name = name_of(place, end)
    if mode == "r":
        store(comm, name, np.zeros(4))
    before = sorted(os.listdir(place))
    said = {"dtype": "f8"} if mode == "w" or end == "raw" else {}
    file = dm.files.open(name, rows, comm=comm, mode=mode, **said)
    dm.Mover(dm.redistribute(rows, rows), *pair(file, comm, mode))()
    comm.Barrier()
    with pytest.warns(ResourceWarning, match="was not closed") as caught:
        del file  # at once, not when the garbage collector comes
    words = str(caught[0].message)
    assert words.startswith(f"{place}/a.{end}, opened with mode '{mode}'")
    assert words.endswith("there is no new file") == (mode == "w")
    comm.Barrier()
    assert sorted(os.listdir(place)) == before
    comm.Barrier()
    with dm.files.open(f"{place}/b.npy", rows, comm=comm, mode="w", dtype="f8") as file:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del file
        gc.collect()


def pair(file, comm, mode):
    """A file and an array: source and destination."""
    array = dm.Array(file.layout, "f8", comm=comm)
    return (file, array) if mode == "r" else (array, file)


def test_a_file_that_a_mover_failed_to_write_is_not_made(comm, place, monkeypatch):
    """Also where the program has caught the error."""
    rows = dm.BlockCyclic((12, 10), "(block, *)", nprocs=comm.size)
    array = dm.Array(rows, "f8", comm=comm)
    file = dm.files.open(f"{place}/a.npy", rows, comm=comm, mode="w", dtype="f8")
    mover = dm.Mover(dm.redistribute(rows, rows), array, file)
    if comm.rank == comm.size - 1:
        monkeypatch.setattr(flat.os, "pwritev", full)
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):
        mover()
    monkeypatch.undo()
    with pytest.raises(dm.errors.IoFailed, match="could not be written"):
        file.close()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


@pytest.mark.parametrize("end", ENDS)
def test_while_one_mover_writes_a_file_no_other_does(comm, place, end):
    """Both would read, change and write the same chunks."""
    name, width = name_of(place, end), 5
    whole = dm.BlockCyclic((6, 2 * width), "(block, *)", nprocs=comm.size)
    half = dm.BlockCyclic((6, width), "(block, *)", nprocs=comm.size)
    with dm.files.open(name, whole, comm=comm, mode="w", dtype="f8") as file:
        movers = []
        for k in range(2):
            array = dm.Array(half, "f8", comm=comm)
            array.local[...] = k + 1
            region = dm.Region((0, k * width), (6, (k + 1) * width))
            plan = dm.redistribute(half, whole, destination_region=region)
            movers.append(dm.Mover(plan, array, file))
        movers[0].start()
        for other in (
            movers[1],
            dm.Mover(
                dm.redistribute(whole, half, source_region=region),
                file,
                dm.Array(half, "f8", comm=comm),
            ),
        ):
            with pytest.raises(dm.errors.InvalidState, match="in flight"):
                other.start()
        movers[0].wait()
        movers[1]()
    comm.Barrier()
    expected = np.repeat([[1.0, 2.0]], 6, axis=0).repeat(width, axis=1)
    np.testing.assert_array_equal(stored(name, expected), expected)
    comm.Barrier()


@pytest.mark.parametrize("how", ["end of block", "close", "dropped", "one process drops it"])
def test_a_round_that_is_left_in_flight_has_failed_on_all(comm, place, how):
    alone = comm.Dup()  # nothing moves on it afterwards
    rows = dm.BlockCyclic((40, 30), "(block, *)", nprocs=comm.size)
    array = dm.Array(rows, "f8", comm=alone)
    leaves = how != "one process drops it" or comm.rank == comm.size - 1

    def run():
        with dm.files.open(f"{place}/a.npy", rows, comm=alone, mode="w", dtype="f8") as file:
            mover = dm.Mover(dm.redistribute(rows, rows), array, file)
            mover.start()
            if not leaves:
                mover.wait()
            elif how == "close":
                file.close()
            elif "drop" in how:
                del mover

    with pytest.raises((dm.errors.InvalidState, dm.PeerFailed)):
        run()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    array.close()
    alone.Free()


@pytest.mark.parametrize("how", ["dropped", "timeout"])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_file_that_one_process_alone_leaves_is_an_error_on_the_others(comm, place, how, mode):
    alone = comm.Dup()  # nothing moves on it afterwards
    rows = dm.BlockCyclic((4,), "(block)", nprocs=comm.size)
    if mode == "r":
        store(comm, f"{place}/a.npy", np.zeros(4))
    file = dm.files.open(f"{place}/a.npy", rows, comm=alone, mode=mode, dtype="f8")
    comm.Barrier()
    if comm.rank != comm.size - 1:
        dm.set_timeout(0.05 if how == "dropped" else None)
        try:
            with pytest.raises((dm.PeerFailed, dm.Timeout)):  # of another process, of this one
                file.close()
        finally:
            dm.set_timeout(None)
    elif how == "timeout":
        with pytest.raises(dm.Timeout, match="of this one alone"), file:
            raise dm.Timeout("of this one alone")
    else:
        with pytest.warns(ResourceWarning):
            del file
            gc.collect()
    comm.Barrier()
    assert os.listdir(place) == (["a.npy"] if mode == "r" else [])
    comm.Barrier()
    alone.Free()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_exception_in_one_process_alone_fails_the_block_on_all(comm, place, error):
    alone = comm.Dup()  # nothing moves on it afterwards
    rows = dm.BlockCyclic((6, 4), "(block, *)", nprocs=comm.size)
    last = comm.size - 1

    def run():
        with dm.files.open(f"{place}/a.npy", rows, comm=alone, mode="w", dtype="i4"):
            if comm.rank == last:
                raise error("of the program")

    with pytest.raises(
        error if comm.rank == last else dm.Error, match=r"of the program|KeyboardInterrupt"
    ):
        run()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    alone.Free()


def test_overwriting_one_array_leaves_others_alone(comm, place):
    rows = dm.BlockCyclic((6, 4), "(block, *)", nprocs=comm.size)
    if comm.rank == 0:
        with h5py.File(f"{place}/run.h5", "w") as file:
            file["u"], file["precious"] = np.ones(3), np.arange(5)
        group = zarr.open_group(f"{place}/run.zarr", mode="w")
        group.create_array("precious", data=np.arange(5))
    comm.Barrier()
    for name in ("run.h5:/u", "run.zarr"):
        with pytest.raises(dm.errors.IoFailed):
            dm.files.open(f"{place}/{name}", rows, comm=comm, mode="w", dtype="f8", overwrite=True)
    comm.Barrier()
    with h5py.File(f"{place}/run.h5") as file:
        assert file["precious"][()].tolist() == [0, 1, 2, 3, 4]
    assert zarr.open_group(f"{place}/run.zarr", mode="r")["precious"][:].tolist() == [0, 1, 2, 3, 4]
    comm.Barrier()


def test_deadlines_that_pass_leave_the_round_in_flight(comm, place):
    """Whichever part of it was waited for."""
    shape = (8 * comm.size, 30)
    rows = dm.BlockCyclic(shape, "(block, *)", nprocs=comm.size)
    columns = dm.BlockCyclic(shape, "(*, block)", nprocs=comm.size)
    array = dm.Array(columns, "f8", comm=comm)
    whole = drawn.numbered(shape, "f8")
    for block, index in drawn.indices_of_blocks(columns, comm.rank):
        array[block][...] = whole[index]
    name = f"{place}/a.npy"
    with dm.files.open(name, rows, comm=comm, mode="w", dtype="f8", max_bytes=600) as file:
        mover = dm.Mover(dm.redistribute(columns, rows), array, file)
        assert mover.counters()["steps"] > 1
        mover.start()
        with pytest.raises(dm.errors.InvalidArgument):
            mover.wait(timeout=0)
        while mover.in_flight:
            try:
                mover.wait(timeout=1e-5)
            except dm.Timeout:
                assert mover.in_flight
    comm.Barrier()
    np.testing.assert_array_equal(np.load(name), whole)
    comm.Barrier()


def test_a_plan_that_moves_nothing_starts_and_ends(comm, place):
    line = dm.BlockCyclic((6,), "(block)", nprocs=comm.size)
    nothing = dm.Region((2,), (2,))
    plan = dm.redistribute(line, line, source_region=nothing, destination_region=nothing)
    with dm.files.open(f"{place}/a.npy", line, comm=comm, mode="w", dtype="f8") as file:
        mover = dm.Mover(plan, dm.Array(line, "f8", comm=comm), file)
        mover.start()
        assert mover.in_flight
        mover.wait()
        mover.rebind(dm.Array(line, "f8", comm=comm), file)
        mover.start()
        assert mover.test() and not mover.in_flight
        mover.close()
        with pytest.raises(dm.errors.InvalidState, match="closed"):
            mover.start()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("steps", [4, 12])
@pytest.mark.parametrize("call", [0, 1])
def test_a_process_that_is_interrupted_between_steps_fails_all(
    comm, place, monkeypatch, error, steps, call
):
    alone = comm.Dup()  # nothing moves on it afterwards
    rows = dm.BlockCyclic((24 * steps, 16), "(block, *)", nprocs=comm.size)
    array = dm.Array(rows, "f8", comm=alone)
    last = comm.rank == comm.size - 1
    calls = []
    start = file_mover._Flags.start

    def interrupted(flags, failed):
        calls.append(failed)
        if len(calls) == call + 1:
            raise error
        return start(flags, failed)

    if last:
        monkeypatch.setattr(file_mover._Flags, "start", interrupted)

    def run():
        with dm.files.open(
            f"{place}/a.npy", rows, comm=alone, mode="w", dtype="f8", ranks=1,
            max_bytes=2 * 24 * 16 * 8,
        ) as file:  # fmt: skip
            mover = dm.Mover(dm.redistribute(rows, rows), array, file)
            assert mover.counters()["steps"] > staged_moves.KEPT_STEPS or steps == 4
            mover(60)

    with pytest.raises(error if last else dm.PeerFailed):
        run()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    array.close()
    alone.Free()


def test_an_interrupt_while_a_file_ends_gives_all_back(comm, place, monkeypatch):
    alone = comm.Dup()  # nothing moves on it afterwards
    rows = dm.BlockCyclic((2 * comm.size,), "(block)", nprocs=comm.size)
    file = dm.files.open(f"{place}/a.npy", rows, comm=alone, mode="w", dtype="f8")

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(file, "_stop", interrupted)
    with pytest.raises(KeyboardInterrupt), file:
        raise ValueError
    comm.Barrier()
    assert file.closed and os.listdir(place) == []
    comm.Barrier()
    alone.Free()


def test_a_mover_of_a_file_has_the_functions_of_a_mover(comm, place):
    rows = dm.BlockCyclic((2 * comm.size,), "(block)", nprocs=comm.size)
    a, b = dm.Array(rows, "f8", comm=comm), dm.Array(rows, "f8", comm=comm)
    a.local[...] = comm.rank + 1
    plan = dm.redistribute(rows, rows)
    with dm.files.open(f"{place}/a.npy", rows, comm=comm, mode="w", dtype="f8") as file:
        mover = dm.Mover(plan, a, file)
        mover.run(60)
        mover.run()
        assert mover.plan == plan and mover.counters()["rounds"] == 2
        assert "to " in repr(mover) and len(mover.explain()) > 0 and mover._repr_html_()
        mover.tune(1e-3)
    with dm.files.open(f"{place}/a.npy", rows, comm=comm) as file:
        plan(file, b, comm=comm)
        np.testing.assert_array_equal(plan(file, comm=comm).local, a.local)
    np.testing.assert_array_equal(b.local, a.local)
    comm.Barrier()


@pytest.mark.parametrize("end", ["npy", "zarr"])
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("when", ["opened", "open"])
def test_a_file_that_is_replaced_is_not_read_or_changed_in_two_versions(
    comm, place, monkeypatch, end, mode, when
):
    rows = dm.BlockCyclic((4 * comm.size,), "(block)", nprocs=comm.size)
    a = dm.Array(rows, "f8", comm=comm)
    a.local[...] = comm.rank + 1
    path, opened = f"{place}/a.{end}", file_array._opened
    dm.save(path, {"a": a}, comm=comm, chunks={"a": (4,)} if end == "zarr" else None)
    name = path if end == "npy" else f"{path}/a"

    def replace():
        os.rename(path, f"{place}/old")  # whose number no new file gets
        alone = dm.BlockCyclic((4 * comm.size,), "(block)", nprocs=1)
        dm.save(path, {"a": (np.zeros(4 * comm.size), alone)}, comm=MPI.COMM_SELF)

    def open_and_replace(*said):
        comm.Barrier()
        file = opened(*said) if comm.rank == 0 else None
        if comm.rank == 0 and when == "opened":
            replace()
        comm.Barrier()
        return file or opened(*said)

    def run():
        with dm.files.open(name, rows, comm=comm, mode=mode) as file:
            assert when == "open"
            ends = (a, file) if mode == "r+" else (file, a)
            mover = dm.Mover(dm.redistribute(rows, rows), *ends)
            mover()
            comm.Barrier()
            if comm.rank == 0:
                replace()
            comm.Barrier()
            mover()
            assert (a.local == comm.rank + 1).all()

    monkeypatch.setattr(file_array, "_opened", open_and_replace)
    if (end, mode, when) == ("npy", "r", "open"):
        run()  # the old file stays open on all processes
    else:
        with pytest.raises(dm.errors.IoFailed, match="was replaced"):
            run()
    comm.Barrier()


def test_without_a_further_thread_the_program_reads_and_writes_itself(comm, place, monkeypatch):
    rows = dm.BlockCyclic((4 * comm.size,), "(block)", nprocs=comm.size)
    a, b = dm.Array(rows, "f8", comm=comm), dm.Array(rows, "f8", comm=comm)
    a.local[...], plan = comm.rank + 1, dm.redistribute(rows, rows)

    def refuse(_):
        raise RuntimeError("can't start new thread")

    def run():
        with dm.files.open(f"{place}/a.npy", rows, comm=comm, mode="w", dtype="f8") as file:
            mover = dm.Mover(plan, a, file)
            if comm.rank == 0:
                monkeypatch.setattr(threading.Thread, "start", refuse)
            mover(60)
            monkeypatch.undo()

    monkeypatch.setattr(agreement, "share_of_cores", lambda count: 1)
    run()
    with dm.files.open(f"{place}/a.npy", rows, comm=comm) as file:
        dm.Mover(plan, file, b)()
    np.testing.assert_array_equal(b.local, a.local)
    comm.Barrier()


def test_a_file_goes_by_itself(comm, place):
    rows = dm.BlockCyclic((6, 4), "(block, *)", nprocs=comm.size)
    a, b = dm.Array(rows, "f8", comm=comm), dm.Array(rows, "f8", comm=comm)
    plan = dm.redistribute(rows, rows)
    with dm.files.open(f"{place}/a.npy", rows, comm=comm, mode="w", dtype="f8") as file:
        for bind in (
            lambda: dm.Mover([(plan, a, file)]),
            lambda: dm.Mover([(plan, a, b), (plan, file, b)], comm=comm),
            lambda: dm.Mover([(plan, file, b), (plan, b, a)], together=False),
            lambda: dm.Mover(plan, [a, b], [b, file]),
            lambda: dm.Mover(plan, [file], [b]),
        ):
            with pytest.raises(dm.errors.Unsupported, match=r"on the disk.*pass it alone"):
                bind()
    a.close()
    b.close()


def test_a_new_hdf5_file_needs_the_name_of_its_dataset(comm, place):
    layout = dm.BlockCyclic((8,), "(block)", comm.size)
    with pytest.raises(dm.errors.InvalidArgument, match="name the dataset of the output"):
        dm.files.open(f"{place}/a.h5", layout, comm=comm, mode="w", dtype="f8")
    comm.barrier()
    assert os.listdir(place) == []
    comm.barrier()
