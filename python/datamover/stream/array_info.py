# SPDX-License-Identifier: BSD-3-Clause
"""Description of an array of a stream."""

from __future__ import annotations

import dataclasses

import numpy as np

from datamover.layouts import Layout
from datamover.stream import wire


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

    @classmethod
    def of_words(cls, name: str, dtype: str, layout: Layout) -> ArrayInfo:
        """Convert the engine's description. Raises IoFailed if NumPy has no such dtype."""
        return cls(name, wire.dtype_of_text(dtype), layout)
