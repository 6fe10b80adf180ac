# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that are cut along the dimensions of a mesh of processes, as PyTorch and JAX do it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from datamover.layouts import FloorPlan

from .parts import Shape


def sharded(
    shape: Shape, mesh: np.ndarray, cuts: Sequence[tuple[int, int]], nprocs: int | None = None
) -> FloorPlan:
    """Return the layout with one block for each place of a mesh.

    Parameters
    ----------
    shape : tuple of int
        Of the array.
    mesh : array of int
        Ranks, of any number of dimensions.
    cuts : sequence of (int, int)
        Pairs (dimension of the mesh, dimension of the array), one after the other: each cuts what
        the ones before have left as ``torch.chunk`` does. Blocks have ceil(n / p) elements, the
        last ones fewer or none. Along other dimensions of the mesh the array is replicated.
    nprocs : int, optional
        Number of processes; by default, the largest rank + 1.

    Examples
    --------
    >>> plan = sharded((5, 4), np.array([[0, 1], [2, 3]]), [(0, 0), (1, 0)])
    >>> [(plan.region(b).lo, plan.region(b).hi) for b in range(4)]
    [((0, 0), (2, 4)), ((2, 0), (3, 4)), ((3, 0), (4, 4)), ((4, 0), (5, 4))]
    """
    places = np.stack(np.unravel_index(np.arange(mesh.size), mesh.shape), -1)
    boxes = np.zeros((mesh.size, 2, len(shape)), np.int64)
    boxes[:, 1] = shape
    for along, dim in cuts:
        start, stop = boxes[:, 0, dim].copy(), boxes[:, 1, dim].copy()
        width = -(-(stop - start) // mesh.shape[along])
        boxes[:, 0, dim] = np.minimum(start + places[:, along] * width, stop)
        boxes[:, 1, dim] = np.minimum(boxes[:, 0, dim] + width, stop)
    return FloorPlan(boxes, mesh.ravel(), nprocs or int(mesh.max()) + 1)
