# SPDX-License-Identifier: BSD-3-Clause
"""Which process would read, send and write what, if many moved an array to Zarr slab by slab?"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from datamover.errors import InvalidArgument
from datamover.files import zarr
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.transfer import slab_parts

if TYPE_CHECKING:
    from datamover.plans import MotionPlan


@dataclasses.dataclass(frozen=True)
class FilePlan:
    """What a move by several processes would do; prints as a summary.

    Attributes
    ----------
    spec : ArraySpec
        Of the output.
    chunks : tuple of int
        Extents of its chunks (or shards).
    nprocs : int
    slab : tuple of int
        Extents of the slabs in which the array goes by.
    slabs : int
    share_bytes : int
        That one process writes of a slab at most.
    plan : MotionPlan
        From the parts as they are read to the parts as they are written, for a whole slab.
    """

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
        return (
            f"{_extents(self.spec.shape)} of {self.spec.dtype} to "
            f"{math.prod(-(-n // c) for n, c in zip(self.spec.shape, self.chunks, strict=True)):,} "
            f"chunks of {_extents(self.chunks)}\n"
            f"{self.slabs:,} slab{'' if self.slabs == 1 else 's'} of {_extents(self.slab)}, "
            f"on {self.nprocs:,} processes; each writes at most {self.share_bytes:,} bytes of one\n"
            f"{self.explain()}"
        )


def _extents(box: Shape) -> str:
    return " x ".join(f"{n:,}" for n in box)


def plan(
    source: str | os.PathLike[str],
    *,
    chunks: Sequence[int] | None = None,
    nprocs: int = 1,
    axes: Sequence[int] | None = None,
    max_bytes: int = 1 << 28,
) -> FilePlan:
    """Say how `nprocs` processes would move an array to Zarr slab by slab. Local, without MPI.

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
    """
    if not isinstance(nprocs, int) or nprocs < 1:
        raise InvalidArgument(f"nprocs is {nprocs!r}; it must be a positive integer")
    options = MoveOptions(
        chunks=None if chunks is None else tuple(chunks),
        axes=None if axes is None else tuple(axes),
        output_format="zarr",
        max_bytes=max_bytes,
    )
    found = slab_parts(source, options, nprocs, zarr.preview_sink)
    from datamover import FloorPlan, redistribute

    layouts = [FloorPlan(regions, owners, nprocs) for regions, owners in found.parts]
    return FilePlan(
        found.spec,
        found.chunks,
        nprocs,
        found.slab,
        math.prod(-(-n // s) for n, s in zip(found.spec.shape, found.slab, strict=True)),
        max(layouts[1].local_elems(r) for r in range(nprocs)) * found.spec.dtype.itemsize,
        redistribute(*layouts, axes=found.axes),
    )
