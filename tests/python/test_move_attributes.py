# SPDX-License-Identifier: BSD-3-Clause
"""Moves from HDF5 to HDF5: a dataset keeps its attributes and fill value unchanged."""

import json
import os
import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray
import zarr
from hdf5_samples import RECORD, attributes_as_in_file, give_attributes
from mpi4py import MPI

import datamover as dm
from datamover.files import move

#: How the output is written.
WAYS = {
    "contiguous": {},
    "chunks": {"chunks": (2, 3)},
    "gzip": {"chunks": (2, 2), "compressor": "gzip"},
}

GZIP = ["--chunks", "2,3", "--compressor", "gzip"]


def make(path, array=None, **said):
    """Make a file with one dataset; give it, open."""
    file = h5py.File(path, "w")
    file.create_dataset("g/u", data=np.zeros((5, 4), "f4") if array is None else array, **said)
    return file


def warnings_in(caplog):
    return sorted(record.getMessage() for record in caplog.records)


def check_same_attributes(before, after):
    with h5py.File(before) as a, h5py.File(after) as b:
        expected, found = attributes_as_in_file(a["g/u"]), attributes_as_in_file(b["g/u"])
        assert list(found) == list(expected)
        for name, said in expected.items():
            assert found[name] == said, name


@pytest.mark.parametrize("way", WAYS)
def test_attributes_of_all_types_are_kept(tmp_path, caplog, way):
    with make(tmp_path / "a.h5") as file:
        give_attributes(file["g/u"])
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u", check="crc32c", **WAYS[way])
    check_same_attributes(tmp_path / "a.h5", tmp_path / "b.h5")
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("more", [[], GZIP])
def test_two_processes_keep_them(tmp_path, more):
    with make(tmp_path / "a.h5", fillvalue=-1.5) as file:
        give_attributes(file["g/u"])
        file["g/u"].attrs["points_to"] = file["g/u"].ref
    command = [sys.executable, "-m", "datamover", "move", "-n", "2", *more]
    command += [f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("its attribute points_to is left out") == 1
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        del file["g/u"].attrs["points_to"]
    check_same_attributes(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["g/u"].fillvalue == -1.5


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize(("count", "size"), [(3000, 1), (3, 100_000)])
@pytest.mark.parametrize("way", ["contiguous", "gzip"])
def test_many_and_large_attributes_in_their_order(tmp_path, way, count, size, is_ordered):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        made = file.create_dataset("g/u", data=np.zeros((5, 4)), track_order=is_ordered)
        for k in reversed(range(count)):
            made.attrs[f"a{k}"] = np.full(size, k, "f4")
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u", **WAYS[way])
    check_same_attributes(tmp_path / "a.h5", tmp_path / "b.h5")
    if is_ordered:
        with h5py.File(tmp_path / "a.h5") as before, h5py.File(tmp_path / "b.h5") as after:
            assert list(after["g/u"].attrs) == list(before["g/u"].attrs)


def test_a_large_attribute_of_zarr_goes_to_hdf5(tmp_path):
    said = list(map(float, range(20_000)))
    zarr.create_array(tmp_path / "a.zarr", shape=(3,), dtype="i1", attributes={"a": said})
    move(tmp_path / "a.zarr", f"{tmp_path}/b.h5:/u")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["u"].attrs["a"].tolist() == said


def test_references_are_left_out_and_named(tmp_path, caplog):
    with make(tmp_path / "a.h5") as file:
        made = file["g/u"]
        made.attrs["kept"] = np.int8(1)
        made.attrs["object"], made.attrs["region"] = made.ref, made.regionref[:2]
        with_reference = np.dtype([("n", "i4"), ("r", h5py.ref_dtype)])
        made.attrs["record"] = np.array((1, made.ref), with_reference)
        file["x"] = np.arange(5)
        file["x"].make_scale("x")
        made.dims[0].attach_scale(file["x"])
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u")
    assert warnings_in(caplog) == [
        f"{tmp_path}/a.h5:/g/u: its attribute {name} is left out: it refers to what is in the file"
        for name in ("object", "record", "region")
    ]
    with h5py.File(tmp_path / "b.h5") as file:
        assert sorted(file["g/u"].attrs) == ["DIMENSION_LABELS", "kept"]
        assert [dim.label for dim in file["g/u"].dims] == ["x", ""]


def test_a_scale_stays_one(tmp_path):
    with make(tmp_path / "a.h5", np.arange(4.0)) as file:
        file["g/u"].make_scale("x")
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u")
    check_same_attributes(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["g/u"].is_scale


def test_an_attribute_with_a_type_of_the_file_is_kept(tmp_path):
    with make(tmp_path / "a.h5") as file:
        file["kind"] = RECORD
        file["g/u"].attrs.create("named", np.ones((), RECORD), dtype=file["kind"])
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["g/u"].attrs["named"].tobytes() == np.ones((), RECORD).tobytes()
        assert file["g/u"].attrs["named"].dtype == RECORD


NAN_WITH_BITS = np.uint32(0x7FC12345).view("f4")
FILL_VALUES = [
    ("f4", -9.5), ("f4", NAN_WITH_BITS), (">i2", -7), ("u1", 255), ("?", True), ("c16", 1 - 2j),
    ("f2", 3), ("S4", b"ab"), ("i4", 0), (h5py.enum_dtype({"A": 0, "B": 1}, "i1"), 1),
    (RECORD, np.ones((), RECORD)), ("V3", np.void(b"abc")),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "fill"), FILL_VALUES, ids=[str(d) for d, _ in FILL_VALUES])
def test_fill_values_are_kept(tmp_path, way, dtype, fill):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("g/u", (5, 4), dtype, fillvalue=fill)
        made[...] = np.zeros((5, 4), dtype)
        expected = made.fillvalue
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u", check="crc32c", **WAYS[way])
    with h5py.File(tmp_path / "b.h5") as file:
        made = file["g/u"]
        is_set = made.id.get_create_plist().fill_value_defined()
        assert is_set == h5py.h5d.FILL_VALUE_USER_DEFINED
        assert np.asarray(made.fillvalue).tobytes() == np.asarray(expected).tobytes()
        assert not any(made[...].tobytes())


def test_a_fill_value_that_was_not_set_is_not(tmp_path):
    make(tmp_path / "a.h5").close()
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u")
    with h5py.File(tmp_path / "b.h5") as file:
        is_set = file["g/u"].id.get_create_plist().fill_value_defined()
        assert is_set == h5py.h5d.FILL_VALUE_DEFAULT


@pytest.mark.parametrize("way", WAYS)
def test_fill_values_come_from_zarr(tmp_path, way):
    for dtype, fill in (("f4", -9.5), (">i4", 7), ("f8", float("nan"))):
        made = zarr.create_array(
            tmp_path / "a.zarr", shape=(5, 4), dtype=dtype, fill_value=fill, overwrite=True
        )
        made[:2] = 1
        output = f"{tmp_path}/b.h5:/u"
        move(tmp_path / "a.zarr", output, overwrite=True, check="crc32c", **WAYS[way])
        with h5py.File(tmp_path / "b.h5") as file:
            np.testing.assert_equal(file["u"].fillvalue, np.array(fill, dtype)[()])
            np.testing.assert_array_equal(file["u"][...], made[...])


@pytest.mark.parametrize(("before", "after"), [("i4", "i2"), ("f8", "f4"), ("i4", "f8")])
def test_what_stands_for_missing_elements_is_converted_as_they_are(tmp_path, before, after):
    missing = np.dtype(before).type(-99999 if before == "i4" else 1e300)
    with make(tmp_path / "a.h5", np.full((5, 4), missing), fillvalue=missing) as file:
        file["g/u"].attrs.update({"_FillValue": missing, "missing_value": missing[np.newaxis]})
        file["g/u"].attrs.update({"valid_min": np.int16(3), "z": np.complex64(1j)})
    move(f"{tmp_path}/a.h5:/g/u", f"{tmp_path}/b.h5:/g/u", output_dtype=after)
    move(f"{tmp_path}/a.h5:/g/u", tmp_path / "b.zarr", output_dtype=after)
    with h5py.File(tmp_path / "b.h5") as file:
        made = file["g/u"]
        said = dict(made.attrs)
        assert {name: (value.dtype, value.shape) for name, value in said.items()} == {
            "_FillValue": (after, ()), "missing_value": (after, (1,)), "valid_min": ("i2", ()),
            "z": ("c8", ()),
        }  # fmt: skip
        for one in (said["_FillValue"], said["missing_value"], made.fillvalue):
            assert (made[...] == one).all()
        of_zarr = np.array(zarr.open_array(tmp_path / "b.zarr").attrs["missing_value"], after)
        assert (made[...] == of_zarr).all()


def test_missing_values_of_other_kinds_than_the_elements(tmp_path):
    """Numbers become complex with the elements; texts stay."""
    texts = np.array(["NA", "n/a"], h5py.string_dtype())
    with make(tmp_path / "a.h5", np.ones((5, 4), "f4")) as file:
        file["g/u"].attrs.update({"_FillValue": np.float32([-1.5]), "missing_value": texts})
    for dtype in ("c16", "f8"):
        output = tmp_path / f"{dtype}.h5"
        move(f"{tmp_path}/a.h5:/g/u", f"{output}:/g/u", output_dtype=dtype)
        with h5py.File(output) as file:
            said = file["g/u"].attrs
            assert said["_FillValue"].dtype == dtype and said["_FillValue"].tolist() == [-1.5]
            assert said["missing_value"].tolist() == ["NA", "n/a"]


def test_attributes_that_json_cannot_hold_are_named_for_one_dataset_too(tmp_path, caplog):
    with make(tmp_path / "a.h5") as file:
        file["g/u"].attrs.update({"kept": 1, "z": 1 + 2j, "none": h5py.Empty("f4")})
    move(f"{tmp_path}/a.h5:/g/u", tmp_path / "b.zarr")
    assert warnings_in(caplog) == [
        f"{tmp_path}/a.h5:/g/u: its attribute {name} is left out: JSON has none of that type"
        for name in ("none", "z")
    ]
    caplog.clear()
    move(f"{tmp_path}/a.h5:/g/u", tmp_path / "b.npy")
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("way", WAYS)
def test_attributes_that_hdf5_cannot_hold_are_left_out_and_named(tmp_path, caplog, way):
    lost = {"null": [1, None], "nested": {"a": 1}, "ragged": [[1], [1, 2]], "mixed": [1, "a"]}
    lost.update({"large": 2**70, "": 1, "zero": "a\0b"})
    kept = {"units": "m", "numbers": [1, 2], "a/b": 1}
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(5, 4), chunks=(2, 4), dtype="f4", attributes={**lost, **kept}
    )
    made[...] = 1
    move(tmp_path / "a.zarr", f"{tmp_path}/b.h5:/g/u", **WAYS[way])
    for name, told in zip(sorted(lost), warnings_in(caplog), strict=True):
        assert told.startswith(f"/g/u: its attribute {name} is left out: HDF5 cannot hold it (")
    with h5py.File(tmp_path / "b.h5") as file:
        assert set(file["g/u"].attrs) == set(kept)
        assert (file["g/u"][...] == 1).all()


def strict_json(path):
    """Read all of Zarr's metadata as parsers do that know JSON alone; by names of files."""

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    kinds = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
    files = [file for file in path.rglob("*") if file.name in kinds]
    assert files
    return {
        str(file.relative_to(path)): json.loads(file.read_text(), parse_constant=refuse)
        for file in files
    }


SPECIAL = {
    "missing_value": np.float32("nan"), "valid_range": np.array([-np.inf, 5.5]),
    "nested": np.array([[np.nan, 1], [np.inf, 2]], "f4"), "units": "m", "words": ["NaN", "m"],
}  # fmt: skip


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("options", [{}, {"output_dtype": "f4"}, {"compressor": "blosc"}])
@pytest.mark.parametrize("source", ["a.h5", "a.h5:/g/u"])
def test_nan_and_infinities_are_valid_json_and_come_back(tmp_path, source, options, zarr_format):
    with make(tmp_path / "a.h5", np.arange(4.0)) as file:
        file["texts"] = np.array(["a", "b"], h5py.string_dtype())
        for held in (file, file["g"], file["g/u"], file["texts"]):
            held.attrs.update(SPECIAL)
    if source == "a.h5" and "output_dtype" in options:
        options = {}
    move(f"{tmp_path}/{source}", tmp_path / "b.zarr", zarr_format=zarr_format, **options)
    strict_json(tmp_path / "b.zarr")
    move(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=5 - zarr_format)
    strict_json(tmp_path / "c.zarr")
    move(tmp_path / "c.zarr", tmp_path / ("d.h5" if source == "a.h5" else "d.h5:/g/u"))
    with h5py.File(tmp_path / "d.h5") as file:
        names = ("/", "g", "g/u", "texts") if source == "a.h5" else ("g/u",)
        for name in names:
            found = dict(file[name].attrs)
            assert found.pop("words").tolist() == SPECIAL["words"]
            assert found.pop("units") == "m" and set(found) == {*SPECIAL} - {"words", "units"}
            for key, value in found.items():
                np.testing.assert_array_equal(value, SPECIAL[key])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("is_ordinary", [True, False])
def test_bare_names_of_numbers_in_an_input_are_written_as_valid_json(
    tmp_path, zarr_format, is_ordinary
):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    said = {} if is_ordinary else {"compressors": None, "dtype": ">f8"}
    made = group.create_array("u", shape=(4,), **{"dtype": "f8", **said}, fill_value=np.nan)
    made[:2] = 1
    for held in (group, made):
        held.attrs.update({"a": np.nan, "b": {"c": [1, [-np.inf]]}})
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=zarr_format)
    found = strict_json(tmp_path / "b.zarr")
    for name in ("", "u/"):
        attributes = (
            found[f"{name}zarr.json"]["attributes"] if zarr_format == 3 else found[f"{name}.zattrs"]
        )
        assert attributes == {"a": "NaN", "b": {"c": [1, ["-Infinity"]]}}


@pytest.mark.parametrize("output", ["b.zarr", "b.h5"])
@pytest.mark.parametrize("kind", ["array", "group"])
def test_lists_in_lists_without_end_are_one_clear_line(tmp_path, kind, output):
    for depth in (100, 400, 800):
        made = zarr.create_group(tmp_path / "a.zarr", overwrite=True)
        array = made.create_array("u", data=np.arange(3.0))
        path = tmp_path / "a.zarr" / (array.path if kind == "array" else "") / "zarr.json"
        nested = '"attributes": {"a": ' + "[" * depth + "]" * depth + "}"
        path.write_text(path.read_text().replace('"attributes": {}', nested))
        try:
            move(tmp_path / "a.zarr", tmp_path / output, overwrite_group=True)
        except dm.errors.Unsupported as e:
            assert depth == 800 and "too deeply nested lists" in str(e)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("missing", [np.nan, -999.0])
def test_xarray_decodes_what_stands_for_missing_elements(tmp_path, missing, zarr_format):
    array = np.array([1, missing, 3], "f4")
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"] = np.arange(3.0)
        file["x"].make_scale("x")
        file["u"] = array
        file["u"].dims[0].attach_scale(file["x"])
        file["u"].attrs.update(
            {"_FillValue": np.float32(missing), "missing_value": np.float32(missing)}
        )
    move(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=zarr_format)
    strict_json(tmp_path / "b.zarr")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before:
        after = xarray.open_zarr(tmp_path / "b.zarr", consolidated=False, chunks=None)
        np.testing.assert_array_equal(after["u"], before["u"])
        after.to_netcdf(tmp_path / "c.nc", engine="h5netcdf")
    move(tmp_path / "b.zarr", tmp_path / "d.nc")
    for name in ("c.nc", "d.nc"):
        with h5py.File(tmp_path / name) as file:
            np.testing.assert_array_equal(file["u"].attrs["_FillValue"], np.float32(missing))
            if name == "d.nc" or missing == -999:  # xarray leaves out what says nothing more
                found = file["u"].attrs["missing_value"]
                np.testing.assert_array_equal(found, np.float32(missing))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_saved_values_that_json_has_no_numbers_for_come_back(tmp_path, local_bucket, zarr_format):
    values = {"t": np.nan, "of/it": -np.inf, "n": 1.5, "text": "NaN"}
    comm = MPI.COMM_SELF
    for place in (tmp_path / "s.zarr", f"{local_bucket.address}/s.zarr"):
        dm.save(place, values, comm=comm, zarr_format=zarr_format, overwrite=True)
        found = dm.load(place, {}, comm=comm)
        assert np.isnan(found["t"]) and found["of/it"] == -np.inf
        assert found["n"] == 1.5 and found["text"] == "NaN"
    strict_json(tmp_path / "s.zarr")


@pytest.mark.parametrize("source", ["a.h5", "a.h5:/g/u"])
def test_a_class_and_name_that_are_no_scales_are_kept_in_zarr(tmp_path, caplog, source):
    with make(tmp_path / "a.h5", np.arange(4.0)) as file:
        image = {"CLASS": "IMAGE", "NAME": "of the sun"}
        for held in (file, file["g"], file["g/u"]):
            held.attrs.update(image)
        file["g/x"] = np.arange(4.0)
        file["g/x"].make_scale("x")
        file["g/z"] = np.arange(4.0)
        file["g/z"].attrs["CLASS"] = np.complex64(1j)
    move(f"{tmp_path}/{source}", tmp_path / "b.zarr")
    if source == "a.h5:/g/u":
        assert dict(zarr.open_array(tmp_path / "b.zarr", mode="r").attrs) == image
        return
    group = zarr.open_group(tmp_path / "b.zarr", mode="r")
    for held in (group, group["g"], group["g/u"]):
        assert dict(held.attrs) == image
    assert dict(group["g/x"].attrs) == {}
    assert warnings_in(caplog) == [
        f"{tmp_path}/a.h5:/g/z: its attribute CLASS is left out: JSON has none of that type"
    ]


@pytest.mark.parametrize("output", ["b.h5:/u", "b.h5", "b.zarr"])
@pytest.mark.parametrize("dtype", [">i2", "<i2"])
def test_lists_in_another_byte_order_are_left_out_and_named(tmp_path, caplog, output, dtype):
    """h5py reads other numbers than are in the file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        value = np.empty((), object)
        value[()] = np.arange(3, dtype="i2")
        file["u"].attrs.create("lists", value, (), h5py.vlen_dtype(dtype))
    source = f"{tmp_path}/a.h5" + (":/u" if ":" in output else "")
    move(source, f"{tmp_path}/{output}")
    is_swapped = np.dtype(dtype) != np.dtype("i2")
    assert ["its attribute lists is left out" in r.getMessage() for r in caplog.records] == (
        [True] if is_swapped else []
    )
    if "h5" in output:
        with h5py.File(tmp_path / "b.h5") as file:
            found = {name: value.tolist() for name, value in file["u"].attrs.items()}
    else:
        found = json.loads((tmp_path / "b.zarr/u/zarr.json").read_text())["attributes"]
    assert found == ({} if is_swapped else {"lists": [0, 1, 2]})


def test_labels_that_cannot_be_read_are_an_error(tmp_path):
    """HDF5's own call for them ends the process by a signal."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.zeros((2, 3))
        file["u"].dims[1].label = "x"
    content = (tmp_path / "a.h5").read_bytes()
    where_texts_are = struct.pack("<Q", content.index(b"GCOL"))
    assert content.count(where_texts_are) == 1
    broken = content.replace(where_texts_are, b"\xff" * 7 + b"\0")
    (tmp_path / "a.h5").write_bytes(broken)
    done = subprocess.run(
        [sys.executable, "-m", "datamover", "move", "a.h5:/u", "b.npy"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "a.h5 is not a readable HDF5 file" in done.stderr
    assert os.listdir(tmp_path) == ["a.h5"]


def test_missing_values_that_are_no_plain_numbers_are_copied_as_stored(tmp_path):
    """If elements are converted, only numbers become numbers of the new type."""
    triples = np.arange(1.0, 7.0).reshape(2, 3)
    types = {
        "array": (h5py.h5t.array_create(h5py.h5t.IEEE_F64LE, (3,)), (2,), triples),
        "enum": (h5py.h5t.enum_create(h5py.h5t.STD_I8LE), (), np.int8(1)),
        "bits": (h5py.h5t.STD_B8LE.copy(), (), np.uint8(5)),
    }
    types["enum"][0].enum_insert(b"one", 1)
    for name, (kind, shape, values) in types.items():
        source, output = tmp_path / f"{name}.h5", tmp_path / f"{name}_out.h5"
        with h5py.File(source, "w") as file:
            held = file.create_dataset("u", data=np.ones(4))
            space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
            made = h5py.h5a.create(held.id, b"missing_value", kind, space)
            made.write(np.ascontiguousarray(values), kind)
        move(f"{source}:/u", f"{output}:/u", output_dtype="f4")
        with h5py.File(source) as before, h5py.File(output) as after:
            found = h5py.h5a.open(after["u"].id, b"missing_value")
            assert found.get_type().equal(kind) and found.shape == shape
            np.testing.assert_array_equal(
                after["u"].attrs["missing_value"], before["u"].attrs["missing_value"]
            )
