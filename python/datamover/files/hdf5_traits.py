# SPDX-License-Identifier: BSD-3-Clause
"""Properties that an HDF5 dataset takes from the input, in addition to its elements."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from datamover.files import hdf5_calls, hdf5_scales, hdf5_types, native_attributes
from datamover.files.formats import ArraySpec
from datamover.files.json_values import numbers
from datamover.files.native_attributes import FILL_VALUE, HeldAttributes, NativeAttribute
from datamover.files.zarr_traits import ZarrTraits, attributes_of, missing_from_zarr

log = logging.getLogger("datamover")

#: In HDF5's default header, an attribute has less than 64 KB, and attributes are searched one by
#: one.
MOST_BYTES_IN_HEADER, MOST_IN_HEADER = 60_000, 1000


def dimension_names(kept: ZarrTraits | None) -> list[str | None]:
    """Return the names of dimensions that are kept."""
    return list(kept.dimension_names or ()) if kept is not None else []


def fill_value(spec: ArraySpec) -> Any:
    """Return the fill value; None if it is HDF5's own, zero."""
    attributes = attributes_of(spec.kept)
    if isinstance(attributes, HeldAttributes):
        return attributes.native.fill_value
    found = None if spec.kept is None else spec.kept.others.get("fill_value")
    return found if found is not None and any(np.array(found, spec.dtype).tobytes()) else None


def is_fill_undefined(spec: ArraySpec) -> bool:
    """Return whether unwritten elements are undefined; None of `fill_value` is HDF5's own."""
    attributes = attributes_of(spec.kept)
    return isinstance(attributes, HeldAttributes) and attributes.native.is_fill_undefined


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
    attributes = attributes_of(spec.kept)
    give_room(made, sizes_of(attributes))
    if isinstance(attributes, HeldAttributes) and attributes.native.is_ordered:
        made.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    return made


def are_large(sizes: Iterable[int]) -> bool:
    """Return whether attributes of these sizes are too many or too large for a header."""
    sizes = list(sizes)
    return len(sizes) > MOST_IN_HEADER or max(sizes, default=0) > MOST_BYTES_IN_HEADER


def give_room(properties: Any, sizes: Iterable[int]) -> None:
    """Allow large attributes outside of the header, as HDF5 does if it records their order."""
    from h5py import h5p

    if are_large(sizes):
        properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def sizes_of(attributes: dict[str, Any]) -> Iterator[int]:
    """Yield the bytes of each attribute; for JSON, approximately."""
    if isinstance(attributes, HeldAttributes):
        yield from native_sizes(attributes.native.attributes)
        return
    for value in attributes.values():
        yield np.asarray(value, object).size * 8 if isinstance(value, list) else 0


def native_sizes(attributes: Iterable[NativeAttribute]) -> Iterator[int]:
    """Yield the bytes of each attribute."""
    for attribute in attributes:
        yield attribute.nbytes + len(attribute.kind)


def write(file: Any, name: str, spec: ArraySpec) -> None:
    """Write the attributes and names of dimensions of a dataset in an open file."""
    write_attributes(file[name].name, file, name, spec)
    hdf5_scales.name_dimensions(file, {name: spec.dimension_names or dimension_names(spec.kept)})


def write_attributes(where: str, file: Any, name: str, spec: ArraySpec) -> None:
    """Write the attributes of a dataset in an open file; the log names `where` they are from."""
    attributes = attributes_of(spec.kept)
    if isinstance(attributes, HeldAttributes):
        native_attributes.write(file, file[name], attributes.native)
        return
    found = dict(attributes)
    if FILL_VALUE in found:
        found[FILL_VALUE] = missing_from_zarr(found[FILL_VALUE], spec.dtype)
    write_of_json(where, file[name], found)


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
