# SPDX-License-Identifier: BSD-3-Clause
"""What must a file format offer so that arrays can be moved from and to it, and which are there?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np

from datamover.errors import InvalidArgument, IoError

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """What an array is: shape, dtype, and the order ("C" or "F") of its elements in the file."""

    shape: Shape
    dtype: np.dtype
    order: str = "C"

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class MoveOptions:
    """What may be said about the two files of a move; None means not said.

    Attributes
    ----------
    shape, dtype, order
        Of a raw input.
    input_format, output_format : str
        "npy", "raw", "zarr"; by default known from the name or the content.
    output_order : str
        "C" or "F", of an .npy or raw output; by default the input's.
    chunks, shards : tuple of int
        Of a Zarr output, in elements per dimension.
    compressor : str
        Of a Zarr output: "auto" (zarr's default), "none", "zstd", "gzip", "blosc".
    axes : tuple of int
        Output dimension k is input dimension axes[k], as in `numpy.transpose`.
    overwrite : bool
        Replace an output that is there.
    max_bytes : int
        Memory that each process may use for its part of the two arrays.
    """

    shape: Shape | None = None
    dtype: str | None = None
    order: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    output_order: str | None = None
    chunks: Shape | None = None
    shards: Shape | None = None
    compressor: str | None = None
    axes: Shape | None = None
    overwrite: bool = False
    max_bytes: int = 1 << 28


class Reader(Protocol):
    """An open input. Every process has its own. Elements are handled as opaque bytes."""

    spec: ArraySpec
    #: The smallest box that is read whole; slabs are multiples of it.
    granule: Shape

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Return the boxes in which a slab of `shape` is dealt to the processes."""

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""

    def close(self) -> None:
        """Close the file."""


class Writer(Protocol):
    """An open output. Every process has its own."""

    spec: ArraySpec
    granule: Shape

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Return the boxes in which a slab of `shape` is dealt to the processes."""

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""

    def sync(self) -> None:
        """Bring all that this process wrote to the disk."""

    def close(self) -> None:
        """Close the file."""


@dataclasses.dataclass(frozen=True)
class Format:
    """One format of files.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Ends of names that mean this format.
    recognizes : callable
        Whether a path that is there holds this format, from its content.
    open_reader : callable
        (path, options) -> Reader.
    check_output : callable
        (ArraySpec, options) -> ArraySpec that will be written; raises where that cannot be.
    create : callable
        (path, ArraySpec, options): make the output on one process, its space reserved if possible.
    open_writer : callable
        (path, ArraySpec, options) -> Writer, on every process after `create`.
    """

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[str], bool]
    open_reader: Callable[[str, MoveOptions], Reader]
    check_output: Callable[[ArraySpec, MoveOptions], ArraySpec]
    create: Callable[[str, ArraySpec, MoveOptions], None]
    open_writer: Callable[[str, ArraySpec, MoveOptions], Writer]


FORMATS: dict[str, Format] = {}


def register(file_format: Format) -> None:
    """Make a format known."""
    FORMATS[file_format.name] = file_format


def named(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise InvalidArgument(f"unknown format {name!r}; there are {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def by_suffix(path: str) -> Format | None:
    """Return the format that a name stands for."""
    for candidate in FORMATS.values():
        if os.path.normpath(path).lower().endswith(candidate.suffixes):
            return candidate
    return None


def of_input(path: str, options: MoveOptions) -> Format:
    """Return the format of an input: as said, else by its content, else by its name."""
    if not os.path.lexists(path):
        raise IoError(f"there is no input {path}")
    if options.input_format is not None:
        return named(options.input_format)
    for candidate in FORMATS.values():
        if candidate.recognizes(path):
            return candidate
    by_name = by_suffix(path)
    if by_name is not None:
        return by_name
    if options.shape is not None or options.dtype is not None:
        return named("raw")
    raise IoError(
        f"{path} is neither .npy nor Zarr; if it is raw, say --shape and --dtype, "
        f"else convert it first"
    )


def of_output(path: str, options: MoveOptions) -> Format:
    """Return the format of an output: as said, else by its name."""
    if options.output_format is not None:
        return named(options.output_format)
    by_name = by_suffix(path)
    if by_name is None:
        known = ", ".join(suffix for f in FORMATS.values() for suffix in f.suffixes)
        raise InvalidArgument(f"{path} does not say its format; end it in {known}, or use --format")
    return by_name
