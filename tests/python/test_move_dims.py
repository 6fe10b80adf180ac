# SPDX-License-Identifier: BSD-3-Clause
"""Names of dimensions given to a move: xarray and h5py find them."""

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import datamover as dm
from datamover import move_command
from datamover.files import move

ARRAY = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shards", [None, (2, 2, 4)])
def test_an_npy_file_becomes_a_variable_of_xarray(tmp_path, zarr_format, shards):
    np.save(tmp_path / "a.npy", ARRAY)
    zarr.create_group(tmp_path / "g.zarr", zarr_format=zarr_format)
    said = {"chunks": (1, 2, 4), "shards": shards if zarr_format == 3 else None}
    move(tmp_path / "a.npy", tmp_path / "g.zarr/tas", dims=["t", "y", "x"], **said)
    with xr.open_zarr(tmp_path / "g.zarr", consolidated=False) as opened:
        assert opened["tas"].dims == ("t", "y", "x")
        np.testing.assert_array_equal(opened["tas"].values, ARRAY)


def test_given_names_replace_those_of_the_input(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=ARRAY, dimension_names=("a", "b", "c"))
    words = [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--axes", "2,0,1", "-q"]
    assert move_command.run([*words, "--dims", "x,t,y"]) == 0
    made = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert made.metadata.dimension_names == ("x", "t", "y")
    np.testing.assert_array_equal(made[...], ARRAY.transpose(2, 0, 1))


def test_dimensions_of_hdf5_get_names(tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    move(tmp_path / "a.npy", f"{tmp_path}/b.h5:/u", dims=("t", "y", "x"))
    with h5py.File(tmp_path / "b.h5") as file:
        assert [dim[0].name for dim in file["u"].dims] == ["/t", "/y", "/x"]


@pytest.mark.parametrize(
    ("output", "dims", "error", "words"),
    [
        ("b.zarr", ("t", "y"), dm.errors.InvalidArgument, r"has the shape \(2, 3, 4\)"),
        ("b.zarr", ("t", "t", "x"), dm.errors.InvalidArgument, "have one name"),
        ("b.zarr", ("t", "", "x"), dm.errors.InvalidArgument, "not a valid name"),
        ("b.zarr", "tyx", dm.errors.WrongType, "must be a list of names"),
        ("b.npy", ("t", "y", "x"), dm.errors.InvalidArgument, "is for zarr or hdf5 outputs"),
    ],
)
def test_names_that_do_not_fit(tmp_path, output, dims, error, words):
    np.save(tmp_path / "a.npy", ARRAY)
    with pytest.raises(error, match=words):
        move(tmp_path / "a.npy", tmp_path / output, dims=dims)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]
