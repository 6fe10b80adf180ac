# SPDX-License-Identifier: BSD-3-Clause
"""Validation of dtype strings from other programs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

#: Names of the number types that ml_dtypes adds to NumPy.
OF_ML_DTYPES = re.compile(r"bfloat16|u?int[124]|float[468]_\w+")


def dtype_of(words: str | np.dtype | None) -> np.dtype:
    """Read a dtype as NumPy does, or ml_dtypes. Raises their errors, and those of `check_words`."""
    check_words(words)
    try:
        return np.dtype(words)
    except TypeError:
        if not isinstance(words, str) or not OF_ML_DTYPES.fullmatch(words):
            raise
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"{words} needs ml_dtypes (pip install ml_dtypes)") from None
    if not hasattr(ml_dtypes, words):
        raise TypeError(f"this ml_dtypes has no {words}")
    return np.dtype(getattr(ml_dtypes, words))


def is_of_ml_dtypes(dtype: np.dtype) -> bool:
    """Return whether it is a number type that NumPy does not have."""
    return dtype.type.__module__ == "ml_dtypes"


def check_words(words: Any) -> None:
    """Reject a dtype that ends the process when it is read.

    NumPy reads dates with divided units, such as "M8[D/24]", but never writes them. If the divisor
    is 0, it divides by it (2.4.6), and the system raises SIGFPE.

    Parameters
    ----------
    words : str, or list or tuple
        A dtype as `numpy.lib.format.dtype_to_descr` writes it. NumPy detects all other mistakes.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_words([("a/b", "<M8[25s]", (3,))])
    >>> check_words([("a/b", "<M8[s/0]", (3,))])
    Traceback (most recent call last):
        ...
    ValueError: '<M8[s/0]' has a divided unit
    """
    if isinstance(words, str) and "/" in words:
        raise ValueError(f"{words!r} has a divided unit")
    if isinstance(words, tuple) and words:  # a type and a shape
        check_words(words[0])
    if isinstance(words, list):
        for field in words:
            if isinstance(field, list | tuple) and len(field) > 1:
                check_words(field[1])
