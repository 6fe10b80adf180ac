# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of the arrays of HDF5 files and Zarr groups, by which files are compared."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.files import addresses, hdf5, hdf5_format, hdf5_types, zarr_group
from datamover.files.json_values import numbers
from datamover.files.zarr_store import zarr_python
from datamover.files.zarr_traits import FILL_VALUE, attributes_of, missing_from_zarr, traits_of

#: Attributes that determine what elements mean, besides units of time.
MEANING = (
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units",
    "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip
#: By which coordinates name their bounds.
OF_BOUNDS = ("bounds", "climatology")
OF_MEANING = frozenset((*MEANING, "calendar", *OF_BOUNDS))
#: Bytes of a piece in which elements are compared.
PIECE_BYTES = 1 << 24


@dataclasses.dataclass(frozen=True)
class Described:
    """The description of an array in one file or group.

    Attributes
    ----------
    array
        The h5py dataset or Zarr array, while the file is open.
    shape : tuple of int
    dtype
        The dtype of NumPy; that of objects for strings of any length.
    dims : tuple
        The names of dimensions; None for those without.
    attributes : dict
        Those in `OF_MEANING`.
    kind : bytes, optional
        The HDF5 type of elements that NumPy does not have, or has without their names (enum).
    """

    array: Any
    shape: tuple[int, ...]
    dtype: Any
    dims: tuple[str | None, ...]
    attributes: dict[str, Any]
    kind: bytes | None = None


@contextlib.contextmanager
def contents(path: str, as_stored: bool = False) -> Iterator[dict[str, Described]]:
    """Open an HDF5 file or a Zarr group; yield the descriptions of its arrays, by name.

    `as_stored` is that of `hdf5_types.dtype_of`.

    Raises
    ------
    IoFailed
        It cannot be read, also while it is open.
    """
    if os.path.isdir(path):
        with addresses.failing(f"{path} cannot be read"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = zarr_python().open_group(path, mode="r", use_consolidated=False)
            yield {name: _of_array(group[name]) for name in zarr_group.arrays(path)}
        return
    with hdf5.reading(path), hdf5.open_file(path) as file:
        found = hdf5.tree(file, as_stored).datasets.items()
        yield {
            name: _of_dataset(named(path, name), name, dataset, as_stored)
            for name, dataset in found
            if dataset.shape is not None
        }


def named(path: str, name: str) -> str:
    """Return the full name of an array of a file or group."""
    return f"{path}/{name}" if os.path.isdir(path) else f"{path}:/{name}"


def _of_array(array: Any) -> Described:
    traits = traits_of(array)
    said = {word: v for word, v in attributes_of(traits).items() if word in OF_MEANING}
    if FILL_VALUE in said:
        said[FILL_VALUE] = np.asarray(missing_from_zarr(said[FILL_VALUE], array.dtype)).item()
    dtype = np.dtype(object) if array.dtype.kind in "OT" else array.dtype
    dims = traits.dimension_names or (None,) * array.ndim
    kept = {word: _as_in_files(word, value) for word, value in said.items()}
    return Described(array, tuple(array.shape), dtype, tuple(dims), kept)


def _as_in_files(word: str, value: Any) -> Any:
    """Return a Zarr attribute as the description of a NetCDF file has it."""
    found = numbers(value, word)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _of_dataset(where: str, name: str, dataset: Any, as_stored: bool) -> Described:
    kind = dataset.id.get_type()
    dtype = hdf5_types.dtype_of(kind, where, as_stored)
    dims = hdf5_format.dimension_names(dataset, name) or (None,) * dataset.ndim
    said = hdf5_format.json_attributes(dataset, of_netcdf=True, only=OF_MEANING)
    is_own = hdf5_types.is_opaque(dtype) or "enum" in (dtype.metadata or ())
    own = bytes(kind.encode()) if is_own else None
    return Described(dataset, tuple(dataset.shape), dtype, tuple(dims), said, own)


def digest_of(one: Described) -> bytes:
    """Return a digest of all elements of an array, while its file is open."""
    array, is_opaque = one.array, one.kind is not None and hdf5_types.is_opaque(one.dtype)
    if not is_opaque and (not array.ndim or array.dtype.hasobject or array.dtype.kind == "T"):
        found = np.ravel(np.asarray(array[()])).tolist()
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # lists in full
            return repr([w.decode() if isinstance(w, bytes) else w for w in found]).encode()
    digest = hashlib.sha256()
    count, *row = one.shape or (1,)
    rows = max(1, PIECE_BYTES // max(1, math.prod(row) * one.dtype.itemsize))
    for k in range(0, count, rows):
        read = _stored_rows if is_opaque else _rows
        digest.update(read(array, k, min(k + rows, count)).tobytes())
    return digest.digest()


def _rows(array: Any, first: int, end: int) -> np.ndarray:
    return array[first:end]


def _stored_rows(dataset: Any, first: int, end: int) -> np.ndarray:
    """Read rows of an HDF5 dataset as they are stored; of one without dimensions its element."""
    low, kind, space = hdf5.h5py(), dataset.id.get_type(), dataset.id.get_space()
    shape = (end - first, *dataset.shape[1:]) if dataset.shape else ()
    if shape:
        space.select_hyperslab((first, *(0 for _ in shape[1:])), shape)
    memory = low.h5s.create_simple(shape) if shape else low.h5s.create(low.h5s.SCALAR)
    found = np.zeros(shape, (np.void, kind.get_size()))
    dataset.id.read(memory, space, found, kind)
    return found
