# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 format: reading and writing of one dataset of a file by a move.

`run.h5:/fields/u` names a dataset. The properties that a Zarr array would keep are kept:
attributes, names of dimensions, fill value and chunks. Between HDF5 files, attributes and fill
value also keep their HDF5 types.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import (
    chunk_boxes,
    formats,
    hdf5,
    hdf5_attributes,
    hdf5_chunks,
    hdf5_types,
    strings,
)
from datamover.files.addresses import AddressBlocks
from datamover.files.flat import FlatFile, FlatObject, check_flat_dtype
from datamover.files.formats import ArraySpec, Format, MoveOptions, Output, Shape, log
from datamover.files.hdf5_attributes import OF_DIMENSIONS, OF_NETCDF
from datamover.files.hdf5_types import h5py
from datamover.files.json_values import FILL_VALUE, flat
from datamover.files.names import HDF5_SUFFIXES
from datamover.files.zarr_traits import ZarrTraits, missing_to_zarr

#: The attribute with the labels of dimensions.
LABELS = "DIMENSION_LABELS"
#: Attributes by which HDF5 and NetCDF keep track of dimensions.
INTERNAL = OF_DIMENSIONS | {OF_NETCDF, "_nc3_strict"}
#: The attribute with the number of a dimension of NetCDF, and those of a coordinate's dimensions.
NUMBER, NUMBERS = "_Netcdf4Dimid", "_Netcdf4Coordinates"
#: Objects at the root of a file that are looked at for it.
MOST_LOOKED_AT = 256
#: Attributes whose type determines that of decoded elements, and the bytes of JSON's numbers.
OF_PACKED, JSON_BYTES = ("scale_factor", "add_offset"), 8
#: Classes of datasets that are their scales; other classes are images, tables and the like.
OF_SCALES = {"CLASS", "NAME"}


def open_reader(path: str, options: MoveOptions) -> Any:
    """Open the dataset that was named, or the only one."""
    if os.path.isdir(path):
        raise IoFailed(f"{path} is a directory, not an HDF5 file")
    as_stored = options.output_format == "hdf5" and options.output_dtype is None
    data = hdf5.bytes_at(path)
    return open_dataset(path, options.member, data, as_stored, options.output_format, True)


def open_dataset(
    path: str,
    name: str | None,
    data: AddressBlocks | None = None,
    as_stored: bool = False,
    to: str | None = None,
    keeps_traits: bool = False,
) -> FlatFile | hdf5.OpenDataset:
    """Open a dataset for reading; at an address by its `data`.

    The name None is that of the only dataset. `as_stored` is that of `hdf5_types.dtype_of`.
    Elements of any length are only read for a format `to` that can have them.

    Raises
    ------
    IoFailed
        It does not exist, or the file ends within it.
    Unsupported
        Its elements have no fixed size.
    """
    with hdf5.reading(path), contextlib.ExitStack() as opened:
        file = opened.enter_context(hdf5.open_file(path, data))
        name, dataset = hdf5.named_dataset(file, path, name, is_here=data is None)
        where = f"{path}:/{name}"
        if dataset.shape is None:
            raise Unsupported(f"{where} has no elements (a null dataspace)")
        kind = strings.reader_of(where, dataset, to)
        dtype = np.dtype(object)
        if kind is None:
            dtype = hdf5_types.dtype_of(dataset.id.get_type(), where, as_stored)
            check_flat_dtype(dtype, where)
        formats.check_shape(dataset.shape, dtype, where)
        if data is not None and (dataset.is_virtual or dataset.external):
            raise Unsupported(f"{where} has its elements in other files; copy all of them here")
        if dataset.is_virtual:
            hdf5.check_sources(path, dataset, where)
        spec = ArraySpec(tuple(dataset.shape), dtype)
        if keeps_traits:
            spec = dataclasses.replace(spec, kept=_kept((path, name), file, dataset, spec))
        plain = kind is None and hdf5_types.is_plain(file, dataset, dtype)
        is_chunked = dataset.chunks is not None
        offset = dataset.id.get_offset() if plain and not is_chunked else None
        if offset is None:
            if kind is None:
                is_direct = plain and is_chunked
                kind = hdf5_chunks.ChunkedDataset if is_direct else hdf5.DatasetReader
            found = kind(file, dataset, (path, name), spec, data)
            opened.pop_all()  # which it closes
            return found
    if (data.size if data else os.path.getsize(path)) < offset + spec.nbytes:
        raise IoFailed(f"{where} is truncated: the file ends within it")
    if data is not None:
        return FlatObject(path, spec, offset, data)
    return FlatFile(path, spec, offset, writable=False)


def _kept(place: tuple[str, str], file: Any, dataset: Any, spec: ArraySpec) -> ZarrTraits:
    attributes = json_attributes(dataset, is_netcdf(file, dataset))
    if FILL_VALUE in attributes:
        attributes[FILL_VALUE] = missing_to_zarr(attributes[FILL_VALUE], spec.dtype)
    native = hdf5_attributes.read(place, dataset, spec.dtype)
    losses = losses_in_json(native.where, dataset, attributes)
    names = dimension_names(dataset, native.where)
    fill = None
    if spec.dtype.names is None and not spec.dtype.hasobject:
        is_own = native.fill_value is None  # HDF5's own, or undefined
        fill = np.zeros((), spec.dtype)[()] if is_own else native.fill_value
    chunks: Shape = dataset.chunks or chunk_boxes.chunk_shape(spec, MoveOptions())
    if spec.dtype.hasobject:  # of any size
        chunks = strings.chunks_of(dataset)
    others: dict[str, Any] = {"attributes": attributes}
    if fill is not None:
        others["fill_value"] = fill
    return ZarrTraits(
        tuple(chunks), None, names, "auto", others,
        native=native, where=native.where, losses=losses,
    )  # fmt: skip


def is_netcdf(file: Any, dataset: Any = None) -> bool:
    """Return whether a file, and a dataset in it, is of NetCDF: numbers are lists of one element.

    Old files are not marked, but number their dimensions, which are scales.
    """
    if OF_NETCDF in file.attrs:
        return True
    if dataset is not None and dataset.ndim > 0:
        dims = dataset.dims if hdf5.has_scales(dataset.id) else ()
        scales = [dim[0] for dim in dims if _scale_name(dim)]
        return any(NUMBER in held.attrs for held in (dataset, *scales))
    return any(_is_numbered(file, name) for name in itertools.islice(file, MOST_LOOKED_AT))


def _is_numbered(group: Any, name: str | bytes) -> bool:
    """Return whether an object directly in a group, not one that is linked, has a number."""
    name = name if isinstance(name, bytes) else name.encode()
    is_there = group.id.links.get_info(name).type == h5py.h5l.TYPE_HARD
    return is_there and h5py.h5a.exists(group.id, NUMBER.encode(), obj_name=name)


def json_attributes(
    held: Any, of_netcdf: bool = False, only: frozenset[str] | None = None
) -> dict[str, Any]:
    """Return the attributes that JSON can store, without those that only HDF5 needs."""
    found, internal = {}, _internal(held)
    names = [n for n in held.attrs if n not in internal and (only is None or n in only)]
    for name, value in hdf5.values_of(held.attrs, names):
        if of_netcdf and isinstance(value, np.ndarray) and value.shape == (1,):
            value = value.tolist()[0]
        if isinstance(value, np.ndarray):
            value = value.tolist() if value.dtype.kind in "biufUO" else None
        words = value if isinstance(value, list) else [value]
        plain = all(isinstance(word, (bool, int, float, str)) for word in flat(words))
        if value is not None and plain:
            found[name] = value
    return found


def losses_in_json(where: str, held: Any, found: dict[str, Any]) -> tuple[str, ...]:
    """Describe the attributes that are not among those found for JSON, or get another type."""

    def is_short(name: str) -> bool:
        kind = held.attrs.get_id(name).get_type()
        return kind.get_class() == h5py.h5t.FLOAT and kind.get_size() < JSON_BYTES

    internal = _internal(held)
    losses = [
        f"{where}: its attribute {name} is left out: JSON has none of that type"
        for name in held.attrs
        if name not in found and name not in internal
    ]
    packed = OF_PACKED if isinstance(held, h5py.Dataset) else ()
    if lengthened := [name for name in packed if name in held.attrs and is_short(name)]:
        losses.append(
            f"{where}: {' and '.join(lengthened)} become float64, the only type of JSON: xarray "
            "decodes the elements to float64"
        )
    return tuple(losses)


def _internal(held: Any) -> set[str]:
    """Return the names of a dataset's or group's attributes that only HDF5 needs."""
    return INTERNAL | OF_SCALES if getattr(held, "is_scale", False) else INTERNAL


def dimension_names(dataset: Any, name: str) -> tuple[str | None, ...] | None:
    """Return the labels of dimensions, or the names of their scales; a scale is its own."""
    if dataset.is_scale and dataset.ndim == 1:
        return (name.rsplit("/", 1)[-1],)
    if dataset.is_scale and NUMBERS in dataset.attrs:
        return _numbered_names(dataset)
    dims = dataset.dims if hdf5.has_scales(dataset.id) else [()] * dataset.ndim
    pairs = zip(_labels(dataset), dims, strict=True)
    found = tuple(label or _scale_name(dim) for label, dim in pairs)
    return found if any(found) else None


def _numbered_names(dataset: Any) -> tuple[str | None, ...] | None:
    """Return the names of a NetCDF coordinate's dimensions, as of station(station, characters).

    It is a scale, which cannot have scales. Dimensions of a group are also those of groups in it.
    """
    found: dict[int, str] = {}
    above = dataset.name
    with contextlib.suppress(TypeError, ValueError):  # attributes that netCDF would not write
        while above != "/":
            above = posixpath.dirname(above)
            group = dataset.file[above]
            for name in (n for n in group if isinstance(n, str) and _is_numbered(group, n)):
                if getattr(group[name], "is_scale", False):
                    found.setdefault(int(group[name].attrs[NUMBER]), name)
        names = tuple(map(found.get, np.ravel(dataset.attrs[NUMBERS]).tolist()))
        return names if len(names) == dataset.ndim and any(names) else None
    return None


def _labels(dataset: Any) -> list[str]:
    """Read the labels of dimensions. HDF5's own call crashes if they cannot be read."""
    none = [""] * dataset.ndim
    if LABELS not in dataset.attrs:
        return none
    try:
        words = np.ravel(np.asarray(dataset.attrs[LABELS], object))
    except (TypeError, ValueError):  # a type that NumPy does not have
        return none
    found = [w.decode("utf-8", "replace") if isinstance(w, bytes) else w for w in words]
    is_usual = len(found) == dataset.ndim and all(isinstance(word, str) for word in found)
    return found if is_usual else none


def _scale_name(dim: Any) -> str | None:
    """Return the name of a dimension's first scale; None if it has none, or it was removed."""
    try:
        return (dim[0].name or "").rsplit("/", 1)[-1] or None if len(dim) else None
    except (RuntimeError, LookupError, ValueError, OSError):  # raised for a removed scale
        return None


class Hdf5Output(Output):
    """A dataset that will be written, in a file of its own or in one with others."""

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        self._is_copied = spec.dtype.hasobject and hdf5_types.native_of(spec) is not None
        if spec.dtype.hasobject:
            spec = dataclasses.replace(spec, dtype=h5py.string_dtype())
        else:
            check_flat_dtype(spec.dtype, "the output")
            hdf5_types.kind_of(spec)
        self._is_chunked = hdf5_chunks.is_chunked(spec, options)
        super().__init__(dataclasses.replace(spec, order="C"), options)
        name = options.output_member or options.member
        if name is None:
            raise InvalidArgument("name the dataset of the output, as out.h5:/NAME")
        self._name, self._options = name, options
        if self._is_chunked:
            self.shown = hdf5_chunks.ChunkedOutput("", "", self.spec, options)

    def create(self, path: str) -> dict[str, bytes]:
        """Create a file of one dataset, with the attributes that are kept."""
        create_file(path, {self._name: self})
        return {}

    def create_in(self, file: Any) -> None:
        """Create the dataset in an open file, without attributes.

        The place of one without chunks is settled, but its elements are not written.
        """
        if self._is_copied:
            self._copy_to(file)
            return
        properties, spec = hdf5_attributes.creation_properties(self.spec), self.spec
        if self._is_chunked:
            hdf5_chunks.set_chunks(properties, spec, self._options)
        elif not spec.dtype.hasobject:
            properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        kind = hdf5_types.kind_of(spec, repr(self._name))
        most = hdf5_chunks.most_of(self._options) if self._is_chunked else None
        space = hdf5.space_of(spec.shape, most)
        with hdf5_types.refusing(f"HDF5 cannot hold {self._name!r} of dtype {spec.dtype}"):
            made = hdf5.create(file, self._name, kind, space, properties)
        if not self._is_chunked and spec.nbytes and made.id.get_offset() is None:
            raise Unsupported(
                f"this HDF5 does not report where {self._name!r} is stored in its file"
            )

    def _copy_to(self, file: Any) -> None:
        """Let HDF5 copy elements of any length from the input."""
        native = hdf5_types.native_of(self.spec)
        path, name = native.place
        source, dataset = hdf5.reopened(path, name, hdf5.bytes_at(path))
        with source:
            strings.check_growth(file, dataset)
            strings.copy_dataset(native.where, dataset, file, self._name, self._options.check)

    def open(self, path: str) -> FlatFile | hdf5.OpenOutput:
        """Open the dataset for writing, after its file was closed."""
        if self.spec.dtype.hasobject:
            return strings.StringsWriter(path, self._name, self.spec)
        if self._is_chunked:
            return hdf5_chunks.ChunkedOutput(path, self._name, self.spec, self._options)
        with h5py.File(path, "r", locking=False) as file:
            offset = file[self._name].id.get_offset()
        return FlatFile(path, self.spec, offset or 0, writable=True)


def create_file(
    path: str,
    outputs: Mapping[str, Any],
    source: str = "",
    begin: Callable[[Any], None] = lambda file: None,
) -> None:
    """Create a file of datasets, with the attributes and names of dimensions that are kept.

    `begin` is called with the open file before. The log names the arrays of a group `source`.
    """

    def fill(file: Any) -> None:
        begin(file)
        dimensions = {}
        for name, output in outputs.items():
            output.create_in(file)
            spec = output.spec
            hdf5_attributes.write_attributes(source + file[name].name, file, name, spec)
            dimensions[name] = spec.names or ()
        labelled = hdf5_attributes.name_dimensions(file, dimensions)
        for name in labelled if source else ():
            log.warning(
                "%s/%s: its dimensions %s get labels, which xarray does not read: another array of "
                "the group has one with another length, or another object has that name",
                source, name, dimensions[name],
            )  # fmt: skip

    hdf5.create_file(path, fill, sum(output.spec.nbytes for output in outputs.values()))


FORMAT = Format("hdf5", HDF5_SUFFIXES, hdf5.recognizes, open_reader, Hdf5Output)
