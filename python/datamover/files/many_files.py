# SPDX-License-Identifier: BSD-3-Clause
"""Moves of many NetCDF or HDF5 files, or Zarr groups, to one, joined along a dimension.

Groups, attributes and everything without the dimension are those of the first file. All other files
must agree with it, except that times may have other units, which are converted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import math
import os
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported, WrongType
from datamover.files import addresses, format_choice, formats, hdf5, names, zarr_group
from datamover.files.agreement import together
from datamover.files.chunk_boxes import DEFAULT_CHUNK_BYTES
from datamover.files.chunk_grid import several_extents
from datamover.files.comparison import Comparison, check_order
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.hdf5_chunks import GrowingOptions
from datamover.files.joined import JoinedArray, Part, named, with_length
from datamover.files.whole import OfOne, Way
from datamover.mpi import Comm, comm_address, gathered


def files_of(source: Any) -> tuple[str, ...]:
    """Return the real paths of a pattern, in order of their names, or of a list.

    Raises
    ------
    InvalidArgument, IoFailed
        Nothing matches the pattern; a name is not that of a file.
    """
    if isinstance(source, str | os.PathLike):
        pattern = os.fspath(source)
        given = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not given and not addresses.is_address(pattern):
            raise IoFailed(f"no file matches {pattern}")
        given = given or [pattern]
    elif isinstance(source, Sequence):
        given = [os.fspath(name) for name in source]
    else:
        raise WrongType(f"the input is {source!r}; it must be a pattern or a list of files")
    if not given:
        raise InvalidArgument("there are no input files")
    found = tuple(map(names.place_of, given))
    for path in found:
        if addresses.is_address(path):
            raise Unsupported(f"{path}: {formats.option('along')} joins files at paths only")
        format_choice.check_input_kind(path)
        if not hdf5.recognizes(path) and not zarr_group.is_group(path):
            what = "neither NetCDF4 nor HDF5 nor a Zarr group"
            raise Unsupported(format_choice.advice(path) or f"{path} is {what}")
    if len(set(found)) < len(found):
        twice = next(path for path, count in Counter(found).items() if count > 1)
        raise InvalidArgument(f"{twice} is named twice")
    return found


class Many(Way):
    """Many files of one kind, in front of the way of the first (`whole.Way`), which creates them.

    Attributes
    ----------
    base : str
        With which all files must agree.
    """

    leaves_out = False  # what is compared is moved

    def __init__(self, paths: Sequence[str], output: str, options: MoveOptions):
        super().__init__(paths[0])
        self._paths, self._along = paths, str(options.along)
        self._to_hdf5 = format_choice.of_output(output, options).name == "hdf5"
        self._joined: dict[str, tuple[int, list[Part]]] = {}  # the axis and the parts, by name
        self._length = 0  # of the arrays of `base` along the joined dimension
        self.base = self.source

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open the first file, after all have been compared."""
        if not self._joined:
            self.compare(None)
        with super().opened():
            self._set_arrays()
            yield

    def _set_arrays(self) -> None:
        for name, (axis, parts) in self._joined.items():
            if name in self.texts or (name in self.copied and self.copied[name].dtype.hasobject):
                raise Unsupported(
                    f"{named(self.base, name)} has elements without a fixed size along "
                    f"{self._along!r}: these cannot be joined"
                )
            length = self.lengths[self._along] = _total(parts)
            if name in self.copied:  # since it has no elements in the first file
                self.arrays[name] = self.copied.pop(name).shape
            if name in self.arrays:  # not if it is another name of an array
                self.arrays[name] = with_length(self.arrays[name], axis, length)

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array, and the opener of one from all files."""
        source, said, opener = super().of_one(name, options)
        if name not in self._joined:
            return source, said, opener
        axis, parts = self._joined[name]
        if isinstance(said, GrowingOptions) and said.most and said.most[axis] is not None:
            most = with_length(said.most, axis, _total(parts))
            said = dataclasses.replace(said, most=most)
        return source, said, partial(self._open, name)

    def _open(self, name: str, source: str, options: MoveOptions) -> JoinedArray:
        axis, parts = self._joined[name]
        return JoinedArray(name, parts, axis, self._spec_of(name, source, options), options)

    def _tell_of_growing(self) -> None:
        """Do nothing: the dimension that grows is the joined one."""

    def compare(self, comm: Comm | None) -> None:
        """Compare all files with the first one, which each process reads. Collective."""
        rank, size = (0, 1) if comm is None else (comm.rank, comm.size)
        begin, end = (k * len(self._paths) // size for k in (rank, rank + 1))
        with together(comm):
            first = Comparison(self.base, self._along, self._to_hdf5)
            files = list(first.files(self._paths[begin:end]))
            own = b"" if comm is None else pickle.dumps(files)
            words = np.frombuffer(own + bytes(-len(own) % 8), np.int64)
        of_all = [] if comm is None else gathered(comm_address(comm), words)
        with together(comm):
            if of_all:
                files = [one for found in of_all for one in pickle.loads(found)]
            self._length = first.length
            if rank == 0:  # which logs gaps
                for name, is_time in first.times.items():
                    before = self._times_before(name)
                    of_files = [(parts[name].path, values[name]) for parts, values in files]
                    check_order(name, is_time, *zip(*before, *of_files, strict=True))
            for name, axis in first.axes.items():
                joined = (parts[name] for parts, _ in files)
                self._joined[name] = axis, [*self._parts_before(name, axis), *joined]

    def _times_before(self, name: str) -> list[tuple[str, np.ndarray]]:
        """Return the last values of a coordinate before the files, and where they are."""
        return []

    def _parts_before(self, name: str, axis: int) -> list[Part]:
        """Return what is joined before the files."""
        return []

    def _spec_of(self, name: str, source: str, options: MoveOptions) -> ArraySpec:
        """Return the spec of the output, except for its length."""
        file_format = format_choice.named(str(options.input_format))
        with contextlib.closing(file_format.open_reader(source, options)) as first:
            spec = first.spec
        axis, parts = self._joined[name]
        return dataclasses.replace(spec, kept=_long(spec, axis, _total(parts)))


def _total(parts: list[Part]) -> int:
    return sum(part.length for part in parts)


def _long(spec: ArraySpec, axis: int, length: int) -> Any:
    """Return properties with longer chunks if they are small: a file may hold a single record."""
    chunks = tuple(map(int, spec.kept.chunks))  # the largest ones, if they have several extents
    if spec.kept.shards and not several_extents(spec.kept.shards):
        return spec.kept
    times = DEFAULT_CHUNK_BYTES // max(1, math.prod(chunks) * spec.dtype.itemsize)
    longer = max(chunks[axis], min(length, chunks[axis] * max(1, times)))
    chunks = with_length(chunks, axis, longer)
    return dataclasses.replace(spec.kept, chunks=chunks, shards=None)
