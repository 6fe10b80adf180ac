# SPDX-License-Identifier: BSD-3-Clause
"""Sizes near 2**63: computed as with Python's integers, or rejected."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import datamover as dm
from datamover import _plan

LARGEST = 2**63 - 1

near_the_ends = st.one_of(
    st.integers(-4, 4),
    st.integers(-(2**63), LARGEST),
    st.integers(2**62 - 4, 2**62 + 4),
    st.integers(LARGEST - 4, LARGEST),
    st.integers(-(2**63), -(2**63) + 4),
)


def fits(values):
    return all(-(2**63) <= v <= LARGEST for v in values)


def expect_region(lo, hi, make):
    """`make()` gives the region from lo to hi, or raises where 64 bits do not hold it."""
    extents = [h - x for x, h in zip(lo, hi, strict=True)]
    if not fits([*lo, *hi]) or (min(extents) > 0 and max(extents) > LARGEST):
        with pytest.raises(dm.errors.OutOfRange):
            make()
    elif min(extents) <= 0:
        assert make().empty
    else:
        assert (make().lo, make().hi) == (tuple(lo), tuple(hi))


@st.composite
def regions(draw):
    corners = [sorted(draw(st.tuples(near_the_ends, near_the_ends))) for _ in range(2)]
    lo, hi = zip(*corners, strict=True)
    try:
        return dm.Region(lo, hi)
    except dm.errors.OutOfRange:
        assert any(h - x > LARGEST for x, h in corners)
        return dm.Region(lo, [x + 1 if x < LARGEST else x for x in lo])


@given(regions(), st.tuples(near_the_ends, near_the_ends))
def test_regions(region, by):
    size = 1
    for x, h in zip(region.lo, region.hi, strict=True):
        size *= h - x
    if size > LARGEST:
        with pytest.raises(dm.errors.OutOfRange):
            _ = region.size
    else:
        assert region.size == size
    if region.empty:
        assert region.shifted(by).empty and region.grown(by).empty
        return
    lo, hi = region.lo, region.hi
    expect_region(
        [x + s for x, s in zip(lo, by, strict=True)],
        [h + s for h, s in zip(hi, by, strict=True)],
        lambda: region.shifted(by),
    )
    expect_region(
        [x - w for x, w in zip(lo, by, strict=True)],
        [h + w for h, w in zip(hi, by, strict=True)],
        lambda: region.grown(by),
    )
    if min(by) < 1:
        return
    expect_region(
        [x * r for x, r in zip(lo, by, strict=True)],
        [h * r for h, r in zip(hi, by, strict=True)],
        lambda: region.refined(by),
    )
    expect_region(
        [x // r for x, r in zip(lo, by, strict=True)],
        [-(-h // r) for h, r in zip(hi, by, strict=True)],
        lambda: region.coarsened(by),
    )


def local_extent(n, block, grid, position):
    """How many of n indices lie in every `grid`-th block from number `position` on."""
    rounds, rest = divmod(n, block * grid)
    return rounds * block + min(max(rest - position * block, 0), block)


@st.composite
def dealt(draw, n, p):
    """A layout of n indices on p processes with few blocks, so that brute force is possible."""
    least = -(-n // 64)
    kind = draw(st.sampled_from(["block", "block(k)", "cyclic(k)"]))
    k = draw(st.one_of(st.integers(least, min(4 * least, LARGEST)), st.integers(least, LARGEST)))
    if kind == "block(k)":
        k = max(k, -(-n // p))
    text = kind.replace("(k)", f"({k})")
    size = {"block": -(-n // p)}.get(kind, k)
    return dm.BlockCyclic(n, text, nprocs=p, grid=(p,)), size


sizes = st.one_of(st.integers(2**40, LARGEST), st.integers(2**62, LARGEST), st.just(LARGEST))


@given(st.data(), sizes, st.integers(2, 40))
def test_block_cyclic(data, n, p):
    layout, k = data.draw(dealt(n, p))
    for rank in range(p):
        assert layout.local_shape(rank) == (local_extent(n, k, p, rank),)
    assert sum(layout.local_elems(r) for r in range(p)) == n
    i = data.draw(st.one_of(st.integers(0, n - 1), st.just(n - 1)))
    assert layout.owner_of(i) == i // k % p
    assert layout.local_index(i) == (i // (k * p) * k + i % k,)
    assert layout.global_index(layout.owner_of(i), layout.local_index(i)) == (i,)


def shared(n, b1, p1, b2, p2, source_lo, destination_lo):
    """Who shares how many of n indices that begin at these places of two layouts."""
    cuts = {0, n}
    for b, lo in ((b1, source_lo), (b2, destination_lo)):
        cuts |= {c - lo for c in range(lo // b * b, lo + n, b) if 0 <= c - lo <= n}
    cuts = sorted(cuts)
    elems = {}
    for lo, hi in itertools.pairwise(cuts):
        pair = ((source_lo + lo) // b1 % p1, (destination_lo + lo) // b2 % p2)
        elems[pair] = elems.get(pair, 0) + hi - lo
    return elems


@given(st.data(), sizes, st.integers(2, 9))
def test_redistributions(data, n, p):
    source, b1 = data.draw(dealt(n, p))
    destination, b2 = data.draw(dealt(n, p))
    extent = data.draw(st.one_of(st.integers(1, n), st.just(n)))
    source_lo = data.draw(st.integers(0, n - extent))
    destination_lo = data.draw(st.integers(0, n - extent))
    plan = dm.redistribute(
        source,
        destination,
        source_region=dm.Region(source_lo, source_lo + extent),
        destination_region=dm.Region(destination_lo, destination_lo + extent),
    )
    elems = shared(extent, b1, p, b2, p, source_lo, destination_lo)
    for rank in range(p):
        assert plan.outgoing(rank) == {d: n for (s, d), n in sorted(elems.items()) if s == rank}
        assert plan.incoming(rank) == {s: n for (s, d), n in sorted(elems.items()) if d == rank}
    summary = _plan.summarize_traffic(plan)
    for rank in range(p):
        assert summary["kept_elems"][rank] == elems.get((rank, rank), 0)
        sent = sum(n for (s, d), n in elems.items() if s == rank != d)
        assert summary["sent_elems"][rank] == sent
    messages = sorted(n for (s, d), n in elems.items() if s != d)
    counted = zip(summary["size_elems"], summary["size_messages"], strict=True)
    assert sorted(n for n, count in counted for _ in range(count)) == messages


@given(st.data(), sizes, st.integers(2, 9))
def test_floor_plans_and_block_cyclic(data, n, p):
    lo = data.draw(st.integers(-(2**63), LARGEST - n))
    domain = dm.Region(lo, lo + n)
    blocks = dm.FloorPlan.uniform(domain, p, nprocs=p)
    assert sum(blocks.local_elems(r) for r in range(p)) == n
    dealt_out, b = data.draw(dealt(n, p))
    to = dm.Region(0, n)  # regions correspond by offset
    plan = dm.redistribute(blocks, dealt_out, source_region=domain, destination_region=to)
    for rank in range(p):
        begin, end = (x[0] - lo for x in (blocks.region(rank).lo, blocks.region(rank).hi))
        expected = {}
        for i in range(begin // b, -(-end // b)):
            held = min(end, (i + 1) * b) - max(begin, i * b)
            expected[i % p] = expected.get(i % p, 0) + held
        assert plan.outgoing(rank) == dict(sorted(expected.items()))
        back = {d: m for d in range(p) if (m := plan.outgoing(d).get(rank, 0))}
        assert plan.incoming(rank) == back


def test_cyclic_blocks_whose_round_exceeds_all_integers():
    layout = dm.BlockCyclic((2**62,), f"cyclic({2**59})", nprocs=32, grid=(32,))
    assert [layout.local_shape(r)[0] for r in range(32)] == [2**59] * 8 + [0] * 24
    assert layout.owner_of(2**62 - 1) == 7
    again = dm.MotionPlan.from_bytes(dm.redistribute(layout, layout).to_bytes())
    assert again.outgoing(7) == {7: 2**59} and again.outgoing(31) == {}


def test_a_block_larger_than_the_array_holds_it_all():
    for k in (10, 17, 10**18 - 1, LARGEST):
        layout = dm.BlockCyclic(10, f"block({k})", nprocs=16)
        assert [layout.local_elems(r) for r in range(16)] == [10] + [0] * 15
    with pytest.raises(dm.errors.InvalidArgument, match="covers less"):
        dm.BlockCyclic(LARGEST, f"block({2**58})", nprocs=16)
    with pytest.raises(dm.errors.InvalidArgument, match="63 bits"):
        dm.BlockCyclic(10, f"block({2**63})", nprocs=16)


@given(
    st.tuples(*[st.one_of(st.integers(1, 4), st.integers(1, LARGEST))] * 2),
    st.one_of(st.integers(1, 16), st.integers(1, LARGEST)),
    st.one_of(st.integers(0, 3), st.integers(0, LARGEST)),
    st.sampled_from("CF"),
)
def test_dense_memory(shape, elem_bytes, ghost, order):
    layout = dm.FloorPlan([dm.Region((0, 0), shape)], [0])
    held = [n + 2 * ghost for n in shape]
    nbytes = held[0] * held[1] * elem_bytes
    if max(held) > LARGEST or -(-nbytes // 64) * 64 > LARGEST:
        with pytest.raises(dm.errors.OutOfRange):
            dm.advanced.dense_memory(layout, 0, elem_bytes, order, ghost)
        return
    memory = dm.advanced.dense_memory(layout, 0, elem_bytes, order, ghost)
    strides = (held[1] * elem_bytes, elem_bytes) if order == "C" else (
        elem_bytes, held[0] * elem_bytes)  # fmt: skip
    assert memory.blocks[0].strides_bytes == strides
    assert memory.blocks[0].offset_bytes == ghost * sum(strides)
    assert memory.end_bytes == -(-nbytes // 64) * 64


@given(st.tuples(near_the_ends, near_the_ends), near_the_ends, near_the_ends)
def test_relations_have_addresses_that_fit(strides, offset, extent):
    extent = min(abs(extent), LARGEST) + 0
    if extent < 1:
        return
    layout = dm.FloorPlan([dm.Region((0, 0), (extent, 1))], [0])
    valid = dm.Region((0, 0), (extent, 1))
    memory = dm.advanced.MemoryLayout([dm.advanced.BlockMemory(0, offset, strides, valid)], 0, 0)
    plan = dm.redistribute(layout, layout)
    last = offset + (extent - 1) * strides[0]
    possible = fits([offset + 8, last, last + 8, (extent - 1) * strides[0], extent * 8])
    if not possible:
        with pytest.raises(dm.errors.OutOfRange):
            plan.relation(0, 0, 8, source_memory=memory, destination_memory=memory)


def test_numbers_that_are_none_are_refused():
    layouts = [
        dm.BlockCyclic(8, "block", nprocs=4, grid=(2,)),
        dm.FloorPlan([dm.Region(0, 8)], [0], nprocs=4),
        dm.IndexList(8, [[0, 1], [2], [], [3]]),
        dm.FlatCyclic(8, 2, nprocs=4, owners=[3, 1]),
    ]
    for layout in layouts:
        for number in (-1, 99, layout.num_blocks, LARGEST, -(2**63)):
            for ask in (layout.owner, layout.block_extents):
                with pytest.raises(dm.errors.OutOfRange):
                    ask(number)
        for rank in (-1, 4, LARGEST):
            for ask in (layout.blocks_of, layout.local_elems):
                with pytest.raises(dm.errors.OutOfRange):
                    ask(rank)
    tiles, blocks, lists, ranges = layouts
    for rank in (-1, 4):
        for ask in (
            tiles.local_shape, tiles.block_of, tiles.global_indices,
            ranges.block_of, ranges.indices_of,
        ):  # fmt: skip
            with pytest.raises(dm.errors.OutOfRange):
                ask(rank)
        with pytest.raises(dm.errors.OutOfRange):
            tiles.global_index(rank, (0,))
    assert tiles.local_shape(3) == (0,) and tiles.block_of(3) == -1
    for index in (-1, 8):
        with pytest.raises(dm.errors.OutOfRange):
            tiles.owner_of(index)
        with pytest.raises(dm.errors.OutOfRange):
            lists.holders(index)
        with pytest.raises(dm.errors.OutOfRange):
            ranges.place_of(index)
    for ask in (blocks.region, blocks.exclusive_regions):
        with pytest.raises(dm.errors.OutOfRange):
            ask(1)
    for make in (
        lambda: dm.BlockCyclic(8, "block", nprocs=2**31),
        lambda: dm.FloorPlan([dm.Region(0, 8)], [0], nprocs=2**31),
        lambda: dm.FloorPlan([dm.Region(0, 8)], [2**31]),
        lambda: dm.FloorPlan.uniform(dm.Region(0, 8), 2, nprocs=2**31),
        lambda: dm.IndexList((-2, -3), [[0]]),
        lambda: dm.FlatCyclic((-2, -3), 1, nprocs=1),
        lambda: dm.FlatCyclic(8, 1, nprocs=2**31),
        lambda: dm.FlatCyclic(8, 0, nprocs=2),
        lambda: dm.FlatCyclic(8, 1, nprocs=2, owners=[]),
        lambda: dm.FlatCyclic.of_bytes(8, 12, "f8", nprocs=2),
    ):
        with pytest.raises(dm.errors.InvalidArgument):
            make()


def test_distributions_without_common_factors_are_refused_in_no_time():
    source = dm.BlockCyclic(2**62, f"cyclic({2**30 - 1})", nprocs=2, grid=(2,))
    destination = dm.BlockCyclic(2**62, f"cyclic({2**30 - 3})", nprocs=2, grid=(2,))
    plan = dm.redistribute(source, destination)
    for ask in (plan.outgoing, plan.incoming):
        with pytest.raises(dm.errors.Unsupported, match="common factors"):
            ask(0)


def test_a_halo_over_too_many_periods_is_refused():
    blocks = dm.FloorPlan.uniform(dm.Region(0, 8), 2, nprocs=2)
    plan = dm.halo(blocks, 2**50, periodic=True)
    with pytest.raises(dm.errors.OutOfRange, match="narrower"):
        plan.incoming(0)


def test_bisection_with_weights_of_all_magnitudes():
    domain = dm.Region(0, 1000)
    for weights in ([5e-324] * 4, [1.7e308] * 4, [5e-324, 1e308, 5e-324, 1e308]):
        plan = dm.FloorPlan.bisected(domain, weights)
        assert sum(plan.region(i).size for i in range(4)) == 1000
    assert [r.size for r in map(plan.region, range(4))] == [0, 500, 0, 500]
