# SPDX-License-Identifier: BSD-3-Clause
"""Plain Zarr arrays: a positive check of their metadata, and how their chunks are stored.

`direct_zarr` reads and writes the chunks of plain arrays; zarr-python handles all others. It also
parses the metadata.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.dtype_words import dtype_of
from datamover.files.formats import Order, Shape

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
    key : callable
        Returns the name of a chunk.
    leaves_out : bool
        Whether chunks with only the fill value are left out.
    """

    shape: Shape
    chunks: Shape
    dtype: np.dtype
    fill_value: Any
    order: Order
    codec: dict[str, Any] | None
    key: Callable[[Shape], str]
    leaves_out: bool = True


def numcodecs_form(codec: Any) -> dict[str, Any]:
    """Return numcodecs' configuration of zstd, gzip or blosc of Zarr v3."""
    said = codec.to_dict()
    found = {"id": said["name"], **said["configuration"]}
    if found["id"] == "blosc":
        del found["typesize"]
        found["shuffle"] = SHUFFLES.index(found["shuffle"])
    return found


def _layout_of_v3(said: dict[str, Any]) -> Layout:
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
    return Layout(
        shape=tuple(found.shape),
        chunks=tuple(said["chunk_grid"]["configuration"]["chunk_shape"]),
        dtype=dtype.newbyteorder("<"),
        fill_value=dtype.type(found.fill_value),
        order="C",
        codec=numcodecs_form(codecs[0]) if codecs else None,
        key=found.encode_chunk_key,
    )


def _layout_of_v2(said: dict[str, Any]) -> Layout:
    """Read metadata of Zarr v2; raises any error if it is not plain, or wrong."""
    from zarr.core.metadata import ArrayV2Metadata

    require(said.get("zarr_format") == 2 and not said.get("filters"))
    require(isinstance(said["dtype"], str) and said["dtype"][0] in "<>|")
    dtype = dtype_of(said["dtype"])
    require(dtype.newbyteorder("=").name in DTYPES)
    codec = said["compressor"]
    require(codec is None or codec["id"] in ("zstd", "gzip", "zlib", "blosc", "lz4"))
    found = ArrayV2Metadata.from_dict(dict(said))
    fill = found.fill_value
    return Layout(
        shape=tuple(found.shape),
        chunks=tuple(found.chunks),
        dtype=dtype,
        fill_value=dtype.type(0 if fill is None else fill),
        order=found.order,
        codec=codec,
        key=found.encode_chunk_key,
        leaves_out=fill is not None,
    )


def layout_of(said: dict[str, Any]) -> Layout:
    """Return the storage of a plain array from its zarr.json or .zarray.

    Raises
    ------
    Exception
        Of any type: it is not plain, or its metadata is wrong. Arrays that are empty, a single
        element or too large for any memory are not plain.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _layout_of_v3(said) if said.get("zarr_format") == 3 else _layout_of_v2(said)
    size = math.prod(found.shape)
    require(len(found.shape) == len(found.chunks) > 0 and min(found.chunks) > 0 < size)
    require(max(size, math.prod(found.chunks)) * found.dtype.itemsize < 2**62)
    return found
