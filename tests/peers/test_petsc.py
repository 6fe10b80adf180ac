# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of the real petsc4py, compared with PETSc's own moves, on any number of processes.

Run with an MPI and an mpi4py that petsc4py is built for: `mpiexec -n 3 python -m pytest
tests/peers/test_petsc.py`.
"""

import math

import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm
from datamover.errors import InvalidArgument

PETSc = pytest.importorskip("petsc4py.PETSc", reason="petsc4py is not installed")
comm = MPI.COMM_WORLD


def numbered(size):
    """A vector whose elements are their indices."""
    vec = PETSc.Vec().createMPI(size, comm=comm)
    vec.getArray()[:] = np.arange(*vec.getOwnershipRange())
    return vec


def grid_of(dims, **options):
    """A DMDA, and a vector whose elements are their indices in the grid's order."""
    da = PETSc.DMDA().create(dims, comm=comm, **options)
    natural, vec = da.createNaturalVec(), da.createGlobalVec()
    natural.getArray()[:] = np.arange(*natural.getOwnershipRange())
    da.naturalToGlobal(natural, vec)
    return da, vec


def rows_of(shape):
    """Slabs along the first dimension."""
    return dm.FloorPlan.uniform(shape, (comm.size, *[1] * (len(shape) - 1)), comm.size)


@pytest.mark.parametrize("dims", [(9,), (7, 5), (7, 6, 5)])
@pytest.mark.parametrize("dof", [1, 3])
def test_vectors_of_grids_are_moved_in_the_order_of_the_grid(dims, dof):
    da, vec = grid_of(dims, dof=dof)
    shape = (*reversed(dims), *[dof] * (dof > 1))
    cut, rows = dm.layout_of(vec, comm=comm), rows_of(shape)
    assert cut == dm.layout_of(da)
    box = rows.region(comm.rank)
    got = np.empty([b - a for a, b in zip(box.lo, box.hi, strict=True)])
    dm.Mover(dm.redistribute(cut, rows), vec, got, comm=comm)()
    whole = np.arange(float(math.prod(shape))).reshape(shape)
    assert np.array_equal(got, whole[box.lo[0] : box.hi[0]])

    back = da.createGlobalVec()
    dm.Mover(dm.redistribute(rows, cut), got, back, comm=comm)()
    back.stateIncrease()
    assert back.equal(vec)


@pytest.mark.parametrize("dims", [(12,), (12, 9), (12, 9, 8)])
@pytest.mark.parametrize("dof", [1, 2])
@pytest.mark.parametrize("boundary", ["none", "periodic"])
@pytest.mark.parametrize("stencil", ["box", "star"])
def test_local_vectors_get_the_ghosts_that_petsc_gives_them(dims, dof, boundary, stencil):
    da, vec = grid_of(
        dims, dof=dof, stencil_width=2, boundary_type=[boundary] * len(dims), stencil_type=stencil
    )
    at_once, in_place, theirs = (da.createLocalVec() for _ in range(3))
    for local in (at_once, in_place, theirs):
        local.set(-1)
    da.globalToLocal(vec, theirs)

    cut = dm.layout_of(vec, comm=comm)
    many = dof > 1
    ghosts = dm.halo(
        cut,
        (2,) * len(dims) + (0,) * many,
        periodic=(boundary == "periodic",) * len(dims) + (False,) * many,
        corners=stencil == "box",
    )
    copy = dm.redistribute(cut, cut)
    dm.Mover(copy + ghosts, vec, at_once, comm=comm)()
    assert np.array_equal(at_once.getArray(), theirs.getArray())

    dm.Mover(copy, vec, in_place, comm=comm)()
    dm.Mover(ghosts, in_place, in_place, comm=comm)()
    assert np.array_equal(in_place.getArray(), theirs.getArray())


def test_plain_vectors_are_gathered():
    vec = numbered(11)
    whole = dm.FloorPlan([dm.Region((0,), (11,))], owners=[0], nprocs=comm.size)
    got = np.empty(11) if comm.rank == 0 else {}
    dm.Mover(dm.redistribute(dm.layout_of(vec, comm=comm), whole), vec, got, comm=comm)()
    assert comm.rank or np.array_equal(got, np.arange(11))


def test_index_sets_and_maps_select_their_elements():
    vec = numbered(20)
    every = np.arange(comm.rank, 20, comm.size, dtype=PETSc.IntType)
    chosen = PETSc.IS().createGeneral(every, comm=comm)
    mapped = PETSc.LGMap().create(every[::-1], comm=comm)
    for indices in (chosen, mapped):
        got = np.empty(len(every))
        wanted = dm.layout_of(indices, shape=(20,), comm=comm)
        dm.Mover(dm.redistribute(dm.layout_of(vec), wanted), vec, got, comm=comm)()
        assert np.array_equal(got, indices.getIndices())


def test_vectors_with_ghosts_are_updated():
    ghosts = np.array([(5 * comm.rank + at) % (5 * comm.size) for at in (5, 9)], PETSc.IntType)
    vec = PETSc.Vec().createGhost(ghosts, (5, None), comm=comm)
    vec.getArray()[:] = np.arange(*vec.getOwnershipRange())
    owned, with_ghosts = (dm.layout_of(vec, ghosts=g, comm=comm) for g in (False, True))
    with vec.localForm() as form:
        dm.Mover(dm.redistribute(owned, with_ghosts), vec, form.getArray(), comm=comm)()
        wanted = np.append(np.arange(*vec.getOwnershipRange()), ghosts)
        assert np.array_equal(form.getArray(), wanted)


def test_destroyed_vectors_are_refused():
    _, vec = grid_of((4, 4))
    vec.destroy()
    with pytest.raises(InvalidArgument, match="the Vec was destroyed"):
        dm.layout_of(vec, comm=comm)
