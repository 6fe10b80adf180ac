# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of transports, and of the choices of `auto` and `measure`.

`datamover bench transports`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType

from datamover.bench import programs, report
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.transport_cases import transport_cases
from datamover.errors import InvalidArgument

BY_HAND = ("manual", "datatypes", "mpi_pack")
OURS = "datamover:"
CHOSEN = ("auto", "measure")

#: Shorter times depend more on the clock than on the transport.
SHORTEST_SECONDS = 5e-6

Samples = Mapping[tuple[str, str], list[float]]


def players(run: Run) -> Iterator[Player]:
    """Give the one program."""
    if run.nprocs < 2:
        raise InvalidArgument("at least 2 processes are needed: within one nothing is carried")

    def arguments(cases: Sequence[Case], seconds: float) -> list[str]:
        file = run.scratch / "cases"
        file.write_text("".join(" ".join(map(str, case.words)) + "\n" for case in cases))
        return [str(file), str(seconds), _owner(run), *(run.also or ())]

    environment = {"DATAMOVER_TUNING_FILE": ""}  # without earlier results
    if run.node_size:
        environment["DATAMOVER_NODE_SIZE"] = str(run.node_size)
    program = programs.program("transports")
    yield run.player(program, arguments=arguments, environment=environment)


def _owner(run: Run) -> str:
    return "user" if run.user_arrays else "library"


def judge(rows: Iterable[dict[str, Any]], samples: Samples | None = None) -> list[dict[str, Any]]:
    """Compare what was chosen with the best transport and the best by hand, case by case.

    Parameters
    ----------
    rows : iterable of dict
        Result of `Results.rows`.
    samples : mapping, optional
        Result of `Results.samples`.

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
    judged = (_judge_case(case, contenders, samples or {}) for case, contenders in cases.items())
    return [choice for choice in judged if choice]


def _judge_case(case: str, rows: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """Return the entry of a case; empty if no transport was named."""
    seconds = {contender: row["seconds"] for contender, row in rows.items()}
    took = {c.removeprefix(OURS): r["carried_by"] for c, r in rows.items() if "carried_by" in r}
    chosen = {k: seconds[OURS + k] for k in CHOSEN if OURS + k in seconds}
    named = {
        c: s
        for c, s in seconds.items()
        if c.startswith(OURS) and c.removeprefix(OURS) not in chosen
    }
    if not named:
        return {}
    best = min(named, key=lambda c: named[c])
    choice: dict[str, Any] = {"case": case, "best": best, "best_seconds": named[best]}
    choice |= {k: s / named[best] for k, s in chosen.items()}
    choice |= {f"{k}_took": took[k] for k in chosen if k in took}
    twin = seconds.get(f"{OURS}{took.get('measure')}")
    if twin and "measure" in chosen:
        choice |= {"chosen": twin / named[best], "same": chosen["measure"] / twin}
    choice |= _judge_works(case, took, samples)
    ours = chosen.get("measure", chosen.get("auto"))
    by_hand = min((seconds[c] for c in BY_HAND if c in seconds), default=None)
    if ours and by_hand:
        choice["by_hand"] = by_hand / ours
        bound = seconds.get("reference")
        if bound is not None and min(ours, by_hand) > bound:
            choice["above_reference"] = (by_hand - bound) / (ours - bound)
    return choice


def _judge_works(case: str, took: Mapping[str, str], samples: Samples) -> dict[str, float]:
    """Return `auto_work` and `measure_work`, if there are samples of the rows."""
    works: dict[str, list[float]] = {}
    for contender, carriers in took.items():
        works.setdefault(carriers, []).extend(samples.get((case, OURS + contender), []))
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
    choices = judge(run.results.rows(), run.results.samples())
    setting = {"node_size": run.node_size, "movers_arrays": _owner(run)}
    return {"setting": setting, "choices": choices, "choices_summary": sum_up(choices)}


def table(document: dict[str, Any], console: Console) -> Iterator[RenderableType]:
    """Give the table of the choices."""
    sums = document["choices_summary"]
    columns = {"5": "within 5 %", "15": "within 15 %", "median": "median", "worst": "worst"}
    names = [entry for entry in SUMMED if sums[f"{entry}_median"] is not None]
    yield report.table(
        f"choices in {sums['cases']} cases of 5 µs or more",
        {"choice": [name.replace("_", " ") for name in names]},
        {header: [f"{sums[f'{n}_{k}']:.2f}" for n in names] for k, header in columns.items()},
        console,
    )


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
