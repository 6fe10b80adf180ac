# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of streams against hand-written sockets. `datamover bench stream`.

Source: Network I/O for a distributed-memory machine, section 6 and figures 11 and 12.
"""

from __future__ import annotations

import re

from datamover.bench.benchmark import Benchmark, Case
from datamover.bench.chart import Panel
from datamover.bench.programs import Line
from datamover.errors import InvalidArgument

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


BENCHMARK = Benchmark(
    name="stream",
    help="Send an array from a program that stores it in blocks to one that stores it in order.",
    options={"nprocs": 1, "consumers": 1, "seconds": 3.0, "launcher": None},
    cases=lambda run: CASES,
    parse=parse,
    players=lambda run: [
        run.python_player(
            "stream_ends",
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
