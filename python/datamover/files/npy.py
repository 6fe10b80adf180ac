# SPDX-License-Identifier: BSD-3-Clause
"""The .npy format: NumPy handles the header, `flat` the elements."""

from __future__ import annotations

import ast
import io
import os
import re
import warnings
from typing import BinaryIO

import numpy as np

from datamover.dtype_words import check_words, is_of_ml_dtypes
from datamover.errors import IoFailed, Unsupported
from datamover.files import addresses
from datamover.files.address_bytes import AddressBytes
from datamover.files.flat import FlatFile, FlatObject, FlatOutput, check_flat_dtype, reserve
from datamover.files.formats import ArraySpec, Format, MoveOptions, Order, check_shape, register
from datamover.files.space import check_room_to_grow, is_no_space, no_space

MAGIC = b"\x93NUMPY"
#: Bytes read from an object at an address for its header, which is seldom above 128.
HEADER_BYTES = 1 << 16
#: Longest header that NumPy reads.
MAX_HEADER_CHARACTERS = 10_000


def recognizes(path: str) -> bool:
    """Return whether a file begins like an .npy file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _header(path: str) -> tuple[ArraySpec, int]:
    """Read the description of a file's array, and the offset of its elements."""
    with open(path, "rb") as file:
        found = _header_of(file, path)
    if found is not None:
        return found
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as e:
        raise IoFailed(f"{path} is not a readable .npy file: {e}") from e
    order: Order = "C" if mapped.flags.c_contiguous else "F"
    return ArraySpec(mapped.shape, mapped.dtype, order), mapped.offset


def _header_of(file: BinaryIO, path: str) -> tuple[ArraySpec, int] | None:
    """Read a header; None for a version that NumPy only reads together with the elements."""
    try:
        version = np.lib.format.read_magic(file)
        _check_dtype_of_header(file, version)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            return None
        shape, fortran, dtype = read(file)
        if any(type(extent) is bool for extent in shape):  # which NumPy accepts here
            raise ValueError(f"shape is not valid: {shape}")
    except OSError:
        raise
    except Exception as e:  # evaluating a header of foreign bytes fails in many ways
        raise IoFailed(f"{path} is not a readable .npy file: {e}") from e
    return ArraySpec(shape, dtype, "F" if fortran else "C"), file.tell()


def _check_dtype_of_header(file: BinaryIO, version: tuple[int, int]) -> None:
    """Check the dtype before NumPy reads it. Keeps the position in the file."""
    begin = file.tell()
    length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    text = file.read(min(length, HEADER_BYTES)).decode("latin1" if version < (3, 0) else "utf8")
    file.seek(begin)
    if len(text) > MAX_HEADER_CHARACTERS:
        return
    try:
        said = ast.literal_eval(text)
    except SyntaxError:  # Python 2 wrote a shape as (3L, 4L)
        said = ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text))
    if isinstance(said, dict):
        check_words(said.get("descr"))


def open_reader(path: str, options: MoveOptions) -> FlatFile:
    """Open an .npy file, and check its header and length."""
    if addresses.is_address(path):
        return open_at_address(AddressBytes(path))
    if os.path.isdir(path):
        raise IoFailed(f"{path} is a directory, not an .npy file")
    spec, offset = _header(path)
    _check(path, spec, offset, os.path.getsize(path))
    return FlatFile(path, spec, offset, writable=False)


def open_at_address(data: AddressBytes) -> FlatObject:
    """Open an .npy file that is an object at an address."""
    address = data.address
    begin = io.BytesIO(data.read(0, min(data.size, HEADER_BYTES)))
    found = _header_of(begin, address)
    if found is None:
        raise Unsupported(f"{address} has a header version that is supported in local files only")
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

    def open(self, path: str) -> FlatFile:
        """Open the file for writing."""
        return FlatFile(path, self.spec, _header(path)[1], writable=True)


def _create(path: str, spec: ArraySpec) -> None:
    if spec.nbytes == 0 or not spec.shape:
        with open(path, "wb") as file:
            np.save(file, np.zeros(spec.shape, spec.dtype, spec.order))
        return
    try:
        # Before NumPy writes the last byte, for which file systems raise errors of their own.
        check_room_to_grow(os.path.dirname(path) or ".", spec.nbytes)
        mapped = np.lib.format.open_memmap(
            path, mode="w+", dtype=spec.dtype, shape=spec.shape, fortran_order=spec.order == "F"
        )
    except OSError as e:
        if is_no_space(e):
            raise IoFailed(no_space(path, e, spec.nbytes)) from e
        raise
    offset = mapped.offset
    del mapped
    reserve(path, offset + spec.nbytes)


register(Format("npy", (".npy",), recognizes, open_reader, NpyOutput))
