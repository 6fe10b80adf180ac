# SPDX-License-Identifier: BSD-3-Clause
"""How do arrays go between files, and between files and memory? `move`, `open`, and formats."""

from typing import TYPE_CHECKING, Any

from datamover.files import hdf5_format, npy, raw, zarr  # noqa: F401  (each registers its format)
from datamover.files.formats import MoveOptions
from datamover.files.planning import FilePlan, plan
from datamover.files.transfer import Intention, MoveReport, intend, move

if TYPE_CHECKING:
    from datamover.files.file_array import FileArray, open

__all__ = [
    "FileArray",
    "FilePlan",
    "Intention",
    "MoveOptions",
    "MoveReport",
    "intend",
    "move",
    "open",
    "plan",
]


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


def __getattr__(name: str) -> Any:
    if name not in ("FileArray", "open"):  # these load MPI's parts
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from datamover.files import file_array

    return getattr(file_array, name)
