# SPDX-License-Identifier: BSD-3-Clause
"""Boxes of a Zarr array: zarr-python handles the codecs and the chunks."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from datamover.errors import IoError
from datamover.files import addresses
from datamover.files.at_work import return_large_blocks
from datamover.files.formats import ArraySpec, Shape
from datamover.files.space import is_no_space, no_space
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_output import DEFAULT_CHUNK_BYTES
from datamover.files.zarr_store import zarr_python
from datamover.files.zarr_traits import ZarrTraits


class ZarrArray:
    """One process's view of an array in a Zarr store; boxes are whole chunks (or shards).

    Parameters
    ----------
    array : zarr.Array
    path : str
    dtype : numpy.dtype
        Of the elements as they are read or written; zarr brings them into the store's byte order.
    traits : ZarrTraits, optional
        What a copy is to keep.
    store : optional
        Where the array is written.
    """

    def __init__(
        self,
        array: Any,
        path: str,
        dtype: np.dtype,
        traits: ZarrTraits | None = None,
        store: Any = None,
    ):
        self.spec = ArraySpec(tuple(array.shape), dtype, kept=traits)
        self.granule: Shape = tuple(array.shards or array.chunks)
        #: What a shard consists of, each of which can be read by itself; None without shards.
        self.parts: Shape | None = tuple(array.chunks) if array.shards else None
        if math.prod(self.granule) * dtype.itemsize > DEFAULT_CHUNK_BYTES:
            return_large_blocks()
        self._array = array
        self._path = path
        self._store = store

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Chunks, or shards where there are some."""
        return self.granule

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        if self._array.shards:
            self._refuse_empty_shards(lo, out.shape)
        elements = out.view(self.spec.dtype)
        try:
            for box in self._boxes(lo, out.shape):
                here = tuple(slice(b.start - a, b.stop - a) for a, b in zip(lo, box, strict=True))
                elements[here] = self._array[box]
        except Exception as e:  # whatever a codec says of bytes that it cannot decode
            where, cause = self._broken_chunk(lo, out.shape) or (f"at {lo}", e)
            raise IoError(
                f"{self._path} cannot be read {where}: {addresses.words_of(cause)}"
            ) from e

    def _boxes(self, lo: Shape, shape: Shape) -> Iterator[tuple[slice, ...]]:
        """Cut a box at the ends of large chunks: of one box, zarr decodes all chunks at once."""
        whole = tuple(slice(a, a + n) for a, n in zip(lo, shape, strict=True))
        if math.prod(self.granule) * self.spec.dtype.itemsize < DEFAULT_CHUNK_BYTES:
            yield whole
            return
        for _, chunk in self._chunks(lo, shape):
            yield tuple(
                slice(max(a.start, b.start), min(a.stop, b.stop))
                for a, b in zip(whole, chunk, strict=True)
            )

    def _refuse_empty_shards(self, lo: Shape, shape: Shape) -> None:
        """Refuse files of no bytes, which zarr reads as if there were none."""
        for key, _ in self._chunks(lo, shape):
            with contextlib.suppress(FileNotFoundError):
                if os.path.getsize(os.path.join(self._path, key)) == 0:
                    raise IoError(f"{self._path} cannot be read in chunk {key}: its file is empty")

    def _broken_chunk(self, lo: Shape, shape: Shape) -> tuple[str, Exception] | None:
        """Find the first chunk (or shard) of a box that cannot be read."""
        for key, box in self._chunks(lo, shape):
            try:
                self._array[box]
            except Exception as e:
                return f"in chunk {key}", e
        return None

    def _chunks(self, lo: Shape, shape: Shape) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """Go through the chunks (or shards) of a box: their names and what they hold."""
        cells = [
            range(a // g, -(-(a + n) // g)) for a, n, g in zip(lo, shape, self.granule, strict=True)
        ]
        for cell in itertools.product(*cells):
            box = tuple(slice(c * g, (c + 1) * g) for c, g in zip(cell, self.granule, strict=True))
            yield self._array.metadata.encode_chunk_key(cell), box

    def check_unchanged(self) -> None:
        """Chunks are files or objects of their own: nothing tells of all of them."""

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        elements = array.view(self.spec.dtype)
        if elements.dtype.names:  # zarr stores the bytes of these as they stand in memory
            elements = elements.astype(self._array.dtype)
        try:
            target = self._array
            if target.fill_value is None or _hides_bytes(elements, target.fill_value):
                target = _writing_every_chunk(target)
            target[_box(lo, array)] = elements
        except BaseException as e:
            first = self._store.abandon(e)
            raise_no_space(first, self._path, self.spec)
            if isinstance(first, Exception) and addresses.is_address(self._path):
                words = addresses.words_of(first)
                raise IoError(f"{self._path} cannot be written: {words}") from first
            raise

    def sync(self) -> None:
        """Bring the file system that holds the store to the disk: one call for all chunks."""
        if not addresses.is_address(self._path):
            sync_file_system(self._path)

    def publish(self) -> None:
        """Write the metadata of an array at an address."""
        self._store.publish()

    def held_metadata(self) -> dict[str, bytes]:
        """Give what `publish` would write, by names of objects."""
        return self._store.held()

    def close(self) -> None:
        """Nothing is open between calls."""


def _hides_bytes(elements: np.ndarray, fill_value: Any) -> bool:
    """Tell whether some elements are equal to the fill value and have other bytes: -0.0, a NaN.

    zarr compares numbers, and leaves a chunk out where all are equal.
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


def _writing_every_chunk(array: Any) -> Any:
    """Give an open array that also writes chunks of which all elements equal the fill value."""
    said = {"write_empty_chunks": True}
    if hasattr(array, "with_config"):
        return array.with_config(said)
    return zarr_python().open_array(array.store_path, mode="r+", config=said)  # older zarr-python


def _box(lo: Shape, array: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(lo, array.shape, strict=True))


def raise_no_space(e: BaseException, path: str, spec: ArraySpec) -> None:
    """Where an error says that the disk is full, say which, and what would be needed."""
    if isinstance(e, OSError) and is_no_space(e):
        words = no_space(path, e, spec.nbytes)
        raise IoError(f"{words} (the array before compression)") from e
