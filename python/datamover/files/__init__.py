# SPDX-License-Identifier: BSD-3-Clause
"""How does an array go from one file to another, in parallel? `move`, and the formats it knows."""

from datamover.files import hdf5_format, npy, raw, zarr  # noqa: F401  (each registers its format)
from datamover.files.formats import MoveOptions
from datamover.files.planning import FilePlan, plan
from datamover.files.transfer import Intention, MoveReport, intend, move

__all__ = ["FilePlan", "Intention", "MoveOptions", "MoveReport", "intend", "move", "plan"]
