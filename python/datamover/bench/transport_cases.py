# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the transport benchmark.

The shapes of the ping-pongs are those of DDTBench, row-major (Schneider, Gerstenberger, Hoefler:
Micro-applications for communication data access patterns and MPI datatypes, EuroMPI 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from datamover.bench.benchmark import Case
from datamover.bench.redistribution_cases import Extents, fixed_cases

FLOAT_BYTES, DOUBLE_BYTES, COMPLEX_BYTES = 4, 8, 16


@dataclass(frozen=True)
class Box:
    """A section of an array: from index `begin` on, `extent` elements."""

    elem_bytes: int
    shape: Extents
    begin: Extents
    extent: Extents

    @property
    def bytes(self) -> int:
        """Bytes of payload."""
        return self.elem_bytes * prod(self.extent)


@dataclass(frozen=True)
class Message(Case):
    """A ping-pong with one message of this payload."""

    bytes: int = 0


def boxes(name: str, *sections: Box) -> Message:
    """Return a ping-pong of sections, all in one message."""
    words: list[Any] = ["boxes", name, len(sections)]
    for box in sections:
        words += [box.elem_bytes, len(box.shape), *box.shape, *box.begin, *box.extent]
    return Message(name, tuple(words), sum(box.bytes for box in sections))


def lists(name: str, *arrays: tuple[int, int, int], behind: bool = False) -> Message:
    """Return a ping-pong of elements at random places, all in one message.

    Parameters
    ----------
    name : str
    *arrays : (int, int, int)
        Bytes of an element, elements in memory, elements that are sent.
    behind : bool
        Whether they are received one after the other behind all of them. By default, they are
        received at the same places.
    """
    words = [word for array in arrays for word in (*array, int(behind))]
    nbytes = sum(elem_bytes * count for elem_bytes, _, count in arrays)
    return Message(name, ("lists", name, len(arrays), *words), nbytes)


REDISTRIBUTIONS = (
    "rows-columns",
    "32-128",
    "3-7",
    "gather",
    "scatter",
    "section",
    "transpose",
    "transpose-rows",
    "contiguous",
)

Range = tuple[int, int]

#: Memory and sent indices (first and last) of i and j.
WRF_Y: tuple[tuple[Range, Range, Range, Range], ...] = (
    ((-4, 27), (34, 85), (1, 23), (41, 43)),
    ((8, 34), (21, 61), (12, 30), (28, 30)),
    ((4, 27), (14, 47), (8, 23), (21, 23)),
    ((10, 31), (10, 39), (14, 27), (17, 19)),
    ((4, 22), (4, 27), (8, 18), (11, 13)),
)
WRF_X: tuple[tuple[Range, Range, Range, Range], ...] = (
    ((-4, 27), (34, 85), (18, 20), (38, 81)),
    ((4, 27), (14, 47), (18, 20), (18, 43)),
    ((4, 22), (4, 27), (13, 15), (8, 23)),
)
WRF_LEVELS = 65


def wrf(name: str, memory_i: Range, memory_j: Range, sent_i: Range, sent_j: Range) -> Message:
    """Return four arrays (i, j), three (i, k, j), and slice 2 of two (i, k, j, 2)."""

    def length(r: Range) -> int:
        return r[1] - r[0] + 1

    i, j = length(memory_i), length(memory_j)
    at_i, at_j = sent_i[0] - memory_i[0], sent_j[0] - memory_j[0]
    many_i, many_j = length(sent_i), length(sent_j)
    flat = Box(FLOAT_BYTES, (j, i), (at_j, at_i), (many_j, many_i))
    levels = Box(FLOAT_BYTES, (j, WRF_LEVELS, i), (at_j, 0, at_i), (many_j, WRF_LEVELS, many_i))
    second = Box(FLOAT_BYTES, (2, *levels.shape), (1, *levels.begin), (1, *levels.extent))
    return boxes(name, *[flat] * 4, *[levels] * 3, *[second] * 2)


def milc(l2: int, l3: int, l4: int, l5: int) -> Message:
    """Return the blocks of su3_zdown."""
    run = 3 * l2 * l3
    box = Box(FLOAT_BYTES, (2 * l5, l4, run), (0, 0, 0), (2 * l5, 1, run))
    return boxes(f"milc-{l2}-{l3}-{l4}-{l5}", box)


def nas_lu(direction: str, n: int) -> Message:
    """Return a row or a column of 5 numbers per point."""
    shape = (n + 2, n + 2, 5)
    begin, extent = {"x": ((1, 1, 0), (1, n, 5)), "y": ((1, 1, 0), (n, 1, 5))}[direction]
    return boxes(f"nas-lu-{direction}-{n}", Box(DOUBLE_BYTES, shape, begin, extent))


def nas_mg(direction: str, n1: int, n2: int, n3: int) -> Message:
    """Return a face of a block with ghosts."""
    extent = {"x": (n3 - 2, n2 - 2, 1), "y": (n3 - 2, 1, n1 - 2), "z": (1, n2 - 2, n1 - 2)}
    box = Box(DOUBLE_BYTES, (n3, n2, n1), (1, 1, 1), extent[direction])
    return boxes(f"nas-mg-{direction}-{n1}", box)


def lammps(kind: str, sent: int, atoms: int) -> Message:
    """Return the positions and further fields of random atoms."""
    fields = {"full": 5, "atomic": 3}[kind]
    sizes = (3 * DOUBLE_BYTES,) + (DOUBLE_BYTES,) * fields
    arrays = [(elem_bytes, atoms, sent) for elem_bytes in sizes]
    return lists(f"lammps-{kind}-{sent}", *arrays, behind=True)


def specfem_oc(count: int, memory: int) -> Message:
    """Return random numbers of the outer core."""
    return lists(f"specfem-oc-{count}", (FLOAT_BYTES, memory, count))


def specfem_cm(first: Range, second: Range) -> Message:
    """Return random points of crust and mantle, and of the inner core."""
    arrays = [(3 * FLOAT_BYTES, memory, count) for count, memory in (first, second)]
    return lists(f"specfem-cm-{first[0]}", *arrays)


def specfem_mt(n: int) -> Message:
    """Return one of two vectors per point."""
    box = Box(FLOAT_BYTES, (n, 2, 3), (0, 0, 0), (n, 1, 3))
    return boxes(f"specfem-mt-{n}", box)


def ddtbench() -> list[Case]:
    """Return every pattern and size.

    Examples
    --------
    >>> from datamover.bench.transport_cases import ddtbench
    >>> sum(case.name.startswith("nas-mg") for case in ddtbench())
    12
    """
    mg = ((34, 18, 18), (130, 66, 66), (258, 130, 130), (514, 258, 258))
    return [
        *(wrf(f"wrf-x-{k}", *box) for k, box in enumerate(WRF_X)),
        *(wrf(f"wrf-y-{k}", *box) for k, box in enumerate(WRF_Y)),
        *(milc(*n) for n in ((16, 16, 16, 16), (8, 16, 16, 16), (8, 8, 8, 16), (8, 8, 8, 8))),
        *(nas_lu(d, n) for d in "xy" for n in (12, 33, 64, 102, 162, 408, 1020)),
        *(nas_mg(d, *n) for d in "xyz" for n in mg),
        *(lammps("full", *n) for n in ((3062, 3534), (2243, 2597), (1662, 1907))),
        *(lammps("atomic", *n) for n in ((243, 4084), (145, 2157), (114, 1217))),
        *(specfem_oc(*n) for n in ((3225, 88881), (1897, 38585), (877, 12857), (493, 3697))),
        specfem_cm((11797, 834917), (3009, 51153)),
        specfem_cm((7125, 396849), (1729, 22477)),
        specfem_cm((3801, 152001), (801, 7209)),
        specfem_cm((1957, 39929), (245, 1225)),
        *(specfem_mt(n) for n in (7600, 6400, 5600, 6200)),
        *(
            Case(f"fft2-{n}", ("transpose", f"fft2-{n}", n, COMPLEX_BYTES))
            for n in (256, 512, 768, 1024, 1536)
        ),
    ]


def transport_cases(processes: int, size: int) -> list[Case]:
    """Return all cases; their words are the line of the file that the program reads.

    Parameters
    ----------
    processes : int
    size : int
        Rows and columns of the arrays that are redistributed.
    """
    known = {case.name: case for case in fixed_cases(processes, size)}
    return [
        *(Case(name, ("redistribute", name, *known[name].words)) for name in REDISTRIBUTIONS),
        *(Case(f"halo-64-{width}", ("halo", f"halo-64-{width}", 64, width)) for width in (1, 3)),
        *ddtbench(),
    ]
