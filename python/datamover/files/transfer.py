# SPDX-License-Identifier: BSD-3-Clause
"""Move from one file to another, by one or many processes.

The output is written under a hidden name next to its own and gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from datamover import lifeline
from datamover.arguments import options_of
from datamover.collective_calls import agreeing, refused_by
from datamover.deprecated import comm_by_place
from datamover.errors import IoFailed, WrongType
from datamover.files import (
    format_choice,
    formats,
    hdf5_types,
    move_words,
    placing,
    way_choice,
    whole,
)
from datamover.files.agreement import agree_on, together
from datamover.files.chunk_grid import Sizes, said_sizes
from datamover.files.formats import ArraySpec, Late, MoveOptions
from datamover.files.move_job import PHASES, Job, Progress, prepare, threads_of
from datamover.files.move_job import free_bytes as free_bytes_of
from datamover.files.whole import Way
from datamover.mpi import collectively, comm_address, gathered

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclasses.dataclass(frozen=True)
class MoveReport:
    """Report of a move; prints as a summary. Times in seconds, each that of the slowest process.

    Attributes
    ----------
    spec : ArraySpec
        Shape, dtype and order of the output; for several arrays, those of the largest.
    bytes : int
        Bytes of the array, or of all arrays.
    processes, threads : int
        Number of processes, and of threads of each process.
    passes, steps : int
        Passes over the data, two if there was an intermediate, and boxes of the output that were
        made one after the other.
    reads : int
        Chunks or pieces of the input that were read. There are more than in the input if memory was
        too little to read each once, or several processes need the same.
    read_bytes, written_bytes : int
        Bytes of all passes: read, after decoding, and written, before encoding.
    seconds : float
        From the beginning of the call to the output under its name.
    set_up_seconds, read_seconds, redistribute_seconds, write_seconds, sync_seconds : float
        Set-up is everything before the first element is read: opening and planning, strings that
        are copied, the reservation of disk space, and memory. Reading, copying and writing by
        threads overlap; their times are means over all threads.
    check : str or None
        The checksums by which the output was read again and compared; None if it was not.
    check_seconds : float
    num_arrays, elems : int
        Number of moved arrays, and of their elements together.
    source, output : str
        The files, with the names of HDF5 datasets.
    """

    spec: ArraySpec
    bytes: int
    processes: int
    steps: int
    seconds: float
    set_up_seconds: float
    read_seconds: float
    redistribute_seconds: float
    write_seconds: float
    sync_seconds: float
    threads: int = 1
    passes: int = 1
    reads: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    check: str | None = None
    check_seconds: float = 0.0
    num_arrays: int = 1
    elems: int = 1
    source: str = ""
    output: str = ""

    def __repr__(self) -> str:
        way = f"{self.source} to {self.output}"
        return f"{way}  {move_words.moved_words(self)}\n{move_words.time_words(self)}"


@options_of(MoveOptions)
@comm_by_place(0)
@refused_by(agreeing)
def move(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: MoveOptions | None = None,
    progress: Callable[[int], Progress] | None = None,
    *,
    comm: MPI.Comm | None = None,
    **fields: Any,
) -> MoveReport:
    """Move an array from one file to another, in parallel.

    Collective over `comm`. Without a communicator, this process works alone, without MPI and
    with a thread per core. The output appears under its name once it is complete and on the disk.
    An error leaves no new output, and an older one stays as it was.

    Parameters
    ----------
    source, output : path
        .npy, raw, Zarr or HDF5, under the same path on all processes; or the address of a Zarr
        array or group, such as ``s3://bucket/name.zarr``. There, the metadata of an output are
        written last, and a replaced output is removed first. An input may also be an .npy or HDF5
        file at an address. A whole HDF5 file or Zarr group is moved to Zarr, or to HDF5 at a path.
        With ``along=``, the source is a pattern such as ``"tas_*.nc"``, whose files are joined in
        the order of their names, or a list of files in order.
    options : MoveOptions, optional
    progress : callable, optional
        Called once, if there are any, with the bytes that this process will read and write; its
        result is called with the bytes of each piece.
    comm : mpi4py.MPI.Comm, optional
        The processes; by default this one alone.
    **fields
        Fields of `MoveOptions`, instead of `options`.

    Returns
    -------
    MoveReport
        The same on all processes.

    Raises
    ------
    IoFailed
        The input is missing, truncated or not valid; the output exists; the disk is full; or a
        directory is missing or not writable.
    InvalidArgument
        Options do not fit the array, or input and output are the same.
    Unsupported
        Elements have no fixed size, or a dtype that the output's format does not have.
    NoMemory
        `max_bytes` is too little for the chunks.

    All errors are raised on all processes.

    Examples
    --------
    >>> import datamover as dm, numpy as np, tempfile
    >>> from datamover.files import move
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.save(d + "/a.npy", np.arange(12.0).reshape(3, 4))
    ...     report = move(d + "/a.npy", d + "/b.npy", axes=(1, 0))
    ...     np.load(d + "/b.npy").shape, report.bytes
    ((4, 3), 96)
    """

    def settle() -> tuple[str, str, MoveOptions]:
        if progress is not None and not callable(progress):
            raise WrongType(f"progress is {progress!r}, it must be callable")
        return way_choice.places(source, output, options or formats.options_of(fields))

    if comm is None:
        return move_between(None, *settle(), progress)
    return move_between(comm, *_settled(comm, settle), progress)


def move_between(
    comm: MPI.Comm | None,
    source: Any,
    output: str,
    options: MoveOptions,
    progress: Callable[[int], Progress] | None,
) -> MoveReport:
    """Move between places, with checked options. Collective."""
    begin = time.perf_counter()
    with together(comm):
        way, options = way_choice.way(source, output, options)
    place = way_choice.output_place(way.place, output, options, comm)
    jobs: dict[str, Job] = {}
    is_first = comm is None or comm.rank == 0
    try:
        _make(comm, way, jobs, output, place, options)
        set_up_seconds = time.perf_counter() - begin
        _agree_on_plans(comm, way, jobs)
        tell: Progress = lambda nbytes: None  # noqa: E731
        if progress is not None and any(job.move_plan for job in jobs.values()):
            tell = progress(sum(job.own_bytes() for job in jobs.values()))
        for job in jobs.values():
            job.run(tell)
        with together(comm):
            way.check_unchanged()
            if is_first:
                way.complete(place.path)
        sync_begin = time.perf_counter()
        with together(comm):
            place.sync()
        sync_seconds = time.perf_counter() - sync_begin
        placing.finish(comm, place)
    finally:
        with lifeline.all_deferred():
            for job in jobs.values():
                job.close()
            place.give_back()
    of_jobs = {phase: sum(job.seconds[phase] for job in jobs.values()) for phase in PHASES}
    of_jobs["set_up"] += set_up_seconds
    of_jobs["sync"] += sync_seconds
    seconds = [*of_jobs.values(), time.perf_counter() - begin]
    if comm is not None:  # that of the slowest process
        nanoseconds = np.rint(np.multiply(seconds, 1e9)).astype(np.int64)
        seconds = np.max(gathered(comm_address(comm), nanoseconds), axis=0) / 1e9
    return _report(way, jobs, output, options, 1 if comm is None else comm.size, seconds)


def _make(
    comm: MPI.Comm | None,
    way: Way,
    jobs: dict[str, Job],
    output: str,
    place: Any,
    options: MoveOptions,
) -> None:
    """Fill `jobs`, and create the output without elements. Collective."""
    threads, free_bytes = threads_of(comm), free_bytes_of(comm, place.path, options)
    way.compare(comm)

    def create(path: str) -> Late:
        outputs = {name: job.output for name, job in jobs.items()}
        for made in outputs.values():
            hdf5_types.tell_of_change(made.spec)
        return way.make(path, outputs, options)

    with contextlib.ExitStack() as opened:
        with together(comm):
            opened.enter_context(way.opened())
            jobs |= whole.jobs_of(way, comm, output, place.path, options)
            prepare(jobs.values(), threads, free_bytes)
            for job in jobs.values():
                if job.move_plan and job.move_plan.lack:
                    raise IoFailed(f"not enough space for the intermediate: {job.move_plan.lack}")
        placing.begin(comm, place, format_choice.of_output(output, options).is_directory, create)


def _agree_on_plans(comm: MPI.Comm | None, way: Way, jobs: dict[str, Job]) -> None:
    """Raise if processes have different inputs. Collective."""
    if comm is None:
        return
    said: dict[str, Any] = {"arrays": [*way.arrays, *way.copied]}
    for name, job in jobs.items():
        of = f" of {name!r}" if name else ""
        said[f"inputs{of}"] = (job.spec.shape, str(job.spec.dtype))
        said[f"chunks of the input{of}"] = job.move_plan
    agree_on(comm_address(comm), said, "see")


def _report(
    way: Way,
    jobs: dict[str, Job],
    output: str,
    options: MoveOptions,
    processes: int,
    seconds: Sequence[float],
) -> MoveReport:
    specs = [job.spec for job in jobs.values()]
    plans = [job.move_plan for job in jobs.values() if job.move_plan is not None]
    passes = [one for plan in plans for one in plan.passes]
    everything = [*specs, *way.copied.values()]
    by_phase: Any = {f"{n}_seconds": float(t) for n, t in zip(PHASES, seconds, strict=False)}
    return MoveReport(
        spec=max(specs or everything, key=lambda spec: math.prod(spec.shape) * spec.dtype.itemsize),
        bytes=sum(spec.nbytes for spec in specs),
        processes=processes,
        steps=sum(plan.passes[-1].steps for plan in plans),
        threads=max((one.threads for one in passes), default=1),
        passes=max((len(plan.passes) for plan in plans), default=1),
        reads=sum(plan.reads for plan in plans),
        read_bytes=sum(plan.read_bytes for plan in plans),
        written_bytes=sum(plan.written_bytes for plan in plans),
        check=options.check,
        num_arrays=len(everything),
        elems=sum(math.prod(spec.shape or ()) for spec in everything),
        seconds=float(seconds[-1]),
        source=_with_member(way.source, options.member),
        output=_with_member(output, options.output_member),
        **by_phase,
    )


def _with_member(path: str, member: str | None) -> str:
    return path if member is None else f"{path}:/{member.lstrip('/')}"


def _settled(comm: MPI.Comm, settle: Callable[[], Any]) -> tuple[str, str, MoveOptions]:
    """Return input, output and options, equal on all processes. Collective."""
    address = comm_address(comm)
    source, output, options = collectively(address, settle)
    named = source
    if not isinstance(source, str):  # the names of many files would fill the message
        named = f"{len(source)} files, {source[0]} to {source[-1]}, {crc32(repr(source).encode())}"
    passed = {"source": named, "output": output, **dataclasses.asdict(options)}
    agree_on(address, {f"{name}=": value for name, value in passed.items()})
    return source, output, options


@refused_by(agreeing)
@options_of(MoveOptions, without=("chunks", "max_bytes", "temporary"))
def rechunk(
    source: Any,
    target_chunks: Sequence[Any],
    max_mem: int,
    target_store: str | os.PathLike[str],
    temp_store: str | os.PathLike[str] | None = None,
    *,
    comm: Any = None,
    **options: Any,
) -> MoveReport:
    """Write an array with other chunks; each element is read and written at most twice.

    The call of `rechunker.rechunk`, except that the work is done when it returns. Collective over
    `comm`, if one is given.

    Parameters
    ----------
    source : path or zarr.Array
        An array in any format that `move` reads. A `zarr.Array` must be stored in a directory.
    target_chunks : sequence of int
        Extents of the output's chunks.
    max_mem : int
        Bytes of memory for each process.
    target_store : path
        The output, as of `move`; it must not exist, unless ``overwrite=True`` is passed.
    temp_store : path, optional
        Directory for the intermediate, which is removed at the end. By default, that of the output.
    comm : MPI.Comm, optional
    **options
        Other fields of `MoveOptions`.

    Returns
    -------
    MoveReport

    Raises
    ------
    Error
        As `move`.

    Examples
    --------
    >>> import numpy as np, tempfile, zarr
    >>> from datamover.files import rechunk
    >>> with tempfile.TemporaryDirectory() as d:
    ...     slices = zarr.create_array(d + "/a.zarr", data=np.ones((64, 32, 9)), chunks=(1, 32, 9))
    ...     report = rechunk(slices, (64, 4, 3), 30_000, d + "/b.zarr", d)
    ...     report.passes, zarr.open_array(d + "/b.zarr").chunks
    (2, (64, 4, 3))
    """

    def settle() -> tuple[str | os.PathLike[str], Sizes]:
        return _path_of(source), said_sizes(target_chunks, "target_chunks")

    path, chunks = settle() if comm is None else collectively(comm_address(comm), settle)
    where = {} if temp_store is None else {"temporary": temp_store}
    return move(path, target_store, chunks=chunks, max_bytes=max_mem, comm=comm, **where, **options)


def _path_of(source: Any) -> str | os.PathLike[str]:
    """Return the path of an array that is given by its path or as zarr-python's object."""
    if isinstance(source, str | os.PathLike):
        return source
    root = getattr(getattr(source, "store", None), "root", None)
    if root is None:
        raise WrongType(
            f"source is {type(source).__name__}; pass a path, or a zarr.Array that is stored in a "
            "directory"
        )
    return os.path.join(root, source.path)
