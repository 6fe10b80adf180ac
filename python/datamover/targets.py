# SPDX-License-Identifier: BSD-3-Clause
"""Target maps: the target process of an element by its key or by its cell of space.

Maps for `datamover.migrate`, evaluated by the library's own loops, once per element.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from .arguments import as_array, int64_array, integer
from .errors import InvalidArgument, Mismatch, WrongType
from .holdings import NOBODY, Holdings
from .layouts import BlockCyclic, FloorPlan, Region
from .mpi import core

Box = tuple[ArrayLike, ArrayLike]
#: The rank that a map returns for keys without a target.
NO_TARGET = -2


@dataclass(frozen=True)
class TargetMap:
    """A map from the elements of an array to ranks; created by the functions of this module.

    Parameters
    ----------
    kind : str
        The name of the map.
    parameters : tuple
        The parameters of the map.
    key : str or None
        The field of structured elements, or the name of one of several arrays, that is the key;
        None for the element itself.
    """

    kind: str
    parameters: tuple[Any, ...]
    key: str | None
    _made: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def ranks(self, elements: np.ndarray, nprocs: int) -> np.ndarray:
        """Evaluate the map for every element. Local, O(elements).

        Parameters
        ----------
        elements : ndarray, (n,) or (n, d), or mapping
            Keys, or structured elements with the field `key`, or arrays of which one is named
            `key`.
        nprocs : int
            The number of processes.

        Returns
        -------
        ndarray of int64, (n,)
            Ranks; -2, which `Migration` rejects, for keys without a target.

        Raises
        ------
        InvalidArgument, Mismatch, OutOfRange, WrongType
            Parameters are not valid, or keys do not fit the map.
        """
        keys = self.keys(elements)
        nprocs = integer(nprocs, "nprocs")
        if nprocs not in self._made:
            self._made[nprocs] = core().TargetMap(self.kind, self.parameters, nprocs)
        dims = 1 if keys.ndim == 1 else keys.shape[1]
        stride = keys.strides[0] if len(keys) else keys.itemsize
        result = np.empty(len(keys), np.int64)
        self._made[nprocs].evaluate(
            (keys.__array_interface__["data"][0], keys.dtype.str, dims, stride, len(keys)),
            result.__array_interface__["data"][0],
        )
        return result

    def keys(self, elements: np.ndarray | Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the keys of elements as the map reads them. Local.

        Parameters
        ----------
        elements : ndarray or mapping
            As for `ranks`.

        Returns
        -------
        ndarray, (n,) or (n, d)
            The keys of an element are contiguous, in the machine's byte order.

        Raises
        ------
        InvalidArgument
            The field is missing, or keys have more dimensions.
        """
        keys: Any = elements if isinstance(elements, Mapping) else as_array(elements, "keys")
        names = keys if isinstance(keys, Mapping) else keys.dtype.names
        if names is not None:
            if self.key is None:
                raise InvalidArgument(
                    f"the elements have fields {list(names)}; create the map with key=, for "
                    "example dm.targets.modulo(key='id')"
                )
            keys = as_array(field_of(keys, self.key), f"array {self.key!r}")
        if keys.ndim not in (1, 2):
            raise InvalidArgument(f"keys have shape {keys.shape}; it must be (n,) or (n, d)")
        if not keys.dtype.isnative:
            keys = keys.astype(keys.dtype.newbyteorder("="))
        if keys.ndim == 2 and len(keys) and not keys[0].flags.c_contiguous:
            keys = np.ascontiguousarray(keys)
        return keys


def field_of(elements: Any, name: str) -> Any:
    """Return a field of structured elements, or one of several arrays, by its name."""
    if isinstance(elements, Mapping):
        if name not in elements:
            raise InvalidArgument(f"there is no array {name!r} among {list(elements)}")
    elif name not in (elements.dtype.names or ()):
        raise InvalidArgument(f"elements of {elements.dtype} have no field {name!r}")
    return elements[name]


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
        Number of keys.
    key : str, optional
        The field of structured elements that is the key.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> dm.targets.block(10).ranks(np.arange(10), nprocs=4)
    array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    """
    keys = int64_array([integer(total, "total")], "a total of keys")
    return TargetMap("block", (keys.item(),), key)


def splitters(values: ArrayLike, key: str | None = None) -> TargetMap:
    """Map keys by search: those below `values[0]` to process 0, and so on.

    Parameters
    ----------
    values : array_like of float or int, ascending
        One fewer than processes. Integers, as values or as keys, are compared exactly.
    key : str, optional
        The field of structured elements that is the key.

    Raises
    ------
    WrongType
        Values are not numbers, or do not fit a common 64-bit type.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> dm.targets.splitters([0.5, 2.0]).ranks(np.array([0.4, 0.5, 7.0]), nprocs=3)
    array([0, 1, 2])
    >>> dm.targets.splitters([2**60]).ranks(np.array([2**60 - 1, 2**60]), nprocs=2)
    array([0, 1])
    """
    return TargetMap("splitters", (_split_values(values),), key)


def _split_values(values: ArrayLike) -> np.ndarray:
    """Return splitters unchanged, in a 64-bit type."""
    given = as_array(values, "splitters")
    if given.ndim != 1:
        raise InvalidArgument(f"splitters have shape {given.shape}, it must be (n,)")
    kind = "f8" if given.size == 0 or given.dtype.kind == "f" else given.dtype.kind + "8"
    if kind not in ("f8", "i8", "u8"):
        raise WrongType(f"splitters must be real numbers of 64 bits, not of dtype {given.dtype}")
    held = np.ascontiguousarray(given, dtype=kind)
    # NumPy converts some lists of integers, and wider numbers, to doubles.
    for value, kept in zip(cast(Any, values), held.tolist(), strict=True):
        if value == value and value != kept:
            raise WrongType(f"splitter {value!r} does not fit a 64-bit type with the others")
    return held


def _corners(box: Box) -> tuple[list[float], list[float]]:
    """Return the lower and the upper corner of a box, each as a list."""
    try:
        lo, hi = (np.asarray(corner, dtype=float).ravel().tolist() for corner in box)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"box is {box!r}; it must be its lower and its upper corner, of numbers each"
        ) from None
    return lo, hi


def _cells(order: str, box: Box, cells: Any, owners: Any, periodic: Any, key: Any) -> TargetMap:
    lo, hi = _corners(box)
    if isinstance(owners, FloorPlan | BlockCyclic):
        raise WrongType(
            f"owners of cells along the {order} curve must be integers; grid takes a layout"
        )
    table = None if owners is None else int64_array(owners, "owners of cells").ravel()
    counts = int64_array(cells, "numbers of cells").ravel().tolist()
    return TargetMap("cells", (order, lo, hi, counts, bool(periodic), table), key)


def grid(
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | FloorPlan | BlockCyclic | None = None,
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
        Number of cells in each dimension, 1 to 8 dimensions.
    owners : array_like of int, or FloorPlan or BlockCyclic, optional
        The process of each cell, in their order; -1 drops elements. For `grid`, also a layout of
        the cells, whose owners are used (-1 if a cell has none). By default, processes get equal
        parts of the order.
    periodic : bool
        Wrap positions outside the box; by default they belong to the nearest cell.
    key : str
        The field of structured elements that is the position.

    Examples
    --------
    The process that holds the cell of a field:

    >>> import numpy as np, datamover as dm
    >>> field = dm.FloorPlan.uniform(dm.Region((0, 0), (4, 6)), (1, 2), nprocs=2)
    >>> map = dm.targets.grid(((0, 0), (1, 1)), (4, 6), owners=field)
    >>> map.ranks(np.array([[0.9, 0.1], [0.1, 0.9]]), nprocs=2)
    array([0, 1])
    """
    if isinstance(owners, FloorPlan | BlockCyclic):
        owners = _owners_of_cells(owners, cells)
    return _cells("row_major", box, cells, owners, periodic, key)


def _owners_of_cells(layout: FloorPlan | BlockCyclic, cells: Sequence[int]) -> np.ndarray:
    """Return the rank that owns each cell; if boxes overlap, that of the lowest block."""
    extents = tuple(int64_array(cells, "numbers of cells").ravel().tolist())
    whole = Region.from_shape(extents)
    if not whole.contains(layout.domain):
        raise Mismatch(f"the layout covers {layout.domain}; there are {extents} cells")
    table = np.full(extents, NOBODY, np.int64)
    each = [np.arange(n + 1) for n in layout.domain.shape]
    table[layout.domain.slices()] = Holdings(layout, range(len(each)), edges=each).owners
    return table


def morton(
    box: Box,
    cells: Sequence[int],
    owners: ArrayLike | None = None,
    *,
    periodic: bool = False,
    key: str | None = "pos",
) -> TargetMap:
    """Map positions to the owner of their cell, cells in Z order (Morton order).

    Parameters are those of `grid`. If the numbers of cells are not powers of two, the curve skips
    the cells outside.

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

    Parameters are those of `grid`. If the numbers of cells are not powers of two, the curve skips
    the cells outside.

    Notes
    -----
    Source: J. Skilling, Programming the Hilbert Curve, 2004.
    """
    return _cells("hilbert", box, cells, owners, periodic, key)
