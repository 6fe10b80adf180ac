# SPDX-License-Identifier: BSD-3-Clause
"""A reader of the layout protocol (docs/reference/layout_protocol.md) without datamover."""

import itertools


def elements_of(layout, rank):
    """The global indices that a rank holds, block after block, in the order of its local arrays."""
    if not layout["layout"].startswith("1."):
        raise ValueError(f"unknown version {layout['layout']}")
    shape = layout["shape"]
    every = list(itertools.product(*map(range, shape)))
    if "indices" in layout:
        return [every[flat] for flat in layout["indices"][rank]]
    ranks = layout["ranks"]
    if "boxes" in layout:
        own = [box for box, owner in zip(layout["boxes"], ranks, strict=True) if owner == rank]
        return [i for lo, hi in own for i in itertools.product(*map(range, lo, hi))]
    if "flat_block" in layout:
        block = layout["flat_block"]
        return [i for at, i in enumerate(every) if ranks[at // block % len(ranks)] == rank]
    grid, places = layout["grid"], 1
    for extent in grid:
        places *= extent

    def place(index):
        number = 0
        for i, block, procs in zip(index, layout["block"], grid, strict=True):
            number = number * procs + i // block % procs
        return number

    replicas = range(0, len(ranks), places)
    return [i for i in every if any(ranks[first + place(i)] == rank for first in replicas)]
