# SPDX-License-Identifier: BSD-3-Clause
"""Consolidated metadata of a group: readers see the old state or the new one."""

import functools
import json
import os
import shutil
import warnings

import numpy as np
import pytest
import xarray
import zarr
from loopback import Killed
from mpi4py import MPI

import datamover as dm
from datamover.files import addresses, move, placing, unfinished, zarr_group
from datamover.stream.recorder import _Group

pytest.importorskip("obstore")
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
OLD = np.ones((24, 6, 8), "f4")
NEW = -np.arange(24 * 6 * 8, dtype="f8").reshape(24, 6, 8)
LINE = dm.BlockCyclic(NEW.shape, "(block, *, *)", nprocs=1)


def store(place):
    """What zarr-python opens a path or an address as."""
    is_address = addresses.is_address(str(place))
    return addresses.store_at(str(place), read_only=False) if is_address else str(place)


def make(place, zarr_format, levels=("", "in", "in/most")):
    """Make groups in groups, of which some are consolidated; arrays are in the innermost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.create_group(store(place), zarr_format=zarr_format, attributes={"a": 1.5})
        inner = root.create_group("in/most", attributes={"b": [1, "x"]})
        inner.create_array("tas", data=OLD, chunks=(1, 6, 8))
        inner.create_array("other", data=OLD)
        inner.create_group("group").create_array("tas", data=OLD)
        for level in sorted(levels, reverse=True):
            zarr.consolidate_metadata(store(place), path=level, zarr_format=zarr_format)


def seen(place, name):
    """The elements of an array as a reader finds it from the root; None where it finds none."""
    found = zarr.open_group(store(place), mode="r").get(f"in/most/{name}")
    return None if found is None else found[...]


def is_consolidated(place, level):
    group = zarr.open_group(store(place), path=level, mode="r")
    return group.metadata.consolidated_metadata is not None


def by_move(folder, output, **said):
    np.save(folder / "new.npy", NEW)
    move(folder / "new.npy", output, chunks=(24, 3, 4), **said)


def by_group(folder, output, **said):
    zarr.create_group(folder / "of.zarr", overwrite=True).create_array("tas", data=NEW)
    move(folder / "of.zarr", output, output_format="zarr", overwrite_group=True)


def by_save(folder, output, **said):
    dm.save(output, {"tas": (NEW, LINE)}, comm=MPI.COMM_SELF, overwrite=True)


def by_open(folder, output, overwrite=False):
    said = {"comm": MPI.COMM_SELF, "mode": "w", "dtype": "f8", "overwrite": overwrite}
    with dm.files.open(output, LINE, **said) as file:
        dm.Mover(dm.redistribute(LINE, LINE), NEW, file)()


#: How something gets into the group: by what, its name there, that of the array, and options.
WAYS = {
    "replaced": (by_move, "tas", "tas", {"overwrite": True}),
    "new": (by_move, "pr", "pr", {}),
    "group replaced": (by_group, "group", "group/tas", {}),
    "group new": (by_group, "more", "more/tas", {}),
    "saved": (by_save, "state.zarr", "state.zarr/tas", {}),
    "opened": (by_open, "pr", "pr", {}),
    "opened and replaced": (by_open, "tas", "tas", {"overwrite": True}),
}
#: Which groups are consolidated.
LEVELS = [("",), ("in", "in/most")]


@pytest.mark.parametrize("levels", LEVELS, ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_readers_find_what_was_written(tmp_path, caplog, way, zarr_format, levels):
    make(tmp_path / "g.zarr", zarr_format, levels)
    by, name, array, said = WAYS[way]
    by(tmp_path, f"{tmp_path}/g.zarr/in/most/{name}", **said)
    np.testing.assert_array_equal(seen(tmp_path / "g.zarr", array), NEW)
    np.testing.assert_array_equal(seen(tmp_path / "g.zarr", "other"), OLD)
    root = zarr.open_group(tmp_path / "g.zarr", mode="r")
    assert dict(root.attrs) == {"a": 1.5} and dict(root["in/most"].attrs) == {"b": [1, "x"]}
    told = [r.getMessage() for r in caplog.records if "consolidated" in r.getMessage()]
    assert [line.partition(":")[0] for line in told] == [
        f"{tmp_path}/g.zarr/{level}".rstrip("/") for level in sorted(levels, reverse=True)
    ]
    assert not any(name.startswith(".zarr.json") for name in os.listdir(tmp_path / "g.zarr"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("way", ["replaced", "new", "group replaced", "saved"])
def test_readers_at_an_address_find_it(bucket, tmp_path, way, zarr_format):
    make(f"{bucket}/g.zarr", zarr_format)
    by, name, array, said = WAYS[way]
    by(tmp_path, f"{bucket}/g.zarr/in/most/{name}", **said)
    np.testing.assert_array_equal(seen(f"{bucket}/g.zarr", array), NEW)
    assert not any(is_consolidated(f"{bucket}/g.zarr", level) for level in ("", "in", "in/most"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("way", ["replaced", "new"])
def test_a_kill_at_an_address_leaves_no_other_values(
    killed_after, local_bucket, tmp_path, way, zarr_format
):
    """What is replaced there is gone before the new one is whole."""
    by, name, array, said = WAYS[way]
    place = f"{local_bucket.address}/g.zarr"
    make(place, zarr_format)
    kept = shutil.copytree(local_bucket.path, tmp_path / "kept")
    left = killed_after[0]
    by(tmp_path, f"{place}/in/most/{name}", **said)
    changes = left - killed_after[0]
    views = set()
    for count in range(changes):
        local_bucket.clear()
        shutil.copytree(kept, local_bucket.path)
        killed_after[0] = count
        with pytest.raises(Killed):
            by(tmp_path, f"{place}/in/most/{name}", **said)
        killed_after[0] = left
        found = seen(place, array)
        views |= {k for k, state in enumerate((OLD, NEW)) if np.array_equal(state, found)}
        assert found is None or np.array_equal(found, OLD) or np.array_equal(found, NEW)
    assert views == ({0, 1} if way == "replaced" else {1})


def test_a_server_that_does_not_answer_is_an_error_and_one_that_forbids_is_none(
    monkeypatch, local_bucket, tmp_path
):
    """Where this program may write an array, but not look at what is above it."""

    class PermissionDeniedError(Exception):
        pass

    ask = addresses.get

    def get(cause, address, key):
        if address.endswith("/g.zarr") or address.endswith("/in"):
            raise dm.errors.IoFailed(f"{address} cannot be read") from cause
        return ask(address, key)

    group = f"{local_bucket.address}/g.zarr"
    make(group, 3)
    with monkeypatch.context() as patch:
        patch.setattr(addresses, "get", functools.partial(get, OSError("it is busy")))
        with pytest.raises(dm.errors.IoFailed, match="/in cannot be read"):
            by_move(tmp_path, f"{group}/in/most/pr")
    assert is_consolidated(group, "")
    monkeypatch.setattr(addresses, "get", functools.partial(get, PermissionDeniedError("no")))
    by_move(tmp_path, f"{group}/in/most/pr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_finds_what_it_did_not_write(tmp_path, zarr_format):
    dims, said = ["time", "y", "x"], {"consolidated": True, "zarr_format": zarr_format}
    xarray.Dataset({"tas": (dims, OLD)}).to_zarr(tmp_path / "g.zarr", **said)
    with pytest.warns(RuntimeWarning, match="consolidated"):
        dm.save(
            tmp_path / "g.zarr" / "s.zarr", {"tas": (NEW, LINE)}, comm=MPI.COMM_SELF,
            dimensions={"tas": dims},
        )  # fmt: skip
        move(tmp_path / "g.zarr/s.zarr/tas", tmp_path / "g.zarr/tas", overwrite=True)
        found = xarray.open_zarr(tmp_path / "g.zarr", chunks=None)
    np.testing.assert_array_equal(found["tas"], NEW)


class Watched:
    """Has a reader look before and after each change in a file system or store."""

    def __init__(self, place, name, old):
        self.place, self.name, self.old, self.views = place, name, old, []

    def look(self):
        found = seen(self.place, self.name)
        states = [self.old, NEW]
        view = [
            k for k, state in enumerate(states)
            if (state is None) == (found is None) and np.array_equal(state, found)
        ]  # fmt: skip
        assert view, "neither the old values nor the new ones"
        self.views += view[:1]

    def around(self, change):
        @functools.wraps(change)
        def watched(*said):
            self.look()
            try:
                return change(*said)
            finally:
                self.look()

        return watched


@pytest.mark.parametrize("has_exchange", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("way", ["replaced", "new", "opened and replaced"])
def test_at_any_moment_a_reader_sees_the_old_or_the_new(
    tmp_path, monkeypatch, way, zarr_format, has_exchange
):
    """Also the one that comes when the process was killed: nothing happens after that."""
    make(tmp_path / "g.zarr", zarr_format)
    by, name, array, said = WAYS[way]
    watched = Watched(tmp_path / "g.zarr", array, OLD if name == "tas" else None)
    if not has_exchange:
        monkeypatch.setattr(placing, "rename_with", lambda *said: False)
        # Between its two steps nothing is under the name: the reader does not look.
        in_steps = placing._place_in_two_steps
        monkeypatch.setattr(placing, "_place_in_two_steps", watched.around(in_steps))
    else:
        monkeypatch.setattr(placing, "rename_with", watched.around(placing.rename_with))
        for change in ("replace", "rename", "unlink", "open"):
            monkeypatch.setattr(os, change, watched_there(watched, getattr(os, change)))
    monkeypatch.setattr(zarr_group, "_write_object", watched.around(zarr_group._write_object))
    monkeypatch.setattr(zarr_group, "_delete", watched.around(zarr_group._delete))
    by(tmp_path, f"{tmp_path}/g.zarr/in/most/{name}", **said)
    monkeypatch.undo()
    watched.look()
    assert sorted(watched.views) == watched.views and set(watched.views) == {0, 1}


def watched_there(watched, change):
    """Watch a function of `os`, but not while the reader looks."""
    busy = []

    @functools.wraps(change)
    def called(*said, **named):
        if busy or not (isinstance(said[0], str) and str(watched.place) in said[0]):
            return change(*said, **named)
        busy.append(1)
        try:
            watched.look()
        finally:
            busy.clear()
        return change(*said, **named)

    return called


def test_a_failed_move_leaves_them(tmp_path):
    make(tmp_path / "g.zarr", 3)
    (tmp_path / "bad.zarr").mkdir()
    made = zarr.create_array(
        tmp_path / "bad.zarr", shape=(4,), chunks=(2,), dtype="f8", overwrite=True
    )
    made[...] = 1
    (tmp_path / "bad.zarr/c/1").write_bytes(b"no chunk")
    with pytest.raises(dm.errors.IoFailed):
        move(tmp_path / "bad.zarr", tmp_path / "g.zarr/in/most/tas", overwrite=True)
    assert all(is_consolidated(tmp_path / "g.zarr", level) for level in ("", "in", "in/most"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_where_they_cannot_be_removed_nothing_is_replaced(tmp_path, monkeypatch, zarr_format):
    make(tmp_path / "g.zarr", zarr_format)
    before = sorted(os.listdir(tmp_path / "g.zarr/in/most"))

    def full(*said):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "replace_file", full)
    monkeypatch.setattr(unfinished, "remove_file", full)
    with pytest.raises(
        dm.errors.IoFailed, match=r"consolidated metadata, which .* cannot be removed"
    ):
        by_move(tmp_path, tmp_path / "g.zarr/in/most/tas", overwrite=True)
    np.testing.assert_array_equal(seen(tmp_path / "g.zarr", "tas"), OLD)
    assert sorted(os.listdir(tmp_path / "g.zarr/in/most")) == before


def test_a_program_that_was_killed_leaves_no_file_for_long(tmp_path):
    make(tmp_path / "g.zarr", 3)
    left = tmp_path / "g.zarr" / ".zarr.json.0123456789ab.partial"
    left.write_text("{")
    by_move(tmp_path, tmp_path / "g.zarr/in/most/tas", overwrite=True)
    assert not left.exists()


def test_the_rest_of_a_group_stays(tmp_path):
    make(tmp_path / "g.zarr", 3)
    path = tmp_path / "g.zarr/zarr.json"
    path.chmod(0o640)
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, "extra": {"must_understand": False}}))
    by_move(tmp_path, tmp_path / "g.zarr/in/most/tas", overwrite=True)
    after = json.loads(path.read_text())
    del before["consolidated_metadata"]
    assert after == {**before, "extra": {"must_understand": False}}
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_is_in_no_group_asks_no_further(tmp_path):
    """A directory between two groups: nobody finds what is below it from above."""
    make(tmp_path / "g.zarr", 3)
    (tmp_path / "g.zarr/plain").mkdir()
    by_move(tmp_path, tmp_path / "g.zarr/plain/tas")
    assert is_consolidated(tmp_path / "g.zarr", "")


def test_a_recording_within_a_group(tmp_path):
    make(tmp_path / "g.zarr", 3)
    recorded = _Group(tmp_path / "g.zarr/in/most/run.zarr")
    recorded.append("u", 1, NEW[0])
    found = zarr.open_group(tmp_path / "g.zarr", mode="r")["in/most/run.zarr/u"]
    np.testing.assert_array_equal(found[0], NEW[0])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_that_others_left_out_of_date(bucket, tmp_path, zarr_format):
    """Names in them that are gone, and attributes that have changed since."""
    place = f"{bucket}/g.zarr"
    root = zarr.create_group(store(place), zarr_format=zarr_format, attributes={"a": 1})
    root.create_array("u", data=NEW)
    for name in ("gone", "there"):
        root.create_array(name, shape=(), dtype="f8")[...] = 2
    zarr.consolidate_metadata(store(place))
    fresh = zarr.open_group(store(place), mode="r+", use_consolidated=False)
    fresh.attrs["a"] = 2
    del fresh["gone"]
    loaded = dm.load(place, {"u": None}, comm=MPI.COMM_SELF)
    np.testing.assert_array_equal(loaded["u"], NEW)
    assert loaded["a"] == 2 and loaded["there"] == 2 and "gone" not in loaded
    move(place, tmp_path / "b.zarr")
    assert sorted(zarr.open_group(tmp_path / "b.zarr", mode="r")) == ["there", "u"]


def whole(folder, output, zarr_format):
    make(folder / "of.zarr", 5 - zarr_format)
    root = zarr.open_group(folder / "of.zarr", use_consolidated=False)
    root.create_group("in/empty")
    root.create_array("in/z", data=OLD)
    move(folder / "of.zarr", output, zarr_format=zarr_format)


def file(folder, output, zarr_format):
    dataset = xarray.Dataset({"u": (("y", "x"), OLD[0])})
    dataset.to_netcdf(folder / "of.nc", engine="h5netcdf", encoding={"u": {"_FillValue": None}})
    move(folder / "of.nc", output, zarr_format=zarr_format)


def saved(folder, output, zarr_format):
    state = {"g/u": (NEW, LINE), "h/u": (NEW, LINE), "v": (OLD, None), "g/w": (OLD, None)}
    state |= {"nan": np.nan, "step": 7}
    dm.save(output, state, comm=MPI.COMM_SELF, zarr_format=zarr_format)


@pytest.mark.parametrize("at_address", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("write", [whole, file, saved])
def test_new_groups_have_it(tmp_path, local_bucket, write, zarr_format, at_address):
    write(tmp_path, f"{local_bucket.address if at_address else tmp_path}/b.zarr", zarr_format)
    place = (local_bucket.path if at_address else tmp_path) / "b.zarr"
    shutil.copytree(place, tmp_path / "again.zarr")
    zarr.consolidate_metadata(tmp_path / "again.zarr")
    written, expected = map(zarr.open_consolidated, (place, tmp_path / "again.zarr"))
    assert written.metadata == expected.metadata
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zarr.open_consolidated(place)
