# SPDX-License-Identifier: BSD-3-Clause
"""Where do messages lie that both ends of a stream reach, where they are on one machine?

A *segment* is memory without a name: the file descriptor is handed over a connection, and the
system takes it back when the last process that has it ends, however that ends.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os

import numpy as np

from datamover.errors import IoError

#: Shorter messages go over the connection: a segment would cost more than it saves.
LEAST_BYTES = 1 << 15
#: Of one connection, at the same time.
MAX_SEGMENTS = 256
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Segment:
    """Memory that another process may read.

    Attributes
    ----------
    number : int
        Which of this process's segments it is.
    memory : ndarray
        Of bytes.

    Raises
    ------
    OSError
        The system has no such memory, or no more of it.
    """

    _numbers = itertools.count()

    def __init__(self, nbytes: int):
        self.number = next(self._numbers)
        self._file = os.memfd_create("datamover", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(self._file, 0, nbytes)  # now, not by a signal at the first touch
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)
            self.memory = np.frombuffer(mmap.mmap(self._file, nbytes), np.uint8)
        except BaseException:
            os.close(self._file)
            raise

    def read_only(self) -> int:
        """Give a new file descriptor by which the memory can be read, not written."""
        return os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "_file") and hasattr(self, "memory"):
            os.close(self._file)


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
