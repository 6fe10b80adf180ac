# SPDX-License-Identifier: BSD-3-Clause
"""Conversions of elements from one dtype to another that a move allows."""

from __future__ import annotations

import numpy as np

from datamover.dtype_words import dtype_of, is_of_ml_dtypes
from datamover.errors import InvalidArgument


def converted(given: np.dtype, wanted: str | np.dtype | None) -> np.dtype:
    """Return the requested dtype, if NumPy converts to it under "same_kind"."""
    if wanted is None:
        return given
    try:
        dtype = dtype_of(wanted)
    except Exception as e:  # NumPy raises many types for an unknown dtype
        raise InvalidArgument(f"{wanted!r} is not a NumPy dtype: {e}") from e
    if dtype != given and dtype.kind in "biufc" and not dtype.isnative:
        native = dtype.newbyteorder("=")
        raise InvalidArgument(
            f"elements are converted to numbers in this machine's byte order only: {native.name}, "
            f"not {dtype.str}"
        )
    numbers = all(one.kind in "biufc" or is_of_ml_dtypes(one) for one in (given, dtype))
    if dtype != given and not (numbers and np.can_cast(given, dtype, "same_kind")):
        raise InvalidArgument(
            f"elements of {given} are not converted to {dtype}: NumPy does not do so under "
            '"same_kind", or they are not numbers'
        )
    return dtype
