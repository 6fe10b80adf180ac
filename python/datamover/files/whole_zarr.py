# SPDX-License-Identifier: BSD-3-Clause
"""Contents of a Zarr group that is moved as a whole, and the arrays that movers support."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed
from datamover.files import addresses, zarr_group
from datamover.files.formats import ArraySpec, Shape


class WholeZarr:
    """A group in a directory or at an address. Every process has its own.

    Attributes
    ----------
    source : str
    arrays, copied : dict
        See `hierarchy.Way`.
    attributes : dict
        Attributes of the group itself.
    groups : dict
        The attributes of the groups in it, by name.
    """

    def __init__(self, source: str):
        self.source = source
        self.arrays: dict[str, Shape] = {}
        self.copied: dict[str, ArraySpec] = {}
        self.attributes: dict[str, Any] = {}
        self.groups: dict[str, dict[str, Any]] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Read its contents."""
        self.attributes = zarr_group.attributes(self.source)
        for name, found in zarr_group.nodes(self.source):
            where = self.where(name)
            if found["node_type"] == "group":
                self.groups[name] = zarr_group.attributes(where)
            elif self.is_copied(found):
                self.copied[name] = ArraySpec(_shape(where, found), np.dtype(object))
            else:
                self.arrays[name] = _shape(where, found)
        self.check()
        if not self.arrays and not self.copied:
            raise InvalidArgument(f"{self.source} is a Zarr group without arrays")
        yield

    def where(self, name: str) -> str:
        """Return the path or address of a member."""
        return addresses.inside(self.source, name)

    def is_copied(self, metadata: dict[str, Any]) -> bool:
        """Return whether movers do not support an array, so that one process copies it."""
        return zarr_group.has_strings(metadata)

    def check(self) -> None:
        """Reject contents that the output cannot have."""
        raise NotImplementedError

    def complete(self, place: str) -> None:
        """Do nothing: all is done when the arrays are moved."""

    def check_unchanged(self) -> None:
        """Do nothing: chunks are separate files or objects, which cannot all be checked."""


def _shape(where: str, metadata: dict[str, Any]) -> Shape:
    found = metadata.get("shape")
    if not isinstance(found, list) or not all(type(n) is int and n >= 0 for n in found):
        raise IoFailed(f"{where} has metadata that cannot be read: its shape is {found!r}")
    return tuple(found)
