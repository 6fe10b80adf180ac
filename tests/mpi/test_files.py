# SPDX-License-Identifier: BSD-3-Clause
"""File moves by several processes: the file is complete, and progress and reports are exact."""

import errno
import os
import threading

import h5py
import numpy as np
import pytest
import zarr
from others import drawn_input, go_in_passes, least_reads, stored

import datamover as dm
from datamover.files import at_work, direct_zarr, move, placing


@pytest.mark.parametrize("case", range(8))
def test_progress_ends_at_the_bytes_that_were_promised(comm, rng, place, case):
    shape = tuple(int(n) for n in rng.integers(1, 12, 3))
    chunks = tuple(int(n) for n in rng.integers(1, 6, 3))
    axes = tuple(int(a) for a in rng.permutation(3))
    array = rng.integers(0, 1000, shape).astype("i4")
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    promised, told = [], []

    def progress(total):
        promised.append(total)
        return told.append

    max_bytes = int(rng.choice([4 * 2 * 125 * 2, 1 << 20]))
    move(
        f"{place}/a.npy", f"{place}/b.zarr", chunks=chunks, axes=axes,
        max_bytes=max_bytes, progress=progress, comm=comm,
    )  # fmt: skip
    assert promised == [sum(told)]
    assert comm.allreduce(sum(told)) == 2 * array.nbytes
    stored = zarr.open_array(f"{place}/b.zarr", mode="r")[...]
    np.testing.assert_array_equal(stored, array.transpose(axes))


@pytest.mark.parametrize("way", ["one", "two"])
@pytest.mark.parametrize("output", ["b.zarr", "b.npy", "b.h5:/v"])
def test_one_pass_and_two_write_the_same(comm, rng, place, monkeypatch, cases, way, output):
    go_in_passes(monkeypatch, way)
    for _ in range(2 * cases):
        array, chunks, wanted, axes = drawn_input(comm, rng, place, way, ["i2", ">f8"])
        report = move(
            f"{place}/a.zarr", f"{place}/{output}", overwrite=True, axes=axes,
            chunks=wanted if output == "b.zarr" else None, check="crc32c",
            max_bytes=int(rng.choice([2500, 1 << 20])), comm=comm,
        )  # fmt: skip
        assert report.reads >= least_reads(array, chunks)
        found = stored(f"{place}/{output}")
        np.testing.assert_array_equal(found, array.transpose(axes))
        comm.barrier()


def test_a_failure_on_one_process_leaves_nothing(comm, place, monkeypatch):
    array = np.arange(4.0 * 600).reshape(60, 40)
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    if comm.rank == comm.size - 1:

        def full(fd, data):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(direct_zarr.os, "write", full)
    with pytest.raises(dm.errors.IoFailed, match=r"not enough space in .* needs 19,200 bytes"):
        move(f"{place}/a.npy", f"{place}/b.zarr", chunks=(5, 5), comm=comm)
    comm.barrier()
    assert os.listdir(place) == ["a.npy"]
    comm.barrier()


def test_a_failure_on_one_process_stops_the_others_before_they_are_through(
    comm, place, monkeypatch
):
    if comm.rank == 0:
        np.save(f"{place}/a.npy", np.arange(400.0 * comm.size))
    comm.barrier()
    written = []
    failed = threading.Event()

    def write(fd, data, whole=os.write):
        if comm.rank == comm.size - 1:
            raise OSError(28, "No space left on device")
        # Nobody gets through until word has come: a process that does not listen ends here.
        assert failed.wait(60)
        written.append(len(data))
        return whole(fd, data)

    def hearing(self, threads, rings, run_by=at_work.Crew.run_by):
        def heard():
            if rings():
                failed.set()
                return True
            return False

        run_by(self, threads, heard)

    monkeypatch.setattr(direct_zarr.os, "write", write)
    monkeypatch.setattr(at_work.Crew, "run_by", hearing)
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):
        move(f"{place}/a.npy", f"{place}/b.zarr", chunks=(4,), compressor="none", comm=comm)
    monkeypatch.undo()
    assert len(written) < 100 - 1
    comm.barrier()
    assert os.listdir(place) == ["a.npy"]
    comm.barrier()


@pytest.mark.parametrize("case", range(6))
def test_parts_are_converted_and_checked(comm, rng, place, case):
    shape = tuple(int(n) for n in rng.integers(4, 14, 3))
    chunks = tuple(int(n) for n in rng.integers(1, 6, 3))
    array = rng.integers(0, 1000, shape).astype(rng.choice(["i4", ">f8"]))
    source = ["a.npy", "a.zarr", "a.h5:/g/u"][case % 3]
    output = ["b.h5:/v", "b.npy", "b.zarr"][case % 3]
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
        zarr.create_array(f"{place}/a.zarr", data=array, chunks=chunks)
        with h5py.File(f"{place}/a.h5", "w") as file:
            file.create_dataset("g/u", data=array, chunks=chunks if case < 3 else None)
    comm.barrier()
    region = tuple(
        (int(rng.integers(0, n // 2)), int(rng.integers(n // 2 + 1, n + 1))) for n in shape
    )
    move(
        f"{place}/{source}", f"{place}/{output}", region=region, axes=(2, 0, 1),
        output_dtype="f4", check="crc32c", max_bytes=1 << 14, comm=comm,
    )  # fmt: skip
    found = stored(f"{place}/{output}")
    part = array[tuple(slice(*ends) for ends in region)].transpose(2, 0, 1)
    np.testing.assert_array_equal(found, part.astype("f4"))
    comm.barrier()


@pytest.mark.parametrize("way", ["one", "two"])
def test_all_write_zarr_of_format_2(comm, rng, place, monkeypatch, cases, way):
    go_in_passes(monkeypatch, way)
    for _ in range(2 * cases):
        array, _, wanted, axes = drawn_input(comm, rng, place, way, ["i2", ">f8", "?"])
        move(
            f"{place}/a.zarr", f"{place}/b.zarr", overwrite=True, axes=axes, chunks=wanted,
            zarr_format=2, check="crc32c", max_bytes=int(rng.choice([2500, 1 << 20])), comm=comm,
        )  # fmt: skip
        found = zarr.open_array(f"{place}/b.zarr", mode="r", zarr_format=2)
        assert found.chunks == wanted
        np.testing.assert_array_equal(found[...], array.transpose(axes))
        comm.barrier()


def test_a_whole_file_goes_into_a_group_of_format_2(comm, place):
    held = {"u": np.arange(24.0).reshape(4, 6), "deep/v": np.arange(5, dtype="i2")}
    if comm.rank == 0:
        zarr.create_group(f"{place}/g.zarr", zarr_format=2)
        with h5py.File(f"{place}/a.h5", "w") as file:
            for name, array in held.items():
                file[name] = array
    comm.barrier()
    with pytest.raises(dm.errors.InvalidArgument, match="a Zarr group of format 2"):
        move(f"{place}/a.h5", f"{place}/g.zarr/b.zarr", zarr_format=3, comm=comm)
    move(f"{place}/a.h5", f"{place}/g.zarr/b.zarr", comm=comm)
    group = zarr.open_group(f"{place}/g.zarr", mode="r", zarr_format=2)["b.zarr"]
    for name, array in held.items():
        np.testing.assert_array_equal(group[name][...], array)
    comm.barrier()


def test_a_whole_file_becomes_a_group(comm, place):
    held = {"u": np.arange(24.0).reshape(4, 6), "deep/v": np.arange(5, dtype="i2")}
    if comm.rank == 0:
        with h5py.File(f"{place}/a.h5", "w") as file:
            for name, array in held.items():
                file[name] = array
    comm.barrier()
    move(f"{place}/a.h5", f"{place}/b.zarr", comm=comm)
    group = zarr.open_group(f"{place}/b.zarr", mode="r")
    for name, array in held.items():
        np.testing.assert_array_equal(group[name][...], array)
    comm.barrier()
    assert sorted(os.listdir(place)) == ["a.h5", "b.zarr"]
    comm.barrier()


def make_whole(path):
    """Make an HDF5 file of arrays in all ways; give them by name."""
    held = {"u": np.arange(2400.0).reshape(40, 60), "deep/v": np.arange(5000, dtype="i2")}
    held |= {"deep/w": np.arange(300, dtype="f4").reshape(15, 20), "n": np.int8(3)}
    with h5py.File(path, "w") as file:
        file["u"], file["n"], file["deep/v"] = held["u"], held["n"], held["deep/v"]
        packed = {"chunks": (4, 7), "compression": "gzip"}
        file.create_dataset("deep/w", data=held["deep/w"], **packed)
        file["text"], file["again"] = "words", file["u"]
    return held


def test_a_whole_file_becomes_another(comm, place):
    held = comm.bcast(make_whole(f"{place}/a.h5") if comm.rank == 0 else None)
    report = move(f"{place}/a.h5", f"{place}/b.h5", check="crc32c", comm=comm)
    assert report.num_arrays == 5 and report.processes == comm.size
    with h5py.File(f"{place}/b.h5") as file:
        for name, array in held.items():
            np.testing.assert_array_equal(file[name][()], array)
        assert file["text"].asstr()[()] == "words" and file["again"] == file["u"]
        assert file["deep/w"].compression == "gzip"
    comm.barrier()
    assert sorted(os.listdir(place)) == ["a.h5", "b.h5"]
    comm.barrier()


def test_a_whole_group_becomes_a_file(comm, place):
    held = comm.bcast(make_whole(f"{place}/a.h5") if comm.rank == 0 else None)
    move(f"{place}/a.h5", f"{place}/a.zarr", comm=comm)
    for name, said in {"plain": {}, "gzip": {"compressor": "gzip"}}.items():
        report = move(f"{place}/a.zarr", f"{place}/{name}.h5", check="crc32c", comm=comm, **said)
        assert report.num_arrays == 6 and report.processes == comm.size
        with h5py.File(f"{place}/{name}.h5") as file:
            for array in held:
                np.testing.assert_array_equal(file[array][()], held[array])
            assert file["text"].asstr()[()] == "words"
            assert file["u"].compression == said.get("compressor")
    move(f"{place}/a.zarr", f"{place}/b.zarr", chunks=(11, 13), comm=comm)
    group = zarr.open_group(f"{place}/b.zarr", mode="r")
    for array in held:
        np.testing.assert_array_equal(group[array][...], held[array])
    assert group["u"].chunks == (11, 13)
    comm.barrier()
    assert sorted(os.listdir(place)) == ["a.h5", "a.zarr", "b.zarr", "gzip.h5", "plain.h5"]
    comm.barrier()


def test_a_whole_file_that_one_process_cannot_write_leaves_nothing(comm, place, monkeypatch):
    if comm.rank == 0:
        make_whole(f"{place}/a.h5")
    comm.barrier()
    if comm.rank == comm.size - 1:

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(placing.LocalPlace, "sync", full)
    with pytest.raises(dm.errors.IoFailed, match="space"):
        move(f"{place}/a.h5", f"{place}/b.h5", comm=comm)
    comm.barrier()
    assert os.listdir(place) == ["a.h5"]
    comm.barrier()


def test_what_differs_between_processes_is_refused_on_all(comm, place):
    if comm.rank == 0:
        np.save(f"{place}/a.npy", np.arange(12.0))
        np.save(f"{place}/b.npy", np.arange(3.0))
    comm.barrier()
    last = comm.rank == comm.size - 1
    places = f"{place}/a.npy", f"{place}/b.npy"
    with pytest.raises(dm.Error, match="color"):
        move(*places, comm=comm, **({"color": "red"} if last else {}))
    for said in ({"overwrite": True}, {"check": "crc32c"}, {"axes": (0,)}, {"max_bytes": 1 << 20}):
        if comm.size > 1:
            with pytest.raises(dm.Mismatch):
                move(*places, comm=comm, **(said if last else {}))
    comm.barrier()
    assert sorted(os.listdir(place)) == ["a.npy", "b.npy"]
    assert np.load(places[1]).tolist() == [0, 1, 2]
    comm.barrier()
