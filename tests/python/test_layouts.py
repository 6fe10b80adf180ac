# SPDX-License-Identifier: BSD-3-Clause
"""Regions, layouts and the memory of blocks: agree with NumPy."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datamover as dm

DIMS = st.integers(1, 3)


@st.composite
def regions(draw, dims):
    """Boxes with corners in [-6, 9]."""
    corner = st.tuples(*[st.integers(-6, 6)] * dims)
    lo = draw(corner)
    return dm.Region(lo, tuple(x + draw(st.integers(-1, 3)) for x in lo))


pairs_of_regions = DIMS.flatmap(lambda dims: st.tuples(regions(dims), regions(dims)))


def points(region):
    return set(itertools.product(*map(range, region.lo, region.hi)))


class TestRegion:
    @given(pairs_of_regions)
    def test_calculus_is_that_of_sets_of_points(self, pair):
        a, b = pair
        assert points(a & b) == points(a) & points(b) == points(a.intersected(b))
        parts = [points(part) for part in a.subtracted(b)]
        assert set().union(*parts) == points(a) - points(b)
        assert sum(map(len, parts)) == len(points(a) - points(b))
        assert points(a | b) >= points(a) | points(b)
        assert a.intersects(b) == bool(points(a) & points(b))
        assert (b in a) == (points(b) <= points(a)) == a.contains(b)
        assert a.size == len(points(a)) and a.empty == (not points(a)) == (not a)

    @given(pairs_of_regions)
    def test_iterates_over_its_points_last_dimension_fastest(self, pair):
        region, _ = pair
        assert list(region) == sorted(points(region))
        assert all(p in region for p in region)

    @given(pairs_of_regions)
    def test_equal_regions_have_equal_hashes(self, pair):
        a, b = pair
        same = dm.Region(a.lo, a.hi)
        assert a == same and hash(a) == hash(same) and a != "a"
        assert (a == b) == (points(a) == points(b))
        assert pickle.loads(pickle.dumps(a)) == a == copy.deepcopy(a)
        assert eval(repr(a), {"Region": dm.Region}) == a

    def test_points_are_given_as_tuples_lists_arrays_or_numbers(self):
        expected = dm.Region((1, 2), (3, 4))
        assert dm.Region([1, 2], np.array([3, 4])) == expected
        assert dm.Region((np.int32(1), True + 1), (3, 4)) == expected
        assert dm.Region(2, 7) == dm.Region((2,), (7,))
        assert 4 in dm.Region(2, 7) and (1, 3) in expected and (3, 3) not in expected

    def test_one_number_stands_for_all_dimensions(self):
        region = dm.Region((0, 10), (4, 20))
        assert region.grown(1) == dm.Region((-1, 9), (5, 21))
        assert region.grown((1, 0), (0, 2)) == dm.Region((-1, 10), (4, 22))
        assert region.shifted(3) == dm.Region((3, 13), (7, 23))
        assert region.coarsened(4) == dm.Region((0, 2), (1, 5))
        assert region.refined((1, 2)) == dm.Region((0, 20), (4, 40))
        assert dm.Region.from_shape((4, 5)).shape == (4, 5)
        assert dm.Region.empty_region(2).empty

    @given(pairs_of_regions)
    def test_slices_select_the_region_of_an_array(self, pair):
        inner, outer = pair
        inner = inner & outer
        values = np.empty(outer.shape, dtype=object)
        for p in outer:
            values[tuple(np.subtract(p, outer.lo))] = p
        if inner:
            selected = values[inner.slices(origin=outer.lo)]
            assert selected.shape == inner.shape
            assert set(selected.ravel()) == points(inner)

    def test_refuses_what_makes_no_sense(self):
        with pytest.raises(dm.errors.InvalidArgument):
            dm.Region((0, 0), (1,))
        with pytest.raises(dm.errors.InvalidArgument, match="8"):
            dm.Region((0,) * 9, (1,) * 9)
        with pytest.raises(dm.errors.InvalidArgument):
            dm.Region.from_shape((2, -1))
        with pytest.raises(dm.errors.OutOfRange):
            dm.Region(2, 4).slices(origin=3)
        with pytest.raises(dm.errors.OutOfRange, match="64 bits"):
            dm.Region(2**70, 2**71)


@st.composite
def block_cyclics(draw):
    shape = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    words, grid = [], []
    for _ in shape:
        word = draw(st.sampled_from(["*", "block", "cyclic", "cyclic(2)", "cyclic(3)"]))
        words.append(word)
        grid.append(1 if word == "*" else draw(st.integers(1, 3)))
    positions = int(np.prod(grid))
    nprocs = positions + draw(st.integers(0, 2))
    return dm.BlockCyclic(
        shape,
        f"({', '.join(words)})",
        nprocs,
        grid=grid,
        first_process=[draw(st.integers(0, p - 1)) for p in grid],
        grid_order=draw(st.sampled_from("CF")),
        ranks=draw(st.none() | st.permutations(range(nprocs)).map(lambda r: r[:positions])),
    )


def dealt(layout, d):
    """Grid coordinate of each index of a dimension, by HPF's definition."""
    index = np.arange(layout.shape[d])
    return (index // layout.block[d] + layout.first_process[d]) % layout.grid[d]


class TestBlockCyclic:
    @given(block_cyclics())
    def test_owners_and_indices_are_those_of_the_definition(self, layout):
        position = np.ravel_multi_index(
            np.ix_(*[dealt(layout, d) for d in range(layout.dims)]),
            layout.grid,
            order=layout.grid_order,
        )
        owners = np.broadcast_to(layout.ranks[position], layout.shape)
        whole = np.arange(owners.size).reshape(layout.shape)
        for rank in range(layout.nprocs):
            lists = layout.global_indices(rank)
            assert all(indices.dtype == np.int64 for indices in lists)
            local = whole[np.ix_(*lists)]
            assert local.shape == layout.local_shape(rank) or local.size == 0
            assert sorted(local.ravel()) == sorted(whole[owners == rank])
            assert layout.local_elems(rank) == local.size
            for at in np.ndindex(local.shape):
                index = layout.global_index(rank, at)
                assert whole[index] == local[at]
                assert layout.owner_of(index) == rank and layout.local_index(index) == at

    @given(block_cyclics())
    def test_pickles_and_compares(self, layout):
        again = pickle.loads(pickle.dumps(layout))
        assert again == layout and hash(again) == hash(layout)
        assert again.ranks.tolist() == layout.ranks.tolist()
        assert isinstance(layout, dm.Layout)
        assert "BlockCyclic(" in repr(layout)

    def test_shows_what_it_was_made_of(self):
        layout = dm.BlockCyclic(
            (10, 7), "(block, cyclic(2))", nprocs=6, grid=(3, 2), grid_order="F"
        )
        assert (layout.shape, layout.grid, layout.block) == ((10, 7), (3, 2), (4, 2))
        assert (layout.nprocs, layout.dims, layout.num_blocks) == (6, 2, 6)
        assert (layout.distribution, layout.grid_order) == ("(block, cyclic(2))", "F")
        assert layout.domain == dm.Region((0, 0), (10, 7))
        assert layout.blocks_of(4) == [4] and layout.block_of(4) == 4 and layout.owner(4) == 4
        assert layout.block_extents(4) == layout.local_shape(4)

    def test_a_process_outside_the_grid_holds_nothing(self):
        layout = dm.BlockCyclic(8, "(block)", nprocs=3, grid=2)
        assert layout.local_shape(2) == (0,) and layout.blocks_of(2) == []
        assert [len(indices) for indices in layout.global_indices(2)] == [0]

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (((4, -1), "(block, *)", 2), dm.errors.InvalidArgument),
            (((4, 4), "(block)", 2), dm.errors.InvalidArgument),
            (((4, 4), "(block, blok)", 2), dm.errors.InvalidArgument),
            (((4,), "(block)", 0), dm.errors.InvalidArgument),
            (((4, 4), "(block, block)", 2, (2, 2)), dm.errors.InvalidArgument),
            (((4,), "(block)", 2, None, None, "X"), dm.errors.InvalidArgument),
            (((4,), "(block)", 2, (2,), None, "C", [0, 0]), dm.errors.InvalidArgument),
            (((4,), "(block)", 2, (2,), None, "C", [0, 2]), dm.errors.OutOfRange),
            (((4,), "(block)", 2, (2,), None, "C", [0.5, 1]), dm.errors.WrongType),
        ],
    )
    def test_refuses_what_makes_no_sense(self, arguments, error):
        with pytest.raises(error):
            dm.BlockCyclic(*arguments)

    def test_refuses_ranks_that_are_not_there(self):
        layout = dm.BlockCyclic(8, "(block)", nprocs=2)
        for call in (layout.global_indices, layout.blocks_of, layout.local_elems):
            for rank in (-1, 2):
                with pytest.raises(dm.errors.OutOfRange):
                    call(rank)


@st.composite
def floor_plans(draw):
    dims = draw(DIMS)
    boxes = draw(st.lists(regions(dims), min_size=1, max_size=6))
    owners = [draw(st.integers(0, 3)) for _ in boxes]
    return boxes, owners


class TestFloorPlan:
    @given(floor_plans())
    def test_from_regions_or_from_a_table(self, drawn):
        boxes, owners = drawn
        plan = dm.FloorPlan(boxes, owners, nprocs=4)
        table = np.array([[box.lo, box.hi] for box in boxes])
        assert plan == dm.FloorPlan(table, np.array(owners, dtype="u1"), nprocs=4)
        assert plan == dm.FloorPlan(table[::1].astype("i4"), owners, nprocs=4)
        assert plan.regions.tolist() == table.tolist() and plan.owners.tolist() == owners
        assert [plan.region(i) for i in range(len(plan))] == boxes
        assert [plan.owner(i) for i in range(len(plan))] == owners
        for rank in range(4):
            assert plan.blocks_of(rank) == [i for i, o in enumerate(owners) if o == rank]
        assert pickle.loads(pickle.dumps(plan)) == plan

    @given(floor_plans(), st.data())
    def test_finds_the_blocks_that_a_region_touches(self, drawn, data):
        boxes, owners = drawn
        plan = dm.FloorPlan(boxes, owners)
        asked = data.draw(regions(plan.dims))
        assert plan.find(asked) == [i for i, b in enumerate(boxes) if points(b) & points(asked)]
        for i, box in enumerate(boxes):
            lower = set().union(*(points(b) for b in boxes[:i]))
            parts = [points(part) for part in plan.exclusive_regions(i)]
            assert set().union(*parts) == points(box) - lower

    def test_usual_cuts(self):
        domain = dm.Region((0, 0), (10, 6))
        plan = dm.FloorPlan.uniform(domain, (2, 2), nprocs=3)
        assert [plan.region(i).shape for i in range(4)] == [(5, 3)] * 4
        assert [plan.owner(i) for i in range(4)] == [0, 1, 2, 0]
        tiles = dm.FloorPlan.tiles(domain, 4, nprocs=2, mapping="cyclic")
        assert [tiles.region(i).size for i in range(len(tiles))] == [16, 8, 16, 8, 8, 4]
        assert tiles.owners.tolist() == [0, 1, 0, 1, 0, 1]
        assert dm.FloorPlan.tiles(domain, (4, 4), nprocs=2).owners.tolist() == [0, 0, 0, 1, 1, 1]
        split = dm.FloorPlan.from_splits(domain, [[1], [2, 5]], nprocs=6)
        assert [split.region(i).size for i in range(6)] == [2, 3, 1, 18, 27, 9]
        cut = dm.FloorPlan.bisected(domain, [1, 2, 3])
        assert [cut.region(i).size for i in range(3)] == pytest.approx([10, 20, 30], abs=6)
        for p in (plan, tiles, split, cut):
            assert p.domain == domain
            assert sum(p.region(i).size for i in range(len(p))) == domain.size

    def test_a_shape_is_the_domain_from_0(self):
        domain, shape = dm.Region((0, 0), (10, 6)), (10, 6)
        for cut, *how in [
            (dm.FloorPlan.uniform, (2, 2), 3),
            (dm.FloorPlan.tiles, 4, 2),
            (dm.FloorPlan.from_splits, [[1], [2, 5]], 6),
            (dm.FloorPlan.bisected, [1, 2, 3]),
        ]:
            assert cut(shape, *how) == cut(domain, *how)
        assert dm.FloorPlan.tiles(7, 2, 3) == dm.FloorPlan.tiles(dm.Region(0, 7), 2, 3)
        for wrong in ((-1, 6), ()):
            with pytest.raises(dm.errors.InvalidArgument):
                dm.FloorPlan.uniform(wrong, (2, 2), 3)
        with pytest.raises(TypeError):
            dm.FloorPlan.uniform("ab", (2, 2), 3)

    def test_a_million_boxes_from_a_table(self):
        n = 1_000_000
        table = np.empty((n, 2, 2), dtype=np.int64)
        table[:, 0] = np.stack(np.unravel_index(np.arange(n), (1000, 1000)), axis=1) * 4
        table[:, 1] = table[:, 0] + 4
        plan = dm.FloorPlan(table, np.arange(n) // 10, nprocs=100_000)
        assert len(plan) == n and plan.domain == dm.Region((0, 0), (4000, 4000))
        assert plan.find(dm.Region((7, 7), (9, 9))) == [1001, 1002, 2001, 2002]
        assert plan.blocks_of(12_345) == list(range(123_450, 123_460))

    def test_refuses_what_makes_no_sense(self):
        box = dm.Region((0, 0), (1, 1))
        for arguments, error in [
            (([], []), dm.errors.InvalidArgument),
            (([box], [0, 1]), dm.Mismatch),
            ((np.zeros((2, 2, 2), int), [0]), dm.Mismatch),
            (([box, dm.Region(0, 1)], [0, 1]), dm.Mismatch),
            (([box], [-1]), dm.errors.OutOfRange),
            (([box], [2], 2), dm.errors.OutOfRange),
            (([box], [0], 0), dm.errors.InvalidArgument),
            ((np.zeros((2, 3, 2), int), [0, 0]), dm.errors.InvalidArgument),
            ((np.zeros((2, 2)), [0, 0]), dm.errors.WrongType),
            (([box], [0.5]), dm.errors.WrongType),
        ]:
            with pytest.raises(error):
                dm.FloorPlan(*arguments)
        with pytest.raises(dm.errors.InvalidArgument):
            dm.FloorPlan.tiles(box, 1, nprocs=1, mapping="random")

    def test_the_same_blocks_may_have_other_owners(self):
        even = dm.FloorPlan.uniform(dm.Region((0, -2), (7, 5)), (2, 3), nprocs=4)
        dealt = even.with_owners(np.array([5, 0, 0, 2, 5, 1]), nprocs=9)
        assert (dealt.regions == even.regions).all() and dealt.nprocs == 9
        assert dealt.owners.tolist() == [5, 0, 0, 2, 5, 1]
        assert even.owners.tolist() == [0, 1, 2, 3, 0, 1]
        for arguments, error in [
            (([0, 1],), dm.Mismatch),
            (([0] * 6, 0), dm.errors.InvalidArgument),
            (([9] * 6, 9), dm.errors.OutOfRange),
            (([[0] * 6],), dm.errors.InvalidArgument),
        ]:
            with pytest.raises(error):
                even.with_owners(*arguments)


class TestIndexList:
    @given(st.lists(st.lists(st.integers(0, 23), unique=True), min_size=1, max_size=5))
    def test_holds_its_lists(self, lists):
        layout = dm.IndexList((4, 6), [np.array(rows, dtype=np.int64) for rows in lists])
        assert layout.nprocs == len(lists) == layout.num_blocks
        for rank, rows in enumerate(lists):
            assert layout.indices_of(rank).tolist() == rows
            assert layout.local_elems(rank) == len(rows)
            assert layout.block_extents(rank) == (len(rows),)
        for index in range(24):
            expected = [(r, rows.index(index)) for r, rows in enumerate(lists) if index in rows]
            assert layout.holders(index) == expected
        assert pickle.loads(pickle.dumps(layout)) == layout == dm.IndexList((4, 6), lists)

    def test_refuses_what_makes_no_sense(self):
        for lists, error in [
            ([[0, 6]], dm.errors.OutOfRange),
            ([[-1]], dm.errors.OutOfRange),
            ([[0.5]], dm.errors.WrongType),
            ([], dm.Mismatch),
        ]:
            with pytest.raises(error):
                dm.IndexList(6, lists)


class TestMemory:
    @given(floor_plans(), st.sampled_from("CF"), st.integers(0, 2), st.integers(1, 9))
    def test_blocks_lie_as_numpy_would_lay_them(self, drawn, order, ghost, elem_bytes):
        boxes, owners = drawn
        plan = dm.FloorPlan(boxes, owners)
        memory = dm.advanced.dense_memory(plan, owners[0], elem_bytes, order=order, ghost=ghost)
        assert [b.block for b in memory.blocks] == plan.blocks_of(owners[0])
        for block in memory.blocks:
            if boxes[block.block].empty:
                continue
            shape = boxes[block.block].grown(ghost).shape
            strides = np.ndarray(shape, f"V{elem_bytes}", order=order).strides
            assert block.strides_bytes == strides
            assert block.valid == dm.Region.from_shape(boxes[block.block].shape).grown(ghost)
            start = block.offset_bytes - ghost * sum(strides)
            assert start % 64 == 0 and start + np.prod(shape) * elem_bytes <= memory.end_bytes

    def test_can_be_said_by_hand(self):
        plan = dm.FloorPlan([dm.Region((0, 0), (2, 3))], [0])
        by_hand = dm.advanced.MemoryLayout(
            [dm.advanced.BlockMemory(0, 0, (24, 8), dm.Region((0, 0), (2, 3)))],
            begin_bytes=0,
            end_bytes=64,
        )
        assert by_hand == dm.advanced.dense_memory(plan, 0, 8)
        with pytest.raises(dm.Mismatch):
            dm.advanced.BlockMemory(0, 0, (8,), dm.Region((0, 0), (2, 3)))

    def test_goes_to_other_processes(self):
        for ghost in (0, 2):
            memory = dm.advanced.dense_memory(
                dm.FloorPlan.tiles((5, 7), (2, 3), 2), 1, 8, "F", ghost
            )
            assert pickle.loads(pickle.dumps(memory)) == memory
            assert pickle.loads(pickle.dumps(memory.blocks)) == memory.blocks

    def test_refuses_what_makes_no_sense(self):
        layout = dm.BlockCyclic((4, 4), "(block, *)", nprocs=2)
        for arguments, error in [
            ((layout, 0, 0), dm.errors.InvalidArgument),
            ((layout, 0, 8, "K"), dm.errors.InvalidArgument),
            ((layout, 0, 8, "C", -1), dm.errors.InvalidArgument),
            ((layout, 2, 8), dm.errors.OutOfRange),
        ]:
            with pytest.raises(error):
                dm.advanced.dense_memory(*arguments)


class Processes:
    """The method of a communicator that layouts call."""

    def Get_size(self):
        return 3


class Freed:
    def Get_size(self):
        raise RuntimeError("no communicator")


MADE = {
    "BlockCyclic": lambda *n, **kw: dm.BlockCyclic((6, 6), "(block, *)", *n, **kw),
    "from_scalapack": lambda *n, **kw: dm.BlockCyclic.from_scalapack(
        [1, 0, 9, 9, 2, 2, 0, 0, 9], (1, 3), *n, **kw
    ),
    "uniform": lambda *n, **kw: dm.FloorPlan.uniform((6, 6), (2, 3), *n, **kw),
    "tiles": lambda *n, **kw: dm.FloorPlan.tiles((6, 6), (2, 3), *n, **kw),
    "from_splits": lambda *n, **kw: dm.FloorPlan.from_splits((6, 6), [[2], []], *n, **kw),
    "FlatCyclic": lambda *n, **kw: dm.FlatCyclic((6, 6), 5, *n, **kw),
    "of_bytes": lambda *n, **kw: dm.FlatCyclic.of_bytes((6, 6), 16, "f8", *n, **kw),
}
OPTIONAL = {
    "FloorPlan": lambda *n, **kw: dm.FloorPlan([dm.Region(0, 4)], [0], *n, **kw),
    "with_owners": lambda *n, **kw: dm.FloorPlan([dm.Region(0, 4)], [0]).with_owners([0], *n, **kw),
}


@pytest.mark.parametrize("name", [*MADE, *OPTIONAL])
def test_processes_of_a_communicator(name):
    make = {**MADE, **OPTIONAL}[name]
    assert make(comm=Processes()) == make(3) == make(nprocs=3)
    assert make(comm=Processes()).nprocs == 3
    with pytest.raises(dm.errors.InvalidArgument, match="nprocs= and comm= are both given"):
        make(3, comm=Processes())
    with pytest.raises(dm.errors.InvalidArgument, match="comm has no processes"):
        make(comm=Freed())
    with pytest.raises(dm.errors.WrongType, match="comm is 3, it must be a communicator"):
        make(comm=3)


@pytest.mark.parametrize("name", MADE)
def test_either_processes_or_a_communicator(name):
    with pytest.raises(dm.errors.WrongType, match="nprocs= is missing"):
        MADE[name]()
    with pytest.raises(dm.errors.WrongType, match="nprocs= is missing"):
        MADE[name](None, comm=None)


EMPTY = [
    dm.BlockCyclic((0, 3), "(block, *)", 2),
    dm.BlockCyclic((4, 0, 3), "(block, *, cyclic)", 2),
    dm.IndexList((0, 3), [[], []]),
    dm.FlatCyclic((5, 0), 2, 2),
]


@pytest.mark.parametrize("layout", EMPTY, ids=repr)
def test_an_array_without_elements_keeps_its_shape(layout):
    described = dm.layouts.to_json(layout)
    assert described["shape"] == list(layout.shape)
    assert dm.layouts.from_json(described).shape == layout.shape
