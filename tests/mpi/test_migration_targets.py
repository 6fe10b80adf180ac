# SPDX-License-Identifier: BSD-3-Clause
"""Predefined maps from elements to processes: agree with NumPy."""

import itertools

import numpy as np
import pytest

import datamover as dm


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_modulo_and_block(comm, rng, dtype):
    info = np.iinfo(dtype)
    keys = rng.integers(max(info.min, -(2**62)), min(info.max, 2**62), 200).astype(dtype)
    for nprocs in (1, 3, 7, 100):
        right = (keys.astype(object) % nprocs).astype(np.int64)
        np.testing.assert_array_equal(dm.targets.modulo().ranks(keys, nprocs), right)
        inside = (keys >= 0) & (keys < 100)
        right = np.where(inside, keys.astype(np.int64) // -(-100 // nprocs), -2)
        np.testing.assert_array_equal(dm.targets.block(100).ranks(keys, nprocs), right)


def test_splitters(comm, rng):
    splitters = np.sort(rng.integers(0, 50, 9)) / 10
    keys = rng.integers(-10, 70, 500) / 10
    ranks = dm.targets.splitters(splitters).ranks(keys, 10)
    np.testing.assert_array_equal(ranks, np.searchsorted(splitters, keys, side="right"))
    assert dm.targets.splitters([0.0]).ranks(np.array([np.nan]), 2) == [-2]
    np.testing.assert_array_equal(dm.targets.splitters([]).ranks(keys, 1), np.zeros(500))


EDGES = [0, 1, 2**31, 2**53, 2**53 + 1, 2**60, 2**60 + 1, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("keys_type", ["i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("type_", ["i4", "i8", "u8", "f4", "f8"])
def test_splitters_never_round(comm, rng, type_, keys_type):
    """Against Python's own comparisons, which are exact for any numbers."""

    def drawn(dtype, n):
        values = [v + d for v in EDGES for d in (-1, 0, 1)] + rng.integers(-9, 9, 20).tolist()
        values += [-v for v in values] + [-(2**63), -(2**31), 127, -128, 255]
        if dtype[0] == "f":
            values = np.array(values, dtype)
            values = np.concatenate([values, values / 3, [np.inf, -np.inf]]).astype(dtype)
        else:
            info = np.iinfo(dtype)
            values = np.array([v for v in values if info.min <= v <= info.max], dtype)
        return rng.choice(values, n)

    splitters = np.sort(drawn(type_, 15))
    keys = drawn(keys_type, 200)
    ranks = dm.targets.splitters(splitters).ranks(keys, 16)
    right = [sum(s <= k for s in splitters.tolist()) for k in keys.tolist()]
    np.testing.assert_array_equal(ranks, right)


@pytest.mark.parametrize(
    "values",
    [
        [np.nan],
        [0.0, np.nan],
        [2.0, 1.0],
        ["a"],
        [2**70],
        [[1.0]],
        [2**63 + 1, -1],
        [1j],
        [True],
        [None],
        np.array([1.0, 2.0], "O"),
    ],
    ids=str,
)
def test_splitters_that_are_none(comm, values):
    with pytest.raises(dm.Error):
        dm.targets.splitters(values).ranks(np.arange(3), np.size(values) + 1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_splitters_are_one_fewer_than_processes(comm, count):
    with pytest.raises(dm.Mismatch, match=f"{count} splitters"):
        dm.targets.splitters(np.arange(count)).ranks(np.arange(4), 3)


def test_numbers_are_not_cut_off(comm):
    unit = ((0, 0), (1, 1))
    x = np.full((2, 2), 0.5)
    for bad in (2**32, 4, -2, -(2**32), 2**31):
        with pytest.raises(dm.errors.OutOfRange, match=f"cell 1 belongs to process {bad}"):
            dm.targets.grid(unit, (2, 2), [0, bad, 0, 0]).ranks(x, 4)
    assert (dm.targets.grid(unit, (2, 2), [-1] * 4).ranks(x, 4) == -1).all()
    for wrong in (
        lambda: dm.targets.grid(unit, (2, 2), [0.5, 0, 0, 0]),
        lambda: dm.targets.grid(unit, (2.5, 2)),
        lambda: dm.targets.block(10.5),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(dm.errors.OutOfRange):
        dm.targets.grid(unit, (2, 2), np.uint64([0, 0, 0, 2**63]))
    with pytest.raises(dm.errors.OutOfRange, match="below 2"):
        dm.targets.block(2**63)
    for huge in (2**64, -(2**70)):
        for make in (dm.targets.block, lambda n: dm.targets.grid(unit, (2, 2), [0, n, 0, 0])):
            with pytest.raises(dm.errors.OutOfRange, match=f"contain {huge}, which does not fit"):
                make(huge)
    for nprocs in (0, -1, 2**31):
        with pytest.raises(dm.errors.InvalidArgument):
            dm.targets.hilbert(unit, (2, 2)).ranks(x, nprocs)


@pytest.mark.parametrize("value", [2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1, 2**32 - 1])
def test_large_unsigned_targets_drop_nothing(comm, value):
    ranks = np.zeros(100, "u8")
    if comm.rank == comm.size - 1:
        ranks[70] = value
    with pytest.raises(dm.errors.OutOfRange, match=rf"element 70 .* target {value};"):
        dm.Migration(ranks, comm=comm)
    if value == 2**32 - 1:
        with pytest.raises(dm.errors.OutOfRange, match=rf"target {value};"):
            dm.Migration(np.full(200, value, "u4"), comm=comm)


def test_keys_without_target_are_named(comm):
    """By their key, not by a rank that nobody gave."""
    last = comm.size - 1
    keys = np.arange(8)
    keys[5] += 100 * (comm.rank == last)
    with pytest.raises(dm.errors.OutOfRange, match=rf"element 5 of process {last} .* key is 105"):
        dm.migrate(keys, dm.targets.block(8), comm=comm)
    positions = np.full((9, 2), 0.5)
    positions[3, 1] = np.nan
    with pytest.raises(dm.errors.OutOfRange, match=r"key is \[0.5, nan\]"):
        dm.migrate(positions, dm.targets.morton(((0, 0), (1, 1)), (4, 4)), comm=comm)


def curve_keys(index, bits, *, hilbert):
    """Skilling's formula, bit by bit, and the bits of all dimensions in turn."""
    x = [column.astype(np.uint64) for column in np.transpose(index)]
    one = np.uint64(1)
    if hilbert and bits:
        for b in range(bits - 1, 0, -1):
            q, below = one << np.uint64(b), (one << np.uint64(b)) - one
            for d in range(len(x)):
                swapped = np.where(x[d] & q, 0, (x[0] ^ x[d]) & below).astype(np.uint64)
                x[0] = np.where(x[d] & q, x[0] ^ below, x[0] ^ swapped)
                x[d] = x[d] ^ swapped
        for d in range(1, len(x)):
            x[d] = x[d] ^ x[d - 1]
        flips = np.zeros_like(x[0])
        for b in range(bits - 1, 0, -1):
            flips ^= np.where(x[-1] >> np.uint64(b) & one, (one << np.uint64(b)) - one, 0).astype(
                np.uint64
            )
        x = [column ^ flips for column in x]
    keys = np.zeros(len(index), np.uint64)
    for b in range(bits - 1, -1, -1):
        for column in x:
            keys = keys << one | (column >> np.uint64(b) & one)
    return keys


CELLS = [
    (1,),
    (5,),
    (64,),
    (1, 1),
    (2, 2),
    (16, 16),
    (7, 100),
    (4096, 3),
    (8, 8, 8),
    (64,) * 3,
    (100, 3, 17),
    (1, 1, 2048),
    (2, 3000, 1),
    (4,) * 4,
    (3, 1, 5, 2),
    (16,) * 4,
    (2,) * 5,
    (3, 2, 1, 2, 4),
    (2, 3) * 3,
    (2,) * 7,
    (2, 1) * 4,
    (4, 2, 1, 1, 2, 1, 2, 2),
]


@pytest.mark.parametrize("make", [dm.targets.morton, dm.targets.hilbert])
@pytest.mark.parametrize("cells", CELLS, ids=str)
def test_curves_are_the_formula(comm, rng, make, cells):
    """Positions anywhere: the owner by the rank of the cell's key among all keys, as by a sort."""
    dims, total = len(cells), int(np.prod(cells))
    hilbert = make is dm.targets.hilbert
    bits = int(max(cells) - 1).bit_length()
    everywhere = np.stack(np.unravel_index(np.arange(total), cells), axis=1)
    order = np.argsort(curve_keys(everywhere, bits, hilbert=hilbert), kind="stable")
    position = np.empty(total, int)
    position[order] = np.arange(total)

    x = rng.random((2000, dims)) * 1.2 - 0.1
    index = np.clip(np.floor(x * cells), 0, np.array(cells) - 1).astype(int)
    places = position[np.ravel_multi_index(index.T, cells)]
    unit = ((0,) * dims, (1,) * dims)
    for nprocs in (1, 2, 7, 64, 4096, 5000, 10**6):
        ranks = make(unit, cells).ranks(x, nprocs)
        np.testing.assert_array_equal(ranks, places * nprocs // total)
    owners = rng.integers(-1, 50, total)
    np.testing.assert_array_equal(make(unit, cells, owners).ranks(x, 50), owners[places])
    x[7, dims - 1] = np.nan
    assert make(unit, cells).ranks(x, 3)[7] == -2
    right = np.floor(np.mod(x, 1) * cells)
    wrapped = make(unit, cells, periodic=True).ranks(np.nan_to_num(x), 64)
    right = np.minimum(np.nan_to_num(right), np.array(cells) - 1).astype(int)
    close = np.abs(np.mod(x * cells + 0.5, 1) - 0.5).min(axis=1) < 1e-9
    right = position[np.ravel_multi_index(right.T, cells)] * 64 // total
    np.testing.assert_array_equal(wrapped[~close], right[~close])


def centres(cells):
    """The middle of every cell of a unit box, in row-major order."""
    return np.array(
        [
            [(i + 0.5) / n for i, n in zip(c, cells, strict=True)]
            for c in itertools.product(*map(range, cells))
        ]
    )


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("periodic", [False, True])
def test_grid_of_cells(comm, rng, dtype, periodic):
    for _ in range(5):
        dims = int(rng.integers(1, 5))
        cells = rng.integers(1, 6, dims)
        lo, length = rng.integers(-3, 4, dims), 2.0 ** rng.integers(-2, 3, dims)
        owners = rng.integers(0, 9, int(np.prod(cells)))
        x = (lo + length * (rng.random((300, dims)) * 3 - 1)).astype(dtype)
        per_length = cells / length
        at = (x.astype(float) - lo) * per_length
        index = np.floor(at).astype(int)
        index = index % cells if periodic else np.clip(index, 0, cells - 1)
        right = owners[np.ravel_multi_index(index.T, cells)]
        map_ = dm.targets.grid((lo, lo + length), cells, owners, periodic=periodic)
        np.testing.assert_array_equal(map_.ranks(x, 9), right)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_morton_interleaves_bits(comm, bits):
    n = 2**bits
    order = np.arange(n**3)
    ranks = dm.targets.morton(((0,) * 3, (1,) * 3), (n,) * 3, order).ranks(centres((n,) * 3), n**3)
    index = np.array(list(itertools.product(range(n), repeat=3)))
    right = sum(((index[:, d] >> b) & 1) << (3 * b + 2 - d) for d in range(3) for b in range(bits))
    np.testing.assert_array_equal(ranks, right)


@pytest.mark.parametrize(("dims", "bits"), [(2, 1), (2, 4), (3, 1), (3, 3), (4, 2)])
def test_hilbert_steps_to_a_neighbour(comm, dims, bits):
    """The curve passes every cell once, from each to one beside it, and stays in sub-cubes."""
    n = 2**bits
    cells = (n,) * dims
    curve = dm.targets.hilbert(((0,) * dims, (1,) * dims), cells, np.arange(n**dims))
    position = curve.ranks(centres(cells), n**dims)
    assert sorted(position) == list(range(n**dims))
    index = np.array(list(itertools.product(range(n), repeat=dims)))[np.argsort(position)]
    assert (np.abs(np.diff(index, axis=0)).sum(axis=1) == 1).all()
    halves = (index >= n // 2).reshape(2**dims, -1, dims)
    assert (halves == halves[:, :1]).all()


@pytest.mark.parametrize("make", [dm.targets.grid, dm.targets.morton, dm.targets.hilbert])
def test_any_number_of_cells_is_dealt_equally(comm, make):
    cells = (3, 5, 2)
    for nprocs in (1, 4, 7, 30):
        ranks = make(((0, 0, 0), (1, 1, 1)), cells).ranks(centres(cells), nprocs)
        counts = np.bincount(ranks, minlength=nprocs)
        assert counts.max() - counts.min() <= 1


def test_particles_by_cells(comm, rng):
    dtype = [("pos", "f8", 3), ("q", "f8"), ("vel", "f8", 3), ("tproc", "i4")]
    everyone = []
    for _ in range(comm.size):
        particles = np.zeros(500, dtype)
        particles["pos"] = rng.random((500, 3))
        particles["q"] = rng.random(500)
        everyone.append(particles)
    z = dm.targets.morton(((0, 0, 0), (1, 1, 1)), cells=(8, 8, 8))
    moved = dm.migrate(everyone[comm.rank], target=z, comm=comm)
    right = [p[z.ranks(p["pos"], comm.size) == comm.rank] for p in everyone]
    np.testing.assert_array_equal(moved, np.concatenate(right))


@pytest.mark.parametrize("make", [dm.targets.grid, dm.targets.morton, dm.targets.hilbert])
def test_a_box_too_short_for_its_cells(comm, make):
    unit = np.array([[0.0, 0.5], [0.3, 0.5], [1.0, 0.5]])
    right = make(((0, 0), (1, 1)), (4, 4)).ranks(unit, 16)
    for length in (5e-324, 1e-310, 2.0**-1022):
        with pytest.raises(dm.errors.InvalidArgument, match="too short in dimension 0 for 4 cells"):
            make(((0, 0), (length, 1)), (4, 4)).ranks(unit, 16)
    shortest = 2.0**-1021
    ranks = make(((0, 0), (shortest, 1)), (4, 4)).ranks(unit * [shortest, 1], 16)
    np.testing.assert_array_equal(ranks, right)


def test_position_that_is_no_number(comm):
    positions = np.full((10, 2), 0.5)
    if comm.rank == comm.size - 1:
        positions[7, 1] = np.nan
    with pytest.raises(
        dm.errors.OutOfRange, match=f"element 7 of process {comm.size - 1} has no target"
    ):
        dm.migrate(positions, dm.targets.grid(((0, 0), (1, 1)), (4, 4)), comm=comm)


def test_owners_of_cells_by_a_layout(comm, rng):
    lo, length = np.array([0.0, 1.0]), np.array([2.0, 3.0])
    cells = (5, 7)
    x = lo + length * rng.random((300, 2))
    index = ((x - lo) / length * cells).astype(int)
    boxes = [dm.Region((0, 0), (5, 4)), dm.Region((2, 3), (5, 7))]  # they overlap; a corner is free
    owners = np.full(cells, -1)
    owners[2:, 3:] = 0
    owners[:, :4] = 2
    plan = dm.FloorPlan(boxes, [2, 0], nprocs=3)
    tiles = dm.BlockCyclic(cells, "(cyclic, cyclic(2))", nprocs=3, grid=(1, 3))
    for layout, table in (plan, owners), (tiles, np.tile(np.arange(7) // 2 % 3, (5, 1))):
        found = dm.targets.grid((lo, lo + length), cells, layout).ranks(x, 3)
        np.testing.assert_array_equal(found, table[tuple(index.T)])
    with pytest.raises(dm.Mismatch, match=r"there are .* cells"):
        dm.targets.grid((lo, lo + length), (4, 7), plan)
    with pytest.raises(
        dm.errors.WrongType, match="hilbert curve must be integers; grid takes a layout"
    ):
        dm.targets.hilbert((lo, lo + length), cells, plan)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: dm.targets.grid(((0, 0), (1, 1)), (4, 0)), dm.errors.InvalidArgument),
        (lambda: dm.targets.grid(((0, 0), (0, 1)), (4, 4)), dm.errors.InvalidArgument),
        (lambda: dm.targets.grid(((0, 0), (1, 1)), (4, 4), [0, 1]), dm.Mismatch),
        (lambda: dm.targets.grid(((0,), (1,)), (4,)), dm.Mismatch),
        (lambda: dm.targets.splitters([2.0, 1.0]), dm.errors.InvalidArgument),
        (lambda: dm.targets.modulo(), dm.Mismatch),
    ],
)
def test_wrong_maps(comm, make, error):
    with pytest.raises(error):
        dm.migrate(np.full((3, 2), 0.5), make(), comm=comm)


@pytest.mark.parametrize(
    ("ranks_of", "error", "words"),
    [
        (lambda x: dm.targets.grid(5, (2,)), dm.errors.InvalidArgument, "box is 5; it must be"),
        (
            lambda x: dm.targets.hilbert(((0,),), (2,)),
            dm.errors.InvalidArgument,
            "lower and its upper",
        ),
        (lambda x: dm.targets.morton((["a"], [1]), (2,)), dm.errors.InvalidArgument, "of numbers"),
        (
            lambda x: dm.targets.block(2.5),
            dm.errors.WrongType,
            "total is 2.5, it must be an integer",
        ),
        (lambda x: dm.targets.modulo().ranks(x, 2.5), dm.errors.WrongType, "nprocs is 2.5"),
        (
            lambda x: dm.targets.modulo().ranks(x.astype(object), 2),
            dm.errors.WrongType,
            "keys must be",
        ),
    ],
)
def test_what_makes_no_map_is_named(ranks_of, error, words):
    with pytest.raises(error, match=words):
        ranks_of(np.arange(3))


def test_where_the_keys_are_has_to_be_said(comm):
    columns = {"id": np.arange(3), "x": np.zeros(3)}
    records = np.zeros(3, [("id", "i8"), ("x", "f8")])
    for elements in (columns, records):
        with pytest.raises(
            dm.errors.InvalidArgument, match=r"\['id', 'x'\]; create the map with key="
        ):
            dm.migrate(elements, target=dm.targets.modulo(), comm=comm)
        with pytest.raises(dm.errors.InvalidArgument, match="'number'"):
            dm.migrate(elements, target=dm.targets.modulo(key="number"), comm=comm)
        arrived = dm.migrate(elements, target=dm.targets.modulo(key="id"), comm=comm)
        assert (arrived["id"] % comm.size == comm.rank).all()
