# SPDX-License-Identifier: BSD-3-Clause
"""Inputs that are moved as a whole: what they contain, and how it becomes a Zarr group."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses, consolidated, strings
from datamover.files.formats import ArraySpec, MoveOptions, Output, Shape
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

    def of_one(self, name: str, output: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output (inside the whole one) and options of one array."""
        raise NotImplementedError

    def make(
        self, place: str, outputs: dict[str, Output], options: MoveOptions
    ) -> Mapping[str, bytes]:
        """Create everything except the elements of `arrays`; log what is left out.

        Returns objects by name that must be written at an address after everything else.
        """
        raise NotImplementedError

    def files_of_copied(self, name: str, options: MoveOptions) -> int:
        """Return the number of files of one of `copied`; while it is open."""
        return 0

    def complete(self, place: str) -> None:
        """Do what remains when all arrays are moved. By the first process."""

    def tell_of_left_out(self) -> None:
        """Log the arrays that the output cannot have."""

    def check_unchanged(self) -> None:
        """Raise if the input has changed since it was opened, if that can be detected."""


class OneArray(Way):
    """A single array that becomes one."""

    groups = ()

    def __init__(self, source: str):
        super().__init__(source)
        self.arrays = {"": ()}

    def opened(self) -> contextlib.AbstractContextManager[Any]:
        """Do nothing: it is opened when it is moved."""
        return contextlib.nullcontext()

    def of_one(self, name: str, output: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options."""
        return self.source, output, options

    def make(
        self, place: str, outputs: dict[str, Output], options: MoveOptions
    ) -> Mapping[str, bytes]:
        """Create the array without elements."""
        return outputs[""].create(place)


class OneArrayOfStrings(OneArray):
    """A single array of strings of any length, which one process copies.

    Parameters
    ----------
    source : str
    opened : callable
        Returns a context of the open `Strings`.
    options : MoveOptions
    """

    def __init__(self, source: str, opened: Any, options: MoveOptions):
        super().__init__(source)
        self._open, self._options = opened, options
        self._strings: Any = None
        self.arrays = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open it."""
        with self._open() as found:
            self._strings = strings.described(found, self._options)
            self.copied = {"": ArraySpec(found.shape, np.dtype(object))}
            yield

    def files_of_copied(self, name: str, options: MoveOptions) -> int:
        """Return the number of files in Zarr."""
        return strings.files_in_zarr(self._strings, options)

    def make(
        self, place: str, outputs: dict[str, Output], options: MoveOptions
    ) -> Mapping[str, bytes]:
        """Copy the strings."""
        if options.output_member is None:
            return strings.to_zarr(self._strings, place, options)
        strings.to_new_hdf5(self._strings, place, options.output_member, options)
        return {}


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

    def of_one(self, name: str, output: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output (inside the whole one) and options of one array."""
        source, said = self.input_of(name)
        own = dataclasses.replace(options, output_format="zarr", **said)
        return source, f"{output}/{name}", own

    def files_of_copied(self, name: str, options: MoveOptions) -> int:
        """Return the number of files of one of `copied`; while it is open."""
        return strings.files_in_zarr(self.strings_of(name), options)

    def make(
        self, place: str, outputs: dict[str, Output], options: MoveOptions
    ) -> Mapping[str, bytes]:
        """Create groups with their attributes, and arrays without elements; copy strings."""
        groups = {name: self.attributes_of(name) for name in self.groups}
        members: dict[str, Callable[[str], Mapping[str, bytes]]] = {
            name: lambda path, name=name: strings.to_zarr(self.strings_of(name), path, options)
            for name in self.copied
        }
        members |= {name: output.create for name, output in outputs.items()}
        attributes = self.attributes_of("")
        return consolidated.make_group(place, attributes, groups, options.zarr_format, members)

    def complete(self, place: str) -> None:
        """Consolidate the metadata, which at an address are not written yet."""
        if not addresses.is_address(place):
            consolidated.write(place)
