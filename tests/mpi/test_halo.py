# SPDX-License-Identifier: BSD-3-Clause
"""Halos: ghosts equal the interiors of neighbors and their periodic images."""

import drawn
import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]
NOTHING = -1.0


def wrapped(whole, region, domain, periodic):
    """The values on a region of index space; NOTHING outside the domain where it does not wrap."""
    axes = [np.arange(lo, hi) for lo, hi in zip(region.lo, region.hi, strict=True)]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1) - domain.lo
    values = whole[tuple(np.moveaxis(places % whole.shape, -1, 0))]
    if not periodic:
        values[((places < 0) | (places >= whole.shape)).any(axis=-1)] = NOTHING
    return values


def outside_dims(grid, width):
    """In how many dimensions each point of a grid lies outside the interior."""
    count = np.zeros(grid.shape, int)
    for d, (lower, upper) in enumerate(width):
        x = np.arange(grid.shape[d])
        outside = (x < lower) | (x >= grid.shape[d] - upper)
        count += outside.reshape([-1 if k == d else 1 for k in range(grid.ndim)])
    return count


def check_halo(comm, floorplan, domain, width, periodic, corners, transport):
    plan = dm.halo(floorplan, width, periodic=domain if periodic else None, corners=corners)
    array = dm.Array(floorplan, "f8", ghost=width, comm=comm)
    whole = np.arange(domain.size, dtype="f8").reshape(domain.shape)
    for block, grid in array.grids():
        grid[...] = NOTHING
        array.interior(block)[...] = wrapped(whole, floorplan.region(block), domain, True)
    if drawn.impossible(plan, transport):
        return
    mover = dm.Mover(plan, array, array, transport=transport)
    for _ in range(2):
        mover()
    lower, upper = zip(*width, strict=True)
    for block, grid in array.grids():
        region = floorplan.region(block)
        if region.empty:
            continue
        want = wrapped(whole, region.grown(lower, upper), domain, periodic)
        if not corners:
            want[outside_dims(grid, width) > 1] = NOTHING
        np.testing.assert_array_equal(grid, want)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_periodic_sizes_of_few_blocks(comm, rng, transport, corners, blocks):
    for dims in (1, 2, 3):
        domain = dm.Region(
            (0,) * dims, [int(rng.integers(blocks, blocks + 5)) for _ in range(dims)]
        )
        floorplan = dm.FloorPlan.uniform(domain, (blocks,) * dims, comm.size)
        width = [(int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in range(dims)]
        for periodic in (True, False):
            check_halo(comm, floorplan, domain, width, periodic, corners, transport)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_halos(comm, rng, cases, transport):
    for _ in range(cases * 10):
        shape = drawn.shape(rng, int(rng.integers(1, 4)), 400)
        offset = [int(rng.integers(-5, 6)) for _ in shape]
        domain = dm.Region(offset, [o + n for o, n in zip(offset, shape, strict=True)])
        tile = [int(rng.integers(max(1, n // 3), n + 1)) for n in shape]
        floorplan = dm.FloorPlan.tiles(domain, tile, comm.size, "cyclic")
        width = [(int(rng.integers(0, n + 2)), int(rng.integers(0, n + 2))) for n in shape]
        check_halo(comm, floorplan, domain, width, bool(rng.integers(2)), True, transport)


def test_ghosts_go_back_and_are_added(comm):
    """A reversed halo with op="add" sums every copy of a point where it belongs."""
    n = 2 * comm.size
    domain = dm.Region((0,), (n,))
    floorplan = dm.FloorPlan.uniform(domain, (comm.size,), comm.size)
    array = dm.Array(floorplan, "i8", ghost=1, comm=comm)
    array.local[...] = 1
    plan = dm.halo(floorplan, 1, periodic=domain).reversed()
    dm.Mover(plan, array, array, op="add")()
    np.testing.assert_array_equal(array.interior(array.blocks[0]), [2, 2])


def test_ghosts_too_shallow_are_an_error_everywhere(comm):
    floorplan = dm.FloorPlan.uniform(dm.Region((0,), (4 * comm.size,)), (comm.size,), comm.size)
    array = dm.Array(floorplan, "f8", ghost=1, comm=comm)
    array.local[...] = 7
    plan = dm.halo(floorplan, 2, periodic=True)
    with pytest.raises(dm.errors.OutOfRange):
        dm.Mover(plan, array, array)
    assert (array.local == 7).all()


def test_halo_of_a_block_cyclic_layout(comm, rng, cases):
    for _ in range(cases * 5):
        shape = drawn.shape(rng, int(rng.integers(1, 4)), 400)
        words = ["block" if rng.integers(2) else "*" for _ in shape]
        if "block" not in words:
            words[0] = "block"
        layout = dm.BlockCyclic(shape, f"({', '.join(words)})", comm.size)
        width = [(int(rng.integers(0, n + 2)), int(rng.integers(0, n + 2))) for n in shape]
        domain = dm.Region.from_shape(shape)
        periodic = bool(rng.integers(2))
        array = dm.Array(layout, "f8", ghost=width, comm=comm)
        whole = np.arange(domain.size, dtype="f8").reshape(shape)
        indices = layout.global_indices(comm.rank)
        empty = any(len(i) == 0 for i in indices)
        for block, grid in array.grids():
            grid[...] = NOTHING
            array.interior(block)[...] = whole[np.ix_(*indices)]
        dm.Mover(dm.halo(layout, width, periodic=periodic), array, array, check=True)()
        if empty:
            continue
        held = dm.Region([i[0] for i in indices], [i[-1] + 1 for i in indices])
        lower, upper = zip(*width, strict=True)
        want = wrapped(whole, held.grown(lower, upper), domain, periodic)
        np.testing.assert_array_equal(array.local, want)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_shared_nodes_are_summed_and_told_in_place(comm, transport):
    """Blocks that share nodes: the adjoint plan sums contributions, the plan tells the sums."""
    blocks = 2 * comm.size
    regions = [dm.Region((3 * i, 0), (3 * i + 4 + i % 2 * 2, 5)) for i in range(blocks)]
    layout = dm.FloorPlan(regions, [i % comm.size for i in range(blocks)], comm.size)
    array = dm.Array(layout, "i8", comm=comm)
    tell = dm.redistribute(layout, layout)
    if drawn.impossible(tell, transport):
        pytest.skip("the transport does not reach over nodes")
    expected = np.zeros(layout.domain.shape, int)
    for i, region in enumerate(regions):
        expected[region.slices()] += i + 1
    for block, grid in array.grids():
        grid[...] = block + 1
    dm.Mover(tell.adjoint(), array, array, op="add", transport=transport, check=True)()
    dm.Mover(tell, array, array, transport=transport, check=True)()
    for block, grid in array.grids():
        np.testing.assert_array_equal(grid, expected[regions[block].slices()])


@pytest.mark.parametrize("transport", ["auto", "staged"])
@pytest.mark.parametrize("edge", [8, 20, 32, 65])
def test_ghosts_of_a_few_pages_go_through_slots(comm, edge, transport):
    """From less than a page to more than is streamed; in lines that begin nowhere in particular."""
    domain = dm.Region((0, 0, 0), (edge * comm.size, edge, edge + 1))
    floorplan = dm.FloorPlan.uniform(domain, (comm.size, 1, 1), comm.size)
    check_halo(comm, floorplan, domain, [(1, 1)] * 3, True, True, transport)
    if comm.size == 1 or transport != "auto" or drawn.NODE_SIZE:
        return
    array = dm.Array(floorplan, "f8", ghost=1, comm=comm)
    if not comm.allreduce(int(array.shared), op=MPI.MIN):
        return
    used = {
        p["transport"]
        for p in dm.Mover(dm.halo(floorplan, 1, periodic=domain), array, array).explain()
    } - {"self"}
    sides = 2 if comm.size == 2 else 1  # faces to the same process go in one message
    bytes_sent = sides * (edge + 2) * (edge + 3) * 8
    assert used == {"staged" if 8 << 10 <= bytes_sent <= 48 << 10 else "shared"}


def test_several_arrays_exchange_ghosts_through_slots(comm):
    """Each begins anew in the message; the two types have elements of different lengths."""
    edge = 16
    domain = dm.Region((0, 0, 0), (edge * comm.size, edge, edge))
    floorplan = dm.FloorPlan.uniform(domain, (comm.size, 1, 1), comm.size)
    whole = np.arange(domain.size).reshape(domain.shape)
    arrays = [dm.Array(floorplan, dtype, ghost=1, comm=comm) for dtype in ("f4", "i8", "i2")]
    mover = dm.Mover(dm.halo(floorplan, 1, periodic=domain), arrays, arrays)
    for step in range(3):
        for a in arrays:
            for block, grid in a.grids():
                grid[...] = NOTHING
                a.interior(block)[...] = wrapped(
                    whole + step, floorplan.region(block), domain, True
                )
        mover()
        for a in arrays:
            for block, grid in a.grids():
                region = floorplan.region(block).grown((1, 1, 1), (1, 1, 1))
                want = wrapped(whole + step, region, domain, True).astype(a.dtype)
                np.testing.assert_array_equal(grid, want)
