# SPDX-License-Identifier: BSD-3-Clause
"""Plain Zarr arrays: a positive check of their metadata, and how their chunks are stored.

`direct_zarr` reads and writes the chunks of plain arrays; zarr-python handles all others.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from datamover.dtype_words import dtype_of
from datamover.files.formats import Order, Shape
from datamover.files.json_values import SPECIAL_FLOATS

#: dtypes by their names in Zarr v3.
DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
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
    "node_type",  # as `zarr_group.metadata` adds it
}


class NotPlain(Exception):
    """Raised if zarr-python must read and write this array."""


def require(condition: bool) -> None:
    """Raise NotPlain unless the condition holds."""
    if not condition:
        raise NotPlain


@dataclasses.dataclass(frozen=True)
class Layout:
    """Storage of the chunks of a plain array.

    Attributes
    ----------
    shape, chunks : tuple of int
    dtype : numpy.dtype
        As stored, with its byte order.
    fill_value : numpy scalar
    order : str
        "C" or "F": order of the elements within a chunk.
    codec : dict or None
        Configuration for numcodecs.
    prefix, separator : str
        Parts of the names of chunks.
    leaves_out : bool
        Whether chunks with only the fill value are left out.
    """

    shape: Shape
    chunks: Shape
    dtype: np.dtype
    fill_value: Any
    order: Order
    codec: dict[str, Any] | None
    prefix: str
    separator: str
    leaves_out: bool = True

    def key(self, cell: Shape) -> str:
        """Return the name of a chunk."""
        return self.prefix + self.separator.join(map(str, cell))


def _extents(value: Any, dims: int | None, least: int) -> Shape:
    require(isinstance(value, list) and (dims is None or len(value) == dims))
    require(all(type(n) is int and least <= n < 2**62 for n in value))
    return tuple(value)


def _fill_value(value: Any, dtype: np.dtype) -> Any:
    """Read a fill value in the notation of Zarr v3."""
    if dtype.kind == "c":
        require(isinstance(value, list) and len(value) == 2)
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return dtype.type(complex(*(float(_fill_value(v, part)) for v in value)))
    if dtype.kind == "b":
        require(type(value) is bool)
    elif dtype.kind == "f":
        value = SPECIAL_FLOATS.get(value, value) if isinstance(value, str) else value
        require(type(value) in (int, float))
    else:
        require(type(value) is int and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    return dtype.type(value)


def _codec_of_v3(codec: Any, dtype: np.dtype) -> dict[str, Any]:
    require(isinstance(codec, dict) and set(codec) == {"name", "configuration"})
    name, said = codec["name"], codec["configuration"]
    require(isinstance(said, dict))
    if name == "zstd":
        require(set(said) == {"level", "checksum"} and type(said["level"]) is int)
        return {"id": "zstd", "level": said["level"], "checksum": bool(said["checksum"])}
    if name == "gzip":
        require(set(said) == {"level"} and type(said["level"]) is int)
        return {"id": "gzip", "level": said["level"]}
    require(name == "blosc" and set(said) >= {"cname", "clevel", "shuffle", "blocksize"})
    require(said["shuffle"] in SHUFFLES and said.get("typesize") == dtype.itemsize)
    return {
        "id": "blosc",
        "cname": said["cname"],
        "clevel": said["clevel"],
        "shuffle": SHUFFLES[said["shuffle"]],
        "blocksize": said["blocksize"],
    }


def _layout_of_v3(said: dict[str, Any]) -> Layout:
    """Read metadata of Zarr v3; raises `NotPlain`, or any error for wrong metadata."""
    require(said.get("zarr_format") == 3 and said.get("node_type") == "array")
    require(set(said) <= V3_KEYS and not said.get("storage_transformers"))
    shape = _extents(said["shape"], None, 0)
    dtype = DTYPES[said["data_type"]]
    require(said["chunk_grid"]["name"] == "regular")
    chunks = _extents(said["chunk_grid"]["configuration"]["chunk_shape"], len(shape), 1)
    encoding = said["chunk_key_encoding"]
    require(encoding["name"] in ("default", "v2"))
    usual = "/" if encoding["name"] == "default" else "."
    separator = encoding.get("configuration", {}).get("separator", usual)
    require(separator in ("/", "."))
    names = said.get("dimension_names")
    require(names is None or (isinstance(names, list) and len(names) == len(shape)))
    require(isinstance(said.get("attributes", {}), dict))
    codecs = said["codecs"]
    require(isinstance(codecs, list) and 1 <= len(codecs) <= 2 and codecs[0]["name"] == "bytes")
    scalar_bytes = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    said_endian = codecs[0].get("configuration", {}).get("endian")
    require(said_endian == "little" or (said_endian is None and scalar_bytes == 1))
    return Layout(
        shape=shape,
        chunks=chunks,
        dtype=dtype.newbyteorder("<"),
        fill_value=_fill_value(said["fill_value"], dtype),
        order="C",
        codec=_codec_of_v3(codecs[1], dtype) if len(codecs) == 2 else None,
        prefix=f"c{separator}" if encoding["name"] == "default" else "",
        separator=separator,
    )


def _layout_of_v2(said: dict[str, Any]) -> Layout:
    """Read metadata of Zarr v2; raises `NotPlain`, or any error for wrong metadata."""
    require(said.get("zarr_format") == 2 and set(said) <= V2_KEYS and not said.get("filters"))
    shape = _extents(said["shape"], None, 0)
    require(isinstance(said["dtype"], str))
    dtype = dtype_of(said["dtype"])
    require(dtype.newbyteorder("=").name in DTYPES and said["dtype"][0] in "<>|")
    fill = said["fill_value"]
    codec = said["compressor"]
    require(codec is None or codec["id"] in ("zstd", "gzip", "zlib", "blosc", "lz4"))
    require(said["order"] in ("C", "F"))
    separator = said.get("dimension_separator", ".")
    require(separator in ("/", "."))
    plain = dtype.newbyteorder("=")
    return Layout(
        shape=shape,
        chunks=_extents(said["chunks"], len(shape), 1),
        dtype=dtype,
        fill_value=plain.type(0) if fill is None else _fill_value(fill, plain),
        order=said["order"],
        codec=codec,
        prefix="",
        separator=separator,
        leaves_out=fill is not None,
    )


def layout_of(said: dict[str, Any]) -> Layout:
    """Return the storage of a plain array from its zarr.json or .zarray.

    Raises
    ------
    NotPlain, ValueError, LookupError, TypeError, AttributeError, OverflowError
        It is not plain, or its metadata is wrong. Arrays that are empty, a single element or too
        large for any memory are not plain.
    """
    found = _layout_of_v3(said) if said.get("zarr_format") == 3 else _layout_of_v2(said)
    size = math.prod(found.shape)
    require(len(found.shape) > 0 and size > 0 and size * found.dtype.itemsize < 2**62)
    require(math.prod(found.chunks) * found.dtype.itemsize < 2**62)
    return found
