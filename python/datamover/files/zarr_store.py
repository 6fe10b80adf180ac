# SPDX-License-Identifier: BSD-3-Clause
"""Stores of zarr-python for outputs: they can be stopped, and metadata held back."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from datamover import lifeline
from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses

#: Tasks of zarr's loop that wait for the end of all others, but not for each other.
_WAITING: set[Any] = set()


def zarr_python() -> Any:
    """Return the package zarr. Raises Unsupported if it is missing."""
    try:
        with lifeline.uninterrupted():  # half a package could not be imported again
            import zarr
    except ImportError as e:
        raise Unsupported("Zarr needs zarr-python 3 (pip install 'datamover[files]')") from e
    return zarr


async def others_end() -> None:
    """Wait for the other tasks of zarr's loop, which otherwise print warnings."""
    import asyncio

    this = asyncio.current_task()
    _WAITING.add(this)
    try:
        await asyncio.gather(*(asyncio.all_tasks() - _WAITING), return_exceptions=True)
    finally:
        _WAITING.discard(this)


def settle() -> None:
    """Let zarr's own thread complete what it writes, if an interrupted call no longer waits for it.

    Otherwise it could write after the removal of an unfinished output, and make its directory anew.
    """
    if "zarr" in sys.modules:
        addresses.done(addresses.others_settle())


class _Abandonable:
    """Mixin of a store that can stop all writes. Zarr writes from its own thread."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._abandoned: BaseException | None = None  # the reason
        self._writing = 0
        self._loop: Any = None
        self._changed = threading.Condition()

    async def set(self, key: str, value: Any) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        with self._changed:
            if self._abandoned is not None:
                raise InvalidArgument(f"{self} is given up")
            self._writing += 1
        try:
            await cast(Any, super()).set(key, value)
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def abandon(self, reason: BaseException) -> BaseException:
        """Wait until nothing is being written; reject later writes.

        Returns the first reason: the other threads fail because the store is given up.
        """
        import asyncio

        with self._changed:
            self._abandoned = self._abandoned or reason
            self._changed.wait_for(lambda: self._writing == 0)
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(others_end(), self._loop).result()
        return self._abandoned


@cache
def _abandonable(base: type) -> type:
    return type("AbandonableStore", (_Abandonable, base), {})


def abandonable_store(place: str) -> Any:
    """Open the store of a directory, or at an address, as one that can be given up."""
    from zarr.storage import LocalStore, ObjectStore

    if addresses.is_address(place):
        return _abandonable(ObjectStore)(addresses.object_store(place))
    return _abandonable(LocalStore)(place)


def rebound(array: Any, **said: Any) -> Any:
    """Return an open array with another `metadata`, `store_path` or `config`."""
    from zarr.core.array import Array, AsyncArray

    inner = array._async_array
    config = inner.config if hasattr(inner, "config") else inner._config  # before zarr 3.1
    own = {"metadata": array.metadata, "store_path": array.store_path, "config": config}
    return Array(AsyncArray(**own | said))


def created(create: Callable[[Any], Any]) -> tuple[Any, dict[str, bytes]]:
    """Create an array in memory, by `create` from a store.

    Returns
    -------
    tuple
        The array, and its metadata by names of objects; the last one makes it visible.
    """
    held: dict[str, Any] = {}
    array = create(held)
    return array, {key: held[key].to_bytes() for key in sorted(held, reverse=True)}


def write_objects(path: str, objects: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Write metadata in a directory, which is made unless it exists; at an address return it."""
    if addresses.is_address(path):
        return objects
    os.makedirs(path, exist_ok=True)
    for name, data in objects.items():
        with open(os.path.join(path, name), "xb") as file:
            file.write(data)
    return {}


def bound(array: Any, place: str) -> Any:
    """Return an array that was created in memory as the one of a directory, or at an address."""
    from zarr.storage import StorePath

    return rebound(array, store_path=StorePath(abandonable_store(place)))
