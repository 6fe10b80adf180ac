# SPDX-License-Identifier: BSD-3-Clause
"""Decode a relation or compute it again? `bench model` measures what that hangs on here."""

from __future__ import annotations

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

#: How a parameter is called on the terminal, and its unit.
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
        bool, typer.Option(help="Keep what was measured; encodings are chosen by it.")
    ] = True,
) -> None:
    """Measure what decoding and recomputing cost here, beside what the model predicts.

    -n is accepted as everywhere; one process does it all.
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
        model = MachineModel(machine_model.processor(), told["rates"], told["decoding_costs"])
        options.finish(results, STYLE, json_file, more={**told, "predictions": predictions})
        console = launch.console()
        console.print(_parameters(model), _predictions(predictions))
        path = machine_model.model_file()
        if keep and path is not None:
            machine_model.save(model, path)
            console.print(f"kept in {path}", highlight=False, soft_wrap=True)


def _parameters(model: MachineModel) -> Table:
    table = Table(
        "parameter", "measured", title="this machine", title_justify="left", box=box.SIMPLE_HEAD
    )
    for name, value in {**model.rates, **model.decoding_costs}.items():
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
