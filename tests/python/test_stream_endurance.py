# SPDX-License-Identifier: BSD-3-Clause
"""Endurance of a stream: consumers connect, stall and die, and its memory does not grow.

The sending end and a consumer that gets everything are this process; the consumers that connect,
stall and are killed are others. DATAMOVER_TEST_CASES=20 extends it to ten minutes.
"""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import datamover as dm
from datamover.launch import outer_environment

CASES = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))
ROUNDS = 2 if CASES == 1 else 12 * CASES
LIMIT_SECONDS = 60
ELEMS = 1 << 15
LINE = dm.BlockCyclic(ELEMS, "block", nprocs=1)
POLICIES = ("block", "drop_oldest")
GROWTH_BYTES = 48 << 20

VISITOR = """
    import sys, datamover as dm
    kind, local = sys.argv[2], sys.argv[3] == "local"
    line = dm.BlockCyclic(1 << 15, "block", nprocs=1)
    with dm.stream.connect(sys.argv[1], local=local) as consumer:
        if kind == "silent":
            print("here", flush=True)
            sys.stdin.readline()
        for step, arrays in consumer.steps({"u": line}):
            assert (arrays["u"] == step).all()
            print("here", flush=True)
            if kind == "leaves":
                break
"""
#: Stopped and then killed; killed; leaves; connects, wants nothing, and is killed.
KINDS = ("stalls", "dies", "leaves", "silent")


def memory_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Sender:
    """A stream, and what was sent over it."""

    def __init__(self, out):
        self.out, self.sent, self._array = out, 0, np.zeros(ELEMS)

    def send(self):
        """Send the next step; tell whether there was room for it."""
        self._array[:] = self.sent
        try:
            self.out.send("u", self._array, layout=LINE, step=self.sent)
        except dm.Timeout:
            return False
        self.sent += 1
        return True

    def send_some(self, count):
        for _ in range(count):
            while not self.send():
                pass


class Steady:
    """A consumer in a thread, that gets every step that is not dropped for it."""

    def __init__(self, address):
        self.seen, self.dropped, self.failures = 0, 0, []
        self._consumer = dm.stream.connect(address)
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            last = -1
            with self._consumer as consumer:
                for step, arrays in consumer.steps({"u": LINE}):
                    assert (arrays["u"] == step).all()
                    # In order, and with what was dropped without gaps.
                    assert step > last
                    last = step
                    self.seen += 1
                self.dropped = consumer.dropped
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()


def visit(sender, kind, local):
    """Have a program come, and go in its way, while steps are sent."""
    before = sender.out.counters()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(VISITOR), sender.out.address, kind,
         "local" if local else ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=outer_environment(),
    ) as visitor:  # fmt: skip
        came = kind == "silent"
        while not came:
            sender.send_some(1)
            came = sender.out.counters()["consumers_came"] > before["consumers_came"]
        assert visitor.stdout.readline() == b"here\n"
        if kind == "stalls":
            visitor.send_signal(signal.SIGSTOP)
            # Until there is no room, or for so long that one that held things up would be noticed.
            for _ in range(20):
                if not sender.send():
                    break
        if kind != "leaves":
            visitor.kill()
        sender.send_some(3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(120 * CASES)
def test_consumers_come_stall_and_die(policy, capsys):
    first = POLICIES.index(policy)
    memory, files = [], []
    with contextlib.ExitStack() as stack:
        out = dm.Stream("tcp://127.0.0.1:0", policy=policy, consumers=1, timeout=0.2)
        with out:
            steady = stack.enter_context(Steady(out.address))
            sender = Sender(out)
            while not sender.send():
                pass
            for number in range(ROUNDS):
                visit(sender, KINDS[(number + first) % len(KINDS)], number // len(KINDS) % 2 == 0)
                memory.append(memory_bytes())
                files.append(len(os.listdir("/proc/self/fd")))
            # Those that have gone are noticed while it sends.
            while out.counters()["consumers"] > 1:
                sender.send_some(1)
            counters = out.counters()
            out.close(LIMIT_SECONDS)
    assert not steady.failures, steady.failures
    assert steady.seen + steady.dropped == sender.sent
    assert policy != "block" or steady.dropped == 0
    assert counters["consumers_came"] == 1 + sum(
        KINDS[(number + first) % len(KINDS)] != "silent" for number in range(ROUNDS)
    )
    early = memory[len(memory) // 4]
    assert max(memory[len(memory) // 2 :]) - early < GROWTH_BYTES
    assert max(files[len(files) // 2 :]) - max(files[: len(files) // 2]) < 64
    with capsys.disabled():
        if CASES > 1:
            print(
                f"\n{policy}: {ROUNDS} programs came, {sender.sent} steps, {steady.seen} seen, "
                f"{steady.dropped} dropped; memory {early >> 20} MiB after a quarter, "
                f"{memory[-1] >> 20} MiB at the end, {files[len(files) // 4]} and {files[-1]} files"
            )
