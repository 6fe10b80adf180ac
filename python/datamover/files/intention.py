# SPDX-License-Identifier: BSD-3-Clause
"""Dry run of a move: its plan, before anything is written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from datamover.arguments import options_of
from datamover.errors import InvalidArgument
from datamover.files import format_choice, formats, move_words, way_choice, whole, zarr_output
from datamover.files.agreement import together
from datamover.files.at_work import share_of_cores
from datamover.files.chunk_plan import ChunkPlan
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.move_job import Job, free_bytes, prepare
from datamover.files.move_plan import MovePlan
from datamover.files.whole import Way


@dataclasses.dataclass(frozen=True)
class Intention:
    """The planned effects of a move; see `intend`. Prints as a summary.

    Attributes
    ----------
    spec : ArraySpec
        Description of the output.
    plan : MovePlan or None
        None if the array has at most one element.
    files : int
        Maximum number of files of the output: chunks with only the fill value have none.
    nprocs : int
    members : dict or None
        For a whole file or group, the intention of each array, by name; `spec` is that of the
        largest.
    is_copied : bool
        Whether one process copies it, because movers do not support it.
    """

    spec: ArraySpec
    plan: MovePlan | None
    files: int
    nprocs: int = 1
    members: dict[str, Intention] | None = None
    is_copied: bool = False

    def __repr__(self) -> str:
        found = {"": self} if self.members is None else self.members
        return "\n".join(
            f"{name and name + '  '}{move_words.array_words(one.spec)}\n"
            f"{move_words.intention_words(one)}"
            for name, one in found.items()
        )

    def figures(self) -> dict[str, Any]:
        """Return everything except the output's description, as plain numbers and lists."""
        if self.members is not None:
            described = {name: one.figures() for name, one in self.members.items()}
            moved = (one.spec.nbytes for one in self.members.values() if not one.is_copied)
            figures = {"bytes": sum(moved), "files": self.files, "processes": self.nprocs}
            return figures | {"arrays": described}
        figures = {"files": self.files, "processes": self.nprocs}
        plan = self.plan
        if plan is None:
            return figures
        totals = ("reads", "read_bytes", "written_bytes", "memory_bytes")
        figures |= {name: int(getattr(plan, name)) for name in totals}
        passes = [_of_pass(one) for one in plan.passes]
        return figures | {"passes": passes, "reason": plan.reason, "lack": plan.lack}


def _of_pass(plan: ChunkPlan) -> dict[str, Any]:
    """Return the numbers of a pass."""
    names = (
        "steps threads source_chunks chunks reads memory_bytes open_groups group_bytes "
        "scratch_bytes read_bytes written_bytes"
    )
    return {
        **{name: int(getattr(plan, name)) for name in names.split()},
        "source_chunk": list(plan.source.chunk),
        "chunk": list(plan.output.chunk),
        "group": list(plan.group),
        "box": list(plan.box),
        "sweep": list(plan.order),
    }


@options_of(MoveOptions)
def intend(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: MoveOptions | None = None,
    nprocs: int = 1,
    **keywords: Any,
) -> Intention:
    """Return what `move` by `nprocs` processes of this machine would do; write nothing.

    Other parameters and errors are those of `move`. Local; reads the input's metadata.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from datamover.files import intend
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.save(d + "/a.npy", np.zeros((64, 64)))
    ...     found = intend(d + "/a.npy", d + "/b.zarr", chunks=(16, 16))
    ...     len(found.plan.passes), found.plan.passes[0].chunks, found.files
    (1, 16, 17)
    """
    options = options or formats.options_of(keywords)
    paths, output, options = way_choice.places(source, output, options)
    if not isinstance(nprocs, int) or nprocs < 1:
        raise InvalidArgument(f"nprocs is {nprocs!r}; it must be a positive integer")
    with together(None):
        way, options = way_choice.way(paths, output, options)
        is_directory = format_choice.of_output(output, options).is_directory
        free = free_bytes(None, output, options)
        with way.opened():
            way.tell_of_left_out()
            found = _of_jobs(way, output, options, nprocs, free)
            for name, spec in way.copied.items():
                found[name] = Intention(spec, None, 0, is_copied=True)
            groups = 1 + len(list(way.groups))
        way_choice.output_place(way.place, output, options, None).check()
    if way.is_one:
        return found[""]
    files = 1
    if is_directory:
        files = groups * zarr_output.metadata_files(options.zarr_format)
        files += options.zarr_format == 2  # the consolidated metadata
        files += sum(one.files for one in found.values())
    largest = max((one.spec for one in found.values()), key=lambda spec: spec.nbytes)
    return Intention(largest, None, files, nprocs, members=found)


def _of_jobs(
    way: Way, output: str, options: MoveOptions, nprocs: int, free_bytes: int
) -> dict[str, Intention]:
    """Return what would happen to the arrays that are moved."""
    jobs = whole.jobs_of(way, None, output, output, options)
    try:
        for job in jobs.values():
            job.nprocs = nprocs
        prepare(jobs.values(), share_of_cores(nprocs), free_bytes)
        return {
            name: Intention(job.spec, job.move_plan, _files(job), nprocs, None, job.is_copied)
            for name, job in jobs.items()
        }
    finally:
        for job in jobs.values():
            job.close()


def _files(job: Job) -> int:
    """Return the maximum number of files of the output."""
    if not job.format.is_directory:
        return 1
    chunks = formats.num_boxes(job.spec.shape, job.output.shown.granule)
    return chunks + zarr_output.metadata_files(job.options.zarr_format)
