# SPDX-License-Identifier: BSD-3-Clause
"""Inputs that are moved as a whole: what they contain, and how it becomes a Zarr group."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses, consolidated, strings, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.names import can_be_in_zarr
from datamover.files.strings import Strings


class Way:
    """The move of a whole file of one kind to another. Every process has its own.

    Attributes
    ----------
    source : str
    arrays : dict
        The shapes of arrays that are moved, by name; set when opened.
    copied : dict of ArraySpec
        Arrays that one process copies, because movers do not support them; set when opened.
    groups : iterable of str
        The names of its groups, while it is open.
    lengths : dict of int
        Lengths of dimensions that differ from those of the input, by name; set when opened.
    zarr_format : int
        Format of a Zarr output; set before it is opened.
    leaves_out : bool
        Whether to leave out what the output cannot have, with a warning, and move the rest.
    """

    groups: Iterable[str]
    zarr_format = 3
    leaves_out = True

    def __init__(self, source: str):
        self.source = source
        self.arrays: dict[str, Shape] = {}
        self.copied: dict[str, ArraySpec] = {}
        self.lengths: dict[str, int] = {}

    def opened(self) -> contextlib.AbstractContextManager[Any]:
        """Open the input and read its contents; reject objects that the output cannot have."""
        raise NotImplementedError

    def check(self) -> None:
        """Reject contents that the output cannot have."""

    def refuse(self, is_fine: Callable[[str], bool], words: str) -> None:
        """Raise Unsupported unless all names are fine."""
        for name in (*self.arrays, *self.copied, *self.groups):
            if not is_fine(name):
                raise Unsupported(f"{self.source} has {name!r}, {words}")

    def require_arrays(self, what: str) -> None:
        """Raise InvalidArgument unless there is anything to move."""
        if not self.arrays and not self.copied:
            raise InvalidArgument(f"{self.source} {what}")

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output (inside `place`) and options of one array."""
        raise NotImplementedError

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> dict[str, bytes]:
        """Create everything except the elements of `arrays`; log what is left out.

        Returns objects by name that must be written at an address after everything else.
        """
        raise NotImplementedError

    def complete(self, place: str) -> None:
        """Do what remains when all arrays are moved. By the first process."""

    def tell_of_left_out(self) -> None:
        """Log the arrays that the output cannot have."""

    def check_unchanged(self) -> None:
        """Raise if the input has changed since it was opened, if that can be detected."""


class ToZarr(Way):
    """A way to a Zarr group."""

    def check(self) -> None:
        """Reject names that Zarr does not have."""
        self.refuse(
            lambda name: can_be_in_zarr(name, self.zarr_format),
            "a name that nothing in a Zarr group can have; rename it, or move the other arrays one "
            "by one",
        )

    def input_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the input of one array, and its options."""
        raise NotImplementedError

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of a group; "" is the name of the whole."""
        raise NotImplementedError

    def strings_of(self, name: str) -> Strings:
        """Return one of `copied`; while it is open."""
        raise NotImplementedError

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output (inside `place`) and options of one array."""
        source, said = self.input_of(name)
        return source, f"{place}/{name}", dataclasses.replace(options, output_format="zarr", **said)

    def chunks_of_copied(self, name: str, options: MoveOptions) -> Shape:
        """Return the extents of the Zarr chunks of one of `copied`; while it is open."""
        kept = self.strings_of(name).kept
        return kept.chunks if options.zarr_format == 2 else kept.shards or kept.chunks

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> dict[str, bytes]:
        """Create the groups with their attributes, and copy strings."""
        groups = {name: self.attributes_of(name) for name in self.groups}
        late = zarr_group.make_all(place, self.attributes_of(""), groups, options.zarr_format)
        made: dict[str, bytes] = {}
        for name in self.copied:
            held = strings.to_zarr(self.strings_of(name), f"{place}/{name}", options)
            made |= addresses.named_within(name, held)
        return made | late

    def complete(self, place: str) -> None:
        """Consolidate the metadata, which at an address are not written yet."""
        if not addresses.is_address(place):
            consolidated.write(place)
