# SPDX-License-Identifier: BSD-3-Clause
"""How are chunks of ordinary Zarr arrays read and written without zarr-python?

Ordinary are arrays in a directory, of numbers, without shards and filters, with a codec of
numcodecs. Their metadata is read and written here, which takes no time; for all others, and for
all that is not as it should be, zarr-python is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import mmap
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from datamover.dtype_words import dtype_of
from datamover.errors import IoError, Unsupported
from datamover.files import bounded_decode, write_back
from datamover.files.at_work import keep_large_blocks
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.scratch import contiguous_pieces
from datamover.files.space import is_no_space, no_space
from datamover.files.zarr_traits import (
    DIMENSIONS_V2,
    ZarrTraits,
    attributes_of_v2,
    with_missing,
)

#: dtypes by their names in Zarr v3.
DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
SPECIAL_FLOATS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
V3_KEYS = {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "zarr_format",
    "node_type",
    "storage_transformers",
    "dimension_names",
}
V2_KEYS = {
    "shape",
    "chunks",
    "dtype",
    "fill_value",
    "order",
    "filters",
    "compressor",
    "zarr_format",
    "dimension_separator",
}


class _NotOrdinary(Exception):
    """zarr-python is to look at this array."""


def _require(condition: bool) -> None:
    if not condition:
        raise _NotOrdinary


@dataclasses.dataclass(frozen=True)
class Layout:
    """How an ordinary array stands in its directory.

    Attributes
    ----------
    shape, chunks : tuple of int
    dtype : numpy.dtype
        As stored, with its byte order.
    fill_value : numpy scalar
    order : str
        "C" or "F", of the elements within a chunk.
    codec : dict or None
        As numcodecs knows it.
    prefix, separator : str
        Of the names of chunks.
    leaves_out : bool
        Whether chunks of nothing but the fill value are left out.
    """

    shape: Shape
    chunks: Shape
    dtype: np.dtype
    fill_value: Any
    order: str
    codec: dict[str, Any] | None
    prefix: str
    separator: str
    leaves_out: bool = True

    def key(self, cell: Shape) -> str:
        """Return the name of a chunk."""
        return self.prefix + self.separator.join(map(str, cell))


def _extents(value: Any, dims: int | None, least: int) -> Shape:
    _require(isinstance(value, list) and (dims is None or len(value) == dims))
    _require(all(type(n) is int and least <= n < 2**62 for n in value))
    return tuple(value)


def fill_value_of_json(value: Any, dtype: np.dtype) -> Any:
    """Read a fill value as Zarr v3 writes it."""
    if dtype.kind == "c":
        _require(isinstance(value, list) and len(value) == 2)
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return dtype.type(complex(*(float(fill_value_of_json(v, part)) for v in value)))
    if dtype.kind == "b":
        _require(type(value) is bool)
    elif dtype.kind == "f":
        value = SPECIAL_FLOATS.get(value, value) if isinstance(value, str) else value
        _require(type(value) in (int, float))
    else:
        _require(type(value) is int and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    return dtype.type(value)


def _codec_of_v3(codec: Any, dtype: np.dtype) -> dict[str, Any]:
    _require(isinstance(codec, dict) and set(codec) == {"name", "configuration"})
    name, said = codec["name"], codec["configuration"]
    _require(isinstance(said, dict))
    if name == "zstd":
        _require(set(said) == {"level", "checksum"} and type(said["level"]) is int)
        return {"id": "zstd", "level": said["level"], "checksum": bool(said["checksum"])}
    if name == "gzip":
        _require(set(said) == {"level"} and type(said["level"]) is int)
        return {"id": "gzip", "level": said["level"]}
    _require(name == "blosc" and set(said) >= {"cname", "clevel", "shuffle", "blocksize"})
    _require(said["shuffle"] in SHUFFLES and said.get("typesize") == dtype.itemsize)
    return {
        "id": "blosc",
        "cname": said["cname"],
        "clevel": said["clevel"],
        "shuffle": SHUFFLES[said["shuffle"]],
        "blocksize": said["blocksize"],
    }


def _layout_of_v3(said: dict[str, Any]) -> Layout:
    _require(said.get("zarr_format") == 3 and said.get("node_type") == "array")
    _require(set(said) <= V3_KEYS and not said.get("storage_transformers"))
    shape = _extents(said["shape"], None, 0)
    dtype = DTYPES[said["data_type"]]
    _require(said["chunk_grid"]["name"] == "regular")
    chunks = _extents(said["chunk_grid"]["configuration"]["chunk_shape"], len(shape), 1)
    encoding = said["chunk_key_encoding"]
    _require(encoding["name"] in ("default", "v2"))
    usual = "/" if encoding["name"] == "default" else "."
    separator = encoding.get("configuration", {}).get("separator", usual)
    _require(separator in ("/", "."))
    names = said.get("dimension_names")
    _require(names is None or (isinstance(names, list) and len(names) == len(shape)))
    _require(isinstance(said.get("attributes", {}), dict))
    codecs = said["codecs"]
    _require(isinstance(codecs, list) and 1 <= len(codecs) <= 2 and codecs[0]["name"] == "bytes")
    scalar_bytes = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    said_endian = codecs[0].get("configuration", {}).get("endian")
    _require(said_endian == "little" or (said_endian is None and scalar_bytes == 1))
    return Layout(
        shape=shape,
        chunks=chunks,
        dtype=dtype.newbyteorder("<"),
        fill_value=fill_value_of_json(said["fill_value"], dtype),
        order="C",
        codec=_codec_of_v3(codecs[1], dtype) if len(codecs) == 2 else None,
        prefix=f"c{separator}" if encoding["name"] == "default" else "",
        separator=separator,
    )


def _layout_of_v2(said: dict[str, Any]) -> Layout:
    _require(said.get("zarr_format") == 2 and set(said) <= V2_KEYS and not said.get("filters"))
    shape = _extents(said["shape"], None, 0)
    _require(isinstance(said["dtype"], str))
    dtype = dtype_of(said["dtype"])
    _require(dtype.newbyteorder("=").name in DTYPES and said["dtype"][0] in "<>|")
    fill = said["fill_value"]
    codec = said["compressor"]
    _require(codec is None or codec["id"] in ("zstd", "gzip", "zlib", "blosc", "lz4"))
    _require(said["order"] in ("C", "F"))
    separator = said.get("dimension_separator", ".")
    _require(separator in ("/", "."))
    plain = dtype.newbyteorder("=")
    return Layout(
        shape=shape,
        chunks=_extents(said["chunks"], len(shape), 1),
        dtype=dtype,
        fill_value=plain.type(0) if fill is None else fill_value_of_json(fill, plain),
        order=said["order"],
        codec=codec,
        prefix="",
        separator=separator,
        leaves_out=fill is not None,
    )


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@dataclasses.dataclass(frozen=True)
class Kept:
    """What an ordinary array has besides its elements, that a copy of it in Zarr keeps.

    Attributes
    ----------
    chunks : tuple of int
    metadata : dict
        As it would stand in `zarr.json`.
    traits : callable
        Gives the same as zarr-python has it.
    """

    chunks: Shape
    metadata: dict[str, Any]
    traits: Callable[[], ZarrTraits]

    def permuted(self, axes: Shape) -> Kept:
        """Give those of the array whose dimension k is dimension axes[k] of this one."""
        metadata = dict(self.metadata)
        if metadata.get("dimension_names") is not None:
            metadata["dimension_names"] = [metadata["dimension_names"][a] for a in axes]
        return Kept(
            tuple(self.chunks[a] for a in axes), metadata, lambda: self.traits().permuted(axes)
        )

    def converted(self, dtype: np.dtype) -> Kept | ZarrTraits:
        """Give those of the array with elements of another type."""
        if dtype.newbyteorder("=").name not in DTYPES or dtype.newbyteorder("<") != dtype:
            return self.traits().converted(dtype)
        own = DTYPES[self.metadata["data_type"]]
        fill = fill_value_of_json(self.metadata["fill_value"], own)
        with np.errstate(all="ignore"):
            metadata = {**self.metadata, **_new_metadata(dtype, np.asarray(fill).astype(dtype)[()])}
        for name in ("attributes", "chunk_key_encoding"):
            metadata[name] = self.metadata[name]
        metadata["attributes"] = with_missing(metadata["attributes"], dtype)
        codecs = self.metadata["codecs"][1:]
        metadata["codecs"] += [_codec_for(codec, dtype) for codec in codecs]
        return Kept(self.chunks, metadata, lambda: self.traits().converted(dtype))


def _codec_for(codec: dict[str, Any], dtype: np.dtype) -> dict[str, Any]:
    """Give a codec of Zarr v3 for elements of another type, of whose size blosc is told."""
    if codec["name"] != "blosc":
        return codec
    return {**codec, "configuration": {**codec["configuration"], "typesize": dtype.itemsize}}


def attributes_of(kept: Kept | ZarrTraits | None) -> dict[str, Any]:
    """Give the attributes that are kept."""
    if isinstance(kept, Kept):
        return kept.metadata.get("attributes", {})
    return kept.others.get("attributes", {}) if isinstance(kept, ZarrTraits) else {}


def _codec(config: dict[str, Any] | None) -> Any:
    if config is None:
        return None
    try:
        import numcodecs
    except ImportError as e:
        raise Unsupported(
            "encoded chunks need numcodecs, which comes with zarr-python 3 "
            "(pip install 'datamover[files]')"
        ) from e
    return numcodecs.get_codec(dict(config))


class OrdinaryArray(ChunkedArray):
    """An ordinary array in a directory; may be used by several threads.

    Parameters
    ----------
    path : str
    layout : Layout
    kept : Kept, optional
    """

    def __init__(self, path: str, layout: Layout, kept: Kept | None = None):
        self.spec = ArraySpec(layout.shape, layout.dtype, kept=kept)
        self.granule = layout.chunks
        self.layout = layout
        self._path = path
        self._codec = _codec(layout.codec)
        self.is_encoded = self._codec is not None
        self.reads_parts = not self.is_encoded
        if self.is_encoded:
            keep_large_blocks()
        self._file_system = write_back.FileSystem()
        #: Whether chunks that are there are replaced, each at once.
        self.replaces = False
        self._elems = math.prod(layout.chunks)
        self._chunk_bytes = self._elems * layout.dtype.itemsize
        self.fill_bytes = np.asarray(layout.fill_value, layout.dtype).tobytes()

    def read_chunk(self, cell: Shape) -> np.ndarray | None:
        """Read and decode a chunk, whole; None if it is not there and holds the fill value."""
        key = self.layout.key(cell)
        try:
            fd = os.open(os.path.join(self._path, key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            found = _read_all(fd)
            data = found
            if self._codec is not None:
                data = bounded_decode.decode(self._codec, found, self._chunk_bytes)
            flat = np.frombuffer(data, np.uint8)
            if flat.size != self._chunk_bytes:
                raise ValueError(f"it holds {flat.size:,} bytes, not {self._chunk_bytes:,}")
        except Exception as e:  # whatever a codec says of bytes that it cannot decode
            raise self._unreadable(key, e) from e
        finally:
            os.close(fd)
        elements = flat.view(np.dtype((np.void, self.layout.dtype.itemsize)))
        return elements.reshape(self.layout.chunks, order=self.layout.order)

    def read_part(self, cell: Shape, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Fill `out`, of opaque elements, with a part of a chunk: by itself where it stands so."""
        if self.is_encoded:
            super().read_part(cell, part, out)
            return
        key = self.layout.key(cell)
        try:
            with contextlib.closing(self._chunk_as_file(key)) as file:
                file.read(tuple(s.start for s in part), out)
        except FileNotFoundError:
            self.fill(out)
        except (ValueError, OSError, IoError) as e:
            raise self._unreadable(key, e) from e

    def _chunk_as_file(self, key: str) -> FlatFile:
        spec = ArraySpec(self.layout.chunks, self.layout.dtype, self.layout.order)
        path = os.path.join(self._path, key)
        file = FlatFile(path, spec, 0, writable=False)
        if (size := os.stat(path).st_size) != self._chunk_bytes:
            file.close()
            raise ValueError(f"it holds {size:,} bytes, not {self._chunk_bytes:,}")
        return file

    def _unreadable(self, key: str, e: Exception) -> IoError:
        words = f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
        return IoError(f"{self._path} cannot be read in chunk {key}: {words}")

    def write_view(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a whole chunk that lies anyhow in memory."""
        plain = not self.is_encoded and not self.replaces and self.layout.order == "C"
        if chunk.flags.c_contiguous or not plain or self.may_be_fill(chunk):
            super().write_view(cell, chunk)
            return
        self._file_system.open(self._path)
        self._write_file(os.path.join(self._path, self.layout.key(cell)), contiguous_pieces(chunk))

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode and write a chunk, contiguous in C order; none where all is fill value."""
        data = chunk.reshape(-1, order=self.layout.order)
        path = os.path.join(self._path, self.layout.key(cell))
        if self.is_fill(data):
            if self.replaces:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            return
        self._file_system.open(self._path)
        if self._codec is not None:
            data = self._codec.encode(data.view(self.layout.dtype))
        if self.replaces:
            self._replace(path, data)
        else:
            self._write_file(path, [data])

    def _replace(self, path: str, data: Any) -> None:
        """Write a chunk under a hidden name, and give it its own when it is whole.

        All hidden names are in the array's directory, so that the next to open it finds those that
        a killed process left; a lock tells that this one lives.
        """
        from datamover.files import placing

        beside = placing.temporary_path(self._beside(), os.urandom(6).hex())
        lock = placing.claim(beside, is_directory=False)
        try:
            self._write_file(beside, [data])
            try:
                os.replace(beside, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        finally:
            placing.let_go(lock)

    def _beside(self) -> str:
        return os.path.join(self._path, "chunk")

    def remove_leftovers(self) -> list[str]:
        """Remove what killed processes left that replaced chunks; return the names removed."""
        from datamover.files import placing

        return placing.remove_leftovers(self._beside())

    def _write_file(self, path: str, pieces: Iterable[Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            try:
                fd = os.open(path, flags, 0o666)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                fd = os.open(path, flags, 0o666)
            try:
                nbytes = 0
                for piece in pieces:
                    view = memoryview(piece).cast("B")
                    nbytes += len(view)
                    while view:
                        view = view[os.write(fd, view) :]
                write_back.begin(fd, 0, nbytes + -nbytes % mmap.PAGESIZE)
            finally:
                os.close(fd)
        except OSError as e:
            if is_no_space(e):
                words = no_space(self._path, e, self.spec.nbytes)
                raise IoError(f"{words} (the array before compression)") from e
            raise

    def may_be_fill(self, data: np.ndarray) -> bool:
        """Never, where chunks of the fill value are written as others are."""
        return self.layout.leaves_out and super().may_be_fill(data)

    def sync(self) -> None:
        """Bring the file system that holds the array to the disk."""
        self._file_system.sync(self._path)

    def close(self) -> None:
        """Close the directory."""
        self._file_system.close()


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    found = os.read(fd, size) if size else b""
    while len(found) < size:
        more = os.read(fd, size - len(found))
        if not more:
            break
        found += more
    return found


def open_reader(path: str, traits: Callable[[], ZarrTraits]) -> OrdinaryArray | None:
    """Open an array that is ordinary; None where zarr-python is to do it.

    `traits` gives what zarr-python knows of it, for outputs that are not ordinary.
    """
    try:
        if os.path.exists(os.path.join(path, "zarr.json")):
            metadata = _read_json(os.path.join(path, "zarr.json"))
            layout = _layout_of_v3(metadata)
            _check_size(layout)
            return OrdinaryArray(path, layout, Kept(layout.chunks, metadata, traits))
        metadata = _read_json(os.path.join(path, ".zarray"))
        layout = _layout_of_v2(metadata)
        _check_size(layout)
        attributes = {}
        with contextlib.suppress(FileNotFoundError):
            attributes = _read_json(os.path.join(path, ".zattrs"))
        fill = metadata["fill_value"]
        return OrdinaryArray(path, layout, _kept_of_v2(layout, attributes, fill, traits))
    except (_NotOrdinary, OSError, ValueError, LookupError, TypeError, AttributeError,
            RecursionError, Unsupported, OverflowError):  # fmt: skip
        return None


def _check_size(layout: Layout) -> None:
    """Leave to zarr-python what is empty, one element, or too large for any memory."""
    _require(len(layout.shape) > 0 and math.prod(layout.shape) > 0)
    _require(math.prod(layout.shape) * layout.dtype.itemsize < 2**62)
    _require(math.prod(layout.chunks) * layout.dtype.itemsize < 2**62)


def _kept_of_v2(
    layout: Layout, attributes: Any, fill: Any, traits: Callable[[], ZarrTraits]
) -> Kept:
    """Give what zarr.json would say of an array of v2."""
    _require(isinstance(attributes, dict))
    names = attributes.get(DIMENSIONS_V2)
    named = isinstance(names, list) and len(names) == len(layout.shape)
    if named:
        _require(all(isinstance(name, str) for name in names))
        attributes = {k: v for k, v in attributes.items() if k != DIMENSIONS_V2}
    metadata = _new_metadata(layout.dtype, layout.fill_value)
    said_fill = None if fill is None else layout.fill_value
    metadata["attributes"] = attributes_of_v2(attributes, said_fill, named, layout.dtype)
    if named:
        metadata["dimension_names"] = names
    codec = layout.codec
    if codec is not None:
        metadata["codecs"].append(_codec_to_v3(codec, layout.dtype))
    return Kept(layout.chunks, metadata, traits)


def _codec_to_v3(codec: dict[str, Any], dtype: np.dtype) -> dict[str, Any]:
    if codec["id"] == "zstd":
        said = {"level": codec["level"], "checksum": bool(codec.get("checksum"))}
    elif codec["id"] == "gzip":
        said = {"level": codec["level"]}
    elif codec["id"] == "blosc":
        shuffle = codec.get("shuffle", 1)
        shuffle = (2 if dtype.itemsize == 1 else 1) if shuffle == -1 else shuffle
        said = {
            "typesize": dtype.itemsize,
            "cname": codec["cname"],
            "clevel": codec["clevel"],
            "shuffle": ("noshuffle", "shuffle", "bitshuffle")[shuffle],
            "blocksize": codec.get("blocksize", 0),
        }
    else:  # v3 has no such codec: zarr's own choice
        return _zstd(0)
    return {"name": codec["id"], "configuration": said}


def _zstd(level: int) -> dict[str, Any]:
    return {"name": "zstd", "configuration": {"level": level, "checksum": False}}


def ordinary_metadata(
    dtype: np.dtype, fill_value: Any, attributes: dict[str, Any], names: list[str | None] | None
) -> dict[str, Any] | None:
    """Give what zarr.json would say of an array from elsewhere; None where it is not ordinary."""
    plain = dtype.newbyteorder("=")
    if dtype.names or plain.name not in DTYPES:
        return None
    metadata = _new_metadata(plain, plain.type(fill_value))
    metadata["codecs"].append(_zstd(0))
    metadata["attributes"] = attributes
    if names is not None:
        metadata["dimension_names"] = names
    return metadata


def _json_value(value: Any) -> Any:
    """Write a fill value as Zarr v3 does."""
    if value.dtype.kind == "c":
        return [_json_value(value.real), _json_value(value.imag)]
    if value.dtype.kind == "f" and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.item()


def _new_metadata(dtype: np.dtype, fill_value: Any) -> dict[str, Any]:
    serializer: dict[str, Any] = {"name": "bytes"}
    if (dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize) > 1:
        serializer["configuration"] = {"endian": "little"}
    return {
        "shape": [],
        "data_type": dtype.newbyteorder("=").name,
        "chunk_grid": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _json_value(fill_value),
        "codecs": [serializer],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def output_metadata(spec: ArraySpec, chunks: Shape, options: MoveOptions) -> dict | None:
    """Give the zarr.json of an output; None where zarr-python is to make it."""
    plain = spec.dtype.newbyteorder("=")
    if spec.dtype.names or plain.name not in DTYPES or options.shards:
        return None
    if not spec.shape or spec.nbytes == 0:
        return None
    if spec.dtype.newbyteorder("<") != spec.dtype:
        return None  # zarr-python swaps the bytes
    if spec.kept is None:
        metadata = _new_metadata(spec.dtype, plain.type(0))
        metadata["codecs"].append(_zstd(0))
    elif isinstance(spec.kept, Kept):
        metadata = json.loads(json.dumps(spec.kept.metadata))
    else:
        return None
    if spec.dimension_names is not None:
        metadata["dimension_names"] = list(spec.dimension_names)
    metadata["shape"] = list(spec.shape)
    metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    if options.compressor is not None:
        codec = {
            "auto": [_zstd(0)],
            "none": [],
            "zstd": [_zstd(0)],
            "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
        }.get(options.compressor)
        if codec is None:
            return None
        metadata["codecs"] = [metadata["codecs"][0], *codec]
    return metadata


def preview(metadata: dict[str, Any]) -> OrdinaryArray:
    """Give an array of such metadata without a place."""
    return OrdinaryArray("", _layout_of_v3(metadata))


def preview_of_v2(metadata: dict[str, Any]) -> OrdinaryArray | None:
    """Give an array of such metadata without a place; None where it is not ordinary."""
    try:
        layout = _layout_of_v2(metadata)
        _check_size(layout)
        return OrdinaryArray("", layout)
    except (_NotOrdinary, LookupError, TypeError, Unsupported):
        return None


def create(path: str, metadata: dict[str, Any], spec: ArraySpec) -> None:
    """Write the metadata; chunks come when they are written."""
    try:
        with open(os.path.join(path, "zarr.json"), "w", encoding="utf-8") as file:
            json.dump(metadata, file, indent=2)
    except OSError as e:
        if is_no_space(e):
            words = no_space(path, e, spec.nbytes)
            raise IoError(f"{words} (the array before compression)") from e
        raise
