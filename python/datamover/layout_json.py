# SPDX-License-Identifier: BSD-3-Clause
"""Layouts as JSON, for other programs and libraries.

The format is described in docs/reference/layout_protocol.md; its version is that of the protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .arguments import as_array
from .errors import Error, InvalidArgument, Unsupported, WrongType
from .layouts import BlockCyclic, FlatCyclic, FloorPlan, IndexList, Layout, checked

#: The major version is raised when older readers would misread a layout.
VERSION = "1.0"


def to_json(layout: Layout) -> dict[str, Any]:
    """Return a layout as a dictionary of numbers, lists and strings.

    Parameters
    ----------
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic

    Returns
    -------
    dict
        For `json.dumps`, `from_json`, and other libraries.

    Raises
    ------
    Unsupported
        An `IndexList` of which each process has only its own list (`index_lists`).

    Examples
    --------
    >>> import datamover as dm
    >>> dm.layouts.to_json(dm.BlockCyclic(8, "(cyclic(2))", nprocs=2))
    {'layout': '1.0', 'shape': [8], 'processes': 2, 'block': [2], 'grid': [2], 'ranks': [0, 1]}
    """
    domain = checked(layout).domain
    found: dict[str, Any] = {"layout": VERSION, "shape": list(domain.shape)}
    found["processes"] = layout.nprocs
    if isinstance(layout, FloorPlan):
        if any(domain.lo):
            found["origin"] = list(domain.lo)
        return found | {"boxes": layout.regions.tolist(), "ranks": layout.owners.tolist()}
    if isinstance(layout, IndexList):
        lists = [layout.indices_of(rank).tolist() for rank in range(layout.nprocs)]
        return found | {"indices": lists}
    if isinstance(layout, FlatCyclic):
        return found | {"flat_block": layout.block_elems, "ranks": layout.owners.tolist()}
    block, grid = list(layout.block), list(layout.grid)
    return found | {"block": block, "grid": grid, "ranks": _ranks(layout).ravel().tolist()}


def _ranks(layout: BlockCyclic) -> np.ndarray:
    """Give the rank at each place of the grid, in C order from that which holds index 0 on."""
    grid, dims = tuple(layout.grid), len(layout.grid)
    if layout.grid_order == "C":
        ranks = layout.ranks.reshape(-1, *grid)
    else:
        ranks = layout.ranks.reshape(-1, *reversed(grid)).transpose(0, *range(dims, 0, -1))
    first = tuple(layout.first_process) or (0,) * dims
    return np.roll(ranks, [-at for at in first], range(1, dims + 1))


def from_json(described: Mapping[str, Any] | str | bytes) -> Layout:
    """Return the layout that a dictionary, or its JSON text, describes. Nothing in it is trusted.

    Parameters
    ----------
    described : mapping, str or bytes
        As `to_json` returns it.

    Raises
    ------
    WrongType
        Not a mapping, or values of other types.
    InvalidArgument
        Text that is not JSON, a key that is missing, or as the layouts raise.
    Unsupported
        A later major version.

    Examples
    --------
    >>> import datamover as dm
    >>> dm.layouts.from_json('{"layout": "1.0", "shape": [6], "processes": 2,'
    ...                      ' "indices": [[0, 5, 2], [1, 3, 4]]}').indices_of(1).tolist()
    [1, 3, 4]
    """
    if isinstance(described, (str, bytes)):
        try:
            described = json.loads(described)
        except ValueError as error:
            raise InvalidArgument(f"a layout in JSON: {error}") from None
    if not isinstance(described, Mapping):
        raise WrongType(f"a layout is a mapping, not a {type(described).__name__}")
    try:
        major = int(str(described["layout"]).partition(".")[0])
        if major != 1:
            raise Unsupported(
                f"the layout has version {described['layout']}, and only 1.x is known: update "
                "datamover"
            )
        return _made(described)
    except Error:
        raise
    except KeyError as error:
        raise InvalidArgument(f"a layout needs {error}") from None
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"a layout has a value that makes no sense: {error}") from None


def _made(described: Mapping[str, Any]) -> Layout:
    shape, nprocs = described["shape"], described["processes"]
    if "boxes" in described:
        boxes = described["boxes"]
        return FloorPlan(as_array(boxes, "boxes"), described["ranks"], nprocs)
    if "indices" in described:
        lists = described["indices"]
        if len(lists) != nprocs:
            raise InvalidArgument(f"{len(lists)} lists of indices for {nprocs} processes")
        return IndexList(shape, lists)
    if "flat_block" in described:
        return FlatCyclic(shape, described["flat_block"], nprocs, described["ranks"])
    block, grid, ranks = described["block"], described["grid"], described["ranks"]
    if not len(shape) == len(block) == len(grid):
        raise InvalidArgument(f"shape {shape}, block {block} and grid {grid} differ in length")
    axes = zip(shape, block, grid, strict=True)
    words = ", ".join("*" if p == 1 and b >= n else f"cyclic({b})" for n, b, p in axes)
    places = math.prod(grid)
    if places < 1 or len(ranks) % places:
        raise InvalidArgument(f"{len(ranks)} ranks for a grid {grid}")
    return BlockCyclic(
        shape, f"({words})", nprocs, grid=grid, ranks=ranks, replicas=len(ranks) // places
    )
