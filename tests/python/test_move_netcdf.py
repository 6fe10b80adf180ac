# SPDX-License-Identifier: BSD-3-Clause
"""Moves of NetCDF4 files: xarray finds the same in the output as in the input.

Skipped if xarray, pandas or h5netcdf is missing.
"""

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import intend, move

xarray = pytest.importorskip("xarray")
pytest.importorskip("pandas")
pytest.importorskip("h5netcdf")


def sample(rng):
    """A dataset with coordinates, units, a scale factor, missing values, times and a scalar."""
    temperature = rng.normal(280, 10, (5, 7, 9)).astype("f4").round(1)
    temperature[0, 2, 3] = np.nan
    return xarray.Dataset(
        {
            "temperature": (
                ("time", "lat", "lon"), temperature, {"units": "K", "long_name": "at 2 m"},
            ),
            "mask": (("lat", "lon"), rng.integers(0, 2, (7, 9)).astype("i1")),
            "level": ((), 850.0, {"units": "hPa"}),
        },
        coords={
            "time": np.arange("2001-01-01", "2001-01-06", dtype="M8[D]").astype("M8[ns]"),
            "lat": ("lat", np.linspace(-30, 30, 7), {"units": "degrees_north"}),
            "lon": ("lon", np.linspace(0, 40, 9), {"units": "degrees_east"}),
        },
        attrs={"title": "a run", "version": 3, "range": [1.5, 2.5]},
    )  # fmt: skip


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_xarray_opens_the_same(tmp_path, compression):
    given = sample(np.random.default_rng(3))
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 270.0, "_FillValue": -9999}
    if compression:
        packed |= {"compression": compression, "chunksizes": (2, 7, 4)}
    given.to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf",
        encoding={"temperature": packed, "mask": {"_FillValue": None}},
    )  # fmt: skip
    move(tmp_path / "a.nc", tmp_path / "a.zarr")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before:
        after = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None)
        xarray.testing.assert_identical(after.load(), before.load())
        for name in ("temperature", "mask", "level", "time", "lat"):
            assert after[name].dims == before[name].dims
            kept = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")
            for word in kept:
                old, new = (found[name].encoding.get(word) for found in (before, after))
                same = old == new or (np.isnan(old) and np.isnan(new))
                assert same, (name, word, old, new)


@pytest.mark.parametrize("unlimited", [[], ["time"]])
def test_dimensions_without_end_are_told(tmp_path, caplog, unlimited):
    sample(np.random.default_rng(3)).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf", unlimited_dims=unlimited
    )
    move(tmp_path / "a.nc", tmp_path / "a.zarr")
    said = [m for m in caplog.messages if "unlimited dimensions" in m]
    assert len(said) == len(unlimited)
    if said:
        assert said[0].startswith(str(tmp_path / "a.nc")) and len(said[0].splitlines()) == 1
        assert {"/time", "/temperature"} == set(said[0].rpartition(": ")[2].split(", "))


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_xarray_opens_a_file_of_a_whole_one_as_that(tmp_path, compression):
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 270.0, "_FillValue": -9999}
    if compression:
        packed |= {"compression": compression, "chunksizes": (2, 7, 4)}
    given = sample(np.random.default_rng(3)).assign(name=("lat", [f"row {k}" for k in range(7)]))
    given = given.assign(bare=(("time", "free"), np.zeros((5, 3))))
    given.to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf", encoding={"temperature": packed},
        unlimited_dims=["time"],
    )  # fmt: skip
    move(tmp_path / "a.nc", tmp_path / "b.nc", check="crc32c")
    opened = {"engine": "h5netcdf"}
    with (
        xarray.open_dataset(tmp_path / "a.nc", **opened) as before,
        xarray.open_dataset(tmp_path / "b.nc", **opened) as after,
    ):
        xarray.testing.assert_identical(after.load(), before.load())
        assert after.encoding["unlimited_dims"] == before.encoding["unlimited_dims"] == {"time"}
        for name in before.variables:
            kept = ("dtype", "scale_factor", "_FillValue", "units", "calendar", "chunksizes")
            for word in kept:
                old, new = (found[name].encoding.get(word) for found in (before, after))
                if word == "chunksizes" and old is not None:  # none beyond the array
                    old = tuple(map(min, old, before[name].shape))
                same = old == new or (np.isnan(old) and np.isnan(new))
                assert same, (name, word, old, new)
    with h5py.File(tmp_path / "a.nc") as before, h5py.File(tmp_path / "b.nc") as after:
        assert list(after.attrs) == list(before.attrs) and list(after) == list(before)
        for name in before:
            number = [file[name].attrs.get("_Netcdf4Dimid") for file in (before, after)]
            assert number[0] == number[1]


@pytest.mark.parametrize("name", ["temperature", "mask", "level", "time", "lat"])
@pytest.mark.parametrize("output", ["b.nc", "b.h5"])
def test_a_variable_in_a_file_of_its_own_is_encoded_as_before(tmp_path, name, output):
    packed = {"dtype": "i2", "_FillValue": -9999}
    packed |= {"scale_factor": np.float32(0.1), "add_offset": np.float32(270)}
    sample(np.random.default_rng(3)).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf", encoding={"temperature": packed}
    )
    move(f"{tmp_path}/a.nc:/{name}", f"{tmp_path}/{output}:/{name}")
    opened = {"engine": "h5netcdf", "phony_dims": "sort"}
    with (
        xarray.open_dataset(tmp_path / "a.nc", **opened) as before,
        xarray.open_dataset(tmp_path / output, **opened) as after,
    ):
        np.testing.assert_array_equal(after[name].values, before[name].values)
        assert after[name].dims == before[name].dims
        assert after[name].attrs == before[name].attrs
        for word in ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar"):
            old, new = (found[name].encoding.get(word) for found in (before, after))
            np.testing.assert_equal(new, old)
            assert type(new) is type(old), word


def test_a_variable_goes_to_zarr_by_a_file_of_its_own(tmp_path):
    given = sample(np.random.default_rng(3))
    given["mask"].attrs["levels"] = np.array([3], "i4")
    given.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    move(f"{tmp_path}/a.nc:/mask", f"{tmp_path}/b.h5:/mask")
    said = []
    for source in ("a.nc", "b.h5"):
        move(f"{tmp_path}/{source}:/mask", tmp_path / "c.zarr", overwrite=True)
        said.append(dict(zarr.open_array(tmp_path / "c.zarr", mode="r").attrs))
    assert said[0] == said[1] == {"levels": 3}


def test_dimensions_without_coordinates_get_none(tmp_path):
    given = xarray.Dataset(
        {
            "u": (("t", "x"), np.arange(6.0).reshape(2, 3)),
            "s": ("x", np.array([b"ab", b"c", b"d"])),
        },
        coords={"t": [4, 5]},
    )
    given.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    move(tmp_path / "a.nc", tmp_path / "a.zarr")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before:
        after = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None)
        xarray.testing.assert_identical(after.load(), before.load())
    given[["u"]].drop_vars("t").to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    move(tmp_path / "b.nc", tmp_path / "b.npy")  # its only dataset
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), given["u"])


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_missing_values_of_older_stores_stay_missing(tmp_path, dtype):
    values = np.array([[1, -9, 3], [-9, 5, 6]], dtype)
    store = tmp_path / "a.zarr"
    given = xarray.Dataset({"u": (("y", "x"), values, {"units": "m"})})
    given["u"].encoding["_FillValue"] = values.dtype.type(-9)
    given.to_zarr(store, zarr_format=2, consolidated=False)
    with xarray.open_zarr(store, consolidated=False, chunks=None) as before:
        assert int(before["u"].isnull().sum()) == 2
        (tmp_path / "b.zarr").mkdir()
        (tmp_path / "b.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
        (tmp_path / "c.zarr").mkdir()
        (tmp_path / "c.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
        move(store / "u", tmp_path / "b.zarr/u", output_format="zarr")
        move(store / "u", tmp_path / "c.zarr/u", output_format="zarr", output_dtype="f8")
        for place in ("b.zarr", "c.zarr"):
            after = xarray.open_zarr(tmp_path / place, consolidated=False, chunks=None)
            np.testing.assert_array_equal(after["u"].values, before["u"].values)
            assert after["u"].dims == ("y", "x") and after["u"].attrs == {"units": "m"}


def test_strings_of_any_length_go_with_the_others(tmp_path):
    given = sample(np.random.default_rng(3))
    given["station"] = ("lat", np.array([f"{k}é" * k for k in range(7)], object), {"source": "x"})
    given["model"] = ((), "a name")
    given["codes"] = (("lat", "lon"), np.array([["a"] * 9, ["bb"] * 9] * 3 + [[""] * 9], object))
    given.to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf", encoding={"codes": {"chunksizes": (2, 4)}}
    )
    intended = intend(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert "codes  7 x 9 of strings" in str(intended) and "model  one of strings" in str(intended)
    report = move(tmp_path / "a.nc", tmp_path / "a.zarr", check="crc32c")
    assert report.num_arrays == 9 and report.elems == 5 * 63 + 63 + 1 + 5 + 7 + 9 + 7 + 1 + 63
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before:
        after = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None)
        xarray.testing.assert_identical(after.load(), before.load())
        assert after["station"].attrs == {"source": "x"}
    assert zarr.open_array(tmp_path / "a.zarr/codes").chunks == (2, 4)


def test_what_is_no_utf_8_is_said(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3)
        file.create_dataset("text", data=[b"ok", b"\xff"], dtype=h5py.string_dtype("utf-8"))
    with pytest.raises(dm.errors.InvalidArgument, match="text has a string that is not UTF-8"):
        move(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert [name.name for name in tmp_path.iterdir()] == ["a.h5"]


def test_attributes_of_numbers_keep_their_types_if_they_can(tmp_path, caplog):
    packed = xarray.Dataset({"u": ("x", np.linspace(0, 1, 5, dtype="f4"))})
    packed.u.attrs["valid_range"] = np.array([0, 100], "i2")
    packed.u.attrs["flag_values"] = np.array([1, 70000], "i4")
    encoding = {"dtype": "i2", "scale_factor": np.float32(0.01), "add_offset": np.float32(0)}
    packed.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"u": encoding})
    move(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert caplog.messages == [
        f"{tmp_path}/a.nc:/u: scale_factor and add_offset become float64, the only type of JSON: "
        "xarray decodes the elements to float64"
    ]
    move(tmp_path / "a.zarr", tmp_path / "b.nc")
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["u"].attrs["valid_range"].dtype == "i2"
        assert file["u"].attrs["valid_range"].tolist() == [0, 100]
        assert file["u"].attrs["flag_values"].tolist() == [1, 70000]
    caplog.clear()
    packed.to_netcdf(tmp_path / "c.nc", engine="h5netcdf", encoding={"u": {"scale_factor": 0.5}})
    move(tmp_path / "c.nc", tmp_path / "c.zarr")
    assert caplog.messages == []


def test_lists_of_several_lengths_are_no_numbers(tmp_path, caplog):
    array = zarr.create_group(tmp_path / "a.zarr").create_array("u", shape=(4,), dtype="f4")
    array.attrs["flag_values"] = [1, [2, 3]]
    move(tmp_path / "a.zarr", tmp_path / "a.h5")
    (words,) = caplog.messages
    assert words.startswith(f"{tmp_path}/a.zarr/u: its attribute flag_values is left out")


def test_files_of_old_netcdf_have_single_numbers(tmp_path):
    xarray.Dataset({"u": ("x", np.arange(4.0), {"k": 5.5})}).to_netcdf(
        tmp_path / "a.nc", engine="h5netcdf"
    )
    with h5py.File(tmp_path / "a.nc", "a") as file:
        del file.attrs["_NCProperties"]
        file["scalar"] = 1.0
        for held in (file, file["u"], file["scalar"]):
            held.attrs["k"] = np.array([5.5])
        file["dangling"] = h5py.SoftLink("/nowhere")
    move(tmp_path / "a.nc", tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr")
    assert [held.attrs["k"] for held in (group, group["u"], group["scalar"])] == [5.5] * 3
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["u"] = np.arange(3)
        file["u"].make_scale("x")
        for held in (file, file["u"]):
            held.attrs["k"] = np.array([5.5])
    move(tmp_path / "b.h5", tmp_path / "b.zarr")
    group = zarr.open_group(tmp_path / "b.zarr")
    assert [held.attrs["k"] for held in (group, group["u"])] == [[5.5]] * 2


def test_lists_of_any_length_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3)
        file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i4"))
    with pytest.raises(dm.errors.Unsupported, match="lists"):
        move(f"{tmp_path}/a.h5:/lists", tmp_path / "a.zarr")


def with_a_variable_called_like_a_dimension(path):
    """Make what netCDF-C writes for `y(x)` and `x(y)`, which are no coordinates."""
    with h5py.File(path, "w") as file:
        file.attrs["_NCProperties"] = "version=2,netcdf=4.9.2,hdf5=1.14.3"
        for number, (name, extent) in enumerate({"y": 2, "x": 3}.items()):
            scale = file.create_dataset(name, (extent,), ">f4")
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable {extent:9d}")
            scale.attrs["_Netcdf4Dimid"] = number
        made = file.create_dataset("_nc4_non_coord_y", data=np.arange(3.0))
        made.dims[0].attach_scale(file["x"])
        words = file.create_dataset("_nc4_non_coord_x", (2,), h5py.string_dtype())
        words[...] = ["a", "b"]
        words.dims[0].attach_scale(file["y"])


def test_a_variable_called_like_a_dimension_has_its_name_in_netcdf(tmp_path):
    with_a_variable_called_like_a_dimension(tmp_path / "a.nc")
    move(tmp_path / "a.nc", tmp_path / "b.zarr")
    group = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert sorted(name for name, _ in group.arrays()) == ["x", "y"]
    assert group["y"][...].tolist() == [0.0, 1.0, 2.0] and group["x"][...].tolist() == ["a", "b"]
    assert group["y"].metadata.dimension_names == ("x",)
    move(f"{tmp_path}/a.nc:/y", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").tolist() == [0.0, 1.0, 2.0]
    found = dm.load(tmp_path / "a.nc", {"y": None})
    assert found["y"].tolist() == [0.0, 1.0, 2.0]
    move(tmp_path / "a.nc", tmp_path / "again.nc")  # in HDF5 it needs the prefix
    with h5py.File(tmp_path / "again.nc") as file:
        assert sorted(file) == ["_nc4_non_coord_x", "_nc4_non_coord_y", "x", "y"]
    with pytest.raises(dm.errors.IoFailed, match=r"there are x, y$"):
        move(f"{tmp_path}/a.nc:/z", tmp_path / "z.npy")


def test_files_with_a_variable_called_like_a_dimension_are_joined(tmp_path):
    for k in range(2):
        path = tmp_path / f"a{k}.nc"
        with h5py.File(path, "w") as file:
            for name in ("t", "y"):
                scale = file.create_dataset(name, (2,), ">f4")
                scale.make_scale("This is a netCDF dimension but not a netCDF variable         2")
            made = file.create_dataset("_nc4_non_coord_y", data=np.arange(2.0) + 2 * k)
            made.dims[0].attach_scale(file["t"])
    move(str(tmp_path / "a*.nc"), tmp_path / "b.zarr", along="t")
    move(str(tmp_path / "a*.nc"), tmp_path / "b.nc", along="t")
    assert zarr.open_group(tmp_path / "b.zarr", mode="r")["y"][...].tolist() == [0, 1, 2, 3]
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["_nc4_non_coord_y"][...].tolist() == [0, 1, 2, 3]


def test_a_dataset_beside_a_real_one_keeps_its_name(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["y"], file["_nc4_non_coord_y"] = np.arange(2.0), np.arange(3.0)
    move(tmp_path / "a.h5", tmp_path / "b.zarr")
    group = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert group["y"].shape == (2,) and group["_nc4_non_coord_y"].shape == (3,)
    move(f"{tmp_path}/a.h5:/y", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").shape == (2,)


def test_a_prefix_without_a_dimension_is_part_of_the_name(tmp_path):
    name = "_nc4_non_coord_x"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[name] = np.arange(3.0)
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    move(tmp_path / "a.h5", tmp_path / "a.npy")
    for found in (
        zarr.open(str(tmp_path / "a.zarr"))[name][:],
        np.load(tmp_path / "a.npy"),
        dm.load(tmp_path / "a.h5", {name: None})[name],
    ):
        np.testing.assert_array_equal(found, np.arange(3.0))


def stations(path, first, group="/", begin=0):
    """Write a file of stations with names of four characters: a coordinate in two dimensions."""
    h5netcdf = pytest.importorskip("h5netcdf")
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"time": 2, "characters": 4, "station": 3}
        words = [f"s{first + k:03}" for k in range(3)]
        text = np.array([list(word) for word in words], "S1")
        file.create_variable("station", ("station", "characters"), data=text)
        file.create_variable("tas", ("time", "station"), data=np.full((2, 3), 1.0 * first))
        file.create_variable("time", ("time",), data=np.arange(2) + begin)
    if group != "/":
        with h5py.File(path, "r+") as file:
            file.create_group(group)
            for name in ("station", "tas", "time"):
                file.move(name, f"{group}/{name}")
    return str(path)


@pytest.mark.parametrize("group", ["/", "run"])
def test_a_coordinate_in_two_dimensions_has_names(tmp_path, group):
    xarray = pytest.importorskip("xarray")
    path = stations(tmp_path / "a.nc", 0, group)
    move(path, tmp_path / "a.zarr")
    array = zarr.open_group(tmp_path / "a.zarr", mode="r")[f"{group}/station".lstrip("/")]
    assert array.metadata.dimension_names == ("station", "characters")
    if group == "/":
        found = xarray.open_zarr(tmp_path / "a.zarr", chunks=None)
        xarray.testing.assert_identical(found, xarray.open_dataset(path, engine="h5netcdf"))
        assert found["station"].values.tolist() == [b"s000", b"s001", b"s002"]


@pytest.mark.parametrize("output", ["out.zarr", "out.nc"])
def test_files_with_a_coordinate_in_two_dimensions_are_joined(tmp_path, output):
    paths = [stations(tmp_path / f"{k}.nc", 0, begin=2 * k) for k in range(4)]
    move(paths, tmp_path / f"time_{output}", along="time")
    with pytest.raises(dm.Mismatch, match=r"b\.nc:/station has other elements"):
        move([paths[0], stations(tmp_path / "b.nc", 7, begin=2)], tmp_path / "no", along="time",
             output_format="zarr")  # fmt: skip
    paths = [stations(tmp_path / f"{k}.nc", 3 * k) for k in range(3)]
    move(paths, tmp_path / output, along="station")
    out = tmp_path / output
    found = h5py.File(out) if output == "out.nc" else zarr.open_group(out, mode="r")
    words = [f"s{k:03}".encode() for k in range(9)]
    assert [b"".join(row) for row in found["station"][...].tolist()] == words
    assert found["tas"][0].tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_numbers_of_dimensions_that_netcdf_would_not_write(tmp_path):
    for k, odd in enumerate([np.zeros(2, [("a", "i4")]), "text", h5py.Empty("i4"), [0, 1, 2], 0]):
        path = stations(tmp_path / f"{k}.nc", 0)
        with h5py.File(path, "r+") as file:
            file["station"].attrs["_Netcdf4Coordinates"] = odd
            file["characters"].attrs["_Netcdf4Dimid"] = odd
        move(path, tmp_path / f"{k}.zarr")
        array = zarr.open_group(tmp_path / f"{k}.zarr", mode="r")["station"]
        assert array.metadata.dimension_names in (None, ("station", None))
