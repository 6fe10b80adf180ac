# SPDX-License-Identifier: BSD-3-Clause
"""`check=True`: rejects exactly the unsound moves, on all processes and before data is moved."""

import drawn
import numpy as np
import pytest
from test_redistribution import draw_plan, expected

import datamover as dm

CHECK = pytest.mark.parametrize("check", [False, True])


def refused(comm, error, make):
    """The message with which `make` fails, which must be the same on all processes."""
    with pytest.raises(error) as caught:
        make()
    messages = comm.allgather(str(caught.value))
    assert len(set(messages)) == 1
    return messages[0]


def strips(comm, width=4):
    """A row of blocks of `width` squared elements, one for each process."""
    return dm.FloorPlan.uniform(
        dm.Region((0, 0), (width * comm.size, width)), (comm.size, 1), comm.size
    )


def test_sound_moves_pass(comm, rng, cases):
    local_rng = np.random.default_rng([int(rng.integers(2**31)), comm.rank])
    for _ in range(cases * 6):
        plan, shape, axes, section = draw_plan(rng, comm.size)
        source = drawn.Part(comm, rng, local_rng, plan.source, "i4")
        destination = drawn.Part(comm, rng, local_rng, plan.destination, "i4")
        whole = drawn.numbered(shape, "i4")
        before = np.zeros([shape[a] for a in axes], "i4")
        source.fill(whole)
        destination.fill(before)
        dm.Mover(plan, source.arrays, destination.arrays, check=True, comm=comm)()
        destination.assert_holds(expected(whole, before, axes, section, None))


def random_box(rng, region):
    lo = [int(rng.integers(a, b)) for a, b in zip(region.lo, region.hi, strict=True)]
    hi = [int(rng.integers(a + 1, min(a + 3, b) + 1)) for a, b in zip(lo, region.hi, strict=True)]
    return dm.Region(lo, hi)


def test_sections_within_one_array_against_counting(comm, rng, cases):
    blocks = strips(comm, width=7)
    a = dm.Array(blocks, dtype="i8", comm=comm)
    verdicts = set()
    for _ in range(cases * 20):
        plan = dm.MotionPlan(blocks, blocks)
        reads, writes = np.zeros((2, *blocks.domain.shape), int)
        onto_itself = False
        for _ in range(int(rng.integers(1, 6))):
            source, destination = (int(b) for b in rng.integers(0, comm.size, 2))
            box = random_box(rng, blocks.region(source))
            room = zip(*(r for r in blocks.regions[destination]), box.shape, strict=True)
            lo = [int(rng.integers(a, b - n + 1)) for a, b, n in room]
            target = dm.Region(lo, [a + n for a, n in zip(lo, box.shape, strict=True)])
            plan.add_section(source, box, destination, target)
            onto_itself |= box == target
            reads[box.slices()] += 1
            writes[target.slices()] += 1
        both = bool((reads.astype(bool) & writes.astype(bool)).any())
        sound = writes.max() <= 1 and not both
        verdicts.add(bool(sound))
        if sound:
            dm.Mover(plan, a, a, check=True).close()
        else:
            wrong = dm.errors.InvalidArgument
            message = refused(comm, wrong, lambda: dm.Mover(plan, a, a, check=True))  # noqa: B023
            assert "block" in message and "region" in message and "process" in message
        if both and not onto_itself:
            message = refused(comm, dm.errors.InvalidArgument, lambda: dm.Mover(plan, a, a))  # noqa: B023
            assert "read while it is written" in message
        elif not both:
            dm.Mover(plan, a, a).close()
    assert verdicts == {False, True}


def test_written_twice(comm):
    blocks = strips(comm)
    a, b = dm.Array(blocks, dtype="f8", comm=comm), dm.Array(blocks, dtype="f8", comm=comm)
    a.local[...], b.local[...] = 1, 0
    last = comm.size - 1
    plan = dm.redistribute(blocks, blocks)
    corner = dm.Region((4 * last, 0), (4 * last + 1, 2))
    plan.add_section(0, dm.Region((0, 0), (1, 2)), last, corner)
    message = refused(comm, dm.errors.InvalidArgument, lambda: dm.Mover(plan, a, b, check=True))
    assert f"on process {last} an element is written twice" in message
    assert f"block {last}, region [{4 * last}:{4 * last + 1}, 0:2)" in message
    assert (b.local == 0).all()
    twice = lambda: dm.Mover(plan, a, b, op="add", beta=2, check=True)  # noqa: E731
    assert "is written twice" in refused(
        comm, dm.errors.InvalidArgument, twice
    )  # beta would be, too
    dm.Mover(plan, a, b, op="add", check=True)()  # contributions are combined
    assert b.local.sum() == 16 + (2 if comm.rank == last else 0)


def test_ghosts_are_filled_in_place(comm):
    blocks = strips(comm)
    u = dm.Array(blocks, dtype="f8", ghost=1, comm=comm)
    dm.Mover(dm.halo(blocks, 1, periodic=True), u, u, check=True)()


@CHECK
def test_one_memory_laid_out_in_two_ways(comm, check):
    shape = (2 * comm.size, 3 * comm.size)
    rows = dm.BlockCyclic(shape, "(block, *)", comm.size)
    columns = dm.BlockCyclic(shape, "(*, block)", comm.size)
    memory = np.zeros(6 * comm.size)
    before = memory.reshape(rows.local_shape(comm.rank))
    after = memory.reshape(columns.local_shape(comm.rank))
    plan = dm.redistribute(rows, columns)
    if comm.size == 1:  # all stays where it is
        dm.Mover(plan, before, after, comm=comm)()
    else:
        refused(
            comm,
            dm.errors.InvalidArgument,
            lambda: dm.Mover(plan, before, after, check=check, comm=comm),
        )
    square = dm.BlockCyclic((2, 2 * comm.size), "(*, block)", comm.size)
    turned_square = dm.BlockCyclic((2 * comm.size, 2), "(block, *)", comm.size)
    turned = dm.redistribute(square, turned_square, axes=(1, 0))
    mine = np.zeros((2, 2))
    refused(
        comm,
        dm.errors.InvalidArgument,
        lambda: dm.Mover(turned, mine, mine, check=check, comm=comm),
    )


@CHECK
@pytest.mark.parametrize("dims", [1, 2])
def test_one_array_the_other_way_round(comm, check, dims):
    """What stays on a process would be read after it was written."""
    shape = (4 * comm.size, 4)[:dims]
    layout = dm.BlockCyclic(shape, f"(block{', *' * (dims - 1)})", comm.size)
    plan = dm.redistribute(layout, layout)
    for view in [np.s_[::-1], np.s_[::-1, ::-1], np.s_[:, ::-1]]:
        array = np.arange(4.0**dims).reshape((4,) * dims)
        if isinstance(view, tuple) and dims == 1:
            continue
        for pair in [(array, array[view]), (array[view], array)]:
            with pytest.raises(dm.errors.InvalidArgument, match="read while it is written"):
                dm.Mover(plan, *pair, comm=comm, check=check)
        # The same backwards on both sides changes nothing.
        dm.Mover(plan, array[view], array[view], comm=comm, check=check)()
        np.testing.assert_array_equal(array.ravel(), np.arange(4.0**dims))


@CHECK
def test_a_destination_whose_elements_lie_on_each_other(comm, check):
    layout = dm.BlockCyclic((4 * comm.size,), "(block)", comm.size)
    plan = dm.redistribute(layout, layout)
    memory = np.zeros(64)
    for stride in (0, 4, -4):
        flat = np.lib.stride_tricks.as_strided(memory[32:], (4,), (stride,))
        with pytest.raises(dm.errors.InvalidArgument, match=r"on top of each other|written"):
            dm.Mover(plan, np.ones(4), flat, comm=comm, check=check)
    assert (memory == 0).all()


def test_blocks_of_a_destination_on_the_same_memory_on_one_process(comm):
    """Without a check, on all processes; sums may be meant."""
    regions = [dm.Region(k, k + 1) for k in range(2 * comm.size)]
    layout = dm.FloorPlan(regions, [k // 2 for k in range(2 * comm.size)], comm.size)
    plan = dm.redistribute(layout, layout)
    blocks = [2 * comm.rank, 2 * comm.rank + 1]
    last = comm.rank == comm.size - 1
    one, two = np.zeros(1), np.zeros(1)
    source = {b: np.ones(1) for b in blocks}
    mine = dict(zip(blocks, (one, one if last else two), strict=True))
    with pytest.raises(dm.errors.InvalidArgument, match="begin at the same element"):
        dm.Mover(plan, source, mine, comm=comm)
    assert one[0] == two[0] == 0
    dm.Mover(plan, source, mine, comm=comm, op="add")()
    assert one[0] == (2 if last else 1)


@pytest.mark.parametrize("strides", [(8, 8), (24, 8), (-8, 24), (32, 12)], ids=str)
def test_a_destination_that_overlaps_itself_on_one_process(comm, strides):
    """All hear it without a check, at once and when other arrays are bound; sums may be meant."""
    layout = dm.BlockCyclic((4 * comm.size, 4), "(block, *)", comm.size)
    plan = dm.redistribute(layout, layout)
    memory = np.zeros(64)
    on_itself = np.lib.stride_tricks.as_strided(memory[32:], (4, 4), strides)
    last = comm.rank == comm.size - 1
    mine = on_itself if last else np.zeros((4, 4))
    with pytest.raises(dm.errors.InvalidArgument, match="lie on top of each other"):
        dm.Mover(plan, np.ones((4, 4)), {comm.rank: mine}, comm=comm)
    sound = np.zeros((4, 4))
    with dm.Mover(plan, np.ones((4, 4)), sound, comm=comm) as mover:
        with pytest.raises(dm.errors.InvalidArgument, match="lie on top of each other"):
            mover.rebind(np.ones((4, 4)), mine)
        mover()
    assert (memory == 0).all() and (sound == 1).all()
    dm.Mover(plan, np.ones((4, 4)), mine, comm=comm, op="add")()
    assert strides == (32, 12) or memory.sum() == (16 if last else 0)  # there halves of doubles


def test_a_destination_of_which_rows_and_columns_interleave(comm):
    """No element is on another one, though no dimension steps over all of the next."""
    layout = dm.BlockCyclic((3 * comm.size, 2), "(block, *)", comm.size)
    memory = np.zeros(64)
    woven = np.lib.stride_tricks.as_strided(memory, (3, 2), (16, 24))  # elements 0 2 4, 3 5 7
    source = np.arange(1.0, 7).reshape(3, 2)
    dm.Mover(dm.redistribute(layout, layout), source, woven, comm=comm)()
    assert memory[:8].tolist() == [1, 0, 3, 2, 5, 4, 0, 6]


def test_sizes_beyond_64_bits_on_one_process(comm):
    """All hear it, though it shows only where the destination lies; no element has memory."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    n, last = 1 << 60, comm.size - 1
    whole, halves = dm.Region((0,), (n,)), [dm.Region((0,), (n // 2,)), dm.Region((n // 2,), (n,))]
    plan = dm.redistribute(
        dm.FloorPlan([whole], [0], comm.size), dm.FloorPlan(halves, [last] * 2, comm.size)
    )

    def array(dtype, elems):
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), (elems,), (0,))

    source = array("u1", n) if comm.rank == 0 else None
    blocks = {block: array("f8", n // 2) for block in (0, 1)} if comm.rank == last else None
    with pytest.raises(dm.errors.OutOfRange, match="64 bits"):
        dm.Mover(plan, source, blocks, op="add", transport="p2p", comm=comm)


@CHECK
def test_one_array_reads_what_another_one_writes(comm, check):
    line = dm.BlockCyclic(3 * comm.size, "block", nprocs=comm.size)
    plan = dm.redistribute(line, line)
    a, b, c = np.arange(9.0).reshape(3, 3)
    dm.Mover(plan, [a, a], [b, c], check=check, comm=comm)()
    np.testing.assert_array_equal([b, c], [a, a])
    chain = ([a, b], [b, c])
    refused(comm, dm.errors.InvalidArgument, lambda: dm.Mover(plan, *chain, check=check, comm=comm))


@CHECK
def test_arrays_that_share_memory(comm, check):
    line = dm.BlockCyclic(6 * comm.size, "block", nprocs=comm.size)
    plan = dm.redistribute(line, line)
    buffer = np.arange(12.0)
    both = dm.Mover(plan, buffer[:6], buffer[6:], check=check, comm=comm)
    overlapping = (buffer[:6], buffer[5:11])
    message = refused(
        comm,
        dm.errors.InvalidArgument,
        lambda: dm.Mover(plan, *overlapping, check=check, comm=comm),
    )
    assert "read while it is written" in message
    refused(comm, dm.errors.InvalidArgument, lambda: both.rebind(*overlapping))
    both()
    np.testing.assert_array_equal(buffer[6:], np.arange(6.0))
    interleaved = np.arange(12.0)
    dm.Mover(plan, interleaved[::2], interleaved[1::2], check=check, comm=comm)()
    np.testing.assert_array_equal(interleaved[1::2], interleaved[::2])


def test_blocks_far_apart_in_memory(comm):
    """A small array and one of pages of its own lie in different corners of the address space."""
    size = comm.size
    shape = (size, 300_000)
    boxes = [
        dm.Region((r, lo), (r + 1, hi)) for r in range(size) for lo, hi in [(0, 2), (2, 300_000)]
    ]
    blocks = dm.FloorPlan(boxes, [r for r in range(size) for _ in range(2)], size)
    rows = dm.BlockCyclic(shape, "(block, *)", size)
    whole = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    mine = {b: np.zeros(blocks.region(b).shape) for b in blocks.blocks_of(comm.rank)}
    plan = dm.redistribute(rows, blocks)
    dm.Mover(plan, whole[comm.rank : comm.rank + 1], mine, check=True, comm=comm)()
    for block, array in mine.items():
        np.testing.assert_array_equal(array, whole[blocks.region(block).slices()])
    plan.add_section(
        comm.size - 1, dm.Region((size - 1, 5), (size, 6)), 1, dm.Region((0, 5), (1, 6))
    )
    message = refused(
        comm,
        dm.errors.InvalidArgument,
        lambda: dm.Mover(plan, whole[comm.rank : comm.rank + 1], mine, check=True, comm=comm),
    )
    assert "block 1, region [0:1, 5:6)" in message


def test_processes_that_bring_different_moves(comm):
    if comm.size == 1:
        pytest.skip("one process cannot differ")
    last = comm.rank == comm.size - 1
    blocks = strips(comm)
    a, b = dm.Array(blocks, dtype="f8", comm=comm), dm.Array(blocks, dtype="f8", comm=comm)
    b.local[...] = 7

    def message(plan, check=True, **options):
        text = refused(comm, dm.Mismatch, lambda: dm.Mover(plan, a, b, check=check, **options))
        return text.removeprefix(f"processes 0 and {comm.size - 1} passed different ")

    same, other = dm.redistribute(blocks, blocks), dm.MotionPlan(blocks, blocks)
    other.add_section(0, dm.Region((0, 0), (4, 4)), 0, dm.Region((0, 0), (4, 4)))
    text = message(other if last else same)
    assert text.startswith("plans in term 0: all of ")
    assert text.endswith(f"block 0 [0:4, 0:4) to block 0 [0:4, 0:4) on process {comm.size - 1}")
    text = message(same + other if last else same)
    assert text == f"numbers of terms: 1 on process 0, 2 on process {comm.size - 1}"
    longer = dm.FloorPlan([*(blocks.region(i) for i in range(comm.size)), blocks.domain],
                          [*range(comm.size), 0])  # fmt: skip
    assert "laid out as" in message(dm.MotionPlan(longer, blocks) if last else same)
    # One process that asks is enough.
    assert "op" in message(same, check=last, op="add" if last else None)
    assert (b.local == 7).all()
