# SPDX-License-Identifier: BSD-3-Clause
"""Saved arrays: N processes save them in any layouts, M processes load them in any others.

zarr-python, h5py and NumPy read what is saved and write what is loaded.
"""

import errno
import gc
import os
import re
import threading
import time
import weakref

import drawn
import h5py
import numpy as np
import pytest
import zarr
from interrupter import Interrupter
from mpi4py import MPI

import datamover as dm
from datamover.files import flat, staged_moves, state_stores

DTYPES = ["f8", "i4", "u1", "c16", "f4", ">i8", "S3", [("a", "<u1"), ("b", "<f8")]]
ENDS = ["zarr", "h5", "npy"]


@pytest.fixture
def local_rng(comm, rng):
    return np.random.default_rng([int(rng.integers(2**31)), comm.rank])


def given(part):
    """What `save` and `load` take: an Array as it is, the user's arrays with their layout."""
    return part.arrays if isinstance(part.arrays, dm.Array) else (part.arrays, part.layout)


def stored(path, name):
    """What others read."""
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".zarr"):
        return zarr.open_group(path, mode="r")[name][...]
    with h5py.File(path, "r") as file:
        return file[name][()]


def store(path, arrays, rng):
    """Let others write; HDF5 in chunks, compressed, or contiguous."""
    if path.endswith(".npy"):
        np.save(path, next(iter(arrays.values())))
    elif path.endswith(".zarr"):
        group = zarr.create_group(path)
        for name, array in arrays.items():
            chunks = tuple(int(rng.integers(1, n + 1)) for n in array.shape)
            group.create_array(name, data=array, chunks=chunks)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                chunks = tuple(int(rng.integers(1, n + 1)) for n in array.shape)
                kind = rng.integers(3)
                file.create_dataset(
                    name,
                    data=array,
                    chunks=chunks if kind else None,
                    compression="gzip" if kind == 2 else None,
                )


def dtype_for(rng, end):
    """A random dtype that the format has."""
    return np.dtype(DTYPES[rng.integers(len(DTYPES))])


def limits(rng, arrays):
    """A limit of memory, sometimes so small that arrays go in many steps."""
    least = max(64 * array.dtype.itemsize + array.nbytes // 2 for array in arrays.values())
    return int(rng.choice([1 << 28, least]))


@pytest.mark.parametrize("end", ENDS)
def test_what_n_processes_save_m_load(comm, rng, local_rng, place, cases, end, monkeypatch):
    for case in range(cases):
        # Chunks may be larger than a step.
        monkeypatch.setattr(staged_moves, "STEP_BYTES", int(rng.choice([1 << 26, 1000, 1])))
        monkeypatch.setattr(flat, "MIN_STREAMED_BYTES", int(rng.choice([1 << 20, 1])))
        # What is long enough, and dealt evenly enough, to go straight to the file.
        monkeypatch.setattr(staged_moves, "MIN_RUN_BYTES", int(rng.choice([1 << 16, 20, 1])))
        monkeypatch.setattr(staged_moves, "MOST_SHARES", float(rng.choice([1.5, 100])))
        count = 1 if end == "npy" else int(rng.integers(1, 5))
        names = ["u", "fields/p", "fields/deep/q", "éä z"][:count]
        wholes = {n: drawn.numbered(drawn.shape(rng), dtype_for(rng, end)) for n in names}
        saved = {}
        for name, whole in wholes.items():
            layout = drawn.layout(rng, whole.shape, comm.size)
            part = drawn.Part(comm, rng, local_rng, layout, whole.dtype)
            part.fill(whole)
            saved[name] = given(part)
        values = {} if end == "npy" else {"step": 7, "time": 0.25, "on": True, "what": "a\nb"}
        chunks = {}
        if end == "zarr":
            chunks = {n: tuple(rng.integers(1, w.shape[0] + 1, w.ndim)) for n, w in wholes.items()}
            if rng.random() < 0.3:
                chunks = {}
        path = f"{place}/{case}.{end}"
        zarr_format = [None, 2, 3][rng.integers(3)] if end == "zarr" else None
        writers = [None, 1, comm.size, [comm.size - 1]][rng.integers(4)]
        # Chunks may be as large as the whole array: a limit is drawn where there are none.
        max_bytes = limits(rng, wholes) if end != "zarr" else 1 << 28
        dm.save(
            path, {**saved, **values}, comm=comm, chunks=chunks, writers=writers,
            max_bytes=max_bytes, zarr_format=zarr_format,
        )  # fmt: skip
        if end == "zarr":
            group = zarr.open_group(path, mode="r")
            assert group.metadata.zarr_format == (zarr_format or 3) and dict(group.attrs) == values
        for name, whole in wholes.items():
            found = stored(path, name)
            np.testing.assert_array_equal(found, whole)
            assert found.dtype.newbyteorder("=") == whole.dtype.newbyteorder("=")
        for parts in {int(rng.integers(1, comm.size + 1)), comm.size}:
            group = comm.Split(comm.rank // parts)
            load_all(group, rng, local_rng, path, wholes, values)
            group.Free()
        comm.Barrier()


def load_all(group, rng, local_rng, path, wholes, values):
    """Load by the processes of a group, into arrays of all kinds, and compare."""
    draws = np.random.default_rng([int(rng.integers(2**31)), group.size])
    targets, parts = {}, {}
    for name, whole in wholes.items():
        layout = drawn.layout(draws, whole.shape, group.size)
        kind = draws.integers(3)
        if kind == 0:
            targets[name] = layout
        elif kind == 1:
            targets[name] = None
        else:
            native = whole.dtype if whole.dtype.names else whole.dtype.newbyteorder("=")
            parts[name] = drawn.Part(group, draws, local_rng, layout, native)
            targets[name] = given(parts[name])
    readers = [None, 1, group.size][draws.integers(3)]
    max_bytes = 1 << 28 if path.endswith(".zarr") else limits(draws, wholes)
    found = dm.load(path, targets, comm=group, readers=readers, max_bytes=max_bytes)
    assert {n: found[n] for n in values} == values
    assert [type(found[n]) for n in values] == [type(v) for v in values.values()]
    assert set(found) == {*values, *wholes}
    for name, whole in wholes.items():
        if name in parts:
            parts[name].assert_holds(whole)
        elif targets[name] is None:
            np.testing.assert_array_equal(found[name], whole)
        else:
            for block, index in drawn.indices_of_blocks(targets[name], group.rank):
                np.testing.assert_array_equal(found[name].interior(block), whole[index])


@pytest.mark.parametrize("end", ENDS)
def test_files_of_others_are_loaded_and_converted(comm, rng, local_rng, place, cases, end):
    for case in range(cases):
        names = ["u"] if end == "npy" else ["u", "v"]
        wholes = {n: drawn.numbered(drawn.shape(rng), rng.choice(["i2", ">f4"])) for n in names}
        path = f"{place}/{case}.{end}"
        if comm.rank == 0:
            store(path, wholes, np.random.default_rng(case))
        comm.Barrier()
        parts = {}
        for name, whole in wholes.items():
            layout = drawn.layout(rng, whole.shape, comm.size)
            parts[name] = drawn.Part(comm, rng, local_rng, layout, "f8")
        dm.load(path, {n: given(part) for n, part in parts.items()}, comm=comm)
        for name, whole in wholes.items():
            parts[name].assert_holds(whole.astype("f8"))
        comm.Barrier()


def rows(comm, shape=(12, 10), dtype="f8"):
    """An Array by rows that holds a numbered array, and that array."""
    layout = dm.BlockCyclic(shape, "(block, *)", nprocs=comm.size)
    whole = drawn.numbered(shape, dtype)
    array = dm.Array(layout, dtype, comm=comm)
    for block, index in drawn.indices_of_blocks(layout, comm.rank):
        array[block][...] = whole[index]
    return array, whole


def wait_for_threads(others):
    """Wait until there are no more than these; one that is about to start cannot be joined yet."""
    while set(threading.enumerate()).difference(others):
        time.sleep(1e-3)


@pytest.mark.parametrize("end", ENDS)
def test_a_save_goes_on_while_the_program_does(comm, place, end):
    array, whole = rows(comm)
    path = f"{place}/a.{end}"
    saving = dm.save(path, {"u": array}, wait=False)
    assert repr(saving).startswith(f"Saving({path!r}, ")
    for block in array.blocks:
        array[block][...] = -1
    comm.Barrier()
    assert not os.path.exists(path)
    saving.wait()
    np.testing.assert_array_equal(stored(path, "u"), whole)
    assert saving.done and repr(saving) == f"Saving({path!r}, ended)"
    with pytest.raises(dm.errors.InvalidState):
        saving.wait()
    comm.Barrier()
    assert os.listdir(place) == [f"a.{end}"]
    comm.Barrier()


def test_what_is_captured_at_once_has_to_fit(comm, place):
    array, _ = rows(comm)
    with pytest.raises(dm.errors.NoMemory, match=r"must be at least"):
        dm.save(f"{place}/a.npy", {"u": array}, wait=False, max_bytes=200)
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


@pytest.mark.parametrize("end", ["h5", "npy"])
def test_what_is_captured_at_once_is_whole_with_the_least_memory_that_is_asked_for(
    comm, place, end
):
    """Slabs are cut at finer places than an array of many rows is: there may be several."""
    layout = dm.BlockCyclic((25, 3360), "(block, *)", nprocs=comm.size)
    whole = np.arange(25 * 3360.0).reshape(25, 3360)
    part = whole[np.ix_(*layout.global_indices(comm.rank))].copy()
    little = 1_200_000 // comm.size
    with pytest.raises(dm.errors.NoMemory) as caught:
        dm.save(f"{place}/a.{end}", {"u": (part, layout)}, comm=comm, wait=False, max_bytes=little)
    least = int(re.search(r"at least ([\d,]+);", str(caught.value))[1].replace(",", ""))
    saving = dm.save(
        f"{place}/a.{end}", {"u": (part, layout)}, comm=comm, wait=False, max_bytes=least
    )
    part[...] = -1
    saving.wait()
    np.testing.assert_array_equal(stored(f"{place}/a.{end}", "u"), whole)
    comm.Barrier()


def test_attributes_that_nobody_asks_for_may_be_odd(comm, place):
    layout = dm.BlockCyclic((comm.size,), "(block)", nprocs=comm.size)
    if comm.rank == 0:
        zarr.create_array(f"{place}/a.zarr", data=np.arange(comm.size), zarr_format=2)
        with open(f"{place}/a.zarr/.zattrs", "w") as file:
            file.write("[1]")
    comm.Barrier()
    part = np.zeros(1, "i8")
    dm.load(f"{place}/a.zarr", {"u": (part, layout)}, comm=comm)
    assert part[0] == comm.rank
    comm.Barrier()


@pytest.mark.parametrize("end", ["zarr", "h5", "npy"])
def test_nothing_holds_arrays_after_a_save_or_a_load(comm, place, end):
    """Memory is released at once, without the garbage collector, which does not know its size."""
    layout = dm.BlockCyclic((comm.size, 3), "(block, *)", nprocs=comm.size)
    path = f"{place}/a.{end}"
    gc.collect()
    gc.disable()
    try:
        for waits in (True, False):
            array = np.ones((1, 3))
            alive = weakref.ref(array)
            saving = dm.save(path, {"u": (array, layout)}, comm=comm, wait=waits, overwrite=True)
            if not waits:
                saving.wait()
            del array
            assert alive() is None
        array = np.zeros((1, 3))
        alive = weakref.ref(array)
        dm.load(path, {"u": (array, layout)}, comm=comm)
        assert (array == 1).all()
        del array
        assert alive() is None
    finally:
        gc.enable()
    comm.Barrier()


@pytest.mark.parametrize("end", ["zarr", "h5", "npy"])
def test_a_block_that_fails_gives_no_output_and_frees_the_place(comm, place, end):
    array, whole = rows(comm)
    path = f"{place}/a.{end}"
    alone = comm.Dup()  # an exception that datamover does not know ends all on it
    part = np.ones(array.layout.local_shape(comm.rank)), array.layout
    with pytest.raises(KeyError), dm.save(path, {"u": part}, comm=alone, wait=False):
        comm.Barrier()  # all are in it
        raise KeyError("of the program")
    comm.Barrier()
    alone.Free()
    assert not os.path.exists(path)
    comm.Barrier()
    dm.save(path, {"u": array})  # removes what others may have written after the first had gone
    comm.Barrier()
    assert os.listdir(place) == [f"a.{end}"]
    np.testing.assert_array_equal(dm.load(path, {"u": None}, comm=comm)["u"], whole)
    comm.Barrier()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_a_block_that_fails_on_one_process_alone_fails_on_all(comm, place, error):
    """Repeated: a process may find that another one has left before it finds out why."""
    layout = dm.BlockCyclic((12, 10), "(block, *)", nprocs=comm.size)
    given = {"u": (np.ones(layout.local_shape(comm.rank)), layout)}
    last = comm.rank == comm.size - 1

    def run(alone):
        with dm.save(f"{place}/a.npy", given, comm=alone, wait=False):
            if last:
                raise error("of the program")

    for _ in range(20):
        alone = comm.Dup()  # nothing moves on it afterwards
        expected = error if last else dm.Error
        with pytest.raises(expected, match=r"of the program|KeyboardInterrupt"):
            run(alone)
        comm.Barrier()
        assert os.listdir(place) == []
        comm.Barrier()
        alone.Free()


def test_saves_that_nobody_waits_for_leave_nothing_but_a_warning(comm, place):
    array, whole = rows(comm)
    others = threading.enumerate()
    for _ in range(3):
        saving = dm.save(f"{place}/a.npy", {"u": array}, wait=False)
        with pytest.warns(ResourceWarning, match=r"a\.npy was not waited for; there is no new"):
            del saving
            gc.collect()
    wait_for_threads(others)  # they remove what they wrote
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    dm.save(f"{place}/b.npy", {"u": array})  # the communicator is of use as before
    np.testing.assert_array_equal(stored(f"{place}/b.npy", "u"), whole)
    comm.Barrier()


@pytest.mark.parametrize("how", ["dropped", "timeout"])
def test_a_save_for_which_one_process_does_not_wait_is_an_error_on_the_others(comm, place, how):
    alone = comm.Dup()  # nothing moves on it afterwards
    layout = dm.BlockCyclic((12, 10), "(block, *)", nprocs=comm.size)
    given = {"u": (np.ones(layout.local_shape(comm.rank)), layout)}
    last = comm.rank == comm.size - 1
    others = threading.enumerate()
    saving = dm.save(f"{place}/a.npy", given, comm=alone, wait=False)
    comm.Barrier()
    if not last:
        dm.set_timeout(0.05 if how == "dropped" else None)
        try:
            with pytest.raises((dm.PeerFailed, dm.Timeout)):  # of another process, of this one
                saving.wait()
        finally:
            dm.set_timeout(None)
    elif how == "timeout":
        with pytest.raises(dm.Timeout), saving:
            raise dm.Timeout("of this process alone")
    else:
        with pytest.warns(ResourceWarning, match="was not waited for"):
            del saving
            gc.collect()
    wait_for_threads(others)
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    alone.Free()


def test_a_wait_for_a_save_that_lasts_too_long_ends_on_all(comm, place):
    if comm.size == 1:
        pytest.skip("takes several processes")
    alone = comm.Dup()  # nothing moves on it any more
    layout = dm.BlockCyclic((12, 10), "(block, *)", nprocs=comm.size)
    given = {"u": (np.ones(layout.local_shape(comm.rank)), layout)}
    saving = dm.save(f"{place}/a.npy", given, comm=alone, wait=False)
    if comm.rank == comm.size - 1:
        comm.Barrier()
        with pytest.raises(dm.PeerFailed):
            saving.wait()
    else:
        dm.set_timeout(0.05)
        try:
            with pytest.raises((dm.Timeout, dm.PeerFailed)):  # of this process, of another
                saving.wait()
        finally:
            dm.set_timeout(None)
        comm.Barrier()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    alone.Free()


def test_arrays_that_all_have_alike(comm, place):
    array, whole = rows(comm)
    table = np.arange(6.0).reshape(2, 3)
    mask = np.array([True, False])
    said = {
        "u": array,
        "table": (table, None),
        "mask": (mask, None),
        "z": np.complex64(1 + 2j),
        "n": np.int32(5),
    }
    for end in ("zarr", "h5"):
        path = f"{place}/a.{end}"
        dm.save(path, said)
        np.testing.assert_array_equal(stored(path, "table"), table)
        found = dm.load(path, {"table": None, "mask": None, "u": None}, comm=comm)
        assert found["mask"].dtype == bool and found["mask"].tolist() == [True, False]
        np.testing.assert_array_equal(found["table"], table)
        np.testing.assert_array_equal(found["u"], whole)
        assert found["z"] == 1 + 2j and found["n"] == 5
        comm.Barrier()


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("end, zarr_format", [("zarr", 2), ("zarr", 3), ("h5", None)])
def test_xarray_opens_what_is_saved_with_names_of_dimensions(comm, place, end, zarr_format, wait):
    xarray = pytest.importorskip("xarray")
    values, heights = np.arange(42.0).reshape(6, 7), np.linspace(0, 1, 6)
    rows = dm.BlockCyclic((6, 7), "(block, *)", comm.size)
    line = dm.BlockCyclic(6, "block", comm.size)
    u = dm.Array(rows, ghost=1, comm=comm)
    u.interior()[...] = values[np.ix_(*rows.global_indices(comm.rank))]
    z = heights[line.global_indices(comm.rank)[0]]
    state = {"u": u, "z": (z, line), "part/u": u, "p": (np.arange(3), None), "one": np.array(2.5)}
    dimensions = {"u": ("z", "y"), "z": ["z"], "part/u": ("n", "xyz")}
    path = f"{place}/state.{end}"
    said = {"dimensions": dimensions, "zarr_format": zarr_format, "wait": wait}
    saving = dm.save(path, state, comm=comm, **said)
    if saving is not None:
        saving.wait()
    assert (dm.load(path, {"u": None}, comm=comm)["u"] == values).all()
    options = {"engine": "h5netcdf"} if end == "h5" else {"engine": "zarr", "consolidated": False}
    with xarray.open_dataset(path, **options) as found:
        assert (found.u.values == values).all() and found.u.dims == ("z", "y")
        assert (found.coords["z"].values == heights).all()
        assert found.p.dims == ("p_0",) and found.p.values.tolist() == [0, 1, 2]
        assert set(found) == {"u", "p", "one"}
    with xarray.open_dataset(path, group="part", **options) as found:
        assert found.u.dims == ("n", "xyz") and (found.u.values == values).all()


@pytest.mark.parametrize(
    "dimensions, error, words",
    [
        ({"w": ["x"]}, dm.errors.InvalidArgument, "'w', which is not saved"),
        ({"u": ["x"]}, dm.errors.InvalidArgument, r"are \('x',\); it has the shape \(6, 7\)"),
        ({"u": ["x", "x"]}, dm.errors.InvalidArgument, "one name"),
        ({"u": ["x", "a/b"]}, dm.errors.InvalidArgument, "'a/b' is not a valid name"),
        ({"u": ["x", "part"]}, dm.errors.InvalidArgument, "the name of a group"),
        ({"u": ["p", "y"]}, dm.errors.InvalidArgument, "the name of another array"),
        ({"u": ["x", "y"], "p": ["x"]}, dm.Mismatch, "'x' has 6 elements in 'u', 3 in 'p'"),
        ({"u": "xy"}, dm.errors.WrongType, "a list of names"),
        ({"u": 3}, dm.errors.WrongType, "a list of names"),
        ("xy", dm.errors.WrongType, "a mapping"),
    ],
)
@pytest.mark.parametrize("end", ["zarr", "h5"])
def test_names_of_dimensions_that_do_not_fit(comm, place, end, dimensions, error, words):
    rows = dm.BlockCyclic((6, 7), "(block, *)", comm.size)
    u = dm.Array(rows, comm=comm)
    state = {"u": u, "p": (np.arange(3.0), None), "part/u": (np.ones(6), None)}
    with pytest.raises(error, match=words):
        dm.save(f"{place}/state.{end}", state, comm=comm, dimensions=dimensions)
    assert not os.path.exists(f"{place}/state.{end}")
    with pytest.raises(dm.errors.InvalidArgument, match="no names of dimensions"):
        dm.save(f"{place}/u.npy", {"u": u}, comm=comm, dimensions={"u": ["x", "y"]})


def test_a_state_in_a_group_has_its_format(comm, place):
    array, whole = rows(comm)
    if comm.rank == 0:
        zarr.create_group(f"{place}/g.zarr", zarr_format=2)
    comm.Barrier()
    with pytest.raises(dm.errors.InvalidArgument, match="a Zarr group of format 2"):
        dm.save(f"{place}/g.zarr/a.zarr", {"u": array}, zarr_format=3)
    dm.save(f"{place}/g.zarr/a.zarr", {"u": array})
    found = zarr.open_group(f"{place}/g.zarr", mode="r")["a.zarr/u"]
    assert found.metadata.zarr_format == 2
    np.testing.assert_array_equal(found[...], whole)
    for zarr_format in (4, "2", 2.0):
        with pytest.raises(dm.errors.InvalidArgument, match="unknown Zarr format"):
            dm.save(f"{place}/b.zarr", {"u": array}, zarr_format=zarr_format)
    for end in ("h5", "npy"):
        with pytest.raises(dm.errors.InvalidArgument, match="zarr_format apply to Zarr only"):
            dm.save(f"{place}/b.{end}", {"u": array}, zarr_format=2)
    if comm.size > 1:
        with pytest.raises(dm.Mismatch, match="zarr_format="):
            dm.save(f"{place}/b.zarr", {"u": array}, zarr_format=2 + (comm.rank == 1))


@pytest.mark.parametrize("end", ENDS)
def test_an_old_output_is_replaced_only_when_said_and_when_the_new_is_whole(comm, place, end):
    array, whole = rows(comm)
    path = f"{place}/a.{end}"
    dm.save(path, {"u": array})
    for block in array.blocks:
        array[block][...] *= 2
    with pytest.raises(dm.errors.IoFailed, match=r"exists.*overwrite=True"):
        dm.save(path, {"u": array})
    np.testing.assert_array_equal(stored(path, "u"), whole)
    comm.Barrier()
    dm.save(path, {"u": array}, overwrite=True)
    np.testing.assert_array_equal(stored(path, "u"), 2 * whole)
    comm.Barrier()
    assert os.listdir(place) == [f"a.{end}"]
    comm.Barrier()


def test_two_names_are_not_loaded_into_one_memory(comm, place):
    array, whole = rows(comm)
    path = f"{place}/a.zarr"
    dm.save(path, {"u": array, "v": array})
    layout = array.layout
    both = np.zeros((*layout.local_shape(comm.rank), 2))
    dm.load(path, {"u": (both[..., 0], layout), "v": (both[..., 1], layout)}, comm=comm)
    for _, index in drawn.indices_of_blocks(layout, comm.rank):
        np.testing.assert_array_equal(both, np.stack([whole[index]] * 2, axis=-1))
    with pytest.raises(
        dm.errors.InvalidArgument, match="'u' and 'v' would be loaded into one memory"
    ):
        dm.load(path, {"u": array, "v": array})
    comm.Barrier()


@pytest.mark.parametrize("end", ENDS)
def test_a_forked_child_leaves_a_save_to_its_parent(comm, place, end):
    array, whole = rows(comm)
    path = f"{place}/a.{end}"
    saving = dm.save(path, {"u": array}, wait=False)
    while not saving.done:
        os.sched_yield()
    child = os.fork()
    if child == 0:
        del saving
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    saving.wait()
    np.testing.assert_array_equal(stored(path, "u"), whole)
    comm.Barrier()


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def surprising(*_):
    raise RuntimeError("something else")


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_one_process_without_space_leaves_the_old_output(comm, place, monkeypatch, end, wait):
    array, whole = rows(comm)
    path = f"{place}/a.{end}"
    dm.save(path, {"u": array})
    comm.Barrier()
    if comm.rank == comm.size // 2:  # one that has rows: of seven processes the last has none
        monkeypatch.setattr(flat.os, "pwritev", full)
        monkeypatch.setattr("datamover.files.direct_zarr.os.write", full)
    chunks = {"u": (2, 5)} if end == "zarr" else None
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):
        saving = dm.save(path, {"u": array}, overwrite=True, chunks=chunks, wait=wait)
        saving.wait()
    monkeypatch.undo()
    comm.Barrier()
    np.testing.assert_array_equal(stored(path, "u"), whole)
    assert os.listdir(place) == [f"a.{end}"]
    comm.Barrier()
    dm.save(path, {"u": array}, overwrite=True)


@pytest.mark.parametrize("end", ENDS)
def test_any_exception_on_one_process_is_an_error_on_all(comm, place, monkeypatch, end):
    array, _ = rows(comm)
    path = f"{place}/a.{end}"
    mine = comm.rank == comm.size - 1
    if mine:
        monkeypatch.setattr(state_stores.Target, "open", surprising)
    with pytest.raises(RuntimeError if mine else dm.PeerFailed, match="something else"):
        dm.save(path, {"u": array})
    monkeypatch.undo()
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()
    dm.save(path, {"u": array})
    if mine:
        monkeypatch.setattr(state_stores.Origin, "open", surprising)
    with pytest.raises(dm.Error, match="something else"):
        dm.load(path, {"u": array})
    comm.Barrier()


WRONG = [
    ({}, {"u": 1 + 2j, "step": []}, dm.errors.WrongType),
    ({}, [], dm.errors.WrongType),
    ({}, {3: 4}, dm.errors.WrongType),
    ({}, {"a/../b": 4}, dm.errors.InvalidArgument),
    ({}, {"": 4}, dm.errors.InvalidArgument),
    ({}, {"zarr.json": 4}, dm.errors.InvalidArgument),
    ({}, {"a": 4, "a/b": 5}, dm.errors.InvalidArgument),
    ({}, {"a\\b": (np.zeros(3), None)}, dm.errors.Unsupported),
    ({}, {"a\\b/u": (np.zeros(3), None)}, dm.errors.Unsupported),
    ({}, {"a": np.array([None])}, dm.errors.WrongType),
    ({}, {"a": (np.zeros(3), 7)}, dm.errors.WrongType),
    ({}, {"a": (None, None)}, dm.errors.WrongType),
    ({}, {"a": (7, None)}, dm.errors.WrongType),
    ({}, {"a": (np.ma.masked_equal([1, 2], 2), None)}, dm.errors.WrongType),
    ({}, {"a": np.ma.masked_equal([1, 2], 2)}, dm.errors.WrongType),
    ({}, {"a": np.longdouble(2)}, dm.errors.Unsupported),
    ({"writers": 0}, {"a": 1}, dm.errors.InvalidArgument),
    ({"writers": [0, 0]}, {"a": 1}, dm.errors.InvalidArgument),
    ({"writers": 1.5}, {"a": 1}, dm.errors.WrongType),
    ({"writers": [2**70]}, {"a": 1}, dm.Error),
    ({"max_bytes": 0}, {"a": 1}, dm.errors.InvalidArgument),
    ({"max_bytes": None}, {"a": 1}, dm.errors.WrongType),
    ({"chunks": {"a": (2,)}}, {"a": 1}, dm.errors.InvalidArgument),
    ({"chunks": 3}, {"a": 1}, dm.errors.WrongType),
    ({"compressor": "bogus"}, {"a": (np.zeros(3), None)}, dm.errors.InvalidArgument),
    ({"overwrite": "no"}, {"a": 1}, dm.errors.WrongType),
    ({"wait": "no"}, {"a": 1}, dm.errors.WrongType),
    ({"path": "a.txt"}, {"a": 1}, dm.errors.InvalidArgument),
    ({"path": ""}, {"a": 1}, dm.errors.InvalidArgument),
    ({"path": "gone/a.zarr"}, {"a": 1}, dm.errors.IoFailed),
    ({"path": "a.npy"}, {"a": 1}, dm.errors.InvalidArgument),
    ({"path": "a.h5", "compressor": "zstd"}, {"a": 1}, dm.errors.InvalidArgument),
    ({"path": "a.h5"}, {"a": 2**80}, dm.errors.Unsupported),
    ({"path": "a.h5"}, {"a": np.array("xyz")}, dm.errors.Unsupported),
]


def test_masks_are_not_lost_in_silence(comm, place):
    layout = dm.BlockCyclic((3 * comm.size,), "(block)", nprocs=comm.size)
    masked = np.ma.masked_equal([1.0, 2.0, 3.0], 2.0)
    for given_as in (masked, {comm.rank: masked}):
        with pytest.raises(dm.errors.WrongType, match="masked"):
            dm.save(f"{place}/a.npy", {"u": (given_as, layout)}, comm=comm)
    assert os.listdir(place) == []
    comm.Barrier()


def test_a_scalar_that_is_no_number_of_python_is_an_array(comm, place):
    dm.save(f"{place}/a.h5", {"x": np.longdouble("0.1")}, comm=comm)
    found = dm.load(f"{place}/a.h5", {}, comm=comm)
    assert found["x"] == np.longdouble("0.1") and found["x"].dtype == np.longdouble
    comm.Barrier()


@pytest.mark.parametrize("everywhere", [True, False])
def test_what_cannot_be_saved_is_an_error_on_all(comm, place, everywhere):
    for options, arrays, error in WRONG:
        options = {"path": "a.zarr", **options}
        path = options.pop("path")
        if not everywhere and comm.rank < comm.size - 1:
            path, options, arrays = "a.zarr", {}, {"a": 1}
        # Where one process alone is wrong, the others may hear that they differ.
        expected = error if everywhere or comm.size == 1 else dm.Error
        with pytest.raises(expected):
            dm.save(path and f"{place}/{path}", arrays, comm=comm, **options)
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


def test_one_process_needs_no_communicator(comm, place):
    table = np.arange(6.0).reshape(2, 3)
    layout = dm.BlockCyclic(table.shape, "(block, *)", nprocs=1)
    path = f"{place}/a.zarr"
    if comm.size > 1:
        for call in (lambda: dm.save(path, {"n": 1}), lambda: dm.load(path, {"u": layout})):
            with pytest.raises(
                dm.errors.InvalidArgument, match=f"comm is needed.*{comm.size} processes"
            ):
                call()
        assert os.listdir(place) == []
        return
    dm.save(path, {"u": (table, layout), "table": table, "n": 1})
    found = dm.load(path, {"u": layout, "table": None})
    assert (found["u"].local == table).all() and (found["table"] == table).all()
    assert found["n"] == 1


def test_that_parts_are_equal_does_not_make_them_a_whole(comm, place):
    part = np.zeros((3, 2))
    if comm.size == 1:
        dm.save(f"{place}/a.zarr", {"p": part}, comm=comm)
        assert stored(f"{place}/a.zarr", "p").shape == (3, 2)
        return
    for other in (part, part + comm.rank):
        with pytest.raises(
            dm.errors.InvalidArgument, match=r"'p' .*\(array, layout\).*\(array, None\)"
        ):
            dm.save(f"{place}/a.zarr", {"p": other, "n": np.float32(2)}, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument, match=r"'p' "):
        dm.save(f"{place}/a.zarr", {"p": part if comm.rank else (part, None)}, comm=comm)
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


def test_processes_that_differ_are_told_in_what(comm, place):
    if comm.size == 1:
        pytest.skip("takes several processes")
    array, _ = rows(comm)
    last = comm.rank == comm.size - 1
    for mine, words in [
        ({"step": 2 if last else 1}, "'step'"),
        ({"b" if last else "a": 1}, "names"),
        ({"table": (np.arange(3) + last, None)}, r"'table'.* as \(array, layout\)"),
    ]:
        with pytest.raises(dm.Mismatch, match=words) as caught:
            dm.save(f"{place}/a.zarr", {"u": array, **mine})
        assert len(set(comm.allgather(str(caught.value)))) == 1
    for options in ({"overwrite": last}, {"max_bytes": (2 if last else 1) << 28}):
        with pytest.raises(dm.Mismatch, match=f"options: {next(iter(options))}=.* on process 0, "):
            dm.save(f"{place}/a.zarr", {"u": array}, **options)
    layout = dm.BlockCyclic((12,), "(block)", nprocs=comm.size)
    mine = np.zeros(layout.local_shape(comm.rank), "f4" if last else "f8")
    with pytest.raises(dm.Mismatch, match="dtypes"):
        dm.save(f"{place}/a.zarr", {"u": (mine, layout)}, comm=comm)
    other = dm.BlockCyclic((12,), "(cyclic)" if last else "(block)", nprocs=comm.size)
    mine = np.zeros(other.local_shape(comm.rank))
    with pytest.raises(dm.Mismatch):
        dm.save(f"{place}/a.zarr", {"u": (mine, other)}, comm=comm)
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


def test_only_some_processes_hold_something(comm, place):
    layout = dm.FloorPlan([dm.Region(2, 9)], [comm.size - 1], nprocs=comm.size)
    mine = np.arange(7, dtype="i2") if comm.rank == comm.size - 1 else None
    for end in ENDS:
        path = f"{place}/a.{end}"
        dm.save(path, {"u": (mine, layout)}, comm=comm)
        np.testing.assert_array_equal(stored(path, "u"), np.arange(7, dtype="i2"))
        back = dm.load(path, {"u": layout}, comm=comm)["u"]
        for block in back.blocks:
            np.testing.assert_array_equal(back[block], np.arange(7))
        comm.Barrier()


def test_elements_that_nobody_holds_are_an_error(comm, place):
    layout = dm.FloorPlan([dm.Region(0, 4), dm.Region(6, 8)], [0, 0], nprocs=comm.size)
    array = dm.Array(layout, comm=comm)
    with pytest.raises(dm.Mismatch):
        dm.save(f"{place}/a.h5", {"u": array})
    comm.Barrier()
    assert os.listdir(place) == []
    comm.Barrier()


def test_a_block_within_another_does_not_make_up_for_elements_that_nobody_holds(comm, place):
    """Together the blocks have as many elements as the domain, in long runs."""
    n = 1 << 14
    regions = [dm.Region(0, 2 * n), dm.Region(0, n), dm.Region(3 * n, 4 * n)]
    layout = dm.FloorPlan(regions, [0, 0, 0], comm.size)
    mine = {k: np.ones(regions[k].size) for k in layout.blocks_of(comm.rank)}
    with pytest.raises(dm.Mismatch, match=rf"needs index \({2 * n}\)"):
        dm.save(f"{place}/a.npy", {"u": (mine, layout)}, comm=comm)


def test_of_several_copies_that_of_the_writer_is_saved(comm, place):
    shape = (64, 1 << 14)
    layout = dm.BlockCyclic(shape, "(*, *)", nprocs=comm.size, replicas=comm.size)
    mine = np.full(shape, float(comm.rank))
    dm.save(f"{place}/a.npy", {"u": (mine, layout)}, comm=comm, writers=1)
    assert (np.load(f"{place}/a.npy") == 0).all()


def test_arrays_without_elements(comm, place):
    empty = np.zeros((0, 4), "f4")
    for end in ("zarr", "h5"):
        path = f"{place}/a.{end}"
        dm.save(path, {"e": (empty, None)}, comm=comm)
        assert stored(path, "e").shape == (0, 4)
        found = dm.load(path, {"e": None}, comm=comm)["e"]
        assert found.shape == (0, 4) and found.dtype == "f4"
        comm.Barrier()


def test_what_cannot_be_loaded_is_an_error_on_all_and_touches_nothing(comm, place):
    array, whole = rows(comm)
    layout = array.layout
    for end in ENDS:
        dm.save(f"{place}/a.{end}", {"u": array})
    other = dm.BlockCyclic((10, 12), "(block, *)", nprocs=comm.size)
    mine = np.full(layout.local_shape(comm.rank), 5, "i4")
    cases = [
        ("a.zarr", {"gone": layout}, dm.errors.IoFailed, "no array 'gone'; there are u"),
        ("a.h5", {"gone": layout}, dm.errors.IoFailed, "no array 'gone'; there are u"),
        ("a.npy", {"u": layout, "v": layout}, dm.errors.InvalidArgument, "holds one array"),
        ("gone.h5", {"u": layout}, dm.errors.IoFailed, "no input"),
        *((f"a.{end}", {"u": other}, dm.Mismatch, r"\(12, 10\)") for end in ENDS),
        *((f"a.{end}", {"u": (mine, layout)}, dm.errors.WrongType, "same_kind") for end in ENDS),
        *((f"a.{end}", {"u": 3}, dm.errors.WrongType, "must be a layout") for end in ENDS),
        ("a.h5", {"u": dm.BlockCyclic((12, 10), "(block, *)", nprocs=99)}, dm.Mismatch, "99"),
    ]
    for path, targets, error, words in cases:
        with pytest.raises(error, match=words):
            dm.load(f"{place}/{path}", targets, comm=comm)
        last = comm.rank == comm.size - 1
        if comm.size > 1:
            with pytest.raises(dm.Error):
                dm.load(f"{place}/{path}", targets if last else {"u": layout}, comm=comm)
    assert (mine == 5).all()
    np.testing.assert_array_equal(dm.load(f"{place}/a.h5", {"u": None}, comm=comm)["u"], whole)
    comm.Barrier()


def test_broken_files_are_an_error_on_all(comm, place):
    array, _ = rows(comm)
    dm.save(f"{place}/a.zarr", {"u": array}, chunks={"u": (3, 10)})
    dm.save(f"{place}/a.h5", {"u": array})
    dm.save(f"{place}/a.npy", {"u": array})
    if comm.rank == 0:
        with open(f"{place}/a.zarr/u/c/1/0", "wb") as file:
            file.write(b"nonsense")
        for end in ("h5", "npy"):
            os.truncate(f"{place}/a.{end}", os.path.getsize(f"{place}/a.{end}") - 8)
    comm.Barrier()
    for end in ENDS:
        with pytest.raises(dm.errors.IoFailed):
            dm.load(f"{place}/a.{end}", {"u": array.layout}, comm=comm)
    comm.Barrier()


@pytest.mark.parametrize("end", ENDS)
def test_what_is_replaced_while_it_is_loaded_is_an_error(comm, place, monkeypatch, end):
    array, _ = rows(comm)
    path = f"{place}/a.{end}"
    dm.save(path, {"u": array})
    tried = []

    def replace(*_):
        first = os.stat(path).st_ino
        while not tried or (os.stat(path).st_ino != first and len(tried) < 8):
            layout = dm.BlockCyclic((12, 10), "(block, *)", nprocs=1)
            given = (np.zeros((12, 10)), layout)
            dm.save(path, {"u": given}, comm=MPI.COMM_SELF, overwrite=True)
            tried.append(path)

    # The system may give the numbers of files that were removed to new ones.
    if comm.rank == 0:
        monkeypatch.setattr(state_stores.Origin, "values", lambda _: replace() or {})
    with pytest.raises(dm.errors.IoFailed, match="was replaced"):
        dm.load(path, {"u": array.layout}, comm=comm)
    comm.Barrier()


@pytest.mark.parametrize("call", ["save", "load", "move", "move to chunks"])
@pytest.mark.parametrize("end", ENDS)
def test_an_interrupt_anywhere_ends_all_processes_and_the_output_is_whole(
    comm, rng, place, cases, call, end
):
    rows = dm.BlockCyclic((4 * comm.size, 3), "(block, *)", nprocs=comm.size)
    u = dm.Array(rows, "f8", comm=comm)
    u.local[...] = comm.rank
    whole = np.repeat(np.arange(comm.size, dtype="f8"), 4)[:, None] * np.ones(3)
    old = f"{place}/old.{end}"
    dm.save(old, {"u": u})

    written = {"move": "npy", "move to chunks": "h5"}.get(call, end)

    def run(on, output):
        if call == "save":
            dm.save(output, {"u": (u.local, rows)}, comm=on)
        elif call == "load":
            dm.load(old, {"u": rows}, comm=on)["u"].close()
        else:
            # One process writes the chunks of HDF5 that all encode.
            to = ("", {}) if call == "move" else (":/u", dict(chunks=(3, 3), compressor="gzip"))
            where = "" if end == "npy" else "/u" if end == "zarr" else ":/u"
            dm.files.move(old + where, output + to[0], comm=on, **to[1])

    run(comm, f"{place}/first.{written}")  # imports more than the next
    with Interrupter() as counted:
        run(comm, f"{place}/second.{written}")
    last = comm.rank == comm.size - 1
    for case in range(4 * cases):
        alone = comm.Dup()
        output = f"{place}/{case}.{written}"
        n = comm.bcast(int(rng.integers(1, counted.lines + 1)), comm.size - 1)
        with Interrupter(n if last else None) as interrupter:
            try:
                run(alone, output)
                dm.Migration([0] * 3, method="partition", comm=alone)  # the others are told by now
                outcome = "done"
            except (KeyboardInterrupt, dm.Error) as error:
                outcome = type(error).__name__
        ended = "KeyboardInterrupt" if last else "PeerFailed"
        assert outcome == (ended if comm.bcast(interrupter.came, comm.size - 1) else "done"), n
        if comm.size == 1:  # nobody is left behind: it goes on
            run(alone, f"{place}/again{case}.{written}")
        comm.Barrier()
        if call != "load" and os.path.exists(output):
            np.testing.assert_array_equal(stored(output, "u"), whole)
        comm.Barrier()
        alone.Free()
    u.close()
