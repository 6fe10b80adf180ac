# SPDX-License-Identifier: BSD-3-Clause
"""Moves of a whole HDF5 file, with its groups, arrays and attributes, to Zarr or HDF5.

To Zarr, a dataset with several names is written under each of them. Objects that Zarr does not
support (links, named datatypes, datasets without a shape) are left out and logged.

To HDF5, groups, attributes, links, named datatypes and dimension scales are created as in the
input, in their order. HDF5 itself copies strings, lists and other objects without a fixed size,
which movers do not support. Chunks stay the same, and are compressed by gzip if they were
compressed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import Unsupported
from datamover.files import (
    hdf5,
    hdf5_attributes,
    hdf5_chunks,
    hdf5_types,
    strings,
    zarr_output,
)
from datamover.files.formats import ArraySpec, Late, MoveOptions, Output, log
from datamover.files.hdf5_format import is_netcdf, json_attributes, losses_in_json
from datamover.files.hdf5_types import h5py
from datamover.files.names import is_utf8
from datamover.files.whole import OfOne, ToZarr, Way

#: Attributes by which scales and their arrays refer to each other: scales are attached again.
OF_SCALES = {"DIMENSION_LIST", "REFERENCE_LIST"}

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

    is_one = False
    as_stored = False
    file: Any
    tree: hdf5.Tree
    left_out: dict[str, str]
    _data: Any

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
                is_copied = self.is_copied(name, where, dataset)
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

    def is_copied(self, name: str, where: str, dataset: Any) -> bool:
        """Return whether a dataset is copied when the output is made, rather than moved.

        Raises
        ------
        Unsupported
            The output cannot have it.
        """
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

    def is_copied(self, name: str, where: str, dataset: Any) -> bool:
        """Return False; reject elements that Zarr does not have."""
        if strings.are_in(dataset):
            self.texts.add(name)
        elif dataset.dtype.hasobject:
            raise Unsupported(f"{where} has elements without a fixed size, lists or references")
        elif refused := _refused(dataset.dtype, self.zarr_format):
            raise Unsupported(f"{where}: {refused}")
        return False

    def _tell_of_growing(self) -> None:
        """Log that Zarr does not distinguish unlimited dimensions, such as records."""
        growing = [f"/{n}" for n, found in self.datasets().items() if None in found.maxshape]
        if growing:
            names = ", ".join(growing[:MOST_NAMED]) + (", …" if len(growing) > MOST_NAMED else "")
            log.warning(
                "%s: Zarr does not record unlimited dimensions, since all its arrays can grow: %s",
                self.source, names,
            )  # fmt: skip

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array."""
        own = dataclasses.replace(options, input_format="hdf5", output_format="zarr", member=name)
        return self.source, own, None

    def make(self, place: str, outputs: Any, options: Any) -> Late:
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
            if name in self.arrays:
                log.warning(
                    "%s:/%s is another name of a dataset: it is copied again", self.source, name
                )
            elif name not in tree.datasets:
                kind = "group" if first in tree.groups or not first else "datatype"
                what[name] = f"another name of the {kind} /{first}"
        for name, words in what.items():
            log.warning("%s:/%s is left out: it is %s", self.source, name, words)
        self._tell_of_growing()
        # Those of datasets are logged when these are written.
        for name in ("", *tree.groups):
            held = self.file[name or "/"]
            with hdf5.reading(self.source):
                losses = losses_in_json(f"{self.source}:/{name}", held, json_attributes(held))
            for words in losses:
                log.warning("%s", words)


class Hdf5ToHdf5(WholeHdf5):
    """See `whole.Way`."""

    as_stored = True

    def datasets(self) -> dict[str, Any]:
        """Return each dataset by its first name."""
        return {n: found for n, found in self.tree.datasets.items() if n not in self.tree.same}

    def is_copied(self, name: str, where: str, dataset: Any) -> bool:
        """Return whether it has no elements of a fixed size, no shape, or was never written."""
        has_objects = strings.is_copied_in_hdf5(where, dataset)
        return has_objects or dataset.shape is None or strings.is_unwritten(dataset)

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array."""
        dataset = self.file[name]
        compressor = None
        if dataset.shape and (dataset.chunks or options.compressor):
            kept = "gzip" if hdf5_chunks.is_compressed(dataset) else "none"
            compressor = options.compressor or kept
        said = dataclasses.replace(
            options, member=name, output_member=name, compressor=compressor,
            input_format="hdf5", output_format="hdf5",
        )  # fmt: skip
        growing = hdf5_chunks.GrowingOptions(**vars(said), most=dataset.maxshape)
        return self.source, growing, None

    def make(self, place: str, outputs: dict[str, Output], options: MoveOptions) -> Late:
        """Create everything except the elements that are moved."""
        self.tell_of_left_out()
        names = [n for n in self.tree.order if self.tree.same.get(n, n) not in self.left_out]

        def fill(made: Any) -> None:
            self._copy_attributes(made, "/")
            if self.copied:  # they may be the only other content of the file
                arrays = sum(self.file[n].id.get_storage_size() for n in self.arrays)
                hdf5.check_growth(made, max(self.file.id.get_filesize() - arrays, 0))
            for name in names:
                self._make(made, name, place, outputs.get(name), options.check)
            for name in (*self.arrays, *self.copied):
                self._attach_scales(made, name)

        needed_bytes = sum(output.spec.nbytes for output in outputs.values())
        hdf5.create_file(place, fill, needed_bytes)
        return {}

    def _make(self, made: Any, name: str, place: str, output: Any, check: str | None) -> None:
        """Create the object with a name."""
        tree, source = self.tree, self.file
        if name in tree.links:
            self._make_link(made, name, place)
        elif name in tree.same:
            made[name] = made[tree.same[name] or "/"]
        elif name in tree.datatypes:
            strings.copy_object(source[name], made, name)
            self._copy_attributes(made, name)
        else:
            held = source[name]
            if name in tree.groups:
                _make_group(made, name, held)
            elif name in self.copied:
                strings.copy_dataset(f"{self.source}:/{name}", held, made, name, check)
            elif output is None or output.spec.nbytes == 0:
                shape = output.spec.shape if output else held.shape
                if name in tree.dimensions:
                    shape = (self.lengths.get(os.path.basename(name), held.shape[0]),)
                strings.make_empty(f"{self.source}:/{name}", held, made, name, shape)
            else:
                if h5py.h5z.FILTER_FLETCHER32 in hdf5_chunks.filters(held):
                    words = "the checksums of its chunks are left out"
                    log.warning("%s:/%s: %s", self.source, name, words)
                output.create_in(made)
            self._copy_attributes(made, name)

    def _copy_attributes(self, made: Any, name: str) -> None:
        to = made[name]
        hdf5_attributes.copy(f"{self.source}:{to.name}", self.file[name], to, OF_SCALES)

    def _make_link(self, made: Any, name: str, place: str) -> None:
        link = self.tree.links[name]
        if link is None:
            log.warning("%s:/%s is left out: it is %s", self.source, name, hdf5.words_of(link))
            return
        made[name] = link
        folders = os.path.dirname(self.source), os.path.dirname(place)
        file_name = getattr(link, "filename", "/")
        if folders[0] != folders[1] and not os.path.isabs(file_name):
            log.warning(
                "%s:/%s is a link to the file %s, which is looked for next to the output now",
                self.source, name, file_name,
            )  # fmt: skip

    def _attach_scales(self, made: Any, name: str) -> None:
        """Attach to a dataset the scales of its dimensions that are in the file."""
        dataset = self.file[name]
        if not hdf5.has_scales(dataset.id):
            return
        for d, dim in enumerate(made[name].dims):
            for k in range(len(dataset.dims[d])):
                scale = None
                with contextlib.suppress(RuntimeError, LookupError, ValueError, OSError):  # removed
                    place = h5py.h5ds.iterate(dataset.id, d, hdf5.place_of, k)
                    scale = self.tree.first_names.get(place)
                if scale is not None and scale not in self.left_out:
                    dim.attach_scale(made[scale])


def _make_group(made: Any, name: str, group: Any) -> None:
    """Create a group that records the order of its contents if another one does."""
    said = group.id.get_create_plist()
    # Not `said` itself: for a large group it contains places in the file, which HDF5 would reuse.
    properties = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    properties.set_link_creation_order(said.get_link_creation_order())
    hdf5.record_order(properties)
    h5py.h5g.create(made.id, name.encode(), lcpl=hdf5.link_properties(), gcpl=properties)
