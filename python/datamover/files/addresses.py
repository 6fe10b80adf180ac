# SPDX-License-Identifier: BSD-3-Clause
"""Access to a Zarr store at an address, by obstore.

Objects at an address cannot be renamed. The metadata of an output is therefore written last: until
then there is no array at the address. If a move fails, the objects that it wrote are removed.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import functools
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from datamover.errors import InvalidArgument, IoError, Unsupported

#: Of addresses; those of files are paths (`names.local_path`).
SCHEMES = ("http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
READ_ONLY = ("http", "https")
#: Other names of the same places.
SAME = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
METADATA = ("zarr.json", ".zarray", ".zgroup")
#: What is held back of an array, in the order in which it is written: those that show it come last.
HELD_BACK = (".zattrs", *METADATA)
#: How often, and for how long, obstore asks a server again that does not answer.
RETRIES = {"max_retries": 3, "retry_timeout": datetime.timedelta(seconds=30)}
#: So long answers are waited for, at the end of the program, that nobody wants any more.
SETTLE_SECONDS = 1.0
MAX_WORDS = 300
#: In the XML with which S3 and those like it say what is wrong.
MESSAGE = re.compile("<Message>([^<]*)</Message>")


def scheme_of(text: str) -> str | None:
    """Return what kind of address it is; None for a path.

    Examples
    --------
    >>> from datamover.files.addresses import scheme_of
    >>> scheme_of("s3://bucket/a.zarr"), scheme_of("file:///a.zarr"), scheme_of("a.zarr")
    ('s3', None, None)
    """
    scheme, found, _ = text.partition("://")
    return scheme if found and scheme in SCHEMES and not os.path.lexists(text) else None


def is_address(text: str) -> bool:
    """Tell whether a name is the address of something that is no file here."""
    return scheme_of(text) is not None


def words_of(e: BaseException) -> str:
    """Give the first line of what libraries say, which may be pages; of a server's XML its message.

    Examples
    --------
    >>> from datamover.files.addresses import words_of
    >>> words_of(OSError("404: <?xml ?><Error><Message>No bucket</Message></Error>"))
    'OSError: 404: No bucket'
    """
    text, is_xml, _ = str(e).partition("<?xml")
    said = MESSAGE.search(str(e)) if is_xml else None
    text = text + said[1] if said else text
    text = (text.strip().splitlines() or [""])[0][:MAX_WORDS].rstrip(": ")
    return f"{type(e).__name__}: {text}" if text else type(e).__name__


def store_at(address: str, read_only: bool) -> Any:
    """Open the store at an address for zarr-python; asks nobody yet. Errors as of `object_store`.

    Raises
    ------
    Unsupported
        zarr-python is not installed.
    """
    try:
        from zarr.storage import ObjectStore
    except ImportError as e:
        raise Unsupported(f"{address} needs zarr-python (pip install 'datamover[stores]')") from e
    return ObjectStore(object_store(address), read_only=read_only)


def object_store(address: str) -> Any:
    """Open the store of obstore's at an address; asks nobody yet.

    Raises
    ------
    Unsupported
        obstore is not installed.
    IoError
        It does not know this kind of address.
    """
    try:
        from obstore.store import from_url
    except ImportError as e:
        raise Unsupported(f"{address} needs obstore (pip install 'datamover[stores]')") from e
    _settle_at_exit()
    options: dict[str, Any] = {"retry_config": RETRIES}
    if address.startswith("http://") or _endpoint_is_plain():
        options["client_options"] = {"allow_http": True}
    try:
        return from_url(_as_url(address), **options)
    except Exception as e:
        raise IoError(f"{address} is no address of a store: {words_of(e)}") from e


def _endpoint_is_plain() -> bool:
    """Tell whether the environment names a server without encryption, and nothing against it.

    Who writes http:// means it; obstore alone would ask for AWS_ALLOW_HTTP besides, in words that
    nobody understands ("builder error").
    """
    said = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    return "AWS_ALLOW_HTTP" not in os.environ and any(s.startswith("http://") for s in said)


def _as_url(address: str) -> str:
    """Write the name of an object as a URL has it: in one, % and others mean something."""
    scheme, _, rest = address.partition("://")
    if scheme in READ_ONLY:
        return address
    bucket, slash, name = rest.partition("/")
    return f"{scheme}://{bucket}{slash}{urllib.parse.quote(name)}"


@functools.cache
def _settle_at_exit() -> None:
    """Have obstore's threads be done with Python before it ends: those that come later abort it.

    Where one of several questions fails, zarr does not wait for the answers to the others.
    """
    atexit.register(_settle)


def _settle() -> None:
    import asyncio

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=SETTLE_SECONDS)
        for task in left:
            task.cancel()
        await asyncio.sleep(SETTLE_SECONDS / 20)  # who brought the last answer needs Python still

    waiting = end()
    with contextlib.suppress(Exception):
        done(waiting)
    waiting.close()  # if there is no loop any more in which it could run


def done(coroutine: Any) -> Any:
    """Run what a store does in zarr's own loop, to which its connections belong."""
    from zarr.core.sync import sync

    return sync(coroutine)


def put(address: str, key: str, data: bytes) -> None:
    """Write an object of a store.

    Raises
    ------
    IoError
    """
    put_all(address, {key: data})


def put_all(address: str, objects: Mapping[str, bytes]) -> None:
    """Write objects of a store, one after the other.

    Raises
    ------
    IoError
    """
    from zarr.core.buffer import default_buffer_prototype

    store = store_at(address, read_only=False)
    try:
        for key, data in objects.items():
            done(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))
    except Exception as e:
        raise IoError(f"{address} cannot be written: {words_of(e)}") from e


def get(address: str, key: str) -> bytes | None:
    """Read an object of a store; None where there is none.

    Raises
    ------
    IoError
        The server does not say.
    """
    from zarr.core.buffer import default_buffer_prototype

    try:
        found = done(store_at(address, read_only=True).get(key, default_buffer_prototype()))
    except (IoError, Unsupported):
        raise
    except Exception as e:
        raise IoError(f"{address} cannot be read: {words_of(e)}") from e
    return None if found is None else found.to_bytes()


def is_refused(e: BaseException | None) -> bool:
    """Tell whether a store does not let this process look, by an error of its library."""
    return type(e).__name__ in ("PermissionError", "PermissionDeniedError", "UnauthenticatedError")


def listed(address: str) -> list[str]:
    """Name the objects, and what has others in it, directly at an address.

    Raises
    ------
    IoError
        The server does not say.
    """

    async def names(store: Any) -> list[str]:
        return [name async for name in store.list_dir("")]

    try:
        return sorted(done(names(store_at(address, read_only=True))))
    except (IoError, Unsupported):
        raise
    except Exception as e:
        raise IoError(f"{address} cannot be looked at: {words_of(e)}") from e


def inside(address: str, name: str) -> str:
    """Give the address of what has a name in a group; in a URL some characters mean others."""
    if scheme_of(address) in READ_ONLY:
        name = urllib.parse.quote(name)
    return f"{address}/{name}"


def named_within(name: str, objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """Give objects of an array by their names in a group that it is in."""
    return {f"{name}/{key}": data for key, data in objects.items()}


class LateMetadata:
    """Holds the metadata of an array back; to be mixed into a store."""

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self._held: dict[str, Any] = {}

    async def set(self, key: str, value: Any) -> None:
        """Keep metadata, write all else."""
        if key in HELD_BACK:
            self._held[key] = value
        else:
            await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Likewise."""
        await self.set(key, value)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read; metadata from what is kept, whatever may still be under the address."""
        if key in HELD_BACK:
            return self._held.get(key)
        return await super().get(key, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        """Tell of metadata what is kept."""
        return key in self._held if key in HELD_BACK else await super().exists(key)

    def held(self) -> dict[str, bytes]:
        """Give the metadata, by the names of the objects that they are to be."""
        return {key: self._held[key].to_bytes() for key in HELD_BACK if key in self._held}

    def publish(self) -> None:
        """Write the metadata."""

        async def write() -> None:
            for key in HELD_BACK:
                if key in self._held:
                    await self._store.set(key, self._held[key])

        done(write())


def checked(text: str) -> str:
    """Give an address without what means nothing in it.

    Raises
    ------
    InvalidArgument
        It names no place, or more than a place.
    """
    scheme, _, rest = text.partition("://")
    rest = rest.rstrip("/")
    parts = rest.split("/")
    # Libraries leave these out, or ask for something else: it would be another place.
    is_odd = not rest.isprintable() or (
        scheme in ("s3", "s3a", "gs", "gcs") and set("@:") & {*parts[0]}
    )
    if is_odd or any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(f"{text!r} is no address such as s3://bucket/name.zarr")
    if "?" in rest or "#" in rest:
        raise InvalidArgument(f"{text}: an address with ? or # is not known to be a store")
    return f"{scheme}://{rest}"
