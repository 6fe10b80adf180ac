# SPDX-License-Identifier: BSD-3-Clause
"""Functions of HDF5 that h5py does not offer, called in the library that h5py has loaded."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from datamover.errors import Unsupported


@functools.cache
def _library() -> ctypes.CDLL:
    from h5py import h5p

    return ctypes.CDLL(h5p.__file__)  # also finds functions of the libraries that it needs


def _call(name: str, properties: Any, *arguments: Any) -> None:
    """Call a function of properties.

    Raises
    ------
    Unsupported
        It is not found, or fails.
    """
    from h5py._objects import phil

    try:
        with phil:  # HDF5 admits one thread
            status = getattr(_library(), name)(ctypes.c_int64(properties.id), *arguments)
    except (AttributeError, OSError) as e:
        raise Unsupported(f"{name} is not found in the HDF5 of h5py; reinstall h5py: {e}") from e
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
