# SPDX-License-Identifier: BSD-3-Clause
"""Chunks encoded by many processes and written by one: all are written, and failures reach all."""

import io
import os
import threading

import h5py
import numpy as np
import pytest
import zarr
from others import drawn_input, go_in_passes, least_reads, stored

import datamover as dm
from datamover import collective_calls
from datamover.files import direct_zarr, hdf5_chunks, intermediate, move, move_job
from datamover.files.intermediate import Handover

WAYS = ["one", "two"]
#: What fails, and whose it is.
KINDS = {
    "encode": hdf5_chunks.ChunkedOutput,
    "put": hdf5_chunks.ChunkedOutput,
    "_hand_over": Handover,
    "gather": Handover,
    "read": direct_zarr.OrdinaryArray,
    "close": hdf5_chunks.ChunkedOutput,
}


@pytest.fixture
def go(monkeypatch):
    """Have moves go in one pass or in two."""
    return lambda way: go_in_passes(monkeypatch, way)


@pytest.mark.parametrize("way", WAYS)
def test_all_encode_and_one_writes(comm, rng, place, go, cases, way):
    go(way)
    for _ in range(4 * cases):
        array, chunks, wanted, axes = drawn_input(comm, rng, place, way, ["i2", ">f8", "u1"])
        compressor = str(rng.choice(["none", "gzip"]))
        report = move(
            f"{place}/a.zarr", f"{place}/b.h5:/g/v", overwrite=True, axes=axes,
            chunks=wanted, compressor=compressor, check="crc32c",
            max_bytes=int(rng.choice([4000, 1 << 20])), comm=comm,
        )  # fmt: skip
        assert report.reads >= least_reads(array, chunks)
        found = stored(f"{place}/b.h5:/g/v")
        np.testing.assert_array_equal(found, array.transpose(axes))
        assert found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        comm.barrier()


def test_every_process_encodes_and_the_first_writes(comm, place, go, monkeypatch):
    go("one")
    array = np.random.default_rng(1).integers(0, 9, (16 * comm.size, 64)).astype("f4")
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    encoded, put = [], []
    encode, write = hdf5_chunks.ChunkedOutput.encode, hdf5_chunks.ChunkedOutput.put
    lock = threading.Lock()

    def counting(self, chunk):
        with lock:
            encoded.append(chunk.nbytes)
        return encode(self, chunk)

    def putting(self, cell, data):
        with lock:
            put.append(cell)
        write(self, cell, data)

    monkeypatch.setattr(hdf5_chunks.ChunkedOutput, "encode", counting)
    monkeypatch.setattr(hdf5_chunks.ChunkedOutput, "put", putting)
    move(
        f"{place}/a.npy", f"{place}/b.h5:/u", chunks=(2, 8), compressor="gzip",
        max_bytes=4096, comm=comm,
    )  # fmt: skip
    monkeypatch.undo()
    count = 8 * 8 * comm.size
    assert comm.allreduce(len(encoded)) == count and len(encoded) > 0
    assert sorted(put) == (sorted(np.ndindex(8 * comm.size, 8)) if comm.rank == 0 else [])
    with h5py.File(f"{place}/b.h5") as file:
        np.testing.assert_array_equal(file["u"][...], array)
        assert file["u"].id.get_num_chunks() == count
        assert file["u"].id.get_storage_size() < array.nbytes * 2 // 3
    comm.barrier()


@pytest.mark.parametrize("cut", [1, 4, 36])
def test_a_file_of_encoded_chunks_that_ends_early_is_an_error(comm, place, monkeypatch, cut):
    """It has 32 bytes, and 4 of their checksum behind them."""
    if comm.size == 1:
        pytest.skip("nothing is handed over")
    array = np.arange(64.0 * comm.size)
    if comm.rank == 0:
        np.save(f"{place}/a.npy", array)
    comm.barrier()
    said = {"chunks": (4,), "compressor": "none", "overwrite": True}
    move(f"{place}/a.npy", f"{place}/b.h5:/u", comm=comm, **said)
    comm.barrier()
    before, write = sorted(os.listdir(place)), intermediate._write_checked

    def cutting(path, *given):
        write(path, *given)
        os.truncate(path, os.path.getsize(path) - cut)

    if comm.rank == comm.size - 1:
        monkeypatch.setattr(intermediate, "_write_checked", cutting)
    with pytest.raises(dm.errors.IoFailed, match="was damaged"):
        move(f"{place}/a.npy", f"{place}/b.h5:/u", comm=comm, **said)
    comm.barrier()
    assert sorted(os.listdir(place)) == before
    np.testing.assert_array_equal(stored(f"{place}/b.h5:/u"), array)
    comm.barrier()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", KINDS)
def test_a_failure_of_any_process_reaches_all_and_the_old_output_stays(
    comm, place, go, monkeypatch, way, what
):
    go(way)
    array = np.arange(24.0 * 24 * 24).reshape(24, 24, 24)
    if comm.rank == 0:
        zarr.create_array(f"{place}/a.zarr", data=array, chunks=(1, 24, 24))
    comm.barrier()
    said = {"chunks": (24, 2, 3), "compressor": "gzip", "max_bytes": 1 << 16, "overwrite": True}
    places = f"{place}/a.zarr", f"{place}/b.h5:/u"
    move(*places, comm=comm, **{**said, "chunks": (2, 2, 24)})
    comm.barrier()
    before = sorted(os.listdir(place))
    fails = 0 if what in ("put", "gather", "close") else comm.size - 1
    if comm.rank == fails:
        left = [0 if what == "gather" else 3]
        kind = KINDS[what] if comm.size > 1 or what == "read" else hdf5_chunks.ChunkedOutput
        name = {"read": "read_chunk"}.get(what, what if hasattr(kind, what) else "put")
        work = getattr(kind, name)

        def failing(self, *given):
            left[0] -= 1
            if left[0] < 0 or what == "close":
                raise OSError(28, "No space left on device", "b.h5")
            return work(self, *given)

        monkeypatch.setattr(kind, name, failing)
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):
        move(*places, comm=comm, **said)
    monkeypatch.undo()
    go(way)
    comm.barrier()
    assert sorted(os.listdir(place)) == before
    np.testing.assert_array_equal(stored(places[1]), array)
    comm.barrier()
    move(*places, comm=comm, **said)  # nothing is under way any more that would be in its way
    np.testing.assert_array_equal(stored(places[1]), array)
    comm.barrier()


def test_a_full_disk_for_chunks_on_their_way_is_named(comm, place, monkeypatch):
    if comm.size == 1:
        pytest.skip("takes several processes")
    if comm.rank == 0:
        np.save(f"{place}/a.npy", np.arange(64.0).reshape(8, 8))
        os.mkdir(f"{place}/scratch")
    comm.barrier()

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    if comm.rank == comm.size - 1:
        monkeypatch.setattr(intermediate, "open", lambda *_, **__: Full(), raising=False)
    said = {"chunks": (1, 8), "compressor": "gzip", "temporary": f"{place}/scratch"}
    with pytest.raises(
        dm.errors.IoFailed, match=r"not enough space in .*/scratch; .* it is for encoded chunks"
    ):
        move(f"{place}/a.npy", f"{place}/b.h5:/u", comm=comm, **said)
    monkeypatch.undo()
    comm.barrier()
    assert sorted(os.listdir(place)) == ["a.npy", "scratch"]
    assert os.listdir(f"{place}/scratch") == []
    comm.barrier()


@pytest.mark.parametrize("compressor", ["none", "gzip"])
def test_who_waits_for_one_that_is_lost_hears_the_deadline(comm, place, monkeypatch, compressor):
    """As where it is killed when all have agreed on the plan: nobody waits in MPI itself."""
    if comm.size == 1:
        pytest.skip("takes several processes")

    class LostError(BaseException):
        pass

    def lost(*_):
        raise LostError

    def waiting(comm, alarmed=move_job.alarmed):
        dm.set_timeout(0.3)  # not before: all have to agree on the plan
        return alarmed(comm)

    if comm.rank == 0:
        np.save(f"{place}/a.npy", np.zeros((8, 8)))
    comm.barrier()
    alone = comm.Dup()
    is_lost = comm.rank == comm.size - 1
    if is_lost:
        monkeypatch.setattr(collective_calls, "tell_that_left", lambda *_: None)
    monkeypatch.setattr(move_job, "alarmed", lost if is_lost else waiting)
    try:
        with pytest.raises(LostError if is_lost else dm.Error, match="" if is_lost else "waited"):
            move(
                f"{place}/a.npy",
                f"{place}/b.h5:/u",
                chunks=(2, 8),
                compressor=compressor,
                comm=alone,
            )
    finally:
        dm.set_timeout(None)
    comm.barrier()
    assert os.listdir(place) == ["a.npy"]
    comm.barrier()
