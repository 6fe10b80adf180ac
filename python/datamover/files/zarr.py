# SPDX-License-Identifier: BSD-3-Clause
"""How are Zarr arrays read and written? zarr-python does the store, the codecs and the chunks."""

from __future__ import annotations

import ctypes
import math
import os
import warnings
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files.formats import ArraySpec, Format, MoveOptions, Shape, register

COMPRESSORS = ("auto", "none", "zstd", "gzip", "blosc")
#: Chunks are about this large when nobody says how large they are to be.
DEFAULT_CHUNK_BYTES = 1 << 20


def _zarr():
    try:
        import zarr
    except ImportError as e:
        raise Unsupported("Zarr needs zarr-python 3 (pip install 'zarr>=3', Python 3.11)") from e
    return zarr


def recognizes(path: str) -> bool:
    """Tell whether a directory holds Zarr's metadata."""
    return any(os.path.exists(os.path.join(path, n)) for n in ("zarr.json", ".zarray", ".zgroup"))


class ZarrArray:
    """One process's view of an array in a Zarr store; boxes are whole chunks (or shards).

    Parameters
    ----------
    array : zarr.Array
    path : str
    dtype : numpy.dtype
        Of the elements as they are read or written; zarr brings them into the store's byte order.
    """

    def __init__(self, array: Any, path: str, dtype: np.dtype):
        self.spec = ArraySpec(tuple(array.shape), dtype)
        self.granule: Shape = tuple(array.shards or array.chunks)
        self._array = array
        self._path = path

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Chunks, or shards where there are some."""
        return self.granule

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        try:
            out.view(self.spec.dtype)[...] = self._array[_box(lo, out)]
        except Exception as e:  # whatever a codec says of bytes that it cannot decode
            raise IoError(f"{self._path} cannot be read at {lo}: {_words(e)}") from e

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        self._array[_box(lo, array)] = array.view(self.spec.dtype)

    def sync(self) -> None:
        """Bring the file system that holds the store to the disk: one call for all chunks."""
        fd = os.open(self._path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), self._path)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Nothing is open between calls."""


def _box(lo: Shape, array: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(lo, array.shape, strict=True))


def _words(e: BaseException) -> str:
    return f"{type(e).__name__}: {e}" if str(e) else type(e).__name__


def open_reader(path: str, options: MoveOptions) -> ZarrArray:
    """Open an array; groups and other things are refused."""
    zarr = _zarr()
    if not os.path.isdir(path):
        raise IoError(f"{path} is no directory; a Zarr array is one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = zarr.open(path, mode="r")
    except Exception as e:  # zarr, json and the codecs have many words for foreign metadata
        raise IoError(f"{path} is no Zarr array that can be read: {_words(e)}") from e
    if not isinstance(found, zarr.Array):
        arrays = ", ".join(sorted(found.array_keys())) or "none"
        raise IoError(f"{path} is a Zarr group; name one of its arrays: {arrays}")
    _check_dtype(found.dtype, path)
    return ZarrArray(found, path, found.dtype)


def _check_dtype(dtype: Any, where: str) -> None:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.kind == "T":
        raise Unsupported(f"{where} has dtype {dtype}: its elements have no fixed size in bytes")
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")


def check_output(spec: ArraySpec, options: MoveOptions) -> ArraySpec:
    """Check chunks, shards, compressor and dtype."""
    _check_dtype(spec.dtype, "the output")
    _check_boxes("chunks", options.chunks, spec)
    _check_boxes("shards", options.shards, spec)
    chunks = chunk_shape(spec, options)
    if options.shards and any(s % c for s, c in zip(options.shards, chunks, strict=True)):
        raise InvalidArgument(f"shards {options.shards} are no multiples of the chunks {chunks}")
    if (options.compressor or "auto") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r}; there are {', '.join(COMPRESSORS)}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _create({}, spec, options)  # in memory: tells whether Zarr knows the dtype
    except (ValueError, TypeError, KeyError, NotImplementedError, OverflowError) as e:
        raise Unsupported(f"Zarr cannot hold dtype {spec.dtype}: {_words(e)}") from e
    return ArraySpec(spec.shape, spec.dtype, "C")


def _check_boxes(what: str, boxes: Shape | None, spec: ArraySpec) -> None:
    if boxes is None:
        return
    if len(boxes) != len(spec.shape):
        raise InvalidArgument(
            f"{what} {boxes} have {len(boxes)} dimensions, the output has {len(spec.shape)}: "
            f"{spec.shape}"
        )
    if any(extent < 1 for extent in boxes):
        raise InvalidArgument(f"{what} {boxes} must be positive in every dimension")
    if math.prod(boxes) * spec.dtype.itemsize >= 2**63:
        raise InvalidArgument(f"{what} {boxes} have 2**63 bytes or more each")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the chunks that were said; else nearly cubic ones of about a megabyte."""
    if options.chunks is not None:
        return tuple(options.chunks)
    chunks = [max(extent, 1) for extent in spec.shape]
    while np.prod(chunks, dtype=object) * spec.dtype.itemsize > DEFAULT_CHUNK_BYTES and any(
        extent > 1 for extent in chunks
    ):
        d = int(np.argmax(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)


def _create(store: Any, spec: ArraySpec, options: MoveOptions) -> Any:
    zarr = _zarr()
    return zarr.create_array(
        store=store,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=chunk_shape(spec, options),
        shards=options.shards,
        compressors=_compressors(options.compressor or "auto"),
        zarr_format=3,
    )


def _compressors(name: str) -> Any:
    from zarr import codecs

    by_name = {"zstd": codecs.ZstdCodec, "gzip": codecs.GzipCodec, "blosc": codecs.BloscCodec}
    if name in by_name:
        return by_name[name]()
    return "auto" if name == "auto" else None


def create(path: str, spec: ArraySpec, options: MoveOptions) -> None:
    """Write the metadata; chunks come when they are written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _create(path, spec, options)


def open_writer(path: str, spec: ArraySpec, options: MoveOptions) -> ZarrArray:
    """Open an array that `create` made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ZarrArray(_zarr().open_array(path, mode="r+"), path, spec.dtype)


register(Format("zarr", (".zarr",), recognizes, open_reader, check_output, create, open_writer))
