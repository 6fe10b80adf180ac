# SPDX-License-Identifier: BSD-3-Clause
"""Scratch memory through which a thread copies data that is not contiguous.

Each thread reuses the same memory, which fits into the second-level cache. The system would have to
clear fresh memory first, and large scratch memory would not stay in the cache.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator

import numpy as np

PIECE_BYTES = 1 << 19

_own = threading.local()


def scratch(nbytes: int) -> np.ndarray:
    """Return this many bytes of this thread's memory, valid until its next call."""
    if nbytes > PIECE_BYTES:
        return np.empty(nbytes, np.uint8)
    if not hasattr(_own, "memory"):
        # Begins at a page: rows are then loaded by whole lines, and the system copies fastest.
        memory = np.empty(PIECE_BYTES + mmap.PAGESIZE, np.uint8)
        begin = -memory.ctypes.data % mmap.PAGESIZE
        _own.memory = memory[begin : begin + PIECE_BYTES]
    return _own.memory[:nbytes]


def contiguous_pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array as contiguous pieces of bytes, in C order.

    Each piece is valid until the next one is requested.

    Examples
    --------
    >>> import numpy as np
    >>> from datamover.files.scratch import contiguous_pieces
    >>> part = np.arange(12, dtype="u1").reshape(3, 4)[:, 1:3]
    >>> [piece.tolist() for piece in contiguous_pieces(part)]
    [[1, 2, 5, 6, 9, 10]]
    """
    if array.flags.c_contiguous:
        yield array.reshape(-1).view(np.uint8)
    elif array.nbytes <= PIECE_BYTES:
        copied = scratch(array.nbytes)
        copied.view(array.dtype).reshape(array.shape)[...] = array
        yield copied
    else:
        rows = max(1, PIECE_BYTES * len(array) // array.nbytes)
        for i in range(0, len(array), rows):
            part = array[i : i + rows]
            yield from contiguous_pieces(part if len(part) > 1 else part[0])
