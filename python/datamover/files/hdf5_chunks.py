# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of HDF5 datasets: read at their offsets in the file, decoded by the library's threads.

h5py admits one thread at a time; it is used only to find the offset of a chunk.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from datamover.errors import IoFailed
from datamover.files import bounded_decode, hdf5, hdf5_types
from datamover.files.chunk_boxes import ChunkedArray, read_fully
from datamover.files.formats import Shape


class ChunkedDataset(hdf5.OpenDataset, ChunkedArray):
    """A chunked dataset, plain or with shuffle and gzip; may be read by several threads."""

    def __init__(self, file: Any, dataset: Any, *of_dataset: Any):
        super().__init__(file, dataset, *of_dataset)
        spec = self.spec
        self.granule: Shape = tuple(dataset.chunks)
        self._filters = filters(dataset)
        self.is_encoded = bool(self._filters)
        self.fill_bytes = hdf5_types.fill_bytes(dataset)
        self._opaque = np.dtype((np.void, spec.dtype.itemsize))
        self._chunk_bytes = math.prod(self.granule) * spec.dtype.itemsize
        self._fd = self._opened_bytes()

    def _opened_bytes(self) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC
        return -1 if self._data is not None else os.open(self._place[0], flags)

    def reopen(self) -> None:
        """Open the file again after `close`."""
        super().reopen()
        self._fd = self._opened_bytes()

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a whole chunk; None if it does not exist and has the fill value."""
        first = tuple(i * c for i, c in zip(cell, self.granule, strict=True))
        try:
            info = self._dataset.id.get_chunk_info_by_coord(first)
            if info.byte_offset is None:
                return None
            data = self._stored(info.byte_offset, info.size)
            for k in reversed(range(len(self._filters))):
                if not info.filter_mask >> k & 1:
                    data = self._decoded(self._filters[k], data)
            if len(data) != self._chunk_bytes:
                raise ValueError(f"it holds {len(data):,} bytes, not {self._chunk_bytes:,}")
        except Exception as e:  # many types are raised for bytes that cannot be decoded
            words = f"{type(e).__name__}: {e}"
            raise IoFailed(f"{self._where} cannot be read in the chunk at {first}: {words}") from e
        return np.frombuffer(data, self._opaque).reshape(self.granule)

    def _stored(self, offset: int, size: int) -> Any:
        if self._data is not None:
            return self._data.read(offset, offset + size)
        data = read_fully(self._fd, size, offset)
        if len(data) < size:
            raise ValueError("the file ends within it")
        return data

    def _decoded(self, code: int, data: Any) -> Any:
        if code == hdf5.h5py().h5z.FILTER_DEFLATE:
            return bounded_decode.inflated(data, bounded_decode.WBITS["zlib"], self._chunk_bytes)
        itemsize = self.spec.dtype.itemsize
        elems, rest = divmod(len(data), itemsize)
        if rest:
            raise ValueError("its bytes are not whole elements")
        shuffled = np.frombuffer(data, np.uint8).reshape(itemsize, elems)
        return np.ascontiguousarray(shuffled.T).reshape(-1)

    def close(self) -> None:
        """Close the file."""
        super().close()
        fd, self._fd = self._fd, -1  # it is closed even if the system reports an error
        if fd >= 0:
            os.close(fd)


def filters(dataset: Any) -> list[int]:
    """Return the codes of a dataset's filters, in the order in which they encode."""
    said = dataset.id.get_create_plist()
    return [said.get_filter(k)[0] for k in range(said.get_nfilters())]


def is_compressed(dataset: Any) -> bool:
    """Return whether any filter makes chunks smaller in the file than in memory."""
    h5z = hdf5.h5py().h5z
    return bool(set(filters(dataset)) - {h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32})
