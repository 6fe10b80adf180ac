# SPDX-License-Identifier: BSD-3-Clause
"""Moves to Zarr format 2: zarr-python and xarray find the contents of the input in the output."""

import json
import os
import subprocess
import sys

import numcodecs
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import direct_zarr, intend, move

xarray = pytest.importorskip("xarray")

DTYPES = [
    *("f8", ">f8", "f4", "f2", "i4", ">i2", "u1", "u8", "?", "c16", ">c8"),
    *("U3", ">U2", "S4", "V5", "M8[ns]", [("a", "<i4"), ("b", "f8")]),
]


def sample(dtype, shape):
    """Make elements that differ, of any dtype."""
    dtype = np.dtype(dtype)
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100
    if dtype.names:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            made[name] = numbers
        return made
    if dtype.kind == "V":
        held = np.random.default_rng(1).bytes(numbers.size * dtype.itemsize)
        return np.frombuffer(held, dtype).reshape(shape)
    return (numbers % 2).astype(dtype) if dtype.kind == "b" else numbers.astype(dtype)


def metadata(path):
    """Read what format 2 says of an array."""
    return json.loads((path / ".zarray").read_text())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compressor", ["auto", "none", "gzip"])
def test_elements_of_all_types(tmp_path, dtype, compressor):
    array = sample(dtype, (10, 7))
    np.save(tmp_path / "a.npy", array)
    said = {"chunks": (4, 3), "compressor": compressor, "check": "crc32c", "zarr_format": 2}
    move(tmp_path / "a.npy", tmp_path / "b.zarr", **said)
    found = zarr.open_array(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert found.chunks == (4, 3) and found.dtype == array.dtype
    np.testing.assert_array_equal(found[...], array)
    assert metadata(tmp_path / "b.zarr")["dimension_separator"] == "."
    assert "2.2" in os.listdir(tmp_path / "b.zarr")
    move(tmp_path / "b.zarr", tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), array)


@pytest.mark.parametrize("shape", [(), (0, 3), (5, 0), (1,)], ids=str)
@pytest.mark.parametrize("dtype", ["f8", "?", "U3", [("a", "<i4"), ("b", "f8")]], ids=str)
def test_one_element_and_none(tmp_path, dtype, shape):
    array = sample(dtype, shape)
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "b.zarr", zarr_format=2)
    found = zarr.open_array(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert found.shape == shape and found.dtype == array.dtype
    np.testing.assert_array_equal(found[...], array)


@pytest.mark.parametrize("compressor", ["none", "zstd", "gzip", "blosc"])
def test_chunks_are_those_of_format_3(tmp_path, compressor):
    np.save(tmp_path / "a.npy", sample("f8", (10, 7)))
    said = {"chunks": (4, 3), "compressor": compressor}
    move(tmp_path / "a.npy", tmp_path / "b.zarr", **said)
    move(tmp_path / "a.npy", tmp_path / "c.zarr", zarr_format=2, **said)
    for i, j in np.ndindex(3, 3):
        new = (tmp_path / f"c.zarr/{i}.{j}").read_bytes()
        assert new[10:] == (tmp_path / f"b.zarr/c/{i}/{j}").read_bytes()[10:]  # gzip tells the time


def test_chunks_of_plain_arrays_are_written_without_zarr_python(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", sample(">f4", (10, 7)))
    written = []
    write = direct_zarr.OrdinaryArray.write_chunk
    monkeypatch.setattr(
        direct_zarr.OrdinaryArray,
        "write_chunk",
        lambda self, *given: (written.append(given), write(self, *given)),
    )
    move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(5, 7), zarr_format=2)
    assert len(written) == 2


@pytest.mark.parametrize(
    "codec", [None, numcodecs.Zstd(3), numcodecs.GZip(2), numcodecs.LZ4(), numcodecs.Blosc("lz4")]
)
@pytest.mark.parametrize("filters", [None, [numcodecs.Delta("<f8")]])
@pytest.mark.parametrize("fill_value", [None, 0.0, -1.5, np.nan])
def test_format_2_to_format_2_keeps_all(tmp_path, codec, filters, fill_value):
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(9, 4), chunks=(4, 3), dtype="<f8", compressors=codec,
        filters=filters, fill_value=fill_value, zarr_format=2,
        attributes={"units": "m", "_ARRAY_DIMENSIONS": ["y", "x"]},
    )  # fmt: skip
    made[:4] = np.arange(16.0).reshape(4, 4)
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert report.bytes == 9 * 4 * 8
    assert metadata(tmp_path / "a.zarr") == metadata(tmp_path / "b.zarr")
    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert dict(found.attrs) == {"units": "m", "_ARRAY_DIMENSIONS": ["y", "x"]}
    np.testing.assert_array_equal(found[...], made[...])
    move(tmp_path / "a.zarr", tmp_path / "t.zarr", zarr_format=2, axes=(1, 0))
    turned = zarr.open_array(tmp_path / "t.zarr", mode="r")
    assert turned.attrs["_ARRAY_DIMENSIONS"] == ["x", "y"] and turned.chunks == (3, 4)
    np.testing.assert_array_equal(turned[...], made[...].T)


@pytest.mark.parametrize("of_input", [2, 3])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?"])
@pytest.mark.parametrize("missing", [None, -1])
def test_xarray_finds_the_same_dataset(tmp_path, of_input, dtype, missing):
    values = sample(dtype, (6, 5))
    encoding = {} if missing is None or dtype == "?" else {"_FillValue": missing}
    data = xarray.DataArray(values, dims=("y", "x"), attrs={"units": "m"})
    given = xarray.Dataset({"u": data, "n": ((), np.float64(0))})
    given.to_zarr(
        tmp_path / "a.zarr", zarr_format=of_input, consolidated=False, encoding={"u": encoding}
    )
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert sorted(p.name for p in (tmp_path / "b.zarr").iterdir()) == [
        ".zattrs",
        ".zgroup",
        ".zmetadata",
        "n",
        "u",
    ]
    old = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False)
    new = xarray.open_zarr(tmp_path / "b.zarr", zarr_format=2, consolidated=False)
    xarray.testing.assert_identical(old.load(), new.load())
    np.testing.assert_equal(new.u.encoding.get("_FillValue"), old.u.encoding.get("_FillValue"))
    # Back again.
    move(tmp_path / "b.zarr", tmp_path / "c.zarr")
    again = xarray.open_zarr(tmp_path / "c.zarr", zarr_format=3, consolidated=False)
    xarray.testing.assert_identical(old, again.load())


def test_the_fill_value_without_names_of_dimensions_is_kept(tmp_path):
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(8,), chunks=(4,), dtype="i4", fill_value=7, attributes={"k": 1}
    )
    made[:4] = 3
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert found.fill_value == 7 and dict(found.attrs) == {"k": 1}
    assert sorted(os.listdir(tmp_path / "b.zarr")) == [".zarray", ".zattrs", "0"]
    assert found[...].tolist() == [3] * 4 + [7] * 4


def test_converted_and_parts_of_an_array(tmp_path):
    made = zarr.create_array(
        tmp_path / "a.zarr", data=np.arange(40.0).reshape(8, 5), chunks=(3, 2), zarr_format=2
    )
    made.attrs["units"] = "m"
    move(
        tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, output_dtype="f4",
        region=((1, 7), (None, 4)),
    )  # fmt: skip
    found = zarr.open_array(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert found.dtype == "f4" and found.attrs["units"] == "m"
    np.testing.assert_array_equal(found[...], made[1:7, :4])


@pytest.mark.parametrize("of_input", [2, 3])
def test_whole_groups_with_strings(tmp_path, of_input):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=of_input, attributes={"title": "ä"})
    group.create_group("deep").attrs["k"] = 1
    group.create_array("deep/u", data=np.arange(12.0).reshape(3, 4), chunks=(2, 2))
    texts = group.create_array("texts", shape=(3,), chunks=(2,), dtype=str)
    texts[...] = np.array(["ä", "", "long" * 20], object)
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, check="crc32c")
    assert not list((tmp_path / "b.zarr").rglob("zarr.json"))
    found = zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert dict(found.attrs) == {"title": "ä"} and dict(found["deep"].attrs) == {"k": 1}
    np.testing.assert_array_equal(found["deep/u"][...], group["deep/u"][...])
    assert found["texts"][...].tolist() == ["ä", "", "long" * 20]


def test_a_whole_netcdf_file(tmp_path):
    pytest.importorskip("h5netcdf")
    given = xarray.Dataset(
        {"t": (("y", "x"), np.arange(12.0).reshape(3, 4), {"units": "K"})},
        {"x": [1, 2, 3, 4], "name": ("y", np.array(["a", "ä", ""], object))},
    )
    given.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    move(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=2)
    old = xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    new = xarray.open_zarr(tmp_path / "b.zarr", zarr_format=2, consolidated=False)
    xarray.testing.assert_equal(old.load(), new.load())
    assert new.t.attrs == old.t.attrs


@pytest.mark.parametrize("name", [".zarray", ".zattrs/u", "g/.zgroup"])
def test_names_that_format_2_has_for_metadata_are_refused(tmp_path, name):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        file.create_group(name)
    for do in (lambda *given, **said: move(*given, **said), intend):
        with pytest.raises(dm.errors.Unsupported, match="nothing in a Zarr group can have"):
            do(tmp_path / "a.h5", tmp_path / "b.zarr", zarr_format=2)
    assert os.listdir(tmp_path) == ["a.h5"]


def test_an_array_has_the_format_of_its_group(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    for said, other in ((2, 3), (3, 2)):
        group = zarr.create_group(tmp_path / f"g{said}.zarr", zarr_format=said)
        output = tmp_path / f"g{said}.zarr" / "u"
        with pytest.raises(dm.errors.InvalidArgument, match=f"a Zarr group of format {said}"):
            move(tmp_path / "a.npy", output, zarr_format=other)
        assert not output.exists()
        move(tmp_path / "a.npy", output)
        np.testing.assert_array_equal(group["u"][...], np.arange(6.0))
        move(tmp_path / "a.npy", output, zarr_format=said, overwrite=True)
        assert group["u"].metadata.zarr_format == said
        assert sorted(p.name for p in output.parent.iterdir() if p.is_dir()) == ["u"]
    move(tmp_path / "g3.zarr", tmp_path / "g2.zarr" / "inner", output_format="zarr")
    assert zarr.open_group(tmp_path / "g2.zarr", mode="r")["inner/u"].metadata.zarr_format == 2


def test_an_array_that_is_written_in_parts_has_the_format_of_its_group(tmp_path):
    from mpi4py import MPI

    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=2)
    rows = dm.BlockCyclic((8, 6), "(block, *)", nprocs=1)
    given = dm.Array(rows, "f8", comm=MPI.COMM_SELF)
    for block in given.blocks:
        given[block][...] = 3
    said = {"comm": MPI.COMM_SELF, "mode": "w", "dtype": "f8", "chunks": (3, 4)}
    with dm.files.open(tmp_path / "g.zarr" / "u", rows, **said) as file:
        dm.Mover(dm.redistribute(rows, rows), given, file, comm=MPI.COMM_SELF)()
    assert group["u"].metadata.zarr_format == 2 and group["u"].chunks == (3, 4)
    np.testing.assert_array_equal(group["u"][...], np.full((8, 6), 3))


def test_an_address(tmp_path, local_bucket):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    for said in (3, 2, 2):
        where = f"{local_bucket.address}/b.zarr"
        move(tmp_path / "a.npy", where, zarr_format=said, chunks=(2, 2), overwrite=True)
        found = zarr.open_array(local_bucket.path / "b.zarr", mode="r", zarr_format=said)
        np.testing.assert_array_equal(found[...], np.load(tmp_path / "a.npy"))
    move(where, tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), np.load(tmp_path / "a.npy"))


def test_the_other_format_is_refused_in_a_group_at_an_address(tmp_path, local_bucket):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    zarr.create_group(tmp_path / "a.zarr").create_array("u", data=np.arange(4))
    for said in (2, 3):
        place = f"{local_bucket.address}/{said}.zarr"
        move(tmp_path / "a.zarr", place, zarr_format=said)
        for do in (lambda *given, **more: move(*given, **more), intend):
            with pytest.raises(dm.errors.InvalidArgument, match=f"a Zarr group of format {said}"):
                do(tmp_path / "a.npy", f"{place}/v", zarr_format=5 - said)
        move(tmp_path / "a.npy", f"{place}/w", zarr_format=said)
        made = zarr.open_group(local_bucket.path / f"{said}.zarr", mode="r")
        assert sorted(made) == ["u", "w"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("at_address", [False, True])
def test_nothing_is_put_into_an_array(tmp_path, local_bucket, at_address, zarr_format):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    array = f"{local_bucket.address if at_address else tmp_path}/a.zarr"
    said = {"zarr_format": zarr_format, "overwrite": True}
    move(tmp_path / "a.npy", array, chunks=(2,), **said)
    inner = ["u"] if at_address else ["u", "c/u" if zarr_format == 3 else "0/u"]
    for name in inner:
        for do in (move, intend):
            with pytest.raises(
                dm.errors.InvalidArgument, match=r"a\.zarr is a Zarr array: nothing in it"
            ):
                do(tmp_path / "a.npy", f"{array}/{name}")
    place = (local_bucket.path if at_address else tmp_path) / "a.zarr"
    np.testing.assert_array_equal(zarr.open_array(place, mode="r")[...], np.arange(6.0))


@pytest.mark.parametrize("at_address", [False, True])
def test_a_group_of_the_other_format_is_replaced(tmp_path, local_bucket, at_address):
    zarr.create_group(tmp_path / "a.zarr").create_array("u", data=np.arange(4))
    output = f"{local_bucket.address if at_address else tmp_path}/b.zarr"
    place = (local_bucket.path if at_address else tmp_path) / "b.zarr"
    for said in (2, 3, 2):
        more = {"zarr_format": said, "overwrite_group": True}
        files = intend(tmp_path / "a.zarr", output, **more).files
        move(tmp_path / "a.zarr", output, **more)
        assert zarr.open_group(place, mode="r")["u"].metadata.zarr_format == said
        assert files == (6 if said == 2 else 3)


def test_an_array_of_the_other_format_is_replaced(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    for said in (3, 2, 3):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", zarr_format=said, overwrite=True)
        assert zarr.open_array(tmp_path / "b.zarr", mode="r").metadata.zarr_format == said
        assert (tmp_path / "b.zarr/zarr.json").exists() == (said == 3)


def test_what_format_2_has_not_is_refused(tmp_path):
    array = np.arange(16.0).reshape(4, 4)
    zarr.create_array(tmp_path / "shards.zarr", data=array, chunks=(2, 2), shards=(4, 4))
    codecs = [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]
    zarr.create_array(tmp_path / "codecs.zarr", data=array, chunks=(2, 2), compressors=codecs)
    there = sorted(os.listdir(tmp_path))

    def refused(name, error, words, **said):
        for do in (lambda *given, **more: move(*given, **more), intend):
            with pytest.raises(error, match=words) as caught:
                do(tmp_path / name, tmp_path / "b.zarr", zarr_format=2, **said)
            assert "\n" not in str(caught.value)
        assert sorted(os.listdir(tmp_path)) == there

    refused("shards.zarr", dm.errors.InvalidArgument, "shards .*Zarr format 2 has none")
    said = {"chunks": (2, 2), "shards": (4, 4)}
    refused("codecs.zarr", dm.errors.InvalidArgument, "shards .*Zarr format 2 has none", **said)
    refused(
        "codecs.zarr",
        dm.errors.Unsupported,
        "codecs zstd, crc32c, which Zarr format 2 does not have",
    )
    for name, more in (
        ("shards.zarr", {"chunks": (2, 2)}),
        ("codecs.zarr", {"compressor": "zstd"}),
    ):
        move(tmp_path / name, tmp_path / f"2{name}", zarr_format=2, **more)
        np.testing.assert_array_equal(zarr.open_array(tmp_path / f"2{name}", mode="r")[...], array)


@pytest.mark.parametrize("said", [1, 4, "2"])
def test_other_formats_are_refused(tmp_path, said):
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(dm.errors.InvalidArgument, match="unknown Zarr format"):
        move(tmp_path / "a.npy", tmp_path / "b.zarr", zarr_format=said)
    with pytest.raises(dm.errors.InvalidArgument, match="is for zarr outputs"):
        move(tmp_path / "a.npy", tmp_path / "b.npy", zarr_format=2)


def test_the_command(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    words = [sys.executable, "-m", "datamover", "move", "a.npy", "b.zarr", "--zarr-format", "2"]
    words += ["--chunks", "2,2"]
    shown = subprocess.run(
        [*words, "--dry-run", "--json"], cwd=tmp_path, check=True, capture_output=True
    )
    assert json.loads(shown.stdout)["files"] == 6  # four chunks, .zarray and .zattrs
    assert sorted(os.listdir(tmp_path)) == ["a.npy"]
    subprocess.run([*words, "--check", "crc32c"], cwd=tmp_path, check=True, capture_output=True)
    assert sum(len(files) for _, _, files in os.walk(tmp_path / "b.zarr")) == 6
    found = zarr.open_array(tmp_path / "b.zarr", mode="r", zarr_format=2)
    np.testing.assert_array_equal(found[...], np.load(tmp_path / "a.npy"))
    refused = subprocess.run(
        [*words, "--overwrite", "--shards", "4,4"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1 and "Zarr format 2 has none; pass --chunks" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0)])
def test_transposed_chunks_of_format_3_are_written_in_c_order(tmp_path, order):
    array = np.arange(60.0).reshape(3, 4, 5)
    turned = [zarr.codecs.TransposeCodec(order=order)]
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(2, 3, 4), filters=turned)
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, check="crc32c")
    found = zarr.open_array(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert found.chunks == (2, 3, 4) and metadata(tmp_path / "b.zarr")["order"] == "C"
    np.testing.assert_array_equal(found[...], array)


@pytest.mark.parametrize("output_dtype", [None, "f4"])
def test_filters_of_format_2_are_left_out_in_format_3_with_a_warning(
    tmp_path, caplog, output_dtype
):
    array = np.arange(12.0)
    zarr.create_array(
        tmp_path / "a.zarr", data=array, filters=[numcodecs.Delta("<f8")], zarr_format=2
    )
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert not caplog.records
    words = f"{tmp_path}/a.zarr: its filters are left out: delta"
    move(tmp_path / "a.zarr", tmp_path / "c.zarr", output_dtype=output_dtype)
    assert caplog.messages == [words]
    if output_dtype is not None:
        move(tmp_path / "a.zarr", tmp_path / "d.zarr", zarr_format=2, output_dtype=output_dtype)
        assert caplog.messages == [words, words]
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "c.zarr", mode="r")[...], array)
