# SPDX-License-Identifier: BSD-3-Clause
"""`datamover.xarray.to_zarr`: xarray reads the dataset from the output, in the given chunks."""

import itertools
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import datamover as dm
from datamover.launch import find_mpiexec, outer_environment

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
from datamover.xarray import to_zarr  # noqa: E402

MORE = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))
DIMS = ("time", "y", "x")


def drawn_variable(rng, dims, sizes):
    """A variable of a random dtype with an encoding that some files have."""
    shape = [sizes[dim] for dim in dims]
    kind = rng.choice(["f4", "f8", "i2", "u1", "?", "M8[ns]", "m8[ns]", "packed", "text", "c16"])
    encoding, attributes = {}, {"units": "m", "range": [1, 2.5], "level": np.int16(3)}
    if kind == "packed":
        data = rng.integers(0, 100, shape) * 0.5
        data = np.where(rng.random(shape) < 0.2, np.nan, data)
        encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 0.0, "_FillValue": -1}
    elif kind == "text":
        data = np.array([f"a{k}é" * k for k in range(int(np.prod(shape)))], object).reshape(shape)
    elif kind[0] in "Mm":
        attributes = {}
        data = rng.integers(0, 10**6, shape).astype("m8[s]").astype("m8[ns]")
        data = data if kind[0] == "m" else np.datetime64("2000-01-01", "ns") + data
    elif kind == "?":
        data = rng.random(shape) < 0.5
    else:
        data = rng.integers(0, 100, shape).astype(kind)
        if kind in ("f4", "f8"):
            data = np.where(rng.random(shape) < 0.2, np.array(np.nan, kind), data)
    return xarray.Variable(dims, data, attributes, encoding)


def drawn_dataset(rng):
    """A dataset of some variables, with coordinates along and across dimensions."""
    sizes = {dim: int(rng.integers(1, 12)) for dim in DIMS}
    variables = {}
    for number in range(int(rng.integers(1, 6))):
        dims = [dim for dim in DIMS if rng.random() < 0.6]
        variables[f"v{number}"] = drawn_variable(rng, rng.permutation(dims).tolist(), sizes)
    coordinates = {"x": ("x", np.arange(sizes["x"]) * 0.5)}
    if rng.random() < 0.5:
        days = np.datetime64("1999-12-30", "ns") + np.arange(sizes["time"]).astype("m8[D]")
        coordinates["time"] = ("time", days)
        coordinates["place"] = (("y", "x"), rng.random((sizes["y"], sizes["x"])))
    return xarray.Dataset(variables, coordinates, {"title": "drawn", "version": np.float32(1.5)})


@pytest.mark.parametrize("case", range(24 * MORE))
def test_xarray_reads_the_dataset_that_was_written(tmp_path, case):
    rng = np.random.default_rng(case)
    ds = drawn_dataset(rng)
    zarr_format = int(rng.choice([2, 3]))
    chunks = {dim: int(rng.integers(1, 9)) for dim in ds.sizes if rng.random() < 0.7}
    if rng.random() < 0.3:
        ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", invalid_netcdf=True)
        ds = xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    to_zarr(ds, tmp_path / "a.zarr", chunks, zarr_format=zarr_format)
    ds.load().to_zarr(tmp_path / "theirs.zarr", zarr_format=zarr_format)
    with (
        xarray.open_zarr(tmp_path / "a.zarr", chunks=None) as found,
        xarray.open_zarr(tmp_path / "theirs.zarr", chunks=None) as theirs,
    ):
        xarray.testing.assert_identical(found.load(), theirs.load())
        for name, variable in found.variables.items():
            is_text = ds[name].dtype.kind in "OU"  # theirs has fixed lengths, which few can read
            assert is_text or variable.dtype == theirs[name].dtype
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert group.metadata.zarr_format == zarr_format
    for name, variable in ds.variables.items():
        if variable.dtype.kind not in "OU":
            for dim, chunk, extent in zip(
                variable.dims, group[name].chunks, variable.shape, strict=True
            ):
                assert dim not in chunks or chunk == min(chunks[dim], extent)


def test_of_a_dataset_larger_than_the_limit_only_pieces_are_in_memory(tmp_path):
    u = np.arange(64 * 128 * 128, dtype="i4").reshape(64, 128, 128)
    ds = xarray.Dataset({"u": (DIMS, u)})
    ds.to_netcdf(
        tmp_path / "u.nc", engine="h5netcdf", encoding={"u": {"chunksizes": (1, 128, 128)}}
    )
    limit_bytes = 1 << 20
    with xarray.open_dataset(tmp_path / "u.nc", engine="h5netcdf") as lazy:
        lazy.u.encoding |= {"dtype": "f4", "scale_factor": 0.5}
        tracemalloc.start()
        report = to_zarr(
            lazy, tmp_path / "u.zarr", {"time": 64, "y": 8, "x": 8}, max_bytes=limit_bytes
        )
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert report.passes == 2
    assert most < u.nbytes / 2
    with xarray.open_zarr(tmp_path / "u.zarr", chunks=None) as found:
        assert found.u.encoding["chunks"] == (64, 8, 8)
        np.testing.assert_array_equal(found.u, u)


def test_chunks_of_dask_and_of_files_are_kept(tmp_path):
    u = np.random.default_rng(0).random((12, 9))
    ds = xarray.Dataset({"u": (("t", "x"), u)})
    ds.to_zarr(tmp_path / "a.zarr", encoding={"u": {"chunks": (5, 4)}})
    with xarray.open_zarr(tmp_path / "a.zarr", chunks=None) as lazy:
        to_zarr(lazy, tmp_path / "b.zarr", {"x": 9})
    assert zarr.open_group(tmp_path / "b.zarr", mode="r")["u"].chunks == (5, 9)
    pytest.importorskip("dask")
    to_zarr(ds.chunk({"t": 7}), tmp_path / "c.zarr")
    assert zarr.open_group(tmp_path / "c.zarr", mode="r")["u"].chunks == (7, 9)
    with xarray.open_zarr(tmp_path / "c.zarr", chunks=None) as found:
        xarray.testing.assert_identical(found.load(), ds)


class Failing(xarray.backends.BackendArray):
    """An array that cannot be read from some row on."""

    shape, dtype = (8, 4), np.dtype("f8")

    def __getitem__(self, key):
        return xarray.core.indexing.explicit_indexing_adapter(
            key, self.shape, xarray.core.indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        if key[0].stop > 5:
            raise OSError("the disk is gone")
        return np.zeros(self.shape)[key]


def test_what_fails_leaves_no_output_and_an_older_one_as_it_was(tmp_path):
    path = tmp_path / "a.zarr"
    data = xarray.core.indexing.LazilyIndexedArray(Failing())
    broken = xarray.Dataset({"u": xarray.Variable(("t", "x"), data, encoding={"chunks": (1, 4)})})
    for _ in range(2):
        with pytest.raises(Exception, match="the disk is gone"):
            to_zarr(broken, path, {"t": 1})
        assert os.listdir(tmp_path) == []
    old = xarray.Dataset({"u": ("t", np.arange(3))})
    to_zarr(old, path)
    with pytest.raises(Exception, match="the disk is gone"):
        to_zarr(broken, path, {"t": 1}, overwrite=True)
    with pytest.raises(dm.errors.IoFailed, match="exist"):
        to_zarr(old, path)
    with xarray.open_zarr(path, chunks=None) as found:
        xarray.testing.assert_identical(found.load(), old)
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_wrong_arguments_are_named(tmp_path):
    ds = xarray.Dataset({"u": (("t", "x"), np.zeros((4, 4)))})
    for chunks in ({"y": 2}, {"t": 0}, {"t": 1.5}, {"t": True}):
        with pytest.raises(dm.errors.InvalidArgument, match="'t', 'x'"):
            to_zarr(ds, tmp_path / "a.zarr", chunks)
    with pytest.raises(dm.errors.WrongType, match="DataArray"):
        to_zarr(ds.u, tmp_path / "a.zarr")
    for name in (1, "a/b"):
        with pytest.raises(dm.errors.Unsupported, match="strings without a slash"):
            to_zarr(ds.rename(u=name), tmp_path / "a.zarr")
    with pytest.raises(dm.errors.InvalidArgument, match="no variables"):
        to_zarr(xarray.Dataset(), tmp_path / "a.zarr")
    with pytest.raises(dm.errors.InvalidArgument, match="bzip"):
        to_zarr(ds, tmp_path / "a.zarr", compressor="bzip")
    assert os.listdir(tmp_path) == []


PROGRAM = """
import sys
from mpi4py import MPI
import xarray
from datamover.xarray import to_zarr
with xarray.open_dataset(sys.argv[1], engine="h5netcdf") as ds:
    report = to_zarr(ds, sys.argv[2], {"time": 3, "x": 2}, comm=MPI.COMM_WORLD)
assert report.processes == MPI.COMM_WORLD.size
"""


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_write_it_together(tmp_path, processes):
    ds = drawn_dataset(np.random.default_rng(5))
    ds = ds.drop_vars([name for name, found in ds.variables.items() if found.dtype.kind == "c"])
    ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [find_mpiexec(), "-n", str(processes), sys.executable, "program.py"]
    files = [str(tmp_path / "a.nc"), str(tmp_path / "a.zarr")]
    subprocess.run(
        [*command, *files], cwd=tmp_path, env=outer_environment(), check=True, timeout=120
    )
    with (
        xarray.open_zarr(tmp_path / "a.zarr", chunks=None) as found,
        xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as given,
    ):
        xarray.testing.assert_identical(found.load(), given.load())


def test_every_kind_of_chunk_and_dimension_at_once(tmp_path):
    """Sizes of one element, empty dimensions and scalars, with all formats and compressors."""
    ds = xarray.Dataset(
        {"scalar": 3.5, "empty": (("t", "x"), np.zeros((0, 3), "i4")), "one": ("y", [7])}
    )
    for zarr_format, compressor in itertools.product((2, 3), ("none", "zstd", "gzip", "blosc")):
        path = tmp_path / f"{zarr_format}{compressor}.zarr"
        to_zarr(ds, path, {"x": 2}, zarr_format=zarr_format, compressor=compressor)
        with xarray.open_zarr(path, chunks=None) as found:
            xarray.testing.assert_identical(found.load(), ds)
