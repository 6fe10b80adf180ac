# SPDX-License-Identifier: BSD-3-Clause
"""Many files joined by several processes: each compares some of them, and all get the same."""

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import hdf5, move

#: How the elements of a file are stored, and whether its other bytes are those of the one before.
STORED = {
    "flat": ({}, True),
    "chunked": ({"chunks": (1, 2), "fillvalue": 3.0}, True),
    "one chunk": ({"chunks": (2, 3)}, False),
    "gzip": ({"chunks": (1, 3), "compression": "gzip", "shuffle": True}, False),
}


def write(path, k, stored, is_twin=True):
    """Write two rows of u, which are read in other units of time from the third file on."""
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=np.arange(6.0 * k, 6.0 * k + 6).reshape(2, 3), **stored)
        file["t"], file["x"] = np.arange(2 * k, 2 * k + 2), np.arange(3.0)
        file["t"].attrs["units"] = "days since 2001-01-01"
        if k > 2:
            file["t"][...] -= 1
            file["t"].attrs["units"] = "days since 2001-01-02"
        if not is_twin:
            file.attrs["history"] = "x" * k
        for dim, name in zip(file["u"].dims, "tx", strict=True):
            file[name].make_scale(name)
            dim.attach_scale(file[name])


@pytest.fixture
def files(comm, place):
    """Write files, by the first process; return their paths."""

    def written(count, stored, is_twin=True):
        paths = [f"{place}/{k:02}.h5" for k in range(count)]
        for k, path in enumerate(paths if comm.rank == 0 else ()):
            write(path, k, stored, is_twin)
        comm.barrier()
        return paths

    return written


@pytest.mark.parametrize("output", ["out.zarr", "out.h5"])
@pytest.mark.parametrize("stored", STORED)
def test_each_process_compares_some_files(comm, place, files, stored, output, monkeypatch):
    opened, by_hdf5 = [], hdf5.open_file
    monkeypatch.setattr(
        hdf5, "open_file", lambda path, *more: opened.append(path) or by_hdf5(path, *more)
    )
    count = 9
    paths = files(count, *STORED[stored])
    move(paths, f"{place}/{output}", along="t", chunks=(5, 2), comm=comm)
    out = f"{place}/{output}"
    found = h5py.File(out) if output == "out.h5" else zarr.open_group(out, mode="r")
    np.testing.assert_array_equal(found["u"][...], np.arange(6.0 * count).reshape(-1, 3))
    np.testing.assert_array_equal(found["t"][...], np.arange(2 * count))
    begin, end = (count * k // comm.size for k in (comm.rank, comm.rank + 1))
    assert set(opened) <= {paths[0], *paths[begin:end]}


def test_more_processes_than_files(comm, place, files):
    paths = files(1, {})
    move(paths, f"{place}/out.zarr", along="t", comm=comm)
    found = zarr.open_group(f"{place}/out.zarr", mode="r")
    assert found["t"][...].tolist() == [0, 1]


@pytest.mark.parametrize("is_twin", [True, False])
@pytest.mark.parametrize("wrong", range(6))
def test_all_processes_report_the_file_that_differs(comm, place, files, wrong, is_twin):
    paths = files(6, {}, is_twin)
    if comm.rank == 0:
        with h5py.File(paths[wrong], "r+") as file:
            file["u"].attrs["scale_factor"] = 2.0
    comm.barrier()
    with pytest.raises(dm.Mismatch, match="u has scale_factor") as raised:
        move(paths, f"{place}/out.zarr", along="t", comm=comm)
    assert str(raised.value).startswith(paths[wrong or 1]) and "\n" not in str(raised.value)
    assert len(set(comm.allgather(str(raised.value)))) == 1


def test_all_processes_report_files_that_overlap(comm, place, files):
    paths = files(4, {})
    with pytest.raises(dm.Mismatch, match="overlap") as raised:
        move([*paths[2:], *paths[:2]], f"{place}/out.zarr", along="t", comm=comm)
    assert paths[0] in str(raised.value) and paths[3] in str(raised.value)
    assert len(set(comm.allgather(str(raised.value)))) == 1


def test_one_process_logs_a_gap(comm, place, files, caplog):
    paths = files(6, {})
    move([*paths[:3], *paths[4:]], f"{place}/out.zarr", along="t", comm=comm)
    said = [message for message in caplog.messages if "there is a gap" in message]
    assert len(said) == (comm.rank == 0)
    assert comm.rank or (paths[2] in said[0] and paths[4] in said[0])
