# SPDX-License-Identifier: BSD-3-Clause
"""Move of a whole HDF5 file, with its groups, arrays and attributes, to a Zarr group.

A dataset with several names is written under each of them. Objects that Zarr does not support
(links, named datatypes, datasets without a shape) are left out and logged.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from datamover.errors import Unsupported
from datamover.files import addresses, hdf5, strings, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.hdf5_format import is_netcdf, json_attributes, left_out
from datamover.files.names import can_be_in_zarr
from datamover.files.native_attributes import tell_not_in_json
from datamover.files.whole_hdf5 import WholeHdf5

log = logging.getLogger("datamover")

#: Maximum number of datasets named in one line.
MOST_NAMED = 4


class Hdf5ToZarr(WholeHdf5):
    """See `hierarchy.Way`."""

    zarr_format = 3

    def datasets(self) -> dict[str, Any]:
        """Return the datasets with a shape."""
        return {n: found for n, found in self.tree.datasets.items() if found.shape is not None}

    def is_copied(self, dataset: Any) -> bool:
        """Return whether it has strings of any length."""
        return strings.is_of(dataset)

    def check(self) -> None:
        """Reject elements and names that Zarr does not have."""
        for name in self.arrays:
            if self.file[name].dtype.hasobject:
                raise Unsupported(
                    f"{self.source}:/{name} has elements without a fixed size, lists or "
                    "references; move the other datasets one by one"
                )
        for name in [*self.datasets(), *self.tree.groups]:
            if not can_be_in_zarr(name, self.zarr_format):
                raise Unsupported(
                    f"{self.source}:/{name} has a name that nothing in a Zarr group can have; "
                    "move the other datasets one by one"
                )

    def _tell_of_growing(self) -> None:
        """Log that Zarr does not distinguish unlimited dimensions, such as records."""
        growing = [f"/{n}" for n, found in self.datasets().items() if None in found.maxshape]
        if growing:
            names = ", ".join(growing[:MOST_NAMED]) + (", …" if len(growing) > MOST_NAMED else "")
            log.warning(
                "%s: Zarr does not record unlimited dimensions, since all its arrays can grow: %s",
                self.source, names,
            )  # fmt: skip

    def of_one(self, name: str, place: str, options: MoveOptions) -> tuple[str, str, MoveOptions]:
        """Return input, output and options of one array."""
        said = dataclasses.replace(options, member=name, output_format="zarr", input_format="hdf5")
        return self.source, f"{place}/{name}", said

    def chunks_of_copied(self, name: str, options: MoveOptions) -> Shape:
        """Return the dataset's chunks, or whole rows."""
        return strings.chunks_of(self.file[name])

    def make(
        self, place: str, specs: dict[str, tuple[ArraySpec, MoveOptions]], options: MoveOptions
    ) -> dict[str, bytes]:
        """Create the groups with their attributes, and copy strings."""
        self._tell_of_links()
        groups = {name: self._attributes(held) for name, held in self.tree.groups.items()}
        late = zarr_group.make_all(place, self._attributes(self.file), groups, options.zarr_format)
        made: dict[str, bytes] = {}
        for name in self.copied:
            where = f"{self.source}:/{name}"
            held = strings.copy_to_zarr(self.file, name, where, f"{place}/{name}", options)
            made |= addresses.named_within(name, held)
        return made | late

    def _attributes(self, held: Any) -> dict[str, Any]:
        with hdf5.reading(self.source):
            return json_attributes(held, is_netcdf(self.file))

    def _tell_of_links(self) -> None:
        """Log objects that are left out, and those that are written twice."""
        tree = self.tree
        what = {name: hdf5.words_of(link) for name, link in tree.links.items()}
        what |= dict.fromkeys(tree.datatypes, "a datatype")
        datasets = self.datasets()
        empty = "a dataset without a shape (of h5py.Empty), which Zarr does not have"
        what |= dict.fromkeys((n for n in tree.datasets if n not in datasets), empty)
        for name, first in tree.same.items():
            if name in datasets:
                log.warning(
                    "%s:/%s is another name of a dataset: it is copied again", self.source, name
                )
            elif name not in tree.datasets:
                kind = "group" if first in tree.groups or not first else "datatype"
                what[name] = f"another name of the {kind} /{first}"
        for name, words in what.items():
            log.warning("%s:/%s is left out: it is %s", self.source, name, words)
        self._tell_of_growing()
        # Those of the datasets are logged when these are written.
        for name, held in {"": self.file, **tree.groups}.items():
            with hdf5.reading(self.source):
                missing = left_out(held, json_attributes(held))
            tell_not_in_json(f"{self.source}:/{name}", missing)
