# SPDX-License-Identifier: BSD-3-Clause
"""Files: `move` arrays between files, `open` them for movers, and the formats of both."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamover.files.file_array import FileArray, open
    from datamover.files.formats import MoveOptions
    from datamover.files.intention import Intention, intend
    from datamover.files.rechunked import rechunk
    from datamover.files.transfer import MoveReport, move

__all__ = [
    "FileArray",
    "Intention",
    "MoveOptions",
    "MoveReport",
    "intend",
    "move",
    "open",
    "rechunk",
]

# The module of each, which is loaded when the name is first used.
_MODULES = {
    "FileArray": "file_array",
    "Intention": "intention",
    "MoveOptions": "formats",
    "MoveReport": "transfer",
    "intend": "intention",
    "move": "transfer",
    "open": "file_array",
    "rechunk": "rechunked",
}


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
