# SPDX-License-Identifier: BSD-3-Clause
"""Appending many NetCDF or HDF5 files to a Zarr group that was joined from such files.

A new group is written under a hidden name: the last, incomplete chunks along the joined dimension
and the new records are moved there as ever. Then the complete chunks of the old group get a second
name in the new one (a hard link), and the new one replaces the old one, which is never changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.errors import IoFailed, Unsupported
from datamover.files import addresses, format_choice, formats, zarr_group
from datamover.files.chunk_grid import Uneven
from datamover.files.comparison import exact
from datamover.files.formats import ArraySpec, MoveOptions, grid_of
from datamover.files.joined import Part, with_length
from datamover.files.many_files import Many
from datamover.files.space import sync_path
from datamover.files.zarr_array import zarr_python
from datamover.files.zarr_traits import granule_of

#: Options that the old arrays determine.
KEPT = ("chunks", "shards", "compressor", "zarr_format")
#: Metadata by which the old chunks are read, so that the new array must have the same.
OF_CHUNKS = ("codecs", "chunk_grid", "chunk_key_encoding", "data_type", "fill_value")


class AppendToZarr(Many):
    """See `whole.Way`."""

    def __init__(self, paths: Sequence[str], output: str, options: MoveOptions):
        super().__init__(paths, output, options)
        if addresses.is_address(output):
            raise Unsupported(f"{output}: records are appended to groups at paths only")
        for name in KEPT:
            if getattr(options, name) is not None:
                raise Unsupported(
                    f"{formats.option(name)}: arrays to which records are appended keep theirs"
                )
        if not zarr_group.is_group(output):
            raise IoFailed(f"{output} is not a Zarr group: there is nothing to append to")
        self.base = output
        # Open as long as this object is, so that no other directory gets its inode.
        self._held = os.open(output, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._held)
        self._group = zarr_python().open_group(output, mode="r", use_consolidated=False)
        if self._group.metadata.zarr_format != 3:
            raise Unsupported(f"{output} has Zarr format 2: records are appended to format 3 only")
        self._inner: list[str] = []  # names of the groups within the files

    def _times_before(self, name: str) -> list[tuple[str, np.ndarray]]:
        if not self._length:
            return []
        return [(self.base, exact(np.asarray(self._group[name][-2:])))]

    def _parts_before(self, name: str, axis: int) -> list[Part]:
        """Return the records in incomplete chunks, which are written again."""
        extent = self._open_old(name).granule[axis]
        if isinstance(extent, Uneven):
            raise Unsupported(
                f"{self.base}/{name} has chunks of {extent!r} along the dimension that grows: "
                "records are appended to chunks of one extent only"
            )
        rest = self._length % extent
        if not rest:
            return []
        return [Part(self.base, rest, lambda _: self._open_old(name), begin=self._length - rest)]

    def _spec_of(self, name: str, source: str, options: MoveOptions) -> ArraySpec:
        return self._open_old(name).spec

    def _open_old(self, name: str) -> Any:
        return format_choice.named("zarr").open_reader(f"{self.base}/{name}", MoveOptions())

    def _set_arrays(self) -> None:
        self._inner = list(self.groups)
        self.arrays = {name: self.arrays[name] for name in self._joined}
        self.copied = {}
        super()._set_arrays()

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return those of the old groups."""
        return zarr_group.attributes(f"{self.base}/{name}".rstrip("/"))

    def complete(self, place: str) -> None:
        """Take the old chunks into the new group. By the first process."""
        try:  # until this object ends, when the new group has its name
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IoFailed(f"another program appends to {self.base}; append again") from None
        except OSError:  # a file system without locks
            pass
        self._check_as_before()
        for name in zarr_group.arrays(self.base):
            old, new = f"{self.base}/{name}", f"{place}/{name}"
            if name in self._joined:
                self._take_chunks(name, old, new)
            else:
                shutil.copytree(old, new, copy_function=_link)
        for group in ("", *self._inner):
            _take_rest(os.path.join(self.base, group), os.path.join(place, group))
        zarr_group.consolidate(place)
        sync_path(place)
        self._check_as_before()

    def _check_as_before(self) -> None:
        """Raise if the old group is another one by now, or has grown."""
        now = zarr_python().open_group(self.base, mode="r", use_consolidated=False)
        if not os.path.samestat(os.fstat(self._held), os.stat(self.base)) or any(
            now[name].shape[axis] != self._length for name, (axis, _) in self._joined.items()
        ):
            raise IoFailed(f"{self.base} was replaced or has grown in the meantime; append again")

    def _take_chunks(self, name: str, old: str, new: str) -> None:
        """Put the new chunks of an array after the old ones that are complete."""
        axis, _ = self._joined[name]
        array = zarr_python().open_array(new, mode="r+")
        was, now = (one.metadata.to_dict() for one in (self._group[name], array))
        for word in OF_CHUNKS:
            if repr(was[word]) != repr(now[word]):
                raise Unsupported(
                    f"{old} has {word} {was[word]}, which new chunks cannot get; move {self.base} "
                    "to a new group, then append to that"
                )
        granule = granule_of(array)
        shift = self._length // granule[axis]
        cells = list(map(range, grid_of(array.shape, granule)))
        key = array.metadata.encode_chunk_key
        cells[axis] = cells[axis][::-1]  # so that none gets the name of another
        for cell in itertools.product(*cells):
            there = with_length(cell, axis, cell[axis] + shift)
            _renamed(f"{new}/{key(cell)}", f"{new}/{key(there)}", os.rename)
        cells[axis] = range(shift)
        for cell in itertools.product(*cells):
            _renamed(f"{old}/{key(cell)}", f"{new}/{key(cell)}", _link)
        length = array.shape[axis] + shift * granule[axis]
        array.resize(with_length(array.shape, axis, length))


def _take_rest(old: str, new: str) -> None:
    """Take what is not in the new group yet, also what is not Zarr's."""
    for entry in os.listdir(old) if os.path.isdir(old) else ():
        source, to = os.path.join(old, entry), os.path.join(new, entry)
        if not os.path.lexists(to):
            tree = functools.partial(shutil.copytree, copy_function=_link)
            (tree if os.path.isdir(source) else _link)(source, to)


def _link(source: str, to: str) -> None:
    words = f"{source} cannot get a second name (a hard link); join all files to a new group"
    with addresses.failing(words, of=(OSError,)):
        os.link(source, to)


def _renamed(source: str, to: str, rename: Any) -> None:
    """Give a chunk's file another name; those that do not exist have the fill value."""
    if os.path.exists(source) and source != to:
        with contextlib.suppress(FileExistsError):
            os.makedirs(os.path.dirname(to))
        rename(source, to)
