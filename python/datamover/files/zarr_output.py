# SPDX-License-Identifier: BSD-3-Clause
"""Zarr outputs, and their properties: format, dtype, chunks, codecs; which are supported.

Format 2 has no names of dimensions (xarray keeps them in an attribute), no shards, one compressor
of numcodecs, and a fill value that xarray treats as missing.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import addresses, direct_zarr, formats, zarr_array, zarr_group
from datamover.files.chunk_boxes import check_boxes, chunk_shape
from datamover.files.chunk_grid import Uneven, several_extents
from datamover.files.direct_zarr import DTYPES, numcodecs_form
from datamover.files.flat import check_flat_dtype
from datamover.files.formats import ArraySpec, Late, MoveOptions, Shape, log
from datamover.files.json_values import FILL_VALUE, valid
from datamover.files.zarr_array import ZarrArray, bound, zarr_python
from datamover.files.zarr_traits import DIMENSIONS_V2, ZarrTraits, missing_from_zarr

COMPRESSORS = ("auto", "none", "zstd", "gzip", "blosc")
#: Properties of an array that is not from Zarr or HDF5.
NOTHING_KEPT = ZarrTraits((), None, None, "auto", {})


def settled(output: str, options: MoveOptions) -> MoveOptions:
    """Return options with a Zarr output's format: the option, that of the enclosing group, or 3.

    Raises
    ------
    InvalidArgument
        The format is unknown, or differs from that of the group, where Zarr would not find it; or
        the output is inside an array, where Zarr would not find it either.
    """
    said = options.zarr_format
    is_integer = isinstance(said, (int, np.integer))
    if said is not None and not (is_integer and said in (2, 3)):
        raise InvalidArgument(f"unknown Zarr format {said!r}; there are 2 and 3")
    nodes = list(zarr_group.around(output))
    array = zarr_group.array_among(nodes)
    if array is not None:
        raise InvalidArgument(f"{array} is a Zarr array: nothing in it would be found")
    group, node = nodes[0] if nodes else ("", {})
    above = node.get("zarr_format") if node.get("node_type") == "group" else None
    if above in (2, 3) and said not in (None, above):
        raise InvalidArgument(
            f"{group} is a Zarr group of format {above}: nothing of format {said} is found in it; "
            f"omit {formats.option('zarr_format', said)}, or write elsewhere"
        )
    found = int(said or (above if above in (2, 3) else 3))
    return dataclasses.replace(options, zarr_format=found)


def metadata_files(zarr_format: int | None) -> int:
    """Return the number of files of an array or group without chunks."""
    return 2 if zarr_format == 2 else 1


def arguments_of_format_2(
    spec: ArraySpec, kept: ZarrTraits, shards: Any, said: Any
) -> dict[str, Any]:
    """Return arguments of zarr-python's `create_array` for the properties of an array.

    Parameters
    ----------
    spec : ArraySpec
    kept : ZarrTraits
        Properties of the input.
    shards : tuple of int, optional
        The requested shards, or those of the input.
    said : codec, None, "auto" or "kept"
        The codec in terms of format 3; "kept" is the input's.

    Raises
    ------
    InvalidArgument, Unsupported
        Format 2 does not have an option, or a property of the input.
    """
    if shards is not None:
        raise InvalidArgument(
            f"shards {shards}: Zarr format 2 has none; pass {formats.option('chunks')} alone"
        )
    found: dict[str, Any] = {"zarr_format": 2, "order": "C", "filters": None}
    if kept.of_format_2 is not None:
        attributes = kept.of_format_2["attributes"]
        if spec.names is not None:
            attributes = attributes | {DIMENSIONS_V2: list(spec.names)}
        found |= kept.of_format_2 | {"attributes": attributes}
        return found if said == "kept" else found | {"compressors": compressor(said)}
    _refuse_codecs(kept)
    found["compressors"] = compressor(kept.compressors if said == "kept" else said)
    if "fill_value" in kept.others:
        found["fill_value"] = kept.others["fill_value"]
    return found | _described(kept.others.get("attributes", {}), spec)


def _described(attributes: dict[str, Any], spec: ArraySpec) -> dict[str, Any]:
    """Return attributes with the names of dimensions, and with these xarray's fill value.

    xarray treats each element that equals it as missing, so without missing elements there is none.
    """
    names = () if spec.shape == () else spec.names  # xarray requires them for one element too
    if names is None:
        return {"attributes": dict(attributes)}
    found = attributes | {DIMENSIONS_V2: list(names)}
    missing = None
    if spec.dtype.kind in "iuf" and FILL_VALUE in attributes:
        missing = missing_from_zarr(attributes[FILL_VALUE], spec.dtype)
    if not isinstance(missing, np.generic):
        return {"attributes": found, "fill_value": None}
    del found[FILL_VALUE]
    return {"attributes": found, "fill_value": missing}


def _refuse_codecs(kept: ZarrTraits) -> None:
    """Reject codecs before the compressor that format 2 does not have.

    Transposed chunks are written in C order instead.
    """
    serializer = kept.others.get("serializer")
    own = [] if serializer is None else [serializer]
    names = [_name(codec) for codec in (*(kept.others.get("filters") or ()), *own)]
    if names := [name for name in names if name not in ("bytes", "transpose")]:
        raise Unsupported(
            f"the input has the codecs {', '.join(names)}, which Zarr format 2 does not have"
        )


def _name(codec: Any) -> str:
    return codec.to_dict()["name"]


def compressor(codecs: Any) -> Any:
    """Return numcodecs' compressor for codecs of format 3; None and "auto" stay.

    Raises
    ------
    Unsupported
        There is none that writes the same bytes.
    """
    if codecs is None or isinstance(codecs, str):
        return codecs
    import numcodecs

    codecs = codecs if isinstance(codecs, tuple) else (codecs,)
    names = [_name(codec) for codec in codecs]
    if len(names) > 1 or names[0] not in ("zstd", "gzip", "blosc"):
        raise Unsupported(
            f"the input has the codecs {', '.join(names)}, which Zarr format 2 does not have; "
            f"pass {formats.option('compressor')}"
        )
    return numcodecs.get_codec(numcodecs_form(codecs[0]))


def made_in_memory(spec: ArraySpec, options: MoveOptions) -> tuple[Any, dict[str, bytes]]:
    """Check chunks, shards, compressor and dtype; return the result of `created`."""
    stored: Any = str
    if not spec.dtype.hasobject:
        check_flat_dtype(spec.dtype, "the output")
        stored = stored_dtype(spec.dtype)
    elif options.zarr_format == 2:
        spec = _text_of_format_2(spec)
    check_boxes("shards", options.shards, spec)
    chunks = chunk_shape(spec, options)
    check_boxes("chunks", chunks, spec)
    if options.shards is not None and not spec.shape:
        raise InvalidArgument("an array of one element has no shards")
    shards = _shards(spec, options)
    if several_extents(chunks) and (shards or options.zarr_format == 2):
        raise InvalidArgument(
            f"chunks {chunks} have several extents along a dimension, which "
            f"{'shards' if shards else 'Zarr format 2'} cannot have; pass "
            f"{formats.option('chunks')}, one extent per dimension"
        )
    if options.shards and any(s % c for s, c in zip(options.shards, chunks, strict=True)):
        raise InvalidArgument(f"shards {options.shards} are not multiples of the chunks {chunks}")
    if (options.compressor or "auto") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r}; there are {', '.join(COMPRESSORS)}"
        )
    said = arguments(spec, options)  # raises for options that the format does not have
    if spec.dtype.hasobject:
        said.pop("filters", None)  # strings have their own
    held = f"dtype {spec.dtype}{'' if shards is None else ' in shards'}"
    refusing = addresses.failing(f"Zarr cannot hold {held}", Unsupported)
    with refusing, warnings.catch_warnings(action="ignore"):
        made = created(spec.shape, stored, chunks, shards, said)
        is_known = spec.dtype.hasobject or spec.dtype.newbyteorder("=").name in DTYPES
        kept = is_known or _keeps_values(
            stored, spec.dtype, shards is not None, options.zarr_format or 3
        )
    if not kept:
        raise Unsupported(f"Zarr cannot hold {held}: values change when they are read again")
    return made


def _text_of_format_2(spec: ArraySpec) -> ArraySpec:
    """Return strings without shards, and without a fill value, which xarray treats as missing."""
    kept = spec.kept
    others = {name: value for name, value in kept.others.items() if name != "fill_value"}
    return dataclasses.replace(spec, kept=dataclasses.replace(kept, shards=None, others=others))


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


def _shards(spec: ArraySpec, options: MoveOptions) -> Shape | None:
    """Return the requested shards, or the input's if its chunks are kept."""
    if options.shards is None and options.chunks is None and spec.kept is not None:
        return spec.kept.shards
    return options.shards


def arguments(spec: ArraySpec, options: MoveOptions) -> dict[str, Any]:
    """Return the arguments of zarr-python's `create_array` except shape, dtype and chunks."""
    kept: ZarrTraits = spec.kept or NOTHING_KEPT
    said = "kept" if options.compressor is None else compressors_of(options.compressor)
    if options.zarr_format == 2:
        return arguments_of_format_2(spec, kept, _shards(spec, options), said)
    codecs = kept.compressors if said == "kept" else said
    return {**kept.others, "zarr_format": 3, "dimension_names": spec.names, "compressors": codecs}


def compressors_of(name: str) -> Any:
    """Return the compressor of a name in zarr-python's form."""
    from zarr.registry import get_codec_class

    if name in ("auto", "none"):
        return "auto" if name == "auto" else None
    return get_codec_class(name)()


def created(
    shape: Shape, dtype: Any, chunks: Shape, shards: Shape | None, said: dict[str, Any]
) -> tuple[Any, dict[str, bytes]]:
    """Create an array in memory; `said` are the results of `arguments`.

    Returns
    -------
    tuple
        The array, and its metadata by names of objects; the last one makes it visible.
    """
    said = said | {"attributes": valid(said.get("attributes", {}))}
    largest = {"chunks": tuple(map(int, chunks)), "shards": shards and tuple(map(int, shards))}
    zarr = zarr_python()
    held: dict[str, Any] = {}
    array = zarr.create_array(store=held, shape=shape, dtype=dtype, **largest, **said)
    grid = shards or chunks
    if several_extents(grid):
        # Not by arguments: those of zarr-python 3.2 have no extents next to lists of sizes.
        zarr_array.permit_uneven("the output")
        sizes = [n.sizes if isinstance(n, Uneven) else n for n in grid]
        metadata = json.loads(held["zarr.json"].to_bytes())
        metadata["chunk_grid"] = {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": sizes},
        }
        data = json.dumps(metadata, indent=2).encode()
        held["zarr.json"] = type(held["zarr.json"]).from_bytes(data)
        array = zarr.open_array(held, mode="r+")
    return array, {key: held[key].to_bytes() for key in sorted(held, reverse=True)}


class ZarrOutput(formats.Output):
    """An array that will be written: made once, in memory, and then placed."""

    def __init__(self, spec: ArraySpec, options: MoveOptions):
        self._array, self._objects = made_in_memory(spec, options)
        kept = spec.kept
        keeps_all = kept is None or (options.zarr_format == 2 and kept.of_format_2 is not None)
        self._losses = () if keeps_all else kept.losses
        super().__init__(dataclasses.replace(spec, order="C"), options)
        metadata = json.loads(next(reversed(self._objects.values())))
        found = direct_zarr.plain_array("", metadata)
        self._is_plain = found is not None and found.spec.dtype == spec.dtype
        self.shown = found if self._is_plain else ZarrArray(self._array, "", spec.dtype)

    def create(self, path: str) -> Late:
        """Return the metadata; log what the array does not have."""
        for words in self._losses:
            log.warning("%s", words)
        if found := list(titled(self.spec.dtype)):
            words = ", ".join(found)
            log.warning("the titles of fields are left out, as Zarr has none: %s", words)
        return self._objects

    def open(self, path: str) -> ZarrArray | direct_zarr.OrdinaryArray:
        """Open the array for writing."""
        if self._is_plain and not addresses.is_address(path):
            return self.shown.at(path)
        return ZarrArray(bound(self._array, path), path, self.spec.dtype)


FORMAT = formats.Format(
    "zarr", (".zarr",), zarr_array.recognizes, zarr_array.open_reader, ZarrOutput, True
)
