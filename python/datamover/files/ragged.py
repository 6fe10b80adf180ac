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


def is_of_rows(value: Any) -> bool:
    """Return whether this is a pair of an array and "rows"."""
    return isinstance(value, tuple) and len(value) == 2 and _is_word(value[1])


def layouts_of_rows(address: int, arrays: Any) -> dict[str, Layout]:
    """Return the layouts of arrays of rows, by name. Collective.

    Raises
    ------
    WrongType
        One is not an array with rows.
    Mismatch
        Processes pass different numbers of such arrays.
    """
    shapes = collectively(address, lambda: _shapes(arrays))
    counts = gathered(address, [shape[0] for shape in shapes.values()])
    if len({len(found) for found in counts}) > 1:
        said = [len(found) for found in counts]
        raise Mismatch(f"the processes pass {said} arrays of rows, by rank; pass the same on all")
    by_name = np.array(counts, np.int64).T

    def made() -> dict[str, Layout]:
        return {
            name: _layout(shape[1:], by_name[k].tolist())
            for k, (name, shape) in enumerate(shapes.items())
        }

    return collectively(address, made)  # rows may differ between processes


def shares(name: str, shape: Shape, nprocs: int) -> Layout:
    """Return the layout of equal shares of the rows of a file, in order. Local."""
    if not shape:
        raise WrongType(f"{name!r} has no dimensions, and so no rows")
    each, more = divmod(shape[0], nprocs)
    return _layout(shape[1:], [each + (rank < more) for rank in range(nprocs)])


def _is_word(layout: Any) -> bool:
    return isinstance(layout, str) and layout == ROWS


def _shapes(arrays: Any) -> dict[str, Shape]:
    found = {}
    for name, value in sorted(arrays.items()) if isinstance(arrays, Mapping) else ():
        if is_of_rows(value):
            array = array_of(value[0], repr(name))
            if not isinstance(array, np.ndarray) or array.ndim == 0:
                raise WrongType(
                    f"{name!r} is a {type(value[0]).__name__}; (array, 'rows') is a NumPy array "
                    "with the rows of this process, possibly none"
                )
            found[name] = array.shape
    return found


def _layout(row: Shape, counts: list[int]) -> Layout:
    shape = (sum(counts), *row)
    if 0 in shape:  # a floor plan forgets the extents of empty regions
        words = ", ".join(["block", *("*" for _ in row)])
        return BlockCyclic(shape, f"({words})", len(counts))
    cuts = np.cumsum(counts[:-1]).tolist()
    return FloorPlan.from_splits(shape, [cuts, *([] for _ in row)], len(counts))
