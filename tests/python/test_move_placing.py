# SPDX-License-Identifier: BSD-3-Clause
"""Replacement of an output: at any moment, the old one or the new one is there, complete."""

import errno
import os
import shutil
import signal

import h5py
import numpy as np
import pytest
import zarr

from datamover.errors import IoFailed
from datamover.files import placing, unfinished


def content(path):
    """What is under a name: "old", "new", or nothing."""
    if not os.path.lexists(path):
        return None
    inside = os.path.join(path, "data") if os.path.isdir(path) else path
    with open(inside) as file:
        return file.read()


def make(path, text, directory):
    if directory:
        path.mkdir()
        (path / "data").write_text(text)
        (path / "zarr.json").write_text("{}")
    else:
        path.write_text(text)


@pytest.fixture(params=[False, True], ids=["file", "directory"])
def two(request, tmp_path):
    """An old output and a complete new one under its hidden name."""
    make(tmp_path / "out", "old", request.param)
    new = tmp_path / ".out.token.partial"
    make(new, "new", request.param)
    return tmp_path, str(new), str(tmp_path / "out"), request.param


def replace(new, output):
    """Place a new output and remove the old one."""
    placing.place(new, output, overwrite=True)
    assert content(output) == "new"
    hidden = {content(name) for name in (new, new + ".old")}
    assert hidden <= {"old", None} and ("old" in hidden or os.path.isfile(output))
    unfinished.clean_up(new, output)


def watch(monkeypatch, output):
    """Record what is under the output's name before and after everything that changes names."""
    seen = []

    def watched(function):
        def call(*arguments, **options):
            seen.append(content(output))
            result = function(*arguments, **options)
            seen.append(content(output))
            return result

        return call

    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    monkeypatch.setattr(shutil, "rmtree", watched(shutil.rmtree))
    monkeypatch.setattr(placing, "rename_with", watched(placing.rename_with))
    return seen


def test_replacement_is_one_step(two, monkeypatch):
    directory, new, output, is_directory = two
    if is_directory and not exchange_works(directory):
        pytest.skip("this file system cannot exchange names")
    seen = watch(monkeypatch, output)
    replace(new, output)
    assert seen[0] == "old" and seen[-1] == "new" and None not in seen
    assert sorted(seen, reverse=True) == seen  # old … old new … new
    assert os.listdir(directory) == ["out"]


def exchange_works(directory):
    for name in ("x", "y"):
        (directory / name).write_text(name)
    works = placing.rename_with(str(directory / "x"), str(directory / "y"), placing.RENAME_EXCHANGE)
    for name in ("x", "y"):
        (directory / name).unlink()
    return works


def test_without_exchange_both_are_kept_until_the_new_one_is_in_place(two, monkeypatch):
    directory, new, output, is_directory = two
    monkeypatch.setattr(placing, "rename_with", lambda *arguments: False)
    moments = []

    def rename(source, destination, rename=os.rename):
        rename(source, destination)
        moments.append(sorted(filter(None, map(content, (output, new, new + ".old")))))

    monkeypatch.setattr(os, "rename", rename)
    replace(new, output)
    assert content(output) == "new" and os.listdir(directory) == ["out"]
    assert moments == ([["new", "old"]] * 2 if is_directory else [])


def test_failure_between_the_two_steps_restores_the_old_one(two, monkeypatch):
    _, new, output, is_directory = two
    if not is_directory:
        pytest.skip("files are replaced in one step")
    monkeypatch.setattr(placing, "rename_with", lambda *arguments: False)

    def rename(source, destination, rename=os.rename):
        if source == new:
            raise OSError(errno.EIO, "broken")
        rename(source, destination)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="broken"):
        placing.place(new, output, overwrite=True)
    assert content(output) == "old" and content(new) == "new"


@pytest.mark.parametrize("flags", [True, False], ids=["renameat2", "without"])
def test_an_output_that_came_meanwhile_is_not_lost(two, monkeypatch, flags):
    _, new, output, _ = two
    if not flags:
        monkeypatch.setattr(placing, "rename_with", lambda *arguments: False)
    with pytest.raises(IoFailed, match="in the meantime"):
        placing.place(new, output, overwrite=False)
    assert content(output) == "old" and content(new) == "new"


@pytest.mark.parametrize("killed_after", ["nothing", "first step", "second step"])
def test_cleaning_up_after_a_kill(two, killed_after):
    directory, new, output, _ = two
    if killed_after != "nothing":
        os.rename(output, new + ".old")
    if killed_after == "second step":
        os.rename(new, output)
    unfinished.clean_up(new, output)
    assert content(output) == ("new" if killed_after == "second step" else "old")
    assert os.listdir(directory) == ["out"]


def test_a_directory_may_be_removed_by_two_at_once(tmp_path, monkeypatch):
    for k in range(3):
        (tmp_path / "old" / f"{k}").mkdir(parents=True)
        (tmp_path / "old" / f"{k}" / "data").write_text("old")
    unlink = os.unlink

    def unlink_after_another(*arguments, **options):
        unlink(*arguments, **options)
        unlink(*arguments, **options)

    monkeypatch.setattr(os, "unlink", unlink_after_another)
    unfinished.remove(str(tmp_path / "old"))
    assert os.listdir(tmp_path) == []


def test_nobody_need_have_been_killed_where_two_replace_one_group(tmp_path, caplog):
    if not exchange_works(tmp_path):
        pytest.skip("this file system cannot exchange names")
    make(tmp_path / "a.zarr", "old", directory=True)
    first, second = (
        placing.LocalPlace(None, str(tmp_path / "a.zarr"), 12 * token, True, True, None)
        for token in "ab"
    )
    first.claim(is_directory=True)
    first.write({"zarr.json": b"{}"})
    first.finish()  # it is about to remove what it replaced
    second.claim(is_directory=True)
    assert f"removed {first.path}, which no program held" in caplog.text
    assert "killed, or that is just beginning or ending" in caplog.text
    second.finish()
    first.give_back()
    second.give_back()
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_chunk_that_comes_while_its_directory_is_removed(tmp_path, monkeypatch):
    """One process has left, another still writes: nothing stays when both have ended."""
    said = (None, str(tmp_path / "a.zarr"), "0123456789ab", False, False, None)
    first, second = (placing.LocalPlace(*said) for _ in range(2))
    first.claim(is_directory=True)
    second.hold()
    os.makedirs(f"{first.path}/c/0")
    rmdir, late = os.rmdir, [f"{first.path}/c/1"]

    def rmdir_after_another(path, **options):
        for chunk in late:
            os.makedirs(chunk)
        late.clear()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", rmdir_after_another)
    first.give_back()
    assert late == [] and os.path.isdir(f"{second.path}/c/1")
    second.give_back()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_was_removing_is_removed(two):
    directory, new, output, _ = two

    def killed(path, **__):
        if os.path.lexists(path):
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        shutil.rmtree = os.unlink = killed
        unfinished.clean_up(new, output)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    unfinished.clean_up(new, output)
    assert os.listdir(directory) == ["out"] and content(output) == "old"


def test_others_find_what_a_killed_process_was_removing(two, caplog):
    directory, new, output, _ = two
    left = unfinished.temporary_path(output, "0123456789ab") + ".gone"
    os.rename(new, left)
    fd = unfinished.hold(left)
    unfinished.remove_leftovers(output)
    assert os.path.lexists(left)  # its process is alive
    unfinished.let_go(fd)
    unfinished.remove_leftovers(output)
    assert os.listdir(directory) == ["out"] and "which no program held" in caplog.text


def place_of(output, member=None):
    """A place whose output may replace an array, or this dataset."""
    return placing.LocalPlace(None, str(output), "0123456789ab", True, False, member)


def test_a_group_that_took_the_place_of_an_array_meanwhile_is_not_lost(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros(2))
    place = place_of(tmp_path / "a.zarr")
    place.check()
    place.claim(is_directory=True)
    shutil.rmtree(tmp_path / "a.zarr")
    zarr.create_group(tmp_path / "a.zarr").create_array("u", data=np.arange(2.0))
    with pytest.raises(IoFailed, match="is a Zarr group, perhaps with many arrays"):
        place.finish()
    place.give_back()
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["u"][...].tolist() == [0, 1]


def test_a_dataset_that_was_added_meanwhile_is_not_lost(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.zeros(2)
    place = place_of(tmp_path / "a.h5", "u")
    place.check()
    place.claim(is_directory=False)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["v"] = np.arange(2.0)
    with pytest.raises(IoFailed, match="of several datasets"):
        place.finish()
    place.give_back()
    assert os.listdir(tmp_path) == ["a.h5"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["v"][...].tolist() == [0, 1]
