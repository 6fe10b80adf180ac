# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the sending processes of a stream: each is agreed on, right or wrong.

A wrong call of one process is raised by all in the same call, and the program can go on.
"""

import contextlib
import itertools
import threading

import numpy as np
import pytest

import datamover as dm

LIMIT_SECONDS = 60
HERE = "tcp://127.0.0.1:0"
STEPS = 40  # at most, before and after a wrong call


@contextlib.contextmanager
def consumer_of(comm, wanted, own=None):
    """Open a stream of all processes; a thread of the first one notes what it gets of each step."""
    given, seen, failures = own, [], []
    own = given or comm.Dup()

    def receive(address):
        try:
            with dm.stream.connect(address, timeout=LIMIT_SECONDS) as consumer:
                for step, arrays in consumer.steps(wanted, timeout=LIMIT_SECONDS):
                    seen.append((step, arrays))
        except dm.PeerFailed as error:
            failures.append(error)

    out = dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS, comm=own)
    receiving = threading.Thread(target=receive, args=(out.address,))
    if comm.rank == 0:
        receiving.start()
    try:
        yield out, seen, failures
    finally:
        with contextlib.suppress(dm.Error):
            out.close(LIMIT_SECONDS)
        if comm.rank == 0:
            receiving.join()
        if given is None:
            own.Free()


def test_random_steps(comm, rng):
    """Runs of steps that are alike, each with other arrays and numbers than the last."""
    elems = 24 * comm.size
    sent = dm.BlockCyclic(elems, "cyclic(3)", nprocs=comm.size)
    wanted = {name: dm.BlockCyclic(elems, "block", nprocs=1) for name in "uv"}
    whole = np.arange(float(elems))
    mine = whole.reshape(-1, comm.size, 3)[:, comm.rank].ravel()
    expected = []
    with consumer_of(comm, wanted) as (out, seen, failures):
        number = 0
        for _ in range(6):
            names = [str(name) for name in rng.permutation(list("uvw"))[: rng.integers(1, 4)]]
            stride, ends_steps = int(rng.integers(1, 4)), bool(rng.integers(2))
            for _ in range(int(rng.integers(20, 50))):
                number += stride
                for name in names:
                    out.send(name, mine * number + ord(name), step=number, layout=sent)
                if ends_steps:
                    out.end_step()
                expected.append((number, [name for name in names if name in wanted]))
        out.close(LIMIT_SECONDS)
    if comm.rank > 0:
        return
    assert not failures
    expected = [(number, names) for number, names in expected if names]
    assert [(number, sorted(arrays)) for number, arrays in seen] == [
        (number, sorted(names)) for number, names in expected
    ]
    for number, arrays in seen:
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, whole * number + ord(name))


@pytest.mark.parametrize(
    "wrongly", ["wrong type", "another array", "a new array", "another step", "end_step"]
)
def test_a_wrong_call_of_one_process_is_an_error_of_all(comm, rng, wrongly):
    if comm.size == 1 and wrongly != "wrong type":
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    wrong = int(rng.integers(comm.size))
    wrong_step, steps = int(rng.integers(1, STEPS)), 2 * STEPS

    def call(out, step):
        if wrongly == "end_step":
            out.end_step()
        elif wrongly == "wrong type":
            out.send("u", mine.astype("f4"), step=step)
        elif wrongly == "another step":
            out.send("u", mine, step=step + 1)
        else:
            out.send("v" if wrongly == "another array" else "w", mine, step=step, layout=line)

    with consumer_of(comm, {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}) as ends:
        out, seen, failures = ends
        out.send("v", mine, layout=line, step=0)
        raised = []
        for step in range(steps):
            try:
                if comm.rank == wrong and step == wrong_step:
                    call(out, step)
                else:
                    out.send("u", mine + step, step=step, layout=line)
            except dm.Error as error:  # and goes on with the next step
                raised.append((step, type(error).__name__, str(error)))
        kind = "WrongType" if wrongly == "wrong type" else "Mismatch"
        assert comm.allgather([entry[:2] for entry in raised]) == [[(wrong_step, kind)]] * comm.size
        assert len(set(comm.allgather(raised[0][2]))) == 1
        out.close(LIMIT_SECONDS)
    if comm.rank == 0:
        assert not failures
        assert [step for step, _ in seen] == [step for step in range(steps) if step != wrong_step]
        for step, arrays in seen:
            np.testing.assert_array_equal(arrays["u"], whole + step)


@pytest.mark.parametrize("way", ["close", "exception"])
def test_a_process_that_leaves_ends_the_stream_on_all(comm, rng, way):
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    leaves = comm.rank == int(comm.bcast(rng.integers(comm.size), 0))
    steps = int(rng.integers(1, STEPS))
    with consumer_of(comm, {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}) as ends:
        out, seen, failures = ends
        with pytest.raises(KeyError if leaves and way == "exception" else dm.Error), out:
            for step in itertools.count():
                assert step <= steps
                if leaves and step == steps:
                    if way == "exception":
                        raise KeyError
                    out.close(LIMIT_SECONDS)
                out.send("u", mine + step, step=step, layout=line)
        with pytest.raises(dm.errors.InvalidState):
            out.send("u", mine)
    if comm.rank == 0:
        got = [step for step, _ in seen]
        assert got == list(range(steps))[: len(got)]
        assert failures
        for step, arrays in seen:
            np.testing.assert_array_equal(arrays["u"], whole + step)


def assert_received(seen, failures, steps, expected):
    """A consumer got exactly these steps, in order, with the elements expected of each."""
    assert not failures
    assert [step for step, _ in seen] == list(steps)
    for step, arrays in seen:
        np.testing.assert_array_equal(arrays["u"], expected(step))


def test_a_wrong_call_between_steps_of_two_streams_is_an_error_of_that_call(comm, rng):
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    wanted = {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}
    wrong, steps = int(rng.integers(comm.size)), int(rng.integers(1, STEPS))
    own = comm.Dup()
    with (
        consumer_of(comm, wanted, own) as (first, *seen_of_first),
        consumer_of(comm, wanted, own) as (second, *seen_of_second),
    ):
        raised = []
        for step in range(steps + STEPS):
            for out in (first, second):
                bad = comm.rank == wrong and step == steps and out is first
                sent = (mine + step).astype("f4" if bad else "f8")
                try:
                    out.send("u", sent, step=step, layout=line)
                except dm.errors.WrongType:
                    raised.append((step, out is first))
        assert raised == [(steps, True)]
    own.Free()
    if comm.rank > 0:
        return
    every = range(steps + STEPS)
    assert_received(*seen_of_first, [step for step in every if step != steps], lambda n: whole + n)
    assert_received(*seen_of_second, every, lambda n: whole + n)


def test_two_streams_in_another_order_on_one_process_are_not_mixed_up(comm, rng):
    """Both send an array of the same name in the same step."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    wanted = {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}
    other, steps = int(rng.integers(comm.size)), int(rng.integers(1, STEPS))
    own = comm.Dup()
    with (
        consumer_of(comm, wanted, own) as (first, *seen_of_first),
        consumer_of(comm, wanted, own) as (second, *seen_of_second),
    ):
        raised = []
        for step in range(steps + STEPS):
            swapped = comm.rank == other and step == steps
            for out in (second, first) if swapped else (first, second):
                sign = 1 if out is first else -1
                try:
                    out.send("u", sign * (mine + step), step=step, layout=line)
                except dm.Mismatch as error:
                    assert "another stream" in str(error)
                    raised.append(step)
        assert raised == [steps, steps]
    own.Free()
    if comm.rank > 0:
        return
    others = [step for step in range(steps + STEPS) if step != steps]
    assert_received(*seen_of_first, others, lambda n: whole + n)
    assert_received(*seen_of_second, others, lambda n: -(whole + n))
