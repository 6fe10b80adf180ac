# SPDX-License-Identifier: BSD-3-Clause
"""Range reads of one object at an address, with a check that the object stays the same."""

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
        Also an attribute.

    Raises
    ------
    IoError
        Nothing is there, or nobody answers, or the server gives no ranges of bytes.
    """

    def __init__(self, address: str):
        self.address = address
        place, _, self._name = address.rpartition("/")
        self._store = addresses.object_store(place)
        if addresses.scheme_of(address) in addresses.READ_ONLY:
            self._name = urllib.parse.unquote(self._name)  # obstore writes % anew
        self._told = self._described()
        #: Of the object, in bytes.
        self.size = int(self._told["size"])

    def check_unchanged(self) -> None:
        """Refuse an object that is not the one any more that it was at first.

        As far as the server reports it: by length, time, version and mark of content.

        Raises
        ------
        IoError
        """
        if self._described() != self._told:
            raise IoError(f"{self.address} changed while it was read; read it again")

    def read(self, begin: int, end: int) -> memoryview:
        """Read the bytes from `begin` up to `end`, all of them; is not interrupted meanwhile."""
        if begin == end:
            return memoryview(b"")  # stores refuse to be asked for nothing
        import obstore

        try:
            data = memoryview(obstore.get_range(self._store, self._name, start=begin, end=end))
        except Exception as e:
            raise self._unread(e) from e
        if len(data) != end - begin:
            raise IoError(
                f"{self.address}: {end - begin:,} bytes from {begin:,} on were asked for, "
                f"{len(data):,} came; has it changed, or does the server give no ranges of bytes?"
            )
        return data

    def _described(self) -> dict[str, Any]:
        """Ask for length, time and marks of the object."""
        import obstore

        try:
            return dict(obstore.head(self._store, self._name))
        except Exception as e:
            raise self._unread(e) from e

    def _unread(self, e: Exception) -> IoError:
        """Return the error for what the library or the server reports, each in its own words."""
        return IoError(f"{self.address} cannot be read: {addresses.words_of(e)}")
