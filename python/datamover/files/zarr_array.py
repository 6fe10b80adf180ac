# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays that zarr-python reads and writes, its stores, and the opening of any array.

Metadata of outputs can be held back.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover import lifeline
from datamover.errors import InvalidState, IoFailed, Unsupported
from datamover.files import addresses, direct_zarr, zarr_group
from datamover.files.addresses import METADATA
from datamover.files.at_work import return_large_blocks
from datamover.files.chunk_boxes import DEFAULT_CHUNK_BYTES
from datamover.files.flat import check_flat_dtype
from datamover.files.formats import (
    ArraySpec,
    MoveOptions,
    Reader,
    Shape,
    check_shape,
    pieces_of,
    slices_at,
    within,
)
from datamover.files.space import ENCODED, raise_no_space
from datamover.files.zarr_traits import ZarrTraits, granule_of, is_rectilinear, traits_of

#: Maximum number of arrays of a group that an error names.
SHOWN_ARRAYS = 10


def zarr_python() -> Any:
    """Return the package zarr. Raises Unsupported if it is missing."""
    # Half a package could not be imported again.
    whole = contextlib.nullcontext() if "zarr" in sys.modules else lifeline.all_deferred()
    with addresses.needing("Zarr needs zarr-python 3", "files"), whole:
        import zarr
    return zarr


def permit_uneven(what: str) -> None:
    """Switch on zarr-python's experimental chunks of several extents, in this process.

    Raises
    ------
    Unsupported
        This version of zarr-python does not have them.
    """
    zarr = zarr_python()
    if "rectilinear_chunks" not in zarr.config.get("array"):
        raise Unsupported(
            f"{what} has chunks of several extents along a dimension (a rectilinear grid), which "
            f"need zarr-python 3.2 and Python 3.12, or newer; this is zarr-python "
            f"{zarr.__version__} and Python {platform.python_version()}: with a newer Python, run "
            "pip install -U zarr"
        )
    zarr.config.set({"array.rectilinear_chunks": True})


def permitting(open: Callable[[], Any], what: str) -> Any:
    """Open with zarr-python, which refuses chunks of several extents unless they are permitted."""
    try:
        return open()
    except ValueError as e:
        if "rectilinear" not in str(e).lower():
            raise
    permit_uneven(what)
    return open()


def opened(path: str) -> Any:
    """Open an array or group in a directory, or at an address, for reading.

    Raises
    ------
    IoFailed
        It cannot be read.
    """
    with addresses.failing(f"{path} is not a readable Zarr array"):
        store = addresses.store_at(path, read_only=True) if addresses.is_address(path) else path
        with warnings.catch_warnings(action="ignore"):
            zarr = zarr_python()
            return permitting(lambda: zarr.open(store, mode="r", use_consolidated=False), path)


def settle() -> None:
    """Let zarr's own thread complete what it writes, if an interrupted call no longer waits for it.

    Otherwise it could write after the removal of an unfinished output, and make its directory anew.
    """
    if "zarr" in sys.modules:
        addresses.done(addresses.others_settle(addresses.SETTLE_SECONDS))


def store_to_write(place: str) -> Any:
    """Open the store of a directory, or at an address, for writing."""
    from zarr.storage import LocalStore

    is_address = addresses.is_address(place)
    return addresses.store_at(place, read_only=False) if is_address else LocalStore(place)


def rebound(array: Any, **said: Any) -> Any:
    """Return an open array with another `metadata`, `store_path` or `config`."""
    from zarr.core.array import Array, AsyncArray

    inner = array._async_array
    config = inner.config if hasattr(inner, "config") else inner._config  # before zarr 3.1
    own = {"metadata": array.metadata, "store_path": array.store_path, "config": config}
    return Array(AsyncArray(**own | said))


def bound(array: Any, place: str) -> Any:
    """Return an array that was created in memory as the one of a directory, or at an address."""
    from zarr.storage import StorePath

    return rebound(array, store_path=StorePath(store_to_write(place)))


class ZarrArray(Reader):
    """One process's view of an array in a Zarr store; boxes are whole chunks (or shards).

    Parameters
    ----------
    array : zarr.Array
    path : str
    dtype : numpy.dtype
        Dtype of the elements that are read or written; zarr converts the byte order.
    traits : ZarrTraits, optional
        Properties that a copy keeps.
    """

    def __init__(
        self,
        array: Any,
        path: str,
        dtype: np.dtype,
        traits: ZarrTraits | None = None,
    ):
        self.spec = ArraySpec(tuple(array.shape), dtype, kept=traits)
        self.granule: Shape = granule_of(array)
        self._has_shards = not is_rectilinear(array) and array.shards is not None
        #: Extents of the parts of a shard, which can be read separately; None without shards, or if
        #: these have several extents.
        self.parts: Shape | None = tuple(array.chunks) if self._has_shards else None
        if math.prod(self.granule) * dtype.itemsize > DEFAULT_CHUNK_BYTES:
            return_large_blocks()
        self._array = array
        self._path = path
        self._failure: BaseException | None = None  # of the first write that failed

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        elements, key_of = out.view(self.spec.dtype), self._array.metadata.encode_chunk_key
        pieces = [(key_of(cell), *box) for cell, _, *box in pieces_of(lo, out.shape, self.granule)]
        for key, _, _ in pieces if self._has_shards else ():
            with contextlib.suppress(FileNotFoundError):
                if os.path.getsize(os.path.join(self._path, key)) == 0:  # to zarr it is missing
                    raise IoFailed(f"{self._path} cannot be read in chunk {key}: its file is empty")
        # zarr decodes all chunks of a box together, so large ones are read one by one.
        if math.prod(self.granule) * self.spec.dtype.itemsize < DEFAULT_CHUNK_BYTES:
            with contextlib.suppress(Exception):  # the chunk that cannot be read is found below
                elements[...] = self._array[slices_at(lo, out.shape)]
                return
        for key, begin, end in pieces:  # codecs raise many types for bytes that they cannot decode
            with addresses.failing(f"{self._path} cannot be read in chunk {key}"):
                elements[within(begin, end, lo)] = self._array[tuple(map(slice, begin, end))]

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        elements = array.view(self.spec.dtype)
        if elements.dtype.names:  # zarr stores their bytes as in memory
            elements = elements.astype(self._array.dtype)
        try:
            target = self._array
            if target.fill_value is None or _hides_bytes(elements, target.fill_value):
                target = rebound(target, config={"write_empty_chunks": True})
            target[slices_at(lo, array.shape)] = elements
        except BaseException as e:
            # Before the others are refused, because they raise the first failure, not the refusal.
            first = self._failure = self._failure or e
            # zarr's thread would write all other chunks of the box, and nobody would remove them.
            self._array.store.set = _refuse
            addresses.done(addresses.others_settle())
            raise_no_space(first, self._path, self.spec.nbytes, ENCODED)
            if isinstance(first, Exception) and addresses.is_address(self._path):
                words = addresses.words_of(first)
                raise IoFailed(f"{self._path} cannot be written: {words}") from first
            raise first from first.__cause__


async def _refuse(*_: Any) -> None:
    raise InvalidState("a write failed before")


def _hides_bytes(elements: np.ndarray, fill_value: Any) -> bool:
    """Return whether elements equal the fill value but have other bytes, such as -0.0 or a NaN.

    zarr compares numbers, and leaves a chunk out if all are equal.
    """
    dtype = elements.dtype
    if dtype.kind not in "fc" and dtype.names is None:
        return False
    fill = np.asarray(fill_value, dtype)
    equal = elements == fill
    if dtype.names is None and np.isnan(fill):
        equal = np.isnan(elements)
    opaque = np.dtype((np.void, dtype.itemsize))
    same = elements.view(opaque) == np.frombuffer(fill.tobytes(), opaque)[0]
    return bool(np.any(equal & ~same))


def recognizes(path: str) -> bool:
    """Return whether a directory contains Zarr's metadata."""
    return any(os.path.exists(os.path.join(path, name)) for name in METADATA)


def open_reader(path: str, options: MoveOptions) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an array for reading; the library's threads read its chunks if it is plain.

    Raises for groups and anything else.
    """
    zarr = zarr_python()
    at_address = addresses.is_address(path)
    if not at_address and not os.path.isdir(path):
        raise IoFailed(f"{path} is not a directory; a Zarr array is one")
    if not at_address:
        for name in zarr_group.METADATA:  # zarr-python would wait for a pipe
            zarr_group.content_of(path, name)
        if not recognizes(path):
            raise IoFailed(f"{path} is a directory without {' or '.join(METADATA)}: no Zarr array")
    found = opened(path)
    if not isinstance(found, zarr.Array):
        raise IoFailed(f"{path} is a Zarr group; {_how_to_name(path, at_address)}")
    dtype, metadata = found.dtype, found.metadata.to_dict()
    becomes_text = options.output_dtype is np.dtype(object) and options.output_format == "hdf5"
    if (options.output_format in ("zarr", "hdf5") and zarr_group.has_strings(metadata)) or (
        becomes_text and zarr_group.has_short_strings(metadata)
    ):
        dtype = np.dtype(object)
    else:
        check_flat_dtype(dtype, path)
    check_shape(found.shape, dtype, path)
    granule = granule_of(found)
    if any(extent < 1 for extent in granule):
        raise IoFailed(f"{path} has empty chunks of {granule}")
    with addresses.failing(f"{path} is not a readable Zarr array"):
        array = ZarrArray(found, path, dtype, traits_of(found, path))
    return array if at_address else direct_zarr.opened(path, array.spec.kept) or array


def _how_to_name(path: str, at_address: bool) -> str:
    """Return how to name an array of a group, and the first names, if they are quickly known."""
    if at_address:
        return f"name one of its arrays, as {path}/NAME"
    arrays = sorted(zarr_group.arrays(path))
    if not arrays:
        return "there is no array in it"
    more = f", and {len(arrays) - SHOWN_ARRAYS} more" if len(arrays) > SHOWN_ARRAYS else ""
    return (
        f"name one of its arrays, as {path}/{arrays[0]}: {', '.join(arrays[:SHOWN_ARRAYS])}{more}"
    )


def reopened(path: str, dtype: np.dtype) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an existing array for reading and writing of elements of a dtype."""
    found = direct_zarr.opened(path)
    if found is not None and found.spec.dtype == dtype:  # in the same byte order
        return found
    with warnings.catch_warnings(action="ignore"):
        zarr = zarr_python()
        array = permitting(lambda: zarr.open_array(store_to_write(path), mode="r+"), path)
    return ZarrArray(array, path, dtype)
