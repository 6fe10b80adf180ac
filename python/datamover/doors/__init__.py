# SPDX-License-Identifier: BSD-3-Clause
"""Doors: the layouts and the memory of distributed arrays of other libraries.

A door knows the arrays of one library or protocol: a module here, or an entry of `libraries`. It is
imported when it meets one of them, and reads attributes alone, so that no library has to be
installed. Each has these functions:

- ``takes(x)``: whether this is one of its arrays;
- ``describe(x, shape)``: a layout, if this process knows it all, or its own `parts.Boxes` or
  `parts.Indices`;
- ``comm_of(x, ghosts)``: the communicator by which processes put their parts together; None if
  each knows the layout;
- ``memory(x)``: the arrays of this process's blocks, in ascending order, and their ghosts;
- ``ghosted(x)`` (optional): the `parts.Indices` of the local array with its ghosts.
"""

from __future__ import annotations

import contextlib
import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.arguments import integers
from datamover.collective_calls import agreeing, refused_by
from datamover.deprecated import comm_by_place
from datamover.errors import Error, InvalidArgument, Unsupported, WrongType
from datamover.layouts import Layout
from datamover.mpi import comm_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import NoReturn

    from mpi4py import MPI

    from .libraries import Door

#: Libraries by the first words of the modules of their classes, and the module here for each.
_LIBRARIES = {
    "petsc4py": "petsc",
    **dict.fromkeys(("mpi4py_fft", "pylops_mpi", "dolfinx", "heat", "torch"), "libraries"),
    **dict.fromkeys(("jax", "jaxlib"), "libraries"),
}
#: The module here for objects with an attribute.
_PROTOCOLS = {
    "__distributed_layout__": "protocol",
    "__partitioned__": "partitioned",
    "__distarray__": "distarray",
}


def _refuse(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
    """Take part in the call of the others, if it is collective, and raise an error."""
    x, comm = (*given, said.get("x"))[0], said.get("comm")
    if comm is None:
        comm = _known_communicator(x, bool(said.get("ghosts")))
    agreeing((comm,), {}, error)


@comm_by_place(1)
@refused_by(_refuse)
def layout_of(
    x: Any,
    *,
    shape: int | Sequence[int] | None = None,
    ghosts: bool = False,
    partners: Sequence[Layout] = (),
    comm: MPI.Comm | None = None,
) -> Layout:
    """Return the layout of a distributed array of another library.

    Movers take the array itself, in place: ``dm.Mover(plan, x, y, comm=comm)``.

    Parameters
    ----------
    x : array
        An array, or the description of one: petsc4py ``Vec``, ``DMDA``, ``IS`` and ``LGMap``;
        DOLFINx ``Function`` and ``IndexMap``; mpi4py-fft ``DistArray`` and ``Pencil``; pylops-mpi
        ``DistributedArray``; heat ``DNDarray``; PyTorch ``DTensor``; JAX arrays and
        ``NamedSharding``; an object with ``__distributed_layout__``, ``__partitioned__`` or
        ``__distarray__``; an `Array` or a layout.
    shape : int or sequence of int, optional
        Shape of the global array for those that do not have one: an ``IS`` or ``LGMap`` (by
        default, the largest index + 1) and a ``NamedSharding``.
    ghosts : bool
        Whether to return the layout of the local array with its ghosts, of a DOLFINx ``IndexMap``
        or ``Function`` or a ghosted ``Vec``: an `IndexList` as by `index_lists`. It can be moved to
        and from the layout without ghosts, and `partners`.
    partners : sequence of layouts, optional
        For layouts of indices: the layouts that you move to and from. No process then holds the
        indices of all others (see `index_lists`).
    comm : mpi4py.MPI.Comm, optional
        The processes. By default those of the array, or of MPI.COMM_WORLD if the array does not
        have a communicator. If you pass it, the call is collective for every array, all processes
        raise what any raises, and they compare their layouts.

    Returns
    -------
    BlockCyclic, FloorPlan, IndexList or FlatCyclic
        Collective for arrays of which each process knows only its own part
        (`other libraries </other_libraries>`_ lists them), else local.

    Raises
    ------
    WrongType
        `x` does not have a layout.
    Mismatch
        The parts of the processes overlap, leave elements out, or belong to different arrays; the
        communicator has another number of processes.
    InvalidArgument
        The array cannot be read, for example because it was freed; `shape` is not that of the
        array; `ghosts` of an `Array` or a layout.
    Unsupported
        A distribution that no layout describes, such as partial sums.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> class Rows:
    ...     def __init__(self, mine):
    ...         self.mine = mine
    ...
    ...     def __distarray__(self):
    ...         return {"__version__": "0.10.0", "buffer": self.mine, "dim_data": ({}, {})}
    >>> dm.layout_of(Rows(np.zeros((3, 4))))
    <FloorPlan of 1 blocks in [0:3, 0:4) on 1 processes>
    """
    from .parts import settled

    def describe() -> Any:
        with _reading(x):
            return _described(x, None if shape is None else integers(shape, "shape"), ghosts)

    if comm is None:
        comm = _communicator(x, ghosts)
    else:
        try:
            comm_address(comm)
        except Error as error:
            # The others may have passed a valid one. With ghosts, each array of PETSc has its own.
            agreeing((_known_communicator(x, ghosts=True), x), {}, error)
    if comm is None:
        return describe()
    return settled(comm, describe, partners)


def _described(x: Any, shape: tuple[int, ...] | None, ghosts: bool) -> Any:
    """Give a layout, or this process's part of it."""
    own = _own_layout(x)
    if own is not None:
        if ghosts:
            raise InvalidArgument(
                f"ghosts=True is for arrays of other libraries, not for a {_name(x)}: use dm.halo"
            )
        found = own
    else:
        door = _required(x)
        if ghosts and getattr(door, "ghosted", None) is None:
            raise Unsupported(f"ghosts=True is not supported for a {_name(x)}: use dm.halo")
        found = door.ghosted(x) if ghosts else door.describe(x, shape)
    if shape is not None:
        whole = getattr(found, "layout", found)
        known = whole.domain.shape if isinstance(whole, Layout) else whole.shape
        # A layout of no elements need not know which extents of its array are 0.
        if tuple(known) != shape and (math.prod(known) != 0 or math.prod(shape) != 0):
            raise InvalidArgument(
                f"shape is {shape}, the {_name(x)} has the shape {tuple(known)}: leave shape out"
            )
    return found


def _own_layout(x: Any) -> Layout | None:
    """Give that of this library's: a layout itself, or that of an Array, which need not load."""
    own = x if isinstance(x, Layout) else getattr(x, "layout", None)
    return own if isinstance(own, Layout) else None


def memory_of(x: Any) -> tuple[Any, Any] | None:
    """Give the arrays of this process's blocks, and their ghosts; None for other objects."""
    if x is None or type(x) is np.ndarray:
        return None
    with _reading(x):
        door = door_of(x)
        return None if door is None else door.memory(x)


def door_of(x: Any) -> ModuleType | Door | None:
    """Find the module or entry here that knows an object, if there is one."""
    for kind in type(x).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in _LIBRARIES:
            module = import_module(f".{_LIBRARIES[library]}", __name__)
            door = getattr(module, "DOORS", {}).get(library, module)
            if door.takes(x):
                return door
    own = getattr(x, "__dict__", ())  # not by hasattr(x): properties of any object would be read
    for attribute, name in _PROTOCOLS.items():
        if hasattr(type(x), attribute) or attribute in own:
            return import_module(f".{name}", __name__)
    return None


def _communicator(x: Any, ghosts: bool) -> Any:
    """Find the one by which parts are put together; None if each process knows the layout."""
    with _reading(x):
        return None if _own_layout(x) is not None else _required(x).comm_of(x, ghosts)


def _known_communicator(x: Any, ghosts: bool) -> Any:
    """Find it as `_communicator`; None too if the array cannot be read."""
    try:
        return _communicator(x, ghosts)
    except Error:
        return None


def _required(x: Any) -> Any:
    door = door_of(x)
    if door is None:
        raise WrongType(
            f"a {_name(x)} does not have a layout; make one, such as dm.BlockCyclic, and pass the "
            "array of this process to movers"
        )
    return door


@contextlib.contextmanager
def _reading(x: Any) -> Iterator[None]:
    """Read attributes of an object; what the library raises becomes an error of this one's."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"a {_name(x)} cannot be read as a distributed array: {type(error).__name__}: {error}"
        ) from error


def _name(x: Any) -> str:
    kind = type(x)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
