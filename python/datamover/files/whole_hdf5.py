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
    """A file, or what lies at an address. Every process has its own.

    Attributes
    ----------
    source : str
    file, tree
        While it is open.
    arrays, copied : dict
        See `hierarchy.Way`.
    as_stored : bool
        As of `hdf5_types.dtype_of`.
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
        """Open it, and look at what is in it."""
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
                    f"{self.source} has {name!r}, which is no UTF-8; move its datasets one by one"
                ) from None

    @property
    def groups(self) -> Iterable[str]:
        """Give the names of groups."""
        return self.tree.groups

    def datasets(self) -> dict[str, Any]:
        """Give the datasets that go to the output, by name."""
        return self.tree.datasets

    def is_copied(self, dataset: Any) -> bool:
        """Tell whether no mover takes a dataset, and one process copies it."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse what cannot be in the output."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Refuse what lies at an address and was replaced: of one file all datasets are to be."""
        if self._data is not None:
            self._data.check_unchanged()
