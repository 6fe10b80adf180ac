# SPDX-License-Identifier: BSD-3-Clause
"""The arrays and values that are saved or loaded, and their comparison between processes.

Each process has its own number of rows of an array of rows, such as particles. The file has the
rows of all processes, one process after the other.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from datamover.arguments import refuse_mask
from datamover.array_copy import overlap
from datamover.arrays import Array, UserArrays
from datamover.dlpack import array_of
from datamover.errors import InvalidArgument, Mismatch, Unsupported, WrongType
from datamover.files.formats import ArraySpec, Shape
from datamover.layouts import BlockCyclic, FloorPlan, Layout, shape_of
from datamover.mpi import Comm, collectively, gathered
from datamover.mpi_modules import load_mpi4py
from datamover.windows import byte_bounds

#: Stands for the layout.
ROWS = "rows"


def is_rows(layout: Any) -> bool:
    """Return whether this is the word in place of a layout."""
    return isinstance(layout, str) and layout == ROWS


def shares(name: str, shape: Shape, nprocs: int) -> Layout:
    """Return the layout of equal shares of the rows of a file, in order. Local."""
    if not shape:
        raise WrongType(f"{name!r} has no dimensions, and so no rows")
    if 0 in shape:
        return _empty(shape, nprocs)
    return FloorPlan.uniform(shape, (nprocs, *(1 for _ in shape[1:])), nprocs)


def _layout(own: Shape, counts: list[int]) -> Layout:
    """Return the layout of an array of which this process's part has the shape `own`."""
    shape = (sum(counts), *own[1:])
    if 0 in shape:
        return _empty(shape, len(counts))
    cuts = np.cumsum(counts[:-1]).tolist()
    return FloorPlan.from_splits(shape, [cuts, *([] for _ in own[1:])], len(counts))


def _empty(shape: Shape, nprocs: int) -> Layout:
    """Return a layout of no elements that keeps its shape, which floor plans do not."""
    words = ", ".join(["block", *("*" for _ in shape[1:])])
    return BlockCyclic(shape, f"({words})", nprocs)


Value = bool | int | float | str

#: Appended if processes save different arrays, which may be parts without a layout.
WHERE_PARTS_DIFFER = (
    "; pass a process's own part of an array as (array, layout), or its rows as (array, 'rows')"
)

#: Names with a meaning in a Zarr store.
RESERVED = frozenset(["", ".", "..", "zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"])


@dataclasses.dataclass
class Item:
    """A distributed array.

    Attributes
    ----------
    layout : Layout
        That of an array of rows is not known before `_complete`.
    array : Array or UserArrays, or None
        None if it is created when it is loaded.
    dtype : numpy.dtype or None
        None if it is unknown to this process, which has no block.
    rows : tuple of int, optional
        Of an array of rows, the shape of those of this process.
    """

    layout: Layout
    array: Array | UserArrays | None
    dtype: np.dtype | None
    rows: Shape | None = None

    @property
    def shape(self) -> Shape:
        """Extents of the whole array."""
        return shape_of(self.layout)

    def spec(self) -> ArraySpec:
        """Describe the array in the file; its dtype must be known by now."""
        return ArraySpec(self.shape, cast(np.dtype, self.dtype))

    @property
    def origin(self) -> Shape:
        """Index of the first element in the file."""
        return tuple(self.layout.domain.lo)


@dataclasses.dataclass
class State:
    """Arrays and values that are saved, distributed or equal on all processes; sorted by name."""

    items: dict[str, Item]
    arrays: dict[str, np.ndarray]
    values: dict[str, Value]

    def specs(self) -> dict[str, ArraySpec]:
        """Describe all arrays in the file by their names; dtypes must be known by now."""
        found = {name: item.spec() for name, item in self.items.items()}
        return found | {name: ArraySpec(a.shape, a.dtype) for name, a in self.arrays.items()}

    def described(self) -> dict[str, Any]:
        """Return what all processes must have in common, for `agree_on`."""
        found: dict[str, Any] = {"names": [*self.items, *self.arrays, *self.values]}
        for name, item in self.items.items():
            found[f"values for {name!r}"] = ("array", item.shape, item.origin)
            found[f"dtypes of {name!r}"] = str(item.dtype)
        for name, array in self.arrays.items():
            found[f"values for {name!r}"] = (str(array.dtype), array.shape, bytes_digest(array))
        for name, value in self.values.items():
            found[f"values for {name!r}"] = value
        return found


def state_of(address: int, given: Any, nprocs: int = 1) -> State:
    """Sort the arrays and values to save, and find what other processes know of them. Collective.

    That are the layouts of arrays of rows, and the dtypes of arrays without a block here, which may
    be wrong until the processes agree on them.

    Raises
    ------
    Mismatch
        Not all processes pass the rows of an array.
    Error
        As `_sorted`.
    """
    state = collectively(address, lambda: _sorted(given, nprocs))
    mine = {
        name: (item.rows, None if item.dtype is None else _words_of(item.dtype))
        for name, item in state.items.items()
    }
    found = gathered(address, list(repr(mine).encode()))
    of_all = [ast.literal_eval(bytes(one.astype("u1")).decode()) for one in found]
    collectively(address, lambda: _complete(state.items, of_all))
    return state


def _complete(items: dict[str, Item], of_all: list[dict[str, Any]]) -> None:
    for name, item in items.items():
        known = [mine.get(name, (None, None)) for mine in of_all]
        if item.rows is not None:
            without = [rank for rank, (rows, _) in enumerate(known) if rows is None]
            if without:
                raise Mismatch(
                    f"{name!r} is an array of rows, but not on process {without[0]}; pass the same "
                    "on all"
                )
            item.layout = _layout(item.rows, [rows[0] for rows, _ in known])
        if item.dtype is None:
            words = next((words for _, words in known if words is not None), None)
            if words is None:
                raise InvalidArgument(
                    f"no process passes an array, and with it a dtype, for {name!r}"
                )
            item.dtype = _dtype_of(words)


def _sorted(given: Any, nprocs: int) -> State:
    """Sort the arrays and values to save. Local.

    Raises
    ------
    WrongType
        An object is neither an array nor a value.
    InvalidArgument
        A file cannot have a name, or an array of several processes may be a part, or the same on
        all: parts may be equal by chance, as zeros are, so equality does not decide it.
    """
    if not isinstance(given, Mapping):
        raise WrongType(f"a {type(given).__name__} was given, it must be a mapping of names")
    check_names(list(given))
    found = State({}, {}, {})
    for name, value in sorted(given.items()):
        value = array_of(value, repr(name))
        way = value[1] if isinstance(value, tuple) and len(value) == 2 else ""
        if is_whole := way is None:
            value = _whole(name, value[0])
        if is_rows(way):
            found.items[name] = _item_of_rows(name, value[0])
        elif isinstance(value, (Array, tuple)):
            found.items[name] = _item(name, value)
        elif _is_plain(value) and not is_whole:
            found.values[name] = value.item()
        elif isinstance(value, (np.ndarray, np.generic, complex)):
            refuse_mask(value, repr(name))
            found.arrays[name] = np.asarray(value)
            _check_dtype(name, found.arrays[name].dtype)
            if np.ndim(value) and nprocs > 1 and not is_whole:
                raise InvalidArgument(
                    f"{name!r} is an array without a layout: pass (array, layout) if each process "
                    "has its part, or (array, None) if the whole is the same on all"
                )
        elif isinstance(value, (bool, int, float, str)):
            found.values[name] = value
        else:
            raise WrongType(
                f"{name!r} is a {type(value).__name__}; it must be an Array, a pair "
                "(array, layout), (array, 'rows') or (array, None), a NumPy array, a number or a "
                "string"
            )
    return found


def _whole(name: str, array: Any) -> Any:
    """Return an array that was passed as equal on all processes."""
    array = array_of(array, repr(name))
    if not isinstance(array, (np.ndarray, np.generic)):
        raise WrongType(
            f"{name!r} is a pair ({type(array).__name__}, None); (array, None) is a NumPy array "
            "that is the same on all processes"
        )
    return array


def check_names(names: list[Any]) -> None:
    """Reject names that no file can have, and an array that would be a group too."""
    for name in names:
        if not isinstance(name, str):
            raise WrongType(f"{name!r} is a {type(name).__name__}, names must be strings")
        parts = name.split("/")
        bad = any(part in RESERVED or len(os.fsencode(part)) > 255 for part in parts)
        if bad or "\0" in name or not name.isprintable():
            raise InvalidArgument(f"{name!r} is not a valid name for an array or a value")
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts)):
            if (above := "/".join(parts[:end])) in names:
                raise InvalidArgument(f"{above!r} cannot contain {name!r}: it is not a group")


def _item(name: str, given: Any) -> Item:
    if isinstance(given, Array):
        _check_dtype(name, given.dtype)
        return Item(given.layout, given, given.dtype)
    if len(given) != 2 or not isinstance(given[1], Layout):
        raise WrongType(f"{name!r} is a tuple, but not a pair (array, layout)")
    array, layout = given
    if isinstance(array, Array):
        raise WrongType(f"{name!r} is an Array, which has a layout: pass it without one")
    array = array if isinstance(array, UserArrays) else UserArrays(array)
    _check_dtype(name, array.dtype)
    return Item(layout, array, array.dtype)


def _item_of_rows(name: str, given: Any) -> Item:
    array = array_of(given, repr(name))
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise WrongType(
            f"{name!r} is a {type(given).__name__}; (array, 'rows') is a NumPy array with the rows "
            "of this process, possibly none"
        )
    rows = UserArrays(array)
    _check_dtype(name, rows.dtype)
    return Item(cast(Layout, None), rows, rows.dtype, array.shape)


def _is_plain(value: Any) -> bool:
    """Return whether a NumPy scalar is also a Python number or string; longdouble is not."""
    plain = isinstance(value, np.generic) and value.dtype.kind in "biufU"
    return plain and isinstance(value.item(), (bool, int, float, str))


def _check_dtype(name: str, dtype: np.dtype | None) -> None:
    """Reject elements whose description does not distinguish them from others."""
    if dtype is None:
        return
    if dtype.hasobject or dtype.itemsize == 0:
        raise WrongType(f"{name!r} has dtype {dtype}: its elements have no fixed size in bytes")
    if _dtype_of(_words_of(dtype)) != dtype:
        raise Unsupported(f"{name!r} has dtype {dtype}, which files cannot hold")


def _words_of(dtype: np.dtype) -> str:
    return repr(np.lib.format.dtype_to_descr(dtype))


def _dtype_of(words: str) -> np.dtype:
    return np.lib.format.descr_to_dtype(ast.literal_eval(words))


def targets_of(given: Any, rows_of: Callable[[str], Layout]) -> dict[str, Item | None]:
    """Sort the targets to load; None stands for a whole array. Local; errors as for `state_of`.

    `rows_of` finds the layout of an array whose rows are shared evenly.
    """
    if not isinstance(given, Mapping):
        raise WrongType(f"a {type(given).__name__} was given, it must be a mapping of names")
    check_names(list(given))
    found: dict[str, Item | None] = {}
    for name, target in sorted(given.items()):
        if is_rows(target):
            target = rows_of(name)
        if target is None:
            found[name] = None
        elif isinstance(target, Layout):
            found[name] = Item(target, None, None)
        elif isinstance(target, (Array, tuple)):
            found[name] = _item(name, target)
        else:
            raise WrongType(
                f"{name!r} is a {type(target).__name__}; it must be a layout, an Array, a pair "
                "(array, layout), 'rows' for an equal share of its rows on each process, or None "
                "for a whole NumPy array on each process"
            )
    return found


def check_items(items: dict[str, Item], comm: Comm) -> None:
    """Check the number of processes of arrays, and that their sizes fit 63 bits. Local."""
    for name, item in items.items():
        if item.layout.nprocs != comm.size:
            raise Mismatch(
                f"{name!r} has a layout for {item.layout.nprocs} processes; the communicator has "
                f"{comm.size}"
            )
        elems = math.prod(max(n, 1) for n in item.shape)
        if elems * (item.dtype.itemsize if item.dtype else 1) >= 2**63:
            raise InvalidArgument(f"{name!r} has the shape {item.shape}: 2**63 bytes or more")


def refuse_shared_memory(items: dict[str, Item], rank: int) -> None:
    """Reject arrays of which two would be loaded into the same memory. Local.

    Sorts the blocks, and compares only those with overlapping bounds.

    Raises
    ------
    InvalidArgument
    Error
        As from a mover, if arrays do not fit their layout.
    """
    views = [
        (*byte_bounds(view), name, view)
        for name, item in items.items()
        if item.array is not None
        for _, view in item.array._interiors(item.layout, rank)
        if view.size
    ]
    before: list[Any] = []
    for low, high, name, view in sorted(views, key=lambda found: found[:2]):
        before = [found for found in before if found[1] > low]
        for _, _, other, beside in before:
            if other != name and overlap(view, beside, unless_told=False):
                raise InvalidArgument(f"{other!r} and {name!r} would be loaded into one memory")
        before.append((low, high, name, view))


def communicator(comm: Comm | None, given: Any) -> Comm:
    """Return the given communicator, or that of the first Array, or this process alone.

    The last only if MPI has started no other process: several would all write the same file.
    """
    if comm is not None:
        return comm
    for value in given.values() if isinstance(given, Mapping) else ():
        if isinstance(value, Array):
            return value.comm
    mpi = load_mpi4py()
    nprocs = mpi.COMM_WORLD.size
    if nprocs == 1:
        return mpi.COMM_SELF
    raise InvalidArgument(
        f"comm is needed if there is no Array: there are {nprocs} processes; MPI.COMM_SELF is "
        "this process alone"
    )


def bytes_digest(array: np.ndarray) -> int:
    """Return 63 bits that differ, in all likelihood, if the bytes of arrays differ."""
    found = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
    return int.from_bytes(found[:8], "little") >> 1
