# SPDX-License-Identifier: BSD-3-Clause
"""Copying one array or view to another within a process.

>>> import numpy as np, datamover as dm
>>> turned = np.empty((3, 2))
>>> dm.advanced.copy(np.arange(6.0).reshape(2, 3).T, turned)
>>> turned[2]
array([2., 5.])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _plan
from ._plan import AddressRelation
from .arguments import as_array, operation
from .dlpack import array_of
from .errors import InvalidArgument, Mismatch, OutOfRange, WrongType

# Limit on the work to find out whether two interleaved views share an element.
_MAX_OVERLAP_WORK = 10_000


def copy(
    source: npt.NDArray,
    destination: npt.NDArray,
    op: Any = None,
    *,
    source_index: npt.ArrayLike | None = None,
    destination_index: npt.ArrayLike | None = None,
) -> None:
    """Copy one array, or view of an array, to another: any strides, permutation or choice of rows.

    Parameters
    ----------
    source, destination : numpy.ndarray, or an array that supports DLPack
        Arrays of the same shape; strides may be negative. If the dtypes differ, elements are
        converted by NumPy's rules.
    op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
        How to combine an element with the existing one; by default it replaces it.
    source_index, destination_index : (n,) array of int, optional
        Indices into the first dimension, as NumPy counts them: ``destination[destination_index] =
        source[source_index]``. With `op`, destinations may repeat: all contributions are combined.

    Raises
    ------
    Mismatch
        The shapes differ.
    OutOfRange
        An index is outside its dimension.
    InvalidArgument
        The arrays overlap in memory, the destination is read-only, elements of it share memory
        (without an `op`) or have a stride of 0, indices repeat at the destination without an
        `op`, or `op` is unknown.
    WrongType
        The dtypes cannot be converted, or indices are not integers.

    Notes
    -----
    If an error is raised, nothing has been written. The GIL is released during the copy. Without
    indices, the time is that of the copy alone. If you use a choice of rows repeatedly, keep an
    `AddressRelation`.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> b = np.zeros((3, 2))
    >>> dm.advanced.copy(a.T, b)
    >>> dm.advanced.copy(a.T[::-1], b, op="add")
    >>> b
    array([[2., 8.],
           [2., 8.],
           [2., 8.]])
    >>> dm.advanced.copy(np.ones(3), b[:, 0], op="add", destination_index=[2, 2, 0])
    >>> b[:, 0]
    array([3., 2., 4.])
    """
    for name, array in (("source", source), ("destination", destination)):
        if array is None:
            raise WrongType(f"{name} is None, it must be an array")
    source, destination = array_of(source, "source"), array_of(destination, "destination")
    op = operation(op)
    if np.may_share_memory(source, destination) and overlap(source, destination):
        raise InvalidArgument("source and destination overlap in memory")
    if source_index is None and destination_index is None:
        if op == "replace" and isinstance(destination, np.ndarray) and lies_on_itself(destination):
            raise InvalidArgument("elements of the destination share memory")
        _plan.copy_strided(source, destination, op)
        return
    from_shape, from_bytes = _element_addresses(source, source_index, "source")
    to_shape, to_bytes = _element_addresses(destination, destination_index, "destination")
    if from_shape != to_shape:
        raise Mismatch(
            f"the selected part of the source has shape {from_shape}, that of the destination "
            f"{to_shape}"
        )
    sizes = (source.itemsize, destination.itemsize)
    AddressRelation.from_byte_pairs(from_bytes, to_bytes, sizes).copy(source, destination, op=op)


def _element_addresses(
    array: npt.NDArray, index: npt.ArrayLike | None, name: str
) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """Return the shape of a choice of rows, and the byte offsets of its elements from the first."""
    if not hasattr(array, "strides"):
        raise WrongType(f"the {name} is a {type(array).__name__}, it must be an array")
    if array.ndim == 0:
        raise InvalidArgument(f"the {name} has no dimension for {name}_index")
    rows = np.arange(len(array)) if index is None else as_array(index, f"{name}_index")
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise WrongType(f"{name}_index must be a one-dimensional array of integers")
    # Compared before the conversion to signed 64-bit numbers, which some unsigned ones do not fit.
    wrong = rows[(rows < -len(array)) | (rows >= len(array))]
    if wrong.size:
        raise OutOfRange(f"{name}_index contains {wrong[0]}; the {name} has {len(array)} rows")
    rows = rows.astype(np.int64)
    at = np.where(rows < 0, rows + len(array), rows) * array.strides[0]
    for extent, stride in zip(array.shape[1:], array.strides[1:], strict=True):
        at = at[..., np.newaxis] + stride * np.arange(extent)
    return at.shape, at.ravel()


def overlap(a: npt.NDArray, b: npt.NDArray, *, unless_told: bool = True) -> bool:
    """Return whether two arrays share an element; `unless_told` if that is too hard to decide."""
    try:
        # NumPy's types allow only its two named limits.
        return np.shares_memory(a, b, max_work=_MAX_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return unless_told


def lies_on_itself(array: npt.NDArray) -> bool:
    """Return whether two elements of an array share bytes; False if that is too hard to decide."""
    if array.size == 0:
        return False
    reach = array.itemsize
    for stride, extent in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if extent > 1 and stride < reach:
            break
        reach += stride * (extent - 1)
    else:
        return False  # each dimension steps over everything that the previous ones reach
    return any(_meets_itself_along(array, dim) for dim in range(array.ndim))


def _meets_itself_along(array: npt.NDArray, dim: int) -> bool:
    """Return whether elements that differ in this dimension, and in those before it, share bytes.

    Only differences count, so one of the two may be the first along the dimension.
    """
    here: Any = (..., *(0,) * (array.ndim - dim - 1))
    part = array[here]
    return overlap(part[..., :1], part[..., 1:], unless_told=False)
