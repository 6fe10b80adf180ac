# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of strings of any length between HDF5 and Zarr, as part of a whole file or group.

Movers cannot move them because they have no fixed size: one process reads and writes them with h5py
and zarr-python, chunk by chunk. Between HDF5 files, HDF5 itself copies them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, NoMemory, Unsupported
from datamover.files import (
    addresses,
    formats,
    hdf5,
    hdf5_format,
    hdf5_traits,
    native_attributes,
    zarr_output,
)
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.json_values import valid
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_store import created_at, zarr_python
from datamover.files.zarr_traits import ZarrTraits, traits_of

#: Number of elements of a chunk, or that are read together, for a dataset without chunks.
MOST_AT_A_TIME = 1 << 14
#: Maximum bytes of a string in HDF5 for each byte in Python.
GROWTH = 2

Box = tuple[slice, ...]


def is_of(dataset: Any) -> bool:
    """Return whether a dataset's elements are strings of any length."""
    kind = hdf5.h5py().check_string_dtype(dataset.dtype)
    return kind is not None and kind.length is None and dataset.shape is not None


def copy_to_zarr(
    file: Any, name: str, where: str, path: str, options: MoveOptions
) -> dict[str, bytes]:
    """Write a dataset as a Zarr array, with its attributes and names of dimensions.

    Parameters
    ----------
    file : h5py.File
    name, where : str
        Name of the dataset in the file, and in errors.
    path : str
        The new array, which may be at an address.
    options : MoveOptions
        With `check`, the written strings are read again.

    Returns
    -------
    dict
        At an address, the metadata, by names of objects, which must be written last.

    Raises
    ------
    InvalidArgument
        A string is not UTF-8.
    IoFailed
        Strings that are read again differ.
    NoMemory
        A chunk of strings exceeds the limit.
    """
    dataset = file[name]
    attributes = hdf5_format.json_attributes(dataset, hdf5_format.is_netcdf(file))
    native_attributes.tell_not_in_json(where, hdf5_format.left_out(dataset, attributes))
    names = hdf5_format.dimension_names(dataset, name)
    kept = ZarrTraits(chunks_of(dataset), None, names, "auto", {"attributes": attributes})
    return _write(path, dataset.shape, kept, options, lambda box: _read(dataset, box, where), where)


def copy_in_zarr(path: str, output: str, options: MoveOptions) -> dict[str, bytes]:
    """Write a Zarr array as another one. Returns and raises as `copy_to_zarr` does."""
    array = open_strings(path)
    kept = traits_of(array)
    return _write(
        output, array.shape, kept, options, lambda box: _read_zarr(array, box, path), path
    )


def copy_to_hdf5(path: str, file: Any, name: str, options: MoveOptions) -> list[str | None]:
    """Write a Zarr array to an open file, with its attributes; return the names of dimensions."""
    array = open_strings(path)
    traits = traits_of(array)
    attributes = traits.others["attributes"]
    properties = hdf5.h5py().h5p.create(hdf5.h5py().h5p.DATASET_CREATE)
    hdf5_traits.give_room(properties, attributes)
    spec = ArraySpec(array.shape, hdf5.h5py().string_dtype())
    made = hdf5.create_with(file, name, spec, properties)
    for box in _boxes(array.shape, array.shards or array.chunks):
        strings = _read_zarr(array, box, path)
        hdf5.check_growth(file, GROWTH * _checked_bytes(strings, options, path))
        made[box] = strings
        if options.check:
            _compare(path, strings, made.asstr()[box])
    hdf5_traits.write_of_json(path, made, attributes)
    return list(traits.dimension_names or ())


def check_copy(where: str, dataset: Any, made: Any) -> None:
    """Compare a dataset of strings or lists with a copy of it.

    Raises
    ------
    IoFailed
        They differ.
    Unsupported
        h5py does not read such elements, which HDF5 has copied by itself.
    """
    for box in _boxes(dataset.shape or (), chunks_of(dataset)) if dataset.shape is not None else ():
        try:
            values, copied = dataset[box], made[box]
        except TypeError as e:
            words = f"{where} has elements that h5py does not read: they cannot be checked"
            raise Unsupported(f"{words}; leave out {formats.option('check')} ({e})") from e
        pairs = zip(np.ravel(values), np.ravel(copied), strict=True)
        if not all(np.array_equal(old, new) for old, new in pairs):
            raise _differs(where)


def chunks_of(dataset: Any) -> Shape:
    """Return the chunks of a dataset; of one without, chunks of whole rows."""
    shape: Shape = dataset.shape or ()
    if dataset.chunks or not shape:
        return dataset.chunks or ()
    rows = MOST_AT_A_TIME // max(math.prod(shape[1:]), 1)
    return tuple(max(n, 1) for n in (min(shape[0], rows), *shape[1:]))


def chunks_in_zarr(path: str, zarr_format: int | None) -> Shape:
    """Return the chunks of a copy, or its shards. Raises the errors of `open_strings`."""
    traits = traits_of(open_strings(path))
    return traits.chunks if zarr_format == 2 else traits.shards or traits.chunks


def open_strings(path: str) -> Any:
    """Open a Zarr array of strings for reading.

    Raises
    ------
    IoFailed
        It cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            at_address = addresses.is_address(path)
            store = addresses.store_at(path, read_only=True) if at_address else path
            return zarr_python().open_array(store, mode="r")
    except (Unsupported, IoFailed):
        raise
    except Exception as e:  # zarr, json and the codecs raise many types for foreign metadata
        raise IoFailed(f"{path} is not a readable Zarr array: {addresses.words_of(e)}") from e


def _write(
    path: str,
    shape: Shape,
    kept: ZarrTraits,
    options: MoveOptions,
    read: Callable[[Box], np.ndarray],
    where: str,
) -> dict[str, bytes]:
    """Write the strings that `read` returns for boxes as a Zarr array, chunk by chunk."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a type that is not part of Zarr v3 yet
        made, late = _create(path, shape, kept, options)
        for box in _boxes(shape, made.shards or made.chunks):
            strings = read(box)
            _checked_bytes(strings, options, where)
            with _writing(made, path):
                made[box] = strings
            if options.check:
                _compare(where, strings, made[box])
    if not addresses.is_address(path):
        sync_file_system(path)
    return late


def _create(
    path: str, shape: Shape, kept: ZarrTraits, options: MoveOptions
) -> tuple[Any, dict[str, bytes]]:
    """Create an array of strings with the input's properties, as far as the format has them."""
    others = {k: v for k, v in kept.others.items() if k not in ("filters", "serializer")}
    shards = kept.shards
    if options.zarr_format == 2:
        shards = None
        others.pop("fill_value", None)  # xarray treats it as missing there
    kept = dataclasses.replace(kept, shards=shards, others=others)
    spec = ArraySpec(shape, np.dtype(object), kept=kept)
    said = zarr_output.arguments(spec, dataclasses.replace(options, chunks=None, shards=None))
    said.pop("filters", None)
    said["attributes"] = valid(said["attributes"])
    if "fill_value" in said and said["fill_value"] is None:
        said["config"] = {"write_empty_chunks": True}

    def create(store: Any) -> Any:
        return zarr_python().create_array(
            store, shape=shape, chunks=kept.chunks, shards=shards, dtype=str, **said
        )

    return created_at(path, create) if addresses.is_address(path) else (create(path), {})


def _boxes(shape: Shape, unit: Shape) -> Iterator[Box]:
    """Cut an array into chunks, up to its end."""
    starts = (range(0, n, max(c, 1)) for n, c in zip(shape, unit, strict=True))
    for lo in itertools.product(*starts):
        yield tuple(slice(a, min(a + c, n)) for a, c, n in zip(lo, unit, shape, strict=True))


def _read(dataset: Any, box: Box, where: str) -> np.ndarray:
    try:
        return np.asarray(dataset.asstr()[box], object)
    except UnicodeDecodeError as e:
        raise InvalidArgument(f"{where} has a string that is not UTF-8: {e}") from e


def _read_zarr(array: Any, box: Box, path: str) -> np.ndarray:
    try:
        return np.asarray(array[box], object)
    except Exception as e:  # codecs raise many types for bytes that they cannot decode
        unit = array.shards or array.chunks
        cell = tuple(part.start // c for part, c in zip(box, unit, strict=True))
        key = array.metadata.encode_chunk_key(cell)
        raise IoFailed(f"{path} cannot be read in chunk {key}: {addresses.words_of(e)}") from e


def _checked_bytes(strings: np.ndarray, options: MoveOptions, where: str) -> int:
    """Return the bytes of strings in memory; raise if they exceed the limit."""
    nbytes = sum(map(sys.getsizeof, strings.flat))
    if nbytes > options.max_bytes:
        raise NoMemory(
            f"{where} has {nbytes:,} bytes of strings in a chunk, more than the memory limit of "
            f"{options.max_bytes:,}; allow more with {formats.option('max_bytes')}"
        )
    return nbytes


@contextlib.contextmanager
def _writing(made: Any, path: str) -> Iterator[None]:
    """After a failure, let nothing be written later; convert errors at an address."""
    try:
        yield
    except BaseException as e:
        if not addresses.is_address(path):
            raise
        first = made.store.abandon(e)  # objects that it writes later would stay
        if isinstance(e, Exception) and isinstance(first, Exception):
            raise IoFailed(f"{path} cannot be written: {addresses.words_of(first)}") from first
        raise


def _compare(where: str, strings: np.ndarray, found: Any) -> None:
    if not np.array_equal(np.asarray(found, object), strings):
        raise _differs(where)


def _differs(where: str) -> IoFailed:
    return IoFailed(f"{where}: the strings that are read again differ from those written")
