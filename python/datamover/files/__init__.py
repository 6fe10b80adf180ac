# SPDX-License-Identifier: BSD-3-Clause
"""Files: `move` arrays between files, `open` them for movers, and the formats of both."""

from typing import TYPE_CHECKING

from datamover.lazy_names import attributes

if TYPE_CHECKING:
    from datamover.files.file_array import FileArray, open
    from datamover.files.formats import MoveOptions
    from datamover.files.intention import Intention, intend
    from datamover.files.transfer import MoveReport, move, rechunk

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

__getattr__ = attributes(
    globals(),
    {
        "FileArray": "files.file_array",
        "Intention": "files.intention",
        "MoveOptions": "files.formats",
        "MoveReport": "files.transfer",
        "intend": "files.intention",
        "move": "files.transfer",
        "open": "files.file_array",
        "rechunk": "files.transfer",
    },
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
