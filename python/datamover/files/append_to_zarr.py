# SPDX-License-Identifier: BSD-3-Clause
"""Appending many NetCDF or HDF5 files to a Zarr group that was joined from such files.

A new group is written under a hidden name: the last, incomplete chunks along the joined dimension
and the new records are moved there as ever. Then the complete chunks of the old group get a second
name in the new one (a hard link), and the new one replaces the old one, which is never changed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.errors import IoFailed, Mismatch, Unsupported
from datamover.files import consolidated, formats, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.joined import Part
from datamover.files.many_to_zarr import (
    OF_MEANING,
    Described,
    ManyToZarr,
    Variable,
    digest_of,
)
from datamover.files.region import limited
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_store import zarr_python
from datamover.files.zarr_traits import FILL_VALUE, missing_from_zarr

#: Options that the old arrays determine.
KEPT = ("chunks", "shards", "compressor", "zarr_format")


class AppendToZarr(ManyToZarr):
    """See `hierarchy.Way`."""

    def __init__(self, paths: Sequence[str], output: str, options: MoveOptions):
        super().__init__(paths, str(options.along))
        for name in KEPT:
            if getattr(options, name) is not None:
                raise Unsupported(
                    f"{formats.option(name)}: arrays to which records are appended keep theirs"
                )
        if not zarr_group.is_group(output):
            raise IoFailed(f"{output} is not a Zarr group: there is nothing to append to")
        self.base, self._inode = output, os.stat(output).st_ino
        self._group = zarr_python().open_group(output, mode="r", use_consolidated=False)
        if self._group.metadata.zarr_format != 3:
            raise Unsupported(f"{output} has Zarr format 2: records are appended to format 3 only")
        self._length = 0  # of the old arrays along the joined dimension

    def _base(self, own: dict[str, Described]) -> dict[str, Described]:
        """Describe the old group, with which all files must agree."""
        found = {name: self._old(name, own) for name in zarr_group.arrays(self.base)}
        lengths = {
            one.shape[one.dims.index(self._along)]: name
            for name, one in found.items()
            if self._along in one.dims
        }
        if len(lengths) > 1:
            raise Mismatch(f"{self.base} has several lengths along {self._along!r}: {lengths}")
        self._length = next(iter(lengths), 0)
        return found

    def _base_array(self, name: str) -> Any:
        return self._group[name]

    def _old(self, name: str, own: dict[str, Described]) -> Described:
        array = self._group[name]
        said = array.attrs.asdict()
        dims = tuple(array.metadata.dimension_names or (None,) * array.ndim)
        if FILL_VALUE in said:
            said[FILL_VALUE] = np.asarray(missing_from_zarr(said[FILL_VALUE], array.dtype)).item()
        is_joined = self._along in dims
        has_objects = name in own and own[name].dtype.hasobject
        dtype = own[name].dtype if has_objects else array.dtype
        digest = None if is_joined else digest_of(array)
        kept = {word: said[word] for word in OF_MEANING if word in said}
        return Described(tuple(array.shape), dtype, dims, kept, digest)

    def _times_before(self) -> list[tuple[str, np.ndarray | None]]:
        if self._along not in self._group or not self._length:
            return []
        return [(self.base, self._group[self._along][-2:])]

    def _parts_before(self, name: str, axis: int) -> list[Part]:
        """Return the records in incomplete chunks, which are written again."""
        rest = self._length % self._open_old(name).granule[axis]
        tail = functools.partial(self._tail, name, axis, rest)
        return [Part(f"{self.base}/{name}", rest, open=tail)] if rest else []

    def _spec_of(self, variable: Variable, options: MoveOptions) -> ArraySpec:
        return self._open_old(variable.name).spec

    def _open_old(self, name: str) -> Any:
        return formats.named("zarr").open_reader(f"{self.base}/{name}", MoveOptions())

    def _tail(self, name: str, axis: int, rest: int) -> Any:
        reader = self._open_old(name)
        region: list[tuple[int | None, int | None]] = [(None, None)] * len(reader.spec.shape)
        region[axis] = (self._length - rest, self._length)
        return limited(reader, tuple(region))

    def _set_arrays(self) -> None:
        self.arrays = {name: self.arrays[name] for name in self._joined}
        self.copied = {}
        super()._set_arrays()

    def _attributes(self, held: Any) -> dict[str, Any]:
        """Return those of the old groups."""
        return zarr_group.attributes(f"{self.base}/{held.name}".rstrip("/"))

    def complete(self, place: str) -> None:
        """Take the old chunks into the new group. By the first process."""
        if os.stat(self.base).st_ino != self._inode:
            raise IoFailed(f"{self.base} was replaced in the meantime; append again")
        for name in zarr_group.arrays(self.base):
            old, new = f"{self.base}/{name}", f"{place}/{name}"
            if name in self._joined:
                self._take_chunks(name, old, new)
            else:
                shutil.copytree(old, new, copy_function=os.link)
        for entry in os.listdir(self.base):  # also what is not Zarr's
            if not os.path.lexists(f"{place}/{entry}"):
                is_directory = os.path.isdir(f"{self.base}/{entry}")
                copy = functools.partial(shutil.copytree, copy_function=os.link)
                (copy if is_directory else os.link)(f"{self.base}/{entry}", f"{place}/{entry}")
        if zarr_group.metadata(self.base).get(consolidated.KEY) is not None:
            consolidated.write(place)
        sync_file_system(place)

    def _take_chunks(self, name: str, old: str, new: str) -> None:
        """Put the new chunks of an array after the old ones that are complete."""
        axis = self._joined[name].axis
        array = zarr_python().open_array(new, mode="r+")
        granule = array.shards or array.chunks
        shift = self._length // granule[axis]
        cells = [range(-(-n // g)) for n, g in zip(array.shape, granule, strict=True)]
        key = array.metadata.encode_chunk_key
        cells[axis] = cells[axis][::-1]  # so that none gets the name of another
        for cell in itertools.product(*cells):
            there = tuple(c + shift if d == axis else c for d, c in enumerate(cell))
            _renamed(f"{new}/{key(cell)}", f"{new}/{key(there)}", os.rename)
        cells[axis] = range(shift)
        for cell in itertools.product(*cells):
            _renamed(f"{old}/{key(cell)}", f"{new}/{key(cell)}", os.link)
        shape = list(array.shape)
        shape[axis] += shift * granule[axis]
        array.resize(tuple(shape))


def _renamed(source: str, to: str, rename: Any) -> None:
    """Give a chunk's file another name; those that do not exist have the fill value."""
    if os.path.exists(source) and source != to:
        with contextlib.suppress(FileExistsError):
            os.makedirs(os.path.dirname(to))
        rename(source, to)
