# SPDX-License-Identifier: BSD-3-Clause
"""Size and set-up time of all relations of one process."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import datamover as dm
from datamover.bench.contest import timed
from datamover.bench.programs import Line

PROCESSES = 4
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


def relations(name: str, n: int) -> list[dm.advanced.AddressRelation]:
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


def measure(case: str) -> Iterator[Line]:
    """Yield a row per encoding: `nbytes` of all relations on process 0, and the time to make them.

    Parameters
    ----------
    case : str
        As `bench relations` names it: `node_zero-transpose-1024`, with the rows of the array.
    """
    name, rows = case.removeprefix("node_zero-").rsplit("-", 1)
    n = int(rows)
    for encoding in ("pairs", "blocks", "runs", "dictionary", "product"):
        if encoding == "product" or n <= LARGEST_LISTED:
            made = [r.encode(encoding) for r in relations(name, n)]
            yield timed(
                functools.partial(lambda by: [r.encode(by) for r in relations(name, n)], encoding),
                case=case,
                phase="encode",
                contender=encoding,
                bytes=8 * sum(len(r) for r in made),
                nbytes=sum(r.nbytes for r in made),
            )
