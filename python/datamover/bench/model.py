# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of the cost models for encodings and transports. `datamover bench model`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, RenderableType

from datamover import machine_model
from datamover.bench import programs, relations, report
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.programs import Line
from datamover.machine_model import MachineModel

CASES = tuple(Case(f"{r}-{n}") for n in (1024, 2048) for r in relations.REDISTRIBUTIONS)


def players(run: Run) -> Iterator[Player]:
    """Give the programs that measure encodings, on one process, and transports, on two."""

    def play(cases: Sequence[Case], seconds: float) -> list[Line]:
        command = [programs.program("model"), *(case.name for case in cases)]
        lines = programs.run(run.mpi, 1, command, 60)
        if len(os.sched_getaffinity(0)) > 1:
            command = [programs.program("rates"), *(["keep"] if run.keep else [])]
            lines += programs.run(run.mpi, 2, command, 60)
        run.printed += lines
        return lines

    yield Player(play)


def figures(run: Run) -> dict[str, Any]:
    """Return the rates and predictions, and keep the costs of decoding."""
    found: dict[str, Any] = {"transport_rates": {}}
    for line in run.printed:
        kinds = ("rates", "decoding_costs", "transport_rates")
        found |= {kind: line[kind] for kind in kinds if kind in line}
    found["predictions"] = [line for line in run.printed if "prediction" in line]
    found["transport_cases"] = [line for line in run.printed if "transport_case" in line]
    path = machine_model.model_file() if run.keep else None
    if path is not None:
        processor = machine_model.processor()
        machine_model.save(MachineModel(processor, found["rates"], found["decoding_costs"]), path)
        found["kept"] = str(path)
    return found


def tables(document: dict[str, Any], console: Console) -> Iterator[RenderableType]:
    """Give the tables of rates and costs, predictions and transports."""
    rates, costs = document["rates"], document["decoding_costs"] | document["transport_rates"]
    per_second = {"10⁹ per s": [f"{rate / 1e9:.3g}" for rate in rates.values()]}
    yield report.table("this machine", {"rate": _words(rates)}, per_second, console)
    spent = {"ns": [f"{cost:.3g}" for cost in costs.values()]}
    yield report.table("costs", {"of": _words(costs)}, spent, console)
    title = "keeping a relation of pairs: uses until it has paid, and speed-up in the end"
    yield _table(title, document["predictions"], ("prediction",), console)
    if document["transport_cases"]:
        title = "two processes exchange both ways: ghosts in use, and matrices in runs of bytes"
        yield _table(title, document["transport_cases"], ("transport_case", "way"), console)
    else:
        yield "one core: rates of transports are not measured"
    if "kept" in document:
        yield f"kept in {document['kept']}"


def _words(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def _table(
    title: str, lines: Sequence[Line], names: Sequence[str], console: Console
) -> RenderableType:
    """Return a table of lines: columns of names, then one of numbers for each other entry."""
    figures = [key for key in lines[0] if key not in names] if lines else []
    return report.table(
        title,
        {name: [str(line[name]) for line in lines] for name in names},
        {
            header: [f"{line[key]:.3g}" for line in lines]
            for header, key in zip(_words(figures), figures, strict=True)
        },
        console,
    )


BENCHMARK = Benchmark(
    name="model",
    help="Measure the costs of encodings and transports here, and compare with the models.\n\n"
    "-n is accepted as everywhere; one process does it all, and two if there are two cores.",
    options={"keep": True},
    cases=lambda run: CASES,
    together=True,
    players=players,
    references=("measured",),
    judged=("predicted",),
    shown=(),
    figures=figures,
    tables=tables,
    quick={"keep": False, "case": ["transpose-1024", "block-cyclic-1024"]},
)
