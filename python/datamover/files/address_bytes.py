# SPDX-License-Identifier: BSD-3-Clause
"""Range reads of one object at an address, with a check that the object stays the same."""

from __future__ import annotations

import urllib.parse
from typing import Any

from datamover.errors import IoError
from datamover.files import addresses

#: What is told of an object, by the names that libraries have for it without punctuation.
MARKS = (
    *("size", "etag", "lastmodified", "version", "versionid", "generation"),
    *("contentmd5", "digest", "mtime", "updated", "created"),
)
PUNCTUATION = str.maketrans("", "", "-_")


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
        self._store = addresses.store_at(place, read_only=True)
        if addresses.scheme_of(address) in addresses.READ_ONLY and hasattr(self._store, "store"):
            self._name = urllib.parse.unquote(self._name)  # obstore writes % anew
        self._told = self._described()
        if self._told.get("size") is None:
            raise IoError(f"{address} cannot be read: the server does not say how long it is")
        #: Of the object, in bytes.
        self.size = int(self._told["size"])
        if self.size > 0 and hasattr(getattr(self._store, "fs", None), "set_session"):
            self._ask(self._refuse_without_ranges())

    def check_unchanged(self) -> None:
        """Refuse an object that is not the one any more that it was at first.

        As far as the server tells it: by length, time and whatever it has as a mark of content.

        Raises
        ------
        IoError
        """
        if self._described() != self._told:
            raise IoError(f"{self.address} changed while it was read; read it again")

    def read(self, begin: int, end: int) -> memoryview:
        """Read the bytes from `begin` up to `end`, all of them."""
        if begin == end:
            return memoryview(b"")  # stores refuse to be asked for nothing
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        asked = RangeByteRequest(begin, end)
        found = self._ask(self._store.get(self._name, default_buffer_prototype(), asked))
        return self._complete(begin, end, memoryview(b"" if found is None else found.to_bytes()))

    def _complete(self, begin: int, end: int, data: memoryview) -> memoryview:
        if len(data) != end - begin:
            raise IoError(
                f"{self.address}: {end - begin:,} bytes from {begin:,} on were asked for, "
                f"{len(data):,} came; has it changed, or does the server give no ranges of bytes?"
            )
        return data

    def _unread(self, e: Exception) -> IoError:
        """Say what a library or a server said: each has its own words."""
        return IoError(f"{self.address} cannot be read: {addresses.words_of(e)}")

    def _described(self) -> dict[str, Any]:
        """Ask for length, time and marks of the object."""
        found = self._ask(self._ask_what_it_is())
        plain = {name.lower().translate(PUNCTUATION): value for name, value in found.items()}
        return {name: plain[name] for name in MARKS if name in plain}

    async def _ask_what_it_is(self) -> dict[str, Any]:
        if hasattr(self._store, "store"):
            import obstore

            return await obstore.head_async(self._store.store, self._name)
        self._store.fs.invalidate_cache()
        return await self._store.fs._info(f"{self._store.path}/{self._name}")

    async def _refuse_without_ranges(self) -> None:
        """Refuse a server that would send all where a range is asked for: fsspec would take it.

        Of the answer only the head is read.
        """
        fs = self._store.fs
        url = fs.encode_url(f"{self._store.path}/{self._name}")
        asked = {**fs.kwargs, "headers": {**fs.kwargs.get("headers", {}), "Range": "bytes=0-0"}}
        async with (await fs.set_session()).get(url, **asked) as answer:
            if answer.status == 200 and self.size > 1:
                answer.close()
                raise IoError("the server gives no ranges of bytes; copy it here first")

    def _ask(self, question: Any) -> Any:
        try:
            return addresses.done(question)
        except IoError as e:
            raise IoError(f"{self.address} cannot be read: {e}") from e
        except Exception as e:
            raise self._unread(e) from e
