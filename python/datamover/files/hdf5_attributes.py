# SPDX-License-Identifier: BSD-3-Clause
"""Properties that an HDF5 dataset takes from the input besides elements, such as attributes.

Between HDF5 files, attributes and fill values keep type, extents and bytes. From Zarr, attributes
have a JSON form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from datamover.errors import Error
from datamover.files import hdf5, hdf5_types
from datamover.files.formats import ArraySpec, Shape, log
from datamover.files.hdf5 import DIMENSION_WITHOUT_VARIABLE
from datamover.files.hdf5_types import h5py, native_of
from datamover.files.json_values import FILL_VALUE, MISSING, MISSING_VALUE, numbers
from datamover.files.zarr_traits import attributes_of, missing_from_zarr

#: Attributes that are valid in their file only: references and numbers of its dimensions. Names of
#: dimensions are handled separately.
OF_DIMENSIONS = {
    "DIMENSION_LABELS",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
}
#: The attribute of the file that identifies datasets of NetCDF.
OF_NETCDF = "_NCProperties"
#: Attributes that have the type of the elements, by the CF conventions. JSON does not record it.
OF_ELEMENTS = (
    *("valid_range", "valid_min", "valid_max", "flag_values", "flag_masks"),
    MISSING_VALUE,
)


def scale_of(array: str, dimension: str) -> str:
    """Return the name of the scale of a dimension, in the group of the array."""
    above, slash, _ = array.rpartition("/")
    return above + slash + dimension


def _attach_scale(file: Any, array: str, dim: int, name: str) -> None:
    """Name a dimension by its scale; an array with that name is the scale."""
    place = scale_of(array, name)
    if place not in file:  # one without values, of which no elements are stored
        extent = file[array].shape[dim]
        made = file.create_dataset(place, (extent,), ">f4")
        made.make_scale(f"{DIMENSION_WITHOUT_VARIABLE}. {extent:10d}")
    elif not file[place].is_scale:
        file[place].make_scale(name)
    if place != array:
        file[array].dims[dim].attach_scale(file[place])


def name_dimensions(file: Any, named: Mapping[str, Sequence[str | None]]) -> list[str]:
    """Set the names of the dimensions of arrays in an open file.

    Returns
    -------
    list of str
        Arrays whose dimensions all have names, but only as labels.
    """
    given = {array: names for array, names in named.items() if not file[array].is_scale}
    shapes = {array: file[array].shape for array in given}
    scaled = with_scales(given, shapes, file)
    for array in scaled:
        for dim, name in enumerate(given[array]):
            _attach_scale(file, array, dim, str(name))
    labelled = []
    for array, names in named.items():
        dataset = file[array]
        if array in scaled or (dataset.is_scale and dataset.ndim == 1):
            continue  # a scale gives its dimension its own name
        for dim, label in zip(dataset.dims, names, strict=False):
            dim.label = label or ""
        if names and all(names):
            labelled.append(array)
    return labelled


def with_scales(
    named: Mapping[str, Sequence[str | None]], shapes: Mapping[str, Shape], there: Any
) -> list[str]:
    """Return the arrays whose dimensions can all have scales with their names.

    `there` are the other names in use, next to the arrays.

    Examples
    --------
    >>> from datamover.files.hdf5_attributes import with_scales
    >>> named = {"u": ("y", "x"), "x": ("x",), "g/u": ("x",), "v": ("y", None), "w": ("z",)}
    >>> shapes = {"u": (2, 3), "x": (3,), "g/u": (5,), "v": (2, 4), "w": (7,)}
    >>> with_scales(named, shapes, {"z"})
    ['u', 'x', 'g/u']
    """
    found = {
        array: [scale_of(array, str(name)) for name in names]
        for array, names in named.items()
        if len(names) == len(shapes[array]) and all(map(_can_be_scale, names))
    }
    extents: dict[str, set[int]] = {}
    for array, places in found.items():
        for place, extent in zip(places, shapes[array], strict=True):
            extents.setdefault(place, set()).add(extent)
    good = {
        place
        for place, of_place in extents.items()
        if len(of_place) == 1 and (place not in there or found.get(place) == [place])
    }
    return [array for array, places in found.items() if good.issuperset(places)]


def _can_be_scale(name: Any) -> bool:
    is_text = isinstance(name, str) and name.isprintable() and "/" not in name
    return is_text and name not in ("", ".", "..")


@dataclasses.dataclass(frozen=True)
class NativeTraits:
    """Properties of an HDF5 dataset in addition to its elements, for a copy in HDF5.

    Attributes
    ----------
    place : tuple of str
        Path or address of the file, and name of the dataset: attributes are copied from there.
    fill_value : object
        None if HDF5's own (zero) was not replaced.
    is_fill_undefined : bool
        Whether elements that were never written are undefined.
    kind : bytes or None
        The datatype of elements that are moved as stored, in HDF5's encoding.
    change : str
        Description of the elements, if only HDF5 has them and they become others.
    dtype : numpy.dtype, optional
        The type to which elements, and with them values of missing ones, are converted.
    """

    place: tuple[str, str]
    fill_value: Any
    is_fill_undefined: bool
    kind: bytes | None
    change: str
    dtype: np.dtype | None = None

    @property
    def where(self) -> str:
        """The dataset, as a user names it."""
        return ":/".join(self.place)

    def converted(self, dtype: np.dtype) -> NativeTraits:
        """Return the properties of a dataset with elements of another number type."""
        fill = self.fill_value
        with np.errstate(all="ignore"):
            fill = None if fill is None else np.asarray(fill).astype(dtype)[()]
        return dataclasses.replace(self, fill_value=fill, dtype=dtype, change="")


def read(place: tuple[str, str], dataset: Any, dtype: np.dtype) -> NativeTraits:
    """Read the properties of an open dataset whose elements are moved as `dtype`."""
    properties, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    defined, fill = properties.fill_value_defined(), None
    is_opaque = hdf5_types.is_opaque(dtype)
    if defined == h5py.h5d.FILL_VALUE_USER_DEFINED and is_opaque:
        fill = np.void(hdf5_types.fill_value(properties, kind))
    elif defined == h5py.h5d.FILL_VALUE_USER_DEFINED and not dtype.hasobject:
        fill = dataset.fillvalue
    return NativeTraits(
        place,
        fill_value=fill,
        is_fill_undefined=defined == h5py.h5d.FILL_VALUE_UNDEFINED,
        kind=kind.encode() if is_opaque else None,
        change="" if is_opaque or dtype.hasobject else hdf5_types.change_of(kind),
    )


def fill_bytes(spec: ArraySpec) -> bytes | None:
    """Return the bytes of the fill value; None if unwritten elements are undefined."""
    native = native_of(spec)
    if native is not None and native.is_fill_undefined:
        return None
    found = spec.kept and spec.kept.others.get("fill_value")
    if native is not None:
        found = native.fill_value
    return bytes(spec.dtype.itemsize) if found is None else np.array(found, spec.dtype).tobytes()


def creation_properties(spec: ArraySpec) -> Any:
    """Return HDF5's properties to create a dataset, with the fill value."""
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if spec.dtype.hasobject:
        return made
    fill, native = fill_bytes(spec), native_of(spec)
    is_own = fill is None or any(fill) or (native is not None and native.fill_value is not None)
    if is_own:  # otherwise zero, which is HDF5's own
        hdf5_types.set_fill_value(made, hdf5_types.kind_of(spec), fill)
    return made


def write_attributes(where: str, file: Any, name: str, spec: ArraySpec) -> None:
    """Write the attributes of a dataset in an open file; the log names `where` they are from."""
    if (native := native_of(spec)) is not None:
        path, of_source = native.place
        source, dataset = hdf5.reopened(path, of_source, hdf5.bytes_at(path))
        with source:
            copy(native.where, dataset, file[name], OF_DIMENSIONS, native.dtype)
            with hdf5.reading(path):
                is_netcdf = OF_NETCDF in source.attrs
            if is_netcdf:
                _copy_one(source, file, OF_NETCDF.encode())
        return
    found = dict(attributes_of(spec.kept))
    if FILL_VALUE in found:
        found[FILL_VALUE] = missing_from_zarr(found[FILL_VALUE], spec.dtype)
    found |= {key: _like_elements(found[key], spec.dtype) for key in OF_ELEMENTS if key in found}
    write_of_json(where, file[name], found)


def copy(
    where: str, held: Any, made: Any, without: Collection[str], dtype: np.dtype | None = None
) -> None:
    """Copy the attributes of an open dataset or group to another one, unchanged.

    Logs those that another file cannot have, with the reason. If elements are converted to `dtype`,
    so are the values of missing ones.
    """
    with hdf5.reading(where):  # in the order in which they were created, if it is recorded
        names = [name for name in held.attrs if name not in without]
    for name in names:
        key = name if isinstance(name, bytes) else name.encode()
        if why := _copy_one(held, made, key, dtype if name in MISSING else None):
            log.warning("%s: its attribute %s is left out: %s", where, name, why)


def _copy_one(held: Any, made: Any, name: bytes, dtype: np.dtype | None = None) -> str:
    """Copy an attribute; return the reason if that is not possible."""
    try:
        opened = h5py.h5a.open(held.id, name)
        kind, space = opened.get_type().copy(), opened.get_space()
        if hdf5_types.has_references(kind):
            return "it refers to what is in the file"
        if hdf5_types.are_lists_misread(kind):
            return "h5py misreads lists of numbers in this byte order"
        values, memory = memory_for(kind, space)
        if values is not None:
            opened.read(values, memory)
            if dtype is not None and _can_become(kind, dtype):
                with np.errstate(all="ignore"):
                    values = np.asarray(held.attrs[name]).astype(dtype)
                kind = memory = h5py.h5t.py_create(dtype)
    except Error:  # of a server
        raise
    except (OSError, TypeError, ValueError, RuntimeError, LookupError) as e:
        return f"it cannot be read: {e}"
    written = h5py.h5a.create(made.id, name, kind, space)
    if values is not None:
        written.write(values, memory)
    return ""


def _can_become(kind: Any, dtype: Any) -> bool:
    """Return whether numbers of an HDF5 type fit another type; enumerations are not numbers."""
    if kind.get_class() in (h5py.h5t.ENUM, h5py.h5t.BITFIELD, h5py.h5t.ARRAY):
        return False
    try:
        own = kind.dtype
    except (TypeError, ValueError):  # a type that NumPy does not have
        return False
    return own.kind in "iufc" and np.can_cast(own, dtype, "same_kind")


def memory_for(kind: Any, space: Any) -> tuple[np.ndarray | None, Any]:
    """Return memory for the elements of an attribute, and their type in it.

    If it is the type in the file, HDF5 copies bytes.
    """
    shape = space.get_simple_extent_dims()
    if space.get_simple_extent_type() == h5py.h5s.NULL or 0 in shape:
        return None, kind
    if not hdf5_types.consists_of(kind, hdf5_types.is_of_any_length):
        return np.empty(shape, f"V{kind.get_size()}"), kind
    dtype = kind.dtype
    memory = h5py.h5t.py_create(dtype)
    if dtype.subdtype is not None:  # NumPy has arrays of arrays in more dimensions
        dtype, inner = dtype.subdtype
        shape += inner
    return np.zeros(shape, dtype), memory


def _like_elements(value: Any, dtype: np.dtype) -> Any:
    """Return an attribute of numbers with the type of the elements, if that has the same values."""
    try:
        given = np.asarray(numbers(value, MISSING_VALUE))
    except (ValueError, RecursionError):  # lists of several lengths, or too deep
        return value
    if dtype.kind not in "iuf" or given.dtype.kind not in "iuf":
        return value
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    return found[()] if np.array_equal(found, given, equal_nan=True) else value


def write_of_json(where: str, held: Any, attributes: dict[str, Any]) -> None:
    """Write Zarr's attributes of a dataset or group; log those that are left out."""
    for key, value in attributes.items():
        try:
            if not key:
                raise ValueError("it has no name")
            held.attrs[key] = numbers(value, key)
        except (TypeError, ValueError, RecursionError) as e:
            what = f"{where}: its attribute {key} is left out"
            log.warning("%s: HDF5 cannot hold it (%s)", what, e)
