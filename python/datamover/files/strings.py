# SPDX-License-Identifier: BSD-3-Clause
"""How does an array of strings of any length go between HDF5 and Zarr, with the others of a whole?

They have no fixed bytes that a mover could take: one process reads and writes them with h5py and
zarr-python, some rows at a time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoError
from datamover.files import hdf5, hdf5_format, hdf5_traits, native_attributes, zarr
from datamover.files.formats import Shape
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_traits import traits_of

#: So many strings are in memory at a time, and in a chunk where the dataset has none.
MOST_AT_A_TIME = 1 << 16


def is_of(dataset: Any) -> bool:
    """Tell whether a dataset's elements are strings of any length."""
    kind = hdf5.h5py().check_string_dtype(dataset.dtype)
    return kind is not None and kind.length is None and dataset.shape is not None


def copy_to_zarr(file: Any, name: str, where: str, path: str, checks: bool) -> None:
    """Write a dataset as a Zarr array, with its attributes and names of dimensions.

    `where` is what errors call the dataset; `checks` has what was written read again.

    Raises
    ------
    InvalidArgument
        A string is no UTF-8.
    IoError
        Other strings are read again than were written.
    """
    dataset = file[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python's of a type that is no part of Zarr v3 yet
        array = _create(file, name, where, path)
        for box in _boxes(dataset.shape, array.chunks):
            strings = _strings(dataset, box, where)
            array[box] = strings
            if checks and not np.array_equal(np.asarray(array[box], object), strings):
                raise IoError(f"{where}: other strings are read again than were written to {path}")
    sync_file_system(path)


def copy_to_hdf5(path: str, file: Any, name: str, checks: bool) -> list[str | None]:
    """Write a Zarr array to an open file, with its attributes; return the names of dimensions."""
    array = zarr.open_strings(path)
    traits = traits_of(array)
    made = file.create_dataset(name, array.shape, hdf5.h5py().string_dtype())
    for box in _boxes(array.shape, traits.shards or traits.chunks):
        strings = _strings_of_zarr(array, box, path)
        made[box] = strings
        if checks and not np.array_equal(np.asarray(made.asstr()[box], object), strings):
            raise IoError(f"{path}: other strings are read again than were written")
    hdf5_traits.write_of_json(path, made, traits.others["attributes"])
    return list(traits.dimension_names or ())


def check_copy(where: str, dataset: Any, made: Any) -> None:
    """Compare a dataset of strings or lists with what HDF5 made a copy of it.

    Raises
    ------
    IoError
        They differ.
    """
    for box in _boxes(dataset.shape, dataset.chunks or _chunks(dataset.shape)):
        pairs = zip(np.ravel(dataset[box]), np.ravel(made[box]), strict=True)
        if not all(np.array_equal(old, new) for old, new in pairs):
            raise IoError(f"{where}: others are read again than were written")


def copy_in_zarr(path: str, output: str, checks: bool) -> None:
    """Write a Zarr array as another one."""
    array = zarr.open_strings(path)
    traits = traits_of(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python's of a type that is no part of Zarr v3 yet
        made = zarr.create_strings(
            output, array.shape, traits.chunks, traits.others["attributes"], traits.dimension_names
        )
        for box in _boxes(array.shape, traits.shards or traits.chunks):
            strings = _strings_of_zarr(array, box, path)
            made[box] = strings
            if checks and not np.array_equal(np.asarray(made[box], object), strings):
                raise IoError(f"{path}: other strings are read again than were written")
    sync_file_system(output)


def _strings_of_zarr(array: Any, box: tuple[slice, ...], path: str) -> np.ndarray:
    try:
        return np.asarray(array[box], object)
    except Exception as e:  # whatever a codec says of bytes that it cannot decode
        raise IoError(f"{path} cannot be read: {e}") from e


def _create(file: Any, name: str, where: str, path: str) -> Any:
    dataset = file[name]
    attributes = hdf5_format.json_attributes(dataset, hdf5_format.is_netcdf(file))
    native_attributes.tell_not_in_json(where, hdf5_format.left_out(dataset, attributes))
    return zarr.create_strings(
        path,
        dataset.shape,
        dataset.chunks or _chunks(dataset.shape),
        attributes,
        hdf5_format.dimension_names(dataset, name),
    )


def _chunks(shape: Shape) -> Shape:
    """Give the extents of chunks of whole rows."""
    if not shape:
        return ()
    rows = MOST_AT_A_TIME // max(math.prod(shape[1:]), 1)
    return tuple(max(n, 1) for n in (min(shape[0], rows), *shape[1:]))


def _boxes(shape: Shape, chunks: Shape) -> Iterator[tuple[slice, ...]]:
    """Give boxes of whole rows of chunks, which together are the array."""
    if 0 in shape:
        return
    if not shape:
        yield ()
        return
    for lo in range(0, shape[0], chunks[0]):
        yield (slice(lo, min(lo + chunks[0], shape[0])), *(slice(0, n) for n in shape[1:]))


def _strings(dataset: Any, box: tuple[slice, ...], where: str) -> np.ndarray:
    try:
        return np.asarray(dataset.asstr("utf-8")[box], object)
    except UnicodeDecodeError as e:
        raise InvalidArgument(f"{where} has a string that is no UTF-8: {e}") from e
