# SPDX-License-Identifier: BSD-3-Clause
"""Move of an array from file to file slab by slab, in which each part is read once.

Each process reads its part of a slab, a mover redistributes the slab from the parts that are read
to the parts that are written, and each process writes its part. In every slab, all processes wait
for the slowest. Several processes use this method if many of them would otherwise read the same
source chunks: see `move_job`.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import InvalidState, NoMemory
from datamover.files import dealing
from datamover.files.agreement import together
from datamover.files.at_work import boxes, do_all, threads_within
from datamover.files.checksums import Checksums
from datamover.files.chunk_plan import reads_of
from datamover.files.flat import FlatBoxes
from datamover.files.formats import ArraySpec, Reader, Shape, num_boxes
from datamover.files.handover import Handover

if TYPE_CHECKING:
    from mpi4py import MPI

#: What goes slab by slab costs so many times as much as what goes chunk by chunk, for the same
#: bytes read and written: all wait for the slowest, and nothing overlaps.
COST = 1.5


class Slabs:
    """In which slabs an array goes, and who reads and writes what of one. Local.

    Parameters
    ----------
    reader : Reader
    writer : Writer
        Or whatever says `granule`, `unit` and `spec` as the writer will.
    axes : tuple of int
        Output dimension k is input dimension axes[k].
    spec : ArraySpec
        Of the output.
    nprocs, max_bytes : int

    Attributes
    ----------
    shape : tuple of int
        Of the slabs, in the output's dimensions.

    Raises
    ------
    NoMemory
        No slab fits.
    """

    def __init__(
        self, reader: Reader, writer: Any, axes: Shape, spec: ArraySpec, nprocs: int, max_bytes: int
    ):
        self.reader, self.writer, self.axes, self.spec = reader, writer, axes, spec
        self.nprocs, self.max_bytes = nprocs, max_bytes
        self.shape = self._choose()

    def figures(self) -> dict[str, int]:
        """Say how many slabs there are, and what all of them read, write and take of a process."""
        return {
            "passes": num_boxes(self.spec.shape, self.shape),
            "read_bytes": self._read_bytes(),
            "written_bytes": self.spec.nbytes,
            "memory_bytes": self._share(self.shape) * self._itemsize(),
        }

    def to_source(self, of_output: Shape) -> Shape:
        """Reorder what stands per output dimension into the order of the input's dimensions."""
        ordered = [0] * len(self.axes)
        for k, axis in enumerate(self.axes):
            ordered[axis] = of_output[k]
        return tuple(ordered)

    def _to_output(self, of_source: Shape) -> Shape:
        return tuple(of_source[a] for a in self.axes)

    def _choose(self) -> Shape:
        """Slabs of whole output boxes; where memory allows also of whole input boxes."""
        coarse = tuple(
            math.lcm(w, r)
            for w, r in zip(self.writer.granule, self._to_output(self.reader.granule), strict=True)
        )
        arguments = (self.spec.order, self.max_bytes, self._itemsize(), self._share)
        try:
            return dealing.slab_shape(self.spec.shape, coarse, *arguments)
        except NoMemory:
            return dealing.slab_shape(self.spec.shape, self.writer.granule, *arguments)

    def _itemsize(self) -> int:
        return max(self.spec.dtype.itemsize, self.reader.spec.dtype.itemsize)

    def _share(self, slab: Shape) -> int:
        """Give the most elements that one process holds of a slab, as it comes and as it goes."""
        of_source = self.to_source(slab)
        return sum(
            dealing.share_elems(extents, file.unit(extents, self.nprocs), self.nprocs)
            for extents, file in ((slab, self.writer), (of_source, self.reader))
        )

    def _read_bytes(self) -> int:
        """Count what all slabs read; a chunk that several need is read for each."""
        if isinstance(self.reader, FlatBoxes):
            return self.spec.nbytes
        granule = self.reader.granule
        extents = self.reader.spec.shape
        reads = math.prod(map(reads_of, extents, granule, self.to_source(self.shape)))
        return reads * math.prod(granule) * self.spec.dtype.itemsize

    def cost_bytes(self) -> float:
        """What a process reads and writes, weighed as `ChunkPlan.cost_bytes` is."""
        return COST * (self._read_bytes() + self.spec.nbytes) / self.nprocs

    def all(self) -> Iterator[dealing.Box]:
        """Go through the slabs, as (lo, hi)."""
        return dealing.slabs(self.spec.shape, self.shape)

    def deal(self, shape: Shape) -> list[tuple[np.ndarray, np.ndarray]]:
        """Say who reads and who writes what of a slab: (regions, owners) of input and output."""
        sides = ((self.to_source(shape), self.reader), (shape, self.writer))
        nprocs = self.nprocs
        return [
            dealing.deal(extents, file.unit(extents, nprocs), file.spec.order, nprocs)
            for extents, file in sides
        ]

    def bytes_of(self, rank: int) -> int:
        """Count what a process reads and writes, of all slabs."""
        elems = 0
        dealt: dict[Shape, int] = {}
        for lo, hi in self.all():
            shape = tuple(b - a for a, b in zip(lo, hi, strict=True))
            if shape not in dealt:
                dealt[shape] = sum(
                    int(np.prod((regions[:, 1] - regions[:, 0])[owners == rank], axis=1).sum())
                    for regions, owners in self.deal(shape)
                )
            elems += dealt[shape]
        return elems * self.spec.dtype.itemsize


class SlabMove:
    """One process's part of a move slab by slab.

    Parameters
    ----------
    comm : MPI.Comm
    slabs : Slabs
        With the open output as its `writer`.
    sums : Checksums, optional
    threads : int
    timed : callable
        Gives a context by the name of a phase.
    tell : callable
        Called with the bytes of each piece read or written.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        slabs: Slabs,
        sums: Checksums | None,
        threads: int,
        timed: Callable[[str], Any],
        tell: Callable[[int], None],
    ):
        self._comm, self._slabs, self._sums = comm, slabs, sums
        self._timed, self._tell_all = timed, tell
        self._telling = threading.Lock()
        files = (slabs.reader, slabs.writer)
        self._threads = threads_within(threads, files, slabs.max_bytes // 4)
        self._bound: _Bound | None = None

    def run(self) -> int:
        """Move all; give the number of slabs. Collective."""
        count = 0
        try:
            for lo, hi in self._slabs.all():
                count += 1
                self._move(lo, tuple(b - a for a, b in zip(lo, hi, strict=True)))
        finally:
            if self._bound is not None:
                self._bound.free()
        return count

    def _move(self, lo: Shape, shape: Shape) -> None:
        with self._timed("set_up"):
            self._bind(shape)
        with together(self._comm), self._timed("read"):
            self._do(self._slabs.to_source(lo), self._bound.source, self._slabs.reader, self._read)
        with self._timed("redistribute"):
            self._bound.mover()
        writer, output = self._slabs.writer, self._bound.output
        alarm = writer.alarm if isinstance(writer, Handover) else None
        with together(self._comm, alarm), self._timed("write"):
            if isinstance(writer, Handover):
                writer.run(lambda: self._do(lo, output, writer, self._write))
            else:
                self._do(lo, output, writer, self._write)

    def _do(self, lo: Shape, array: Any, file: Any, work: Callable[[Shape, np.ndarray], None]):
        def tasks() -> Iterator[tuple[Shape, np.ndarray]]:
            for block, part in array.grids():
                offset = array.layout.region(block).lo
                first = tuple(a + b for a, b in zip(lo, offset, strict=True))
                yield from boxes(first, part, file.granule, file.spec.order)

        do_all(tasks(), lambda task: work(*task), self._threads)

    def _read(self, at: Shape, piece: np.ndarray) -> None:
        self._slabs.reader.read(at, piece)
        self._bound.make_native(piece)
        self._tell(piece.size * self._slabs.spec.dtype.itemsize)

    def _write(self, at: Shape, piece: np.ndarray) -> None:
        self._slabs.writer.write(at, piece)
        if self._sums is not None:
            self._sums.add(at, piece)
        self._tell(piece.nbytes)

    def _tell(self, nbytes: int) -> None:
        with self._telling:
            self._tell_all(nbytes)

    def _bind(self, shape: Shape) -> None:
        """Make arrays and mover for a slab's shape, unless the last slab had the same one."""
        if self._bound is not None and self._bound.shape == shape:
            return
        if self._bound is not None:
            self._bound.free()
            self._bound = None
        slabs = self._slabs
        source, output = slabs.deal(shape)
        dtypes = slabs.reader.spec.dtype, slabs.spec.dtype
        self._bound = _Bound(self._comm, shape, dtypes, slabs.axes)
        self._bound.bind(source, slabs.reader.spec.order, output, slabs.writer.spec.order)


class _Bound:
    """The two arrays of a slab and the mover between them."""

    def __init__(
        self, comm: MPI.Comm, shape: Shape, dtypes: tuple[np.dtype, np.dtype], axes: Shape
    ):
        self.comm, self.shape, self.axes = comm, shape, axes
        stored, written = dtypes
        self._swaps = stored != written and not stored.isnative
        if stored == written:  # any elements, as they are
            self.dtypes = (np.dtype((np.void, stored.itemsize)),) * 2
        else:  # numbers, which the mover converts
            self.dtypes = stored.newbyteorder("="), written
        self.mover = self.source = self.output = None

    def bind(self, source: Any, source_order: str, output: Any, output_order: str) -> None:
        """Collective. Layouts are given as (regions, owners)."""
        import datamover as dm

        nprocs = self.comm.size
        layouts = [dm.FloorPlan(regions, owners, nprocs) for regions, owners in (source, output)]
        self.source = dm.XArray(self.comm, layouts[0], dtype=self.dtypes[0], order=source_order)
        self.output = dm.XArray(self.comm, layouts[1], dtype=self.dtypes[1], order=output_order)
        plan = dm.redistribute(*layouts, axes=self.axes)
        self.mover = dm.Mover(plan, self.source, self.output)

    def make_native(self, piece: np.ndarray) -> None:
        """Bring what was read into the byte order in which the mover converts."""
        if self._swaps:
            piece.byteswap(inplace=True)

    def free(self) -> None:
        """Give the memory back. Local."""
        for held in (self.mover, self.source, self.output):
            if held is not None:
                with contextlib.suppress(InvalidState):  # of a move that failed
                    held.free()
