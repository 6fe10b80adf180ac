# SPDX-License-Identifier: BSD-3-Clause
"""Distributed arrays of Python libraries, read by the attributes with their boxes and indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from datamover.errors import InvalidArgument, Mismatch, Unsupported
from datamover.layouts import FloorPlan

from .parts import Boxes, Indices, Shape, world


class Door(NamedTuple):
    """The functions of a door; see the package. By default, each process knows the layout."""

    takes: Callable[[Any], bool]
    describe: Callable[[Any, Shape | None], Any]
    memory: Callable[[Any], tuple[list[Any], Any]]
    comm_of: Callable[[Any, bool], Any] = lambda x, ghosts: None
    ghosted: Callable[[Any], Indices] | None = None


def _having(*names: str) -> Callable[[Any], bool]:
    return lambda x: all(hasattr(x, name) for name in names)


# mpi4py-fft: `DistArray` (also those derived from it, as shenfun's) and `Pencil`.


def _is_of_fft(x: Any) -> bool:
    return hasattr(type(x), "pencil") and (isinstance(x, np.ndarray) or hasattr(x, "substart"))


def _of_fft(x: Any, _shape: Shape | None) -> Boxes:
    pencil, components = x, ()
    if isinstance(x, np.ndarray):  # a Pencil has a method `pencil`
        array: Any = x
        pencil, components = array.pencil, tuple(array.shape[: array.rank])
    if pencil is None:  # arrays of one dimension are the same on all processes
        return Boxes(x.shape, [((0,) * x.ndim, x.shape)], replicated=True)
    # The components of a tensor come first, and are not distributed.
    start = (0,) * len(components) + tuple(pencil.substart)
    inner = zip(pencil.substart, pencil.subshape, strict=True)
    stop = components + tuple(a + n for a, n in inner)
    return Boxes(components + tuple(pencil.shape), [(start, stop)])


# pylops-mpi: `DistributedArray`, cut along one axis or the same on all processes.


def _of_pylops(x: Any, _shape: Shape | None) -> Boxes:
    shape, local = tuple(x.global_shape), tuple(x.local_shape)
    if tuple(x.local_array.shape) != local:
        raise Mismatch(f"local_array has shape {x.local_array.shape}, local_shape is {local}")
    if x.partition.name != "SCATTER":
        return Boxes(shape, [((0,) * len(shape), shape)], replicated=True)
    return Boxes(shape, [((0,) * len(shape), local)], stacked=x.axis)


# heat: `DNDarray`, split along one axis or the same on all processes. Its `__partitioned__` is not
# read: heat caches it when parts are replaced, rounds the positions to the precision of the
# elements, and locates an array that is not split on the last process only.


def _of_heat(x: Any, _shape: Shape | None) -> Boxes:
    shape, local = tuple(x.gshape), tuple(x.larray.shape)
    return Boxes(shape, [((0,) * len(shape), local)], replicated=x.split is None, stacked=x.split)


# DOLFINx: `Function` (its degrees of freedom) and `IndexMap`.


def _map_of(x: Any) -> tuple[Any, int]:
    """Give the index map, and how many degrees of freedom each of its indices has."""
    if not hasattr(x, "function_space"):
        return x, 1
    dofs = x.function_space.dofmap
    return dofs.index_map, dofs.index_map_bs


def _of_dolfinx(x: Any, _shape: Shape | None) -> Boxes:
    index_map, width = _map_of(x)
    start, stop = index_map.local_range
    return Boxes((index_map.size_global * width,), [((start * width,), (stop * width,))])


def _comm_of_dolfinx(x: Any, _ghosts: bool) -> Any:
    if hasattr(x, "function_space"):
        return x.function_space.mesh.comm
    return getattr(x, "comm", None) or world()


def _memory_of_dolfinx(x: Any) -> tuple[list[Any], int]:
    if not hasattr(x, "function_space"):
        raise InvalidArgument("an IndexMap does not have elements: pass a Function or an array")
    index_map, width = _map_of(x)
    return [x.x.array[: index_map.size_local * width]], 0


def _ghosted_of_dolfinx(x: Any) -> Indices:
    index_map, width = _map_of(x)
    nodes = np.concatenate((np.arange(*index_map.local_range), index_map.ghosts))
    owned = _of_dolfinx(x, None)
    return Indices(owned.shape, nodes[:, None] * width + np.arange(width), partners=(owned,))


# PyTorch: `DTensor`, by its mesh and placements. Ranks are those of torch.distributed.


def _of_torch(x: Any, _shape: Shape | None) -> FloorPlan:
    cuts = []
    for along, placement in enumerate(x.placements):
        kind = type(placement).__name__
        if kind == "Shard":
            cuts.append((along, range(len(x.shape))[placement.dim]))  # may count from the last
        elif kind != "Replicate":
            raise Unsupported(
                f"the placement {placement!r} does not say which elements a process holds: "
                "redistribute the DTensor to Shard or Replicate first"
            )
    return sharded(tuple(x.shape), np.array(x.device_mesh.mesh.tolist()), cuts)


# JAX: arrays with a `NamedSharding`, and the sharding itself. A block for each device of the mesh,
# whose rank is its `process_index`. JAX's arrays are immutable, so they are sources only.


def _is_of_jax(x: Any) -> bool:
    return _having("mesh", "spec")(getattr(x, "sharding", x))


def _of_jax(x: Any, shape: Shape | None) -> FloorPlan:
    sharding, shape = getattr(x, "sharding", x), getattr(x, "shape", shape)
    if shape is None:
        raise InvalidArgument("a NamedSharding needs the shape of the array: pass shape=")
    mesh, names = sharding.mesh.devices, list(sharding.mesh.axis_names)
    cuts, pieces = [], [1] * len(shape)
    for dim, axes in enumerate(sharding.spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            cuts.append((names.index(axis), dim))
            pieces[dim] *= mesh.shape[names.index(axis)]
    if any(n % p for n, p in zip(shape, pieces, strict=True)):
        raise Mismatch(f"an array of shape {tuple(shape)} cannot be cut into {pieces} equal pieces")
    ranks = np.array([device.process_index for device in mesh.flat]).reshape(mesh.shape)
    return sharded(tuple(shape), ranks, cuts)


def _memory_of_jax(x: Any) -> tuple[list[Any], int]:
    if not hasattr(x, "addressable_shards"):
        raise InvalidArgument("a NamedSharding does not have elements: pass a JAX array")
    place = {device: at for at, device in enumerate(x.sharding.mesh.devices.flat)}
    shards = sorted(x.addressable_shards, key=lambda shard: place[shard.device])
    return [shard.data for shard in shards], 0


def sharded(shape: Shape, mesh: np.ndarray, cuts: Sequence[tuple[int, int]]) -> FloorPlan:
    """Return the layout with one block for each place of a mesh of processes.

    Parameters
    ----------
    shape : tuple of int
        Of the array.
    mesh : array of int
        Ranks, of any number of dimensions; the largest is the last process.
    cuts : sequence of (int, int)
        Pairs (dimension of the mesh, dimension of the array), one after the other: each cuts what
        the ones before have left as ``torch.chunk`` does. Blocks have ceil(n / p) elements, the
        last ones fewer or none. Along other dimensions of the mesh the array is replicated.

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
    return FloorPlan(boxes, mesh.ravel(), int(mesh.max()) + 1)


#: The doors by the first word of the module of a class.
DOORS = {
    "mpi4py_fft": Door(
        _is_of_fft, _of_fft, lambda x: ([x.view(np.ndarray)], 0), lambda x, ghosts: world()
    ),
    "pylops_mpi": Door(
        _having("local_array", "partition"),
        _of_pylops,
        lambda x: ([x.local_array], 0),
        lambda x, ghosts: x.base_comm,
    ),
    "heat": Door(
        _having("larray", "split"),
        _of_heat,
        lambda x: ([x.larray], 0),
        lambda x, ghosts: x.comm.handle,
    ),
    "dolfinx": Door(
        lambda x: hasattr(x, "local_range") or hasattr(x, "function_space"),
        _of_dolfinx,
        _memory_of_dolfinx,
        _comm_of_dolfinx,
        _ghosted_of_dolfinx,
    ),
    "torch": Door(_having("device_mesh", "placements"), _of_torch, lambda x: ([x.to_local()], 0)),
    **dict.fromkeys(("jax", "jaxlib"), Door(_is_of_jax, _of_jax, _memory_of_jax)),
}
