# SPDX-License-Identifier: BSD-3-Clause
"""Streams of a manager: they hold no more buffers than the limit, and lose nothing."""

import contextlib
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import datamover as dm

HERE = "tcp://127.0.0.1:0"
LIMIT_SECONDS = 60
ELEMS = 1 << 15  # large enough for shared memory
NBYTES = 8 * ELEMS
LINE = dm.BlockCyclic(ELEMS, "block", nprocs=1)
POLICIES = ("block", "drop_oldest")

pytestmark = pytest.mark.timeout(120)


def of_step(stream, step):
    return np.arange(float(ELEMS)) + 1000 * stream + step


def send(out, stream, step, name="u"):
    out.send(name, of_step(stream, step), layout=LINE, step=step)


def expect(steps, stream, step):
    number, arrays = next(steps)
    assert number == step
    np.testing.assert_array_equal(arrays["u"], of_step(stream, step))


class Streams:
    """Streams of a manager, each with a consumer."""

    def __init__(self, stack, count, *, policy="block", local=True, ahead=1, wanted=("u",),
                 timeout=LIMIT_SECONDS, **options):  # fmt: skip
        self.manager = stack.enter_context(dm.stream.Manager(**options))
        self.outs = [
            self.manager.open(str(n), HERE, consumers=1, policy=policy, local=local,
                              timeout=timeout)
            for n in range(count)
        ]  # fmt: skip
        self.consumers = [
            stack.enter_context(dm.stream.connect(out.address, ahead=ahead, timeout=LIMIT_SECONDS))
            for out in self.outs
        ]
        self.steps = [
            consumer.steps(dict.fromkeys(wanted, LINE), LIMIT_SECONDS)
            for consumer in self.consumers
        ]

    def held(self):
        """The bytes that each holds."""
        return [out.counters()["bytes_held"] for out in self.outs]


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_few_hold_buffers_while_all_get_everything(policy, local):
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 5, active=2, policy=policy, local=local)
        for step in range(4):
            for n, out in enumerate(streams.outs):
                send(out, n, step)
                held = streams.held()
                assert held[n] >= NBYTES
                assert sum(nbytes > 0 for nbytes in held) <= 2
                assert streams.manager.counters()["active"] <= 2
                assert sum(held) <= 4 * NBYTES
                # What was taken before may be given back between two looks.
                while streams.manager.counters()["bytes_held"] != sum(streams.held()):
                    os.sched_yield()
                expect(streams.steps[n], n, step)
        assert streams.manager.counters()["steps_dropped"] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_consumer_that_stalls_does_not_stop_the_other_streams(policy):
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 4, active=2, policy=policy)
        for step in range(8):
            for n in range(4):
                if n == 0 and policy == "block" and step > 2:
                    continue  # its own send would wait
                send(streams.outs[n], n, step)
                if n != 0:
                    expect(streams.steps[n], n, step)
        held = streams.held()
        assert held[0] > 0
        assert sum(nbytes > 0 for nbytes in held) <= 2
        dropped = [out.counters()["steps_dropped"] for out in streams.outs]
        assert dropped == [0 if policy == "block" else 5, 0, 0, 0]
        seen = {"block": [0, 1, 2], "drop_oldest": [0, 6, 7]}[policy]
        for step in seen:
            expect(streams.steps[0], 0, step)


def test_who_waits_for_a_place_holds_nothing_and_gives_up_in_time():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 3, active=2, timeout=1.0)
        send(streams.outs[0], 0, 0)
        send(streams.outs[1], 1, 0)
        with pytest.raises(dm.Timeout):
            send(streams.outs[2], 2, 0)
        assert streams.held()[2] == 0
        expect(streams.steps[1], 1, 0)
        streams.outs[2].send("u", of_step(2, 0), layout=LINE, step=0)
        assert streams.held()[0] > 0
        assert streams.held()[1] == 0
        expect(streams.steps[2], 2, 0)
        expect(streams.steps[0], 0, 0)


def test_consumers_that_stall_too_long_are_ended():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1, stall=0.1)
        send(streams.outs[0], 0, 0)
        send(streams.outs[1], 1, 0)
        expect(streams.steps[1], 1, 0)
        assert streams.outs[0].counters()["consumers_lost"] == 1
        assert streams.held()[0] == 0
        with pytest.raises(dm.Timeout, match="another stream"):
            for _ in streams.steps[0]:
                pass


def test_a_stream_that_is_closed_or_that_nobody_wants_needs_no_place():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1)
        send(streams.outs[0], 0, 0)
        nobody = streams.manager.open("nobody", HERE)
        send(nobody, 9, 0)
        with pytest.raises(dm.errors.InvalidArgument, match="already"):
            streams.manager.open("nobody", HERE)
        streams.outs[0].close(0.1)
        send(streams.outs[1], 1, 0)
        expect(streams.steps[1], 1, 0)
        assert list(streams.manager.streams) == ["0", "1", "nobody"]
        nobody.close()
        assert streams.manager.open("nobody", HERE) is streams.manager.streams["nobody"]


def test_a_consumer_that_goes_frees_the_place():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1)
        send(streams.outs[0], 0, 0)
        streams.consumers[0].close()
        send(streams.outs[1], 1, 0)
        expect(streams.steps[1], 1, 0)


def test_who_waited_for_a_place_and_wants_none_any_more_keeps_it_from_nobody():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1)
        first, second = streams.outs
        send(first, 0, 0)
        waiting = threading.Thread(target=send, args=(second, 1, 0))
        waiting.start()
        while second.counters()["consumers"] == 0:  # it is let in where the place is asked for
            pass
        streams.consumers[1].close()
        waiting.join()
        expect(streams.steps[0], 0, 0)
        send(first, 0, 1)
        expect(streams.steps[0], 0, 1)


def test_within_a_step_the_place_is_kept():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1, wanted=("u", "v"))
        first, second = streams.outs
        send(first, 0, 0)
        with pytest.raises(dm.errors.InvalidState, match="'0'"):
            send(second, 1, 0)
        # The rest of the step can be sent all the same, and then the other stream.
        send(first, 0, 0, "v")
        expect(streams.steps[0], 0, 0)
        send(second, 1, 0)
        # Or the step is ended as it is.
        second.end_step()
        number, arrays = next(streams.steps[1])
        assert number == 0
        assert set(arrays) == {"u"}
        send(first, 0, 1)
        first.end_step()
        send(first, 0, 1)
        first.end_step()
        assert [next(streams.steps[0])[0] for _ in range(2)] == [1, 1]


def test_an_array_as_unit_is_a_step_of_its_own():
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, 2, active=1, unit="array", wanted=("u", "v"))
        for step in range(3):
            for name in ("u", "v"):
                for n, out in enumerate(streams.outs):
                    send(out, n, step, name)
                    number, arrays = next(streams.steps[n])
                    assert number == step
                    assert set(arrays) == {name}
                    np.testing.assert_array_equal(arrays[name], of_step(n, step))


@pytest.mark.parametrize("unit", ["step", "array"])
def test_threads_take_turns(unit):
    count, last = 4, 12
    with contextlib.ExitStack() as stack:
        streams = Streams(stack, count, active=1, unit=unit)
        failures = []

        def run(work, *arguments):
            try:
                work(*arguments)
            except BaseException as error:
                failures.append(error)

        def sending(n):
            for step in range(last):
                send(streams.outs[n], n, step)
                held = streams.held()[n]
                assert held <= 4 * NBYTES
            streams.outs[n].close(LIMIT_SECONDS)

        def receiving(n):
            for step in range(last):
                expect(streams.steps[n], n, step)
            assert list(streams.steps[n]) == []

        threads = [
            threading.Thread(target=run, args=(work, n))
            for n in range(count)
            for work in (sending, receiving)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert streams.manager.counters()["active"] == 0


@pytest.mark.parametrize(
    "wrong",
    [{"active": 0}, {"active": -1}, {"unit": "week"}, {"stall": 0}, {"stall": -1}],
)
def test_wrong_arguments(wrong):
    with pytest.raises(dm.errors.InvalidArgument):
        dm.stream.Manager(**wrong)
    with pytest.raises(dm.errors.WrongType):
        dm.stream.Manager(unit=None)
    with dm.stream.Manager() as manager:
        with pytest.raises(dm.errors.InvalidArgument):
            manager.open("", HERE)
        with pytest.raises(TypeError):
            manager.open("u", HERE, color="red")
        manager.open("u", HERE)


def test_an_exception_ends_all_streams():
    with contextlib.ExitStack() as stack:
        streams = Streams(contextlib.ExitStack(), 2, active=2)
        with pytest.raises(ZeroDivisionError), streams.manager:
            send(streams.outs[0], 0, 0)
            raise ZeroDivisionError
        for consumer, steps in zip(streams.consumers, streams.steps, strict=True):
            stack.callback(consumer.close)
            with pytest.raises(dm.PeerFailed):
                list(steps)


def test_a_forked_process_that_ends_takes_no_memory_from_its_parent():
    code = """
        import os, sys, numpy as np, datamover as dm
        n = 1 << 15
        line = dm.BlockCyclic(n, "block", nprocs=1)
        with (
            dm.Stream("tcp://127.0.0.1:0", consumers=1) as out,
            dm.stream.connect(out.address, timeout=60) as source,
        ):
            steps = source.steps({"u": line})
            for _ in range(4):  # until there is memory to be used again
                out.send("u", np.ones(n), layout=line)
                next(steps)
            begin, go_on = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(begin, 1)
                out._stop()
                os._exit(0)
            out.send("u", np.full(n, 7.0), layout=line)
            os.write(go_on, b"x")
            assert os.waitpid(child, 0)[1] == 0
            assert (next(steps)[1]["u"] == 7).all()
            assert source.counters()["checksum_errors"] == 0
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=LIMIT_SECONDS)


def test_a_program_ends_while_connections_of_its_streams_do():
    """They let go of what the streams share without Python, which may have ended by then."""
    code = """
        import numpy as np, datamover as dm
        line = dm.BlockCyclic(6, "block", nprocs=1)

        def main():
            with dm.stream.Manager() as manager:
                for name in range(20):
                    out = manager.open(str(name), "tcp://127.0.0.1:0", consumers=1)
                    steps = dm.stream.connect(out.address, timeout=60).steps({"u": line})
                    out.send("u", np.arange(6.0), layout=line)
                    next(steps)

        main()
        """
    for _ in range(10):
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=LIMIT_SECONDS
        )
