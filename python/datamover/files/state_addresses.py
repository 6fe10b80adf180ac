# SPDX-License-Identifier: BSD-3-Clause
"""Saving and loading of a program's arrays at an address.

Arrays are saved in Zarr groups, and loaded from Zarr groups, Zarr arrays and .npy files. Metadata
are written last, those of a group after those of its arrays: until then there is nothing to load.
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
    """A Zarr group at an address. Every process has its own; the first gives it its metadata."""

    def create(self, path: str) -> None:
        """Write what is the same on all processes."""
        self._path = path
        for name, array in self._state.arrays.items():
            if array.size:
                self.open(path, name).write((0,) * array.ndim, np.asarray(array, order="C"))

    def open(self, path: str, name: str) -> Any:
        """Open an array to be written."""
        return self._functions.open_writer(f"{path}/{name}", self.specs[name], self._options[name])

    def sync(self, path: str) -> None:
        """What the server has taken, it has."""

    def publish(self) -> None:
        """Write all metadata: from now on the group is there."""
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
    """Choose how an address is read, by its name.

    Raises
    ------
    Unsupported
        Neither Zarr nor .npy.
    """
    kind = formats.of_input(path, MoveOptions()).name
    if kind == "npy":
        return NpyAddressOrigin(path)
    if kind != "zarr":
        raise Unsupported(f"{path}: at addresses Zarr and .npy are loaded; copy it here first")
    return AddressOrigin(path)


class NpyAddressOrigin:
    """An .npy file at an address that is read; as `state_stores.Origin`."""

    def __init__(self, path: str):
        self.path, self.names = path, (None,)
        self._data = AddressBytes(path)

    def open(self, name: str) -> Any:
        """Open its array to be read."""
        return npy.open_at_address(self._data)

    def values(self) -> dict[str, Any]:
        """It has none."""
        return {}

    def check_still_there(self) -> None:
        """Refuse what was replaced while it was read, as far as the server tells."""
        self._data.check_unchanged()


class AddressOrigin:
    """A Zarr array or group at an address that is read; as `state_stores.Origin`.

    Attributes
    ----------
    path : str
    names : tuple of str
        (None,) for an array; of a group nothing is known before its arrays are opened, since not
        every server tells.
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
        except Exception as e:  # zarr, json and the stores have many words
            words = addresses.words_of(e)
            raise IoError(f"{self.path} is no Zarr store that can be read: {words}") from e

    def _is_group(self) -> bool:
        import zarr

        return isinstance(self._root, zarr.Group)

    def open(self, name: str) -> Any:
        """Open an array to be read; errors as of `move`."""
        if not self._is_group():
            return self._functions.open_reader(self.path, MoveOptions())
        return self._functions.open_reader(names.place_of(f"{self.path}/{name}"), MoveOptions())

    def values(self) -> dict[str, Any]:
        """Read attributes of the group, and arrays of no dimension where the server lists them."""
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
        """Refuse what was replaced while it was read, as far as its metadata tell.

        Raises
        ------
        IoError
        """
        if repr(self._node().metadata.to_dict()) != repr(self._metadata):
            raise IoError(f"{self.path} was replaced or removed while it was read")


def check_saved(path: str) -> None:
    """Refuse addresses that no group can be saved at.

    Raises
    ------
    InvalidArgument
    """
    if not path.lower().endswith(".zarr"):
        raise InvalidArgument(f"{path}: at addresses arrays are saved in Zarr; end it in .zarr")
