# SPDX-License-Identifier: BSD-3-Clause
"""Plans of file moves by many processes to Zarr: the method, and the messages of each slab."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from datamover.arguments import integers
from datamover.counted import counted
from datamover.errors import InvalidArgument
from datamover.files import zarr
from datamover.files.formats import ArraySpec, MoveOptions, Shape, num_boxes
from datamover.files.intention import Intention, intend_to_zarr, slab_parts
from datamover.files.move_words import array_words, extents

if TYPE_CHECKING:
    from datamover.plans import MotionPlan


@dataclasses.dataclass(frozen=True)
class FilePlan:
    """What a move by several processes would do; prints as a summary.

    There are two ways, of which a move takes the one that costs less: chunk by chunk, each process
    reading what it needs by itself, or slab by slab, with a mover between.

    Attributes
    ----------
    intention : Intention
        The way that a move would take; its `plan` is None where it goes slab by slab.
    spec : ArraySpec
        Of the output.
    chunks : tuple of int
        Extents of its chunks (or shards).
    nprocs : int
    slab : tuple of int
        Extents of the slabs in which the array goes by, that way.
    slabs : int
    share_bytes : int
        That one process writes of a slab at most.
    plan : MotionPlan
        From the parts as they are read to the parts as they are written, for a whole slab.
    """

    intention: Intention
    spec: ArraySpec
    chunks: Shape
    nprocs: int
    slab: Shape
    slabs: int
    share_bytes: int
    plan: MotionPlan

    def explain(self, **said: Any) -> Any:
        """Tell messages, bytes and balance of a slab, as `datamover.explain` does."""
        from datamover import explain

        return explain(self.plan, elem_bytes=self.spec.dtype.itemsize, **said)

    def __repr__(self) -> str:
        beside = "" if self.intention.plan is None else "slab by slab it would be "
        chunks = num_boxes(self.spec.shape, self.chunks)
        return (
            f"{array_words(self.spec)} to {counted(chunks, 'chunk')} of {extents(self.chunks)}\n"
            f"{self._way()}\n"
            f"{beside}{counted(self.slabs, 'slab')} of {extents(self.slab)}, on "
            f"{counted(self.nprocs, 'process', 'processes')}; each writes at most "
            f"{counted(self.share_bytes, 'byte')} of one\n"
            f"{self.explain()}"
        )

    def _way(self) -> str:
        """Say which way a move would take."""
        plan = self.intention.plan
        if plan is None:
            return "a move goes slab by slab"
        return (
            f"a move goes chunk by chunk: {counted(plan.passes, 'pass', 'passes')}, "
            f"{counted(plan.reads, 'reading')} of "
            f"{counted(plan.source_chunks, 'chunk or piece', 'chunks or pieces')}, "
            f"{counted(plan.memory_bytes, 'byte')} of memory on a process"
        )


def plan(
    source: str | os.PathLike[str],
    *,
    chunks: Sequence[int] | None = None,
    nprocs: int = 1,
    axes: Sequence[int] | None = None,
    max_bytes: int = 1 << 28,
) -> FilePlan:
    """Say how `nprocs` processes would move an array to Zarr. Local, without MPI.

    Looks at the input's metadata only.

    Parameters
    ----------
    source : path
        .npy, Zarr, or a dataset of HDF5.
    chunks : sequence of int, optional
        Of the output; by default as of `move`.
    nprocs : int
    axes : sequence of int, optional
        Output dimension k is input dimension axes[k].
    max_bytes : int
        Memory of each process.

    Returns
    -------
    FilePlan

    Raises
    ------
    Error
        As `move`.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from datamover.files import plan
    >>> with tempfile.TemporaryDirectory() as d:
    ...     np.save(d + "/a.npy", np.zeros((64, 64, 64)))
    ...     found = plan(d + "/a.npy", chunks=(16, 16, 64), nprocs=16)
    >>> found.slabs, found.share_bytes, found.plan.incoming(0)
    (1, 131072, {0: 4096, 1: 4096, 2: 4096, 3: 4096})
    >>> print(repr(found).splitlines()[1].split(":")[0])
    a move goes chunk by chunk
    """
    if not isinstance(nprocs, int) or nprocs < 1:
        raise InvalidArgument(f"nprocs is {nprocs!r}; it must be a positive integer")
    options = MoveOptions(
        chunks=None if chunks is None else integers(chunks, "chunks"),
        axes=None if axes is None else integers(axes, "axes"),
        output_format="zarr",
        max_bytes=max_bytes,
    )
    found = slab_parts(source, options, nprocs, zarr.preview_sink)
    from datamover import FloorPlan, redistribute

    layouts = [FloorPlan(regions, owners, nprocs) for regions, owners in found.parts]
    return FilePlan(
        intend_to_zarr(source, options, nprocs),
        found.spec,
        found.chunks,
        nprocs,
        found.slab,
        num_boxes(found.spec.shape, found.slab),
        max(layouts[1].local_elems(r) for r in range(nprocs)) * found.spec.dtype.itemsize,
        redistribute(*layouts, axes=found.axes),
    )
