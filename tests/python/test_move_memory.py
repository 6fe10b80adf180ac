# SPDX-License-Identifier: BSD-3-Clause
"""Memory limit of moves: kept with arrays that are much larger.

The bound is `--max-bytes`, plus 30 MB, plus the memory of the process after its imports and the
start of MPI.
"""

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

from datamover.launch import outer_environment

SLACK_BYTES = 30_000_000
SHAPE = (64, 512, 512)  # 64 MiB of 4 bytes each
PEAK = """
import json, sys

def peak_bytes():
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024

if {nprocs} > 1:
    from mpi4py import MPI
    import datamover._mover
import h5py, zarr, numcodecs.zstd
import datamover.files
from datamover import move_command
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak from now on
before = peak_bytes()
{prepare}
code = move_command.run(sys.argv[1:])
print("\\n" + json.dumps([code, peak_bytes() - before]), flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Inputs, which zstd and gzip make little smaller."""
    found = tmp_path_factory.mktemp("inputs")
    array = np.random.default_rng(1).integers(0, 2**16, SHAPE, "u2").astype("f4")
    np.save(found / "a.npy", array)
    zarr.create_array(found / "a.zarr", data=array, chunks=(48, 64, 64))
    zarr.create_array(found / "r.zarr", data=array, chunks=(1, 512, 512))
    sharded = np.concatenate([array, array])
    zarr.create_array(found / "s.zarr", data=sharded, shards=(32, 256, 256), chunks=(16, 64, 64))
    zarr.create_array(
        found / "e.zarr", data=array, chunks=(32, 128, 256), serializer={"name": "bytes",
        "configuration": {"endian": "big"}},
    )  # fmt: skip
    with h5py.File(found / "a.h5", "w") as file:
        file.create_dataset(
            "u", data=array % 4, chunks=(16, 128, 128), compression="gzip", compression_opts=1
        )
        file.create_dataset("v", data=array, chunks=(16, 128, 128), compression="lzf")
    return found


def peaks(words, nprocs=1, prepare=""):
    """Run the command; give for each process what it took more than before."""
    script = PEAK.format(nprocs=nprocs, prepare=prepare)
    launcher = [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(nprocs)] if nprocs > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=outer_environment(),
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(found) == nprocs and all(code == 0 for code, _ in found), done.stdout
    return [grown for _, grown in found]


@pytest.mark.parametrize(
    ("source", "output", "limit", "options"),
    [
        ("a.npy", "b.zarr", 16, ["--chunks", "64,64,64"]),
        ("a.zarr", "b.npy", 16, ["--check", "crc32c"]),
        ("a.zarr", "b.zarr", 16, ["--chunks", "50,100,40", "--axes", "2,0,1"]),
        ("a.zarr", "b.zarr", 50, ["--chunks", "64,128,512"]),  # one thread at a time encodes
        ("a.h5:/u", "b.zarr", 16, ["--chunks", "32,64,64"]),
        ("a.h5:/v", "b.npy", 16, ["--axes", "2,1,0"]),
        ("a.zarr", "b.h5:/u", 16, []),
        ("a.npy", "b.h5:/u", 16, ["--chunks", "24,128,128", "--compressor", "gzip"]),
        ("s.zarr", "b.zarr", 80, ["--chunks", "64,64,64"]),
        ("s.zarr", "b.zarr", 4, ["--chunks", "8,64,64"]),  # parts of shards are read
        ("s.zarr", "b.zarr", 4, ["--chunks", "8,64,64", "--region", "16:90,64:400,:"]),
        ("s.zarr", "b.zarr", 12, ["--chunks", "8,64,64", "--region", "7:90,33:401,5:"]),
        ("s.zarr", "b.npy", 12, ["--region", "7:90,33:401,64:", "--axes", "2,0,1"]),
        ("e.zarr", "b.npy", 18, ["--region", "7:60,100:500,100:500"]),
        ("r.zarr", "b.zarr", 8, ["--chunks", "64,32,32"]),  # in two passes
        ("r.zarr", "b.h5:/u", 8, ["--chunks", "64,30,30", "--compressor", "gzip"]),
        ("a.zarr", "b.zarr", 8, ["--chunks", "64,512,8", "--axes", "0,2,1"]),
    ],
    ids=str,
)
def test_a_process_alone_keeps_to_the_limit(place, tmp_path, source, output, limit, options):
    words = [f"{place}/{source}", f"{tmp_path}/{output}", "--max-bytes", f"{limit}M", *options]
    (grown,) = peaks([*words, "--quiet"])
    assert grown <= (limit << 20) + SLACK_BYTES


def random_texts(count, length):
    """Texts of printable characters, which no codec makes much smaller."""
    drawn = np.random.default_rng(2).integers(33, 127, (count, length), "u1")
    return drawn.view(f"S{length}").ravel().astype(str).astype(object)


def strings_at(path):
    """Read the strings `t` by another library."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file["t"].asstr()[...]
    return np.asarray(zarr.open_array(path / "t", mode="r")[...], object)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [20, 60])
@pytest.mark.parametrize("output", ["b.zarr", "b.h5"])
def test_strings_of_several_chunks_at_once_keep_to_the_limit(tmp_path, output, limit):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(4.0))
    texts = random_texts(600_000, 60)
    made = group.create_array("t", shape=texts.shape, chunks=(30_000,), dtype=str)
    made[...] = texts
    words = [f"{tmp_path}/a.zarr", f"{tmp_path}/{output}", "--quiet", "--max-bytes", f"{limit}M"]
    (grown,) = peaks([*words, *["--compressor", "gzip"] * (output == "b.zarr")])
    assert grown <= (limit << 20) + SLACK_BYTES
    assert (strings_at(tmp_path / output) == texts).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("output", ["b.zarr", "b.h5"])
def test_a_chunk_of_millions_of_strings_moves_with_the_default_limit(tmp_path, output):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(4.0))
    texts = np.array([f"{k:07}" for k in range(1_500_000)], object)
    group.create_array("t", shape=texts.shape, chunks=texts.shape, dtype=str)[...] = texts
    (grown,) = peaks([f"{tmp_path}/a.zarr", f"{tmp_path}/{output}", "--quiet"])
    # zarr-python decodes a chunk as a whole, into objects.
    assert grown <= 300 * len(texts)
    assert (strings_at(tmp_path / output) == texts).all()


def test_strings_of_hdf5_are_cut_to_the_limit(tmp_path):
    texts = np.array([f"{k:060}" for k in range(150_000)], object)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.arange(4.0)
        file.create_dataset("t", data=texts, dtype=h5py.string_dtype())
    words = [f"{tmp_path}/a.h5", f"{tmp_path}/b.zarr", "--quiet", "--max-bytes", "8M"]
    (grown,) = peaks(words)
    assert grown <= (8 << 20) + SLACK_BYTES
    assert (zarr.open_array(tmp_path / "b.zarr/t", mode="r")[...] == texts).all()


@pytest.mark.parametrize("output", ["b.zarr", "b.h5:/u"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_each_of_two_processes_keeps_to_the_limit(place, tmp_path, way, output):
    words = [f"{place}/a.zarr", f"{tmp_path}/{output}", "--chunks", "64,512,8", "--max-bytes", "8M"]
    words += ["--compressor", "gzip"] * (output != "b.zarr")
    prepare = "from datamover.files import move_plan; move_plan."
    prepare += "_two_passes = lambda *_: None" if way == "one" else "MOST_READS = 0"
    for grown in peaks([*words, "--quiet"], 2, prepare):
        assert grown <= (8 << 20) + SLACK_BYTES
