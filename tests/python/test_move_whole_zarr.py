# SPDX-License-Identifier: BSD-3-Clause
"""Moves of whole Zarr groups: h5py, zarr-python and xarray find all contents in the output."""

import os
import shutil
import warnings

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from test_move_netcdf import sample

import datamover as dm
from datamover.files import intend, move

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")


def make(path, zarr_format=3):
    """Make a group of arrays in all ways; give them by name."""
    rng = np.random.default_rng(6)
    held = {
        "u": rng.normal(size=(30, 20)), "deep/v": rng.integers(0, 99, (7, 5)).astype(">i2"),
        "deep/er/w": np.arange(50, dtype="u1"), "n": np.array(2.5, "f4"),
        "none": np.zeros((0, 3)), "flags": np.array([True, False]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.create_group(path, zarr_format=zarr_format, attributes={"title": "ä", "k": 1})
        group.create_group("deep/empty").attrs.update({"levels": [1.5, 2.5], "names": ["a", "b"]})
        for name, array in held.items():
            chunks = tuple(max(n // 3, 1) for n in array.shape)
            made = group.create_array(name, data=array, chunks=chunks)
            made.attrs["units"] = "m"
        held["texts"] = np.array([["a", "äb"], ["", "c"]], object)
        made = group.create_array("texts", shape=(2, 2), chunks=(1, 2), dtype=str)
        made[...] = held["texts"]
        held["words"] = np.array(["abc", "d"], "U3")
        group.create_array("words", data=held["words"])
    return held


@pytest.mark.parametrize("said", [{}, {"compressor": "gzip"}])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_all_that_a_group_holds(tmp_path, zarr_format, said):
    held = make(tmp_path / "a.zarr", zarr_format)
    report = move(tmp_path / "a.zarr", tmp_path / "b.h5", check="crc32c", **said)
    assert report.num_arrays == len(held)
    assert report.elems == sum(array.size for array in held.values())
    with h5py.File(tmp_path / "b.h5") as file:
        names = []
        file.visit(names.append)
        assert sorted(names) == sorted([*held, "deep", "deep/er", "deep/empty"])
        for name, array in held.items():
            found = file[name]
            text = array.dtype.kind in "OU"
            np.testing.assert_array_equal(found.asstr()[...] if text else found[()], array)
            if not text:
                assert found.attrs["units"] == "m"
                assert found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
                is_gzip = bool(said) and array.size > 0 and array.ndim > 0
                assert found.compression == ("gzip" if is_gzip else None)
        assert dict(file.attrs) == {"title": "ä", "k": 1}
        assert file["deep/empty"].attrs["levels"].tolist() == [1.5, 2.5]
        assert file["deep/empty"].attrs["names"].tolist() == ["a", "b"]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.h5"]
    move(tmp_path / "b.h5", tmp_path / "c.zarr")
    again = zarr.open_group(tmp_path / "c.zarr", mode="r")
    for name, array in held.items():
        np.testing.assert_array_equal(again[name][...], array)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_opens_the_same(tmp_path, zarr_format):
    given = sample(np.random.default_rng(3)).assign(name=("lat", [f"row {k}" for k in range(7)]))
    given = given.assign(bare=(("time", "free"), np.zeros((5, 3))))
    given = given.assign_coords(area=(("lat", "lon"), np.ones((7, 9)), {"units": "m2"}))
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 270.0, "_FillValue": -9999}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given.to_zarr(
            tmp_path / "a.zarr", encoding={"temperature": packed}, zarr_format=zarr_format,
            consolidated=False,
        )  # fmt: skip
        given.isel(lon=slice(4)).to_zarr(
            tmp_path / "a.zarr", group="part", zarr_format=zarr_format, consolidated=False
        )
    move(tmp_path / "a.zarr", tmp_path / "b.h5", check="crc32c")
    for group in (None, "part"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = xarray.open_zarr(
                tmp_path / "a.zarr", group=group, consolidated=False, chunks=None
            ).load()
        with xarray.open_dataset(tmp_path / "b.h5", engine="h5netcdf", group=group) as after:
            xarray.testing.assert_identical(after.load(), before)
            for name in before.variables:
                assert after[name].dims == before[name].dims
    with h5py.File(tmp_path / "b.h5") as file:
        assert [dim[0].name for dim in file["part/temperature"].dims] == [
            "/part/time", "/part/lat", "/part/lon",
        ]  # fmt: skip


def test_dimensions_that_cannot_have_scales_get_labels(tmp_path, caplog):
    group = zarr.create_group(tmp_path / "a.zarr")
    for name, shape, names in (
        ("u", (3, 4), ("y", "x")), ("v", (5,), ("x",)), ("w", (3, 3), ("y", "w")),
        ("z", (3, 2), ("y", None)), ("ok", (3, 6), ("y", "z2")),
    ):  # fmt: skip
        group.create_array(name, shape=shape, dtype="f4", dimension_names=names)
    move(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert [dim[0].name for dim in file["ok"].dims] == ["/y", "/z2"]
        labels = {name: [dim.label for dim in file[name].dims] for name in "uvwz"}
    assert labels == {"u": ["y", "x"], "v": ["x"], "w": ["y", "w"], "z": ["y", ""]}
    said = [record.getMessage() for record in caplog.records]
    assert [words.partition(": its dim")[0][-1] for words in said] == ["u", "v", "w"]


def test_attributes_that_hdf5_has_not_are_named(tmp_path, caplog):
    group = zarr.create_group(tmp_path / "a.zarr", attributes={"levels": [{"path": "0"}], "n": 1})
    group.create_array("u", data=np.arange(3.0), attributes={"none": None, "x": 1})
    group.create_group("g").attrs["mixed"] = [1, "a"]
    move(tmp_path / "a.zarr", tmp_path / "b.h5")
    said = [record.getMessage().partition(": HDF5")[0] for record in caplog.records]
    place = tmp_path / "a.zarr"
    assert said == [
        f"{place}: its attribute levels is left out",
        f"{place}/g: its attribute mixed is left out",
        f"{place}/u: its attribute none is left out",
    ]
    with h5py.File(tmp_path / "b.h5") as file:
        assert dict(file.attrs) == {"n": 1} and dict(file["u"].attrs) == {"x": 1}


def test_large_attributes(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group["u"] = np.arange(3.0)
    group.create_array("s", shape=(2,), dtype=str)
    for held in (group, group["u"], group["s"]):
        held.attrs.update({"list": [0.5] * 20_000, "text": "x" * 100_000})
    move(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        for held in (file, file["u"], file["s"]):
            assert (held.attrs["list"].shape, len(held.attrs["text"])) == ((20_000,), 100_000)


def test_one_array_of_a_group_is_a_dataset_of_its_name(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(3.0))
    move(f"{tmp_path}/a.zarr/u/", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert list(file) == ["u"]
        np.testing.assert_array_equal(file["u"][...], np.arange(3.0))


def test_what_cannot_be_moved_is_refused(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(3.0))
    group.create_group("g")
    for output in ("b.h5", "b.zarr"):
        with pytest.raises(dm.errors.InvalidArgument, match="Zarr group without arrays"):
            move(tmp_path / "a.zarr/g", tmp_path / output)
    os.symlink(tmp_path / "a.zarr", tmp_path / "a.zarr/g/loop")
    with pytest.raises(dm.errors.IoFailed, match="a link to a group that contains it"):
        move(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_attributes_of_a_group_that_cannot_be_read(tmp_path, output, content):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2).create_group("g")
    group.create_array("u", data=np.arange(3.0))
    (tmp_path / "a.zarr/g/.zattrs").write_bytes(content)
    with pytest.raises(dm.errors.IoFailed, match="g has attributes that cannot be read"):
        move(tmp_path / "a.zarr", tmp_path / output)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_becomes_a_group(tmp_path, zarr_format):
    held = make(tmp_path / "a.zarr", zarr_format)
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", check="crc32c")
    assert report.num_arrays == len(held)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = zarr.open_group(tmp_path / "a.zarr", mode="r")
        new = zarr.open_group(tmp_path / "b.zarr", mode="r")
        nodes = dict(old.members(max_depth=None))
        assert nodes.keys() == dict(new.members(max_depth=None)).keys()
        for name, node in nodes.items():
            assert dict(new[name].attrs) == dict(node.attrs)
            if name in held:
                np.testing.assert_array_equal(new[name][...], held[name])
                assert new[name].chunks == node.chunks
                if name not in ("texts", "words") and zarr_format == 3:
                    assert new[name].metadata == node.metadata
        assert dict(new.attrs) == dict(old.attrs)
    with pytest.raises(dm.errors.IoFailed, match="overwrite_group=True"):
        move(tmp_path / "a.zarr", tmp_path / "b.zarr", overwrite=True)
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", overwrite_group=True)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_chunks_are_those_of_arrays_of_so_many_dimensions(tmp_path):
    make(tmp_path / "a.zarr")
    move(tmp_path / "a.zarr", tmp_path / "b.h5", chunks=(4, 5))
    move(tmp_path / "b.h5", tmp_path / "c.h5", chunks=(9,))
    move(tmp_path / "c.h5", tmp_path / "d.zarr", chunks=(6, 6))
    move(tmp_path / "d.zarr", tmp_path / "e.zarr", chunks=(2, 2))
    with h5py.File(tmp_path / "b.h5") as two, h5py.File(tmp_path / "c.h5") as one:
        assert two["u"].chunks == (4, 5) and two["deep/er/w"].chunks is None
        assert one["u"].chunks == (4, 5) and one["deep/er/w"].chunks == (9,)
    for name, chunks in (("d.zarr", (6, 6)), ("e.zarr", (2, 2))):
        group = zarr.open_group(tmp_path / name, mode="r")
        assert group["u"].chunks == chunks and group["deep/er/w"].chunks == (9,)
    before = sorted(os.listdir(tmp_path))
    for source in ("a.zarr", "b.h5"):
        for output in ("f.zarr", "f.h5"):
            words = rf"chunks=\(2, 2, 2\): nothing in .*{source} has 3 dimensions"
            with pytest.raises(dm.errors.InvalidArgument, match=words):
                move(tmp_path / source, tmp_path / output, chunks=(2, 2, 2))
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
def test_a_chunk_that_cannot_be_read_leaves_nothing(tmp_path, output):
    make(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/u/c/1/1").write_bytes(b"none")
    with pytest.raises(dm.errors.IoFailed, match="u cannot be read"):
        move(tmp_path / "a.zarr", tmp_path / output)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("to", [2, 3])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_strings_keep_what_they_have(tmp_path, zarr_format, to):
    gzip = numcodecs.GZip(3) if zarr_format == 2 else zarr.codecs.GzipCodec(level=3)
    said = {"shards": (4,)} if zarr_format == 3 else {}
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("u", data=np.arange(3.0))
    made = group.create_array(
        "t", shape=(9,), chunks=(2,), dtype=str, compressors=gzip, fill_value="none", **said
    )
    made[:3] = np.array(["a", "none", "ä"], object)
    group.create_array("plain", shape=(3,), chunks=(2,), dtype=str, compressors=None)
    told = intend(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=to)
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=to, check="crc32c")
    new = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert new["t"][...].tolist() == ["a", "none", "ä", *["none"] * 6]
    assert new["t"].chunks == (2,) and not new["plain"].compressors
    kinds = {2: numcodecs.GZip, 3: zarr.codecs.GzipCodec}
    assert isinstance(new["t"].compressors[0], kinds[to]) and new["t"].compressors[0].level == 3
    if zarr_format == to:
        assert new["t"].metadata == made.metadata
    assert told.members["t"].files == (3 if to == zarr_format == 3 else 5) + (2 if to == 2 else 1)
    move(tmp_path / "a.zarr", tmp_path / "c.zarr", zarr_format=to, compressor="blosc")
    for name in ("t", "plain"):
        (codec,) = zarr.open_group(tmp_path / "c.zarr", mode="r")[name].compressors
        assert type(codec).__name__ == ("Blosc" if to == 2 else "BloscCodec")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("source", ["a.zarr", "a.h5"])
def test_the_files_of_a_group_are_told_before(tmp_path, source, zarr_format):
    make(tmp_path / "a.zarr")
    shutil.rmtree(tmp_path / "a.zarr/flags")  # one of its chunks holds fill values alone
    texts = [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"]]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("in/texts", data=texts, chunks=(1, 2), dtype=h5py.string_dtype())
        file["u"] = np.ones((4, 5))
        file.create_group("in/ner")
    said = {"zarr_format": zarr_format}
    told = intend(tmp_path / source, tmp_path / "b.zarr", **said)
    move(tmp_path / source, tmp_path / "b.zarr", **said)
    files = [name for _, _, names in os.walk(tmp_path / "b.zarr") for name in names]
    assert told.files == len(files)
    assert told.figures()["files"] == told.files


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_files_of_others_beside_strings_are_no_chunks(tmp_path, zarr_format, shape):
    """Read as chunks they would stand for gigabytes."""
    codec = numcodecs.Blosc() if zarr_format == 2 else zarr.codecs.BloscCodec()
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("u", data=np.arange(3, dtype="i1"))
    made = group.create_array("t", shape=shape, chunks=shape, dtype=str, compressors=codec)
    made[...] = "text"
    for name in ("notes.txt", ".DS_Store", "._0"):
        (tmp_path / "a.zarr/t" / name).write_bytes(b"\x7f" * 64)
    move(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert np.all(zarr.open_array(tmp_path / "b.zarr/t", mode="r")[...] == "text")
    with pytest.raises(dm.errors.NoMemory, match=r"a.zarr/t has \d+ bytes of strings"):
        move(tmp_path / "a.zarr", tmp_path / "c.zarr", max_bytes=40)
