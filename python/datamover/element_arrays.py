# SPDX-License-Identifier: BSD-3-Clause
"""How do NumPy arrays tell a distribution where elements, and their target ranks, lie?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import element_dtype
from .errors import InvalidArgument, Mismatch, WrongType


class TargetArray:
    """Target ranks in memory: one per element, a table of k per element, or lists by rows."""

    def __init__(self, targets: Any):
        self.row_starts = None
        if isinstance(targets, tuple):
            if len(targets) != 2:
                raise InvalidArgument("targets by rows are a pair (row starts, ranks)")
            starts, targets = targets
            self.row_starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.ranks = np.asarray(targets)
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
        """From one rank to the next."""
        return self.ranks.strides[0] if len(self.ranks) else self.ranks.itemsize


class Column:
    """An array of which the first dimension counts elements."""

    def __init__(self, array: ArrayLike, elems: int, what: str = "column"):
        array = np.asarray(array)
        element_dtype(array.dtype)
        if array.ndim == 0 or len(array) != elems:
            raise Mismatch(f"a {what} has shape {array.shape}, there are {elems} elements")
        if array.size and not array[0].flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape[1:]
        self.elem_bytes = array.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        if self.elem_bytes == 0:
            raise WrongType(f"elements of shape {self.shape} have no bytes")

    @property
    def described(self) -> tuple[int, int, int]:
        """Address, bytes of an element, bytes from one to the next."""
        stride = self.array.strides[0] if len(self.array) else self.elem_bytes
        return (self.array.__array_interface__["data"][0], self.elem_bytes, stride)

    def view(self, raw: np.ndarray, elems: int) -> np.ndarray:
        """View pooled bytes as elements like those of this column."""
        return raw[: elems * self.elem_bytes].view(self.dtype).reshape(elems, *self.shape)


def writable(array: np.ndarray, like: Column, elems: int) -> tuple[int, int]:
    """Describe memory that results are written to."""
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != like.dtype
        or array.shape[1:] != like.shape
    ):
        raise WrongType(f"out must be an array of {like.dtype} with elements of shape {like.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidArgument("out must be contiguous and writable")
    if len(array) < elems:
        raise Mismatch(f"out has room for {len(array)} elements, {elems} are needed")
    return array.__array_interface__["data"][0], array.nbytes
