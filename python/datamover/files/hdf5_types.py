# SPDX-License-Identifier: BSD-3-Clause
"""Datatypes and creation properties of HDF5: NumPy's dtypes for elements, fill values, filters.

Some functions of HDF5 that h5py does not offer are called in the library that h5py has loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.files.addresses import failing, needing
from datamover.files.formats import ArraySpec, log

#: File drivers of h5py with which a file, or an object at an address, is one run of bytes.
DRIVERS = ("sec2", "fileobj")


class _H5py:
    """The module h5py, which is loaded at its first use.

    Raises Unsupported if it is missing.
    """

    def __getattr__(self, name: str) -> Any:
        with needing("HDF5 needs h5py", "files"):
            import h5py
        self.__dict__[name] = getattr(h5py, name)  # found without this function from now on
        return self.__dict__[name]


h5py: Any = _H5py()


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
    return dtype.subdtype is None and kind.equal(h5py.h5t.py_create(dtype, logical=True))


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
    native = native_of(spec)
    if native is not None and native.kind is not None:
        return h5py.h5t.decode(native.kind)
    with refusing(f"HDF5 cannot hold dtype {spec.dtype} of {where}"):
        kind = h5py.h5t.py_create(spec.dtype, logical=True)
        made = kind.dtype
    if made != spec.dtype or made.itemsize != spec.dtype.itemsize:
        raise Unsupported(f"HDF5 cannot hold dtype {spec.dtype} of {where}: it makes {made}")
    return kind


def refusing(words: str) -> contextlib.AbstractContextManager[None]:
    """Convert the errors of h5py, if HDF5 cannot create something, to Unsupported with `words`."""
    return failing(words, Unsupported, (TypeError, ValueError, OverflowError))


def fill_bytes(dataset: Any) -> bytes:
    """Return the stored bytes of an element that HDF5 reads from a missing chunk."""
    properties, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    if (
        properties.fill_value_defined() == h5py.h5d.FILL_VALUE_UNDEFINED
        or properties.get_fill_time() == h5py.h5d.FILL_TIME_NEVER
    ):
        return bytes(kind.get_size())  # undefined; h5py uses zeros
    return fill_value(properties, kind)


def native_of(spec: ArraySpec) -> Any:
    """Return the `NativeTraits` of an array; None if it is not from HDF5."""
    return getattr(spec.kept, "native", None)


def change_of(kind: Any) -> str:
    """Describe the elements, or parts of them, that become others in NumPy; "" if none."""
    names = {h5py.h5t.BITFIELD: "bitfields", h5py.h5t.INTEGER: "integers", h5py.h5t.FLOAT: "floats"}
    found: dict[str, None] = {}

    def note(part: Any) -> bool:
        name = names.get(part.get_class())
        if name is not None and not is_numpys(part, part.dtype):
            is_number = part.get_class() != h5py.h5t.BITFIELD
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


def has_references(kind: Any) -> bool:
    """Return whether elements of an HDF5 type refer to objects of their file."""
    return consists_of(kind, lambda part: part.get_class() == h5py.h5t.REFERENCE)


def are_lists_misread(kind: Any) -> bool:
    """Return whether elements are lists of numbers in another byte order than the machine's.

    h5py returns their bytes unchanged, as numbers in the machine's order.
    """

    def is_swapped(part: Any) -> bool:
        is_number = part.get_class() in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) and part.get_size() > 1
        return is_number and part.get_order() != h5py.h5t.NATIVE_INT32.get_order()

    return consists_of(
        kind,
        lambda part: (
            part.get_class() == h5py.h5t.VLEN and consists_of(part.get_super(), is_swapped)
        ),
    )


def is_of_fixed_size(kind: Any) -> bool:
    """Return whether elements consist of their bytes only."""
    return not has_references(kind) and not consists_of(kind, is_of_any_length)


def is_of_any_length(kind: Any) -> bool:
    """Return whether elements are lists, or strings of any length."""
    is_string = kind.get_class() == h5py.h5t.STRING
    return kind.is_variable_str() if is_string else kind.get_class() == h5py.h5t.VLEN


def consists_of(kind: Any, is_such: Callable[[Any], bool]) -> bool:
    """Return whether `is_such` holds for a type, or for one of its components."""
    if is_such(kind):
        return True
    if kind.get_class() in (h5py.h5t.VLEN, h5py.h5t.ARRAY):
        return consists_of(kind.get_super(), is_such)
    if kind.get_class() != h5py.h5t.COMPOUND:
        return False
    members = range(kind.get_nmembers())
    return any(consists_of(kind.get_member_type(k), is_such) for k in members)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(h5py.h5p.__file__)  # also finds functions of the libraries that it needs


def _call(name: str, properties: Any, *arguments: Any) -> None:
    """Call a function of properties.

    Raises
    ------
    Unsupported
        It is not found, or fails.
    """
    from h5py._objects import phil

    missing = f"{name} is not found in the HDF5 of h5py; reinstall h5py"
    with failing(missing, Unsupported, (AttributeError, OSError)), phil:  # HDF5 admits one thread
        status = getattr(_library(), name)(ctypes.c_int64(properties.id), *arguments)
    if status < 0:
        raise Unsupported(f"{name} of HDF5 failed")


def chunk_options(properties: Any) -> int | None:
    """Return how chunks at the edges are stored, as bits; 0 like all others, None if unknown."""
    found = ctypes.c_uint()
    try:
        _call("H5Pget_chunk_opts", properties, ctypes.byref(found))
    except Unsupported:
        return None
    return found.value


def fill_value(properties: Any, kind: Any) -> bytes:
    """Return the fill value of creation properties, if it is defined, as a type stores it."""
    found = ctypes.create_string_buffer(kind.get_size())
    _call("H5Pget_fill_value", properties, ctypes.c_int64(kind.id), found)
    return found.raw


def set_fill_value(properties: Any, kind: Any, value: bytes | None) -> None:
    """Set the fill value, as a type stores it; None makes it undefined."""
    _call("H5Pset_fill_value", properties, ctypes.c_int64(kind.id), value)


def is_plain(file: Any, dataset: Any, dtype: np.dtype) -> bool:
    """Return whether elements are stored as `dtype`, at places that HDF5 reports.

    Everything that determines the meaning of the bytes must be known here. h5py reads all other
    datasets, including those with properties that a later HDF5 may add.
    """
    properties = dataset.id.get_create_plist()
    return (
        file.driver in DRIVERS
        # If this process has the file open for writing, elements may not be in it yet.
        and file.id.get_intent() == h5py.h5f.ACC_RDONLY
        and file.userblock_size == 0
        and dataset.file.filename == file.filename
        and properties.get_external_count() == 0
        and (
            properties.get_layout() == h5py.h5d.CONTIGUOUS
            or (
                properties.get_layout() == h5py.h5d.CHUNKED
                and _are_chunks_plain(dataset, properties)
            )
        )
        and (is_opaque(dtype) or is_numpys(dataset.id.get_type(), dtype))
    )


def _are_chunks_plain(dataset: Any, properties: Any) -> bool:
    return (
        dataset.size > 0
        and _are_filters_known(dataset, properties)
        and chunk_options(properties) == 0
        and _are_places_right(dataset)
    )


def _are_filters_known(dataset: Any, properties: Any) -> bool:
    """Return whether `hdf5_chunks` decodes the filters, in the order in which they encode."""
    filters = [properties.get_filter(k) for k in range(properties.get_nfilters())]
    codes = [code for code, *_ in filters]
    shuffle, deflate = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE
    itemsize = dataset.id.get_type().get_size()
    return codes in ([], [shuffle], [deflate], [shuffle, deflate]) and all(
        flags in (0, h5py.h5z.FLAG_OPTIONAL) and (code == deflate or values == (itemsize,))
        for code, flags, values, _ in filters
    )


def _are_places_right(dataset: Any) -> bool:
    """Return whether HDF5 reports the places of chunks correctly.

    With one unlimited dimension, the newer of its two indexes stores that dimension first. HDF5
    (2.0 too) ignores this when it reports a place, and returns that of another chunk. It does not
    report which of the two indexes a dataset has.
    """
    endless = [d for d, most in enumerate(dataset.maxshape) if most is None]
    return len(endless) != 1 or endless == [0]
