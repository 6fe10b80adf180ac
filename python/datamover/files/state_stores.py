# SPDX-License-Identifier: BSD-3-Clause
"""Storage of a program's arrays and values in a Zarr group, an HDF5 file or an .npy file.

Values are attributes of the group or file; in Zarr, NaN and infinities are arrays without
dimensions. Arrays that all processes hold identically are stored as arrays, like the distributed
ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.errors import Error, InvalidArgument, IoError, Unsupported
from datamover.files import (
    direct_zarr,
    formats,
    hdf5,
    hdf5_scales,
    hdf5_types,
    npy,
    state_dimensions,
    zarr_format_2,
    zarr_group,
)
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.names import can_be_in_zarr
from datamover.files.space import is_no_space, no_space
from datamover.files.state_items import State
from datamover.files.write_back import FileSystem

#: Approximate default size of chunks of distributed arrays in Zarr.
CHUNK_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class StoreOptions:
    """Options of a Zarr store: chunks by name, compressor, format; and names of dimensions."""

    chunks: dict[str, Shape]
    compressor: str | None
    zarr_format: int | None
    dimensions: dict[str, state_dimensions.Names]

    def of(self, name: str, spec: ArraySpec | None) -> MoveOptions:
        """Return the options of one array."""
        chunks = self.chunks.get(name)
        if chunks is None and spec is not None:
            chunks = _cubic(spec)
        return MoveOptions(chunks=chunks, compressor=self.compressor, zarr_format=self.zarr_format)


def _cubic(spec: ArraySpec) -> Shape:
    """Return nearly cubic chunks of at most CHUNK_BYTES."""
    chunks = [max(extent, 1) for extent in spec.shape]
    while math.prod(chunks) * spec.dtype.itemsize > CHUNK_BYTES and max(chunks) > 1:
        d = chunks.index(max(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)


class ZarrTarget:
    """A Zarr group for writing. Every process has its own; the first creates it."""

    is_directory = True

    def __init__(self, path: str, state: State, options: StoreOptions):
        state = self._state = _of_json(state)
        self._zarr_format = zarr_format_2.format_at(path, options.zarr_format)
        options = dataclasses.replace(options, zarr_format=self._zarr_format)
        self._functions = formats.named("zarr")
        self.specs: dict[str, ArraySpec] = {}
        self._options: dict[str, MoveOptions] = {}
        self._file_system = FileSystem()
        unknown = sorted(set(options.chunks) - set(state.items))
        if unknown:
            raise InvalidArgument(f"chunks name the array {unknown[0]!r}, which is not saved")
        for name in (*state.items, *state.arrays):
            if not can_be_in_zarr(name, self._zarr_format):
                raise Unsupported(f"{name!r} is not a valid name in a Zarr group")
        names = state_dimensions.named(options.dimensions, state.shapes())
        for name, item in state.items.items():
            spec = ArraySpec(item.shape, item.dtype, dimension_names=names.get(name))
            self._check(name, spec, options.of(name, spec))
        for name, array in state.arrays.items():
            spec = ArraySpec(array.shape, array.dtype, dimension_names=names.get(name))
            self._check(name, spec, options.of(name, None))

    def _check(self, name: str, spec: ArraySpec, options: MoveOptions) -> None:
        try:
            self.specs[name] = self._functions.check_output(spec, options)
        except Error as e:
            raise type(e)(f"{name!r}: {e}") from e
        self._options[name] = options

    def create(self, path: str) -> None:
        """Create the group with everything except the elements of distributed arrays."""
        self._make_group(path, self._state.values)
        for name, spec in self.specs.items():
            *above, _ = name.split("/")
            for end in range(1, len(above) + 1):
                folder = os.path.join(path, *above[:end])
                if not os.path.isdir(folder):
                    os.mkdir(folder)
                    self._make_group(folder, {})
            folder = os.path.join(path, *name.split("/"))
            os.mkdir(folder)
            self._functions.create(folder, spec, self._options[name])
        for name, array in self._state.arrays.items():
            if array.size:
                self.open(path, name).write((0,) * array.ndim, np.asarray(array, order="C"))

    def open(self, path: str, name: str) -> Any:
        """Open an array to be written."""
        self._file_system.open(path)
        folder = os.path.join(path, *name.split("/"))
        return self._functions.open_writer(folder, self.specs[name], self._options[name])

    def sync(self, path: str) -> None:
        """Sync the group to the disk."""
        self._file_system.sync(path)
        self._file_system.close()

    def _make_group(self, path: str, attributes: dict[str, Any]) -> None:
        try:
            zarr_group.make(path, attributes, self._zarr_format)
        except OSError as e:
            if is_no_space(e):
                raise IoError(no_space(path, e)) from e
            raise


def _of_json(state: State) -> State:
    """Convert NaN and infinities, which JSON cannot store, to arrays of one element."""
    arrays = {
        name: np.asarray(value)
        for name, value in state.values.items()
        if isinstance(value, float) and not math.isfinite(value)
    }
    values = {name: value for name, value in state.values.items() if name not in arrays}
    return dataclasses.replace(state, arrays=state.arrays | arrays, values=values)


class Hdf5Target:
    """An HDF5 file for writing, with a contiguous dataset per array."""

    is_directory = False

    def __init__(self, path: str, state: State, options: StoreOptions):
        _refuse_zarr_options(options)
        hdf5.h5py()
        self._state = state
        self._names = state_dimensions.named(options.dimensions, state.shapes())
        self.specs = {n: ArraySpec(item.shape, item.dtype) for n, item in state.items.items()}

    def create(self, path: str) -> None:
        """Create the file with everything except the elements of distributed arrays."""

        def fill(file: Any) -> None:
            for name, value in self._state.values.items():
                try:
                    file.attrs[name] = value
                except (TypeError, ValueError, OSError, RuntimeError, OverflowError) as e:
                    if isinstance(e, OSError) and is_no_space(e):
                        raise
                    raise Unsupported(f"HDF5 cannot hold the value {name!r}: {e}") from e
            for name, array in self._state.arrays.items():
                try:
                    file.create_dataset(name, data=array)
                except TypeError as e:
                    raise Unsupported(f"HDF5 cannot hold {array.dtype} of {name!r}: {e}") from e
            for name, spec in self.specs.items():
                hdf5.create_contiguous(file, name, spec)
            hdf5_scales.attach(file, self._names)

        hdf5.create_file(path, fill, sum(spec.nbytes for spec in self.specs.values()))

    def open(self, path: str, name: str) -> Any:
        """Open an array to be written."""
        return _by_calls(hdf5.open_writer(path, name, self.specs[name]))

    def sync(self, path: str) -> None:
        """Bring the file to the disk."""
        _sync_file(path)


class NpyTarget:
    """An .npy file of one array."""

    is_directory = False

    def __init__(self, path: str, state: State, options: StoreOptions):
        _refuse_zarr_options(options)
        if options.dimensions:
            raise InvalidArgument("an .npy file has no names of dimensions; use Zarr or HDF5")
        if len(state.items) != 1 or state.arrays or state.values:
            raise InvalidArgument("an .npy file holds one distributed array and nothing else")
        (self._name, item), *_ = state.items.items()
        spec = ArraySpec(item.shape, item.dtype)
        self.specs = {self._name: npy.check_output(spec, MoveOptions())}

    def create(self, path: str) -> None:
        """Write the header and reserve the space."""
        npy.create(path, self.specs[self._name], MoveOptions())

    def open(self, path: str, name: str) -> Any:
        """Open the file for writing."""
        return _by_calls(npy.open_writer(path, self.specs[name], MoveOptions()))

    def sync(self, path: str) -> None:
        """Bring the file to the disk."""
        _sync_file(path)


def _by_calls(file: Any) -> Any:
    """Let a flat file be written by calls: mapped pages of several nodes would overwrite others."""
    file.maps_short_runs = False
    return file


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refuse_zarr_options(options: StoreOptions) -> None:
    if options.chunks or options.compressor is not None or options.zarr_format is not None:
        raise InvalidArgument("chunks, compressor and zarr_format apply to Zarr only")


def target_of(path: str) -> Callable[[str, State, StoreOptions], Any]:
    """Return the target for an output by its extension.

    Raises
    ------
    InvalidArgument
        The extension is unknown.
    """
    lower = path.lower()
    if lower.endswith(".zarr"):
        return ZarrTarget
    if lower.endswith((".h5", ".hdf5", ".he5")):
        return Hdf5Target
    if lower.endswith(".npy"):
        return NpyTarget
    raise InvalidArgument(f"the format of {path} is unknown; use the extension .zarr, .h5 or .npy")


class Origin:
    """A file or store of any format for reading. Every process has its own.

    Attributes
    ----------
    path : str
    names : tuple of str
        Names of all arrays; a file of one array has the name None, which stands for any.
    """

    _fd = -1  # on the class: there may be nothing to open

    def __init__(self, path: str):
        self.path = path
        # Kept open: otherwise a new file could get the inode number of a removed one.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if npy.recognizes(path):
            self.names, self._open = (None,), lambda name: npy.open_reader(path, MoveOptions())
        elif hdf5.recognizes(path):
            with hdf5.open_file(path) as file:
                self.names = tuple(hdf5.datasets(file))
            self._open = lambda name: hdf5.open_reader(path, name)
        elif formats.named("zarr").recognizes(path):
            self.names = (None,) if zarr_group.is_array(path) else tuple(zarr_group.arrays(path))
            self._open = lambda name: _open_zarr(path, name)
        else:
            raise IoError(f"{path} is not a Zarr store, HDF5 file or .npy file")

    def open(self, name: str) -> Any:
        """Open an array for reading.

        Raises
        ------
        IoError
            The array does not exist.
        """
        if self.names == (None,):
            return self._open(None)
        if name not in self.names:
            there = ", ".join(self.names) or "none"
            raise IoError(f"{self.path} has no array {name!r}; there are {there}")
        return self._open(name)

    def values(self) -> dict[str, Any]:
        """Read attributes of the group or file, and arrays without dimensions."""
        if self.names == (None,):
            return {}
        if os.path.isdir(self.path):
            return {**zarr_group.attributes(self.path), **self._single_elements()}
        with hdf5.open_file(self.path) as file:
            found = dict(hdf5.values_of(file.attrs))
            for name, dataset in hdf5.datasets(file).items():
                if dataset.shape == ():
                    with contextlib.suppress(Unsupported):  # it may not be needed
                        found[name] = _single_element(self.path, name, dataset)
        return found

    def _single_elements(self) -> dict[str, Any]:
        found = {}
        for name in self.names:
            metadata = zarr_group.metadata(os.path.join(self.path, *name.split("/")))
            if metadata.get("shape") == []:
                try:
                    found[name] = whole(self.open(name))[()]
                except Unsupported:  # it may not be needed
                    continue
        return found

    def check_still_there(self) -> None:
        """Raise if the file was replaced while it was read: elements may be of both versions.

        Raises
        ------
        IoError
        """
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            same = False
        if not same:
            raise IoError(f"{self.path} was replaced or removed while it was read")

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _single_element(path: str, name: str, dataset: Any) -> Any:
    """Read an HDF5 dataset without dimensions."""
    dtype = hdf5_types.dtype_of(dataset.id.get_type(), f"{path}:/{name}")
    if hdf5.h5py().check_string_dtype(dtype):
        return dataset.asstr(errors="backslashreplace")[()]
    is_opaque = hdf5_types.is_opaque(dtype)  # h5py does not read all of these
    return whole(hdf5.open_reader(path, name))[()] if is_opaque else dataset[()]


def _open_zarr(path: str, name: str | None) -> Any:
    folder = path if name is None else os.path.join(path, *name.split("/"))
    # A plain array needs nothing else from zarr-python: each step opens it again.
    return direct_zarr.opened(folder) or formats.named("zarr").open_reader(folder, MoveOptions())


def whole(reader: Any) -> np.ndarray:
    """Read a whole array."""
    out = np.empty(reader.spec.shape, reader.spec.dtype, order=reader.spec.order)
    if out.size:
        reader.read((0,) * out.ndim, out)
    return out
