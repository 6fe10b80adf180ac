# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays as element columns and target ranks of a distribution."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.format import dtype_to_descr
from numpy.typing import ArrayLike

from .arguments import as_array, int64_array, refuse_mask
from .arrays import element_dtype, type_word
from .dlpack import array_of, is_exported
from .errors import InvalidArgument, Mismatch, WrongType
from .targets import TargetMap


class TargetArray:
    """Target ranks in memory: one per element, a table of k per element, or lists by rows."""

    def __init__(self, targets: Any):
        if isinstance(targets, TargetMap):
            raise WrongType(
                "migration takes ranks, not a map: pass map.ranks(elements, nprocs), or call "
                "dm.migrate(elements, target=map, comm=comm)"
            )
        if callable(targets):
            raise WrongType("targets are a function; they must be ranks: pass its result")
        self.row_starts = None
        if isinstance(targets, tuple):
            if len(targets) != 2:
                raise InvalidArgument("targets by rows must be a pair (row starts, ranks)")
            starts, targets = targets
            self.row_starts = int64_array(starts, "row starts")
        self.ranks = as_array(targets, "targets")
        if self.ranks.size == 0:
            self.ranks = self.ranks.astype(np.int64)
        if self.ranks.dtype.kind not in "iu":
            raise WrongType(f"targets must be integers, not of dtype {self.ranks.dtype}")
        if not self.ranks.dtype.isnative:
            self.ranks = self.ranks.astype(self.ranks.dtype.newbyteorder("="))
        self._shape()

    def _shape(self) -> None:
        if self.row_starts is not None:
            if self.ranks.ndim != 1 or self.row_starts.ndim != 1 or self.row_starts.size == 0:
                raise InvalidArgument("row starts and ranks must have one dimension")
            if self.row_starts[-1] != len(self.ranks):
                raise Mismatch(
                    f"the last row ends at {self.row_starts[-1]}, there are {len(self.ranks)} ranks"
                )
            self.elems, self.per_elem = len(self.row_starts) - 1, 1
        elif self.ranks.ndim == 1:
            self.elems, self.per_elem = len(self.ranks), 1
        elif self.ranks.ndim == 2 and self.ranks.shape[1] > 0:
            self.elems, self.per_elem = self.ranks.shape
            self.ranks = np.ascontiguousarray(self.ranks).reshape(-1)
        else:
            raise InvalidArgument(
                f"targets have shape {self.ranks.shape}; it must be (n,) or (n, k) with k > 0"
            )

    @property
    def stride_bytes(self) -> int:
        """Bytes from one rank to the next."""
        return self.ranks.strides[0] if len(self.ranks) else self.ranks.itemsize


class Column:
    """An array whose first dimension counts elements."""

    def __init__(self, array: ArrayLike, elems: int, what: str = "column", name: Any = None):
        array = as_array(array, f"a {what}")
        element_dtype(array.dtype)
        if array.ndim == 0 or len(array) != elems:
            raise Mismatch(f"a {what} has shape {array.shape}, there are {elems} elements")
        if array.size and not array[0].flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape[1:]
        self.elem_bytes = array.dtype.itemsize * math.prod(self.shape)
        self.name = name
        if self.elem_bytes == 0:
            raise WrongType(f"elements of shape {self.shape} have no bytes")

    @property
    def described(self) -> tuple[int, int, int, str, str]:
        """Address, bytes of an element, bytes from one to the next, type and its name."""
        stride = self.array.strides[0] if len(self.array) else self.elem_bytes
        address = self.array.__array_interface__["data"][0]
        return (address, self.elem_bytes, stride, type_word(self.dtype), self._type_name())

    def _type_name(self) -> str:
        """Return the type in words, which must be equal on all processes."""
        kind = (
            type_word(self.dtype) if self.dtype.names is None else str(dtype_to_descr(self.dtype))
        )
        shape = f" × {self.shape}" if self.shape else ""
        return (f"{self.name!r}: " if self.name is not None else "") + kind + shape

    def view(self, raw: np.ndarray, elems: int) -> np.ndarray:
        """View pooled bytes as elements like those of this column."""
        return raw[: elems * self.elem_bytes].view(self.dtype).reshape(elems, *self.shape)


class Moving:
    """The columns of one move, their destinations, and the form of the result.

    Several arguments are returned as a tuple, and a single one as it is; a list, a tuple or a
    mapping of arrays is returned as a list, a tuple or a dictionary. Anything else is one array.
    `allocate` makes destinations if there are none; without it, the move itself does.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        given: tuple[Any, ...],
        out: Any,
        what: str = "column",
        allocate: Callable[[int], np.ndarray] | None = None,
    ):
        elems, self.received = sizes
        first: Any = given[0] if len(given) == 1 else None
        names: list[Any] | None = None
        self._container: Callable[[list[np.ndarray]], Any] = tuple
        if isinstance(first, Mapping):
            names = keys = list(first)
            given = tuple(first.values())
            self._container = lambda results: dict(zip(keys, results, strict=True))
        elif is_several(first):
            self._container, given = type(first), first
        elif len(given) == 1:
            self._container = operator.itemgetter(0)
        pairs = zip(given, names or [None] * len(given), strict=True)
        self._columns = [Column(array, elems, what, name) for array, name in pairs]
        self._outputs = None if out is None else _outputs(out, names, len(given))
        if out is None and allocate is not None:
            n = self.received
            self._outputs = [c.view(allocate(n * c.elem_bytes), n) for c in self._columns]
        self.raw: Any = None  # the arrived bytes of each column, without destinations
        self.arguments: list[Any] = [[c.described for c in self._columns]]
        if self._outputs is not None:
            ends = zip(self._outputs, self._columns, strict=True)
            self.arguments.append([writable(o, c, self.received) for o, c in ends])

    def results(self) -> Any:
        """Return the arrived elements in the form of the columns."""
        if self._outputs is None:
            pairs = zip(self._columns, self.raw, strict=True)
            return self._container([c.view(r, self.received) for c, r in pairs])
        return self._container([array[: self.received] for array in self._outputs])


def _outputs(out: Any, names: list[Any] | None, count: int) -> list[np.ndarray]:
    """Return the destination of each array in `out`, which has the form of the columns."""
    if names is not None:
        if not isinstance(out, Mapping) or set(out) != set(names):
            raise InvalidArgument(f"out must be a mapping with the keys {names}")
        return [array_of(out[name], f"out[{name!r}]") for name in names]
    if isinstance(out, np.ndarray) or is_exported(out):
        out = [out]
    if not isinstance(out, Sequence) or isinstance(out, (str, bytes)):
        raise InvalidArgument(f"out is a {type(out).__name__}; it must be one or several arrays")
    if len(out) != count:
        raise Mismatch(f"there are {count} columns, but {len(out)} arrays in out")
    return [array_of(array, "out") for array in out]


def is_several(given: Any) -> bool:
    """Return whether this is a list or a tuple of arrays, and not one array as nested lists."""
    listed = type(given) in (list, tuple) and len(given) > 0
    return listed and all(isinstance(a, np.ndarray) or is_exported(a) for a in given)


def writable(array: np.ndarray, like: Column, elems: int, name: str = "out") -> tuple[int, int]:
    """Return address and size of memory for results."""
    refuse_mask(array, name)
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != like.dtype
        or array.shape[1:] != like.shape
    ):
        raise WrongType(
            f"{name} must be an array of {like.dtype} with elements of shape {like.shape}"
        )
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidArgument(f"{name} must be contiguous and writable")
    if array.ndim == 0 or len(array) < elems:
        room = len(array) if array.ndim else 0
        raise Mismatch(f"{name} has room for {room} elements; {elems} are needed")
    return array.__array_interface__["data"][0], array.nbytes
