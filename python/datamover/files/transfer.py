# SPDX-License-Identifier: BSD-3-Clause
"""How does an array go from one file to another, whoever moves it?

Chunk by chunk (`chunk_plan`, `pipeline`), by a process alone with a thread per core, or by several
that share the passes of one plan, each by itself with its share of the cores. Where source chunks
would then be read by many processes, and that costs more, several move it slab by slab (`slabs`):
each part is read once and a mover brings it to where it is written. The output is written under a
hidden name beside its own and gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.collective_calls import agreeing, refused_by
from datamover.errors import InvalidArgument, NoMemory, Unsupported
from datamover.files import (
    address_place,
    addresses,
    formats,
    hierarchy,
    move_words,
    names,
    placing,
    write_back,
    writers,
    zarr_format_2,
)
from datamover.files.agreement import Alarm, threads_here, together
from datamover.files.at_work import cores, share_of_cores
from datamover.files.checksums import Checksums
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.chunk_sides import Sink, Source, file_axes, plan_between, refuse_endless
from datamover.files.flat import FlatBoxes
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape, Writer
from datamover.files.handover import Described, Handover, needs_handover
from datamover.files.pipeline import GivenUp, Pipeline
from datamover.files.region import limited
from datamover.files.slabs import SlabMove, Slabs
from datamover.mpi import collectively, comm_address, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_DIMS = 8
PHASES = ("set_up", "read", "redistribute", "write", "sync", "check")

#: Called on every process with the bytes that it has read or written since the last call.
Progress = Callable[[int], None]

log = logging.getLogger("datamover")


@dataclasses.dataclass(frozen=True)
class MoveReport:
    """What a move did; prints as a summary. Times in seconds, each that of the slowest process.

    Attributes
    ----------
    spec : ArraySpec
        Shape, dtype and order of the output; of several arrays, of the largest.
    bytes : int
        Of the array, or of all arrays; each was read, redistributed and written once.
    processes, threads, slabs : int
        Threads of each process; slabs (or passes over the input) that the array went by in.
    reads, read_bytes : int
        Chunks or pieces of the input that were read, and their bytes when decoded; more than there
        are where memory was too little to read each once, or several processes need the same. 0
        where the array went by in slabs.
    seconds : float
        From the opened input to the output under its name.
    set_up_seconds, read_seconds, redistribute_seconds, write_seconds, sync_seconds : float
        Set-up is the reservation of disk space, memory, and the making of the mover. Reading,
        copying and writing by threads overlap: of these, the mean of all threads.
    check : str or None
        The checksums by which the output was read again and compared; None: it was not.
    check_seconds : float
    num_arrays, elems : int
        How many arrays were moved, and their elements together.
    source, output : str
        The files, with the dataset of HDF5 behind them.
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
    check: str | None = None
    check_seconds: float = 0.0
    num_arrays: int = 1
    elems: int = 1
    source: str = ""
    output: str = ""

    def __repr__(self) -> str:
        way = f"{self.source} to {self.output}"
        return f"{way}  {move_words.moved_words(self)}\n{move_words.time_words(self)}"


@refused_by(agreeing)
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
        .npy, raw, Zarr or HDF5, seen under the same path by all processes; or the address of a Zarr
        array or group, such as ``s3://bucket/name.zarr``. There an output gets its metadata when it
        is complete; one that is replaced is removed first. An input may be an .npy or HDF5 file at
        an address too. A whole HDF5 file or Zarr group goes to Zarr, or to HDF5 at a path.
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

    def settle() -> tuple[str, str, MoveOptions]:
        return _places(source, output, options or formats.options_of(said))

    if comm is None:
        return move_between(None, *settle(), progress)
    return move_between(comm, *_settled(comm, settle), progress)


def move_between(
    comm: MPI.Comm | None,
    source: str,
    output: str,
    options: MoveOptions,
    progress: Callable[[int], Progress] | None,
) -> MoveReport:
    """Move between places, with options that were looked at. Collective."""
    with together(comm):
        way = hierarchy.way(source, output, options)
        if way is None:
            options = _with_defaults(source, output, options)
    if way is not None:
        return hierarchy.move(comm, way, output, options, progress)
    return move_array(comm, source, output, options, progress)


def move_array(
    comm: MPI.Comm | None,
    source: str,
    output: str,
    options: MoveOptions,
    progress: Callable[[int], Progress] | None,
    place: Any = None,
) -> MoveReport:
    """Move one array; `place` is where it goes, if that is there already. Collective."""
    address = None if comm is None else comm_address(comm)
    job = _Job(
        comm, source, output, options, place or output_place(source, output, options, address)
    )
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
        check=job.options.check,
        elems=math.prod(job.spec.shape),
        seconds=float(slowest[-1]),
        source=_with_member(source, options.member),
        output=_with_member(output, options.output_member),
        **by_phase,
        **of_plan,
    )


def _with_defaults(source: str, output: str, options: MoveOptions) -> MoveOptions:
    """Give options with what one array's output takes from its surroundings. Local.

    That is the format of a Zarr output, of the group it goes into, and the name of a dataset of
    HDF5, that of the input.
    """
    output_format = formats.of_output(output, options).name
    if output_format == "zarr":
        return zarr_format_2.settled(output, options)
    if output_format == "hdf5" and options.output_member is None and options.member is None:
        name = os.path.splitext(os.path.basename(source.rstrip("/")))[0]
        return dataclasses.replace(options, output_member=name)
    return options


def _with_member(path: str, member: str | None) -> str:
    return path if member is None else f"{path}:/{member.lstrip('/')}"


def _settled(comm: MPI.Comm, settle: Callable[[], Any]) -> tuple[str, str, MoveOptions]:
    """Give what is to be done, the same on all processes. Collective."""
    from datamover.files.state_items import agree_on  # loads arrays, and layouts

    address = comm_address(comm)

    def checked() -> tuple[str, str, MoveOptions]:
        found = settle()
        for name in found[:2]:
            if comm.size > 1 and addresses.scheme_of(name) == "memory":
                raise InvalidArgument(f"{name}: each of {comm.size} processes has its own memory")
        return found

    source, output, options = collectively(address, checked)
    agree_on(address, dataclasses.asdict(options), "give")
    return source, output, options


@dataclasses.dataclass(frozen=True)
class Intention:
    """What a move would do; see `intend`. Prints as a summary.

    Attributes
    ----------
    spec : ArraySpec
        Of the output.
    plan : ChunkPlan or None
        None where there is nothing to plan: no element, or one; and where it goes by in slabs.
    files : int
        That the output would consist of, at most: chunks that hold the fill value have none.
    nprocs : int
    slab : tuple of int or None
        Extents of the slabs that it goes by in, where that costs less.
    slab_figures : dict or None
        Of these: `passes`, `read_bytes`, `written_bytes`, and `memory_bytes` of each process.
    members : dict or None
        Of a whole file or group: the same of each array, by name; `spec` is that of the largest.
    is_copied : bool
        Whether one process copies it, as no mover takes it.
    """

    spec: ArraySpec
    plan: ChunkPlan | None
    files: int
    nprocs: int = 1
    slab: Shape | None = None
    slab_figures: dict[str, int] | None = None
    members: dict[str, Intention] | None = None
    is_copied: bool = False

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}{move_words.array_words(one.spec)}\n{move_words.intention_words(one)}"
            for name, one in self._named()
        )

    def _named(self) -> Iterator[tuple[str, Intention]]:
        """Give what is intended with each array, by how it begins to print."""
        if self.members is None:
            yield "", self
            return
        for name, one in self.members.items():
            yield f"{name}  ", one

    def figures(self) -> dict[str, Any]:
        """Give everything but the output's description, as plain numbers and lists."""
        if self.members is not None:
            described = {name: one.figures() for name, one in self.members.items()}
            moved = (one.spec.nbytes for one in self.members.values() if not one.is_copied)
            figures = {"bytes": sum(moved), "files": self.files, "processes": self.nprocs}
            return figures | {"arrays": described}
        plan = self.plan
        if plan is None:
            slab = {} if self.slab is None else {"slab": list(self.slab), **self.slab_figures}
            return {"files": self.files, "processes": self.nprocs, **slab}
        names = (
            "passes processes threads source_chunks chunks reads read_bytes written_bytes "
            "memory_bytes open_groups group_bytes scratch_bytes"
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
    nprocs: int = 1,
    **said: Any,
) -> Intention:
    """Say what `move` by `nprocs` processes of this machine would do, and write nothing.

    Other parameters and errors are those of `move`. Local; looks at the input's metadata.

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
    options = options or formats.options_of(said)
    source, output, options = _places(source, output, options)
    if not isinstance(nprocs, int) or nprocs < 1:
        raise InvalidArgument(f"nprocs is {nprocs!r}; it must be a positive integer")
    with together(None):
        way = hierarchy.way(source, output, options)
        if way is None:
            options = _with_defaults(source, output, options)
    if way is None:
        return _intend(source, output, options, nprocs, checks_places=True)
    members, files = hierarchy.intend(
        way, output, options, lambda *of_one: _intend(*of_one, nprocs, checks_places=False)
    )
    largest = max((one.spec for one in members.values()), key=lambda spec: spec.nbytes)
    return Intention(largest, None, files, nprocs, members=members)


def described(source: str, output: str, options: MoveOptions) -> tuple[ArraySpec, MoveOptions]:
    """Say what an array will be in the output, and the options that hold for it. Local.

    Raises what a move of it would refuse.
    """
    job = _Job(None, source, output, options, output_place(source, output, options, None))
    try:
        job.open_input()
        return job.spec, job.options
    finally:
        job.close()


def intend_to_zarr(source: str | os.PathLike[str], options: MoveOptions, nprocs: int) -> Intention:
    """Say what a move of one array to a Zarr array, wherever that is, would do. Local."""
    source, _, options = _places(source, "-", options)
    return _intend(source, "", options, nprocs, checks_places=False)


def _intend(
    source: str, output: str, options: MoveOptions, nprocs: int, checks_places: bool
) -> Intention:
    """Say what a move of one array would do."""
    job = _Job(None, source, output, options, output_place(source, output, options, None))
    job.nprocs = nprocs
    try:
        job.open_input()
        with together(None):
            if checks_places:
                job.place.check()
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
    """Say how so many processes would move slabs, to an output that `preview` gives. Local."""
    source, _, options = _places(source, "-", options)
    job = _Job(None, source, "", options, output_place(source, "", options, None))
    job.nprocs = nprocs
    try:
        job.open_input()
        with together(None):
            if not job.spec.shape or job.spec.nbytes == 0:
                raise InvalidArgument(f"{source} has no element, or one: there is nothing to plan")
            writer = preview(job.spec, options)
            slabs = Slabs(job.reader, writer, job.axes, job.spec, nprocs, options.max_bytes)
            parts = slabs.deal(slabs.shape)
            return SlabParts(job.spec, writer.granule, job.axes, slabs.shape, parts)
    finally:
        job.close()


def _places(
    source: str | os.PathLike[str], output: str | os.PathLike[str], options: MoveOptions
) -> tuple[str, str, MoveOptions]:
    """Give the real paths, and options with the datasets that were named behind them, checked."""
    source, member = names.split_member(source)
    output, output_member = names.split_member(output)
    options = dataclasses.replace(
        formats.verified(options),
        member=member or options.member,
        output_member=output_member or options.output_member,
    )
    return names.place_of(source), names.output_place(output), options


def _slowest(address: int | None, seconds: list[float]) -> np.ndarray:
    if address is None:
        return np.array(seconds)
    nanoseconds = gathered(address, np.rint(np.multiply(seconds, 1e9)).astype(np.int64))
    return np.max(nanoseconds, axis=0) / 1e9


def output_place(source: str, output: str, options: MoveOptions, address: int | None) -> Any:
    """Give what puts the output where it shall be. Collective; `address` as of `placing.token`."""
    token = placing.token(address)
    overwrite_group = options.overwrite_group
    overwrite = options.overwrite or overwrite_group
    if addresses.is_address(output):
        by = writers.described(address)
        return address_place.AddressPlace(source, output, token, overwrite, overwrite_group, by)
    member = options.output_member or options.member
    return placing.LocalPlace(source, output, token, overwrite, overwrite_group, member)


class _Job:
    """One move on one process."""

    def __init__(self, comm, source: str, output: str, options: MoveOptions, place: Any):
        self.comm = comm
        self.source, self.output = source, output
        self.options = options
        self.place = place
        self.nprocs = 1 if comm is None else comm.size
        self.is_first = comm is None or comm.rank == 0
        self.slab_count = 0
        self.chunk_plan: ChunkPlan | None = None
        self.slabs: Slabs | None = None
        self.threads = 1
        self.reader: Reader | None = None
        self.writer: Writer | None = None
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.sums: Checksums | None = None

    def open_input(self) -> None:
        """Look at the input, and settle what the output will be. Collective."""
        with together(self.comm):
            self._open_input()

    def run(self, progress: Callable[[int], Progress] | None) -> list[float]:
        """Make the complete output. Collective."""
        functions = self.format.functions(by_chunk=True)
        self.threads = self._threads()
        with together(self.comm), self._timed("set_up"):
            is_made = getattr(self.place, "is_made", False)
            if self.is_first and not is_made:
                self.place.check()
            self._plan()
            if self.is_first and not is_made:
                self.place.claim(self.format.is_directory, {"": len(self.spec.shape)})
                functions.create(self.place.path, self.spec, self.options)
        self._agree_on_plan()
        with together(self.comm):
            self.place.hold()
            self.writer = self._open_writer(functions)
        if needs_handover(self.writer, self.nprocs):
            self.writer = Handover(self.comm, self.writer)
        if not self.spec.shape:
            self._move_single_element()
        elif self.chunk_plan is not None:
            self._move_chunks(progress)
        elif self.slabs is not None:
            self._move_slabs(progress)
        with together(self.comm), self._timed("sync"):
            self.reader.check_unchanged()
            if self.writer is not None:
                self.writer.sync()
                self.writer.close()
        if self.sums is not None:
            with together(self.comm), self._timed("check"):
                self._verify(functions)
        with together(self.comm):
            if self.is_first:
                self.place.finish(self.writer)
        return list(self.seconds.values())

    def _verify(self, functions: Any) -> None:
        """Read what this process wrote, and compare."""
        options = MoveOptions(
            shape=self.spec.shape, dtype=self.spec.dtype.str, order=self.spec.order,
            member=self.options.output_member or self.options.member,
        )  # fmt: skip
        if self.spec.dtype.names:
            options = dataclasses.replace(options, dtype=self.spec.dtype)
        reader = self.place.reader(functions, options, self.writer)
        try:
            self.sums.verify(reader, self.output, self.threads)
        finally:
            reader.close()

    def close(self) -> None:
        """Give everything back; remove the old output, or a new one that is not complete."""
        for file in (self.reader, self.writer):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        write_back.give_up()
        self.place.give_back()

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
        if self.format.name == "zarr" and options.zarr_format is None:  # where that is, is unknown
            options = self.options = dataclasses.replace(options, zarr_format=3)
        self.reader = input_format.functions(by_chunk=True).open_reader(self.source, options)
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
        self.spec = self.format.functions(by_chunk=True).check_output(wanted, options)
        if options.check is not None:
            self.sums = Checksums(options.check, self.spec.dtype)

    def intention(self) -> Intention:
        """Say what would be done, without an output."""
        self.threads = share_of_cores(self.nprocs)
        self._plan()
        slab, slab_figures = None, None
        if self.slabs is not None:
            slab, slab_figures = self.slabs.shape, self.slabs.figures()
        chunks = int(self.spec.nbytes > 0)
        if self.spec.shape and self.format.is_directory and chunks:
            granule = self._preview().granule
            chunks = formats.num_boxes(self.spec.shape, granule)
        files = 1 + (self.options.writers or 0)
        if self.format.is_directory:
            files = chunks + zarr_format_2.metadata_files(self.options.zarr_format)
        return Intention(self.spec, self.chunk_plan, files, self.nprocs, slab, slab_figures)

    def _threads(self) -> int:
        """Give each process as many threads as the one with the fewest cores has. Collective."""
        if self.comm is None:
            return cores()
        address = comm_address(self.comm)
        return min(int(found[0]) for found in gathered(address, [threads_here(address)]))

    def _open_writer(self, functions: Any) -> Any:
        """Open the output; where one process alone can write it, the others have none."""
        shown = self._shown()
        if not self.is_first and needs_handover(shown, self.nprocs):
            return shown
        return functions.open_writer(self.place.path, self.spec, self.options)

    def _shown(self) -> Any:
        """Give the output as far as it can be told without a file; None: nothing is to be told."""
        by_chunk = self.format.by_chunk
        return by_chunk.preview(self.spec, self.options) if by_chunk else None

    def _preview(self) -> Any:
        """Give what says in which boxes the output will be written; None: in any."""
        shown = self._shown()
        return Described(shown) if needs_handover(shown, self.nprocs) else shown

    def _plan(self) -> None:
        """Choose the way that costs less. Local; nothing where there is nothing to plan."""
        if not self.spec.shape or self.spec.nbytes == 0:
            return
        preview, max_bytes, nprocs = self._preview(), self.options.max_bytes, self.nprocs
        sink = Sink(preview, self.spec)
        source = self._source()
        plan = plan_between(source, sink, max_bytes, self.threads, nprocs)
        if nprocs > 1 and not plan.source.is_flat and plan.reads > plan.source_chunks:
            with contextlib.suppress(NoMemory):
                writer = preview or FlatBoxes(self.spec)
                taken_bytes = writer.chunk_bytes if isinstance(writer, Described) else 0
                limit = max_bytes - taken_bytes
                slabs = Slabs(self.reader, writer, self.axes, self.spec, nprocs, limit)
                if slabs.cost_bytes() < plan.cost_bytes:
                    self.slabs = slabs
                    return
        refuse_endless(plan, source, sink, max_bytes, self.threads)
        self.chunk_plan = plan

    def _agree_on_plan(self) -> None:
        """Refuse where processes see different inputs. Collective."""
        if self.comm is not None:
            from datamover.files.state_items import agree_on  # loads arrays, and layouts

            slab = self.slabs and self.slabs.shape
            said = {"the input": (self.spec.shape, str(self.spec.dtype), self.chunk_plan, slab)}
            agree_on(comm_address(self.comm), said, "see")

    def _source(self) -> Source:
        return Source(self.reader, file_axes(self.axes, self.spec.order), self.spec.dtype)

    def _move_chunks(self, progress: Callable[[int], Progress] | None) -> None:
        """Do this process's passes. Collective."""
        plan = self.chunk_plan
        self.slab_count = plan.passes
        rank = 0 if self.comm is None else self.comm.rank
        elems = sum(
            math.prod(b - a for a, b in zip(lo, hi, strict=True)) for lo, hi in plan.boxes(rank)
        )
        itemsize = self.spec.dtype.itemsize
        tell = progress(2 * elems * itemsize) if progress else lambda nbytes: None
        handover = self.writer if isinstance(self.writer, Handover) else None
        alarm = None if self.comm is None or handover else Alarm(self.comm)
        gives_up = handover.gives_up if handover else alarm and alarm.rings
        sink = Sink(self.writer, self.spec, self.sums)
        pipeline = Pipeline(
            plan, self._source(), sink, self.options.max_bytes, tell, rank, gives_up
        )
        with (
            handover or alarm or contextlib.nullcontext(),
            together(self.comm, handover.alarm if handover else alarm),
            contextlib.suppress(GivenUp),  # for the reason that another process tells
        ):
            if handover:
                handover.run(pipeline.run)
            else:
                pipeline.run()
        busy = dataclasses.astuple(pipeline.busy)
        for phase, seconds in zip(("read", "redistribute", "write"), busy, strict=True):
            self.seconds[phase] += seconds / plan.threads

    def _move_slabs(self, progress: Callable[[int], Progress] | None) -> None:
        """Do this process's part of each slab. Collective."""
        slabs = self.slabs
        slabs.writer = self.writer
        tell = progress(slabs.bytes_of(self.comm.rank)) if progress else lambda nbytes: None
        move = SlabMove(self.comm, slabs, self.sums, self.threads, self._timed, tell)
        with self.writer if isinstance(self.writer, Handover) else contextlib.nullcontext():
            self.slab_count = move.run()

    def _move_single_element(self) -> None:
        with together(self.comm):
            if self.is_first:
                element = np.empty((), self.reader.spec.dtype)
                self.reader.read((), element)
                element = element.astype(self.spec.dtype)
                self.writer.write((), element)
                if self.sums is not None:
                    self.sums.add((), element)


def _converted(given: np.dtype, wanted: str | None) -> np.dtype:
    """Give the dtype that was said, if NumPy converts to it under "same_kind"."""
    if wanted is None:
        return given
    try:
        dtype = np.dtype(wanted)
    except Exception as e:  # NumPy has many words for what it does not know
        raise InvalidArgument(f"{wanted!r} is no NumPy dtype: {e}") from e
    if dtype != given and dtype.kind in "biufc" and not dtype.isnative:
        native = dtype.newbyteorder("=")
        raise InvalidArgument(
            f"elements are converted to numbers in this machine's byte order only: {native.name}, "
            f"not {dtype.str}"
        )
    numbers = given.kind in "biufc" and dtype.kind in "biufc"
    if dtype != given and not (numbers and np.can_cast(given, dtype, "same_kind")):
        raise InvalidArgument(
            f"elements of {given} are not converted to {dtype}: NumPy does not do so under "
            '"same_kind", or they are no numbers'
        )
    return dtype
