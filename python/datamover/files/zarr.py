# SPDX-License-Identifier: BSD-3-Clause
"""Zarr format of moves: zarr-python for metadata, and for chunks of arrays that are not plain."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import warnings
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files import addresses, direct_zarr, hdf5_attributes, hdf5_types, zarr_group
from datamover.files.formats import (
    ArraySpec,
    Format,
    Late,
    MoveOptions,
    Output,
    check_shape,
    register,
)
from datamover.files.space import ENCODED, naming_no_space
from datamover.files.zarr_array import (
    ZarrArray,
    abandonable_store,
    bound,
    opened,
    zarr_python,
)
from datamover.files.zarr_output import check_dtype, made_in_memory, titled
from datamover.files.zarr_traits import traits_of

log = logging.getLogger("datamover")
#: Files that make a directory an array or a group.
METADATA = ("zarr.json", ".zarray", ".zgroup")
#: Maximum number of arrays of a group that an error names.
SHOWN_ARRAYS = 10


def recognizes(path: str) -> bool:
    """Return whether a directory contains Zarr's metadata."""
    return any(os.path.exists(os.path.join(path, name)) for name in METADATA)


def open_reader(path: str, options: MoveOptions) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an array for reading; the library's threads read its chunks if it is plain.

    Raises for groups and anything else.
    """
    zarr = zarr_python()
    at_address = addresses.is_address(path)
    if not at_address and not os.path.isdir(path):
        raise IoFailed(f"{path} is not a directory; a Zarr array is one")
    if not at_address:
        for name in zarr_group.METADATA:  # zarr-python would wait for a pipe
            zarr_group.content_of(path, name)
        if not recognizes(path):
            raise IoFailed(f"{path} is a directory without {' or '.join(METADATA)}: no Zarr array")
    found = opened(path)
    if not isinstance(found, zarr.Array):
        raise IoFailed(f"{path} is a Zarr group; {_how_to_name(found, path, at_address)}")
    check_dtype(found.dtype, path)
    check_shape(found.shape, found.dtype, path)
    if any(extent < 1 for extent in found.shards or found.chunks):
        raise IoFailed(f"{path} has empty chunks of {found.shards or found.chunks}")
    with addresses.failing(f"{path} is not a readable Zarr array"):
        array = ZarrArray(found, path, found.dtype, traits_of(found, path))
    return array if at_address else direct_zarr.opened(path, array.spec.kept) or array


def _how_to_name(group: Any, path: str, at_address: bool) -> str:
    """Return how to name an array of a group, and the first names, if they are quickly known."""
    if at_address:
        return f"name one of its arrays, as {path}/NAME"
    members = group.members(max_depth=None)
    arrays = sorted(name for name, found in members if hasattr(found, "chunks"))
    if not arrays:
        return "there is no array in it"
    more = f", and {len(arrays) - SHOWN_ARRAYS} more" if len(arrays) > SHOWN_ARRAYS else ""
    return (
        f"name one of its arrays, as {path}/{arrays[0]}: {', '.join(arrays[:SHOWN_ARRAYS])}{more}"
    )


class ZarrOutput(Output):
    """An array that will be written: made once, in memory, and then placed."""

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        self._array, self._objects = made_in_memory(spec, options)
        kept = spec.kept
        self._keeps_filters = (
            options.zarr_format == 2 and kept is not None and kept.of_format_2 is not None
        )
        super().__init__(dataclasses.replace(spec, order="C"), options)
        metadata = json.loads(next(reversed(self._objects.values())))
        found = direct_zarr.plain_array("", metadata)
        self._is_plain = found is not None and found.spec.dtype == spec.dtype
        self.shown = found if self._is_plain else ZarrArray(self._array, "", spec.dtype)

    def create(self, path: str) -> Late:
        """Write the metadata, but no chunks. At an address, metadata are written last."""
        if (native := hdf5_types.native_of(self.spec)) is not None:
            hdf5_attributes.tell_of_json(native)
        kept = self.spec.kept
        if kept is not None and kept.only_in_format_2 and not self._keeps_filters:
            words = ", ".join(kept.only_in_format_2)
            log.warning("%s: its filters are left out: %s", kept.where, words)
        if found := list(titled(self.spec.dtype)):
            words = ", ".join(found)
            log.warning("the titles of fields are left out, as Zarr has none: %s", words)
        with naming_no_space(path, self.spec.nbytes, ENCODED):
            return zarr_group.write_objects(path, self._objects)

    def open(self, path: str) -> ZarrArray | direct_zarr.OrdinaryArray:
        """Open the array for writing."""
        if self._is_plain and not addresses.is_address(path):
            return self.shown.at(path)
        return ZarrArray(bound(self._array, path), path, self.spec.dtype)


def reopened(path: str, dtype: np.dtype) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an existing array for reading and writing of elements of a dtype."""
    found = direct_zarr.opened(path)
    if found is not None and found.spec.dtype == dtype:  # in the same byte order
        return found
    with warnings.catch_warnings(action="ignore"):
        array = zarr_python().open_array(abandonable_store(path), mode="r+")
    return ZarrArray(array, path, dtype)


register(Format("zarr", (".zarr",), recognizes, open_reader, ZarrOutput, is_directory=True))
