# SPDX-License-Identifier: BSD-3-Clause
"""Outputs at an address: they appear complete or not at all, and leftovers are removed.

A marker is written first, and removed when the metadata are written. It distinguishes the leftovers
of a killed program from data of other programs: objects at an address that has neither a marker nor
Zarr metadata are never replaced or removed.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from datamover.errors import IoFailed, Unsupported
from datamover.files import addresses, zarr_group
from datamover.files.formats import Late, log, option
from datamover.files.json_values import dumps
from datamover.files.placing import LocalPlace, Place, check_apart

#: The object that marks an output while it is written; removed when the output is complete.
MARKER = ".datamover.partial"
#: Number of objects that are removed in one request.
AT_ONCE = 32


async def _remove(store: Any, keys: list[str]) -> None:
    """Remove objects, first the metadata that make it an array or group."""
    import asyncio

    for key in addresses.METADATA:
        if key in keys:
            await store.delete(key)
    rest = [key for key in keys if key not in addresses.METADATA]
    for i in range(0, len(rest), AT_ONCE):
        removing = (store.delete(key) for key in rest[i : i + AT_ONCE])
        # All requests have ended, even if one fails: nothing is removed after the error is raised.
        for ended in await asyncio.gather(*removing, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended


def _owner(path: str) -> str | None:
    """Return the token in the marker at an address; None if there is none."""
    try:
        return json.loads(addresses.get(path, MARKER) or b"{}")["by"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def _remove_at(path: str, keys: list[str], what: str) -> None:
    with addresses.failing(f"{path}: {what} cannot be removed"):
        addresses.done(_remove(addresses.store_at(path, read_only=False), keys))


def clean_up(path: str, token: str) -> bool:
    """Remove what was written of an incomplete output; return whether a complete one exists.

    This is the old output, if none of it was removed yet, or the new one.

    Parameters
    ----------
    path : str
    token : str
        Token of the output; outputs of others stay.

    Raises
    ------
    IoFailed
        The server does not answer, or cannot remove objects.
    """
    keys = addresses.listed(path, deeply=True)
    is_whole = any(key in addresses.METADATA for key in keys)
    if MARKER not in keys or _owner(path) != token:
        return is_whole
    if not is_whole:
        _remove_at(path, [key for key in keys if key != MARKER], "what was written")
    _remove_at(path, [MARKER], MARKER)
    return is_whole


def place_of(source: str | None, output: str, token: str, *said: Any) -> AddressPlace | LocalPlace:
    """Return the place of an output at an address or a path, by the parameters of `LocalPlace`."""
    kind = AddressPlace if addresses.is_address(output) else LocalPlace
    return kind(source, output, token, *said)


class AddressPlace(Place):
    """An output that has an address, whose marker contains the token."""

    def __post_init__(self) -> None:
        self.path = self.output
        self._is_claimed = False
        self._replaced: list[str] = []  # objects
        self._late: Late = {}  # metadata, which makes the output visible

    def check(self) -> None:
        """Check, before anything is written, that an array can be written there.

        Raises
        ------
        InvalidArgument
            Input and output are the same, or one is inside the other.
        IoFailed
            The address contains something that must not be replaced, or the server does not answer.
        Unsupported
            The address can only be read.
        """
        if addresses.scheme_of(self.path) in addresses.READ_ONLY:
            raise Unsupported(
                f"{self.path}: {addresses.scheme_of(self.path)} addresses can only be read"
            )
        check_apart(self.source, self.path)
        self._replaced = addresses.listed(self.path, deeply=True)
        if self._replaced:
            self._check_replaced(self._replaced)

    def _check_replaced(self, there: list[str]) -> None:
        is_whole = any(key in addresses.METADATA for key in there)
        if not is_whole and MARKER not in there:
            raise IoFailed(f"{self.path} holds {there[0]!r} but no Zarr array: it is not replaced")
        said = option("overwrite", True)
        if not self.overwrite and is_whole:
            raise IoFailed(f"{self.path} exists; {said} replaces it")
        if not self.overwrite:
            raise IoFailed(
                f"{self.path} contains the incomplete output of a program that was killed or "
                f"is still at it; {said} removes that"
            )
        if is_whole and not self.overwrite_group and not zarr_group.is_surely_array(self.path):
            raise IoFailed(
                f"{self.path} is a Zarr group, perhaps with many arrays: "
                f"{option('overwrite_group', True)} replaces all of it"
            )

    def claim(self, is_directory: bool) -> None:
        """Write the marker; remove the output that is replaced.

        The old output cannot be kept until the new one is complete. If it cannot be removed, the
        marker stays, for the next program that replaces it.
        """
        marker, owner = {MARKER: dumps({"by": self.token}).encode()}, None
        if not self._replaced:
            with contextlib.suppress(IoFailed):  # of a server that cannot write only new objects
                addresses.put_all(self.path, marker, only_new=True)
            self._is_claimed = True  # the marker may be there, even if it cannot be read
            owner = _owner(self.path)
            self._is_claimed = False
        if owner is None:
            addresses.put_all(self.path, marker)
        elif owner != self.token:
            raise IoFailed(
                f"{self.path} was created in the meantime; {option('overwrite', True)} replaces it"
            )
        replaced = [key for key in self._replaced if key != MARKER]
        if replaced:
            zarr_group.remove_copies_around(self.path)
        _remove_at(self.path, replaced, "what is there")
        self._is_claimed = True

    def _check_is_ours(self) -> None:
        if _owner(self.path) != self.token:
            raise IoFailed(f"{self.path} was replaced by another program while it was written")

    def write(self, metadata: Late) -> None:
        """Keep the metadata until all elements are written."""
        self._late = metadata

    def hold(self) -> None:
        """Do nothing, because objects cannot be locked."""

    def sync(self) -> None:
        """Do nothing: the server has stored everything."""

    def finish(self) -> None:
        """Write the metadata in their order; the last object makes the output visible."""
        self._check_is_ours()
        zarr_group.remove_copies_around(self.path)
        addresses.put_all(self.path, self._late)
        self._is_claimed = False
        try:
            _remove_at(self.path, [MARKER], f"{MARKER}, which is no longer needed,")
        except IoFailed as e:
            log.warning("%s", e)

    def give_back(self) -> None:
        """Remove everything written unless it is complete."""
        if not self._is_claimed:
            return
        self._is_claimed = False
        try:
            self._check_is_ours()
            clean_up(self.path, self.token)
        except IoFailed as e:
            log.warning("%s", e)
