# SPDX-License-Identifier: BSD-3-Clause
"""Inputs that are moved as a whole: what they contain, how they become a Zarr group, Zarr groups.

From a Zarr group to HDF5, names of dimensions become scales, as in NetCDF4, so that xarray finds
the same in the file as in the group. An array that has the name of its dimension is the scale of
other arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import addresses, hdf5, hdf5_attributes, strings, zarr_group
from datamover.files.formats import ArraySpec, Late, MoveOptions, Output, Shape
from datamover.files.names import can_be_in_zarr, is_utf8
from datamover.files.strings import Strings

log = logging.getLogger("datamover")


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

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create everything except the elements of `arrays`; log what is left out."""
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
    """A single array that becomes one. Strings of any length are copied by one process.

    Parameters
    ----------
    source : str
    strings_in : callable or None
        Returns a context of the open `Strings`, or of None for any other array.
    to : str
        Format of the output.
    options : MoveOptions
    """

    groups = ()

    def __init__(self, source: str, strings_in: Any, to: str, options: MoveOptions):
        super().__init__(source)
        self._strings_in, self._to, self._options = strings_in, to, options
        self._strings: Any = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open strings. Any other array is opened when it is moved, which raises its errors."""
        with contextlib.ExitStack() as held:
            if self._strings_in is not None:
                with contextlib.suppress(IoFailed):
                    self._strings = held.enter_context(self._strings_in())
            if self._strings is None:
                held.close()
                self.arrays = {"": ()}
            else:
                said = self.source, self._to, self._options
                self._strings = strings.described(self._strings, *said)
                self.copied = {"": ArraySpec(self._strings.shape, np.dtype(object))}
            yield

    def of_one(self, name: str, output: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options."""
        return self.source, output, options

    def files_of_copied(self, name: str, options: MoveOptions) -> int:
        """Return the number of files in Zarr."""
        return strings.files_in_zarr(self._strings, options)

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create the array without elements, or copy the strings."""
        if self._strings is None:
            return outputs[""].create(place)
        if options.output_member is None:
            strings.tell_not_in_json(self._strings)
            return strings.to_zarr(self._strings, place, options)
        strings.to_new_hdf5(self._strings, place, options.output_member, options)
        return {}

    def check_unchanged(self) -> None:
        """Raise if the object of an HDF5 file of strings at an address was replaced."""
        if self._strings is not None and self._strings.data is not None:
            self._strings.data.check_unchanged()


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

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create groups with their attributes, and arrays without elements; copy strings."""
        groups = {name: self.attributes_of(name) for name in self.groups}
        members: dict[str, Callable[[str], Late]] = {
            name: functools.partial(strings.to_zarr, self.strings_of(name), options=options)
            for name in self.copied
        }
        members |= {name: output.create for name, output in outputs.items()}
        attributes = self.attributes_of("")
        return zarr_group.make_group(place, attributes, groups, options.zarr_format, members)


class WholeZarr(Way):
    """A group in a directory or at an address.

    Attributes
    ----------
    attributes : dict
        Attributes of the group itself.
    groups : dict
        The attributes of the groups in it, by name.
    """

    attributes: dict[str, Any]
    groups: dict[str, dict[str, Any]]

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Read its contents."""
        self.attributes, self.groups = zarr_group.attributes(self.source), {}
        for name, found in zarr_group.nodes(self.source):
            where = self.where(name)
            if found["node_type"] == "group":
                self.groups[name] = zarr_group.attributes(where)
            elif self.is_copied(found):
                self.copied[name] = ArraySpec(_shape(where, found), np.dtype(object))
            else:
                self.arrays[name] = _shape(where, found)
        self.check()
        self.require_arrays("is a Zarr group without arrays")
        yield

    def where(self, name: str) -> str:
        """Return the path or address of a member."""
        return addresses.inside(self.source, name)

    def strings_of(self, name: str) -> Strings:
        """Return one of `copied`."""
        return strings.of_zarr(self.where(name))

    def is_copied(self, metadata: dict[str, Any]) -> bool:
        """Return whether movers do not support an array, so that one process copies it."""
        return zarr_group.has_strings(metadata)


def _shape(where: str, metadata: dict[str, Any]) -> Shape:
    found = metadata.get("shape")
    if not isinstance(found, list) or not all(type(n) is int and n >= 0 for n in found):
        raise IoFailed(f"{where} has metadata that cannot be read: its shape is {found!r}")
    return tuple(found)


class ZarrToZarr(WholeZarr, ToZarr):
    """A group that becomes another one."""

    def input_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the input of one array, and its options."""
        return self.where(name), {"input_format": "zarr"}

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of a group; "" is the name of the whole."""
        return self.groups[name] if name else self.attributes


class ZarrToHdf5(WholeZarr):
    """A group that becomes an HDF5 file."""

    def is_copied(self, metadata: dict[str, Any]) -> bool:
        """Return whether it has strings, which HDF5 stores with any length."""
        return super().is_copied(metadata) or zarr_group.has_short_strings(metadata)

    def check(self) -> None:
        """Reject names that are not UTF-8."""
        self.refuse(is_utf8, "which is not UTF-8; rename it")

    def of_one(self, name: str, output: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options of one array."""
        said = dataclasses.replace(
            options, output_member=name, input_format="zarr", output_format="hdf5",
            compressor=options.compressor if self.arrays[name] else None,
        )  # fmt: skip
        return self.where(name), output, said

    def make(self, place: str, outputs: dict[str, Any], options: MoveOptions) -> Late:
        """Create everything except the elements that are moved."""

        def fill(made: Any) -> None:
            hdf5_attributes.write_of_json(self.source, made, self.attributes)
            for name, attributes in self.groups.items():
                is_large = hdf5_attributes.are_large(attributes)
                hdf5_attributes.make_group(made, name, is_large)
                hdf5_attributes.write_of_json(f"{self.source}/{name}", made[name], attributes)
            dimensions = {}
            for name, output in outputs.items():
                output.create_in(made)
                spec = output.spec
                hdf5_attributes.write_attributes(f"{self.source}/{name}", made, name, spec)
                dimensions[name] = hdf5_attributes.dimension_names(spec.kept)
            for name in self.copied:
                found = self.strings_of(name)
                strings.to_hdf5(found, made, name, options)
                dimensions[name] = hdf5_attributes.dimension_names(found.kept)
            for name in hdf5_attributes.name_dimensions(made, dimensions):
                log.warning(
                    "%s/%s: its dimensions %s get labels, which xarray does not read: another "
                    "array of the group has one with another length, or another object has that "
                    "name", self.source, name, dimensions[name],
                )  # fmt: skip

        needed_bytes = sum(output.spec.nbytes for output in outputs.values())
        hdf5.create_file(place, fill, needed_bytes, hdf5_attributes.are_large(self.attributes))
        return {}
