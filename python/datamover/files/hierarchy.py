# SPDX-License-Identifier: BSD-3-Clause
"""Moves of one array, of a whole HDF5 file or Zarr group, or of many of them joined.

First, one process creates the whole output except for the elements (`whole`, `whole_hdf5`), and
copies data that movers do not support, such as strings of any length. Then the arrays are moved one
by one (`move_job`). The output gets its name when all are complete (`transfer`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

from datamover.errors import InvalidArgument, IoFailed, Unsupported, WrongType
from datamover.files import (
    address_place,
    addresses,
    formats,
    names,
    placing,
    zarr_group,
    zarr_output,
)
from datamover.files.formats import MoveOptions
from datamover.files.move_job import Job
from datamover.files.whole import Way, ZarrToHdf5, ZarrToZarr
from datamover.mpi import comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

#: Options that apply to a single array.
OF_ONE_ARRAY = ("region", "axes", "shards", "dtype", "output_dtype", "dims")
#: Form of the name of a single array.
ONE_ARRAY = "run.h5:/NAME or run.zarr/NAME"


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

    The input may already be a way, which stays.

    These are the format of a Zarr output, from its enclosing group, and the name of a single HDF5
    dataset, from the input.
    """
    found = source if isinstance(source, Way) else _whole(source, output, options)
    to = formats.of_output(output, options).name
    if found is not None:
        formats.refuse(OF_ONE_ARRAY, options, f"is for one array; name it, as {ONE_ARRAY}")
    elif to == "hdf5" and options.output_member is None:
        member = options.member or os.path.splitext(os.path.basename(source.rstrip("/")))[0]
        options = dataclasses.replace(options, output_member=member)
    if found is None:
        found = Way(source)
    if to == "zarr":
        options = zarr_output.settled(output, options)
        found.zarr_format = options.zarr_format or 3
    return found, options


def _whole(source: Any, output: str, options: MoveOptions) -> Way | None:
    """Return the way for a whole file or group, or many files; None for a single array."""
    if options.along is not None:
        return _joined(source, output, options)
    if options.member is not None or options.output_member is not None:
        return None
    kind = _kind(source, options.output_format or _format_by_name(output), options)
    return None if kind is None else kind(source)


def _kind(source: str, to: str | None, options: MoveOptions) -> type[Way] | None:
    """Return the way of a Zarr group or an HDF5 file to a format; None for a single array."""
    if to not in ("zarr", "hdf5"):
        return None
    at_address = addresses.is_address(source)
    # At a path, opening it as an array raises the error.
    with contextlib.nullcontext() if at_address else contextlib.suppress(IoFailed):
        name = formats.of_input(source, options).name
        if name == "zarr" and zarr_group.is_group(source):
            return ZarrToZarr if to == "zarr" else ZarrToHdf5
        if name == "hdf5" and (at_address or formats.named("hdf5").recognizes(source)):
            from datamover.files.whole_hdf5 import Hdf5ToHdf5, Hdf5ToZarr

            return Hdf5ToZarr if to == "zarr" else Hdf5ToHdf5
    return None


def _joined(paths: tuple[str, ...], output: str, options: MoveOptions) -> Way:
    from datamover.files.append_to_zarr import AppendToZarr
    from datamover.files.many_files import Many

    along, to = formats.option("along", options.along), formats.of_output(output, options).name
    if to not in ("zarr", "hdf5") or options.output_member is not None:
        raise Unsupported(f"{along} writes a Zarr group or an HDF5 file; {output} is neither")
    kind = _kind(paths[0], to, options)
    if options.member is not None or kind is None:
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
        source, own, said = way.of_one(name, output, its)
        found[name] = Job(comm, source, own, place + own[len(output) :], said)
    return found
