# SPDX-License-Identifier: BSD-3-Clause
"""Reading of an HDF5 file at an address by h5py, with few requests.

h5py reads pieces of a few bytes; this module fetches blocks and caches them. During a read, h5py
holds its lock. Every thread that frees an h5py object waits for this lock, and the garbage
collector can free one in any thread. Fetching bytes must therefore not depend on another Python
thread. obstore has threads of its own, but the server that answers can be a thread of this process.
"""

from __future__ import annotations

import contextlib
import gc
import io
from collections.abc import Iterator
from typing import Any

from datamover.files.address_bytes import AddressBytes

BLOCK_BYTES = 1 << 18
KEPT_BLOCKS = 32


class AddressBlocks(AddressBytes):
    """The bytes of an object, with a cache of blocks; for any number of open files.

    Parameters
    ----------
    address : str
    """

    def __init__(self, address: str):
        super().__init__(address)
        self._blocks: dict[int, memoryview] = {}  # the latest last; h5py admits one thread

    def forget(self) -> None:
        """Give the memory of all blocks back."""
        self._blocks.clear()

    def block(self, number: int) -> memoryview:
        """Return a block, which may end with the object."""
        found = self._blocks.pop(number, None)
        if found is None:
            begin = number * BLOCK_BYTES
            with _collector_off():
                found = self.read(begin, min(begin + BLOCK_BYTES, self.size))
            if len(self._blocks) == KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = found
        return found


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Disable the garbage collector in all threads during a request that h5py waits for.

    If it freed an h5py object in the thread that answers the request, that thread would wait for
    h5py's lock, and this thread, which holds the lock, for the answer. The lock cannot be released,
    because HDF5 is in the middle of a call. Python's collector cannot be disabled for one thread or
    some objects. It is therefore off for the whole process, but only while bytes are requested, not
    while they are copied from cached blocks. h5py admits one thread, so two of these never meet. If
    a program disables the collector at the same time in another thread, it is enabled again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class AddressFile(io.RawIOBase):
    """An object at an address, as a file for h5py.

    Parameters
    ----------
    data : AddressBlocks
    """

    def __init__(self, data: AddressBlocks):
        super().__init__()
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._data.size}
        self._at = begins[whence] + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, out: Any) -> int:
        """Read as many bytes as fit `out`, or as remain."""
        view = memoryview(out).cast("B")
        end = min(self._at + len(view), self._data.size)
        count = max(0, end - self._at)
        self._fill(view[:count])
        self._at += count
        return count

    def _fill(self, view: memoryview) -> None:
        if len(view) > BLOCK_BYTES:
            with _collector_off():
                view[:] = self._data.read(self._at, self._at + len(view))
            return
        done = 0
        while done < len(view):
            number, first = divmod(self._at + done, BLOCK_BYTES)
            part = self._data.block(number)[first : first + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
