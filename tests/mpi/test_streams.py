# SPDX-License-Identifier: BSD-3-Clause
"""Streams: arrays arrive at another program's processes as in NumPy, for any layouts.

Some processes of the run are the sending program, the others the receiving one, each with its own
communicator. On one process, the receiving program is a thread without MPI.
"""

import contextlib
import os
import socket
import threading
import time

import drawn
import numpy as np
import pytest
from interrupter import AlarmError, alarm_in_a_call

import datamover as dm

LIMIT_SECONDS = 60
HERE = "tcp://127.0.0.1:0"


class Ends:
    """The two programs that a run is split into."""

    def __init__(self, comm, senders):
        self.comm = comm
        self.senders = senders if comm.size > 1 else 1
        self.receivers = max(comm.size - self.senders, 1)
        self.sends = comm.rank < self.senders
        self.part = comm.Split(int(self.sends), comm.rank)

    def run(self, send, receive, newest=False, local=True, **options):
        """Run send(stream) on some processes, receive(consumer) on the others."""
        failures = []

        def receiving(address, comm):
            try:
                with dm.stream.connect(
                    address, timeout=LIMIT_SECONDS, newest=newest, local=local, comm=comm
                ) as consumer:
                    receive(consumer)
            except BaseException as error:
                failures.append(error)

        if not self.sends:
            receiving(self.comm.bcast(None, 0), self.part)
        else:
            options = {"timeout": LIMIT_SECONDS, **options}
            threads = []
            try:
                with dm.Stream(HERE, consumers=1, comm=self.part, **options) as out:
                    self.comm.bcast(out.address, 0)
                    if self.comm.size == 1:
                        threads.append(threading.Thread(target=receiving, args=(out.address, None)))
                        threads[0].start()
                    send(out)
            finally:
                for thread in threads:
                    thread.join()
        if failures:
            raise failures[0]


@pytest.fixture
def ends(comm, rng):
    return Ends(comm, int(rng.integers(1, max(comm.size, 2))))


def of_step(whole, step):
    """What an array holds in a step."""
    return np.roll(whole.ravel(), step).reshape(whole.shape)


def assert_is_part(arrays, layout, rank, whole):
    """What came with a layout is this process's part of the array."""
    indices = list(drawn.indices_of_blocks(layout, rank))
    if len(indices) == 1:
        arrays = {indices[0][0]: arrays}
    if not indices:
        assert isinstance(arrays, np.ndarray) and arrays.size == 0
    for block, index in indices:
        np.testing.assert_array_equal(arrays[block], whole[index])


@pytest.mark.parametrize("ends_step", [True, False])
def test_arrays_are_asked_for_before_they_are_wanted(comm, ends_step):
    shape = (12, 6)
    whole = drawn.numbered(shape, np.dtype("i8"))
    for senders in range(1, max(comm.size, 2)):
        ends = Ends(comm, senders)
        sent = dm.BlockCyclic(shape, "(block, *)", nprocs=ends.senders)
        wanted = dm.BlockCyclic(shape, "(*, block)", nprocs=ends.receivers)
        indices = dict(drawn.indices_of_blocks(sent, ends.part.rank)) if ends.sends else {}

        def send(out, sent=sent, indices=indices):
            for step in range(3):
                blocks = {b: of_step(whole, step)[index] for b, index in indices.items()}
                out.send("u", blocks, layout=sent, step=step)
                if ends_step:
                    out.end_step()

        def receive(consumer, ends=ends, sent=sent, wanted=wanted):
            rank = 0 if comm.size == 1 else ends.part.rank
            known = consumer.arrays(LIMIT_SECONDS)
            assert set(known) == {"u"}
            assert known["u"].layout == sent and known["u"].dtype == whole.dtype
            seen = 0
            for step, arrays in consumer.steps({"u": wanted}, timeout=LIMIT_SECONDS):
                assert step == seen
                assert_is_part(arrays["u"], wanted, rank, of_step(whole, step))
                seen += 1
            assert seen == 3

        ends.run(send, receive)


def test_a_consumer_gets_the_step_that_is_sent_once_it_has_joined(comm):
    whole = np.arange(12.0)
    ends = Ends(comm, max(comm.size - 2, 1))
    receives = comm.size == 1 or not ends.sends
    sent = dm.BlockCyclic(12, "block", nprocs=ends.senders)
    wanted = dm.BlockCyclic(12, "block", nprocs=ends.receivers)
    with contextlib.ExitStack() as stack:
        if ends.sends:
            out = stack.enter_context(dm.Stream(HERE, timeout=LIMIT_SECONDS, comm=ends.part))
            index = dict(drawn.indices_of_blocks(sent, ends.part.rank))
        address = comm.bcast(out.address if ends.sends else None, 0)
        for step in range(10):
            if receives:
                group = None if comm.size == 1 else ends.part
                source = dm.stream.connect(address, timeout=LIMIT_SECONDS, comm=group)
                steps = source.steps({"u": wanted}, LIMIT_SECONDS)
            comm.Barrier()
            if ends.sends:
                blocks = {block: whole[at] + step for block, at in index.items()}
                out.send("u", blocks, layout=sent, step=step)
            if receives:
                number, arrays = next(steps)
                assert number == step
                assert_is_part(arrays["u"], wanted, ends.part.rank, whole + step)
                source.close()


def test_one_process_gets_all_arrays_whole_whoever_sends_them(comm):
    shape = (12, 6)
    whole = drawn.numbered(shape, np.dtype("i8"))
    ends = Ends(comm, max(comm.size - 1, 1))
    layouts = {
        "u": dm.BlockCyclic(shape, "(block, *)", nprocs=ends.senders),
        "v": dm.BlockCyclic(shape, "(*, cyclic)", nprocs=ends.senders),
    }

    def send(out):
        for step in range(3):
            for name, sent in list(layouts.items())[: step + 1]:
                indices = drawn.indices_of_blocks(sent, ends.part.rank)
                blocks = {b: of_step(whole, step)[index] for b, index in indices}
                out.send(name, blocks, layout=sent, step=step)

    def receive(consumer):
        seen = []
        for step, arrays in consumer.steps(timeout=LIMIT_SECONDS):
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, of_step(whole, step))
                seen.append((step, name))
        assert seen == [(0, "u"), (1, "u"), (1, "v"), (2, "u"), (2, "v")]

    ends.run(send, receive)


def test_several_processes_cannot_get_all_arrays_whole(comm):
    if comm.size < 3:
        pytest.skip("takes two processes that receive")
    ends = Ends(comm, 1)

    def receive(consumer):
        with pytest.raises(dm.errors.InvalidArgument):
            consumer.steps()
        wanted = dm.BlockCyclic(6, "block", nprocs=ends.receivers)
        assert [step for step, _ in consumer.steps({"u": wanted}, LIMIT_SECONDS)] == [7]

    sent = dm.BlockCyclic(6, "block", nprocs=1)
    ends.run(lambda out: out.send("u", np.arange(6), layout=sent, step=7), receive)


def test_who_is_connected_to_the_first_sender_late_loses_nothing(comm, rng):
    """Until then it says over its control connection what it has taken."""
    shape = (12, 6)
    whole = drawn.numbered(shape, np.dtype("i8"))
    has_v = [False] * 5 + [bool(n) for n in rng.integers(0, 2, 60)] + [True]
    for senders in range(1, max(comm.size, 2)):
        ends = Ends(comm, senders)
        box = [dm.Region((0, 0), shape)]
        sent = {
            "u": dm.FloorPlan(box, [ends.senders - 1], nprocs=ends.senders),
            "v": dm.FloorPlan(box, [0], nprocs=ends.senders),
        }
        wanted = dm.BlockCyclic(shape, "(block, *)", nprocs=ends.receivers)

        def send(out, ends=ends, sent=sent):
            for step, v in enumerate(has_v):
                for name in ["u", "v"] if v else ["u"]:
                    holds = sent[name].blocks_of(ends.part.rank)
                    blocks = {b: of_step(whole, step).copy() for b in holds}
                    out.send(name, blocks, layout=sent[name], step=step)

        def receive(consumer, ends=ends, wanted=wanted):
            rank = 0 if comm.size == 1 else ends.part.rank
            seen = []
            for step, arrays in consumer.steps({"u": wanted, "v": wanted}, LIMIT_SECONDS):
                assert set(arrays) == ({"u", "v"} if has_v[step] else {"u"})
                for array in arrays.values():
                    assert_is_part(array, wanted, rank, of_step(whole, step))
                seen.append(step)
            assert seen == list(range(len(has_v)))

        ends.run(send, receive, queue_steps=1)


def test_random_layouts(comm, rng, cases):
    local_rng = np.random.default_rng(comm.rank)
    for _ in range(4 * cases):
        ends = Ends(comm, int(rng.integers(1, max(comm.size, 2))))
        shape = drawn.shape(rng)
        wholes = {
            name: drawn.numbered(shape, drawn.DTYPES[rng.integers(len(drawn.DTYPES))])
            for name in ("u", "v")
        }
        sent = {name: drawn.layout(rng, shape, ends.senders) for name in wholes}
        wanted = {name: drawn.layout(rng, shape, ends.receivers) for name in wholes}
        steps = [int(s) for s in rng.integers(0, 1000, 3)]
        in_place = bool(rng.integers(0, 2)) and comm.size > 1
        seed = int(rng.integers(1 << 30))
        drawing = np.random.default_rng(seed)

        def send(out, ends=ends, wholes=wholes, sent=sent, steps=steps, drawing=drawing):
            parts = {
                name: drawn.Part(ends.part, drawing, local_rng, sent[name], wholes[name].dtype)
                for name in wholes
            }
            for step in steps:
                for name, part in parts.items():
                    part.fill(of_step(wholes[name], step))
                    out.send(name, part.arrays, step=step, layout=sent[name])
                    part.fill(np.zeros_like(wholes[name]))

        def receive(consumer, ends=ends, wholes=wholes, wanted=wanted, steps=steps,
                    drawing=drawing, in_place=in_place):  # fmt: skip
            rank = 0 if comm.size == 1 else ends.part.rank
            parts = (
                {
                    n: drawn.Part(ends.part, drawing, local_rng, wanted[n], w.dtype, library=True)
                    for n, w in wholes.items()
                }
                if in_place
                else {}
            )
            targets = {n: parts[n].arrays if in_place else wanted[n] for n in wholes}
            seen = []
            for step, arrays in consumer.steps(targets, timeout=LIMIT_SECONDS):
                seen.append(step)
                assert set(arrays) == set(wholes)
                for name, whole in wholes.items():
                    if in_place:
                        parts[name].assert_holds(of_step(whole, step))
                    else:
                        assert_is_part(arrays[name], wanted[name], rank, of_step(whole, step))
            assert seen == steps
            assert consumer.counters()["checksum_errors"] == 0

        ends.run(send, receive, pathways=int(rng.integers(1, 4)))


@contextlib.contextmanager
def a_way_for_the_first_to(address):
    """Give an address that leads to a stream, which leaves others once they have said who they are.

    So does a stream that ends meanwhile.
    """
    host, port = address.removeprefix("tcp://").split(":")
    opened = [socket.create_server(("127.0.0.1", 0))]

    def pass_on(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def run():
        with contextlib.suppress(OSError):
            while True:
                here, there = opened[0].accept()[0], socket.create_connection((host, int(port)))
                is_first = len(opened) == 1
                opened.extend([here, there])
                if is_first:
                    for ends in ((here, there), (there, here)):
                        threading.Thread(target=pass_on, args=ends, daemon=True).start()
                    continue
                here.sendall(there.recv(1 << 16))
                here.recv(1 << 16)
                here.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=run, daemon=True).start()
    yield f"tcp://127.0.0.1:{opened[0].getsockname()[1]}"
    for sock in opened:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()


def test_a_stream_that_ends_while_processes_connect_is_an_error_on_all(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    with contextlib.ExitStack() as stack:
        address = None
        if comm.rank == 0:
            out = stack.enter_context(dm.Stream(HERE, open=True))
            address = stack.enter_context(a_way_for_the_first_to(out.address))
        address = comm.bcast(address, 0)
        with pytest.raises(dm.PeerFailed, match="has ended, or accepts no more processes"):
            dm.stream.connect(address, timeout=LIMIT_SECONDS, comm=comm)
        comm.Barrier()


def test_processes_that_mean_different_policies_are_told(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    policy = "drop_oldest" if comm.rank == comm.size - 1 else "block"
    words = f'policy="block" on process 0, policy="drop_oldest" on process {comm.size - 1}'
    with pytest.raises(dm.Mismatch, match=words):
        dm.Stream("tcp://127.0.0.1:0", policy=policy, comm=comm)
    dm.Stream("tcp://127.0.0.1:0", policy="block", comm=comm).close()


def test_a_consumer_of_the_newest_step_gets_the_last_one(ends, rng):
    shape = (40, 31)
    whole = drawn.numbered(shape, np.dtype("f4"))
    sent = drawn.layout(rng, shape, ends.senders)
    wanted = drawn.layout(rng, shape, ends.receivers)
    parts = []
    if ends.sends:
        local_rng = np.random.default_rng(ends.comm.rank)
        drawing = np.random.default_rng(int(rng.integers(1 << 30)))
        parts = [drawn.Part(ends.part, drawing, local_rng, sent, whole.dtype)]

    def send(out):
        for step in range(40):
            parts[0].fill(of_step(whole, step))
            out.send("u", parts[0].arrays, step=step, layout=sent)

    def receive(consumer):
        rank = 0 if ends.comm.size == 1 else ends.part.rank
        seen = []
        for step, arrays in consumer.steps({"u": wanted}, timeout=LIMIT_SECONDS):
            assert_is_part(arrays["u"], wanted, rank, of_step(whole, step))
            seen.append(step)
        assert seen == sorted(set(seen)) and seen[-1] == 39
        assert len(seen) + consumer.dropped == 40

    ends.run(send, receive, newest=True, policy=str(rng.choice(["block", "drop_oldest"])))


@pytest.mark.parametrize("local", [True, False])
def test_long_messages_of_different_lengths(comm, local):
    """A step has one for each receiving process, each longer than the one before."""
    ends = Ends(comm, 1)
    ends_of_parts = np.cumsum([20_000 * (n + 1) ** 3 for n in range(ends.receivers)])
    begins_of_parts = [0, *ends_of_parts[:-1]]
    sent = dm.BlockCyclic(int(ends_of_parts[-1]), "block", nprocs=1)
    parts = zip(begins_of_parts, ends_of_parts, strict=True)
    wanted = dm.FloorPlan(
        [dm.Region(int(lo), int(hi)) for lo, hi in parts], range(ends.receivers), ends.receivers
    )
    whole = np.arange(float(ends_of_parts[-1]))

    def receive(consumer):
        rank = 0 if comm.size == 1 else ends.part.rank
        seen = []
        for step, arrays in consumer.steps({"u": wanted}, timeout=LIMIT_SECONDS):
            assert_is_part(arrays["u"], wanted, rank, whole + step)
            seen.append(step)
        assert seen == list(range(5)) and consumer.counters()["checksum_errors"] == 0

    def send(out):
        for step in range(5):
            out.send("u", whole + step, layout=sent, step=step)

    ends.run(send, receive, local=local)


def test_large_messages_over_several_pathways(ends):
    shape = (257, 1031)
    whole = drawn.numbered(shape, "f8")
    rows = dm.BlockCyclic(shape, "(cyclic(3), *)", nprocs=ends.senders)
    columns = dm.BlockCyclic(shape, "(*, cyclic(7))", nprocs=ends.receivers)
    rank = ends.part.rank

    def send(out):
        mine = whole[np.ix_(*rows.global_indices(rank))]
        for step in range(4):
            out.send("u", mine + step, layout=rows, step=step)

    def receive(consumer):
        index = np.ix_(*columns.global_indices(rank if ends.comm.size > 1 else 0))
        for step, arrays in consumer.steps({"u": columns}, timeout=LIMIT_SECONDS):
            np.testing.assert_array_equal(arrays["u"], whole[index] + step)
        assert consumer.counters()["connections"] == 3 * ends.senders

    ends.run(send, receive, pathways=3, local=False)


def test_error_on_one_sending_process_is_an_error_on_all(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    last = ends.part.rank == ends.part.size - 1

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        out.send("u", mine, layout=line, step=0)
        with pytest.raises(dm.Mismatch):
            out.send("u", np.zeros(99) if last else mine, step=1)
        with pytest.raises(dm.errors.WrongType):
            out.send("u", mine.astype("f4") if last else mine, step=1)
        with pytest.raises(dm.errors.InvalidArgument):
            out.send("u", mine, step=-1 if last else 1)
        out.send("u", mine, step=2)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        assert [step for step, _ in consumer.steps({"u": parts}, LIMIT_SECONDS)] == [0, 2]

    ends.run(send, receive)


@pytest.mark.parametrize("queue_steps", [1, 64])
@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
def test_a_wrong_call_of_one_sending_process_changes_nothing_of_the_stream(
    comm, policy, queue_steps
):
    """Whichever process it is: steps go on where they were, each comes once, nothing else does."""
    ends, rounds = Ends(comm, max(comm.size - 1, 1)), 6
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    whole = np.arange(64.0)

    def send(out):
        count = line.local_shape(ends.part.rank)[0]
        first = ends.part.rank * -(-64 // ends.senders)
        mine = whole[first : first + count]

        def refused(error, name, array, step):
            """One process makes this call, the others a right one; all raise the same."""
            wrong, right = (name, array, step), ("u", mine, last + 1)
            name, array, step = wrong if ends.part.rank == last % ends.part.size else right
            with pytest.raises(error) as raised:
                out.send(name, array, step=step, layout=line)
            assert len(set(ends.part.allgather(str(raised.value)))) == 1

        for last in range(rounds):
            out.send("u", mine + last, step=last, layout=line)
            refused(dm.errors.WrongType, "u", mine.astype("f4"), last + 1)
            refused(dm.Mismatch, "u", np.zeros(count + 1), last + 1)
            refused(dm.errors.InvalidArgument, "u", mine, last)
            # The step goes on where it was.
            out.send("v", mine - last, step=last, layout=line)
            refused(dm.errors.InvalidArgument, "u", mine, -1)
            refused(dm.errors.InvalidArgument, "", mine, last + 1)
            refused(dm.errors.WrongType, 7, mine, last + 1)
            if ends.part.size > 1:
                for name, step in (("u", last + 7), ("v", last + 1), ("another", last + 1)):
                    with pytest.raises(dm.Mismatch):
                        is_other = ends.part.rank == last % ends.part.size
                        out.send(
                            name if is_other else "u",
                            mine,
                            layout=line,
                            step=step if is_other else last + 1,
                        )
        out.close(LIMIT_SECONDS)
        if ends.part.rank == 0:
            assert out.counters()["consumers_lost"] == 0

    def receive(consumer):
        wanted = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        came = []
        for step, arrays in consumer.steps({"u": wanted, "v": wanted}, LIMIT_SECONDS):
            np.testing.assert_array_equal(arrays["u"], whole + step)
            np.testing.assert_array_equal(arrays["v"], whole - step)
            came.append(step)
        assert came == sorted(set(came))
        assert len(came) + consumer.dropped == rounds
        if policy == "block" or queue_steps > rounds:
            assert consumer.dropped == 0

    ends.run(send, receive, policy=policy, queue_steps=queue_steps)


def test_an_exception_in_one_sending_program_ends_the_stream_on_all(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    last = ends.part.rank == ends.part.size - 1

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        out.send("u", mine, layout=line, step=0)
        if last:
            raise ZeroDivisionError("of the program's own")
        out.send("u", mine, step=1)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        with pytest.raises(dm.PeerFailed):
            list(consumer.steps({"u": parts}, LIMIT_SECONDS))

    expected = ZeroDivisionError if last else dm.errors.InvalidArgument
    with pytest.raises(expected) if ends.sends else contextlib.nullcontext():
        ends.run(send, receive)


def test_different_calls_of_sending_processes_are_refused(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        first = ends.part.rank == 0
        out.send("u", mine, layout=line, step=0)
        if ends.part.size > 1:
            with pytest.raises(dm.Mismatch):
                out.send("u", mine, step=1 if first else 2)
            with pytest.raises(dm.Mismatch):
                out.send("u" if first else "other", mine, step=1, layout=line)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        with contextlib.suppress(dm.PeerFailed):
            assert next(consumer.steps({"u": parts}, LIMIT_SECONDS))[0] == 0

    ends.run(send, receive)


@pytest.mark.parametrize("call", ["the first send", "another send", "end_step"])
def test_a_process_that_closes_while_others_call_something_else_ends_the_stream_on_all(comm, call):
    line = dm.BlockCyclic(64, "block", nprocs=comm.size)
    mine = np.zeros(line.local_shape(comm.rank))
    part = comm.Dup()
    out = dm.Stream(HERE, comm=part)
    if call != "the first send":
        out.send("u", mine, layout=line)
    closes = comm.rank == comm.size - 1
    with pytest.raises(dm.Mismatch) if comm.size > 1 else contextlib.nullcontext():
        if closes:
            out.close()
        elif call == "end_step":
            out.end_step()
        else:
            out.send("u", mine, layout=line)
    if not closes:
        out.close()  # waits for nobody
    with pytest.raises(dm.errors.InvalidState):
        out.end_step()
    part.Free()


@pytest.mark.parametrize("others", ["close", "the first send", "another send", "end_step"])
def test_a_process_that_closes_wrongly_leaves_the_stream_open_on_all(comm, others):
    """Whatever the others call, they raise the same; nothing that was sent is lost."""
    ends = Ends(comm, max(comm.size - 1, 1))
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    wrong = ends.part.rank == ends.part.size - 1

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))

        def call():
            if others == "close":
                out.close()
            elif others == "end_step":
                out.end_step()
            else:
                out.send("v" if others == "the first send" else "u", mine, layout=line)

        out.send("u", mine, layout=line)
        for how in ({"timeout": 0.0}, {"timeout": "soon"}, {"when": 1}):
            with pytest.raises((dm.errors.InvalidArgument, dm.errors.WrongType)) as raised:
                out.close(**how) if wrong else call()
            assert len(set(ends.part.allgather(str(raised.value)))) == 1
        out.send("u", mine + 1)
        out.close(LIMIT_SECONDS)
        with pytest.raises(dm.errors.InvalidState):
            out.send("u", mine)

    def receive(consumer):
        wanted = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        steps = consumer.steps({"u": wanted}, LIMIT_SECONDS)
        came = [(step, arrays["u"].tolist()) for step, arrays in steps]
        count = wanted.local_shape(ends.part.rank if comm.size > 1 else 0)[0]
        assert came == [(step, [float(step)] * count) for step in (0, 1)]

    ends.run(send, receive)


def test_who_caught_the_error_of_a_process_that_left_waits_for_it_no_more(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, leaves = np.zeros(8), comm.rank == comm.size - 1
    own = comm.Dup()
    out = dm.Stream(HERE, comm=own)
    out.send("u", mine, layout=line)
    if leaves:
        with pytest.raises(ZeroDivisionError), out:
            raise ZeroDivisionError("of the program's own")
    else:
        with pytest.raises(dm.errors.InvalidArgument):
            out.send("u", mine)
        for call in (lambda: out.send("u", mine), out.end_step):
            with pytest.raises(dm.errors.InvalidState):
                call()
        out.close()
    own.Free()


def test_arrays_of_a_communicator_with_other_ranks_are_refused_at_their_own_end(comm):
    line = dm.BlockCyclic(4 * comm.size, "block", nprocs=comm.size)
    turned = dm.Array(line, dtype="i4", comm=comm.Split(0, -comm.rank))
    sent, received = (dm.Array(line, dtype="i4", comm=comm) for _ in range(2))
    sent.local[...] = comm.rank
    with dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS, comm=comm) as out:
        address = comm.bcast(out.address, 0)
        with dm.stream.connect(address, timeout=LIMIT_SECONDS, comm=comm) as source:
            if comm.size > 1:
                with pytest.raises(dm.Mismatch, match="communicator in which it is process"):
                    source.steps({"u": turned})
            steps = source.steps({"u": received}, LIMIT_SECONDS)
            if comm.size > 1:
                with pytest.raises(dm.Mismatch, match="communicator in which it is process"):
                    out.send("u", turned, step=0)
            out.send("u", sent, step=1)
            assert next(steps)[0] == 1
            assert (received.local == comm.rank).all()
            comm.Barrier()


def test_an_array_of_another_shape_is_refused_at_the_receiving_end_alone(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        for step in range(3):
            out.send("u", mine, layout=line, step=step)
        if ends.part.rank == 0:
            assert out.counters()["consumers_lost"] == 1

    def receive(consumer):
        other = dm.BlockCyclic(65, "block", nprocs=ends.receivers)
        with pytest.raises(dm.Mismatch):
            next(consumer.steps({"u": other}, LIMIT_SECONDS))

    ends.run(send, receive)


def test_names_that_the_stream_never_had_are_an_error_when_it_has_ended(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    def send(out):
        for name in ("velocity", "temperature"):
            out.send(name, np.zeros(line.local_shape(ends.part.rank)), layout=line, step=0)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        steps = consumer.steps({"temp": parts, "v": parts}, LIMIT_SECONDS)
        for _ in range(2):
            with pytest.raises(dm.Mismatch, match="'velocity', 'temperature'"):
                next(steps)

    ends.run(send, receive)


def test_a_name_of_several_that_the_stream_never_had_is_none(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    def send(out):
        out.send("u", np.zeros(line.local_shape(ends.part.rank)), layout=line, step=0)
        out.end_step()

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        steps = consumer.steps({"u": parts, "v": parts}, LIMIT_SECONDS)
        assert [sorted(arrays) for _, arrays in steps] == [["u"]]

    ends.run(send, receive)


def test_an_element_that_nobody_sends_is_an_error_on_all_receiving_processes(ends):
    # The second element is in nobody's box, and only the first process wants it.
    boxes = dm.FloorPlan([dm.Region(0, 1), dm.Region(2, 64)], [0, 0], nprocs=ends.senders)

    def send(out):
        mine = {b: np.zeros(boxes.region(b).shape) for b in boxes.blocks_of(ends.part.rank)}
        out.send("u", mine, layout=boxes, step=0)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        with pytest.raises(dm.Mismatch):  # for those who have their parts, instead of a next step
            list(consumer.steps({"u": parts}, LIMIT_SECONDS))

    ends.run(send, receive)


def test_a_process_that_leaves_ends_its_program_only(ends):
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        for step in range(20):
            out.send("u", mine, layout=line, step=step)

    def receive(consumer):
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        steps = consumer.steps({"u": parts}, LIMIT_SECONDS)
        assert next(steps)[0] == 0
        if ends.comm.size == 1:
            return
        ends.part.Barrier()  # all have the first step
        if ends.part.rank < ends.part.size - 1:
            with pytest.raises(dm.PeerFailed):
                list(steps)

    ends.run(send, receive, queue_steps=1)


class Converged(Exception):
    """A reason of the program's own to leave its loop."""


def leave_by_close(consumer):
    consumer.close()


def leave_by_exception(consumer):
    with contextlib.suppress(Converged), consumer:
        raise Converged("enough")


def leave_by_dropping(consumer):
    consumer._finalizer()  # as the end of the program and the garbage collector do


@pytest.mark.parametrize("leave", [leave_by_close, leave_by_exception, leave_by_dropping])
@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
@pytest.mark.parametrize("wanted", ["(block)", "all on the first"])
def test_a_process_that_leaves_takes_no_step_from_the_others(ends, rng, leave, policy, wanted):
    """One leaves after a step that the others have not got yet; they fail where they want more."""
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    if wanted == "(block)":  # messages say all; else each step is announced, since some get none
        parts = dm.BlockCyclic(64, wanted, nprocs=ends.receivers)
    else:
        parts = dm.FloorPlan([dm.Region(0, 64)], [0], nprocs=ends.receivers)
    leaver = int(rng.integers(ends.receivers))
    behind = int(rng.integers(1, 3))  # steps, of those that were granted
    several = ends.comm.size > 1 and ends.receivers > 1

    def send(out):
        mine = np.zeros(line.local_shape(ends.part.rank))
        for step in range(6 if policy == "block" else 40):
            out.send("u", mine + step, layout=line, step=step)
        if several:
            ends.comm.Barrier()  # all have got what they wanted: no later step tells them
        if ends.part.rank == 0:
            while out.counters()["consumers"]:
                pass
            counters = out.counters()
            orderly = leave is not leave_by_exception
            assert counters["consumers_came"] == 1
            assert counters["consumers_left" if orderly else "consumers_lost"] == 1

    def receive(consumer):
        steps = consumer.steps({"u": parts}, LIMIT_SECONDS)

        def take(count):
            return [number for number, _ in (next(steps) for _ in range(count))]

        if not several:
            take(4)
            leave(consumer)
            return
        rank = ends.part.rank
        seen = take(4 if rank == leaver else 4 - behind)
        if rank == leaver:
            leave(consumer)
        numbers = ends.part.bcast(seen, leaver)
        if rank != leaver:
            seen += take(behind)
            assert seen == numbers
            if (rank - leaver) % 2 == 1:  # the others are content with these steps, too
                with pytest.raises(dm.PeerFailed, match=f"process {leaver} of the consumer"):
                    while True:
                        next(steps)
        ends.comm.Barrier()

    ends.run(send, receive, policy=policy, queue_steps=2)


@pytest.mark.parametrize("how", ["all close", "all fail"])
def test_sending_processes_leave_one_after_the_other(ends, how):
    """Each closes, or raises its own error, after the one before it in the order of ranks."""
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
    rank = ends.part.rank
    raised = []

    def send(out):
        mine = np.zeros(line.local_shape(rank))
        for step in range(3):
            out.send("u", mine + step, layout=line, step=step)
        ends.comm.Barrier()  # the consumer has all of them
        if rank > 0:
            ends.part.recv(source=rank - 1)
        if rank + 1 < ends.part.size:
            ends.part.send(None, rank + 1)
        if how == "all fail":
            raise Converged(f"process {rank}")

    def receive(consumer):
        steps = consumer.steps(
            {"u": dm.BlockCyclic(64, "block", nprocs=ends.receivers)}, LIMIT_SECONDS
        )
        assert [next(steps)[0] for _ in range(3)] == [0, 1, 2]
        if ends.comm.size > 1:
            ends.comm.Barrier()
        if how == "all close":
            assert list(steps) == []
        else:
            with pytest.raises(dm.PeerFailed):
                next(steps)

    if ends.comm.size == 1:
        pytest.skip("takes several processes")
    try:
        ends.run(send, receive)
    except Converged as error:
        raised.append(str(error))
    fails = ends.sends and how == "all fail"
    assert raised == ([f"process {rank}"] if fails else [])


def test_two_programs_send_to_each_other_in_every_step(comm):
    """As in docs/streams.md: both open, connect and want arrays before they send the first step."""
    if comm.size == 1:
        pytest.skip("takes two programs")
    sends_first = comm.rank < comm.size // 2
    part = comm.Split(int(sends_first), comm.rank)
    line = dm.BlockCyclic(64, "cyclic", nprocs=part.size)
    with dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS, comm=part) as out:
        addresses = comm.bcast(out.address, 0), comm.bcast(out.address, comm.size // 2)
        with dm.stream.connect(addresses[int(sends_first)], comm=part) as source:
            steps = source.steps({"u": line}, LIMIT_SECONDS)
            u = np.zeros(line.local_shape(part.rank))
            for step in range(20):
                if sends_first:
                    out.send("u", u, layout=line, step=step)
                got = next(steps)[1]["u"]
                u = got + 1
                if not sends_first:
                    out.send("u", u, layout=line, step=step)
    assert (u == (40 if sends_first else 39)).all()


@pytest.mark.parametrize("local", [True, False])
def test_what_is_kept_for_a_consumer_that_left_goes_back_without_another_call(comm, local):
    for senders in range(1, max(comm.size, 2)):
        ends = Ends(comm, senders)
        line = dm.BlockCyclic(1 << 20, "block", nprocs=ends.senders)
        parts = dm.BlockCyclic(1 << 20, "block", nprocs=ends.receivers)
        all_is_sent = comm.Barrier if comm.size > 1 else threading.Barrier(2).wait

        def send(out, ends=ends, line=line, all_is_sent=all_is_sent):
            mine = np.zeros(line.local_shape(ends.part.rank))
            for step in range(3):
                out.send("u", mine, layout=line, step=step)
            assert out.counters()["bytes_held"] > 0
            all_is_sent()
            deadline = time.monotonic() + LIMIT_SECONDS
            while out.counters()["bytes_held"] > 0:
                assert time.monotonic() < deadline

        def receive(consumer, parts=parts, all_is_sent=all_is_sent):
            assert next(consumer.steps({"u": parts}, LIMIT_SECONDS))[0] == 0
            all_is_sent()

        ends.run(send, receive, queue_steps=3, local=local)


def test_processes_that_want_different_things_are_told(comm):
    ends = Ends(comm, 1)
    line = dm.BlockCyclic(64, "block", nprocs=ends.senders)

    if ends.receivers == 1:
        pytest.skip("takes several processes that receive")

    def send(out):
        comm.Barrier()  # they have connected and were refused, and nobody comes any more
        with pytest.raises(dm.Timeout):
            out.send("u", np.zeros(line.local_shape(ends.part.rank)), layout=line)

    def receive(consumer):
        kind = "cyclic" if ends.part.rank == ends.part.size - 1 else "block"
        with pytest.raises(dm.Mismatch):
            consumer.steps({"u": dm.BlockCyclic(64, kind, nprocs=ends.receivers)})
        comm.Barrier()

    ends.run(send, receive, timeout=0.5)


def free_address():
    """An address that no other process takes meanwhile, because its host is this process's own."""
    host = "127." + ".".join(map(str, (1 + os.getpid()).to_bytes(3, "big")))
    with socket.socket() as sock:
        sock.bind((host, 0))
        return f"tcp://{host}:{sock.getsockname()[1]}"


@pytest.mark.parametrize("receives", [True, False])
@pytest.mark.parametrize("waits_in", ["connect", "arrays", "next", "send", "close"])
def test_messages_of_the_program_go_on_while_it_waits(comm, waits_in, receives):
    """A peer that stays in a call of MPI of its own comes only when MPI goes on here, too."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    ends = Ends(comm, comm.size // 2)
    address = comm.bcast(free_address(), 0)
    large = np.full(1_000_000, float(comm.rank))
    partner = comm.rank + ends.senders if ends.sends else comm.rank - ends.senders
    waits = ends.sends == (waits_in in ("send", "close"))
    is_paired = partner < 2 * ends.senders if ends.sends else partner < ends.senders
    request = None
    if is_paired and waits:
        request = (comm.Irecv if receives else comm.Isend)(large, partner)

    def exchange_first():
        if is_paired and not waits:
            (comm.Send if receives else comm.Recv)(large, partner)

    def send():
        line = dm.BlockCyclic(64, "block", nprocs=ends.senders)
        mine = np.zeros(line.local_shape(ends.part.rank))
        if waits_in == "connect":
            exchange_first()
        with dm.Stream(address, consumers=1, timeout=LIMIT_SECONDS, comm=ends.part) as out:
            if waits_in in ("arrays", "next"):
                exchange_first()
            for step in range(2):
                out.send("u", mine, layout=line, step=step)
        assert ends.part.rank > 0 or out.counters()["steps_dropped"] == 0

    def receive():
        parts = dm.BlockCyclic(64, "block", nprocs=ends.receivers)
        if waits_in == "send":
            exchange_first()
        with dm.stream.connect(address, timeout=LIMIT_SECONDS, comm=ends.part) as consumer:
            if waits_in == "arrays":
                assert set(consumer.arrays(LIMIT_SECONDS)) == {"u"}
            steps = consumer.steps({"u": parts}, LIMIT_SECONDS)
            if waits_in == "close":
                exchange_first()
            assert [step for step, _ in steps] == [0, 1]

    (send if ends.sends else receive)()
    if request is not None:
        request.Wait()
    if is_paired and waits == receives:
        assert (large == partner).all()


def test_an_interrupted_process_is_an_error_on_all(comm):
    line = dm.BlockCyclic(64, "block", nprocs=comm.size)
    mine = np.zeros(line.local_shape(comm.rank))
    own = comm.Dup()  # it may be no good afterwards
    out = dm.Stream(HERE, consumers=1, comm=own)  # which never comes
    first = comm.rank == 0
    with (
        pytest.raises(AlarmError if first else dm.PeerFailed),
        out,
        alarm_in_a_call() if first else contextlib.nullcontext(),
    ):
        out.send("u", mine, layout=line)
    own.Free()


def test_wrong_arguments_on_one_process_are_errors_on_all(comm):
    last = comm.rank == comm.size - 1
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Stream("udp://127.0.0.1:1" if last else HERE, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Stream(HERE, policy="forget" if last else "block", comm=comm)
    with pytest.raises(dm.errors.WrongType):
        dm.Stream(HERE, queue_steps=None if last else 1, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.Stream(HERE, pathways=0 if last else 1, comm=comm)


def test_a_call_that_one_process_makes_wrongly_ends_the_block_on_all(comm):
    """All know of the error where it is raised: nobody waits to tell it to those that left."""
    line = dm.BlockCyclic(8 * comm.size, "block", nprocs=comm.size)
    mine, last = np.zeros(8), comm.rank == comm.size - 1
    own = comm.Dup()
    with pytest.raises(dm.errors.WrongType), dm.Stream(HERE, comm=own) as out:
        out.send("u", mine, layout=line, **({"when": 1} if last else {}))
    with pytest.raises(dm.errors.WrongType), dm.Stream(HERE, comm=own) as out:
        out.send("u", mine, layout=line)
        out.end_step(*(["now"] if last else []))
    if comm.size > 1:
        with pytest.raises(dm.Mismatch), dm.Stream(HERE, comm=own) as out:
            out.send("u", mine, layout=line, step=0)
            if last:
                out.end_step()
            else:
                out.send("u", mine, step=1)
    dm.Migration([0] * 3, comm=own)  # nobody is out of step
    comm.barrier()
    own.Free()


def test_lists_that_no_process_holds_whole_are_refused_on_all(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    (mine,) = dm.advanced.index_lists(comm.size, [comm.rank], comm=comm)
    with dm.Stream(HERE, comm=comm) as out, pytest.raises(dm.errors.Unsupported):
        out.send("u", np.zeros(1), layout=mine)


def test_steps_that_several_processes_drop(comm):
    """What comes is whole, and with what was dropped it is all, however they keep step."""
    ends, steps = Ends(comm, comm.size - 1), 60
    tiles, rows = "(cyclic(8), cyclic(8))", "(block, *)"

    def send(out):
        u = dm.Array(dm.BlockCyclic((64, 48), tiles, ends.part.size), "f4", comm=ends.part)
        for step in range(steps):
            u.local[...] = step
            out.send("u", u, step=step)

    def receive(consumer):
        came = []
        wanted = dm.BlockCyclic((64, 48), rows, ends.receivers)
        for step, arrays in consumer.steps({"u": wanted}):
            assert (arrays["u"] == step).all()
            came.append(step)
        assert came == sorted(set(came))
        assert len(came) + consumer.dropped == steps

    ends.run(send, receive, policy="drop_oldest", queue_steps=2)
