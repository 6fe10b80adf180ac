# SPDX-License-Identifier: BSD-3-Clause
"""Encoding of addresses, dtypes and arrays between the ends of a stream; input is not trusted."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import numpy as np

from datamover import _plan
from datamover._plan import crc32c
from datamover.arrays import element_dtype
from datamover.dtype_words import check_words
from datamover.errors import Error, InvalidArgument, IoFailed, Unsupported
from datamover.layouts import Layout

__all__ = ["crc32c"]  # besides what is defined here

#: Environment variable with the token, if it is not passed.
TOKEN_VARIABLE = "DATAMOVER_STREAM_TOKEN"
MAX_NAME_BYTES = 256
MAX_ELEM_BYTES = 1 << 16
MAX_ARRAYS = 1 << 12
MAX_NUMBER = 2**63 - 1
MAX_AHEAD_STEPS = 64


def number(words: dict[str, Any], key: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    """Return an integer of a frame. Raises IoFailed if it is missing or outside its limits."""
    value = words.get(key)
    if type(value) is not int or not least <= value <= most:
        raise IoFailed(f"{key!r} of a frame must be an integer from {least} to {most}")
    return value


def text_of_dtype(dtype: np.dtype) -> str:
    """Write a dtype as JSON. Raises Unsupported if that cannot be read again."""
    with contextlib.suppress(Error, ValueError):  # NumPy raises it for fields that overlap
        text = json.dumps(np.lib.format.dtype_to_descr(dtype), separators=(",", ":"))
        if dtype_of_text(text) == dtype:
            return text
    raise Unsupported(
        f"dtype {dtype} cannot be described to another program; send a view of its bits"
    )


def dtype_of_text(text: str) -> np.dtype:
    """Read a dtype from JSON that is not trusted. Raises IoFailed."""
    try:
        words = _with_tuples(json.loads(text))
        check_words(words)
        dtype = element_dtype(np.lib.format.descr_to_dtype(words))
        if isinstance(words, str) and np.lib.format.dtype_to_descr(dtype) != words:
            raise ValueError(f"{words!r} is not in NumPy's file notation")
    except (TypeError, ValueError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise IoFailed(f"cannot read a dtype: {error}") from None
    if dtype.itemsize > MAX_ELEM_BYTES:
        raise IoFailed(f"a dtype has {dtype.itemsize} bytes; at most {MAX_ELEM_BYTES} are accepted")
    return dtype


def _with_tuples(words: Any, depth: int = 0) -> Any:
    """Turn JSON's lists back into what NumPy wrote: a list of tuples."""
    if isinstance(words, str) and len(words) <= MAX_NAME_BYTES:
        return words
    if not isinstance(words, list) or len(words) > MAX_ARRAYS or depth > 8:
        raise IoFailed("cannot read a dtype: it must be a string or a list of fields")
    fields = []
    for field in words:
        if not isinstance(field, list) or len(field) not in (2, 3):
            raise IoFailed(
                "cannot read a dtype: a field must be a name, a type and optionally a shape"
            )
        name, kind, *shape = field
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _with_tuples(kind, depth + 1), *map(tuple, shape)))
    return fields


def parse_address(address: Any) -> tuple[str, int]:
    """Return host and port of "tcp://host:port". Raises InvalidArgument."""
    if not isinstance(address, str) or not address.isprintable():
        raise InvalidArgument(
            f"{address!r} is not a valid stream address; pass one like 'tcp://127.0.0.1:5777'"
        )
    return _plan.parse_address(address)


@dataclasses.dataclass(frozen=True)
class ArrayInfo:
    """Description of an array that a stream sends.

    Attributes
    ----------
    name : str
    dtype : dtype
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        The layout on the sending processes.
    """

    name: str
    dtype: np.dtype
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole array."""
        return tuple(self.layout.domain.shape)
