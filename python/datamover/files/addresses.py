# SPDX-License-Identifier: BSD-3-Clause
"""Access to a Zarr store at an address, by obstore.

Objects at an address cannot be renamed. The metadata of an output is therefore written last, which
makes the array visible. If a move fails, the objects that it wrote are removed.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import functools
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from datamover.errors import Error, InvalidArgument, IoFailed, Unsupported

#: Schemes of addresses; those of files are paths (`names.local_path`).
SCHEMES = ("http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
READ_ONLY = ("http", "https")
#: Other names of the same places.
SAME = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
METADATA = ("zarr.json", ".zarray", ".zgroup")
#: How often, and for how long, obstore repeats a request to a server that does not answer.
RETRIES = {"max_retries": 3, "retry_timeout": datetime.timedelta(seconds=30)}
#: Seconds to wait for unneeded answers at the end of the program.
SETTLE_SECONDS = 1.0
MAX_WORDS = 300
#: The message in the XML of S3 and similar servers.
MESSAGE = re.compile("<Message>([^<]*)</Message>")


def scheme_of(text: str) -> str | None:
    """Return the scheme of an address; None for a path.

    Examples
    --------
    >>> from datamover.files.addresses import scheme_of
    >>> scheme_of("s3://bucket/a.zarr"), scheme_of("file:///a.zarr"), scheme_of("a.zarr")
    ('s3', None, None)
    """
    scheme, found, _ = text.partition("://")
    return scheme if found and scheme in SCHEMES and not os.path.lexists(text) else None


def is_address(text: str) -> bool:
    """Return whether a name is an address rather than a local path."""
    return scheme_of(text) is not None


def words_of(e: BaseException) -> str:
    """Return the first line of a library's message, which may be long; of XML, its message.

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


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Convert exceptions of a library, which may have any type, to IoFailed about `what`."""
    try:
        yield
    except Error:
        raise
    except Exception as e:
        raise IoFailed(f"{what}: {words_of(e)}") from e


def store_at(address: str, read_only: bool) -> Any:
    """Open the store at an address for zarr-python, without a request. Errors: `object_store`.

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
    """Open the obstore store at an address, without a request.

    Raises
    ------
    Unsupported
        obstore is not installed.
    IoFailed
        obstore does not support this kind of address.
    """
    try:
        from obstore.store import from_url
    except ImportError as e:
        raise Unsupported(f"{address} needs obstore (pip install 'datamover[stores]')") from e
    _settle_at_exit()
    options: dict[str, Any] = {"retry_config": RETRIES}
    if address.startswith("http://") or _endpoint_is_plain():
        options["client_options"] = {"allow_http": True}
    with failing(f"{address} is not a valid store address"):
        return from_url(_as_url(address), **options)


def _endpoint_is_plain() -> bool:
    """Return whether the environment names a server without encryption, and does not forbid it.

    http:// is explicit enough. obstore alone would also require AWS_ALLOW_HTTP, with an unclear
    message ("builder error").
    """
    said = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    return "AWS_ALLOW_HTTP" not in os.environ and any(s.startswith("http://") for s in said)


def _as_url(address: str) -> str:
    """Quote the name of an object for a URL, in which % and other characters are special."""
    scheme, _, rest = address.partition("://")
    if scheme in READ_ONLY:
        return address
    bucket, slash, name = rest.partition("/")
    return f"{scheme}://{bucket}{slash}{urllib.parse.quote(name)}"


@functools.cache
def _settle_at_exit() -> None:
    """Let obstore's threads finish their calls of Python before it ends; later ones would abort it.

    If one of several requests fails, zarr-python does not wait for the others.
    """
    atexit.register(_settle)


async def others_settle() -> set[Any]:
    """Wait a moment for the other tasks of zarr's loop; return those that go on."""
    import asyncio

    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=SETTLE_SECONDS)
    return left


def _settle() -> None:
    import asyncio

    async def end() -> None:
        for task in await others_settle():
            task.cancel()
        await asyncio.sleep(SETTLE_SECONDS / 20)  # the thread of the last answer still needs Python

    waiting = end()
    with contextlib.suppress(Exception):
        done(waiting)
    waiting.close()  # if the loop in which it could run has ended


def done(coroutine: Any) -> Any:
    """Run a coroutine of a store in zarr's own loop, to which its connections belong."""
    from zarr.core.sync import sync

    return sync(coroutine)


def put(address: str, key: str, data: bytes) -> None:
    """Write an object of a store.

    Raises
    ------
    IoFailed
    """
    put_all(address, {key: data})


def put_all(address: str, objects: Mapping[str, bytes]) -> None:
    """Write objects of a store, one after the other.

    Raises
    ------
    IoFailed
    """
    from zarr.core.buffer import default_buffer_prototype

    store = store_at(address, read_only=False)
    with failing(f"{address} cannot be written"):
        for key, data in objects.items():
            done(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def get(address: str, key: str) -> bytes | None:
    """Read an object of a store; return None if it does not exist.

    Raises
    ------
    IoFailed
        The server does not answer.
    """
    from zarr.core.buffer import default_buffer_prototype

    with failing(f"{address} cannot be read"):
        found = done(store_at(address, read_only=True).get(key, default_buffer_prototype()))
    return None if found is None else found.to_bytes()


def is_refused(e: BaseException | None) -> bool:
    """Return whether an error of the library means that the store denies access."""
    return type(e).__name__ in ("PermissionError", "PermissionDeniedError", "UnauthenticatedError")


def listed(address: str) -> list[str]:
    """Return the names of the objects and directories directly at an address.

    Raises
    ------
    IoFailed
        The server does not answer.
    """

    async def names(store: Any) -> list[str]:
        return [name async for name in store.list_dir("")]

    with failing(f"{address} cannot be looked at"):
        return sorted(done(names(store_at(address, read_only=True))))


def inside(address: str, name: str) -> str:
    """Return the address of a member of a group; some characters are quoted in a URL."""
    if scheme_of(address) in READ_ONLY:
        name = urllib.parse.quote(name)
    return f"{address}/{name}"


def named_within(name: str, objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the objects of an array by their names in its group."""
    return {f"{name}/{key}": data for key, data in objects.items()}


def checked(text: str) -> str:
    """Return an address in its normal form.

    Raises
    ------
    InvalidArgument
        It is not the address of a place.
    """
    scheme, _, rest = text.partition("://")
    rest = rest.rstrip("/")
    parts = rest.split("/")
    # Libraries drop these, or request something else, which would be another place.
    is_odd = not rest.isprintable() or (
        scheme in ("s3", "s3a", "gs", "gcs") and set("@:") & {*parts[0]}
    )
    if is_odd or any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(f"{text!r} is not an address such as s3://bucket/name.zarr")
    if "?" in rest or "#" in rest:
        raise InvalidArgument(f"{text}: an address with ? or # cannot be a store")
    return f"{scheme}://{rest}"
