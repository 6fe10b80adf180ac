# SPDX-License-Identifier: BSD-3-Clause
"""Loading of arrays: inspects the file, reads it, and moves the elements to their processes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import InvalidArgument, Mismatch, WrongType
from datamover.files.agreement import together
from datamover.files.state_items import Item, agree_on, check_items, refuse_shared_memory
from datamover.files.state_stores import Origin, whole
from datamover.files.state_work import Work

if TYPE_CHECKING:
    from mpi4py import MPI


class Load(Work):
    """One load on one process."""

    def __init__(
        self, comm: MPI.Comm, address: int, origin: Origin, targets: dict[str, Item | None]
    ):
        super().__init__(comm, address, to_file=False)
        self.origin, self.targets = origin, targets
        self.items = {name: item for name, item in targets.items() if item is not None}
        self.specs: dict[str, Any] = {}
        self.dtypes: dict[str, np.dtype] = {}
        self.values: dict[str, Any] = {}
        self._granules: dict[str, Any] = {}

    def open(self, name: str) -> Any:
        """Open an array for reading."""
        return self.origin.open(name)

    def look(self) -> None:
        """Read the file's contents, and check that they fit the targets. Local."""
        if self.origin.names == (None,) and len(self.targets) > 1:
            raise InvalidArgument(
                f"{self.origin.path} holds one array; {len(self.targets)} are to be loaded: "
                f"{', '.join(self.targets)}"
            )
        check_items(self.items, self.comm)
        for name in self.targets:
            self.specs[name], self._granules[name] = self.origin.described(name)
        for name, item in self.items.items():
            self._check(name, item)
        refuse_shared_memory(self.items, self.comm.rank)
        self.values = self.origin.values()

    def _check(self, name: str, item: Item) -> None:
        spec = self.specs[name]
        if item.shape != spec.shape:
            raise Mismatch(
                f"{name!r} has the shape {spec.shape} in {self.origin.path}; the layout has "
                f"{item.shape}"
            )
        self.dtypes[name] = native_dtype(spec.dtype)
        given = item.dtype
        if given is not None and given != self.dtypes[name]:
            _check_conversion(name, self.dtypes[name], given)

    def agree(self) -> None:
        """Check that all processes have the same file and targets. Collective."""
        said: dict[str, Any] = {
            "path=": self.origin.path,
            "readers=": self.ranks,
            "max_bytes=": self.max_bytes,
            "values": sorted((name, repr(value)) for name, value in self.values.items()),
            "names": [*self.targets],
        }
        for name, item in self.targets.items():
            wanted = item and (item.shape, item.origin, item.array is None)
            spec = self.specs[name]
            said[f"targets for {name!r}"] = (
                wanted,
                spec.shape,
                str(spec.dtype),
                spec.order,
                self._granules[name],
            )
        agree_on(self.address, said)
        self.agree_on_files()

    def run(self) -> dict[str, Any]:
        """Load all arrays. Collective."""
        from datamover.arrays import Array

        made: dict[str, Array] = {}
        try:
            for name, item in self.items.items():
                if item.array is None:
                    item.array = Array(item.layout, self.dtypes[name], comm=self.comm)
                    made[name] = item.array
            wholes = self._load_wholes()
            self.transfer(self.plan(self.dtypes))
            with together(self.comm):
                self.origin.check_still_there()
        except BaseException:
            for array in made.values():
                array.close()
            raise
        given = {name: item.array for name, item in self.items.items() if name not in made}
        return {**given, **made, **wholes}

    def _load_wholes(self) -> dict[str, np.ndarray]:
        """Read arrays that every process requests as a whole."""
        found = {}
        with together(self.comm):
            for name, item in self.targets.items():
                if item is None:
                    with contextlib.closing(self.open(name)) as file:
                        array = whole(file)
                        found[name] = array.astype(native_dtype(array.dtype), copy=False)
        return found


def native_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of numbers in the byte order of the machine; records stay unchanged."""
    return dtype if dtype.names else dtype.newbyteorder("=")


def _check_conversion(name: str, stored: np.dtype, given: np.dtype) -> None:
    from datamover.movers import converts

    if not converts(stored, given):
        raise WrongType(
            f"{name!r} has elements of {stored} in the file; the given array has {given}: "
            "only numbers in this machine's byte order are converted, as NumPy does under "
            '"same_kind"'
        )
