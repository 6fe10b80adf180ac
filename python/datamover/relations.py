# SPDX-License-Identifier: BSD-3-Clause
"""Which address goes to which address, kept compactly, and memory copies made from that.

>>> import numpy as np, datamover as dm
>>> relation = dm.AddressRelation.from_pairs([0, 2, 4], [2, 1, 0], elem_bytes=4)
>>> relation.gather(np.array([10, 11, 12, 13, 14], dtype="i4"))
array([10, 12, 14], dtype=int32)
"""

import numpy as np
import numpy.typing as npt

from . import _plan
from ._plan import AddressRelation
from .errors import InvalidArgument

__all__ = ["AddressRelation", "copy"]

# Here is where users and doctest find the class.
AddressRelation.__module__ = __name__

# How much work goes into telling whether two interleaved views share an element.
_MAX_OVERLAP_WORK = 10_000


def copy(source: npt.NDArray, destination: npt.NDArray, op: str | None = None) -> None:
    """Copy one array, or view of an array, to another: any strides, any permutation of axes.

    Parameters
    ----------
    source, destination : numpy.ndarray
        Of one shape; strides may be negative. Where the dtypes differ, elements are converted by
        NumPy's rules.
    op : {"add", "multiply", "min", "max"}, optional
        How an element is combined with the one in place; replaced without it.

    Raises
    ------
    Mismatch
        When the shapes differ.
    InvalidArgument
        When the two overlap in memory, the destination is read-only or has a stride of 0, or `op`
        is another word.
    WrongType
        When the dtypes cannot be converted.

    Notes
    -----
    Nothing has been written when an error is raised. The GIL is released meanwhile.

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
    """
    if np.may_share_memory(source, destination) and _overlap(source, destination):
        raise InvalidArgument("source and destination overlap in memory")
    _plan.copy_strided(source, destination, op)


def _overlap(a: npt.NDArray, b: npt.NDArray) -> bool:
    """Return whether two arrays share an element, True where that is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=_MAX_OVERLAP_WORK)
    except np.exceptions.TooHardError:
        return True
