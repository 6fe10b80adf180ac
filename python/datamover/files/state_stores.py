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
from typing import Any

import numpy as np

from datamover.errors import Error, InvalidArgument, IoFailed, Mismatch, Unsupported
from datamover.files import (
    addresses,
    direct_zarr,
    format_choice,
    formats,
    hdf5,
    hdf5_attributes,
    hdf5_format,
    hdf5_types,
    npy,
    unfinished,
    zarr_array,
    zarr_group,
    zarr_output,
)
from datamover.files.addresses import AddressBytes
from datamover.files.chunk_boxes import nearly_cubic
from datamover.files.chunk_grid import Sizes
from datamover.files.formats import ArraySpec, Late, MoveOptions, Shape
from datamover.files.hdf5_types import h5py
from datamover.files.names import (
    HDF5_SUFFIXES,
    Names,
    can_be_in_zarr,
    checked_names,
    own_names,
    place_of,
)
from datamover.files.staged_moves import native_dtype
from datamover.files.state_items import State

#: Approximate default size of chunks of distributed arrays in Zarr.
CHUNK_BYTES = 4 << 20


class Target:
    """A file or group for writing. Every process has its own; the first creates it.

    Parameters
    ----------
    path : str
        The extension selects the format.
    state : State
    options : MoveOptions
        Compressor and format for Zarr.
    chunks, dimensions : dict
        Extents of chunks, and names of dimensions, by name.

    Raises
    ------
    InvalidArgument
        The extension is unknown, or not written at addresses; or options do not apply.
    Unsupported
        The format cannot hold an array, or does not have its name.
    """

    def __init__(
        self,
        path: str,
        state: State,
        options: MoveOptions,
        chunks: dict[str, Sizes],
        dimensions: dict[str, Names],
    ):
        self._format = _format_of(path, options, chunks)
        self.is_directory = self._format == "zarr"
        if self.is_directory:
            options = zarr_output.settled(path, options)
            _check_for_zarr(state, options.zarr_format or 3)
            state = _of_json(state)
        elif self._format == "npy":
            _check_for_npy(state, dimensions)
        self._state, self._zarr_format = state, options.zarr_format
        names = _named_dimensions(dimensions, state.specs())
        self._outputs: dict[str, formats.Output] = {}
        for name, spec in state.specs().items():
            spec = dataclasses.replace(spec, dimension_names=names.get(name))
            box = chunks.get(name)
            if box is None and self.is_directory and name in state.items:
                box = nearly_cubic(spec, CHUNK_BYTES)
            said = dataclasses.replace(options, chunks=box, output_member=name)
            try:
                self._outputs[name] = format_choice.named(self._format).output(spec, said)
            except Error as e:
                raise type(e)(f"{name!r}: {e}") from e

    def create(self, path: str) -> Late:
        """Create everything except the elements of distributed arrays; see `formats.Output`."""
        late: Late = {}
        if self._format == "hdf5":
            hdf5_format.create_file(path, self._outputs, begin=self._write_values)
        else:
            arrays = {name: output.create(path) for name, output in self._outputs.items()}
            if self.is_directory:
                late = self._metadata_of_group(arrays)
        for name, array in self._state.arrays.items():
            if array.size:
                with contextlib.closing(self.open(path, name)) as file:
                    file.write((0,) * array.ndim, np.asarray(array, order="C"))
        return late

    def _metadata_of_group(self, arrays: dict[str, Late]) -> Late:
        groups = {name[:end] for name in self._outputs for end, c in enumerate(name) if c == "/"}
        empty: dict[str, Any] = {name: {} for name in sorted(groups)}
        return zarr_group.metadata_of(self._state.values, empty, self._zarr_format, arrays)

    def _write_values(self, file: Any) -> None:
        for name, value in self._state.values.items():
            with hdf5_types.refusing(f"HDF5 cannot hold the value {name!r}"):
                file.attrs[name] = value

    def open(self, path: str, name: str) -> Any:
        """Open an array to be written."""
        return self._outputs[name].open(f"{path}/{name}" if self.is_directory else path)


def _named_dimensions(said: dict[str, Names], specs: dict[str, ArraySpec]) -> dict[str, Names]:
    """Return the names of all dimensions of all arrays; an empty dictionary if none were given.

    The dimensions of other arrays are named after the array: xarray does not read a group in which
    an array has no names.

    Raises
    ------
    InvalidArgument
        An array is not saved, or has too many or few names.
    Mismatch
        A dimension is longer in one array of a group than in another.
    """
    if not said:
        return {}
    shapes = {array: spec.shape for array, spec in specs.items()}
    for array, names in said.items():
        if array not in shapes:
            raise InvalidArgument(f"dimensions name the array {array!r}, which is not saved")
        checked_names(repr(array), names, shapes[array])
    found = {array: said.get(array, own_names(array, shape)) for array, shape in shapes.items()}
    _check_lengths(found, shapes)
    return found


def _check_lengths(named: dict[str, Names], shapes: dict[str, Shape]) -> None:
    groups = {array[:end] for array in named for end, c in enumerate(array) if c == "/"}
    first: dict[str, tuple[str, int]] = {}
    for array, names in named.items():
        for name, extent in zip(names, shapes[array], strict=True):
            place = hdf5_attributes.scale_of(array, name)
            other, length = first.setdefault(place, (array, extent))
            if length != extent:
                raise Mismatch(
                    f"dimension {name!r} has {length} elements in {other!r}, {extent} in {array!r}"
                )
            if place in groups:
                raise InvalidArgument(f"dimension {name!r} of {array!r} has the name of a group")
            if place in named and named[place] != (name,):
                raise InvalidArgument(
                    f"dimension {name!r} of {array!r} has the name of another array, whose "
                    f"dimensions are {named[place]}"
                )


def _format_of(path: str, options: MoveOptions, chunks: dict[str, Sizes]) -> str:
    """Return the format of an output by its extension: "zarr", "hdf5" or "npy"."""
    by_name = format_choice.by_suffix(path)
    found = "raw" if by_name is None else by_name.name
    if found != "zarr" and addresses.is_address(path):
        raise InvalidArgument(
            f"{path}: at addresses, arrays are saved in Zarr; use the extension .zarr"
        )
    if found == "raw":
        known = ", ".join((".zarr", ".npy", *HDF5_SUFFIXES))
        raise InvalidArgument(f"the format of {path} is unknown; use one of {known}")
    of_zarr = (chunks or None, options.compressor, options.zarr_format)
    if found != "zarr" and of_zarr != (None, None, None):
        raise InvalidArgument("chunks, compressor and zarr_format apply to Zarr only")
    return found


def _check_for_zarr(state: State, zarr_format: int) -> None:
    for name in (*state.items, *state.arrays):
        if not can_be_in_zarr(name, zarr_format):
            raise Unsupported(f"{name!r} is not a valid name in a Zarr group")


def _check_for_npy(state: State, dimensions: dict[str, Names]) -> None:
    if dimensions:
        raise InvalidArgument("an .npy file has no names of dimensions; use Zarr or HDF5")
    if len(state.items) != 1 or state.arrays or state.values:
        raise InvalidArgument("an .npy file holds one distributed array and nothing else")


def _of_json(state: State) -> State:
    """Convert NaN and infinities, which JSON cannot store, to arrays of one element."""
    arrays = {
        name: np.asarray(value)
        for name, value in state.values.items()
        if isinstance(value, float) and not math.isfinite(value)
    }
    values = {name: value for name, value in state.values.items() if name not in arrays}
    return dataclasses.replace(state, arrays=state.arrays | arrays, values=values)


class Origin:
    """A file or store of any format for reading. Every process has its own.

    Attributes
    ----------
    path : str
    names : tuple of str, or None
        Names of all arrays; a file of one array has the name None, which stands for any. None if
        they are unknown, because not every server lists them.
    """

    _fd = -1  # on the class: there may be nothing to open

    def __init__(self, path: str):
        self.path, self._at_address = path, addresses.is_address(path)
        self.names: tuple[str | None, ...] | None = (None,)
        self._data: Any = None  # of a file at an address: AddressBytes, for HDF5 AddressBlocks
        self._scalars: list[str] = []
        self._described: dict[str, tuple[ArraySpec, Shape]] = {}
        if not self._at_address:
            format_choice.check_input_kind(path)
            # Kept open: otherwise a new file could get the inode number of a removed one.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._format = format_choice.of_input(path, MoveOptions()).name
        if self._format == "raw":
            raise IoFailed(f"{path} is not a Zarr store, HDF5 file or .npy file")
        if self._format == "zarr":
            self._look_at_zarr()
        elif self._format == "hdf5":
            self._data = hdf5.bytes_at(path)
            with hdf5.open_file(path, self._data) as file:
                self.names = tuple(hdf5.datasets(file))
        elif self._at_address:
            self._data = AddressBytes(path)

    def _look_at_zarr(self) -> None:
        self._metadata = self._read_metadata()
        kind = self._metadata[0].get("node_type")
        if kind not in ("array", "group"):
            raise IoFailed(f"{self.path} is not a readable Zarr store: it has no metadata")
        if kind == "array":
            return
        if addresses.scheme_of(self.path) in addresses.READ_ONLY:
            self.names = None
            return
        found = [node for node in zarr_group.nodes(self.path) if node[1]["node_type"] == "array"]
        self.names = tuple(name for name, _ in found)
        self._scalars = [name for name, metadata in found if metadata.get("shape") == []]

    def _read_metadata(self) -> tuple[dict[str, Any], dict[str, Any]]:
        found = zarr_group.metadata(self.path)
        is_group = found.get("node_type") == "group"
        return found, zarr_group.attributes(self.path) if is_group else {}

    def open(self, name: str) -> Any:
        """Open an array for reading.

        Raises
        ------
        IoFailed
            The array does not exist.
        """
        is_one = self.names == (None,)
        if not is_one and self.names is not None and name not in self.names:
            there = ", ".join(map(str, self.names)) or "none"
            raise IoFailed(f"{self.path} has no array {name!r}; there are {there}")
        if self._format == "hdf5":
            return hdf5_format.open_dataset(self.path, name, self._data)
        if self._format == "npy":
            if self._data is not None:
                return npy.open_at_address(self._data)
            return npy.open_reader(self.path, MoveOptions())
        place = self.path if is_one else f"{self.path}/{name}"
        if self._at_address:
            return zarr_array.open_reader(place_of(place), MoveOptions())
        # A plain array needs nothing else from zarr-python: each step opens it again.
        return direct_zarr.opened(place) or zarr_array.open_reader(place, MoveOptions())

    def described(self, name: str) -> tuple[ArraySpec, Shape]:
        """Return the spec of an array, and the extents of its chunks."""
        if name not in self._described:
            with contextlib.closing(self.open(name)) as file:
                self._described[name] = file.spec, file.granule
        return self._described[name]

    def values(self) -> dict[str, Any]:
        """Read attributes of the group or file, and arrays without dimensions."""
        if self.names == (None,):
            return {}
        if self._format == "zarr":
            found = dict(self._metadata[1])
            for name in self._scalars:
                with contextlib.suppress(Unsupported):  # it may not be needed
                    found[name] = whole(self.open(name))[()]
            return found
        with hdf5.open_file(self.path, self._data) as file:
            found = dict(hdf5.values_of(file.attrs, file.attrs))
            for name, dataset in hdf5.datasets(file).items():
                if dataset.shape == ():
                    with contextlib.suppress(Unsupported):  # it may not be needed
                        found[name] = self._single_element(name, dataset)
        return found

    def _single_element(self, name: str, dataset: Any) -> Any:
        """Read an HDF5 dataset without dimensions."""
        dtype = hdf5_types.dtype_of(dataset.id.get_type(), f"{self.path}:/{name}")
        if h5py.check_string_dtype(dtype):
            return dataset.asstr(errors="backslashreplace")[()]
        is_opaque = hdf5_types.is_opaque(dtype)  # h5py does not read all of these
        return whole(self.open(name))[()] if is_opaque else dataset[()]

    def check_still_there(self) -> None:
        """Raise if the file was replaced while it was read: elements may be of both versions.

        Raises
        ------
        IoFailed
        """
        if self._data is not None:
            self._data.check_unchanged()
            return
        if self._at_address:
            same = repr(self._read_metadata()) == repr(self._metadata)
        else:
            same = unfinished.is_still(self._fd, self.path)
        if not same:
            raise IoFailed(f"{self.path} was replaced or removed while it was read")

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def whole(reader: Any) -> np.ndarray:
    """Read a whole array, in the byte order of the machine, and close it."""
    with contextlib.closing(reader):
        out = np.empty(reader.spec.shape, reader.spec.dtype, order=reader.spec.order)
        if out.size:
            reader.read((0,) * out.ndim, out)
    return out.astype(native_dtype(out.dtype), copy=False)
