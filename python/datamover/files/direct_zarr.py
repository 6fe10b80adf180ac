# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing of chunks of plain Zarr arrays by the library's threads.

Plain arrays are stored in a directory, contain numbers, have no shards or filters, and use a codec
of numcodecs (`OrdinaryArray`). zarr-python reads and writes all metadata, and the chunks of all
other arrays.
"""

from __future__ import annotations

import contextlib
import copy
import math
import mmap
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.dtype_words import dtype_of
from datamover.files import chunk_boxes, unfinished, zarr_group
from datamover.files.addresses import failing
from datamover.files.at_work import keep_large_blocks
from datamover.files.chunk_boxes import ChunkedArray, read_fully
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, Order, Shape
from datamover.files.space import ENCODED, begin_write_back, naming_no_space
from datamover.files.space import opened as opened_file

#: dtypes by their names in Zarr v3.
DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
#: Shuffles of blosc, in the order of their numbers in numcodecs.
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def require(condition: bool) -> None:
    """Raise ValueError unless the condition holds: zarr-python must handle this array."""
    if not condition:
        raise ValueError


def numcodecs_form(codec: Any) -> dict[str, Any]:
    """Return numcodecs' configuration of zstd, gzip or blosc of Zarr v3."""
    said = codec.to_dict()
    found = {"id": said["name"], **said["configuration"]}
    if found["id"] == "blosc":
        del found["typesize"]
        found["shuffle"] = SHUFFLES.index(found["shuffle"])
    return found


#: zarr-python's metadata, chunks, dtype as stored, fill value, order of the elements in a chunk,
#: and configuration of a codec of numcodecs.
Plain = tuple[Any, Sequence[int], np.dtype, Any, Order, dict[str, Any] | None]


def _of_v3(said: dict[str, Any]) -> Plain:
    """Read metadata of Zarr v3; raises any error if it is not plain, or wrong."""
    from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec
    from zarr.core.metadata import ArrayV3Metadata

    require(said["node_type"] == "array" and said["chunk_grid"]["name"] == "regular")
    dtype = DTYPES[said["data_type"]]
    found = ArrayV3Metadata.from_dict(dict(said))
    require(not found.storage_transformers and not getattr(found, "extra_fields", None))
    serializer, *codecs = found.codecs
    if not isinstance(serializer, BytesCodec) or len(codecs) > 1:
        raise ValueError
    require(all(type(codec) in (BloscCodec, GzipCodec, ZstdCodec) for codec in codecs))
    require(all(getattr(c, "typesize", dtype.itemsize) == dtype.itemsize for c in codecs))
    scalar_bytes = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    endian = getattr(serializer.endian, "value", serializer.endian)
    require(endian == "little" or (endian is None and scalar_bytes == 1))
    chunks = said["chunk_grid"]["configuration"]["chunk_shape"]
    codec = numcodecs_form(codecs[0]) if codecs else None
    return found, chunks, dtype.newbyteorder("<"), found.fill_value, "C", codec


def _of_v2(said: dict[str, Any]) -> Plain:
    """Read metadata of Zarr v2; raises any error if it is not plain, or wrong."""
    from zarr.core.metadata import ArrayV2Metadata

    require(said.get("zarr_format") == 2 and not said.get("filters"))
    require(isinstance(said["dtype"], str) and said["dtype"][0] in "<>|")
    dtype = dtype_of(said["dtype"])
    require(dtype.newbyteorder("=").name in DTYPES)
    codec = said["compressor"]
    require(codec is None or codec["id"] in ("zstd", "gzip", "zlib", "blosc", "lz4"))
    found = ArrayV2Metadata.from_dict(dict(said))
    return found, found.chunks, dtype, found.fill_value, found.order, codec


class OrdinaryArray(ChunkedArray):
    """A plain array in a directory; may be used by several threads.

    Parameters
    ----------
    path : str
    metadata : dict
        Of its zarr.json or .zarray.
    kept : ZarrTraits, optional

    Raises
    ------
    Exception
        Of any type: it is not plain, or its metadata is wrong. Arrays that are empty, a single
        element or too large for any memory are not plain.
    """

    def __init__(self, path: str, metadata: dict[str, Any], kept: Any = None):
        import numcodecs

        with warnings.catch_warnings(action="ignore"):
            is_v3 = metadata.get("zarr_format") == 3
            found, chunks, dtype, fill, order, codec = (_of_v3 if is_v3 else _of_v2)(metadata)
        self.spec = ArraySpec(tuple(found.shape), dtype, kept=kept)
        self.granule = tuple(chunks)
        size, elems = math.prod(self.spec.shape), math.prod(self.granule)
        require(len(self.spec.shape) == len(self.granule) > 0 and min(self.granule) > 0 < size)
        require(max(size, elems) * dtype.itemsize < 2**62)
        self._path, self._order, self._key = path, order, found.encode_chunk_key
        #: Whether chunks with only the fill value are left out.
        self._leaves_out = fill is not None
        self.fill_bytes = np.asarray(dtype.type(0 if fill is None else fill), dtype).tobytes()
        self._codec: Any = codec and numcodecs.get_codec(dict(codec))
        self.is_encoded = self._codec is not None
        self.reads_parts = not self.is_encoded
        if self.is_encoded:
            keep_large_blocks()
        #: Whether existing chunks are replaced, each atomically.
        self.replaces = False
        self._chunk_bytes = elems * dtype.itemsize

    def at(self, path: str) -> OrdinaryArray:
        """Return an array with the same metadata in another directory."""
        found = copy.copy(self)
        found._path = path
        return found

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a whole chunk; None if it does not exist and has the fill value."""
        key = self._key(cell)
        path = os.path.join(self._path, key)
        try:
            # Not to wait for a pipe.
            with opened_file(path, os.O_NONBLOCK) as fd, self._reading(key):
                data: Any = read_fully(fd, os.fstat(fd).st_size, 0)
                if self._codec is not None:
                    data = chunk_boxes.decode(self._codec, data, self._chunk_bytes)
                flat = np.frombuffer(data, np.uint8)
                self._check_size(flat.size)
        except FileNotFoundError:
            return None
        elements = flat.view(np.dtype((np.void, self.spec.dtype.itemsize)))
        return elements.reshape(self.granule, order=self._order)

    def read_part(self, cell: Shape, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Fill `out`, of opaque elements, with a part of a chunk; read alone if not encoded."""
        if self.is_encoded:
            super().read_part(cell, part, out)
            return
        key = self._key(cell)
        path = os.path.join(self._path, key)
        spec = ArraySpec(self.granule, self.spec.dtype, self._order)
        with self._reading(key):
            try:
                file = FlatFile(path, spec, 0, writable=False)
            except FileNotFoundError:
                self.fill(out)
                return
            with contextlib.closing(file):
                self._check_size(os.path.getsize(path))
                file.read(tuple(s.start for s in part), out)

    def _reading(self, key: str) -> contextlib.AbstractContextManager[None]:
        # Codecs raise many types for bytes that they cannot decode.
        return failing(f"{self._path} cannot be read in chunk {key}")

    def _check_size(self, nbytes: int) -> None:
        if nbytes != self._chunk_bytes:
            raise ValueError(f"it holds {nbytes:,} bytes, not {self._chunk_bytes:,}")

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order; none if all elements are fill value."""
        data = chunk.reshape(-1, order=self._order)
        path = os.path.join(self._path, self._key(cell))
        if self.is_fill(data):
            with contextlib.suppress(FileNotFoundError):  # what was there before
                os.unlink(path)
            return
        if self._codec is not None:
            data = self._codec.encode(data.view(self.spec.dtype))
        if self.replaces:
            self._replace(path, data)
        else:
            self._write_file(path, data)

    def _replace(self, path: str, data: Any) -> None:
        """Write a chunk under a hidden name, and rename it when it is complete.

        All hidden names are in the array's directory, so that the next process that opens it finds
        those of a killed process; a lock shows that this process lives.
        """
        with unfinished.replacing(self._beside()) as beside:
            self._write_file(beside, data)
            try:
                os.replace(beside, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.replace(beside, path)

    def _beside(self) -> str:
        return os.path.join(self._path, "chunk")

    def remove_leftovers(self) -> None:
        """Remove files that killed processes left while replacing chunks."""
        unfinished.remove_leftovers(self._beside())

    def _write_file(self, path: str, data: Any) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with naming_no_space(self._path, self.spec.nbytes, ENCODED):
            try:
                fd = os.open(path, flags, 0o666)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                fd = os.open(path, flags, 0o666)
            try:
                view = memoryview(data).cast("B")
                nbytes = len(view)
                while view:
                    view = view[os.write(fd, view) :]
                begin_write_back(fd, 0, nbytes + -nbytes % mmap.PAGESIZE)
            finally:
                os.close(fd)

    def may_be_fill(self, data: np.ndarray) -> bool:
        """Return False if chunks of the fill value are written like others."""
        return self._leaves_out and super().may_be_fill(data)


def opened(path: str, kept: Any = None) -> OrdinaryArray | None:
    """Open an array in a directory if it is plain; None if zarr-python has to read and write it."""
    return plain_array(path, zarr_group.metadata(path), kept)


def plain_array(path: str, metadata: dict[str, Any], kept: Any = None) -> OrdinaryArray | None:
    """Return the array of such metadata; None if it is not plain."""
    try:
        return OrdinaryArray(path, metadata, kept)
    except Exception:  # zarr raises many types for foreign metadata
        return None
