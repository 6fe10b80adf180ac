# SPDX-License-Identifier: BSD-3-Clause
"""Move of a whole HDF5 file or Zarr group to another one, with all its contents.

First, one process creates the whole output except for the elements (`whole_hdf5`, `hdf5_to_hdf5`,
`whole_zarr`), and copies data that movers do not support, such as strings of any
length. Then the arrays are moved one by one, each like a single array. The output gets its name
when all are complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import address_place, addresses, formats, zarr_format_2, zarr_group
from datamover.files.agreement import together
from datamover.files.formats import ArraySpec, MoveOptions, num_boxes
from datamover.files.write_back import sync_file_system
from datamover.mpi import comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover.files.whole import ToZarr, Way

#: Options that apply to a single array.
OF_ONE_ARRAY = ("region", "axes", "shards", "dtype", "output_dtype", "dims")
#: Form of the name of a single array.
ONE_ARRAY = "run.h5:/NAME or run.zarr/NAME"


def way(source: Any, output: str, options: MoveOptions) -> Way | None:
    """Return the way for a whole file or group, or many files; None for a single array."""
    if options.along is not None:
        return _joined(source, output, options)
    if options.member is not None or options.output_member is not None:
        return None
    kind = _kind(source, options.output_format or _format_by_name(output), options.input_format)
    return None if kind is None else kind(source)


def _kind(source: str, to: str | None, said: str | None) -> type[Way] | None:
    if to not in ("zarr", "hdf5"):
        return None
    if _is_group(source, said):
        from datamover.files.whole_zarr import ZarrToHdf5, ZarrToZarr

        return ZarrToZarr if to == "zarr" else ZarrToHdf5
    if _is_hdf5(source, said):
        from datamover.files.hdf5_to_hdf5 import Hdf5ToHdf5
        from datamover.files.whole_hdf5 import Hdf5ToZarr

        return Hdf5ToZarr if to == "zarr" else Hdf5ToHdf5
    return None


def _joined(paths: tuple[str, ...], output: str, options: MoveOptions) -> Way:
    from datamover.files.append_to_zarr import AppendToZarr
    from datamover.files.many_files import Many

    along, to = formats.option("along", options.along), formats.of_output(output, options).name
    if to not in ("zarr", "hdf5") or options.output_member is not None:
        raise Unsupported(f"{along} writes a Zarr group or an HDF5 file; {output} is neither")
    kind = _kind(paths[0], to, options.input_format)
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


def _is_group(source: str, said: str | None) -> bool:
    if said not in (None, "zarr"):
        return False
    if addresses.is_address(source):
        is_zarr = formats.of_input(source, MoveOptions(input_format=said)).name == "zarr"
        return is_zarr and zarr_group.is_group(source)
    with contextlib.suppress(IoFailed):  # opening it as an array raises the error
        return zarr_group.is_group(source)
    return False


def _is_hdf5(source: str, said: str | None) -> bool:
    if said not in (None, "hdf5"):
        return False
    if addresses.is_address(source):
        return formats.of_input(source, MoveOptions(input_format=said)).name == "hdf5"
    return formats.named("hdf5").recognizes(source)


def move(comm: MPI.Comm | None, way: Way, output: str, options: MoveOptions, progress: Any) -> Any:
    """Move all arrays. Collective; other parameters and errors are those of `transfer.move`.

    Returns
    -------
    MoveReport
        The report of all arrays together; its `spec` is that of the largest.
    """
    from datamover.files.move_job import output_place
    from datamover.files.transfer import move_array

    is_first = comm is None or comm.rank == 0
    address = None if comm is None else comm_address(comm)
    place = output_place(way.source, output, options, address)
    reports: list[Any] = []
    made: dict[str, bytes] = {}
    late: dict[str, bytes] = {}
    try:
        with together(comm):
            options = _settled(way, options, output)
            with way.opened():
                each = _each(way, place.path, options)
                if is_first:
                    place.check()
                    specs = _specs(each)
                    place.claim(_is_directory(output, options))
                    late = way.make(place.path, specs, options)
        if address is not None:
            from datamover.files.state_items import agree_on  # loads arrays, and layouts

            agree_on(address, {"arrays": [*way.arrays, *way.copied]}, "see")
        with together(comm):
            place.hold()
        for name, one in each.items():
            within = _place_within(place.path, name, _is_directory(output, options))
            reports.append(move_array(comm, *one, progress, within))
            made |= addresses.named_within(name, getattr(within, "held", {}))
        with together(comm):
            way.check_unchanged()
        with together(comm):
            if is_first:
                way.complete(place.path)
                if not reports and not addresses.is_address(output):
                    sync_file_system(place.path)
                place.finish(address_place.Publication(output, made | late))
    finally:
        place.give_back()
    found = _together(reports) if reports else _without_movers(comm, way)
    copied = [math.prod(spec.shape or ()) for spec in way.copied.values()]
    return dataclasses.replace(
        found, num_arrays=found.num_arrays + len(copied), elems=found.elems + sum(copied),
        source=way.source, output=output,
    )  # fmt: skip


def intend(
    way: Way, output: str, options: MoveOptions, intend_one: Callable[..., Any]
) -> tuple[dict[str, Any], int]:
    """Return what `move` would do: the intention of each array, by name, and all files. Local.

    `intend_one` returns that of one array from source, output and options.
    """
    from datamover.files.move_job import output_place

    with together(None):
        options = _settled(way, options, output)
        is_directory = _is_directory(output, options)
        with way.opened():
            way.tell_of_left_out()
            each = _each(way, output, options)
            copied = _copied(way, options, is_directory)
            groups = 1 + len(list(way.groups))
        output_place(way.source, output, options, None).check()
    found = {name: intend_one(*one) for name, one in each.items()} | copied
    if not is_directory:
        return found, 1
    files = groups * zarr_format_2.metadata_files(options.zarr_format)
    files += options.zarr_format == 2  # the consolidated metadata
    return found, files + sum(one.files for one in found.values())


def _copied(way: Way, options: MoveOptions, is_directory: bool) -> dict[str, Any]:
    """Return the intentions of arrays that one process copies, which have no plan."""
    from datamover.files.intention import Intention

    found = {}
    for name, spec in way.copied.items():
        files = 1
        if is_directory:
            chunks = num_boxes(spec.shape, cast("ToZarr", way).chunks_of_copied(name, options))
            files = chunks + zarr_format_2.metadata_files(options.zarr_format)
        found[name] = Intention(spec, None, files, is_copied=True)
    return found


def _is_directory(output: str, options: MoveOptions) -> bool:
    return formats.of_output(output, options).is_directory


def _place_within(path: str, name: str, is_directory: bool) -> Any:
    """Return the place of an array in an output; None if it gets its own."""
    if addresses.is_address(path):
        return address_place.PlaceInGroup(addresses.inside(path, name))
    return None if is_directory else address_place.MadePlace(path)


def _settled(way: Way, options: MoveOptions, output: str) -> MoveOptions:
    """Return options with the format of a Zarr output; reject options for a single array."""
    for name in OF_ONE_ARRAY:
        if getattr(options, name) is not None:
            raise InvalidArgument(
                f"{formats.option(name)} is for one array; name it, as {ONE_ARRAY}"
            )
    if formats.of_output(output, options).name == "zarr":
        options = zarr_format_2.settled(output, options)
        way.zarr_format = cast(int, options.zarr_format)
    return options


def _each(way: Way, place: str, options: MoveOptions) -> dict[str, tuple[str, str, MoveOptions]]:
    """Return input, output and options of each array; chunks if they fit its dimensions."""
    chunks = options.chunks
    plain = dataclasses.replace(
        options, append=False, overwrite=False, overwrite_group=False, chunks=None
    )
    chunked = dataclasses.replace(plain, chunks=chunks)
    dims = -1 if chunks is None else len(chunks)
    if chunks is not None and dims not in map(len, way.arrays.values()):
        raise InvalidArgument(
            f"{formats.option('chunks', chunks)}: nothing in {way.source} has {dims} dimensions"
        )
    return {
        name: way.of_one(name, place, chunked if len(shape) == dims else plain)
        for name, shape in way.arrays.items()
    }


def _specs(
    each: dict[str, tuple[str, str, MoveOptions]],
) -> dict[str, tuple[ArraySpec, MoveOptions]]:
    """Return the spec of each array in the output; raise errors before anything is moved."""
    from datamover.files.intention import described

    return {name: described(*one) for name, one in each.items()}


def _without_movers(comm: MPI.Comm | None, way: Way) -> Any:
    """Return the report of a move in which one process copies everything."""
    from datamover.files.move_job import PHASES
    from datamover.files.transfer import MoveReport

    largest = max(way.copied.values(), key=lambda spec: math.prod(spec.shape))
    seconds: dict[str, Any] = {"seconds": 0.0, **{f"{phase}_seconds": 0.0 for phase in PHASES}}
    processes = 1 if comm is None else comm.size
    return MoveReport(largest, 0, processes, steps=0, **seconds, num_arrays=0, elems=0)


def _together(reports: list[Any]) -> Any:
    largest = max(reports, key=lambda report: report.bytes)
    summed = {
        field.name: sum(getattr(report, field.name) for report in reports)
        for field in dataclasses.fields(largest)
        if field.name.endswith("seconds")
        or field.name in (
            "bytes", "steps", "reads", "read_bytes", "written_bytes", "num_arrays", "elems"
        )
    }  # fmt: skip
    return dataclasses.replace(largest, **summed, passes=max(report.passes for report in reports))
