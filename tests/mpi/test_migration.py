# SPDX-License-Identifier: BSD-3-Clause
"""Distributions: every element reaches its process, in stable order, by every method, and returns.

The model keeps all elements of all processes on every process; each element contains its origin.
"""

import numpy as np
import pytest

import datamover as dm

METHODS = ["auto", "partition", "alltoallv", "alltoallw", "sendrecv", "sort"]
DTYPES = ["u1", "i2", "i4", "f8", "S3", "S12", "S24", "S47", "c16", "S64", "S192", "S1000"]
SHAPES = ["random", "all to one", "one to all", "neighbours", "stay", "some empty", "none at all"]


def drawn_targets(rng, size, shape, most=300):
    """For each process the targets of its elements."""
    counts = rng.integers(0, most, size)
    if shape == "some empty":
        counts[rng.random(size) < 0.5] = 0
    elif shape == "none at all":
        counts[:] = 0
    elif shape == "one to all":
        counts[np.arange(size) != rng.integers(0, size)] = 0
    targets = [rng.integers(0, size, n) for n in counts]
    if shape == "all to one":
        one = rng.integers(0, size)
        targets = [np.full(n, one) for n in counts]
    elif shape == "neighbours":
        targets = [(r + rng.integers(-1, 2, n)) % size for r, n in enumerate(counts)]
    elif shape == "stay":
        targets = [np.full(n, r) for r, n in enumerate(counts)]
    return targets


def labelled(rank, n, dtype):
    """Elements that differ, as far as their size allows, by source and position."""
    dtype = np.dtype(dtype)
    raw = np.empty((n, dtype.itemsize), "u1")
    position = np.arange(n)
    for b in range(dtype.itemsize):
        raw[:, b] = (rank * 41 + 1, position % 251, position // 251, position * 7 + rank)[
            b % 4
        ] % 256
    if dtype.kind in "fc":
        return (rank * 10000 + position).astype(dtype)
    return raw.view(dtype).reshape(n)


def expected(rank, columns, targets):
    """What arrives at a rank: source after source, in their order, once per target."""
    parts = []
    for column, target in zip(columns, targets, strict=True):
        rows = [t if np.ndim(t) else [t] for t in target]
        index = [i for i, row in enumerate(rows) for t in row if t == rank]
        parts.append(column[np.asarray(index, int)])
    return np.concatenate(parts)


def same_bytes(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_method_is_the_model(comm, rng, method, shape):
    for dtype in rng.permutation(DTYPES)[:4]:
        targets = drawn_targets(rng, comm.size, shape)
        columns = [labelled(r, len(t), dtype) for r, t in enumerate(targets)]
        before = columns[comm.rank].copy()
        d = dm.Migration(targets[comm.rank], method=method, comm=comm)
        moved = d.move(columns[comm.rank])
        same_bytes(moved, expected(comm.rank, columns, targets))
        same_bytes(columns[comm.rank], before)


@pytest.mark.parametrize("target_type", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"])
def test_targets_of_any_integer_type(comm, rng, target_type):
    targets = drawn_targets(rng, comm.size, "random", 5000)
    columns = [labelled(r, len(t), "i8") for r, t in enumerate(targets)]
    mine = targets[comm.rank].astype(target_type)
    moved = dm.migrate(columns[comm.rank], mine, comm=comm)
    same_bytes(moved, expected(comm.rank, columns, targets))


def test_stability_by_its_definition(comm, rng):
    """Of two neighbours the first has the lower process, or the same and an earlier place."""
    n = 2000
    dtype = np.dtype([("sproc", "i4"), ("spos", "i4"), ("tproc", "i4")])
    elements = np.zeros(n, dtype)
    elements["sproc"], elements["spos"] = comm.rank, np.arange(n)
    elements["tproc"] = np.random.default_rng(comm.rank).integers(0, comm.size, n)
    for method in METHODS:
        e = dm.migrate(elements, "tproc", method=method, comm=comm)
        assert (e["tproc"] == comm.rank).all()
        a, b = e[:-1], e[1:]
        in_order = (a["sproc"] < b["sproc"]) | (
            (a["sproc"] == b["sproc"]) & (a["spos"] < b["spos"])
        )
        assert in_order.all()
        assert comm.allreduce(len(e)) == n * comm.size


def test_columns_travel_together(comm, rng):
    """Many columns of different sizes, strided ones among them, equal what each gets alone."""
    for count in (1, 3, 40):
        targets = drawn_targets(rng, comm.size, "random")
        everyone = [
            [labelled(r, len(t), DTYPES[(c + count) % len(DTYPES)]) for c in range(count)]
            for r, t in enumerate(targets)
        ]
        mine = [np.repeat(c, 2)[::2] if i % 2 else c for i, c in enumerate(everyone[comm.rank])]
        d = dm.Migration(targets[comm.rank], comm=comm)
        moved = d.move(*mine)
        moved = [moved] if count == 1 else moved
        for c in range(count):
            same_bytes(moved[c], expected(comm.rank, [e[c] for e in everyone], targets))
        used = int((d.send_counts > 0).sum()) - int(d.send_counts[comm.rank] > 0)
        assert d.counters()["messages"] <= used * (1 + (count - 1) // 32)


def test_elements_of_several_numbers(comm, rng):
    targets = drawn_targets(rng, comm.size, "random")
    columns = [rng.random((len(t), 3)) for t in targets]
    d = dm.Migration(targets[comm.rank], comm=comm)
    same_bytes(d.move(columns[comm.rank]), expected(comm.rank, columns, targets))
    same_bytes(d.move(columns[comm.rank][:, 1]), expected(comm.rank, columns, targets)[:, 1].copy())


@pytest.mark.parametrize("dtype", ["i4", "i8", "S5", "S64"])
def test_dropped_elements(comm, rng, dtype):
    targets = drawn_targets(rng, comm.size, "random", 1000)
    targets = [np.where(rng.random(len(t)) < 0.3, -1, t) for t in targets]
    columns = [labelled(r, len(t), dtype) for r, t in enumerate(targets)]
    for method in METHODS:
        d = dm.Migration(targets[comm.rank], method=method, comm=comm)
        same_bytes(d.move(columns[comm.rank]), expected(comm.rank, columns, targets))
        assert d.counters()["elems_dropped"] == (targets[comm.rank] == -1).sum()


@pytest.mark.parametrize("kind", ["table", "rows"])
def test_several_targets_per_element(comm, rng, kind):
    n = rng.integers(0, 100, comm.size)
    if kind == "table":
        targets = [rng.integers(-1, comm.size, (k, 3)) for k in n]
        mine = targets[comm.rank]
    else:
        targets = [[rng.integers(-1, comm.size, rng.integers(0, 4)) for _ in range(k)] for k in n]
        lists = targets[comm.rank]
        starts = np.cumsum([0] + [len(row) for row in lists])
        mine = (starts, np.concatenate([*lists, np.empty(0, int)]).astype(int))
    columns = [labelled(r, k, "S24") for r, k in enumerate(n)]
    numbers = [r * 1000.0 + np.arange(k) for r, k in enumerate(n)]
    for method in METHODS:
        d = dm.Migration(mine, method=method, comm=comm)
        same_bytes(d.move(columns[comm.rank]), expected(comm.rank, columns, targets))
    arrived = d.move(numbers[comm.rank])
    home = d.reverse(arrived * (comm.rank + 1), op="add")
    factor = np.array([sum(t + 1 for t in row if t >= 0) for row in targets[comm.rank]])
    np.testing.assert_allclose(home, numbers[comm.rank] * factor if len(home) else home)


@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(comm, rng, shape):
    targets = drawn_targets(rng, comm.size, shape)
    mine = labelled(comm.rank, len(targets[comm.rank]), "S24")
    d = dm.Migration(targets[comm.rank], comm=comm)
    pooled = d.move(mine)
    same_bytes(d.reverse(pooled), mine)
    same_bytes(d.reverse(pooled.copy()), mine)
    same_bytes(d.reverse(np.repeat(pooled, 2)[::2]), mine)


@pytest.mark.parametrize("op", ["add", "multiply", "min", "max"])
@pytest.mark.parametrize("dtype", ["i4", "f8", "u1"])
def test_values_are_combined_on_the_way_back(comm, rng, op, dtype):
    k = 3
    targets = [rng.integers(0, comm.size, (20, k)) for _ in range(comm.size)]
    d = dm.Migration(targets[comm.rank], comm=comm)
    keys = d.move(np.arange(20) + 100 * comm.rank)
    values = ((keys * 3 + comm.rank * 5) % 7 + 1).astype(dtype)
    combined = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    keys_here = (np.arange(20) + 100 * comm.rank)[:, None]
    each = ((keys_here * 3 + targets[comm.rank] * 5) % 7 + 1).astype(dtype)
    np.testing.assert_array_equal(d.reverse(values, op), combined.reduce(each, axis=1, dtype=dtype))


def test_results_in_given_memory(comm, rng):
    targets = drawn_targets(rng, comm.size, "random")
    columns = [labelled(r, len(t), "S64") for r, t in enumerate(targets)]
    d = dm.Migration(targets[comm.rank], comm=comm)
    right = expected(comm.rank, columns, targets)
    own = np.zeros(len(right) + 5, "S64")
    moved = d.move(columns[comm.rank], out=own)
    assert np.shares_memory(moved, own) or len(moved) == 0
    same_bytes(moved, right)
    assert (own[len(right) :] == b"").all()
    pooled = d.move(columns[comm.rank])
    pooled.view("u1")[...] = 0
    same_bytes(d.move(columns[comm.rank], out=pooled), right)


def test_memory_is_used_again(comm):
    n = 50000
    d = dm.Migration(np.arange(n) % comm.size, comm=comm)
    places = set()
    for _ in range(10):
        moved = d.move(np.arange(n))
        places.add(moved.ctypes.data)
        del moved
    assert len(places) <= 2


@pytest.mark.parametrize("limit", [1, 100, 4000])
@pytest.mark.parametrize("given", [False, True])
def test_bounded_memory_gives_the_same(comm, rng, limit, given):
    targets = drawn_targets(rng, comm.size, "random")
    columns = [labelled(r, len(t), "S24") for r, t in enumerate(targets)]
    numbers = [np.arange(len(t)) for t in targets]
    d = dm.Migration(targets[comm.rank], max_bytes=limit, comm=comm)
    out = None
    if given:
        out = [np.zeros(d.received, "S24"), np.zeros(d.received, int)]
    moved = d.move(columns[comm.rank], numbers[comm.rank], out=out)
    same_bytes(moved[0], expected(comm.rank, columns, targets))
    same_bytes(moved[1], expected(comm.rank, numbers, targets))
    assert d.counters()["staged_bytes"] <= max(limit, 32)


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_place(comm, rng, shape, drops):
    targets = drawn_targets(rng, comm.size, shape)
    if drops:
        targets = [np.where(rng.random(len(t)) < 0.2, -1, t) for t in targets]
    columns = [labelled(r, len(t), "S24") for r, t in enumerate(targets)]
    mine = columns[comm.rank]
    d = dm.Migration(targets[comm.rank], comm=comm)
    buffer = np.zeros(max(len(mine), d.received), "S24")
    buffer[: len(mine)] = mine
    moved = d.move_in_place(buffer)
    right = expected(comm.rank, columns, targets)
    same_bytes(np.sort(moved), np.sort(right))
    stayed = mine[targets[comm.rank] == comm.rank]
    is_stayer = np.isin(moved, stayed)
    same_bytes(moved[is_stayer], stayed)


def test_too_little_room_moves_nothing(comm):
    n = 10
    d = dm.Migration(np.zeros(n, int), comm=comm)
    short = n * comm.size - 1 if comm.rank == 0 else n
    buffer = np.arange(max(short, n) if comm.rank else short)
    if comm.size == 1:
        buffer = buffer[: n - 1]
    before = buffer.copy()
    with pytest.raises(dm.Mismatch):
        d.move_in_place(buffer)
    np.testing.assert_array_equal(buffer, before)
    out = np.full(d.received - (comm.rank == 0), -5)
    with pytest.raises(dm.Mismatch):
        d.move(np.arange(n), out=out)
    assert (out == -5).all()


@pytest.mark.parametrize("bad", [-2, "size", 2**40, -(2**63)])
def test_bad_target_is_an_error_everywhere(comm, rng, bad):
    bad = comm.size if bad == "size" else bad
    guilty = int(rng.integers(0, comm.size))
    first = int(rng.integers(0, 5000))
    ranks = np.arange(6000) % comm.size
    if comm.rank == guilty:
        ranks[[first, first + 500]] = bad
    with pytest.raises(dm.errors.OutOfRange) as error:
        dm.Migration(ranks, comm=comm)
    for word in (f"element {first} ", f"process {guilty} ", f"target {bad}"):
        assert word in str(error.value)
    assert dm.Migration(np.arange(7) % comm.size, comm=comm).elems == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"target": "nowhere"}, dm.errors.InvalidArgument),
        ({"target": [0, 0]}, dm.Mismatch),
        ({"target": [0.5, 1.0, 1.5]}, dm.errors.WrongType),
        ({"target": ([0, 1, 2, 4], [0, 0, 0])}, dm.Mismatch),
        ({"target": ([0, 2, 1, 3], [0, 0, 0])}, dm.errors.InvalidArgument),
        ({"target": [0, 0, 0], "method": "carrier pigeon"}, dm.errors.InvalidArgument),
        ({"target": [0, 0, 0], "max_bytes": -1}, dm.errors.InvalidArgument),
    ],
)
def test_wrong_arguments_on_one_process(comm, arguments, error):
    elements = np.zeros(3, [("x", "f8"), ("tproc", "i4")])
    given = arguments if comm.rank == comm.size - 1 else {"target": "tproc"}
    with pytest.raises(error):
        dm.migrate(elements, comm=comm, **given)
    assert comm.allreduce(len(dm.migrate(elements, "tproc", comm=comm))) == 3 * comm.size


def test_two_distributions_in_turn(comm, rng):
    """Plans keep apart; each can be used again and again in any common order."""
    plans = []
    for _ in range(3):
        targets = drawn_targets(rng, comm.size, "random")
        plans.append((dm.Migration(targets[comm.rank], comm=comm), targets))
    for i in rng.integers(0, 3, 30):
        d, targets = plans[i]
        columns = [rng.random(len(t)) for t in targets]
        same_bytes(d.move(columns[comm.rank]), expected(comm.rank, columns, targets))
        same_bytes(d.reverse(d.move(columns[comm.rank])), columns[comm.rank])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_small_floats_are_summed_on_their_way_home(comm, name):
    """What each process made of the copies of an element comes home in a sum."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    d = dm.Migration(np.tile(np.arange(comm.size), (3, 1)), comm=comm)  # each element to all
    values = np.array([[0.5, 1], [-0.5, 2], [0, -1]]).astype(dtype)
    home = d.reverse([d.move(values), d.move(values[:, 0])], op="max")
    assert home[0].dtype == dtype and np.array_equal(home[0], values)
    ones = np.ones((d.received, 2), dtype)
    assert np.array_equal(d.reverse(ones, op="add"), np.full((3, 2), comm.size, dtype))


def test_floats_of_other_packages_are_told_from_bytes(comm):
    """Elements of equally many bytes are of two types: said by all, and nothing moves."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if comm.size < 2:
        pytest.skip("takes two processes")
    d = dm.Migration(np.zeros(1, "i4"), comm=comm)
    with pytest.raises(dm.Mismatch, match="bfloat16"):
        d.move(np.zeros(1, ml_dtypes.bfloat16 if comm.rank else "V2"))
