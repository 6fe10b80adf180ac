# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of strings of any length in Zarr: creating and opening them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from datamover.errors import IoError, Unsupported
from datamover.files import addresses, zarr_format_2
from datamover.files.formats import MoveOptions, Shape
from datamover.files.json_values import valid
from datamover.files.zarr_output import compressors_of
from datamover.files.zarr_store import late_store_at, zarr_python
from datamover.files.zarr_traits import DIMENSIONS_V2, ZarrTraits


def create_strings(
    path: str,
    shape: Shape,
    chunks: Shape,
    attributes: dict[str, Any],
    dimension_names: Sequence[str | None] | None,
    zarr_format: int = 3,
    kept: dict[str, Any] | None = None,
) -> Any:
    """Make an array of strings of any length, as xarray and zarr-python have them.

    At an address its metadata are held back, by its store. `kept` are further arguments of
    zarr-python's `create_array`.
    """
    attributes = valid(attributes)
    said: dict[str, Any] = {"attributes": attributes, "dimension_names": dimension_names}
    if zarr_format == 2:
        said = {"attributes": attributes}
        if dimension_names is not None or not shape:
            said["attributes"][DIMENSIONS_V2] = list(dimension_names or ())
            # xarray takes it for missing.
            said |= {"fill_value": None, "config": {"write_empty_chunks": True}}
    said |= kept or {}
    store = late_store_at(path) if addresses.is_address(path) else path
    return zarr_python().create_array(
        store, shape=shape, chunks=chunks, dtype=str, zarr_format=zarr_format, **said
    )


def kept_of_strings(traits: ZarrTraits | None, options: MoveOptions) -> dict[str, Any]:
    """Give what `create_strings` is to be told of an input in Zarr, and of what was said.

    Raises
    ------
    Unsupported
        The input has codecs that Zarr format 2 has not.
    """
    is_of_2 = options.zarr_format == 2
    found = {} if traits is None else _of_strings_in_format(is_of_2, traits)
    if options.compressor is not None:
        found["compressors"] = compressors_of(options.compressor)
    elif traits is not None and is_of_2 and traits.of_format_2 is not None:
        return found | {"compressors": traits.of_format_2["compressors"]}
    elif traits is not None:
        found["compressors"] = traits.compressors
    if is_of_2 and "compressors" in found:
        found["compressors"] = zarr_format_2.compressor(found["compressors"])
    return found


def _of_strings_in_format(is_of_2: bool, traits: ZarrTraits) -> dict[str, Any]:
    """Give fill value, shards and names of chunks, as far as the format has them."""
    if traits.of_format_2 is not None:
        fill_value = traits.of_format_2["fill_value"]
        return {"fill_value": fill_value} if isinstance(fill_value, str) else {}
    if is_of_2:
        return {}  # xarray takes a fill value there for missing
    named = ("fill_value", "chunk_key_encoding")
    return {"shards": traits.shards, **{name: traits.others[name] for name in named}}


def open_strings(path: str) -> Any:
    """Open an array of strings to be read.

    Raises
    ------
    IoError
        It cannot be.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = path
            if addresses.is_address(path):
                store = addresses.store_at(path, read_only=True)
            return zarr_python().open_array(store, mode="r")
    except (Unsupported, IoError):
        raise
    except Exception as e:  # zarr, json and the codecs have many words for foreign metadata
        raise IoError(f"{path} is no Zarr array that can be read: {addresses.words_of(e)}") from e
