# SPDX-License-Identifier: BSD-3-Clause
"""Layouts as JSON, for other programs and libraries.

The format is described in docs/reference/layout_protocol.md; its version is that of the protocol.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from reprlib import repr as short
from typing import Any

import numpy as np

from .errors import Error, InvalidArgument, OutOfRange, Unsupported, WrongType
from .layouts import BlockCyclic, FlatCyclic, FloorPlan, IndexList, Layout, checked, shape_of

#: The major version is raised when older readers would misread a layout.
VERSION = "1.0"
#: A key of each kind of layout.
_KINDS = ("boxes", "indices", "flat_block", "block")


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
    found: dict[str, Any] = {"layout": VERSION, "shape": list(shape_of(layout))}
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
    return found | {"block": block, "grid": grid, "ranks": grid_ranks(layout).ravel().tolist()}


def grid_ranks(layout: BlockCyclic) -> np.ndarray:
    """Return the rank at each place of the grid, from that which holds index 0 on.

    The first dimension counts replicas.
    """
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
        Text that is not JSON, a key that is missing or occurs twice, keys of two kinds, boxes that
        do not fit the shape, or as the layouts raise.
    OutOfRange
        Numbers that do not fit 64 bits, or as the layouts raise.
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
            described = json.loads(described, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"a layout in JSON: {error}") from None
    if not isinstance(described, Mapping):
        raise WrongType(f"a layout is a mapping, not a {type(described).__name__}")
    try:
        version = described["layout"]
        if not isinstance(version, str):
            raise WrongType(f"layout is {short(version)}, it must be a text such as {VERSION!r}")
        if not re.fullmatch("[0-9]+[.][0-9]+", version):
            raise InvalidArgument(f"layout is {short(version)}, it must be as {VERSION!r}")
        if int(version.partition(".")[0]) != 1:
            raise Unsupported(
                f"the layout has version {version}, and only 1.x is known: update datamover"
            )
        return _made(described)
    except Error:
        raise
    except KeyError as error:
        raise InvalidArgument(f"a layout needs {error}") from None
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"a layout has a value that makes no sense: {error}") from None


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary; of a key that occurs twice, readers could take either value."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidArgument(f"the key {short(key)} occurs twice: leave one out")
        found[key] = value
    return found


def _made(described: Mapping[str, Any]) -> Layout:
    shape = _integers(described["shape"], "shape")
    nprocs = _integer(described["processes"], "processes")
    kinds = [key for key in _KINDS if key in described]
    if len(kinds) > 1:
        raise InvalidArgument(f"a layout has the keys of one kind, not {' and '.join(kinds)}")
    if "indices" in described:
        lists = _integers(described["indices"], "indices", depth=2)
        if len(lists) != nprocs:
            raise InvalidArgument(f"{len(lists)} lists of indices for {nprocs} processes")
        return IndexList(shape, [np.array(of_rank, np.int64) for of_rank in lists])
    if "boxes" in described:
        return _of_boxes(described, shape, nprocs)
    if "flat_block" in described:
        block_elems = _integer(described["flat_block"], "flat_block")
        return FlatCyclic(shape, block_elems, nprocs, _integers(described["ranks"], "ranks"))
    block, grid, ranks = (_integers(described[key], key) for key in ("block", "grid", "ranks"))
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


def _of_boxes(described: Mapping[str, Any], shape: list[int], nprocs: int) -> FloorPlan:
    boxes = _integers(described["boxes"], "boxes", depth=3)
    ranks = _integers(described["ranks"], "ranks")
    origin = _integers(described.get("origin", [0] * len(shape)), "origin")
    if len(origin) != len(shape):
        raise InvalidArgument(f"origin {origin} and shape {shape} differ in length")
    for box in boxes:
        if [len(corner) for corner in box] != [len(shape)] * 2:
            raise InvalidArgument(f"box {short(box)} must be a start and a stop within {shape}")
        if any(start > stop for start, stop in zip(*box, strict=True)):
            raise InvalidArgument(f"box {box} stops before it starts")
    corners = np.array(boxes, np.int64).reshape(len(boxes), 2, len(shape))  # also without boxes
    plan = FloorPlan(corners, ranks, nprocs)
    # The domain of a plan is what its boxes span; without an element, that is nothing.
    lo, extents = list(plan.domain.lo), list(plan.domain.shape)
    if (lo, extents) != (origin, shape) and (math.prod(extents) != 0 or math.prod(shape) != 0):
        raise InvalidArgument(
            f"the boxes span the shape {extents} from {lo} on, the layout has the shape {shape} "
            f"from {origin} on"
        )
    return plan


def _integers(value: Any, name: str, depth: int = 1) -> Any:
    """Return a list of integers, or of lists of them if it has a depth of 2, and so on."""
    if depth == 0:
        return _integer(value, name)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise WrongType(f"{name} has {short(value)}, it must be a list")
    return [_integers(n, name, depth - 1) for n in value]


def _integer(value: Any, name: str) -> int:
    """Return an integer of 64 bits; what Python only converts to one (a bool, 2.0) is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise WrongType(f"{name} has {short(value)}, it must be an integer")
    if not -(2**63) <= value < 2**63:
        raise OutOfRange(f"{name} has {short(value)}, which does not fit 64 bits")
    return int(value)
