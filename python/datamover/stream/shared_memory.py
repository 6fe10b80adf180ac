# SPDX-License-Identifier: BSD-3-Clause
"""How is memory read that a sending process on the same machine shares?

A *segment* is memory without a name: the file descriptor is handed over a connection, and the
system takes it back when the last process that has it ends, however that ends.
"""

from __future__ import annotations

import fcntl
import mmap
import os

import numpy as np

from datamover.errors import IoError

#: Of one connection, at the same time.
MAX_SEGMENTS = 256
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def mapped(file: int) -> np.ndarray:
    """Map another process's segment for reading; nothing of it is trusted.

    Raises
    ------
    IoError
        It is no such memory, or its owner could take it away while it is read.
    """
    try:
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise IoError("a segment that could shrink")
        nbytes = os.fstat(file).st_size
        return np.frombuffer(mmap.mmap(file, nbytes, prot=mmap.PROT_READ), np.uint8)
    except (OSError, ValueError) as error:
        raise IoError(f"a segment cannot be mapped: {error}") from None
