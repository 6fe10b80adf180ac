# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 outputs of several files: one array to h5py, and always complete, old or absent."""

import contextlib
import os
import re
import shutil

import h5py
import numpy as np
import pytest

import datamover as dm
from datamover import move_command
from datamover.files import flat, intend, move, parts, placing


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("DATAMOVER_TEST_SEED", "11")))


@pytest.fixture
def place(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(7.0 * 30).reshape(7, 30))
    return tmp_path


def folders(place):
    return sorted(name for name in os.listdir(place) if name.endswith(".parts"))


def visible(place):
    """What lies there, with a star in the place of tokens."""
    return sorted(re.sub(r"\.[0-9a-f]{12}\.", ".*.", name) for name in os.listdir(place))


def read(path, name="u"):
    with h5py.File(path) as file:
        return file[name][...]


@pytest.mark.parametrize("dtype", ["f4", ">i2", "u1", "c16", "S5", [("a", "i1"), ("b", "<f8")]])
@pytest.mark.parametrize("compressor", [None, "none", "gzip"])
def test_h5py_reads_the_files_as_one_array(tmp_path, rng, dtype, compressor):
    dtype = np.dtype(dtype)
    for case in range(4):
        shape = tuple(int(n) for n in rng.integers(1, 12, 3))
        shape = (1, *shape[1:]) if case == 0 else shape
        chunks = tuple(int(n) for n in rng.integers(1, 5, 3))
        axes = tuple(int(a) for a in rng.permutation(3))
        array = rng.integers(1, 100, np.prod(shape) * dtype.itemsize, "u1").view(dtype)
        array = array.reshape(shape)
        np.save(tmp_path / "a.npy", array)
        expected = array.transpose(axes)
        said = {"axes": axes, "check": "crc32c", "overwrite": True, "max_bytes": 1 << 16}
        units = (1, 1, 1)
        if compressor is not None:
            said |= {"chunks": chunks, "compressor": compressor}
            units = tuple(map(min, chunks, expected.shape))
        counts = [-(-n // c) for n, c in zip(expected.shape, units, strict=True)]
        dim = next((d for d, n in enumerate(counts) if n > 1), 0)
        writers = int(rng.integers(1, counts[dim] + 1))
        output = f"{tmp_path}/b.h5:/x/u"
        intended = intend(tmp_path / "a.npy", output, writers=writers, **said)
        assert intended.files == writers + 1
        move(None, tmp_path / "a.npy", output, writers=writers, **said)
        (folder,) = folders(tmp_path)
        assert len(os.listdir(tmp_path / folder)) == writers
        with h5py.File(tmp_path / "b.h5") as file:
            made = file["x/u"]
            assert made.is_virtual and made.dtype == dtype
            assert made[...].tobytes() == expected.tobytes()
        rows = 0
        for k in range(writers):
            with h5py.File(tmp_path / folder / f"{k}.h5") as file:
                part = file["x/u"]
                assert part.chunks == (None if compressor is None else units)
                assert part.compression == ("gzip" if compressor == "gzip" else None)
                rows += part.shape[dim]
        assert expected.shape[dim] <= rows < expected.shape[dim] + units[dim]
        move(None, output, tmp_path / "c.npy", overwrite=True)
        assert np.load(tmp_path / "c.npy").tobytes() == expected.tobytes()
        with pytest.raises(dm.InvalidArgument, match=f"has {counts[dim]} (ind|chunk)"):
            move(None, tmp_path / "a.npy", output, writers=counts[dim] + 1, **said)
        assert folders(tmp_path) == [folder]


def test_attributes_and_names_of_dimensions_are_kept(place):
    with h5py.File(place / "a.h5", "w") as file:
        file["u"] = np.arange(6)
        file["u"].attrs["units"] = "m"
        file["u"].dims[0].label = "x"
    move(None, f"{place}/a.h5:/u", f"{place}/b.h5:/u", writers=2)
    with h5py.File(place / "b.h5") as file:
        assert file["u"].attrs["units"] == "m" and file["u"].dims[0][0].name == "/x"


@pytest.mark.parametrize("name", ["%b.h5", "a%%s.h5", "ä [1].h5", "x.h5.parts.h5", "-n.h5"])
def test_any_name_will_do(place, name):
    for member in ("u", "50%b", "ü/%%"):
        output = f"{place}/{name}:/{member}"
        move(None, place / "a.npy", output, writers=3, overwrite_group=True)
        assert len(folders(place)) == 1
        np.testing.assert_array_equal(read(place / name, member), np.load(place / "a.npy"))
        move(None, output, place / "c.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(place / "c.npy"), np.load(place / "a.npy"))


def test_files_are_found_where_they_are_moved_to_together(place, monkeypatch):
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    os.mkdir(place / "other")
    for name in ("b.h5", *folders(place)):
        os.rename(place / name, place / "other" / name)
    os.rename(place / "other" / "b.h5", place / "other" / "c.h5")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(read(place / "other" / "c.h5"), np.load(place / "a.npy"))


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_old_output_goes_with_its_files(place, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(placing, "rename_with", lambda *names: False)
    np.save(place / "n.npy", np.arange(4))
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    (old,) = folders(place)
    with pytest.raises(dm.IoError, match="exists"):
        move(None, place / "n.npy", f"{place}/b.h5:/u", writers=2)
    with pytest.raises(dm.IoError, match="'u', not 'v'"):
        move(None, place / "n.npy", f"{place}/b.h5:/v", writers=2, overwrite=True)
    assert folders(place) == [old] and len(read(place / "b.h5")) == 7
    move(None, place / "n.npy", f"{place}/b.h5:/u", writers=3, overwrite=True)
    assert visible(place) == ["a.npy", "b.h5", "b.h5.*.parts", "n.npy"] and folders(place) != [old]
    assert read(place / "b.h5").tolist() == [0, 1, 2, 3]
    move(None, place / "n.npy", f"{place}/b.h5:/u", overwrite=True)
    assert visible(place) == ["a.npy", "b.h5", "n.npy"]
    assert read(place / "b.h5").tolist() == [0, 1, 2, 3]


def test_an_old_output_goes_with_its_files_when_another_process_ends_first(place):
    np.save(place / "n.npy", np.arange(4))
    move(None, place / "n.npy", f"{place}/b.h5:/u", writers=2)
    said = (None, f"{place}/b.h5", "0123456789ab", True, False, "u")
    first, second = (placing.LocalPlace(*said) for _ in range(2))
    first.claim(is_directory=False, dims={})
    second.hold()
    with h5py.File(first.path, "w", locking=False) as file:
        file["u"] = np.arange(3)
    first.finish(None)
    second.give_back()
    first.give_back()
    assert visible(place) == ["a.npy", "b.h5", "n.npy"]
    assert read(place / "b.h5").tolist() == [0, 1, 2]


def test_an_output_of_several_files_is_read_in_large_pieces(place, rng):
    array = rng.integers(0, 200, (120, 110, 100)).astype("u1")  # a bit more than one piece
    np.save(place / "big.npy", array)
    move(None, place / "big.npy", f"{place}/b.h5:/u", writers=3)
    report = move(None, f"{place}/b.h5:/u", place / "c.npy", check="crc32c")
    assert 2 <= report.reads <= 8
    np.testing.assert_array_equal(np.load(place / "c.npy"), array)
    move(None, f"{place}/b.h5:/u", place / "d.npy", region=dm.Region((7, 0, 3), (90, 110, 99)))
    np.testing.assert_array_equal(np.load(place / "d.npy"), array[7:90, :, 3:99])
    slices = (slice(7, 90), slice(None), slice(3, -1))
    move(None, f"{place}/b.h5:/u", place / "d.npy", region=slices, overwrite=True)
    np.testing.assert_array_equal(np.load(place / "d.npy"), array[slices])


@pytest.mark.parametrize(
    "region", [3, (slice(0, 4, 2), slice(None)), ((0, 1, 2), (0, 1)), ("a", "b")]
)
def test_what_is_no_region_is_refused(place, region):
    with pytest.raises(dm.InvalidArgument, match=r"region is .*must be a datamover\.Region"):
        move(None, place / "a.npy", place / "b.npy", region=region)


def test_files_of_others_stay(place):
    """Those of an output that was renamed, and what somebody has put beside them."""
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    (kept,) = folders(place)
    os.rename(place / "b.h5", place / "kept.h5")
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    (second,) = set(folders(place)) - {kept}
    (place / second / "notes").write_text("mine")
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2, overwrite=True)
    np.testing.assert_array_equal(read(place / "kept.h5"), np.load(place / "a.npy"))
    assert os.listdir(place / second) == ["notes"]
    # A file that names what is not its own: nothing of that goes with it.
    with h5py.File(place / "c.h5", "w") as file:
        layout = h5py.VirtualLayout((7, 30), "f8")
        layout[3:] = h5py.VirtualSource(f"{kept}/1.h5", "u", (4, 30))
        file.create_virtual_dataset("u", layout)
    move(None, place / "a.npy", f"{place}/c.h5:/u", overwrite=True)
    np.testing.assert_array_equal(read(place / "kept.h5"), np.load(place / "a.npy"))


@pytest.mark.parametrize("replaces", [True, False])
def test_a_failure_leaves_nothing(place, monkeypatch, replaces):
    if replaces:
        move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    before = sorted(os.listdir(place))

    def full(self, position, data):
        raise OSError(28, "No space left on device", "b.h5")

    monkeypatch.setattr(flat.FlatFile, "_write_run", full)
    with pytest.raises(dm.IoError, match="not enough space"):
        move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2, overwrite=True)
    assert sorted(os.listdir(place)) == before
    if replaces:
        np.testing.assert_array_equal(read(place / "b.h5"), np.load(place / "a.npy"))


class Killed(BaseException):
    """Ends a move where it is, as SIGKILL would."""


#: The move below does fewer things to files than these.
MOMENTS = 16


@pytest.mark.parametrize(
    ("replaces", "exchanges"), [(False, True), (True, True), (True, False)], ids=str
)
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_what_is_killed_is_removed_by_the_next_move(
    place, monkeypatch, replaces, exchanges, moment
):
    """Nothing is cleaned up by who is killed; the output is old or new, or absent."""
    np.save(place / "n.npy", np.arange(5))
    if replaces:
        move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2)
    steps = [0]

    def until_killed(name, module=os):
        real = getattr(module, name)

        def step(*arguments, **named):
            steps[0] += 1
            if steps[0] > moment:
                raise Killed
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, step)

    for name in ("mkdir", "replace", "rename", "unlink", "fsync", "pwritev"):
        until_killed(name)
    if exchanges:
        until_killed("rename_with", placing)
    else:
        monkeypatch.setattr(placing, "rename_with", lambda *names: False)

    def give_back(self, real=placing.LocalPlace.give_back):
        try:
            if steps[0] <= moment:
                real(self)
        finally:
            if self._lock is not None:
                os.close(self._lock)

    monkeypatch.setattr(placing.LocalPlace, "give_back", give_back)
    with contextlib.suppress(Killed):
        move(None, place / "n.npy", f"{place}/b.h5:/u", writers=2, overwrite=True)
    monkeypatch.undo()
    if (place / "b.h5").exists():
        found = read(place / "b.h5")
        assert found.tolist() == [0, 1, 2, 3, 4] or (replaces and found.shape == (7, 30))
    else:
        assert not replaces or not exchanges  # then the old one waits under its hidden name
    if moment == MOMENTS - 1:
        assert steps[0] <= moment  # all moments were tried
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=2, overwrite=True)
    assert visible(place) == ["a.npy", "b.h5", "b.h5.*.parts", "n.npy"]
    np.testing.assert_array_equal(read(place / "b.h5"), np.load(place / "a.npy"))


def test_a_file_that_is_missing_or_broken_is_an_error(place):
    """HDF5 itself reads fill values there."""
    move(None, place / "a.npy", f"{place}/b.h5:/u", writers=3)
    (folder,) = folders(place)
    part = place / folder / "1.h5"
    shutil.copy(part, place / "whole.h5")
    os.truncate(part, part.stat().st_size - 9)
    with pytest.raises(dm.IoError, match=r"1\.h5"):
        move(None, f"{place}/b.h5:/u", place / "c.npy")
    os.unlink(part)
    assert np.isnan(read(place / "b.h5")).any()
    with pytest.raises(dm.IoError, match=rf"file {folder}/1\.h5 is missing"):
        move(None, f"{place}/b.h5:/u", place / "c.npy")
    with h5py.File(part, "w") as file:
        file["other"] = 1
    with pytest.raises(dm.IoError, match="u is missing in the file"):
        move(None, f"{place}/b.h5:/u", place / "c.npy")
    shutil.copy(place / "whole.h5", part)
    move(None, f"{place}/b.h5:/u", place / "c.npy")
    np.testing.assert_array_equal(np.load(place / "c.npy"), np.load(place / "a.npy"))
    with pytest.raises(dm.InvalidArgument, match="is a part of output"):
        move(None, f"{part}:/u", f"{place}/b.h5:/u", overwrite=True)


@pytest.mark.parametrize("names", [[("a.h5", "u")], [(".", "u")], [("b.h5", "v"), ("a.h5", "/u")]])
def test_a_virtual_dataset_of_itself_is_an_error(tmp_path, names):
    """HDF5 goes through it until its stack is at its end."""
    files = [("a.h5", "u"), ("b.h5", "v")]
    for (file_name, name), (leads_to, member) in zip(files, names, strict=False):
        with h5py.File(tmp_path / file_name, "w") as file:
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource(leads_to, member, (4,))
            file.create_virtual_dataset(name, layout)
    with pytest.raises(dm.IoError, match="leads to itself"):
        move(None, f"{tmp_path}/a.h5:/u", tmp_path / "c.npy")


@pytest.mark.parametrize(
    ("output", "writers", "error", "words"),
    [
        ("b.npy", 2, dm.InvalidArgument, "writers=2 is for hdf5 outputs"),
        ("b.zarr", 2, dm.InvalidArgument, "writers=2 is for hdf5 outputs"),
        ("b.h5:/u", 8, dm.InvalidArgument, "dimension 0, which has 7 indices"),
        ("b.h5:/u", 0, dm.InvalidArgument, "from 1 to 256"),
        ("b.h5:/u", 10**9, dm.InvalidArgument, "from 1 to 256"),
        ("b.h5:/u", "2", dm.WrongType, "number of files"),
        ("b.h5:/u", True, dm.WrongType, "number of files"),
        ("b.h5:/u", 2.0, dm.WrongType, "number of files"),
        ("b.h5:/u", np.int64(8), dm.InvalidArgument, "dimension 0, which has 7 indices"),
    ],
)
def test_what_does_not_fit_is_refused(place, output, writers, error, words):
    with pytest.raises(error, match=words):
        move(None, place / "a.npy", f"{place}/{output}", writers=writers)
    assert os.listdir(place) == ["a.npy"]


def test_what_has_no_rows_is_refused(place):
    for shape in ((), (0, 4), (4, 0)):
        np.save(place / "e.npy", np.zeros(shape))
        with pytest.raises(dm.InvalidArgument, match="is not cut into files"):
            move(None, place / "e.npy", f"{place}/b.h5:/u", writers=1)
    assert sorted(os.listdir(place)) == ["a.npy", "e.npy"]


def test_the_command(place, capsys):
    words = [str(place / "a.npy"), f"{place}/b.h5:/u", "--writers", "3"]
    assert move_command.run([*words, "--dry-run"]) == 0
    assert "to 4 files" in capsys.readouterr().out
    assert move_command.run(words) == 0
    assert len(os.listdir(place / folders(place)[0])) == 3
    assert move_command.run([words[0], f"{place}/b.npy", "--writers", "3"]) == 1
    assert "--writers 3 is for hdf5 outputs" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        move_command.run([*words[:2], "--writers", "0"])


def test_names_by_which_files_go_together():
    temporary = placing.temporary_path("/d/b.h5", "0123456789ab")
    assert parts.folder_of(temporary) == "/d/b.h5.0123456789ab.parts"
    assert parts.path_of(parts.folder_of(temporary), 3) == "/d/b.h5.0123456789ab.parts/3.h5"
