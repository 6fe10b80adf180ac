# SPDX-License-Identifier: BSD-3-Clause
"""Options of all benchmarks, and the command of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from datamover import launch, terminal
from datamover.bench import machine
from datamover.command_options import option
from datamover.errors import Error
from datamover.terminal import errors_to_exit


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


Processes = option(int, "Number of processes.", "-n", "--nprocs", min=1, callback=_startable)
JsonFile = option(
    Path | None, "Write all results as JSON.", "--json", metavar="FILE", callback=_writable
)


def _count(help: str, *names: str, least: int = 1) -> Any:
    return option(int, help, *names, min=least)


def _list(kind: Any, help: str, *names: str, metavar: str) -> Any:
    return option(list[kind] | None, help, *names, metavar=metavar)


#: Options that every benchmark has, with their defaults.
COMMON = {"nprocs": 1, "json_file": None, "png_file": None, "compare": None, "case": None}

_PICTURE = {"metavar": "FILE", "callback": _drawable}
_OLD = {"metavar": "OLD.json", "exists": True, "dir_okay": False}
_PLACE = "Directory for files, by default"
_LAUNCHER = "Start the processes by this, such as 'scripts/two-hosts --rate 1gbit'."

#: Options by the names that descriptions of benchmarks use.
OPTIONS: dict[str, Any] = {
    "nprocs": Processes,
    "json_file": JsonFile,
    "png_file": option(Path | None, "Draw the figures.", "--png", **_PICTURE),
    "compare": option(Path | None, "Compare with the results of an earlier run.", **_OLD),
    "case": _list(
        str, "Only cases whose names begin with this, or one that is not listed.", metavar="NAME"
    ),
    "seconds": option(float, "Seconds for each case, all contenders together.", min=0),
    "rounds": _count("Number of turns of the programs of contenders with other MPIs."),
    "turns": _count("Number of turns of each version.", "--rounds"),
    "consumers": _count("Number of processes that receive; -n send."),
    "random": _count("Add random cases.", least=0),
    "seed": option(int, "Seed of the random cases."),
    "size": _count("Rows and columns of the arrays that are redistributed.", least=64),
    "node_size": _count("Processes per simulated node; 0: one node for all.", least=0),
    "launcher": option(str | None, _LAUNCHER, metavar="COMMAND"),
    "add": _list(Path, "JSON of runs with other -n, for the picture.", metavar="FILE"),
    "also": _list(str, "One more transport to time, such as p2p:64K.", metavar="TRANSPORT"),
    "user_arrays": option(bool, "Use private arrays instead of the library's.", "--user-arrays"),
    "keep": option(bool, "Store the rates; encodings and transports are then chosen by them."),
    "megabytes": _count("Size of the array."),
    "gigabytes": option(float, "Size of the array.", min=0),
    "max_bytes": _count("Memory limit, for contenders with one."),
    "directories": _list(
        Path, f"{_PLACE} in memory; several: in turn.", "--directory", metavar="DIR"
    ),
    "directory": option(Path | None, f"{_PLACE} a temporary one.", metavar="DIR"),
    "data": option(str, "brain (a scan of nilearn), noise, or auto: the first that is installed."),
    "python": option(
        str, "Interpreter that has the other contenders installed.", show_default="this one"
    ),
    "rechunker": option(bool, "Install and measure rechunker too.", "--rechunker"),
}


@contextlib.contextmanager
def measuring(processes: int | None) -> Iterator[None]:
    """Warn if other programs leave too few cores; errors end as of `errors_to_exit`.

    Parameters
    ----------
    processes : int or None
        Number of processes of the run. None: one on every core, or threads.
    """
    warning = machine.at_start().warning(processes)
    if warning:
        console = terminal.console(stderr=True)
        console.print(warning, style="yellow", highlight=False, soft_wrap=True)
    with errors_to_exit():
        yield
