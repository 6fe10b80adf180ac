# SPDX-License-Identifier: BSD-3-Clause
"""Orders of arrival: columns stay together in every order, and values return to their origin."""

import numpy as np
import pytest
from test_migration import drawn_targets, same_bytes
from test_migration_variants import IN_PLACE, METHODS, in_place

import datamover as dm


def numbered(comm, targets):
    """A number for every element of all processes."""
    return 10**6 * comm.rank + np.arange(len(targets[comm.rank]))


def check_home(comm, d, numbers, arrived, after=None):
    """Values made of what has arrived come home to the right elements, strided ones too."""
    home = d.reverse(arrived * 2.5, after=after)
    sent = np.concatenate(comm.allgather(arrived))
    right = np.where(np.isin(numbers, sent), numbers * 2.5, 0.0)
    np.testing.assert_array_equal(home, right)
    np.testing.assert_array_equal(d.reverse((arrived[::-1] * 2.5)[::-1], after=after), right)


def with_drops(rng, targets):
    return [np.where(rng.random(len(t)) < 0.2, -1, t) for t in targets]


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_columns_of_one_call_belong_together(comm, rng, method, stable):
    """Whatever their sizes are, and also in later calls: a distribution keeps to one order."""
    targets = with_drops(rng, drawn_targets(rng, comm.size, "random", 3000))
    numbers = numbered(comm, targets)
    d = dm.Migration(targets[comm.rank], method=method, stable=stable, comm=comm)
    wide = np.repeat(numbers[:, None], 125, axis=1)
    few, many, small = d.move(numbers, wide, (numbers % 251).astype("u1"))
    same_bytes(many, np.repeat(few[:, None], 125, axis=1))
    same_bytes(small, (few % 251).astype("u1"))
    for _ in range(3):
        same_bytes(d.move(numbers), few)
        same_bytes(d.move(wide)[:, 7].copy(), few)


@pytest.mark.parametrize("max_bytes", [None, 700])
@pytest.mark.parametrize("shape", ["random", "neighbours", "all to one", "some empty"])
@pytest.mark.parametrize("method", ["auto", "sendrecv", "sort"])
def test_values_go_home_after_an_unstable_move(comm, rng, method, shape, max_bytes):
    if method == "sort" and max_bytes:
        max_bytes = None
    targets = with_drops(rng, drawn_targets(rng, comm.size, shape, 2000))
    numbers = numbered(comm, targets)
    d = dm.Migration(
        targets[comm.rank], method=method, stable=False, max_bytes=max_bytes, comm=comm
    )
    for _ in range(2):
        check_home(comm, d, numbers, d.move(numbers))


@pytest.mark.parametrize("max_bytes", [None, 300, 10**6])
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("method", IN_PLACE)
def test_values_go_home_after_a_move_in_place(comm, rng, method, stable, max_bytes):
    targets = with_drops(rng, drawn_targets(rng, comm.size, "neighbours", 2500))
    numbers = numbered(comm, targets)
    d = dm.Migration(targets[comm.rank], method=method, max_bytes=max_bytes, comm=comm)
    arrived = in_place(d, numbers, stable)
    check_home(comm, d, numbers, arrived)
    # A later one with more room may arrive otherwise; the last one counts.
    room = np.zeros(len(numbers) + d.received + 10 * comm.rank, int)
    room[: len(numbers)] = numbers
    check_home(comm, d, numbers, d.move_in_place(room, stable=stable), after="move_in_place")


@pytest.mark.parametrize("kind", ["sort", "sendrecv"])
def test_elements_with_several_targets_go_home_after_an_unstable_move(comm, rng, kind):
    table = rng.integers(-1, comm.size, (comm.size, 400, 3))[comm.rank]
    numbers = 10**6 * comm.rank + np.arange(400)
    d = dm.Migration(table, method=kind, stable=False, comm=comm)
    arrived = d.move(numbers)
    home = d.reverse(arrived * 1.0 + comm.rank * 0.25, "add")
    right = ((table >= 0) * (numbers[:, None] + table * 0.25)).sum(axis=1)
    np.testing.assert_array_equal(home, right)


def test_two_orders_have_to_be_told_apart(comm, rng):
    targets = drawn_targets(rng, comm.size, "random", 500)
    numbers = numbered(comm, targets)
    d = dm.Migration(targets[comm.rank], method="partition", comm=comm)
    moved = d.move(numbers)
    check_home(comm, d, numbers, moved)
    check_home(comm, d, numbers, in_place(d, numbers, stable=True))
    placed = in_place(d, numbers, stable=False)
    with pytest.raises(dm.errors.InvalidState, match="different orders"):
        d.reverse(moved)
    check_home(comm, d, numbers, moved, after="move")
    check_home(comm, d, numbers, placed, after="move_in_place")
    with pytest.raises(dm.errors.InvalidArgument, match="after"):
        d.reverse(moved, after="yesterday" if comm.rank == comm.size - 1 else "move")
    check_home(comm, d, numbers, moved, after="move")


@pytest.mark.parametrize("max_bytes", [None, 500])
@pytest.mark.parametrize("pooled", [True, False])
def test_several_columns_go_home_together(comm, rng, pooled, max_bytes):
    """Equal to one after the other, in one message per pair."""
    targets = rng.integers(-1, comm.size, (comm.size, 50, 2))[comm.rank]
    d = dm.Migration(targets, max_bytes=max_bytes, comm=comm)
    # 32 columns go in one message; with a limit there are many messages anyway.
    for count in (1, 3, 5 if max_bytes else 40):
        values = [d.move(rng.random((50, c % 3 + 1))) for c in range(count)]
        values = [v if pooled else v.copy() for v in values]
        values = [np.repeat(v, 2, axis=0)[::2] if i % 5 == 1 else v for i, v in enumerate(values)]
        for op in (None, "add"):
            together = d.reverse(values, op)
            messages = d.counters()["messages"]
            assert isinstance(together, list)
            for one, value in zip(together, values, strict=True):
                same_bytes(one, d.reverse(value, op))
            if not max_bytes:
                assert messages <= (comm.size - 1) * (1 + (count - 1) // 32)


def test_containers_come_back_as_they_were_given(comm, rng):
    targets = drawn_targets(rng, comm.size, "random", 200)
    x, k = rng.random((len(targets[comm.rank]), 3)), numbered(comm, targets)
    d = dm.Migration(targets[comm.rank], comm=comm)
    there_x, there_k = d.move(x, k)
    for given in ([x, k], (x, k)):
        moved = d.move(given)
        assert type(moved) is type(given)
        same_bytes(moved[0], there_x)
        same_bytes(moved[1], there_k)
        home = d.reverse(moved)
        assert type(home) is type(given)
        same_bytes(home[0], x)
        same_bytes(home[1], k)
    moved = d.move({"x": x, "k": k})
    assert list(moved) == ["x", "k"]
    same_bytes(moved["x"], there_x)
    out = {"k": np.zeros(d.elems + 2, int), "x": np.zeros((d.elems, 3))}
    home = d.reverse(moved, out=out)
    same_bytes(home["k"], k)
    same_bytes(home["x"], x)
    assert len(home["k"]) == 0 or np.shares_memory(home["k"], out["k"])
    one = d.move([k])
    assert isinstance(one, list)
    same_bytes(one[0], there_k)
    same_bytes(d.move(k.tolist() or k), there_k)


def test_several_arrays_are_distributed_at_once(comm, rng):
    """Targets from an array among them, a map of one, or a function of all."""
    n = int(rng.integers(0, 300))
    mine = {"id": np.arange(n) + 1000 * comm.rank, "to": rng.integers(0, comm.size, n)}
    mine["pos"] = rng.random((n, 2))
    moved = dm.migrate(mine, "to", comm=comm)
    assert list(moved) == ["id", "to", "pos"]
    assert (moved["to"] == comm.rank).all()
    same_bytes(moved["pos"], dm.migrate(mine["pos"], mine["to"], comm=comm))
    cells = dm.targets.hilbert(((0, 0), (1, 1)), (8, 8))
    moved = dm.migrate(mine, cells, comm=comm)
    assert (cells.ranks(moved, comm.size) == comm.rank).all()
    same_bytes(moved["id"], dm.migrate(mine["id"], cells.ranks(mine, comm.size), comm=comm))
    pair = dm.migrate((mine["id"], mine["pos"]), lambda arrays: arrays[0] % comm.size, comm=comm)
    assert isinstance(pair, tuple)
    assert (pair[0] % comm.size == comm.rank).all()
    for wrong in ("nothing", cells):
        with pytest.raises(dm.errors.InvalidArgument):
            dm.migrate([mine["id"], mine["pos"]], wrong, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument, match="'nothing'"):
        dm.migrate(mine, "nothing", comm=comm)
    with pytest.raises(dm.Mismatch):
        dm.migrate({"a": np.arange(3), "b": np.arange(4)}, "a", comm=comm)
