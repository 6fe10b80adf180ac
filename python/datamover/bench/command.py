# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover bench`: one benchmark from its options to tables, or all of them."""

from __future__ import annotations

import importlib
import json
import re
import reprlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import typer

from datamover import terminal
from datamover.bench import chart, compare, options, report, results_page
from datamover.bench.benchmark import Benchmark, measure
from datamover.command_options import App, give, option
from datamover.errors import Error, InvalidArgument
from datamover.picture import check_drawable
from datamover.time_words import as_time

app = App(
    "Compare the speed with other libraries and MPI, in one run.",
    "datamover bench redistribute -n 2",
    "datamover bench halo -n 2 --json new.json --compare old.json",
    "datamover bench all --json results",
)

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
        for name, value, kind in _entries(document):
            number = isinstance(value, (int, float))
            if not isinstance(value, kind) or (number and not 0 <= value <= sys.float_info.max):
                raise ValueError(f"{name} is {reprlib.repr(value)}")
    except (ValueError, RecursionError) as e:
        raise InvalidArgument(f"{path} was not written by datamover bench --json: {e}") from e
    return document


def _entries(document: Any) -> Iterator[tuple[str, Any, Any]]:
    """Give the entries that a comparison needs, with their types, outer ones first."""
    yield "the file", document, dict
    for name in ("machine", "versions"):
        yield name, document.get(name, {}), dict
    yield "rows", document.get("rows"), list
    for i, row in enumerate(document["rows"]):
        yield f"row {i}", row, dict
        yield from ((f"{name} of row {i}", row.get(name), kind) for name, kind in ROW_TYPES.items())


def rows_of(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows of files that `--json` wrote."""
    return [row for file in files for row in read_document(file)["rows"]]


def run_one(benchmark: Benchmark, options: Mapping[str, Any]) -> dict[str, Any]:
    """Run a benchmark, show and write its figures, and return its JSON object."""
    old = read_document(options["compare"]) if options["compare"] is not None else None
    others = rows_of(options.get("add") or ())
    document = measure(benchmark, options)
    console = terminal.console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    # Written first: a later failure does not lose the measurement.
    if options["json_file"] is not None:
        report.write(document, options["json_file"])
    report.show(document, benchmark.references, benchmark.judged, console)
    for shown in benchmark.tables(document):
        words = shown if isinstance(shown, str) else report.table(console, *shown)
        console.print(words, highlight=False, soft_wrap=words is shown)
    if options["png_file"] is not None:
        chart.draw(benchmark.panels([*document["rows"], *others]), options["png_file"])
    if old is not None:
        document["comparison"] = compare.compare(old, document)
        compare.show(document["comparison"], console)
        if options["json_file"] is not None:
            report.write(document, options["json_file"])
    return document


def add_command(benchmark: Benchmark) -> None:
    """Add the command of a benchmark, with the options that its description names."""

    def command(**chosen: Any) -> None:
        processes = chosen["nprocs"] + chosen.get("consumers", 0)
        with options.measuring(None if benchmark.threads else processes):
            run_one(benchmark, chosen)

    defaults = {**options.COMMON, **benchmark.options}
    kinds = options.OPTIONS.items()
    give(command, {k: (kind, defaults[k]) for k, kind in kinds if k in defaults})
    app.command(benchmark.name, help=benchmark.help)(command)


#: Modules with the benchmarks, in the order of the page.
MODULES = """latency halo redistribute doors fft transports distribute applications overlap flat
stream plan relations model files"""
BENCHMARKS: tuple[Benchmark, ...] = tuple(
    importlib.import_module(f"datamover.bench.{name}").BENCHMARK for name in MODULES.split()
)
#: Names of the JSON files, the benchmarks and their options.
SESSIONS = (
    *((b.name, b, {}) for b in BENCHMARKS),
    *(("transports-messages", b, {"node_size": 1}) for b in BENCHMARKS if b.name == "transports"),
)
#: Without `--full`, no benchmark begins after this time.
LAST_START_SECONDS = 25 * 60

NAMES = ", ".join(name for name, *_ in SESSIONS)


for _benchmark in BENCHMARKS:
    add_command(_benchmark)


@app.command("all")
def bench(
    directory: option(
        Path, "Directory for the figures and the page.", "--json", metavar="DIR", file_okay=False
    ),
    nprocs: options.Processes = 2,
    full: option(bool, "Full sizes and times: takes hours.", "--full") = False,
    only: option(list[str] | None, f"Only these, may be repeated: {NAMES}.", metavar="NAME") = None,
) -> None:
    """Run all benchmarks, in at most 30 minutes, and write a page of results.

    DIR gets a JSON file per benchmark, and the page (Markdown) with its chart (SVG), whose names
    begin with the date.
    """
    unknown = set(only or ()) - {name for name, *_ in SESSIONS}
    if unknown:
        raise typer.BadParameter(f"no benchmark {', '.join(sorted(unknown))}; there are {NAMES}")
    with options.measuring(nprocs):
        check_drawable(Path("chart.svg"))
        directory.mkdir(parents=True, exist_ok=True)
        begin, documents = time.monotonic(), {}
        for name, benchmark, more in SESSIONS:
            if only and name not in only:
                continue
            chosen = {**options.COMMON, **benchmark.options, **({} if full else benchmark.quick)}
            if chosen["nprocs"] > 1:
                chosen["nprocs"] = nprocs
            late = not full and time.monotonic() - begin > LAST_START_SECONDS
            documents[name] = _one(benchmark, chosen | more, late)
            if "rows" in documents[name]:
                report.write(documents[name], directory / f"{name}.json")
            terminal.console().print(f"{name}: {documents[name].get('failed', 'done')}")
        today = date.today()
        setting = {
            "Date": f"{today:%d %B %Y}".lstrip("0"),
            "Command": f"datamover bench all{' --full' * full} -n {nprocs}",
            "Duration": as_time(time.monotonic() - begin),
        }
        made = results_page.write(documents, setting, directory, f"{today:%Y-%m-%d}")
        terminal.console().print(f"the page is {made}", soft_wrap=True)


def _one(benchmark: Benchmark, chosen: dict[str, Any], late: bool) -> dict[str, Any]:
    """Return a benchmark's JSON object, or only the reason why there is none."""
    try:
        if late:
            raise Error("it did not begin in time; run it alone")
        return measure(benchmark, chosen)
    except Exception as e:  # the figures of the others are worth a page
        words = str(e) if isinstance(e, (Error, OSError)) else repr(e)
        return {"failed": re.sub(r"\s+", " ", words)}
