# SPDX-License-Identifier: BSD-3-Clause
"""Values in the JSON of Zarr's metadata: NaN and infinities, which JSON lacks, become strings.

The strings are those of fill values in Zarr v3. Readers of strict JSON reject the bare names that
Python writes by default. As a `missing_value`, NaN becomes null: xarray decodes and encodes it like
NaN, and treats strings as missing values.
"""

from __future__ import annotations

import json
import math
from typing import Any

from datamover.errors import Unsupported

#: Attributes with the value of missing elements, in NetCDF and for xarray; converted like elements.
MISSING = FILL_VALUE, MISSING_VALUE = "_FillValue", "missing_value"
SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def valid(value: Any) -> Any:
    """Return a copy of a value with strings for the numbers that JSON lacks.

    Raises
    ------
    Unsupported
        Lists or objects are nested more deeply than Python's recursion limit.

    Examples
    --------
    >>> from datamover.files.json_values import valid
    >>> valid({"range": [float("-inf"), 1.5], "missing": float("nan")})
    {'range': ['-Infinity', 1.5], 'missing': 'NaN'}
    """
    try:
        return _valid(value)
    except RecursionError:
        raise Unsupported("attributes have too deeply nested lists or objects") from None


def _valid(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: None if key == MISSING_VALUE and _is_nan(held) else _valid(held)
            for key, held in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_valid(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _is_nan(value: Any) -> bool:
    """Return whether a value is NaN, or a list of NaN only."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_nan, value))
    return isinstance(value, float) and math.isnan(value)


def numbers(value: Any, name: str = "") -> Any:
    """Return the value of an attribute with numbers for such strings.

    A list with other text in it is text and stays unchanged.

    Examples
    --------
    >>> from datamover.files.json_values import numbers
    >>> numbers("NaN"), numbers([["-Infinity"], [1]]), numbers(["NaN", "m"])
    (nan, [[-inf], [1]], ['NaN', 'm'])
    """
    if value is None and name == MISSING_VALUE:
        return math.nan
    if isinstance(value, str):
        return SPECIAL_FLOATS.get(value, value)
    if not isinstance(value, list):
        return value
    found = [numbers(held) for held in value]
    return value if any(isinstance(held, str) for held in flat(found)) else found


def flat(values: list[Any]) -> list[Any]:
    """Return the values in lists in lists."""
    return [v for value in values for v in (flat(value) if isinstance(value, list) else [value])]


def dumps(value: Any) -> str:
    """Write a value as JSON that every parser reads."""
    return json.dumps(valid(value), indent=2, allow_nan=False)
