# SPDX-License-Identifier: BSD-3-Clause
"""heat's `resplit`, `resplit_`, `redistribute_` and `get_halo`, by our movers."""

import heat as ht
import torch
from heat.core.dndarray import DNDarray
from heat.core.stride_tricks import sanitize_axis

import datamover as dm

PLACES = (ht, ht.core, ht.core.manipulations, DNDarray)
OWN_RESPLIT = ht.core.manipulations.resplit
OWN_REDISTRIBUTE, OWN_GET_HALO = DNDarray.redistribute_, DNDarray.get_halo


def exported(tensor):
    """Return a tensor that DLPack exports: older versions of PyTorch refuse truth values."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def moved(x, layout, shape):
    """Return this process's part of an array, of a shape, in another layout."""
    part = torch.empty(shape, dtype=x.larray.dtype)
    plan = dm.redistribute(dm.layout_of(x), layout)
    dm.Mover(plan, exported(x.larray.detach()), exported(part), comm=x.comm.handle)()
    return part


def replace(x, **state):
    """Set the private attributes of an array."""
    for name, value in state.items():
        setattr(x, f"_DNDarray__{name}", value)
    x.__partitions_dict__ = None


def resplit(x, axis=None):
    """Return the array split along another axis, evenly, or whole on all processes."""
    axis = sanitize_axis(x.gshape, axis)
    if axis == x.split or not x.is_distributed():
        return OWN_RESPLIT(x, axis)
    y = ht.empty(x.gshape, dtype=x.dtype, split=axis, device=x.device, comm=x.comm)
    replace(y, array=moved(x, dm.layout_of(y), y.lshape))
    return y


def resplit_(x, axis=None):
    """Split the array along another axis."""
    y = resplit(x, axis)
    replace(x, array=y.larray, split=y.split, lshape_map=None)
    return x


def redistribute_(x, lshape_map=None, target_map=None):
    """Move elements along the split axis until each part has the extent in `target_map`."""
    if not x.is_distributed():
        return
    maps = [m for m in (lshape_map, target_map) if m is not None]
    if not all(isinstance(m, torch.Tensor) and m.shape == x.lshape_map.shape for m in maps):
        OWN_REDISTRIBUTE(x, lshape_map, target_map)  # raises
    is_even, axis = target_map is None, x.split
    if is_even:
        extents = [x.comm.chunk(x.shape, axis, rank=r)[1][axis] for r in range(x.comm.size)]
        target_map = x.lshape_map
        target_map[:, axis] = torch.tensor(extents)
    elif target_map[:, axis].sum() != x.shape[axis]:
        OWN_REDISTRIBUTE(x, lshape_map, target_map)  # raises
    ends = torch.cumsum(target_map[:, axis], 0).tolist()
    splits = [ends[:-1] if d == axis else [] for d in range(x.ndim)]
    layout = dm.FloorPlan.from_splits(x.shape, splits, x.comm.size)
    shape = tuple(target_map[x.comm.rank].tolist())
    replace(x, array=moved(x, layout, shape), lshape_map=target_map, balanced=is_even)


def get_halo(x, halo_size):
    """Keep the `halo_size` elements before and after this process's part along the split axis."""
    axis, rank = x.split, x.comm.rank
    is_small = type(halo_size) is int and x.is_distributed() and halo_size > 0
    if is_small:
        extents = x.lshape_map[:, axis]
        is_small = not (halo_size > extents[extents > 0]).any()
    if not is_small:
        return OWN_GET_HALO(x, halo_size)  # does nothing, or raises
    layout = dm.layout_of(x)
    width = [halo_size if d == axis else 0 for d in range(x.ndim)]
    grown = [
        region if 0 in region.shape else region.grown(width) & layout.domain
        for region in map(layout.region, range(x.comm.size))
    ]
    parts = dm.FloorPlan(grown, owners=range(x.comm.size), nprocs=x.comm.size)
    part = moved(x, parts, grown[rank].shape)
    if x.lshape[axis] == 0:
        return
    before = layout.region(rank).lo[axis] - grown[rank].lo[axis]
    sizes = [before, x.lshape[axis], part.shape[axis] - before - x.lshape[axis]]
    halos = [halo if halo.shape[axis] else None for halo in part.split(sizes, axis)]
    replace(x, halo_prev=halos[0], halo_next=halos[2], ishalo=True)


def patch():
    """Put these in place of heat's."""
    for place in PLACES:
        place.resplit = resplit
    DNDarray.resplit_, DNDarray.redistribute_ = resplit_, redistribute_
    DNDarray.get_halo = get_halo
