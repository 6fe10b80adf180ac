# SPDX-License-Identifier: BSD-3-Clause
"""Moves of a whole HDF5 file, with its groups, arrays and attributes: its contents, and to Zarr.

A dataset with several names is written under each of them. Objects that Zarr does not support
(links, named datatypes, datasets without a shape) are left out and logged.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.files import hdf5, hdf5_types, strings, zarr_output
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.hdf5_attributes import tell_not_in_json
from datamover.files.hdf5_format import is_netcdf, json_attributes, left_out
from datamover.files.names import is_utf8
from datamover.files.whole import ToZarr, Way

log = logging.getLogger("datamover")

#: Maximum number of datasets named in one line.
MOST_NAMED = 4


class WholeHdf5(Way):
    """A file, or an object at an address.

    Attributes
    ----------
    file, tree
        Set while it is open.
    left_out : dict
        Why datasets are not moved, by name; set when opened.
    as_stored : bool
        See `hdf5_types.dtype_of`.
    """

    as_stored = False

    def __init__(self, source: str):
        super().__init__(source)
        self.file: Any = None
        self.tree = hdf5.Tree()
        self.left_out: dict[str, str] = {}
        self._data: Any = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open it, and read its contents."""
        self._data = hdf5.bytes_at(self.source)
        with hdf5.open_file(self.source, self._data) as self.file:
            self.tree = hdf5.tree(self.file, self.as_stored)
            for name in self.tree.order:
                if not is_utf8(name):
                    raise Unsupported(
                        f"{self.source} has {name!r}, which is not UTF-8; move its datasets one by "
                        "one"
                    )
            self.groups = self.tree.groups
            self._look_at_datasets()
            self.check()
            if self.left_out and not self.arrays and not self.copied:
                raise Unsupported(next(iter(self.left_out.values())))
            self.require_arrays("has no datasets" + " that Zarr has" * bool(self.tree.datasets))
            yield
        self.file, self.tree = None, hdf5.Tree()

    def _look_at_datasets(self) -> None:
        """Divide the datasets into those that are moved, copied and left out."""
        self.arrays, self.copied, self.left_out = {}, {}, {}
        for name, dataset in self.datasets().items():
            where = f"{self.source}:/{name}"
            try:
                dtype = hdf5_types.dtype_of(dataset.id.get_type(), where, self.as_stored)
                is_copied = self.is_copied(dataset)
                self.check_dataset(where, dataset, is_copied)
            except Unsupported as e:
                if not self.leaves_out:
                    raise
                self.left_out[name] = str(e)
                continue
            if is_copied:
                self.copied[name] = ArraySpec(dataset.shape or (), dtype)
            else:
                self.arrays[name] = dataset.shape

    def tell_of_left_out(self) -> None:
        """Log the datasets that the output cannot have."""
        for why in self.left_out.values():
            log.warning("%s; it is left out", why)

    def datasets(self) -> dict[str, Any]:
        """Return the datasets that the output may have, by name."""
        return self.tree.datasets

    def check_dataset(self, where: str, dataset: Any, is_copied: bool) -> None:
        """Reject a dataset that the output cannot have, by Unsupported."""

    def is_copied(self, dataset: Any) -> bool:
        """Return whether movers do not support a dataset, so that one process copies it."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Raise if an object at an address was replaced: all datasets must be of one file."""
        if self._data is not None:
            self._data.check_unchanged()


@functools.cache
def _refused(dtype: np.dtype, zarr_format: int) -> str:
    """Return why Zarr cannot hold elements of a dtype; empty if it can."""
    try:
        zarr_output.made_in_memory(ArraySpec((1,), dtype), MoveOptions(zarr_format=zarr_format))
    except Unsupported as e:
        return str(e)
    return ""


class Hdf5ToZarr(WholeHdf5, ToZarr):
    """A file that becomes a Zarr group."""

    def datasets(self) -> dict[str, Any]:
        """Return the datasets with a shape."""
        return {n: found for n, found in self.tree.datasets.items() if found.shape is not None}

    def is_copied(self, dataset: Any) -> bool:
        """Return whether it has strings of any length."""
        return strings.is_of(dataset)

    def check_dataset(self, where: str, dataset: Any, is_copied: bool) -> None:
        """Reject elements that Zarr does not have."""
        if is_copied:
            return
        if dataset.dtype.hasobject:
            raise Unsupported(f"{where} has elements without a fixed size, lists or references")
        if refused := _refused(dataset.dtype, self.zarr_format):
            raise Unsupported(f"{where}: {refused}")

    def _tell_of_growing(self) -> None:
        """Log that Zarr does not distinguish unlimited dimensions, such as records."""
        growing = [f"/{n}" for n, found in self.datasets().items() if None in found.maxshape]
        if growing:
            names = ", ".join(growing[:MOST_NAMED]) + (", …" if len(growing) > MOST_NAMED else "")
            log.warning(
                "%s: Zarr does not record unlimited dimensions, since all its arrays can grow: %s",
                self.source, names,
            )  # fmt: skip

    def input_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the input of one array, and its options."""
        return self.source, {"input_format": "hdf5", "member": name}

    def strings_of(self, name: str) -> strings.Strings:
        """Return one of `copied`; while it is open."""
        dataset, where = self.tree.datasets[name], f"{self.source}:/{name}"
        return strings.of_hdf5(dataset, name, where, is_netcdf(self.file, dataset))

    def make(self, place: str, outputs: Any, options: Any) -> Mapping[str, bytes]:
        """Create everything except the elements; log what is left out."""
        self._tell_of_links()
        return super().make(place, outputs, options)

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of a group; "" is the name of the whole."""
        with hdf5.reading(self.source):
            return json_attributes(self.file[name or "/"], self._is_netcdf)

    @functools.cached_property
    def _is_netcdf(self) -> bool:
        return is_netcdf(self.file)

    def _tell_of_links(self) -> None:
        """Log objects that are left out, and those that are written twice."""
        tree = self.tree
        what = {name: hdf5.words_of(link) for name, link in tree.links.items()}
        what |= dict.fromkeys(tree.datatypes, "a datatype")
        self.tell_of_left_out()
        datasets = self.datasets()
        empty = "a dataset without a shape (of h5py.Empty), which Zarr does not have"
        what |= dict.fromkeys((n for n in tree.datasets if n not in datasets), empty)
        for name, first in tree.same.items():
            if name in self.arrays or name in self.copied:
                log.warning(
                    "%s:/%s is another name of a dataset: it is copied again", self.source, name
                )
            elif name not in tree.datasets:
                kind = "group" if first in tree.groups or not first else "datatype"
                what[name] = f"another name of the {kind} /{first}"
        for name, words in what.items():
            log.warning("%s:/%s is left out: it is %s", self.source, name, words)
        self._tell_of_growing()
        # Those of other datasets are logged when these are written.
        for name in ("", *tree.groups, *self.copied):
            held = self.tree.datasets.get(name)
            if held is None:
                held = self.file[name or "/"]
            with hdf5.reading(self.source):
                missing = left_out(held, json_attributes(held))
            tell_not_in_json(f"{self.source}:/{name}", missing)
