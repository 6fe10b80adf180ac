# SPDX-License-Identifier: BSD-3-Clause
"""Inputs of formats that are not read: one line names the format and what to do."""

import json
import os
import shutil

import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import move

ARRAY = np.arange(6.0).reshape(2, 3)


def netcdf3(path):
    from scipy.io import netcdf_file

    with netcdf_file(path, "w") as made:
        made.createDimension("x", 3)
        made.createVariable("u", "f8", ("x",))[:] = np.arange(3.0)


def zip_store(path):
    zarr.create_array(f"{path}.dir", data=ARRAY)
    shutil.make_archive(f"{path}.made", "zip", f"{path}.dir")
    os.rename(f"{path}.made.zip", path)
    shutil.rmtree(f"{path}.dir")


def n5(path):
    os.mkdir(path)
    with open(f"{path}/attributes.json", "w") as file:
        json.dump({"n5": "2.5.0"}, file)


def npz(path):
    with open(path, "wb") as file:
        np.savez(file, u=ARRAY)


def references(path):
    with open(path, "w") as file:
        json.dump({"version": 1, "refs": {".zgroup": '{"zarr_format": 2}'}}, file)


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (netcdf3, "a.nc", "is NetCDF 3; convert it with: nccopy -k nc4 .*a.nc OUTPUT.nc"),
        (netcdf3, "a", "is NetCDF 3"),
        (
            zip_store,
            "a.zip",
            "is Zarr in a zip file; unpack it first: unzip .*a.zip -d OUTPUT.zarr",
        ),
        (zip_store, "a.zarr", "is Zarr in a zip file"),
        (n5, "a.n5", "is N5"),
        (npz, "a.npz", "is a NumPy archive"),
        (references, "a.json", "holds references"),
    ],
)
@pytest.mark.parametrize("output", ["b.npy", "b.zarr", "b.h5"])
def test_the_format_is_named_with_what_to_do(tmp_path, make, name, words, output):
    make(tmp_path / name)
    with pytest.raises(dm.errors.Unsupported, match=f"{name} {words}"):
        move(tmp_path / name, tmp_path / output)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("begin", [b"CDF\x01", b"PK\x03\x04", b'{"refs"', b"PK\x03\x04" * 99])
def test_raw_elements_may_begin_as_they_like(tmp_path, begin):
    data = begin.ljust(400, b"\0")
    (tmp_path / "a").write_bytes(data)
    move(tmp_path / "a", tmp_path / "b.npy", shape=(400,), dtype="u1")
    assert np.load(tmp_path / "b.npy").tobytes() == data
