# SPDX-License-Identifier: BSD-3-Clause
"""Writing of a chunked HDF5 dataset whose chunks are encoded by this library's threads.

HDF5 accepts encoded chunks (`write_direct_chunk`), one thread at a time and from one process.
Shuffling and gzip, which take most of the time, are done before, by all threads of all processes in
parallel (`handover`).
"""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any, cast

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import hdf5, hdf5_attributes
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.space import no_space

COMPRESSORS = ("none", "gzip")
#: h5py's default compression level.
GZIP_LEVEL = 4


@dataclasses.dataclass(frozen=True, repr=False)
class GrowingOptions(MoveOptions):
    """Options of a dataset that may grow to extents of `most`; None is unlimited."""

    most: tuple[int | None, ...] | None = None


def most_of(options: MoveOptions) -> tuple[int | None, ...] | None:
    """Return the extents to which a dataset may grow; None if they are its own."""
    return options.most if isinstance(options, GrowingOptions) else None


def is_chunked(spec: ArraySpec, options: MoveOptions) -> bool:
    """Return whether chunks are requested. Empty arrays have none."""
    said = options.chunks is not None or options.compressor is not None
    return said and bool(spec.shape) and spec.nbytes > 0


def check(spec: ArraySpec, options: MoveOptions) -> None:
    """Check the compressor, and that the array can have chunks.

    Raises
    ------
    InvalidArgument
    """
    if (options.compressor or "none") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r} of HDF5; there are {', '.join(COMPRESSORS)}"
        )
    if not spec.shape and (options.chunks is not None or options.compressor is not None):
        raise InvalidArgument("an array of one element has no chunks in HDF5")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the requested chunks, the input's, or ones of a megabyte, within the array.

    The input's chunks stay if the array may grow, as one of a few records.
    """
    from datamover.files import zarr_output

    zarr_output.check_boxes("chunks", options.chunks, spec)
    chunks = zarr_output.chunk_shape(spec, options)
    most = most_of(options) if options.chunks is None else None
    limits = (c if n is None else n for c, n in zip(chunks, most or spec.shape, strict=True))
    return tuple(map(min, chunks, limits))


def create_dataset(file: Any, name: str, spec: ArraySpec, options: MoveOptions) -> None:
    """Create a chunked dataset without chunks.

    Raises
    ------
    Unsupported
        HDF5 has no such dtype.
    """
    properties = hdf5_attributes.creation_properties(spec)
    if options.compressor == "gzip":
        properties.set_shuffle()
        properties.set_deflate(GZIP_LEVEL)
    chunks = chunk_shape(spec, options)
    try:
        properties.set_chunk(chunks)
        hdf5.create_with(file, name, spec, properties, most_of(options))
    except (TypeError, ValueError) as e:
        raise Unsupported(
            f"HDF5 cannot hold {name!r} of dtype {spec.dtype} in chunks {chunks}: {e}"
        ) from e


class ChunkedOutput(ChunkedArray):
    """A chunked dataset that several threads write.

    Parameters
    ----------
    path, name : str
        Names of a dataset that `create_dataset` created; an empty path is for planning only.
    spec : ArraySpec
    options : MoveOptions
    """

    has_one_writer = True

    def __init__(self, path: str, name: str, spec: ArraySpec, options: MoveOptions):
        self.spec = spec
        self.granule = chunk_shape(spec, options)
        self.is_encoded = options.compressor == "gzip"
        self.fill_bytes = hdf5_attributes.fill_bytes(spec)
        self._leaves_out_fill = not hdf5_attributes.is_fill_undefined(spec)
        self._path = path
        # The writer has locked it already, in a way that HDF5 does not recognize.
        self._file: Any = hdf5.h5py().File(path, "r+", locking=False) if path else None
        self._dataset: Any = cast(Any, self._file)[name] if path else None

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order."""
        self.put(cell, self.encode(chunk))

    def encode(self, chunk: np.ndarray) -> Any:
        """Return the bytes to store in the file; None if all elements are fill value.

        Any process may call it.
        """
        elems = np.ascontiguousarray(chunk).reshape(-1)
        if self._leaves_out_fill and self.is_fill(elems):
            return None
        data = elems.view(np.uint8)
        if not self.is_encoded:
            return data
        shuffled = data.reshape(-1, self.spec.dtype.itemsize).T
        return zlib.compress(np.ascontiguousarray(shuffled), GZIP_LEVEL)

    def put(self, cell: Shape, data: Any) -> None:
        """Write an encoded chunk; for None, HDF5 returns the fill value without a chunk."""
        if data is None:
            return
        first = tuple(i * c for i, c in zip(cell, self.granule, strict=True))
        try:
            self._dataset.id.write_direct_chunk(first, data)
        except (OSError, RuntimeError) as e:
            raise self._refused(e) from e

    def _refused(self, e: Exception) -> IoFailed:
        """Return the error for an error of HDF5."""
        reason = hdf5.no_space_behind(e)
        if reason is not None:
            words = no_space(self._path, reason, self.spec.nbytes)
            return IoFailed(f"{words} (the array before compression)")
        return IoFailed(f"{self._path} cannot be written: {e}")

    def close(self) -> None:
        """Close the file, to which HDF5 writes everything that it has buffered."""
        file, self._file, self._dataset = self._file, None, None
        try:
            if file is not None:
                file.close()
        except (OSError, RuntimeError) as e:
            raise self._refused(e) from e
