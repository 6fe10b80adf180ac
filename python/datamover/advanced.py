# SPDX-License-Identifier: BSD-3-Clause
"""Names for experts: terms and builders of plans, relations of addresses, memory layouts.

>>> import datamover as dm
>>> dm.advanced.AddressRelation.from_pairs([0, 2], [1, 0]).nbytes > 0
True
"""

from typing import TYPE_CHECKING

from .layouts import BlockMemory, MemoryLayout, dense_memory
from .lazy_names import attributes
from .plans import (
    HaloExchange,
    Redistribution,
    SectionCopy,
    axis_halo,
    panel_broadcast,
    prolongation,
    restriction,
)
from .relations import AddressRelation, BoundCopy, RecomputeModel, RelationCache

if TYPE_CHECKING:
    from .array_copy import copy
    from .arrays import UserArrays
    from .files.state import Saving
    from .own_lists import index_lists
    from .windows import in_window

__all__ = [
    "AddressRelation",
    "BlockMemory",
    "BoundCopy",
    "HaloExchange",
    "MemoryLayout",
    "RecomputeModel",
    "Redistribution",
    "RelationCache",
    "Saving",
    "SectionCopy",
    "UserArrays",
    "axis_halo",
    "copy",
    "dense_memory",
    "in_window",
    "index_lists",
    "panel_broadcast",
    "prolongation",
    "restriction",
]

__getattr__ = attributes(
    globals(),
    {
        "Saving": "files.state",
        "UserArrays": "arrays",
        "copy": "array_copy",
        "in_window": "windows",
        "index_lists": "own_lists",
    },
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
