# SPDX-License-Identifier: BSD-3-Clause
"""Formats that are recognized but not read: their names, and how to convert them."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile

#: First bytes of NetCDF 3: classic, 64-bit offset, 64-bit data.
NETCDF_3 = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
#: Number of bytes that are read to recognize a file of references.
MOST_JSON_BYTES = 1 << 12


def advice(path: str) -> str | None:
    """Return the format of an input that is not read, and what to do; None for any other input.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from datamover.files.foreign import advice
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.savez(d + "/a.npz", u=np.zeros(3))
    ...     advice(d + "/a.npz").partition("a.npz ")[2]
    'is a NumPy archive (npz); save its arrays one by one with numpy.save'
    """
    with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile):
        if os.path.isdir(path):
            return _advice_on_directory(path)
        with open(path, "rb") as file:
            begin = file.read(MOST_JSON_BYTES)
        if begin.startswith(NETCDF_3):
            return f"{path} is NetCDF 3; convert it with: nccopy -k nc4 {path} OUTPUT.nc"
        if begin.startswith(b"PK\x03\x04"):
            return _advice_on_zip(path)
        if begin.lstrip().startswith(b"{") and b'"refs"' in begin:
            return (
                f"{path} holds references (kerchunk); open it with xarray.open_dataset(..., "
                'engine="kerchunk") and write the result with to_zarr'
            )
    return None


def _advice_on_directory(path: str) -> str | None:
    with open(os.path.join(path, "attributes.json"), encoding="utf-8") as file:
        said = json.load(file)
    if isinstance(said, dict) and {"n5", "dimensions"} & said.keys():
        return f"{path} is N5, which is not read; convert it to Zarr first, for example with z5py"
    return None


def _advice_on_zip(path: str) -> str | None:
    with zipfile.ZipFile(path) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    if names & {"zarr.json", ".zarray", ".zgroup"}:
        return f"{path} is Zarr in a zip file; unpack it first: unzip {path} -d OUTPUT.zarr"
    if any(name.endswith(".npy") for name in names):
        return f"{path} is a NumPy archive (npz); save its arrays one by one with numpy.save"
    return None
