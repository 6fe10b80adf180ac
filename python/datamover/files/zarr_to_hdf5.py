# SPDX-License-Identifier: BSD-3-Clause
"""Move of a whole Zarr group, with its groups, arrays and attributes, to an HDF5 file.

Names of dimensions become scales, as in NetCDF4, so that xarray finds the same in the file as in
the group. An array that has the name of its dimension is the scale of other arrays.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from datamover.errors import Unsupported
from datamover.files import (
    hdf5,
    hdf5_format,
    hdf5_scales,
    hdf5_traits,
    strings,
    zarr_group,
)
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.whole_zarr import WholeZarr

log = logging.getLogger("datamover")


class ZarrToHdf5(WholeZarr):
    """See `hierarchy.Way`."""

    def is_copied(self, metadata: dict[str, Any]) -> bool:
        """Return whether it has strings, which HDF5 stores with any length."""
        return zarr_group.has_strings(metadata) or zarr_group.has_short_strings(metadata)

    def check(self) -> None:
        """Reject names that are not UTF-8."""
        for name in (*self.arrays, *self.copied, *self.groups):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise Unsupported(
                    f"{self.source} has {name!r}, which is not UTF-8; rename it"
                ) from None

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options of one array."""
        said = dataclasses.replace(
            options, output_member=name, input_format="zarr", output_format="hdf5",
            compressor=options.compressor if self.arrays[name] else None,
        )  # fmt: skip
        return self.where(name), place, said

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> dict[str, bytes]:
        """Create everything except the elements that are moved."""

        def fill(made: Any) -> None:
            hdf5_traits.write_of_json(self.source, made, self.attributes)
            for name, attributes in self.groups.items():
                _make_group(f"{self.source}/{name}", made, name, attributes)
            dimensions = {}
            for name, (spec, said) in specs.items():
                hdf5_format.create_in(made, name, spec, said)
                hdf5_traits.write_attributes(f"{self.source}/{name}", made, name, spec)
                dimensions[name] = hdf5_traits.dimension_names(spec.kept)
            for name in self.copied:
                dimensions[name] = strings.copy_to_hdf5(self.where(name), made, name, options)
            self._name_dimensions(made, dimensions)

        needed_bytes = sum(spec.nbytes for spec, _ in specs.values())
        is_large = hdf5_traits.are_large(self.attributes)
        hdf5.create_file(place, fill, needed_bytes, is_large)
        return {}

    def _name_dimensions(self, made: Any, dimensions: dict[str, list[str | None]]) -> None:
        for name in hdf5_scales.name_dimensions(made, dimensions):
            log.warning(
                "%s/%s: its dimensions %s get labels, which xarray does not read: another array "
                "of the group has one with another length, or another object has that name",
                self.source, name, dimensions[name],
            )  # fmt: skip


def _make_group(where: str, made: Any, name: str, attributes: dict[str, Any]) -> None:
    low = hdf5.h5py()
    properties = low.h5p.create(low.h5p.GROUP_CREATE)
    hdf5_traits.give_room(properties, attributes)
    low.h5g.create(made.id, name.encode(), lcpl=hdf5.link_properties(), gcpl=properties)
    hdf5_traits.write_of_json(where, made[name], attributes)
