# SPDX-License-Identifier: BSD-3-Clause
"""Attributes and fill values of HDF5, copied from one dataset to another unchanged.

A copy in HDF5 keeps the type, extents and bytes of each; for Zarr, attributes have a JSON form too.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from datamover.errors import Error
from datamover.files.formats import ArraySpec

#: The attribute with the value of missing elements, in NetCDF and for xarray.
FILL_VALUE = "_FillValue"
#: Attributes with the value of missing elements: they are converted like elements.
MISSING = (FILL_VALUE, "missing_value")
#: Attributes that are valid in their file only: references and numbers of its dimensions. Names of
#: dimensions are handled separately.
OF_DIMENSIONS = {
    "DIMENSION_LABELS",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
}
#: Attributes whose type determines that of decoded elements, and the bytes of JSON's numbers.
OF_PACKED, JSON_BYTES = (b"scale_factor", b"add_offset"), 8
#: The attribute of the file that identifies datasets of NetCDF.
OF_NETCDF = "_NCProperties"

log = logging.getLogger("datamover")


@dataclasses.dataclass(frozen=True)
class NativeAttribute:
    """An attribute in the form of HDF5.

    Attributes
    ----------
    name : bytes
    kind, space : bytes
        Datatype and dataspace, as HDF5 encodes them.
    values : numpy.ndarray or None
        Opaque bytes; for types of variable length, h5py's objects. None: no elements.
    """

    name: bytes
    kind: bytes
    space: bytes
    values: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class NativeTraits:
    """Properties of an HDF5 dataset in addition to its elements, in the form of HDF5.

    Attributes
    ----------
    where : str
        The dataset, as a user names it.
    attributes, of_file : tuple of NativeAttribute
        Attributes of the dataset, and those of the file that define their meaning.
    is_ordered : bool
        Whether the order in which attributes were created is known.
    left_out : dict
        Reasons, by the names of attributes that cannot be in another file.
    not_in_json : tuple of str
        Names of attributes that JSON cannot store.
    fill_value : object
        None if HDF5's own (zero) was not replaced.
    is_fill_undefined : bool
        Whether elements that were never written are undefined.
    kind : bytes or None
        The datatype of elements that are moved as stored, in HDF5's encoding.
    change : str
        Description of the elements, if only HDF5 has them and they become others.
    """

    where: str
    attributes: tuple[NativeAttribute, ...]
    of_file: tuple[NativeAttribute, ...]
    is_ordered: bool
    left_out: dict[str, str]
    not_in_json: tuple[str, ...]
    fill_value: Any
    is_fill_undefined: bool
    kind: bytes | None
    change: str

    def converted(self, dtype: np.dtype) -> NativeTraits:
        """Return the properties of a dataset with elements of another number type."""
        fill = self.fill_value
        with np.errstate(all="ignore"):
            fill = None if fill is None else np.asarray(fill).astype(dtype)[()]
        attributes = tuple(_converted(a, dtype) for a in self.attributes)
        return dataclasses.replace(self, fill_value=fill, attributes=attributes, change="")


def native_of(spec: ArraySpec) -> NativeTraits | None:
    """Return the properties that an array has in HDF5; None if it is not from there."""
    return getattr(spec.kept, "native", None)


def read(
    where: str, file: Any, dataset: Any, not_in_json: Iterable[str], of_elements: dict[str, Any]
) -> NativeTraits:
    """Read the properties of an open dataset; `of_elements` is from `hdf5_types.traits_of`."""
    attributes, left_out = read_attributes(dataset, OF_DIMENSIONS)
    of_file = [_read(file, OF_NETCDF.encode())] if OF_NETCDF in file.attrs else []
    return NativeTraits(
        where, tuple(attributes), tuple(a for a in of_file if isinstance(a, NativeAttribute)),
        is_in_order(dataset), left_out, tuple(not_in_json), **of_elements,
    )  # fmt: skip


def is_in_order(held: Any) -> bool:
    """Return whether a dataset or group records the order of its attributes."""
    from h5py import h5p

    made = held.id.get_create_plist()
    return bool(made.get_attr_creation_order() & h5p.CRT_ORDER_TRACKED)


def read_attributes(
    held: Any, without: Collection[str]
) -> tuple[list[NativeAttribute], dict[str, str]]:
    """Read the attributes of a dataset or group; return the reasons for unreadable ones."""
    attributes, left_out = [], {}
    for name in held.attrs:  # in the order in which they were created, if it is recorded
        if name in without:
            continue
        found = _read(held, name if isinstance(name, bytes) else name.encode())
        if isinstance(found, str):
            left_out[name] = found
        else:
            attributes.append(found)
    return attributes, left_out


def _read(held: Any, name: bytes) -> NativeAttribute | str:
    """Read an attribute; return the reason if it cannot be in another file."""
    from h5py import h5a

    try:
        opened = h5a.open(held.id, name)
        kind, space = opened.get_type(), opened.get_space()
        if has_references(kind):
            return "it refers to what is in the file"
        if are_lists_misread(kind):
            return "h5py misreads lists of numbers in this byte order"
        values, memory = _memory_for(kind, space)
        if values is not None:
            opened.read(values, memory)
        return NativeAttribute(name, kind.encode(), space.encode(), values)
    except Error:  # of a server
        raise
    except (OSError, TypeError, ValueError, RuntimeError, LookupError) as e:
        return f"it cannot be read: {e}"


def has_references(kind: Any) -> bool:
    """Return whether elements of an HDF5 type refer to objects of their file."""
    from h5py import h5t

    return consists_of(kind, lambda part: part.get_class() == h5t.REFERENCE)


def are_lists_misread(kind: Any) -> bool:
    """Return whether elements are lists of numbers in another byte order than the machine's.

    h5py returns their bytes unchanged, as numbers in the machine's order.
    """
    from h5py import h5t

    def is_swapped(part: Any) -> bool:
        is_number = part.get_class() in (h5t.INTEGER, h5t.FLOAT) and part.get_size() > 1
        return is_number and part.get_order() != h5t.NATIVE_INT32.get_order()

    return consists_of(
        kind,
        lambda part: part.get_class() == h5t.VLEN and consists_of(part.get_super(), is_swapped),
    )


def _memory_for(kind: Any, space: Any) -> tuple[np.ndarray | None, Any]:
    """Return memory for the elements of an attribute, and their type in it.

    If it is the type in the file, HDF5 copies bytes.
    """
    from h5py import h5s, h5t

    shape = space.get_simple_extent_dims()
    if space.get_simple_extent_type() == h5s.NULL or 0 in shape:
        return None, kind
    if not consists_of(kind, _is_of_any_length):
        return np.empty(shape, f"V{kind.get_size()}"), kind
    dtype = kind.dtype
    memory = h5t.py_create(dtype)
    if dtype.subdtype is not None:  # NumPy has arrays of arrays in more dimensions
        dtype, inner = dtype.subdtype
        shape += inner
    return np.zeros(shape, dtype), memory


def is_of_fixed_size(kind: Any) -> bool:
    """Return whether elements consist of their bytes only."""
    return not has_references(kind) and not consists_of(kind, _is_of_any_length)


def _is_of_any_length(kind: Any) -> bool:
    from h5py import h5t

    is_string = kind.get_class() == h5t.STRING
    return kind.is_variable_str() if is_string else kind.get_class() == h5t.VLEN


def consists_of(kind: Any, is_such: Any) -> bool:
    """Return whether `is_such` holds for a type, or for one of its components."""
    from h5py import h5t

    if is_such(kind):
        return True
    if kind.get_class() in (h5t.VLEN, h5t.ARRAY):
        return consists_of(kind.get_super(), is_such)
    if kind.get_class() != h5t.COMPOUND:
        return False
    members = range(kind.get_nmembers())
    return any(consists_of(kind.get_member_type(k), is_such) for k in members)


def _converted(attribute: NativeAttribute, dtype: np.dtype) -> NativeAttribute:
    """Return an attribute for elements of another type; only values of missing ones change."""
    from h5py import h5t

    if attribute.name.decode("utf-8", "replace") not in MISSING or attribute.values is None:
        return attribute
    kind = h5t.decode(attribute.kind)
    if kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.COMPOUND):
        return attribute
    try:
        own = kind.dtype
    except (TypeError, ValueError):  # a type that NumPy does not have
        return attribute
    if own.kind not in "iufc" or not np.can_cast(own, dtype, "same_kind"):
        return attribute
    with np.errstate(all="ignore"):
        values = _numbers(attribute.values, kind, own).astype(dtype)
    return dataclasses.replace(
        attribute, kind=h5t.py_create(dtype).encode(), values=values.view(f"V{dtype.itemsize}")
    )


def _numbers(values: np.ndarray, kind: Any, dtype: np.dtype) -> np.ndarray:
    """Return numbers in NumPy's form; HDF5 has others too, for example with 12 bits."""
    from h5py import h5t

    buffer = np.zeros(values.size * max(values.itemsize, dtype.itemsize), np.uint8)
    buffer[: values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
    h5t.convert(kind, h5t.py_create(dtype), values.size, buffer)
    return np.frombuffer(buffer.tobytes(), dtype, values.size).reshape(values.shape)


def write(file: Any, dataset: Any, native: NativeTraits) -> None:
    """Write the properties of another dataset to one in an open file; log what is left out."""
    write_attributes(native.where, dataset, native.attributes, native.left_out)
    write_attributes(native.where, file, native.of_file, {})


def write_attributes(
    where: str, held: Any, attributes: Iterable[NativeAttribute], left_out: dict[str, str]
) -> None:
    """Write attributes of a dataset or group; log what is left out and why."""
    for attribute in attributes:
        _write(held, attribute)
    for name, why in left_out.items():
        log.warning("%s: its attribute %s is left out: %s", where, name, why)


def _write(held: Any, attribute: NativeAttribute) -> None:
    from h5py import h5a, h5s, h5t

    kind, space = h5t.decode(attribute.kind), h5s.decode(attribute.space)
    made = h5a.create(held.id, attribute.name, kind, space)
    if attribute.values is not None:
        _, memory = _memory_for(kind, space)
        made.write(attribute.values, memory)


def tell_of_types(native: NativeTraits) -> None:
    """Log that xarray will decode packed elements to another type, because of JSON's numbers."""
    from h5py import h5t

    kinds = {attribute.name: h5t.decode(attribute.kind) for attribute in native.attributes}
    shorter = [
        name.decode()
        for name in OF_PACKED
        if name in kinds
        and kinds[name].get_class() == h5t.FLOAT
        and kinds[name].get_size() < JSON_BYTES
    ]
    if shorter:
        log.warning(
            "%s: %s become float64, the only type of JSON: xarray decodes the elements to float64",
            native.where, " and ".join(shorter),
        )  # fmt: skip


def tell_not_in_json(where: str, names: Iterable[str]) -> None:
    """Log that attributes are left out because JSON cannot store them."""
    for name in names:
        log.warning("%s: its attribute %s is left out: JSON has none of that type", where, name)
