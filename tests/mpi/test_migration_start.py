# SPDX-License-Identifier: BSD-3-Clause
"""Started distributions: `start` and `wait` have the same result as a blocking move."""

import gc

import numpy as np
import pytest

import datamover as dm
from datamover import migration


def drawn_ranks(comm, rng, most=60):
    """Ranks for this process's elements, drawn alike everywhere; some are dropped."""
    counts = rng.integers(0, most, comm.size)
    return [rng.integers(-1, comm.size, n) for n in counts]


def numbered(comm, ranks):
    """A number for each element of this process, that no other element has."""
    starts = np.concatenate(([0], np.cumsum([len(r) for r in ranks])))
    return np.arange(starts[comm.rank], starts[comm.rank + 1])


def arrived(comm, ranks):
    """The numbers that arrive at this process, in stable order."""
    return np.flatnonzero(np.concatenate(ranks) == comm.rank)


@pytest.mark.parametrize("thread", [False, True])
def test_moves_what_move_moves(comm, rng, cases, thread):
    progress = dm.progress_thread() if thread else None
    for case in range(8 * cases):
        ranks = drawn_ranks(comm, rng)
        mine, expected = numbered(comm, ranks), arrived(comm, ranks)
        max_bytes = None if rng.random() < 0.5 else int(rng.integers(1, 3000))
        d = dm.Migration(ranks[comm.rank], max_bytes=max_bytes, comm=comm)
        columns = {f"c{k}": mine + 1000 * k for k in range(int(rng.integers(1, 40)))}
        columns["pairs"] = np.stack([mine, -mine], axis=1).astype("f4")
        out = None
        if case % 2:
            out = {
                name: np.full((d.received + 2, *c.shape[1:]), -7, c.dtype)
                for name, c in columns.items()
            }
        d.start(columns, out=out)
        if case % 3 == 0:
            while not d.test():
                pass
            assert not d.in_flight
        result = d.wait()
        for name, column in columns.items():
            whole = np.arange(sum(map(len, ranks)))
            shift = 1000 * int(name[1:]) if name != "pairs" else 0
            right = np.stack([whole, -whole], axis=1) if name == "pairs" else whole + shift
            np.testing.assert_array_equal(result[name], right[expected].astype(column.dtype))
            if out is not None:
                assert (out[name][d.received :] == -7).all()
        np.testing.assert_array_equal(d.reverse(expected), np.where(ranks[comm.rank] < 0, 0, mine))
    if progress is not None:
        progress.stop()


def test_several_in_flight_are_waited_for_in_any_order(comm, rng, cases):
    for _ in range(4 * cases):
        ranks = [drawn_ranks(comm, rng, 300) for _ in range(6)]
        plans = [dm.Migration(r[comm.rank], comm=comm) for r in ranks]
        for d, r in zip(plans, ranks, strict=True):
            d.start(numbered(comm, r))
        order = np.random.default_rng(comm.rank).permutation(6)
        for k in order:
            np.testing.assert_array_equal(plans[k].wait(), arrived(comm, ranks[k]))


@pytest.mark.parametrize("thread", [False, True])
def test_a_move_begins_whatever_each_process_has_waited_for(comm, thread):
    """One process waits for the first of eight, another for the fourth; then all begin another."""
    progress = dm.progress_thread() if thread else None
    *plans, ninth = [dm.Migration(np.arange(comm.size), comm=comm) for _ in range(41)]
    in_flight = []
    for number, d in enumerate(plans):
        if len(in_flight) == 8:
            k = (comm.rank * 3) % 8
            waited_for, plan = in_flight.pop(k)
            np.testing.assert_array_equal(plan.wait(), np.arange(comm.size) + 100 * waited_for)
        d.start(np.full(comm.size, comm.rank + 100 * number))
        in_flight.append((number, d))
    with pytest.raises(dm.errors.InvalidState, match="of the 8 in flight"):
        ninth.start(np.zeros(comm.size))
    for number, d in in_flight:
        assert d.in_flight
        np.testing.assert_array_equal(d.wait(), np.arange(comm.size) + 100 * number)
    if progress is not None:
        progress.stop()


def test_what_was_refused_is_told_by_its_wait_though_later_moves_have_begun(comm):
    plans = [dm.Migration(np.arange(comm.size), comm=comm) for _ in range(9)]
    last = comm.rank == comm.size - 1
    for k, d in enumerate(plans[:8]):
        d.start(np.zeros(comm.size + (last and k == 0)))
    np.testing.assert_array_equal(plans[5].wait(), np.zeros(comm.size))
    plans[8].start(np.full(comm.size, comm.rank))
    np.testing.assert_array_equal(plans[8].wait(), np.arange(comm.size))
    with pytest.raises(dm.Mismatch):
        plans[0].wait()
    for d in plans[1:5] + plans[6:8]:
        d.wait()


def test_start_waits_for_nobody(comm):
    """Also where one process brings what does not fit: all hear of that when they wait."""
    d = dm.Migration(np.arange(comm.size), comm=comm)
    last = comm.rank == comm.size - 1
    for wrong in (np.zeros(comm.size + 1), [None] * comm.size, np.zeros((comm.size, 0))):
        d.start(wrong if last else np.arange(float(comm.size)))
        comm.barrier()  # nobody is held up before
        with pytest.raises(dm.Error) as caught:
            d.wait()
        assert len(set(comm.allgather(str(caught.value)))) == 1
        assert not d.in_flight
        with pytest.raises(dm.errors.InvalidState, match="nothing was started"):
            d.wait()
    d.start(np.full(comm.size, comm.rank))
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))


def test_an_interrupt_leaves_what_has_come_to_the_next_wait(comm, monkeypatch):
    own = np.full(comm.size, comm.rank)
    d, wrong = dm.Migration(np.arange(comm.size), comm=comm), np.zeros(comm.size + 1)
    results = migration.Moving.results

    def interrupted(moving):
        monkeypatch.setattr(migration.Moving, "results", results)
        raise KeyboardInterrupt

    d.start(own)
    monkeypatch.setattr(migration.Moving, "results", interrupted)
    with pytest.raises(KeyboardInterrupt):
        d.wait()
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
    with pytest.raises(dm.errors.InvalidState, match="nothing was started"):
        d.wait()
    d.start(wrong if comm.rank == 0 else own)
    engine = d._core

    class Interrupted:
        """Is interrupted when the engine is asked after it has raised its error."""

        def __getattr__(self, name):
            if name == "in_flight" and not engine.in_flight:
                d._core = engine
                raise KeyboardInterrupt
            return getattr(engine, name)

    d._core = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        d.wait()
    with pytest.raises(dm.Mismatch):
        d.wait()
    d.start(own)
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))


def test_columns_that_differ_between_processes(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    d = dm.Migration(np.arange(comm.size), comm=comm)
    d.start(np.zeros(comm.size, "f4" if comm.rank == 0 else "f8"))
    words = r"elements of 4 bytes .* on process 0, .* elements of 8 bytes .* on process 1$"
    with pytest.raises(dm.Mismatch, match=words) as caught:
        d.wait()
    assert len(set(comm.allgather(str(caught.value)))) == 1
    d.start(np.full(comm.size, comm.rank))
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
    other = dm.Migration(np.arange(comm.size), comm=comm)
    (other if comm.rank == 0 else d).start(np.zeros(comm.size))
    with pytest.raises(dm.Mismatch, match="with migration"):
        (other if comm.rank == 0 else d).wait()


def test_a_late_process(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    d = dm.Migration(np.arange(comm.size), comm=comm)
    if comm.rank > 0:
        d.start(np.full(comm.size, comm.rank))
        for _ in range(2):
            with pytest.raises(dm.Timeout, match="still in flight"):
                d.wait(timeout=0.02)
            assert d.in_flight
    comm.barrier()
    if comm.rank == 0:
        d.start(np.full(comm.size, 0))
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))


def test_what_is_not_done_in_flight(comm):
    d = dm.Migration(np.arange(comm.size), comm=comm)
    column = np.full(comm.size, comm.rank)
    d.start(column)
    for call in (
        lambda: d.start(column),
        lambda: d.move(column),
        lambda: d.move_in_place(column),
        lambda: d.reverse(column),
    ):
        with pytest.raises(dm.errors.InvalidState, match="in flight"):
            call()
    np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
    for method in ("sendrecv", "alltoallw"):
        other = dm.Migration(np.arange(comm.size), method=method, comm=comm)
        other.start(column)
        with pytest.raises(dm.errors.Unsupported, match="by partition"):
            other.wait()


def test_in_flight_on_one_process_alone(comm):
    """Others have waited for it; the call is of all processes, and so is its error."""
    d = dm.Migration(np.arange(comm.size), method="partition", comm=comm)
    column, last = np.full(comm.size, comm.rank), comm.rank == comm.size - 1
    for call in (d.move, d.move_in_place, d.reverse):
        d.start(column)
        if not last:
            np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
        with pytest.raises(dm.errors.InvalidState, match="in flight"):
            call(column.copy())
        if last:
            np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
    np.testing.assert_array_equal(d.move(column), np.arange(comm.size))


def test_eight_in_flight_on_one_process_alone(comm):
    plans = [dm.Migration(np.arange(comm.size), comm=comm) for _ in range(8)]
    column, last = np.full(comm.size, comm.rank), comm.rank == comm.size - 1
    for d in plans:
        d.start(column)
    if not last:
        for d in plans:
            np.testing.assert_array_equal(d.wait(), np.arange(comm.size))
    for _ in range(10):
        ninth = dm.Migration(np.arange(comm.size), method="partition", comm=comm)
        np.testing.assert_array_equal(ninth.move(column + 1), np.arange(comm.size) + 1)
    if last:
        with pytest.raises(dm.errors.InvalidState, match="of the 8 in flight"):
            ninth.start(column)
        for d in plans:
            np.testing.assert_array_equal(d.wait(), np.arange(comm.size))


def test_a_move_dropped_in_flight_is_told(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    fresh = comm.Dup()
    d = dm.Migration(np.arange(comm.size), comm=fresh)
    comm.barrier()
    if comm.rank == 0:
        d.start(np.zeros(comm.size))
        del d
        gc.collect()
    comm.barrier()
    if comm.rank > 0:
        with pytest.raises(dm.PeerFailed):
            d.start(np.zeros(comm.size))
            d.wait()


class Fleeting:
    """Memory of an array that others find changed once nobody holds this."""

    def __init__(self, array):
        self._array = array
        self.__array_interface__ = array.__array_interface__

    def __del__(self):
        self._array[...] = -1


def test_what_is_read_is_there_until_the_move_was_given_up(comm):
    """Of a distribution that is dropped in flight, which alone holds the column."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    fresh = comm.Dup()
    d = dm.Migration(np.arange(comm.size), method="partition", comm=fresh)
    out = d.move(np.zeros(comm.size))
    d.start(np.asarray(Fleeting(np.full(comm.size, 7.0))), out=out)
    for _ in range(2):
        comm.barrier()
        if comm.rank > 0:
            d.test()  # tells process 0 where its elements belong
    comm.barrier()
    if comm.rank == 0:
        del d
        gc.collect()
    comm.barrier()
    assert (out != -1).all()
