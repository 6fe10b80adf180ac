# SPDX-License-Identifier: BSD-3-Clause
"""All benchmarks in one run. The command `datamover bench all`."""

from __future__ import annotations

import importlib
import re
import time
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from datamover import launch
from datamover.bench import options, report, results_page
from datamover.bench.benchmark import Benchmark, measure
from datamover.errors import Error
from datamover.picture import check_drawable
from datamover.time_words import as_time

#: Modules with the benchmarks, in the order of the page.
MODULES = """latency halo redistribute doors transports distribute applications overlap flat stream
plan relations model files"""
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


def bench(
    directory: Annotated[
        Path,
        typer.Option(
            "--json", metavar="DIR", file_okay=False, help="Directory for the figures and the page."
        ),
    ],
    nprocs: options.Processes = 2,
    full: Annotated[
        bool, typer.Option("--full", metavar="", help="Full sizes and times: takes hours.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Only these, may be repeated: {NAMES}."),
    ] = None,
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
            launch.console().print(f"{name}: {documents[name].get('failed', 'done')}")
        today = date.today()
        setting = {
            "Date": f"{today:%d %B %Y}".lstrip("0"),
            "Command": f"datamover bench all{' --full' * full} -n {nprocs}",
            "Duration": as_time(time.monotonic() - begin),
        }
        made = results_page.write(documents, setting, directory, f"{today:%Y-%m-%d}")
        launch.console().print(f"the page is {made}", soft_wrap=True)


def _one(benchmark: Benchmark, chosen: dict[str, Any], late: bool) -> dict[str, Any]:
    """Return a benchmark's JSON object, or only the reason why there is none."""
    try:
        if late:
            raise Error("it did not begin in time; run it alone")
        return measure(benchmark, chosen)
    except Exception as e:  # the figures of the others are worth a page
        words = str(e) if isinstance(e, (Error, OSError)) else repr(e)
        return {"failed": re.sub(r"\s+", " ", words)}
