# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of several files: their descriptions, which are compared, and the arrays as one."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files import addresses, hdf5, hdf5_format, hdf5_types, zarr_group
from datamover.files.chunk_boxes import chunk_shape
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape
from datamover.files.hdf5_types import h5py
from datamover.files.json_values import FILL_VALUE, numbers
from datamover.files.zarr_array import permitting, zarr_python
from datamover.files.zarr_traits import attributes_of, missing_from_zarr, traits_of

#: Files kept open; each takes two descriptors.
MOST_OPEN = 40
#: Maximum size of a box that is a whole file because its chunks do not fit its length.
WHOLE_FILE_BYTES = 1 << 24
#: Smaller boxes, as those of files of a single record, are read together up to this size, and this
#: part of the memory limit.
SMALL_BYTES, SMALL_PARTS = 1 << 18, 64

#: Attributes that determine what elements mean, besides units of time.
MEANING = (
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units",
    "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip
#: By which coordinates name their bounds.
OF_BOUNDS = ("bounds", "climatology")
OF_MEANING = frozenset((*MEANING, "calendar", *OF_BOUNDS))
#: Bytes of a piece in which elements are compared.
PIECE_BYTES = 1 << 24


@dataclasses.dataclass(frozen=True)
class Described:
    """The description of an array in one file or group.

    Attributes
    ----------
    array
        HDF5's identifier of the dataset, or the Zarr array, while the file is open.
    shape : tuple of int
    dtype
        The dtype of NumPy; that of objects for strings of any length.
    dims : tuple
        The names of dimensions; None for those without.
    attributes : dict
        Those in `OF_MEANING`.
    kind : bytes, optional
        The HDF5 type of elements that NumPy does not have, or has without their names (enum).
    open : callable, optional
        That of its `Part`, if its elements are read without HDF5.
    """

    array: Any
    shape: tuple[int, ...]
    dtype: Any
    dims: tuple[str | None, ...]
    attributes: dict[str, Any]
    kind: bytes | None = None
    open: Any = None


@contextlib.contextmanager
def zarr_contents(path: str) -> Iterator[dict[str, Described]]:
    """Open a Zarr group; yield the descriptions of its arrays, by name.

    Raises
    ------
    IoFailed
        It cannot be read, also while it is open.
    """
    with addresses.failing(f"{path} cannot be read"), warnings.catch_warnings(action="ignore"):
        group = zarr_python().open_group(path, mode="r", use_consolidated=False)
        names = [*zarr_group.arrays(path)]
        arrays = permitting(lambda: {name: group[name] for name in names}, path)
        yield {name: _of_array(array) for name, array in arrays.items()}


def named(path: str, name: str) -> str:
    """Return the full name of an array of a file or group."""
    return f"{path}/{name}" if os.path.isdir(path) else f"{path}:/{name}"


def inexact(path: str, name: str, value: Any, base: str) -> str:
    """Return the message for a value of an array that has none in the units of another file."""
    return f"{named(path, name)}: {value} has no exact value in the units of {base}"


def _of_array(array: Any) -> Described:
    traits = traits_of(array)
    said = {word: v for word, v in attributes_of(traits).items() if word in OF_MEANING}
    if FILL_VALUE in said:
        said[FILL_VALUE] = np.asarray(missing_from_zarr(said[FILL_VALUE], array.dtype)).item()
    dtype = np.dtype(object) if array.dtype.kind in "OT" else array.dtype
    dims = traits.dimension_names or (None,) * array.ndim
    kept = {word: _as_in_files(word, value) for word, value in said.items()}
    return Described(array, tuple(array.shape), dtype, tuple(dims), kept)


def _as_in_files(word: str, value: Any) -> Any:
    """Return a Zarr attribute as the description of a NetCDF file has it."""
    found = numbers(value, word)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def described(where: str, name: str, dataset: Any, as_stored: bool) -> Described:
    """Describe an open h5py dataset."""
    kind = dataset.id.get_type()
    dtype = hdf5_types.dtype_of(kind, where, as_stored)
    dims = hdf5_format.dimension_names(dataset, name) or (None,) * dataset.ndim
    said = hdf5_format.json_attributes(dataset, of_netcdf=True, only=OF_MEANING)
    is_own = hdf5_types.is_opaque(dtype) or "enum" in (dtype.metadata or ())
    own = bytes(kind.encode()) if is_own else None
    return Described(dataset.id, tuple(dataset.shape), dtype, tuple(dims), said, own)


def digest_of(one: Described, reverse: bool = False) -> bytes:
    """Return a digest of all elements of an array, while its file is open; or of their reverse."""
    if not hdf5_types.is_opaque(one.dtype) and (not one.shape or one.dtype.hasobject):
        found = np.ravel(elements(one)).tolist()
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # lists in full
            return repr([w.decode() if isinstance(w, bytes) else w for w in found]).encode()
    if reverse:
        return hashlib.sha256(np.flip(elements(one)).tobytes()).digest()
    digest = hashlib.sha256()
    count, *row = one.shape or (1,)
    rows = max(1, PIECE_BYTES // max(1, math.prod(row) * one.dtype.itemsize))
    for k in range(0, count, rows):
        digest.update(elements(one, k, k + rows).tobytes())
    return digest.digest()


def elements(one: Described, first: int = 0, end: int | None = None) -> np.ndarray:
    """Read rows of an array, or all; opaque elements, which are in HDF5, as they are stored."""
    array, rows = one.array, slice(first, end) if one.shape else ()
    if not isinstance(array, h5py.h5d.DatasetID):
        return np.asarray(array[rows])
    if one.dtype.hasobject:
        return np.asarray(h5py.Dataset(array)[rows])
    count = [len(range(*rows.indices(one.shape[0])))] if rows else []
    found = np.empty((*count, *one.shape[1:]), one.dtype)
    hdf5.read_box(array, (first, *(0 for _ in one.shape[1:])) if one.shape else (), found)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The part of a joined array in one file.

    Attributes
    ----------
    path : str
    length : int
        Along the joined dimension.
    open : callable
        (MoveOptions) -> a `Reader`.
    convert : callable, optional
        Converts elements to those of the joined array; raises ValueError if that is not exact.
    begin : int
        Where the part begins in its file; it ends with it.
    """

    path: str
    length: int
    open: Callable[[MoveOptions], Any]
    convert: Callable[[np.ndarray], np.ndarray] | None = None
    begin: int = 0


def with_length(shape: tuple[Any, ...], axis: int, length: int) -> tuple[Any, ...]:
    """Return a shape, or other values for each dimension, with another one along an axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])


class JoinedArray(Reader):
    """An array of several files, one after the other along a dimension; a `Reader`.

    Files are opened when they are read, and few stay open. Several threads may read.

    Parameters
    ----------
    name : str
        Of the array.
    parts : sequence of Part
    axis : int
        The joined dimension.
    spec : ArraySpec
        That of the output, except for the length along the joined dimension.
    options : MoveOptions
        By which the parts are opened.
    """

    def __init__(
        self, name: str, parts: Sequence[Part], axis: int, spec: ArraySpec, options: MoveOptions
    ):
        self._name, self._parts, self._axis, self._first = name, parts, axis, spec
        ends = np.cumsum([part.length for part in parts]).tolist()
        self._begins = [0, *ends[:-1]]
        self.spec = dataclasses.replace(spec, shape=with_length(spec.shape, axis, ends[-1]))
        wanted = functools.partial(with_length, spec.shape, axis)
        #: Opens a part; those that were not used for the longest time are closed.
        self._opened = functools.lru_cache(MOST_OPEN)(
            lambda k: _Held(parts[k], options, wanted(parts[k].begin + parts[k].length), spec.dtype)
        )
        self.granule: Shape = self._boxes(self._opened(len(parts) - 1).reader, options.max_bytes)

    def _boxes(self, reader: Any, max_bytes: int) -> Shape:
        """Return the boxes that are read as a whole: chunks, or files if chunks end within them."""
        has_chunks = not reader.is_flat
        chunks = reader.granule if has_chunks else chunk_shape(self._first, MoveOptions())
        found = list(map(int, chunks))  # the largest ones, if they have several extents
        lengths = Counter(part.length for part in self._parts)
        usual = lengths.most_common(1)[0][0]
        along = min(found[self._axis], max(lengths))
        if any(length % along for length in lengths):
            found[self._axis] = usual
            if math.prod(found) * self.spec.dtype.itemsize <= WHOLE_FILE_BYTES:
                along = usual
        found[self._axis] = along
        most_bytes = min(SMALL_BYTES, max_bytes // SMALL_PARTS)
        several = most_bytes // max(1, math.prod(found) * self.spec.dtype.itemsize)
        found[self._axis] = along * max(1, min(several, self.spec.shape[self._axis] // along))
        return tuple(found)

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        begin, end = lo[self._axis], lo[self._axis] + out.shape[self._axis]
        at = begin
        while at < end:
            k = bisect.bisect_right(self._begins, at) - 1
            part, first = self._parts[k], self._begins[k]
            stop = min(end, first + part.length)
            here = [slice(None)] * out.ndim
            here[self._axis] = slice(at - begin, stop - begin)
            there = list(lo)
            there[self._axis] = at - first + part.begin
            self._read_part(k, tuple(there), out[tuple(here)])
            at = stop

    def _read_part(self, k: int, lo: Shape, out: np.ndarray) -> None:
        part = self._parts[k]
        held = self._opened(k)
        try:
            held.reader.read(lo, out)
        finally:
            del held  # the traceback of an error, which a program may keep, would keep it open
        if part.convert is not None:
            elements = out.view(self.spec.dtype)
            try:
                elements[...] = part.convert(elements)
            except ValueError as e:
                words = inexact(part.path, self._name, e, self._parts[0].path)
                raise IoFailed(words) from None

    def close(self) -> None:
        """Close all files."""
        self._opened.cache_clear()


class _Held:
    """An open reader of a part, which is closed when neither the cache nor a thread holds it."""

    def __init__(self, part: Part, options: MoveOptions, shape: Shape, dtype: np.dtype):
        self.reader = part.open(options)
        spec = self.reader.spec
        if (spec.shape, spec.dtype) != (shape, dtype):
            self.reader.close()
            raise IoFailed(f"{part.path} has changed since the move began")

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # it may not have been opened
            self.reader.close()
