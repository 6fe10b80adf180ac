# SPDX-License-Identifier: BSD-3-Clause
"""Moves of elements of any length, such as strings: one process copies them by libraries.

Movers cannot move them because they have no fixed size. h5py and zarr-python read and write
strings, chunk by chunk. HDF5 itself copies between HDF5 files (`hdf5_copies`).
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, NoMemory
from datamover.files import formats, hdf5, hdf5_copies, hdf5_types
from datamover.files.formats import MoveOptions, Output, Reader, Shape
from datamover.files.hdf5_copies import boxes, bytes_of, differs
from datamover.files.hdf5_types import h5py

#: Options that elements of any length do not have.
UNSUPPORTED = ("region", "axes", "shards")


class StringsReader(hdf5.OpenDataset):
    """An HDF5 dataset of strings, which h5py decodes."""

    def __init__(self, file: Any, dataset: Any, *of_dataset: Any):
        super().__init__(file, dataset, *of_dataset)
        self.granule: Shape = hdf5_copies.chunks_of(dataset)

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the strings from index `lo` on.

        Raises
        ------
        InvalidArgument
            A string is not UTF-8.
        """
        with hdf5.reading(self._where):
            try:
                out[...] = self._dataset.asstr()[_box(lo, out.shape)]
            except UnicodeDecodeError as e:
                raise InvalidArgument(f"{self._where} has a string that is not UTF-8: {e}") from e


class StringsWriter(hdf5.OpenOutput):
    """An HDF5 dataset of strings for writing."""

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write strings to the elements from index `lo` on."""
        hdf5.check_growth(self._file, hdf5_copies.GROWTH * bytes_of(array))
        with self.naming_errors():
            self._dataset[_box(lo, array.shape)] = array

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the strings from index `lo` on."""
        out[...] = self._dataset.asstr()[_box(lo, out.shape)]


def _box(lo: Shape, shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(lo, shape, strict=True))


def are_in(dataset: Any) -> bool:
    """Return whether an HDF5 dataset's elements are strings of any length."""
    kind = dataset.id.get_type()
    is_string = kind.get_class() == h5py.h5t.STRING
    return is_string and kind.is_variable_str() and dataset.shape is not None


def reader_of(where: str, dataset: Any, to: str | None) -> type[hdf5.OpenDataset] | None:
    """Return the reader of a dataset that is copied to the format `to`; None if it is moved.

    Raises
    ------
    Unsupported
        Elements without a fixed size would mean something else in another file.
    """
    if to == "hdf5" and hdf5_copies.is_copied_in_hdf5(where, dataset):
        return hdf5.OpenDataset
    return StringsReader if to == "zarr" and are_in(dataset) else None


def refuse_options(source: str, to: str, options: MoveOptions) -> None:
    """Raise InvalidArgument if an option does not apply to elements of any length."""
    what = "is not for elements of any length, such as strings,"
    converts = () if options.output_dtype is np.dtype(object) else ("output_dtype",)
    formats.refuse((*UNSUPPORTED, *converts), options, f"{what} as in {source}")
    if to == "hdf5":
        formats.refuse(("chunks", "compressor"), options, f"{what} in HDF5, as {source} has")


def copy(reader: Reader, output: Output, path: str, options: MoveOptions) -> None:
    """Write all strings to an output that was created, unless HDF5 has already copied them.

    Raises
    ------
    NoMemory
        A chunk of strings exceeds the limit.
    IoFailed
        Strings that are read again differ.
    """
    native = hdf5_types.native_of(output.spec)
    if native is not None and output.shown is None:
        return
    where = reader.spec.kept.where
    with contextlib.closing(output.open(path)) as writer:
        for box in boxes(output.spec.shape, (output.shown or reader).granule):
            lo = tuple(part.start for part in box)
            strings, again = (np.empty([p.stop - p.start for p in box], object) for _ in "ab")
            reader.read(lo, strings)
            nbytes = bytes_of(strings)
            if nbytes > options.max_bytes:
                raise NoMemory(
                    f"{where} has {nbytes:,} bytes of strings in a chunk, more than the "
                    f"memory limit of {options.max_bytes:,}; allow more with "
                    f"{formats.option('max_bytes')}"
                )
            writer.write(lo, strings)
            if options.check:
                writer.read(lo, again)
                if not np.array_equal(again, strings):
                    raise differs(where)
