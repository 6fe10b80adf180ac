# SPDX-License-Identifier: BSD-3-Clause
"""Invalid or hostile inputs: each gets one clear line and leaves everything as it was."""

import json
import os
import shutil
import socket
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import datamover as dm
from datamover import cli
from datamover.files import intend, move
from datamover.files.chunk_plan import ChunkPlan

ARRAY = np.arange(24.0).reshape(4, 6)


def npy(header, data=bytes(192)):
    """An .npy file of version 1 with any header."""
    text = header.encode("latin1") if isinstance(header, str) else header
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def dict_header(descr="'<f8'", shape="(4, 6)", order="False"):
    return npy(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")


def zarr_metadata(**changed):
    """The zarr.json of a small array with some fields changed."""
    made = zarr.create_array({}, shape=(4, 6), chunks=(2, 3), dtype="f8", fill_value=0.0)
    plain = json.loads(json.dumps(made.metadata.to_dict(), default=str))
    return json.dumps({**plain, **changed})


#: Contents of files given as INPUT: (name, bytes, word of the message).
FILES = [
    ("empty.npy", b"", "not a readable .npy file"),
    ("magic.npy", b"\x93NUMPY", "not a readable .npy file"),
    ("version.npy", b"\x93NUMPY\x09\x09" + bytes(100), "not a readable .npy file"),
    ("png.npy", b"\x89PNG\r\n" + bytes(200), "not a readable .npy file"),
    ("long_header.npy", b"\x93NUMPY\x01\x00\xff\xff{}", "not a readable .npy file"),
    ("zeros_header.npy", npy(bytes(64)), "not a readable .npy file"),
    ("no_dict.npy", npy("[1, 2, 3]\n"), "not a readable .npy file"),
    ("no_shape.npy", npy("{'descr': '<f8', 'fortran_order': False}\n"), "not a readable .npy file"),
    ("deep.npy", npy("(" * 5000 + ")" * 5000), "not a readable .npy file"),
    ("code.npy", npy("__import__('os').system('touch /tmp/x')\n"), "not a readable .npy file"),
    ("negative.npy", dict_header(shape="(4, -6)"), "negative extent"),
    ("two_negatives.npy", dict_header(shape="(-4, -6)"), "negative extent"),
    ("words.npy", dict_header(shape="('a', 6)"), "not a readable .npy file"),
    ("float_shape.npy", dict_header(shape="(4.0, 6)"), "not a readable .npy file"),
    ("bool_shape.npy", dict_header(shape="(True, 24)"), "not a readable .npy file"),
    ("list_shape.npy", dict_header(shape="[4, 6]"), "not a readable .npy file"),
    ("dict_shape.npy", dict_header(shape="{4: 6}"), "not a readable .npy file"),
    ("more_keys.npy", dict_header(shape="(4, 6), 'other': 1"), "not a readable .npy file"),
    ("huge.npy", dict_header(shape=f"({2**40}, {2**40})"), "truncated"),
    ("beyond.npy", dict_header(shape=f"({10**30},)"), "truncated"),
    ("zero_huge.npy", dict_header(shape=f"(0, {10**30})"), "2**63 bytes"),
    ("f9.npy", dict_header(descr="'<f9'"), "not a readable .npy file"),
    ("unit.npy", dict_header(descr="'<M8[s/0]'"), "not a readable .npy file"),
    (
        "escaped_unit.npy",
        dict_header(descr=r"[('s[m/s]', '<f8'), ('t', '<M8[s\x2f0]')]"),
        "'<M8[s/0]' has a divided unit",
    ),
    ("unit_of_python_2.npy", dict_header(descr="'<M8[s/0]'", shape="(4L, 6)"), "'<M8[s/0]'"),
    ("object.npy", dict_header(descr="'|O'"), "Python objects"),
    ("object_field.npy", dict_header(descr="[('a', '|O')]"), "Python objects"),
    ("empty_string.npy", dict_header(descr="'|S0'"), "no bytes at all"),
    ("void.npy", dict_header(descr="'|V0'"), "no bytes at all"),
    ("subarray.npy", dict_header(descr="('<f8', (2,))"), "whose elements are arrays"),
    ("truncated.npy", dict_header()[:-1], "truncated"),
    ("dims.npy", dict_header(descr="'|u1'", shape=str((1,) * 9)), "9 dimensions"),
    ("text.txt", b"1 2 3\n", "neither .npy nor Zarr"),
    ("array.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "not a readable HDF5 file"),
    ("npy.zarr", b"\x93NUMPY" + bytes(9), "not a readable .npy file"),
    ("file.zarr", b"{}", "not a directory"),
]  # fmt: skip

#: zarr.json of directories given as INPUT: (content, word of the message).
STORES = [
    ("", "not a readable Zarr array"),
    ("{not json", "not a readable Zarr array"),
    ("[]", "not a readable Zarr array"),
    ("{}", ""),
    ("null", "not a readable Zarr array"),
    ('{"zarr_format": 3}', ""),
    ('{"zarr_format": 4, "node_type": "array"}', "not a readable Zarr array"),
    ('{"zarr_format": 3, "node_type": "group"}', "Zarr group"),
    ("[" * 100_000, "not a readable Zarr array"),
    (lambda: zarr_metadata(shape=[-4, 6]), ""),
    (lambda: zarr_metadata(shape=[4]), ""),
    (lambda: zarr_metadata(shape="many"), ""),
    (lambda: zarr_metadata(shape=[24], attributes=1e300), "not a readable Zarr array"),
    (lambda: zarr_metadata(data_type="float99"), "not a readable Zarr array"),
    (lambda: zarr_metadata(data_type="string", fill_value=""), ""),
    (lambda: zarr_metadata(codecs=[{"name": "zip-drive"}]), ""),
    (lambda: zarr_metadata(codecs=[]), ""),
    (lambda: zarr_metadata(fill_value="red"), ""),
    (lambda: zarr_metadata(chunk_grid={"name": "hexagonal"}), ""),
    (
        lambda: zarr_metadata(
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 3]}}
        ),
        "",
    ),
]

#: Arguments after `move`: (words, exit code, word of the message); a.npy and old.npy are there.
ARGUMENTS = [
    ("none.npy b.npy", 1, "no input"),
    ("a.npy old.npy", 1, "--overwrite"),
    ("a.npy a.npy --overwrite", 1, "the same"),
    ("a.npy ./a.npy --overwrite", 1, "the same"),
    ("a.npy sub/b.npy", 1, "no directory"),
    ("a.npy old.npy/b.npy", 1, "no directory"),
    ("a.npy b.tif", 1, "is unknown; use an extension"),
    ("a.npy b.npy --format tiff", 1, "unknown format"),
    ("a.npy b.npy --input-format netcdf", 1, "unknown format"),
    ("a.npy b.npy --input-format hdf5", 1, "not a readable HDF5 file"),
    ("a.npy b.npy --compressor bogus", 1, "--compressor bogus is for zarr"),
    ("a.npy b.npy --compressor zstd", 1, "is for zarr or hdf5 outputs"),
    ("a.npy b.npy --chunks 2,3", 1, "--chunks"),
    ("a.npy b.raw --shards 2,3", 1, "--shards"),
    ("a.npy b.zarr --output-order F", 1, "--output-order"),
    ("a.npy b.npy --shape 4,6", 1, "--shape"),
    ("a.npy b.npy --dtype S3", 1, "only numbers are converted"),
    ("a.npy b.npy --dtype f4 --output-dtype f8", 1, "two dtypes"),
    ("a.npy b.npy --region 0:0,:", 1, "some of them"),
    ("a.npy b.npy --region 0:9:2,:", 2, "not a region"),
    ("a.npy b.npy --check md5", 1, "crc32c"),
    ("a.npy b.npy --order C", 1, "--order"),
    ("a.npy b.zarr --compressor bogus", 1, "unknown compressor"),
    ("a.npy b.zarr --chunks 0,3", 1, "must be positive"),
    ("a.npy b.zarr --chunks -2,3", 1, "must be positive"),
    ("a.npy b.zarr --chunks 2", 1, "1 dimensions"),
    ("a.npy b.zarr --chunks 2,3 --shards 3,3", 1, "not multiples"),
    ("a.npy b.zarr --chunks 4611686018427387904,4", 1, "bytes or more"),
    ("a.npy b.zarr --chunks 99999999999999999999999,1", 1, "bytes or more"),
    ("a.npy b.zarr --chunks 2,,3", 2, "not integers"),
    ("a.npy b.zarr --chunks 2.5,3", 2, "not integers"),
    ("a.npy b.npy --axes 0,0", 1, "not a permutation"),
    ("a.npy b.npy --axes 0", 1, "not a permutation"),
    ("a.npy b.npy --axes -1,0", 1, "not a permutation"),
    ("a.npy b.npy --axes 99999999999999999999,0", 1, "not a permutation"),
    ("a.npy b.npy --max-bytes 0", 2, "max-bytes"),
    ("a.npy b.npy --max-bytes 1", 1, "--max-bytes"),
    ("a.npy b.zarr --max-bytes 100", 1, "--max-bytes"),
    ("a.npy b.npy -n 0", 2, "-n"),
    ("a.npy b.npy -n 10000000", 2, "cores; at most"),
    ("a.npy b.npy --output-order X", 2, "neither C nor F"),
    ("a.raw b.npy", 1, "--shape and --dtype"),
    ("a.raw b.npy --shape 4,6", 1, "pass --dtype"),
    ("a.raw b.npy --shape 4,6 --dtype f9", 1, "not a NumPy dtype"),
    ("a.raw b.npy --shape 24 --dtype M8[s/0]", 1, "not a NumPy dtype"),
    ("a.npy b.npy --dtype M8[s/0]", 1, "not a NumPy dtype"),
    ("a.raw b.npy --shape 4,6 --dtype O", 1, "Python objects"),
    ("a.raw b.npy --shape 4,6 --dtype [(", 1, "not a NumPy dtype"),
    ("a.raw b.npy --shape 4,6 --dtype (2,)f4", 1, "whose elements are arrays"),
    ("a.raw b.npy --shape 4,6 --dtype f4", 1, "192 bytes, but"),
    ("a.raw b.npy --shape -4,-6 --dtype f8", 1, "negative"),
    ("a.raw b.npy --shape 99999999999999999999999,6 --dtype f8", 1, "192 bytes, but"),
    ("a.raw b.npy --shape 4,6 --dtype S0", 1, "no bytes at all"),
    ("pipe b.npy", 1, "a pipe"),
    ("pipe.npy b.npy", 1, "a pipe"),
    ("pipe.raw b.npy --shape 4 --dtype f8", 1, "a pipe"),
    ("socket.npy b.npy", 1, "a pipe or a socket"),
    ("/dev/zero b.npy --shape 4 --dtype u1", 1, "device"),
    ("/dev/null b.npy", 1, "device"),
    ("a.npy /dev/null --format raw --overwrite", 1, "not replaced"),
    ("a.npy pipe.npy --overwrite", 1, "not replaced"),
    ("a.npy pipe.npy", 1, "error: pipe.npy is a device, a pipe"),
    ("dangling.npy b.npy", 1, "no input"),
    ("loop.npy b.npy", 1, "loop.npy"),
    ("folder b.npy", 1, "folder"),
    ("folder.npy b.npy", 1, "directory"),
    ("folder.zarr b.npy", 1, "no Zarr array"),
    ("folder b.npy --shape 4 --dtype f8", 1, "directory"),
    ("a.npy folder.npy --overwrite", 1, "not a Zarr store"),
    ("a.npy folder --format zarr --overwrite", 1, "not a Zarr store"),
    ("a.npy / --format zarr --overwrite", 1, "inside the other"),
    ("a.npy s3://bucket/b.npy", 1, "only Zarr arrays"),
    ("http://127.0.0.1:9/a.h5 b.npy", 1, "http://127.0.0.1:9/a.h5 cannot be read"),
    ("http://127.0.0.1:9/a.npz b.npy", 1, "not a readable Zarr array"),
    ("https://host/a.zarr?b=c b.npy", 1, "with ? or #"),
    ("a.npy s3://", 1, "not an address"),
    ("a.npy s3://bucket/../b.zarr", 1, "not an address"),
    ("a.npy https://host/b.zarr", 1, "can only be read"),
    ("a.npy gopher://host/b.zarr", 1, "gopher addresses are unknown"),
    ("a.npy memory://b.zarr", 1, "memory addresses are unknown"),
    ("http://127.0.0.1:9/a.zarr b.npy", 1, "not a readable Zarr array"),
    ("file://elsewhere/a.npy b.npy", 1, "not a file of this machine"),
    ("file://a.npy b.npy", 1, "not a file of this machine"),
    ("a.npy file:///nowhere/b.npy", 1, "no directory"),
    ("a.npy " + "b" * 300 + ".npy", 1, "too long"),
    ("a.npy " + "b" * 240 + ".npy", 1, "too long"),
    ("[bold]none[/] b.npy", 1, "[bold]none[/]"),
    ("a.npy [/x]/b.npy", 1, "[/x]"),
    ("a.npy", 2, "OUTPUT"),
    ("a.npy b.npy c.npy", 1, "several files need --along"),
    ("a.npy b.npy --color red", 2, "--color"),
]  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A directory with everything that the tables name."""
    place = tmp_path_factory.mktemp("stage")
    np.save(place / "a.npy", ARRAY)
    (place / "a.raw").write_bytes(ARRAY.tobytes())
    (place / "old.npy").write_text("old")
    for name in ("pipe", "pipe.npy", "pipe.raw"):
        os.mkfifo(place / name)
    for name in ("folder", "folder.npy", "folder.zarr"):
        (place / name).mkdir()
        (place / name / "thesis.txt").write_text("precious")
    (place / "dangling.npy").symlink_to("nothing")
    (place / "loop.npy").symlink_to("loop.npy")
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(place)  # names of sockets are short
        bound.bind("socket.npy")
        os.chdir(before)
    for name, content, _ in FILES:
        (place / name).write_bytes(content)
    for i, (metadata, _) in enumerate(STORES):
        (place / f"store{i}.zarr").mkdir()
        text = metadata() if callable(metadata) else metadata
        (place / f"store{i}.zarr" / "zarr.json").write_text(text)
    return place


def refused(stage, monkeypatch, arguments, code, word):
    """Move, and see one clear line, and that nothing came or went."""
    monkeypatch.chdir(stage)
    before = sorted(os.listdir(stage))
    done = CliRunner().invoke(cli.app, ["move", *arguments])
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    assert word in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert sorted(os.listdir(stage)) == before
    assert (stage / "old.npy").read_text() == "old"


@pytest.mark.parametrize(("arguments", "code", "word"), ARGUMENTS)
def test_arguments(stage, monkeypatch, arguments, code, word):
    refused(stage, monkeypatch, arguments.split(" "), code, word)


@pytest.mark.parametrize(("name", "word"), [(f[0], f[2]) for f in FILES])
@pytest.mark.parametrize("output", ["b.npy", "b.zarr"])
def test_files(stage, monkeypatch, name, word, output):
    refused(stage, monkeypatch, [name, output], 1, word)


@pytest.mark.parametrize("i", range(len(STORES)))
def test_stores(stage, monkeypatch, i):
    refused(stage, monkeypatch, [f"store{i}.zarr", "b.npy"], 1, STORES[i][1])
    refused(stage, monkeypatch, [f"store{i}.zarr", "b.zarr"], 1, STORES[i][1])


def test_a_unit_that_is_divided_by_zero_in_zarr_2(stage, monkeypatch, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(3,), dtype="M8[s]", zarr_format=2)
    metadata = tmp_path / "a.zarr" / ".zarray"
    metadata.write_text(metadata.read_text().replace("M8[s]", "M8[s/0]"))
    assert "M8[s/0]" in metadata.read_text()
    refused(stage, monkeypatch, [str(tmp_path / "a.zarr"), "b.npy"], 1, "not a readable Zarr array")


def test_names_of_fields_may_have_slashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.ones(3, [("speed[m/s]", "f8"), ("at", "M8[s]")])
    np.save("a.npy", array)
    assert CliRunner().invoke(cli.app, ["move", "a.npy", "b.npy"]).exit_code == 0
    np.testing.assert_array_equal(np.load("b.npy"), array)


@pytest.mark.filterwarnings("ignore:Stored array in format 3")
def test_a_header_is_as_long_as_its_characters(tmp_path):
    """NumPy writes version 3 for names outside of Latin-1, of several bytes for each character."""
    array = np.zeros(3, [("日" * 5000, "f8")])
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "b.npy")
    assert np.load(tmp_path / "b.npy").dtype == array.dtype


@pytest.mark.parametrize("words", [("", "b.npy"), ("a.npy", ""), ("a\0.npy", "b.npy")])
def test_no_names(stage, monkeypatch, words):
    refused(stage, monkeypatch, words, 1, "not a valid name of a file")


def test_chunks_larger_than_memory_are_refused_where_they_would_be_kept(stage, monkeypatch):
    """An array of nothing but missing chunks can be read, whatever their shape."""
    (stage / "vast.zarr").mkdir()
    (stage / "vast.zarr" / "zarr.json").write_text(
        zarr_metadata(
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2**40, 2**40]}}
        )
    )
    refused(stage, monkeypatch, ["vast.zarr", "b.zarr"], 1, "2**63 bytes or more each")


def test_the_chunks_of_a_vast_array_are_not_kept():
    """What metadata of a few bytes claim takes no memory."""
    side = SimpleNamespace(chunk=(1, 2))
    plan = SimpleNamespace(source=side, order=(1, 0), shape=(2**30, 2**30), box=(1, 1))
    plan.steps, plan.processes = 2**60, 1
    tracemalloc.start()
    cells = ChunkPlan.source_cells(plan, (0, 0), plan.shape)
    assert [next(cells) for _ in range(3)] == [(0, 0), (1, 0), (2, 0)]
    assert next(ChunkPlan.boxes(plan)) == ((0, 0), (1, 1))
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.parametrize("source", ["a.h5", "a.h5:/g/u"])
def test_bytes_of_hdf5_that_are_damaged_are_told_in_a_line(tmp_path, source):
    """Every second byte of a small file, one by one; what HDF5 reads in spite of it is well."""
    whole = tmp_path / "whole.h5"
    with h5py.File(whole, "w", libver="latest") as file:
        file.create_dataset("g/u", data=ARRAY).attrs["x"] = "y"
    data = whole.read_bytes()
    refused = 0
    for at in [at for at, octet in enumerate(data) if octet][::2]:
        (tmp_path / "a.h5").write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            intend(f"{tmp_path}/{source}", tmp_path / "b.zarr")
        except dm.Error:
            refused += 1
    assert refused > 20


def test_every_broken_chunk_is_named(tmp_path):
    whole = zarr.create_array(tmp_path / "whole.zarr", shape=(6, 4), chunks=(2, 2), dtype="f8")
    whole[...] = np.arange(1.0, 25.0).reshape(6, 4)
    sharded = zarr.create_array(
        tmp_path / "sharded.zarr", shape=(6, 4), chunks=(1, 2), shards=(2, 2), dtype="f8"
    )
    sharded[...] = whole[...]
    for store in ("whole", "sharded"):
        for chunk in ("0/0", "1/1", "2/0"):
            for content in (b"", b"garbage", bytes(1000)):
                broken = tmp_path / "broken.zarr"
                shutil.copytree(tmp_path / f"{store}.zarr", broken)
                (broken / "c" / chunk).write_bytes(content)
                done = CliRunner().invoke(cli.app, ["move", str(broken), str(tmp_path / "b.npy")])
                assert done.exit_code == 1 and done.stderr.count("\n") == 1, done.output
                assert f"broken.zarr cannot be read in chunk c/{chunk}: " in done.stderr
                shutil.rmtree(broken)
    assert sorted(os.listdir(tmp_path)) == ["sharded.zarr", "whole.zarr"]


@pytest.mark.parametrize("name", ["[bold]x.npy", "[].npy", "a b\n.npy", "ü[red].zarr", "-.npy"])
def test_names_are_printed_as_they_are(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", ARRAY)
    done = CliRunner().invoke(cli.app, ["move", "a.npy", "--", name])
    assert done.exit_code == 0 and name in done.stdout, done.output
    assert sorted(os.listdir(tmp_path)) == sorted(["a.npy", name])


def test_an_address_of_a_file_is_its_name(tmp_path):
    np.save(tmp_path / "a b.npy", ARRAY)
    for host in ("", "localhost"):
        source = f"file://{host}{tmp_path}/a%20b.npy"
        output = f"file://{tmp_path}/b{host}.npy"
        done = CliRunner().invoke(cli.app, ["move", source, output])
        assert done.exit_code == 0, done.output
        assert np.array_equal(np.load(tmp_path / f"b{host}.npy"), ARRAY)


def explain(*more):
    return CliRunner().invoke(
        cli.app,
        ["explain", "--shape", "8,8", "--from", "(block,*)", "--to", "(*,block)", "-n", "2", *more],
    )


def test_explain_refuses_pictures_that_it_cannot_draw(tmp_path):
    done = explain("--png", str(tmp_path / "x.foo"))
    assert done.exit_code == 1 and "does not end in .png" in done.stderr
    assert os.listdir(tmp_path) == []


def test_explain_prints_json():
    assert json.loads(explain("--json", "-").stdout)["nprocs"] == 2


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: os.symlink(os.path.basename(path), path),
        lambda path: Path(path).write_text("[1,"),
        lambda path: Path(path).write_text("[" * 100_000),
    ],
    ids=["pipe", "directory", "loop", "not a JSON", "deep"],
)
@pytest.mark.parametrize("name", ["zarr.json", ".zgroup"])
@pytest.mark.timeout(60)
def test_metadata_of_a_group_that_cannot_be_read_are_not_taken_for_none(tmp_path, make, name):
    np.save(tmp_path / "a.npy", np.arange(4.0))
    (tmp_path / "group").mkdir()
    make(str(tmp_path / "group" / name))
    with pytest.raises(dm.errors.IoFailed, match=r"group.* cannot be read"):
        move(tmp_path / "a.npy", tmp_path / "group/a.zarr")
    assert os.listdir(tmp_path / "group") == [name]
    with pytest.raises(dm.Error):
        move(tmp_path / "group", tmp_path / "out.h5")
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "group"]


@pytest.mark.parametrize("compressors", [None, "auto"])
@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_a_chunk_is_not_waited_for(tmp_path, compressors):
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(9,), chunks=(4,), dtype="f8", compressors=compressors
    )
    made[...] = 1
    os.unlink(tmp_path / "a.zarr/c/1")
    os.mkfifo(tmp_path / "a.zarr/c/1")
    with pytest.raises(dm.errors.IoFailed, match="chunk c/1"):
        move(tmp_path / "a.zarr", tmp_path / "out.npy")
    assert os.listdir(tmp_path) == ["a.zarr"]
