# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py-fft: `DistArray` (also those derived from it, as shenfun's) and `Pencil`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .parts import Boxes, Shape, world


def takes(x: Any) -> bool:
    """Return whether this is one of the arrays of this module."""
    return hasattr(type(x), "pencil") and (isinstance(x, np.ndarray) or hasattr(x, "substart"))


def describe(x: Any, _shape: Shape | None) -> Boxes:
    """Give the layout, or this process's part of it."""
    pencil, components = _pencil(x)
    if pencil is None:  # arrays of one dimension are the same on all processes
        return Boxes(x.shape, [((0,) * x.ndim, x.shape)], replicated=True)
    # The components of a tensor come first, and are not distributed.
    start = (0,) * len(components) + tuple(pencil.substart)
    inner = zip(pencil.substart, pencil.subshape, strict=True)
    stop = components + tuple(a + n for a, n in inner)
    return Boxes(components + tuple(pencil.shape), [(start, stop)])


def comm_of(_x: Any, _ghosts: bool) -> Any:
    """Give the communicator by which parts are put together."""
    return world()


def memory(x: Any) -> tuple[list[np.ndarray], int]:
    """Give the arrays of this process's blocks, and the ghosts around them."""
    return [x.view(np.ndarray)], 0


def _pencil(x: Any) -> tuple[Any, Shape]:
    if isinstance(x, np.ndarray):  # a Pencil has a method `pencil`
        array: Any = x
        return array.pencil, tuple(array.shape[: array.rank])
    return x, ()
