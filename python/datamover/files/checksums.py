# SPDX-License-Identifier: BSD-3-Clause
"""Verification of an output: reads it again and compares checksums with the written data."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from datamover._plan import crc32c
from datamover.errors import InvalidArgument, IoFailed
from datamover.files.at_work import do_all
from datamover.files.formats import Shape

KINDS = ("crc32c",)


class Checksums:
    """Checksums of the boxes that this process wrote, to compare with those of the file.

    Parameters
    ----------
    kind : str
        "crc32c".
    dtype : numpy.dtype
        Dtype of the written elements.

    Raises
    ------
    InvalidArgument
        The kind is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from datamover.files.checksums import Checksums
    >>> sums = Checksums("crc32c", np.dtype("u1"))
    >>> sums.add((0,), np.frombuffer(b"123456789", "u1"))
    >>> [hex(found) for _, found in sums.boxes.values()]
    ['0xe3069283']
    """

    def __init__(self, kind: str, dtype: np.dtype):
        if kind not in KINDS:
            raise InvalidArgument(f"check is {kind!r}; there is {', '.join(KINDS)}")
        self._dtype = dtype
        self._lock = threading.Lock()
        #: Extents and checksum of the elements in C order, by first index.
        self.boxes: dict[Shape, tuple[Shape, int]] = {}

    def _of(self, array: np.ndarray, dtype: np.dtype) -> int:
        """Return the checksum of elements, independent of their byte order and gaps in a file."""
        plain = _plain(dtype)
        elements = array.view(dtype)
        return crc32c((elements if plain == dtype else elements.astype(plain)).tobytes())

    def add(self, lo: Shape, array: np.ndarray) -> None:
        """Add a box that is written. May be called by several threads."""
        found = self._of(array, self._dtype)
        with self._lock:
            self.boxes[lo] = array.shape, found

    def verify(self, reader: Any, path: str, threads: int) -> None:
        """Read all boxes and compare.

        Raises
        ------
        IoFailed
            A checksum differs.
        """

        def check(box: tuple[Shape, tuple[Shape, int]]) -> None:
            lo, (shape, expected) = box
            out = np.empty(shape, np.dtype((np.void, reader.spec.dtype.itemsize)))
            reader.read(lo, out)
            if self._of(out, reader.spec.dtype) != expected:
                raise IoFailed(
                    f"{path} does not hold what was written, from index {lo} on: the checksum "
                    "differs"
                )

        do_all(list(self.boxes.items()), check, threads)


def _plain(dtype: np.dtype) -> np.dtype:
    """Return a dtype in little endian, and records without gaps."""
    if dtype.names is None:
        return dtype.newbyteorder("<")
    return np.dtype([(name, _plain(dtype[name])) for name in dtype.names])
