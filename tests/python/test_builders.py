# SPDX-License-Identifier: BSD-3-Clause
"""Builders of plans: accept the documented arguments and reject invalid ones."""

import pickle

import numpy as np
import pytest

import datamover as dm

HUGE = 2**63 - 1
TILES = dm.BlockCyclic((24, 32), "(cyclic(4), cyclic(8))", nprocs=6, grid=(2, 2))
FINE = dm.FloorPlan.uniform(dm.Region((0, 0), (12, 12)), (3, 2), nprocs=3)
COARSE = dm.FloorPlan([dm.Region((0, 0), (4, 6))], [1], nprocs=3)


def moved(plan):
    """Elements by source and destination rank."""
    return [plan.outgoing(rank) for rank in range(plan.nprocs)]


def test_panels_of_one_width_share_a_layout():
    layouts = [
        dm.advanced.panel_broadcast(TILES, dm.Region((0, lo), (24, lo + 5)), along=1).destination
        for lo in range(0, 27)
    ]
    assert all(layout == layouts[0] for layout in layouts)
    assert layouts[0].replicas == 2 and layouts[0].shape == (24, 5)
    assert [layouts[0].local_shape(r) for r in (0, 3, 4)] == [(12, 5), (12, 5), (0, 0)]


def test_panels_go_along_any_dimension_of_any_array():
    cube = dm.BlockCyclic((4, 6, 8), "(block, *, cyclic)", nprocs=4, grid=(2, 1, 2))
    plans = [dm.advanced.panel_broadcast(cube, cube.domain, along=d) for d in range(3)]
    assert [plan.destination.local_shape(0) for plan in plans] == [(4, 6, 4), (2, 6, 4), (2, 6, 8)]
    assert moved(plans[1]) == [{rank: 48} for rank in range(4)]


@pytest.mark.parametrize(
    "layout, region, along, error",
    [
        (TILES, dm.Region((0, 0), (24, 8)), 2, dm.errors.OutOfRange),
        (TILES, dm.Region((0, 0), (24, 8)), -1, dm.errors.OutOfRange),
        (TILES, dm.Region((0, 0), (24, 8)), HUGE, dm.errors.OutOfRange),
        (TILES, dm.Region((0, 0), (25, 8)), 1, dm.errors.OutOfRange),
        (TILES, dm.Region((-1, 0), (24, 8)), 1, dm.errors.OutOfRange),
        (TILES, dm.Region((0, 0), (HUGE, 8)), 1, dm.errors.OutOfRange),
        (TILES, dm.Region(0, 8), 1, dm.Mismatch),
        (TILES, dm.Region((0, 8), (24, 8)), 1, dm.errors.InvalidArgument),
        (FINE, dm.Region((0, 0), (4, 4)), 1, dm.errors.Unsupported),
        (dm.IndexList(4, [[0, 1], [2, 3]]), dm.Region(0, 4), 0, dm.errors.Unsupported),
    ],
)
def test_what_is_no_panel(layout, region, along, error):
    with pytest.raises(error):
        dm.advanced.panel_broadcast(layout, region, along)


def test_levels_take_widths_and_factors_in_every_form():
    plans = [
        dm.advanced.prolongation(COARSE, FINE, (3, 2), width)
        for width in (1, (1, 1), ((1, 1), (1, 1)), np.ones((2, 2), int).tolist())
    ]
    assert all(plan == plans[0] for plan in plans)
    square = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=3)
    assert dm.advanced.restriction(square, COARSE, 2, partial=True) == dm.advanced.restriction(
        square, COARSE, np.array([2, 2]), partial=True
    )
    assert pickle.loads(pickle.dumps(plans[0])) == plans[0]


def test_levels_across_periodic_ends():
    line = dm.FloorPlan([dm.Region(0, 4)], [0], 2)
    halves = dm.FloorPlan.uniform(dm.Region(0, 8), 2, nprocs=2)
    open_ends = dm.advanced.prolongation(line, halves, 2, 1)
    closed = dm.advanced.prolongation(line, halves, 2, 1, periodic=True)
    assert moved(open_ends) == [{0: 3, 1: 3}, {}] and moved(closed) == [{0: 4, 1: 4}, {}]
    assert closed == dm.advanced.prolongation(line, halves, 2, 1, periodic=dm.Region(0, 4))
    assert open_ends == dm.advanced.prolongation(line, halves, 2, 1, periodic=False)
    assert open_ends == dm.advanced.prolongation(line, halves, 2, 1, periodic=[False])
    deep = dm.advanced.prolongation(line, halves, 2, [(10, 0)], periodic=True)
    assert moved(deep) == [{0: 12, 1: 12}, {}]


@pytest.mark.parametrize("build, read, reading", [
    (dm.advanced.prolongation, COARSE, FINE),
    (dm.advanced.restriction, FINE, COARSE),
])  # fmt: skip
def test_what_is_no_pair_of_levels(build, read, reading):
    for factor, options, error in [
        (1, {}, dm.errors.InvalidArgument),
        (0, {}, dm.errors.InvalidArgument),
        ((2, -2), {}, dm.errors.InvalidArgument),
        ((2, 2, 2), {}, dm.Mismatch),
        (HUGE, {"width": HUGE}, dm.errors.OutOfRange),
        ((3, 2), {"width": -1}, dm.errors.InvalidArgument),
        ((3, 2), {"width": (1, 2, 3)}, dm.Mismatch),
        ((3, 2), {"periodic": dm.Region((0, 0), (2, 2))}, dm.errors.InvalidArgument),
        ((3, 2), {"periodic": [True]}, dm.Mismatch),
        ((3, 2), {"periodic": True, "width": 10**12}, dm.errors.OutOfRange),
    ]:
        with pytest.raises(error):
            build(read, reading, factor, **options)
    with pytest.raises(dm.Mismatch, match="processes"):
        build(read, dm.FloorPlan(reading.regions, reading.owners, 4), (3, 2))
    with pytest.raises(dm.Mismatch, match="dimensions"):
        build(dm.FloorPlan([dm.Region(0, 4)], [0], 3), reading, (3, 2))
    with pytest.raises(dm.errors.Unsupported):
        build(read, dm.BlockCyclic((12, 12), "(cyclic, *)", 3), (3, 2))
    with pytest.raises(dm.errors.Unsupported):
        build(dm.IndexList((12, 12), [[0], [1], [2]]), reading, (3, 2))


def test_sections_with_steps_are_values():
    plan = dm.MotionPlan(FINE, FINE)
    box = dm.Region((0, 0), (4, 6))
    plan.add_section(0, box, 1, dm.Region((0, 6), (2, 12)), source_step=(2, 1))
    term = plan[0]
    assert (term.source_step, term.destination_step) == ((2, 1), None)
    assert plan.outgoing(0) == {1: 12}
    same = dm.advanced.SectionCopy(0, box, 1, dm.Region((0, 6), (2, 12)), source_step=(2, 1))
    assert term == same and repr(term).endswith("source_step=(2, 1))")
    assert term != dm.advanced.SectionCopy(0, box, 1, dm.Region((0, 6), (2, 12)))
    assert pickle.loads(pickle.dumps(term)) == term
    assert dm.MotionPlan.from_bytes(plan.to_bytes()) == plan
    assert plan.reversed()[0].destination_step == (2, 1)
    assert list(plan) == [term] == list(plan.sections(source_rank=0))
    plain = dm.advanced.SectionCopy(0, box, 0, box, source_step=1, destination_step=(1, 1))
    assert plain == dm.advanced.SectionCopy(0, box, 0, box) and plain.source_step is None


@pytest.mark.parametrize("steps, error", [
    ({"source_step": 0}, dm.errors.InvalidArgument),
    ({"destination_step": (1, -1)}, dm.errors.InvalidArgument),
    ({"source_step": (1, 1, 2)}, dm.Mismatch),
    ({"source_step": 2}, dm.Mismatch),
    ({"source_step": HUGE}, dm.Mismatch),
    ({"source_step": 2**63}, dm.errors.OutOfRange),
    ({"destination_step": (1, -(2**64))}, dm.errors.OutOfRange),
    ({"source_step": (1,) * 9}, dm.errors.InvalidArgument),
])  # fmt: skip
def test_steps_that_do_not_fit(steps, error):
    plan = dm.MotionPlan(FINE, FINE)
    section = (0, dm.Region((0, 0), (4, 6)), 1, dm.Region((0, 6), (4, 12)))
    with pytest.raises(error):
        plan.add_section(*section, **steps)
    with pytest.raises(error):
        plan.add(dm.advanced.SectionCopy(*section, **steps))
    assert len(plan) == 0


def test_colors_share_out_a_halo():
    whole = dm.halo(FINE, 2)
    for colors in (1, 2, 3, 5, 64):
        plans = [dm.halo(FINE, 2, colors=colors, color=c) for c in range(colors)]
        assert sum(plan.incoming(0).get(1, 0) for plan in plans) == whole.incoming(0)[1]
        for plan in plans:
            assert pickle.loads(pickle.dumps(plan)) == plan
            assert plan[0].colors == colors
    assert dm.halo(FINE, 2, colors=2) != whole
    assert "color 1 of 2" in repr(dm.halo(FINE, 2, colors=2, color=1)[0])


@pytest.mark.parametrize("colors, color", [(0, 0), (65, 0), (HUGE, 1), (2, 2), (2, -1), (1, 1)])
def test_colors_that_are_none(colors, color):
    with pytest.raises(dm.errors.InvalidArgument, match=r"colou?r"):
        dm.halo(FINE, 1, colors=colors, color=color)


def test_axes_that_are_none():
    for axis in (-1, 2, HUGE):
        with pytest.raises(dm.errors.OutOfRange, match="axis"):
            dm.advanced.axis_halo(FINE, 1, axis)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.axis_halo(FINE, (1, -1), 0)
    with pytest.raises(dm.errors.Unsupported):
        dm.advanced.axis_halo(TILES, 1, 0)


QUARTERS = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)


@pytest.mark.parametrize(
    ("width", "sides"),
    [
        (2, ((2, 2), (2, 2))),
        (np.int64(1), ((1, 1), (1, 1))),
        (np.array(1), ((1, 1), (1, 1))),
        ((1, 2), ((1, 2), (1, 2))),
        (np.array([1, 2]), ((1, 2), (1, 2))),
        (((1, 0), 3), ((1, 3), (0, 3))),
        (np.array([[1, 0], [0, 2]]), ((1, 0), (0, 2))),
    ],
    ids=str,
)
def test_widths_of_all_kinds(width, sides):
    term = dm.halo(QUARTERS, width)[0]
    assert (term.lower, term.upper) == sides


@pytest.mark.parametrize("wrong", [1.5, (1, 1.5), "11", None, {1: 2}, ((1, "a"), 1)], ids=str)
def test_widths_and_factors_of_wrong_types(wrong):
    with pytest.raises(dm.errors.WrongType):
        dm.halo(QUARTERS, wrong)
    with pytest.raises(dm.errors.WrongType):
        dm.advanced.restriction(QUARTERS, QUARTERS, 2, width=wrong)
    with pytest.raises(dm.errors.WrongType, match="factor"):
        dm.advanced.prolongation(QUARTERS, QUARTERS, wrong)


@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3), ((1, 2, 3), 1), ((), 1)], ids=str)
def test_widths_for_other_dimensions(wrong):
    with pytest.raises(dm.Mismatch):
        dm.halo(QUARTERS, wrong)


def test_layouts_that_are_none():
    for build in (
        lambda: dm.halo(None, 1),
        lambda: dm.halo("(block)", 1, periodic=True),
        lambda: dm.advanced.prolongation(None, QUARTERS, 2),
        lambda: dm.advanced.prolongation(QUARTERS, None, 2),
        lambda: dm.advanced.restriction(None, QUARTERS, 2, periodic=True),
    ):
        with pytest.raises(dm.errors.WrongType, match="must be a layout"):
            build()
