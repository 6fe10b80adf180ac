# SPDX-License-Identifier: BSD-3-Clause
"""Do pictures show the owners that the layouts name, and are they drawn for every kind of plan?"""

import matplotlib.image
import numpy as np
import pytest

import datamover as dm
from datamover.holdings import Holdings
from datamover.picture import draw


def owner_map(layout, shape):
    owner = np.empty(shape, np.int64)
    for index in np.ndindex(*shape):
        owner[index] = layout.owner_of(index)
    return owner


@pytest.mark.parametrize("grid_order", ["C", "F"])
@pytest.mark.parametrize("ranks", [None, (5, 3, 1, 0, 2, 4)])
def test_pixels_are_the_owners(grid_order, ranks):
    layout = dm.BlockCyclic(
        (9, 14), "(cyclic(2), block)", nprocs=6, grid=(2, 3), first_process=(1, 2),
        grid_order=grid_order, ranks=ranks,
    )  # fmt: skip
    expected = owner_map(layout, (9, 14))
    holdings = Holdings(layout, (0, 1))
    assert holdings.whole
    np.testing.assert_array_equal(holdings.owners, expected)
    for rank in range(6):
        np.testing.assert_array_equal(holdings.held_by(rank), expected == rank)


def test_a_face_of_a_cuboid_is_the_slice_at_zero():
    layout = dm.BlockCyclic((5, 6, 7), "(block, cyclic, cyclic(3))", nprocs=8, grid=(2, 2, 2))
    expected = owner_map(layout, (5, 6, 7))
    np.testing.assert_array_equal(Holdings(layout, (1, 2)).owners, expected[0])
    np.testing.assert_array_equal(Holdings(layout, (0, 2)).owners, expected[:, 0])


def test_one_ranks_part_shows_however_small_it_is():
    n = 1_000_000
    layout = dm.BlockCyclic((n, n), "(block, *)", nprocs=n)
    held = Holdings(layout, (0, 1), (n, n)).held_by(123_456)
    assert held.any(axis=1).sum() == 1 and held.any(axis=1).argmax() == held.shape[0] * 123_456 // n


def test_boxes_and_lists():
    domain = dm.Region((2, 3), (10, 11))
    plan = dm.FloorPlan([dm.Region((2, 3), (6, 11)), dm.Region((5, 3), (10, 11))], [1, 0], 2)
    expected = np.where(np.arange(8)[:, None] < 4, 1, 0) * np.ones((1, 8), int)
    assert tuple(plan.domain.shape) == tuple(domain.shape)
    np.testing.assert_array_equal(Holdings(plan, (0, 1)).owners, expected)
    lists = dm.IndexList((2, 3), [[0, 4], [1, 2, 5]])
    np.testing.assert_array_equal(Holdings(lists, (0, 1)).owners, [[0, 1, 1], [-1, 0, 1]])
    ranges = dm.FlatCyclic((2, 3, 2), 3, nprocs=3, owners=[2, 0])
    np.testing.assert_array_equal(Holdings(ranges, (0, 1)).owners, [[2, 2, 0], [2, 2, 0]])
    np.testing.assert_array_equal(Holdings(ranges, (1, 2)).owners, [[2, 2], [2, 0], [0, 0]])


def block_cyclic_plan(shape, before, after, nprocs):
    return dm.redistribute(
        dm.BlockCyclic(shape, before, nprocs=nprocs), dm.BlockCyclic(shape, after, nprocs=nprocs)
    )


@pytest.mark.parametrize(
    ("make_plan", "rank"),
    [
        (lambda: block_cyclic_plan((50,), "(block)", "(cyclic(3))", 4), None),
        (lambda: block_cyclic_plan((64, 64), "(block,*)", "(cyclic(2),cyclic)", 6), None),
        (lambda: block_cyclic_plan((9, 8, 7), "(block,*,*)", "(*,cyclic,block)", 3), 1),
        (lambda: block_cyclic_plan((3, 5, 6, 7), "(block,*,*,*)", "(*,*,*,block)", 20), None),
        (lambda: block_cyclic_plan((4096, 4096), "(block,*)", "(*,cyclic)", 100_000), 77),
        (lambda: dm.halo(dm.FloorPlan.uniform(dm.Region((0, 0), (9, 9)), (2, 2), 3), 1), None),
    ],
)
def test_every_kind_of_plan_is_drawn(make_plan, rank, tmp_path):
    plan = make_plan()
    path = tmp_path / "plan.png"
    draw(plan, dm.explain(plan, rank=rank), path)
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[:2] == (795, 2040)
    # Something stands in each third of the picture, and the border is empty.
    thirds = np.array_split(pixels[150:700, :, :3], 3, axis=1)
    assert all(np.ptp(third) > 0.5 for third in thirds)
    assert (pixels[-4:, :, :3] == 1).all() and (pixels[:4, :, :3] == 1).all()
