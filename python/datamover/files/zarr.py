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
from datamover.files import addresses, direct_zarr, zarr_group
from datamover.files.addresses import METADATA
from datamover.files.formats import (
    ArraySpec,
    Format,
    Late,
    MoveOptions,
    Output,
    check_shape,
    register,
)
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
    dtype, metadata = found.dtype, found.metadata.to_dict()
    becomes_text = options.output_dtype is np.dtype(object) and options.output_format == "hdf5"
    if (options.output_format in ("zarr", "hdf5") and zarr_group.has_strings(metadata)) or (
        becomes_text and zarr_group.has_short_strings(metadata)
    ):
        dtype = np.dtype(object)
    else:
        check_dtype(dtype, path)
    check_shape(found.shape, dtype, path)
    if any(extent < 1 for extent in found.shards or found.chunks):
        raise IoFailed(f"{path} has empty chunks of {found.shards or found.chunks}")
    with addresses.failing(f"{path} is not a readable Zarr array"):
        array = ZarrArray(found, path, dtype, traits_of(found, path))
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
        keeps_all = kept is None or (options.zarr_format == 2 and kept.of_format_2 is not None)
        self._losses = () if keeps_all else kept.losses
        super().__init__(dataclasses.replace(spec, order="C"), options)
        metadata = json.loads(next(reversed(self._objects.values())))
        found = direct_zarr.plain_array("", metadata)
        self._is_plain = found is not None and found.spec.dtype == spec.dtype
        self.shown = found if self._is_plain else ZarrArray(self._array, "", spec.dtype)

    def create(self, path: str) -> Late:
        """Return the metadata; log what the array does not have."""
        for words in self._losses:
            log.warning("%s", words)
        if found := list(titled(self.spec.dtype)):
            words = ", ".join(found)
            log.warning("the titles of fields are left out, as Zarr has none: %s", words)
        return self._objects

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
