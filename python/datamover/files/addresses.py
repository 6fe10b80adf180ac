# SPDX-License-Identifier: BSD-3-Clause
"""Access to Zarr stores, and to bytes of single objects, at an address, by obstore.

Objects at an address cannot be renamed. The metadata of an output is therefore written last, which
makes the array visible. If a move fails, the objects that it wrote are removed.

h5py reads pieces of a few bytes of an HDF5 file; blocks are fetched for it and cached. During a
read, h5py holds its lock. Every thread that frees an h5py object waits for this lock, and the
garbage collector can free one in any thread. Fetching bytes must therefore not depend on another
Python thread. obstore has threads of its own, but the server that answers can be a thread of this
process.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import functools
import gc
import io
import os
import re
import urllib.parse
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from datamover.errors import Error, InvalidArgument, IoFailed, Unsupported

BLOCK_BYTES = 1 << 18
KEPT_BLOCKS = 32

#: Schemes of addresses; those of files are paths (`names.place_of`).
SCHEMES = ("http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
READ_ONLY = ("http", "https")
#: Other names of the same places.
SAME = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
#: Objects, or files, that make a place an array or a group.
METADATA = ("zarr.json", ".zarray", ".zgroup")
#: How often, and for how long, obstore repeats a request to a server that does not answer.
RETRIES = {"max_retries": 3, "retry_timeout": datetime.timedelta(seconds=30)}
#: Seconds to wait for unneeded answers at the end of the program.
SETTLE_SECONDS = 1.0
MAX_WORDS = 300
#: Tasks of zarr's loop that wait for the end of all others, but not for each other.
_waiting: set[Any] = set()
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


def same_form(place: str) -> str:
    """Return an address with the one scheme of all that name its place; a path unchanged."""
    scheme, found, rest = place.partition("://")
    return f"{SAME[scheme]}{found}{rest}" if scheme in SAME else place


def is_address(text: str) -> bool:
    """Return whether a name is an address rather than a local path."""
    return scheme_of(text) is not None


def enclosing(path: str) -> Iterator[str]:
    """Yield the directories, or addresses, around a path or an address, the innermost first."""
    above, at_address = os.path.dirname(path), is_address(path)
    while above and above != os.path.dirname(above) and is_address(above) == at_address:
        yield above
        above = os.path.dirname(above)


def words_of(e: BaseException) -> str:
    """Return the first line of a library's message, which may be long; of XML, its message.

    Examples
    --------
    >>> from datamover.files.addresses import words_of
    >>> words_of(OSError("404: <?xml ?><Error><Message>No bucket</Message></Error>"))
    'OSError: 404: No bucket'
    """
    words = str(e.args[0] if isinstance(e, LookupError) and e.args else e)
    if isinstance(e, OSError) and e.strerror:  # without its number and path, which `what` names
        words = e.strerror
    text, is_xml, _ = words.partition("<?xml")
    said = MESSAGE.search(words) if is_xml else None
    text = text + said[1] if said else text
    text = (text.strip().splitlines() or [""])[0][:MAX_WORDS].rstrip(": ")
    return f"{type(e).__name__}: {text}" if text else type(e).__name__


@contextlib.contextmanager
def failing(
    what: str, kind: type[Error] = IoFailed, of: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Convert exceptions `of` a library, which may have any type, to an error about `what`."""
    try:
        yield
    except (Error, MemoryError):
        raise
    except of as e:
        raise kind(f"{what}: {words_of(e)}") from e


def needing(what: str, extra: str) -> contextlib.AbstractContextManager[None]:
    """Raise Unsupported if an import in a block fails: `what` needs an extra of the package."""
    return failing(f"{what} (pip install 'datamover[{extra}]')", Unsupported, (ImportError,))


def store_at(address: str, read_only: bool) -> Any:
    """Open the store at an address for zarr-python, without a request. Errors: `object_store`.

    Raises
    ------
    Unsupported
        zarr-python is not installed.
    """
    with needing(f"{address} needs zarr-python", "stores"):
        from zarr.storage import ObjectStore
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
    with needing(f"{address} needs obstore", "stores"):
        from obstore.store import from_url
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


async def others_settle(seconds: float | None = None) -> set[Any]:
    """Wait for the other tasks of zarr's loop; return those still running after `seconds`."""
    import asyncio

    this = asyncio.current_task()
    _waiting.add(this)
    try:
        left = asyncio.all_tasks() - _waiting
        if left:
            ended, left = await asyncio.wait(left, timeout=seconds)
            for task in ended:  # an error that nobody looks at is printed
                if not task.cancelled():
                    task.exception()
        return left
    finally:
        _waiting.discard(this)


def _settle() -> None:
    import asyncio

    async def end() -> None:
        for task in await others_settle(SETTLE_SECONDS):
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


def put_all(address: str, objects: Mapping[str, bytes], only_new: bool = False) -> None:
    """Write objects of a store, one after the other; with `only_new`, none that exists already.

    Raises
    ------
    IoFailed
    """
    from zarr.core.buffer import default_buffer_prototype

    store = store_at(address, read_only=False)
    put = store.set_if_not_exists if only_new else store.set
    with failing(f"{address} cannot be written"):
        for key, data in objects.items():
            done(put(key, default_buffer_prototype().buffer.from_bytes(data)))


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


def listed(address: str, deeply: bool = False) -> list[str]:
    """Return the names of the objects and directories directly at an address, or all objects.

    Raises
    ------
    IoFailed
        The server does not answer.
    """

    async def names(store: Any) -> list[str]:
        return [name async for name in (store.list() if deeply else store.list_dir(""))]

    with failing(f"{address} cannot be looked at"):
        return sorted(done(names(store_at(address, read_only=True))))


def inside(address: str, name: str) -> str:
    """Return the address of a member of a group; some characters are quoted in a URL."""
    if scheme_of(address) in READ_ONLY:
        name = urllib.parse.quote(name)
    return f"{address}/{name}"


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
        self._store = object_store(place)
        if scheme_of(address) in READ_ONLY:
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

        with failing(f"{self.address} cannot be read"):
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

        with failing(f"{self.address} cannot be read"):
            return dict(obstore.head(self._store, self._name))


class AddressBlocks(AddressBytes):
    """The bytes of an object, with a cache of blocks; for any number of open files.

    Parameters
    ----------
    address : str
    """

    def __init__(self, address: str):
        super().__init__(address)
        own: Any = weakref.ref(self)  # a cycle would keep the blocks until it is collected
        #: Returns a block by its number; `cache_clear` gives the memory of all back.
        self.block = functools.lru_cache(KEPT_BLOCKS)(lambda number: own()._fetched(number))

    def _fetched(self, number: int) -> memoryview:
        """Read a block, which may end with the object."""
        begin = number * BLOCK_BYTES
        with _collector_off():
            return self.read(begin, min(begin + BLOCK_BYTES, self.size))


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Disable the garbage collector in all threads during a request that h5py waits for.

    If it freed an h5py object in the thread that answers the request, that thread would wait for
    h5py's lock, and this thread, which holds the lock, for the answer. The lock cannot be released,
    because HDF5 is in the middle of a call. Python's collector cannot be disabled for one thread or
    some objects. It is therefore off for the whole process, but only while bytes are requested, not
    while they are copied from cached blocks. h5py admits one thread, so two of these never meet. If
    a program disables the collector at the same time in another thread, it is enabled again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class AddressFile(io.RawIOBase):
    """An object at an address, as a file for h5py.

    Parameters
    ----------
    data : AddressBlocks
    """

    def __init__(self, data: AddressBlocks):
        super().__init__()
        self._data = data
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._data.size}
        self._at = begins[whence] + offset
        return self._at

    def readinto(self, out: Any) -> int:
        """Read as many bytes as fit `out`, or as remain."""
        view = memoryview(out).cast("B")[: max(0, self._data.size - self._at)]
        count = len(view)
        if count > BLOCK_BYTES:
            with _collector_off():
                view[:] = self._data.read(self._at, self._at + count)
            self._at += count
            return count
        while view:
            number, first = divmod(self._at, BLOCK_BYTES)
            part = self._data.block(number)[first : first + len(view)]
            view[: len(part)] = part
            view = view[len(part) :]
            self._at += len(part)
        return count
