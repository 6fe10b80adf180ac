# SPDX-License-Identifier: BSD-3-Clause
"""Moves of one array, of a whole HDF5 file or Zarr group, or of many of them joined.

First, one process creates the whole output except for the elements (`Way`, `whole_hdf5`), and
copies data that movers do not support, such as strings of any length. Then the arrays are moved one
by one (`move_job`). The output gets its name when all are complete (`transfer`).

From a Zarr group to HDF5, names of dimensions become scales, as in NetCDF4, so that xarray finds
the same in the file as in the group. An array that has the name of its dimension is the scale of
other arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import (
    addresses,
    formats,
    hdf5_attributes,
    hdf5_format,
    names,
    zarr_group,
)
from datamover.files.formats import ArraySpec, Late, MoveOptions, Output, Shape
from datamover.files.move_job import Job, Opener
from datamover.mpi import Comm

#: Input, options and opener of one array; None for the reader of its format.
OfOne = tuple[str, MoveOptions, Opener | None]


class Way:
    """The move of a single array, or in subclasses of a whole file. Every process has its own.

    Attributes
    ----------
    source : str
    place : str, optional
        The real path or address of the input; None if it is in memory.
    is_one : bool
        Whether it is a single array, whose name is "".
    arrays : dict
        The shapes of arrays that are moved, by name; set when opened.
    texts : set of str
        Those of `arrays` whose elements are strings of any length; set when opened.
    copied : dict of ArraySpec
        Arrays that are copied when the output is made; set when opened.
    groups : iterable of str
        The names of its groups, while it is open.
    lengths : dict of int
        Lengths of dimensions that differ from those of the input, by name; set when opened.
    zarr_format : int
        Format of a Zarr output; set before it is opened.
    leaves_out : bool
        Whether to leave out what the output cannot have, with a warning, and move the rest.
    has_directory : bool
        Whether each array of the output has a place of its own in it.
    """

    is_one = True
    has_directory = False
    groups: Iterable[str] = ()
    zarr_format = 3
    leaves_out = True

    def __init__(self, source: str):
        self.source = source
        self.place: str | None = source
        self.arrays: dict[str, Shape] = {}
        self.texts: set[str] = set()
        self.copied: dict[str, ArraySpec] = {}
        self.lengths: dict[str, int] = {}

    def compare(self, comm: Comm | None) -> None:
        """Compare the files, if there are many; each process compares some. Collective."""

    def opened(self) -> contextlib.AbstractContextManager[Any]:
        """Open the input and read its contents; reject objects that the output cannot have.

        A single array is opened when it is moved.
        """
        self.arrays = {"": ()}
        return contextlib.nullcontext()

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

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array, and its opener; see `Job`."""
        return self.source, options, None

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create everything except the elements of `arrays`; log what is left out."""
        return outputs[""].create(place)

    def complete(self, place: str) -> None:
        """Do what remains when all arrays are moved. By the first process."""

    def tell_of_left_out(self) -> None:
        """Log the arrays that the output cannot have."""

    def check_unchanged(self) -> None:
        """Raise if the input has changed since it was opened, if that can be detected."""


class ToZarr(Way):
    """A way to a Zarr group."""

    has_directory = True

    def check(self) -> None:
        """Reject names that Zarr does not have."""
        self.refuse(
            lambda name: names.can_be_in_zarr(name, self.zarr_format),
            "a name that nothing in a Zarr group can have; rename it, or move the other arrays one "
            "by one",
        )

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of a group; "" is the name of the whole."""
        raise NotImplementedError

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create groups with their attributes, and arrays without elements."""
        groups = {name: self.attributes_of(name) for name in self.groups}
        arrays = {name: output.create(f"{place}/{name}") for name, output in outputs.items()}
        attributes = self.attributes_of("")
        return zarr_group.metadata_of(attributes, groups, options.zarr_format, arrays)


class WholeZarr(Way):
    """A group in a directory or at an address.

    Attributes
    ----------
    attributes : dict
        Attributes of the group itself.
    groups : dict
        The attributes of the groups in it, by name.
    """

    is_one = False
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
            else:
                self.arrays[name] = _shape(where, found)
                if self.is_text(found):
                    self.texts.add(name)
        self.check()
        self.require_arrays("is a Zarr group without arrays")
        yield

    def where(self, name: str) -> str:
        """Return the path or address of a member."""
        return addresses.inside(self.source, name)

    def is_text(self, metadata: dict[str, Any]) -> bool:
        """Return whether an array becomes strings of any length."""
        return zarr_group.has_strings(metadata)


def _shape(where: str, metadata: dict[str, Any]) -> Shape:
    found = metadata.get("shape")
    if not isinstance(found, list) or not all(type(n) is int and n >= 0 for n in found):
        raise IoFailed(f"{where} has metadata that cannot be read: its shape is {found!r}")
    return tuple(found)


class ZarrToZarr(WholeZarr, ToZarr):
    """A group that becomes another one."""

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array."""
        own = dataclasses.replace(options, input_format="zarr", output_format="zarr")
        return self.where(name), own, None

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of a group; "" is the name of the whole."""
        return self.groups[name] if name else self.attributes


class ZarrToHdf5(WholeZarr):
    """A group that becomes an HDF5 file."""

    def is_text(self, metadata: dict[str, Any]) -> bool:
        """Return whether it has strings, which HDF5 stores with any length."""
        return super().is_text(metadata) or zarr_group.has_short_strings(metadata)

    def check(self) -> None:
        """Reject names that are not UTF-8."""
        self.refuse(names.is_utf8, "which is not UTF-8; rename it")

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array."""
        is_text = name in self.texts
        said = dataclasses.replace(
            options, output_member=name, input_format="zarr", output_format="hdf5",
            compressor=options.compressor if self.arrays[name] and not is_text else None,
            output_dtype=np.dtype(object) if is_text else None,
        )  # fmt: skip
        return self.where(name), said, None

    def make(self, place: str, outputs: dict[str, Any], options: MoveOptions) -> Late:
        """Create everything except the elements that are moved."""

        def begin(made: Any) -> None:
            hdf5_attributes.write_of_json(self.source, made, self.attributes)
            for name, attributes in self.groups.items():
                group = made.create_group(name, track_order=True)
                hdf5_attributes.write_of_json(f"{self.source}/{name}", group, attributes)

        hdf5_format.create_file(place, outputs, self.source, begin)
        return {}


def jobs_of(
    way: Way, comm: Comm | None, output: str, place: str, options: MoveOptions
) -> dict[str, Job]:
    """Return the move of each array, by name; requested chunks if they fit its dimensions. Local.

    `place` is where the output is written.
    """
    plain = dataclasses.replace(options, append=False, overwrite=False, overwrite_group=False)
    is_one, dims = way.is_one, len(options.chunks or ())
    shapes = {name: len(shape) for name, shape in way.arrays.items() if name not in way.texts}
    if not is_one and options.chunks is not None and dims not in shapes.values():
        words = formats.option("chunks", options.chunks)
        raise InvalidArgument(f"{words}: nothing in {way.source} has {dims} dimensions")
    found = {}
    for name in way.arrays:
        has_chunks = is_one or shapes.get(name) == dims
        its = plain if has_chunks else dataclasses.replace(plain, chunks=None)
        source, own, opener = way.of_one(name, its)
        inner = f"/{name}" if way.has_directory else ""
        found[name] = Job(comm, source, output + inner, place + inner, own, opener)
    return found
