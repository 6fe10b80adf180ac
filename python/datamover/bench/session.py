# SPDX-License-Identifier: BSD-3-Clause
"""One benchmark from its options to tables, JSON file, chart and comparison."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datamover import launch
from datamover.bench import chart, compare, report
from datamover.bench.benchmark import Benchmark, measure
from datamover.errors import InvalidArgument

#: Width of tables that are written to a file or a pipe.
FILE_WIDTH = 110
#: Types of the entries of a row that a comparison needs.
ROW_TYPES = {
    "case": str,
    "phase": str,
    "contender": str,
    "processes": int,
    "seconds": (int, float),
}


def read_document(path: Path) -> dict[str, Any]:
    """Read an object that `--json` wrote.

    Raises
    ------
    InvalidArgument
        The file holds something else; names the entry.
    """
    try:
        document = json.loads(path.read_text())
        _check(document)
    except (ValueError, RecursionError) as e:
        raise InvalidArgument(f"{path} was not written by datamover bench --json: {e}") from e
    return document


def _check(document: Any) -> None:
    _require(document, dict, "the file")
    for name in ("machine", "versions"):
        _require(document.get(name, {}), dict, name)
    _require(document.get("rows"), list, "rows")
    for i, row in enumerate(document["rows"]):
        _require(row, dict, f"row {i}")
        for name, kind in ROW_TYPES.items():
            _require(row.get(name), kind, f"{name} of row {i}")
        if not 0 <= row["seconds"] <= sys.float_info.max:
            raise ValueError(f"seconds of row {i} is {reprlib.repr(row['seconds'])}")


def _require(value: Any, kind: Any, name: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {reprlib.repr(value)}")


def rows_of(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows of files that `--json` wrote."""
    return [row for file in files for row in read_document(file)["rows"]]


def run_one(benchmark: Benchmark, options: Mapping[str, Any]) -> dict[str, Any]:
    """Run a benchmark, show and write its figures, and return its JSON object."""
    old = read_document(options["compare"]) if options["compare"] is not None else None
    others = rows_of(options.get("add") or ())
    document = measure(benchmark, options)
    console = launch.console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    # Written first: a later failure does not lose the measurement.
    if options["json_file"] is not None:
        report.write(document, options["json_file"])
    report.show(document, benchmark.references, benchmark.judged, console)
    for shown in benchmark.tables(document, console):
        console.print(shown, highlight=False, soft_wrap=isinstance(shown, str))
    if options["png_file"] is not None:
        chart.draw(benchmark.panels([*document["rows"], *others]), options["png_file"])
    if old is not None:
        document["comparison"] = compare.compare(old, document)
        compare.show(document["comparison"], console)
        if options["json_file"] is not None:
            report.write(document, options["json_file"])
    return document
