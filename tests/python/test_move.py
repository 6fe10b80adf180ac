# SPDX-License-Identifier: BSD-3-Clause
"""`move`: writes exactly the elements that NumPy would, in every format and chunk shape."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pytest
import zarr
from mpi4py import MPI
from typer.testing import CliRunner

import datamover as dm
from datamover import cli, move_command, terminal
from datamover.files import array_steps, move

COMM = MPI.COMM_SELF
DTYPES = ["f8", ">i4", "u1", "c16", "?", "S7", "U3", "M8[s]", [("a", "<i2"), ("b", ">f4", (2,))]]


@pytest.fixture(autouse=True, params=[None, MPI.COMM_SELF], ids=["alone", "mpi"])
def _either_way(request, monkeypatch):
    """Moves by this process alone, chunk by chunk, and by the processes of a communicator."""
    monkeypatch.setattr(sys.modules[__name__], "COMM", request.param)


def sample(shape, dtype="f8", seed=0):
    """An array of any dtype whose bytes are all random."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "U":
        return random.integers(97, 122, shape).astype("U1").astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape))
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def same_bytes(a, b):
    return (
        a.shape == b.shape
        and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_to_npy_keeps_dtype_and_order(tmp_path, dtype, order):
    array = np.asarray(sample((5, 7, 3), dtype), order=order)
    np.save(tmp_path / "a.npy", array)
    report = move(tmp_path / "a.npy", tmp_path / "b.npy", comm=COMM)
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    assert (report.bytes, report.steps, report.processes) == (array.nbytes, 1, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "b.npy"]


@pytest.mark.parametrize("dtype", ["f8", ">i4", "u1", "c16", "?"])
def test_there_and_back_through_zarr(tmp_path, dtype):
    array = sample((20, 13, 6), dtype)
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "z.zarr", chunks=(8, 4, 6), comm=COMM)
    stored = zarr.open_array(tmp_path / "z.zarr", mode="r")
    assert stored.chunks == (8, 4, 6) and stored.metadata.zarr_format == 3
    assert np.array_equal(stored[...], array, equal_nan=array.dtype.kind in "fc")
    move(tmp_path / "z.zarr", tmp_path / "b.npy", comm=COMM)
    assert same_bytes(np.load(tmp_path / "b.npy").astype(dtype), array)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_axes_are_permuted_as_numpy_does(tmp_path, axes):
    array = sample((5, 6, 7), "i2")
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "z.zarr", axes=axes, chunks=(2, 3, 4), comm=COMM)
    assert same_bytes(zarr.open_array(tmp_path / "z.zarr", mode="r")[...], array.transpose(axes))


@pytest.mark.parametrize("source_order", ["C", "F"])
@pytest.mark.parametrize("output_order", ["C", "F"])
def test_raw_in_both_orders(tmp_path, source_order, output_order):
    array = sample((9, 4, 5), "<u2")
    (tmp_path / "a.raw").write_bytes(array.tobytes(order=source_order))
    move(
        tmp_path / "a.raw", tmp_path / "b.raw", shape=(9, 4, 5), dtype="<u2",
        order=source_order, output_order=output_order, comm=COMM,
    )  # fmt: skip
    assert (tmp_path / "b.raw").read_bytes() == array.tobytes(order=output_order)


@pytest.mark.parametrize("max_bytes", [300, 700, 2000, 10**6])
@pytest.mark.parametrize("order", ["C", "F"])
def test_little_memory_gives_the_same_as_all_at_once(tmp_path, max_bytes, order):
    array = np.asarray(sample((13, 11, 4), "u1"), order=order)
    np.save(tmp_path / "a.npy", array)
    report = move(
        tmp_path / "a.npy",
        tmp_path / "z.zarr",
        chunks=(4, 5, 4),
        max_bytes=max_bytes,
        comm=COMM,
    )
    assert same_bytes(zarr.open_array(tmp_path / "z.zarr", mode="r")[...], array)
    assert report.reads > 0
    back = move(tmp_path / "z.zarr", tmp_path / "b.npy", max_bytes=max_bytes, comm=COMM)
    assert same_bytes(np.load(tmp_path / "b.npy"), array)
    assert back.reads > 0


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3), (1,), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_corner_shapes(tmp_path, shape):
    array = sample(shape, "i4")
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "z.zarr", comm=COMM)
    move(tmp_path / "z.zarr", tmp_path / "b.npy", comm=COMM)
    assert same_bytes(np.load(tmp_path / "b.npy"), array)
    move(tmp_path / "a.npy", tmp_path / "c.raw", comm=COMM)
    assert (tmp_path / "c.raw").read_bytes() == array.tobytes()


def test_shards_and_compressors(tmp_path):
    array = sample((16, 16), "i4")
    np.save(tmp_path / "a.npy", array)
    for compressor in ("none", "gzip", "blosc"):
        move(
            tmp_path / "a.npy", tmp_path / f"{compressor}.zarr", chunks=(4, 4),
            shards=(8, 16), compressor=compressor, comm=COMM,
        )  # fmt: skip
        stored = zarr.open_array(tmp_path / f"{compressor}.zarr", mode="r")
        assert stored.shards == (8, 16) and stored.chunks == (4, 4)
        assert same_bytes(stored[...], array)


def test_long_runs_are_read_and_written_in_place(tmp_path):
    array = sample((300, 20_000), "u1")  # rows short enough to be mapped, planes long enough not to
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "b.raw", max_bytes=600_000, comm=COMM)
    assert (tmp_path / "b.raw").read_bytes() == array.tobytes()
    move(tmp_path / "a.npy", tmp_path / "c.raw", axes=(1, 0), max_bytes=900_000, comm=COMM)
    assert (tmp_path / "c.raw").read_bytes() == array.T.tobytes()


def test_progress_tells_every_byte_twice(tmp_path):
    array = sample((64, 8), "f4")
    np.save(tmp_path / "a.npy", array)
    told = []

    def progress(total):
        assert total == 2 * array.nbytes
        return told.append

    move(tmp_path / "a.npy", tmp_path / "b.npy", progress=progress, max_bytes=1024, comm=COMM)
    assert sum(told) == 2 * array.nbytes and len(told) > 2


def test_the_progress_bar_ends_at_all_and_is_gone_when_the_report_comes(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", sample((30, 23, 19), "i2"))
    monkeypatch.setenv(terminal.WIDTHS, "80,80")
    monkeypatch.setattr(move_command, "PATIENCE_SECONDS", 0.0)
    words = ["move", tmp_path / "a.npy", tmp_path / "b.zarr", "--max-bytes", 2000]
    done = CliRunner().invoke(cli.app, [*map(str, words), "--chunks", "5,5,5"])
    assert done.exit_code == 0, done.output
    shown = re.findall(r"([\d.]+)/([\d.]+) (?:kB|bytes)", done.stderr)
    assert shown and all(float(part) <= float(whole) for part, whole in shown)
    bar, report = done.output.rsplit("\x1b[2K", 1)  # the line of the bar is erased
    assert "moving" in bar and "moving" not in report and "in" in report


@pytest.mark.parametrize("seed", range(40))
def test_every_element_is_dealt_once(seed):
    random = np.random.default_rng(seed)
    dims = int(random.integers(1, 5))
    shape = tuple(int(n) for n in random.integers(1, 9, dims))
    unit = tuple(int(n) for n in random.integers(1, 5, dims))
    nprocs = int(random.integers(1, 8))
    regions, owners = array_steps.deal(shape, unit, str(random.choice(["C", "F"])), nprocs)
    seen = np.zeros(shape, int)
    elems = np.zeros(nprocs, int)
    for (lo, hi), owner in zip(regions, owners, strict=True):
        assert all(a % u == 0 for a, u in zip(lo, unit, strict=True))
        seen[tuple(map(slice, lo, hi))] += 1
        elems[owner] += np.prod(hi - lo)
    assert (seen == 1).all()
    assert elems.max() <= array_steps.share_elems(shape, unit, nprocs)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (
            {"chunks": "8,8"},
            dm.errors.WrongType,
            "chunks is '8,8', it must be an integer or a sequence",
        ),
        ({"chunks": (2.5, 3)}, dm.errors.WrongType, "must be an integer or a sequence of integers"),
        (
            {"shards": (None, 3)},
            dm.errors.WrongType,
            "must be an integer or a sequence of integers",
        ),
        ({"axes": (0, 1.0)}, dm.errors.WrongType, "must be an integer or a sequence of integers"),
        (
            {"max_bytes": "512M"},
            dm.errors.WrongType,
            "max_bytes is '512M', it must be a number of bytes",
        ),
        ({"overwrite": "no"}, dm.errors.WrongType, "overwrite is 'no', it must be True or False"),
        ({"overwrite_group": None}, dm.errors.WrongType, "it must be True or False"),
        ({"chunks": 8}, dm.errors.InvalidArgument, "have 1 dimensions; the output has 2"),
        ({"axes": 1}, dm.errors.InvalidArgument, "not a permutation"),
    ],
)
def test_sizes_and_truths_that_are_none_are_refused_in_words(tmp_path, said, error, words):
    np.save(tmp_path / "a.npy", np.zeros((4, 6)))
    for call in (
        lambda: move(tmp_path / "a.npy", tmp_path / "b.zarr", **said),
        lambda: dm.files.intend(tmp_path / "a.npy", tmp_path / "b.zarr", **said),
    ):
        with pytest.raises(error, match=words):
            call()
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_sizes_are_taken_from_lists_arrays_and_for_one_dimension_as_a_number(tmp_path):
    values = np.arange(24.0)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "m.npy", values.reshape(4, 6))
    move(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=8)
    said = {"chunks": np.array([3, 2]), "axes": [1, 0]}
    move(tmp_path / "m.npy", tmp_path / "n.zarr", **said)
    line, turned = (zarr.open_array(tmp_path / name, mode="r") for name in ("b.zarr", "n.zarr"))
    assert (line.chunks, turned.chunks) == ((8,), (3, 2))
    np.testing.assert_array_equal(line[...], values)
    np.testing.assert_array_equal(turned[...], values.reshape(4, 6).T)


def test_types_of_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.linspace(-3, 3, 24, dtype="f4").reshape(4, 6)
    np.save(tmp_path / "a.npy", array)
    said = {"output_dtype": "bfloat16", "check": "crc32c", "comm": COMM}
    move(tmp_path / "a.npy", tmp_path / "b.raw", **said)
    found = np.fromfile(tmp_path / "b.raw", ml_dtypes.bfloat16).reshape(4, 6)
    assert np.array_equal(found, array.astype(ml_dtypes.bfloat16))
    given = {"shape": (4, 6), "dtype": "bfloat16", "comm": COMM}
    move(tmp_path / "b.raw", tmp_path / "c.npy", output_dtype="f4", **given)
    assert np.array_equal(np.load(tmp_path / "c.npy"), found.astype("f4"))
    for name, words in (
        ("d.npy", "an .npy file cannot hold dtype bfloat16"),
        ("d.zarr", "Zarr cannot hold dtype bfloat16"),
        ("d.h5", "HDF5 cannot hold dtype bfloat16"),
    ):
        with pytest.raises(dm.errors.Unsupported, match=words) as caught:
            move(tmp_path / "b.raw", tmp_path / name, **given)
        assert "\n" not in str(caught.value) and not (tmp_path / name).exists()


def test_without_ml_dtypes_its_types_are_refused_in_one_line():
    """In another process: once it is loaded, NumPy knows its types."""
    program = (
        "import sys, numpy as np; sys.modules['ml_dtypes'] = None\n"
        "from datamover.files.formats import converted\n"
        "converted(np.dtype('f4'), 'bfloat16')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "bfloat16 needs ml_dtypes (pip install ml_dtypes)" in ended.stderr.splitlines()[-1]
