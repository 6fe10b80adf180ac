# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of streams against hand-written sockets. `datamover bench stream`.

Source: Network I/O for a distributed-memory machine, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench import stream_contenders
from datamover.bench.benchmark import Benchmark, Case
from datamover.bench.chart import Panel
from datamover.bench.contest import Contest
from datamover.bench.programs import Line
from datamover.errors import InvalidArgument
from datamover.stream.wire import crc32c

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
#: Waiting processes yield, because there may be more of them than cores.
GIVE_WAY = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}


def parse(name: str) -> Case:
    """Return the case of MESSAGE-BLOCK: bytes of a message, and of the blocks in it.

    Examples
    --------
    >>> from datamover.bench.stream import parse
    >>> parse("64K-128")
    Case(name='64K-128', words=(65536, 128))
    """
    found = re.fullmatch(r"([1-9]\d*)([KM]?)-([1-9]\d*)", name, re.ASCII)
    message, block = (int(found[1]) * UNITS[found[2]], int(found[3])) if found else (0, 8)
    # A message of at least two blocks has something to gather.
    if block % 8 or message % block or message < 2 * block:
        raise InvalidArgument(
            f"{name!r} is not a case: pass MESSAGE-BLOCK, such as 64K-128, for a message of at "
            "least two blocks, each a multiple of 8 bytes"
        )
    return Case(name, (message, block))


CASES = tuple(
    parse(f"{message}-{block}")
    for message in ("4K", "64K", "1M", "8M")
    for block in (128, 1024, 8192)
    if (message, block) != ("4K", 8192)
)


def panels(rows: list[Line]) -> list[Panel]:
    """Return speeds by message with the smallest blocks, and by block with the largest messages."""
    smallest = min(row["block_bytes"] for row in rows)
    largest = max(row["message_bytes"] for row in rows)
    by_message = [row for row in rows if row["block_bytes"] == smallest]
    by_block = [row for row in rows if row["message_bytes"] == largest]
    return [
        Panel(f"blocks of {smallest} bytes", by_message, "message_bytes"),
        Panel(f"messages of {largest >> 10} KiB", by_block, "block_bytes"),
    ]


FIELDS = 16
#: The system's request for an interface's address; the beginning of the loopback's.
SIOCGIFADDR, LOOPBACK, LOOPBACK_ADDRESS = 0x8915, 127, "127.0.0.1"
#: Bytes of the steps of a turn, within limits.
TURN_BYTES = 64 << 20
TURN_STEPS = (6, 100)
PAUSE_SECONDS = 1e-4
#: The token of both ends, if they are on different machines.
TOKEN = "known to both ends of a benchmark"
#: Ratio of computing to the time of sending a step, and the number of steps.
COMPUTES, COMPUTED_STEPS = 1.5, 12


def own_address(world: Any) -> str:
    """Return the loopback address if all processes reach it, or one of this machine's own."""
    network = socket.gethostname() + os.readlink("/proc/self/ns/net")
    if len(set(world.allgather(network))) == 1:
        return LOOPBACK_ADDRESS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = name.encode().ljust(40, b"\0")
            with contextlib.suppress(OSError):  # an interface without an address
                found = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)
                if found[20] != LOOPBACK:
                    return socket.inet_ntoa(found[20:24])
    raise dm.errors.IoFailed("this machine has no address that others reach")


class Ends:
    """The two programs of one case, and this process's part of the array.

    Attributes
    ----------
    pieces : dict
        For each process of the other end that shares rows with this one: the rows, counted here.
    array : ndarray
        At a sending process, the other end's view of it, (rows, fields, block). At a receiving one,
        the destination.
    """

    def __init__(self, world: Any, senders: int, message_bytes: int, block_bytes: int):
        self.world, self.senders = world, senders
        self.receivers = world.size - senders
        self.sends = world.rank < senders
        self.part = world.Split(int(self.sends), world.rank)
        fields = min(FIELDS, message_bytes // block_bytes)
        rows = message_bytes // (fields * block_bytes) * max(senders, self.receivers)
        self.shape = (rows, fields, block_bytes // 8)
        counts = (senders, self.receivers)
        self.layouts = [dm.BlockCyclic(self.shape, "(block, *, *)", nprocs=n) for n in counts]
        begin, end = self._rows(self.part.rank, counts[not self.sends])
        others = counts[self.sends]
        self.pieces = {
            other: slice(max(first, begin) - begin, min(last, end) - begin)
            for other in range(others)
            for first, last in (self._rows(other, others),)
            if max(first, begin) < min(last, end)
        }
        of_row = fields * self.shape[2]
        values = np.arange(begin * of_row, end * of_row, dtype="f8").reshape(-1, *self.shape[1:])
        if self.sends:
            by_field = np.ascontiguousarray(values.transpose(1, 0, 2))
            self.array, self.expected = by_field.transpose(1, 0, 2), np.empty((0, 0, 0))
        else:
            self.x_array = dm.Array(self.layouts[1], dtype="f8", comm=self.part)
            self.array, self.expected = self.x_array.local, values
        self.nbytes = int(np.prod(self.shape)) * 8
        self.address = own_address(world)

    def _rows(self, rank: int, nprocs: int) -> tuple[int, int]:
        each = -(-self.shape[0] // nprocs)
        return min(rank * each, self.shape[0]), min((rank + 1) * each, self.shape[0])

    def stamp(self, step: int) -> None:
        """Write the number of the step at the begin of each piece."""
        for rows in self.pieces.values():
            self.array[rows.start, 0, 0] = step

    def is_stamped(self, array: np.ndarray, step: int) -> bool:
        """Return whether all received pieces are of this step."""
        return all(array[rows.start, 0, 0] == step for rows in self.pieces.values())

    def is_right(self, array: np.ndarray, step: int) -> bool:
        """Return whether every element is correct."""
        for rows in self.pieces.values():
            self.expected[rows.start, 0, 0] = step
        return bool((array == self.expected).all())

    def clear(self) -> bool:
        """Spoil the array of a receiving process, and return True."""
        if not self.sends:
            self.array[...] = -1
        return True

    def wait_for_all(self) -> None:
        """Meet, leaving the cores to processes that still work."""
        request = self.world.Ibarrier()
        while not request.Test():
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Free the array and the communicator."""
        if not self.sends:
            self.x_array.close()
        self.part.Free()


class Datamover:
    """The library's stream, into new arrays, or one that is written in every step."""

    def __init__(self, ends: Ends, into_one: bool = False, **options: Any):
        self._ends = ends
        address = None
        if ends.sends:
            here = f"tcp://{ends.address}:0"
            self._end: Any = dm.Stream(here, consumers=1, token=TOKEN, comm=ends.part, **options)
            address = self._end.address
        address = ends.world.bcast(address)
        if not ends.sends:
            options.pop("pathways", None)
            self._end = dm.stream.connect(address, token=TOKEN, comm=ends.part, **options)
            self._steps = self._end.steps({"u": ends.x_array if into_one else ends.layouts[1]})

    def send(self, step: int) -> None:
        """Send a step."""
        self._end.send("u", self._ends.array, step=step, layout=self._ends.layouts[0])

    def receive(self) -> np.ndarray:
        """Receive a step; return its array."""
        array = next(self._steps)[1]["u"]
        return array.local if isinstance(array, dm.Array) else array

    def close(self) -> None:
        """End the connection."""
        if not self._ends.sends:
            list(self._steps)
        self._end.close()


class Memcpy:
    """A copy of a receiving process's data within its memory: the bound.

    With a checksum at each end, `checked`, it is the bound for shared memory.
    """

    def __init__(self, ends: Ends, checked: bool = False):
        self._ends, self._step = ends, 0
        self._parts = list(ends.pieces.values()) if checked else []
        self._values = np.ascontiguousarray(ends.array) if ends.sends else ends.expected.copy()

    def send(self, step: int) -> None:
        """Compute the checksums of a sending process's data, if any."""
        for rows in self._parts:
            crc32c(self._values[rows])

    def receive(self) -> np.ndarray:
        """Copy, and compute the checksums of the copy, if any."""
        for rows in self._ends.pieces.values():
            self._values[rows.start, 0, 0] = self._step
        np.copyto(self._ends.array, self._values)
        self._step += 1
        for rows in self._parts:
            crc32c(self._ends.array[rows])
        return self._ends.array

    def close(self) -> None:
        """Do nothing."""


def contenders(ends: Ends) -> Iterator[tuple[str, Any]]:
    """Yield the name of each contender and a function that opens it, or the reason why not."""
    yield "datamover", lambda: Datamover(ends)
    yield "datamover:into", lambda: Datamover(ends, into_one=True)
    yield "datamover:tcp", lambda: Datamover(ends, local=False)
    yield "datamover:tcp:into", lambda: Datamover(ends, into_one=True, local=False)
    yield "datamover:tcp:2", lambda: Datamover(ends, local=False, pathways=2)
    yield "sockets:contiguous", lambda: stream_contenders.Sockets(ends, packs=False)
    yield "sockets:packed", lambda: stream_contenders.Sockets(ends, packs=True)
    yield "gather", lambda: stream_contenders.Gather(ends)
    if ends.address == LOOPBACK_ADDRESS:
        yield "shared:packed", lambda: stream_contenders.SharedMemory(ends)
    else:
        yield "shared:packed", "the processes are on different machines"
    yield "memcpy", lambda: Memcpy(ends)
    yield "memcpy:checked", lambda: Memcpy(ends, checked=True)
    if importlib.util.find_spec("adios2") is None:
        yield "sst", "adios2 is not installed (pip install adios2)"
    else:
        yield "sst", lambda: stream_contenders.Sst(ends)


class Turns:
    """The steps of one way to send: each call is a turn of steps without a pause."""

    def __init__(self, ends: Ends, way: Any, steps: int):
        self.ends, self.way, self.steps, self.done = ends, way, steps, 0

    def __call__(self) -> bool:
        """Send or receive a turn's steps; the first turn is one step, compared completely."""
        first, right = self.done, True
        self.done += self.steps if first else 1
        for step in range(first, self.done):
            if self.ends.sends:
                self.ends.stamp(step)
                self.way.send(step)
            else:
                is_it = self.ends.is_stamped if step else self.ends.is_right
                right = is_it(self.way.receive(), step) and right
        return right


def sending_share(turns: Turns, step_seconds: float) -> float:
    """Return the share of time in `send` of a program that computes between the steps.

    It computes by sleeping, which leaves its core to the stream's threads.
    """
    ends, way = turns.ends, turns.way
    ends.wait_for_all()
    begin, inside = time.perf_counter(), 0.0
    for step in range(turns.done, turns.done + COMPUTED_STEPS):
        if ends.sends:
            time.sleep(COMPUTES * step_seconds)
            ends.stamp(step)
            called = time.perf_counter()
            way.send(step)
            inside += time.perf_counter() - called
        else:
            way.receive()
    mine = inside / (time.perf_counter() - begin) if ends.sends else 0.0
    ends.wait_for_all()
    return max(ends.world.allgather(mine))


def measure(
    world: Any, seconds: float, senders: int, case: str, message_bytes: int, block_bytes: int
) -> None:
    """Measure all contenders of a case and print their rows."""
    ends = Ends(world, senders, message_bytes, block_bytes)
    least, most = TURN_STEPS
    steps = min(max(TURN_BYTES // ends.nbytes, least), most)
    facts = {"case": case, "phase": "step", "bytes": ends.nbytes, "consumers": ends.receivers}
    facts |= {"message_bytes": message_bytes, "block_bytes": block_bytes}
    contest = Contest(world, seconds, ends.wait_for_all, **facts)
    with contextlib.ExitStack() as stack:
        turns = {}
        for name, opens in contenders(ends):
            if isinstance(opens, str):
                contest.leave_out(name, opens)
                continue
            way = opens()
            stack.callback(way.close)
            turns[name] = Turns(ends, way, steps)
            contest.add(name, turns[name], ends.clear)
        contest.run()
        for name in contest.works:
            more: dict[str, Any] = {"processes": senders}
            if isinstance(turns[name].way, Datamover):
                step_seconds = float(np.median(contest.samples[name])) / steps
                more["share_in_send"] = sending_share(turns[name], step_seconds)
            contest.print(name, steps, **more)
    ends.close()


BENCHMARK = Benchmark(
    name="stream",
    help="Send an array from a program that stores it in blocks to one that stores it in order.",
    options={"nprocs": 1, "consumers": 1, "seconds": 3.0, "launcher": None},
    cases=lambda run: CASES,
    parse=parse,
    players=lambda run: [
        run.python_player(
            measure,
            run.nprocs,
            processes=run.nprocs + run.consumers,
            environment=GIVE_WAY,
        )
    ],
    references=(
        "sockets:packed",
        "sockets:contiguous",
        "shared:packed",
        "gather",
        "sst",
        "memcpy",
        "memcpy:checked",
    ),
    shown=("datamover", "datamover:tcp"),
    panels=panels,
    quick={"seconds": 1.5},
)
