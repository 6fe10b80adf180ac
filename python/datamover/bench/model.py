# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of the cost models for encodings and transports. `datamover bench model`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from datamover import machine_model
from datamover.bench import relations
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.programs import Line
from datamover.machine_model import MachineModel

CASES = tuple(Case(f"{r}-{n}") for n in (1024, 2048) for r in relations.REDISTRIBUTIONS)


def players(run: Run) -> Iterator[Player]:
    """Give the programs that measure encodings, on one process, and transports, on two."""
    yield run.player("model", arguments=relations.names, processes=1)
    if len(os.sched_getaffinity(0)) > 1:
        keep = ["keep"] if run.keep else []
        yield run.player("rates", arguments=lambda *_: keep, processes=2)


def figures(run: Run) -> dict[str, Any]:
    """Return the rates and predictions, and keep the costs of decoding."""
    entries = {"transport_rates": {}, **{k: v for line in run.lines for k, v in line.items()}}
    kinds = ("rates", "decoding_costs", "transport_rates")
    found = {kind: entries[kind] for kind in kinds if kind in entries}
    found["predictions"] = [line for line in run.lines if "prediction" in line]
    found["transport_cases"] = [line for line in run.lines if "transport_case" in line]
    path = machine_model.model_file() if run.keep else None
    if path is not None:
        processor = machine_model.processor()
        machine_model.save(MachineModel(processor, found["rates"], found["decoding_costs"]), path)
        found["kept"] = str(path)
    return found


def tables(document: dict[str, Any]) -> Iterator[str | tuple[Any, ...]]:
    """Give the tables of rates and costs, predictions and transports."""
    costs = document["decoding_costs"] | document["transport_rates"]
    rates = {name: rate / 1e9 for name, rate in document["rates"].items()}
    for title, name, unit, of in (
        ("this machine", "rate", "10⁹ per s", rates),
        ("costs", "of", "ns", costs),
    ):
        yield title, 1, _cells({name: k.replace("_", " "), unit: v} for k, v in of.items())
    title = "keeping a relation of pairs: uses until it has paid, and speed-up in the end"
    yield title, 1, _cells(document["predictions"])
    if document["transport_cases"]:
        title = "two processes exchange both ways: ghosts in use, and matrices in runs of bytes"
        yield title, 2, _cells(document["transport_cases"])
    else:
        yield "one core: rates of transports are not measured"
    if "kept" in document:
        yield f"kept in {document['kept']}"


def _cells(lines: Iterable[Line]) -> list[dict[str, str]]:
    return [
        {k.replace("_", " "): v if isinstance(v, str) else f"{v:.3g}" for k, v in line.items()}
        for line in lines
    ]


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
