# SPDX-License-Identifier: BSD-3-Clause
"""Properties of a Zarr output: dtype, chunks, shards and codecs, and whether they are supported."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses, zarr_format_2
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.json_values import valid
from datamover.files.ordinary_layout import DTYPES
from datamover.files.zarr_store import created, zarr_python

COMPRESSORS = ("auto", "none", "zstd", "gzip", "blosc")
#: Approximate default size of chunks.
DEFAULT_CHUNK_BYTES = 1 << 20


def made_in_memory(spec: ArraySpec, options: MoveOptions) -> tuple[Any, dict[str, bytes]]:
    """Check chunks, shards, compressor and dtype; return the result of `zarr_store.created`."""
    check_dtype(spec.dtype, "the output")
    check_boxes("chunks", options.chunks, spec)
    check_boxes("shards", options.shards, spec)
    chunks = chunk_shape(spec, options)
    check_boxes("chunks", chunks, spec)
    if options.shards is not None and not spec.shape:
        raise InvalidArgument("an array of one element has no shards")
    if options.shards and any(s % c for s, c in zip(options.shards, chunks, strict=True)):
        raise InvalidArgument(f"shards {options.shards} are not multiples of the chunks {chunks}")
    if (options.compressor or "auto") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r}; there are {', '.join(COMPRESSORS)}"
        )
    stored = stored_dtype(spec.dtype)
    shards = _shards(spec, options)
    said = arguments(spec, options)  # raises for options that the format does not have
    held = f"dtype {spec.dtype}{'' if shards is None else ' in shards'}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = created(lambda store: create_in(store, spec.shape, stored, chunks, shards, said))
            kept = spec.dtype.newbyteorder("=").name in DTYPES or _keeps_values(
                stored, spec.dtype, shards is not None, options.zarr_format or 3
            )
    except (OSError, MemoryError):
        raise
    except Exception as e:  # zarr and its codecs raise many types for unsupported dtypes
        raise Unsupported(f"Zarr cannot hold {held}: {addresses.words_of(e)}") from e
    if not kept:
        raise Unsupported(f"Zarr cannot hold {held}: values change when they are read again")
    return made


def check_dtype(dtype: Any, where: str) -> None:
    """Reject elements without a fixed size in bytes, or of 0 bytes."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.kind == "T":
        raise Unsupported(f"{where} has dtype {dtype}: its elements have no fixed size in bytes")
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of elements in a Zarr array: records packed, in little endian.

    Zarr's records have no byte order of their own and no gaps.

    Raises
    ------
    Unsupported
        A field is an array.
    """
    if dtype.names is None:
        return dtype
    fields = []
    for name in dtype.names:
        field = dtype[name]
        if field.subdtype is not None:
            raise Unsupported(
                f"Zarr cannot hold dtype {dtype}: its field {name!r} is an array of {field.shape}; "
                "make it fields of their own, or write .h5 or .npy"
            )
        fields.append((name, stored_dtype(field)))
    return np.dtype(fields).newbyteorder("<")


def titled(dtype: np.dtype, above: str = "") -> Iterator[str]:
    """Yield the names of fields with titles, also inside other fields."""
    for name in dtype.names or ():
        field, *_ = found = cast(Any, dtype.fields)[name]
        if len(found) > 2:
            yield repr(above + name)
        yield from titled(field, f"{above}{name}.")


def _keeps_values(stored: np.dtype, given: np.dtype, in_shards: bool, zarr_format: int) -> bool:
    """Return whether elements written to a Zarr array in memory are read again unchanged."""
    samples = _samples(given).astype(stored)
    store: dict[str, Any] = {}
    shards = (4,) if in_shards else None
    zarr_python().create_array(
        store, shape=(3,), chunks=(2,), shards=shards, dtype=stored, zarr_format=zarr_format
    )
    zarr_python().open_array(store, mode="r+")[...] = samples
    back = zarr_python().open_array(store, mode="r")[...].astype(stored)
    return back.tobytes() == samples.tobytes()


def _samples(dtype: np.dtype) -> np.ndarray:
    """Return three elements with different bytes."""
    if dtype.names:
        samples = np.zeros(3, dtype)
        for name in dtype.names:
            samples[name] = _samples(dtype[name])
        return samples
    if dtype.kind in "bU":
        return np.array([True, False, True] if dtype.kind == "b" else ["a", "b", ""]).astype(dtype)
    return np.frombuffer((bytes(range(1, 256)) * (1 + dtype.itemsize))[: 3 * dtype.itemsize], dtype)


def check_boxes(what: str, boxes: Shape | None, spec: ArraySpec) -> None:
    """Check that chunks, or shards, can be those of an array."""
    if boxes is None:
        return
    if len(boxes) != len(spec.shape):
        raise InvalidArgument(
            f"{what} {boxes} have {len(boxes)} dimensions; the output has {len(spec.shape)}: "
            f"{spec.shape}"
        )
    if any(extent < 1 for extent in boxes):
        raise InvalidArgument(f"{what} {boxes} must be positive in every dimension")
    if math.prod(boxes) * spec.dtype.itemsize >= 2**63:
        raise InvalidArgument(f"{what} {boxes} have 2**63 bytes or more each")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the requested chunks, the input's, or nearly cubic ones of a megabyte."""
    if options.chunks is not None:
        return tuple(options.chunks)
    if spec.kept is not None:
        return spec.kept.chunks
    chunks = [max(extent, 1) for extent in spec.shape]
    while np.prod(chunks, dtype=object) * spec.dtype.itemsize > DEFAULT_CHUNK_BYTES and any(
        extent > 1 for extent in chunks
    ):
        d = int(np.argmax(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)


def _shards(spec: ArraySpec, options: MoveOptions) -> Shape | None:
    """Return the requested shards, or the input's if its chunks are kept."""
    if options.shards is None and options.chunks is None and spec.kept is not None:
        return spec.kept.shards
    return options.shards


def arguments(spec: ArraySpec, options: MoveOptions) -> dict[str, Any]:
    """Return the arguments of zarr-python's `create_array` except shape, dtype and chunks."""
    if options.zarr_format == 2:
        said = "kept" if options.compressor is None else compressors_of(options.compressor)
        return zarr_format_2.arguments(spec, _shards(spec, options), said)
    found: dict[str, Any] = {"compressors": "auto", "zarr_format": 3}
    if spec.kept is not None:
        kept = spec.kept
        found |= {
            **kept.others,
            "dimension_names": kept.dimension_names,
            "compressors": kept.compressors,
        }
    if spec.dimension_names is not None:
        found["dimension_names"] = spec.dimension_names
    if options.compressor is not None:
        found["compressors"] = compressors_of(options.compressor)
    return found


def compressors_of(name: str) -> Any:
    """Return the compressor of a name in zarr-python's form."""
    from zarr import codecs

    by_name = {"zstd": codecs.ZstdCodec, "gzip": codecs.GzipCodec, "blosc": codecs.BloscCodec}
    if name in by_name:
        return by_name[name]()
    return "auto" if name == "auto" else None


def create_in(
    store: Any, shape: Shape, dtype: Any, chunks: Shape, shards: Shape | None, said: dict[str, Any]
) -> Any:
    """Create an array in a zarr-python store; `said` are the results of `arguments`."""
    said = said | {"attributes": valid(said.get("attributes", {}))}
    return zarr_python().create_array(
        store=store, shape=shape, dtype=dtype, chunks=chunks, shards=shards, **said
    )
