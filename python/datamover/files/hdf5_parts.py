# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 dataset written as several files that a virtual dataset combines into one array.

Each file holds rows of the first dimension that can be divided: a piece of the flattened array if
the dataset is contiguous, or whole chunks if it is chunked.
"""

from __future__ import annotations

import bisect
import dataclasses
import os
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, WrongType
from datamover.files import hdf5, hdf5_output, hdf5_traits, parts
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, MoveOptions, Shape, option

#: All parts are open at once.
MAX_PARTS = 256


@dataclasses.dataclass(frozen=True)
class Cut:
    """Where an array is cut.

    Attributes
    ----------
    dim : int
    bounds : tuple of int
        Part k has the indices bounds[k] .. bounds[k + 1] - 1 of that dimension.
    spec : ArraySpec
        Of the whole array.
    chunks : tuple of int or None
        None: each part is contiguous.
    """

    dim: int
    bounds: tuple[int, ...]
    spec: ArraySpec
    chunks: Shape | None

    def part(self, number: int) -> ArraySpec:
        """Describe a part; one in chunks has whole ones, also beyond the array."""
        rows = self.bounds[number + 1] - self.bounds[number]
        if self.chunks is not None:
            rows = -(-rows // self.chunks[self.dim]) * self.chunks[self.dim]
        return dataclasses.replace(self.spec, shape=self._with_rows(rows))

    def box(self, number: int) -> tuple[slice, ...]:
        """Give the place of a part in the array."""
        found = [slice(0, extent) for extent in self.spec.shape]
        found[self.dim] = slice(*self.bounds[number : number + 2])
        return tuple(found)

    def _with_rows(self, rows: int) -> Shape:
        shape = self.spec.shape
        return (*shape[: self.dim], rows, *shape[self.dim + 1 :])


def cut_of(spec: ArraySpec, options: MoveOptions) -> Cut:
    """Say how an array is cut for the writers that are asked for.

    Raises
    ------
    InvalidArgument, WrongType
        It cannot be cut into so many.
    """
    count = options.writers
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool):
        raise WrongType(f"writers is {count!r}, it must be a number of files")
    if not 1 <= count <= MAX_PARTS:
        raise InvalidArgument(f"writers is {count}; it must be from 1 to {MAX_PARTS}")
    if not spec.shape or spec.nbytes == 0:
        raise InvalidArgument(
            f"{option('writers', count)}: an array of {'one' if not spec.shape else 'no'} element "
            "is not cut into files"
        )
    chunks = None
    if hdf5_output.is_chunked(spec, options):
        chunks = hdf5_output.chunk_shape(spec, options)
    units = chunks or (1,) * len(spec.shape)
    dim = next((d for d, (n, c) in enumerate(zip(spec.shape, units, strict=True)) if n > c), 0)
    rows = -(-spec.shape[dim] // units[dim])
    if rows < count:
        of_what = "index" if chunks is None else "chunk"
        raise InvalidArgument(
            f"{option('writers', count)}: the array is cut along dimension {dim}, which has "
            f"{rows} {of_what if rows == 1 else of_what + 's' if chunks else 'indices'}"
        )
    bounds = [min(rows * k // count * units[dim], spec.shape[dim]) for k in range(count)]
    return Cut(dim, (*bounds, spec.shape[dim]), spec, chunks)


def create(file: Any, path: str, name: str, spec: ArraySpec, options: MoveOptions) -> None:
    """Make the files of all parts, space reserved, and the virtual dataset in an open file.

    `path` is that of the open file, under its hidden name.
    """
    cut = cut_of(spec, options)
    folder = parts.folder_of(path)
    os.mkdir(folder)
    h5py = hdf5.h5py()
    properties = hdf5_traits.creation_properties(spec)
    if spec.dtype.kind in "fc" and hdf5_traits.fill_value(spec) is None:
        # What is read where a part is missing; of integers there is none that would tell.
        properties.set_fill_value(np.array(np.nan, spec.dtype))
    for k in range(options.writers):
        part, here = cut.part(k), cut.box(k)

        def fill(part_file: Any, part: ArraySpec = part) -> None:
            if cut.chunks is None:
                made_with = hdf5_traits.creation_properties(part)
                hdf5.create_contiguous(part_file, name, part, made_with)
            else:
                hdf5_output.create_dataset(part_file, name, part, _of_part(cut, options))

        hdf5.create_file(parts.path_of(folder, k), fill, spec.nbytes)
        count = tuple(rows.stop - rows.start for rows in here)
        whole, source = h5py.h5s.create_simple(spec.shape), h5py.h5s.create_simple(part.shape)
        whole.select_hyperslab(tuple(rows.start for rows in here), count)
        source.select_hyperslab((0,) * len(count), count)
        named = os.fsencode(parts.name_in_file(folder, k)), name.replace("%", "%%").encode()
        properties.set_virtual(whole, *named, source)
    hdf5.create_with(file, name, spec, properties)


def _of_part(cut: Cut, options: MoveOptions) -> MoveOptions:
    return dataclasses.replace(options, chunks=cut.chunks, writers=None)


def open_writer(path: str, name: str, spec: ArraySpec, options: MoveOptions) -> Any:
    """Open what `create` made."""
    cut = cut_of(spec, options)
    folder = parts.folder_of(path)
    paths = [parts.path_of(folder, k) for k in range(options.writers)]
    if cut.chunks is None:
        return PartedFile(path, name, cut, paths)
    return PartedChunks(path, name, cut, paths, options)


class PartedFile(FlatFile):
    """Contiguous parts, written as one flat file; several processes may.

    Parameters
    ----------
    path, name : str
        Of the virtual dataset.
    cut : Cut
    paths : list of str
    """

    def __init__(self, path: str, name: str, cut: Cut, paths: list[str]):
        super().__init__(path, cut.spec, 0, writable=True)
        row_bytes = cut.spec.nbytes // cut.spec.shape[cut.dim]
        self._begins = [row * row_bytes for row in cut.bounds[:-1]]
        self._parts: list[FlatFile] = []
        try:
            for k, part in enumerate(paths):
                self._parts.append(hdf5.open_writer(part, name, cut.part(k)))
        except BaseException:
            self.close()
            raise

    def _write_box(self, lo: Shape, array: np.ndarray) -> None:
        self.maps_short_runs = False  # there is no one file to be mapped
        super()._write_box(lo, array)

    def _write_run(self, position: int, data: np.ndarray) -> None:
        end = position + len(data)
        first = bisect.bisect_right(self._begins, position) - 1
        for begin, until, part in zip(
            self._begins[first:], [*self._begins[first + 1 :], end], self._parts[first:],
            strict=True,
        ):  # fmt: skip
            lo, hi = max(position, begin), min(end, until)
            if lo < hi:
                part.write_run(lo - begin, data[lo - position : hi - position])

    def sync(self) -> None:
        """Bring all files to the disk, and their names."""
        for part in self._parts:
            part.sync()
        _sync_names(self._path)
        super().sync()

    def close(self) -> None:
        """Close all files."""
        for part in self._parts:
            part.close()
        super().close()


class PartedChunks(ChunkedArray):
    """Parts in chunks, written as one chunked dataset.

    Parameters
    ----------
    path, name, cut, paths
        As of `PartedFile`.
    options : MoveOptions
    """

    has_one_writer = True

    def __init__(self, path: str, name: str, cut: Cut, paths: list[str], options: MoveOptions):
        self.spec, self.granule = cut.spec, cut.chunks
        self._path, self._dim = path, cut.dim
        self._first = [row // cut.chunks[cut.dim] for row in cut.bounds[:-1]]
        self._parts: list[hdf5_output.ChunkedOutput] = []
        try:
            for k, part in enumerate(paths):
                opened = hdf5_output.ChunkedOutput(part, name, cut.part(k), _of_part(cut, options))
                opened.needed_bytes = cut.spec.nbytes
                self._parts.append(opened)
        except BaseException:
            self.close()
            raise
        self.is_encoded, self.fill_bytes = opened.is_encoded, opened.fill_bytes

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order."""
        self.put(cell, self.encode(chunk))

    def encode(self, chunk: np.ndarray) -> Any:
        """Give the bytes that are to stand in a file. Any process may."""
        return self._parts[0].encode(chunk)

    def put(self, cell: Shape, data: Any) -> None:
        """Write a chunk that is encoded."""
        k = bisect.bisect_right(self._first, cell[self._dim]) - 1
        here = list(cell)
        here[self._dim] -= self._first[k]
        self._parts[k].put(tuple(here), data)

    def sync(self) -> None:
        """Bring all files to the disk, and their names."""
        for part in self._parts:
            part.sync()
        _sync_names(self._path)

    def close(self) -> None:
        """Close all files."""
        for part in self._parts:
            part.close()


def _sync_names(path: str) -> None:
    """Bring the file of the virtual dataset to the disk, and the names of its parts."""
    for each in (path, parts.folder_of(path)):
        fd = os.open(each, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
