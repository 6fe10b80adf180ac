# SPDX-License-Identifier: BSD-3-Clause
"""Registration of arrays that are located in shared memory of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import refuse_mask
from .errors import InvalidArgument, WrongType
from .mpi import core

if TYPE_CHECKING:
    from mpi4py import MPI

try:
    from numpy.lib.array_utils import byte_bounds
except ImportError:  # NumPy 1
    from numpy import byte_bounds  # type: ignore[attr-defined, no-redef]


class _InWindow:
    """Keeps the array's memory registered for as long as NumPy keeps this object."""

    def __init__(self, array: np.ndarray, memory: Any) -> None:
        self._array = array
        self._memory = memory
        # As plain bytes: NumPy cannot read back its own description of floats of 8 bits.
        raw = array.view(f"V{array.itemsize}")
        self.__array_interface__ = raw.__array_interface__


def in_window(window: MPI.Win, array: np.ndarray) -> np.ndarray:
    """Register an array in a shared window of MPI, so that the node can access it. Local.

    The library's own arrays (`Array`) are in shared memory anyway. Arrays of the user are not, and
    are moved by copies of the operating system or by messages. Arrays in a window that was created
    with ``MPI.Win.Allocate_shared`` can be copied directly if you register them.

    Parameters
    ----------
    window
        Created with ``MPI.Win.Allocate_shared``. It must outlive the movers bound to the array.
    array
        Elements in one process's part of the window, with any strides.

    Returns
    -------
    numpy.ndarray
        The same elements, for `Mover` and `UserArrays`. Movers bound to it access it directly;
        `array` itself is registered too, as long as the result exists.

    Raises
    ------
    InvalidArgument
        The array is stored elsewhere, or the window is of another kind.
    WrongType
        The arguments are not a window and a NumPy array, or the array is masked.

    Notes
    -----
    The library does not check whether a process writes elements that another one reads.

    Each process registers its own arrays. Pairs with a process that has not are moved as before.
    Takes O(memory mappings of this process): the library looks up the file that MPI has mapped.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np
    >>> import datamover as dm
    >>> node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    >>> window = MPI.Win.Allocate_shared(8 * 100, 8, comm=node)
    >>> mine, _ = window.Shared_query(node.rank)
    >>> u = dm.advanced.in_window(window, np.frombuffer(mine, "f8"))
    >>> u.shape
    (100,)
    >>> del u
    >>> window.Free(); node.Free()
    """
    from mpi4py import MPI

    if not isinstance(window, MPI.Win):
        raise WrongType(f"window is a {type(window).__name__}, it must be an mpi4py window")
    if window == MPI.WIN_NULL:
        raise InvalidArgument("window is MPI.WIN_NULL, or a window that was freed")
    if not isinstance(array, np.ndarray):
        raise WrongType(f"array is a {type(array).__name__}, it must be a NumPy array")
    refuse_mask(array, "array")
    low, high = byte_bounds(array)
    size_bytes = high - low if array.size else 0
    memory = core().in_window(MPI._addressof(window), low, size_bytes)
    return np.asarray(_InWindow(array, memory)).view(array.dtype)
