# SPDX-License-Identifier: BSD-3-Clause
"""Saving and loading of a program's arrays at an address.

Arrays are saved in Zarr groups, and loaded from Zarr groups, Zarr arrays and .npy files. Metadata
are written last, those of a group after those of its arrays, and make the group visible.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from datamover.errors import Error, InvalidArgument, IoError, Unsupported
from datamover.files import addresses, formats, names, npy, zarr_group
from datamover.files.address_bytes import AddressBytes
from datamover.files.formats import MoveOptions
from datamover.files.state_stores import ZarrTarget, whole


class AddressTarget(ZarrTarget):
    """A Zarr group at an address. Every process has its own; the first writes the metadata."""

    def create(self, path: str) -> None:
        """Write the arrays that are the same on all processes."""
        self._path = path
        for name, array in self._state.arrays.items():
            if array.size:
                self.open(path, name).write((0,) * array.ndim, np.asarray(array, order="C"))

    def open(self, path: str, name: str) -> Any:
        """Open an array for writing."""
        return self._functions.open_writer(f"{path}/{name}", self.specs[name], self._options[name])

    def sync(self, path: str) -> None:
        """Do nothing: the server stores accepted objects durably."""

    def publish(self) -> None:
        """Write all metadata, which make the group visible."""
        for name in self.specs:
            self.open(self._path, name).publish()
        above = {
            name[:end] for name in self.specs for end, c in enumerate(name) if c == "/"
        }  # fmt: skip
        for name in sorted(above):
            addresses.put_all(f"{self._path}/{name}", zarr_group.objects({}, self._zarr_format))
        group = zarr_group.objects(self._state.values, self._zarr_format)
        addresses.put_all(self._path, group)


def origin_at(path: str) -> AddressOrigin | NpyAddressOrigin:
    """Return the reader for an address, by its name.

    Raises
    ------
    Unsupported
        It is neither Zarr nor .npy.
    """
    kind = formats.of_input(path, MoveOptions()).name
    if kind == "npy":
        return NpyAddressOrigin(path)
    if kind != "zarr":
        raise Unsupported(
            f"{path}: only Zarr and .npy can be loaded from an address; copy it here first"
        )
    return AddressOrigin(path)


class NpyAddressOrigin:
    """An .npy file at an address, for reading; see `state_stores.Origin`."""

    def __init__(self, path: str):
        self.path, self.names = path, (None,)
        self._data = AddressBytes(path)

    def open(self, name: str) -> Any:
        """Open its array for reading."""
        return npy.open_at_address(self._data)

    def values(self) -> dict[str, Any]:
        """Return an empty dictionary, because the file has no values."""
        return {}

    def check_still_there(self) -> None:
        """Raise if the file was replaced while it was read, as far as the server reports it."""
        self._data.check_unchanged()


class AddressOrigin:
    """A Zarr array or group at an address, for reading; see `state_stores.Origin`.

    Attributes
    ----------
    path : str
    names : tuple of str
        (None,) for an array. For a group, the names are unknown before its arrays are opened,
        because not every server lists them.
    """

    def __init__(self, path: str):
        self.path = path
        self._functions = formats.named("zarr")
        self._root = self._node()
        self._metadata = self._root.metadata.to_dict()
        self.names = () if self._is_group() else (None,)

    def _node(self) -> Any:
        import zarr

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                store = addresses.store_at(self.path, read_only=True)
                return zarr.open(store, mode="r", use_consolidated=False)
        except Error:
            raise
        except Exception as e:  # zarr, json and the stores raise many types
            words = addresses.words_of(e)
            raise IoError(f"{self.path} is not a readable Zarr store: {words}") from e

    def _is_group(self) -> bool:
        import zarr

        return isinstance(self._root, zarr.Group)

    def open(self, name: str) -> Any:
        """Open an array for reading. Raises the errors of `move`."""
        if not self._is_group():
            return self._functions.open_reader(self.path, MoveOptions())
        return self._functions.open_reader(names.place_of(f"{self.path}/{name}"), MoveOptions())

    def values(self) -> dict[str, Any]:
        """Read attributes of the group, and arrays without dimensions if the server lists them."""
        if not self._is_group():
            return {}
        found = dict(self._root.attrs)
        if not self._root.store.supports_listing:
            return found
        try:
            nodes = self._root.members(max_depth=None)
            names = [name for name, node in nodes if getattr(node, "shape", None) == ()]
            found |= {name: whole(self.open(name))[()] for name in names}
        except Error:
            raise
        except Exception as e:
            raise IoError(f"{self.path} cannot be looked at: {addresses.words_of(e)}") from e
        return found

    def check_still_there(self) -> None:
        """Raise if the group was replaced while it was read, as far as its metadata show it.

        Raises
        ------
        IoError
        """
        if repr(self._node().metadata.to_dict()) != repr(self._metadata):
            raise IoError(f"{self.path} was replaced or removed while it was read")


def check_saved(path: str) -> None:
    """Reject addresses at which a group cannot be saved.

    Raises
    ------
    InvalidArgument
    """
    if not path.lower().endswith(".zarr"):
        raise InvalidArgument(
            f"{path}: at addresses, arrays are saved in Zarr; use the extension .zarr"
        )
