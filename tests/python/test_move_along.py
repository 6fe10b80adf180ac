# SPDX-License-Identifier: BSD-3-Clause
"""Moves of many NetCDF files or Zarr groups to one: xarray reads the same as from the files."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import cf_time, intend, move
from datamover.files.append_to_zarr import AppendToZarr

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")


def whole(rng, days, axis=0):
    """A dataset of `days` days from 2000-01-30 on, with what climate files have."""
    dims = ["lat", "lon"]
    dims.insert(axis, "time")
    shape = [5, 6]
    shape.insert(axis, days)
    times = np.datetime64("2000-01-30") + np.arange(days)
    hours = times.astype("M8[ns]")
    return xarray.Dataset(
        {
            "tas": (dims, rng.normal(280, 10, shape).astype("f4"), {"units": "K"}),
            "time_bnds": (("time", "two"), np.stack([hours, hours + np.timedelta64(1, "D")], 1)),
            "orog": (("lat", "lon"), rng.normal(size=(5, 6))),
        },
        coords={
            "time": ("time", hours, {"bounds": "time_bnds"}),
            "lat": ("lat", np.linspace(-60, 60, 5), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(6.0)),
        },
        attrs={"title": "a run"},
    )


@pytest.fixture
def rng():
    return np.random.default_rng(7)


UNITS = {"units": "days since 2000-01-01", "dtype": "i4"}


def write(path, dataset, units=UNITS, **of_tas):
    encoding = {"tas": {"_FillValue": None, **of_tas}, "time": units}
    encoding["time_bnds"] = {"dtype": units["dtype"], "_FillValue": None}
    dataset.to_netcdf(path, engine="h5netcdf", unlimited_dims=["time"], encoding=encoding)


def split(tmp_path, dataset, lengths, **said):
    """Write a dataset as files of these lengths; return their paths."""
    paths, begin = [], 0
    for k, length in enumerate(lengths):
        paths.append(str(tmp_path / f"tas_{k:05}.nc"))
        write(paths[-1], dataset.isel(time=slice(begin, begin + length)), **said)
        begin += length
    return paths


def opened(path):
    return xarray.open_zarr(path, consolidated=False, chunks=None).load()


def joined_by_xarray(paths):
    parts = [xarray.load_dataset(path, engine="h5netcdf") for path in paths]
    return xarray.concat(parts, "time", data_vars="minimal")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"chunksizes": (4, 3, 6), "compression": "gzip"},
        {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -999},
    ],
)
def test_xarray_reads_the_files_together(tmp_path, rng, axis, stored):
    paths = split(tmp_path, whole(rng, 23, axis), [5, 7, 1, 10], **stored)
    move(str(tmp_path / "tas_*.nc"), tmp_path / "out.zarr", along="time", chunks=(9, 2, 4))
    found = opened(tmp_path / "out.zarr")
    xarray.testing.assert_identical(found, joined_by_xarray(paths))
    assert found["tas"].encoding["chunks"] == (9, 2, 4)
    assert sorted(os.listdir(tmp_path)) == ["out.zarr", *map(os.path.basename, paths)]


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("are_listed", [False, True])
def test_the_command_joins_files(tmp_path, rng, nprocs, are_listed):
    paths = split(tmp_path, whole(rng, 23), [5, 7, 1, 10])
    inputs = paths if are_listed else [str(tmp_path / "tas_*.nc")]
    words = ["--along", "time", "--chunks", "9,2,4", "-n", str(nprocs)]
    command = [sys.executable, "-m", "datamover", "move", *inputs]
    out = tmp_path / "tas.zarr"
    done = subprocess.run([*command, out, *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    xarray.testing.assert_identical(opened(out), joined_by_xarray(paths))


def read(path):
    if str(path).endswith(".nc"):
        return xarray.load_dataset(path, engine="h5netcdf")
    return opened(path)


@pytest.mark.parametrize("has_times", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("output", ["out.zarr", "out.nc"])
@pytest.mark.parametrize("kind", ["nc", "unlimited.nc", "v2", "v3", "sharded", "mixed"])
def test_formats_of_inputs_and_outputs(tmp_path, rng, kind, output, axis, has_times):
    given, paths, begin = whole(rng, 9, axis), [], 0
    given = given if has_times else given.drop_vars(["time", "time_bnds"])
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -999}
    for k, length in enumerate([4, 1, 4]):
        part = given.isel(time=slice(begin, begin + length))
        begin += length
        is_netcdf = k == 1 if kind == "mixed" else kind.endswith("nc")
        paths.append(str(tmp_path / f"{k}.{'nc' if is_netcdf else 'zarr'}"))
        encoding = {"tas": packed}
        if has_times:
            units = f"hours since 2000-01-0{k + 1}" if kind == "mixed" else "days since 2000-01-01"
            encoding |= {"time": {"units": units, "dtype": "i8"}, "time_bnds": {"dtype": "i8"}}
        if is_netcdf:
            encoding |= {name: {"_FillValue": None} for name in ("orog", "lat", "lon")}
            growing = ["time"] if kind == "unlimited.nc" else []
            part.to_netcdf(paths[-1], engine="h5netcdf", unlimited_dims=growing, encoding=encoding)
        else:
            if kind == "sharded":
                encoding["tas"] = {**packed, "chunks": (1, 1, 3), "shards": (3, 3, 6)}
            zarr_format = 2 if kind == "v2" else 3
            encoding |= {name: {"_FillValue": None} for name in ("orog", "lat", "lon")}
            part.to_zarr(paths[-1], zarr_format=zarr_format, encoding=encoding, consolidated=False)
    move(paths, tmp_path / output, along="time", check="crc32c")
    expected = xarray.concat([read(path) for path in paths], "time", data_vars="minimal")
    xarray.testing.assert_identical(read(tmp_path / output), expected)


def test_two_processes_join_zarr_groups_to_netcdf(tmp_path, rng):
    given = whole(rng, 9)
    for k in range(3):
        part = given.isel(time=slice(3 * k, 3 * k + 3))
        part.to_zarr(tmp_path / f"in_{k}.zarr", consolidated=False)
    command = [sys.executable, "-m", "datamover", "move", str(tmp_path / "in_*.zarr")]
    words = [tmp_path / "out.nc", "--along", "time", "--chunks", "4,2,4", "-n", "2"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    parts = [opened(tmp_path / f"in_{k}.zarr") for k in range(3)]
    expected = xarray.concat(parts, "time", data_vars="minimal")
    xarray.testing.assert_identical(read(tmp_path / "out.nc"), expected)


@pytest.mark.parametrize("limit", [1 << 10, 1 << 14])
def test_any_lengths_and_chunks(tmp_path, rng, limit):
    for draw in range(6):
        place = tmp_path / str(draw)
        place.mkdir()
        lengths = rng.integers(1, 9, int(rng.integers(1, 6))).tolist()
        given = whole(rng, sum(lengths))
        chunks = rng.integers(1, 7, 3).tolist()
        stored = {"chunksizes": tuple(rng.integers(1, 5, 3).tolist())} if draw % 3 else {}
        paths = split(place, given, lengths, **stored)
        report = move(
            paths, place / "out.zarr", along="time", chunks=chunks, max_bytes=limit * 8,
            check="crc32c",
        )  # fmt: skip
        assert report.num_arrays == 6
        xarray.testing.assert_equal(opened(place / "out.zarr"), given)


def test_the_plan_is_that_of_the_joined_array(tmp_path, rng):
    paths = split(tmp_path, whole(rng, 12), [4, 4, 4])
    found = intend(paths, tmp_path / "out.zarr", along="time", chunks=(12, 5, 2))
    assert found.members["tas"].spec.shape == (12, 5, 6)
    assert found.members["tas"].plan.passes[0].read_bytes == 12 * 5 * 6 * 4
    assert not os.path.exists(tmp_path / "out.zarr")


def test_small_arrays_get_long_chunks(tmp_path, rng):
    move(split(tmp_path, whole(rng, 9), [1] * 9), tmp_path / "out.zarr", along="time")
    assert opened(tmp_path / "out.zarr")["time"].encoding["chunks"] == (9,)


@pytest.mark.parametrize("output", ["out.zarr", "out.h5"])
def test_few_files_are_open(tmp_path, output):
    given = np.arange(800.0).reshape(400, 2)
    for k, row in enumerate(given):
        with h5py.File(tmp_path / f"{k:03}.h5", "w") as file:
            file["u"] = row[None]
            file["u"].dims[0].label = "time"
            file["u"].dims[1].label = "x"
    program = (
        "import resource, sys\n"
        "from datamover.files import move\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "move(sys.argv[1], sys.argv[2], along='time', chunks=(400, 1))\n"
    )
    out = tmp_path / output
    words = [sys.executable, "-c", program, str(tmp_path / "[0-9]*.h5"), str(out)]
    subprocess.run(words, check=True, timeout=90)
    found = h5py.File(out) if output == "out.h5" else zarr.open_group(out, mode="r")
    np.testing.assert_array_equal(found["u"][...], given)


def test_times_of_other_units_are_converted(tmp_path, rng):
    given = whole(rng, 9)
    units = ["days since 2000-01-01", "hours since 2000-02-01", "days since 1999-12-31T06:00:00"]
    given["time_bnds"][0, 0] = np.datetime64("NaT", "ns")
    paths = []
    for k, unit in enumerate(units):
        paths.append(str(tmp_path / f"{k}.nc"))
        part = given.isel(time=slice(3 * k, 3 * k + 3))
        write(paths[-1], part, {"units": unit, "dtype": "f8", "_FillValue": None})
    move(paths, tmp_path / "out.zarr", along="time")
    found = opened(tmp_path / "out.zarr")
    xarray.testing.assert_equal(found, given)
    assert found["time"].encoding["units"] == units[0]


MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
LEAP = [31, 29, *MONTHS[2:]]
LENGTHS = {
    "standard": lambda year: LEAP if (year % 4 == 0 and year % 100) or year % 400 == 0 else MONTHS,
    "365_day": lambda year: MONTHS,
    "all_leap": lambda year: LEAP,
    "360_day": lambda year: [30] * 12,
}
SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
CLOCKS = {"": 0, " 06:30:00": 23400, "T12:00": 43200, " 00:00:00 UTC": 0}


@pytest.mark.parametrize("calendar", LENGTHS)
def test_conversion_of_times(rng, calendar):
    dates = [
        (year, month, day)
        for year in range(1600, 2301)
        for month, length in enumerate(LENGTHS[calendar](year), 1)
        for day in range(1, length + 1)
    ]
    for _ in range(100):
        times = rng.integers(-1000, 1000, 5)
        units, origins, seconds = [], [], []
        for _ in range(2):
            at, unit, clock = (rng.choice(x) for x in (len(dates), [*SECONDS], [*CLOCKS]))
            year, month, day = dates[at]
            units.append(f"{unit} since {year:04}-{month:02}-{day:02}{clock}")
            origins.append(int(at) * 86400 + CLOCKS[clock])
            seconds.append(SECONDS[unit])
        total = times * seconds[0] + origins[0] - origins[1]
        convert = cf_time.conversion(*units, calendar)
        if (total % seconds[1] == 0).all():
            np.testing.assert_array_equal(convert(times), total // seconds[1])
        else:
            with pytest.raises(ValueError, match=r"^-?[0-9]+$"):
                convert(times)
        floats = convert((times * 64).astype("f8") / 64) if seconds[1] == 1 else None
        assert floats is None or (floats == total).all()


@pytest.mark.parametrize(
    "units",
    [
        "months since 2000-01-01", "days since 1500-01-01", "days since 2000-02-30",
        "days since 2000-01-01 +05:00", "days since noon", "fortnights since 2000-01-01",
        "days since 1-1-1900", "hours since 2000-01-01 100",
    ],
)  # fmt: skip
def test_units_without_an_exact_conversion(units):
    assert cf_time.conversion(units, "days since 2000-01-01", "standard") is None


def test_missing_times_stay():
    convert = cf_time.conversion("days since 2000-01-02", "days since 2000-01-01", "standard")
    convert = dataclasses.replace(convert, missing=-9)
    assert convert(np.array([-9, 1])).tolist() == [-9, 2]
    assert np.isnan(convert(np.array([np.nan]))).all()


def edit(path, change):
    with h5py.File(path, "r+") as file:
        change(file)


def drop_variable(file):
    del file["orog"]


def add_variable(file):
    file["more"] = 1


def other_dtype(file):
    values = file["orog"][()]
    del file["orog"]
    file["orog"] = values.astype("f4")
    for axis, name in enumerate(("lat", "lon")):
        file["orog"].dims[axis].attach_scale(file[name])


def reversed_latitude(file):
    file["lat"][...] = file["lat"][()][::-1]


def other_dimensions(file):
    file["orog"].dims[0].detach_scale(file["lat"])
    file["orog"].dims[0].attach_scale(file["lon"])


def other_field(file):
    file["orog"][0, 0] += 1


def other_scale(file):
    file["tas"].attrs["scale_factor"] = 2.0


def other_fill(file):
    file["tas"].attrs["_FillValue"] = np.float32(7)


def other_calendar(file):
    file["time"].attrs["calendar"] = "noleap"


def other_units(file):
    file["tas"].attrs["units"] = "degC"


def inexact_units(file):
    file["time"].attrs["units"] = "hours since 2000-01-01 06:00"


def before(file):
    file["time"][...] -= 20


def overlapping(file):
    file["time"][...] -= 1


def not_ascending(file):
    file["time"][-1] = file["time"][0]


def no_records(file):
    for name in ("time", "time_bnds", "tas"):
        file[name].resize(0, axis=0)


WRONG = {
    drop_variable: "1.nc has no 'orog', which .*0.nc has",
    add_variable: "0.nc has no 'more', which .*1.nc has",
    other_dtype: "1.nc:/orog has dtype float32, float64 in .*0.nc",
    reversed_latitude: "1.nc:/lat has other elements than in .*0.nc, in reverse order",
    other_dimensions: "1.nc:/orog has dimensions .*'lon', 'lon'.*, .*'lat', 'lon'.* in",
    other_field: "1.nc:/orog has other elements than in .*0.nc",
    other_scale: "1.nc:/tas has scale_factor 2.0, None in",
    other_fill: "1.nc:/tas has _FillValue 7.0, None in",
    other_calendar: "1.nc:/time.* has calendar noleap, proleptic_gregorian in",
    other_units: "1.nc:/tas has units 'degC', 'K' in",
    inexact_units: "1.nc:/time: [0-9]+ has no exact value in the units of",
    before: "1.nc begins at time=[0-9]+, and .*0.nc, before it, ends at [0-9]+: the files overlap",
    overlapping: "overlap, or are in the wrong order",
    not_ascending: "1.nc:/time is neither ascending nor descending",
    no_records: "1.nc has no records along 'time'",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path, rng, wrong):
    paths = split(tmp_path, whole(rng, 9), [3, 3, 3])
    edit(paths[1], wrong)
    with pytest.raises(dm.errors.Error, match=WRONG[wrong]) as raised:
        move(str(tmp_path / "*.nc"), tmp_path / "out.zarr", along="time")
    assert "\n" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == list(map(os.path.basename, paths))


def break_chunk(path):
    with h5py.File(path) as file:
        at = file["tas"].id.get_chunk_info(1).byte_offset
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(20))


@pytest.mark.parametrize("nprocs", [1, 2])
def test_a_file_that_cannot_be_read_leaves_no_output(tmp_path, rng, nprocs):
    stored = {"chunksizes": (1, 5, 6), "compression": "gzip"}
    paths = split(tmp_path, whole(rng, 9), [3, 3, 3], **stored)
    if nprocs == 1:
        os.truncate(paths[2], os.path.getsize(paths[2]) - 100)
    else:  # found when it is read
        break_chunk(paths[2])
    command = [sys.executable, "-m", "datamover", "move", str(tmp_path / "*.nc")]
    words = [tmp_path / "out.zarr", "--along", "time", "-n", str(nprocs)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and paths[2] in done.stderr
    assert sorted(os.listdir(tmp_path)) == list(map(os.path.basename, paths))


def test_a_kept_error_keeps_no_file_open(tmp_path, rng):
    stored = {"chunksizes": (1, 5, 6), "compression": "gzip"}
    paths = split(tmp_path, whole(rng, 9), [3, 3, 3], **stored)
    break_chunk(paths[1])
    with pytest.raises(dm.errors.IoFailed) as kept:
        move(paths, tmp_path / "b.zarr", along="time")
    for path in paths:
        h5py.File(path, "r+").close()
    assert kept.value.__traceback__ is not None


def test_a_gap_is_logged(tmp_path, rng, caplog):
    given = whole(rng, 9)
    paths = split(tmp_path, given, [3, 3, 3])
    move([paths[0], paths[2]], tmp_path / "out.zarr", along="time")
    (said,) = [m for m in caplog.messages if "there is a gap" in m]
    assert paths[0] in said and paths[2] in said
    kept = given.isel(time=[0, 1, 2, 6, 7, 8])
    xarray.testing.assert_equal(opened(tmp_path / "out.zarr"), kept)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"source": "none_*.nc"}, "no file matches none_"),
        ({"source": []}, "there are no input files"),
        ({"along": "level"}, "has a dimension 'level'; there are lat, lon, time, two"),
        ({"along": ""}, "must be the name of a dimension"),
        ({"output": "out.npy"}, "writes a Zarr group or an HDF5 file; .*out.npy is neither"),
        ({"output": ""}, "is inside the output"),
        ({"region": ((0, 1),)}, "region= is for one array"),
        ({"source": 2}, "named twice"),
        ({"source": "old.nc"}, "nccopy -k nc4"),
    ],
)
def test_what_is_refused(tmp_path, rng, monkeypatch, said, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.nc").write_bytes(b"CDF\x01" + bytes(40))
    (path,) = split(tmp_path, whole(rng, 2), [2])
    said = {"source": [path], "output": "out.zarr", "along": "time", **said}
    source = [path] * 2 if said["source"] == 2 else said.pop("source")
    said.pop("source", None)
    output = said.pop("output") or tmp_path
    if output == tmp_path:
        said["output_format"] = "zarr"
    with pytest.raises(dm.errors.Error, match=words):
        move(source, output, **said)


@pytest.mark.parametrize(
    ("nprocs", "chunks"),
    [(1, (1, 5, 6)), (1, (4, 2, 3)), (1, (7, 5, 6)), (1, (40, 5, 6)), (2, (4, 2, 3))],
)
def test_append(tmp_path, rng, chunks, nprocs):
    given = whole(rng, 23)
    stored = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -999}
    paths = split(tmp_path, given, [9, 5, 2, 7], **stored)
    out = tmp_path / "out.zarr"
    move(paths[:2], out, along="time", chunks=chunks)
    zarr.consolidate_metadata(out)
    (out / "README").write_text("kept")
    if nprocs == 1:
        move(paths[2:3], out, along="time", append=True, check="crc32c")
        move(paths[3:], out, along="time", append=True)
    else:
        os.rename(paths[2], tmp_path / "more_2.nc")
        os.rename(paths[3], tmp_path / "more_3.nc")
        command = [sys.executable, "-m", "datamover", "move", str(tmp_path / "more_*.nc"), out]
        words = ["--along", "time", "--append", "-n", "2"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=90)
        assert (done.returncode, done.stderr) == (0, "")
        paths[2:] = [tmp_path / "more_2.nc", tmp_path / "more_3.nc"]
    expected = joined_by_xarray(paths)
    for consolidated in (False, True):
        found = xarray.open_zarr(out, consolidated=consolidated, chunks=None).load()
        xarray.testing.assert_identical(found, expected)
    assert found["tas"].encoding["chunks"] == chunks
    assert (out / "README").read_text() == "kept"
    assert [n for n in os.listdir(tmp_path) if n.startswith(".")] == []


@pytest.mark.parametrize("by", ["bounds", "climatology"])
def test_bounds_have_the_calendar_of_their_coordinate(tmp_path, by):
    for k, begin in enumerate((2000, 2001)):
        with h5py.File(tmp_path / f"{k}.nc", "w") as file:
            file["time"] = np.arange(2)
            file["time"].make_scale("time")
            file["time"].attrs.update(units=f"days since {begin}-01-01", calendar="noleap")
            file["time"].attrs[by] = "time_bnds"
            file["time_bnds"] = np.array([[0, 1], [1, 2]])
            file["time_bnds"].dims[0].attach_scale(file["time"])
            file["time_bnds"].attrs["units"] = f"days since {begin}-01-01"
    move(str(tmp_path / "*.nc"), tmp_path / "out.zarr", along="time")
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert group["time"][...].tolist() == [0, 1, 365, 366]
    assert group["time_bnds"][...].tolist() == [[0, 1], [1, 2], [365, 366], [366, 367]]


def records(path, times, **attributes):
    """Write a file with a coordinate of these times and a variable."""
    with h5py.File(path, "w") as file:
        file["time"] = times
        file["time"].make_scale("time")
        file["u"] = np.asarray(times, "f8")
        file["u"].dims[0].attach_scale(file["time"])
        file["u"].attrs.update(attributes)
    return str(path)


def test_the_same_unsigned_times_are_not_appended_twice(tmp_path):
    path = records(tmp_path / "a.nc", np.arange(4, dtype="u4"))
    move([path], tmp_path / "out.zarr", along="time")
    with pytest.raises(dm.Mismatch, match="overlap"):
        move([path], tmp_path / "out.zarr", along="time", append=True)


def test_append_to_attributes_that_files_and_zarr_write_differently(tmp_path):
    said = {"missing_value": np.nan, "scale_factor": np.array([0.5])}
    paths = [records(tmp_path / f"{k}.h5", np.arange(2) + 2 * k, **said) for k in range(2)]
    move(paths[:1], tmp_path / "out.zarr", along="time")
    move(paths[1:], tmp_path / "out.zarr", along="time", append=True)
    assert zarr.open_group(tmp_path / "out.zarr")["u"][...].tolist() == [0, 1, 2, 3]


def test_a_variable_with_the_dimension_twice_is_refused(tmp_path):
    path = records(tmp_path / "a.nc", np.arange(2))
    with h5py.File(path, "r+") as file:
        file["cov"] = np.zeros((2, 2))
        for d in range(2):
            file["cov"].dims[d].attach_scale(file["time"])
    with pytest.raises(dm.errors.Unsupported, match="cov has the dimension 'time' 2 times"):
        move([path], tmp_path / "out.zarr", along="time")


def enumerated(path, first, **names):
    """Write a file of two records with names for numbers."""
    with h5py.File(records(path, np.arange(2) + first), "r+") as file:
        file.create_dataset("flag", data=[0, 1], dtype=h5py.enum_dtype(names, "i1"))
        file["flag"].dims[0].attach_scale(file["time"])
    return str(path)


def with_lists(path, first, change):
    """Write a file of two records with a long list whose middle differs."""
    with h5py.File(records(path, np.arange(2) + first), "r+") as file:
        values = np.arange(3000)
        values[1500] += change
        file.create_dataset("lists", (1,), h5py.vlen_dtype("i8"))[0] = values
    return str(path)


@pytest.mark.parametrize("output", ["out.zarr", "out.h5"])
def test_other_names_of_numbers_are_refused(tmp_path, output):
    paths = [enumerated(tmp_path / "a.h5", 0, no=0, yes=1)]
    paths += [enumerated(tmp_path / "b.h5", 2, no=0, yes=1)]
    move(paths, tmp_path / output, along="time")
    other = enumerated(tmp_path / "c.h5", 2, no=1, yes=0)
    with pytest.raises(dm.Mismatch, match=r"c.h5:/flag has another HDF5 type than in .*a.h5"):
        move([paths[0], other], tmp_path / f"not_{output}", along="time")
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5", "c.h5", output]


def test_lists_are_compared_in_full(tmp_path):
    paths = [with_lists(tmp_path / f"{k}.h5", 2 * k, k // 2) for k in range(3)]
    move(paths[:2], tmp_path / "out.h5", along="time")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["lists"][0].tolist() == list(range(3000))
    with pytest.raises(dm.Mismatch, match=r"2.h5:/lists has other elements than in .*1.h5"):
        move(paths[1:], tmp_path / "other.h5", along="time")


def test_times_that_would_become_missing_are_refused(tmp_path):
    said = {"days": [1, 2], "hours": [60, 72]}
    paths = [records(tmp_path / f"{unit}.nc", values) for unit, values in said.items()]
    for unit, path in zip(said, paths, strict=True):
        with h5py.File(path, "r+") as file:
            file["time"].attrs.update(units=f"{unit} since 2000-01-01", _FillValue=3)
    with pytest.raises(dm.Mismatch, match=r"hours.nc:/time: [0-9]+ has no exact value"):
        move(paths, tmp_path / "out.zarr", along="time")
    edit(paths[1], lambda file: file["time"].write_direct(np.array([96, 3])))
    with pytest.raises(dm.Mismatch, match=r"hours.nc:/time is neither ascending"):
        move(paths, tmp_path / "out.zarr", along="time")


@pytest.mark.parametrize("is_time", [True, False])
def test_single_records_in_reverse_order(tmp_path, is_time):
    paths = [records(tmp_path / f"{k}.nc", np.array([9 - k])) for k in range(3)]
    for path in paths if is_time else ():
        edit(path, lambda file: file["time"].attrs.update(units="days since 2000-01-01"))
    if is_time:
        with pytest.raises(dm.Mismatch, match=r"1.nc begins at time=8, and .*0.nc, before"):
            move(paths, tmp_path / "out.zarr", along="time")
        assert not (tmp_path / "out.zarr").exists()
    else:  # such as levels
        move(paths, tmp_path / "out.zarr", along="time")
        assert zarr.open_group(tmp_path / "out.zarr")["time"][...].tolist() == [9, 8, 7]


def test_coordinates_in_groups_are_checked(tmp_path):
    paths = [str(tmp_path / f"{k}.h5") for k in range(2)]
    for path in paths:
        with h5py.File(records(path, np.arange(2)), "r+") as file:
            group = file.create_group("run")
            for name in ("time", "u"):
                file.move(name, f"run/{name}")
            assert group["u"].shape == (2,)
    with pytest.raises(dm.Mismatch, match=r"1.h5 begins at run/time=0, and .*0.h5, before"):
        move(paths, tmp_path / "out.zarr", along="time")


@pytest.mark.parametrize("output", ["out.zarr", "out.h5"])
def test_what_is_not_yet_written_in_the_first_file(tmp_path, output):
    for k, name in enumerate(("a.h5", "b.h5")):
        with h5py.File(tmp_path / name, "w") as file:
            for array, width in (("u", 3), ("none", 0)):
                file.create_dataset(array, (2, width), "f4")
                file[array].dims[0].label, file[array].dims[1].label = "time", array
            if k:
                file["u"][...] = 1
    move([tmp_path / "a.h5", tmp_path / "b.h5"], tmp_path / output, along="time")
    out = tmp_path / output
    found = h5py.File(out) if output == "out.h5" else zarr.open_group(out, mode="r")
    assert found["u"][...].tolist() == [[0] * 3] * 2 + [[1] * 3] * 2
    assert found["none"].shape == (4, 0)


def broken_chunk(path):
    for place in (path / "tas" / "c").rglob("*"):
        if place.is_file():
            os.truncate(place, 5)


def broken_metadata(path):
    (path / "tas" / "zarr.json").write_text("{")


def missing_array(path):
    shutil.rmtree(path / "tas")


def other_fill_value(path):
    zarr.open_array(path / "tas").attrs["_FillValue"] = "AAAAAAAA8L8="


WRONG_GROUPS = {
    broken_chunk: "1.zarr/tas cannot be read",
    broken_metadata: "1.zarr/tas has metadata that cannot be read",
    missing_array: "1.zarr has no 'tas', which .*0.zarr has",
    other_fill_value: "1.zarr/tas has _FillValue -1.0, nan in .*0.zarr",
}


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("wrong", WRONG_GROUPS, ids=lambda wrong: wrong.__name__)
def test_groups_that_do_not_fit_are_refused(tmp_path, rng, wrong, append):
    given = whole(rng, 6)
    for k in range(2):
        part = given.isel(time=slice(3 * k, 3 * k + 3))
        part.to_zarr(tmp_path / f"{k}.zarr", consolidated=False)
    wrong(tmp_path / "1.zarr")
    before = content(tmp_path)
    paths = [tmp_path / f"{k}.zarr" for k in range(2)]
    inputs, out = (paths[1:], paths[0]) if append else (paths, tmp_path / "out.zarr")
    with pytest.raises(dm.Error, match=WRONG_GROUPS[wrong]) as raised:
        move(inputs, out, along="time", append=append)
    assert "\n" not in str(raised.value)
    assert content(tmp_path) == before


def test_a_group_is_appended_to_that_of_another_program(tmp_path, rng):
    given = whole(rng, 9)
    places = [tmp_path / f"{k}.zarr" for k in range(3)]
    for k, place in enumerate(places):
        units = {"units": "days since 2000-01-01" if k != 1 else "hours since 2000-01-02"}
        part = given.isel(time=slice(3 * k, 3 * k + 3))
        part.to_zarr(place, encoding={"time": units}, consolidated=False)
    move(places[1:], places[0], along="time", append=True)
    xarray.testing.assert_identical(opened(places[0]), given)


def test_several_files_need_along(tmp_path):
    with pytest.raises(dm.errors.WrongType, match="several files need along="):
        move(["a.nc", "b.nc"], tmp_path / "out.zarr")


def other_codecs(out):
    """Chunks that the array made anew would not be able to read."""
    group = zarr.open_group(out, use_consolidated=False)
    values = group["u"][...]
    shards = zarr.codecs.ShardingCodec(chunk_shape=(2,), index_location="start")
    group.create_array(
        "u", shape=values.shape, dtype=values.dtype, chunks=(4,), serializer=shards,
        compressors=None, dimension_names=["time"], overwrite=True,
    )[...] = values  # fmt: skip


def meanwhile_longer(out):
    for name in ("u", "time"):
        array = zarr.open_group(out)[name]
        array.resize((array.shape[0] + 1,))


def meanwhile_another(out):
    os.rename(out, f"{out}.old")
    shutil.copytree(f"{out}.old", out)


@pytest.mark.parametrize("change", [other_codecs, meanwhile_longer, meanwhile_another])
def test_an_append_to_what_it_could_not_keep_is_refused(tmp_path, monkeypatch, change):
    paths = [records(tmp_path / f"{k}.nc", np.arange(4) + 4 * k) for k in range(2)]
    out = tmp_path / "out.zarr"
    move(paths[:1], out, along="time")
    if change is other_codecs:
        change(out)
    else:
        completed = AppendToZarr.complete
        monkeypatch.setattr(
            AppendToZarr, "complete", lambda way, place: (change(out), completed(way, place))
        )
    with pytest.raises(dm.Error, match=r"new chunks cannot get|was replaced or has grown"):
        move(paths[1:], out, along="time", append=True)
    kept = zarr.open_group(out, use_consolidated=False)
    assert kept["u"][:4].tolist() == [0, 1, 2, 3]


def content(place):
    """The bytes of all files in a directory, by name."""
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (overlapping, "1.nc begins at time=.* and .*out.zarr, before it, ends at"),
        (other_field, "1.nc:/orog has other elements than in .*out.zarr"),
        (reversed_latitude, "other elements than in .*out.zarr, in reverse order"),
        (drop_variable, "1.nc has no 'orog', which .*out.zarr has"),
        (other_fill, "1.nc:/tas has _FillValue 7.0, None in .*out.zarr"),
    ],
)
def test_an_append_that_fails_leaves_the_group_as_it_was(tmp_path, rng, wrong, words):
    paths = split(tmp_path, whole(rng, 6), [3, 3])
    out = tmp_path / "out.zarr"
    move(paths[:1], out, along="time", chunks=(2, 5, 6))
    before = content(out)
    edit(paths[1], wrong)
    with pytest.raises(dm.errors.Error, match=words):
        move(paths[1:], out, along="time", append=True)
    assert content(out) == before
    assert sorted(os.listdir(tmp_path)) == ["out.zarr", *map(os.path.basename, paths)]


def test_an_append_that_cannot_read_leaves_the_group_as_it_was(tmp_path, rng):
    paths = split(tmp_path, whole(rng, 6), [3, 3], chunksizes=(1, 5, 6), compression="gzip")
    out = tmp_path / "out.zarr"
    move(paths[:1], out, along="time", chunks=(2, 5, 6))
    before = content(out)
    break_chunk(paths[1])
    with pytest.raises(dm.errors.IoFailed, match="tas cannot be read"):
        move(paths[1:], out, along="time", append=True)
    assert content(out) == before


def test_an_append_that_is_killed_leaves_the_group_as_it_was(tmp_path, rng):
    given = whole(rng, 6)
    paths = split(tmp_path, given, [3, 3])
    out = tmp_path / "out.zarr"
    move(paths[:1], out, along="time", chunks=(2, 5, 6))
    before = content(out)
    program = (
        "import os, signal, sys\n"
        "from datamover.files import move\n"
        "os.link = lambda *names, **said: os.kill(os.getpid(), signal.SIGKILL)\n"
        "move(sys.argv[1], sys.argv[2], along='time', append=True)\n"
    )
    words = [sys.executable, "-c", program, paths[1], str(out)]
    assert subprocess.run(words, timeout=90, check=False).returncode == -signal.SIGKILL
    assert content(out) == before
    assert len([n for n in os.listdir(tmp_path) if n.startswith(".out.zarr.")]) == 1
    move(paths[1:], out, along="time", append=True)
    xarray.testing.assert_equal(opened(out), given)
    assert sorted(os.listdir(tmp_path)) == ["out.zarr", *map(os.path.basename, paths)]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"output": "none.zarr"}, "nothing to append to"),
        ({"chunks": (1, 1, 1)}, "chunks=: arrays to which records are appended keep theirs"),
        ({"overwrite": True}, "omit overwrite=True"),
        ({"along": None}, "needs along="),
    ],
)
def test_appends_that_are_refused(tmp_path, rng, said, words):
    paths = split(tmp_path, whole(rng, 4), [2, 2])
    move(paths[:1], tmp_path / "out.zarr", along="time")
    said = {"output": "out.zarr", "along": "time", **said}
    with pytest.raises(dm.errors.Error, match=words):
        move(paths[1], tmp_path / said.pop("output"), append=True, **said)


def test_a_pattern_without_along_is_refused_with_a_hint(tmp_path, rng):
    split(tmp_path, whole(rng, 4), [2, 2])
    with pytest.raises(dm.errors.IoFailed, match=r"to join the files .* pass along="):
        move(tmp_path / "*.*", tmp_path / "out.zarr")
    with pytest.raises(dm.errors.IoFailed, match=r"there is no input [^;]*$"):
        move(tmp_path / "none_*.nc", tmp_path / "out.zarr")


def with_odd_types(path, k, text):
    """A file with elements besides the joined ones that are text in records, or not NumPy's."""
    records(path, np.arange(2) + 2 * k)
    kind = np.dtype([("name", h5py.string_dtype()), ("id", "i4")])
    with h5py.File(path, "a") as file:
        file.create_dataset("table", data=np.array([(text, 1)], kind))
        space, stamp = h5py.h5s.create_simple((3,)), h5py.h5t.UNIX_D32LE.copy()
        low = h5py.h5d.create(file.id, b"stamp", stamp, space)
        low.write(space, space, np.frombuffer(b"abcdefghijkl", "V4").copy(), stamp)
    return str(path)


def test_types_that_are_not_numpys_are_compared(tmp_path):
    paths = [with_odd_types(tmp_path / f"{k}.h5", k, "x" * 40) for k in range(2)]
    move(paths, tmp_path / "c.h5", along="time")
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["table"][0]["name"] == b"x" * 40 and file["u"].shape == (4,)
    paths[1] = with_odd_types(tmp_path / "other.h5", 1, "y" * 40)
    with pytest.raises(dm.Mismatch, match="table"):
        move(paths, tmp_path / "d.h5", along="time")
    paths[1] = with_odd_types(tmp_path / "third.h5", 1, "x" * 40)
    with h5py.File(paths[1], "a") as file:
        low, space = file["stamp"].id, h5py.h5s.create_simple((3,))
        low.write(space, space, np.frombuffer(b"abcdefghijkm", "V4").copy(), low.get_type())
    with pytest.raises(dm.Mismatch, match="stamp"):
        move(paths, tmp_path / "d.h5", along="time")
    assert not (tmp_path / "d.h5").exists()


def test_an_output_inside_an_input_is_refused(tmp_path):
    paths = [records(tmp_path / f"{k}.nc", np.arange(2) + 2 * k) for k in range(2)]
    for k in range(2):
        move(paths[k], tmp_path / f"{k}.zarr")
    inputs = [tmp_path / f"{k}.zarr" for k in range(2)]
    with pytest.raises(dm.errors.InvalidArgument, match="is inside"):
        move(inputs, tmp_path / "1.zarr/all.zarr", along="time")
