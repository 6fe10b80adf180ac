# SPDX-License-Identifier: BSD-3-Clause
"""The choice of how an input becomes an output, and of the output's place."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any

from datamover.errors import InvalidArgument, IoFailed, Unsupported, WrongType
from datamover.files import (
    address_place,
    addresses,
    format_choice,
    formats,
    names,
    placing,
    zarr_group,
    zarr_output,
)
from datamover.files.formats import MoveOptions
from datamover.files.whole import Way, ZarrToHdf5, ZarrToZarr
from datamover.mpi import Comm, comm_address

#: Options that apply to a single array.
OF_ONE_ARRAY = ("region", "axes", "shards", "dtype", "output_dtype", "dims")
#: Form of the name of a single array.
ONE_ARRAY = "run.h5:/NAME or run.zarr/NAME"


def places(
    source: Any, output: str | os.PathLike[str], options: MoveOptions
) -> tuple[Any, str, MoveOptions]:
    """Return the real paths, and checked options with the datasets that the names contain.

    If many files are joined, the source is a tuple of paths.
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
    to = format_choice.of_output(output, options).name
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
        name = format_choice.of_input(source, options).name
        if name == "zarr" and zarr_group.is_group(source):
            return ZarrToZarr if to == "zarr" else ZarrToHdf5
        if name == "hdf5" and (at_address or format_choice.named("hdf5").recognizes(source)):
            from datamover.files.whole_hdf5 import Hdf5ToHdf5, Hdf5ToZarr

            return Hdf5ToZarr if to == "zarr" else Hdf5ToHdf5
    return Way


def _joined(paths: tuple[str, ...], output: str, options: MoveOptions) -> Way:
    from datamover.files.append_to_zarr import AppendToZarr
    from datamover.files.many_files import Many

    along = formats.option("along", options.along)
    to = format_choice.of_output(output, options).name
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
    by_name = format_choice.by_suffix(output)
    if by_name is not None:
        return by_name.name
    is_at_address = addresses.is_address(output)  # there it is Zarr without an extension
    return "zarr" if is_at_address and not format_choice.is_in_zarr(output) else None


def output_place(source: str | None, output: str, options: MoveOptions, comm: Comm | None) -> Any:
    """Return the place of the output. Collective."""
    overwrite_group = options.overwrite_group
    replaces = (options.overwrite or overwrite_group, overwrite_group)
    if options.append:  # to a new output, which replaces the old one
        replaces = (True, True)
    token = placing.token(None if comm is None else comm_address(comm))
    member = options.output_member or options.member
    return address_place.place_of(source, output, token, *replaces, member)
