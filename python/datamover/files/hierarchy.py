# SPDX-License-Identifier: BSD-3-Clause
"""How does a whole HDF5 file, with its groups, arrays and attributes, go to Zarr?

Dataset by dataset, each as one array does, into a group that gets its name when all are there;
strings of any length by one process (`hdf5_strings`). A dataset of several names goes under each of
them; what Zarr has not (links, named datatypes) is left out, which the log says.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses, formats, hdf5, hdf5_strings, names, placing
from datamover.files.agreement import together
from datamover.files.formats import MoveOptions
from datamover.files.names import can_be_in_zarr
from datamover.mpi import comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

#: Options that say something of one array.
OF_ONE_ARRAY = ("region", "axes", "chunks", "shards", "dtype", "output_dtype")

log = logging.getLogger("datamover")


def move(
    comm: MPI.Comm | None, source: str, output: str, options: MoveOptions, progress: Any
) -> Any:
    """Move all datasets of a file. Collective; parameters and errors as of `transfer.move`.

    Returns
    -------
    MoveReport
        Of all of them together; its `spec` is that of the largest.
    """
    is_first = comm is None or comm.rank == 0
    address = None if comm is None else comm_address(comm)
    temporary = placing.temporary_path(output, placing.token(address))
    overwrite = options.overwrite or options.overwrite_group
    reports = []
    strings: list[str] = []
    num_strings = 0
    lock = None
    removes = False
    try:
        with together(comm):
            _check(options, output)
            data = hdf5.bytes_at(source)
            with hdf5.open_file(source, data) as file:
                names, strings = _names(source, file)
                num_strings = sum(file[name].size for name in strings)
                if is_first:
                    placing.check_places(source, output, overwrite, options.overwrite_group)
                    _tell_of_links(source, file)
                    placing.tell_of_leftovers(placing.remove_leftovers(output))
                    removes = True
                    lock = placing.claim(temporary, is_directory=True)
                    _make_groups(file, temporary)
                    _copy_strings(source, file, strings, temporary, options)
        if address is not None:
            from datamover.files.state_items import agree_on  # loads arrays, and layouts

            agree_on(address, {"the names of the datasets": names + strings}, "see")
        with together(comm):
            if lock is None:
                lock = placing.hold(temporary)
        for name in names:
            each = _of_one(options, name)
            reports.append(_move_one(comm, source, f"{temporary}/{name}", each, progress))
        with together(comm):
            if data is not None:  # of one file all datasets are to be
                data.check_unchanged()
        with together(comm):
            if is_first:
                placing.place(temporary, output, overwrite)
    finally:
        placing.give_back(temporary, output, removes, lock)
    found = _together(reports)
    return dataclasses.replace(
        found, num_arrays=found.num_arrays + len(strings), elems=found.elems + num_strings
    )


def intend(source: str, output: str, options: MoveOptions, intend_one: Callable[..., Any]) -> Any:
    """Say what `move` would do: the intention of each dataset, by name. Local.

    `intend_one` gives that of one, by source, output and options.
    """
    from datamover.files.transfer import Intention

    with together(None):
        _check(options, output)
        with hdf5.open_file(source) as file:
            names, strings = _names(source, file)
            specs = {name: hdf5_strings.spec_of(file[name]) for name in strings}
        overwrite = options.overwrite or options.overwrite_group
        placing.check_places(source, output, overwrite, options.overwrite_group)
    found = {name: intend_one(source, output, _of_one(options, name)) for name in names}
    # Of strings nothing is planned; few have more than one chunk.
    return found | {name: Intention(spec, None, 2) for name, spec in specs.items()}


def _of_one(options: MoveOptions, name: str) -> MoveOptions:
    """Give what is to be said of one dataset."""
    return dataclasses.replace(
        options, member=name, output_format="zarr", input_format="hdf5",
        overwrite=False, overwrite_group=False,
    )  # fmt: skip


def _tell_of_links(source: str, file: Any) -> None:
    """Say what is left out, and what is there twice."""
    from datamover.files.hdf5_format import json_attributes, left_out
    from datamover.files.native_attributes import tell_not_in_json

    found = hdf5.tree(file)
    for name, what in found.links.items():
        log.warning("%s:/%s is left out: it is %s", source, name, what)
    for name in found.copies:
        log.warning("%s:/%s is another name of a dataset: it is copied again", source, name)
    # Those of the datasets are named when these are written.
    for name, held in {"": file, **found.groups}.items():
        found_here = json_attributes(held)
        tell_not_in_json(f"{source}:/{name}", left_out(held, found_here))


def _move_one(
    comm: Any, source: str, output: str, options: MoveOptions, progress: Callable[..., Any] | None
) -> Any:
    from datamover.files.transfer import move_between

    # Not `move`: a name within the output may look like that of a dataset of an HDF5 file.
    return move_between(comm, source, output, options, progress)


def _check(options: MoveOptions, output: str) -> None:
    if addresses.is_address(output):
        raise Unsupported(
            f"{output}: a whole file goes to a path; name one dataset, as run.h5:/NAME"
        )
    for name in OF_ONE_ARRAY:
        if getattr(options, name) is not None:
            raise InvalidArgument(
                f"{formats.option(name)} is for one array; name it, as run.h5:/NAME"
            )


def _names(source: str, file: Any) -> tuple[list[str], list[str]]:
    """Give the names of the datasets that movers take, and of those of strings of any length."""
    found = hdf5.datasets(file)
    strings = [name for name, dataset in found.items() if hdf5_strings.is_of(dataset)]
    arrays = [name for name in found if name not in strings]
    for name in arrays:
        dtype, shape = found[name].dtype, found[name].shape
        if dtype.hasobject or shape is None:
            what = (
                "elements without a fixed size, lists or references"
                if dtype.hasobject
                else "no shape"
            )
            raise Unsupported(f"{source}:/{name} has {what}; move the other datasets one by one")
    for name in [*found, *hdf5.tree(file).groups]:
        if not can_be_in_zarr(name):
            raise Unsupported(
                f"{source}:/{name} has a name that nothing in a Zarr group can have; move the "
                "other datasets one by one"
            )
    if not arrays:
        raise InvalidArgument(f"{source} has no datasets{' but of strings' if strings else ''}")
    return arrays, strings


def _copy_strings(
    source: str, file: Any, strings: list[str], place: str, options: MoveOptions
) -> None:
    for name in strings:
        path = names.local_path(os.path.join(place, name))
        checks = options.check is not None
        hdf5_strings.copy(file, name, f"{source}:/{name}", path, checks)


def _make_groups(file: Any, place: str) -> None:
    """Make the groups of a file as Zarr's, with their attributes."""
    from datamover.files.hdf5_format import is_netcdf, json_attributes

    def make(folder: str, attributes: dict[str, Any]) -> None:
        metadata = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        with open(os.path.join(folder, "zarr.json"), "w", encoding="utf-8") as file:
            json.dump(metadata, file, indent=2)

    of_netcdf = is_netcdf(file)
    make(place, json_attributes(file, of_netcdf))
    for name, held in hdf5.tree(file).groups.items():
        folder = names.local_path(os.path.join(place, name))
        os.mkdir(folder)
        make(folder, json_attributes(held, of_netcdf))


def _together(reports: list[Any]) -> Any:
    largest = max(reports, key=lambda report: report.bytes)
    summed = {
        field.name: sum(getattr(report, field.name) for report in reports)
        for field in dataclasses.fields(largest)
        if field.name.endswith("seconds")
        or field.name in ("bytes", "slabs", "reads", "read_bytes", "num_arrays", "elems")
    }
    return dataclasses.replace(largest, **summed)
