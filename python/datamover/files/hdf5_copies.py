# SPDX-License-Identifier: BSD-3-Clause
"""Copies of HDF5 datasets and datatypes that HDF5 itself makes: of elements without a fixed size.

With a fill value without a fixed size, elements are copied chunk by chunk instead.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import IoFailed, Unsupported
from datamover.files import formats, hdf5, hdf5_attributes, hdf5_types
from datamover.files.formats import Shape
from datamover.files.hdf5_types import h5py

#: Number of elements that are read together, for a dataset without chunks.
MOST_AT_A_TIME = 1 << 14
#: Maximum bytes of a string in HDF5 for each byte in Python.
GROWTH = 2

Box = tuple[slice, ...]


def is_copied_in_hdf5(where: str, dataset: Any) -> bool:
    """Return whether elements have no fixed size, so that `copy_dataset` copies the dataset.

    Raises
    ------
    Unsupported
        It would mean something else in another file, or cannot be copied.
    """
    kind = dataset.id.get_type()
    if hdf5_types.has_references(kind):
        raise Unsupported(f"{where} refers to what is in the file")
    if _has_fill_of_any_length(dataset) and not _is_read_by_h5py(kind):
        raise Unsupported(f"{where} has a fill value and elements that h5py does not read")
    is_copied = not hdf5_types.is_of_fixed_size(kind)
    if dataset.is_virtual and is_copied:
        raise Unsupported(f"{where} has its elements, without a fixed size, in other files")
    return is_copied


def copy_object(held: Any, made: Any, name: str) -> None:
    """Let HDF5 copy a dataset or datatype to another file, without attributes."""
    properties = h5py.h5p.create(h5py.h5p.OBJECT_COPY)
    properties.set_copy_object(h5py.h5o.COPY_WITHOUT_ATTR_FLAG)
    h5py.h5o.copy(held.id, b".", made.id, name.encode(), properties, hdf5.link_properties())


def copy_dataset(where: str, held: Any, file: Any, name: str, check: str | None) -> None:
    """Copy a dataset to another open file, without attributes; compare them if there is a `check`.

    HDF5 would copy a fill value of a variable length as a place in the other file. With such a
    value, elements are copied chunk by chunk instead.
    """
    is_written = not is_unwritten(held)
    if is_written and not _has_fill_of_any_length(held):
        copy_object(held, file, name)
    else:
        make_empty(where, held, file, name, held.shape)
        if is_written:
            _copy_elements(where, held, file, name)
    if check and _has_objects(held):
        _check_copy(where, held, file[name])


def _copy_elements(where: str, held: Any, file: Any, name: str) -> None:
    made = file[name]
    for box in _written_boxes(held):
        here, space = held.id.get_space(), h5py.h5s.create(h5py.h5s.SCALAR)
        if box:
            counts = tuple(part.stop - part.start for part in box)
            here.select_hyperslab(tuple(part.start for part in box), counts)
            space = h5py.h5s.create_simple(counts)
        with hdf5.reading(where):
            values, memory = hdf5_attributes.memory_for(held.id.get_type(), space)
            held.id.read(space, here, values, memory)
        if values is not None:
            hdf5.check_growth(file, GROWTH * bytes_of(values))
            made.id.write(space, here, values, memory)


def make_empty(where: str, dataset: Any, made: Any, name: str, shape: Shape) -> None:
    """Create a dataset with the properties of another one and a shape, without elements."""
    properties = dataset.id.get_create_plist()
    if dataset.is_virtual or dataset.external:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    hdf5.record_order(properties)
    kind, space = dataset.id.get_type().copy(), dataset.id.get_space()
    if shape != dataset.shape:
        growing = (n is None for n in dataset.maxshape)
        most = (h5py.h5s.UNLIMITED if g else n for n, g in zip(shape, growing, strict=True))
        space = h5py.h5s.create_simple(shape, tuple(most))
    try:
        h5py.h5d.create(
            made.id, name.encode(), kind, space, dcpl=properties, lcpl=hdf5.link_properties()
        )
    except (TypeError, ValueError) as e:
        raise Unsupported(f"{where} cannot be created in the output: {e}") from e


def is_unwritten(dataset: Any) -> bool:
    """Return whether a dataset has no elements in the file yet.

    Not for chunked datasets that are moved: chunks with only the fill value are not written anyway.
    """
    if dataset.is_virtual or dataset.external or (dataset.chunks and not _has_objects(dataset)):
        return False
    return bool(dataset.size) and dataset.id.get_storage_size() == 0


def _has_objects(dataset: Any) -> bool:
    """Return whether elements are more than bytes of a fixed number."""
    return not hdf5_types.is_of_fixed_size(dataset.id.get_type())


def _has_fill_of_any_length(dataset: Any) -> bool:
    """Return whether a dataset has a fill value of its own with strings or lists of any length."""
    defined = dataset.id.get_create_plist().fill_value_defined()
    is_own = defined == h5py.h5d.FILL_VALUE_USER_DEFINED
    return is_own and hdf5_types.consists_of(dataset.id.get_type(), hdf5_types.is_of_any_length)


def _is_read_by_h5py(kind: Any) -> bool:
    with contextlib.suppress(TypeError):  # NumPy does not have the type
        return kind.dtype is not None and not hdf5_types.are_lists_misread(kind)
    return False


def _check_copy(where: str, dataset: Any, made: Any) -> None:
    """Compare a dataset of strings or lists with a copy of it.

    Raises
    ------
    IoFailed
        They differ.
    Unsupported
        h5py does not read such elements, which HDF5 has copied by itself.
    """
    for box in _written_boxes(dataset):
        try:
            values, copied = dataset[box], made[box]
        except TypeError as e:
            words = f"{where} has elements that h5py does not read: they cannot be checked"
            raise Unsupported(f"{words}; leave out {formats.option('check')} ({e})") from e
        pairs = zip(np.ravel(values), np.ravel(copied), strict=True)
        if not all(np.array_equal(old, new) for old, new in pairs):
            raise differs(where)


def _written_boxes(dataset: Any) -> Iterator[Box]:
    """Yield the boxes of a dataset, without chunks that are not in the file.

    HDF5 cannot read those of strings that have a fill value from a file opened for reading.
    """
    for box in boxes(dataset.shape, chunks_of(dataset)) if dataset.shape is not None else ():
        first = tuple(part.start for part in box)
        if not dataset.chunks or dataset.id.get_chunk_info_by_coord(first).byte_offset is not None:
            yield box


def chunks_of(dataset: Any) -> Shape:
    """Return the chunks of a dataset; of one without, chunks of whole rows."""
    shape: Shape = dataset.shape or ()
    if dataset.chunks or not shape:
        return dataset.chunks or ()
    rows = MOST_AT_A_TIME // max(math.prod(shape[1:]), 1)
    return tuple(max(n, 1) for n in (min(shape[0], rows), *shape[1:]))


def check_growth(file: Any, dataset: Any) -> None:
    """Raise IoFailed if a copy of a dataset may have no room in an open file."""
    most = dataset.file.id.get_filesize()
    try:
        hdf5.check_growth(file, most)
    except IoFailed:  # only then, since it reads all of the file's tree
        found = hdf5.tree(dataset.file)
        others = (held for n, held in found.datasets.items() if n not in found.same)
        sizes = (held.id.get_storage_size() for held in others if held != dataset)
        hdf5.check_growth(file, max(most - sum(sizes), 0))


def boxes(shape: Shape, unit: Shape) -> Iterator[Box]:
    """Cut an array into chunks, up to its end."""
    starts = (range(0, n, max(c, 1)) for n, c in zip(shape, unit, strict=True))
    for lo in itertools.product(*starts):
        yield tuple(slice(a, min(a + c, n)) for a, c, n in zip(lo, unit, shape, strict=True))


def bytes_of(strings: np.ndarray) -> int:
    """Return the bytes of strings in memory."""
    return sum(map(sys.getsizeof, strings.flat))


def differs(where: str) -> IoFailed:
    """Return the error of elements that do not stay the same."""
    return IoFailed(f"{where}: the strings that are read again differ from those written")
