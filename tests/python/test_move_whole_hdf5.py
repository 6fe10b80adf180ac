# SPDX-License-Identifier: BSD-3-Clause
"""Moves of whole HDF5 files: h5py and xarray find all contents of the input in the output."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import zarr
from hdf5_samples import attributes_as_in_file, give_attributes

import datamover as dm
from datamover import move_command
from datamover.errors import IoFailed
from datamover.files import hdf5, intend, move, move_job, strings, whole_hdf5

#: Attributes that hold addresses in the file.
REFERRING = {b"DIMENSION_LIST", b"REFERENCE_LIST"}


def make(path):
    """Make a file of all that a file may hold."""
    rng = np.random.default_rng(4)
    with h5py.File(path, "w", track_order=True) as file:
        give_attributes(file)
        deep = file.create_group("z/deep", track_order=True)
        give_attributes(file["z"])
        for k in range(20):  # so many that HDF5 keeps them in another way
            deep.create_dataset(f"v{k}", data=np.arange(k))
        deep["u"] = rng.normal(size=(30, 40))
        give_attributes(deep["u"])
        deep.create_dataset(
            "packed", data=rng.integers(0, 9, (33, 21)).astype(">i2"), chunks=(7, 8), shuffle=True,
            compression="gzip", maxshape=(None, 21), fillvalue=-3,
        )  # fmt: skip
        deep.create_dataset("a/chunked", data=np.arange(50, dtype="u1"), chunks=(9,))
        deep.create_dataset("lzf", data=np.arange(50.0), chunks=(20,), compression="lzf")
        deep.create_dataset("unwritten", (9, 9), "i4", chunks=(4, 4), fillvalue=7)
        file["step"], file["none"] = np.float32(2.5), np.zeros((0, 3), "f4")
        file.create_dataset("records", (0, 2), "i2", chunks=(16, 2), maxshape=(None, 2))
        for compressor in (None, "gzip"):
            file.create_dataset(
                f"few {compressor}", data=np.ones((1, 2)), chunks=(512, 2), maxshape=(None, 9),
                compression=compressor,
            )  # fmt: skip
        file["text"], file["bytes"] = "ä text", np.array([b"ab", b"c"])
        file.create_dataset("texts", data=["a", "äb", ""], dtype=h5py.string_dtype(), chunks=(2,))
        file["null"] = h5py.Empty("f4")
        lists = file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        lists[0], lists[1] = [1, 2, 3], [4]
        give_attributes(lists)
        file["flags"] = np.array([True, False])
        file["record"] = np.ones(3, [("a", "i4"), ("b", "f8", (2,))])
        file["kind"] = np.dtype("i4")
        file["b"], file["again"], file["z/deep/loop"] = deep["u"], file["z"], file["/"]
        file["of kind"], file["soft"] = file["kind"], h5py.SoftLink("/z/deep/u")
        file["nowhere"], file["other"] = h5py.SoftLink("none"), h5py.ExternalLink("o.h5", "/v")


def check_same(old, new, seen):
    """Compare what is open, and what is in it."""
    seen[h5py.h5o.get_info(old.id).addr] = h5py.h5o.get_info(new.id).addr
    expected, found = attributes_as_in_file(old), attributes_as_in_file(new)
    assert list(found) == list(expected)
    assert all(found[n] == expected[n] for n in expected if n not in REFERRING)
    if isinstance(old, h5py.Group):
        assert list(new) == list(old)
        for name in old:
            links = [held.get(name, getlink=True) for held in (old, new)]
            assert [vars(links[0])] == [vars(links[1])] and type(links[0]) is type(links[1])
            if not isinstance(links[0], h5py.HardLink):
                continue
            addresses = [h5py.h5o.get_info(held[name].id).addr for held in (old, new)]
            if addresses[0] in seen:
                assert seen[addresses[0]] == addresses[1]  # links to one thing are so again
            else:
                check_same(old[name], new[name], seen)
    elif isinstance(old, h5py.Dataset):
        check_same_dataset(old, new)
    else:
        assert old.dtype == new.dtype


def check_same_dataset(old, new):
    assert (new.shape, new.dtype, new.chunks) == (old.shape, old.dtype, old.chunks)
    assert new.maxshape == old.maxshape
    gzip = "gzip" if old.compression and old.size else old.compression
    assert new.compression == gzip
    if old.shape is not None:
        if old.dtype.hasobject:
            assert repr(new[()]) == repr(old[()])
        else:
            np.testing.assert_array_equal(new[()], old[()])
            assert np.asarray(old.fillvalue).tobytes() == np.asarray(new.fillvalue).tobytes()
    assert old.is_scale == new.is_scale
    for before, after in zip(old.dims, new.dims, strict=True) if old.shape else ():
        assert after.label == before.label
        assert [s.name for s in after.values()] == [s.name for s in before.values()]


def check_same_files(old, new):
    with h5py.File(old) as before, h5py.File(new) as after:
        check_same(before["/"], after["/"], {})


def test_all_that_a_file_holds(tmp_path, caplog):
    make(tmp_path / "a.h5")
    report = move(tmp_path / "a.h5", tmp_path / "b.h5", check="crc32c")
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")
    assert caplog.records == []
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
    with h5py.File(tmp_path / "b.h5") as file:
        assert report.num_arrays == 37 and file["z/deep/u"].id.get_offset()
    with pytest.raises(dm.errors.IoFailed, match="overwrite=True"):
        move(tmp_path / "a.h5", tmp_path / "b.h5")
    with pytest.raises(dm.errors.IoFailed, match="overwrite_group=True"):
        move(tmp_path / "a.h5", tmp_path / "b.h5", overwrite=True)
    move(tmp_path / "b.h5", tmp_path / "c.h5")
    move(tmp_path / "c.h5", tmp_path / "b.h5", overwrite_group=True)
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")


def test_several_processes_write_one_file(tmp_path):
    make(tmp_path / "a.h5")
    command = [sys.executable, "-m", "datamover", "move", "-n", "3", "--check", "crc32c"]
    command += [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")


def test_many_and_large_attributes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file["g/u"] = np.arange(3.0)
        for held in (file, file["g"], file["g/u"]):
            held.attrs["large"] = np.zeros(20_000)
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")


def test_attributes_of_named_datatypes(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file["u"], file["kind"] = np.arange(3.0), np.dtype("i4")
        file["kind"].attrs["large"] = np.zeros(20_000)
        file["kind"].attrs["refers"] = file["u"].ref
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    assert "its attribute refers is left out" in caplog.text
    with h5py.File(tmp_path / "b.h5") as file:
        assert {n: np.shape(v) for n, v in file["kind"].attrs.items()} == {"large": (20_000,)}


@pytest.mark.parametrize("nprocs", [1, 2])
def test_what_was_never_written_takes_no_space(tmp_path, nprocs):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        for name, said in {"chunked": {"chunks": (10, 100)}, "contiguous": {}}.items():
            file.create_dataset(name, (1000, 1000), "f4", fillvalue=2.5, **said)
        file.create_dataset("packed", (999, 999), "f8", chunks=(100, 100), compression="gzip")
        file["packed"][500, 500] = 1
        for chunks in (None, (999,)):
            said = {"fillvalue": "none", "chunks": chunks}
            file.create_dataset(f"texts {chunks}", (100_000,), h5py.string_dtype(), **said)
    command = [sys.executable, "-m", "datamover", "move", "-n", str(nprocs), "--check", "crc32c"]
    command += [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")
    assert os.path.getsize(tmp_path / "b.h5") < 40_000
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "uv":
            file.create_dataset(name, (1000, 1000), "f4")
    move(tmp_path / "a.h5", tmp_path / "c.h5")
    check_same_files(tmp_path / "a.h5", tmp_path / "c.h5")


def test_checksums_of_chunks_are_told(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("u", "v"):
            file.create_dataset(name, data=np.arange(9.0), chunks=(4,), fletcher32=name == "u")
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    said = f"{tmp_path}/a.h5:/u: the checksums of its chunks are left out"
    assert [record.getMessage() for record in caplog.records] == [said]
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")


def make_strings(path, count):
    """Make a file of strings and lists, as there may be; some have no elements of their own yet."""
    with h5py.File(path, "w") as file:
        file["u"] = np.arange(3.0)
        text = ["x" * (k % 300) for k in range(count)]
        file.create_dataset("s", data=text, dtype=h5py.string_dtype())
        said = {"chunks": (7, 3), "compression": "gzip", "maxshape": (None, 10)}
        wide = np.array(text, object).reshape(-1, 10)
        file.create_dataset("wide", data=wide, dtype=h5py.string_dtype("ascii"), **said)
        file.create_dataset("none", (5,), h5py.string_dtype())
        file.create_dataset("no utf-8", data=[b"\xff"], dtype=h5py.string_dtype())
        for name, values in {"even": [[1, 2], [3, 4]], "empty": [[], []], "one": [[5]]}.items():
            lists = file.create_dataset(name, (len(values),), h5py.vlen_dtype("i4"))
            for k, value in enumerate(values):
                lists[k] = np.array(value, "i4")
        swapped = file.create_dataset("swapped", (1,), h5py.vlen_dtype(np.dtype(">i4")))
        swapped[0] = np.array([1, 2], ">i4")
        file.create_dataset("scalar", (), h5py.vlen_dtype("i4"))[()] = np.array([6, 7], "i4")
        record = np.dtype([("a", "i4"), ("s", h5py.string_dtype())])
        file.create_dataset("record", (2,), record)[0] = (1, "text")
        for name in file:
            file[name].attrs["of"] = name


def test_strings_and_lists_come_over(tmp_path):
    make_strings(tmp_path / "a.h5", 500)
    move(tmp_path / "a.h5", tmp_path / "b.h5", check="crc32c")
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        for name in ("no utf-8", "even", "empty", "one", "swapped", "scalar", "record"):
            del file[name]
    move(tmp_path / "a.h5", tmp_path / "c.zarr", check="crc32c")
    assert zarr.open_array(tmp_path / "c.zarr/s", mode="r").chunks == (500,)
    move(tmp_path / "c.zarr", tmp_path / "d.h5", check="crc32c")
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "d.h5") as new:
        for name in ("s", "wide", "none"):
            assert np.array_equal(old[name].asstr()[()], new[name].asstr()[()])


def test_no_times_are_recorded(tmp_path):
    """The same input gives the same bytes."""
    make(tmp_path / "a.h5")
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    move(tmp_path / "a.h5", tmp_path / "c.zarr")
    move(tmp_path / "c.zarr", tmp_path / "d.h5")
    for name in ("b.h5", "d.h5"):
        with h5py.File(tmp_path / name) as file:
            made = [found for found in hdf5.tree(file).groups.values()]
            made += [found for found in hdf5.datasets(file).values() if found.size]
            infos = [h5py.h5o.get_info(found.id) for found in (file, *made)]
            assert {(i.atime, i.mtime, i.ctime, i.btime) for i in infos} == {(0, 0, 0, 0)}


def test_chunks_of_strings_stay(tmp_path):
    rng = np.random.default_rng(3)
    said = {
        "long": ((400,), (150,), 1000),
        "wide": ((40, 30), (40, 10), 500),
        "short": ((30_000,), None, 5),
    }
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3)
        for name, (shape, chunks, most) in said.items():
            lengths = rng.integers(0, most, shape)
            made = file.create_dataset(name, shape, h5py.string_dtype(), chunks=chunks)
            made[...] = np.frompyfunc(lambda n: "ä" * n, 1, 1)(lengths)
    move(tmp_path / "a.h5", tmp_path / "b.zarr", check="crc32c")
    move(tmp_path / "b.zarr", tmp_path / "c.zarr", check="crc32c")
    move(tmp_path / "c.zarr", tmp_path / "d.h5", check="crc32c")
    group = zarr.open_group(tmp_path / "c.zarr", mode="r")
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "d.h5") as new:
        for name, (_, chunks, _) in said.items():
            assert group[name].chunks == (chunks or (strings.MOST_AT_A_TIME,))
            assert np.array_equal(old[name].asstr()[()], new[name].asstr()[()])
            assert np.array_equal(old[name].asstr()[()], np.asarray(group[name][...], object))


def test_links_of_other_files_are_named_where_these_are_not_found_any_more(tmp_path, caplog):
    os.mkdir(tmp_path / "b")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["v"] = np.arange(3.0), h5py.ExternalLink("o.h5", "/v")
        file["w"] = h5py.ExternalLink("/o.h5", "/v")
        file["u"].attrs["points_to"] = file["u"].ref
    move(tmp_path / "a.h5", tmp_path / "b/b.h5")
    source = tmp_path / "a.h5"
    assert [record.getMessage() for record in caplog.records] == [
        f"{source}:/u: its attribute points_to is left out: it refers to what is in the file",
        f"{source}:/v is a link to the file o.h5, which is looked for next to the output now",
    ]


def test_scales_that_were_removed_and_dimensions_without_coordinates(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["u"], file["gone"] = np.arange(4.0), np.zeros((4, 3)), np.zeros(3)
        for name in ("x", "gone"):
            file[name].make_scale(name)
        file["only"] = np.zeros(3, ">f4")
        file["only"].make_scale("This is a netCDF dimension but not a netCDF variable.         3")
        for d, name in ((0, "x"), (1, "gone"), (1, "only")):
            file["u"].dims[d].attach_scale(file[name])
        file["u"].dims[1].label = "y"
        del file["gone"]
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        names = [[scale.name for scale in dim.values()] for dim in file["u"].dims]
        assert names == [["/x"], ["/only"]]
        assert file["only"].is_scale and file["u"].dims[1].label == "y"
        np.testing.assert_array_equal(file["x"], np.arange(4.0))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"region": ((0, 1),)}, "region= is for one array; name it"),
        ({"output_dtype": "f4"}, "output_dtype= is for one array"),
        ({"compressor": "zstd"}, "there are none, gzip"),
        ({"output_order": "F"}, "output_order"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, said, words):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
    with pytest.raises(dm.errors.InvalidArgument, match=words):
        move(tmp_path / "a.h5", tmp_path / "b.h5", **said)
    assert os.listdir(tmp_path) == ["a.h5"]


def test_what_would_mean_something_else_is_left_out(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        file["g/v"] = np.array([file["u"].ref], h5py.ref_dtype)
        file["w"] = file["g/v"]
        file["x"] = np.arange(3)
        file["g/v"].make_scale("of x")
        file["x"].dims[0].attach_scale(file["g/v"])
        file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i4"))[...] = [[1], [2, 3]]
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    assert f"{tmp_path}/a.h5:/g/v refers to what is in the file; it is left out" in caplog.messages
    with h5py.File(tmp_path / "b.h5") as file:
        assert sorted(file) == ["g", "lists", "u", "x"] and list(file["g"]) == []
        assert file["u"][...].tolist() == [0, 1, 2] and file["lists"][1].tolist() == [2, 3]
    caplog.clear()
    intend(tmp_path / "a.h5", tmp_path / "c.h5")
    assert f"{tmp_path}/a.h5:/g/v refers to what is in the file; it is left out" in caplog.messages
    caplog.clear()
    move(tmp_path / "a.h5", tmp_path / "b.zarr")
    for name in ("g/v", "w", "lists"):
        words = f"{tmp_path}/a.h5:/{name} has elements without a fixed size, lists or references"
        assert f"{words}; it is left out" in caplog.messages
    assert sorted(zarr.open_group(tmp_path / "b.zarr")) == ["g", "u", "x"]


def test_only_what_the_output_cannot_have(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.array([file.ref], h5py.ref_dtype)
    for output in ("b.h5", "b.zarr"):
        with pytest.raises(dm.errors.Unsupported, match=r":/v (refers to|has elements without)"):
            move(tmp_path / "a.h5", tmp_path / output)
    assert os.listdir(tmp_path) == ["a.h5"]


def test_what_would_mean_something_else_is_refused_before_anything_moves(tmp_path):
    for output in ("b.h5", "b.zarr"):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["u"] = np.arange(3.0)
            file.id.links.create_soft(b"\xff", b"/u")
        with pytest.raises(dm.errors.Unsupported, match="which is not UTF-8"):
            move(tmp_path / "a.h5", tmp_path / output)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["null"] = h5py.Empty("f4")
    with pytest.raises(dm.errors.InvalidArgument, match="has no datasets that Zarr has"):
        move(tmp_path / "a.h5", tmp_path / "b.zarr")
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("kinds", [["null"], ["text"], ["unwritten"], ["null", "text", "u"]])
@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
def test_datasets_without_a_shape_and_files_of_strings_alone(tmp_path, caplog, kinds, output):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if "null" in kinds:
            file["g/null"] = h5py.Empty("f4")
            file["g/null"].attrs["units"] = "m"
            file["again"] = file["g/null"]
        if "text" in kinds:
            file.create_dataset("text", data=["a", "ä"], dtype=h5py.string_dtype())
        if "unwritten" in kinds:
            file.create_dataset("unwritten", (3,), "f8")
        if "u" in kinds:
            file["u"] = np.arange(3.0)
    if (kinds, output) == (["null"], "b.zarr"):
        return  # there is nothing that Zarr has
    assert intend(tmp_path / "a.h5", tmp_path / output).members
    report = move(tmp_path / "a.h5", tmp_path / output, check="crc32c")
    is_left_out = "null" in kinds and output == "b.zarr"
    said = [record.getMessage() for record in caplog.records]
    assert all("left out: it is a dataset without a shape" in words for words in said)
    assert len(said) == 2 * is_left_out
    assert report.num_arrays == len(kinds) - is_left_out and str(report)
    if output == "b.h5":
        check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")
        return
    found = dict(zarr.open_group(tmp_path / "b.zarr", mode="r").arrays())
    assert found.keys() == {*kinds} - {"null"}
    if "text" in kinds:
        assert list(found["text"][...]) == ["a", "ä"]
        move(tmp_path / "b.zarr", tmp_path / "c.h5", check="crc32c")
        with h5py.File(tmp_path / "c.h5") as file:
            assert list(file["text"].asstr()) == ["a", "ä"]


def test_a_failure_leaves_nothing(tmp_path):
    make(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        info = file["z/deep/packed"].id.get_chunk_info(3)
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[info.byte_offset : info.byte_offset + info.size] = bytes(info.size)
    (tmp_path / "a.h5").write_bytes(content)
    (tmp_path / "b.h5").write_bytes(b"old")
    with pytest.raises(dm.errors.IoFailed, match="packed cannot be read in the chunk"):
        move(tmp_path / "a.h5", tmp_path / "b.h5", overwrite_group=True)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
    assert (tmp_path / "b.h5").read_bytes() == b"old"


@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
@pytest.mark.parametrize("held", ["/", "g"])
def test_attributes_that_are_damaged_leave_nothing(tmp_path, output, held):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file["g/u"] = np.arange(3.0)
        for k in range(20):  # so many that an index finds them
            file[held].attrs[f"a{k}"] = k
    content = (tmp_path / "a.h5").read_bytes()
    assert content.count(b"BTLF") == 1
    (tmp_path / "a.h5").write_bytes(content.replace(b"BTLF", b"BTLE"))
    where = r"a\.h5(:/g is not a readable HDF5 object| is not a readable HDF5 file)"
    with pytest.raises(dm.errors.IoFailed, match=where):
        move(tmp_path / "a.h5", tmp_path / output)
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("nprocs", [1, 2])
def test_a_kill_leaves_the_old_file_or_the_new(tmp_path, nprocs, number):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(60):
            file.create_dataset(
                f"g{k % 7}/u{k}", data=np.arange(k * 100), chunks=(50,) if k % 2 else None
            )
    move(tmp_path / "a.h5", tmp_path / "b.h5")
    old = os.stat(tmp_path / "b.h5").st_ino
    command = [sys.executable, "-m", "datamover", "move", "-n", str(nprocs), "--overwrite-group"]
    command += [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None and not any(n.startswith(".b") for n in os.listdir(tmp_path)):
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.3))
        process.send_signal(number)
        _, words = process.communicate(timeout=60)
    assert b"Traceback" not in words
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")
    if number == signal.SIGTERM:
        assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
        is_new = os.stat(tmp_path / "b.h5").st_ino != old
        if process.returncode == 128 + number:
            assert words.endswith(b"b.h5 is complete\n" if is_new else b"b.h5 is as it was\n")
        else:  # or it had done all, and was about to end
            assert is_new and process.returncode in (0, -number)
    deadline = time.monotonic() + 60  # the others end by themselves
    while True:
        move(tmp_path / "a.h5", tmp_path / "b.h5", overwrite_group=True)
        if sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]:
            break
        assert time.monotonic() < deadline
    check_same_files(tmp_path / "a.h5", tmp_path / "b.h5")


def test_compressed_as_is_said(tmp_path):
    make(tmp_path / "a.h5")
    for compressor in ("gzip", "none"):
        move(tmp_path / "a.h5", tmp_path / f"{compressor}.h5", compressor=compressor)
        with h5py.File(tmp_path / f"{compressor}.h5") as file:
            for name in ("u", "packed", "a/chunked"):
                found = file["z/deep"][name]
                assert found.chunks and (found.compression or "none") == compressor
            np.testing.assert_array_equal(file["z/deep/lzf"], np.arange(50.0))


def test_the_plan_is_printed(tmp_path, capsys):
    make(tmp_path / "a.h5")
    words = [str(tmp_path / "a.h5"), str(tmp_path / "b.h5"), "--dry-run"]
    assert move_command.run(words) == 0
    said = capsys.readouterr().out
    assert f"{tmp_path}/b.h5:/z/deep/u" in said and "copied by one process" in said
    assert intend(tmp_path / "a.h5", tmp_path / "b.h5").files == 1
    assert move_command.run([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["arrays"]) == 37
    assert os.listdir(tmp_path) == ["a.h5"]


def test_each_array_is_made_once_and_its_file_opened_once(tmp_path, monkeypatch):
    """Three hundred small variables would take seconds otherwise."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(7):
            file[f"v{k}"] = np.arange(3.0) + k
        file.create_dataset("chunked", data=np.arange(6.0), chunks=(2,), compression="gzip")
    calls = {"made": 0, "opened": 0, "planned": 0}

    def counted(module, name, what):
        work = getattr(module, name)

        def call(*given, **said):
            calls[what] += 1
            return work(*given, **said)

        monkeypatch.setattr(module, name, call)

    counted(zarr, "create_array", "made")
    counted(h5py.h5f, "open", "opened")
    counted(move_job, "plan_move", "planned")
    whole_hdf5._refused.cache_clear()
    move(tmp_path / "a.h5", tmp_path / "b.zarr")
    # One more is made for the dtype. The file is opened for the whole, for each array, and again
    # for the array whose chunks h5py finds.
    assert calls == {"made": 8 + 1, "opened": 1 + 8 + 1, "planned": 8}


@pytest.mark.parametrize("chunks", [None, (4,)])
def test_an_input_that_is_replaced_while_it_is_moved_is_refused(tmp_path, chunks):
    """The new file would be read at the places of the old one's elements."""
    for name, pads, value in (("a.h5", 0, 1), ("new.h5", 3, 2)):
        with h5py.File(tmp_path / name, "w") as file:
            for k in range(pads):
                file[f"pad{k}"] = np.full(64, 7.0)
            for own in "uv":
                file.create_dataset(own, data=np.full(64, float(value)), chunks=chunks)

    def replace(nbytes):
        os.replace(tmp_path / "new.h5", tmp_path / "a.h5")
        return lambda nbytes: None

    with pytest.raises(IoFailed, match="changed while it was moved"):
        move(tmp_path / "a.h5", tmp_path / "b.zarr", progress=replace)
    assert os.listdir(tmp_path) == ["a.h5"]
