# SPDX-License-Identifier: BSD-3-Clause
"""Moves of whole files and groups at addresses: as for local ones, complete or not at all."""

import json
import os
import shutil
import subprocess
import sys

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from loopback import Killed, Ranges, Silent, serving
from test_move_addresses import names, others
from test_move_netcdf import sample
from zarr.storage import LocalStore, ObjectStore

import datamover as dm
from datamover import move_command
from datamover.files import address_place, intend, move

obstore = pytest.importorskip("obstore")
xarray = pytest.importorskip("xarray")
pytestmark = pytest.mark.filterwarnings("ignore")  # of types that are no part of Zarr v3 yet


def store_at(place):
    """Open a store by another way than the one under test."""
    text = str(place)
    if "://" not in text:
        return LocalStore(text, read_only=True)
    return ObjectStore(obstore.store.from_url(text), read_only=True)


def assert_same_groups(old, new, changed=()):
    """Compare all that zarr-python finds: groups, attributes, elements, and how they are kept."""
    before = zarr.open_group(store_at(old), mode="r", use_consolidated=False)
    after = zarr.open_group(store_at(new), mode="r", use_consolidated=False)
    nodes, found = dict(before.members(max_depth=None)), dict(after.members(max_depth=None))
    assert nodes.keys() == found.keys() and dict(before.attrs) == dict(after.attrs)
    for name, node in nodes.items():
        assert dict(found[name].attrs) == dict(node.attrs), name
        if isinstance(node, zarr.Array):
            kinds = [(held.dtype.kind, held.dtype.itemsize) for held in (found[name], node)]
            assert kinds[0] == kinds[1], name
            np.testing.assert_array_equal(found[name][...], node[...])
            is_text = node.dtype.kind in "TOU"
            if node.metadata.zarr_format == 3 and not is_text and name not in changed:
                assert found[name].metadata == node.metadata


def with_all_kinds(path, zarr_format=3):
    """Make a group with all kinds of arrays, and few chunks: each is a request."""
    group = zarr.create_group(path, zarr_format=zarr_format, attributes={"title": "ä", "k": 1})
    group.create_group("deep/empty").attrs.update({"levels": [1.5, 2.5], "names": ["a", "b"]})
    for name, array in {
        "u": np.random.default_rng(6).normal(size=(6, 4)), "n": np.array(2.5, "f4"),
        "deep/er/v": np.arange(5).astype(">i2"), "none": np.zeros((0, 3)),
        "words": np.array(["abc", "d"], "U3"),
    }.items():  # fmt: skip
        made = group.create_array(name, data=array, chunks=(3, 4) if name == "u" else "auto")
        made.attrs["units"] = "m"
    made = group.create_array("texts", shape=(2, 2), chunks=(1, 2), dtype=str)
    made[...] = np.array([["a", "äb"], ["", "c"]], object)
    names = {"dimension_names": ["y", "x"]} if zarr_format == 3 else {}
    filled = group.create_array(
        "filled", shape=(9, 4), chunks=(3, 4), dtype="i4", fill_value=-7, **names
    )
    filled[2:4] = 1
    if zarr_format == 3:
        group.create_array("sharded", data=np.arange(8.0), chunks=(2,), shards=(8,))
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_goes_there_and_on_and_back(bucket, tmp_path, zarr_format):
    here = with_all_kinds(tmp_path / "a.zarr", zarr_format)
    there, on = f"{bucket}/x/a.zarr", f"{bucket}/x/b.zarr"
    said = {"zarr_format": zarr_format}
    report = move(here, there, check="crc32c", **said)
    assert report.num_arrays == (8 if zarr_format == 3 else 7) and report.output == there
    assert_same_groups(here, there)
    assert zarr.open_group(store_at(there), mode="r").metadata.zarr_format == zarr_format
    assert address_place.MARKER not in names(there)
    move(there, on, **said)
    assert names(on) == names(there)
    move(on, tmp_path / "b.zarr", check="crc32c", **said)
    assert_same_groups(here, tmp_path / "b.zarr")
    move(on, tmp_path / "there.h5", check="crc32c")
    move(here, tmp_path / "here.h5")
    with h5py.File(tmp_path / "here.h5") as old, h5py.File(tmp_path / "there.h5") as new:
        for name in ("u", "deep/er/v", "n", "none", "texts", "words", "filled"):
            np.testing.assert_array_equal(new[name][()], old[name][()])
            assert new[name].dtype == old[name].dtype and new[name].fillvalue == old[name].fillvalue
            assert list(new[name].attrs) == list(old[name].attrs)
        assert dict(new["deep/empty"].attrs).keys() == dict(old["deep/empty"].attrs).keys()


def test_xarray_finds_there_what_a_netcdf_file_has(bucket, tmp_path):
    given = sample(np.random.default_rng(3)).assign(name=("lat", [f"row {k}" for k in range(7)]))
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 270.0, "_FillValue": -9999}
    given.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"temperature": packed})
    place = f"{bucket}/a.zarr"
    move(tmp_path / "a.nc", place, chunks=(2, 7, 9), check="crc32c")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before:
        after = xarray.open_zarr(store_at(place), consolidated=False, chunks=None).load()
        xarray.testing.assert_identical(after, before.load())
    assert after["temperature"].encoding["chunks"] == (2, 7, 9)
    move(place, tmp_path / "b.nc")
    with (
        xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as before,
        xarray.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as after,
    ):
        xarray.testing.assert_identical(after.load(), before.load())


def test_a_whole_file_in_a_bucket_and_names_of_all_kinds(bucket, tmp_path):
    odd, place = "ä b%2F#?+*", f"{bucket}/x.zarr"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[f"{odd}/{odd}"] = np.arange(12.0).reshape(3, 4)
        file[f"{odd}/words"] = ["a", "bc"]
        file[odd].attrs["k"] = 1
        file["soft"] = h5py.SoftLink(f"/{odd}")
    others(bucket, "a.h5", (tmp_path / "a.h5").read_bytes())
    move(f"{bucket}/a.h5", place)
    move(place, tmp_path / "b.zarr")
    move(tmp_path / "a.h5", tmp_path / "c.zarr")
    assert_same_groups(tmp_path / "c.zarr", place)
    assert_same_groups(tmp_path / "c.zarr", tmp_path / "b.zarr")
    assert f"x.zarr/{odd}/{odd}/zarr.json" in names(bucket)


def test_what_is_there_is_replaced_only_where_that_is_said(bucket, tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("g/u", data=np.arange(6.0), chunks=(4,))
    place = f"{bucket}/b.zarr"
    with_all_kinds(tmp_path / "old.zarr")
    move(tmp_path / "old.zarr", place)
    before = names(place)
    for said, words in [({}, "overwrite=True"), ({"overwrite": True}, "overwrite_group=True")]:
        for act in (move, lambda _, *given, **said: intend(*given, **said)):
            with pytest.raises(dm.errors.IoFailed, match=words):
                act(None, tmp_path / "a.zarr", place, **said)
    assert names(place) == before
    others(bucket, "b.zarr2/u/c/0", b"another's")
    move(tmp_path / "a.zarr", place, overwrite_group=True)
    assert names(place) == ["g/u/c/0", "g/u/c/1", "g/u/zarr.json", "g/zarr.json", "zarr.json"]
    assert_same_groups(tmp_path / "a.zarr", place)
    assert names(f"{bucket}/b.zarr2") == ["u/c/0"]
    others(place, "g/notes.txt")
    move(tmp_path / "a.zarr", place, overwrite_group=True)
    assert "g/notes.txt" not in names(place)


def test_metadata_come_last_and_a_failure_leaves_nothing(bucket, tmp_path, monkeypatch):
    here = with_all_kinds(tmp_path / "a.zarr")
    written, limit = [], [10**6]

    def some(real):
        async def put(self, key, value):
            if len(written) >= limit[0]:
                raise RuntimeError("the server is tired\nand says a lot")
            written.append(f"{self.store.prefix}/{key}")
            await real(self, key, value)

        return put

    for name in ("set", "set_if_not_exists"):
        monkeypatch.setattr(ObjectStore, name, some(getattr(ObjectStore, name)))
    move(here, f"{bucket}/b.zarr")
    is_metadata = [key.endswith("zarr.json") for key in written]
    assert is_metadata == sorted(is_metadata) and is_metadata.count(True) == 12
    assert written[-1] == "b.zarr/zarr.json" and written[0].endswith(address_place.MARKER)
    assert not any("/c/" in key for key in written[-12:])
    assert written.index("b.zarr/deep/er/zarr.json") > written.index("b.zarr/deep/er/v/zarr.json")
    count = len(written)
    for limit[0] in (0, 3, count - 13, count - 1):
        written.clear()
        with pytest.raises(dm.errors.IoFailed, match="tired") as caught:
            move(here, f"{bucket}/c.zarr")
        assert "\n" not in str(caught.value) and str(caught.value).count("cannot be written") == 1
        assert names(f"{bucket}/c.zarr") == []
    assert_same_groups(here, f"{bucket}/b.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_move_that_was_killed_anywhere_is_replaced(
    killed_after, local_bucket, tmp_path, zarr_format
):
    here = with_all_kinds(tmp_path / "a.zarr", zarr_format)
    place = f"{local_bucket.address}/b.zarr"
    said = {"zarr_format": zarr_format}
    move(here, place, **said)
    changes = 10**6 - killed_after[0]
    whole = local_bucket.names()
    assert changes > 20
    local_bucket.clear()
    for count in (1, changes // 2, changes - 2, changes - 1):
        killed_after[0] = count
        with pytest.raises(Killed):
            move(here, place, **said)
        killed_after[0] = 10**6
        left = {name.removeprefix("b.zarr/") for name in local_bucket.names()}
        assert address_place.MARKER in left
        is_visible = not left.isdisjoint({"zarr.json", ".zgroup"})
        assert is_visible == (count == changes - 1)
        with pytest.raises(dm.errors.IoFailed, match="overwrite"):
            move(here, place, **said)
        move(here, place, overwrite_group=True, **said)
        assert local_bucket.names() == whole
        assert_same_groups(here, local_bucket.path / "b.zarr")
        local_bucket.clear()


def test_a_server_that_lists_nothing_has_consolidated_metadata(tmp_path):
    odd = "ä b%c#?"
    for zarr_format in (2, 3):
        place = tmp_path / f"served/{zarr_format}.zarr"
        group = zarr.create_group(place, zarr_format=zarr_format, attributes={"k": 1})
        group.create_group("deep/empty", attributes={"of": "it"})
        for name in ("u", f"{odd}/u", "gone"):
            group.create_array(name, data=np.arange(3))
        group.create_array("texts", shape=(2,), dtype=str)[...] = np.array(["a", "ä"], object)
        zarr.consolidate_metadata(group.store)
        shutil.rmtree(place / "gone")
        shutil.copytree(place, tmp_path / f"served/{zarr_format}-plain.zarr")
    (tmp_path / "served/2-plain.zarr/.zmetadata").unlink()
    told = json.loads((tmp_path / "served/3-plain.zarr/zarr.json").read_text())
    del told["consolidated_metadata"]
    (tmp_path / "served/3-plain.zarr/zarr.json").write_text(json.dumps(told))
    with serving(tmp_path / "served", Silent) as server:
        for zarr_format in (2, 3):
            said = {"zarr_format": zarr_format}
            move(f"{server}/{zarr_format}.zarr", tmp_path / f"{zarr_format}.zarr", **said)
            assert_same_groups(
                tmp_path / f"served/{zarr_format}.zarr", tmp_path / f"{zarr_format}.zarr"
            )
            move(f"{server}/{zarr_format}.zarr", tmp_path / f"{zarr_format}.h5")
            with h5py.File(tmp_path / f"{zarr_format}.h5") as file:
                assert file[f"{odd}/u"][...].tolist() == [0, 1, 2]
            own = tmp_path / f"served/{zarr_format}-own.zarr"
            move(tmp_path / f"served/{zarr_format}.zarr", own, **said)
            move(f"{server}/{own.name}", tmp_path / own.name, **said)
            assert_same_groups(own, tmp_path / own.name)
            plain = f"{server}/{zarr_format}-plain.zarr"
            with pytest.raises(
                dm.errors.Unsupported, match=f"{plain} is a .* cannot list: name one"
            ):
                move(plain, tmp_path / "b.zarr")
            move(f"{plain}/u", tmp_path / "u.npy", overwrite=True)
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("name", ["../a.zarr/u", "/tmp/u", "x//u", "./u", "no/u"])
def test_consolidated_metadata_lead_nowhere_else(tmp_path, name):
    zarr.create_array(tmp_path / "served/a.zarr/u", data=np.arange(3))
    told = json.loads((tmp_path / "served/a.zarr/u/zarr.json").read_text())
    held = {"kind": "inline", "must_understand": False, "metadata": {name: told, "v": told}}
    (tmp_path / "served/b.zarr").mkdir()
    shutil.copytree(tmp_path / "served/a.zarr/u", tmp_path / "served/b.zarr/v")
    shutil.copytree(tmp_path / "served/a.zarr/u", tmp_path / "served/b.zarr/no/u")
    said = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": held}
    (tmp_path / "served/b.zarr/zarr.json").write_text(json.dumps(said))
    with serving(tmp_path / "served", Silent) as server:
        for output in ("c.zarr", "c.h5"):
            assert list(intend(f"{server}/b.zarr", tmp_path / output).members) == ["v"]


def test_what_cannot_be_moved_is_one_clear_line(bucket, tmp_path):
    here = with_all_kinds(tmp_path / "a.zarr")
    move(here, f"{bucket}/a.zarr")
    others(bucket, "broken.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    others(bucket, "broken.zarr/g/zarr.json", b"{")
    others(bucket, "odd.zarr/zarr.json", b"[]")
    others(bucket, "empty.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    before = names(bucket)
    local = [
        (f"{bucket}/none.zarr", dm.errors.IoFailed, "none.zarr"),
        (f"{bucket}-none/a.zarr", dm.errors.IoFailed, "none/a.zarr"),
        ("http://127.0.0.1:9/a.zarr", dm.errors.IoFailed, "127.0.0.1:9/a.zarr cannot be read"),
        (
            f"{bucket}/broken.zarr",
            dm.errors.IoFailed,
            "broken.zarr/g has metadata that cannot be read",
        ),
        (
            f"{bucket}/odd.zarr",
            dm.errors.IoFailed,
            "odd.zarr has metadata that are not a JSON object",
        ),
        (f"{bucket}/empty.zarr", dm.errors.InvalidArgument, "a Zarr group without arrays"),
    ]
    for source, error, words in local:
        with pytest.raises(error, match=words) as caught:
            move(source, f"{bucket}/b.zarr")
        assert "\n" not in str(caught.value)
    there = [
        (f"{bucket}-none/b.zarr", {}, dm.errors.IoFailed, "none/b.zarr cannot be looked at"),
        ("http://127.0.0.1:9/b.zarr", {}, dm.errors.Unsupported, "can only be read"),
        (f"{bucket}/b.h5", {}, dm.errors.Unsupported, "only Zarr arrays and groups can be written"),
        (f"{bucket}/b.zarr", {"chunks": (1, 1, 1, 1)}, dm.errors.InvalidArgument, "4 dimensions"),
        (f"{bucket}/b.zarr", {"axes": (1, 0)}, dm.errors.InvalidArgument, "axes= is for one array"),
        (f"{bucket}/b.zarr", {"zarr_format": 4}, dm.errors.InvalidArgument, "unknown Zarr format"),
    ]
    for output, said, error, words in there:
        for act in (move, lambda _, *given, **said: intend(*given, **said)):
            with pytest.raises(error, match=words) as caught:
                act(None, here, output, **said)
            assert "\n" not in str(caught.value)
    for output, words in (
        (f"{bucket}/a.zarr", "are the same"),
        (f"{bucket}/a.zarr/inner.zarr", "one is inside the other"),
    ):
        with pytest.raises(dm.errors.InvalidArgument, match=words):
            move(f"{bucket}/a.zarr", output, overwrite_group=True)
    assert names(bucket) == before and os.listdir(tmp_path) == ["a.zarr"]


def test_a_chunk_that_cannot_be_read_leaves_nothing(bucket, tmp_path):
    with_all_kinds(tmp_path / "a.zarr")
    move(tmp_path / "a.zarr", f"{bucket}/a.zarr")
    for name, outputs in [
        ("u/c/1/0", [f"{bucket}/b.zarr"]),
        ("texts/c/1/0", [f"{bucket}/b.zarr", tmp_path / "b.h5"]),
    ]:
        others(bucket, f"a.zarr/{name}", b"none")
        before = names(bucket)
        for output in outputs:
            with pytest.raises(
                dm.errors.IoFailed, match=f"{name.partition('/')[0]} cannot be read"
            ):
                move(f"{bucket}/a.zarr", output)
        assert names(bucket) == before and os.listdir(tmp_path) == ["a.zarr"]


def test_an_array_in_a_group_that_is_named_is_an_array(bucket, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(3)
    move(tmp_path / "a.h5", f"{bucket}/g.zarr/u")
    assert zarr.open_array(store_at(f"{bucket}/g.zarr/u"), mode="r").shape == (3,)
    move(tmp_path / "a.h5", f"{bucket}/h")
    assert zarr.open_group(store_at(f"{bucket}/h"), mode="r")["u"].shape == (3,)


def test_what_goes_into_a_group_has_its_format(bucket, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    zarr.create_group(tmp_path / "a.zarr", zarr_format=2).create_array("u", data=np.arange(4))
    for zarr_format in (2, 3):
        place = f"{bucket}/{zarr_format}.zarr"
        move(tmp_path / "a.zarr", place, zarr_format=zarr_format)
        move(tmp_path / "a.npy", f"{place}/v")
        move(tmp_path / "a.zarr/u", f"{place}/u", overwrite=True, chunks=(2,))
        group = zarr.open_group(store_at(place), mode="r")
        assert group.metadata.zarr_format == zarr_format
        assert group["v"][...].tolist() == [0, 1, 2] and group["u"].chunks == (2,)
        move(tmp_path / "a.zarr", place, zarr_format=5 - zarr_format, overwrite_group=True)
        group = zarr.open_group(store_at(place), mode="r")
        assert group.metadata.zarr_format == 5 - zarr_format and list(group) == ["u"]


def test_by_processes_of_the_command(bucket, tmp_path, capsys):
    here = with_all_kinds(tmp_path / "a.zarr")
    words = [f"{bucket}/a.zarr", f"{bucket}/b.zarr", "--chunks", "2,5"]
    move(here, words[0])
    before = names(bucket)
    assert move_command.run([*words, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert f"{words[1]}/u  6 x 4 of float64" in printed and "chunks of 2 x 5" in printed
    assert names(bucket) == before
    done = subprocess.run(
        [sys.executable, "-m", "datamover", "move", "-n", "2", *words, "--check", "crc32c"],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_same_groups(here, words[1], changed=("u", "none", "filled"))
    assert zarr.open_group(store_at(words[1]), mode="r")["u"].chunks == (2, 5)


@pytest.mark.parametrize("compressor", ["Zstd", "GZip", "LZMA", None])
@pytest.mark.parametrize("output", ["b.zarr", "b.h5"])
def test_strings_at_an_address_are_bounded_by_their_size(bucket, tmp_path, compressor, output):
    codec = compressor and getattr(numcodecs, compressor)()
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("u", data=np.arange(3.0))
    texts = np.array(["", "ä" * 1000, *["x" * 900_000] * 3, "y"], object)
    made = group.create_array("texts", shape=(6,), chunks=(3,), dtype=str, compressors=codec)
    made[...] = texts
    move(tmp_path / "a.zarr", f"{bucket}/a.zarr")
    source = f"{bucket}/a.zarr"
    with pytest.raises(
        dm.errors.NoMemory, match=r"a.zarr/texts has .* bytes of strings in a chunk"
    ):
        move(source, tmp_path / output, max_bytes=1_500_000)
    assert os.listdir(tmp_path) == ["a.zarr"]
    move(source, tmp_path / output, max_bytes=10_000_000)
    if output == "b.zarr":
        found = zarr.open_array(tmp_path / "b.zarr/texts", mode="r")[...]
    else:
        with h5py.File(tmp_path / "b.h5") as file:
            found = file["texts"].asstr()[...]
    assert (np.asarray(found, object) == texts).all()


class RangesOrWhole(Ranges):
    """Gives what is asked for, as servers do."""

    def do_GET(self):
        is_part = "Range" in self.headers and os.path.isfile(self.translate_path(self.path))
        (Ranges if is_part else Silent).do_GET(self)


@pytest.mark.parametrize("handler", [Silent, RangesOrWhole])
def test_strings_over_http_are_bounded_by_their_size(tmp_path, handler):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(3.0))
    texts = np.array(["x" * 900_000, "y"], object)
    group.create_array("texts", shape=(4,), chunks=(2,), dtype=str)[:2] = texts
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    with serving(tmp_path, handler) as server:
        with pytest.raises(
            dm.errors.NoMemory, match=r"a.zarr/texts has .* bytes of strings in a chunk"
        ):
            move(f"{server}/a.zarr", tmp_path / "b.zarr", max_bytes=800_000)
        move(f"{server}/a.zarr", tmp_path / "b.zarr", max_bytes=10_000_000)
    found = zarr.open_array(tmp_path / "b.zarr/texts", mode="r")[...]
    assert (np.asarray(found, object) == ["x" * 900_000, "y", "", ""]).all()
