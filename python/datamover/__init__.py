# SPDX-License-Identifier: BSD-3-Clause
"""Moves the elements of distributed arrays from one layout to another.

Layouts define who owns which elements (`BlockCyclic`, `FloorPlan`, `IndexList`, `FlatCyclic`). A
`MotionPlan` between two layouts defines which section is sent where, and a `Mover` executes it on
the processes of an MPI communicator. Importing the package does not load MPI; `Array` and `Mover`
load it when they are first used. Names for experts are in `datamover.advanced`.
"""

from . import interruption as _interruption  # noqa: F401  (before all else: see there)

# isort: split
from typing import TYPE_CHECKING

from . import errors
from . import notebook as _notebook  # noqa: F401
from . import relations as _relations  # noqa: F401  (uses the costs measured on this machine)
from ._plan import __version__
from .errors import Error, Mismatch, PeerFailed, Timeout
from .layouts import BlockCyclic, FlatCyclic, FloorPlan, IndexList, Layout, Region
from .lazy_names import attributes as _attributes
from .plans import MotionPlan, halo, redistribute

if TYPE_CHECKING:
    from . import advanced, fft, files, stream, targets
    from .arrays import Array
    from .doors import layout_of
    from .explanation import explain
    from .files import move
    from .files.series import series
    from .files.state import load, save
    from .migration import Migration, migrate
    from .movers import Mover
    from .progress import progress_thread, set_timeout
    from .stream import Stream
    from .versions import show_versions

__all__ = [
    "Array",
    "BlockCyclic",
    "Error",
    "FlatCyclic",
    "FloorPlan",
    "IndexList",
    "Layout",
    "Migration",
    "Mismatch",
    "MotionPlan",
    "Mover",
    "PeerFailed",
    "Region",
    "Stream",
    "Timeout",
    "__version__",
    "advanced",
    "errors",
    "explain",
    "fft",
    "files",
    "halo",
    "layout_of",
    "load",
    "migrate",
    "move",
    "progress_thread",
    "redistribute",
    "save",
    "series",
    "set_timeout",
    "show_versions",
    "stream",
    "targets",
]

# Names that are loaded at their first use, and the submodule of each.
__getattr__ = _attributes(
    globals(),
    {
        "Array": "arrays",
        "Migration": "migration",
        "Mover": "movers",
        "Stream": "stream",
        "advanced": "advanced",
        "explain": "explanation",
        "fft": "fft",
        "files": "files",
        "layout_of": "doors",
        "load": "files.state",
        "migrate": "migration",
        "move": "files",
        "progress_thread": "progress",
        "save": "files.state",
        "series": "files.series",
        "set_timeout": "progress",
        "show_versions": "versions",
        "stream": "stream",
        "targets": "targets",
    },
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
