# SPDX-License-Identifier: BSD-3-Clause
"""File formats: the description of an array, options, and the interface of each format."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from datamover.arguments import byte_count, flag, integers
from datamover.dtype_words import dtype_of, is_of_ml_dtypes
from datamover.errors import InvalidArgument, IoFailed, WrongType
from datamover.files import addresses
from datamover.files.chunk_grid import Sizes, begin_of, cells, chunks_in, end_of, said_sizes

log = logging.getLogger("datamover")

Shape = tuple[int, ...]
#: Metadata that is written after everything else is created, by the names of files or objects; at
#: an address after all elements. The last one makes the output visible.
Late = Mapping[str, bytes]
Order = Literal["C", "F"]


class DefaultLimit(int):
    """The default memory limit of a move.

    It may be exceeded, up to `MOST`, if a single chunk needs it.
    """

    MOST = 1 << 31


DEFAULT_LIMIT = DefaultLimit(1 << 28)


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Description of an array: shape, dtype, and order ("C" or "F") of its elements in the file.

    `kept` has the other properties of a Zarr array, for an output that is Zarr too;
    `dimension_names` are those of a new array.
    """

    shape: Shape
    dtype: np.dtype
    order: Order = "C"
    kept: Any = dataclasses.field(default=None, repr=False)
    dimension_names: tuple[str, ...] | None = dataclasses.field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; 0 for those of any length, which movers do not move."""
        elems = 0 if self.dtype.hasobject else int(np.prod(self.shape, dtype=object))
        return elems * self.dtype.itemsize

    @property
    def names(self) -> tuple[str | None, ...] | None:
        """The names of dimensions: those of a new array, or those that are kept."""
        kept = self.kept and self.kept.dimension_names
        return kept if self.dimension_names is None else self.dimension_names

    @property
    def axes(self) -> Shape:
        """The dimensions, slowest first."""
        axes = tuple(range(len(self.shape)))
        return axes if self.order == "C" else axes[::-1]


@dataclasses.dataclass(frozen=True)
class MoveOptions:
    """Options of a move for its two files; None stands for the default.

    Attributes
    ----------
    shape, dtype, order
        Shape, dtype and order of a raw input; for other inputs, `dtype` is `output_dtype`.
    input_format, output_format : str
        "npy", "raw", "zarr", "hdf5"; by default recognized from the name or the content.
    output_order : str
        "C" or "F", for an .npy or raw output; by default the input's order.
    chunks, shards : tuple of int
        For a Zarr output, in elements per dimension; by default those of a Zarr input. In `chunks`,
        a dimension may have the sizes of all its chunks, ``((3, 5, 2), 4)``. `chunks` also applies
        to an HDF5 output, which is contiguous without chunks and compressor. If a whole file or
        group is moved, `chunks` applies to arrays with this many dimensions.
    compressor : str
        For a Zarr output: "auto" (zarr's default), "none", "zstd", "gzip", "blosc"; by default that
        of a Zarr input, or "auto". For an HDF5 output: "none", "gzip" (with shuffle).
    zarr_format : int
        For a Zarr output: 2 or 3; by default that of the enclosing group, or 3.
    axes : tuple of int
        Output dimension k is input dimension axes[k], as in `numpy.transpose`.
    overwrite : bool
        Replace an existing output.
    overwrite_group : bool
        Also replace an existing Zarr group with all arrays in it, or an HDF5 file of several
        datasets.
    max_bytes : int
        Memory that each process may use for its part of the two arrays. By default 256 MiB, or the
        memory of one chunk if that is more, up to 2 GiB.
    temporary : path
        Directory for the intermediate of a move in two passes, under the same path on all
        processes. By default that of the output, or the system's for temporary files if the output
        has an address. The intermediate is as large as the array and is removed at the end.
    region : tuple of (begin, end)
        The part of the input to move, per dimension; None for the input's own begin or end.
        Negative numbers count from the end.
    output_dtype : str
        Dtype to which numbers are converted, as NumPy does under "same_kind".
    check : str
        "crc32c": the output is read again and compared before it gets its name.
    member, output_member : str
        Names of datasets in HDF5 files; usually given as `run.h5:/name`.
    dims : tuple of str
        Names of the output's dimensions, for Zarr and HDF5; by default those of the input.
    along : str
        The input is many NetCDF or HDF5 files, or Zarr groups, which are joined along the dimension
        of this name.
    append : bool
        With `along`: append the files to the existing Zarr group.
    """

    shape: Shape | None = None
    dtype: str | np.dtype | None = None
    order: Order | None = None
    input_format: str | None = None
    output_format: str | None = None
    output_order: Order | None = None
    chunks: Sizes | None = None
    shards: Shape | None = None
    compressor: str | None = None
    zarr_format: int | None = None
    axes: Shape | None = None
    overwrite: bool = False
    overwrite_group: bool = False
    max_bytes: int = DEFAULT_LIMIT
    temporary: str | os.PathLike[str] | None = None
    region: tuple[tuple[int | None, int | None], ...] | None = None
    output_dtype: str | np.dtype | None = None
    check: str | None = None
    dims: tuple[str, ...] | None = None
    along: str | None = None
    append: bool = False
    member: str | None = None
    output_member: str | None = None

    def __repr__(self) -> str:
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)
                if getattr(self, f.name) != f.default}  # fmt: skip
        return f"MoveOptions({', '.join(f'{name}={value!r}' for name, value in said.items())})"


def options_of(said: Mapping[str, Any]) -> MoveOptions:
    """Return options from keywords; raise for an unknown one, with the names of all options."""
    names = [field.name for field in dataclasses.fields(MoveOptions)]
    for name in said:
        if name not in names:
            raise InvalidArgument(f"there is no option {name!r}; there are {', '.join(names)}")
    return MoveOptions(**said)


#: Fields that are true or false.
FLAGS = ("overwrite", "overwrite_group", "append")


def verified(options: MoveOptions) -> MoveOptions:
    """Return options with extents as tuples of integers; raise for invalid sizes and bools.

    Examples
    --------
    >>> from datamover.files.formats import MoveOptions, verified
    >>> verified(MoveOptions(chunks=[8, 8], axes=(1, 0)))
    MoveOptions(chunks=(8, 8), axes=(1, 0))
    """
    limit = options.max_bytes
    if not isinstance(limit, DefaultLimit):
        limit = byte_count(limit, "max_bytes")
    if options.along is not None and (not isinstance(options.along, str) or not options.along):
        raise WrongType(f"along is {options.along!r}, it must be the name of a dimension")
    if options.append and options.along is None:
        raise InvalidArgument(
            f"{option('append', True)} needs {option('along')}, the dimension that grows"
        )
    if options.append and (options.overwrite or options.overwrite_group):
        raise InvalidArgument(
            f"{option('append', True)} adds to the output and cannot replace it; omit "
            f"{option('overwrite', True)} and {option('overwrite_group', True)}"
        )
    said = {name: getattr(options, name) for name in ("shape", "shards", "axes")}
    taken: dict[str, Any] = {"max_bytes": limit}
    if options.chunks is not None:
        taken["chunks"] = said_sizes(options.chunks, "chunks")
    taken |= {name: integers(size, name) for name, size in said.items() if size is not None}
    taken |= {name: flag(getattr(options, name), name) for name in FLAGS}
    return dataclasses.replace(options, **taken)


class Reader:
    """An open input or output. Every process has its own. Elements are handled as opaque bytes.

    An output has `write(lo, array)`, which writes an array to the elements from index `lo` on.
    """

    spec: ArraySpec
    #: The smallest box that is read as a whole; slabs are multiples of it.
    granule: Shape
    #: Extents of parts of such a box that can be read separately; None if it has none.
    parts: Shape | None = None
    #: Whether any box can be read or written separately, as in .npy and raw files.
    is_flat = False
    #: Whether each box is stored separately, so that it is contiguous (as in `Intermediate`).
    is_cut = False
    #: Temporary copies of a box while a thread reads or writes it. zarr-python holds a chunk
    #: encoded and decoded, and parts of shards; measured: 3.5.
    read_copies, write_copies = 4, 3
    #: The stored bytes of elements beyond the array; None if boxes end with it.
    fill_bytes: bytes | None = None

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Raise if the input has changed since it was opened, if that can be detected."""
        return

    def close(self) -> None:
        """Close the file."""
        return

    def reopen(self) -> None:
        """Open what `close` closed; the caller checks that it is the same file."""
        return


class Output:
    """An array that will be written. Every process makes its own, which checks it.

    One process then creates it, and all open it.

    Parameters
    ----------
    spec : ArraySpec
    options : MoveOptions

    Attributes
    ----------
    spec : ArraySpec
        The array as it will be written.
    shown : Reader, optional
        Describes in which boxes it is written, without a file; None if it is flat.

    Raises
    ------
    Error
        The format cannot hold the array, or does not have an option.
    """

    shown: Any = None

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        self.spec = spec

    def create(self, path: str) -> Late:
        """Create everything except the elements and the returned metadata; reserve the space."""
        raise NotImplementedError

    def open(self, path: str) -> Any:
        """Return the open output that was created."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Format:
    """One format of files.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Extensions of this format.
    recognizes : callable
        Whether an existing path has this format, from its content.
    open_reader : callable
        (path, options) -> Reader.
    output : type
        (ArraySpec, options) -> Output; raises if that is impossible.
    is_directory : bool
        Whether an output is a directory rather than a file.
    """

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[str], bool]
    open_reader: Callable[[str, MoveOptions], Reader]
    output: type[Output]
    is_directory: bool = False


def num_boxes(shape: Shape, box: Shape) -> int:
    """Return the number of boxes, such as chunks, of an array.

    Examples
    --------
    >>> from datamover.files.formats import num_boxes
    >>> num_boxes((10, 4), (3, 4)), num_boxes((), ()), num_boxes((0, 4), (1, 4))
    (4, 1, 0)
    """
    return math.prod(grid_of(shape, box))


def grid_of(shape: Shape, box: Shape) -> Shape:
    """Return how many boxes there are along each dimension."""
    return tuple(map(chunks_in, shape, box))


def boxes_of(shape: Shape, box: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield an array box by box, in C order, as (lo, hi)."""
    for cell in product([cells(0, n, b) for n, b in zip(shape, box, strict=True)]):
        yield tuple(map(begin_of, cell, box)), tuple(map(min, map(end_of, cell, box), shape))


def pieces_of(lo: Shape, shape: Shape, box: Shape) -> Iterator[tuple[Shape, Shape, Shape, Shape]]:
    """Cut a region of an array into its parts in the boxes, such as chunks, that it meets.

    Yields the index of the box, its first element, and the part as (lo, hi).
    """
    hi = tuple(map(operator.add, lo, shape))
    for cell in product(list(map(cells, lo, hi, box))):
        first = tuple(map(begin_of, cell, box))
        end = tuple(map(min, map(end_of, cell, box), hi))
        yield cell, first, tuple(map(max, first, lo)), end


def within(lo: Shape, hi: Shape, first: Shape) -> tuple[slice, ...]:
    """Return the slices of a box in an array that begins at `first`."""
    return tuple(slice(a - f, b - f) for a, b, f in zip(lo, hi, first, strict=True))


def slices_at(lo: Shape, shape: Shape) -> tuple[slice, ...]:
    """Return the slices of a box of a shape that begins at `lo`."""
    return tuple(slice(a, a + n) for a, n in zip(lo, shape, strict=True))


def product(ranges: list[range]) -> Iterator[Shape]:
    """Yield the product like itertools, which would store all numbers of all ranges."""
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in product(ranges[1:]):
            yield (first, *rest)


def check_shape(shape: Shape, dtype: np.dtype, path: str) -> None:
    """Reject shapes in a file's header that no array can have.

    Raises
    ------
    IoFailed
    """
    if any(extent < 0 for extent in shape):
        raise IoFailed(f"{path} has a negative extent in its shape {shape}")
    # NumPy multiplies the extents of empty arrays too.
    if math.prod(max(extent, 1) for extent in shape) * max(dtype.itemsize, 1) >= 2**63:
        raise IoFailed(f"{path} has the shape {shape}, which takes 2**63 bytes or more")


#: Whether errors name options of the command line.
_SPEAKS_OF_OPTIONS = False
#: Options of the command whose name differs from the field of `MoveOptions`.
_OPTION_NAMES = {"output_format": "format"}


@contextlib.contextmanager
def speaking_of_options() -> Iterator[None]:
    """Let errors in a block name the command's options instead of Python's keywords."""
    global _SPEAKS_OF_OPTIONS
    _SPEAKS_OF_OPTIONS = True
    try:
        yield
    finally:
        _SPEAKS_OF_OPTIONS = False


def option(field: str, value: Any = None) -> str:
    """Return a field of `MoveOptions` as the reader of an error would write it.

    Examples
    --------
    >>> from datamover.files.formats import option
    >>> option("max_bytes"), option("overwrite", True)
    ('max_bytes=', 'overwrite=True')
    """
    if _SPEAKS_OF_OPTIONS:
        name = "--" + _OPTION_NAMES.get(field, field).replace("_", "-")
        return name if value is None or value is True else f"{name} {value}"
    return f"{field}={'' if value is None else value}"


#: Options of some formats only: (field of MoveOptions, side, formats).
APPLIES_TO = (
    ("shape", "input", ("raw",)),
    ("dtype", "input", ("raw",)),
    ("order", "input", ("raw",)),
    ("chunks", "output", ("zarr", "hdf5")),
    ("shards", "output", ("zarr",)),
    ("compressor", "output", ("zarr", "hdf5")),
    ("zarr_format", "output", ("zarr",)),
    ("dims", "output", ("zarr", "hdf5")),
    ("output_order", "output", ("npy", "raw")),
    ("member", "input", ("hdf5",)),
    ("output_member", "output", ("hdf5",)),
    ("overwrite_group", "output", ("zarr", "hdf5")),
)


def with_converted(options: MoveOptions, input_format: Format) -> MoveOptions:
    """Use `dtype` as `output_dtype` if the input has its own dtype."""
    if options.dtype is None or input_format.name == "raw":
        return options
    if options.output_dtype not in (None, options.dtype):
        raise InvalidArgument(
            f"the output cannot have two dtypes, {options.dtype} and {options.output_dtype}"
        )
    return dataclasses.replace(options, dtype=None, output_dtype=options.dtype)


def check_options(options: MoveOptions, input_format: Format, output_format: Format) -> None:
    """Reject options that do not apply to the formats of the input and output.

    Raises
    ------
    InvalidArgument
    """
    found = {"input": input_format.name, "output": output_format.name}
    for field, side, formats in APPLIES_TO:
        value = getattr(options, field)
        if value not in (None, False) and found[side] not in formats:
            raise InvalidArgument(
                f"{option(field, value)} is for {' or '.join(formats)} {side}s; "
                f"this {side} is {found[side]}"
            )
    for field in ("order", "output_order"):
        if getattr(options, field) not in (None, "C", "F"):
            raise InvalidArgument(f"{field} is {getattr(options, field)!r}, neither C nor F")


def refuse(fields: tuple[str, ...], options: MoveOptions, words: str) -> None:
    """Raise InvalidArgument with `words` if one of these fields is not the default."""
    for name in fields:
        if getattr(options, name) is not None:
            raise InvalidArgument(f"{option(name)} {words}")


def dtype_said(wanted: Any) -> np.dtype:
    """Return the dtype of an option; raise InvalidArgument if NumPy does not have it."""
    with addresses.failing(f"{wanted!r} is not a NumPy dtype", InvalidArgument):
        return dtype_of(wanted)


def converted(given: np.dtype, wanted: str | np.dtype | None) -> np.dtype:
    """Return the requested dtype, if NumPy converts to it under "same_kind"."""
    if wanted is None:
        return given
    dtype = dtype_said(wanted)
    if dtype != given and dtype.kind in "biufc" and not dtype.isnative:
        native = dtype.newbyteorder("=")
        raise InvalidArgument(
            f"elements are converted to numbers in this machine's byte order only: {native.name}, "
            f"not {dtype.str}"
        )
    numbers = all(one.kind in "biufc" or is_of_ml_dtypes(one) for one in (given, dtype))
    if dtype != given and not (numbers and np.can_cast(given, dtype, "same_kind")):
        raise InvalidArgument(
            f"elements of {given} are not converted to {dtype}, because "
            + (
                'NumPy does not allow it under "same_kind": convert them in a program first'
                if numbers
                else "only numbers are converted"
            )
        )
    return dtype
