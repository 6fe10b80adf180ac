# SPDX-License-Identifier: BSD-3-Clause
"""Move of a whole Zarr group, with its groups, arrays and attributes, to another one."""

from __future__ import annotations

import dataclasses

from datamover.errors import Unsupported
from datamover.files import addresses, strings, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.names import can_be_in_zarr
from datamover.files.whole_zarr import WholeZarr


class ZarrToZarr(WholeZarr):
    """See `hierarchy.Way`."""

    zarr_format = 3

    def check(self) -> None:
        """Reject names that zarr-python changes."""
        for name in (*self.arrays, *self.copied, *self.groups):
            if not can_be_in_zarr(name, self.zarr_format):
                raise Unsupported(
                    f"{self.source} has {name!r}, which is not a valid name in a Zarr group; "
                    "rename it"
                )

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options of one array."""
        said = dataclasses.replace(options, input_format="zarr", output_format="zarr")
        return self.where(name), f"{place}/{name}", said

    def chunks_of_copied(self, name: str, options: MoveOptions) -> Shape:
        """Return the chunks, which stay."""
        return strings.chunks_in_zarr(self.where(name), options.zarr_format)

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> dict[str, bytes]:
        """Create the groups with their attributes, and copy strings."""
        groups = zarr_group.make_all(place, self.attributes, self.groups, options.zarr_format)
        made: dict[str, bytes] = {}
        for name in self.copied:
            held = strings.copy_in_zarr(self.where(name), f"{place}/{name}", options)
            made |= addresses.named_within(name, held)
        return made | groups
