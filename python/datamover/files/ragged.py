# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of rows, of which each process has its own number, such as particles.

The file has the rows of all processes, one process after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from datamover.dlpack import array_of
from datamover.errors import Mismatch, WrongType
from datamover.files.formats import Shape
from datamover.layouts import BlockCyclic, FloorPlan, Layout
from datamover.mpi import collectively, gathered

#: Stands for the layout.
ROWS = "rows"


def is_rows(layout: Any) -> bool:
    """Return whether this is the word in place of a layout."""
    return isinstance(layout, str) and layout == ROWS


class Rows:
    """The shapes and numbers of rows of the arrays to save. Creating it is collective.

    Raises
    ------
    WrongType
        One is not an array with rows.
    """

    def __init__(self, address: int, arrays: Any):
        self._shapes = collectively(address, lambda: _shapes(arrays))
        self._counts = gathered(address, [shape[0] for shape in self._shapes.values()])

    def layouts(self) -> dict[str, Layout]:
        """Return the layouts, by name. Local; processes may raise different errors.

        Raises
        ------
        Mismatch
            Processes pass different numbers of such arrays.
        Error
            As for a layout of this shape.
        """
        said = [len(found) for found in self._counts]
        if len(set(said)) > 1:
            raise Mismatch(
                f"the processes pass {said} arrays of rows, by rank; pass the same on all"
            )
        by_name = np.array(self._counts, np.int64).T
        return {
            name: _layout(shape, by_name[k].tolist())
            for k, (name, shape) in enumerate(self._shapes.items())
        }


def shares(name: str, shape: Shape, nprocs: int) -> Layout:
    """Return the layout of equal shares of the rows of a file, in order. Local."""
    if not shape:
        raise WrongType(f"{name!r} has no dimensions, and so no rows")
    if 0 in shape:
        return _empty(shape, nprocs)
    return FloorPlan.uniform(shape, (nprocs, *(1 for _ in shape[1:])), nprocs)


def _shapes(arrays: Any) -> dict[str, Shape]:
    found = {}
    for name, value in sorted(arrays.items()) if isinstance(arrays, Mapping) else ():
        if isinstance(value, tuple) and len(value) == 2 and is_rows(value[1]):
            array = array_of(value[0], repr(name))
            if not isinstance(array, np.ndarray) or array.ndim == 0:
                raise WrongType(
                    f"{name!r} is a {type(value[0]).__name__}; (array, 'rows') is a NumPy array "
                    "with the rows of this process, possibly none"
                )
            found[name] = array.shape
    return found


def _layout(own: Shape, counts: list[int]) -> Layout:
    """Return the layout of an array of which this process's part has the shape `own`."""
    shape = (sum(counts), *own[1:])
    if 0 in shape:
        return _empty(shape, len(counts))
    cuts = np.cumsum(counts[:-1]).tolist()
    return FloorPlan.from_splits(shape, [cuts, *([] for _ in own[1:])], len(counts))


def _empty(shape: Shape, nprocs: int) -> Layout:
    """Return a layout of no elements that keeps its shape, which floor plans do not."""
    words = ", ".join(["block", *("*" for _ in shape[1:])])
    return BlockCyclic(shape, f"({words})", nprocs)
