# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of all transports, and of the choices of `auto` and `measure`. `bench transports`."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from datamover import launch
from datamover.bench import options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.bench.transport_cases import transport_cases
from datamover.errors import InvalidArgument

BY_HAND = ("manual", "datatypes", "mpi_pack")
STYLE = Style(references=(*BY_HAND, "reference"), judged=("datamover:auto", "datamover:measure"))
OURS = "datamover:"

#: Shorter times depend more on the clock than on the transport.
SHORTEST_SECONDS = 5e-6


def bench(
    nprocs: options.Processes = 2,
    json_file: options.JsonFile = None,
    seconds: options.Seconds = 3.0,
    case: options.CaseNames = None,
    size: Annotated[
        int, typer.Option(min=64, help="Rows and columns of the arrays that are redistributed.")
    ] = 2048,
    node_size: Annotated[
        int, typer.Option(min=0, help="Processes of a pretend node; 0: one node for all.")
    ] = 0,
    user_arrays: Annotated[
        bool,
        typer.Option(
            "--user-arrays", metavar="", help="Use private arrays instead of the library's."
        ),
    ] = False,
    large: Annotated[
        bool, typer.Option("--large", metavar="", help="Halos of 256³ blocks too.")
    ] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="TRANSPORT", help="One more transport to time, such as p2p:64K."),
    ] = None,
) -> None:
    """Move data by every transport and by hand: redistributions, halos, DDTBench's ping-pongs."""
    with options.measuring(nprocs), tempfile.TemporaryDirectory(prefix="datamover-") as scratch:
        if nprocs < 2:
            raise InvalidArgument("at least 2 processes are needed: within one nothing is carried")
        cases = options.choose(transport_cases(nprocs, size, large), case)
        file = Path(scratch) / "cases"
        file.write_text("".join(c.line() + "\n" for c in cases))
        whose = "user" if user_arrays else "library"
        command = [programs.program("transports"), str(file), str(seconds), whose, *(also or [])]
        environment = {"DATAMOVER_TUNING_FILE": ""}  # without earlier results
        if node_size:
            environment["DATAMOVER_NODE_SIZE"] = str(node_size)
        mpi = programs.own_mpi()
        printed = programs.run(mpi, nprocs, command, seconds * len(cases), environment)
        results = Results()
        for line in printed.lines:
            results.add(line, printed.mpi)
        choices = judge(results.rows(), results.samples())
        set_up = {"node_size": node_size, "movers_arrays": whose}
        more = {"setting": set_up, "choices": choices, "choices_summary": sum_up(choices)}
        options.finish(results, STYLE, json_file, [printed.compiler], more)
        _show(sum_up(choices))


Samples = Mapping[tuple[str, str], list[float]]


def judge(rows: Iterable[dict[str, Any]], samples: Samples | None = None) -> list[dict[str, Any]]:
    """Compare the choices with the best transport and the best by hand, case by case.

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
    cases: dict[str, dict[str, float]] = {}
    took: dict[str, dict[str, str]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contender"]] = row["seconds"]
        if "carried_by" in row:
            took.setdefault(row["case"], {})[row["contender"]] = row["carried_by"]
    choices = []
    for case, seconds in cases.items():
        chosen = {k: seconds.get(f"{OURS}{k}") for k in ("auto", "measure")}
        named = {
            c: s
            for c, s in seconds.items()
            if c.startswith(OURS) and c.removeprefix(OURS) not in chosen
        }
        if not named:
            continue
        best = min(named, key=lambda c: named[c])
        choice: dict[str, Any] = {"case": case, "best": best, "best_seconds": named[best]}
        choice |= {k: s / named[best] for k, s in chosen.items() if s}
        for k in chosen:
            if f"{OURS}{k}" in took.get(case, {}):
                choice[f"{k}_took"] = took[case][f"{OURS}{k}"]
        twin = seconds.get(f"{OURS}{choice.get('measure_took')}")
        if twin and chosen["measure"]:
            choice |= {"chosen": twin / named[best], "same": chosen["measure"] / twin}
        choice |= _judge_works(case, took.get(case, {}), samples or {})
        ours = chosen["measure"] or chosen["auto"]
        by_hand = [seconds[c] for c in BY_HAND if c in seconds]
        if ours and by_hand:
            choice["by_hand"] = min(by_hand) / ours
            bound = seconds.get("reference")
            if bound is not None and min(ours, *by_hand) > bound:
                choice["above_reference"] = (min(by_hand) - bound) / (ours - bound)
        choices.append(choice)
    return choices


def _judge_works(case: str, took: Mapping[str, str], samples: Samples) -> dict[str, float]:
    """Return `auto_work` and `measure_work`, if there are samples of the rows."""
    works: dict[str, list[float]] = {}
    for contender, carriers in took.items():
        works.setdefault(carriers, []).extend(samples.get((case, contender), []))
    seconds = {carriers: statistics.median(s) for carriers, s in works.items() if s}
    return {
        f"{k}_work": seconds[took[f"{OURS}{k}"]] / min(seconds.values())
        for k in ("auto", "measure")
        if took.get(f"{OURS}{k}") in seconds
    }


def sum_up(choices: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return how often `auto` and `measure` are near the best, and ratios to hand-written code.

    Cases of less than 5 µs do not count.

    Examples
    --------
    >>> from datamover.bench.transports import sum_up
    >>> sum_up([{"case": "a", "best_seconds": 1e-3, "auto": 1.1, "measure": 1.01}])["auto_15"]
    1.0
    """
    counted = [c for c in choices if c["best_seconds"] >= SHORTEST_SECONDS]

    def part(name: str, most: float) -> float | None:
        values = [c[name] for c in counted if name in c]
        return sum(v <= most for v in values) / len(values) if values else None

    def median(name: str) -> float | None:
        values = [c[name] for c in counted if name in c]
        return statistics.median(values) if values else None

    return {
        "cases": len(counted),
        "measure_5": part("measure", 1.05),
        "measure_15": part("measure", 1.15),
        "auto_15": part("auto", 1.15),
        "chosen_5": part("chosen", 1.05),
        "chosen_15": part("chosen", 1.15),
        "same_5": part("same", 1.05),
        "same_median": median("same"),
        "measure_work_5": part("measure_work", 1.05),
        "measure_work_15": part("measure_work", 1.15),
        "auto_work_15": part("auto_work", 1.15),
        "by_hand_median": median("by_hand"),
        "by_hand_worst": min((c["by_hand"] for c in counted if "by_hand" in c), default=None),
        "above_reference_median": median("above_reference"),
    }


def _show(summary: dict[str, Any]) -> None:
    def percent(name: str) -> str:
        return "-" if summary[name] is None else f"{100 * summary[name]:.0f} %"

    def times(name: str) -> str:
        return "-" if summary[name] is None else f"{summary[name]:.2f}"

    launch.console().print(
        f"of {summary['cases']} cases of 5 µs or more: measure within 5 % of the best transport in "
        f"{percent('measure_5')}, within 15 % in {percent('measure_15')}; auto within 15 % in "
        f"{percent('auto_15')}\n"
        f"what measure took, under its own name: within 5 % of the best in {percent('chosen_5')}, "
        f"within 15 % in {percent('chosen_15')}; the same work twice within 5 % in "
        f"{percent('same_5')}, in the median {times('same_median')} of it\n"
        f"rows of the same transports as one: measure within 5 % of the best in "
        f"{percent('measure_work_5')}, within 15 % in {percent('measure_work_15')}; auto within "
        f"15 % in {percent('auto_work_15')}\n"
        f"times as fast as the best by hand: median {times('by_hand_median')}, worst "
        f"{times('by_hand_worst')}; of what lies above a contiguous message: median "
        f"{times('above_reference_median')}",
        highlight=False,
        soft_wrap=True,
    )
