# SPDX-License-Identifier: BSD-3-Clause
"""Plans: move the same elements as NumPy, and can be edited as values."""

import itertools
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datamover as dm

WORDS = st.sampled_from(["*", "block", "cyclic", "cyclic(2)", "cyclic(3)"])


@st.composite
def layouts(draw, shape, nprocs):
    """Any layout of an array, all of it held by somebody."""
    kind = draw(st.sampled_from(["dealt", "tiles", "lists", "ranges"]))
    if kind == "tiles":
        tile = [draw(st.integers(1, n)) for n in shape]
        mapping = draw(st.sampled_from(["block", "cyclic"]))
        return dm.FloorPlan.tiles(dm.Region.from_shape(shape), tile, nprocs, mapping)
    if kind == "lists":
        order = np.array(draw(st.permutations(range(int(np.prod(shape))))))
        cuts = sorted(draw(st.integers(0, len(order))) for _ in range(nprocs - 1))
        return dm.IndexList(shape, np.split(order, cuts))
    if kind == "ranges":
        owners = draw(st.permutations(range(nprocs)))[: draw(st.integers(1, nprocs))]
        longest = draw(st.sampled_from([3, shape[-1] + 1, int(np.prod(shape))]))
        return dm.FlatCyclic(shape, draw(st.integers(1, longest)), nprocs, owners=owners)
    words = [draw(WORDS) for _ in shape]
    order, replicas = draw(st.sampled_from("CF")), draw(st.integers(1, nprocs))
    return dm.BlockCyclic(shape, ",".join(words), nprocs, grid_order=order, replicas=replicas)


@st.composite
def redistributions(draw, kinds=layouts):
    nprocs = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    axes = draw(st.permutations(range(len(shape))))
    source = draw(kinds(shape, nprocs))
    return source, draw(kinds([shape[a] for a in axes], nprocs)), axes


def box_layouts(shape, nprocs):
    return layouts(shape, nprocs).filter(
        lambda layout: isinstance(layout, dm.BlockCyclic | dm.FloorPlan)
    )


def global_places(layout, block):
    """For each place of a block's local array the flat index in the whole array."""
    shape = layout.domain.hi
    if isinstance(layout, dm.IndexList | dm.FlatCyclic):
        return layout.indices_of(layout.owner(block))
    whole = np.arange(np.prod(shape)).reshape(shape)
    if isinstance(layout, dm.FloorPlan):
        return whole[layout.region(block).slices()]
    return whole[np.ix_(*layout.global_indices(layout.owner(block)))]


class World:
    """The local arrays of all processes, blocks densely as `dense_memory` says."""

    def __init__(self, layout, dtype="i4", order="C"):
        self.layout, self.order = layout, order
        itemsize = np.dtype(dtype).itemsize
        self.memory = [
            dm.advanced.dense_memory(layout, r, itemsize, order=order) for r in range(layout.nprocs)
        ]
        self.data = [np.full(m.end_bytes // itemsize, -1, dtype) for m in self.memory]

    def block(self, block):
        """The elements of a block, as a view."""
        rank = self.layout.owner(block)
        place = next(b for b in self.memory[rank].blocks if b.block == block)
        data = self.data[rank]
        return np.ndarray(
            self.layout.block_extents(block),
            data.dtype,
            data,
            place.offset_bytes,
            place.strides_bytes,
        )

    def fill(self):
        for block in range(self.layout.num_blocks):
            self.block(block)[...] = global_places(self.layout, block)
        return self

    def receive(self, plan, source):
        for a, b in itertools.product(range(plan.nprocs), repeat=2):
            relation = plan.relation(
                a, b, 4, source_memory=source.memory[a], destination_memory=self.memory[b]
            )
            relation.copy(source.data[a], self.data[b])
        return self


@given(redistributions(), st.sampled_from("CF"), st.sampled_from("CF"))
def test_redistribution_is_what_numpy_gives(drawn, order_from, order_to):
    source, destination, axes = drawn
    plan = dm.redistribute(source, destination, axes=axes)
    arrived = World(destination, order=order_to).receive(
        plan, World(source, order=order_from).fill()
    )
    shape = source.domain.hi
    expected = np.arange(np.prod(shape)).reshape(shape).transpose(axes).ravel()
    for block in range(destination.num_blocks):
        np.testing.assert_array_equal(
            arrived.block(block), expected[global_places(destination, block)]
        )


@given(redistributions(), st.data())
def test_sections_go_to_sections(drawn, data):
    source, destination, axes = drawn
    shape, permuted = source.domain.hi, destination.domain.hi
    extents = [data.draw(st.integers(1, n)) for n in permuted]
    to_lo = [data.draw(st.integers(0, n - e)) for n, e in zip(permuted, extents, strict=True)]
    from_lo, from_extents = [0] * len(shape), [0] * len(shape)
    for k, a in enumerate(axes):
        from_extents[a] = extents[k]
        from_lo[a] = data.draw(st.integers(0, shape[a] - extents[k]))
    read = dm.Region(from_lo, np.add(from_lo, from_extents))
    written = dm.Region(to_lo, np.add(to_lo, extents))
    flip = data.draw(st.none() | st.tuples(*[st.booleans()] * len(shape)))
    plan = dm.redistribute(source, destination, axes, read, written, flip=flip)
    assert pickle.loads(pickle.dumps(plan)) == plan == dm.MotionPlan.from_bytes(plan.to_bytes())
    arrived = World(destination).receive(plan, World(source).fill())
    whole = np.arange(np.prod(shape)).reshape(shape)
    expected = np.full(permuted, -1)
    expected[written.slices()] = np.flip(
        whole[read.slices()].transpose(axes), np.flatnonzero(flip or ()).tolist()
    )
    for block in range(destination.num_blocks):
        np.testing.assert_array_equal(
            arrived.block(block), expected.ravel()[global_places(destination, block)]
        )


def copies_of(layout):
    return layout.replicas if isinstance(layout, dm.BlockCyclic) else 1


@given(redistributions())
def test_both_sides_agree_on_how_much_moves(drawn):
    plan = dm.redistribute(*drawn)
    sent = {(a, b): n for a in range(plan.nprocs) for b, n in plan.outgoing(a).items()}
    received = {(a, b): n for b in range(plan.nprocs) for a, n in plan.incoming(b).items()}
    assert sent == received
    assert all(n > 0 for n in sent.values())
    assert sum(sent.values()) == plan.destination.domain.size * copies_of(plan.destination)
    for (a, b), n in sent.items():
        assert len(plan.relation(a, b)) == n


@pytest.mark.parametrize("flip", [True, "no"])
def test_flip_that_is_not_a_sequence_is_refused(flip):
    rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
    with pytest.raises(dm.errors.WrongType, match=f"flip is {flip!r}; it must be a sequence"):
        dm.redistribute(rows, rows, flip=flip)


@given(redistributions(box_layouts))
def test_sections_cover_the_destination_once(drawn):
    source, destination, axes = drawn
    plan = dm.redistribute(source, destination, axes)
    touched = np.zeros(destination.domain.hi, int)
    for section in plan:
        assert section.axes is None or section.axes == tuple(axes)
        shape = section.source_region.shape
        assert section.destination_region.shape == tuple(shape[a] for a in axes)
        touched[section.destination_region.slices()] += 1
    assert (touched == copies_of(destination)).all()
    for a in range(plan.nprocs):
        of_pairs = [s for b in range(plan.nprocs) for s in plan.sections(a, b)]
        assert set(of_pairs) == set(plan.sections(source_rank=a))
        assert all(source.owner(s.source_block) == a for s in of_pairs)


@given(redistributions(box_layouts))
def test_there_and_back_is_the_identity(drawn):
    source, destination, axes = drawn
    there = dm.redistribute(source, destination, axes)
    begin = World(source).fill()
    middle = World(destination).receive(there, begin)
    end = World(source).receive(there.reversed(), middle)
    for a, b in zip(begin.data, end.data, strict=True):
        np.testing.assert_array_equal(a, b)
    assert there.reversed().reversed() == there


@given(redistributions(box_layouts), st.data())
def test_then_does_one_after_the_other(drawn, data):
    source, middle, axes = drawn
    first = dm.redistribute(source, middle, axes)
    last = data.draw(box_layouts(middle.domain.hi, middle.nprocs))
    second = dm.redistribute(middle, last)
    begin = World(source).fill()
    stepwise = World(last).receive(second, World(middle).receive(first, begin))
    at_once = World(last).receive(first.then(second), begin)
    for a, b in zip(stepwise.data, at_once.data, strict=True):
        np.testing.assert_array_equal(a, b)


@given(redistributions())
def test_plans_and_terms_can_be_pickled(drawn):
    plan = dm.redistribute(*drawn)
    if isinstance(plan.source, dm.FloorPlan):
        plan = plan + dm.redistribute(*drawn)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and len(again) == len(plan)
    assert type(again.source) is type(drawn[0]) and again.source == drawn[0]
    assert hash(again[0]) == hash(plan[0])


def halves():
    return dm.FloorPlan([dm.Region((0, 0), (4, 4)), dm.Region((0, 4), (4, 8))], [0, 1])


class TestEditing:
    def test_terms_are_read_replaced_deleted_and_merged(self):
        plan = dm.MotionPlan(halves(), halves())
        left, right = dm.Region((0, 0), (4, 1)), dm.Region((0, 4), (4, 5))
        plan.add_section(0, left, 1, right)
        plan.add(dm.advanced.SectionCopy(1, right, 0, left))
        assert len(plan) == 2
        assert plan[0] == dm.advanced.SectionCopy(0, left, 1, right) and plan[-1].source_block == 1
        assert list(plan) == [plan[0], plan[1]]
        both = plan + plan
        assert len(both) == 4 and len(plan) == 2
        assert both.outgoing(0) == {1: 8}
        both[3] = plan[0]
        del both[0]
        assert [s.source_block for s in both] == [1, 0, 0]
        assert plan != both and plan == pickle.loads(pickle.dumps(plan))

    def test_a_plan_may_be_edited_while_it_is_gone_through(self):
        plan = dm.halo(halves(), 1)
        for section in plan:
            plan.add(section)
        assert len(plan) == 3

    def test_filter_keeps_sections(self):
        plan = dm.halo(halves(), 1, periodic=True)
        to_first = plan.filter(lambda s: s.destination_block == 0)
        assert list(to_first) == [s for s in plan if s.destination_block == 0]
        assert plan.filter(lambda s: True) == plan
        assert len(plan.filter(lambda s: False)) == 0

    def test_what_a_predicate_gives_is_true_as_python_has_it(self):
        plan = dm.halo(halves(), 1, periodic=True)
        to_first = plan.filter(lambda s: s.destination_block == 0)
        assert plan.filter(lambda s: np.bool_(s.destination_block == 0)) == to_first
        assert plan.filter(lambda s: 1 - s.destination_block) == to_first
        with pytest.raises(ValueError, match="ambiguous"):
            plan.filter(lambda s: np.ones(2))

    def test_a_predicate_may_edit_the_plan(self):
        plan = dm.MotionPlan(halves(), halves())
        for row in range(4):
            place = dm.Region((row, 3), (row + 1, 4))
            plan.add_section(0, place, 1, place)
        all_sections = list(plan)

        def keep(section):
            while len(plan) > 0:
                del plan[0]
            return True

        assert list(plan.filter(keep)) == all_sections and len(plan) == 0

    def test_a_plan_may_be_edited_while_another_thread_explains_it(self):
        plan = dm.MotionPlan(halves(), halves())
        ended = threading.Event()

        def edit():
            while not ended.is_set():
                for _ in range(100):
                    plan.add_section(0, dm.Region((0, 3), (4, 4)), 1, dm.Region((0, 3), (4, 4)))
                while len(plan) > 0:
                    del plan[len(plan) - 1]

        editor = threading.Thread(target=edit)
        editor.start()
        try:
            for _ in range(2000):
                dm.explain(plan)
        finally:
            ended.set()
            editor.join()

    def test_an_error_in_the_predicate_is_passed_on(self):
        with pytest.raises(ZeroDivisionError):
            dm.halo(halves(), 1).filter(lambda s: 1 // 0)

    def test_axes_may_count_from_the_end(self):
        rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
        turned = dm.BlockCyclic((6, 4), "(block, *)", nprocs=2)
        assert dm.redistribute(rows, turned, (-1, 0)) == dm.redistribute(rows, turned, (1, 0))
        assert dm.redistribute(rows, rows, (0, 1)) == dm.redistribute(rows, rows)

    def test_sections_may_change_their_shape(self):
        plan = dm.MotionPlan(halves(), halves())
        plan.add_section(0, dm.Region((0, 0), (2, 4)), 1, dm.Region((0, 4), (4, 6)))
        source, destination = np.arange(16), np.full(16, -1)
        plan.relation(0, 1, source.itemsize).copy(source, destination)
        np.testing.assert_array_equal(destination.reshape(4, 4)[:, :2], np.arange(8).reshape(4, 2))

    def test_refuses_what_does_not_fit(self):
        plan = dm.MotionPlan(halves(), halves())
        box = dm.Region((0, 0), (2, 3))
        for arguments, error in [
            ((2, box, 0, box), dm.errors.OutOfRange),
            ((0, box, 1, dm.Region((0, 4), (2, 6))), dm.Mismatch),
            ((0, box, 1, dm.Region((0, 4), (3, 6)), (0, 1)), dm.Mismatch),
            ((0, box, 1, dm.Region((0, 4), (3, 6)), (1, 1)), dm.errors.InvalidArgument),
        ]:
            with pytest.raises(error):
                plan.add_section(*arguments)
        for index in (0, -1, 3):
            with pytest.raises(dm.errors.OutOfRange):
                plan[index]
        with pytest.raises(dm.Mismatch):
            dm.MotionPlan(halves(), dm.BlockCyclic((4, 8), "(block, *)", nprocs=3))
        with pytest.raises(dm.Mismatch):
            dm.redistribute(halves(), dm.BlockCyclic((4, 9), "(block, *)", nprocs=2))
        with pytest.raises(dm.errors.OutOfRange):
            dm.redistribute(halves(), halves(), None, dm.Region((0, 0), (5, 8)), None)
        with pytest.raises(TypeError):
            dm.redistribute(halves(), "(block, *)")
        for call in (plan.outgoing, plan.incoming, plan.sections):
            for rank in (-1, 2):
                with pytest.raises(dm.errors.OutOfRange):
                    list(call(rank))
        lists = dm.IndexList((4, 8), [range(16), range(16, 32)])
        with pytest.raises(dm.errors.Unsupported):
            list(dm.redistribute(lists, halves()))


def padded(values, width, mode):
    return np.pad(values, width, mode=mode, **({} if mode == "wrap" else {"constant_values": -1}))


class TestHalo:
    @pytest.mark.parametrize("width", [1, 2, 5, (2, 1), ((0, 3), (1, 0))])
    @pytest.mark.parametrize("periodic", [True, False])
    @pytest.mark.parametrize("grid", [(1, 1), (2, 1), (3, 2)])
    def test_ghosts_are_what_numpy_pads(self, width, periodic, grid):
        shape = (6, 4)
        plan = dm.FloorPlan.uniform(dm.Region.from_shape(shape), grid, nprocs=2)
        pairs = np.broadcast_to(np.array(width), (2, 2)) if np.ndim(width) != 1 else width
        pairs = [(w, w) if np.ndim(w) == 0 else tuple(w) for w in pairs]
        lower, upper = [p[0] for p in pairs], [p[1] for p in pairs]
        memory = [
            dm.advanced.dense_memory(plan, r, 8, ghost=lower, ghost_upper=upper) for r in range(2)
        ]
        data = [np.full(m.end_bytes // 8, -1) for m in memory]

        def block(i):
            rank = plan.owner(i)
            place = next(b for b in memory[rank].blocks if b.block == i)
            start = place.offset_bytes - np.dot(lower, place.strides_bytes)
            return np.ndarray(place.valid.shape, int, data[rank], start, place.strides_bytes)

        whole = np.arange(24).reshape(shape)
        around = padded(whole, pairs, "wrap" if periodic else "constant")
        for i in range(len(plan)):
            region = plan.region(i)
            interior = tuple(slice(a, a + n) for a, n in zip(lower, region.shape, strict=True))
            block(i)[interior] = whole[region.slices()]
        halo = dm.halo(plan, width, periodic=periodic)
        for a, b in itertools.product(range(2), repeat=2):
            halo.relation(a, b, 8, source_memory=memory[a], destination_memory=memory[b]).copy(
                data[a], data[b]
            )
        for i in range(len(plan)):
            region = plan.region(i).grown(lower, upper).shifted(lower)
            np.testing.assert_array_equal(block(i), around[region.slices()])

    def test_faces_only_and_some_dimensions(self):
        plan = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)
        assert dm.halo(plan, 1, corners=False).incoming(0) == {1: 4, 2: 4}
        assert dm.halo(plan, 1, (True, False)).incoming(0) == {
            1: 4,
            2: 8,
            3: 2,
        }
        assert dm.halo(plan, 0).incoming(0) == {}
        assert dm.halo(plan, 1, True) == dm.halo(plan, (1, 1), plan.domain)

    def test_reversed_sends_ghosts_home(self):
        plan = dm.FloorPlan.uniform(dm.Region(0, 8), 2, nprocs=2)
        back = dm.halo(plan, 1).reversed()
        assert back.outgoing(0) == {1: 1}
        (section,) = back.sections(source_rank=0)
        assert section == dm.advanced.SectionCopy(0, dm.Region(4, 5), 1, dm.Region(4, 5))

    def test_one_process_of_a_plan_of_a_million_boxes(self):
        n = 1_000_000
        plan = dm.FloorPlan.uniform(dm.Region((0, 0), (4000, 4000)), (1000, 1000), nprocs=n)
        halo = dm.halo(plan, 1, periodic=True)
        assert halo.incoming(500_500) == {
            500_500 + d: 1 if abs(abs(d) - 1000) == 1 else 4
            for d in (-1001, -1000, -999, -1, 1, 999, 1000, 1001)
        }
        assert halo.outgoing(0)[n - 1] == 1

    def test_refuses_what_makes_no_sense(self):
        plan = halves()
        for arguments, error in [
            ((-1,), dm.errors.InvalidArgument),
            (((1, 2, 3),), dm.Mismatch),
            ((((1, 2, 3), 1),), dm.Mismatch),
            ((1, dm.Region(0, 4)), dm.Mismatch),
            ((1, (True,)), dm.Mismatch),
        ]:
            with pytest.raises(error):
                dm.halo(plan, *arguments)
        for said, error, words in [
            ({"periodic": 1}, dm.errors.WrongType, "a bool for each dimension"),
            ({"periodic": (1, 0)}, dm.errors.WrongType, "a bool for each dimension"),
            ({"periodic": (True,)}, dm.Mismatch, "1"),
        ]:
            for build in (dm.halo, lambda *given, **said: dm.advanced.axis_halo(*given, 0, **said)):
                with pytest.raises(error, match=words):
                    build(plan, 1, **said)
        assert dm.halo(plan, 1, periodic=[False, False]) == dm.halo(plan, 1)
        with pytest.raises(dm.errors.Unsupported, match=r"dimension 1 .* blocks of 2.* use block"):
            dm.halo(dm.BlockCyclic((4, 8), "(block, cyclic(2))", 4, grid=(2, 2)), 1)
        with pytest.raises(dm.errors.Unsupported, match="floor plan"):
            dm.halo(dm.IndexList(4, [[0, 1], [2, 3]]), 1)
        blocks = dm.FloorPlan([dm.Region(0, 8), dm.Region(8, 16)], [0, 1])
        with pytest.raises(dm.errors.InvalidArgument, match="at least 16"):
            dm.halo(blocks, 1, periodic=dm.Region(0, 6))
        with pytest.raises(dm.errors.InvalidArgument, match="holds no point"):
            dm.halo(blocks, 1, periodic=dm.Region(4, 0))


class TestNeededElements:
    """What a destination needs is held by somebody, or the plan is told to be partial."""

    def test_index_lists(self):
        owned, needed = dm.IndexList(4, [[0, 1], []]), dm.IndexList(4, [[3, 1], [0]])
        plan = dm.redistribute(owned, needed)
        assert plan.incoming(1) == {0: 1} and plan.outgoing(0) == {0: 1, 1: 1}
        with pytest.raises(dm.Mismatch, match=r"process 0 needs index \(3\)"):
            plan.incoming(0)
        with pytest.raises(dm.Mismatch, match=r"process 0 needs index \(3\)"):
            plan.adjoint().outgoing(0)
        assert dm.redistribute(owned, needed, partial=True).incoming(0) == {0: 1}
        # Back comes what is there, but it must have a place to go to.
        assert plan.reversed().incoming(0) == {0: 1, 1: 1}
        with pytest.raises(dm.Mismatch, match=r"process 0 is to bring back index \(3\)"):
            plan.reversed().outgoing(0)
        backwards = dm.redistribute(needed, owned, partial=True).reversed()
        assert backwards.outgoing(0) == {0: 1, 1: 1}

    def test_what_is_not_asked_for_may_be_missing(self):
        holes = dm.FloorPlan([dm.Region(0, 3), dm.Region(5, 8)], [0, 1])
        whole = dm.BlockCyclic(8, "block", nprocs=2)
        with pytest.raises(dm.Mismatch, match=r"index \(3\)"):
            dm.redistribute(holes, whole).incoming(0)
        part = dm.Region(0, 3)
        named = dm.redistribute(holes, whole, source_region=part, destination_region=part)
        assert named.incoming(0) == {0: 3} and named.incoming(1) == {}
        back = dm.redistribute(holes, whole).reversed()
        with pytest.raises(dm.Mismatch, match=r"bring back index \(3\) .* block 0"):
            back.outgoing(0)
        assert back.incoming(0) == {0: 3} and named.reversed().outgoing(0) == {0: 3}
        # Nobody wants what only the source holds.
        assert dm.redistribute(whole, holes).incoming(0) == {0: 3}

    def test_partial_is_kept(self):
        holes = dm.FloorPlan([dm.Region(0, 3), dm.Region(5, 8)], [0, 1])
        whole = dm.BlockCyclic(8, "block", nprocs=2)
        plan = dm.redistribute(holes, whole, partial=True)
        strict = dm.redistribute(holes, whole)
        assert plan != strict and plan[0].partial and not strict[0].partial
        for again in (
            pickle.loads(pickle.dumps(plan)),
            dm.MotionPlan.from_bytes(plan.to_bytes()),
            plan.reversed().reversed(),
        ):
            assert again == plan and again.incoming(1) == {1: 3}


@given(redistributions())
def test_the_adjoint_sums_what_went_out(drawn):
    """<A x, y> = <x, A* y>, for a plan as a linear map."""
    source, destination, axes = drawn
    plan = dm.redistribute(source, destination, axes)
    x, y = World(source, "i4").fill(), World(destination, "i4").fill()
    ax = World(destination, "i4")
    for data in ax.data:
        data[:] = 0
    ax.receive(plan, x)
    # The pairs of the adjoint, summed one by one.
    sums = World(source, "i4")
    for data in sums.data:
        data[:] = 0
    back = plan.adjoint()
    for a, b in itertools.product(range(plan.nprocs), repeat=2):
        relation = back.relation(
            a, b, 4, source_memory=y.memory[a], destination_memory=sums.memory[b]
        )
        for s, d in zip(*relation.to_pairs(), strict=True):
            sums.data[b][d // 4] += y.data[a][s // 4]

    def inner(u, v):
        return sum(
            int((u.block(i).astype(int) * v.block(i)).sum()) for i in range(u.layout.num_blocks)
        )

    assert inner(ax, y) == inner(x, sums)


def test_one_process_of_a_million():
    rows = dm.BlockCyclic((4_000_000, 4096), "(block, *)", nprocs=1_000_000)
    tiles = dm.BlockCyclic((4_000_000, 4096), "(cyclic(64), cyclic(64))", nprocs=1_000_000)
    outgoing = dm.redistribute(rows, tiles).outgoing(123_456)
    assert sum(outgoing.values()) == rows.local_elems(123_456) == 4 * 4096
    row = 4 * 123_456
    expected = {tiles.owner_of((row + i, 64 * j)) for i in range(4) for j in range(64)}
    assert set(outgoing) == expected


def test_relations_need_ghosts_where_sections_reach_into_them():
    plan = dm.FloorPlan.uniform(dm.Region(0, 8), 2, nprocs=2)
    with pytest.raises(dm.errors.OutOfRange, match="ghosts"):
        dm.halo(plan, 1).relation(0, 1)
    deep = dm.advanced.dense_memory(plan, 1, 8, ghost=1)
    relation = dm.halo(plan, 1).relation(0, 1, destination_memory=deep)
    assert relation.runs().tolist() == [[24, 0, 1]]
    with pytest.raises(dm.Mismatch):
        dm.halo(plan, 1).relation(
            0, 1, destination_memory=dm.advanced.dense_memory(plan, 0, 8, ghost=1)
        )
    with pytest.raises(dm.errors.OutOfRange):
        dm.halo(plan, 1).relation(0, 2)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.halo(plan, 1).relation(0, 1, order="K")


def test_then_says_when_sections_are_too_many():
    """A plan of a few bytes may stand for any number of them."""
    dealt, rows = (dm.BlockCyclic((2**16,), f"({m})", 4) for m in ("cyclic", "block"))
    there = dm.redistribute(rows, dealt)
    with pytest.raises(dm.errors.OutOfRange, match="more than 1000 pairs"):
        there.then(there.reversed(), max_pairs=1000)
    small = dm.redistribute(dm.BlockCyclic((8,), "(block)", 4), dm.BlockCyclic((8,), "(cyclic)", 4))
    both = small.then(small.reversed(), max_pairs=10**6)
    assert len(both) == 8
    with pytest.raises(dm.errors.OutOfRange):
        small.then(small.reversed(), max_pairs=31)
    assert small.then(small.reversed(), max_pairs=32) == both


@pytest.mark.parametrize("source", [dm.FlatCyclic(10, 10, 1), dm.BlockCyclic(10, "block", 1)])
def test_what_goes_twice_does_not_stand_for_what_is_missing(source):
    boxes = [dm.Region(lo, hi) for lo, hi in ((0, 3), (0, 3), (8, 10), (8, 10))]
    twice = dm.FloorPlan(boxes, owners=[0, 0, 0, 0], nprocs=1)
    plan = dm.redistribute(twice, source).reversed()
    with pytest.raises(dm.Mismatch):
        plan.outgoing(0)


def test_a_plan_for_a_huge_grid_takes_the_time_of_its_pieces():
    shape, most = (8192, 1001), 2**31 - 1
    flat = dm.FlatCyclic(shape, 4001, most, owners=[0, 1])
    plan = dm.redistribute(flat, dm.BlockCyclic(shape, "(*, block)", most))
    with pytest.raises(dm.errors.Unsupported):
        sum(plan.outgoing(0).values())


def test_sections_of_very_many_blocks_come_one_by_one():
    """Nothing is listed beforehand: the plan would not fit into memory."""
    n = 2**60
    plan = dm.redistribute(dm.BlockCyclic(n, "cyclic", 2), dm.BlockCyclic(n, "block", 2))
    sections = [s for s, _ in zip(plan.sections(1), range(3), strict=False)]
    assert [s.source_region for s in sections] == [dm.Region((lo,), (lo + 1,)) for lo in (1, 3, 5)]


def test_relations_of_very_many_elements_are_not_taken_apart_unasked():
    n = 2**56
    plan = dm.redistribute(dm.BlockCyclic(n, "cyclic", 2), dm.BlockCyclic(n, "block", 2))
    relation = plan.relation(0, 0)
    for expand in (
        lambda: relation.encode("blocks"),
        lambda: relation.encode("pairs"),
        relation.to_pairs,
        relation.runs,
        relation.ordered_by_source,
        relation.ordered_by_destination,
    ):
        with pytest.raises(dm.errors.InvalidArgument, match=f"{len(relation)} elements"):
            expand()
    assert relation.encode("product").nbytes == relation.nbytes
    few = dm.advanced.AddressRelation.from_pairs([0, 2, 1], [0, 1, 2])
    with pytest.raises(dm.errors.InvalidArgument, match="3 elements, more than max_elems = 2"):
        few.encode("blocks", max_elems=2)
    assert few.encode("blocks", max_elems=3).to_pairs()[0].tolist() == [0, 16, 8]
