# SPDX-License-Identifier: BSD-3-Clause
"""Functions and index maps of the real DOLFINx, compared with DOLFINx's own exchanges of ghosts.

Run with an MPI and an mpi4py that DOLFINx is built for: `mpiexec -n 3 python -m pytest
tests/peers/test_dolfinx.py`.
"""

import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm

pytest.importorskip("dolfinx", reason="DOLFINx is not installed")
from dolfinx import cpp, fem, mesh

comm = MPI.COMM_WORLD
SPACES = [("CG", 1, 1), ("CG", 2, 1), ("CG", 1, 2), ("DG", 0, 1)]


def function_on(family, degree, width):
    """A function on triangles whose owned values are their global indices."""
    cells = mesh.create_unit_square(comm, 7, 5, ghost_mode=mesh.GhostMode.shared_facet)
    space = fem.VectorFunctionSpace if width > 1 else fem.FunctionSpace
    f = fem.Function(space(cells, (family, degree)))
    f.x.array[:] = -1
    owned = owned_values(f)
    start = f.function_space.dofmap.index_map.local_range[0] * width
    owned[:] = np.arange(start, start + len(owned))
    return f


def owned_values(f):
    dofs = f.function_space.dofmap
    return f.x.array[: dofs.index_map.size_local * dofs.index_map_bs]


@pytest.mark.parametrize(("family", "degree", "width"), SPACES)
def test_ghosts_are_updated_as_by_dolfinx(family, degree, width):
    f, theirs = (function_on(family, degree, width) for _ in range(2))
    theirs.x.scatter_forward()
    owned, with_ghosts = (dm.layout_of(f, ghosts=ghosts) for ghosts in (False, True))
    dm.Mover(dm.redistribute(owned, with_ghosts), f, f.x.array, comm=comm)()
    assert np.array_equal(f.x.array, theirs.x.array)
    assert comm.size == 1 or comm.allreduce(len(f.x.array)) > owned.domain.shape[0]


@pytest.mark.parametrize(("family", "degree", "width"), SPACES)
def test_ghosts_are_added_to_their_owners_as_by_dolfinx(family, degree, width):
    f, theirs = (function_on(family, degree, width) for _ in range(2))
    for g in (f, theirs):
        g.x.array[:] = np.arange(len(g.x.array)) + 100.0 * comm.rank
    theirs.x.scatter_reverse(cpp.la.ScatterMode.add)
    owned, with_ghosts = (dm.layout_of(f, ghosts=ghosts) for ghosts in (False, True))
    sums = np.zeros(len(owned_values(f)))
    plan = dm.redistribute(owned, with_ghosts).adjoint()
    dm.Mover(plan, f.x.array, sums, op="add", comm=comm)()
    assert np.array_equal(sums, owned_values(theirs))


@pytest.mark.parametrize(("family", "degree", "width"), SPACES)
def test_a_function_is_gathered_and_scattered(family, degree, width):
    f = function_on(family, degree, width)
    cut = dm.layout_of(f)
    whole = dm.FloorPlan([cut.domain], owners=[0], nprocs=comm.size)
    got = np.empty(cut.domain.shape) if comm.rank == 0 else {}
    dm.Mover(dm.redistribute(cut, whole), f, got, comm=comm)()
    assert comm.rank or np.array_equal(got, np.arange(cut.domain.shape[0]))

    back = function_on(family, degree, width)
    owned_values(back)[:] = -1
    dm.Mover(dm.redistribute(whole, cut), got, back, comm=comm)()
    assert np.array_equal(owned_values(back), owned_values(f))


def test_index_maps_are_layouts_of_their_indices():
    index_map = function_on("CG", 1, 1).function_space.dofmap.index_map
    owned, with_ghosts = (dm.layout_of(index_map, ghosts=g, comm=comm) for g in (False, True))
    got = np.empty(index_map.size_local + index_map.num_ghosts)
    source = np.arange(*index_map.local_range, dtype="f8")
    dm.Mover(dm.redistribute(owned, with_ghosts), source, got, comm=comm)()
    assert np.array_equal(got, np.append(source, index_map.ghosts))
