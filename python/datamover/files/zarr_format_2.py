# SPDX-License-Identifier: BSD-3-Clause
"""Zarr format 2: its arrays, and the outputs that use it.

Format 2 has no names of dimensions (xarray keeps them in an attribute), no shards, one compressor
of numcodecs, and a fill value that xarray treats as missing.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import formats, zarr_group
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.json_values import FILL_VALUE
from datamover.files.ordinary_layout import numcodecs_form
from datamover.files.zarr_traits import DIMENSIONS_V2, ZarrTraits, missing_from_zarr


def settled(output: str, options: MoveOptions) -> MoveOptions:
    """Return options with a Zarr output's format. Raises the errors of `format_at`."""
    return dataclasses.replace(options, zarr_format=format_at(output, options.zarr_format))


def format_at(output: str, said: int | None) -> int:
    """Return the format of a Zarr output: the option, or that of the enclosing group, or 3.

    Raises
    ------
    InvalidArgument
        The format is unknown, or differs from that of the group, where Zarr would not find it; or
        the output is inside an array, where Zarr would not find it either.
    """
    is_integer = isinstance(said, (int, np.integer))
    if said is not None and not (is_integer and said in (2, 3)):
        raise InvalidArgument(f"unknown Zarr format {said!r}; there are 2 and 3")
    group = os.path.dirname(output)
    array = zarr_group.array_around(output)
    if array is not None:
        raise InvalidArgument(f"{array} is a Zarr array: nothing in it would be found")
    above = zarr_group.format_of(group) if group else None
    if above is not None and said not in (None, above):
        raise InvalidArgument(
            f"{group} is a Zarr group of format {above}: nothing of format {said} is found in it; "
            f"omit {formats.option('zarr_format', said)}, or write elsewhere"
        )
    return int(said or above or 3)


def metadata_files(zarr_format: int | None) -> int:
    """Return the number of files of an array or group without chunks."""
    return 2 if zarr_format == 2 else 1


def arguments(spec: ArraySpec, shards: Any, said: Any) -> dict[str, Any]:
    """Return arguments of zarr-python's `create_array` for the properties of an array.

    Parameters
    ----------
    spec : ArraySpec
        Its `kept` has the properties as `ZarrTraits`.
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
    kept: ZarrTraits | None = spec.kept
    if kept is None:
        codec = "auto" if said == "kept" else said
        found["compressors"] = compressor(codec)
        return found | _described({}, spec.dimension_names, spec)
    names = kept.dimension_names if spec.dimension_names is None else spec.dimension_names
    if kept.of_format_2 is not None:
        attributes = kept.of_format_2["attributes"]
        if names is not None:
            attributes = attributes | {DIMENSIONS_V2: list(names)}
        found |= kept.of_format_2 | {"attributes": attributes}
        return found if said == "kept" else found | {"compressors": compressor(said)}
    _refuse_codecs(kept)
    found["compressors"] = compressor(kept.compressors if said == "kept" else said)
    if "fill_value" in kept.others:
        found["fill_value"] = kept.others["fill_value"]
    return found | _described(kept.others.get("attributes", {}), names, spec)


def _described(attributes: dict[str, Any], names: Any, spec: ArraySpec) -> dict[str, Any]:
    """Return attributes with the names of dimensions, and with these xarray's fill value.

    xarray treats each element that equals it as missing, so without missing elements there is none.
    """
    if spec.shape == () and names is None:
        names = ()  # xarray requires them, for one element too
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
