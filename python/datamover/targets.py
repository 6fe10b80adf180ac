# SPDX-License-Identifier: BSD-3-Clause
"""To which process does an element go, by its key or by the cell of space that it lies in?

Maps for `datamover.distribute`, evaluated by the library's own loops, once per element.

Examples
--------
>>> import numpy as np, datamover as dm
>>> dm.targets.modulo().ranks(np.array([5, -1, 8]), nprocs=4)
array([1, 3, 0])
>>> box = dm.targets.grid(((0, 0), (1, 1)), cells=(2, 2))
>>> box.ranks(np.array([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.9]]), nprocs=4)
array([0, 1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import InvalidArgument
from .mpi import core

Box = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class TargetMap:
    """A map from the elements of an array to ranks; made by the functions of this module.

    Parameters
    ----------
    kind : str
        The name of the map.
    parameters : tuple
        What the map of this kind takes.
    key : str or None
        The field of structured elements that is the key; None: the element itself.
    """

    kind: str
    parameters: tuple[Any, ...]
    key: str | None

    def ranks(self, elements: np.ndarray, nprocs: int) -> np.ndarray:
        """Evaluate the map for every element. Local, O(elements).

        Parameters
        ----------
        elements : ndarray, (n,) or (n, d)
            Keys, or structured elements that have the field `key`.
        nprocs : int
            The number of processes.

        Returns
        -------
        ndarray of int64, (n,)
            Ranks; -2, which `Distribution` refuses, for keys that have no target.

        Raises
        ------
        InvalidArgument, Mismatch, WrongType
            Parameters that make no sense, or keys that do not fit the map.
        """
        keys = np.asarray(elements)
        if keys.dtype.names is not None:
            if self.key not in keys.dtype.names:
                raise InvalidArgument(f"elements of {keys.dtype} have no field {self.key!r}")
            keys = keys[self.key]
        if keys.ndim not in (1, 2):
            raise InvalidArgument(f"keys have shape {keys.shape}; it must be (n,) or (n, d)")
        if not keys.dtype.isnative:
            keys = keys.astype(keys.dtype.newbyteorder("="))
        dims = 1 if keys.ndim == 1 else keys.shape[1]
        if len(keys) and not keys[0].flags.c_contiguous:
            keys = np.ascontiguousarray(keys)
        stride = keys.strides[0] if len(keys) else keys.itemsize
        result = np.empty(len(keys), np.int64)
        core().evaluate_targets(
            self.kind,
            self.parameters,
            nprocs,
            (keys.__array_interface__["data"][0], keys.dtype.str, dims, stride, len(keys)),
            result.__array_interface__["data"][0],
        )
        return result


def modulo(key: str | None = None) -> TargetMap:
    """Map integer keys to key modulo the number of processes.

    Parameters
    ----------
    key : str, optional
        The field of structured elements that is the key.
    """
    return TargetMap("modulo", (), key)


def block(total: int, key: str | None = None) -> TargetMap:
    """Map integer keys from 0 to `total` - 1 in blocks of ceil(total / processes).

    Parameters
    ----------
    total : int
        How many keys there are.
    key : str, optional
        The field of structured elements that is the key.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> dm.targets.block(10).ranks(np.arange(10), nprocs=4)
    array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    """
    return TargetMap("block", (int(total),), key)


def splitters(values: ArrayLike, key: str | None = None) -> TargetMap:
    """Map keys by search: those below `values[0]` to process 0, and so on.

    Parameters
    ----------
    values : array_like of float, ascending
        One fewer than processes.
    key : str, optional
        The field of structured elements that is the key.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> dm.targets.splitters([0.5, 2.0]).ranks(np.array([0.4, 0.5, 7.0]), nprocs=3)
    array([0, 1, 2])
    """
    return TargetMap("splitters", (np.asarray(values, dtype=float).tolist(),), key)


def _cells(
    order: str,
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | None,
    periodic: bool,
    key: str | None,
) -> TargetMap:
    lo, hi = (np.asarray(corner, dtype=float).ravel().tolist() for corner in box)
    table = None if owners is None else np.ascontiguousarray(owners, dtype=np.int64)
    counts = [int(n) for n in cells]
    return TargetMap("cells", (order, lo, hi, counts, bool(periodic), table), key)


def grid(
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | None = None,
    *,
    periodic: bool = False,
    key: str | None = "pos",
) -> TargetMap:
    """Map positions to the owner of their cell in a regular grid, cells in row-major order.

    Parameters
    ----------
    box : pair of sequence of float
        The lower and the upper corner of space.
    cells : sequence of int
        How many cells in each dimension, 1 to 8 dimensions.
    owners : array_like of int, optional
        The process of each cell, in their order; without it processes get equal parts of the order.
    periodic : bool
        Wrap positions outside the box; else they count to the nearest cell.
    key : str
        The field of structured elements that is the position.
    """
    return _cells("row_major", box, cells, owners, periodic, key)


def morton(
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | None = None,
    *,
    periodic: bool = False,
    key: str | None = "pos",
) -> TargetMap:
    """Map positions to the owner of their cell, cells in Z order (Morton order).

    Parameters are those of `grid`; where cells are no power of two the curve skips what is outside.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> z = dm.targets.morton(((0, 0), (1, 1)), cells=(2, 2))
    >>> z.ranks(np.array([[0.1, 0.9], [0.9, 0.1]]), nprocs=4)
    array([1, 2])
    """
    return _cells("morton", box, cells, owners, periodic, key)


def hilbert(
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | None = None,
    *,
    periodic: bool = False,
    key: str | None = "pos",
) -> TargetMap:
    """Map positions to the owner of their cell, cells in Hilbert order.

    Parameters are those of `grid`; where cells are no power of two the curve skips what is outside.

    Notes
    -----
    Source: J. Skilling, Programming the Hilbert Curve, 2004.
    """
    return _cells("hilbert", box, cells, owners, periodic, key)
