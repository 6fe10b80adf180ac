# SPDX-License-Identifier: BSD-3-Clause
"""Outputs at an address: they appear complete or not at all, and leftovers are removed.

A marker is written first, and removed when the metadata are written. It distinguishes the leftovers
of a killed program from data of other programs: objects at an address that has neither a marker nor
Zarr metadata are never replaced or removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files import addresses, consolidated, zarr_group
from datamover.files.addresses import (
    METADATA,
    READ_ONLY,
    SAME,
    done,
    put,
    put_all,
    scheme_of,
    store_at,
    words_of,
)
from datamover.files.json_values import dumps
from datamover.files.placing import LocalPlace

#: The object that says what is being written, and is no more there when all of it is.
MARKER = ".datamover.partial"
#: So many objects are removed at once.
AT_ONCE = 32

log = logging.getLogger("datamover")


async def _keys(store: Any) -> list[str]:
    return [key async for key in store.list()]


async def _remove(store: Any, keys: list[str]) -> None:
    """Remove objects, first what makes it an array or group."""
    import asyncio

    for key in METADATA:
        if key in keys:
            await store.delete(key)
    rest = [key for key in keys if key not in METADATA]
    for i in range(0, len(rest), AT_ONCE):
        removing = (store.delete(key) for key in rest[i : i + AT_ONCE])
        # All have ended, also where one fails: nothing is removed any more when that is told.
        for ended in await asyncio.gather(*removing, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended


async def _document(store: Any, key: str) -> dict[str, Any]:
    """Read a JSON object; an empty one where there is none."""
    from zarr.core.buffer import default_buffer_prototype

    data = await store.get(key, default_buffer_prototype())
    try:
        found = json.loads(data.to_bytes()) if data is not None else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _asked(path: str, ask: Any, *said: Any) -> Any:
    try:
        return done(ask(store_at(path, read_only=True), *said))
    except IoError:
        raise
    except Exception as e:
        raise IoError(f"{path} cannot be looked at: {words_of(e)}") from e


def _remove_at(path: str, keys: list[str], what: str) -> None:
    try:
        done(_remove(store_at(path, read_only=False), keys))
    except Exception as e:
        raise IoError(f"{path}: {what} cannot be removed: {words_of(e)}") from e


def clean_up(path: str, token: str) -> bool:
    """Remove what killed processes left of an output that is not whole; tell whether one is there.

    That is the old one, where none of it was removed yet, or the new one.

    Parameters
    ----------
    path : str
    token : str
        Of the output; what others write there stays.

    Raises
    ------
    IoError
        The server does not say, or does not remove.
    """
    keys = _asked(path, _keys)
    is_whole = any(key in METADATA for key in keys)
    marker = _asked(path, _document, MARKER) if MARKER in keys else {}
    if marker.get("by") != token:
        return is_whole
    if not is_whole:
        _remove_at(path, [key for key in keys if key != MARKER], "what was written")
    _remove_at(path, [MARKER], MARKER)
    return is_whole


def place_of(
    source: str | None,
    output: str,
    token: str,
    overwrite: bool,
    overwrite_group: bool | None,
    member: str | None = None,
) -> AddressPlace | LocalPlace:
    """Return the place of an output, whatever it has: an address, or a path; see `LocalPlace`."""
    if addresses.is_address(output):
        return AddressPlace(source, output, token, overwrite, overwrite_group)
    return LocalPlace(source, output, token, overwrite, overwrite_group, member)


class AddressPlace:
    """An output that has an address; the same as `placing.LocalPlace` for one that has a path.

    Parameters
    ----------
    source : str or None
        None: it is no file, and cannot be in the way.
    output : str
    token : str
        In the marker, of this output alone; see `placing.token`.
    overwrite, overwrite_group : bool
    """

    def __init__(
        self, source: str | None, output: str, token: str, overwrite: bool, overwrite_group: bool
    ):
        self._source = source
        self._overwrite, self._overwrite_group = overwrite, overwrite_group
        self.path = output
        self._is_claimed = False
        self._token = token
        self._replaced: list[str] = []  # objects

    def check(self) -> None:
        """Check, before anything is written, that an array can be put there.

        Raises
        ------
        InvalidArgument
            Input and output are the same, or one lies within the other.
        IoError
            Something is there that is not to be replaced, or the server does not answer.
        Unsupported
            It can only be read.
        """
        if scheme_of(self.path) in READ_ONLY:
            raise Unsupported(f"{self.path}: {scheme_of(self.path)} addresses can only be read")
        output = _place_of(self.path)
        source = None if self._source is None else _place_of(self._source)
        if source is not None and (output.startswith(source) or source.startswith(output)):
            raise InvalidArgument(
                f"input {self._source} and output {self.path} are the same, or one lies within "
                "the other"
            )
        self._replaced = self._asked(_keys)
        if self._replaced:
            self._check_replaced(self._replaced)

    def _asked(self, ask: Any, *said: Any) -> Any:
        return _asked(self.path, ask, *said)

    def _check_replaced(self, there: list[str]) -> None:
        from datamover.files.formats import option

        is_whole = any(key in METADATA for key in there)
        if not is_whole and MARKER not in there:
            raise IoError(f"{self.path} holds {there[0]!r} but no Zarr array: it is not replaced")
        said = option("overwrite", True)
        if not self._overwrite and is_whole:
            raise IoError(f"{self.path} exists; {said} replaces it")
        if not self._overwrite:
            raise IoError(
                f"{self.path} holds what another program was to write there, which was killed or "
                f"is still at it; {said} removes that"
            )
        if is_whole and not self._overwrite_group and not self._is_array():
            raise IoError(
                f"{self.path} is a Zarr group, perhaps with many arrays: "
                f"{option('overwrite_group', True)} replaces all of it"
            )

    def _is_array(self) -> bool:
        try:
            return zarr_group.is_array(self.path)
        except IoError:  # of metadata that cannot be read
            return False

    def claim(self, is_directory: bool) -> None:
        """Note that something is to come; remove what is to be replaced.

        The old output cannot be kept until the new one is whole. If it cannot be removed, the
        marker stays, for the next who replaces it.
        """
        put(self.path, MARKER, dumps({"by": self._token}).encode())
        replaced = [key for key in self._replaced if key != MARKER]
        if replaced:
            consolidated.remove_around(self.path)
        _remove_at(self.path, replaced, "what is there")
        self._is_claimed = True

    def _check_is_ours(self) -> None:
        if self._asked(_document, MARKER).get("by") != self._token:
            raise IoError(f"{self.path} was replaced by another program while it was written")

    def hold(self) -> None:
        """Nothing can be held there against others."""

    def reader(self, functions: Any, options: Any, writer: Any) -> Any:
        """Give what reads the array before it has its metadata: what has written it."""
        return writer

    def finish(self, writer: Any) -> None:
        """Write the metadata: from now on the array is there."""
        self._check_is_ours()
        consolidated.remove_around(self.path)
        try:
            writer.publish()
        except IoError:
            raise
        except Exception as e:
            raise IoError(f"{self.path} cannot be written: {words_of(e)}") from e
        self._is_claimed = False
        self._remove_or_warn([MARKER], f"{MARKER}, of no use any more,")

    def give_back(self) -> None:
        """Remove what was written unless it is whole."""
        if not self._is_claimed:
            return
        self._is_claimed = False
        try:
            self._check_is_ours()
            left = [key for key in self._asked(_keys) if key != MARKER]
        except IoError as e:
            log.warning("%s", e)
            return
        if self._remove_or_warn(left, "what was written of the new array"):
            self._remove_or_warn([MARKER], MARKER)

    def _remove_or_warn(self, keys: list[str], what: str) -> bool:
        try:
            _remove_at(self.path, keys, what)
        except IoError as e:
            log.warning("%s", e)
            return False
        return True


class PlaceInGroup:
    """The place of an array in a group at an address, that is there when all of the group is.

    Attributes
    ----------
    path : str
    held : dict
        What makes it an array, by names of objects; when it is complete, on one process.
    """

    def __init__(self, path: str):
        self.path = path
        self.held: dict[str, bytes] = {}

    def check(self) -> None:
        """The group's place was looked at."""

    def claim(self, is_directory: bool) -> None:
        """The group has a marker."""

    def hold(self) -> None:
        """Nothing can be held there against others."""

    def reader(self, functions: Any, options: Any, writer: Any) -> Any:
        """Give what reads the array before it has its metadata: what has written it."""
        return writer

    def finish(self, writer: Any) -> None:
        """Keep the metadata, and no connection: a group may have thousands of arrays."""
        self.held = writer.held_metadata()

    def give_back(self) -> None:
        """It stays, or goes, with the group."""


class Publication:
    """Metadata of a group at an address and of all in it, written when all else is there.

    Parameters
    ----------
    path : str
    objects : mapping
        By their names; the last one makes the group visible.
    """

    def __init__(self, path: str, objects: Mapping[str, bytes]):
        self._path, self._objects = path, objects

    def publish(self) -> None:
        """Write them, in their order. IoError where that cannot be."""
        put_all(self._path, self._objects)


def _place_of(address: str) -> str:
    """Give an address so that those of the same place, or within it, begin in the same way."""
    scheme, found, rest = address.partition("://")
    return f"{SAME.get(scheme, scheme)}{found}{rest}/"
