# SPDX-License-Identifier: BSD-3-Clause
"""Time series: what zarr-python and xarray read is what the program appended, step by step."""

import gc
import os

import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import file_arguments, growing_array


def layouts(rng, comm, dims):
    """Draw a layout for a series: of every kind, with other origins, and empty processes."""
    shape = tuple(int(n) for n in rng.integers(1, 12, dims))
    kind = rng.integers(3)
    if kind == 0:
        words = [str(rng.choice(["block", "cyclic(2)", "*"])) for _ in shape]
        return dm.BlockCyclic(shape, f"({', '.join(words)})", nprocs=comm.size)
    if kind == 1:
        lo = tuple(int(n) for n in rng.integers(-3, 4, dims))
        domain = dm.Region(lo, tuple(a + n for a, n in zip(lo, shape, strict=True)))
        return dm.FloorPlan.uniform(domain, (2,) + (1,) * (dims - 1), nprocs=comm.size)
    order = rng.permutation(int(np.prod(shape)))
    return dm.IndexList(shape, np.array_split(order, comm.size))


class Field:
    """An array of the library whose elements are known for every step."""

    def __init__(self, comm, layout, dtype="f8"):
        self.layout, self.comm = layout, comm
        self.array = dm.Array(layout, dtype, comm=comm)

    def expected(self, step):
        shape = tuple(self.layout.domain.shape)
        return (np.arange(np.prod(shape)) + 1000 * step).reshape(shape).astype(self.array.dtype)

    def set(self, step):
        values = self.expected(step)
        if isinstance(self.layout, dm.IndexList):
            self.array.local[...] = values.reshape(-1)[self.layout.indices_of(self.comm.rank)]
            return
        whole = dm.FloorPlan([self.layout.domain], [0], nprocs=self.comm.size)
        source = {0: values} if self.comm.rank == 0 else {}
        dm.Mover(dm.redistribute(whole, self.layout), source, self.array, comm=self.comm)()


def read(path):
    import xarray as xr  # not where no test of these is run, on many processes

    return xr.open_zarr(path, consolidated=True)


@pytest.mark.parametrize("draw", range(6))
def test_others_read_what_was_appended(comm, rng, place, draw):
    fields = {n: Field(comm, layouts(rng, comm, int(rng.integers(1, 4)))) for n in "uv"}
    chunks = {"v": tuple(int(rng.integers(1, 6)) for _ in fields["v"].expected(0).shape)}
    path = f"{place}/run{draw}.zarr"
    arrays = {name: field.array for name, field in fields.items()}
    with dm.series(path, arrays, comm=comm, chunks=chunks) as run:
        for step in range(3):
            for field in fields.values():
                field.set(step)
            run.append(time=step / 4, cycle=10 * step)
            assert run.steps == step + 1
    if comm.rank == 0:
        found = read(path)
        for name, field in fields.items():
            expected = np.stack([field.expected(step) for step in range(3)])
            np.testing.assert_array_equal(found[name].values, expected)
        assert found["time"].values.tolist() == [0, 0.25, 0.5]
        assert found["cycle"].values.tolist() == [0, 10, 20]
        assert zarr.open_group(path)["v"].chunks == (1, *chunks["v"])
        assert os.listdir(place) == [f"run{draw}.zarr"]


def test_blocks_that_are_chunks_do_not_move(comm, place, monkeypatch):
    rows = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    u = np.full((4, 6), comm.rank, "f4")
    names, written = {"u": ("y", "x")}, []
    write = growing_array.StepWriter.write

    def noted(writer, lo, array):
        written.append((lo, np.shares_memory(array, u)))
        write(writer, lo, array)

    monkeypatch.setattr(growing_array.StepWriter, "write", noted)
    with dm.series(f"{place}/a.zarr", {"u": (u, rows)}, comm=comm, dimensions=names) as run:
        run.append()
        assert run._moves == []
        assert written == [((4 * comm.rank, 0), True)]
    if comm.rank == 0:
        found = read(f"{place}/a.zarr")
        assert found["u"].dims == ("time", "y", "x") and found["u"].dtype == "f4"
        assert (found["u"].values[0] == np.arange(comm.size).repeat(4)[:, None]).all()


def test_steps_are_continued(comm, place):
    layout = dm.BlockCyclic((10, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    for begin in (0, 2, 4):
        with dm.series(path, {"u": field.array}, comm=comm, resume=begin > 0) as run:
            assert run.steps == begin
            for step in (begin, begin + 1):
                field.set(step)
                run.append(time=float(step))
    if comm.rank == 0:
        expected = np.stack([field.expected(step) for step in range(6)])
        np.testing.assert_array_equal(read(path)["u"].values, expected)
        assert read(path)["time"].values.tolist() == [0, 1, 2, 3, 4, 5]


def test_steps_that_are_not_complete_are_cut_off(comm, place):
    layout = dm.BlockCyclic((10, 6), "(block, *)", nprocs=comm.size)
    fields, path = {n: Field(comm, layout) for n in "uv"}, f"{place}/run.zarr"
    arrays = {name: field.array for name, field in fields.items()}
    with dm.series(path, arrays, comm=comm) as run:
        for step in range(3):
            for field in fields.values():
                field.set(step)
            run.append(time=float(step))
    if comm.rank == 0:  # as if killed between the arrays
        array = zarr.open_group(path, mode="r+", use_consolidated=False)["v"]
        array.resize((4, 10, 6))
        array[3] = 7
        assert read(path)["v"].shape[0] == 3  # readers do not see it
    comm.barrier()
    with dm.series(path, arrays, comm=comm, resume=True) as run:
        assert run.steps == 3
    if comm.rank == 0:
        assert read(path)["v"].shape[0] == 3


def test_a_first_step_that_was_not_complete_does_not_end_later_ones(comm, place):
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    dm.series(path, {"u": field.array}, comm=comm).close()
    if comm.rank == 0:  # as if killed after the coordinate of the first step
        growing_array.create(f"{path}/time", (), "f8", ("time",)).resize((1,))
    comm.barrier()
    for begin in range(3):
        with dm.series(path, {"u": field.array}, comm=comm, resume=True) as run:
            assert run.steps == begin
            run.append(t=begin)
    if comm.rank == 0:
        assert read(path)["t"].values.tolist() == [0, 1, 2]


def test_numbers_of_steps_that_others_added_stay(comm, place):
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    dm.series(path, {"u": field.array}, comm=comm).close()
    if comm.rank == 0:
        group = zarr.open_group(path, mode="r+", use_consolidated=False)
        time = group.create_array("time", shape=(0,), dtype="f8", dimension_names=("time",))
        time.attrs["units"] = "days since 2000-01-01"
    comm.barrier()
    with dm.series(path, {"u": field.array}, comm=comm, resume=True) as run:
        refused(comm, dm.errors.InvalidArgument, "coordinates are", lambda: run.append(t=0.5))
        run.append(time=0.5)
        run.append(time=1.5)
    if comm.rank == 0:
        time = zarr.open_group(path)["time"]
        assert time[:].tolist() == [0.5, 1.5]
        assert dict(time.attrs) == {"units": "days since 2000-01-01"}


def refused(comm, kind, words, call):
    with pytest.raises(kind, match=words) as raised:
        call()
    texts = comm.allgather(str(raised.value))
    assert len(set(texts)) == 1, texts


def test_what_is_refused(comm, place):
    layout = dm.BlockCyclic((10, 6), "(block, *)", nprocs=comm.size)
    other = dm.BlockCyclic((10, 6), "(*, block)", nprocs=comm.size)
    u, path = Field(comm, layout).array, f"{place}/run.zarr"

    def opened(arrays=None, name=path, **options):
        return dm.series(name, arrays or {"u": u}, comm=comm, **options)

    refused(comm, dm.errors.IoFailed, "not a Zarr group", lambda: opened(resume=True))
    with opened() as run:
        run.append(time=1)
        refused(comm, dm.errors.IoFailed, "being written by process", lambda: opened(resume=True))
        refused(comm, dm.errors.InvalidArgument, "coordinates are", lambda: run.append())
        refused(comm, dm.errors.InvalidArgument, "does not fit int64", lambda: run.append(time=0.5))
        refused(comm, dm.errors.WrongType, "int or a float", lambda: run.append(time="noon"))
        run.append(time=2)
    refused(comm, dm.errors.InvalidState, "is closed", lambda: run.append(time=3))
    refused(comm, dm.errors.IoFailed, "resume=True or overwrite=True", opened)
    v = Field(comm, other).array
    if comm.size > 1:
        refused(comm, dm.Mismatch, "rechunk=True", lambda: opened({"u": v}, resume=True))
    with opened({"u": v}, resume=True, rechunk=True) as run:
        v.local[...] = 5
        run.append(time=3)
    wide = Field(comm, dm.BlockCyclic((10, 7), "(block, *)", nprocs=comm.size)).array
    refused(comm, dm.Mismatch, "has shape", lambda: opened({"u": wide}, resume=True))
    single = Field(comm, layout, "f4").array
    refused(comm, dm.Mismatch, "has dtype", lambda: opened({"u": single}, resume=True))
    refused(comm, dm.Mismatch, "no array", lambda: opened({"w": u}, resume=True))
    refused(comm, dm.errors.InvalidArgument, "names 'w'", lambda: opened(chunks={"w": (1, 1)}))
    refused(comm, dm.errors.Unsupported, "directory", lambda: opened(name="s3://bucket/run.zarr"))
    if comm.rank == 0:
        assert read(path)["u"].shape == (3, 10, 6) and (read(path)["u"].values[2] == 5).all()


def test_a_step_that_cannot_be_written_can_be_appended_again(comm, place, monkeypatch):
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    with dm.series(path, {"u": field.array}, comm=comm) as run:
        field.set(0)
        run.append(time=0)
        field.set(1)

        def full(*_):
            raise OSError(28, "No space left on device", path)

        with monkeypatch.context() as patch:
            if comm.rank == comm.size - 1:
                patch.setattr(growing_array.StepWriter, "write", full)
            refused(comm, dm.errors.IoFailed, "space", lambda: run.append(time=1))
        assert run.steps == 1
        run.append(time=1)
    if comm.rank == 0:
        expected = np.stack([field.expected(step) for step in range(2)])
        np.testing.assert_array_equal(read(path)["u"].values, expected)


def test_a_block_that_fails_on_one_process(comm, place):
    own = comm.Dup()
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(own, layout), f"{place}/run.zarr"
    kind = ZeroDivisionError if comm.rank == 0 else dm.PeerFailed
    with pytest.raises(kind), dm.series(path, {"u": field.array}, comm=own) as run:
        run.append(time=0)
        if comm.rank == 0:
            raise ZeroDivisionError
        run.append(time=1)
    comm.barrier()
    if comm.rank == 0:
        assert read(path)["time"].values.tolist() == [0]


def test_an_error_of_all_leaves_the_communicator_as_it_is(comm, place):
    own = comm.Dup()
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(own, layout), f"{place}/run.zarr"
    with (
        pytest.raises(dm.errors.WrongType),
        dm.series(path, {"u": field.array}, comm=own) as run,
    ):
        run.append(time="noon")
    comm.barrier()  # a process that had left would have told all others by now
    field.set(0)
    with dm.series(path, {"u": field.array}, comm=own, resume=True) as run:
        run.append(time=0)
    own.Free()


@pytest.mark.parametrize("inside", ["", "/u"])
def test_an_open_series_is_not_replaced_by_others(comm, place, inside):
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    if comm.rank == 0:
        np.save(f"{place}/x.npy", np.zeros((9, 9)))
    comm.barrier()

    def moved():
        options = {"overwrite": True, "overwrite_group": True}
        dm.files.move(f"{place}/x.npy", path + inside, output_format="zarr", comm=comm, **options)

    with dm.series(path, {"u": field.array}, comm=comm) as run:
        field.set(0)
        run.append(time=0)
        words = "run.zarr is being written by process [0-9]+ on "
        refused(comm, dm.errors.IoFailed, words, moved)
        if not inside:
            save = {"u": (np.zeros((4, 6)), layout)}
            refused(
                comm,
                dm.errors.IoFailed,
                words,
                lambda: dm.save(path, save, comm=comm, overwrite=True),
            )
        field.set(1)
        run.append(time=1)
    if comm.rank == 0:
        np.testing.assert_array_equal(read(path)["u"].values, [field.expected(k) for k in (0, 1)])
    comm.barrier()
    moved()  # it is closed
    comm.barrier()


def test_ghosts_stay_out(comm, rng, place):
    blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=comm.size)
    u = dm.Array(blocks, "f8", ghost=1, comm=comm)
    for block in u.blocks:
        u[block][...] = -1
        u.interior(block)[...] = block
    with dm.series(f"{place}/g.zarr", {"u": u}, comm=comm) as run:
        run.append()
    if comm.rank == 0:
        expected = np.array([[0, 1], [2, 3]]).repeat(4, axis=0).repeat(4, axis=1)
        np.testing.assert_array_equal(read(f"{place}/g.zarr")["u"].values[0], expected)


def test_one_that_is_dropped_without_a_close_is_named_by_a_warning(comm, place):
    layout = dm.BlockCyclic((4 * comm.size, 6), "(block, *)", nprocs=comm.size)
    field, path = Field(comm, layout), f"{place}/run.zarr"
    run = dm.series(path, {"u": field.array}, comm=comm)
    field.set(0)
    run.append(time=0)
    with pytest.warns(ResourceWarning, match=r"the series .*/run\.zarr was not closed"):
        del run
        gc.collect()
    comm.barrier()
    with dm.series(path, {"u": field.array}, comm=comm, resume=True) as run:
        assert run.steps == 1
    comm.barrier()
    assert os.listdir(place) == ["run.zarr"]
    comm.barrier()


def test_a_directory_that_is_no_store_is_not_replaced(comm, place):
    if comm.rank == 0:
        os.makedirs(f"{place}/docs/sub")
        with open(f"{place}/docs/sub/thesis", "w") as file:
            file.write("of years")
    comm.barrier()
    rows = dm.BlockCyclic((2 * comm.size,), "(block)", nprocs=comm.size)
    with pytest.raises(dm.errors.IoFailed, match="not a Zarr store: it is not replaced"):
        dm.series(f"{place}/docs", {"u": (np.zeros(2), rows)}, comm=comm, overwrite=True)
    assert os.listdir(f"{place}/docs/sub") == ["thesis"]
    comm.barrier()


def test_a_series_that_cannot_be_made_leaves_the_old_one(comm, place):
    rows = dm.BlockCyclic((2 * comm.size,), "(block)", nprocs=comm.size)
    path, whole = f"{place}/a.zarr", np.arange(2.0 * comm.size)
    part = whole[2 * comm.rank : 2 * comm.rank + 2].copy()
    with dm.series(path, {"u": (part, rows)}, comm=comm) as series:
        series.append(time=0.5)
    with pytest.raises(dm.errors.Unsupported, match="cannot hold dtype"):
        dm.series(path, {"u": (part.astype("g"), rows)}, comm=comm, overwrite=True)
    comm.barrier()
    assert os.listdir(place) == ["a.zarr"]
    np.testing.assert_array_equal(zarr.open_group(path, mode="r")["u"][...], [whole])
    comm.barrier()
    with dm.series(path, {"u": (part, rows)}, comm=comm, overwrite=True) as series:
        assert series.steps == 0
        series.append(time=np.nan)
        series.append(time=np.nan)
    comm.barrier()
    assert os.listdir(place) == ["a.zarr"]
    np.testing.assert_array_equal(zarr.open_group(path, mode="r")["time"][...], [np.nan] * 2)
    comm.barrier()


def test_arrays_without_elements_keep_the_extents_of_their_chunks(comm, place):
    layout = dm.IndexList((0, 5), [[] for _ in range(comm.size)])
    assert file_arguments.chunk_shape(layout) == (1, 5)
    field = dm.Array(layout, "f8", comm=comm)
    with dm.series(f"{place}/a.zarr", {"u": field}, comm=comm) as run:
        run.append()
    assert zarr.open_group(f"{place}/a.zarr", mode="r")["u"].chunks == (1, 1, 5)
    comm.barrier()


def test_an_array_that_was_closed_is_not_appended(comm, place):
    layout = dm.BlockCyclic((8 * comm.size, 6), "(block, *)", nprocs=comm.size)
    u = dm.Array(layout, "f8", comm=comm)
    with dm.series(f"{place}/run.zarr", {"u": u}, chunks={"u": (8, 6)}, comm=comm) as run:
        run.append()
        u.close()
        with pytest.raises(dm.errors.InvalidState, match="closed"):
            run.append()
        assert run.steps == 1
