# SPDX-License-Identifier: BSD-3-Clause
"""Panel broadcasts, levels of grids, strides and colored halos: move the same elements as NumPy."""

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]
NOTHING = -1.0


def filled(comm, layout, whole, origin=None):
    """An array of the library's that holds a global array whose first index is `origin`."""
    array = dm.Array(layout, "f8", comm=comm)
    origin = origin or (0,) * whole.ndim
    for block, grid in array.grids():
        if isinstance(layout, dm.BlockCyclic):
            grid[...] = whole[np.ix_(*layout.global_indices(comm.rank))]
        else:
            offset = tuple(-o for o in origin)
            region = layout.region(block)
            grid[...] = whole[region.shifted(offset).slices()] if not region.empty else 0
    return array


def grid_of_processes(comm, dims):
    """The processes as a grid as square as their number lets it be."""
    rows = max(p for p in range(1, comm.size + 1) if comm.size % p == 0 and p * p <= comm.size)
    return (rows, comm.size // rows) + (1,) * (dims - 2)


@pytest.mark.parametrize("sizes", [(7, 5, 9, 2), (24, 24, 24, 4), (5, 1, 3, 3), (1, 13, 17, 5)])
def test_summa(comm, sizes):
    """The product of two matrices of any shape, panel by panel, is NumPy's."""
    m, n, k, width = sizes
    rng = np.random.default_rng(sizes)
    a, b = rng.integers(-9, 10, (m, k)).astype("f8"), rng.integers(-9, 10, (k, n)).astype("f8")
    options = {"nprocs": comm.size, "grid": grid_of_processes(comm, 2)}
    tiles = "(cyclic(2), cyclic(3))"
    a_all = filled(comm, dm.BlockCyclic(a.shape, tiles, **options), a)
    b_all = filled(comm, dm.BlockCyclic(b.shape, tiles, **options), b)
    c = dm.Array(dm.BlockCyclic((m, n), tiles, **options), "f8", comm=comm)
    c.local[...] = 0
    for lo in range(0, k, width):
        hi = min(lo + width, k)
        columns = dm.advanced.panel_broadcast(a_all.layout, dm.Region((0, lo), (m, hi)), along=1)
        rows = dm.advanced.panel_broadcast(b_all.layout, dm.Region((lo, 0), (hi, n)), along=0)
        a_panel = dm.Array(columns.destination, "f8", comm=comm)
        b_panel = dm.Array(rows.destination, "f8", comm=comm)
        dm.Mover([(columns, a_all, a_panel), (rows, b_all, b_panel)])()
        c.local[...] += a_panel.local @ b_panel.local
    want = (a @ b)[np.ix_(*c.layout.global_indices(comm.rank))]
    np.testing.assert_array_equal(c.local, want)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_panels(comm, rng, cases, transport):
    for _ in range(8 * cases):
        shape = drawn.shape(rng, elems=500)
        layout = drawn.block_cyclic(rng, shape, comm.size)
        along = int(rng.integers(0, len(shape)))
        lo = [int(rng.integers(0, n)) for n in shape]
        hi = [int(rng.integers(x + 1, n + 1)) for x, n in zip(lo, shape, strict=True)]
        plan = dm.advanced.panel_broadcast(layout, dm.Region(lo, hi), along)
        whole = np.arange(np.prod(shape), dtype="f8").reshape(shape)
        a, panel = filled(comm, layout, whole), dm.Array(plan.destination, "f8", comm=comm)
        if drawn.impossible(plan, transport):
            continue
        for _, grid in panel.grids():
            grid[...] = NOTHING
        dm.Mover(plan, a, panel, transport=transport)()
        if not a.blocks:
            assert not panel.blocks
            continue
        # What all processes of this row or column of the grid hold together.
        inside = np.full(shape, NOTHING)
        box = tuple(slice(x, y) for x, y in zip(lo, hi, strict=True))
        inside[box] = whole[box]
        held = list(layout.global_indices(comm.rank))
        held[along] = np.arange(lo[along], hi[along])
        np.testing.assert_array_equal(panel.local, inside[np.ix_(*held)])


def level(rng, domain, nprocs):
    """Blocks of any sizes that cover a domain, on some of the processes."""
    tile = [int(rng.integers(1, n + 1)) for n in domain.shape]
    tiles = dm.FloorPlan.tiles(domain, tile, nprocs, str(rng.choice(["block", "cyclic"])))
    owning = int(rng.integers(1, nprocs + 1))
    return dm.FloorPlan(tiles.regions, tiles.owners % owning, nprocs)


def values_on(whole, region, domain, wraps):
    """A global array on a region, around the ends where it wraps and NOTHING beyond others."""
    axes = [np.arange(lo, hi) for lo, hi in zip(region.lo, region.hi, strict=True)]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1) - domain.lo
    values = whole[tuple(np.moveaxis(places % whole.shape, -1, 0))]
    beyond = (places < 0) | (places >= whole.shape)
    values[(beyond & ~np.array(wraps)).any(axis=-1)] = NOTHING
    return values


def check_level(comm, plan, domain, wraps, transport):
    whole = np.arange(domain.size, dtype="f8").reshape(domain.shape)
    source = filled(comm, plan.source, whole, tuple(domain.lo))
    needed = dm.Array(plan.destination, "f8", comm=comm)
    for _, grid in needed.grids():
        grid[...] = NOTHING
    if drawn.impossible(plan, transport):
        return
    dm.Mover(plan, source, needed, transport=transport)()
    for block, grid in needed.grids():
        want = values_on(whole, plan.destination.region(block), domain, wraps)
        np.testing.assert_array_equal(grid, want)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_levels(comm, rng, cases, transport):
    for _ in range(6 * cases):
        dims = int(rng.integers(1, 4))
        factor = [int(f) for f in rng.integers(2, 5, dims)]
        lo = rng.integers(-3, 4, dims)
        hi = lo + rng.integers(1, 5, dims)
        coarse_domain = dm.Region(lo.tolist(), hi.tolist())
        fine_domain = dm.Region((lo * factor).tolist(), (hi * factor).tolist())
        coarse, fine = level(rng, coarse_domain, comm.size), level(rng, fine_domain, comm.size)
        width = rng.integers(0, 3, (dims, 2)).tolist()
        wraps = rng.integers(0, 2, dims).astype(bool).tolist()
        plan = dm.advanced.prolongation(coarse, fine, factor, width, periodic=wraps)
        check_level(comm, plan, coarse_domain, wraps, transport)
        plan = dm.advanced.restriction(fine, coarse, factor, width, periodic=wraps)
        check_level(comm, plan, fine_domain, wraps, transport)


def test_two_grid_interpolation(comm):
    """A restricted and a prolonged field are what NumPy makes of the whole arrays."""
    n, factor = 24, 3
    fine = dm.FloorPlan.uniform(dm.Region((0, 0), (n, n)), grid_of_processes(comm, 2), comm.size)
    coarse = dm.FloorPlan.uniform(dm.Region((0, 0), (n // factor,) * 2), (1, 1), comm.size)
    whole = np.random.default_rng(3).integers(0, 100, (n, n)).astype("f8")
    u, mean = filled(comm, fine, whole), dm.Array(coarse, "f8", comm=comm)

    down = dm.advanced.restriction(fine, coarse, factor)
    above = dm.Array(down.destination, "f8", comm=comm)
    dm.Mover(down, u, above)()
    for block, grid in mean.grids():
        rows, columns = grid.shape
        grid[...] = above[block].reshape(rows, factor, columns, factor).sum(axis=(1, 3))
    sums = whole.reshape(n // factor, factor, n // factor, factor).sum(axis=(1, 3))
    for _, grid in mean.grids():
        np.testing.assert_array_equal(grid, sums)

    up = dm.advanced.prolongation(coarse, fine, factor)
    beneath = dm.Array(up.destination, "f8", comm=comm)
    dm.Mover(up, mean, beneath)()
    for block, grid in u.grids():
        region, under = fine.region(block), up.destination.region(block)
        index = [
            np.arange(lo, hi) // factor - first
            for lo, hi, first in zip(region.lo, region.hi, under.lo, strict=True)
        ]
        grid[...] = beneath[block][np.ix_(*index)]
    for block, grid in u.grids():
        want = np.kron(sums, np.ones((factor, factor)))[fine.region(block).slices()]
        np.testing.assert_array_equal(grid, want)

    # The other way round: sums of what lies in each fine block, added up where the coarse ones are.
    for block, grid in beneath.grids():
        region, under = fine.region(block), up.destination.region(block)
        grid[...] = 0
        for i in range(region.lo[0], region.hi[0]):
            for j in range(region.lo[1], region.hi[1]):
                grid[i // factor - under.lo[0], j // factor - under.lo[1]] += whole[i, j]
    for _, grid in mean.grids():
        grid[...] = 0
    dm.Mover(up.adjoint(), beneath, mean, op="add")()
    for _, grid in mean.grids():
        np.testing.assert_array_equal(grid, sums)


def test_missing_coarse_points_are_told(comm):
    coarse = dm.FloorPlan([dm.Region(0, 2), dm.Region(4, 8)], [0, 0], comm.size)
    fine = dm.FloorPlan.uniform(dm.Region(0, 16), comm.size, comm.size)
    with pytest.raises(dm.Mismatch, match=r"needs the points \[2:[34]\).* coarse level"):
        dm.advanced.prolongation(coarse, fine, 2)
    dm.advanced.prolongation(coarse, fine, 2, partial=True)
    with pytest.raises(dm.errors.InvalidArgument, match="factor"):
        dm.advanced.prolongation(coarse, fine, 1)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_strided_sections(comm, rng, cases, transport):
    for _ in range(10 * cases):
        dims = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 9, dims))
        ranks = rng.integers(0, comm.size, 2).tolist()
        blocks = dm.FloorPlan([dm.Region((0,) * dims, shape)] * 2, ranks, comm.size)
        box = [sorted(int(x) for x in rng.integers(0, n + 1, 2)) for n in shape]
        step = [int(s) for s in rng.integers(1, 4, dims)]
        source = tuple(slice(lo, hi, s) for (lo, hi), s in zip(box, step, strict=True))
        whole = np.arange(np.prod(shape), dtype="f8").reshape(shape)
        count = whole[source].shape
        if 0 in count:
            continue
        to_step = [
            int(rng.integers(1, (n - 1) // (c - 1) + 1)) if c > 1 else 1
            for n, c in zip(shape, count, strict=True)
        ]
        to_hi = [(c - 1) * s + 1 for c, s in zip(count, to_step, strict=True)]
        destination = tuple(slice(0, hi, s) for hi, s in zip(to_hi, to_step, strict=True))
        plan = dm.MotionPlan(blocks, blocks)
        region = dm.Region([lo for lo, _ in box], [hi for _, hi in box])
        to_region = dm.Region((0,) * dims, to_hi)
        plan.add_section(0, region, 1, to_region, source_step=step, destination_step=to_step)
        if drawn.impossible(plan, transport):
            continue
        a, b = filled(comm, blocks, whole), dm.Array(blocks, "f8", comm=comm)
        for _, grid in b.grids():
            grid[...] = NOTHING
        dm.Mover(plan, a, b, transport=transport, check=True)()
        want = np.full(shape, NOTHING)
        want[destination] = whole[source]
        if 1 in b.blocks:
            np.testing.assert_array_equal(b[1], want)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_halos_of_one_color(comm, rng, cases, transport):
    for _ in range(6 * cases):
        dims = int(rng.integers(1, 4))
        shape = [int(n) for n in rng.integers(2, 9, dims)]
        domain = dm.Region((0,) * dims, shape)
        tile = [int(rng.integers(1, n + 1)) for n in shape]
        blocks = dm.FloorPlan.tiles(domain, tile, comm.size, "cyclic")
        wraps = [n % 2 == 0 and bool(rng.integers(2)) for n in shape]
        whole = np.arange(domain.size, dtype="f8").reshape(shape)
        u = dm.Array(blocks, "f8", ghost=1, comm=comm)
        movers = []
        for color in range(2):
            plan = dm.halo(blocks, 1, periodic=wraps, corners=False, colors=2, color=color)
            if not drawn.impossible(plan, transport):
                movers.append((color, dm.Mover(plan, u, u, transport=transport)))
        for color, mover in movers:
            for block, grid in u.grids():
                grid[...] = NOTHING
                u.interior(block)[...] = whole[blocks.region(block).slices()]
            mover()
            for block, grid in u.grids():
                region = blocks.region(block)
                around = region.grown((1,) * dims)
                want = values_on(whole, around, domain, wraps)
                places = np.indices(want.shape).reshape(dims, -1).T.reshape((*want.shape, dims))
                places = places + np.array(around.lo)
                beyond = (places < region.lo) | (places >= region.hi)
                ghosts = beyond.sum(axis=-1)
                # Even extents wrap, so that an image has the color of its interior.
                fills = (ghosts == 1) & (places.sum(axis=-1) % 2 == color)
                want[(ghosts > 0) & ~fills] = NOTHING
                np.testing.assert_array_equal(grid, want)


def test_red_black_gauss_seidel(comm):
    """Sweeps that exchange one color at a time give what they give on one process."""
    n, sweeps = 12, 3
    domain = dm.Region((0, 0), (n, n))
    blocks = dm.FloorPlan.uniform(domain, grid_of_processes(comm, 2), comm.size)
    start = np.random.default_rng(1).random((n, n))
    u = dm.Array(blocks, "f8", ghost=1, comm=comm)
    for block, grid in u.grids():
        grid[...] = 0
        u.interior(block)[...] = start[blocks.region(block).slices()]
    exchanges = [
        dm.Mover(dm.halo(blocks, 1, corners=False, colors=2, color=c), u, u) for c in range(2)
    ]

    def relax(grid, lo, color):
        i, j = np.indices(np.array(grid.shape) - 2)
        here = (i + j + lo[0] + lo[1]) % 2 == color
        inner = grid[1:-1, 1:-1]
        mean = (grid[:-2, 1:-1] + grid[2:, 1:-1]) + (grid[1:-1, :-2] + grid[1:-1, 2:])
        inner[here] = mean[here] / 4

    want = np.pad(start, 1)
    exchanges[1]()
    for _ in range(sweeps):
        for color in range(2):
            relax(want, (0, 0), color)
            for block, grid in u.grids():
                relax(grid, blocks.region(block).lo, color)
            exchanges[color]()
    for block in u.blocks:
        region = blocks.region(block)
        np.testing.assert_array_equal(u.interior(block), want[1:-1, 1:-1][region.slices()])
