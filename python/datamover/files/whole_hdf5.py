# SPDX-License-Identifier: BSD-3-Clause
"""Contents of an HDF5 file that is moved as a whole, and the datasets that movers support."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import hdf5, hdf5_types
from datamover.files.formats import ArraySpec, Shape


class WholeHdf5:
    """A file, or an object at an address. Every process has its own.

    Attributes
    ----------
    source : str
    file, tree
        Set while it is open.
    arrays, copied : dict
        See `hierarchy.Way`.
    as_stored : bool
        See `hdf5_types.dtype_of`.
    """

    as_stored = False

    def __init__(self, source: str):
        self.source = source
        self.file: Any = None
        self.tree = hdf5.Tree()
        self.arrays: dict[str, Shape] = {}
        self.copied: dict[str, ArraySpec] = {}
        self._data: Any = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open it, and read its contents."""
        self._data = hdf5.bytes_at(self.source)
        with hdf5.open_file(self.source, self._data) as self.file:
            self.tree = hdf5.tree(self.file)
            self._check_names()
            datasets = self.datasets()
            dtypes = {
                name: hdf5_types.dtype_of(
                    dataset.id.get_type(), f"{self.source}:/{name}", self.as_stored
                )
                for name, dataset in datasets.items()
            }
            self.copied = {
                name: ArraySpec(dataset.shape or (), dtypes[name])
                for name, dataset in datasets.items()
                if self.is_copied(dataset)
            }
            self.arrays = {n: found.shape for n, found in datasets.items() if n not in self.copied}
            self.check()
            if not self.arrays and not self.copied:
                but = " that Zarr has" if self.tree.datasets else ""
                raise InvalidArgument(f"{self.source} has no datasets{but}")
            yield
        self.file, self.tree = None, hdf5.Tree()

    def _check_names(self) -> None:
        for name in self.tree.order:
            try:
                name.encode()
            except UnicodeEncodeError:
                raise Unsupported(
                    f"{self.source} has {name!r}, which is not UTF-8; move its datasets one by one"
                ) from None

    @property
    def groups(self) -> Iterable[str]:
        """Return the names of groups."""
        return self.tree.groups

    def datasets(self) -> dict[str, Any]:
        """Return the datasets that are moved to the output, by name."""
        return self.tree.datasets

    def is_copied(self, dataset: Any) -> bool:
        """Return whether movers do not support a dataset, so that one process copies it."""
        raise NotImplementedError

    def check(self) -> None:
        """Reject contents that the output cannot have."""
        raise NotImplementedError

    def complete(self, place: str) -> None:
        """Do nothing: all is done when the arrays are moved."""

    def check_unchanged(self) -> None:
        """Raise if an object at an address was replaced: all datasets must be of one file."""
        if self._data is not None:
            self._data.check_unchanged()
