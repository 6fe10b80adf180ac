# SPDX-License-Identifier: BSD-3-Clause
"""Range reads of one object at an address, with a check that the object stays the same."""

from __future__ import annotations

import urllib.parse
from typing import Any

from datamover.errors import IoFailed
from datamover.files import addresses


class AddressBytes:
    """The bytes of one object; may be read by several threads.

    Parameters
    ----------
    address : str
        Address of the object; also an attribute.

    Raises
    ------
    IoFailed
        The object does not exist, the server does not answer, or it does not support byte ranges.
    """

    def __init__(self, address: str):
        self.address = address
        place, _, self._name = address.rpartition("/")
        self._store = addresses.object_store(place)
        if addresses.scheme_of(address) in addresses.READ_ONLY:
            self._name = urllib.parse.unquote(self._name)  # obstore quotes it again
        self._told = self._described()
        #: Size of the object.
        self.size = int(self._told["size"])

    def check_unchanged(self) -> None:
        """Raise if the object has changed since it was opened.

        As far as the server reports it: by length, time, version and ETag.

        Raises
        ------
        IoFailed
        """
        if self._described() != self._told:
            raise IoFailed(f"{self.address} changed while it was read; read it again")

    def read(self, begin: int, end: int) -> memoryview:
        """Read all bytes from `begin` up to `end`, without an interruption."""
        if begin == end:
            return memoryview(b"")  # stores reject empty requests
        import obstore

        with addresses.failing(f"{self.address} cannot be read"):
            data = memoryview(obstore.get_range(self._store, self._name, start=begin, end=end))
        if len(data) != end - begin:
            raise IoFailed(
                f"{self.address}: the server returned {len(data):,} bytes instead of "
                f"{end - begin:,} from byte {begin:,} on; either the object changed, or the server "
                "does not support byte ranges"
            )
        return data

    def _described(self) -> dict[str, Any]:
        """Return length, time, version and ETag of the object."""
        import obstore

        with addresses.failing(f"{self.address} cannot be read"):
            return dict(obstore.head(self._store, self._name))
