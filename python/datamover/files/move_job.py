# SPDX-License-Identifier: BSD-3-Clause
"""Work of one process during the move of an array from one file to another.

The array is moved chunk by chunk (`chunk_plan`, `pipeline`): by one process with a thread per core,
or by several that divide the passes of one plan, each working independently with its share of the
cores. If many processes would then read the same source chunks, and that costs more, several
processes move the array slab by slab (`slabs`): each part is read once and a mover sends it to the
process that writes it. The output is written under a hidden name next to its own and gets its name
when it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from datamover.dtype_words import dtype_of
from datamover.errors import InvalidArgument, NoMemory, Unsupported
from datamover.files import (
    address_place,
    addresses,
    formats,
    hdf5_types,
    names,
    placing,
    write_back,
    zarr_format_2,
)
from datamover.files.agreement import Alarm, threads_here, together
from datamover.files.at_work import cores
from datamover.files.checksums import Checksums
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.chunk_sides import Sink, Source, file_axes, plan_between, refuse_endless
from datamover.files.flat import FlatBoxes
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Writer
from datamover.files.handover import Described, Handover, needs_handover
from datamover.files.pipeline import GivenUp, Pipeline
from datamover.files.region import limited
from datamover.files.slabs import SlabMove, Slabs
from datamover.mpi import comm_address, gathered

MAX_DIMS = 8
PHASES = ("set_up", "read", "redistribute", "write", "sync", "check")

#: Called on every process with the bytes that it has read or written since the last call.
Progress = Callable[[int], None]


def places(
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
    return names.place_of(source), names.place_of_output(output), options


def with_defaults(source: str, output: str, options: MoveOptions) -> MoveOptions:
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


def output_place(source: str, output: str, options: MoveOptions, address: int | None) -> Any:
    """Give what puts the output where it shall be. Collective; `address` as of `placing.token`."""
    token = placing.token(address)
    overwrite_group = options.overwrite_group
    overwrite = options.overwrite or overwrite_group
    if addresses.is_address(output):
        return address_place.AddressPlace(source, output, token, overwrite, overwrite_group)
    member = options.output_member or options.member
    return placing.LocalPlace(source, output, token, overwrite, overwrite_group, member)


class Job:
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
        functions = self.format
        self.threads = self._threads()
        with together(self.comm), self._timed("set_up"):
            is_made = getattr(self.place, "is_made", False)
            if self.is_first and not is_made:
                self.place.check()
            self.plan()
            if self.is_first and not is_made:
                self.place.claim(self.format.is_directory)
                hdf5_types.tell_of_change(self.spec)
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
            output_format=self.format.name,
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
        functions = input_format
        for_output = dataclasses.replace(options, output_format=self.format.name)
        self.reader = functions.open_reader(self.source, for_output)
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
        self.spec = self.format.check_output(wanted, options)
        if options.check is not None:
            self.sums = Checksums(options.check, self.spec.dtype)

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
        preview = self.format.preview
        return preview(self.spec, self.options) if preview else None

    def preview(self) -> Any:
        """Give what says in which boxes the output will be written; None: in any."""
        shown = self._shown()
        return Described(shown) if needs_handover(shown, self.nprocs) else shown

    def plan(self) -> None:
        """Choose the way that costs less. Local; nothing where there is nothing to plan."""
        if not self.spec.shape or self.spec.nbytes == 0:
            return
        preview, max_bytes, nprocs = self.preview(), self.options.max_bytes, self.nprocs
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

            said = {
                "inputs": (self.spec.shape, str(self.spec.dtype)),
                "chunks of the input": (self.chunk_plan, self.slabs and self.slabs.shape),
            }
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
        dtype = dtype_of(wanted)
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
