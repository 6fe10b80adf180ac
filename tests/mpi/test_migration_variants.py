# SPDX-License-Identifier: BSD-3-Clause
"""Variants of distributions: stable or not, in place, and with bounded memory."""

import numpy as np
import pytest
from drawn import NODE_SIZE
from test_migration import SHAPES, drawn_targets, expected, labelled, same_bytes

import datamover as dm

IN_PLACE = ["auto", "partition", "alltoallv", "sort"]
METHODS = [*IN_PLACE, "alltoallw", "sendrecv"]
UNSTABLE = ["auto", "sendrecv", "sort"]


def is_stable(elements):
    """Of any two elements the first has the lower process, or the same and an earlier place."""
    key = list(zip(elements["sproc"].tolist(), elements["spos"].tolist(), strict=True))
    return all(a < b for i, a in enumerate(key) for b in key[i + 1 : i + 30]) and (
        key == sorted(set(key))
    )


def elements_of(rank, targets):
    """Elements that name where they come from and go to; 20 bytes each."""
    dtype = np.dtype([("sproc", "i4"), ("spos", "i8"), ("tproc", "i8")])
    elements = np.zeros(len(targets), dtype)
    elements["sproc"], elements["spos"], elements["tproc"] = rank, np.arange(len(targets)), targets
    return elements


def in_place(d, mine, stable):
    """What a buffer holds after a move in place; the rest of the buffer is as it was."""
    room = max(len(mine), d.received)
    buffer = np.zeros(room + 2, mine.dtype)
    buffer[: len(mine)] = mine
    buffer.view("u1")[-2 * mine.itemsize :] = 7
    moved = d.move_in_place(buffer[:room], stable=stable)
    assert (buffer.view("u1")[-2 * mine.itemsize :] == 7).all()
    return moved


@pytest.mark.parametrize("method", UNSTABLE)
@pytest.mark.parametrize("shape", SHAPES)
def test_unstable_variants_deliver_the_right_elements(comm, rng, method, shape):
    targets = drawn_targets(rng, comm.size, shape, 2000)
    columns = [elements_of(r, t) for r, t in enumerate(targets)]
    d = dm.Migration(targets[comm.rank], method=method, stable=False, comm=comm)
    moved = d.move(columns[comm.rank])
    right = expected(comm.rank, columns, targets)
    same_bytes(np.sort(moved), np.sort(right))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("method", IN_PLACE)
@pytest.mark.parametrize("shape", SHAPES)
def test_in_place_by_every_method(comm, rng, method, shape, stable):
    targets = drawn_targets(rng, comm.size, shape, int(rng.choice([10, 300, 5000])))
    if rng.random() < 0.5:
        targets = [np.where(rng.random(len(t)) < 0.2, -1, t) for t in targets]
    for dtype in ("u1", "S24"):
        columns = [labelled(r, len(t), dtype) for r, t in enumerate(targets)]
        right = expected(comm.rank, columns, targets)
        d = dm.Migration(targets[comm.rank], method=method, comm=comm)
        moved = in_place(d, columns[comm.rank], stable)
        if stable:
            same_bytes(moved, right)
        else:
            same_bytes(np.sort(moved), np.sort(right))


@pytest.mark.parametrize("method", METHODS)
def test_stability_is_what_the_paper_defines(comm, rng, method):
    targets = [rng.integers(-1, comm.size, n) for n in rng.integers(0, 3000, comm.size)]
    mine = elements_of(comm.rank, targets[comm.rank])
    d = dm.Migration(targets[comm.rank], method=method, comm=comm)
    results = [d.move(mine)]
    if method in IN_PLACE:
        results.append(in_place(d, mine, stable=True))
    for elements in results:
        assert (elements["tproc"] == comm.rank).all()
        assert is_stable(elements)
    assert not is_stable(np.concatenate([mine[:1]] * 2)) or len(mine) == 0


@pytest.mark.parametrize("method", ["auto", "partition"])
def test_in_place_keeps_the_order_of_those_that_stay(comm, rng, method):
    """Also where max_bytes makes another method do it."""
    for max_bytes in (None, 50):
        targets = drawn_targets(rng, comm.size, "neighbours", 1500)
        mine = elements_of(comm.rank, targets[comm.rank])
        d = dm.Migration(targets[comm.rank], method=method, max_bytes=max_bytes, comm=comm)
        moved = in_place(d, mine, stable=False)
        same_bytes(moved[moved["sproc"] == comm.rank], mine[mine["tproc"] == comm.rank])


@pytest.mark.parametrize("method", ["alltoallv", "sort"])
@pytest.mark.parametrize("stable", [False, True])
def test_in_place_takes_little_memory(comm, rng, method, stable):
    for max_bytes, elems, given in ((None, 1024, 20000), (1, 2 * comm.size, 2000)):
        targets = rng.integers(0, comm.size, (comm.size, given // comm.size))
        mine = elements_of(comm.rank, targets[comm.rank])
        d = dm.Migration(targets[comm.rank], method=method, max_bytes=max_bytes, comm=comm)
        moved = in_place(d, mine, stable)
        assert d.counters()["staged_bytes"] <= elems * mine.itemsize
        assert (moved["tproc"] == comm.rank).all()
        assert len(moved) == d.received


@pytest.mark.parametrize("method", ["auto", "partition", "alltoallv", "alltoallw", "sendrecv"])
@pytest.mark.parametrize("limit", [1, 300, 20000])
def test_bounded_moves_are_the_same(comm, rng, method, limit):
    targets = drawn_targets(rng, comm.size, "random")
    columns = [labelled(r, len(t), "S24") for r, t in enumerate(targets)]
    d = dm.Migration(targets[comm.rank], method=method, max_bytes=limit, comm=comm)
    same_bytes(d.move(columns[comm.rank]), expected(comm.rank, columns, targets))
    least = 2 * comm.size * 24 if method == "sendrecv" else 24
    assert d.counters()["staged_bytes"] <= max(limit, least)


@pytest.mark.parametrize("limit", [1, 300, 20000])
@pytest.mark.parametrize("kind", ["one", "table", "dropped"])
def test_bounded_reverse_is_the_same(comm, rng, limit, kind):
    n = rng.integers(0, 300, comm.size)
    low = -1 if kind == "dropped" else 0
    shape = (n[comm.rank], 3) if kind == "table" else n[comm.rank]
    targets = np.random.default_rng(comm.rank).integers(low, comm.size, shape)
    free = dm.Migration(targets, comm=comm)
    bound = dm.Migration(targets, max_bytes=limit, comm=comm)
    values = free.move(np.arange(len(targets)) * 1.5 + comm.rank) + comm.rank
    for op in (None, "add", "max"):
        same_bytes(bound.reverse(values, op), free.reverse(values, op))
    strided = np.repeat(values, 2)[::2]
    same_bytes(bound.reverse(strided), free.reverse(values))
    # Three values of one element may have to wait together.
    waiting = 3 * 8 * comm.size if kind == "table" else 0
    assert bound.counters()["staged_bytes"] <= max(limit, 2 * comm.size * 8) + waiting


def test_one_limit_is_enough(comm, rng):
    """A limit on one process is kept by all where they work together."""
    targets = drawn_targets(rng, comm.size, "random", 1500)
    columns = [labelled(r, len(t), "S24") for r, t in enumerate(targets)]
    limit = 500 if comm.rank == comm.size - 1 else None
    d = dm.Migration(targets[comm.rank], max_bytes=limit, comm=comm)
    moved = d.move(columns[comm.rank])
    same_bytes(moved, expected(comm.rank, columns, targets))
    same_bytes(d.reverse(moved), columns[comm.rank])
    same_bytes(in_place(d, columns[comm.rank], stable=True), moved)


@pytest.mark.parametrize("call", ["move", "move into", "in place", "reverse"])
def test_different_element_sizes_are_an_error_everywhere(comm, call):
    if comm.size == 1:
        pytest.skip("takes several processes")
    d = dm.Migration(np.arange(6) % comm.size, comm=comm)
    values = np.arange(max(6, d.received)).astype("f8" if comm.rank else "f4")
    before = values.copy()
    with pytest.raises(dm.Mismatch):
        if call == "move":
            d.move(values[:6])
        elif call == "move into":
            d.move(values[:6], out=np.zeros(d.received, values.dtype))
        elif call == "in place":
            d.move_in_place(values)
        else:
            d.reverse(values[: d.received])
    np.testing.assert_array_equal(values, before)
    assert len(d.move(np.arange(6))) == d.received


def test_different_calls_are_an_error_everywhere(comm):
    """The error says what two processes do."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    last = comm.size - 1
    others = "auto in stable order"
    with pytest.raises(
        dm.Mismatch, match=f" by {others} on process 0, .* by sort .* process {last}"
    ):
        dm.Migration([0], method="sort" if comm.rank == last else "auto", comm=comm)
    with pytest.raises(
        dm.Mismatch, match=f" by {others} on process 0, .* any order on process {last}"
    ):
        dm.Migration([0], stable=comm.rank != last, comm=comm)
    d = dm.Migration(np.arange(6) % comm.size, comm=comm)
    with pytest.raises(
        dm.Mismatch, match=r"move of a column .* process 0, move in place .* process 1"
    ):
        if comm.rank == 0:
            d.move(np.arange(6))
        else:
            d.move_in_place(np.arange(6 * comm.size))
    with pytest.raises(dm.Mismatch, match=r"move of .* on process 0, reverse of .* on process 1"):
        if comm.rank == 0:
            d.move(np.arange(6))
        else:
            d.reverse(np.arange(d.received))
    values = np.arange(d.received)
    with pytest.raises(dm.Mismatch, match=r"op=\"add\".* process 0, .*op=\"max\".* process 1"):
        d.reverse(values, "max" if comm.rank else "add")
    np.testing.assert_array_equal(d.reverse(d.move(np.arange(6))), np.arange(6))


def test_different_distributions_are_an_error_everywhere(comm):
    """Elements would come by one plan and go by another: wrong ones, or a wait without end."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    plans = [dm.Migration(np.full(6, rank), comm=comm) for rank in (0, comm.size - 1)]
    mine = plans[comm.rank == 0]
    for call in (
        lambda: mine.move(np.arange(6)),
        lambda: mine.move_in_place(np.arange(6 * comm.size)),
        lambda: mine.reverse(np.arange(mine.received)),
    ):
        with pytest.raises(dm.Mismatch, match=r"with migration \d+ .* with migration \d+"):
            call()
    for d in plans:
        np.testing.assert_array_equal(d.reverse(d.move(np.arange(6))), np.arange(6))


def test_different_types_of_one_size_are_an_error_everywhere(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    d = dm.Migration(np.arange(6) % comm.size, comm=comm)
    with pytest.raises(dm.Mismatch, match=r"<i8.* on process 0, .*<f8.* on process 1"):
        d.move(np.arange(6, dtype="f8" if comm.rank else "i8"))
    pair = [("a", "i4"), ("b", "f4")]
    with pytest.raises(dm.Mismatch, match=r"'a'.* on process 0, .*'b'.*'a'.* on process 1"):
        d.move(np.zeros(6, pair[::-1] if comm.rank else pair))
    with pytest.raises(dm.Mismatch, match=r"'x'.* on process 0, .*'y'.* on process 1"):
        names = "yx" if comm.rank else "xy"
        d.move({name: np.arange(6) for name in names})


def test_a_wrong_column_on_one_process_is_an_error_everywhere(comm):
    d = dm.Migration(np.arange(6) % comm.size, comm=comm)
    mine = np.arange(6 if comm.rank < comm.size - 1 else 5)
    with pytest.raises(dm.Mismatch):
        d.move(mine)
    with pytest.raises(dm.Mismatch):
        d.reverse(np.arange(d.received + (comm.rank == 0)))
    assert len(d.move(np.arange(6))) == d.received


@pytest.mark.parametrize(
    ("method", "call"), [("alltoallw", "in place"), ("sendrecv", "in place"), ("sort", "bounded")]
)
def test_what_a_method_cannot_do(comm, method, call):
    bounded = call == "bounded"
    d = dm.Migration([0, 0], method=method, max_bytes=8 if bounded else None, comm=comm)
    with pytest.raises(dm.errors.Unsupported):
        d.move([1, 2]) if bounded else d.move_in_place(np.zeros(2 * comm.size))


def test_a_function_tells_targets(comm, rng):
    """It is asked once, for all elements; what it raises is an error everywhere."""
    calls = []

    def ranks(x):
        calls.append(len(x))
        return x % comm.size

    columns = [rng.integers(0, 1000, n) for n in rng.integers(0, 50, comm.size)]
    moved = dm.migrate(columns[comm.rank], target=ranks, comm=comm)
    same_bytes(moved, expected(comm.rank, columns, [c % comm.size for c in columns]))
    assert calls == [len(columns[comm.rank])]

    def fails(x):
        if comm.rank == 0:
            raise ZeroDivisionError("nothing to divide by")
        return x % comm.size

    with pytest.raises(dm.errors.InvalidArgument, match="ZeroDivisionError"):
        dm.migrate(columns[comm.rank], target=fails, comm=comm)
    with pytest.raises(dm.Mismatch):
        dm.migrate(np.arange(3), target=lambda x: np.zeros(len(x) + 1, int), comm=comm)


def test_auto_says_why(comm):
    """Ours, if nothing measured is faster by a tenth; the same everywhere, and measured once.

    On one node nothing is measured.

    In place the sum over all sizes counts: all arrays then arrive in one order.
    """
    d = dm.Migration(np.arange(100) % comm.size, comm=comm)
    shares_memory = not NODE_SIZE or comm.size <= NODE_SIZE
    for elem_bytes in (1, 4, 64, 1000):
        said = d.explain(elem_bytes)
        assert (said["measured"] == []) == shares_memory
        size = 4 if elem_bytes < 16 else 64
        for place, name in ((False, said["method"]), (True, said["in_place"])):
            seconds = {}
            for method, in_place, bytes_, time in said["measured"]:
                if in_place == place and (in_place or bytes_ == size):
                    seconds[method] = seconds.get(method, 0) + time
            fastest = min(seconds, key=seconds.get, default="partition")
            is_better = seconds and seconds[fastest] < 0.9 * seconds["partition"]
            assert name == (fastest if is_better else "partition")
        assert comm.allgather(said) == [said] * comm.size
    again = dm.Migration(np.arange(5) % comm.size, comm=comm).explain()
    assert again["measured"] == said["measured"]
    d.move(np.zeros(100, "S64"))
    assert d.counters()["method"] == said["method"]


def test_a_distribution_is_a_plan(comm, rng):
    """Made of its layouts, it moves as the distribution does, back and on to another layout."""
    targets = drawn_targets(rng, comm.size, "random", 60)
    targets = [np.where(rng.random(len(t)) < 0.2, -1, t) for t in targets]
    values = [r * 1000.0 + np.arange(len(t)) for r, t in enumerate(targets)]
    d = dm.Migration(targets[comm.rank], method="sendrecv", stable=False, comm=comm)
    source, destination = d.layouts()
    plan = dm.redistribute(source, destination, partial=True)
    arrived = np.full(d.received, -1.0)
    dm.Mover(plan, values[comm.rank], arrived, comm=comm)()
    same_bytes(arrived, expected(comm.rank, values, targets))

    home = np.zeros(d.elems)
    dm.Mover(plan.reversed(), arrived, home, op="add", comm=comm)()
    same_bytes(home, np.where(targets[comm.rank] >= 0, values[comm.rank], 0.0))

    rows = dm.BlockCyclic(source.shape, "(block)", comm.size)
    on = np.full(rows.local_shape(comm.rank), -1.0)
    dm.Mover(dm.redistribute(destination, rows, partial=True), arrived, on, comm=comm)()
    whole = np.concatenate(values)
    whole[np.concatenate(targets) < 0] = -1.0
    same_bytes(on, whole[rows.global_indices(comm.rank)[0]])
