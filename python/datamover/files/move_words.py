# SPDX-License-Identifier: BSD-3-Clause
"""Text of the reports on moves, done or planned, for the terminal and for `repr`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from datamover.counted import counted
from datamover.time_words import as_time

if TYPE_CHECKING:
    from datamover.files.chunk_plan import ChunkPlan
    from datamover.files.intention import Intention
    from datamover.files.transfer import MoveReport

#: Emphasizes the most important numbers.
Strong = Callable[[str], str]


def size(nbytes: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> from datamover.files.move_words import size
    >>> size(1), size(2000)
    ('1 byte', '2.0 kB')
    """
    from rich.filesize import decimal

    return decimal(round(nbytes))


def extents(box: tuple[int, ...]) -> str:
    """Return the extents of a box as text.

    Examples
    --------
    >>> from datamover.files.move_words import extents
    >>> extents((64, 1000))
    '64 x 1,000'
    """
    return " x ".join(f"{n:,}" for n in box)


def array_words(spec: Any) -> str:
    """Describe an array."""
    if spec.dtype.hasobject:
        return f"{extents(spec.shape) or 'one'} of strings or lists"
    return f"{extents(spec.shape) or 'one element'} of {spec.dtype}"


def moved_words(report: MoveReport) -> str:
    """Describe what a move has moved."""
    if report.num_arrays == 1:
        return array_words(report.spec)
    elems = counted(report.elems, "element")
    return f"{counted(report.num_arrays, 'array')} of {elems} together"


def time_words(report: MoveReport, strong: Strong = str) -> str:
    """Return bytes, time and rate of a move, and its parts, as text."""
    many = counted(report.processes, "process", "processes")
    if report.threads > 1:
        many += f" of {report.threads} threads"
    parts = ""
    if report.passes > 1:
        parts = f", in {report.passes} passes"
    elif report.steps > 1:
        parts = f", in {report.steps:,} steps"
    rate = size(report.bytes / max(report.seconds, 1e-9))
    check = ""
    if report.check is not None:
        check = f", check by {report.check} {_time(report.check_seconds)}"
    return (
        f"{strong(size(report.bytes))} in {strong(_time(report.seconds))}, "
        f"{strong(f'{rate}/s')}, on {many}{parts}: "
        f"set up {_time(report.set_up_seconds)}, "
        f"read {_time(report.read_seconds)}, "
        f"redistribute {_time(report.redistribute_seconds)}, "
        f"write {_time(report.write_seconds)}, sync {_time(report.sync_seconds)}{check}"
    )


def _time(seconds: float) -> str:
    """Return a time as ASCII text, for every terminal and log."""
    return as_time(seconds).replace("µ", "u")


def intention_words(found: Intention) -> str:
    """Return the plan for one array: a line for each pass with its details, and the reason."""
    if found.is_copied:
        return "copied by one process"
    plan = found.plan
    if plan is None:
        return "nothing to plan: no element, or one"
    lines = []
    outputs = ["the intermediate"] * (len(plan.passes) - 1) + [counted(found.files, "file")]
    for number, one in enumerate(plan.passes, 1):
        read, written = size(one.read_bytes), size(one.written_bytes)
        lines.append(f"pass {number}: reads {read}, writes {written}")
        lines.append(_pass_words(one, outputs[number - 1], found.nprocs))
    return "\n".join(filter(None, [*lines, plan.reason, plan.lack]))


def _pass_words(plan: ChunkPlan, output: str, nprocs: int) -> str:
    """Return the details of a pass, in indented lines."""
    again = plan.reads / plan.source_chunks
    often = "once" if plan.reads == plan.source_chunks else f"{again:.3g} times"
    often = often if plan.source_chunks == 1 else f"each {often}"
    if plan.source.is_flat and plan.steps > 1:
        often = "cut at the ends of steps"
    shared = f" of each of {nprocs} processes" if nprocs > 1 else ""
    return (
        f"  from    {_chunks(plan.source_chunks, plan.source)}, {often}\n"
        f"  to      {_chunks(plan.chunks, plan.output)} in {output}\n"
        f"  in      {counted(plan.steps, 'step')} of {extents(plan.box)}, on "
        f"{counted(plan.threads, 'thread')}{shared}\n"
        f"  memory  {size(plan.memory_bytes)}: {plan.open_groups:,} x {size(plan.group_bytes)} "
        f"of the output at a time, {size(plan.scratch_bytes)} for the threads"
    )


def _chunks(number: int, side: Any) -> str:
    """Return the number of chunks or pieces of a side of a plan, and the size of one."""
    return f"{counted(number, 'piece' if side.is_flat else 'chunk')} of {extents(side.chunk)}"
