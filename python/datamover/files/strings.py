# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of strings of any length between HDF5 and Zarr, as part of a whole file or group.

Movers cannot move them because they have no fixed size: one process reads and writes them with h5py
and zarr-python, some rows at a time.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files import (
    addresses,
    formats,
    hdf5,
    hdf5_format,
    hdf5_traits,
    native_attributes,
    string_chunks,
    string_sizes,
    zarr_strings,
)
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_traits import traits_of

#: So many strings are in memory at a time, and in a chunk where the dataset has none.
MOST_AT_A_TIME = 1 << 16
#: And strings of about so many bytes.
MOST_BYTES = 1 << 23
#: Python keeps so many bytes of a string besides its own.
OF_STRING_BYTES = 48
#: Copied strings are in memory so often: encoded, decoded, as Python's; measured 5.5 and 3.
COPIES_IN_ZARR, COPIES_TO_HDF5 = 6, 4
#: And so often where not all of a chunk become Python's: encoded twice, decoded, encoded anew.
COPIES_OF_BYTES = 4
#: So many chunks at most are copied at once, each of which waits for a disk or a server.
MOST_AT_ONCE = 8


def is_of(dataset: Any) -> bool:
    """Tell whether a dataset's elements are strings of any length."""
    kind = hdf5.h5py().check_string_dtype(dataset.dtype)
    return kind is not None and kind.length is None and dataset.shape is not None


def copy_to_zarr(
    file: Any, name: str, where: str, path: str, options: MoveOptions
) -> dict[str, bytes]:
    """Write a dataset as a Zarr array, with its attributes and names of dimensions.

    `where` is what errors call the dataset; `options.check` has what was written read again.

    Returns
    -------
    dict
        At an address, the metadata, by names of objects: they are to be written last.

    Raises
    ------
    InvalidArgument
        A string is no UTF-8.
    IoError
        Other strings are read again than were written.
    """
    dataset = file[name]
    with _no_warnings_of_strings():
        made = _create(file, name, where, path, options)
        _write_all(made, lambda box: _strings(dataset, box, where), where, path, options)
    return _finished(made, path)


def _write_all(
    made: Any, read: Callable[[Any], np.ndarray], where: str, path: str, options: MoveOptions
) -> None:
    """Write the strings that `read` gives of boxes to a Zarr array, a few chunks at a time."""
    boxes = _ChunkBoxes(made.shape, made.shards or made.chunks, _most_bytes(options))
    for box in boxes:
        strings = read(box)
        boxes.took(_nbytes(strings))
        _write_in_zarr(made, box, strings, where, path, options)


def copy_to_hdf5(
    path: str, file: Any, name: str, options: MoveOptions, at_once: int = 1
) -> list[str | None]:
    """Write a Zarr array to an open file, with its attributes; return the names of dimensions.

    `at_once` chunks are read at a time.
    """
    array = zarr_strings.open_strings(path)
    traits = traits_of(array)
    attributes = traits.others["attributes"]
    properties = hdf5.h5py().h5p.create(hdf5.h5py().h5p.DATASET_CREATE)
    hdf5_traits.give_room(properties, hdf5_traits.sizes_of(attributes))
    spec = ArraySpec(array.shape, hdf5.h5py().string_dtype())
    made = hdf5.create_with(file, name, spec, properties)
    for box, strings in _pieces_of_zarr(array, path, options, at_once):
        hdf5.check_growth(file, _nbytes(strings))
        made[box] = strings
        checks = options.check is not None
        if checks and not np.array_equal(np.asarray(made.asstr()[box], object), strings):
            raise _others_read_again(path)
    hdf5_traits.write_of_json(path, made, attributes)
    return list(traits.dimension_names or ())


def _pieces_of_zarr(
    array: Any, path: str, options: MoveOptions, at_once: int
) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Go through the strings of an open array, some at a time: indices, and strings."""
    if string_chunks.are_plain(array):
        chunks = string_chunks.StringChunks(array, path, _most_chunk_bytes(options))

        def read(cell: Shape) -> bytes | None:
            with _reading(path, chunks.name(cell)):
                encoded = chunks.read(cell)
                return None if encoded is None else chunks.decode(encoded)

        for cell, strings in string_chunks.several(at_once, read, chunks.cells()):
            pieces = chunks.pieces(cell, strings)
            while True:
                with _reading(path, chunks.name(cell)):
                    piece = next(pieces, None)
                if piece is None:
                    break
                yield piece
        return
    boxes = _ChunkBoxes(array.shape, array.chunks)
    for box in boxes:
        strings = _strings_of_zarr(array, box, path)
        boxes.took(_nbytes(strings))
        yield box, strings


def are_rows_copied(dataset: Any) -> bool:
    """Tell whether `copy_rows` knows the elements: strings, and lists of numbers."""
    low, kind = hdf5.h5py(), dataset.id.get_type()
    if dataset.shape is None or kind.get_class() == low.h5t.STRING:
        return dataset.shape is not None
    is_list = kind.get_class() == low.h5t.VLEN
    return (
        is_list
        and kind.get_super().get_class() in (low.h5t.INTEGER, low.h5t.FLOAT)
        and not native_attributes.are_lists_misread(kind)
    )


def copy_rows(dataset: Any, made: Any) -> None:
    """Copy strings or lists to a dataset of the same type and shape in a file that is open.

    HDF5's own copy crashes where the disk is full.
    """
    low, dtype = hdf5.h5py(), dataset.dtype
    memory = low.h5t.py_create(dtype)  # h5py's own ways take a list of lists for an array
    boxes = _RowBoxes(dataset)
    for box in boxes:
        values = np.zeros([part.stop - part.start for part in box], dtype)
        spaces = low.h5s.create(low.h5s.SCALAR), dataset.id.get_space()
        if box:
            spaces[1].select_hyperslab(tuple(part.start for part in box), values.shape)
            spaces = low.h5s.create_simple(values.shape), spaces[1]
        dataset.id.read(*spaces, values, memory)
        boxes.took(_nbytes(values))
        hdf5.check_growth(made.file, _nbytes(values))
        made.id.write(*spaces, values, memory)


def _nbytes(values: Any) -> int:
    """Give about the bytes that strings or lists take in a file of HDF5."""
    return int(_sizes(values).sum())


def _sizes(values: Any) -> np.ndarray:
    """Give about the bytes of each string or list."""
    values = np.asarray(values, object)
    sizes = np.fromiter(
        (OF_STRING_BYTES + _size(value) for value in np.ravel(values)), np.int64, values.size
    )
    return sizes.reshape(values.shape)


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, tuple):  # a record
        return sum(map(_size, value))
    return len(value) if isinstance(value, bytes) else np.asarray(value).nbytes


def check_copy(where: str, dataset: Any, made: Any) -> None:
    """Compare a dataset of strings or lists with a copy of it.

    Raises
    ------
    IoError
        They differ.
    Unsupported
        h5py does not read such elements, which HDF5 has copied by itself.
    """
    boxes = _RowBoxes(dataset)
    for box in boxes:
        try:
            values, copied = dataset[box], made[box]
        except TypeError as e:
            words = f"{where} has elements that h5py does not read: they cannot be checked"
            raise Unsupported(f"{words}; leave out {formats.option('check')} ({e})") from e
        boxes.took(_nbytes(values))
        pairs = zip(np.ravel(values), np.ravel(copied), strict=True)
        if not all(np.array_equal(old, new) for old, new in pairs):
            raise IoError(f"{where}: others are read again than were written")


def copy_in_zarr(
    path: str, output: str, options: MoveOptions, at_once: int = 1
) -> dict[str, bytes]:
    """Write a Zarr array as another one, so many chunks at once.

    Returns what `copy_to_zarr` does.
    """
    array = zarr_strings.open_strings(path)
    traits = traits_of(array)
    with _no_warnings_of_strings():
        made = zarr_strings.create_strings(
            output,
            array.shape,
            traits.chunks,
            traits.others["attributes"],
            traits.dimension_names,
            options.zarr_format,
            zarr_strings.kept_of_strings(traits, options),
        )
        if _are_chunks_the_same(array, made):
            _copy_chunks(array, made, path, output, options, at_once)
        else:
            _write_all(made, lambda box: _strings_of_zarr(array, box, path), path, output, options)
    return _finished(made, output)


def _are_chunks_the_same(array: Any, made: Any) -> bool:
    """Tell whether chunks of both hold the same strings, and stand for themselves."""
    are_plain = string_chunks.are_plain(array) and string_chunks.are_plain(made)
    return are_plain and array.chunks == made.chunks


def _copy_chunks(
    array: Any, made: Any, path: str, output: str, options: MoveOptions, at_once: int
) -> None:
    """Copy chunks as they are when they are decoded, so many at once."""
    most_bytes = _most_chunk_bytes(options)
    source = string_chunks.StringChunks(array, path, most_bytes)
    target = string_chunks.StringChunks(made, output, most_bytes)
    is_same = source.is_encoded_as(target)
    may_leave_out = array.fill_value == made.fill_value and made.metadata.zarr_format == 3

    def copy(cell: Shape) -> None:
        with _reading(path, source.name(cell)):
            encoded = source.read(cell)
            strings = None if encoded is None else source.decode(encoded)
            if strings is not None:
                collections.deque(source.pieces(cell, strings), 0)  # all are UTF-8
        if strings is None:
            if not may_leave_out:
                box = source.box(cell)
                found = _strings_of_zarr(array, box, path)
                _write_in_zarr(made, box, found, path, output, options)
            return
        if not is_same:
            encoded = None  # gives its memory back
            encoded = target.encode(strings)
        del strings
        with _writing(made, output):
            target.write(cell, encoded)
        if options.check and target.read(cell) != encoded:
            raise _others_read_again(path)

    collections.deque(string_chunks.several(at_once, copy, source.cells()), 0)


def _most_chunk_bytes(options: MoveOptions) -> int:
    return options.max_bytes // COPIES_OF_BYTES


def least_bytes(path: str, copies: int) -> int:
    """Give the memory that copying a Zarr array takes: so many copies of its largest chunk.

    Chunks of which not all strings become Python's at once take less.
    """
    array = zarr_strings.open_strings(path)
    unit = array.shards or array.chunks
    elems = math.prod(map(min, unit, array.shape))
    found = string_sizes.sizes_of(path, array)
    if string_chunks.are_plain(array):
        filled_bytes = OF_STRING_BYTES * elems if found.are_missing else 0
        return max(COPIES_OF_BYTES * found.largest_bytes, filled_bytes)
    texts_bytes = found.largest_bytes - 4 * elems  # the length of each stands before it
    return copies * (OF_STRING_BYTES * elems + max(texts_bytes, 0))


def chunks_in_zarr(path: str, zarr_format: int) -> Shape:
    """Give the extents of a copy's chunks, or shards; errors as of `zarr_strings.open_strings`."""
    traits = traits_of(zarr_strings.open_strings(path))
    return traits.chunks if zarr_format == 2 else traits.shards or traits.chunks


def _finished(made: Any, path: str) -> dict[str, bytes]:
    """Bring a Zarr array to the disk; of one at an address, give the metadata."""
    if addresses.is_address(path):
        return made.store.held()
    sync_file_system(path)
    return {}


@contextlib.contextmanager
def _no_warnings_of_strings() -> Iterator[None]:
    """Leave out zarr-python's of a type that is no part of Zarr v3 yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _write_in_zarr(
    made: Any,
    box: tuple[slice, ...],
    strings: np.ndarray,
    where: str,
    path: str,
    options: MoveOptions,
) -> None:
    with _writing(made, path):
        made[box] = strings
    if options.check and not np.array_equal(np.asarray(made[box], object), strings):
        raise _others_read_again(where)


@contextlib.contextmanager
def _writing(made: Any, path: str) -> Iterator[None]:
    """Have nothing written later where something fails, and say what fails at an address."""
    try:
        yield
    except BaseException as e:
        if not addresses.is_address(path):
            raise
        first = made.store.abandon(e)  # what it writes later would stay
        if isinstance(e, Exception) and isinstance(first, Exception):
            raise IoError(f"{path} cannot be written: {addresses.words_of(first)}") from first
        raise


@contextlib.contextmanager
def _reading(path: str, key: str) -> Iterator[None]:
    """Say what cannot be read."""
    try:
        yield
    except Exception as e:  # whatever a codec says of bytes that it cannot decode
        raise IoError(f"{path} cannot be read in chunk {key}: {addresses.words_of(e)}") from e


def _others_read_again(where: str) -> IoError:
    return IoError(f"{where}: other strings are read again than were written")


def _strings_of_zarr(array: Any, box: tuple[slice, ...], path: str) -> np.ndarray:
    try:
        return np.asarray(array[box], object)
    except Exception as e:  # whatever a codec says of bytes that it cannot decode
        raise IoError(f"{path} cannot be read: {addresses.words_of(e)}") from e


def _create(file: Any, name: str, where: str, path: str, options: MoveOptions) -> Any:
    dataset = file[name]
    attributes = hdf5_format.json_attributes(dataset, hdf5_format.is_netcdf(file))
    native_attributes.tell_not_in_json(where, hdf5_format.left_out(dataset, attributes))
    return zarr_strings.create_strings(
        path,
        dataset.shape,
        chunks_by_bytes(dataset, options),
        attributes,
        hdf5_format.dimension_names(dataset, name),
        options.zarr_format,
        zarr_strings.kept_of_strings(None, options),
    )


def _most_bytes(options: MoveOptions) -> int:
    """Give the bytes of strings that are taken at a time on their way to Zarr."""
    return min(MOST_BYTES, options.max_bytes // COPIES_IN_ZARR)


def chunks_by_bytes(dataset: Any, options: MoveOptions) -> Shape:
    """Give the extents of chunks that have no more bytes than are taken at a time, if rows allow.

    They are the dataset's, or whole rows, of fewer rows where these are long.
    """
    chunks, most_bytes = dataset.chunks or _chunks(dataset.shape), _most_bytes(options)
    if not chunks or 0 in dataset.shape or dataset.file.id.get_filesize() <= most_bytes:
        return chunks
    boxes, longest_bytes = _RowBoxes(dataset, most_bytes), 1
    for box in boxes:
        sizes = _sizes(dataset[box])
        boxes.took(int(sizes.sum()))
        longest_bytes = max(longest_bytes, _mean_row_bytes(sizes, chunks))
    return (max(1, min(chunks[0], most_bytes // longest_bytes)), *chunks[1:])


def _mean_row_bytes(sizes: np.ndarray, chunks: Shape) -> int:
    """Give the bytes of a row of that chunk, of all side by side, which has the most of them."""
    for d in range(1, sizes.ndim):
        sizes = np.add.reduceat(sizes, range(0, sizes.shape[d], chunks[d]), axis=d)
    return int(sizes.sum(axis=0).max()) // len(sizes)


def _chunks(shape: Shape) -> Shape:
    """Give the extents of chunks of whole rows."""
    if not shape:
        return ()
    rows = MOST_AT_A_TIME // max(math.prod(shape[1:]), 1)
    return tuple(max(n, 1) for n in (min(shape[0], rows), *shape[1:]))


class _RowBoxes:
    """Boxes of whole rows, together a dataset of HDF5: each of as many as those before allow.

    Who takes one says what it took. What the next will be, nobody knows: they begin with few rows,
    where the file has more bytes than may be taken at a time.
    """

    def __init__(self, dataset: Any, most_bytes: int | None = None):
        self._shape: Shape = dataset.shape
        self._most_bytes = most_bytes or MOST_BYTES
        self._most_rows = (dataset.chunks or _chunks(self._shape) or (1,))[0]
        is_small = dataset.file.id.get_filesize() <= self._most_bytes
        self._rows = self._most_rows if is_small else 1

    def __iter__(self) -> Iterator[tuple[slice, ...]]:
        if 0 in self._shape or not self._shape:
            yield from () if 0 in self._shape else ((),)
            return
        lo, rest = 0, tuple(slice(0, n) for n in self._shape[1:])
        while lo < self._shape[0]:
            # Not beyond a chunk, which would be written twice.
            hi = min(lo + self._rows, (lo // self._most_rows + 1) * self._most_rows, self._shape[0])
            self._taken_rows = hi - lo
            yield (slice(lo, hi), *rest)
            lo = hi

    def took(self, nbytes: int) -> None:
        """Note the bytes of the last box."""
        if self._shape:
            fitting = self._most_bytes * self._taken_rows // max(nbytes, 1)
            self._rows = max(1, min(fitting, 4 * self._taken_rows, self._most_rows))


class _ChunkBoxes:
    """Boxes of whole chunks, together an array of Zarr: each of as many as those before allow.

    Who takes one says what it took, as of `_RowBoxes`. The least is a chunk, which is decoded and
    encoded as a whole; more lie side by side along the last dimension.
    """

    def __init__(self, shape: Shape, chunks: Shape, most_bytes: int | None = None):
        self._shape, self._chunks = shape, chunks
        self._most_bytes = most_bytes or MOST_BYTES
        self._at_once = 1

    def __iter__(self) -> Iterator[tuple[slice, ...]]:
        if 0 in self._shape or not self._shape:
            yield from () if 0 in self._shape else ((),)
            return
        *above, count = (-(-n // c) for n, c in zip(self._shape, self._chunks, strict=True))
        for cell in itertools.product(*map(range, above)):
            last = 0
            while last < count:
                self._taken = min(self._at_once, count - last)
                yield self._box((*cell, last))
                last += self._taken

    def _box(self, cell: Shape) -> tuple[slice, ...]:
        counts = (1,) * (len(cell) - 1) + (self._taken,)
        return tuple(
            slice(k * c, min((k + many) * c, n))
            for k, many, c, n in zip(cell, counts, self._chunks, self._shape, strict=True)
        )

    def took(self, nbytes: int) -> None:
        """Note the bytes of the last box."""
        if self._shape:
            fitting = self._most_bytes * self._taken // max(nbytes, 1)
            self._at_once = max(1, min(fitting, 4 * self._taken))


def _strings(dataset: Any, box: tuple[slice, ...], where: str) -> np.ndarray:
    try:
        return np.asarray(dataset.asstr("utf-8")[box], object)
    except UnicodeDecodeError as e:
        raise InvalidArgument(f"{where} has a string that is no UTF-8: {e}") from e
