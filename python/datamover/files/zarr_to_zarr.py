# SPDX-License-Identifier: BSD-3-Clause
"""How does a whole Zarr group, with its groups, arrays and attributes, become another one?"""

from __future__ import annotations

import dataclasses
import os

from datamover.errors import Unsupported
from datamover.files import strings, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.names import can_be_in_zarr
from datamover.files.whole_zarr import WholeZarr


class ZarrToZarr(WholeZarr):
    """See `hierarchy.Way`."""

    zarr_format = 3

    def check(self) -> None:
        """Refuse names that zarr-python takes for others."""
        for name in (*self.arrays, *self.copied, *self.groups):
            if not can_be_in_zarr(name, self.zarr_format):
                raise Unsupported(
                    f"{self.source} has {name!r}, which nothing in a Zarr group can be called; "
                    "rename it"
                )

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Give input, output and options of one array."""
        said = dataclasses.replace(options, input_format="zarr", output_format="zarr")
        return f"{self.source}/{name}", f"{place}/{name}", said

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> None:
        """Make the groups with their attributes, and copy strings."""
        zarr_group.make(place, self.attributes, options.zarr_format)
        for name, attributes in self.groups.items():
            folder = os.path.join(place, name)
            os.mkdir(folder)
            zarr_group.make(folder, attributes, options.zarr_format)
        for name in self.copied:
            strings.copy_in_zarr(
                os.path.join(self.source, name), os.path.join(place, name), options
            )
