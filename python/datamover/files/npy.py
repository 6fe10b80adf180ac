# SPDX-License-Identifier: BSD-3-Clause
"""Formats of flat files: .npy, whose header NumPy writes, and raw, which has only elements."""

from __future__ import annotations

import ast
import io
import os
import re
import warnings
from typing import BinaryIO

import numpy as np

from datamover.dtype_words import check_words, is_of_ml_dtypes
from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import addresses
from datamover.files.addresses import AddressBytes
from datamover.files.flat import FlatFile, FlatObject, FlatOutput, check_flat_dtype, reserve
from datamover.files.formats import (
    ArraySpec,
    Format,
    MoveOptions,
    check_shape,
    dtype_said,
    option,
)
from datamover.files.space import check_room_to_grow, naming_no_space

MAGIC = b"\x93NUMPY"
#: Bytes read from an object at an address for its header, which is seldom above 128.
HEADER_BYTES = 1 << 16
#: Characters of the longest header that is read, as by NumPy, and the most bytes of each.
MAX_HEADER_CHARACTERS, MOST_BYTES_EACH = 10_000, 4
#: The keys of a header.
KEYS = ("descr", "fortran_order", "shape")


def recognizes(path: str) -> bool:
    """Return whether a file begins like an .npy file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _header(file: BinaryIO, path: str) -> tuple[ArraySpec, int]:
    """Read the description of a file's array, and the offset of its elements.

    NumPy's own functions do not read headers of version 3, and create the dtype unchecked.
    """
    with addresses.failing(f"{path} is not a readable .npy file"):
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"its header has version {version}")
        length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
        data = file.read(min(length, MOST_BYTES_EACH * MAX_HEADER_CHARACTERS))
        text = data.decode("latin1" if version < (3, 0) else "utf8")
        if len(data) < length or len(text) > MAX_HEADER_CHARACTERS:
            raise ValueError(f"its header has {length:,} bytes")
        try:
            said = ast.literal_eval(text)
        except SyntaxError:  # Python 2 wrote a shape as (3L, 4L)
            said = ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text))
        if not isinstance(said, dict) or said.keys() != {*KEYS}:
            raise ValueError(f"its header is {said}")
        descr, is_fortran, shape = (said[key] for key in KEYS)
        is_shape = isinstance(shape, tuple) and all(type(extent) is int for extent in shape)
        if type(is_fortran) is not bool or not is_shape:
            raise ValueError(f"its header is {said}")
        check_words(descr)
        dtype = np.lib.format.descr_to_dtype(descr)
    return ArraySpec(shape, dtype, "F" if is_fortran else "C"), file.tell()


def open_reader(path: str, options: MoveOptions) -> FlatFile:
    """Open an .npy file, and check its header and length."""
    if addresses.is_address(path):
        return open_at_address(AddressBytes(path))
    if os.path.isdir(path):
        raise IoFailed(f"{path} is a directory, not an .npy file")
    with open(path, "rb") as file:
        spec, offset = _header(file, path)
    _check(path, spec, offset, os.path.getsize(path))
    return FlatFile(path, spec, offset, writable=False)


def open_at_address(data: AddressBytes) -> FlatObject:
    """Open an .npy file that is an object at an address."""
    address = data.address
    begin = io.BytesIO(data.read(0, min(data.size, HEADER_BYTES)))
    found = _header(begin, address)
    _check(address, *found, data.size)
    return FlatObject(address, *found, data)


def _check(path: str, spec: ArraySpec, offset: int, size: int) -> None:
    check_flat_dtype(spec.dtype, path)
    if min(spec.shape, default=0) >= 0 and size < offset + spec.nbytes:
        raise IoFailed(
            f"{path} is truncated: its header declares {spec.nbytes:,} bytes of elements, but it "
            f"has {size - offset:,}"
        )
    check_shape(spec.shape, spec.dtype, path)


class NpyOutput(FlatOutput):
    """An .npy file that will be written."""

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        super().__init__(spec, options)
        if is_of_ml_dtypes(spec.dtype):
            raise Unsupported(f"an .npy file cannot hold dtype {spec.dtype}; raw files can")

    def create(self, path: str) -> dict[str, bytes]:
        """Write the header and reserve the space."""
        with warnings.catch_warnings():
            # h5py's notes on strings and enumerations in a dtype cannot be stored in the file.
            warnings.filterwarnings("ignore", "metadata on a dtype", UserWarning)
            _create(path, self.spec)
        return {}


def _create(path: str, spec: ArraySpec) -> None:
    if spec.nbytes == 0 or not spec.shape:
        with open(path, "wb") as file:
            np.save(file, np.zeros(spec.shape, spec.dtype, spec.order))
        return
    with naming_no_space(path, spec.nbytes):
        # Before NumPy writes the last byte, for which file systems raise errors of their own.
        check_room_to_grow(os.path.dirname(path) or ".", spec.nbytes)
        mapped = np.lib.format.open_memmap(
            path, mode="w+", dtype=spec.dtype, shape=spec.shape, fortran_order=spec.order == "F"
        )
    offset = mapped.offset
    del mapped
    reserve(path, offset + spec.nbytes)


NPY = Format("npy", (".npy",), recognizes, open_reader, NpyOutput)


def open_raw(path: str, options: MoveOptions) -> FlatFile:
    """Open a raw file with the given shape and dtype; its size must match exactly."""
    unsaid = [option(name) for name in ("shape", "dtype") if getattr(options, name) is None]
    if unsaid:
        raise InvalidArgument(f"{path} is raw: pass {' and '.join(unsaid)}")
    if os.path.isdir(path):
        raise IoFailed(f"{path} is a directory, not a raw file")
    if any(extent < 0 for extent in options.shape or ()):
        raise InvalidArgument(f"the shape {options.shape} has a negative extent")
    dtype = dtype_said(options.dtype)
    check_flat_dtype(dtype, path)
    spec = ArraySpec(tuple(options.shape or ()), dtype, options.order or "C")
    size = os.path.getsize(path)
    if size != spec.nbytes:
        shape = " x ".join(map(str, spec.shape))
        raise IoFailed(
            f"{path} has {size:,} bytes, but {shape} elements of {dtype} are {spec.nbytes:,}; "
            "check the shape and the dtype"
        )
    check_shape(spec.shape, spec.dtype, path)
    return FlatFile(path, spec, 0, writable=False)


class RawOutput(FlatOutput):
    """A raw file that will be written."""

    def create(self, path: str) -> dict[str, bytes]:
        """Reserve the space."""
        reserve(path, self.spec.nbytes)
        return {}


#: Anything may be raw, so none is recognized.
RAW = Format("raw", (".raw", ".bin", ".dat"), lambda path: False, open_raw, RawOutput)
