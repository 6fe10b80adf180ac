# SPDX-License-Identifier: BSD-3-Clause
"""Which address goes to which address, kept compactly, and memory copies made from that.

>>> import numpy as np, datamover as dm
>>> relation = dm.AddressRelation.from_pairs([0, 2, 4], [2, 1, 0], elem_bytes=4)
>>> relation.gather(np.array([10, 11, 12, 13, 14], dtype="i4"))
array([10, 12, 14], dtype=int32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from . import _plan
from ._plan import AddressRelation, BoundCopy, RecomputeModel, RelationCache
from .errors import InvalidArgument, Mismatch, OutOfRange, WrongType
from .machine_model import use_kept

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["AddressRelation", "BoundCopy", "RecomputeModel", "RelationCache", "copy"]

# Encodings are chosen by what was measured here, if anything was.
use_kept()

# How much work goes into telling whether two interleaved views share an element.
_MAX_OVERLAP_WORK = 10_000


def copy(
    source: npt.NDArray,
    destination: npt.NDArray,
    op: str | None = None,
    *,
    source_index: npt.ArrayLike | None = None,
    destination_index: npt.ArrayLike | None = None,
) -> None:
    """Copy one array, or view of an array, to another: any strides, permutation or choice of rows.

    Parameters
    ----------
    source, destination : numpy.ndarray
        Of one shape; strides may be negative. Where the dtypes differ, elements are converted by
        NumPy's rules.
    op : {"add", "multiply", "min", "max"}, optional
        How an element is combined with the one in place; replaced without it.
    source_index, destination_index : (n,) array of int, optional
        Indices into the first dimension, as NumPy counts them: ``destination[destination_index] =
        source[source_index]``. With `op`, destinations may repeat: all contributions are combined.

    Raises
    ------
    Mismatch
        When the shapes differ.
    OutOfRange
        When an index lies outside its dimension.
    InvalidArgument
        When the two overlap in memory, the destination is read-only or has a stride of 0, indices
        repeat at the destination without an `op`, or `op` is another word.
    WrongType
        When the dtypes cannot be converted, or indices are no integers.

    Notes
    -----
    Nothing has been written when an error is raised. The GIL is released meanwhile. Without indices
    the work is the copy alone; for a choice of rows that is used again, keep an `AddressRelation`.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> b = np.zeros((3, 2))
    >>> dm.copy(a.T, b)
    >>> dm.copy(a.T[::-1], b, op="add")
    >>> b
    array([[2., 8.],
           [2., 8.],
           [2., 8.]])
    >>> dm.copy(np.ones(3), b[:, 0], op="add", destination_index=[2, 2, 0])
    >>> b[:, 0]
    array([3., 2., 4.])
    """
    if np.may_share_memory(source, destination) and _overlap(source, destination):
        raise InvalidArgument("source and destination overlap in memory")
    if source_index is None and destination_index is None:
        _plan.copy_strided(source, destination, op)
        return
    from_shape, from_bytes = _element_addresses(source, source_index, "source")
    to_shape, to_bytes = _element_addresses(destination, destination_index, "destination")
    if from_shape != to_shape:
        raise Mismatch(f"the source's choice has shape {from_shape}, the destination's {to_shape}")
    sizes = (source.itemsize, destination.itemsize)
    AddressRelation.from_byte_pairs(from_bytes, to_bytes, sizes).copy(source, destination, op=op)


def _element_addresses(
    array: npt.NDArray, index: npt.ArrayLike | None, name: str
) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """Shape of a choice of rows, and the byte addresses of its elements from the first one."""
    if array.ndim == 0:
        raise InvalidArgument(f"the {name} has no dimension to choose from")
    rows = np.arange(len(array)) if index is None else np.asarray(index)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise WrongType(f"{name}_index must be one row of integers")
    # Compared before they are signed 64-bit numbers, which not all unsigned ones are.
    wrong = rows[(rows < -len(array)) | (rows >= len(array))]
    if wrong.size:
        raise OutOfRange(f"{name}_index holds {wrong[0]}, the {name} has {len(array)} rows")
    rows = rows.astype(np.int64)
    at = np.where(rows < 0, rows + len(array), rows) * array.strides[0]
    for extent, stride in zip(array.shape[1:], array.strides[1:], strict=True):
        at = at[..., np.newaxis] + stride * np.arange(extent)
    return at.shape, at.ravel()


def datatype(
    self: AddressRelation, side: str = "source", element: MPI.Datatype | None = None
) -> MPI.Datatype:
    """One side of the relation as an MPI datatype, committed. Local; loads MPI.

    One of it at the base of the array is the message: its elements come in the relation's order,
    so that it can be sent to the other side's datatype or to a contiguous buffer. Products become
    nested vectors, in time and size independent of the number of elements.

    Parameters
    ----------
    side : {"source", "destination"}
        Which side.
    element : mpi4py.MPI.Datatype, optional
        The type of one element; as many bytes without it.

    Returns
    -------
    mpi4py.MPI.Datatype
        To be freed with `Free`.

    Raises
    ------
    InvalidArgument
        When `side` is another word.
    WrongType
        When `element` is of another size than the relation's elements.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> from mpi4py import MPI
    >>> relation = dm.AddressRelation.from_pairs([0, 3, 4], [2, 1, 0])
    >>> kind = relation.datatype("source", MPI.DOUBLE)
    >>> message = np.zeros(3)
    >>> MPI.COMM_SELF.Sendrecv([np.arange(10.0, 15.0), 1, kind], 0, recvbuf=message)
    >>> message
    array([10., 13., 14.])
    >>> kind.Free()
    """
    if side not in ("source", "destination"):
        raise InvalidArgument(f"side is '{side}', it must be 'source' or 'destination'")
    from mpi4py import MPI

    from .mpi import core

    made = MPI.Datatype()
    core().make_relation_datatype(
        self, side == "source", MPI._addressof(element) if element else 0, MPI._addressof(made)
    )
    return made


# The class is made where there is no MPI; this is the one method that needs it.
AddressRelation.datatype = datatype
# Here is where users and doctest find the classes.
for _class in (AddressRelation, BoundCopy, RecomputeModel, RelationCache):
    _class.__module__ = __name__


def _overlap(a: npt.NDArray, b: npt.NDArray) -> bool:
    """Return whether two arrays share an element, True where that is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=_MAX_OVERLAP_WORK)
    except np.exceptions.TooHardError:
        return True
