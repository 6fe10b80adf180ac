# SPDX-License-Identifier: BSD-3-Clause
"""Work of one process during the move of an array from one file to another.

The array is moved chunk by chunk (`chunk_plan`, `pipeline`), in one pass from the input to the
output, or in two with an intermediate between them (`move_plan`, `intermediate`): by one process
with a thread per core, or by several that divide the steps of each pass, each working independently
with its share of the cores. See `transfer` for what comes before and after.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast

import numpy as np

from datamover.errors import Error, InvalidArgument, IoFailed, NoMemory, Unsupported
from datamover.files import addresses, format_choice, formats, intermediate, placing, space, strings
from datamover.files.agreement import alarmed, threads_here, together
from datamover.files.at_work import GivenUp, cores
from datamover.files.chunk_boxes import box_of
from datamover.files.chunk_plan import ChunkPlan, Limits, too_little
from datamover.files.chunk_sides import Checksums, Scratch, Sink, Source, enough_bytes
from datamover.files.formats import ArraySpec, MoveOptions, Output, Reader, Shape, converted, log
from datamover.files.intermediate import Handover, Intermediate
from datamover.files.move_plan import MOST_READS, MovePlan, Room, between, plan_move
from datamover.files.names import checked_names
from datamover.files.pipeline import Pipeline
from datamover.mpi import comm_address, gathered

MAX_DIMS = 8
PHASES = ("set_up", "read", "redistribute", "write", "sync", "check")

#: Called on every process with the bytes that it has read or written since the last call.
Progress = Callable[[int], None]
Opener = Callable[[str, MoveOptions], Reader]


def threads_of(comm: Any) -> int:
    """Return the number of threads: the least number of cores of a process. Collective."""
    if comm is None:
        return cores()
    address = comm_address(comm)
    return min(int(found[0]) for found in gathered(address, [threads_here(address)]))


def free_bytes(comm: Any, path: str, options: MoveOptions) -> int:
    """Return the free space for an intermediate on the first process. Collective."""
    with together(comm):
        directory = intermediate.directory_for(path, options.temporary)
        if options.temporary is not None:
            intermediate.check_directory(directory)
        mine = space.free_bytes(directory)
    return mine if comm is None else int(gathered(comm_address(comm), [mine])[0][0])


def prepare(jobs: Collection[Job], threads: int, free_bytes: int) -> None:
    """Open the inputs of all jobs, determine their outputs, and plan. Local.

    `free_bytes` is the space for an intermediate, and for all outputs if they are on the same disk.
    """
    for job in jobs:
        job.open_input()
        if len(jobs) > 1:  # a group may have thousands of arrays
            job.close_input()
    output_bytes = sum(job.reserved_bytes() for job in jobs)
    for job in jobs:
        job.threads = threads
        job.plan(free_bytes, output_bytes)


class Job:
    """The move of one array on one process: planned, then executed.

    Parameters
    ----------
    comm : MPI.Comm or None
    source, output : str
    path : str
        Where the output is written: its hidden name, or its address.
    options : MoveOptions
    opener : callable, optional
        Opens the input; by default, the reader of its format.
    """

    def __init__(
        self, comm, source: str, output: str, path: str, options: MoveOptions,
        opener: Opener | None = None,
    ):  # fmt: skip
        self.comm, self._opener = comm, opener
        self.source, self._output_name, self.path = source, output, path
        self.options = options
        self.nprocs = 1 if comm is None else comm.size
        self.rank = 0 if comm is None else comm.rank
        self.move_plan: MovePlan | None = None
        #: The place of the intermediate, while there is one.
        self.between: Any = None
        self.threads = 1
        self.reader = cast(Reader, None)  # when it is prepared
        self._is_input_closed = False
        self._region: tuple[Shape, Shape] | tuple[()] = ()  # origin and extents of what is moved
        #: State of the input's file when it was opened first.
        self._stamp: tuple[int, ...] | None = None
        self.output = cast(Output, None)  # when it is prepared
        self.writer: Any = None  # open; a Handover if one process writes for several
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.sums: Checksums | None = None

    @property
    def spec(self) -> ArraySpec:
        """The array in the output."""
        return self.output.spec

    def run(self, tell: Progress) -> None:
        """Write all elements to the output that was created. Collective."""
        plan = self.move_plan
        if self.rank == 0 and plan is not None and plan.rereads > MOST_READS:
            log.warning("%s is read %.3g times; %s", self.source, plan.rereads, plan.reason)
        with together(self.comm), self._timed("set_up"):
            if self._is_input_closed:
                self._is_input_closed = False
                self.reader.reopen()
                if self._stamp != self._stamp_of_input():  # it is read as what was planned
                    raise IoFailed(f"{self.source} changed while it was moved; move it again")
            # If only one process can write the output, the others have none.
            has_one_writer = getattr(self.output.shown, "has_one_writer", False)
            hands_over = has_one_writer and self.nprocs > 1
            if not self.is_copied:
                is_here = self.rank == 0 or not hands_over
                self.writer = self.output.open(self.path) if is_here else self.output.shown
        if self.is_copied:
            with together(self.comm), self._timed("write"):
                if self.rank == 0:
                    strings.copy(self.reader, self.output, self.path, self.options)
                self.reader.check_unchanged()
            self.close()
            return
        source = self._source()
        if self.move_plan is not None and self.move_plan.chunk is not None:
            source = self._fill_intermediate(tell, self.move_plan.passes, self.move_plan.chunk)
        if hands_over:
            self._make_directory()
            # This process writes its chunks for the one that can.
            self.writer = Handover(self.writer, self.between.path, self.rank == 0)
        sink = Sink(self.writer, self.spec, self.sums)
        if not self.spec.shape:  # a single element
            with together(self.comm):
                if self.rank == 0:
                    sink.write((), source.read((), (), (), Scratch())[0])
        elif self.move_plan is not None:
            self._run(self.move_plan.passes[-1], source, sink, tell)
            if hands_over:
                self._gather()
            self._remove_intermediate()
        with together(self.comm), self._timed("write"):
            self.reader.check_unchanged()
            self.writer.close()
        if self.sums is not None:
            with together(self.comm), self._timed("check"):
                self._verify(self.sums)
        self.close()

    @property
    def is_copied(self) -> bool:
        """Whether one process copies it, because movers do not support its elements."""
        return self.spec.dtype.hasobject

    def _verify(self, sums: Checksums) -> None:
        """Read the boxes that this process wrote, and compare."""
        options = MoveOptions(
            shape=self.spec.shape, dtype=self.spec.dtype, order=self.spec.order,
            member=self.options.output_member or self.options.member,
            output_format=self.format.name,
        )  # fmt: skip
        if addresses.is_address(self.path):  # it has no metadata yet
            sums.verify(self.writer, self._output_name, self.threads)
            return
        with contextlib.closing(self.format.open_reader(self.path, options)) as reader:
            sums.verify(reader, self._output_name, self.threads)

    def close(self) -> None:
        """Release everything. Local, any number of times."""
        self.close_input()
        if self.writer is not None:
            writer, self.writer = self.writer, None
            with contextlib.suppress(OSError, Error):  # of an earlier error
                writer.close()
        self._remove_intermediate()

    def close_input(self) -> None:
        """Close the input, which `run` opens again. Local."""
        if self.reader is not None and not self._is_input_closed:
            self._is_input_closed = True
            with contextlib.suppress(OSError):
                self.reader.close()

    def _stamp_of_input(self) -> tuple[int, ...] | None:
        """Identify the file of the input, or its metadata in a directory, and its state."""
        if addresses.is_address(self.source):
            return None  # they find out by themselves
        files = [os.path.join(self.source, name) for name in ("zarr.json", ".zarray")]
        for path in (*files, self.source):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found = os.stat(path)
                return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return ()

    def _remove_intermediate(self) -> None:
        if self.between is not None:
            self.between.give_back()
            self.between = None

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - begin

    def open_input(self) -> None:
        """Open the input, and determine the output. Local."""
        options = self.options
        is_own = self._opener is not None
        input_format = (
            format_choice.named(str(options.input_format))
            if is_own
            else format_choice.of_input(self.source, options)
        )
        self.format = format_choice.of_output(self._output_name, options)
        options = self.options = formats.with_converted(options, input_format)
        formats.check_options(options, input_format, self.format)
        for_output = dataclasses.replace(options, output_format=self.format.name)
        self._stamp = self._stamp_of_input()
        self.reader = (self._opener or input_format.open_reader)(self.source, for_output)
        if self.reader.spec.dtype.hasobject:
            strings.refuse_options(self.source, self.format.name, options)
        given = self.reader.spec
        if options.region is not None:
            self._region = origin, extents = box_of(options.region, given.shape)
            kept = given.kept and given.kept.within(origin, extents)
            given = dataclasses.replace(given, shape=extents, kept=kept)
        dims = len(given.shape)
        if dims > MAX_DIMS:
            raise Unsupported(f"{self.source} has {dims} dimensions; up to {MAX_DIMS} can be moved")
        self.axes = tuple(range(dims)) if options.axes is None else tuple(options.axes)
        if sorted(self.axes) != list(range(dims)):
            raise InvalidArgument(f"axes {self.axes} are not a permutation of 0 .. {dims - 1}")
        shape = tuple(given.shape[a] for a in self.axes)
        kept = given.kept and given.kept.permuted(self.axes)
        dtype = converted(given.dtype, options.output_dtype)
        if dtype != given.dtype and kept:
            kept = kept.converted(dtype)
        labels = checked_names("the output", options.dims, shape)
        wanted = ArraySpec(shape, dtype, options.output_order or given.order, kept, labels)
        self.output = self.format.output(wanted, options)
        if options.check is not None:
            self.sums = Checksums(options.check, self.spec.dtype)

    @property
    def temporary(self) -> str:
        """The directory for an intermediate."""
        return intermediate.directory_for(self.path, self.options.temporary)

    def reserved_bytes(self) -> int:
        """Return the bytes that the output takes where it is written; 0 if they are not known."""
        is_encoded = getattr(self.output.shown, "is_encoded", False)
        return 0 if addresses.is_address(self.path) or is_encoded else self.spec.nbytes

    def plan(self, free_bytes: int, output_bytes: int) -> None:
        """Choose the passes with the least cost, if there is anything to plan. Local.

        `output_bytes` are those of all outputs.
        """
        if not self.spec.shape or self.spec.nbytes == 0:
            return
        limit = self.options.max_bytes
        source, sink = self._source(), Sink(self.output.shown, self.spec)
        limits = Limits(limit, self.threads, self.nprocs)
        room = self._room(free_bytes, output_bytes)
        try:
            self.move_plan = plan_move(source, sink, limits, room)
        except NoMemory:
            enough = enough_bytes(source, sink, limits)
            if not isinstance(limit, formats.DefaultLimit) or enough > limit.MOST:
                raise too_little(limit, enough) from None
            self.options = dataclasses.replace(self.options, max_bytes=enough)
            limits = dataclasses.replace(limits, max_bytes=enough)
            self.move_plan = plan_move(source, sink, limits, room)

    def _room(self, free_bytes: int, output_bytes: int) -> Room:
        """Return the space for an intermediate, and for all outputs on the same disk."""
        needed_bytes = self.spec.nbytes
        with contextlib.suppress(OSError):
            places = self.temporary, intermediate.directory_for(self.path, None)
            disks = {os.stat(place).st_dev for place in places}
            needed_bytes += output_bytes if len(disks) == 1 else 0
        return Room(self.temporary, needed_bytes, free_bytes)

    def _source(self) -> Source:
        axes = self.axes if self.spec.order == "C" else self.axes[::-1]
        return Source(self.reader, axes, self.spec.dtype, *self._region)

    def own_bytes(self) -> int:
        """Count what this process reads and writes. Local."""
        return sum(
            2 * plan.itemsize * math.prod(b - a for a, b in zip(lo, hi, strict=True))
            for plan in (self.move_plan.passes if self.move_plan else ())
            for lo, hi in plan.boxes(self.rank)
        )

    def _fill_intermediate(
        self, tell: Progress, passes: Sequence[ChunkPlan], chunk: Shape
    ) -> Source:
        """Do this process's part of the first pass; return the intermediate. Collective."""
        first, second = passes
        self._make_directory()
        spec = ArraySpec(first.shape, self.spec.dtype)
        middle = Intermediate(spec, chunk, self.between.path, second.box)
        sink, source = between(middle)
        self._run(first, self._source(), sink, tell)
        with together(self.comm):
            self.reader.check_unchanged()
            self.reader.close()
            self.reader = middle
        return source

    def _make_directory(self) -> None:
        """Make the hidden directory for what is between input and output. Collective."""
        if self.between is None:
            token = placing.token(None if self.comm is None else comm_address(self.comm))
            self.between = intermediate.place_in(self.temporary, token)
            with together(self.comm):
                if self.rank == 0:
                    self.between.claim(True)
            with together(self.comm):
                words = (
                    f"{self.temporary} is another directory on another process; "
                    f"{formats.option('temporary')} must name one that all processes share"
                )
                with addresses.failing(words, of=(FileNotFoundError,)):
                    self.between.hold()

    def _gather(self) -> None:
        """Write the chunks of all processes to the output. Collective."""
        handed = gathered(comm_address(self.comm), [len(self.writer.handed)])
        with together(self.comm), self._timed("write"):
            if self.rank == 0:
                self.writer.gather(int(np.sum(handed)))

    def _run(self, plan: ChunkPlan, source: Source, sink: Sink, tell: Progress) -> None:
        """Do this process's steps of a pass. Collective."""
        pipeline = Pipeline(plan, source, sink, self.options.max_bytes, tell, self.rank)
        # Gives up for the reason that another process reports.
        with alarmed(self.comm) as gives_up, contextlib.suppress(GivenUp):
            pipeline.run(gives_up)
        for phase, seconds in pipeline.busy.items():
            self.seconds[phase] += seconds / plan.threads
