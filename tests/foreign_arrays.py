# SPDX-License-Identifier: BSD-3-Clause
"""Distributed arrays as other libraries have them, with the attributes that those document.

Each class is found by its name and that of its library, as the real one is.
"""

import math
from types import SimpleNamespace

import numpy as np


def of(module, name=None):
    """Put a class into a module of a library, under the name that it has there."""

    def placed(kind):
        kind.__module__, kind.__name__ = module, name or kind.__name__
        return kind

    return placed


@of("petsc4py.PETSc")
class Vec:
    """A vector of which every process has the ranges of all; of a grid, if `grid` is one."""

    def __init__(self, comm, ends, values, grid=None, ghosts=()):
        self.comm = SimpleNamespace(tompi4py=lambda: comm)
        self.ends, self.values, self.grid, self.rank = ends, values, grid, comm.rank
        self.ghosts, self.exists = ghosts, True

    def __bool__(self):
        return self.exists

    def destroy(self):
        self.exists = False

    def getOwnershipRanges(self):
        return np.asarray(self.ends, np.int32)

    def getSize(self):
        return self.ends[-1]

    def getArray(self):
        assert self.exists, "PETSc would crash"
        return self.values

    def query(self, name):
        return self.grid if name == "__PETSc_dm" else None

    def getDM(self):
        assert self.grid is None, "petsc4py 3.18 would destroy the DM"
        return NoDM()

    def getLGMap(self):
        own = np.arange(self.ends[self.rank], self.ends[self.rank + 1])
        return SimpleNamespace(getIndices=lambda: np.append(own, self.ghosts).astype(np.int32))


class NoDM:
    def __bool__(self):
        return False


@of("petsc4py.PETSc")
class DMDA:
    """A grid (x, y, z), cut into `widths` along each; ranks go along x first."""

    def __init__(self, rank, widths, dof=1, stencil=1):
        self.widths, self.dof, self.stencil = (
            [np.asarray(w, np.int32) for w in widths],
            dof,
            stencil,
        )
        self.place = np.unravel_index(rank, [len(w) for w in widths], order="F")

    def getType(self):
        return "da"

    def getDof(self):
        return self.dof

    def getSizes(self):
        return tuple(int(w.sum()) for w in self.widths)

    def getOwnershipRanges(self):
        return tuple(self.widths)

    def getRanges(self):
        ends = [np.append(0, np.cumsum(w)) for w in self.widths]
        return tuple((int(e[p]), int(e[p + 1])) for e, p in zip(ends, self.place, strict=True))

    def getGhostRanges(self):
        sides = zip(self.getRanges(), self.getSizes(), strict=True)
        return tuple((max(a - self.stencil, 0), min(b + self.stencil, n)) for (a, b), n in sides)


@of("petsc4py.PETSc")
class IS:
    def __init__(self, comm, indices):
        self.comm = SimpleNamespace(tompi4py=lambda: comm)
        self.indices = np.asarray(indices, np.int32)

    def getIndices(self):
        return self.indices


@of("dolfinx.cpp.common")
class IndexMap:
    def __init__(self, comm, local_range, size_global, ghosts):
        self.comm, self.local_range, self.size_global = comm, local_range, size_global
        self.size_local, self.ghosts = local_range[1] - local_range[0], np.asarray(ghosts, np.int64)


@of("dolfinx.fem.function")
class Function:
    def __init__(self, index_map, width):
        dofs = SimpleNamespace(index_map=index_map, index_map_bs=width)
        self.function_space = SimpleNamespace(
            dofmap=dofs, mesh=SimpleNamespace(comm=index_map.comm)
        )
        nodes = index_map.size_local + len(index_map.ghosts)
        self.x = SimpleNamespace(array=np.zeros(nodes * width))


@of("mpi4py_fft.pencil")
class Pencil:
    """A box at `substart`; the communicators of the dimensions are not looked at."""

    pencil = None  # the real one has a method of this name

    def __init__(self, shape, substart, subshape):
        self.shape, self.substart, self.subshape = tuple(shape), tuple(substart), tuple(subshape)
        self.subcomm = ()


@of("mpi4py_fft.distarray")
class DistArray(np.ndarray):
    """The array of a pencil, with `rank` dimensions of components before it."""

    pencil = property(lambda self: self._p0)
    rank = property(lambda self: self._rank)

    @classmethod
    def make(cls, pencil, components=(), dtype=float):
        array = np.zeros((*components, *pencil.subshape), dtype).view(cls)
        array._p0, array._rank = pencil, len(components)
        return array


@of("pylops_mpi.DistributedArray")
class DistributedArray:
    def __init__(self, comm, shape, axis, local, partition="SCATTER"):
        self.base_comm, self.global_shape, self.axis = comm, tuple(shape), axis
        self.local_array, self.local_shape = local, local.shape
        self.partition = SimpleNamespace(name=partition)


@of("heat.core.dndarray")
class DNDarray:
    def __init__(self, comm, shape, split, local):
        self.comm, self.gshape, self.split = SimpleNamespace(handle=comm), tuple(shape), split
        self.larray = local

    @property
    def __partitioned__(self):
        raise AssertionError("of a DNDarray it is not always right")


@of("torch.distributed.tensor._api")
class DTensor:
    def __init__(self, shape, mesh, placements, local):
        self.shape, self.placements, self.local = shape, placements, local
        self.device_mesh = SimpleNamespace(mesh=np.asarray(mesh))

    def to_local(self):
        return self.local


class Shard:
    def __init__(self, dim):
        self.dim = dim


class Replicate:
    pass


class Partial:
    pass


class NamedSharding:
    """Devices, of which each has a process, and the names of dimensions of the mesh."""

    def __init__(self, devices, axis_names, spec):
        self.mesh = SimpleNamespace(devices=devices, axis_names=axis_names)
        self.spec = spec


@of("jaxlib._jax", "ArrayImpl")
class JaxArray:
    def __init__(self, shape, sharding, shards):
        self.shape, self.sharding, self.addressable_shards = shape, sharding, shards


of("jax._src.named_sharding")(NamedSharding)


class Partitioned:
    """An array of a library with `__partitioned__`; all processes know the boxes of all."""

    def __init__(self, shape, boxes, owners, data, rank, /, **more):
        keys = [(at, *(0,) * (len(shape) - 1)) for at in range(len(boxes))]
        own = [key for key, owner in zip(keys, owners, strict=True) if owner == rank]
        local = dict(zip(own, data, strict=True))
        self.__partitioned__ = {
            "shape": tuple(shape),
            "partition_tiling": (len(boxes), *(1,) * (len(shape) - 1)),
            "partitions": {
                key: {
                    "start": tuple(lo),
                    "shape": tuple(b - a for a, b in zip(lo, hi, strict=True)),
                    "data": local.get(key),
                    "location": [owner],
                }
                for key, (lo, hi), owner in zip(keys, boxes, owners, strict=True)
            },
            "locals": own[::-1],
            "get": lambda part: part,
        } | more


class Exported:
    """An array of a library with `__distarray__`."""

    def __init__(self, array, *dims, version="0.10.0"):
        self.array, self.dims, self.version = array, dims, version

    def __distarray__(self):
        return {"__version__": self.version, "buffer": self.array, "dim_data": self.dims}


def box_values(shape, lo, hi):
    """The flat indices of a box of an array, as its elements."""
    whole = np.arange(math.prod(shape), dtype=float).reshape(shape)
    return whole[tuple(map(slice, lo, hi))].copy()
