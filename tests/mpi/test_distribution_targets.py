# SPDX-License-Identifier: BSD-3-Clause
"""Do the predefined maps from elements to processes say what NumPy says?"""

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
    moved = dm.distribute(comm, everyone[comm.rank], target=z)
    right = [p[z.ranks(p["pos"], comm.size) == comm.rank] for p in everyone]
    np.testing.assert_array_equal(moved, np.concatenate(right))


def test_position_that_is_no_number(comm):
    positions = np.full((10, 2), 0.5)
    if comm.rank == comm.size - 1:
        positions[7, 1] = np.nan
    with pytest.raises(dm.OutOfRange, match=f"element 7 of process {comm.size - 1}"):
        dm.distribute(comm, positions, dm.targets.grid(((0, 0), (1, 1)), (4, 4)))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: dm.targets.grid(((0, 0), (1, 1)), (4, 0)), dm.InvalidArgument),
        (lambda: dm.targets.grid(((0, 0), (0, 1)), (4, 4)), dm.InvalidArgument),
        (lambda: dm.targets.grid(((0, 0), (1, 1)), (4, 4), [0, 1]), dm.Mismatch),
        (lambda: dm.targets.grid(((0,), (1,)), (4,)), dm.Mismatch),
        (lambda: dm.targets.splitters([2.0, 1.0]), dm.InvalidArgument),
        (lambda: dm.targets.modulo(), dm.Mismatch),
    ],
)
def test_wrong_maps(comm, make, error):
    with pytest.raises(error):
        dm.distribute(comm, np.full((3, 2), 0.5), make())
