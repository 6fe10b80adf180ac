# SPDX-License-Identifier: BSD-3-Clause
"""Moves of a whole Zarr group, with its groups, arrays and attributes, to Zarr or HDF5.

In HDF5, names of dimensions become scales, as in NetCDF4, so that xarray finds the same in the file
as in the group. An array that has the name of its dimension is the scale of other arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files import addresses, hdf5, hdf5_attributes, hdf5_scales, zarr_group
from datamover.files import strings as all_strings
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.names import is_utf8
from datamover.files.whole import ToZarr, Way

log = logging.getLogger("datamover")


class WholeZarr(Way):
    """A group in a directory or at an address.

    Attributes
    ----------
    attributes : dict
        Attributes of the group itself.
    groups : dict
        The attributes of the groups in it, by name.
    """

    def __init__(self, source: str):
        super().__init__(source)
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
        self.require_arrays("is a Zarr group without arrays")
        yield

    def where(self, name: str) -> str:
        """Return the path or address of a member."""
        return addresses.inside(self.source, name)

    def strings_of(self, name: str) -> all_strings.Strings:
        """Return one of `copied`."""
        return all_strings.of_zarr(self.where(name))

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

    def make(
        self, place: str, outputs: dict[str, Any], options: MoveOptions
    ) -> Mapping[str, bytes]:
        """Create everything except the elements that are moved."""

        def fill(made: Any) -> None:
            hdf5_attributes.write_of_json(self.source, made, self.attributes)
            for name, attributes in self.groups.items():
                low = hdf5.h5py()
                properties = low.h5p.create(low.h5p.GROUP_CREATE)
                hdf5_attributes.give_room(properties, hdf5_attributes.are_large(attributes))
                links = hdf5.link_properties()
                low.h5g.create(made.id, name.encode(), lcpl=links, gcpl=properties)
                hdf5_attributes.write_of_json(f"{self.source}/{name}", made[name], attributes)
            dimensions = {}
            for name, output in outputs.items():
                output.create_in(made)
                spec = output.spec
                hdf5_attributes.write_attributes(f"{self.source}/{name}", made, name, spec)
                dimensions[name] = hdf5_attributes.dimension_names(spec.kept)
            for name in self.copied:
                found = self.strings_of(name)
                all_strings.to_hdf5(found, made, name, options)
                dimensions[name] = hdf5_attributes.dimension_names(found.kept)
            self._name_dimensions(made, dimensions)

        needed_bytes = sum(output.spec.nbytes for output in outputs.values())
        hdf5.create_file(place, fill, needed_bytes, hdf5_attributes.are_large(self.attributes))
        return {}

    def _name_dimensions(self, made: Any, dimensions: dict[str, list[str | None]]) -> None:
        for name in hdf5_scales.name_dimensions(made, dimensions):
            log.warning(
                "%s/%s: its dimensions %s get labels, which xarray does not read: another array "
                "of the group has one with another length, or another object has that name",
                self.source, name, dimensions[name],
            )  # fmt: skip
