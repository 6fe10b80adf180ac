# SPDX-License-Identifier: BSD-3-Clause
"""Elements of any length, such as strings and lists: copies that one process makes by libraries.

Movers cannot move them because they have no fixed size. h5py and zarr-python read and write
strings, chunk by chunk. HDF5 itself copies datasets and datatypes between HDF5 files; with a fill
value without a fixed size, elements are copied chunk by chunk instead.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, NoMemory, Unsupported
from datamover.files import addresses, formats, hdf5, hdf5_attributes, hdf5_types
from datamover.files.formats import MoveOptions, Output, Reader, Shape, boxes_of, slices_at
from datamover.files.hdf5_types import h5py

#: Options that elements of any length do not have.
UNSUPPORTED = ("region", "axes", "shards")
#: Number of elements that are read together, for a dataset without chunks.
MOST_AT_A_TIME = 1 << 14
#: Maximum bytes of a string in HDF5 for each byte in Python.
GROWTH = 2


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
    for lo, hi in _written_boxes(held):
        here, space = hdf5.selection(held.id, lo, extents_of(lo, hi))
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
    kind, space = dataset.id.get_type().copy(), dataset.id.get_space()
    if shape != dataset.shape:
        pairs = zip(shape, dataset.maxshape, strict=True)
        space = hdf5.space_of(shape, tuple(None if m is None else n for n, m in pairs))
    with hdf5_types.refusing(f"{where} cannot be created in the output"):
        hdf5.create(made, name, kind, space, properties)


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
    for lo, hi in _written_boxes(dataset):
        box = tuple(map(slice, lo, hi))
        words = f"{where} has elements that h5py does not read: they cannot be checked"
        remedy = f"leave out {formats.option('check')}"
        with addresses.failing(f"{words}; {remedy}", Unsupported, (TypeError,)):
            values, copied = dataset[box], made[box]
        pairs = zip(np.ravel(values), np.ravel(copied), strict=True)
        if not all(np.array_equal(old, new) for old, new in pairs):
            raise differs(where)


def _written_boxes(dataset: Any) -> Iterator[tuple[Shape, Shape]]:
    """Yield the boxes of a dataset, without chunks that are not in the file.

    HDF5 cannot read those of strings that have a fill value from a file opened for reading.
    """
    shape, chunks = dataset.shape, chunks_of(dataset)
    for lo, hi in boxes_of(shape, chunks) if shape is not None else ():
        if not dataset.chunks or dataset.id.get_chunk_info_by_coord(lo).byte_offset is not None:
            yield lo, hi


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


def extents_of(lo: Shape, hi: Shape) -> Shape:
    """Return the extents of a box."""
    return tuple(b - a for a, b in zip(lo, hi, strict=True))


def bytes_of(strings: np.ndarray) -> int:
    """Return the bytes of strings in memory."""
    return sum(map(sys.getsizeof, strings.flat))


def differs(where: str) -> IoFailed:
    """Return the error of elements that do not stay the same."""
    return IoFailed(f"{where}: the strings that are read again differ from those written")


class StringsReader(hdf5.OpenDataset):
    """An HDF5 dataset of strings, which h5py decodes."""

    def __post_init__(self) -> None:
        self.granule: Shape = chunks_of(self._dataset)

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the strings from index `lo` on.

        Raises
        ------
        InvalidArgument
            A string is not UTF-8.
        """
        words = f"{self._where} has a string that is not UTF-8"
        is_text = addresses.failing(words, InvalidArgument, (UnicodeDecodeError,))
        with hdf5.reading(self._where), is_text:
            out[...] = self._dataset.asstr()[slices_at(lo, out.shape)]


class StringsWriter(hdf5.OpenOutput):
    """An HDF5 dataset of strings for writing."""

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write strings to the elements from index `lo` on."""
        hdf5.check_growth(self._file, GROWTH * bytes_of(array))
        with self.naming_errors():
            self._dataset[slices_at(lo, array.shape)] = array

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the strings from index `lo` on."""
        out[...] = self._dataset.asstr()[slices_at(lo, out.shape)]


def are_in(dataset: Any) -> bool:
    """Return whether an HDF5 dataset's elements are strings of any length."""
    kind = dataset.id.get_type()
    is_string = kind.get_class() == h5py.h5t.STRING
    return is_string and kind.is_variable_str() and dataset.shape is not None


def reader_of(where: str, dataset: Any, to: str | None) -> type[hdf5.OpenDataset] | None:
    """Return the reader of a dataset that is copied to the format `to`; None if it is moved.

    Raises
    ------
    Unsupported
        Elements without a fixed size would mean something else in another file.
    """
    if to == "hdf5" and is_copied_in_hdf5(where, dataset):
        return hdf5.OpenDataset
    return StringsReader if to == "zarr" and are_in(dataset) else None


def refuse_options(source: str, to: str, options: MoveOptions) -> None:
    """Raise InvalidArgument if an option does not apply to elements of any length."""
    what = "is not for elements of any length, such as strings,"
    converts = () if options.output_dtype is np.dtype(object) else ("output_dtype",)
    formats.refuse((*UNSUPPORTED, *converts), options, f"{what} as in {source}")
    if to == "hdf5":
        formats.refuse(("chunks", "compressor"), options, f"{what} in HDF5, as {source} has")


def copy(reader: Reader, output: Output, path: str, options: MoveOptions) -> None:
    """Write all strings to an output that was created, unless HDF5 has already copied them.

    Raises
    ------
    NoMemory
        A chunk of strings exceeds the limit.
    IoFailed
        Strings that are read again differ.
    """
    native = hdf5_types.native_of(output.spec)
    if native is not None and output.shown is None:
        return
    where = reader.spec.kept.where
    with contextlib.closing(output.open(path)) as writer:
        for lo, hi in boxes_of(output.spec.shape, (output.shown or reader).granule):
            strings, again = (np.empty(extents_of(lo, hi), object) for _ in "ab")
            reader.read(lo, strings)
            nbytes = bytes_of(strings)
            if nbytes > options.max_bytes:
                raise NoMemory(
                    f"{where} has {nbytes:,} bytes of strings in a chunk, more than the "
                    f"memory limit of {options.max_bytes:,}; allow more with "
                    f"{formats.option('max_bytes')}"
                )
            writer.write(lo, strings)
            if options.check:
                writer.read(lo, again)
                if not np.array_equal(again, strings):
                    raise differs(where)
