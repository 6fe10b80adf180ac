# SPDX-License-Identifier: BSD-3-Clause
"""Repeated steps of a stream: they arrive, although the sending processes do not communicate.

An error of one sending process, which is then at another step than the others, is raised on all.
"""

import contextlib
import itertools
import threading

import numpy as np
import pytest

import datamover as dm

LIMIT_SECONDS = 60
HERE = "tcp://127.0.0.1:0"
ALIKE = 200  # steps in a row: more than are needed to go on without a word
AHEAD = 17  # steps that others may have sent when one makes another call
LAST = 10**6


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

    out = dm.Stream(own, HERE, consumers=1, timeout=LIMIT_SECONDS)
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
    """Runs of steps that are alike, each of other arrays and with other numbers than the last."""
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
            for _ in range(int(rng.integers(60, 140))):
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
    steps = ALIKE + int(rng.integers(AHEAD))

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
        raised = None
        for step in itertools.count():
            assert step <= steps + AHEAD
            try:
                if comm.rank == wrong and step == steps:
                    call(out, step)
                else:
                    out.send("u", mine + step, step=step, layout=line)
            except dm.Error as error:
                raised = error
                break
        kinds = comm.allgather((type(raised).__name__, str(raised)))
        assert {kind for kind, _ in kinds} == {
            "WrongType" if wrongly == "wrong type" else "Mismatch"
        }
        if wrongly == "wrong type":
            assert len(set(kinds)) == 1
        # The stream is open, and all are at one step.
        for step in range(LAST, LAST + ALIKE):
            out.send("u", mine + step, step=step)
        out.close(LIMIT_SECONDS)
    if comm.rank == 0:
        sent = [*range(steps), *range(LAST, LAST + ALIKE)]
        got = [step for step, _ in seen]
        # The consumer got all, or parts of steps that others had sent, and so no more.
        assert got == (sent[: len(got)] if failures else sent)
        assert len(got) <= steps or not failures
        for step, arrays in seen:
            np.testing.assert_array_equal(arrays["u"], whole + step)


@pytest.mark.parametrize("way", ["close", "exception"])
def test_a_process_that_leaves_ends_the_stream_on_all(comm, rng, way):
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    leaves = comm.rank == int(comm.bcast(rng.integers(comm.size), 0))
    steps = ALIKE + int(rng.integers(AHEAD))
    with consumer_of(comm, {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}) as ends:
        out, seen, failures = ends
        with pytest.raises(KeyError if leaves and way == "exception" else dm.Error), out:
            for step in itertools.count():
                assert step <= steps + AHEAD
                if leaves and step == steps:
                    if way == "exception":
                        raise KeyError
                    out.close(LIMIT_SECONDS)
                out.send("u", mine + step, step=step, layout=line)
        with pytest.raises(dm.InvalidState):
            out.send("u", mine)
    if comm.rank == 0:
        got = [step for step, _ in seen]
        assert got == list(range(len(got))) and len(got) <= steps
        assert failures
        for step, arrays in seen:
            np.testing.assert_array_equal(arrays["u"], whole + step)


def test_a_wrong_call_between_steps_of_two_streams_is_an_error_of_that_call(comm, rng):
    """Nor does a process that waits in one of them hear what others say in the other one."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, whole = np.arange(8.0) + 8 * comm.rank, np.arange(8.0 * comm.size)
    wanted = {"u": dm.BlockCyclic(8 * comm.size, "block", nprocs=1)}
    wrong, steps = int(rng.integers(comm.size)), ALIKE + int(rng.integers(AHEAD))
    own = comm.Dup()
    with (
        consumer_of(comm, wanted, own) as (first, *seen_of_first),
        consumer_of(comm, wanted, own) as (second, *seen_of_second),
    ):
        raised = []
        for step in range(steps + ALIKE):
            for out in (first, second):
                bad = comm.rank == wrong and step == steps and out is first
                sent = (mine + step).astype("f4" if bad else "f8")
                try:
                    out.send("u", sent, step=step, layout=line)
                except dm.WrongType:
                    raised.append((step, out is first))
        assert raised == [(steps, True)]
    own.Free()
    if comm.rank > 0:
        return
    for (seen, failures), left_out in ((seen_of_first, [steps]), (seen_of_second, [])):
        assert not failures
        assert [step for step, _ in seen] == [
            step for step in range(steps + ALIKE) if step not in left_out
        ]
        for step, arrays in seen:
            np.testing.assert_array_equal(arrays["u"], whole + step)
