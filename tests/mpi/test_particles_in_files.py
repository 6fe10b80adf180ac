# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of rows: each process saves its own number of particles, and others load equal shares."""

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import npy

RECORD = np.dtype([("mass", "f8"), ("kind", "i4")])


def particles(comm, rng, most):
    """Make the particles of this process, and those of all processes in the order of ranks."""
    counts = rng.integers(0, most + 1, comm.size)
    counts[rng.integers(comm.size)] = rng.integers(0, 2) * most
    first = int(counts[: comm.rank].sum())
    numbers = np.arange(first, first + counts[comm.rank])
    every = np.arange(counts.sum())
    return {name: (make(numbers), make(every)) for name, make in FIELDS.items()}


def _records(numbers):
    found = np.zeros(numbers.size, RECORD)
    found["mass"], found["kind"] = numbers / 4, numbers % 5
    return found


FIELDS = {
    "id": lambda n: n.astype("i8"),
    "x": lambda n: n[:, None] + np.arange(3) / 8,
    "g/stress": lambda n: (n[:, None, None] * np.ones((2, 2))).astype("f4"),
    "record": _records,
}


def stored(path, name):
    if path.endswith(".zarr"):
        return zarr.open_group(path, mode="r")[name][...]
    with h5py.File(path, "r") as file:
        return file[name][()]


@pytest.mark.parametrize("end", ["zarr", "h5"])
def test_each_process_saves_its_own_particles(comm, rng, place, cases, end):
    for case in range(cases):
        fields = particles(comm, rng, int(rng.choice([0, 1, 7, 300])))
        path = f"{place}/{case}.{end}"
        saved = {name: (mine, "rows") for name, (mine, _) in fields.items()}
        dm.save(path, {**saved, "step": case}, comm=comm, max_bytes=1 << 20)
        for name, (_, whole) in fields.items():
            np.testing.assert_array_equal(stored(path, name), whole)
        for parts in {int(rng.integers(1, comm.size + 1)), comm.size}:
            group = comm.Split(comm.rank // parts)
            found = dm.load(path, dict.fromkeys(fields, "rows"), comm=group)
            for name, (_, whole) in fields.items():
                share = np.array_split(whole, group.size)[group.rank]
                np.testing.assert_array_equal(found[name].local, share)
                assert found[name].local.shape == share.shape
            assert found["step"] == case
            group.Free()
        comm.Barrier()


def test_an_array_without_elements_keeps_its_shape(comm, place):
    layout = dm.BlockCyclic((0, 3), "(block, *)", comm=comm)
    array = dm.Array(layout, "f4", comm=comm)
    assert array.shape == (0, 3) and array.local.shape == (0, 3)
    dm.save(f"{place}/a.zarr", {"x": array}, comm=comm)
    assert stored(f"{place}/a.zarr", "x").shape == (0, 3)
    assert dm.load(f"{place}/a.zarr", {"x": layout}, comm=comm)["x"].shape == (0, 3)


def test_one_field_in_a_file_of_one_array(comm, place):
    mine = np.full(comm.rank, comm.rank)
    dm.save(f"{place}/a.npy", {"a": (mine, "rows")}, comm=comm)
    whole = np.concatenate([np.full(rank, rank) for rank in range(comm.size)])
    np.testing.assert_array_equal(np.load(f"{place}/a.npy"), whole)
    found = dm.load(f"{place}/a.npy", {"a": "rows"}, comm=comm)["a"].local
    np.testing.assert_array_equal(found, np.array_split(whole, comm.size)[comm.rank])


def test_the_shape_of_rows_is_read_when_the_array_is_looked_at(comm, place, monkeypatch):
    dm.save(f"{place}/a.npy", {"a": (np.ones(3), "rows")}, comm=comm)
    opened, read = [], npy.open_reader
    monkeypatch.setattr(npy, "open_reader", lambda *said: opened.append(said) or read(*said))
    for target in ("rows", dm.FloorPlan.uniform((3 * comm.size,), (comm.size,), comm.size)):
        dm.load(f"{place}/a.npy", {"a": target}, comm=comm)
    assert len(opened) in (2, 4, 6)  # of each: looked at, planned, read


def test_what_is_saved_later_is_what_was_captured(comm, place):
    mine = np.arange(2.0 * comm.rank)
    saving = dm.save(f"{place}/a.zarr", {"x": (mine, "rows")}, comm=comm, wait=False)
    mine[...] = -1
    saving.wait()
    whole = np.concatenate([np.arange(2.0 * rank) for rank in range(comm.size)])
    np.testing.assert_array_equal(stored(f"{place}/a.zarr", "x"), whole)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda comm: {"x": (3.0, "rows")}, dm.errors.WrongType, "rows of this process"),
        (lambda comm: {"x": (np.float64(3), "rows")}, dm.errors.WrongType, "rows of this"),
        (lambda comm: {"x": (np.zeros(3), "row")}, dm.errors.WrongType, "not a pair"),
        (lambda comm: {"x": ([1.0], "rows")}, dm.errors.WrongType, "rows of this process"),
        (lambda comm: {"x": (np.array([None]), "rows")}, dm.errors.WrongType, "Python objects"),
    ],
)
def test_no_rows(comm, place, wrong, error, words):
    with pytest.raises(error, match=words):
        dm.save(f"{place}/a.zarr", wrong(comm), comm=comm)


@pytest.mark.parametrize(
    "given",
    [
        {"x": (np.zeros((2, 4)), "rows")},
        {"x": (np.zeros((2, 3), "f4"), "rows")},
        {"x": (np.zeros((2, *[1] * 8)), "rows")},
        {"y": (np.zeros((2, 3)), "rows")},
        {"x": (np.zeros((2, 3)), "rows"), "y": (np.zeros(2), "rows")},
        {},
        {"x": (None, "rows")},
        None,
    ],
)
def test_other_rows_on_one_process_are_an_error_on_all(comm, place, given):
    if comm.size == 1:
        pytest.skip("takes several processes")
    if comm.rank < comm.size - 1:
        given = {"x": (np.zeros((2, 3)), "rows")}
    with pytest.raises((dm.Mismatch, dm.errors.WrongType, dm.errors.InvalidArgument)):
        dm.save(f"{place}/a.zarr", given, comm=comm)
    comm.Barrier()
    dm.save(f"{place}/b.zarr", {"x": (np.zeros((2, 3)), "rows")}, comm=comm)
    assert stored(f"{place}/b.zarr", "x").shape == (2 * comm.size, 3)


def test_a_value_has_no_rows(comm, place):
    dm.save(f"{place}/a.zarr", {"x": (np.float64(3), None)}, comm=comm)
    with pytest.raises(dm.Error):
        dm.load(f"{place}/a.zarr", {"x": "rows"}, comm=comm)
