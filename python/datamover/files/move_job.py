# SPDX-License-Identifier: BSD-3-Clause
"""Work of one process during the move of an array from one file to another.

The array is moved chunk by chunk (`chunk_plan`, `pipeline`), in one pass from the input to the
output, or in two with an intermediate between them (`move_plan`, `intermediate`): by one process
with a thread per core, or by several that divide the steps of each pass, each working independently
with its share of the cores. The output is written under a hidden name next to its own and gets its
name when it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, NoMemory, Unsupported, WrongType
from datamover.files import (
    address_place,
    addresses,
    formats,
    hdf5_types,
    intermediate,
    names,
    placing,
    space,
    write_back,
    zarr_format_2,
)
from datamover.files.agreement import Alarm, threads_here, together
from datamover.files.at_work import GivenUp, cores
from datamover.files.checksums import Checksums
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.chunk_sides import Sink, Source, enough_bytes, file_axes
from datamover.files.conversion import converted
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape
from datamover.files.handover import Handover, needs_handover
from datamover.files.intermediate import Intermediate
from datamover.files.move_plan import MOST_READS, Ends, MovePlan, Room, plan_move
from datamover.files.pipeline import Pipeline
from datamover.files.region import limited
from datamover.files.state_dimensions import checked_names
from datamover.mpi import comm_address, gathered

log = logging.getLogger("datamover")
MAX_DIMS = 8
PHASES = ("set_up", "read", "redistribute", "write", "sync", "check")

#: Called on every process with the bytes that it has read or written since the last call.
Progress = Callable[[int], None]


def places(
    source: Any, output: str | os.PathLike[str], options: MoveOptions
) -> tuple[Any, str, MoveOptions]:
    """Return the real paths, and checked options with the datasets that the names contain.

    Of many files that are joined, the source is a tuple of paths.
    """
    output, output_member = names.split_member(output)
    if options.along is not None:
        from datamover.files import many_files  # loads h5py

        options = dataclasses.replace(formats.verified(options), output_member=output_member)
        return many_files.files_of(source), names.place_of_output(output), options
    if not isinstance(source, str | os.PathLike):
        raise WrongType(f"the input is {source!r}; several files need {formats.option('along')}")
    source, member = names.split_member(source)
    options = dataclasses.replace(
        formats.verified(options),
        member=member or options.member,
        output_member=output_member or options.output_member,
    )
    return names.place_of(source), names.place_of_output(output), options


def with_defaults(source: str, output: str, options: MoveOptions) -> MoveOptions:
    """Return options with the defaults of one array's output. Local.

    These are the format of a Zarr output, from its enclosing group, and the name of an HDF5
    dataset, from the input.
    """
    output_format = formats.of_output(output, options).name
    if output_format == "zarr":
        return zarr_format_2.settled(output, options)
    if output_format == "hdf5" and options.output_member is None and options.member is None:
        name = os.path.splitext(os.path.basename(source.rstrip("/")))[0]
        return dataclasses.replace(options, output_member=name)
    return options


def output_place(source: str, output: str, options: MoveOptions, address: int | None) -> Any:
    """Return the place of the output. Collective; `address` is that of `placing.token`."""
    overwrite_group = options.overwrite_group
    replaces = (options.overwrite or overwrite_group, overwrite_group)
    if options.append:  # to a new output, which replaces the old one
        replaces = (True, True)
    member = options.output_member or options.member
    return address_place.place_of(source, output, placing.token(address), *replaces, member)


class Job:
    """One move on one process."""

    def __init__(self, comm, source: str, output: str, options: MoveOptions, place: Any):
        self.comm = comm
        self.source, self.output = source, output
        self.options = options
        self.place = place
        self.nprocs = 1 if comm is None else comm.size
        self.is_first = comm is None or comm.rank == 0
        self.move_plan: MovePlan | None = None
        #: The place of the intermediate, while there is one.
        self.between: Any = None
        self.threads = 1
        self.reader = cast(Reader, None)  # while it is `opened`
        self.writer: Any = None  # a Writer; a Handover if one process writes for several
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.sums: Checksums | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open the input, and determine the output; at the end, release everything. Collective."""
        try:
            with together(self.comm):
                self._open_input()
            yield
        finally:
            self.close()

    def run(self, progress: Callable[[int], Progress] | None) -> list[float]:
        """Create the complete output. Collective."""
        self.threads = self._threads()
        with together(self.comm), self._timed("set_up"):
            is_made = getattr(self.place, "is_made", False)
            if self.is_first and not is_made:
                self.place.check()
        free_bytes = self.free_bytes()
        with together(self.comm), self._timed("set_up"):
            self.plan(free_bytes)
            if self.move_plan and self.move_plan.lack:
                raise IoFailed(f"not enough space for the intermediate: {self.move_plan.lack}")
            if self.is_first and not is_made:
                self.place.claim(self.format.is_directory)
                hdf5_types.tell_of_change(self.spec)
                self.format.create(self.place.path, self.spec, self.options)
        self._agree_on_plan()
        self._warn_of_rereads()
        with together(self.comm):
            self.place.hold()
            self.writer = self._open_writer()
        tell, source = self._teller(progress), self.reader
        if self.move_plan is not None and self.move_plan.chunk is not None:
            source = self._fill_intermediate(tell, self.move_plan.passes, self.move_plan.chunk)
        if needs_handover(self.writer, self.nprocs):
            self._hand_over()
        if not self.spec.shape:
            self._move_single_element()
        elif self.move_plan is not None:
            sink = Sink(self.writer, self.spec, self.sums)
            self._run(self.move_plan.passes[-1], self._source(source), sink, tell)
            if isinstance(self.writer, Handover):
                self._gather()
            self._remove_intermediate()
        with together(self.comm), self._timed("sync"):
            self.reader.check_unchanged()
            if self.writer is not None:
                self.writer.sync()
                self.writer.close()
        if self.sums is not None:
            with together(self.comm), self._timed("check"):
                self._verify(self.sums)
        with together(self.comm):
            if self.is_first:
                self.place.finish(self.writer)
        return list(self.seconds.values())

    def _verify(self, sums: Checksums) -> None:
        """Read the boxes that this process wrote, and compare."""
        options = MoveOptions(
            shape=self.spec.shape, dtype=self.spec.dtype.str, order=self.spec.order,
            member=self.options.output_member or self.options.member,
            output_format=self.format.name,
        )  # fmt: skip
        if self.spec.dtype.names:
            options = dataclasses.replace(options, dtype=self.spec.dtype)
        reader = self.place.reader(self.format, options, self.writer)
        try:
            sums.verify(reader, self.output, self.threads)
        finally:
            reader.close()

    def close(self) -> None:
        """Release everything; remove the old output, or a new one that is not complete."""
        for file in (self.reader, self.writer):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        write_back.give_up()
        self._remove_intermediate()
        self.place.give_back()

    def _remove_intermediate(self) -> None:
        if self.between is not None:
            self.between.give_back()
            self.between = None

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
        for_output = dataclasses.replace(options, output_format=self.format.name)
        self.reader = input_format.open_reader(self.source, for_output)
        if options.region is not None:
            self.reader = limited(self.reader, options.region)
        given = self.reader.spec
        dims = len(given.shape)
        if dims > MAX_DIMS:
            raise Unsupported(f"{self.source} has {dims} dimensions; up to {MAX_DIMS} can be moved")
        self.axes = tuple(range(dims)) if options.axes is None else tuple(options.axes)
        if sorted(self.axes) != list(range(dims)):
            raise InvalidArgument(f"axes {self.axes} are not a permutation of 0 .. {dims - 1}")
        if options.max_bytes < 1:
            raise InvalidArgument(f"max_bytes is {options.max_bytes}; it must be positive")
        shape = tuple(given.shape[a] for a in self.axes)
        kept = given.kept and given.kept.permuted(self.axes)
        dtype = converted(given.dtype, options.output_dtype)
        if dtype != given.dtype and kept:
            kept = kept.converted(dtype)
        labels = checked_names("the output", options.dims, shape)
        wanted = ArraySpec(shape, dtype, options.output_order or given.order, kept, labels)
        self.spec = self.format.check_output(wanted, options)
        if options.check is not None:
            self.sums = Checksums(options.check, self.spec.dtype)

    def _threads(self) -> int:
        """Return the number of threads: the least number of cores of a process. Collective."""
        if self.comm is None:
            return cores()
        address = comm_address(self.comm)
        return min(int(found[0]) for found in gathered(address, [threads_here(address)]))

    def _open_writer(self) -> Any:
        """Open the output; if only one process can write it, the others have none."""
        shown = self.preview()
        if not self.is_first and needs_handover(shown, self.nprocs):
            return shown
        return self.format.open_writer(self.place.path, self.spec, self.options)

    def preview(self) -> Any:
        """Describe in which boxes the output will be written, without a file; None: in any."""
        preview = self.format.preview
        return preview(self.spec, self.options) if preview else None

    @property
    def temporary(self) -> str:
        """The directory for an intermediate."""
        return intermediate.directory_for(self.output, self.options.temporary)

    def free_bytes(self) -> int:
        """Return the free space for an intermediate on the first process. Collective."""
        with together(self.comm):
            if self.options.temporary is not None:
                intermediate.check_directory(self.temporary)
            mine = space.free_bytes(self.temporary)
        return mine if self.comm is None else int(gathered(comm_address(self.comm), [mine])[0][0])

    def plan(self, free_bytes: int) -> None:
        """Choose the passes with the least cost, if there is anything to plan. Local."""
        if not self.spec.shape or self.spec.nbytes == 0:
            return
        limit, preview = self.options.max_bytes, self.preview()
        ends = self._ends(Sink(preview, self.spec))
        room = self._room(preview, free_bytes)
        try:
            self.move_plan = plan_move(ends, limit, self.threads, self.nprocs, room)
        except NoMemory:
            enough = enough_bytes(ends.source, ends.sink, limit, self.threads, self.nprocs)
            if not isinstance(limit, formats.DefaultLimit) or enough > limit.MOST:
                raise
            self.options = dataclasses.replace(self.options, max_bytes=enough)
            self.move_plan = plan_move(ends, enough, self.threads, self.nprocs, room)

    def _ends(self, sink: Sink) -> Ends:
        axes = file_axes(self.axes, self.spec.order)
        plain = tuple(range(len(axes)))
        back = np.argsort(axes)

        def between(chunk: Shape) -> tuple[Sink, Source]:
            middle = Intermediate(self.reader.spec, tuple(chunk[b] for b in back))
            return Sink(middle, middle.spec), Source(middle, axes, self.spec.dtype)

        return Ends(self._source(self.reader), Source(self.reader, plain), sink, between)

    def _room(self, preview: Any, free_bytes: int) -> Room:
        """Return the space for an intermediate, and for the output if it is on the same disk."""
        needed_bytes = (
            self.spec.nbytes // self.spec.dtype.itemsize * self.reader.spec.dtype.itemsize
        )
        if not addresses.is_address(self.output) and not getattr(preview, "is_encoded", False):
            with contextlib.suppress(OSError):
                disks = {os.stat(p).st_dev for p in (self.temporary, os.path.dirname(self.output))}
                needed_bytes += self.spec.nbytes if len(disks) == 1 else 0
        return Room(self.temporary, needed_bytes, free_bytes)

    def _agree_on_plan(self) -> None:
        """Raise if processes have different inputs. Collective."""
        if self.comm is not None:
            from datamover.files.state_items import agree_on  # loads arrays, and layouts

            said = {
                "inputs": (self.spec.shape, str(self.spec.dtype)),
                "chunks of the input": self.move_plan,
            }
            agree_on(comm_address(self.comm), said, "see")

    def _warn_of_rereads(self) -> None:
        plan = self.move_plan
        if self.is_first and plan is not None and plan.rereads > MOST_READS:
            log.warning("%s is read %.3g times; %s", self.source, plan.rereads, plan.reason)

    def _source(self, reader: Any) -> Source:
        return Source(reader, file_axes(self.axes, self.spec.order), self.spec.dtype)

    def _teller(self, progress: Callable[[int], Progress] | None) -> Progress:
        """Return the function to call with the bytes of each piece that is read or written."""
        if progress is None or self.move_plan is None:
            return lambda nbytes: None
        return progress(sum(map(self._own_bytes, self.move_plan.passes)))

    def _own_bytes(self, plan: ChunkPlan) -> int:
        """Count what this process reads and writes in a pass."""
        boxes = plan.boxes(0 if self.comm is None else self.comm.rank)
        elems = sum(math.prod(b - a for a, b in zip(lo, hi, strict=True)) for lo, hi in boxes)
        return 2 * elems * plan.itemsize

    def _fill_intermediate(
        self, tell: Progress, passes: Sequence[ChunkPlan], chunk: Shape
    ) -> Intermediate:
        """Do this process's part of the first pass; return the intermediate. Collective."""
        first, second = passes
        self._make_directory()
        back = np.argsort(file_axes(self.axes, self.spec.order))
        granule, cut = (tuple(e[b] for b in back) for e in (chunk, second.box))
        middle = Intermediate(self.reader.spec, granule, self.between.path, cut)
        plain = Source(self.reader, tuple(range(len(granule))))
        self._run(first, plain, Sink(middle, middle.spec), tell)
        with together(self.comm):
            self.reader.check_unchanged()
            self.reader.close()
            self.reader = middle
        return middle

    def _make_directory(self) -> None:
        """Make the hidden directory for what is between input and output. Collective."""
        if self.between is None:
            token = placing.token(None if self.comm is None else comm_address(self.comm))
            self.between = intermediate.place_in(self.temporary, token)
            with together(self.comm):
                if self.is_first:
                    self.between.claim(True)
            with together(self.comm):
                self._hold_directory()

    def _hand_over(self) -> None:
        """Have this process write its chunks for the one that writes the output. Collective."""
        self._make_directory()
        with together(self.comm):
            self.writer = Handover(self.writer, self.between.path, self.comm.rank, self.nprocs)

    def _gather(self) -> None:
        """Write the chunks of all processes to the output. Collective."""
        with together(self.comm), self._timed("write"):
            self.writer.end()
        with together(self.comm), self._timed("write"):
            if self.is_first:
                self.writer.gather()

    def _hold_directory(self) -> None:
        try:
            self.between.hold()
        except FileNotFoundError as e:
            raise IoFailed(
                f"{self.temporary} is another directory on another process; "
                f"{formats.option('temporary')} must name one that all processes share"
            ) from e

    def _run(self, plan: ChunkPlan, source: Source, sink: Sink, tell: Progress) -> None:
        """Do this process's steps of a pass. Collective."""
        rank = 0 if self.comm is None else self.comm.rank
        alarm = None if self.comm is None else Alarm(self.comm)
        gives_up = None if alarm is None else alarm.rings
        pipeline = Pipeline(plan, source, sink, self.options.max_bytes, tell, rank, gives_up)
        with (
            alarm or contextlib.nullcontext(),
            together(self.comm, alarm),
            contextlib.suppress(GivenUp),  # for the reason that another process reports
        ):
            pipeline.run()
        busy = dataclasses.astuple(pipeline.busy)
        for phase, seconds in zip(("read", "redistribute", "write"), busy, strict=True):
            self.seconds[phase] += seconds / plan.threads

    def _move_single_element(self) -> None:
        with together(self.comm):
            if self.is_first:
                element = np.empty((), self.reader.spec.dtype)
                self.reader.read((), element)
                element = element.astype(self.spec.dtype)
                self.writer.write((), element)
                if self.sums is not None:
                    self.sums.add((), element)
