# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of transports, and of the choices of `auto` and `measure`.

`datamover bench transports`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any

from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.redistribute import Extents, fixed_cases
from datamover.bench.rows import rows_of
from datamover.errors import InvalidArgument

BY_HAND = ("manual", "datatypes", "mpi_pack")
OURS = "datamover:"
CHOSEN = ("auto", "measure")

#: Shorter times depend more on the clock than on the transport.
SHORTEST_SECONDS = 5e-6


def players(run: Run) -> Iterator[Player]:
    """Give the one program."""
    if run.nprocs < 2:
        raise InvalidArgument("at least 2 processes are needed: within one nothing is carried")
    environment = {"DATAMOVER_TUNING_FILE": ""}  # without earlier results
    if run.node_size:
        environment["DATAMOVER_NODE_SIZE"] = str(run.node_size)
    yield run.player(
        "transports",
        words=lambda case: case.words,
        before=(_owner(run), *(run.also or ())),
        in_file=True,
        environment=environment,
    )


def _owner(run: Run) -> str:
    return "user" if run.user_arrays else "library"


def judge(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare what was chosen with the best transport and the best by hand, case by case.

    Parameters
    ----------
    rows : iterable of dict
        Result of `rows_of`, with samples.

    Returns
    -------
    list of dict
        `best` and `best_seconds` of the named transports; `auto` and `measure` relative to that
        time; `by_hand` (the best) over `measure`, or over `auto` if that was not measured;
        `above_reference`: the same ratio of the times above that of a contiguous message.
        `auto_took` and `measure_took` name the transports used. `chosen` is the row of the
        transport that `measure` took, relative to the best, and `same` is `measure` relative to
        that row: the same work twice, which differs from 1 by noise only. `auto_work` and
        `measure_work` exclude this noise: all rows with the same transports count as one, with the
        median of all their samples, and the choice is compared with the best of these.

    Examples
    --------
    >>> from datamover.bench.transports import judge
    >>> rows = [{"case": "a", "contender": c, "seconds": s} for c, s in
    ...         (("datamover:p2p", 2e-5), ("datamover:auto", 3e-5), ("manual", 4e-5))]
    >>> judge(rows)[0]["auto"], judge(rows)[0]["best"]
    (1.5, 'datamover:p2p')
    """
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contender"]] = row
    return list(filter(None, starmap(_judge_case, cases.items())))


def _judge_case(case: str, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a case; empty if no transport was named."""
    seconds = {contender: row["seconds"] for contender, row in rows.items()}
    ours = {c.removeprefix(OURS): row for c, row in rows.items() if c.startswith(OURS)}
    took = {k: row["carried_by"] for k, row in ours.items() if "carried_by" in row}
    named = {k: row["seconds"] for k, row in ours.items()}
    chosen = {k: named.pop(k) for k in CHOSEN if k in named}
    if not named:
        return {}
    best = min(named, key=lambda k: named[k])
    choice: dict[str, Any] = {"case": case, "best": OURS + best, "best_seconds": named[best]}
    choice |= {k: s / named[best] for k, s in chosen.items()}
    choice |= {f"{k}_took": took[k] for k in chosen if k in took}
    twin = named.get(took.get("measure", ""))
    if twin and "measure" in chosen:
        choice |= {"chosen": twin / named[best], "same": chosen["measure"] / twin}
    choice |= _judge_works(took, ours)
    measured = chosen.get("measure", chosen.get("auto"))
    by_hand = min((seconds[c] for c in BY_HAND if c in seconds), default=None)
    if measured and by_hand:
        choice["by_hand"] = by_hand / measured
        bound = seconds.get("reference")
        if bound is not None and min(measured, by_hand) > bound:
            choice["above_reference"] = (by_hand - bound) / (measured - bound)
    return choice


def _judge_works(took: Mapping[str, str], ours: Mapping[str, Any]) -> dict[str, float]:
    """Return `auto_work` and `measure_work`, if there are samples of the rows."""
    works: dict[str, list[float]] = {}
    for name, carriers in took.items():
        works.setdefault(carriers, []).extend(ours[name].get("samples", ()))
    seconds = {carriers: statistics.median(s) for carriers, s in works.items() if s}
    return {
        f"{k}_work": seconds[took[k]] / min(seconds.values())
        for k in CHOSEN
        if took.get(k) in seconds
    }


#: Entries of a choice that are summed up, and which of their values is the worst.
SUMMED = {
    **dict.fromkeys(("measure", "auto", "chosen", "same", "measure_work", "auto_work"), max),
    **dict.fromkeys(("by_hand", "above_reference"), min),
}


def sum_up(choices: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return for each entry its shares within 5 and 15 %, its median and its worst value.

    Cases of less than 5 µs do not count.

    Examples
    --------
    >>> from datamover.bench.transports import sum_up
    >>> sum_up([{"case": "a", "best_seconds": 1e-3, "auto": 1.1, "measure": 1.01}])["auto_15"]
    1.0
    """
    counted = [c for c in choices if c["best_seconds"] >= SHORTEST_SECONDS]
    sums: dict[str, Any] = {"cases": len(counted)}
    for entry, worst in SUMMED.items():
        values = [c[entry] for c in counted if entry in c]
        for percent in (5, 15):
            near = sum(value <= 1 + percent / 100 for value in values)
            sums[f"{entry}_{percent}"] = near / len(values) if values else None
        sums[f"{entry}_median"] = statistics.median(values) if values else None
        sums[f"{entry}_worst"] = worst(values, default=None)
    return sums


def figures(run: Run) -> dict[str, Any]:
    """Return the setting, the choices per case and their summary."""
    choices = judge(rows_of(run.lines, with_samples=True))
    setting = {"node_size": run.node_size, "movers_arrays": _owner(run)}
    return {"setting": setting, "choices": choices, "choices_summary": sum_up(choices)}


def table(document: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Give the table of the choices."""
    sums = document["choices_summary"]
    columns = {"within 5 %": "5", "within 15 %": "15", "median": "median", "worst": "worst"}
    cells = [
        {"choice": name.replace("_", " ")}
        | {header: f"{sums[f'{name}_{key}']:.2f}" for header, key in columns.items()}
        for name in SUMMED
        if sums[f"{name}_median"] is not None
    ]
    yield f"choices in {sums['cases']} cases of 5 µs or more", 1, cells


FLOAT_BYTES, DOUBLE_BYTES, COMPLEX_BYTES = 4, 8, 16


#: A section of an array: bytes of an element, shape, first index, and extents.
Box = tuple[int, Extents, Extents, Extents]


def boxes(name: str, *sections: Box) -> Case:
    """Return a ping-pong of sections, all in one message."""
    words: list[Any] = ["boxes", name, len(sections)]
    for elem_bytes, shape, begin, extent in sections:
        words += [elem_bytes, len(shape), *shape, *begin, *extent]
    return Case(name, tuple(words))


def lists(name: str, *arrays: tuple[int, int, int], behind: bool = False) -> Case:
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
    return Case(name, ("lists", name, len(arrays), *words))


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


def wrf(name: str, memory_i: Range, memory_j: Range, sent_i: Range, sent_j: Range) -> Case:
    """Return four arrays (i, j), three (i, k, j), and slice 2 of two (i, k, j, 2)."""
    ranges = (memory_i, memory_j, sent_i, sent_j)
    i, j, many_i, many_j = (last - first + 1 for first, last in ranges)
    at_i, at_j = sent_i[0] - memory_i[0], sent_j[0] - memory_j[0]
    flat = (FLOAT_BYTES, (j, i), (at_j, at_i), (many_j, many_i))
    shape, begin, extent = (j, WRF_LEVELS, i), (at_j, 0, at_i), (many_j, WRF_LEVELS, many_i)
    levels = (FLOAT_BYTES, shape, begin, extent)
    second = (FLOAT_BYTES, (2, *shape), (1, *begin), (1, *extent))
    return boxes(name, *[flat] * 4, *[levels] * 3, *[second] * 2)


def milc(l2: int, l3: int, l4: int, l5: int) -> Case:
    """Return the blocks of su3_zdown."""
    run = 3 * l2 * l3
    box = (FLOAT_BYTES, (2 * l5, l4, run), (0, 0, 0), (2 * l5, 1, run))
    return boxes(f"milc-{l2}-{l3}-{l4}-{l5}", box)


def nas_lu(direction: str, n: int) -> Case:
    """Return a row or a column of 5 numbers per point."""
    shape = (n + 2, n + 2, 5)
    begin, extent = {"x": ((1, 1, 0), (1, n, 5)), "y": ((1, 1, 0), (n, 1, 5))}[direction]
    return boxes(f"nas-lu-{direction}-{n}", (DOUBLE_BYTES, shape, begin, extent))


def nas_mg(direction: str, n1: int, n2: int, n3: int) -> Case:
    """Return a face of a block with ghosts."""
    extent = {"x": (n3 - 2, n2 - 2, 1), "y": (n3 - 2, 1, n1 - 2), "z": (1, n2 - 2, n1 - 2)}
    box = (DOUBLE_BYTES, (n3, n2, n1), (1, 1, 1), extent[direction])
    return boxes(f"nas-mg-{direction}-{n1}", box)


def lammps(kind: str, sent: int, atoms: int) -> Case:
    """Return the positions and further fields of random atoms."""
    fields = {"full": 5, "atomic": 3}[kind]
    sizes = (3 * DOUBLE_BYTES,) + (DOUBLE_BYTES,) * fields
    arrays = [(elem_bytes, atoms, sent) for elem_bytes in sizes]
    return lists(f"lammps-{kind}-{sent}", *arrays, behind=True)


def specfem_cm(first: Range, second: Range) -> Case:
    """Return random points of crust and mantle, and of the inner core."""
    arrays = [(3 * FLOAT_BYTES, memory, count) for count, memory in (first, second)]
    return lists(f"specfem-cm-{first[0]}", *arrays)


def ddtbench() -> list[Case]:
    """Return every pattern and size.

    Examples
    --------
    >>> from datamover.bench.transports import ddtbench
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
        *(  # random numbers of the outer core
            lists(f"specfem-oc-{count}", (FLOAT_BYTES, memory, count))
            for count, memory in ((3225, 88881), (1897, 38585), (877, 12857), (493, 3697))
        ),
        specfem_cm((11797, 834917), (3009, 51153)),
        specfem_cm((7125, 396849), (1729, 22477)),
        specfem_cm((3801, 152001), (801, 7209)),
        specfem_cm((1957, 39929), (245, 1225)),
        *(  # one of two vectors per point
            boxes(f"specfem-mt-{n}", (FLOAT_BYTES, (n, 2, 3), (0, 0, 0), (n, 1, 3)))
            for n in (7600, 6400, 5600, 6200)
        ),
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


BENCHMARK = Benchmark(
    name="transports",
    help="Move data by every transport and by hand: redistributions, halos, DDTBench's ping-pongs.",
    options={
        "nprocs": 2,
        "seconds": 3.0,
        "size": 2048,
        "node_size": 0,
        "user_arrays": False,
        "also": None,
    },
    cases=lambda run: transport_cases(run.nprocs, run.size),
    players=players,
    references=(*BY_HAND, "reference"),
    judged=(f"{OURS}auto", f"{OURS}measure"),
    figures=figures,
    tables=table,
    quick={"seconds": 0.5, "size": 1024},
)
