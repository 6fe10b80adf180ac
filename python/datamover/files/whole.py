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
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Unsupported, WrongType
from datamover.files import (
    address_place,
    addresses,
    formats,
    hdf5_attributes,
    hdf5_format,
    names,
    placing,
    zarr_group,
    zarr_output,
)
from datamover.files.formats import ArraySpec, Late, MoveOptions, Output, Shape
from datamover.files.move_job import Job, Opener
from datamover.mpi import comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

#: Options that apply to a single array.
OF_ONE_ARRAY = ("region", "axes", "shards", "dtype", "output_dtype", "dims")
#: Input, options and opener of one array; None for the reader of its format.
OfOne = tuple[str, MoveOptions, Opener | None]
#: Form of the name of a single array.
ONE_ARRAY = "run.h5:/NAME or run.zarr/NAME"


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


def places(
    source: Any, output: str | os.PathLike[str], options: MoveOptions
) -> tuple[Any, str, MoveOptions]:
    """Return the real paths, and checked options with the datasets that the names contain.

    Of many files that are joined, the source is a tuple of paths.
    """
    output, output_member = names.split_member(output)
    if options.along is not None:
        from datamover.files import many_files  # loads h5py

        options = dataclasses.replace(formats.verified(options), output_member=output_member)
        return many_files.files_of(source), names.place_of_output(output), options
    if not isinstance(source, str | os.PathLike):
        raise WrongType(f"the input is {source!r}; several files need {formats.option('along')}")
    source, member = names.split_member(source)
    options = dataclasses.replace(
        formats.verified(options),
        member=member or options.member,
        output_member=output_member or options.output_member,
    )
    return names.place_of(source), names.place_of_output(output), options


def way(source: Any, output: str, options: MoveOptions) -> tuple[Way, MoveOptions]:
    """Return how an input becomes the output, and options with the output's defaults. Local.

    These are the format of a Zarr output, from its enclosing group, and the name of a single HDF5
    dataset, from the input. The input may already be a way, which stays.
    """
    found = source if isinstance(source, Way) else _way(source, output, options)
    to = formats.of_output(output, options).name
    if not found.is_one:
        formats.refuse(OF_ONE_ARRAY, options, f"is for one array; name it, as {ONE_ARRAY}")
    elif to == "hdf5" and options.output_member is None:
        member = options.member or os.path.splitext(os.path.basename(source.rstrip("/")))[0]
        options = dataclasses.replace(options, output_member=member)
    if to == "zarr":
        options = zarr_output.settled(output, options)
        found.zarr_format = options.zarr_format or 3
    return found, options


def _way(source: Any, output: str, options: MoveOptions) -> Way:
    """Return the way for a single array, for a whole file or group, or for many files."""
    if options.along is not None:
        return _joined(source, output, options)
    if options.member is not None or options.output_member is not None:
        return Way(source)
    return _kind(source, options.output_format or _format_by_name(output), options)(source)


def _kind(source: str, to: str | None, options: MoveOptions) -> type[Way]:
    """Return the way of a Zarr group, an HDF5 file, or a single array to a format."""
    if to not in ("zarr", "hdf5"):
        return Way
    at_address = addresses.is_address(source)
    # At a path, opening it as an array raises the error.
    with contextlib.nullcontext() if at_address else contextlib.suppress(IoFailed):
        name = formats.of_input(source, options).name
        if name == "zarr" and zarr_group.is_group(source):
            return ZarrToZarr if to == "zarr" else ZarrToHdf5
        if name == "hdf5" and (at_address or formats.named("hdf5").recognizes(source)):
            from datamover.files.whole_hdf5 import Hdf5ToHdf5, Hdf5ToZarr

            return Hdf5ToZarr if to == "zarr" else Hdf5ToHdf5
    return Way


def _joined(paths: tuple[str, ...], output: str, options: MoveOptions) -> Way:
    from datamover.files.append_to_zarr import AppendToZarr
    from datamover.files.many_files import Many

    along, to = formats.option("along", options.along), formats.of_output(output, options).name
    if to not in ("zarr", "hdf5") or options.output_member is not None:
        raise Unsupported(f"{along} writes a Zarr group or an HDF5 file; {output} is neither")
    kind = _kind(paths[0], to, options)
    if options.member is not None or kind.is_one:
        raise Unsupported(f"{along} joins whole NetCDF or HDF5 files, or Zarr groups")
    for path in paths:
        if f"{path}/".startswith(f"{output}/"):
            raise InvalidArgument(f"input {path} is inside the output {output}")
        if f"{output}/".startswith(f"{path}/"):
            raise InvalidArgument(f"the output {output} is inside the input {path}")
    many = AppendToZarr if options.append else Many
    return type(many.__name__, (many, kind), {})(paths, output, options)


def _format_by_name(output: str) -> str | None:
    """Return the format of a whole output; None if the name is that of an array in a group."""
    by_name = formats.by_suffix(output)
    if by_name is not None:
        return by_name.name
    is_at_address = addresses.is_address(output)  # there it is Zarr without an extension
    return "zarr" if is_at_address and not formats.is_in_zarr(output) else None


def output_place(
    source: str | None, output: str, options: MoveOptions, comm: MPI.Comm | None
) -> Any:
    """Return the place of the output. Collective."""
    overwrite_group = options.overwrite_group
    replaces = (options.overwrite or overwrite_group, overwrite_group)
    if options.append:  # to a new output, which replaces the old one
        replaces = (True, True)
    token = placing.token(None if comm is None else comm_address(comm))
    member = options.output_member or options.member
    return address_place.place_of(source, output, token, *replaces, member)


def jobs_of(
    way: Way, comm: MPI.Comm | None, output: str, place: str, options: MoveOptions
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
