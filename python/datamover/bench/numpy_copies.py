# SPDX-License-Identifier: BSD-3-Clause
"""Contender: the copies of `bench relations` with NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from datamover.bench.contest import timed
from datamover.bench.programs import Line


def measure(case: str) -> Iterator[Line]:
    """Yield NumPy's rows for a case; none if NumPy has no single call for it.

    Parameters
    ----------
    case : str
        Name in `bench relations`: `transpose-1024`, `dense_transpose-2048`, `mesh_ordered`, …
    """
    name, _, size = case.rpartition("-")
    if name == "dense_transpose":
        for dtype in (np.float32, np.float64):
            yield _dense_transpose(int(size), np.dtype(dtype))
    elif name in PATTERNS:
        yield from _redistribution(name, int(size))
    elif case.startswith("mesh_"):
        yield from _take(case)


#: Extents (i, j) and the strides of i and j, in elements, on both sides.
Pattern = tuple[int, int, tuple[int, int], tuple[int, int]]

#: The part that process 0 of 4 keeps in the redistributions of the paper on compact address
#: relations, section 3; local arrays are column-major.
PATTERNS: dict[str, Callable[[int, int], Pattern]] = {
    "block_rows-block_cols": lambda n, q: (q, q, (1, q), (1, n)),
    "block-cyclic": lambda n, q: (q // 4, n, (4, q), (1, q)),
    "cyclic-block": lambda n, q: (q // 4, n, (1, q), (4, q)),
    "transpose": lambda n, q: (q, q, (4, n), (n, 4)),
}


def _redistribution(pattern: str, n: int) -> Iterator[Line]:
    ni, nj, source, destination = PATTERNS[pattern](n, n // 4)
    flat = (1, ni)
    sides = {
        "assembly": (source, flat),
        "disassembly": (flat, destination),
        "copy": (source, destination),
    }
    for phase, (source_strides, destination_strides) in sides.items():
        view = _view(ni, nj, source_strides)
        target = _view(ni, nj, destination_strides)
        yield _row(f"{pattern}-{n}", phase, 8 * ni * nj, functools.partial(np.copyto, target, view))


def _view(ni: int, nj: int, strides: tuple[int, int]) -> np.ndarray:
    elems = (ni - 1) * strides[0] + (nj - 1) * strides[1] + 1
    memory = np.arange(elems, dtype=np.float64)
    # j first: NumPy then walks a message in its order.
    return as_strided(memory, (nj, ni), (8 * strides[1], 8 * strides[0]))


def _dense_transpose(n: int, dtype: np.dtype) -> Line:
    a = np.arange(n * n, dtype=dtype).reshape(n, n)
    b = np.zeros((n, n), dtype)
    case = f"dense_transpose-{n}-{dtype.itemsize}"
    return _row(case, "copy", a.nbytes, lambda: np.copyto(b, a.T))


def _take(case: str) -> Iterator[Line]:
    n = 1 << 20
    reach = 2000 if case == "mesh_ordered" else n
    draw = np.random.default_rng(7)
    at = np.arange(n)
    index = draw.integers(np.maximum(0, at - reach), np.minimum(n - 1, at + reach), endpoint=True)
    yield from measure_index(case, index)


def measure_index(case: str, index: np.ndarray) -> Iterator[Line]:
    """Yield NumPy's rows for gathering by an index, and for adding at it.

    Parameters
    ----------
    case : str
    index : (n,) array of int64
    """
    values, message = np.arange(index.max() + 1.0), np.empty(len(index))
    # mode="clip": the default checks into a buffer first.
    calls = {
        "assembly": lambda: values.take(index, out=message, mode="clip"),
        "disassembly": lambda: np.add.at(values, index, message),
    }
    for phase, call in calls.items():
        yield _row(case, phase, message.nbytes, call, nbytes=index.nbytes)


def _row(case: str, phase: str, payload: int, work: Callable[[], Any], **more: Any) -> Line:
    return timed(work, case=case, phase=phase, contender="numpy", bytes=payload, **more)
