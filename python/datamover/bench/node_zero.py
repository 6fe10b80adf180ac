# SPDX-License-Identifier: BSD-3-Clause
"""Size and set-up time of all relations of one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import datamover as dm

PROCESSES = 4
TURNS = 5
#: A dictionary is made from its pairs, so these are enough.
LARGEST_LISTED = 4096

#: The paper's four redistributions (section 3). The arrays are column-major there; here the same
#: matrices are written row-major, dimensions exchanged.
REDISTRIBUTIONS = {
    "block_rows-block_cols": ("(*, block)", "(block, *)", None),
    "block-cyclic": ("(*, block)", "(*, cyclic)", None),
    "cyclic-block": ("(*, cyclic)", "(*, block)", None),
    "transpose": ("(cyclic, *)", "(cyclic, *)", (1, 0)),
}


def relations(name: str, n: int) -> list[dm.AddressRelation]:
    """Return the address relations of doubles that process 0 of 4 sends to each process.

    Examples
    --------
    >>> from datamover.bench.node_zero import relations
    >>> sum(len(r) for r in relations("block-cyclic", 1024))
    262144
    """
    source, destination, axes = REDISTRIBUTIONS[name]
    plan = dm.redistribute(
        dm.BlockCyclic((n, n), source, PROCESSES),
        dm.BlockCyclic((n, n), destination, PROCESSES),
        axes=axes,
    )
    return [plan.relation(0, peer) for peer in range(PROCESSES)]


def measure(name: str, n: int) -> Iterator[dict[str, Any]]:
    """Yield a row per encoding: `nbytes` of all relations on process 0, and the time to make them.

    Parameters
    ----------
    name : str
        Name of a redistribution.
    n : int
        Rows and columns of the array.
    """
    for encoding in ("pairs", "blocks", "runs", "dictionary", "product"):
        if encoding != "product" and n > LARGEST_LISTED:
            continue
        seconds = []
        for _ in range(1 if encoding == "pairs" else TURNS):
            begin = time.perf_counter()
            made = [r.encode(encoding) for r in relations(name, n)]
            seconds.append(time.perf_counter() - begin)
        yield {
            "case": f"node_zero-{name}-{n}",
            "phase": "encode",
            "contender": encoding,
            "processes": 1,
            "bytes": 8 * sum(len(r) for r in made),
            "nbytes": sum(r.nbytes for r in made),
            "seconds": statistics.median(seconds),
            "runs": len(seconds),
        }
