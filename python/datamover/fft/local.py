# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of one process's blocks, along axes that the process holds whole.

Each transform is bound to its arrays once. FFTW is used if pyfftw is installed, otherwise SciPy in
place for complex numbers, and NumPy 2 for real ones, because its functions have an `out`.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Unsupported
from .stages import Extents


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_scipy, _pyfftw = _optional("scipy.fft"), _optional("pyfftw")
#: Whether NumPy's transforms keep single precision and write to an array that is passed.
_NUMPY_WRITES = int(np.__version__.split(".")[0]) >= 2
_FFTW_FLAGS = ("FFTW_MEASURE", "FFTW_DESTROY_INPUT")
#: Characters of the dtypes that FFTW is used for.
_FFTW_TYPES = "fdFD"

Step = Callable[[], Any]


def check_engine() -> None:
    """Refuse to work without a library that keeps the dtype."""
    if _scipy is None and not _NUMPY_WRITES:
        raise Unsupported(
            f"transforms need SciPy or NumPy 2, and NumPy is {np.__version__}: install scipy"
        )


def steps(
    before: np.ndarray, after: np.ndarray, axes: tuple[int, ...], extents: Extents, norm: str
) -> tuple[list[Step], list[Step]]:
    """Bind the forward and the backward transform of a block.

    Parameters
    ----------
    before, after : ndarray
        The block before and after a forward transform; the same array if shape and dtype are equal.
        Both directions overwrite both.
    axes : tuple of int
    extents : Extents
    norm : {"backward", "ortho", "forward"}

    Returns
    -------
    forward, backward : list of callable
    """
    pairs: list[tuple[Step, Step]] = []
    if before.size == 0 or after.size == 0:
        return [], []

    def array(axis: int, extent: int, to_be_cut: bool = False) -> np.ndarray:
        """Return memory for the elements of `x` with another extent: `after` if it is the last."""
        shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
        is_last = shape == after.shape and not to_be_cut
        return after if is_last else np.empty(shape, after.dtype)

    x = before
    cut = [axis for axis in axes if extents.physical[axis] != extents.modes[axis]]
    plain = tuple(axis for axis in axes if axis not in cut and axis != extents.real_axis)
    for axis in sorted({*axes}.difference(plain), key=lambda axis: axis != extents.real_axis):
        modes, is_real = extents.modes[axis], axis == extents.real_axis
        many = array(axis, x.shape[axis] // 2 + 1, axis in cut) if is_real else x
        pairs.append(_transforms(x, many, (axis,), norm))
        x = many
        if axis in cut:
            x = array(axis, modes // 2 + 1 if is_real else modes)
            ends = np.moveaxis(many, axis, 0), np.moveaxis(x, axis, 0)
            pairs.append(_cuts(*ends, modes, is_real))
    if plain:
        pairs.append(_transforms(x, x, plain, norm))
    return [there for there, _ in pairs], [back for _, back in reversed(pairs)]


def _cuts(many: np.ndarray, few: np.ndarray, modes: int, is_real: bool) -> tuple[Step, Step]:
    """Bind a cut of a spectrum along its first axis, and the filling up with zeros.

    The highest of an even number of modes stands for both of its signs.
    """
    top, below = modes // 2, (modes + 1) // 2
    parts = [slice(below)] if is_real or below == 1 else [slice(below), slice(1 - below, None)]

    def there() -> None:
        for part in parts:
            few[part] = many[part]
        if modes % 2 == 0:
            few[top] = 2 * many[top].real if is_real else many[top] + many[-top]

    def back() -> None:
        many[...] = 0
        for part in parts:
            many[part] = few[part]
        if modes % 2 == 0:
            many[top] = (few[top].real if is_real else few[top]) / 2
            if not is_real:
                many[-top] = many[top]

    return there, back


def _transforms(
    x: np.ndarray, y: np.ndarray, axes: tuple[int, ...], norm: str
) -> tuple[Step, Step]:
    """Bind transforms from one array to another and back: complex ones in place, or real ones."""
    is_real = x.dtype.kind == "f"
    shape = [x.shape[axis] for axis in axes]
    if _pyfftw is not None and x.dtype.char in _FFTW_TYPES:
        n = math.prod(shape)
        factors = {"backward": (1, 1 / n), "ortho": (n**-0.5, n**-0.5), "forward": (1 / n, 1)}
        there, back = factors[norm]
        return _planned(x, y, axes, there), _planned(y, x, axes, back, "FFTW_BACKWARD")
    library = np.fft if _NUMPY_WRITES and (is_real or _scipy is None) else _scipy
    there, back = ("rfftn", "irfftn") if is_real else ("fftn", "ifftn")
    bound = functools.partial(_bound, s=shape, axes=axes, norm=norm)
    return bound(getattr(library, there), x, y), bound(getattr(library, back), y, x)


def _planned(
    x: np.ndarray, y: np.ndarray, axes: Any, factor: float, to: str = "FFTW_FORWARD"
) -> Step:
    """Bind a transform of FFTW, which applies no factor."""
    plan = _pyfftw.FFTW(x, y, axes=axes, direction=to, flags=_FFTW_FLAGS)

    def step() -> None:
        plan.execute()
        if factor != 1:
            np.multiply(y, y.dtype.type(factor), out=y)

    return step


def _bound(function: Callable, x: np.ndarray, y: np.ndarray, **options: Any) -> Step:
    """Bind a function of NumPy or SciPy, without memory for the result if that can be."""
    if function.__module__.startswith("numpy"):
        options["out"] = y
    elif x is y:
        options["overwrite_x"] = True

    def step() -> None:
        result = function(x, **options)
        if not np.may_share_memory(result, y):
            y[...] = result

    return step
