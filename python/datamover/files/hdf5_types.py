# SPDX-License-Identifier: BSD-3-Clause
"""Datatypes of HDF5, and the NumPy dtypes by which their elements are moved."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.files import hdf5_calls
from datamover.files.formats import ArraySpec
from datamover.files.native_attributes import consists_of, is_of_fixed_size, native_of

log = logging.getLogger("datamover")


def dtype_of(kind: Any, where: str, as_stored: bool = False) -> np.dtype:
    """Return the dtype by which elements of an HDF5 type are moved.

    If `as_stored`, elements of a fixed size that NumPy does not have are opaque bytes.

    Raises
    ------
    Unsupported
        NumPy has no such elements.
    """
    opaque = np.dtype((np.void, kind.get_size())) if is_of_fixed_size(kind) else None
    try:
        dtype = kind.dtype
    except (TypeError, ValueError) as e:
        if as_stored and opaque:
            return opaque
        remedy = "; move it to HDF5" if opaque else ""
        raise Unsupported(
            f"{where} has elements of a type that NumPy does not have ({e}){remedy}"
        ) from e
    return opaque if as_stored and opaque and not is_numpys(kind, dtype) else dtype


def is_numpys(kind: Any, dtype: np.dtype) -> bool:
    """Return whether elements have the same bytes in an HDF5 file and in NumPy."""
    from h5py import h5t

    return dtype.subdtype is None and kind.equal(h5t.py_create(dtype, logical=True))


def is_opaque(dtype: np.dtype) -> bool:
    """Return whether elements are bytes without a meaning, which HDF5 must not convert."""
    return dtype.kind == "V" and dtype.names is None


def kind_of(spec: ArraySpec, where: str = "the output") -> Any:
    """Return the type of elements in HDF5: that of the input, or the dtype's.

    Raises
    ------
    Unsupported
        HDF5 has no such type, as for times and Unicode of a fixed length.
    """
    from h5py import h5t

    native = native_of(spec)
    if native is not None and native.kind is not None:
        return h5t.decode(native.kind)
    try:
        kind = h5t.py_create(spec.dtype, logical=True)
        made = kind.dtype
    except (TypeError, ValueError) as e:
        raise Unsupported(f"HDF5 cannot hold dtype {spec.dtype} of {where}: {e}") from e
    if made != spec.dtype or made.itemsize != spec.dtype.itemsize:
        raise Unsupported(f"HDF5 cannot hold dtype {spec.dtype} of {where}: it makes {made}")
    return kind


def fill_bytes(dataset: Any) -> bytes:
    """Return the stored bytes of an element that HDF5 reads from a missing chunk."""
    from h5py import h5d

    properties, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    if (
        properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
        or properties.get_fill_time() == h5d.FILL_TIME_NEVER
    ):
        return bytes(kind.get_size())  # undefined; h5py uses zeros
    return hdf5_calls.fill_value(properties, kind)


def traits_of(dataset: Any, dtype: np.dtype) -> dict[str, Any]:
    """Return the fields of `NativeTraits` about elements of a dataset that are moved as `dtype`."""
    from h5py import h5d

    properties, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    defined, fill = properties.fill_value_defined(), None
    if defined == h5d.FILL_VALUE_USER_DEFINED:
        fill = (
            np.void(hdf5_calls.fill_value(properties, kind))
            if is_opaque(dtype)
            else dataset.fillvalue
        )
    return {
        "fill_value": fill,
        "is_fill_undefined": defined == h5d.FILL_VALUE_UNDEFINED,
        "kind": kind.encode() if is_opaque(dtype) else None,
        "change": "" if is_opaque(dtype) else _change_of(kind),
    }


def _change_of(kind: Any) -> str:
    """Describe the elements, or parts of them, that become others in NumPy; "" if none."""
    from h5py import h5t

    names = {h5t.BITFIELD: "bitfields", h5t.INTEGER: "integers", h5t.FLOAT: "floats"}
    found: dict[str, None] = {}

    def note(part: Any) -> bool:
        name = names.get(part.get_class())
        if name is not None and not is_numpys(part, part.dtype):
            is_number = part.get_class() != h5t.BITFIELD
            bits = part.get_precision() if is_number else 8 * part.get_size()
            found[f"{name} of {bits} bits"] = None
        return False

    consists_of(kind, note)
    return ", ".join(found)


def tell_of_change(spec: ArraySpec) -> None:
    """Log which elements of an input become others because only HDF5 has them."""
    native = native_of(spec)
    if native is not None and native.change:
        log.warning(
            "%s: its %s become %s, as only HDF5 has such", native.where, native.change, spec.dtype
        )
