# SPDX-License-Identifier: BSD-3-Clause
"""Parts of distributed arrays, as each process describes its own, and the layouts of them all."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.arguments import integers
from datamover.errors import InvalidArgument, Mismatch, OutOfRange, Unsupported, WrongType
from datamover.layouts import FloorPlan, IndexList, Layout
from datamover.mpi import collectively, comm_address, core, gathered
from datamover.mpi_modules import load_mpi4py
from datamover.own_lists import index_lists

if TYPE_CHECKING:
    from mpi4py import MPI

Shape = tuple[int, ...]


def world() -> MPI.Comm:
    """Give the communicator of arrays that do not have one of all their processes."""
    return load_mpi4py().COMM_WORLD


@dataclasses.dataclass
class Boxes:
    """The boxes that this process holds of an array.

    Attributes
    ----------
    shape : tuple of int
        Of the array.
    boxes : sequence of (start, stop)
        In the order of the local arrays.
    replicated : bool
        Whether several processes may hold the same box.
    stacked : int, optional
        A dimension along which the boxes, which start at 0, follow each other in order of rank.
    check_rank : callable, optional
        Called with the rank of this process; raises if the boxes are those of another.
    """

    shape: Shape
    boxes: Sequence[tuple[Sequence[int], Sequence[int]]]
    replicated: bool = False
    stacked: int | None = None
    check_rank: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self.shape = integers(self.shape, "a shape")
        self.boxes = [
            (integers(start, "a start"), integers(stop, "a stop")) for start, stop in self.boxes
        ]


@dataclasses.dataclass
class Indices:
    """The flat indices of the elements that this process holds, in the order of its local array.

    Attributes
    ----------
    shape : tuple of int or None
        Of the array; None for the largest index + 1.
    indices : array of int
    partners : tuple of layouts or descriptions
        Without ghosts, of a local array with ghosts.
    """

    shape: Shape | None
    indices: Any
    partners: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # Before others wait for them: what are not integers, and one row of them, is refused here.
        self.indices = np.ravel(self.indices).astype(np.int64, casting="safe")


@dataclasses.dataclass
class Placed:
    """The layout of the whole array, and which rank of it this process is."""

    layout: Layout
    rank: int


def settled(comm: MPI.Comm, describe: Callable[[], Any], partners: Sequence[Layout]) -> Layout:
    """Put the descriptions of all processes together, or raise the same on all. Collective."""
    address = comm_address(comm)

    def read() -> tuple[Any, str, np.ndarray]:
        mine = describe()
        header = _header(mine, comm, partners)
        corners = [corner for box in getattr(mine, "boxes", ()) for corner in box]
        return mine, header, _int64([n for corner in corners for n in corner])

    # First what must be the same everywhere, then the parts.
    mine, header, numbers = collectively(address, read)
    core().require_same(address, [("arrays", header)], "describe")
    if isinstance(mine, Boxes):
        return _floor_plan(mine, gathered(address, numbers))
    if isinstance(mine, Placed):
        return mine.layout
    if not isinstance(mine, Indices):
        return mine
    shape = mine.shape
    if shape is None:
        tops = gathered(address, [int(np.max(mine.indices, initial=-1))])
        shape = (1 + max(int(top[0]) for top in tops),)
    others = [settled(comm, lambda: p, ()) for p in mine.partners]  # noqa: B023 (called at once)
    if others or partners:
        return index_lists(shape, mine.indices, partners=[*others, *partners], comm=comm)[0]
    return IndexList(shape, gathered(address, mine.indices))


def _int64(numbers: Sequence[int]) -> np.ndarray:
    """Convert numbers, of which those of a layout have 64 bits, before others wait for them."""
    for n in numbers:
        if not -(2**63) <= n < 2**63:
            raise OutOfRange(f"{n} in the description of an array does not fit 64 bits")
    return np.array(numbers, np.int64)


def _header(mine: Any, comm: MPI.Comm, partners: Sequence[Layout]) -> str:
    """Describe what all processes must agree on before they wait for parts of each other."""
    if isinstance(mine, Boxes):
        if not mine.shape:
            raise InvalidArgument("an array without dimensions does not have a layout")
        if mine.check_rank is not None:
            mine.check_rank(comm.rank)
        dims = len(mine.shape)
        if any({len(start), len(stop)} != {dims} for start, stop in mine.boxes):
            raise Mismatch(f"parts of an array of shape {mine.shape} must have {dims} dimensions")
        if mine.stacked is not None and not -dims <= mine.stacked < dims:
            raise OutOfRange(f"an array of shape {mine.shape} is split along axis {mine.stacked}")
        shape = tuple(_int64(mine.shape).tolist())
        return f"{shape} in boxes, replicated={mine.replicated}, stacked={mine.stacked}"
    if isinstance(mine, Indices):
        if not isinstance(partners, (list, tuple)):
            raise WrongType(f"partners is {partners!r}; it must be a list of layouts")
        own, given = len(mine.partners), len(partners)
        extents = None if mine.shape is None else tuple(_int64(mine.shape).tolist())
        return f"{extents} in indices, with {own} layouts of its own and {given} partners"
    layout = mine.layout if isinstance(mine, Placed) else mine
    if layout.nprocs != comm.size:
        raise Mismatch(
            f"the array is distributed over {layout.nprocs} processes, the communicator has "
            f"{comm.size}"
        )
    if isinstance(mine, Placed) and mine.rank != comm.rank:
        raise Mismatch(f"process {comm.rank} holds the part of process {mine.rank} of the array")
    try:
        return f"{layout!r} {hashlib.sha256(pickle.dumps(layout)).hexdigest()[:14]}"
    except Unsupported:  # each process has its own list, which was agreed on when it was made
        return f"{tuple(layout.domain.shape)} in index lists"


def _floor_plan(mine: Boxes, numbers: Sequence[np.ndarray]) -> FloorPlan:
    """Make the layout of all boxes, which must hold each element, once if not replicated."""
    dims, shape = len(mine.shape), mine.shape
    boxes = [of_rank.reshape(-1, 2, dims) for of_rank in numbers]
    if mine.stacked is not None:
        ends = np.cumsum([of_rank[-1, 1, mine.stacked] for of_rank in boxes])
        for of_rank, end in zip(boxes[1:], ends, strict=False):
            of_rank[:, :, mine.stacked] += end
    owners = np.repeat(np.arange(len(boxes)), [len(of_rank) for of_rank in boxes])
    corners = np.concatenate(boxes)
    for (start, stop), owner in zip(corners.tolist(), owners, strict=True):
        sides = zip(start, stop, shape, strict=True)
        if not all(0 <= a <= b <= n for a, b, n in sides):
            raise OutOfRange(
                f"process {owner} holds {start} to {stop} of an array of shape {shape}"
            )
    plan = FloorPlan(corners, owners, nprocs=len(numbers))
    _require_partition(plan, mine.replicated, shape)
    return plan


def _require_partition(plan: FloorPlan, replicated: bool, shape: Shape) -> None:
    held, seen = 0, set()
    for block in range(len(plan)):
        region = plan.region(block)
        if replicated and region in seen:
            continue
        seen.add(region)
        held += region.size
        for other in plan.find(region):
            if other < block:
                ranks = sorted((plan.owner(block), plan.owner(other)))
                raise Mismatch(
                    f"processes {ranks[0]} and {ranks[1]} both hold elements of "
                    f"{region & plan.region(other)}"
                )
    if held != math.prod(shape):
        raise Mismatch(
            f"the parts of all processes hold {held} of the {math.prod(shape)} elements of shape "
            f"{shape}"
        )
