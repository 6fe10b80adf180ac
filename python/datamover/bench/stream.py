# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of streams against hand-written sockets. `datamover bench stream`.

Source: Network I/O for a distributed-memory machine, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import numpy as np

import datamover as dm
from datamover.bench import stream_contenders
from datamover.bench.benchmark import Benchmark, Case, match
from datamover.bench.chart import Panel
from datamover.bench.contest import Contest
from datamover.bench.programs import Line
from datamover.bench.stream_contenders import Way
from datamover.errors import InvalidArgument, Unsupported

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
    usage = (
        "a case: pass MESSAGE-BLOCK, such as 64K-128, for a message of at least two blocks, each a "
        "multiple of 8 bytes"
    )
    found = match(r"([1-9]\d*)([KM]?)-([1-9]\d*)", name, usage)
    message, block = int(found[1]) * UNITS[found[2]], int(found[3])
    # A message of at least two blocks has something to gather.
    if block % 8 or message % block or message < 2 * block:
        raise InvalidArgument(f"{name!r} is not {usage}")
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
    stack : ExitStack
        Closes what was opened, the latest first.
    pieces : dict
        For each process of the other end that shares rows with this one: the rows, counted here.
    array : ndarray
        At a sending process, the other end's view of it, (rows, fields, block). At a receiving one,
        the destination.
    """

    def __init__(
        self, world: Any, stack: ExitStack, senders: int, message_bytes: int, block_bytes: int
    ):
        self.world, self.stack, self.senders = world, stack, senders
        self.receivers = world.size - senders
        self.sends = world.rank < senders
        self.part = world.Split(int(self.sends), world.rank)
        stack.callback(self.part.Free)
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
        for piece in self.pieces.values():
            values[piece.start, 0, 0] = 0  # the first step's number
        if self.sends:
            by_field = np.ascontiguousarray(values.transpose(1, 0, 2))
            self.array, self.expected = by_field.transpose(1, 0, 2), np.empty((0, 0, 0))
        else:
            self.x_array = stack.enter_context(
                contextlib.closing(dm.Array(self.layouts[1], dtype="f8", comm=self.part))
            )
            self.array, self.expected = self.x_array.local, values
        self.nbytes = int(np.prod(self.shape)) * 8
        self.address = own_address(world)
        self.on_one_machine = self.address == LOOPBACK_ADDRESS

    def _rows(self, rank: int, nprocs: int) -> tuple[int, int]:
        each = -(-self.shape[0] // nprocs)
        return min(rank * each, self.shape[0]), min((rank + 1) * each, self.shape[0])

    def play(self, way: Way, step: int) -> bool:
        """Send or receive a step; return whether it is right: the first one completely."""
        starts = [rows.start for rows in self.pieces.values()]
        if self.sends:
            self.array[starts, 0, 0] = step
            way(step)
            return True
        found = way(step)
        array = self.array if found is None else found
        if step == 0:
            return bool((array == self.expected).all())
        return all(array[start, 0, 0] == step for start in starts)

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


def datamover(ends: Ends, into_one: bool = False, pathways: int = 1, **options: Any) -> Way:
    """Use the library's stream, into new arrays, or one that is written in every step."""
    options |= {"token": TOKEN, "comm": ends.part}
    if ends.sends:
        here = f"tcp://{ends.address}:0"
        sender = dm.Stream(here, consumers=1, pathways=pathways, **options)
        ends.stack.callback(sender.close)
        ends.world.bcast(sender.address)
        return lambda step: sender.send("u", ends.array, step=step, layout=ends.layouts[0])
    receiver = dm.stream.connect(ends.world.bcast(None), **options)
    steps = receiver.steps({"u": ends.x_array if into_one else ends.layouts[1]})
    ends.stack.callback(receiver.close)
    ends.stack.callback(list, steps)

    def receive(step: int) -> np.ndarray | None:
        array = next(steps)[1]["u"]
        return None if into_one else array

    return receive


#: What each contender opens, or raises `Unsupported` on all processes.
CONTENDERS: dict[str, Callable[[Ends], Way]] = {
    "datamover": datamover,
    "datamover:into": partial(datamover, into_one=True),
    "datamover:tcp": partial(datamover, local=False),
    "datamover:tcp:into": partial(datamover, into_one=True, local=False),
    "datamover:tcp:2": partial(datamover, local=False, pathways=2),
    "sockets:contiguous": partial(stream_contenders.sockets, packs=False),
    "sockets:packed": partial(stream_contenders.sockets, packs=True),
    "gather": stream_contenders.gather,
    "shared:packed": stream_contenders.shared_memory,
    "memcpy": stream_contenders.memcpy,
    "memcpy:checked": partial(stream_contenders.memcpy, checked=True),
    "sst": stream_contenders.sst,
}


def sending_share(ends: Ends, play: Callable[[], Any], step_seconds: float) -> float:
    """Return the share of time in `send` of a program that computes between the steps.

    It computes by sleeping, which leaves its core to the stream's threads.
    """
    ends.wait_for_all()
    begin, inside = time.perf_counter(), 0.0
    for _ in range(COMPUTED_STEPS):
        if ends.sends:
            time.sleep(COMPUTES * step_seconds)
        called = time.perf_counter()
        play()
        inside += time.perf_counter() - called
    mine = inside / (time.perf_counter() - begin) if ends.sends else 0.0
    ends.wait_for_all()
    return max(ends.world.allgather(mine))


def measure(
    world: Any, seconds: float, senders: int, case: str, message_bytes: int, block_bytes: int
) -> None:
    """Measure all contenders of a case and print their rows."""
    with ExitStack() as stack:
        ends = Ends(world, stack, senders, message_bytes, block_bytes)
        least, most = TURN_STEPS
        steps = min(max(TURN_BYTES // ends.nbytes, least), most)
        facts = {"case": case, "phase": "step", "bytes": ends.nbytes, "consumers": ends.receivers}
        facts |= {"message_bytes": message_bytes, "block_bytes": block_bytes}
        contest = Contest(world, seconds, ends.wait_for_all, steps, **facts)
        for name, opens in CONTENDERS.items():
            try:
                way = opens(ends)
            except Unsupported as e:
                contest.leave_out(name, str(e))
                continue
            # Each call plays the next step.
            contest.add(name, map(partial(ends.play, way), count()).__next__, ends.clear)
        contest.run()
        for name, play in contest.works.items():
            more: dict[str, Any] = {"processes": senders}
            if name.startswith("datamover"):
                step_seconds = float(np.median(contest.samples[name]))
                more["share_in_send"] = sending_share(ends, play, step_seconds)
            contest.print(name, **more)


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
