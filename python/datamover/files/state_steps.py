# SPDX-License-Identifier: BSD-3-Clause
"""Steps in which distributed arrays are saved and loaded, and the part of each process in them.

An array is divided into slabs of whole chunks. A slab is distributed, in pieces that are contiguous
in the file, over the processes that read or write. A step has as many slabs, of one or of several
arrays, as memory allows: a mover moves all of them between the arrays and staging memory, which is
laid out like the pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover._plan import Region
from datamover.errors import InvalidArgument, NoMemory, WrongType
from datamover.files import dealing
from datamover.files.formats import Shape
from datamover.files.state_items import Item

if TYPE_CHECKING:
    from mpi4py import MPI

#: Minimum bytes for the messages of a step.
LEAST_MESSAGE_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Slab:
    """A part of an array that is moved in one step.

    Attributes
    ----------
    name : str
    lo, hi : tuple of int
        Indices of the file.
    regions, owners : ndarray
        Its boxes, relative to `lo`, and the process that reads or writes each.
    most_bytes : int
        Maximum bytes of it on one process.
    """

    name: str
    lo: Shape
    hi: Shape
    regions: np.ndarray
    owners: np.ndarray
    most_bytes: int


def file_ranks(given: Any, name: str, nprocs: int) -> tuple[int, ...]:
    """Return the processes that read or write: all, a number of evenly spaced ones, or those given.

    Examples
    --------
    >>> from datamover.files.state_steps import file_ranks
    >>> file_ranks(None, "writers", 3), file_ranks(2, "writers", 4), file_ranks([3], "writers", 4)
    ((0, 1, 2), (0, 2), (3,))
    """
    if given is None:
        return tuple(range(nprocs))
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 1 <= given <= nprocs:
            raise InvalidArgument(f"{name} is {given}; it must be from 1 to {nprocs}, or ranks")
        return tuple(nprocs * i // int(given) for i in range(int(given)))
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, (str, bytes)):
        raise WrongType(f"{name} is {given!r}, it must be a number or a sequence of ranks")
    try:
        ranks = [int(np.asarray(rank).astype(np.int64, casting="safe")) for rank in given]
    except TypeError:
        raise WrongType(f"{name} is {given!r}, ranks must be integers") from None
    if not ranks or len(set(ranks)) < len(ranks) or not all(0 <= r < nprocs for r in ranks):
        raise InvalidArgument(
            f"{name} is {ranks}; it must be one or more different ranks from 0 to {nprocs - 1}"
        )
    return tuple(sorted(ranks))


def slabs_of(
    name: str, file: Any, ranks: tuple[int, ...], most_bytes: int, box: Region | None = None
) -> list[Slab]:
    """Cut an array, or a box of it, into slabs of at most `most_bytes` on each process.

    `file` is an open reader or writer with `spec`, `granule` and `unit`.

    Raises
    ------
    NoMemory
        A chunk is larger.
    """
    spec = file.spec
    if spec.nbytes == 0:
        return []
    origin, shape = (box.lo, tuple(box.shape)) if box else ((0,) * len(spec.shape), spec.shape)
    count, found = len(ranks), []
    for lo, hi in dealing.slabs(shape, _slab_shape(name, file, count, most_bytes, shape)):
        extents = tuple(b - a for a, b in zip(lo, hi, strict=True))
        regions, owners = dealing.deal(extents, file.unit(extents, count), spec.order, count)
        most = _share(file, extents, count) * spec.dtype.itemsize
        ends = (tuple(a + o for a, o in zip(end, origin, strict=True)) for end in (lo, hi))
        found.append(Slab(name, *ends, regions, np.asarray(ranks, np.int64)[owners], most))
    return found


def check_fits(name: str, file: Any, ranks: tuple[int, ...], most_bytes: int) -> None:
    """Raise NoMemory if a limit is too little for a chunk."""
    if file.spec.nbytes:
        _slab_shape(name, file, len(ranks), most_bytes, file.spec.shape)


def _slab_shape(name: str, file: Any, count: int, most_bytes: int, shape: Shape) -> Shape:
    spec = file.spec
    try:
        return dealing.slab_shape(
            shape,
            file.granule,
            spec.order,
            2 * most_bytes,  # half of the limit is for the elements
            2 * spec.dtype.itemsize,
            lambda slab: _share(file, slab, count),
        )
    except NoMemory as e:
        raise NoMemory(f"{name!r}: {e}") from e


def _share(file: Any, slab: Shape, count: int) -> int:
    return dealing.share_elems(slab, file.unit(slab, count), count)


def batches(slabs: list[Slab], most_bytes: int) -> list[list[Slab]]:
    """Group slabs, in order, into steps within a number of bytes on each process."""
    found: list[list[Slab]] = []
    room = 0
    for slab in slabs:
        if not found or slab.most_bytes > room:
            found.append([])
            room = most_bytes
        found[-1].append(slab)
        room -= slab.most_bytes
    return found


class Staging:
    """Memory for the slabs of one step, and the mover between it and the arrays.

    Creating it is collective. `to_files` is the direction.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        slabs: list[Slab],
        items: dict[str, Item],
        specs: dict[str, Any],
        dtypes: dict[str, np.dtype],
        to_files: bool,
        message_bytes: int,
    ):
        import datamover as dm

        self._slabs = slabs
        self._arrays: list[Any] = []

        def moves() -> Iterator[tuple[Any, Any, Any]]:
            for slab, staged in zip(slabs, self._arrays, strict=True):
                item = items[slab.name]
                section = dm.Region(
                    tuple(a + o for a, o in zip(slab.lo, item.origin, strict=True)),
                    tuple(b + o for b, o in zip(slab.hi, item.origin, strict=True)),
                )
                if to_files:
                    plan = dm.redistribute(item.layout, staged.layout, source_region=section)
                    yield plan, item.array, staged
                else:
                    plan = dm.redistribute(staged.layout, item.layout, destination_region=section)
                    yield plan, staged, item.array

        try:
            for slab in slabs:
                layout = dm.FloorPlan(slab.regions, slab.owners, comm.size)
                order = specs[slab.name].order
                self._arrays.append(dm.XArray(comm, layout, dtypes[slab.name], order=order))
            # The set iterates over `moves` itself: an error there is raised on all processes.
            self._mover = dm.MoverSet(
                moves(), comm=comm, max_bytes=max(message_bytes, LEAST_MESSAGE_BYTES)
            )
        except BaseException:
            self.free()
            raise

    def move(self) -> None:
        """Move all slabs, and free the mover. Collective."""
        self._mover()
        self._mover.free()

    def parts(self) -> Iterator[tuple[str, Shape, np.ndarray]]:
        """Yield the parts of this process: (name, index of the first element, array)."""
        for slab, staged in zip(self._slabs, self._arrays, strict=True):
            for block, part in staged.grids():
                lo = staged.layout.region(block).lo
                yield slab.name, tuple(a + b for a, b in zip(slab.lo, lo, strict=True)), part

    def free(self) -> None:
        """Free the memory. Local."""
        for staged in self._arrays:
            staged.free()
