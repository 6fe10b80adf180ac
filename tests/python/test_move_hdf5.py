# SPDX-License-Identifier: BSD-3-Clause
"""Moves of HDF5 datasets, parts of inputs, and converted elements: agree with h5py and NumPy."""

import base64
import json
import os
import sys
import zlib

import h5py
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover import move_command
from datamover.files import hdf5, hdf5_chunks, hdf5_format, intend, move

KINDS = {
    "contiguous": {},
    "chunked": {"chunks": True},
    "gzip": {"chunks": True, "compression": "gzip"},
    "shuffled": {"chunks": True, "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": True, "compression": "lzf"},
    "checked": {"chunks": True, "fletcher32": True},
}


def numbered(rng, shape, dtype):
    return rng.integers(0, 200, shape).astype(dtype)


def make(path, name, array, kind, rng):
    said = dict(KINDS[kind])
    if "chunks" in said:
        said["chunks"] = tuple(int(rng.integers(1, n + 1)) for n in array.shape)
    with h5py.File(path, "w") as file:
        made = file.create_dataset(name, data=array, **said)
        made.attrs["units"] = "m/s"
        made.attrs["range"] = [1, 2]
        made.dims[0].label = "row"


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("DATAMOVER_TEST_SEED", "5")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", ">i2", "u1"])
def test_a_dataset_goes_to_zarr_and_back(tmp_path, rng, kind, dtype):
    array = numbered(rng, (13, 8, 5), dtype)
    make(tmp_path / "a.h5", "fields/u", array, kind, rng)
    move(f"{tmp_path}/a.h5:/fields/u", tmp_path / "b.zarr", chunks=(4, 3, 5), check="crc32c")
    stored = zarr.open_array(tmp_path / "b.zarr", mode="r")
    np.testing.assert_array_equal(stored[...], array)
    assert dict(stored.attrs) == {"units": "m/s", "range": [1, 2]}
    assert stored.metadata.dimension_names == ("row", None, None)
    move(tmp_path / "b.zarr", f"{tmp_path}/c.h5:/deep/u", axes=(2, 0, 1), check="crc32c")
    with h5py.File(tmp_path / "c.h5") as file:
        np.testing.assert_array_equal(file["deep/u"][...], array.transpose(2, 0, 1))
        assert file["deep/u"].attrs["units"] == "m/s"
        assert [dim.label for dim in file["deep/u"].dims] == ["", "row", ""]
    move(tmp_path / "c.h5", tmp_path / "d.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), array.transpose(2, 0, 1))


def test_chunks_are_decoded_here_where_their_filters_are_known(tmp_path, rng):
    array = numbered(rng, (20, 20), "f8")
    for kind, reader in {
        "contiguous": dm.files.flat.FlatFile,
        "chunked": hdf5_chunks.ChunkedDataset,
        "shuffled": hdf5_chunks.ChunkedDataset,
        "lzf": hdf5.DatasetReader,
    }.items():
        make(tmp_path / "a.h5", "u", array, kind, rng)
        with_reader = hdf5_format.open_dataset(str(tmp_path / "a.h5"), "u")
        assert type(with_reader) is reader
        with_reader.close()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("most", [(None, 7), (9, None), (None, None), (9, 7)])
def test_chunks_of_dimensions_without_an_end(tmp_path, rng, libver, most):
    """Of one that is not the first HDF5 tells the places of chunks wrongly."""
    elems = rng.integers(0, 99, (8, 7))
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file.create_dataset("u", data=elems, chunks=(3, 2), maxshape=most, shuffle=True)
    move(tmp_path / "a.h5", tmp_path / "u.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), elems)


def test_chunks_that_were_never_written_hold_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("u", (10, 10), "i4", chunks=(4, 4), fillvalue=7)
        made[5:6, 5:6] = 1
        expected = made[...]
    move(tmp_path / "a.h5", tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), expected)


def test_a_whole_file_becomes_a_group(tmp_path, rng):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["title"] = "run"
        file["u"] = numbered(rng, (7, 6), "f8")
        file["step"] = np.int32(7)
        group = file.create_group("deep/er")
        group.attrs["level"] = 2
        group.create_dataset("v", data=numbered(rng, (9,), "i2"), chunks=(2,), compression="gzip")
        file["none"] = np.zeros((0, 3), "f4")
        held = {}
        file.visititems(lambda n, d: held.update({n: d[()]}) if hasattr(d, "dtype") else None)
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert dict(group.attrs) == {"title": "run"} and dict(group["deep/er"].attrs) == {"level": 2}
    for name, array in held.items():
        np.testing.assert_array_equal(group[name][...], array)
        assert group[name].dtype == array.dtype
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr"]
    with pytest.raises(dm.errors.IoFailed, match="exists"):
        move(tmp_path / "a.h5", tmp_path / "a.zarr")
    with pytest.raises(dm.errors.IoFailed, match="overwrite_group=True"):
        move(tmp_path / "a.h5", tmp_path / "a.zarr", overwrite=True)
    move(tmp_path / "a.h5", tmp_path / "a.zarr", overwrite_group=True)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr"]


def test_links_of_a_file_are_copied_or_named(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/u"] = np.arange(5.0)
        file["again"] = file["deep/u"]
        file["deep/once more"] = file["deep/u"]
        file["soft"] = h5py.SoftLink("/deep/u")
        file["nowhere"] = h5py.SoftLink("/none")
        file["elsewhere"] = h5py.ExternalLink("b.h5", "/v")
        file["deep/loop"] = file["/"]
        file["zzz"] = file["deep"]
        file["kind"] = np.dtype("i4")
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert sorted(group) == ["again", "deep"]
    assert sorted(group["deep"]) == ["once more", "u"]
    for name in ("again", "deep/u", "deep/once more"):
        np.testing.assert_array_equal(group[name][...], np.arange(5.0))
    said = "\n".join(record.getMessage() for record in caplog.records)
    for words in (
        "a.h5:/soft is left out: it is a soft link to /deep/u",
        "a.h5:/nowhere is left out: it is a soft link to /none",
        "a.h5:/elsewhere is left out: it is a link to /v in b.h5",
        "a.h5:/deep/loop is left out: it is another name of the group /",
        "a.h5:/zzz is left out: it is another name of the group /deep",
        "a.h5:/deep/once more is another name of a dataset: it is copied again",
        "a.h5:/kind is left out: it is a datatype",
        "a.h5:/deep/u is another name of a dataset: it is copied again",
    ):
        assert words in said
    assert len(caplog.records) == 8


def test_attributes_that_are_left_out_are_named(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/u"] = np.arange(5.0)
        file["g/u"].attrs.update({"kept": 1, "z": 1 + 2j, "none": h5py.Empty("f4")})
        file["g"].attrs["points_to"] = file["g/u"].ref
        file.attrs["title"] = "run"
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    said = [record.getMessage().partition(": JSON")[0] for record in caplog.records]
    assert sorted(said) == [
        f"{tmp_path}/a.h5:/g/u: its attribute none is left out",
        f"{tmp_path}/a.h5:/g/u: its attribute z is left out",
        f"{tmp_path}/a.h5:/g: its attribute points_to is left out",
    ]


def test_the_plan_of_a_whole_file(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["g/v"] = np.zeros((8, 8)), np.zeros(3)
    words = [str(tmp_path / "a.h5"), str(tmp_path / "b.zarr"), "--dry-run"]
    assert move_command.run(words) == 0
    said = capsys.readouterr().out
    assert "b.zarr/u" in said and "b.zarr/g/v" in said and "pass 1: reads" in said
    assert move_command.run([*words, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert set(planned["arrays"]) == {"u", "g/v"} and len(planned["arrays"]["g/v"]["passes"]) == 1
    assert os.listdir(tmp_path) == ["a.h5"]
    os.mkdir(tmp_path / "b.zarr")
    assert move_command.run(words) == 1


def test_the_report_of_a_whole_file_is_of_all_arrays(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["g/v"], file["g/w"] = np.zeros((8, 8)), np.zeros(3, "f4"), np.int8(1)
    output = str(tmp_path / "b.zarr")
    words = [str(tmp_path / "a.h5"), output, "--check", "crc32c"]
    assert move_command.run(words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{output}  3 arrays of 68 elements together"
    assert second.startswith("525 bytes in ") and ", check by crc32c " in second
    assert move_command.run([*words, "--overwrite-group", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["num_arrays"], said["elems"], said["bytes"]) == (3, 68, 525)
    assert said["check"] == "crc32c" and 0 < said["check_seconds"] < said["seconds"]


def test_a_dataset_that_is_not_named_has_the_name_of_the_input(tmp_path, capsys):
    values = np.arange(4.0)
    np.save(tmp_path / "run.7.npy", values)
    for more in (["--dry-run"], []):
        words = [str(tmp_path / "run.7.npy"), str(tmp_path / "b.h5"), *more]
        assert move_command.run(words) == 0
    assert move_command.run([f"{tmp_path}/b.h5:/run.7", f"{tmp_path}/c.h5"]) == 0
    for end in ("b.h5", "c.h5"):
        with h5py.File(tmp_path / end) as file:
            assert list(file) == ["run.7"]
            np.testing.assert_array_equal(file["run.7"][...], values)


@pytest.mark.parametrize("dtype", ["f8", ">i2", "S5", [("a", "<i4"), ("b", "<f8")]])
def test_single_elements_to_and_from_datasets(tmp_path, dtype):
    element = np.frombuffer(bytes(range(1, 33)), np.dtype(dtype), 1).reshape(())
    np.save(tmp_path / "a.npy", element)
    move(tmp_path / "a.npy", f"{tmp_path}/b.h5:/deep/ü", check="crc32c")
    with h5py.File(tmp_path / "b.h5") as file:
        stored = file["deep/ü"][...]
        assert stored.shape == () and stored.tobytes() == element.tobytes()
    move(f"{tmp_path}/b.h5:/deep/ü", tmp_path / "c.npy")
    back = np.load(tmp_path / "c.npy")
    assert back.shape == () and back.tobytes() == element.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_missing_values_are_told_as_xarray_reads_them_and_come_back(tmp_path, dtype):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("u", data=np.zeros((4, 4), dtype))
        made.attrs["_FillValue"] = np.array([-1], dtype)
    move(f"{tmp_path}/a.h5:/u", tmp_path / "b.zarr")
    told = zarr.open_array(tmp_path / "b.zarr", mode="r").attrs["_FillValue"]
    bytes_of_double = base64.standard_b64encode(np.array(-1.0, "<f8").tobytes()).decode()
    assert told == (-1 if dtype == "i2" else bytes_of_double)
    move(tmp_path / "b.zarr", f"{tmp_path}/c.h5:/u")
    with h5py.File(tmp_path / "c.h5") as file:
        back = file["u"].attrs["_FillValue"]
        assert back == -1 and back.dtype == dtype


@pytest.mark.parametrize("output", ["b.zarr", "b.h5:/u"])
@pytest.mark.parametrize(("before", "after"), [("i4", "i2"), ("f8", "f4"), ("i4", "f8")])
def test_missing_values_are_converted_as_elements_are(tmp_path, before, after, output):
    missing = np.dtype(before).type(-99999 if before == "i4" else 1e300)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("u", data=np.full(3, missing))
        made.attrs["_FillValue"] = missing
    move(f"{tmp_path}/a.h5:/u", tmp_path / output, output_dtype=after)
    if output == "b.zarr":
        move(tmp_path / "b.zarr", f"{tmp_path}/b.h5:/u")
    with h5py.File(tmp_path / "b.h5") as file:
        told = file["u"].attrs["_FillValue"]
        assert told.dtype == after and (file["u"][...] == told).all()


def test_a_missing_value_that_no_element_can_have_is_kept(tmp_path):
    attributes = {"_FillValue": 300}
    zarr.create_array(tmp_path / "a.zarr", shape=(3,), dtype="i1", attributes=attributes)
    move(tmp_path / "a.zarr", f"{tmp_path}/b.h5:/u")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["u"].attrs["_FillValue"] == 300


def test_a_scale_that_was_removed_is_no_name_of_a_dimension(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["u"] = np.arange(4.0), np.zeros((4, 3))
        file["x"].make_scale("x")
        file["u"].dims[0].attach_scale(file["x"])
        file["u"].dims[1].label = "y"
        del file["x"]
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert zarr.open_array(tmp_path / "a.zarr/u", mode="r").metadata.dimension_names == (None, "y")


def test_any_names_of_groups_and_datasets(tmp_path):
    names = ["a.h5:/b", "a:/b", "c/0", "..x", ".zarray", "a\nb", "%b", "é", " "]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in names:
            file[name] = np.arange(3.0)
    move(tmp_path / "a.h5", tmp_path / "a.zarr")
    for name in names:
        np.testing.assert_array_equal(
            zarr.open_array(tmp_path / "a.zarr" / name, mode="r")[...], np.arange(3.0)
        )


def test_groups_may_lie_deeper_than_python_calls_itself(tmp_path):
    above = "g/" * sys.getrecursionlimit()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file
        for name in above.split("/")[:-1]:
            group = group.create_group(name)
        group["u"] = np.arange(3.0)
    with hdf5.open_file(str(tmp_path / "a.h5")) as file:
        assert list(hdf5.datasets(file)) == [above + "u"]


@pytest.mark.parametrize("name", ["..", "../u", "g/..", "zarr.json", "zarr.json/u", "a\\b"])
def test_names_that_nothing_in_zarr_can_have_are_refused(tmp_path, name):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[name] = np.arange(3.0)
    with pytest.raises(dm.errors.Unsupported, match="nothing in a Zarr group can have"):
        move(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.filterwarnings("error")
def test_strings_and_enumerations_go_to_npy_without_a_warning(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = np.array([b"a", b"bc"])
        file.create_dataset("e", data=[0, 1], dtype=h5py.enum_dtype({"A": 0, "B": 1}))
    move(f"{tmp_path}/a.h5:/s", tmp_path / "s.npy")
    move(f"{tmp_path}/a.h5:/e", tmp_path / "e.npy")
    assert np.load(tmp_path / "s.npy").tolist() == [b"a", b"bc"]
    assert np.load(tmp_path / "e.npy").tolist() == [0, 1]


def test_all_of_a_dimension_without_indices_is_a_region(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 0), "i4"))
    region = ((1, 3), (None, None))
    for output in ("b.npy", "b.zarr", "b.h5:/u"):
        assert move(tmp_path / "a.npy", tmp_path / output, region=region).bytes == 0
    assert np.load(tmp_path / "b.npy").shape == (2, 0)
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").shape == (2, 0)
    with pytest.raises(dm.errors.InvalidArgument, match="some of them"):
        move(tmp_path / "a.npy", tmp_path / "c.npy", region=((None, None), (0, 0)))


def test_a_broken_dataset_leaves_no_group(tmp_path, rng):
    make(tmp_path / "a.h5", "u", numbered(rng, (40, 40), "f8"), "gzip", rng)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["first"] = np.arange(3)
        info = file["u"].id.get_chunk_info(0)
    with open(tmp_path / "a.h5", "r+b") as file:
        file.seek(info.byte_offset)
        file.write(b"x" * info.size)
    with pytest.raises(
        dm.errors.IoFailed, match=r"a.h5:/u cannot be read in the chunk at \(0, 0\)"
    ):
        move(tmp_path / "a.h5", tmp_path / "b.zarr")
    assert os.listdir(tmp_path) == ["a.h5"]


def test_a_file_of_several_datasets_is_replaced_only_when_said(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4.0))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["u"], file["v"] = 1, 2
    with pytest.raises(dm.errors.IoFailed, match="several datasets"):
        move(tmp_path / "a.npy", f"{tmp_path}/b.h5:/w", overwrite=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert sorted(file) == ["u", "v"]
    move(tmp_path / "a.npy", f"{tmp_path}/b.h5:/w", overwrite_group=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert sorted(file) == ["w"]


def inputs(place, array, rng):
    """The same array in all formats, in chunks that do not divide anything."""
    np.save(place / "c.npy", array)
    np.save(place / "f.npy", np.asfortranarray(array))
    array.tofile(place / "a.raw")
    zarr.create_array(place / "a.zarr", data=array, chunks=(4, 3, 2))
    make(place / "flat.h5", "u", array, "contiguous", rng)
    make(place / "chunked.h5", "u", array, "shuffled", rng)
    return ["c.npy", "f.npy", "a.raw", "a.zarr", "flat.h5:/u", "chunked.h5:/u"]


@pytest.mark.parametrize("output", ["b.npy", "b.zarr", "b.h5:/b", "b.raw"])
def test_regions_and_conversion(tmp_path, rng, output):
    array = numbered(rng, (12, 9, 7), "i4")
    for name in inputs(tmp_path, array, rng):
        described = {"shape": array.shape, "dtype": "i4"} if name == "a.raw" else {}
        if output == "b.raw":
            described["output_order"] = "C"
        for region in [
            ((4, 12), (3, None), (None, -1)),
            ((0, 8), (0, 9), (2, 6)),
            ((5, 6), (-4, None), (1, 7)),
        ]:
            part = array[tuple(slice(*ends) for ends in region)].transpose(1, 2, 0)
            move(
                f"{tmp_path}/{name}", f"{tmp_path}/{output}", axes=(1, 2, 0), region=region,
                output_dtype="f4", check="crc32c", overwrite=True, max_bytes=1 << 14, **described,
            )  # fmt: skip
            np.testing.assert_array_equal(read(tmp_path, output, part.shape), part.astype("f4"))


def read(place, output, shape):
    if output == "b.npy":
        return np.load(place / output)
    if output == "b.zarr":
        return zarr.open_array(place / output, mode="r")[...]
    if output == "b.raw":
        return np.fromfile(place / output, "f4").reshape(shape)
    with h5py.File(place / "b.h5") as file:
        return file["b"][...]


def test_an_output_that_is_not_what_was_written_is_no_output(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(100.0))
    right = dm.files.flat.FlatFile.write

    def wrong(file, lo, array):
        right(file, lo, array[::-1].copy())

    monkeypatch.setattr(dm.files.flat.FlatFile, "write", wrong)
    with pytest.raises(dm.errors.IoFailed, match="does not hold what was written"):
        move(tmp_path / "a.npy", tmp_path / "b.npy", check="crc32c")
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize(
    ("source", "output", "options", "error", "words"),
    [
        ("a.h5:/gone", "b.npy", {}, dm.errors.IoFailed, "no dataset 'gone'; there are g/v, u"),
        ("a.h5:/g", "b.npy", {}, dm.errors.IoFailed, "is a group; name one of its datasets: g/v"),
        ("a.h5", "b.npy", {}, dm.errors.IoFailed, "2 datasets; name one"),
        (
            "a.h5",
            "b.zarr",
            {"chunks": (2,) * 3},
            dm.errors.InvalidArgument,
            "nothing in .* has 3 dim",
        ),
        ("a.h5", "b.zarr", {"dtype": "f4"}, dm.errors.InvalidArgument, "for one array"),
        ("a.h5:/u", "b.h5:/x", {"chunks": (2, 2, 2)}, dm.errors.InvalidArgument, "3 dimensions"),
        ("a.h5:/u", "b.h5:/x", {"chunks": (0, 2)}, dm.errors.InvalidArgument, "positive"),
        ("a.h5:/u", "b.h5:/x", {"shards": (2, 2)}, dm.errors.InvalidArgument, r"shards=\(2, 2\)"),
        ("a.h5:/u", "b.h5:/x", {"compressor": "zstd"}, dm.errors.InvalidArgument, "gzip"),
        ("a.npy", "b.npy:/u", {}, dm.Error, "u"),
        ("a.npy", "b.npy", {"region": ((0, 9),)}, dm.errors.InvalidArgument, "dimension 0"),
        ("a.npy", "b.npy", {"region": ((2, 2),)}, dm.errors.InvalidArgument, "some of them"),
        ("a.npy", "b.npy", {"region": ((0, 2), (0, 1))}, dm.errors.InvalidArgument, "2 dimensions"),
        ("a.npy", "b.npy", {"output_dtype": "i4"}, dm.errors.InvalidArgument, "same_kind"),
        ("a.npy", "b.npy", {"output_dtype": ">f4"}, dm.errors.InvalidArgument, "byte order"),
        (
            "one.npy",
            "b.zarr",
            {"shards": ()},
            dm.errors.InvalidArgument,
            "one element has no shards",
        ),
        (
            "a.npy",
            "b.npy",
            {"output_dtype": "nonsense"},
            dm.errors.InvalidArgument,
            "not a NumPy dtype",
        ),
        ("a.npy", "b.npy", {"check": "md5"}, dm.errors.InvalidArgument, "crc32c"),
        ("text.h5", "b.npy", {}, dm.errors.IoFailed, "HDF5"),
        ("a.h5:/type", "b.npy", {}, dm.errors.IoFailed, "is a datatype"),
        ("a.h5:/../u", "b.npy", {}, dm.errors.InvalidArgument, "not a valid name of a dataset"),
    ],
)
def test_what_does_not_fit(tmp_path, source, output, options, error, words):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["g/v"], file["type"] = np.zeros((4, 4)), np.zeros(3), np.dtype("f4")
    np.save(tmp_path / "a.npy", np.arange(8.0))
    np.save(tmp_path / "one.npy", 3.5)
    (tmp_path / "text.h5").write_text("nothing")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(error, match=words):
        move(f"{tmp_path}/{source}", f"{tmp_path}/{output}", **options)
    assert sorted(os.listdir(tmp_path)) == before


def test_the_plan_of_a_region(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((64, 64)))
    found = intend(
        tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(16, 16), region=((0, 16), (None, None)),
        dtype="f4",
    )  # fmt: skip
    assert (
        found.spec.shape == (16, 64)
        and found.spec.dtype == "f4"
        and found.plan.passes[0].chunks == 4
    )


def test_strings_of_bytes_stay_attributes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3.0)
        file["u"].attrs["units"] = np.bytes_(b"K")
        file["u"].attrs["axes"] = np.array([b"x", b"y"])
        file["u"].attrs["odd"] = np.bytes_(b"\xff")
    move(f"{tmp_path}/a.h5:/u", tmp_path / "b.zarr")
    said = dict(zarr.open_array(tmp_path / "b.zarr", mode="r").attrs)
    assert said == {"units": "K", "axes": ["x", "y"], "odd": "\\xff"}


def test_a_dataset_that_was_not_named_is_not_replaced(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["keep"] = np.arange(3.0)
    np.save(tmp_path / "b.npy", np.zeros(2))
    with pytest.raises(dm.errors.IoFailed, match="holds the dataset 'keep', not 'other'"):
        move(tmp_path / "b.npy", f"{tmp_path}/a.h5:/other", overwrite=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file) == ["keep"]
    move(tmp_path / "b.npy", f"{tmp_path}/a.h5:/keep", overwrite=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["keep"][...].tolist() == [0, 0]


def test_a_chunk_that_decodes_to_more_than_a_chunk_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("u", (4,), "f8", chunks=(4,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(bytes(10**6)))
    with pytest.raises(dm.errors.IoFailed, match="more than 32 bytes"):
        move(f"{tmp_path}/a.h5:/u", tmp_path / "b.npy")


def test_a_chunk_of_which_the_system_gives_a_part_at_a_time(tmp_path, rng, monkeypatch):
    make(tmp_path / "a.h5", "u", numbered(rng, (7, 5), "f8"), "shuffled", rng)
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read(file, min(size, 9), at))
    move(f"{tmp_path}/a.h5:/u", tmp_path / "b.npy")
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), file["u"][...])


@pytest.mark.parametrize("dtype", ["M8[s]", ">m8[D]", "U3"])
@pytest.mark.parametrize("more", [{}, {"chunks": (2,)}], ids=str)
def test_what_hdf5_has_not_is_refused_by_the_plan_too(tmp_path, dtype, more):
    made = zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(2,), dtype=dtype)
    made[...] = np.arange(4).astype(dtype)
    for call in (intend, lambda *given, **said: move(*given, **said)):
        with pytest.raises(dm.errors.Unsupported, match="HDF5 cannot hold dtype"):
            call(tmp_path / "a.zarr", f"{tmp_path}/b.h5:/u", **more)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("compressor", [None, "none", "gzip"])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "u1", "c16", [("a", "i1"), ("b", "<f8")]], ids=str)
def test_chunks_are_written_as_h5py_reads_them(tmp_path, rng, dtype, compressor):
    dtype = np.dtype(dtype)
    for _ in range(3):
        shape = tuple(int(n) for n in rng.integers(1, 20, 3))
        chunks = tuple(int(n) for n in rng.integers(1, 12, 3))
        axes = tuple(int(a) for a in rng.permutation(3))
        array = np.frombuffer(
            rng.integers(0, 100, np.prod(shape) * dtype.itemsize, "u1").tobytes(), dtype
        ).reshape(shape)
        np.save(tmp_path / "a.npy", array)
        output = f"{tmp_path}/b.h5:/x/u"
        said = {"chunks": chunks, "compressor": compressor, "check": "crc32c", "overwrite": True}
        intended = intend(tmp_path / "a.npy", output, axes=axes, **said)
        assert intended.files == 1 and intended.plan is not None
        move(tmp_path / "a.npy", output, axes=axes, **said)
        expected = array.transpose(axes)
        with h5py.File(tmp_path / "b.h5") as file:
            made = file["x/u"]
            assert made.chunks == tuple(map(min, chunks, expected.shape))
            assert (made.compression, made.shuffle) == (
                ("gzip", True) if compressor == "gzip" else (None, False)
            )
            assert made[...].tobytes() == expected.tobytes()
        move(output, tmp_path / "c.npy", overwrite=True)
        assert np.load(tmp_path / "c.npy").tobytes() == expected.tobytes()


def test_compressed_output_keeps_what_an_array_has_and_is_small(tmp_path):
    stored = zarr.create_array(
        tmp_path / "a.zarr", data=np.zeros((50, 40)), chunks=(7, 9), dimension_names=["y", "x"]
    )
    stored.attrs["units"] = "m"
    move(tmp_path / "a.zarr", f"{tmp_path}/b.h5:/u", compressor="gzip")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["u"].chunks == (7, 9) and file["u"].attrs["units"] == "m"
        assert [dim[0].name for dim in file["u"].dims] == ["/y", "/x"]
        assert file["u"].id.get_storage_size() < 50 * 40 * 8 / 10
    for shape in ((0, 4), ()):
        np.save(tmp_path / "e.npy", np.zeros(shape))
        said = {"compressor": "gzip"} if shape else {}
        move(tmp_path / "e.npy", f"{tmp_path}/e.h5:/u", overwrite=True, **said)
        with h5py.File(tmp_path / "e.h5") as file:
            assert file["u"].shape == shape


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    real = hdf5_chunks.ChunkedOutput.write_chunk

    class Full:
        def write_direct_chunk(self, first, data):
            raise OSError("Can't write (errno = 28, error message = 'No space left on device')")

    class Dataset:
        id = Full()

    def write_chunk(self, cell, chunk):
        if cell == (3,):
            self._dataset = Dataset()
        real(self, cell, chunk)

    monkeypatch.setattr(hdf5_chunks.ChunkedOutput, "write_chunk", write_chunk)
    with pytest.raises(dm.errors.IoFailed, match="not enough space"):
        move(tmp_path / "a.npy", f"{tmp_path}/b.h5:/u", chunks=(100,))
    assert os.listdir(tmp_path) == ["a.npy"]


def test_chunks_of_many_processes_may_have_any_size(tmp_path):
    most_bytes = 1 << 30  # MPI counts the bytes of a message in an int
    array = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "u1", (most_bytes + 1,))
    del array  # nothing but a hole
    found = intend(
        tmp_path / "a.npy", f"{tmp_path}/b.h5:/u", nprocs=2, chunks=(most_bytes + 1,),
        compressor="gzip", max_bytes=16 << 30,
    )  # fmt: skip
    assert found.plan.passes[-1].chunks == 1
    assert os.listdir(tmp_path) == ["a.npy"]
