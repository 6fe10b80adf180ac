# SPDX-License-Identifier: BSD-3-Clause
"""Streams: survive consumers that stall and die, broken connections, and unauthorized clients.

The sending end is this process, the receiving one a thread, another process, or this one too.
DATAMOVER_TEST_CASES multiplies the hostile messages, DATAMOVER_TEST_SEED selects others.
"""

import contextlib
import dis
import fcntl
import gc
import itertools
import json
import os
import pty
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Mapping

import numpy as np
import pytest
import stream_words
from mpi4py import MPI
from stream_strangers import hello, hostile, mutated
from stream_words import said
from typer.testing import CliRunner

import datamover as dm
from datamover import _plan, cli
from datamover.launch import outer_environment
from datamover.stream import wire
from datamover.stream.recorder import Recorded, record

CASES = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))
SEED = int(os.environ.get("DATAMOVER_TEST_SEED", "0"))
HERE = "tcp://127.0.0.1:0"
LIMIT_SECONDS = 60
LINE = dm.BlockCyclic(6, "block", nprocs=1)
POLICIES = ("block", "drop_oldest")

pytestmark = pytest.mark.timeout(120)


def of_step(step):
    return np.arange(6.0) + 10 * step


def numbers(steps):
    """The numbers of the steps, whose arrays must be theirs."""
    seen = []
    for step, arrays in steps:
        np.testing.assert_array_equal(arrays["u"], of_step(step))
        seen.append(step)
    return seen


def send(out, steps):
    for step in steps:
        out.send("u", of_step(step), layout=LINE, step=step)


@contextlib.contextmanager
def thread(work):
    """Run something beside; its error is raised here."""
    failures = []

    def run():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield
    finally:
        beside.join()
    if failures:
        raise failures[0]


# What waits and what is dropped.


def test_a_consumer_that_stalls_loses_its_oldest_steps():
    with (
        dm.Stream(HERE, policy="drop_oldest", consumers=1) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, range(10))
        assert out.counters()["steps_dropped"] == 7
        with thread(lambda: out.close(LIMIT_SECONDS)):
            assert numbers(steps) == [0, 8, 9]
        assert consumer.dropped == 7


def test_where_all_are_wanted_each_array_is_dropped_by_itself():
    with (
        dm.Stream(HERE, policy="drop_oldest", queue_steps=1, consumers=1) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps(timeout=LIMIT_SECONDS)
        for step in range(5):
            for name in "uv":
                out.send(name, of_step(step), layout=LINE, step=step)
        assert out.counters()["steps_dropped"] == 8
        with thread(lambda: out.close(LIMIT_SECONDS)):
            assert [(step, *arrays) for step, arrays in steps] == [(0, "u"), (4, "v")]
        assert consumer.dropped == 8


def test_block_loses_nothing_and_waits_with_a_limit():
    with (
        dm.Stream(HERE, consumers=1, queue_steps=1, timeout=1.0) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, range(2))
        with pytest.raises(dm.Timeout):
            send(out, [2])
        assert next(steps)[0] == 0
        while out.counters()["bytes_kept"] > 48:  # until there is a place, for which it waits less
            os.sched_yield()
        send(out, [2])
        with thread(lambda: out.close(LIMIT_SECONDS)):
            assert numbers(steps) == [1, 2]
        assert consumer.dropped == 0


def test_the_queue_is_bounded_in_bytes():
    with (
        dm.Stream(HERE, policy="drop_oldest", queue_steps=9, queue_bytes=100, consumers=1) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, range(6))
        assert out.counters()["bytes_kept"] <= 3 * 48
        with thread(lambda: out.close(LIMIT_SECONDS)):
            assert numbers(steps) == [0, 4, 5]


@pytest.mark.parametrize(("local", "pathways"), [(True, 1), (False, 1), (False, 3)])
@pytest.mark.parametrize("columns", [37, 1])
def test_long_messages_are_sent_while_they_are_packed(local, pathways, columns):
    layout = dm.BlockCyclic(((3 << 19) // columns, columns), "(block, *)", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1, pathways=pathways) as out,
        dm.stream.connect(out.address, local=local) as consumer,
    ):
        steps = consumer.steps({"u": layout}, LIMIT_SECONDS)
        field = np.arange(3 << 19, dtype="f4")[: np.prod(layout.shape)].reshape(columns, -1).T
        expected = field.copy()

        def send_all():
            for step in range(6):
                out.send("u", field, step=step, layout=layout)
                field[...] += 1  # it may be written again

        with thread(send_all):
            for step in range(6):
                number, arrays = next(steps)
                assert number == step
                assert np.array_equal(arrays["u"], expected + step)
        assert consumer.counters()["checksum_errors"] == 0


def test_a_step_larger_than_the_queue_is_refused_for_its_consumer():
    with (
        dm.Stream(HERE, queue_bytes=40, consumers=1) as out,
        dm.stream.connect(out.address) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        with pytest.raises(dm.errors.OutOfRange, match="queue_bytes"):
            next(steps)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_limit_in_bytes(policy):
    with (
        dm.Stream(HERE, policy=policy, queue_steps=9, queue_bytes=None, consumers=1) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, range(8))
        with thread(lambda: out.close(LIMIT_SECONDS)):
            assert numbers(steps) == list(range(8))


def test_a_step_of_several_arrays_is_bounded_too():
    layouts = {"u": LINE, "v": LINE}
    with (
        dm.Stream(HERE, queue_bytes=60, consumers=1) as out,
        dm.stream.connect(out.address) as consumer,
    ):
        steps = consumer.steps(layouts, LIMIT_SECONDS)
        send(out, [0])
        send(out, [1])
        assert next(steps)[0] == 0
        out.send("v", of_step(1), layout=LINE, step=1)
        with pytest.raises(dm.errors.OutOfRange, match="queue_bytes"):
            numbers(steps)
        assert out.counters()["bytes_kept"] <= 48


def test_consumers_that_want_nothing_make_place_for_others():
    with dm.Stream(HERE, consumers=1) as out, contextlib.ExitStack() as stack:
        out._end.max_consumers, out._end.subscribe_milliseconds = 3, 10**9
        for _ in range(3):
            stack.enter_context(dm.stream.connect(out.address))
        with pytest.raises(dm.PeerFailed):  # they have had no time yet
            dm.stream.connect(out.address)
        out._end.subscribe_milliseconds = 0
        consumer = stack.enter_context(dm.stream.connect(out.address))
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        assert numbers([next(steps)]) == [0]


LONG = dm.BlockCyclic(400_000, "block", nprocs=1)


def long_of_step(step):
    return np.arange(400_000.0) + step


@pytest.mark.parametrize(("local", "pathways"), [(False, 1), (False, 2), (True, 1)])
@pytest.mark.parametrize("policy", POLICIES)
def test_long_messages_arrive_whole(policy, local, pathways):
    with (
        dm.Stream(HERE, policy=policy, consumers=1, pathways=pathways) as out,
        dm.stream.connect(out.address, ahead=1, local=local) as consumer,
    ):
        steps = consumer.steps({"u": LONG}, LIMIT_SECONDS)

        def sending():
            array = long_of_step(0)
            for step in range(12):
                array[...] = long_of_step(step)
                out.send("u", array, layout=LONG, step=step)
            array[...] = -1
            out.close()

        seen = []
        with thread(sending):
            for step, arrays in steps:
                np.testing.assert_array_equal(arrays["u"], long_of_step(step))
                seen.append(step)
        assert seen == sorted(seen) and len(seen) + consumer.dropped == 12
        assert policy != "block" or consumer.dropped == 0
        counters = consumer.counters()
        assert counters["connections_local"] == counters["connections"] * local
        assert counters["checksum_errors"] == 0


def sealed(data, seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL):
    """A file of memory that can be shared."""
    file = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
    os.write(file, data)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


def shared_chunk(data, offset, checksum):
    """The header of a chunk of step 0 of array 0 that lies in segment 0, which is its message."""
    count = min(stream_words.CHUNK_BYTES, len(data) - offset)
    header = stream_words.SHARED_MAGIC, checksum, 0, 0, offset, count, 0, offset
    return stream_words.chunk_header(*header)


def array_told(layout):
    return said(
        {"type": "array", "number": 0, "name": "u", "dtype": '"<f8"', "elem_bytes": 8,
         "layout": _plan.bytes_of_layout(layout)}
    )  # fmt: skip


STEP_TOLD = said({"type": "step", "place": 0, "step": 0, "arrays": [0], "dropped": 0})


def once_a_step_is_told(stream):
    """The control connection of a consumer that was told of an array and its first step."""
    control = stream.control()
    stream_words.confirm(control)
    control.sendall(array_told(LINE) + STEP_TOLD)
    return control


def whole_step(place, number):
    """The message that says all of a step."""
    data = of_step(number).tobytes()
    words = _plan.crc32c(data), 0, place, 0, len(data)
    return stream_words.chunk_header(stream_words.CHUNK_MAGIC, *words, number=number) + data


def test_messages_say_all_of_a_step_but_the_first():
    """Also of one that comes after the end was said."""
    sent = [0, 7, 9, 20]

    def message(place):
        return whole_step(place, sent[place])

    def sending(stream):
        control = stream.control(tells_by_messages=True)
        assert stream_words.confirm(control)["hears_by_messages"]
        control.sendall(array_told(LINE) + STEP_TOLD)
        link = stream.data()
        for place in (1, 0, 2):  # the second waits for the first
            link.sendall(message(place))
        while stream_words.heard(control, "done")["place"] < 2:
            pass
        control.sendall(said({"type": "end", "dropped": 0, "steps": len(sent)}))
        link.sendall(message(3))
        assert stream_words.heard(control, "bye")["place"] == 4

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        assert numbers(consumer.steps({"u": LINE}, LIMIT_SECONDS)) == sent


def after_a_step_told_by_messages(go_on, reason_milliseconds):
    """Receive what comes of a stream that goes on by hand after its first step."""

    def sending(stream):
        control = stream.control(tells_by_messages=True)
        stream_words.confirm(control)
        control.sendall(array_told(LINE) + STEP_TOLD)
        link = stream.data()
        link.sendall(whole_step(0, 0))
        stream_words.heard(control, "done")
        go_on(control, link)
        stream_words.heard(control, "bye")

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        consumer._end.reason_milliseconds = reason_milliseconds
        return numbers(consumer.steps({"u": LINE}, LIMIT_SECONDS))


@pytest.mark.parametrize("begun", [0, 17])
def test_a_data_connection_that_ends_after_a_step_is_an_error(begun):
    """Between steps, or within the header of the next, of which nobody says anything else."""

    def go_on(_, link):
        link.sendall(whole_step(1, 1)[:begun])
        stream_words.close(link)

    with pytest.raises(dm.PeerFailed, match=r"process 0.*closed the connection"):
        after_a_step_told_by_messages(go_on, 0)


def test_a_data_connection_may_end_before_the_stream_says_why():
    def end(control, link):
        stream_words.close(link)
        control.sendall(said({"type": "end", "dropped": 0, "steps": 1}))

    def fail(control, link):
        stream_words.close(link)
        control.sendall(said({"type": "failed", "code": "no_memory", "words": "some reason"}))

    assert after_a_step_told_by_messages(end, 10**9) == [0]
    with pytest.raises(dm.errors.NoMemory, match="some reason"):
        after_a_step_told_by_messages(fail, 10**9)


@pytest.mark.parametrize("end_is_told_first", [False, True])
def test_a_step_that_is_on_its_way_when_the_stream_is_closed_counts_as_dropped(end_is_told_first):
    def sending(stream):
        control = once_a_step_is_told(stream)
        data = stream.data()
        data.sendall(whole_step(0, 5)[:-1])
        end = said({"type": "end", "dropped": 0, "steps": 1})
        if end_is_told_first:
            control.sendall(end)
        stream_words.close(data)
        if not end_is_told_first:
            control.sendall(end)

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        assert list(consumer.steps({"u": LINE}, LIMIT_SECONDS)) == []
        assert consumer.dropped == 1


@pytest.mark.parametrize("local", [False, True])
def test_steps_without_some_of_the_arrays_come_in_order(local):
    """Announced they are, beside others that their messages tell of."""
    rng = random.Random(SEED)
    sent = [rng.sample(["u", "v"], rng.randrange(1, 3)) for _ in range(60)]
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address, local=local) as consumer,
    ):
        steps = consumer.steps({"u": LINE, "v": LINE}, LIMIT_SECONDS)

        def sending():
            for step, names in enumerate(sent):
                for name in names:
                    out.send(name, of_step(step), layout=LINE, step=3 * step)
                if rng.random() < 0.5:
                    out.end_step()
            out.close(LIMIT_SECONDS)

        with thread(sending):
            for n, (step, arrays) in enumerate(steps):
                assert (step, set(arrays)) == (3 * n, set(sent[n]))
                for array in arrays.values():
                    np.testing.assert_array_equal(array, of_step(n))
        assert n == len(sent) - 1


@pytest.mark.parametrize("into", ["new arrays", "an Array"])
@pytest.mark.parametrize("damaged", [None, 0, 1, 3])
def test_a_chunk_that_is_damaged_in_shared_memory_is_an_error(damaged, into):
    """Where it is received, and where it is read from."""
    data = long_of_step(5).tobytes()
    chunks = [data[at : at + stream_words.CHUNK_BYTES]
              for at in range(0, len(data), stream_words.CHUNK_BYTES)]  # fmt: skip
    right = [_plan.crc32c(chunk) for chunk in chunks]

    def sending(stream):
        control = stream.control()
        stream_words.confirm(control)
        control.sendall(array_told(LONG) + STEP_TOLD)
        link = stream.data()
        file = sealed(data)
        for n, checksum in enumerate(right):
            header = shared_chunk(data, n * stream_words.CHUNK_BYTES, checksum ^ (n == damaged))
            socket.send_fds(link, [header], [file] if n == 0 else [])
            if n == damaged:
                break  # the consumer closes the connection
        os.close(file)
        if damaged is None:
            control.sendall(said({"type": "end", "dropped": 0}))
        stream_words.heard(control, "done" if damaged is None else "bye")

    with (
        stream_words.HandmadeStream(sending, local=True) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        target = LONG if into == "new arrays" else dm.Array(LONG, "f8", comm=MPI.COMM_SELF)
        if target is not LONG:
            target.local[...] = -1
        steps = consumer.steps({"u": target}, LIMIT_SECONDS)
        if damaged is not None:
            with pytest.raises(dm.errors.IoFailed, match=r"process 0.*array 0 .*damaged"):
                next(steps)
            if target is not LONG:
                assert (target.local == -1).all()
        else:
            (arrived,) = list(steps)
            got = arrived[1]["u"]
            got = got if target is LONG else got.local
            np.testing.assert_array_equal(got, long_of_step(5))
        assert consumer.counters()["connections_local"] == 1
        assert consumer.counters()["checksum_errors"] == int(damaged is not None)


def refused_segment(file, match, position=0):
    """Share memory with a consumer that must not read it."""
    data = of_step(0).tobytes()

    def sending(stream):
        control = once_a_step_is_told(stream)
        header = stream_words.SHARED_MAGIC, _plan.crc32c(data), 0, 0, 0, len(data), 0, position
        files = [] if file is None else [file]
        socket.send_fds(stream.data(), [stream_words.chunk_header(*header)], files)
        assert stream_words.heard(control, "bye")["code"] in ("io", "peer_failed")

    with (
        stream_words.HandmadeStream(sending, local=True) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        consumer._end.reason_milliseconds = 100
        with pytest.raises((dm.errors.IoFailed, dm.PeerFailed), match=match):
            next(consumer.steps({"u": LINE}, LIMIT_SECONDS))


def test_memory_that_could_shrink_or_is_none_is_not_mapped(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(48))
    for file, match in (
        (sealed(bytes(48), fcntl.F_SEAL_GROW), "shrink"),
        (os.open(path, os.O_RDONLY), "cannot map"),
        (sealed(b""), "cannot map"),
        (sealed(bytes(47)), "longer"),
    ):
        refused_segment(file, match)
        os.close(file)
    refused_segment(None, "does not share")
    for position in (1, 2**64 - 8):
        file = sealed(bytes(48))
        refused_segment(file, "longer", position)
        os.close(file)


@pytest.mark.parametrize("local", [False, True])
def test_hostile_data_is_an_error_and_no_wrong_value(local):
    rng = random.Random(SEED)
    data = of_step(0).tobytes()
    right = [_plan.crc32c(data), 0, 0, 0, len(data), 0, 0, stream_words.NO_NUMBER]
    odd = [0, 1, 7, 47, 49, 2**20, 2**31, 2**32 - 1, 2**63, 2**64 - 48, 2**64 - 1]

    def chunk(link):
        """Send a chunk, right or not quite, whose bytes follow or are shared."""
        fields, shares = list(right), local and rng.random() < 0.7
        for _ in range(rng.choice([0, 1, 1, 2])):
            at = rng.randrange(len(fields))
            fields[at] = rng.choice(odd) % (2**32 if at < 2 else 2**64)
        magic = stream_words.SHARED_MAGIC if shares else stream_words.CHUNK_MAGIC
        message = stream_words.chunk_header(magic, *fields) + (b"" if shares else data)
        if rng.random() < 0.2:
            message = mutated(rng, message)
        files = [sealed(data) for _ in range(rng.choice([0, 1, 1, 1, 3]))] if local else []
        try:
            socket.send_fds(link, [message], files) if files else link.sendall(message)
        finally:
            for file in files:
                os.close(file)

    def sending(stream):
        control = stream.control(rng.random() < 0.5, rng.random() < 0.5)
        stream_words.confirm(control)
        control.sendall(array_told(LINE) + STEP_TOLD)
        with contextlib.suppress(OSError):
            link = stream.data()
            if next(streams) == 0:  # one is right, and does not end before it was taken
                link.sendall(stream_words.chunk_header(stream_words.CHUNK_MAGIC, *right) + data)
                stream_words.heard(control, "done")
            else:
                for _ in range(rng.randrange(1, 4)):
                    chunk(link)
            stream_words.close(link)
        stream_words.close(control)

    streams = itertools.count()
    gc.collect()  # what earlier tests have dropped
    came, files_before = 0, len(os.listdir("/proc/self/fd"))
    for _ in range(100 * CASES):
        with (
            stream_words.HandmadeStream(sending, local) as stream,
            dm.stream.connect(stream.address) as consumer,
            contextlib.suppress(dm.PeerFailed, dm.errors.IoFailed),
        ):
            for step in consumer.steps({"u": LINE}, LIMIT_SECONDS):
                came += len(numbers([step]))
        del consumer
    assert came > 0
    assert len(os.listdir("/proc/self/fd")) <= files_before


def test_checksums_are_those_of_another_library():
    google_crc32c = pytest.importorskip("google_crc32c")
    rng = random.Random(SEED)
    for count in (
        *range(20),
        3071,
        3072,
        3080,
        40_000,
        *(rng.randrange(1 << 20) for _ in range(5)),
    ):
        data = rng.randbytes(count)
        for same in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
            assert wire.crc32c(same) == google_crc32c.value(data)
    with pytest.raises((TypeError, BufferError)):
        wire.crc32c("text")
    with pytest.raises((BufferError, ValueError)):
        wire.crc32c(np.zeros(8)[::2])


@pytest.mark.parametrize("local", [True, False])
def test_arrays_of_steps_are_the_programs_as_long_as_it_keeps_them(local):
    # The whole array comes where it belongs; a row of tiles has to be put in order.
    rows = dm.BlockCyclic((64, 1024), "(block, *)", nprocs=1)
    regions = [dm.Region((0, begin), (64, begin + 256)) for begin in range(0, 1024, 256)]
    tiles = dm.FloorPlan(regions, [0] * len(regions), 1)
    base = np.arange(64 * 1024.0).reshape(64, 1024)
    with dm.Stream(HERE, consumers=1) as out:
        source = dm.stream.connect(out.address, local=local)
        steps = source.steps({"whole": rows, "tiled": tiles})
        kept = {}
        for step in range(12):
            out.send("whole", base + step, layout=rows, step=step)
            out.send("tiled", -base - step, layout=rows, step=step)
            number, arrays = next(steps)
            tiled = arrays["tiled"]
            if not step % 3:  # what others gave back is used again
                kept[number] = arrays["whole"], tiled
            del arrays, tiled
        source.close()
    del source, steps
    assert sorted(kept) == [0, 3, 6, 9]
    for number, (whole, tiled) in kept.items():
        np.testing.assert_array_equal(whole, base + number)
        assert sorted(tiled) == [0, 1, 2, 3]
        for block, part in tiled.items():
            np.testing.assert_array_equal(part, -(base + number)[:, 256 * block :][:, :256])
        whole[...] = 0  # writable, and nobody else's


def test_threads_share_the_steps_of_a_consumer():
    shape = (100, 1000)
    rows = dm.BlockCyclic(shape, "(block, *)", nprocs=1)
    regions = [dm.Region((0, begin), (100, begin + 500)) for begin in (0, 500)]
    tiles = dm.FloorPlan(regions, [0, 0], 1)
    base = np.arange(100_000.0).reshape(shape)
    steps_of_threads = [[], [], []]
    with dm.Stream(HERE, consumers=1) as out, dm.stream.connect(out.address) as source:
        steps = source.steps({"whole": rows, "tiled": tiles}, LIMIT_SECONDS)

        def receive(seen):
            for step, arrays in steps:
                np.testing.assert_array_equal(arrays["whole"], base + step)
                for tile, part in arrays["tiled"].items():
                    np.testing.assert_array_equal(part, base[:, 500 * tile :][:, :500] - step)
                seen.append(step)

        with contextlib.ExitStack() as stack:
            for seen in steps_of_threads:
                stack.enter_context(thread(lambda seen=seen: receive(seen)))
            for step in range(300):
                out.send("whole", base + step, layout=rows, step=step)
                out.send("tiled", base - step, layout=rows, step=step)
            out.close(LIMIT_SECONDS)
    assert all(seen == sorted(seen) for seen in steps_of_threads)
    assert sorted(itertools.chain(*steps_of_threads)) == list(range(300))


def test_steps_of_several_arrays():
    layouts = {"u": LINE, "v": LINE}
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address, ahead=4) as consumer,
    ):
        steps = consumer.steps(layouts, LIMIT_SECONDS)

        def sending():
            for step in range(6):
                out.send("w", np.zeros(3), layout=dm.BlockCyclic(3, "block", nprocs=1), step=step)
                if step % 2 == 0:
                    out.send("u", of_step(step), layout=LINE, step=step)
                out.send("v", -of_step(step), layout=LINE, step=step)
            with pytest.raises(dm.errors.InvalidArgument):
                out.send("v", of_step(5), step=5)
            out.close()

        with thread(sending):
            for step, arrays in steps:
                assert set(arrays) == ({"u", "v"} if step % 2 == 0 else {"v"})
                np.testing.assert_array_equal(arrays["v"], -of_step(step))
        assert step == 5


def test_after_an_interruption_in_send_the_stream_goes_on():
    """Nothing is lost and nothing comes twice: the step in which it came can be sent again."""

    def interrupt(_, frame):
        if frame.f_code in between:  # two sends
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        else:
            raise Interrupted

    between = sys._getframe().f_code, send.__code__
    seen, step = [], 0
    with (
        dm.Stream(HERE, consumers=1, queue_steps=1, timeout=LIMIT_SECONDS) as out,
        dm.stream.connect(out.address, ahead=1) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                while True:  # until the queue is full, where it waits
                    send(out, [step])
                    step += 1
        finally:
            signal.signal(signal.SIGALRM, before)
        with thread(lambda: seen.extend(numbers(steps))):
            send(out, [step, step + 1])
            out.close()
    assert seen == list(range(step + 2))


def test_consumers_come_late_leave_and_come_again():
    with dm.Stream(HERE, queue_steps=1) as out:
        send(out, range(3))
        for first in (3, 13):
            with dm.stream.connect(out.address) as consumer:
                steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
                send(out, [first])
                assert numbers([next(steps)]) == [first]
            # It has left; nothing holds the sender up.
            send(out, range(first + 1, first + 21))
        assert out.counters()["consumers_came"] == 2
        assert out.counters()["consumers"] == 0
        assert out.counters()["bytes_kept"] == 0


def test_consumers_get_the_step_that_is_sent_once_they_have_joined():
    """Three consumers join, and join again, each time right before a step."""
    with dm.Stream(HERE, queue_steps=4) as out:
        for step in range(30):
            with contextlib.ExitStack() as stack:
                sources = [stack.enter_context(dm.stream.connect(out.address)) for _ in range(3)]
                joined = [source.steps({"u": LINE}, LIMIT_SECONDS) for source in sources]
                send(out, [step])
                assert [numbers([next(steps)]) for steps in joined] == [[step]] * 3


def test_a_request_that_the_stream_does_not_confirm_is_a_timeout():
    def sending(stream):
        control = stream.control()
        assert stream_words.heard(control, "bye")["code"] == "timeout"

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address, timeout=1.0) as consumer,
    ):
        with pytest.raises(dm.Timeout, match="did not confirm the requested arrays within 1 s"):
            consumer.steps({"u": LINE})
        with pytest.raises(dm.errors.InvalidState, match="connect again"):
            consumer.steps({"u": LINE})


def counted_consumers(out):
    """Consumers that are there, came, left and were lost; every one that came is one of these."""
    names = ("consumers", "consumers_came", "consumers_left", "consumers_lost")
    counters = out.counters()  # at one moment: consumers come and leave meanwhile
    now, came, left, lost = (counters[name] for name in names)
    assert came == now + left + lost
    return now, came, left, lost


def await_counted(out, *expected):
    deadline = time.monotonic() + LIMIT_SECONDS
    while counted_consumers(out) != expected:
        assert time.monotonic() < deadline, counted_consumers(out)
        os.sched_yield()


def test_consumers_that_came_are_there_or_left_or_were_lost():
    with dm.Stream(HERE, queue_steps=100, timeout=LIMIT_SECONDS) as out:
        send(out, [0])
        with dm.stream.connect(out.address) as looking:
            assert set(looking.arrays(LIMIT_SECONDS)) == {"u"}
        with command("info", out.address) as looking:
            assert looking.wait(LIMIT_SECONDS) == 0
        while out._end.connections:
            os.sched_yield()
        send(out, [1])
        assert counted_consumers(out) == (0, 0, 0, 0)  # who looks wants no step

        step_numbers = itertools.count(2)

        def come(layout=LINE):
            before, source = out.counters()["consumers_came"], dm.stream.connect(out.address)
            steps = source.steps({"u": layout}, LIMIT_SECONDS)
            send(out, [next(step_numbers)])
            assert out.counters()["consumers_came"] == before + 1
            return source, steps

        leaver, steps = come()
        next(steps)
        assert counted_consumers(out) == (1, 1, 0, 0)
        failing, _ = come()
        come(dm.BlockCyclic(7, "block", nprocs=1))  # refused: there is no such shape
        await_counted(out, 2, 3, 0, 1)
        leaver.close()
        await_counted(out, 1, 3, 1, 1)
        failing._fail(dm.errors.IoFailed("no room on the disk"))
        await_counted(out, 0, 3, 1, 2)
        with program(CONSUMER, out.address) as killed:
            assert killed.stdout.readline() == "ready\n"
            send(out, [next(step_numbers)])
            killed.kill()
        await_counted(out, 0, 4, 1, 3)
        staying, steps = come()
        late = dm.stream.connect(out.address)
        late_steps = late.steps({"u": LINE}, LIMIT_SECONDS)
        with thread(lambda: numbers(steps)):
            out.close()
        assert counted_consumers(out) == (
            0,
            5,
            2,
            3,
        )  # the end is no loss; no step began for `late`
        assert numbers(late_steps) == []
        late.close()
        staying.close()
        assert counted_consumers(out) == (0, 5, 2, 3)


def test_the_first_step_waits_for_consumers():
    with (
        dm.Stream(HERE, consumers=1, timeout=0.2) as out,
        pytest.raises(dm.Timeout, match="too few came"),
    ):
        send(out, [0])
    with pytest.raises(dm.errors.InvalidArgument, match="consumers is 257"):
        dm.Stream(HERE, consumers=257)
    with pytest.raises(dm.errors.InvalidArgument, match="drop_newest"):
        dm.Stream(HERE, policy="drop_newest")


@pytest.mark.parametrize(
    ("nbytes", "ahead", "granted"),
    [
        (1 << 14, None, 16),
        (1 << 19, None, 15),
        (1 << 20, None, 7),
        (3 << 20, None, 2),
        (1 << 14, 3, 3),
    ],
)
def test_so_many_steps_are_granted(nbytes, ahead, granted):
    values = np.zeros(nbytes // 8)
    line = dm.BlockCyclic(values.size, "block", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1, queue_steps=1, timeout=1.0) as out,
        dm.stream.connect(out.address, ahead=ahead) as source,
    ):
        steps = source.steps({"u": line}, LIMIT_SECONDS)
        out.send("u", values, layout=line)
        next(steps)
        sent = 0
        with pytest.raises(dm.Timeout):
            while sent < 100:
                out.send("u", values)
                sent += 1
        assert sent == granted + 1  # one waits without a credit


def test_what_was_taken_is_said_while_the_program_is_away():
    values = np.zeros(1000)
    line = dm.BlockCyclic(values.size, "block", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1, queue_steps=9) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": line}, LIMIT_SECONDS)
        for _ in range(7):
            out.send("u", values, layout=line)
            next(steps)
            while out.counters()["bytes_kept"] > values.nbytes:  # of the step that is looked at
                os.sched_yield()


def test_both_ends_and_steps_print_in_a_line():
    with dm.Stream(HERE, consumers=1) as out, dm.stream.connect(out.address) as source:
        assert repr(out) == f"Stream('{out.address}', 0 arrays)"
        steps = source.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        next(steps)
        assert repr(out) == f"Stream('{out.address}', 1 array)"
        assert repr(steps) == f"<steps of {source!r}>"
        assert repr(source) == f"Consumer({out.address}, process 0 of 1)"


def test_after_a_timeout_a_step_can_be_asked_for_again():
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": LINE}, 0.01)
        for step in range(3):
            with pytest.raises(dm.Timeout):
                next(steps)
            send(out, [step])
            while out.counters()["bytes_kept"]:
                with contextlib.suppress(dm.Timeout):
                    assert numbers([next(steps)]) == [step]
    assert out.counters()["steps_dropped"] == 0


class Interrupted(KeyboardInterrupt):
    pass


@contextlib.contextmanager
def interrupted_behind_call(number, *functions):
    """Raise `Interrupted` behind a call that these make, which is where Python hears of signals."""
    made, before = itertools.count(), {}

    def trace(frame, event, _):
        if all(frame.f_code is not function.__code__ for function in functions):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            was, operation = before.get(frame), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before[frame] = operation
            if was is not None and was.startswith("CALL") and next(made) == number:
                raise Interrupted
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(old)


@contextlib.contextmanager
def interrupting(number):
    """Give a call, for another thread, that raises `Interrupted` in this one and waits for it.

    Nobody hears what is raised in a destructor, or what a handler raises in the midst of another:
    so no garbage is collected meanwhile, and the call ends when the handler has.
    """
    heard = [threading.Event() for _ in range(number)]
    calls = iter(heard)
    arrived = iter(heard)
    interrupted = threading.get_ident()

    def interrupt(*_):
        next(arrived).set()
        raise Interrupted

    def call():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert next(calls).wait(LIMIT_SECONDS)
        while sys._current_frames()[interrupted].f_code is interrupt.__code__:
            os.sched_yield()

    gc.disable()
    old = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield call
    finally:
        signal.signal(signal.SIGUSR1, old)
        gc.enable()


def test_an_interruption_while_the_first_step_connects_loses_nothing():
    def sending(stream):
        control = once_a_step_is_told(stream)
        stream.data(before=interrupt).sendall(whole_step(0, 5))
        assert stream_words.heard(control, "bye")["place"] == 1

    with (
        interrupting(1) as interrupt,
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        with pytest.raises(Interrupted):
            next(steps)
        np.testing.assert_array_equal(next(steps)[1]["u"], of_step(5))


def test_a_second_interruption_while_the_first_step_connects_ends_the_consumer():
    def sending(stream):
        once_a_step_is_told(stream)

        def twice():
            interrupt()
            interrupt()
            ended.wait(LIMIT_SECONDS)

        with contextlib.suppress(OSError):
            stream.data(before=twice)

    ended = threading.Event()
    with (
        interrupting(2) as interrupt,
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        with pytest.raises(Interrupted):
            next(steps)
        ended.set()
        with pytest.raises(dm.Error):
            next(steps)
    alive = weakref.ref(consumer)
    del consumer, steps
    gc.collect()
    assert alive() is None


def test_a_step_comes_again_after_an_interruption_before_it_was_handed_over():
    consumer = dm.stream.Consumer
    functions = consumer._next, consumer._take, consumer._arrays_of, consumer._target
    rounds, was_interrupted = 0, True
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": LINE}, LIMIT_SECONDS)
        while was_interrupted:
            first = 2 * rounds
            send(out, [first, first + 1])
            was_interrupted, seen = False, []
            try:
                with interrupted_behind_call(rounds, *functions):
                    seen += numbers([next(steps)])
            except Interrupted:
                was_interrupted = True
            while seen[-1:] != [first + 1]:
                seen += numbers([next(steps)])
            assert seen == [first, first + 1]
            rounds += 1
    assert rounds > 6


def test_an_array_that_cannot_be_had_whole_is_named():
    with_a_hole = dm.FloorPlan([dm.Region(0, 3), dm.Region(5, 8)], [0, 0], nprocs=1)
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps(timeout=LIMIT_SECONDS)
        out.send("v", {0: np.zeros(3), 1: np.zeros(3)}, layout=with_a_hole)
        with pytest.raises(dm.Mismatch, match=r"array 'v': .*index \(3\).* no block"):
            next(steps)


def test_arrays_are_asked_for_in_every_step():
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": LINE}, LIMIT_SECONDS)
        sent = {"u"}
        for step in range(40):
            send(out, [step])
            if step % 10 == 5:
                sent.add(f"v{step}")
                out.send(f"v{step}", of_step(step), layout=LINE, step=step)
            out.end_step()
            assert numbers([next(steps)]) == [step]
            assert set(source.arrays(LIMIT_SECONDS)) == sent


def test_all_arrays_are_wanted_after_some_were_told():
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
        thread(lambda: send(out, range(3))),
    ):
        assert set(source.arrays(LIMIT_SECONDS)) == {"u"}
        steps = source.steps(timeout=LIMIT_SECONDS)
        first = numbers([next(steps)])
        assert first == [0]
        assert numbers([next(steps), next(steps)]) == [1, 2]


def test_arrays_are_told_while_their_step_goes_on():
    """Of a step that nobody has ended, and that no other follows."""
    with (
        dm.Stream(HERE) as out,
        dm.stream.connect(out.address) as early,
        dm.stream.connect(out.address) as late,
    ):
        with thread(lambda: send(out, [0])):
            assert set(early.arrays(LIMIT_SECONDS)) == {"u"}
        assert set(late.arrays(LIMIT_SECONDS)) == {"u"}
        out.send("v", of_step(0), layout=LINE, step=0)
        for source in (early, late):
            assert set(source.arrays(LIMIT_SECONDS)) == {"u", "v"}
        steps = late.steps({"u": LINE, "v": LINE}, LIMIT_SECONDS)
        send(out, [1])
        out.send("v", of_step(1), layout=LINE, step=1)
        assert next(steps)[0] == 1


class Made(Mapping):
    """Blocks that are made when they are asked for, and kept by nobody."""

    def __init__(self, values):
        self._values = values

    def __getitem__(self, block):
        if block != 0:
            raise KeyError(block)
        return np.array(self._values)

    def __iter__(self):
        return iter([0])

    def __len__(self):
        return 1


def test_an_array_is_found_again_only_where_it_lies():
    """In place of arrays that were sent before, others come: of the same memory, or of another."""
    square = dm.BlockCyclic((300, 300), "(block, *)", nprocs=1)
    first = np.arange(90_000.0).reshape(300, 300)
    copies = [first, first.T, first[::-1], first[:, ::-1], first + 1, first, first.copy(order="F")]
    sent = [*copies, *(-one for one in copies)]
    for local in (True, False):
        with (
            dm.Stream(HERE, consumers=1, local=local) as out,
            dm.stream.connect(out.address, ahead=64) as source,
        ):
            steps = source.steps({"u": square}, LIMIT_SECONDS)

            def sending(out=out):
                for array in sent:
                    out.send("u", array, layout=square)
                    out.send("u", array)
                    out.send("u", Made(array), layout=square)
                out.close()

            with thread(sending):
                for step, arrays in steps:
                    np.testing.assert_array_equal(arrays["u"], sent[step // 3])
            assert step == 3 * len(sent) - 1


def test_dates_are_sent():
    days = np.array(["2024-02-29", "NaT", "1970-01-01"], dtype="M8[D]").repeat(2)
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": LINE}, LIMIT_SECONDS)
        for _ in range(3):
            out.send("u", days, layout=LINE)
            np.testing.assert_array_equal(next(steps)[1]["u"], days)


def test_few_steps_are_granted_where_the_oldest_are_dropped():
    with (
        dm.Stream(HERE, policy="drop_oldest", consumers=1, queue_steps=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": LINE}, LIMIT_SECONDS)
        for step in range(100):
            out.send("u", np.arange(6.0), layout=LINE, step=step)
        assert [next(steps)[0] for _ in range(3)] == [0, 1, 99]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(120 * CASES)
def test_consumers_that_come_stall_and_go_leave_nothing_behind(policy):
    rng = random.Random(SEED)
    threads_before = len(os.listdir("/proc/self/task"))
    with dm.Stream(HERE, policy=policy, queue_steps=2, timeout=LIMIT_SECONDS) as out:
        step, there, connected = 0, [], 0

        def let_in():
            """Those who are in the stream: the one who came last perhaps not yet."""
            return there[: len(there) - (connected - out.counters()["consumers_came"])]

        for _ in range(30 * CASES):
            if len(there) < 4 and len(let_in()) == len(there):
                consumer = dm.stream.connect(out.address, ahead=rng.randrange(1, 4))
                there.append([consumer, consumer.steps({"u": LINE}, LIMIT_SECONDS), -1])
                connected += 1
            for _ in range(rng.randrange(1, 6)):
                send(out, [step])
                step += 1
                going_on = let_in()
                if policy != "block":  # where all have to go on, or the stream waits for them
                    going_on = rng.sample(going_on, len(going_on) // 2)
                for entry in going_on:
                    number, arrays = next(entry[1])
                    assert number > entry[2]
                    assert policy != "block" or entry[2] in (-1, number - 1)
                    np.testing.assert_array_equal(arrays["u"], of_step(number))
                    entry[2] = number
            if not let_in():
                continue
            leaving = there.pop(rng.randrange(len(let_in())))[0]
            leaving.close()
        for consumer, *_ in there:
            consumer.close()
        send(out, range(step, step + 3 * 2 + 20))
        while out.counters()["consumers"]:
            send(out, [step + 100])
            step += 1
        send(out, [step + 200])
        assert out.counters()["bytes_kept"] == 0
        while out._end.connections:  # of those that have gone
            os.sched_yield()
    while len(os.listdir("/proc/self/task")) > threads_before:
        os.sched_yield()


# Programs that end.

CONSUMER = """
    import sys, datamover as dm
    line = dm.BlockCyclic(6, "block", nprocs=1)
    with dm.stream.connect(sys.argv[1]) as consumer:
        steps = consumer.steps({"u": line})
        print("ready", flush=True)
        for step, arrays in steps:
            print(step, flush=True)
            sys.stdin.readline()
"""
PRODUCER = """
    import sys, numpy as np, datamover as dm
    line = dm.BlockCyclic(6, "block", nprocs=1)
    with dm.Stream("tcp://127.0.0.1:0", consumers=1) as out:
        print(out.address, flush=True)
        for step in range(10 ** 9):
            out.send("u", np.arange(6.0) + 10 * step, layout=line, step=step)
"""


def program(text, *arguments, command=(), stderr=None):
    return subprocess.Popen(
        [*command, sys.executable, "-c", textwrap.dedent(text), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=outer_environment(),
    )


def test_a_consumer_that_is_killed_does_not_stop_the_producer():
    with dm.Stream(HERE, consumers=1, queue_steps=1, timeout=LIMIT_SECONDS) as out:
        for round_ in range(2):
            with program(CONSUMER, out.address) as consumer:
                assert consumer.stdout.readline() == "ready\n"
                step = 100 * round_
                send(out, [step])
                assert int(consumer.stdout.readline()) == step
                consumer.send_signal(signal.SIGKILL)
                send(out, range(step + 1, step + 21))
        assert out.counters()["consumers_lost"] == 2
        assert out.counters()["bytes_kept"] == 0


def test_a_producer_that_is_killed_is_an_error_at_its_consumer():
    with program(PRODUCER) as producer:
        address = producer.stdout.readline().strip()
        with dm.stream.connect(address) as consumer:
            steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
            assert numbers([next(steps)]) == [0]
            producer.send_signal(signal.SIGKILL)
            with pytest.raises(dm.PeerFailed):
                numbers(steps)


UNCLOSED_PRODUCER = """
    import numpy as np, datamover as dm
    line = dm.BlockCyclic(500_000, "block", nprocs=1)
    out = dm.Stream("tcp://127.0.0.1:0", consumers=1, policy="drop_oldest")
    print(out.address, flush=True)
    for step in range(6):
        out.send("u", np.zeros(500_000), layout=line, step=step)
"""
UNCLOSED_CONSUMER = """
    import sys, datamover as dm
    line = dm.BlockCyclic(500_000, "block", nprocs=1)
    source = dm.stream.connect(sys.argv[1], local=sys.argv[2] == "local")
    try:
        next(source.steps({"u": line}))
    except dm.PeerFailed:  # the producer was faster
        pass
"""


@pytest.mark.parametrize("local", ["local", "tcp"])
def test_programs_that_end_without_closing_end_quietly(local):
    """Python ends its threads by unwinding them, which must not meet C++."""
    with program(UNCLOSED_PRODUCER, stderr=subprocess.PIPE) as producer:
        address = producer.stdout.readline().strip()
        with program(UNCLOSED_CONSUMER, address, local, stderr=subprocess.PIPE) as consumer:
            assert consumer.communicate(timeout=LIMIT_SECONDS)[1] == ""
            assert consumer.returncode == 0
        assert producer.communicate(timeout=LIMIT_SECONDS)[1] == ""
        assert producer.returncode == 0


SENDERS = """
    import numpy as np, datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    tiles = dm.BlockCyclic((40, 30), "(cyclic(3), cyclic(2))", nprocs=comm.size)
    u = dm.Array(tiles, "f4", comm=comm)
    rows, columns = tiles.global_indices(comm.rank)
    with dm.Stream("tcp://127.0.0.1:0", pathways=2, consumers=1, comm=comm) as out:
        if comm.rank == 0:
            print(out.address, flush=True)
        for step in range(5):
            u.local[...] = rows[:, None] * 30 + columns + step
            out.send("u", u, step=step)
"""
RECEIVERS = """
    import sys, numpy as np, datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rows = dm.BlockCyclic((40, 30), "(*, block)", nprocs=comm.size)
    i, j = rows.global_indices(comm.rank)
    with dm.stream.connect(sys.argv[1], comm=comm) as consumer:
        seen = 0
        for step, arrays in consumer.steps({"u": rows}):
            np.testing.assert_array_equal(arrays["u"], i[:, None] * 30 + j + step)
            seen += 1
    assert seen == 5
"""


def test_three_processes_send_to_two_of_another_job():
    mpiexec = os.environ.get("MPIEXEC", "mpiexec")
    with program(SENDERS, command=[mpiexec, "-n", "3"]) as senders:
        address = senders.stdout.readline().strip()
        with program(RECEIVERS, address, command=[mpiexec, "-n", "2"]) as receivers:
            assert receivers.wait(LIMIT_SECONDS) == 0
        assert senders.wait(LIMIT_SECONDS) == 0


# Connections that damage and cut.


class Proxy:
    """Hands bytes on between a consumer and a stream; changes or cuts those of data connections."""

    def __init__(self, address, change, of_stream=True):
        self._to, self._change = wire.parse_address(address), change
        self._of_stream = of_stream  # else what the consumer says is changed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stream_words.close(self._listener)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._to)
                is_data = threading.Event()
                for source, sink, back in ((near, far, False), (far, near, True)):
                    arguments = source, sink, back, is_data
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source, sink, back, is_data):
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not back and not passed and stream_words.is_for_data(data):
                    is_data.set()
                if back == self._of_stream and is_data.is_set():
                    data = self._change(passed, data)
                passed += len(data)
                sink.sendall(data)
                if not data:
                    break
        stream_words.close(source)
        stream_words.close(sink)


def through_proxy(change, steps=3):
    """Send steps of 80,000 bytes through a proxy; give the consumer's counters."""
    line = dm.BlockCyclic(10_000, "block", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1) as out,
        Proxy(out.address, change) as proxy,
        dm.stream.connect(proxy.address, token=out.token, local=False) as consumer,
    ):
        consumer._end.reason_milliseconds = 100  # the stream has none to tell
        got = consumer.steps({"u": line}, LIMIT_SECONDS)

        def sending():
            for step in range(steps):
                out.send("u", np.arange(10_000.0) + step, layout=line, step=step)
            out.close()

        with thread(sending):
            try:
                for step, arrays in got:
                    np.testing.assert_array_equal(arrays["u"], np.arange(10_000.0) + step)
            finally:
                consumer.close()
        assert step == steps - 1
        return consumer.counters()


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_a_message_that_arrives_damaged_is_an_error():
    """In none, one or all of its steps."""
    damaged = []

    def change(passed, data):
        if passed + len(data) > 100_000 and not damaged:
            damaged.append(passed)
            data = flipped(data, len(data) - 7)
        return data

    assert through_proxy(lambda _, data: data)["checksum_errors"] == 0
    with pytest.raises(dm.errors.IoFailed, match=r"process 0.*array 0 .*damaged"):
        through_proxy(change)
    assert damaged
    with pytest.raises(dm.errors.IoFailed, match=r"process 0.*array 0 .*damaged"):
        through_proxy(lambda passed, data: flipped(data, len(data) - 7) if passed > 99 else data)


def test_a_grant_that_arrives_damaged_is_an_error():
    def change(passed, data):  # the first words say who it is
        return flipped(data, len(data) - 7) if passed else data

    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        Proxy(out.address, change, of_stream=False) as proxy,
        dm.stream.connect(proxy.address, token=out.token, local=False) as consumer,
    ):
        consumer._end.reason_milliseconds = 100  # the stream has none to tell
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        with (
            thread(lambda: send(out, range(40))),  # more than are granted at first
            pytest.raises(dm.PeerFailed, match=r"process 0.*closed the connection"),
        ):
            numbers(steps)
        assert out.counters()["consumers_lost"] == 1


def test_a_reason_that_was_told_is_not_waited_for_again():
    def sending(stream):
        control = stream.control()
        stream_words.confirm(control)
        control.sendall(said({"type": "failed", "code": "peer_failed", "words": "some reason"}))
        stream_words.heard(control, "bye")

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        consumer._end.reason_milliseconds = 10**9
        with pytest.raises(dm.PeerFailed, match="some reason"):
            numbers(consumer.steps({"u": LINE}, LIMIT_SECONDS))


def test_the_reason_of_a_connection_that_ends_is_waited_for():
    ended = threading.Event()

    def sending(stream):
        control = once_a_step_is_told(stream)
        stream_words.close(stream.data())
        ended.set()
        control.sendall(said({"type": "failed", "code": "timeout", "words": "some reason"}))
        stream_words.heard(control, "bye")

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
        pytest.raises(dm.Timeout, match="some reason"),
    ):
        numbers(consumer.steps({"u": LINE}, LIMIT_SECONDS))
    assert ended.is_set()


def test_a_consumer_gets_the_indices_of_its_layout(tmp_path):
    """The array begins elsewhere; a window of it, all of it and a recording begin where it does."""
    layout = dm.FloorPlan([dm.Region((4, -3), (10, 2))], [0])
    window = dm.FloorPlan([dm.Region((5, -1), (8, 2)), dm.Region((9, -3), (10, 1))], [0, 0])
    whole = np.arange(30).reshape(6, 5)
    with (
        dm.Stream(HERE, consumers=3, timeout=LIMIT_SECONDS) as out,
        dm.stream.connect(out.address, timeout=LIMIT_SECONDS) as some,
        dm.stream.connect(out.address, timeout=LIMIT_SECONDS) as all_of_it,
        thread(lambda: record(out.address, f"{tmp_path}/run", ["u"], 1, LIMIT_SECONDS)),
    ):
        steps, wholes = (
            some.steps({"u": window}, LIMIT_SECONDS),
            all_of_it.steps(None, LIMIT_SECONDS),
        )
        out.send("u", whole, layout=layout, step=7)
        out.end_step()
        _, arrays = next(steps)
        np.testing.assert_array_equal(arrays["u"][0], whole[1:4, 2:5])
        np.testing.assert_array_equal(arrays["u"][1], whole[5:6, :4])
        np.testing.assert_array_equal(next(wholes)[1]["u"], whole)
    np.testing.assert_array_equal(recorded(tmp_path / "run")["u"][7], whole)


def test_a_layout_that_does_not_fit_names_its_array():
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        dm.stream.connect(out.address) as consumer,
    ):
        steps = consumer.steps({"u": dm.BlockCyclic(7, "block", nprocs=1)}, LIMIT_SECONDS)
        out.send("u", of_step(0), layout=LINE, step=0)
        with pytest.raises(dm.Mismatch, match=r"array 'u': .* index \(6\) of the source"):
            next(steps)


def test_why_a_process_fails_is_said_before_its_program_sees_it():
    # A program that sees the error closes: said after that, the others would not hear the reason.
    raised, codes = threading.Event(), []

    def sending(stream):
        control = stream.control()
        stream_words.confirm(control)
        control.sendall(array_told(dm.BlockCyclic(5, "block", nprocs=1)))
        assert raised.wait(LIMIT_SECONDS)
        codes.append(stream_words.heard(control, "bye")["code"])

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address) as consumer,
    ):
        with pytest.raises(dm.Mismatch):
            next(consumer.steps({"u": LINE}, LIMIT_SECONDS))
        raised.set()
    assert codes == ["mismatch"]


@pytest.mark.parametrize("case", range(6))
def test_a_connection_that_is_cut_is_an_error_and_no_wrong_value(case):
    at = random.Random(f"{SEED} {case}").randrange(200, 240_000)

    def change(passed, data):
        return (
            data if passed + len(data) < at else data[: max(at - passed, 0)] if passed < at else b""
        )

    with pytest.raises((dm.PeerFailed, dm.errors.IoFailed)):
        through_proxy(change)


def test_who_listens_and_says_nothing_is_waited_for_no_longer_than_asked():
    before = _plan.set_greeting_milliseconds(10**9)
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(dm.Timeout):
            dm.stream.connect(f"tcp://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1)
    finally:
        _plan.set_greeting_milliseconds(before)


def test_a_stream_that_is_being_opened_is_waited_for():
    """Process 0 listens before the others have come; it greets whoever connects when all have."""
    before = _plan.set_greeting_milliseconds(1)
    try:
        with (
            dm.Stream(HERE, open=True) as out,
            socket.create_server(("127.0.0.1", 0)) as opening,
            thread(
                lambda: dm.stream.connect(
                    f"tcp://127.0.0.1:{opening.getsockname()[1]}", timeout=LIMIT_SECONDS
                ).close()
            ),
        ):
            here = opening.accept()[0]
            gave_up = select.select([here], [], [], 0.2)[0]
            _plan.set_greeting_milliseconds(10_000)
            assert not gave_up
            there = socket.create_connection(wire.parse_address(out.address))
            with here, there:
                ends = {here: there, there: here}
                while ends:
                    for end in select.select(list(ends), [], [])[0]:
                        data = end.recv(1 << 16)
                        if data:
                            ends[end].sendall(data)
                        else:
                            ends.clear()
                            break
    finally:
        _plan.set_greeting_milliseconds(before)


# Strangers.


def raw(out):
    """A connection on which nothing was said, and the stream's greeting with its token."""
    sock = socket.create_connection(wire.parse_address(out.address))
    return sock, {**stream_words.read_frame(sock), "token": out.token}


HOSTILE = 1000 if CASES == 1 else 5000 * CASES


@pytest.mark.timeout(120 * CASES)
def test_hostile_messages_do_no_harm():
    rng = random.Random(SEED)
    with (
        dm.Stream(HERE, consumers=1, queue_steps=100, policy="drop_oldest") as out,
        dm.stream.connect(out.address) as consumer,
    ):
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        assert numbers([next(steps)]) == [0]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for case in range(HOSTILE):
            earlier, message = hostile(rng, out._end.keys())
            sock, greeting = raw(out)
            with sock, contextlib.suppress(OSError):
                for words in earlier:
                    sock.sendall(words(greeting))
                sock.sendall(message(greeting))
                if rng.random() < 0.5:
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(1 << 16):
                        pass
            if case % 100 == 0:
                send(out, [case + 1])
                assert numbers([next(steps)]) == [case + 1]
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < 200 << 10
        send(out, [10**6])
        assert numbers([next(steps)]) == [10**6]
        assert out.counters()["connections_refused"] > 0.3 * HOSTILE


@pytest.mark.parametrize("policy", POLICIES)
def test_who_says_that_all_is_taken_and_takes_nothing_fills_no_memory(policy):
    with dm.Stream(HERE, policy=policy, consumers=1) as out:
        sock, greeting = raw(out)
        with sock:
            wanted = [["u", _plan.bytes_of_layout(LINE)]]
            for words in (
                hello(greeting),
                said({"type": "subscribe", "arrays": wanted}),
                said({"type": "credit", "steps": 1}),
            ):
                sock.sendall(words)
            frames = (stream_words.read_frame(sock) for _ in range(100))
            steps = (words for words in frames if words["type"] == "step")
            for step in range(50):
                send(out, [step])
                assert out.counters()["bytes_kept"] <= 4 * 48
                sock.sendall(said({"type": "done", "place": next(steps)["place"]}))


@contextlib.contextmanager
def saying_taken_by_data(out):
    """Be a consumer by hand, to which step 0 was sent; its control and data connections."""
    sock, greeting = raw(out)
    with sock:
        sock.sendall(hello(greeting))
        key = stream_words.read_frame(sock)["key"]
        wanted = [["u", _plan.bytes_of_layout(LINE)]]
        request = {"type": "subscribe", "arrays": wanted, "hears_by_messages": True}
        sock.sendall(said(request))
        sock.sendall(said({"type": "credit", "steps": 1}))
        send(out, [0])
        link, greeting = raw(out)
        with link:
            words = {"role": "data", "key": key, "rank": 0, "pathway": 0}
            link.sendall(stream_words.answer(greeting, **words))
            yield sock, link


def advanced(taken, granted=0):
    return stream_words.grant(taken, granted)


def test_who_says_over_data_that_all_is_taken_and_takes_nothing_fills_no_memory():
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        saying_taken_by_data(out) as (_, link),
    ):
        for step in range(1, 50):
            link.sendall(advanced(step))
            send(out, [step])
            assert out.counters()["bytes_kept"] <= 4 * 48
        assert out.counters()["consumers_lost"] == 0
        link.sendall(advanced(2**64 - 1))
        send(out, range(50, 60))  # who said that is waited for no more
        assert out.counters()["consumers_lost"] == 1
        assert out.counters()["bytes_kept"] == 0


@pytest.mark.parametrize("granted", [0, 100])
def test_a_consumer_that_ends_before_it_has_said_what_it_took_is_not_waited_for(granted):
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        saying_taken_by_data(out) as (control, link),
    ):
        link.sendall(advanced(0, granted))
        with thread(lambda: send(out, range(1, 20))):  # it cannot send them all before
            stream_words.close(link)
            stream_words.close(control)
        assert out.counters()["consumers_lost"] == 1


@pytest.mark.parametrize("says_it", [True, False])
def test_at_the_end_is_waited_for_what_was_taken(says_it):
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        saying_taken_by_data(out) as (control, link),
    ):
        send(out, [1])
        with thread(lambda: out.close(LIMIT_SECONDS if says_it else 0.1)):
            link.sendall(advanced(int(says_it), 2))
            link.sendall(advanced(2 * says_it, 2))
            end = stream_words.heard(control, "end")
        # The second step was on its way, where there were credits for it.
        assert end["steps"] == 1 + says_it
        assert end["dropped"] == int(not says_it)


def test_a_consumer_cannot_say_much():
    with dm.Stream(HERE) as out:
        sock, greeting = raw(out)
        with sock:
            sock.settimeout(LIMIT_SECONDS)
            wanted = [["u", _plan.bytes_of_layout(LINE)]]
            sock.sendall(hello(greeting) + said({"type": "subscribe", "arrays": wanted}))
            sock.sendall(stream_words.frame_header((1 << 22) + 1, 0))  # no byte of it comes
            while sock.recv(1 << 16):
                pass
        while not out.counters()["connections_refused"]:  # counted once the connection has ended
            os.sched_yield()
    assert out.counters()["connections_refused"] == 1


def test_who_asks_for_arrays_and_takes_no_answer_is_ended():
    with dm.Stream(HERE, consumers=1) as out:
        sock, greeting = raw(out)
        with sock, dm.stream.connect(out.address) as source:
            sock.settimeout(LIMIT_SECONDS)
            sock.sendall(hello(greeting))
            source.steps({"u": LINE})
            send(out, [0])
            out.end_step()
            asked = said({"type": "arrays"}) * 1000
            with pytest.raises(OSError):  # by then the system keeps no more answers
                for _ in range(10_000):
                    sock.sendall(asked)
        while not out.counters()["connections_refused"]:
            os.sched_yield()
        assert out.counters()["consumers_came"] == 1


def test_strangers_leave_files_to_the_program():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with dm.Stream(HERE, consumers=1) as out, contextlib.ExitStack() as stack:
        used = len(os.listdir("/proc/self/fd"))
        limit = 4 * used + 200
        # Their ends are in another process; here they would be in the way.
        strangers = stack.enter_context(
            program(
                """
                import contextlib, socket, sys
                host, port = sys.argv[1], int(sys.argv[2])
                sys.stdin.readline()
                kept = [socket.create_connection((host, port)) for _ in range(int(sys.argv[3]))]
                for sock in kept:
                    sock.recv(1 << 16)  # greeted
                ended = 0
                for sock in kept:
                    sock.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        ended += not sock.recv(1)
                print(ended, flush=True)
                sys.stdin.read()
                """,
                *map(str, wire.parse_address(out.address)),
                str(limit),
            )
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        strangers.stdin.write("begin\n")
        strangers.stdin.flush()
        assert int(strangers.stdout.readline()) > 0
        with contextlib.ExitStack() as files:
            for _ in range(used // 2):
                files.enter_context(open(os.devnull))
        strangers.communicate()
        consumer = stack.enter_context(dm.stream.connect(out.address))
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        assert next(steps)[0] == 0


def test_who_says_nothing_takes_no_place_from_others():
    with (
        dm.Stream(HERE, consumers=1) as out,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(50):
            stack.enter_context(raw(out)[0])
        consumer = stack.enter_context(dm.stream.connect(out.address))
        steps = consumer.steps({"u": LINE}, LIMIT_SECONDS)
        send(out, [0])
        assert next(steps)[0] == 0


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:1", "tcp://", "tcp://:1", "tcp://h", "tcp://h:x", "tcp://h:65536", 5,
                "tcp://h:" + "1" * 5000, "tcp://h\n:1", "tcp://\ud800:1", "tcp://[::1:5",
                "tcp://::1]:5"],
)  # fmt: skip
def test_wrong_addresses(address):
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Stream(address)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.stream.connect(address)


def test_a_consumer_needs_the_port_itself():
    with pytest.raises(dm.errors.InvalidArgument, match="choose its port"):
        dm.stream.connect("tcp://127.0.0.1:0")


def test_addresses_that_cannot_be_listened_at():
    with pytest.raises(dm.errors.InvalidArgument, match="interfaces"):
        dm.Stream("tcp://0.0.0.0:0")
    with pytest.raises(dm.errors.InvalidArgument, match="interfaces"):
        dm.Stream("tcp://0:0")  # the same, to the system
    for end in (lambda address: dm.Stream(address), dm.stream.connect):
        with pytest.raises(dm.errors.IoFailed):
            end(f"tcp://{'a' * 64}.b:1")
    with dm.Stream(HERE) as out, pytest.raises(dm.errors.IoFailed):
        dm.Stream(out.address)


def test_wrong_calls():
    with dm.Stream(HERE) as out:
        send(out, [2**63 - 1])
        wrong = [
            (dm.errors.InvalidArgument, {"step": None}),  # the one after the largest number
            (dm.errors.InvalidArgument, {"step": 2**63}),
            (dm.errors.InvalidArgument, {"step": -1}),
            (dm.errors.WrongType, {"step": 0.5}),
            (dm.errors.WrongType, {"step": 0, "layout": "block"}),
            (dm.Mismatch, {"step": 0, "layout": dm.BlockCyclic(7, "block", nprocs=1)}),
            (dm.Mismatch, {"step": 0, "layout": dm.BlockCyclic(6, "block", nprocs=2)}),
        ]
        for kind, said in wrong:
            with pytest.raises(kind):
                out.send("u", of_step(0), **said)
        for array in (np.zeros(7), np.zeros((6, 1)), {1: of_step(0)}, [of_step(0)] * 2):
            with pytest.raises(dm.Error):
                out.send("u", array, step=0)
        with pytest.raises(dm.errors.Unsupported, match="described to another program"):
            overlapping = {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}
            out.send("o", np.zeros(6, overlapping), layout=LINE, step=0)
        for name in ("", "a\nb", "x" * 257, "\ud800", 5):
            with pytest.raises((dm.errors.InvalidArgument, dm.errors.WrongType)):
                out.send(name, of_step(0), layout=LINE, step=0)
        with pytest.raises(dm.errors.WrongType):
            out.send("o", np.array([None] * 6), layout=LINE, step=0)
        with dm.stream.connect(out.address) as consumer:
            for targets in ({}, {"u": 3}, {5: LINE}, [LINE]):
                with pytest.raises(dm.errors.WrongType):
                    consumer.steps(targets)
            for name in ("", "a\nb", "x" * 257, "\ud800"):
                with pytest.raises(dm.errors.InvalidArgument, match="name"):
                    consumer.steps({name: LINE})
            with pytest.raises(dm.Mismatch):
                consumer.steps({"u": dm.BlockCyclic(6, "block", nprocs=2)})
    with pytest.raises(dm.errors.InvalidState):
        send(out, [0])


@pytest.mark.parametrize("ahead", [0, -1, 65, 2**63, 1.0, True, "2"])
def test_numbers_of_steps_ahead_that_make_no_sense(ahead):
    with dm.Stream(HERE) as out, pytest.raises(dm.errors.InvalidArgument, match=r"1 to 64 steps$"):
        dm.stream.connect(out.address, ahead=ahead)


def test_x_arrays_that_cannot_take_a_step_are_refused_before_it_comes():
    from mpi4py import MPI

    one, freed = (dm.Array(LINE, dtype="f8", comm=MPI.COMM_SELF) for _ in range(2))
    freed.close()
    with (
        dm.Stream(HERE, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        with pytest.raises(dm.errors.InvalidArgument, match="'u' and 'v' have the same Array"):
            source.steps({"u": one, "w": LINE, "v": one})
        with pytest.raises(dm.errors.InvalidState, match="closed"):
            source.steps({"u": freed})
        steps = source.steps({"u": one}, LIMIT_SECONDS)
        send(out, [3])
        assert next(steps) == (3, {"u": one})
        assert (one.local == of_step(3)).all()


def test_several_consumers_with_layouts_of_their_own():
    whole = np.arange(60.0).reshape(6, 10)
    grid = dm.BlockCyclic((6, 10), "(*, *)", nprocs=1)
    boxes = dm.FloorPlan([dm.Region((0, 0), (3, 10)), dm.Region((3, 4), (6, 10))], [0, 0])
    some = dm.IndexList((6, 10), [[7, 3, 59]])
    with dm.Stream(HERE, consumers=3) as out, contextlib.ExitStack() as stack:
        got = {}
        for layout in (grid, boxes, some):
            consumer = stack.enter_context(dm.stream.connect(out.address, ahead=5))
            got[layout] = consumer.steps({"u": layout}, LIMIT_SECONDS)
        # Negative strides, and blocks that lie apart.
        for step in range(3):
            flipped_ = np.ascontiguousarray((whole + step)[:, ::-1])[:, ::-1]
            out.send("u", flipped_, layout=grid, step=step)
        for step in range(3):
            arrays = {layout: next(steps)[1]["u"] for layout, steps in got.items()}
            np.testing.assert_array_equal(arrays[grid], whole + step)
            np.testing.assert_array_equal(arrays[boxes][0], whole[:3] + step)
            np.testing.assert_array_equal(arrays[boxes][1], whole[3:, 4:] + step)
            np.testing.assert_array_equal(arrays[some], np.array([7.0, 3, 59]) + step)


class FakeStream:
    """A listener that says to a consumer what it was told to, then closes."""

    def __init__(self, messages):
        self._messages = messages
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            sock = self._listener.accept()[0]
            with sock:
                sock.sendall(b"".join(self._messages))
                sock.shutdown(socket.SHUT_WR)
                while True:  # who comes for data gets none
                    self._listener.accept()[0].close()

    def close(self):
        stream_words.close(self._listener)
        self._thread.join(LIMIT_SECONDS)


def hostile_stream(rng):
    """What a stream that means harm says: each message right, or one of them odd."""
    odd = rng.choice([-1, 2**63, 2**70, 1.5, "x", None, [], {}, "u" * 1000, [["f", "O"]], "|O"])
    layout = _plan.bytes_of_layout(rng.choice([LINE, dm.BlockCyclic(7, "block", nprocs=1)]))
    words = [
        {"datamover_stream": stream_words.VERSION},
        {
            "type": "welcome",
            "key": "k",
            "pathways": 1,
            "producers": [["127.0.0.1", 1, ""]],
            "ahead": rng.choice([False, True]),
        },
        {
            "type": "array",
            "number": 0,
            "name": "u",
            "dtype": '"<f8"',
            "elem_bytes": 8,
            "layout": layout,
        },
        {"type": "step", "place": 0, "step": 0, "arrays": [0], "dropped": 0},
        {"type": rng.choice(["end", "failed"]), "dropped": 0, "code": "io", "words": "w"},
    ]
    wrong = rng.randrange(len(words))
    kind = rng.randrange(3)
    if kind == 0:
        words[wrong][rng.choice(list(words[wrong]))] = odd
    frames = [said(one) for one in words]
    if kind == 1:
        frames[wrong] = mutated(rng, frames[wrong])
    if kind == 2:
        del frames[wrong:]
    return frames


def test_a_hostile_stream_is_an_error_at_its_consumer():
    rng = random.Random(SEED)
    for _ in range(100 * CASES):
        fake = FakeStream(hostile_stream(rng))
        try:
            with dm.stream.connect(fake.address, timeout=5) as consumer:
                assert not list(consumer.steps({"u": LINE}, 20))
        except dm.Error:
            pass
        finally:
            fake.close()


@pytest.mark.parametrize("dtype", ["<M8[s/0]", [["a", "<f8"], ["b", [["c", "<m8[s/4294967296]"]]]]])
def test_a_dtype_by_which_numpy_divides_by_zero_is_an_error(dtype):
    layout = _plan.bytes_of_layout(LINE)
    words = [
        {"datamover_stream": stream_words.VERSION},
        {"type": "welcome", "key": "k", "pathways": 1, "ahead": True,
         "producers": [["127.0.0.1", 1, ""]]},
        {"type": "array", "number": 0, "name": "u", "dtype": json.dumps(dtype), "elem_bytes": 8,
         "layout": layout},
        {"type": "arrays"},
    ]  # fmt: skip
    fake = FakeStream([said(one) for one in words])
    with command("info", fake.address) as process:
        _, errors = process.communicate()
    fake.close()
    assert process.returncode == 1 and "cannot read a dtype" in errors, errors


@pytest.mark.parametrize(
    "text",
    ['""', '"f"', '"|O"', '"<x8"', '"<f-8"', '"<f8x"', "8", "null", "{}", "", "[", '[["a"]]',
     '[[1,"<i4"]]', '[["a","<i4",3]]', '[["a","<i4",[-1]]]', '[["a","|V65536"],["b","|V1"]]',
     '"|V65537"', '[["a","|V60000",[65536,65536]]]', '"<f99999999999999999999"', "[" * 100_000],
)  # fmt: skip
def test_a_dtype_that_is_none_is_refused(text):
    with pytest.raises(dm.errors.IoFailed, match="dtype"):
        wire.dtype_of_text(text)


@pytest.mark.parametrize(("dtype", "elem_bytes"), [("<f8", 4), ("<f8", 16), ("|V3", 2)])
def test_a_dtype_of_another_size_than_the_stream_says_is_an_error(dtype, elem_bytes):
    data = bytes(6 * elem_bytes)

    def sending(stream):
        control = stream.control()
        stream_words.confirm(control)
        control.sendall(
            said({"type": "array", "number": 0, "name": "u", "dtype": json.dumps(dtype),
                  "elem_bytes": elem_bytes, "layout": _plan.bytes_of_layout(LINE)})
            + STEP_TOLD
        )  # fmt: skip
        link = stream.data()
        words = _plan.crc32c(data), 0, 0, 0, len(data)
        link.sendall(stream_words.chunk_header(stream_words.CHUNK_MAGIC, *words) + data)
        stream_words.heard(control, "bye")

    with (
        stream_words.HandmadeStream(sending) as stream,
        dm.stream.connect(stream.address, local=False) as consumer,
        pytest.raises(dm.errors.IoFailed, match=f"elements of {elem_bytes} bytes"),
    ):
        next(consumer.steps({"u": LINE}, LIMIT_SECONDS))


def test_nobody_listens():
    with socket.socket() as unused:  # which others cannot take meanwhile
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(dm.Timeout):
            dm.stream.connect(f"tcp://127.0.0.1:{unused.getsockname()[1]}", timeout=0.1)


def test_somebody_else_listens():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            sock = other.accept()[0]
            with sock:
                sock.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        with thread(answer), pytest.raises(dm.errors.IoFailed):
            dm.stream.connect(f"tcp://127.0.0.1:{other.getsockname()[1]}")


# The command.


def command(*arguments, **said):
    return subprocess.Popen(
        [sys.executable, "-m", "datamover.cli", "stream", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **said,
    )


def is_running(process):
    """Let a process go on for a moment; tell whether it has not ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.01)
    return process.returncode is None


def recorded(path):
    """The steps of each array of a recording."""
    group = pytest.importorskip("zarr").open_group(path, mode="r")
    arrays = dict(group.arrays())
    steps = {
        name: arrays.pop(f"{name}.steps")[...] for name in [*arrays] if f"{name}.steps" in arrays
    }
    return {
        name: dict(zip(steps[name].tolist(), array[...], strict=True))
        for name, array in arrays.items()
    }


def expect_recorded(path, expected):
    found = recorded(path)
    assert found.keys() == expected.keys()
    for name, steps in expected.items():
        assert found[name].keys() == steps.keys()
        for step, value in steps.items():
            np.testing.assert_array_equal(found[name][step], of_step(value))


def test_what_was_recorded_is_said_in_words():
    assert str(Recorded(1, 1, 0)) == "1 step, 1 byte"
    assert str(Recorded(1000, 12288000, 2000)) == (
        "1,000 steps, 12,288,000 bytes, 2,000 dropped by the stream"
    )


def test_the_command_says_what_it_has_where_the_stream_breaks_off(tmp_path):
    grid = dm.BlockCyclic((2, 3), "(*, *)", nprocs=1)
    numbers = tmp_path / "run" / "u.steps" / "zarr.json"
    with contextlib.ExitStack() as stack:
        with (
            pytest.raises(KeyError),
            dm.Stream(HERE, timeout=LIMIT_SECONDS, consumers=1) as out,
        ):
            recorder = stack.enter_context(command("record", out.address, f"{tmp_path / 'run'}"))
            for step in (0, 1):
                out.send("u", np.zeros((2, 3)), layout=grid, step=step)
            while is_running(recorder):
                with contextlib.suppress(OSError, ValueError):
                    if json.loads(numbers.read_text())["shape"] == [2]:
                        break
            raise KeyError
        output, errors = recorder.communicate()
    assert recorder.returncode == 1
    assert output == ""
    assert "recorded until then: 2 steps, 96 bytes" in errors


def test_the_command_records(tmp_path):
    grid = dm.BlockCyclic((2, 3), "(*, *)", nprocs=1)
    with dm.Stream(HERE, timeout=LIMIT_SECONDS) as out:
        path = tmp_path / "run"
        with command("record", out.address, f"{path}", "--steps", 3) as recorder:
            step = 0
            while is_running(recorder):
                out.send("../u", np.full((2, 3), step, "i2"), layout=grid, step=2 * step)
                out.send("v", np.full((2, 3), -step, "f4"), layout=grid, step=2 * step)
                step += 1
            output, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    assert "3 steps, 108 bytes" in output
    assert {p.name for p in tmp_path.iterdir()} == {"run"}
    found = recorded(path)
    assert set(found) == {"%2E.%2Fu", "v"}
    assert len(found["v"]) == 3
    for number, array in found["v"].items():
        np.testing.assert_array_equal(array, np.full((2, 3), -number // 2, "f4"))


def test_arrays_that_are_sent_first_later_are_recorded(tmp_path):
    """The stream waits for the recorder with the first array; others come later."""
    path = tmp_path / "run"
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{path}") as recorder,
    ):
        for step in range(4):
            out.send("u", of_step(step), layout=LINE, step=step)
            out.send("v", of_step(10 + step), layout=LINE, step=step)
            if step >= 2:
                out.send("w", of_step(step).astype("f4"), layout=LINE, step=step)
        out.close()
        output, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    assert output.startswith("4 steps, ")
    expected = {"u": {s: s for s in range(4)}, "v": {s: 10 + s for s in range(4)}}
    expected["w"] = {2: 2, 3: 3}
    expect_recorded(path, expected)


def test_named_arrays_that_are_not_the_first_of_a_step_are_recorded(tmp_path):
    """The stream waits for the recorder with an array that is not wanted."""
    path = tmp_path / "run"
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command(
            "record", out.address, f"{path}", "--array", "w", "--array", "v", "--steps", 3
        ) as recorder,
    ):
        for step in range(4):
            out.send("u", of_step(step), layout=LINE, step=step)
            out.send("v", of_step(10 + step), layout=LINE, step=step)
            if step == 1:
                out.send("w", of_step(20), layout=LINE, step=step)
        out.close()
        output, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    assert output.startswith("3 steps, ")
    expect_recorded(path, {"v": {0: 10, 1: 11, 2: 12}, "w": {1: 20}})


@pytest.mark.parametrize("ends", [True, False])
def test_a_name_that_the_stream_does_not_send_is_an_error(tmp_path, ends):
    with dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out:
        said = ["--array", "U", *([] if ends else ["--timeout", 1])]
        with command("record", out.address, f"{tmp_path / 'run'}", *said) as recorder:
            step = 0
            while is_running(recorder) and not (ends and step == 3):
                out.send("u", of_step(step), layout=LINE, step=step)
                step += 1
            if ends:
                out.close()
            _, errors = recorder.communicate()
    assert recorder.returncode == 1 and "does not send ['U']; it sends ['u']" in errors
    assert not (tmp_path / "run").exists()


def test_all_arrays_come_whole_each_as_a_step(tmp_path):
    square = dm.BlockCyclic((2, 3), "(block, *)", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        dm.stream.connect(out.address, timeout=LIMIT_SECONDS) as source,
    ):
        steps = source.steps(timeout=LIMIT_SECONDS)
        for step in range(2):
            for k, name in enumerate("ab"[: step + 1]):
                out.send(name, np.full((2, 3), 10 * step + k, "i2"), layout=square, step=step)
        with thread(out.close):
            found = [(step, {n: a.tolist() for n, a in arrays.items()}) for step, arrays in steps]
    assert found == [
        (0, {"a": [[0] * 3] * 2}),
        (1, {"a": [[10] * 3] * 2}),
        (1, {"b": [[11] * 3] * 2}),
    ]


def few_bytes_in_a_file():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_recording_that_has_no_room_says_so_and_leaves_whole_steps(tmp_path):
    rng = np.random.default_rng(1)
    line = dm.BlockCyclic(1 << 16, "block", nprocs=1)
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command(
            "record", out.address, f"{tmp_path / 'run'}", preexec_fn=few_bytes_in_a_file
        ) as recorder,
    ):
        out.send("u", rng.integers(0, 256, 1 << 16, np.uint8), layout=line)
        _, errors = recorder.communicate()
    assert recorder.returncode == 1 and "20,000 bytes (ulimit -f)" in errors
    assert "Traceback" not in errors and str(tmp_path) in errors
    group = pytest.importorskip("zarr").open_group(tmp_path / "run", mode="r")
    assert group["u"].shape == (0, 1 << 16) and group["u.steps"].shape == (0,)


def test_ctrl_c_ends_a_recording_after_whole_steps(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    append, appended, told = zarr.Array.append, [], []

    def append_interrupted(array, elements):
        appended.append(array.name)
        if len(appended) == 7:  # an array of the second step, before its number
            signal.raise_signal(signal.SIGINT)
        append(array, elements)

    monkeypatch.setattr(zarr.Array, "append", append_interrupted)
    with dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out:

        def sending():
            for step in range(4):
                for name in ("u", "v"):
                    out.send(name, of_step(step), layout=LINE, step=step)

        with thread(sending), pytest.raises(KeyboardInterrupt):
            to = f"{tmp_path / 'run'}"
            record(out.address, to, [], None, LIMIT_SECONDS, told.append)
    group = zarr.open_group(tmp_path / "run", mode="r")
    numbers = [group[f"{name}.steps"][...].tolist() for name in ("u", "v")]
    assert numbers == [[0, 1], [0, 1]]
    for name in ("u", "v"):
        assert group[name][...].tolist() == [of_step(step).tolist() for step in (0, 1)]
    assert told[-1].steps == 2 and told[-1].bytes == 4 * 48


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("a", ">f8"), ("b", "i2")]),
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
        np.dtype([("a", "u1"), ("b", [("x", ">i4"), ("y", "f4")])]),
        np.dtype(">c8"),
        np.dtype("V5"),
    ],
    ids=str,
)
def test_records_are_recorded_with_their_values(tmp_path, dtype):
    sent = np.frombuffer(bytes(range(1, 61)) * dtype.itemsize, "u1")[: 12 * dtype.itemsize]
    sent = sent.view(dtype).reshape(2, 6)
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{tmp_path / 'run'}") as recorder,
    ):
        for step in range(2):
            out.send("u", sent[step], layout=LINE, step=step)
        out.close()
        _, errors = recorder.communicate()
    assert recorder.returncode == 0 and not errors
    found = pytest.importorskip("zarr").open_array(tmp_path / "run" / "u", mode="r")[...]
    assert found.tolist() == sent.tolist()


@pytest.mark.parametrize("dtype", [[("a", "f8", 3)], "M8", np.longdouble], ids=str)
def test_what_zarr_cannot_hold_is_not_recorded_in_it(tmp_path, dtype):
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{tmp_path / 'run'}") as recorder,
    ):
        out.send("u", np.zeros(6, dtype), layout=LINE)
        _, errors = recorder.communicate()
    assert recorder.returncode == 1 and len(errors.splitlines()) == 1
    assert "array 'u': Zarr cannot hold dtype" in errors
    assert not (tmp_path / "run").exists()


TERMINATED_RECORDER = """
    import signal, sys, zarr
    from datamover.stream.recorder import record
    append, appended = zarr.Array.append, []

    def append_terminated(array, elements):
        appended.append(array.name)
        if len(appended) == 4:  # the number of the second step
            signal.raise_signal(signal.SIGTERM)
        append(array, elements)

    zarr.Array.append = append_terminated
    record(sys.argv[1], sys.argv[2], [], None, 60)
"""


def test_a_recording_that_is_terminated_ends_after_a_whole_step(tmp_path):
    zarr = pytest.importorskip("zarr")
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        program(TERMINATED_RECORDER, out.address, f"{tmp_path / 'run'}") as recorder,
    ):
        send(out, range(4))
        assert recorder.wait() == -signal.SIGTERM
    group = zarr.open_group(tmp_path / "run", mode="r")
    assert group["u.steps"][...].tolist() == [0, 1]
    assert group["u"][...].tolist() == [of_step(step).tolist() for step in (0, 1)]


def test_arrays_that_have_one_name_in_zarr_are_refused(tmp_path):
    with dm.Stream(HERE, timeout=LIMIT_SECONDS) as out:
        names = [word for name in ("u", "u.steps") for word in ("--array", name)]
        with command("record", out.address, f"{tmp_path / 'run'}", *names) as recorder:
            step = 0
            while is_running(recorder):
                out.send("u", of_step(step), layout=LINE, step=step)
                out.send("u.steps", of_step(step), layout=LINE, step=step)
                step += 1
            _, errors = recorder.communicate()
    assert recorder.returncode == 1 and "'u.steps'" in errors and "Traceback" not in errors
    assert not (tmp_path / "run").exists()


def test_arrays_of_any_name_are_recorded(tmp_path):
    names = ["zarr.json", ".zgroup", "..", "a/b", "%2F", "c", "é ü", "x" * 200]
    path = tmp_path / "run"
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{path}") as recorder,
    ):
        for k, name in enumerate(names):
            out.send(name, of_step(k), layout=LINE, step=3)
        out.close()
        _, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    found = [steps[3].tolist() for steps in recorded(path).values()]
    assert sorted(found) == sorted(of_step(k).tolist() for k in range(len(names)))


def test_what_a_recording_cannot_be_called_is_said(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    long = "ä" * 100
    for place, name, words in [
        ("link", "u", f"{tmp_path / 'link'} already exists; pass the path of a new"),
        ("file/run", "u", ": Not a directory\n"),
        ("run", long, f"the array name '{long[:24]}'... needs a file name of 600 bytes; "),
    ]:
        with (
            dm.Stream(HERE, timeout=LIMIT_SECONDS) as out,
            command("record", out.address, f"{tmp_path / place}") as recorder,
        ):
            while is_running(recorder):
                out.send(name, np.zeros(6), layout=LINE)
            _, errors = recorder.communicate()
        assert recorder.returncode == 1 and words in errors and "Errno" not in errors
    assert not (tmp_path / "nowhere").exists() and (tmp_path / "file").read_bytes() == b""


def test_two_recordings_of_one_name_are_no_mixture(tmp_path):
    with (
        dm.Stream(HERE, consumers=2, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{tmp_path / 'run'}") as one,
        command("record", out.address, f"{tmp_path / 'run'}") as other,
    ):
        for step in range(2):
            out.send("u", of_step(step), layout=LINE, step=step)
        out.close()
        said = [recorder.communicate()[1] for recorder in (one, other)]
    assert sorted([one.returncode, other.returncode]) == [0, 1], said
    assert f"error: {tmp_path / 'run'} already exists; " in "".join(said)
    group = pytest.importorskip("zarr").open_group(tmp_path / "run", mode="r")
    assert group["u"][...].tolist() == [of_step(step).tolist() for step in range(2)]


def test_xarray_opens_what_is_recorded(tmp_path):
    xarray = pytest.importorskip("xarray")
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{tmp_path / 'run'}") as recorder,
    ):
        for step in (3, 10):
            out.send("u", of_step(step), layout=LINE, step=step)
        out.close()
        _, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    with xarray.open_zarr(tmp_path / "run", consolidated=False, chunks=None) as found:
        assert found["u"].dims == ("u.steps", "u_0")
        assert (found["u"].sel({"u.steps": 10}).values == of_step(10)).all()


def test_a_step_that_comes_again_is_recorded_again(tmp_path):
    with (
        dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out,
        command("record", out.address, f"{tmp_path / 'run'}") as recorder,
    ):
        for step in (0, 1, 0):
            out.send("u", of_step(step), layout=LINE, step=step)
        out.close()
        _, errors = recorder.communicate()
    assert recorder.returncode == 0, errors
    group = pytest.importorskip("zarr").open_group(tmp_path / "run", mode="r")
    assert group["u.steps"][...].tolist() == [0, 1, 0]
    assert group["u"][...].tolist() == [of_step(step).tolist() for step in (0, 1, 0)]


def test_a_forked_process_that_ends_leaves_the_stream_to_its_parent():
    code = f"""
        import os, sys, numpy as np, datamover as dm
        line = dm.BlockCyclic(6, "block", nprocs=1)
        with dm.Stream("{HERE}", timeout={LIMIT_SECONDS}) as out:
            child = os.fork()
            if child == 0:
                try:
                    out.send("u", np.zeros(6), layout=line)
                except dm.errors.InvalidState:
                    out.close()  # before anybody has come
                    sys.exit(0)  # leaves the block, and ends its copy of the stream
                os._exit(1)  # nobody would get it
            assert os.waitpid(child, 0)[1] == 0
            with dm.stream.connect(out.address, timeout={LIMIT_SECONDS}) as source:
                steps = source.steps({{"u": line}})
                out.send("u", np.full(6, 0), layout=line, step=0)
                assert next(steps)[0] == 0
                child = os.fork()
                if child == 0:
                    out.close()  # while somebody listens
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                out.send("u", np.full(6, 1), layout=line, step=1)
                assert next(steps)[0] == 1
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=LIMIT_SECONDS)


def test_the_command_tells_what_is_sent():
    with (
        dm.Stream(HERE, timeout=LIMIT_SECONDS) as out,
        command("info", out.address) as asking,
    ):
        step = 0
        while is_running(asking):
            send(out, [step])
            step += 1
        output, errors = asking.communicate()
    assert (asking.returncode, errors) == (0, "")
    assert output == "u: 6 float64, on 1 process\n"


@pytest.mark.parametrize("asked", ["info", "record"])
def test_the_command_says_on_a_terminal_what_it_waits_for(tmp_path, asked):
    terminal, its_end = pty.openpty()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        words = [sys.executable, "-m", "datamover.cli", "stream", asked, address]
        words += ["run"] if asked == "record" else []
        with subprocess.Popen(
            words, cwd=tmp_path, stderr=its_end, env=outer_environment() | {"TERM": "xterm"}
        ) as waits:
            os.close(its_end)
            said_so_far = b""
            try:
                while f"waiting for {address}".encode() not in said_so_far:
                    said_so_far += os.read(terminal, 1000)  # an error where it has ended
            finally:
                waits.kill()
    os.close(terminal)


@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "tcp://127.0.0.1:1", "x.npy"),
        ("record", "tcp://127.0.0.1:1", "/"),
        ("record", "no address", "x.zarr"),
        ("info", "no address"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(arguments):
    refused = CliRunner().invoke(cli.app, ["stream", *arguments, "--timeout", "0.1"])
    assert refused.exit_code == 1
    assert "error:" in refused.stderr and "no stream at" not in refused.stderr


@pytest.mark.parametrize("arguments", [("record",), ("record", "x"), ("info",), ("x",)])
def test_the_command_refuses_what_is_incomplete(arguments):
    assert CliRunner().invoke(cli.app, ["stream", *arguments]).exit_code == 2


def test_threads_of_one_stream_take_turns():
    # Their calls changed one another's maps: a program with two such threads ended by a signal.
    count, threads = 200, 4
    with dm.Stream(HERE, consumers=1) as out, dm.stream.connect(out.address) as source:
        steps = source.steps({"u": LINE})

        def sends(name):
            for k in range(count):
                out.send(name, of_step(k), layout=LINE)
                if k % 8 == 0:
                    out.end_step()
                    repr(out)

        names = ["u", *(f"other-{n}" for n in range(1, threads))]
        senders = [threading.Thread(target=sends, args=(name,)) for name in names]
        for sender in senders:
            sender.start()
        received = [next(steps)[1]["u"] for _ in range(count)]
        for sender in senders:
            sender.join(LIMIT_SECONDS)
        assert not any(sender.is_alive() for sender in senders)
    np.testing.assert_array_equal(received, [of_step(k) for k in range(count)])


def test_closing_ends_the_wait_of_another_thread():
    out = dm.Stream(HERE, consumers=1)
    raised = []
    began = threading.Event()

    def sends():
        began.set()
        try:
            out.send("u", of_step(0), layout=LINE)  # nobody comes
        except dm.Error as error:
            raised.append(error)

    sender = threading.Thread(target=sends)
    sender.start()
    began.wait(LIMIT_SECONDS)
    out.close()
    sender.join(LIMIT_SECONDS)
    assert not sender.is_alive()
    assert [type(error) for error in raised] == [dm.errors.InvalidState]
