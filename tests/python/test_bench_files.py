# SPDX-License-Identifier: BSD-3-Clause
"""`bench files`: the output of each contender is right, and missing contenders are reported."""

import numpy as np
import pytest
from figures import bench

import datamover as dm
from datamover.bench import files
from datamover.bench.files import MOVES, RESTARTS


def test_moves_and_restarts_are_measured_beside_others(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    chosen = ["npy-cube-none", "netcdf-plates-zstd", "hdf5-plates-gzip", "restart-columns-2-3"]
    chosen.append("days-cube-zstd")
    document = bench(
        "files",
        tmp_path / "figures.json",
        *("--gigabytes", 0.001, "--rounds", 1, "--directory", place),
        *(word for case in chosen for word in ("--case", case)),
    )
    found = {(row["case"], row["phase"], row["contender"]): row for row in document["rows"]}
    for phase in ("save", "load"):
        for contender in ("datamover", "datamover:numpy", "mpi-io"):
            row = found["restart-columns-2-3", phase, contender]
            assert row["processes"] == {"save": 2, "load": 3}[phase]
            assert row["bytes"] == 8 * 32**3 * 8
    for contender in ("datamover", "zarr-python", "limit"):
        assert found["npy-cube-none", "move", contender]["peak_bytes"] > 0
    for contender in ("datamover", "zarr-python", "limit"):
        assert found["netcdf-plates-zstd", "move", contender]["peak_bytes"] > 0
    for contender in ("datamover", "h5py", "limit"):
        assert found["hdf5-plates-gzip", "move", contender]["peak_bytes"] > 0
    assert found["npy-cube-none", "move", "datamover"]["allowed_bytes"] > 1 << 28
    others = {row["contender"] for row in document["rows"]} | {
        note["contender"] for note in document["left_out"]
    }
    ours = {"datamover", "datamover:numpy"}
    of_zarr, of_hdf5 = {"tensorstore", "zarrs", "zarr-python", "dask"}, {"h5py", "h5repack"}
    of_netcdf = {"xarray", "nco", "cdo"}
    assert others == ours | of_zarr | of_hdf5 | of_netcdf | {"mpi-io", "limit"}
    reasons = [note["reason"] for note in document["left_out"]]
    missing = ("No module named", "no h5repack", "no ncrcat", "no cdo")
    assert all(any(words in reason for words in missing) for reason in reasons)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["noise", "brain", "auto"])
def test_no_two_repetitions_of_the_data_are_the_same(name):
    if name == "brain":
        pytest.importorskip("nilearn")
        pytest.importorskip("nibabel")
    cube = files.cube(name, 0.05)
    assert cube.shape == (240, 240, 240) and cube.dtype == np.float32
    assert not np.array_equal(cube[:32], cube[197 : 197 + 32])
    assert np.isfinite(cube).all() and len(np.unique(cube)) > 100


def test_data_of_another_name_is_refused():
    with pytest.raises(dm.errors.InvalidArgument, match="brain, noise and auto"):
        files.cube("whale", 0.001)


def test_names_are_of_one_case_each():
    names = [case.name for case in (*MOVES, *RESTARTS)]
    assert len(set(names)) == len(names)
