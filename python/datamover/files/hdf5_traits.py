# SPDX-License-Identifier: BSD-3-Clause
"""Properties that an HDF5 dataset takes from the input, in addition to its elements."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import numpy as np

from datamover.files import hdf5_calls, hdf5_scales, hdf5_types, native_attributes
from datamover.files.formats import ArraySpec
from datamover.files.json_values import MISSING_VALUE, numbers
from datamover.files.native_attributes import FILL_VALUE, native_of
from datamover.files.zarr_traits import ZarrTraits, attributes_of, missing_from_zarr

log = logging.getLogger("datamover")

#: Attributes that have the type of the elements, by the CF conventions. JSON does not record it.
OF_ELEMENTS = (
    *("valid_range", "valid_min", "valid_max", "flag_values", "flag_masks"),
    MISSING_VALUE,
)
#: In HDF5's default header, an attribute has less than 64 KB, and they are searched one by one.
#: Attributes of these bytes in pickle's form, at least an eighth of HDF5's, always fit.
MOST_BYTES_IN_HEADER = 1 << 13


def dimension_names(kept: ZarrTraits | None) -> list[str | None]:
    """Return the names of dimensions that are kept."""
    return list(kept.dimension_names or ()) if kept is not None else []


def fill_value(spec: ArraySpec) -> Any:
    """Return the fill value; None if it is HDF5's own, zero."""
    if (native := native_of(spec)) is not None:
        return native.fill_value
    found = None if spec.kept is None else spec.kept.others.get("fill_value")
    return found if found is not None and any(np.array(found, spec.dtype).tobytes()) else None


def is_fill_undefined(spec: ArraySpec) -> bool:
    """Return whether unwritten elements are undefined; None of `fill_value` is HDF5's own."""
    native = native_of(spec)
    return native is not None and native.is_fill_undefined


def fill_bytes(spec: ArraySpec) -> bytes:
    """Return the bytes of the fill value."""
    found = fill_value(spec)
    return bytes(spec.dtype.itemsize) if found is None else np.array(found, spec.dtype).tobytes()


def creation_properties(spec: ArraySpec) -> Any:
    """Return HDF5's properties to create a dataset: fill value, and room for attributes."""
    from h5py import h5p

    made = h5p.create(h5p.DATASET_CREATE)
    if is_fill_undefined(spec):
        hdf5_calls.set_fill_value(made, hdf5_types.kind_of(spec), None)
    elif fill_value(spec) is not None:
        hdf5_calls.set_fill_value(made, hdf5_types.kind_of(spec), fill_bytes(spec))
    if (native := native_of(spec)) is not None:
        give_room(made, native.attributes, native.is_ordered)
    else:
        give_room(made, attributes_of(spec.kept))
    return made


def are_large(attributes: Any) -> bool:
    """Return whether attributes may be too many or too large for a header."""
    try:
        return len(pickle.dumps(attributes)) > MOST_BYTES_IN_HEADER
    except RecursionError:
        return True


def give_room(properties: Any, attributes: Any, is_ordered: bool = False) -> None:
    """Allow large attributes outside of the header, as HDF5 does if it records their order."""
    from h5py import h5p

    if is_ordered or are_large(attributes):
        properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def write(file: Any, name: str, spec: ArraySpec) -> None:
    """Write the attributes and names of dimensions of a dataset in an open file."""
    write_attributes(file[name].name, file, name, spec)
    hdf5_scales.name_dimensions(file, {name: spec.dimension_names or dimension_names(spec.kept)})


def write_attributes(where: str, file: Any, name: str, spec: ArraySpec) -> None:
    """Write the attributes of a dataset in an open file; the log names `where` they are from."""
    if (native := native_of(spec)) is not None:
        native_attributes.write(file, file[name], native)
        return
    found = dict(attributes_of(spec.kept))
    if FILL_VALUE in found:
        found[FILL_VALUE] = missing_from_zarr(found[FILL_VALUE], spec.dtype)
    found |= {key: _like_elements(found[key], spec.dtype) for key in OF_ELEMENTS if key in found}
    write_of_json(where, file[name], found)


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
