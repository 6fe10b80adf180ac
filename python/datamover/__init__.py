# SPDX-License-Identifier: BSD-3-Clause
"""Moves the elements of distributed arrays from one layout to another.

Layouts define who owns which elements (`BlockCyclic`, `FloorPlan`, `IndexList`, `FlatCyclic`). A
`MotionPlan` between two layouts defines which section is sent where, and a `Mover` executes it on
the processes of an MPI communicator. Importing the package does not load MPI; `XArray`,
`UserArrays` and `Mover` load it when they are first used.
"""

from . import interruption as _interruption  # noqa: F401  (before all else: see there)

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import notebook as _notebook  # noqa: F401
from ._plan import __version__
from .errors import (
    Error,
    InvalidArgument,
    InvalidState,
    IoError,
    Mismatch,
    MpiError,
    NoMemory,
    OutOfRange,
    PeerFailed,
    Timeout,
    Unsupported,
    WrongType,
)
from .layouts import (
    BlockCyclic,
    BlockMemory,
    FlatCyclic,
    FloorPlan,
    IndexList,
    Layout,
    MemoryLayout,
    Region,
    dense_memory,
)
from .plans import (
    HaloExchange,
    MotionPlan,
    Redistribution,
    SectionCopy,
    axis_halo,
    halo,
    panel_broadcast,
    prolongation,
    redistribute,
    restriction,
)
from .relations import AddressRelation, BoundCopy, RecomputeModel, RelationCache

if TYPE_CHECKING:
    from . import fft, stream, targets
    from .array_copy import copy
    from .arrays import UserArrays, XArray
    from .distribution import Distribution, distribute
    from .doors import layout_of
    from .explanation import explain
    from .files import move
    from .files.series import series
    from .files.state import Saving, load, save
    from .movers import Mover, MoverSet, Phases
    from .own_lists import index_lists
    from .progress import progress_thread, set_timeout
    from .stream import Stream
    from .versions import show_versions
    from .windows import in_window

__all__ = [
    "AddressRelation",
    "BlockCyclic",
    "BlockMemory",
    "BoundCopy",
    "Distribution",
    "Error",
    "FlatCyclic",
    "FloorPlan",
    "HaloExchange",
    "IndexList",
    "InvalidArgument",
    "InvalidState",
    "IoError",
    "Layout",
    "MemoryLayout",
    "Mismatch",
    "MotionPlan",
    "Mover",
    "MoverSet",
    "MpiError",
    "NoMemory",
    "OutOfRange",
    "PeerFailed",
    "Phases",
    "RecomputeModel",
    "Redistribution",
    "Region",
    "RelationCache",
    "Saving",
    "SectionCopy",
    "Stream",
    "Timeout",
    "Unsupported",
    "UserArrays",
    "WrongType",
    "XArray",
    "__version__",
    "axis_halo",
    "copy",
    "dense_memory",
    "distribute",
    "explain",
    "fft",
    "halo",
    "in_window",
    "index_lists",
    "layout_of",
    "load",
    "move",
    "panel_broadcast",
    "progress_thread",
    "prolongation",
    "redistribute",
    "restriction",
    "save",
    "series",
    "set_timeout",
    "show_versions",
    "stream",
    "targets",
]

# Names that are loaded at their first use, and the submodule of each.
_LAZY = {
    "Distribution": "distribution",
    "Mover": "movers",
    "MoverSet": "movers",
    "Phases": "movers",
    "Stream": "stream",
    "UserArrays": "arrays",
    "XArray": "arrays",
    "copy": "array_copy",
    "distribute": "distribution",
    "Saving": "files.state",
    "explain": "explanation",
    "in_window": "windows",
    "index_lists": "own_lists",
    "layout_of": "doors",
    "load": "files.state",
    "move": "files",
    "progress_thread": "progress",
    "save": "files.state",
    "series": "files.series",
    "set_timeout": "progress",
    "show_versions": "versions",
}


def __getattr__(name: str) -> Any:
    if name in ("fft", "files", "stream", "targets"):
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    module_own = {name for name in globals() if name.startswith("__")}
    return sorted({*__all__, "files", *module_own})
