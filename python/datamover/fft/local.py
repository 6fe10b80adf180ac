# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of one process's blocks, along axes that the process holds whole.

Each transform is bound to its arrays once. FFTW is used if pyfftw is installed, otherwise SciPy in
place for complex numbers, and NumPy 2 for real ones, because its functions have an `out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Unsupported
from .stages import Extents

try:
    import scipy.fft as _scipy
except ImportError:
    _scipy = None
try:
    import pyfftw as _pyfftw
except ImportError:
    _pyfftw = None

#: Whether NumPy's transforms keep single precision and write to an array that is passed.
_NUMPY_WRITES = int(np.__version__.split(".")[0]) >= 2

_FFTW_FLAGS = ("FFTW_MEASURE", "FFTW_DESTROY_INPUT")
#: Characters of the dtypes that FFTW is used for.
_FFTW_TYPES = "fd"

Step = Callable[[], Any]


def check_engine() -> None:
    """Refuse to work without a library that keeps the dtype."""
    if _scipy is None and _pyfftw is None and not _NUMPY_WRITES:
        raise Unsupported(
            "transforms need SciPy, pyfftw or NumPy 2; the installed NumPy is "
            f"{np.__version__}: install datamover[fft]"
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
    if before.size == 0 or after.size == 0:
        return [], []
    forward: list[Step] = []
    backward: list[Step] = []

    def add(there: Step, back: Step) -> None:
        forward.append(there)
        backward.insert(0, back)

    def array(axis: int, extent: int, to_be_cut: bool = False) -> np.ndarray:
        """Return memory for the elements of `x` with another extent: `after` if it is the last."""
        shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
        is_last = shape == after.shape and not to_be_cut
        return after if is_last else np.empty(shape, after.dtype)

    x = before
    cut = [axis for axis in axes if extents.physical[axis] != extents.modes[axis]]
    plain = [axis for axis in axes if axis not in cut and axis != extents.real_axis]
    for axis in sorted({*axes} - {*plain}, key=lambda axis: axis != extents.real_axis):
        n, modes, real = extents.physical[axis], extents.modes[axis], axis == extents.real_axis
        if real:
            half = array(axis, n // 2 + 1, axis in cut)
            add(*_real(x, half, axis, norm))
            x = half
        else:
            add(*_complex(x, (axis,), norm))
        if axis in cut:
            few = array(axis, modes // 2 + 1 if real else modes)
            pairs = _half_modes(modes) if real else _modes(modes)
            add(*_cut(np.moveaxis(x, axis, 0), np.moveaxis(few, axis, 0), modes, pairs, real))
            x = few
    if plain:
        add(*_complex(x, tuple(plain), norm))
    return forward, backward


def _modes(modes: int) -> list[tuple[slice, slice]]:
    """Return which parts of both spectra are equal, without the highest mode of an even number."""
    half = (modes + 1) // 2
    return [(slice(half), slice(half)), *([(slice(1 - half, None),) * 2] if half > 1 else [])]


def _half_modes(modes: int) -> list[tuple[slice, slice]]:
    return [(slice((modes + 1) // 2),) * 2]


def _cut(
    many: np.ndarray, few: np.ndarray, modes: int, pairs: list[tuple[slice, slice]], real: bool
) -> tuple[Step, Step]:
    """Bind a cut of a spectrum along its first axis, and the filling up with zeros.

    The highest mode of an even number of modes stands for both of its signs.
    """
    top = modes // 2

    def there() -> None:
        for a, b in pairs:
            few[b] = many[a]
        if modes % 2 == 0:
            few[top] = 2 * many[top].real if real else many[top] + many[-top]

    def back() -> None:
        many[...] = 0
        for a, b in pairs:
            many[a] = few[b]
        if modes % 2 == 0:
            many[top] = (few[top].real if real else few[top]) / 2
            if not real:
                many[-top] = many[top]

    return there, back


def _complex(x: np.ndarray, axes: tuple[int, ...], norm: str) -> tuple[Step, Step]:
    """Bind transforms of complex numbers in place."""
    if _has_fftw(x):
        return _planned(x, x, axes, norm)
    if _scipy is None:
        return tuple(
            _into(x, function, x, axes=axes, norm=norm) for function in (np.fft.fftn, np.fft.ifftn)
        )

    def bound(function: Callable[..., np.ndarray]) -> Step:
        def step() -> None:
            result = function(x, axes=axes, norm=norm, overwrite_x=True)
            if not np.may_share_memory(result, x):
                x[...] = result

        return step

    return bound(_scipy.fftn), bound(_scipy.ifftn)


def _real(x: np.ndarray, half: np.ndarray, axis: int, norm: str) -> tuple[Step, Step]:
    """Bind a transform from real to complex numbers, and back."""
    if _has_fftw(x):
        return _planned(x, half, (axis,), norm)
    library = np.fft if _NUMPY_WRITES else _scipy
    there = _into(half, library.rfft, x, axis=axis, norm=norm)
    return there, _into(x, library.irfft, half, n=x.shape[axis], axis=axis, norm=norm)


def _into(
    out: np.ndarray, function: Callable[..., np.ndarray], x: np.ndarray, **options: Any
) -> Step:
    def step() -> None:
        if _NUMPY_WRITES and function.__module__.startswith("numpy"):
            function(x, out=out, **options)
        else:
            out[...] = function(x, **options)

    return step


def _has_fftw(x: np.ndarray) -> bool:
    return _pyfftw is not None and x.dtype.char.lower() in _FFTW_TYPES


def _planned(x: np.ndarray, y: np.ndarray, axes: tuple[int, ...], norm: str) -> tuple[Step, Step]:
    """Bind FFTW's transforms, which have no factor."""
    n = math.prod(x.shape[axis] for axis in axes)
    factors = {"backward": (1, 1 / n), "ortho": (n**-0.5, n**-0.5), "forward": (1 / n, 1)}[norm]

    def bound(a: np.ndarray, b: np.ndarray, direction: str, factor: float) -> Step:
        plan = _pyfftw.FFTW(a, b, axes=axes, direction=direction, flags=_FFTW_FLAGS)

        def step() -> None:
            plan.execute()
            if factor != 1:
                np.multiply(b, b.dtype.type(factor), out=b)

        return step

    return bound(x, y, "FFTW_FORWARD", factors[0]), bound(y, x, "FFTW_BACKWARD", factors[1])
