# SPDX-License-Identifier: BSD-3-Clause
"""Generator of the conformance cases and their expected results.

Run as `python tests/conformance/make_cases.py`: writes redistribute.json, same_indices.json,
halo.json and layouts.json (layouts in the layout protocol). Every expected number is computed from
HPF's formulas and from the indices of boxes, one index after the other in plain Python, without
datamover and without NumPy.
"""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNTOUCHED = -1

# name: source, destination (shape, distribution, grid[, ranks]), and what else is said.
REDISTRIBUTIONS = {
    "alone": (((3, 4), "(*, *)", (1, 1)), ((3, 4), "(*, *)", (1, 1)), {}),
    "alone transposed": (((3, 4), "(*, *)", (1, 1)), ((4, 3), "(*, *)", (1, 1)), {"axes": (1, 0)}),
    "vector to cyclic": (((11,), "(block)", (3,)), ((11,), "(cyclic)", (3,)), {}),
    "vector with a process without elements": (
        ((5,), "(block)", (4,)),
        ((5,), "(cyclic(4))", (4,)),
        {},
    ),
    "rows to columns": (((6, 8), "(block, *)", (4, 1)), ((6, 8), "(*, block)", (1, 4)), {}),
    "rows to tiles": (((7, 9), "(block, *)", (4, 1)), ((7, 9), "(block, block)", (2, 2)), {}),
    "cyclic blocks to others": (
        ((10, 9), "(cyclic(2), cyclic(3))", (2, 2)),
        ((10, 9), "(cyclic(3), cyclic)", (2, 2)),
        {},
    ),
    "blocks of a given size": (
        ((9, 4), "(block(4), *)", (3, 1)),
        ((9, 4), "(*, cyclic)", (1, 3)),
        {},
    ),
    "transpose": (
        ((6, 5), "(block, *)", (3, 1)),
        ((5, 6), "(cyclic(2), *)", (3, 1)),
        {"axes": (1, 0)},
    ),
    "three dimensions": (
        ((4, 3, 5), "(block, *, *)", (4, 1, 1)),
        ((4, 3, 5), "(*, block, cyclic(2))", (1, 2, 2)),
        {},
    ),
    "three dimensions turned": (
        ((4, 3, 2), "(block, block, *)", (2, 2, 1)),
        ((2, 4, 3), "(*, cyclic, block)", (1, 2, 2)),
        {"axes": (2, 0, 1)},
    ),
    "section": (
        ((8, 7), "(block, *)", (3, 1)),
        ((6, 9), "(*, cyclic(2))", (1, 3)),
        {"source_section": ((1, 2), (5, 6)), "destination_section": ((2, 4), (6, 8))},
    ),
    "section turned": (
        ((8, 7), "(cyclic, cyclic)", (2, 2)),
        ((7, 9), "(block, block)", (2, 2)),
        {
            "source_section": ((3, 1), (8, 4)),
            "destination_section": ((4, 0), (7, 5)),
            "axes": (1, 0),
        },
    ),
    "empty section": (
        ((4, 4), "(block, *)", (2, 1)),
        ((4, 4), "(*, block)", (1, 2)),
        {"source_section": ((1, 1), (1, 3)), "destination_section": ((2, 0), (2, 2))},
    ),
    "other ranks": (
        ((6, 6), "(block, *)", (4, 1), (2, 0, 3, 1)),
        ((6, 6), "(block, block)", (2, 2), (3, 2, 1, 0)),
        {},
    ),
    "from fewer to more": (((12,), "(block)", (2,)), ((12,), "(cyclic)", (7,)), {"processes": 7}),
}

# name: source, destination (regions, owners; or shape, distribution, grid), and what else is said.
SAME_INDICES = {
    "a window moves": (
        ([((0, 0), (4, 6)), ((4, 0), (8, 6))], [0, 1]),
        ([((3, 2), (8, 4)), ((3, 4), (8, 8))], [1, 0]),
        {"partial": True},
    ),
    "a window moves beyond what is held": (
        ([((0, 0), (4, 6)), ((4, 0), (8, 6))], [0, 1]),
        ([((3, 2), (8, 4)), ((3, 4), (8, 8))], [1, 0]),
        {},
    ),
    "a window within what is held": (
        ([((-5, -2), (4, 1)), ((-5, 1), (4, 6))], [1, 0]),
        ([((-3, -2), (0, 5))], [1]),
        {},
    ),
    "a window within what is held turned": (
        ([((-5, -2), (4, 1)), ((-5, 1), (4, 6))], [1, 0]),
        ([((-2, -3), (5, 0))], [0]),
        {"axes": (1, 0)},
    ),
    "windows that share no index": (
        ([((0,), (4,))], [0]),
        ([((20,), (24,))], [1]),
        {"partial": True},
    ),
    "windows with a hole": (
        ([((-2,), (3,)), ((5,), (9,))], [0, 1]),
        ([((1,), (7,))], [1]),
        {"partial": True},
    ),
    "windows with a hole that is needed": (
        ([((-2,), (3,)), ((5,), (9,))], [0, 1]),
        ([((1,), (7,))], [1]),
        {},
    ),
    "a corner of an array": (
        ((7, 9), "(block, *)", (2, 1)),
        ((5, 6), "(*, cyclic)", (1, 2)),
        {},
    ),
    "an array to a window": (
        ((7, 9), "(cyclic, cyclic(2))", (1, 2)),
        ([((2, 1), (7, 3)), ((4, 3), (6, 9))], [0, 1]),
        {},
    ),
    "a window to an array": (
        ([((-2, -2), (3, 9)), ((3, -2), (5, 9))], [0, 1]),
        ((4, 9), "(block, *)", (2, 1)),
        {},
    ),
    "an array to a larger one": (
        ((5, 6), "(block, *)", (2, 1)),
        ((7, 9), "(*, block)", (1, 2)),
        {},
    ),
    "an array to a larger one in part": (
        ((5, 6), "(block, *)", (2, 1)),
        ((7, 9), "(*, block)", (1, 2)),
        {"partial": True},
    ),
}

# name: region, grid, lower and upper widths, and what else is said.
HALOS = {
    "line": (((0,), (12,)), (3,), (1,), (1,), {}),
    "ring": (((0,), (12,)), (4,), (2,), (2,), {"periodic": True}),
    "ring of one block": (((0,), (5,)), (1,), (2,), (2,), {"periodic": True}),
    "one side": (((-3,), (5,)), (4,), (1,), (0,), {}),
    "deeper than a block": (((0,), (6,)), (3,), (3,), (3,), {"periodic": True}),
    "plane": (((0, 0), (6, 4)), (2, 2), (1, 1), (1, 1), {}),
    "plane without corners": (((0, 0), (6, 4)), (2, 2), (1, 1), (1, 1), {"corners": False}),
    "torus": (((2, -1), (8, 3)), (2, 2), (1, 2), (2, 1), {"periodic": True}),
    "cylinder": (((0, 0), (4, 4)), (2, 2), (1, 1), (1, 1), {"periodic": True, "wraps": (1, 0)}),
    "two blocks each": (((0, 0), (4, 4)), (4, 1), (1, 1), (1, 1), {"processes": 2}),
    "space": (((0, 0, 0), (2, 4, 2)), (1, 2, 2), (1, 1, 1), (1, 1, 1), {"periodic": True}),
}


# name: what a layout has in the layout protocol, without its version.
LAYOUTS = {
    "boxes": {
        "shape": [4, 5],
        "processes": 3,
        "boxes": [[[0, 0], [4, 2]], [[0, 2], [3, 5]], [[3, 2], [4, 5]], [[0, 0], [0, 0]]],
        "ranks": [2, 0, 2, 1],
    },
    "replicated boxes": {
        "shape": [3],
        "processes": 2,
        "boxes": [[[0], [3]], [[0], [3]]],
        "ranks": [0, 1],
    },
    "block-cyclic": {
        "shape": [7, 6],
        "processes": 7,
        "block": [2, 3],
        "grid": [3, 2],
        "ranks": [5, 1, 0, 2, 6, 3],
    },
    "block-cyclic replicas": {
        "shape": [9],
        "processes": 4,
        "block": [2],
        "grid": [2],
        "ranks": [0, 1, 3, 2],
    },
    "ranges": {"shape": [3, 5], "processes": 3, "flat_block": 4, "ranks": [2, 0]},
    "indices": {"shape": [2, 4], "processes": 3, "indices": [[7, 0, 3], [], [1, 2, 4, 5, 6]]},
}


def points(lo, hi):
    """Every index of [lo, hi), the last dimension fastest."""
    return itertools.product(*(range(a, b) for a, b in zip(lo, hi, strict=True)))


def flat(index, lo, hi):
    """The number of an index within [lo, hi), the last dimension fastest."""
    number = 0
    for i, a, b in zip(index, lo, hi, strict=True):
        number = number * (b - a) + i - a
    return number


def owner_of(index, shape, distribution, grid, ranks=None):
    """The rank that HPF gives an index to: BLOCK is ceil(N / P), CYCLIC(k) deals blocks of k."""
    place = 0
    for i, n, said, procs in zip(index, shape, distribution[1:-1].split(","), grid, strict=True):
        kind, size = re.fullmatch(r"(\*|block|cyclic)(?:\((\d+)\))?", said.strip()).groups()
        block = int(size) if size else -(-n // procs) if kind == "block" else 1
        place = place * procs + (0 if kind == "*" else i // block % procs)
    return ranks[place] if ranks else place


def redistribution(source, destination, processes=None, axes=None, **sections):
    """One case with what every process holds afterwards, and who sends how much to whom."""
    source_shape, shape = source[0], destination[0]
    axes = axes or tuple(range(len(shape)))
    from_lo, _ = sections.get("source_section", ((0,) * len(shape), source_shape))
    lo, hi = sections.get("destination_section", ((0,) * len(shape), shape))
    count = 1
    for procs in source[2]:
        count *= procs
    processes = processes or count
    held, traffic = [[] for _ in range(processes)], Counter()
    # Walking in order, each process meets its elements in the order of its local array.
    for index in points((0,) * len(shape), shape):
        to = owner_of(index, *destination)
        inside = all(a <= i < b for i, a, b in zip(index, lo, hi, strict=True))
        if not inside:
            held[to].append(UNTOUCHED)
            continue
        come_from = [0] * len(shape)
        for k, axis in enumerate(axes):
            come_from[axis] = from_lo[axis] + index[k] - lo[k]
        held[to].append(flat(come_from, (0,) * len(shape), source_shape))
        traffic[owner_of(come_from, *source), to] += 1
    return {
        "operation": "redistribute",
        "processes": processes,
        "source": layout(*source),
        "destination": layout(*destination),
        **({"axes": axes} if axes != tuple(range(len(shape))) else {}),
        **sections,
        "expected": held,
        "traffic": [[*pair, elems] for pair, elems in sorted(traffic.items())],
    }


def elements_of(said, processes):
    """What every process holds, in the order of its local arrays, and the box around all of it."""
    held = [[] for _ in range(processes)]
    if isinstance(said[0], list):
        regions, owners = said
        for (lo, hi), owner in zip(regions, owners, strict=True):
            held[owner].extend(points(lo, hi))
        dims = range(len(regions[0][0]))
        return held, (
            [min(lo[d] for lo, _ in regions) for d in dims],
            [max(hi[d] for _, hi in regions) for d in dims],
        )
    shape = said[0]
    for index in points((0,) * len(shape), shape):
        held[owner_of(index, *said)].append(index)
    return held, ((0,) * len(shape), shape)


def same_indices(source, destination, axes=None, partial=False):
    """One case between layouts that begin anywhere, of two processes."""
    sent, (lo, hi) = elements_of(source, 2)
    wanted, _ = elements_of(destination, 2)
    axes = axes or tuple(range(len(lo)))
    numbers = {}
    for index in itertools.chain(*sent):
        numbers[tuple(index[axis] for axis in axes)] = flat(index, lo, hi)
    held = [[numbers.get(index, UNTOUCHED) for index in of_rank] for of_rank in wanted]
    if not partial and any(UNTOUCHED in of_rank for of_rank in held):
        held = [["error", "mismatch"]] * 2
    return {
        "operation": "redistribute",
        "processes": 2,
        "source": layout(*source),
        "destination": layout(*destination),
        **({"axes": axes} if axes != tuple(range(len(lo))) else {}),
        **({"partial": True} if partial else {}),
        "expected": held,
    }


def layout(shape, distribution, grid=None, ranks=None):
    """A layout as it stands in a case."""
    if grid is None:
        return {"regions": shape, "owners": distribution}
    said = {"shape": shape, "distribution": distribution, "grid": grid}
    return said | ({"ranks": ranks} if ranks else {})


def halo(region, grid, lower, upper, processes=None, periodic=False, wraps=None, corners=True):
    """One case; `expected` holds each process's blocks one after the other, ghosts included."""
    lo, hi = region
    blocks = 1
    for procs in grid:
        blocks *= procs
    processes = processes or blocks
    held = [[] for _ in range(processes)]
    extents = [(b - a) // g for a, b, g in zip(lo, hi, grid, strict=True)]
    for block, place in enumerate(points((0,) * len(grid), grid)):
        first = [a + e * p for a, e, p in zip(lo, extents, place, strict=True)]
        last = [f + e for f, e in zip(first, extents, strict=True)]
        around = points(
            [f - w for f, w in zip(first, lower, strict=True)],
            [x + w for x, w in zip(last, upper, strict=True)],
        )
        for index in around:
            outside = sum(not f <= i < x for i, f, x in zip(index, first, last, strict=True))
            wrapped = list(index)
            for d, (i, a, b) in enumerate(zip(index, lo, hi, strict=True)):
                if periodic and (wraps is None or wraps[d]):
                    wrapped[d] = a + (i - a) % (b - a)
            known = all(a <= i < b for i, a, b in zip(wrapped, lo, hi, strict=True))
            filled = known and (corners or outside <= 1)
            held[block % processes].append(flat(wrapped, lo, hi) if filled else UNTOUCHED)
    return {
        "operation": "halo",
        "processes": processes,
        "region": region,
        "grid": grid,
        "lower": lower,
        "upper": upper,
        **({"periodic": region} if periodic else {}),
        **({"wraps": wraps} if wraps else {}),
        "corners": corners,
        "expected": held,
    }


def described(said):
    """One layout of the protocol, and the flat indices that each process holds."""
    shape, count = said["shape"], said["processes"]
    ends = (0,) * len(shape), shape
    held = [[] for _ in range(count)]
    if "indices" in said:
        held = said["indices"]
    elif "boxes" in said:
        for (lo, hi), owner in zip(said["boxes"], said["ranks"], strict=True):
            held[owner].extend(flat(index, *ends) for index in points(lo, hi))
    elif "flat_block" in said:
        for index in points(*ends):
            owner = said["ranks"][flat(index, *ends) // said["flat_block"] % len(said["ranks"])]
            held[owner].append(flat(index, *ends))
    else:
        words = "(" + ", ".join(f"cyclic({block})" for block in said["block"]) + ")"
        places = len(said["ranks"])
        for procs in said["grid"]:
            places //= procs
        size = len(said["ranks"]) // places
        for first in range(0, len(said["ranks"]), size):
            ranks = said["ranks"][first : first + size]
            for index in points(*ends):
                held[owner_of(index, shape, words, said["grid"], ranks)].append(flat(index, *ends))
    return {"layout": {"layout": "1.0", **said}, "expected": held}


def cases():
    """The two files' contents by name."""
    return {
        "redistribute.json": [
            {"name": name} | redistribution(source, destination, **more)
            for name, (source, destination, more) in REDISTRIBUTIONS.items()
        ],
        "same_indices.json": [
            {"name": name} | same_indices(source, destination, **more)
            for name, (source, destination, more) in SAME_INDICES.items()
        ],
        "halo.json": [
            {"name": name} | halo(*said, **more) for name, (*said, more) in HALOS.items()
        ],
        "layouts.json": [{"name": name} | described(said) for name, said in LAYOUTS.items()],
    }


def text_of(case_list):
    """As JSON, one case a line."""
    lines = ",\n".join(json.dumps(case) for case in case_list)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    for file_name, listed in cases().items():
        (HERE / file_name).write_text(text_of(listed))
