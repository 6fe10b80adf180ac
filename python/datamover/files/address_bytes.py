# SPDX-License-Identifier: BSD-3-Clause
"""How are ranges of bytes read of an object that has an address?"""

from __future__ import annotations

import urllib.parse
from typing import Any

from datamover.errors import IoError
from datamover.files import addresses


class AddressBytes:
    """The bytes of one object; may be read by several threads.

    Parameters
    ----------
    address : str

    Raises
    ------
    IoError
        Nothing is there, or nobody answers.
    """

    def __init__(self, address: str):
        self._address = address
        place, _, self._name = address.rpartition("/")
        self._store = addresses.store_at(place, read_only=True)
        if addresses.scheme_of(address) in addresses.READ_ONLY and hasattr(self._store, "store"):
            self._name = urllib.parse.unquote(self._name)  # obstore writes % anew
        #: Of the object, in bytes.
        self.size = int(self._ask(self._store.getsize(self._name)))

    def read(self, begin: int, end: int) -> memoryview:
        """Read the bytes from `begin` up to `end`, all of them."""
        if begin == end:
            return memoryview(b"")  # stores refuse to be asked for nothing
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        asked = RangeByteRequest(begin, end)
        found = self._ask(self._store.get(self._name, default_buffer_prototype(), asked))
        data = memoryview(b"" if found is None else found.to_bytes())
        if len(data) != end - begin:
            raise IoError(
                f"{self._address}: {end - begin:,} bytes from {begin:,} on were asked for, "
                f"{len(data):,} came; has it changed, or does the server give no ranges of bytes?"
            )
        return data

    def _ask(self, question: Any) -> Any:
        try:
            return addresses.done(question)
        except Exception as e:  # each library and each server has its own
            raise IoError(f"{self._address} cannot be read: {addresses.words_of(e)}") from e
