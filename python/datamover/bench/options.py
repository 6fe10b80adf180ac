# SPDX-License-Identifier: BSD-3-Clause
"""Options that all benchmarks share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape

from datamover import launch
from datamover.bench import busy, report
from datamover.bench.rows import Results
from datamover.errors import Error, InvalidArgument


def _startable(nprocs: int) -> int:
    too_many = launch.too_many(nprocs)
    if too_many:
        raise typer.BadParameter(too_many)
    return nprocs


def _writable(file: Path | None) -> Path | None:
    """Raise, before anything is measured, if a file cannot be written at the end."""
    if file is None:
        return None
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise typer.BadParameter(f"the file {file} cannot be written")
    return file


def _drawable(file: Path | None) -> Path | None:
    from datamover.picture import check_drawable

    try:
        if file is not None:
            check_drawable(file)
    except Error as e:
        raise typer.BadParameter(str(e)) from e
    return _writable(file)


Processes = Annotated[
    int,
    typer.Option("-n", "--nprocs", min=1, callback=_startable, help="Number of processes."),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_writable, help="Write all results as JSON."),
]


def picture_file(words: str) -> Any:
    """Return the option --png of a benchmark, with a help text."""
    return Annotated[
        Path | None, typer.Option("--png", metavar="FILE", callback=_drawable, help=words)
    ]


Seconds = Annotated[
    float, typer.Option(min=0.0, help="Seconds for each case, all contenders together.")
]
Rounds = Annotated[
    int,
    typer.Option(min=1, help="Number of turns of the programs of contenders with other MPIs."),
]
CaseNames = Annotated[
    list[str] | None,
    typer.Option(
        "--case", metavar="NAME", help="Only cases whose names begin with this; may be repeated."
    ),
]
Launcher = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Command that starts the processes: 'scripts/two-hosts --rate 1gbit' puts a link of a "
        "limited rate between half of them and the others.",
    ),
]
RandomCases = Annotated[int, typer.Option("--random", min=0, help="Add random cases.")]
Seed = Annotated[int, typer.Option(help="Seed of the random cases.")]

Case = TypeVar("Case")

#: Width of tables in a file or a pipe.
FILE_WIDTH = 110


@contextlib.contextmanager
def errors_to_exit() -> Iterator[None]:
    """Print an error of the library or the system, and exit with 1."""
    try:
        yield
    except (Error, OSError) as e:
        console = launch.console(stderr=True)
        console.print(f"[bold red]error:[/] {escape(str(e))}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from e


@contextlib.contextmanager
def measuring(processes: int | None) -> Iterator[None]:
    """Warn first if other programs leave too few cores; handle errors like `errors_to_exit`.

    Parameters
    ----------
    processes : int or None
        Number of processes that will run; None: one on every core, or threads.
    """
    warning = busy.at_start().warning(processes)
    if warning:
        console = launch.console(stderr=True)
        console.print(warning, style="yellow", highlight=False, soft_wrap=True)
    with errors_to_exit():
        yield


def choose(cases: Iterable[Case], wanted: Sequence[str] | None) -> list[Case]:
    """Return the cases (anything with a `name`) whose names begin with one of `wanted`.

    Raises
    ------
    InvalidArgument
        No name does.
    """
    cases = list(cases)
    chosen = [c for c in cases if not wanted or c.name.startswith(tuple(wanted))]
    if not chosen:
        names = ", ".join(c.name for c in cases)
        raise InvalidArgument(f"no case begins with {' or '.join(wanted or ())}; there are {names}")
    return chosen


def finish(
    results: Results,
    style: report.Style,
    json_file: Path | None,
    compilers: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print the tables and write the file, if requested, with `more` entries in its object."""
    console = launch.console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    report.show(results, style, console)
    if json_file is not None:
        report.write(report.as_json(results, style, compilers) | dict(more or {}), json_file)
