# SPDX-License-Identifier: BSD-3-Clause
"""The zarr.json of an ordinary array, and the part of it that a copy keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.json_values import valid
from datamover.files.ordinary_layout import DTYPES, Layout, fill_value_of_json, require
from datamover.files.zarr_traits import (
    DIMENSIONS_V2,
    ZarrTraits,
    attributes_of_v2,
    with_missing,
)


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


def kept_of_v2(
    layout: Layout, attributes: Any, fill: Any, traits: Callable[[], ZarrTraits]
) -> Kept:
    """Give what zarr.json would say of an array of v2."""
    require(isinstance(attributes, dict))
    names = attributes.get(DIMENSIONS_V2)
    named = isinstance(names, list) and len(names) == len(layout.shape)
    if named:
        require(all(isinstance(name, str) for name in names))
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
    return valid(value.item())


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
        metadata = valid(spec.kept.metadata)
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
