# SPDX-License-Identifier: BSD-3-Clause
"""Outputs at an address: they appear complete or not at all, and leftovers are removed.

A marker is written first. It names the arrays to come, and is removed when their metadata are
written. The marker distinguishes the leftovers of a killed program from data of other programs. It
also identifies the writing processes, so that processes on the same machine can detect when they
have ended. An object is removed only if its name belongs to an array or group that the marker or
readable metadata describe.
"""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files import consolidated, writers
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

#: The object that says what is being written, and is no more there when all of it is.
MARKER = ".datamover.partial"
#: What stands directly in an array or group.
OF_NODES = (*METADATA, ".zattrs", ".zmetadata")
#: So many objects are read or removed at once.
AT_ONCE = 32

log = logging.getLogger("datamover")


class Nodes:
    """Arrays and groups at an address, by name; the one of the address itself has the name "".

    Parameters
    ----------
    dims : mapping
        Of each the numbers of dimensions that it has as an array, old and new; a group has none.
    """

    def __init__(self, dims: Mapping[str, set[int]]):
        self.dims = {name: set(numbers) for name, numbers in dims.items()}

    @classmethod
    def of_arrays(cls, dims: Mapping[str, int], groups: Iterable[str] = ()) -> Nodes:
        """Name arrays, the groups that they are in, and other groups."""
        found: dict[str, set[int]] = {"": set(), **{name: set() for name in groups}}
        for name, number in dims.items():
            for above in _above(name):
                found.setdefault(above, set())
            found.setdefault(name, set()).add(number)
        return cls(found)

    def __or__(self, other: Nodes) -> Nodes:
        names = {*self.dims, *other.dims}
        return Nodes({n: self.dims.get(n, set()) | other.dims.get(n, set()) for n in names})

    @property
    def has_group(self) -> bool:
        """Whether it is, or may be, more than an array."""
        return len(self.dims) > 1 or not self.dims.get("")

    def own(self, key: str) -> bool:
        """Tell whether an object is the metadata of one of them, or a chunk of an array.

        Examples
        --------
        >>> from datamover.files.address_place import Nodes
        >>> nodes = Nodes.of_arrays({"u": 2})
        >>> [nodes.own(key) for key in ("u/c/0/1", "u/zarr.json", "u/c/0", "u/notes", "v/c/0/1")]
        [True, True, False, False, False]
        """
        node, _, last = key.rpartition("/")
        if last in OF_NODES and node in self.dims:
            return True
        return any(
            chunk_key(number).fullmatch(key[len(above) + 1 if above else 0 :])
            for above in _above(key)
            for number in self.dims.get(above, ())
        )


def _above(name: str) -> list[str]:
    """Give the names of what something may be in, outermost first."""
    return ["", *(name[:i] for i, c in enumerate(name) if c == "/")] if name else []


@functools.cache
def chunk_key(dims: int) -> re.Pattern[str]:
    """Give what the chunks of an array have for names, in Zarr v2 and v3."""
    if dims == 0:
        return re.compile("c|0")
    return re.compile(rf"(c[/.])?[0-9]+([/.][0-9]+){{{dims - 1}}}")


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


async def _nodes(store: Any, keys: list[str]) -> Nodes:
    """Read what metadata and markers tell of."""
    import asyncio

    telling = [key for key in keys if key.rpartition("/")[2] in (*METADATA, MARKER)]
    found = Nodes({})
    for i in range(0, len(telling), AT_ONCE):
        some = telling[i : i + AT_ONCE]
        for key, told in zip(
            some, await asyncio.gather(*(_document(store, key) for key in some)), strict=True
        ):
            name, _, last = key.rpartition("/")
            found |= _marked(name, told) if last == MARKER else _described(name, last, told)
    return found


def _described(name: str, kind: str, metadata: dict[str, Any]) -> Nodes:
    """Give the array or group of which metadata are; nothing where they are none."""
    shape = metadata.get("shape")
    if kind == ".zgroup" or (kind == "zarr.json" and metadata.get("node_type") == "group"):
        return Nodes({name: set()})
    is_array = kind == ".zarray" or metadata.get("node_type") == "array"
    return Nodes({name: {len(shape)}} if is_array and isinstance(shape, list) else {})


def _marked(name: str, marker: dict[str, Any]) -> Nodes:
    """Give the arrays and groups that a marker names; nothing where it is none."""
    arrays = marker.get("arrays")
    if not isinstance(arrays, dict):
        return Nodes({})
    within = f"{name}/" if name else ""
    found = {}
    for inner, dims in arrays.items():
        if not isinstance(dims, list) or not all(type(n) is int and 0 <= n <= 64 for n in dims):
            return Nodes({})
        found[f"{within}{inner}" if inner else name] = set(dims)
    return Nodes(found)


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
        nodes = _marked("", marker)
        _remove_at(path, [key for key in keys if nodes.own(key)], "what was written")
    _remove_at(path, [MARKER], MARKER)
    return is_whole


class AddressPlace:
    """An output that has an address; the same as `placing.LocalPlace` for one that has a path.

    Parameters
    ----------
    source, output : str
    token : str
        In the marker, of this output alone; see `placing.token`.
    overwrite, overwrite_group : bool
    by : dict, optional
        Of the processes that write; see `writers.described`.
    """

    def __init__(
        self,
        source: str,
        output: str,
        token: str,
        overwrite: bool,
        overwrite_group: bool,
        by: dict[str, Any] | None = None,
    ):
        self._source = source
        self._overwrite, self._overwrite_group = overwrite, overwrite_group
        self.path = output
        self._is_claimed = False
        self._token, self._writers = token, by
        self._replaced: list[str] = []  # objects
        self._there, self._nodes = Nodes({}), Nodes({})

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
        source, output = _place_of(self._source), _place_of(self.path)
        if output.startswith(source) or source.startswith(output):
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
        marker = {} if is_whole else self._asked(_document, MARKER)
        is_left = writers.are_gone(marker.get("writers"))
        if not self._overwrite and not is_left:
            said = option("overwrite", True)
            if is_whole:
                raise IoError(f"{self.path} exists; {said} replaces it")
            raise IoError(
                f"{self.path} holds what another program was to write there, which was killed or "
                f"is still at it; {said} removes that"
            )
        self._there = self._asked(_nodes, there)
        for key in there:
            if not (self._there.own(key) or (key == MARKER and "" in self._there.dims)):
                raise IoError(
                    f"{self.path} holds {key!r}, which belongs to no Zarr array or group that can "
                    "be read: nothing there is replaced"
                )
        if is_left:
            log.warning("%s: what is there of an output that was never whole is removed", self.path)
        elif self._there.has_group and not self._overwrite_group:
            raise IoError(
                f"{self.path} is a Zarr group, perhaps with many arrays: "
                f"{option('overwrite_group', True)} replaces all of it"
            )

    def claim(
        self, is_directory: bool, dims: Mapping[str, int], groups: Iterable[str] = ()
    ) -> None:
        """Say what will be there; remove what is to be replaced.

        That cannot be kept until the new one is whole. Where it cannot be removed, the marker
        stays, for the next who replaces it.

        Parameters
        ----------
        is_directory : bool
        dims : mapping
            The numbers of dimensions of all arrays that will be written, by name.
        groups : iterable of str, optional
            Those that no array may be in.
        """
        self._nodes = Nodes.of_arrays(dims, groups)
        arrays = {name: sorted(n) for name, n in (self._nodes | self._there).dims.items()}
        marker = {"by": self._token, "arrays": arrays, "writers": self._writers}
        put(self.path, MARKER, dumps(marker).encode())
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
            left = [key for key in self._asked(_keys) if self._nodes.own(key)]
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

    def claim(self, is_directory: bool, dims: Mapping[str, int]) -> None:
        """The marker of the group names it."""

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
