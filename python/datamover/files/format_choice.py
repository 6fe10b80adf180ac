# SPDX-License-Identifier: BSD-3-Clause
"""The choice of a file's format: by an option, by content, or by name.

Some formats are recognized but not read; errors name them, and how to convert them.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import os
import stat
import zipfile

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import addresses
from datamover.files.formats import Format, MoveOptions, option
from datamover.files.zarr_group import is_group as is_zarr_group

#: First bytes of NetCDF 3: classic, 64-bit offset, 64-bit data.
NETCDF_3 = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
#: Number of bytes that are read to recognize a file of references.
MOST_JSON_BYTES = 1 << 12


@functools.cache
def known() -> dict[str, Format]:
    """Return all formats by their names."""
    from datamover.files import hdf5_format, npy, zarr_output  # which use this module

    found = (hdf5_format.FORMAT, npy.NPY, npy.RAW, zarr_output.FORMAT)
    return {one.name: one for one in found}


def named(name: str) -> Format:
    """Return a format by its name."""
    if name not in known():
        raise InvalidArgument(f"unknown format {name!r}; there are {', '.join(sorted(known()))}")
    return known()[name]


def by_suffix(path: str) -> Format | None:
    """Return the format for a file name."""
    for candidate in known().values():
        if os.path.normpath(path).lower().endswith(candidate.suffixes):
            return candidate
    return None


def of_input(path: str, options: MoveOptions) -> Format:
    """Return the format of an input: by the option, its content, or its name."""
    if addresses.is_address(path):
        return _at_address(
            path, options.input_format, ("zarr", "npy", "hdf5"),
            "Zarr arrays, HDF5 and .npy can be read, but not {}; copy it here first",
        )  # fmt: skip
    check_input_kind(path)
    if options.input_format is not None:
        return named(options.input_format)
    for candidate in known().values():
        if candidate.recognizes(path):
            return candidate
    if options.shape is None and (words := advice(path)):
        raise Unsupported(words)
    by_name = by_suffix(path)
    if by_name is not None:
        return by_name
    if options.shape is not None or options.dtype is not None:
        return named("raw")
    raise IoFailed(
        f"{path} is neither .npy nor Zarr nor HDF5; if it is raw, pass {option('shape')} and "
        f"{option('dtype')}, otherwise convert it first"
    )


def _at_address(path: str, said: str | None, possible: tuple[str, ...], words: str) -> Format:
    """Return the format at an address, by the option or the name; Unsupported with `words`."""
    by_name = by_suffix(path)
    found = named(said or (by_name.name if by_name else "zarr"))
    if found.name not in possible:
        raise Unsupported(f"{path}: at addresses, {words.format(found.name)}")
    return found


def check_input_kind(path: str) -> None:
    """Raise unless it is a file or a directory: opening a pipe would wait for its writer."""
    if not os.path.lexists(path):
        raise IoFailed(f"there is no input {path}{_what_is_meant(path)}")
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise IoFailed(f"{path} is a device, a pipe or a socket: it cannot be read in parts")


def _what_is_meant(path: str) -> str:
    """Return a hint on an array in an existing file or group, or on a pattern, if one may be meant.

    A dataset of a file is named after `:/`, an array of a Zarr group after a slash.
    """
    for sign in (":/", ":", "/"):
        place, found, member = path.rpartition(sign)
        if sign == "/":
            while place and not os.path.exists(place):
                place, _, above = place.rpartition("/")
                member = f"{above}/{member}"
        if not found or not member or not os.path.exists(place):
            continue
        if os.path.isfile(place) and named("hdf5").recognizes(place):
            return f"; a dataset of a file is named as {place}:/{member}"
        if named("zarr").recognizes(place):
            if sign != "/":
                return f"; an array of a Zarr group is named as {place}/{member}"
            if not is_zarr_group(place):
                return f"; {place} is an array, not a group"
            there = sorted(
                n for n in os.listdir(place) if named("zarr").recognizes(os.path.join(place, n))
            )
            return f"; {place} has {', '.join(there[:12]) or 'nothing'}"
    if glob.has_magic(path) and any(glob.iglob(path, recursive=True)):
        return f"; to join the files that match this pattern, pass {option('along')}"
    return ""


def is_in_zarr(path: str) -> bool:
    """Return whether an output without an extension is an array of a Zarr group."""
    zarr = named("zarr")
    around = addresses.enclosing(path)
    return any(by_suffix(above) is zarr or zarr.recognizes(above) for above in around)


def of_output(path: str, options: MoveOptions) -> Format:
    """Return the format of an output: by the option, its name, or its enclosing group."""
    if addresses.is_address(path):
        return _at_address(
            path, options.output_format, ("zarr",),
            "only Zarr arrays and groups can be written, not {}; use the extension .zarr, or write "
            "a file here and copy it",
        )  # fmt: skip
    if options.output_format is not None:
        return named(options.output_format)
    by_name = by_suffix(path)
    if by_name is None and is_in_zarr(path):
        return named("zarr")
    if by_name is None:
        suffixes = ", ".join(suffix for f in known().values() for suffix in f.suffixes)
        raise InvalidArgument(
            f"the format of {path} is unknown; use an extension ({suffixes}), or pass "
            f"{option('output_format')}{_what_is_meant(path)}"
        )
    return by_name


def advice(path: str) -> str | None:
    """Return the format of an input that is not read, and what to do; None for any other input.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from datamover.files.format_choice import advice
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.savez(d + "/a.npz", u=np.zeros(3))
    ...     advice(d + "/a.npz").partition("a.npz ")[2]
    'is a NumPy archive (npz); save its arrays one by one with numpy.save'
    """
    with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile):
        if os.path.isdir(path):
            with open(os.path.join(path, "attributes.json"), encoding="utf-8") as file:
                said = json.load(file)
            is_n5 = isinstance(said, dict) and {"n5", "dimensions"} & said.keys()
            words = "is N5, which is not read; convert it to Zarr first, for example with z5py"
            return f"{path} {words}" if is_n5 else None
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


def _advice_on_zip(path: str) -> str | None:
    with zipfile.ZipFile(path) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    if names & {"zarr.json", ".zarray", ".zgroup"}:
        return f"{path} is Zarr in a zip file; unpack it first: unzip {path} -d OUTPUT.zarr"
    if any(name.endswith(".npy") for name in names):
        return f"{path} is a NumPy archive (npz); save its arrays one by one with numpy.save"
    return None
