# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of the cost models for encodings and transports.

`bench model` measures the rates on which these choices depend.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from datamover import launch, machine_model
from datamover.bench import node_zero, options, programs
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.machine_model import MachineModel

STYLE = Style(references=("measured",), judged=("predicted",))

#: Names of parameters on the terminal, with their units.
SHOWN = {
    "instructions": "integer instructions, 10⁹/s",
    "read_contiguous": "words read in order, 10⁹/s",
    "read_random": "words read anywhere, 10⁹/s",
    "write_contiguous": "words written in order, 10⁹/s",
    "pair": "decode a pair, ns",
    "block": "decode a block, ns",
    "symbol": "decode a symbol, ns",
    "offset": "decode an offset, ns",
    "byte": "read a byte of an encoding, ns",
    "shared_message": "ghosts straight, ns per message",
    "shared_line": "… and per 64 bytes",
    "staged_message": "ghosts through slots, ns per message",
    "staged_line": "… and per 64 bytes",
    "read_run": "read by the system, ns per run",
    "read_byte": "… and per byte",
    "slot_run": "through slots, ns per run",
    "slot_byte": "… and per byte",
}


@dataclass(frozen=True)
class Case:
    """One redistribution, by its name."""

    name: str


CASES = tuple(Case(f"{r}-{n}") for n in (1024, 2048) for r in node_zero.REDISTRIBUTIONS)


def bench(
    nprocs: options.Processes = 1,
    json_file: options.JsonFile = None,
    case: options.CaseNames = None,
    keep: Annotated[
        bool,
        typer.Option(
            metavar="", help="Store the rates; encodings and transports are then chosen by them."
        ),
    ] = True,
) -> None:
    """Compare the costs of encodings and transports on this machine with the models' predictions.

    -n is accepted as everywhere; one process does all the work, or two if there are two cores.
    """
    with options.measuring(nprocs):
        mpi = programs.own_mpi()
        results, told, predictions = Results(), {}, []
        names = [c.name for c in options.choose(CASES, case)]
        printed = programs.run(mpi, 1, [programs.program("model"), *names], 60)
        for line in printed.lines:
            results.add(line, printed.mpi)
            told |= {k: v for k, v in line.items() if k in ("rates", "decoding_costs")}
            if "prediction" in line:
                predictions.append(line)
        transports, cases = _transports(mpi, keep)
        model = MachineModel(machine_model.processor(), told["rates"], told["decoding_costs"])
        path = machine_model.model_file() if keep else None
        if path is not None:
            machine_model.save(model, path)
        more = {"predictions": predictions, "transport_rates": transports, "transport_cases": cases}
        options.finish(results, STYLE, json_file, more={**told, **more})
        console = launch.console()
        console.print(_parameters(model, transports), _predictions(predictions))
        if cases:
            console.print(_cases(cases))
        else:
            console.print("one core: rates of transports are not measured", highlight=False)
        if path is not None:
            console.print(f"kept in {path}", highlight=False, soft_wrap=True)


def _transports(mpi: programs.Mpi, keep: bool) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the rates of transports and their measurements; empty on one core."""
    if len(os.sched_getaffinity(0)) < 2:
        return {}, []
    command = [programs.program("rates"), *(["keep"] if keep else [])]
    lines = programs.run(mpi, 2, command, 60).lines
    rates = next(line["transport_rates"] for line in lines if "transport_rates" in line)
    return rates, [line for line in lines if "transport_case" in line]


def _parameters(model: MachineModel, transports: dict[str, float]) -> Table:
    table = Table(
        "parameter", "measured", title="this machine", title_justify="left", box=box.SIMPLE_HEAD
    )
    for name, value in {**model.rates, **model.decoding_costs, **transports}.items():
        if name in SHOWN:
            table.add_row(SHOWN[name], f"{value / 1e9 if name in model.rates else value:.3g}")
    return table


def _predictions(predictions: list[dict[str, Any]]) -> Table:
    title = "keeping a relation of pairs: uses until it has paid, and speed-up in the end"
    table = Table("case", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("instructions", "threshold", "uses", "predicted", "speed-up", "predicted"):
        table.add_column(column, justify="right")
    for p in predictions:
        table.add_row(
            p["prediction"],
            f"{p['generate_instructions']:.0f}",
            f"{p['threshold_instructions']:.1f}",
            f"{p['break_even_measured']:.2f}",
            f"{p['break_even_predicted']}",
            f"{p['speedup_measured']:.1f}",
            f"{p['speedup_predicted']:.1f}",
        )
    return table


def _cases(cases: list[dict[str, Any]]) -> Table:
    title = (
        "two processes exchange both ways, us: ghosts in use, and matrices in runs of so many bytes"
    )
    table = Table("case", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("transport")
    for column in ("measured", "predicted"):
        table.add_column(column, justify="right")
    for c in cases:
        table.add_row(
            c["transport_case"],
            c["way"],
            f"{c['measured_us']:.1f}",
            f"{c['predicted_us']:.1f}",
        )
    return table
