# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover app`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from datamover import launch
from datamover.bench import options, programs
from datamover.command_options import App, give, option
from datamover.errors import InvalidArgument
from datamover.files import unfinished
from datamover.terminal import errors_to_exit

PROGRAMS = Path(__file__).parent / "bin"


app = App(
    "Run a complete application, alone or with its twin in hand-written MPI.",
    "datamover app redblack3d -n 2 --twin",
    "datamover app nas_ft -n 4",
)


#: Versions of an application that computes, and its twin.
OURS = ("datamover", "overlap", "thread")
TWIN = "by_hand"
#: Descriptions of the versions of all applications.
MEANINGS = {
    "datamover": "datamover",
    "overlap": "computes while data travels",
    "thread": "the same with a progress thread",
    TWIN: "MPI without datamover",
    "ring": "the same in another way",
    "datatypes": "MPI packs",
    "original": "as in NPB",
    "nozero": "without setting its buffers to 0",
    "python": "datamover and NumPy",
}


def twins(name: str) -> list[str]:
    """Return the versions of an application that are written by hand.

    Examples
    --------
    >>> from datamover.apps.command import twins
    >>> twins("summa")
    ['by_hand', 'ring']
    """
    return [v for v in APPLICATIONS[name].versions if v not in (*OURS, "python")]


def _version_of(there: Sequence[str]) -> Any:
    """Return the option that selects among the versions of an application."""
    words = "; ".join(
        version if version == MEANINGS[version] else f"{version}: {MEANINGS[version]}"
        for version in there
    )
    others = " The others are C++." if "python" in there else ""
    return option(Enum("Version", [(v, v) for v in there]), f"{words}.{others}", metavar="VERSION")


def _number(help: str, most: int) -> Any:
    return option(int, help, min=1, max=most)


def _problem_of_nas(classes: str) -> dict[str, tuple[Any, Any]]:
    return {"problem_class": (option(str, f"Class of NAS: {classes}.", "--class"), "S")}


@dataclass(frozen=True)
class Application:
    """Description of an application for the command line.

    Parameters
    ----------
    help : str
    problem : dict
        The options that its program takes as arguments, in this order, each with its default.
    nprocs : int
        The default number of processes.
    versions : sequence of str
        Ours, those written by hand, and `python` if it also exists in Python. One that only moves
        and checks values has no version with overlap.
    library : tuple of str, optional
        Another library that it needs, and Debian's package of it.
    frames : bool
        Whether the versions in C++ can send their field to a page.
    """

    help: str
    problem: dict[str, tuple[Any, Any]]
    nprocs: int = 2
    versions: Sequence[str] = (*OURS, TWIN)
    library: tuple[str, str] | None = None
    frames: bool = False


_SIZES = "Rows and columns of the matrices, or MxKxN: M x K times K x N elements."
_SQUARE = "No solver.\n\nRuns on a square number of processes: 1, 4, 9, ..."


def _pattern(help: str, nprocs: int) -> Application:
    """Return one of NAS without its solver, which repeats its exchange."""
    repeated = {"iterations": (_number("Each moves all values once.", 10**6), 20)}
    versions = ("datamover", TWIN, "datatypes", "original")
    return Application(help, _problem_of_nas("S, W, A or B") | repeated, nprocs, versions)


APPLICATIONS = {
    "redblack3d": Application(
        "Red-black Gauss-Seidel relaxation with a 7-point stencil in three dimensions.",
        {
            "size": (_number("Points along each edge of the grid.", 10_000), 128),
            "iterations": (_number("Sweeps over both colors.", 10**9), 20),
        },
        versions=(*OURS, TWIN, "python"),
        frames=True,
    ),
    "nas_ft": Application(
        "NAS FT: a diffusion equation by Fourier transforms in three dimensions, class S, W or A.",
        _problem_of_nas("S, W or A"),
        versions=(*OURS, TWIN, "python"),
        library=("FFTW", "libfftw3-dev"),
    ),
    "nas_mg": Application(
        "NAS MG: Poisson's equation by multigrid in three dimensions, class S, W, A or B.",
        _problem_of_nas("S, W, A or B"),
        versions=(*OURS, TWIN, "datatypes", "original", "nozero"),
    ),
    "nas_lu": _pattern(
        "The communication of NAS LU: faces, and sweeps plane by plane. No solver.", 2
    ),
    "nas_bt": _pattern(
        f"The communication of NAS BT: faces of cells, and sweeps cell by cell. {_SQUARE}", 4
    ),
    "nas_sp": _pattern(
        f"The communication of NAS SP: that of BT, with a separate array for each value. {_SQUARE}",
        4,
    ),
    "summa": Application(
        "The product of two matrices in a two-dimensional block-cyclic layout, by SUMMA.",
        {
            "size": (option(str, _SIZES), "700"),
            "block": (_number("Rows and columns of the distributed blocks.", 20_000), 64),
        },
        versions=(*OURS, TWIN, "ring"),
        library=("a BLAS", "libopenblas-serial-dev"),
    ),
}

_FRAMES = (
    "Serve a page that shows the field after each iteration, also when the program has ended, "
    "until interrupted."
)
_TWIN = "Also run and print the hand-written versions."
#: Options of all applications after those of the problem and the version, with their defaults.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "twin": (option(bool, _TWIN, "--twin"), False),
    "rounds": (_number("Number of turns of each version.", 1000), 1),
    "json_file": (options.JsonFile, None),
    "frames": (option(str | None, _FRAMES, metavar="http://HOST:PORT"), None),
}


def program(name: str) -> str:
    """Return the path of an application's program.

    Raises
    ------
    IoFailed
        This installation was built without it.
    """
    application = APPLICATIONS.get(name)  # none: a program in Python
    return programs.program(name, PROGRAMS, application.library if application else None)


def _write(text: str, file: Path) -> None:
    """Replace the content of a file atomically."""
    if file.exists() and not file.is_file():  # a device or a pipe
        file.write_text(text)
    else:
        unfinished.replace_file(str(file.resolve()), text.encode())


def _run(name: str, problem: list[str], said: SimpleNamespace) -> None:
    version, frames = said.version.value, getattr(said, "frames", None)
    with errors_to_exit():
        launch.refuse_launcher("datamover app")
        in_python = version == "python"
        if in_python:
            if said.twin or said.rounds > 1:
                raise InvalidArgument("--twin and --rounds are for the versions in C++")
            command = [sys.executable, program(f"{name}.py"), *problem]
        else:
            others = [other for other in twins(name) if said.twin and other != version]
            command = [program(name), ",".join([version, *others]), *problem, str(said.rounds)]
        if frames is not None:
            from datamover.apps import shown

            if in_python or said.twin or said.rounds > 1 or said.json_file is not None:
                raise InvalidArgument("--frames shows one version in C++, once, without --json")
            raise typer.Exit(shown.run_command(said.nprocs, command, frames, typer.echo))
        if said.json_file is None:
            raise typer.Exit(launch.run_command(said.nprocs, command))
        with tempfile.TemporaryDirectory(prefix="datamover-") as directory:
            figures = Path(directory, "rows.json")
            code = launch.run_command(said.nprocs, [*command, str(figures)])
            text = figures.read_text() if figures.exists() else ""
        if text.rstrip().endswith("}"):  # otherwise the program was interrupted
            _write(text, said.json_file)
        raise typer.Exit(code)


def _add(name: str, application: Application) -> None:
    """Add the command of an application."""

    def command(**chosen: Any) -> None:
        problem = [str(chosen.pop(option)) for option in application.problem]
        _run(name, problem, SimpleNamespace(**chosen))

    common = {k: option for k, option in OPTIONS.items() if k != "frames" or application.frames}
    give(
        command,
        {"nprocs": (options.Processes, application.nprocs)}
        | application.problem
        | {"version": (_version_of(application.versions), "datamover")}
        | common,
    )
    app.command(name, help=application.help)(command)


for _name, _application in APPLICATIONS.items():
    _add(_name, _application)


def run(arguments: list[str]) -> None:
    """Run `datamover app ARGUMENTS`."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in APPLICATIONS:
        raise typer.BadParameter(
            f"there is no application {arguments[0]!r}; there are {', '.join(APPLICATIONS)}"
        )
    app(args=arguments, prog_name="datamover app")
