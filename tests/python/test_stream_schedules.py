# SPDX-License-Identifier: BSD-3-Clause
"""Streams under random schedules of kills, stops, partitions, and slow and hostile consumers.

Each case draws programs and events from DATAMOVER_TEST_SEED and its number, runs them, and checks
the histories that the processes have written (`stream_histories.py`). `make test-long` runs more
cases of another seed. The only sleeps are the random moments of events, and the time that programs
compute.
"""

import contextlib
import json
import os
import pickle
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import stream_histories
from stream_histories import SENDER, Event, Receiver, Schedule, Sender, end_of, of_kind
from stream_relay import Relay
from stream_strangers import hostile
from stream_words import read_frame

from datamover.launch import find_mpiexec, outer_environment

MORE = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))
SEED = int(os.environ.get("DATAMOVER_TEST_SEED", "0"))
CASES = 5 if MORE == 1 else 30 * MORE
PATIENCE_SECONDS = 120
SIZES = [12, 6_000, 786_432]  # elements of four bytes
PROGRAM = Path(__file__).with_name("stream_program.py")

pytestmark = pytest.mark.kills


def draw(seed, case):
    """The schedule of a case."""
    rng = random.Random(f"{seed} {case}")
    distributions = ["block", "cyclic"]
    arrays = {name: (rng.choice(SIZES), rng.choice(distributions)) for name in "uv"[: case % 2 + 1]}
    receivers = {}
    for number in range(rng.randint(1, 3)):
        processes = rng.choice([1, 1, 2])
        whole = processes == 1 and rng.random() < 0.25
        leaves = rng.random() < 0.25
        receivers[f"receiver-{number}"] = Receiver(
            processes=processes,
            wanted=dict.fromkeys(arrays, "block")
            if whole
            else {
                name: rng.choice(distributions)
                for name in (arrays if rng.random() < 0.7 else list(arrays)[-1:])
            },
            whole=whole,
            newest=rng.random() < 0.15,
            in_place=processes > 1 and rng.random() < 0.5,
            local=rng.random() < 0.5,
            ahead=rng.choice([None, None, 1, 5]),
            relayed=rng.random() < 0.5,
            delay=rng.choice([0, 0, rng.uniform(0, 2)]),
            pace=rng.choice([0, 0.001, 0.03]),
            leaves_after=rng.randint(1, 40) if leaves else None,
            leaver=rng.choice([None, *range(processes)]) if leaves else None,
        )
    processes = rng.randint(1, 3)
    events = [_event(rng, processes, receivers) for _ in range(rng.randint(1, 5))]
    harmed = {event.program for event in events if event.kind in stream_histories.HARMFUL}
    harmed |= {name for name, r in receivers.items() if r.leaves_after is not None}
    waited_for = sum(r.delay == 0 and name not in harmed for name, r in receivers.items())
    policy = rng.choice(["block", "drop_oldest"])
    close_seconds = PATIENCE_SECONDS / 2
    may_part = [
        name
        for name, receiver in receivers.items()
        if receiver.relayed and name not in harmed and (receiver.newest or policy != "block")
    ]
    if may_part and rng.random() < 0.5:
        events.append(Event("part", rng.choice(may_part), 0, "got", rng.uniform(0, 1)))
        close_seconds = 10.0
    sender = Sender(
        processes=processes,
        arrays=arrays,
        policy=policy,
        consumers=rng.randint(0, waited_for),
        queue_steps=rng.randint(1, 4),
        pathways=rng.randint(1, 3),
        timeout=rng.uniform(0.3, 2),
        close_seconds=close_seconds,
        local=rng.random() < 0.7,
        pace=rng.choice([0.001, 0.005, 0.02]),
        sparse=rng.choice([None, list(arrays)[-1]]) if len(arrays) > 1 else None,
        ends_steps=rng.random() < 0.3,
    )
    strangers = rng.choice([0, 0, 5, 30])
    return Schedule(sender, receivers, events, strangers, with_token=rng.random() < 0.5)


def _event(rng, senders, receivers):
    name = rng.choice(list(receivers))
    kinds = ["stop", "stop", "kill", "stop and kill"]
    kinds += ["hold", "hold", "cut", "damage"] * receivers[name].relayed
    kind, processes = rng.choice(kinds), receivers[name].processes
    stages = ["connected", "joined", "joined", "got"]
    # Before it is connected, a relay has nothing to damage.
    stage = rng.choice(stages if kind == "damage" else ["start", *stages])
    if kind in ("stop", "kill") and rng.random() < 0.2:
        name, stage, processes = SENDER, rng.choice(["open", "sent"]), senders
    seconds = rng.uniform(0, 2)
    return Event(kind, name, rng.randrange(processes), stage, rng.uniform(0, 1), seconds)


class Run:
    """The processes of a schedule, their histories, and what is done to them."""

    def __init__(self, schedule, place):
        self.schedule, self._place, self.deeds = schedule, place, []
        self._runtime = place / "runtime"
        self._runtime.mkdir(mode=stat.S_IRWXU)
        (place / "schedule").write_bytes(pickle.dumps(schedule))
        self._started, self._relays = {}, {}

    def program(self, name):
        return self.schedule.sender if name == SENDER else self.schedule.receivers[name]

    def start(self, name, *way):
        processes = self.program(name).processes
        command = [sys.executable, PROGRAM, self._place, name, *way]
        if processes > 1:
            mpiexec = os.environ.get("MPIEXEC") or find_mpiexec()
            command = [mpiexec, "-n", str(processes), *command]
        with open(self._place / f"{name}.out", "wb") as printed:
            self._started[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**outer_environment(), "XDG_RUNTIME_DIR": str(self._runtime)},
            )

    def history(self, name, rank):
        path = self._place / f"{name}-{rank}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def histories(self):
        return {
            (name, rank): self.history(name, rank)
            for name in (SENDER, *self.schedule.receivers)
            for rank in range(self.program(name).processes)
        }

    def has_ended(self, name, rank):
        return end_of(self.history(name, rank)) or name in self._dead()

    def _dead(self):
        # A copy: other threads start programs meanwhile.
        return {name for name, process in [*self._started.items()] if process.poll() is not None}

    def until(self, what, condition):
        """Wait for a condition; the processes' stacks are in their files if it does not come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                self._signal_all(signal.SIGUSR1)
                raise AssertionError(f"after {PATIENCE_SECONDS} s there is no {what}")
            time.sleep(0.02)
        return found

    def _signal_all(self, number):
        for name, process in self._started.items():
            for rank in range(self.program(name).processes):
                for entry in of_kind(self.history(name, rank), "start"):
                    # Unless it has ended, and another process may have its number.
                    with contextlib.suppress(OSError):
                        line = Path(f"/proc/{entry[2]}/cmdline").read_bytes()
                        if str(self._place).encode() in line:
                            os.kill(entry[2], number)
            if number == signal.SIGKILL and process.poll() is None:
                process.kill()

    def enter(self, name):
        """Start a receiving program, after its delay."""
        receiver = self.program(name)
        _, _, address, token = self._opened()
        if receiver.relayed:
            self._relays[name] = Relay(address)
            address = self._relays[name].address
        time.sleep(receiver.delay)
        self.start(name, address, token if receiver.relayed else "")

    def _opened(self):
        def find():
            assert not self.has_ended(SENDER, 0) or of_kind(self.history(SENDER, 0), "open")
            return of_kind(self.history(SENDER, 0), "open")

        return self.until("stream", find)[0]

    def act(self, event):
        """Carry out an event, unless its process has ended before."""
        name, rank = event.program, event.rank

        def reached():
            return name in self._started and (
                of_kind(self.history(name, rank), event.stage) or self.has_ended(name, rank)
            )

        self.until(f"{event.stage} of process {rank} of {name}", reached)
        time.sleep(event.wait)
        if self.has_ended(name, rank):
            return
        if event.kind in ("hold", "part", "cut", "damage"):
            self._disturb(self._relays[name], event)
            return
        pid = of_kind(self.history(name, rank), "start")[0][2]
        with contextlib.suppress(ProcessLookupError):
            if "stop" in event.kind:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(event.seconds)
            if "kill" in event.kind:
                self.deeds.append((time.monotonic(), event.kind, name, rank))
            os.kill(pid, signal.SIGKILL if "kill" in event.kind else signal.SIGCONT)

    def _disturb(self, relay, event):
        done = time.monotonic()
        if event.kind in ("cut", "part"):
            getattr(relay, event.kind)()
        elif event.kind == "hold":
            relay.hold()
            time.sleep(event.seconds)
            relay.release()
            return
        else:
            relay.damage()
            self.until(
                "data that is damaged",
                lambda: relay.damaged_at or self.has_ended(event.program, event.rank),
            )
            if relay.damaged_at is None:
                return
            done = relay.damaged_at
        self.deeds.append((done, event.kind, event.program, event.rank))

    def disturb_by_strangers(self):
        """Connect as programs that send anything, or stall."""
        rng = random.Random(str(self.schedule))
        _, _, address, token = self._opened()
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        with contextlib.ExitStack() as stalled:
            for _ in range(self.schedule.strangers):
                with contextlib.suppress(OSError):
                    sock = socket.create_connection((host, int(port)))
                    stalled.callback(sock.close)
                    greeting = read_frame(sock)
                    greeting["token"] = token if self.schedule.with_token else "x" * len(token)
                    earlier, message = hostile(rng, [])
                    for words in (*earlier, message):
                        sock.sendall(words(greeting))
                    if rng.random() < 0.5:
                        sock.close()
                time.sleep(rng.uniform(0, 0.1))

    def run(self):
        """Run everything until all processes have ended."""
        try:
            self.start(SENDER)
            works = [(self.enter, name) for name in self.schedule.receivers]
            works += [(self.act, event) for event in self.schedule.events]
            works += [(self.disturb_by_strangers,)] * (self.schedule.strangers > 0)
            with ThreadPoolExecutor(len(works)) as pool:
                for done in [pool.submit(*work) for work in works]:
                    done.result()
            self._await_progress()
            (self._place / "stop").touch()
            self.until("end of the sender", lambda: SENDER in self._dead())
            for relay in self._relays.values():
                relay.join()
            self.until("end of all programs", lambda: len(self._dead()) == len(self._started))
        finally:
            self._signal_all(signal.SIGCONT)
            self._signal_all(signal.SIGKILL)
            for process in self._started.values():
                process.wait()
            for relay in self._relays.values():
                relay.cut()
            for history in self.histories().values():
                for _, _, _, files in of_kind(history, "start"):
                    for file in files:
                        Path(file).unlink(missing_ok=True)

    def _await_progress(self):
        """Wait until each process has ended, or goes on after all that was done."""
        begin = time.monotonic()
        harmed = {deed[2] for deed in self.deeds}
        parted = {deed[2] for deed in self.deeds if deed[1] == "part"}
        for name in self.schedule.receivers.keys() - parted:
            killed = {deed[3] for deed in self.deeds if deed[2] == name and "kill" in deed[1]}
            for rank in set(range(self.program(name).processes)) - killed:
                self.until(
                    f"progress of process {rank} of {name}",
                    lambda name=name, rank=rank: (
                        self.has_ended(name, rank)
                        or (not harmed & {SENDER, name} and self._got_after(name, rank, begin))
                    ),
                )

    def _got_after(self, name, rank, begin):
        got = of_kind(self.history(name, rank), "got")
        return got and got[-1][0] > begin


@pytest.mark.timeout(5 * PATIENCE_SECONDS)
@pytest.mark.parametrize("case", range(CASES))
def test_histories_of_a_schedule(tmp_path, case):
    schedule = draw(SEED, case)
    print(schedule)
    run = Run(schedule, tmp_path)
    run.run()
    print(run.deeds)
    found = stream_histories.violations(schedule, run.histories(), run.deeds)
    assert not found, "\n".join(found)
    killed = any(deed[2] == SENDER for deed in run.deeds)
    assert killed or list((tmp_path / "runtime").iterdir()) == []
    assert not [name for name in os.listdir("/dev/shm") if "datamover" in name]
