# SPDX-License-Identifier: BSD-3-Clause
"""How does an array go from one file to another, whoever moves it?

A process alone moves it chunk by chunk, with a thread per core (`pipeline`). Several move it slab
by slab: each process reads its part of a slab, a mover redistributes the slab from the parts as
they are read to the parts as they are written, each process writes its part. The output is written
under a hidden name beside its own and gets its name when it is complete.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import InvalidArgument, Unsupported
from datamover.files import dealing, formats, hierarchy, placing
from datamover.files.agreement import together
from datamover.files.at_work import cores
from datamover.files.checksums import Checksums
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.chunk_sides import Sink, Source, file_axes, plan_between
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape, Writer
from datamover.files.pipeline import Pipeline
from datamover.files.region import limited
from datamover.mpi import comm_address, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_DIMS = 8
PHASES = ("set_up", "read", "redistribute", "write", "sync")
#: Progress is told after pieces of about this many bytes.
PIECE_BYTES = 64 << 20

#: Called on every process with the bytes that it has read or written since the last call.
Progress = Callable[[int], None]

log = logging.getLogger("datamover")


@dataclasses.dataclass(frozen=True)
class MoveReport:
    """What a move did. Times in seconds, each that of the slowest process.

    Attributes
    ----------
    spec : ArraySpec
        Shape, dtype and order of the output.
    bytes : int
        Of the array; each was read, redistributed and written once.
    processes, threads, slabs : int
        Threads of each process; slabs (or passes over the input) that the array went by in.
    reads, read_bytes : int
        Chunks or pieces of the input that were read, and their bytes when decoded; more than there
        are where memory was too little to read each once. 0 where several processes moved.
    seconds : float
        From the opened input to the output under its name.
    set_up_seconds, read_seconds, redistribute_seconds, write_seconds, sync_seconds : float
        Set-up is the reservation of disk space, memory, and the making of the mover. Reading,
        copying and writing by threads overlap: of these, the mean of all threads.
    """

    spec: ArraySpec
    bytes: int
    processes: int
    slabs: int
    seconds: float
    set_up_seconds: float
    read_seconds: float
    redistribute_seconds: float
    write_seconds: float
    sync_seconds: float
    threads: int = 1
    reads: int = 0
    read_bytes: int = 0


def move(
    comm: MPI.Comm | None,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: MoveOptions | None = None,
    progress: Callable[[int], Progress] | None = None,
    **said: Any,
) -> MoveReport:
    """Move an array from one file to another, in parallel.

    Collective over `comm`; without one (None) by this process alone, which then needs no MPI and
    uses a thread per core. The output appears under its name when it is complete, on the disk, and
    not before; on any error there is none, and an older one stays as it was.

    Parameters
    ----------
    comm : MPI.Comm or None
    source, output : path
        .npy, raw or Zarr; seen under the same path by all processes.
    options : MoveOptions, optional
    progress : callable, optional
        Called once with the bytes that this process will read and write; what it returns is called
        with the bytes of each piece.
    **said
        Fields of `MoveOptions`, in place of `options`.

    Returns
    -------
    MoveReport
        The same on all processes.

    Raises
    ------
    IoError
        Input missing, truncated or foreign; output there already, disk full, directory missing or
        not writable.
    InvalidArgument
        Options that do not fit the array, or input and output the same.
    Unsupported
        Elements without a fixed size, or of a dtype that the output's format has not.
    NoMemory
        `max_bytes` is too little for the chunks.

    All of them on all processes.

    Examples
    --------
    >>> import datamover as dm, numpy as np, tempfile
    >>> from datamover.files import move
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.save(d + "/a.npy", np.arange(12.0).reshape(3, 4))
    ...     report = move(None, d + "/a.npy", d + "/b.npy", axes=(1, 0))
    ...     np.load(d + "/b.npy").shape, report.bytes
    ((4, 3), 96)
    """
    from datamover.launch import check_launch

    if comm is not None:
        check_launch(comm)
    options = options or MoveOptions(**said)
    source, output, options = _places(source, output, options)
    if _is_hierarchy(source, output, options):
        return hierarchy.move(comm, source, output, options, progress)
    address = None if comm is None else comm_address(comm)
    token = placing.token(address)
    job = _Job(comm, source, output, options, placing.temporary_path(output, token))
    try:
        job.open_input()
        begin = time.perf_counter()
        times = job.run(progress)
        seconds = time.perf_counter() - begin
    finally:
        job.close()
    slowest = _slowest(address, [*times, seconds])
    by_phase = {f"{n}_seconds": float(t) for n, t in zip(PHASES, slowest, strict=False)}
    plan = job.chunk_plan
    of_plan = (
        {}
        if plan is None
        else {"threads": plan.threads, "reads": plan.reads, "read_bytes": plan.read_bytes}
    )
    return MoveReport(
        spec=job.spec,
        bytes=job.spec.nbytes,
        processes=1 if comm is None else comm.size,
        slabs=job.slab_count,
        seconds=float(slowest[-1]),
        **by_phase,
        **of_plan,
    )


@dataclasses.dataclass(frozen=True)
class Intention:
    """What a move by one process would do; see `intend`.

    Attributes
    ----------
    spec : ArraySpec
        Of the output.
    plan : ChunkPlan or None
        None where there is nothing to plan: no element, or one.
    files : int
        That the output would consist of, at most: chunks that hold the fill value have none.
    """

    spec: ArraySpec
    plan: ChunkPlan | None
    files: int

    def figures(self) -> dict[str, Any]:
        """Give everything but the output's description, as plain numbers and lists."""
        plan = self.plan
        if plan is None:
            return {"files": self.files}
        names = (
            "passes threads source_chunks chunks reads read_bytes written_bytes memory_bytes "
            "open_groups group_bytes scratch_bytes"
        )
        return {
            "files": self.files,
            **{name: int(getattr(plan, name)) for name in names.split()},
            "source_chunk": list(plan.source.chunk),
            "chunk": list(plan.output.chunk),
            "group": list(plan.group),
            "box": list(plan.box),
            "sweep": list(plan.order),
        }


def intend(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: MoveOptions | None = None,
    **said: Any,
) -> Intention:
    """Say what `move(None, ...)` would do, and write nothing.

    Parameters and errors are those of `move`. Local; looks at the input's metadata.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from datamover.files import intend
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.save(d + "/a.npy", np.zeros((64, 64)))
    ...     found = intend(d + "/a.npy", d + "/b.zarr", chunks=(16, 16))
    ...     found.plan.passes, found.plan.chunks, found.files
    (1, 16, 17)
    """
    options = options or MoveOptions(**said)
    source, output, options = _places(source, output, options)
    job = _Job(None, source, output, options, "")
    try:
        job.open_input()
        with together(None):
            job.check_places()
            return job.intention()
    finally:
        job.close()


@dataclasses.dataclass(frozen=True)
class SlabParts:
    """Who would read and write what of the first slab; see `slab_parts`."""

    spec: ArraySpec
    chunks: Shape
    axes: Shape
    slab: Shape
    parts: list[tuple[np.ndarray, np.ndarray]]  # (regions, owners) of input and output


def slab_parts(
    source: str | os.PathLike[str],
    options: MoveOptions,
    nprocs: int,
    preview: Callable[[ArraySpec, MoveOptions], Writer],
) -> SlabParts:
    """Say how so many processes would deal an array, for an output that `preview` gives. Local."""
    source, _, options = _places(source, "-", options)
    job = _Job(None, source, "", options, "")
    job.nprocs = nprocs
    try:
        job.open_input()
        with together(None):
            if not job.spec.shape or job.spec.nbytes == 0:
                raise InvalidArgument(f"{source} has no element, or one: there is nothing to plan")
            job.writer = preview(job.spec, options)
            slab = job.choose_slab()
            return SlabParts(job.spec, job.writer.granule, job.axes, slab, job.deal(slab))
    finally:
        job.close()


def _places(
    source: str | os.PathLike[str], output: str | os.PathLike[str], options: MoveOptions
) -> tuple[str, str, MoveOptions]:
    """Give the real paths, and options with the datasets that were named behind them."""
    source, member = formats.split_member(source)
    output, output_member = formats.split_member(output)
    options = dataclasses.replace(
        options,
        member=member or options.member,
        output_member=output_member or options.output_member,
    )
    return formats.local_path(source), formats.local_path(output), options


def _is_hierarchy(source: str, output: str, options: MoveOptions) -> bool:
    """Tell whether a whole HDF5 file goes to Zarr."""
    if options.member is not None or options.input_format not in (None, "hdf5"):
        return False
    to_zarr = options.output_format in (None, "zarr") and (
        options.output_format == "zarr" or formats.by_suffix(output) is formats.named("zarr")
    )
    return to_zarr and formats.named("hdf5").recognizes(source)


def _slowest(address: int | None, seconds: list[float]) -> np.ndarray:
    if address is None:
        return np.array(seconds)
    nanoseconds = gathered(address, np.rint(np.multiply(seconds, 1e9)).astype(np.int64))
    return np.max(nanoseconds, axis=0) / 1e9


class _Job:
    """One move on one process."""

    def __init__(self, comm, source: str, output: str, options: MoveOptions, temporary: str):
        self.comm = comm
        self.source, self.output, self.temporary = source, output, temporary
        self.options = options
        self.by_chunk = comm is None
        self.nprocs = 1 if comm is None else comm.size
        self.is_first = comm is None or comm.rank == 0
        self.slab_count = 0
        self.chunk_plan: ChunkPlan | None = None
        self.reader: Reader | None = None
        self.writer: Writer | None = None
        self.bound: _Bound | None = None
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.removes = False  # whether this process removes what is left at the end
        self.sums: Checksums | None = None
        self.lock: int | None = None  # tells other moves that this one is at work

    def open_input(self) -> None:
        """Look at the input, and settle what the output will be. Collective."""
        with together(self.comm):
            self._open_input()

    def run(self, progress: Callable[[int], Progress] | None) -> list[float]:
        """Make the complete output. Collective."""
        overwrite = self.options.overwrite or self.options.overwrite_group
        functions = self.format.functions(self.by_chunk)
        with together(self.comm), self._timed("set_up"):
            if self.is_first:
                self.check_places()
                self.chunk_plan = self._plan_chunks() if self.by_chunk else None
                for left in placing.remove_leftovers(self.output):
                    log.warning("removed %s, left by a move that was killed", left)
                self.removes = True
                self.lock = placing.claim(self.temporary, self.format.is_directory)
                functions.create(self.temporary, self.spec, self.options)
        with together(self.comm):
            if self.lock is None:
                self.lock = placing.hold(self.temporary)
            self.writer = functions.open_writer(self.temporary, self.spec, self.options)
            slab = None if self.by_chunk else self.choose_slab()
        if self.by_chunk:
            self._move_chunks(progress)
        else:
            self._move_slabs(slab, progress)
        with together(self.comm), self._timed("sync"):
            if self.writer is not None:
                self.writer.sync()
                self.writer.close()
        if self.sums is not None:
            with together(self.comm):
                self._verify(functions)
        with together(self.comm):
            if self.is_first:
                placing.place(self.temporary, self.output, overwrite)
        return list(self.seconds.values())

    def _verify(self, functions: Any) -> None:
        """Read what this process wrote, and compare."""
        options = MoveOptions(
            shape=self.spec.shape, dtype=self.spec.dtype.str, order=self.spec.order,
            member=self.options.output_member or self.options.member,
        )  # fmt: skip
        if self.spec.dtype.names:
            options = dataclasses.replace(options, dtype=self.spec.dtype)
        reader = self.format.functions(self.by_chunk).open_reader(self.temporary, options)
        try:
            self.sums.verify(reader, self.output, cores() if self.by_chunk else 1)
        finally:
            reader.close()

    def close(self) -> None:
        """Give everything back; remove the old output, or a new one that is not complete."""
        if self.bound is not None:
            self.bound.free()
        for file in (self.reader, self.writer):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        if self.removes:
            try:
                placing.clean_up(self.temporary, self.output)
            except OSError as e:
                log.warning("%s could not be removed: %s", self.temporary, e)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - begin

    def _open_input(self) -> None:
        options = self.options
        input_format = formats.of_input(self.source, options)
        self.format = formats.of_output(self.output, options)
        options = self.options = formats.with_converted(options, input_format)
        formats.check_options(options, input_format, self.format)
        self.reader = input_format.functions(self.by_chunk).open_reader(self.source, options)
        if options.region is not None:
            self.reader = limited(self.reader, options.region)
        given = self.reader.spec
        dims = len(given.shape)
        if dims > MAX_DIMS:
            raise Unsupported(f"{self.source} has {dims} dimensions; up to {MAX_DIMS} can be moved")
        self.axes = tuple(range(dims)) if options.axes is None else tuple(options.axes)
        if sorted(self.axes) != list(range(dims)):
            raise InvalidArgument(f"axes {self.axes} are no permutation of 0 .. {dims - 1}")
        if options.max_bytes < 1:
            raise InvalidArgument(f"max_bytes is {options.max_bytes}; it must be positive")
        shape = tuple(given.shape[a] for a in self.axes)
        kept = given.kept and given.kept.permuted(self.axes)
        dtype = _converted(given.dtype, options.output_dtype)
        if dtype != given.dtype and kept:
            kept = kept.converted(dtype)
        wanted = ArraySpec(shape, dtype, options.output_order or given.order, kept)
        self.spec = self.format.functions(self.by_chunk).check_output(wanted, options)
        if options.check is not None:
            self.sums = Checksums(options.check, self.spec.dtype)

    def check_places(self) -> None:
        """Check that the output can be put where it shall be."""
        overwrite_group = self.options.overwrite_group
        overwrite = self.options.overwrite or overwrite_group
        member = self.options.output_member or self.options.member
        placing.check_places(self.source, self.output, overwrite, overwrite_group, member)

    def intention(self) -> Intention:
        """Say what would be done, without an output."""
        plan = self._plan_chunks()
        chunks = plan.chunks if plan else int(self.spec.nbytes > 0)
        return Intention(self.spec, plan, chunks + 1 if self.format.is_directory else 1)

    def _plan_chunks(self) -> ChunkPlan | None:
        """Plan a move by this process alone; None where there is nothing to plan."""
        if not self.spec.shape or self.spec.nbytes == 0:
            return None
        by_chunk = self.format.by_chunk
        preview = by_chunk.preview(self.spec, self.options) if by_chunk else None
        sink = Sink(preview, self.spec)
        return plan_between(self._source(), sink, self.options.max_bytes, cores())

    def _source(self) -> Source:
        return Source(self.reader, file_axes(self.axes, self.spec.order), self.spec.dtype)

    def _move_chunks(self, progress: Callable[[int], Progress] | None) -> None:
        if not self.spec.shape:
            self._move_single_element()
            return
        plan = self.chunk_plan
        if plan is None:
            return
        self.slab_count = plan.passes
        tell = progress(2 * self.spec.nbytes) if progress else lambda nbytes: None
        sink = Sink(self.writer, self.spec, self.sums)
        pipeline = Pipeline(plan, self._source(), sink, self.options.max_bytes, tell)
        with together(None):
            pipeline.run()
        busy = dataclasses.astuple(pipeline.busy)
        for phase, seconds in zip(("read", "redistribute", "write"), busy, strict=True):
            self.seconds[phase] += seconds / plan.threads

    def _to_source(self, of_output: Shape) -> Shape:
        """Reorder what stands per output dimension into the order of the input's dimensions."""
        ordered = [0] * len(self.axes)
        for k, axis in enumerate(self.axes):
            ordered[axis] = of_output[k]
        return tuple(ordered)

    def _to_output(self, of_source: Shape) -> Shape:
        return tuple(of_source[a] for a in self.axes)

    def choose_slab(self) -> Shape:
        """Slabs of whole output boxes; where memory allows also of whole input boxes."""
        nprocs = self.nprocs
        itemsize = max(self.spec.dtype.itemsize, self.reader.spec.dtype.itemsize)
        if not self.spec.shape or self.spec.nbytes == 0:
            return self.spec.shape

        def share(slab: Shape) -> int:
            of_source = self._to_source(slab)
            return dealing.share_elems(
                slab, self.writer.unit(slab, nprocs), nprocs
            ) + dealing.share_elems(of_source, self.reader.unit(of_source, nprocs), nprocs)

        coarse = tuple(
            math.lcm(w, r)
            for w, r in zip(self.writer.granule, self._to_output(self.reader.granule), strict=True)
        )
        max_elems = self.options.max_bytes // itemsize
        arguments = (self.spec.order, max_elems, share)
        try:
            return dealing.slab_shape(self.spec.shape, coarse, *arguments)
        except MemoryError:
            return dealing.slab_shape(self.spec.shape, self.writer.granule, *arguments)

    def _move_slabs(self, slab: Shape, progress: Callable[[int], Progress] | None) -> None:
        if not self.spec.shape:
            self._move_single_element()
            return
        if self.spec.nbytes == 0:
            return
        tell = progress(self._bytes_here(slab)) if progress else lambda nbytes: None
        for lo, hi in dealing.slabs(self.spec.shape, slab):
            self.slab_count += 1
            with self._timed("set_up"):
                self._bind(tuple(h - low for low, h in zip(lo, hi, strict=True)))
            with together(self.comm), self._timed("read"):
                for offset, part in self.bound.source_parts():
                    first = tuple(map(sum, zip(self._to_source(lo), offset, strict=True)))
                    for at, piece in _pieces(first, part, self.reader):
                        self.reader.read(at, piece)
                        self.bound.make_native(piece)
                        tell(piece.size * self.spec.dtype.itemsize)
            with self._timed("redistribute"):
                self.bound.mover()
            with together(self.comm), self._timed("write"):
                for offset, part in self.bound.output_parts():
                    first = tuple(map(sum, zip(lo, offset, strict=True)))
                    for at, piece in _pieces(first, part, self.writer):
                        self.writer.write(at, piece)
                        if self.sums is not None:
                            self.sums.add(at, piece)
                        tell(piece.nbytes)

    def _bytes_here(self, slab: Shape) -> int:
        """Count what this process will read and write, of all slabs."""
        itemsize = self.spec.dtype.itemsize
        shapes = collections.Counter(
            tuple(b - a for a, b in zip(lo, hi, strict=True))
            for lo, hi in dealing.slabs(self.spec.shape, slab)
        )
        elems = 0
        for shape, times in shapes.items():
            for regions, owners in self.deal(shape):
                extents = (regions[:, 1] - regions[:, 0])[owners == self.comm.rank]
                elems += times * int(np.prod(extents, axis=1).sum())
        return elems * itemsize

    def deal(self, shape: Shape) -> list[tuple[np.ndarray, np.ndarray]]:
        """Say who reads and who writes what of a slab: (regions, owners) of input and output."""
        sides = ((self._to_source(shape), self.reader), (shape, self.writer))
        nprocs = self.nprocs
        return [
            dealing.deal(extents, file.unit(extents, nprocs), file.spec.order, nprocs)
            for extents, file in sides
        ]

    def _move_single_element(self) -> None:
        with together(self.comm):
            if self.is_first:
                element = np.empty((), self.reader.spec.dtype)
                self.reader.read((), element)
                element = element.astype(self.spec.dtype)
                self.writer.write((), element)
                if self.sums is not None:
                    self.sums.add((), element)

    def _bind(self, shape: Shape) -> None:
        """Make arrays and mover for a slab's shape, unless the last slab had the same one."""
        if self.bound is not None and self.bound.shape == shape:
            return
        if self.bound is not None:
            self.bound.free()
            self.bound = None
        source, output = self.deal(shape)
        orders = self.reader.spec.order, self.writer.spec.order
        dtypes = self.reader.spec.dtype, self.spec.dtype
        self.bound = _Bound(self.comm, shape, dtypes, self.axes)
        self.bound.bind(source, orders[0], output, orders[1])


def _converted(given: np.dtype, wanted: str | None) -> np.dtype:
    """Give the dtype that was said, if NumPy converts to it under "same_kind"."""
    if wanted is None:
        return given
    try:
        dtype = np.dtype(wanted)
    except Exception as e:  # NumPy has many words for what it does not know
        raise InvalidArgument(f"{wanted!r} is no NumPy dtype: {e}") from e
    numbers = given.kind in "biufc" and dtype.kind in "biufc" and dtype.isnative
    if dtype != given and not (numbers and np.can_cast(given, dtype, "same_kind")):
        raise InvalidArgument(
            f"elements of {given} are not converted to {dtype}: NumPy does not do so under "
            '"same_kind", or they are no numbers'
        )
    return dtype


class _Bound:
    """The two arrays of a slab and the mover between them."""

    def __init__(self, comm, shape: Shape, dtypes: tuple[np.dtype, np.dtype], axes: Shape):
        self.comm, self.shape, self.axes = comm, shape, axes
        stored, written = dtypes
        self._swaps = stored != written and not stored.isnative
        if stored == written:  # any elements, as they are
            self.dtypes = (np.dtype((np.void, stored.itemsize)),) * 2
        else:  # numbers, which the mover converts
            self.dtypes = stored.newbyteorder("="), written
        self.mover = self.source = self.output = None

    def bind(self, source, source_order: str, output, output_order: str) -> None:
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

    def source_parts(self) -> Iterator[tuple[Shape, np.ndarray]]:
        """Give the blocks that this process reads: (index of the first element, array)."""
        return self._parts(self.source)

    def output_parts(self) -> Iterator[tuple[Shape, np.ndarray]]:
        """Give the blocks that this process writes."""
        return self._parts(self.output)

    @staticmethod
    def _parts(array) -> Iterator[tuple[Shape, np.ndarray]]:
        for block, part in array.grids():
            yield tuple(array.layout.region(block).lo), part

    def free(self) -> None:
        """Give the memory back. Local."""
        for held in (self.mover, self.source, self.output):
            if held is not None:
                held.free()


def _pieces(
    lo: Shape, part: np.ndarray, file: Reader | Writer
) -> Iterator[tuple[Shape, np.ndarray]]:
    """Cut a part into pieces of about PIECE_BYTES, of whole boxes, along its slowest dimension."""
    order = range(part.ndim) if file.spec.order == "C" else reversed(range(part.ndim))
    d = next((d for d in order if part.shape[d] > file.granule[d]), None)
    if d is None or part.nbytes <= PIECE_BYTES:
        yield lo, part
        return
    boxes = -(-part.shape[d] // file.granule[d])
    step = max(1, boxes * PIECE_BYTES // part.nbytes) * file.granule[d]
    # Pieces end where the file's boxes end, also when the part begins within one.
    begin = 0
    while begin < part.shape[d]:
        end = min(
            (lo[d] + begin) // file.granule[d] * file.granule[d] + step - lo[d], part.shape[d]
        )
        piece = part[(slice(None),) * d + (slice(begin, end),)]
        yield (*lo[:d], lo[d] + begin, *lo[d + 1 :]), piece
        begin = end
