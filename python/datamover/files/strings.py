# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of strings of any length between HDF5 and Zarr, as part of a whole file or group.

Movers cannot move them because they have no fixed size: one process reads and writes them with h5py
and zarr-python, chunk by chunk. Between HDF5 files, HDF5 itself copies them, unless they have a
fill value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
    chunk_boxes,
    formats,
    hdf5,
    hdf5_attributes,
    hdf5_format,
    hdf5_types,
    zarr_group,
    zarr_output,
)
from datamover.files.formats import ArraySpec, Late, MoveOptions, Shape
from datamover.files.hdf5_types import h5py
from datamover.files.state_dimensions import checked_names
from datamover.files.zarr_array import bound, created, opened, writing
from datamover.files.zarr_traits import ZarrTraits, traits_of

#: Number of elements of a chunk, or that are read together, for a dataset without chunks.
MOST_AT_A_TIME = 1 << 14
#: Options that strings and lists of any length do not have.
NOT_OF_STRINGS = ("region", "axes", "shards", "dtype", "output_dtype")
#: Maximum bytes of a string in HDF5 for each byte in Python.
GROWTH = 2

Box = tuple[slice, ...]


def is_of(dataset: Any) -> bool:
    """Return whether a dataset's elements are strings of any length."""
    kind = dataset.id.get_type()
    is_string = kind.get_class() == h5py.h5t.STRING
    return is_string and kind.is_variable_str() and dataset.shape is not None


@dataclasses.dataclass(frozen=True)
class Strings:
    """An array of strings of a file that is open.

    Attributes
    ----------
    where : str
        The array, as a user names it.
    shape : tuple of int
    kept : ZarrTraits
        Properties that a copy keeps.
    read : callable
        Returns the strings of a box.
    dataset
        The HDF5 dataset; None for Zarr.
    data : AddressBlocks, optional
        The bytes of its file at an address.
    """

    where: str
    shape: Shape
    kept: ZarrTraits
    read: Callable[[Box], np.ndarray]
    dataset: Any = None
    data: addresses.AddressBlocks | None = None

    def boxes(self, options: MoveOptions) -> Iterator[tuple[Box, np.ndarray]]:
        """Yield chunks up to the end of the array: where, and their strings.

        Raises
        ------
        InvalidArgument
            A string is not UTF-8.
        NoMemory
            A chunk of strings exceeds the limit.
        """
        for box in _boxes(self.shape, self.kept.shards or self.kept.chunks):
            strings = self.read(box)
            nbytes = _bytes_of(strings)
            if nbytes > options.max_bytes:
                raise NoMemory(
                    f"{self.where} has {nbytes:,} bytes of strings in a chunk, more than the "
                    f"memory limit of {options.max_bytes:,}; allow more with "
                    f"{formats.option('max_bytes')}"
                )
            yield box, strings

    def check(self, strings: np.ndarray, found: Any) -> None:
        """Raise IoFailed if strings that are read again differ."""
        if not np.array_equal(np.asarray(found, object), strings):
            raise _differs(self.where)


def of_hdf5(dataset: Any, name: str, where: str, of_netcdf: bool) -> Strings:
    """Return a dataset of an open file; errors name `where`."""
    with hdf5.reading(where):
        attributes = hdf5_format.json_attributes(dataset, of_netcdf)
        names = hdf5_format.dimension_names(dataset, name)
    kept = ZarrTraits(chunks_of(dataset), None, names, "auto", {"attributes": attributes})

    def read(box: Box) -> np.ndarray:
        with hdf5.reading(where):
            try:
                return np.asarray(dataset.asstr()[box], object)
            except UnicodeDecodeError as e:
                raise InvalidArgument(f"{where} has a string that is not UTF-8: {e}") from e

    return Strings(where, dataset.shape, kept, read, dataset)


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


@contextlib.contextmanager
def opened_in_hdf5(path: str, name: str | None, to: str) -> Iterator[Strings | None]:
    """Open a dataset, the only one by default; None if it can be moved to the format `to`."""
    data, found = hdf5.bytes_at(path), None
    with hdf5.open_file(path, data) as file:
        with hdf5.reading(path):
            name, dataset = hdf5.named_dataset(file, path, name, is_here=data is None)
            where = f"{path}:/{name}"
            of_kind = is_copied_in_hdf5(where, dataset) if to == "hdf5" else is_of(dataset)
            if of_kind and dataset.shape is not None:
                found = of_hdf5(dataset, name, where, hdf5_format.is_netcdf(file, dataset))
                found = dataclasses.replace(found, data=data)
        yield found
    if data is not None:
        data.forget()


def opened_in_zarr(path: str) -> contextlib.AbstractContextManager[Strings | None]:
    """Open an array, which may be at an address; None if it can be moved."""
    are_strings = zarr_group.has_strings(zarr_group.metadata(path))
    return contextlib.nullcontext(of_zarr(path) if are_strings else None)


def of_zarr(path: str) -> Strings:
    """Return a Zarr array, which may be at an address. Raises IoFailed if it cannot be read."""
    array = opened(path)
    with addresses.failing(f"{path} is not a readable Zarr array"):
        kept = traits_of(array)

    def read(box: Box) -> np.ndarray:
        unit = array.shards or array.chunks
        cell = tuple(part.start // c for part, c in zip(box, unit, strict=True))
        key = array.metadata.encode_chunk_key(cell)
        with addresses.failing(f"{path} cannot be read in chunk {key}"):
            return np.asarray(array[box], object)

    return Strings(path, array.shape, kept, read)


def to_hdf5(source: Strings, file: Any, name: str, options: MoveOptions) -> None:
    """Write strings to an open file, with their attributes."""
    attributes = source.kept.others["attributes"]
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    hdf5_attributes.give_room(properties, hdf5_attributes.are_large(attributes))
    spec = ArraySpec(source.shape, h5py.string_dtype())
    made = hdf5.create_with(file, name, spec, properties)
    for box, strings in source.boxes(options):
        hdf5.check_growth(file, GROWTH * _bytes_of(strings))
        made[box] = strings
        if options.check:
            source.check(strings, made.asstr()[box])
    hdf5_attributes.write_of_json(source.where, made, attributes)


def copy_object(held: Any, made: Any, name: str) -> None:
    """Let HDF5 copy a dataset or datatype to another file, without attributes."""
    properties = h5py.h5p.create(h5py.h5p.OBJECT_COPY)
    properties.set_copy_object(h5py.h5o.COPY_WITHOUT_ATTR_FLAG)
    h5py.h5o.copy(held.id, b".", made.id, name.encode(), properties, hdf5.link_properties())


def copy_dataset(where: str, held: Any, file: Any, name: str) -> None:
    """Copy a dataset to another open file, without attributes.

    HDF5 would copy a fill value of a variable length as a place in the other file. With such a
    value, elements are copied chunk by chunk instead.
    """
    is_written = not is_unwritten(held)
    if is_written and not _has_fill_of_any_length(held):
        copy_object(held, file, name)
        return
    make_empty(where, held, file, name, held.shape)
    if is_written:
        _copy_elements(where, held, file, name)


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
            hdf5.check_growth(file, GROWTH * _bytes_of(values))
            made.id.write(space, here, values, memory)


def make_empty(where: str, dataset: Any, made: Any, name: str, shape: Shape) -> None:
    """Create a dataset with the properties of another one and a shape, without elements."""
    properties = dataset.id.get_create_plist()
    if dataset.is_virtual or dataset.external:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    hdf5_attributes.give_room(properties, hdf5_attributes.has_room(dataset))
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
    if dataset.is_virtual or dataset.external or (dataset.chunks and not has_objects(dataset)):
        return False
    return bool(dataset.size) and dataset.id.get_storage_size() == 0


def has_objects(dataset: Any) -> bool:
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


def check_copy(where: str, dataset: Any, made: Any) -> None:
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
            raise _differs(where)


def _written_boxes(dataset: Any) -> Iterator[Box]:
    """Yield the boxes of a dataset, without chunks that are not in the file.

    HDF5 cannot read those of strings that have a fill value from a file opened for reading.
    """
    for box in _boxes(dataset.shape, chunks_of(dataset)) if dataset.shape is not None else ():
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


def described(source: Strings, path: str, to: str, options: MoveOptions) -> Strings:
    """Return the strings of a path for a format, with the requested chunks and names of dimensions.

    Raises
    ------
    InvalidArgument
        Strings do not have an option.
    """
    kept, dims = source.kept, options.dims
    kind = "zarr" if source.dataset is None else "hdf5"
    formats.check_options(options, formats.named(kind), formats.named(to))
    what = "is not for elements of any length, such as strings,"
    formats.refuse(NOT_OF_STRINGS, options, f"{what} as in {path}")
    if to == "hdf5":
        formats.refuse(("chunks", "compressor"), options, f"{what} in HDF5, as {path} has")
    spec = ArraySpec(source.shape, np.dtype(object))
    if options.chunks is not None:
        chunk_boxes.check_boxes("chunks", options.chunks, spec)
        kept = dataclasses.replace(kept, chunks=options.chunks, shards=None)
    if (names := checked_names("the output", dims, source.shape)) is not None:
        kept = dataclasses.replace(kept, dimension_names=names)
    return dataclasses.replace(source, kept=kept)


def to_new_hdf5(source: Strings, path: str, name: str, options: MoveOptions) -> None:
    """Write strings to a file of their own, with their properties."""

    def fill(file: Any) -> None:
        if source.dataset is None:
            to_hdf5(source, file, name, options)
        else:
            _check_growth(file, source.dataset)
            copy_dataset(source.where, source.dataset, file, name)
            unchanged = source.where, source.dataset, file[name]
            hdf5_attributes.copy(*unchanged, hdf5_attributes.OF_DIMENSIONS)
            if options.check:
                check_copy(*unchanged)
        names = hdf5_attributes.dimension_names(source.kept)
        hdf5_attributes.name_dimensions(file, {name: names})

    hdf5.create_file(path, fill, 0)


def _check_growth(file: Any, dataset: Any) -> None:
    """Raise IoFailed if a copy of a dataset may have no room in an open file."""
    most = dataset.file.id.get_filesize()
    try:
        hdf5.check_growth(file, most)
    except IoFailed:  # only then, since it reads all of the file's tree
        found = hdf5.tree(dataset.file)
        others = (held for n, held in found.datasets.items() if n not in found.same)
        sizes = (held.id.get_storage_size() for held in others if held != dataset)
        hdf5.check_growth(file, max(most - sum(sizes), 0))


def tell_not_in_json(source: Strings) -> None:
    """Log the attributes of a dataset of HDF5 that JSON cannot store."""
    if source.dataset is not None:
        with hdf5.reading(source.where):
            names = hdf5_format.left_out(source.dataset, source.kept.others["attributes"])
        hdf5_attributes.tell_not_in_json(source.where, names)


def to_zarr(source: Strings, path: str, options: MoveOptions) -> Late:
    """Write strings as a Zarr array with their properties; return what `formats.Output` does."""
    with warnings.catch_warnings(action="ignore"):  # about a type that is not part of Zarr v3 yet
        array, objects = created(functools.partial(_create, source.shape, source.kept, options))
        late = zarr_group.write_objects(path, objects)
        made = bound(array, path)
        for box, strings in source.boxes(options):
            with writing(made, path):
                made[box] = strings
            if options.check:
                source.check(strings, made[box])
    return late


def files_in_zarr(source: Strings, options: MoveOptions) -> int:
    """Return the maximum number of files as a Zarr array."""
    kept = source.kept
    chunks = kept.chunks if options.zarr_format == 2 else kept.shards or kept.chunks
    files = zarr_output.metadata_files(options.zarr_format)
    return files + formats.num_boxes(source.shape, chunks)


def _create(shape: Shape, kept: ZarrTraits, options: MoveOptions, store: Any) -> Any:
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
    if "fill_value" in said and said["fill_value"] is None:
        said["config"] = {"write_empty_chunks": True}
    return zarr_output.create_in(store, shape, str, kept.chunks, shards, said)


def _boxes(shape: Shape, unit: Shape) -> Iterator[Box]:
    """Cut an array into chunks, up to its end."""
    starts = (range(0, n, max(c, 1)) for n, c in zip(shape, unit, strict=True))
    for lo in itertools.product(*starts):
        yield tuple(slice(a, min(a + c, n)) for a, c, n in zip(lo, unit, shape, strict=True))


def _bytes_of(strings: np.ndarray) -> int:
    """Return the bytes of strings in memory."""
    return sum(map(sys.getsizeof, strings.flat))


def _differs(where: str) -> IoFailed:
    return IoFailed(f"{where}: the strings that are read again differ from those written")
