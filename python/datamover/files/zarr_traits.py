# SPDX-License-Identifier: BSD-3-Clause
"""Properties of a Zarr array, in addition to its elements, that a copy in Zarr keeps."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from datamover.files.chunk_grid import Uneven, chunks_of, several_extents, window
from datamover.files.direct_zarr import SHUFFLES
from datamover.files.formats import Shape
from datamover.files.json_values import FILL_VALUE, MISSING, numbers

#: xarray's attribute in arrays of Zarr v2 for the `dimension_names` of v3.
DIMENSIONS_V2 = "_ARRAY_DIMENSIONS"
#: Kinds of zarr-python's dtypes for strings of any length, which have codecs of their own.
TEXT = "OT"


def missing_to_zarr(value: Any, dtype: np.dtype) -> Any:
    """Return a missing value in xarray's form for Zarr v3: for floats, a double's bytes in base64.

    Examples
    --------
    >>> import numpy as np
    >>> from datamover.files.zarr_traits import missing_from_zarr, missing_to_zarr
    >>> missing_to_zarr(-1, np.dtype("i2")), missing_to_zarr(-1, np.dtype("f4"))
    (-1, 'AAAAAAAA8L8=')
    >>> missing_from_zarr("AAAAAAAA8L8=", np.dtype("f4"))
    np.float32(-1.0)
    """
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if dtype.kind == "f" and isinstance(value, (int, float)):
        return base64.standard_b64encode(struct.pack("<d", value)).decode()
    return value


def missing_from_zarr(value: Any, dtype: np.dtype) -> Any:
    """Convert back; values of another form, or not of that type, stay unchanged."""
    value = numbers(value)
    try:
        if dtype.kind == "f" and isinstance(value, float):
            return dtype.type(value)
        if dtype.kind == "f" and isinstance(value, str):
            with np.errstate(all="ignore"):
                return dtype.type(_double(value))
        return dtype.type(value) if dtype.kind in "iu" and isinstance(value, int) else value
    except (ValueError, OverflowError, struct.error):
        return value


def _double(text: str) -> float:
    return struct.unpack("<d", base64.standard_b64decode(text))[0]


def with_missing(attributes: dict[str, Any], dtype: np.dtype) -> dict[str, Any]:
    """Return attributes for converted elements; values of missing ones are converted like them."""
    found = dict(attributes)
    for name in MISSING:
        if name in found:
            found[name] = _missing_converted(name, found[name], dtype)
    return found


def _missing_converted(name: str, value: Any, dtype: np.dtype) -> Any:
    with contextlib.suppress(ValueError, TypeError, OverflowError, struct.error):
        is_encoded = name == FILL_VALUE and isinstance(value, str)
        number = np.asarray(_double(value) if is_encoded else value)
        if dtype.kind in "iuf" and number.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                value = number.astype(dtype).tolist()
    return missing_to_zarr(value, dtype) if name == FILL_VALUE else value


def attributes_of_v2(
    attributes: dict[str, Any], fill_value: Any, is_of_xarray: bool, dtype: np.dtype
) -> dict[str, Any]:
    """Return attributes in v3 for an array of v2, whose fill value xarray treats as missing."""
    if not is_of_xarray or fill_value is None or dtype.kind not in "iuf":
        return attributes
    plain = float(fill_value) if dtype.kind == "f" else int(fill_value)
    return {FILL_VALUE: missing_to_zarr(plain, dtype), **attributes}


@dataclasses.dataclass(frozen=True)
class ZarrTraits:
    """Attributes, names, fill value, chunks and codecs of an array; arguments of `create_array`.

    Attributes
    ----------
    chunks, shards : tuple of int
        Extents per dimension; shards are None if there are none.
    dimension_names : tuple of str, or None
    compressors : tuple of codecs, or "auto" where those of the array are unknown to Zarr v3
    others : dict
        Properties that a permutation of dimensions does not change.
    of_format_2 : dict, optional
        For an array of format 2, the properties of a copy in that format, instead of the above.
    native : hdf5_attributes.NativeTraits, optional
        For an array in HDF5, the properties of a copy in HDF5.
    where : str
        The array, as a user names it.
    losses : tuple of str
        Descriptions of what a copy in Zarr cannot have, unless it has format 2 like the array.
    """

    chunks: Shape
    shards: Shape | None
    dimension_names: tuple[str | None, ...] | None
    compressors: Any
    others: dict[str, Any]
    of_format_2: dict[str, Any] | None = None
    native: Any = None
    where: str = ""
    losses: tuple[str, ...] = ()

    def permuted(self, axes: Shape) -> ZarrTraits:
        """Return the properties of the array whose dimension k is dimension axes[k] of this one."""
        said = {name: getattr(self, name) for name in ("chunks", "shards", "dimension_names")}
        found: Any = {name: one and tuple(one[a] for a in axes) for name, one in said.items()}
        return dataclasses.replace(self, **found)

    def within(self, origin: Shape, extents: Shape) -> ZarrTraits:
        """Return the properties of a region, whose first and last chunks may be cut."""
        chunks = tuple(map(window, self.chunks, origin, extents))
        shards = None if several_extents(self.shards) else self.shards  # may end within chunks
        return dataclasses.replace(self, chunks=chunks, shards=shards)

    def converted(self, dtype: np.dtype) -> ZarrTraits:
        """Return the properties for elements of another type; codecs may depend on it."""
        with np.errstate(all="ignore"):
            fill = np.asarray(self.others.get("fill_value", 0)).astype(dtype)[()]
        kept = {k: v for k, v in self.others.items() if k in ("attributes", "chunk_key_encoding")}
        if "attributes" in kept:
            kept["attributes"] = with_missing(kept["attributes"], dtype)
        return dataclasses.replace(
            self,
            compressors=_compressors_for(self.compressors, dtype),
            others={**kept, "fill_value": fill},
            of_format_2=None,
            native=self.native and self.native.converted(dtype),
        )


def attributes_of(kept: ZarrTraits | None) -> dict[str, Any]:
    """Return the attributes that are kept."""
    return {} if kept is None else kept.others.get("attributes", {})


def _compressors_for(codecs: Any, dtype: np.dtype) -> Any:
    """Return codecs for elements of another type; "auto" if some may not suit it."""
    if codecs is None or isinstance(codecs, str):
        return codecs
    from zarr.codecs import BloscCodec

    found = []
    for codec in codecs:
        said = codec.to_dict()
        if said["name"] not in ("zstd", "gzip", "crc32c", "blosc"):
            return "auto"
        if said["name"] == "blosc":
            codec = BloscCodec(**{**said["configuration"], "typesize": dtype.itemsize})
        found.append(codec)
    return tuple(found)


def is_rectilinear(array: Any) -> bool:
    """Return whether the chunks of an open array are listed in its metadata."""
    metadata = array.metadata  # format 2 warns of its grid
    return metadata.zarr_format == 3 and hasattr(metadata.chunk_grid, "chunk_shapes")


def granule_of(array: Any) -> Shape:
    """Return the chunks of an open array, or its shards."""
    if not is_rectilinear(array):
        return tuple(array.shards or array.chunks)
    return tuple(map(chunks_of, array.metadata.chunk_grid.chunk_shapes, array.shape))


def traits_of(array: Any, where: str = "") -> ZarrTraits:
    """Read the properties of an open array of Zarr v2 or v3, which a user names `where`."""
    return (_of_v2 if array.metadata.zarr_format == 2 else _of_v3)(array, where)


def _of_v3(array: Any, where: str) -> ZarrTraits:
    metadata = array.metadata
    stored = granule_of(array)
    inner = _innermost(metadata.codecs, stored, is_rectilinear(array))
    chunks, are_in_shards, codecs, compressors = inner or (stored, False, {}, "auto")
    # The last shard in the list may end with the array, within a chunk. In a new array, none may.
    keeps_shards = are_in_shards and not any(
        n % chunk
        for shard, chunk in zip(stored, chunks, strict=True)
        for n in (shard.sizes if isinstance(shard, Uneven) else [shard])
    )
    if array.dtype.names:  # the codec does not define the byte order of records
        codecs.pop("serializer", None)
    if array.dtype.kind in TEXT:
        codecs = {}
    return ZarrTraits(
        chunks=chunks,
        shards=stored if keeps_shards else None,
        dimension_names=metadata.dimension_names,
        compressors=compressors,
        others={
            "attributes": array.attrs.asdict(),
            "fill_value": metadata.fill_value,
            **codecs,
            "chunk_key_encoding": metadata.chunk_key_encoding,
        },
        where=where,
    )


def _innermost(
    chain: tuple[Any, ...], chunks: Shape, are_cut: bool
) -> tuple[Shape, bool, dict[str, Any], tuple[Any, ...] | None] | None:
    """Return the smallest chunks of an array, and their codecs; None if one around them is unknown.

    With `are_cut`, the given ones may end with the array, within a chunk.

    These are the chunks, in the dimensions of the array, whether they are in shards, filters and
    serializer in the form of `create_array`, and compressors in that form.

    Codecs around shards become the chunks' own: this stores the same elements, and zarr-python,
    like others, only creates arrays of shards without a codec around them.

    Raises
    ------
    ValueError
        Shards are not multiples of their chunks. zarr-python reads them, except for the rest.
    """
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.codecs import ShardingCodec, TransposeCodec

    filters, compressors, are_in_shards = (), (), False
    # Dimensions of the array, in the order of the next codec.
    axes: Sequence[int] = range(len(chunks))
    while True:
        at = next(k for k, codec in enumerate(chain) if isinstance(codec, ArrayBytesCodec))
        filters, serializer, compressors = (
            filters + chain[:at],
            chain[at],
            chain[at + 1 :] + compressors,
        )
        if not isinstance(serializer, ShardingCodec):
            codecs = {"filters": filters or None, "serializer": serializer}
            return chunks, are_in_shards, codecs, compressors or None
        for codec in chain[:at]:
            if not isinstance(codec, TransposeCodec):
                return None
            axes = [axes[k] for k in codec.order]
        of_axis = dict(zip(axes, serializer.chunk_shape, strict=True))
        if any(n < 1 or not (are_cut or chunks[d] % n == 0) for d, n in of_axis.items()):
            raise ValueError(f"shards of {chunks} are not multiples of the chunks in them")
        chunks = tuple(of_axis[d] for d in range(len(chunks)))
        chain, are_in_shards, are_cut = serializer.codecs, True, False


def _of_v2(array: Any, where: str) -> ZarrTraits:
    attributes = array.attrs.asdict()
    names = attributes.get(DIMENSIONS_V2)
    named = isinstance(names, list) and len(names) == len(array.shape)
    if named:
        del attributes[DIMENSIONS_V2]
    fill = array.metadata.fill_value
    filters = () if array.dtype.kind in TEXT else array.filters or ()
    words = ", ".join(one.get_config()["id"] for one in filters)
    return ZarrTraits(
        chunks=tuple(max(extent, 1) for extent in array.chunks),
        shards=None,
        dimension_names=tuple(names) if named else None,
        compressors=_compressors_of_v2(array),
        # Missing chunks are read as zeros if v2 has no fill value.
        others={
            "attributes": attributes_of_v2(attributes, fill, named, array.dtype),
            "fill_value": np.zeros((), array.dtype)[()] if fill is None else fill,
        },
        of_format_2={
            "attributes": attributes,
            "fill_value": fill,
            "compressors": array.compressors or None,
            "filters": filters or None,
        },
        where=where,
        losses=(f"{where}: its filters are left out: {words}",) if filters else (),
    )


def _compressors_of_v2(array: Any) -> Any:
    from zarr.registry import get_codec_class

    if not array.compressors:
        return None
    said = dict(array.compressors[0].get_config())
    name = said.pop("id")
    if name not in ("zstd", "gzip", "blosc"):
        return "auto"
    if name == "blosc":
        shuffle = said.get("shuffle", 1)
        if shuffle == -1:  # numcodecs: by the size of the elements
            shuffle = 2 if array.dtype.itemsize == 1 else 1
        said |= {"typesize": array.dtype.itemsize, "shuffle": SHUFFLES[shuffle]}
    return (get_codec_class(name)(**said),)
