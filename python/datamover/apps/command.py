# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover app`."""

from __future__ import annotations

import os
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from datamover import launch
from datamover.bench import options, programs
from datamover.errors import InvalidArgument, InvalidState
from datamover.files import placing

#: Applications that need another library, and Debian's package of it.
LIBRARIES = {
    "nas_ft": ("FFTW", "libfftw3-dev"),
    "summa": ("a BLAS", "libopenblas-serial-dev"),
}

#: Applications that also exist in Python.
IN_PYTHON = ("redblack3d", "nas_ft")

#: Applications that move and check values without solving anything, so without overlap.
PATTERNS = ("nas_lu", "nas_bt", "nas_sp")

#: Hand-written versions in addition to `by_hand`.
OTHER_TWINS = {
    "nas_mg": ["datatypes", "original", "nozero"],
    "summa": ["ring"],
    **{name: ["datatypes", "original"] for name in PATTERNS},
}

PROGRAMS = Path(__file__).parent / "bin"


app = typer.Typer(
    help="Run a complete application, alone or with its twin in hand-written MPI.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


#: Descriptions of the versions of all applications.
MEANINGS = {
    "datamover": "datamover",
    "overlap": "computes while data travels",
    "thread": "the same with a progress thread",
    "by_hand": "MPI without datamover",
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
    return ["by_hand", *OTHER_TWINS.get(name, [])]


def versions(name: str) -> list[str]:
    """Return all versions of an application.

    Examples
    --------
    >>> from datamover.apps.command import versions
    >>> versions("nas_ft")
    ['datamover', 'overlap', 'thread', 'by_hand', 'python']
    """
    overlapped = [] if name in PATTERNS else ["overlap", "thread"]
    in_python = ["python"] if name in IN_PYTHON else []
    return ["datamover", *overlapped, *twins(name), *in_python]


def _version_of(name: str) -> Any:
    """Return the option that selects among the versions of an application."""
    there = versions(name)
    words = "; ".join(
        version if version == MEANINGS[version] else f"{version}: {MEANINGS[version]}"
        for version in there
    )
    others = " The others are C++." if name in IN_PYTHON else ""
    return Annotated[
        Enum("Version", {version: version for version in there}),
        typer.Option(metavar="VERSION", help=f"{words}.{others}"),
    ]


Class = Annotated[str, typer.Option("--class", help="Class of NAS: S, W, A or B.")]
Iterations = Annotated[int, typer.Option(min=1, max=10**6, help="Each moves all values once.")]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Number of turns of each version.")]
Frames = Annotated[
    str | None,
    typer.Option(
        metavar="http://HOST:PORT",
        help="Serve a page that shows the field after each iteration, also when the program has "
        "ended, until interrupted.",
    ),
]
Twin = Annotated[
    bool,
    typer.Option("--twin", metavar="", help="Also run and print the hand-written versions."),
]


def program(name: str) -> str:
    """Return the path of an application's program.

    Raises
    ------
    IoFailed
        This installation was built without it.
    """
    path = PROGRAMS / name
    if path.exists():
        return str(path)
    if name not in LIBRARIES:
        raise programs.not_built(path)
    library, package = LIBRARIES[name]
    # With DATAMOVER_BENCH=ON there are at least the applications in Python.
    missing = library if PROGRAMS.exists() else f"DATAMOVER_BENCH=ON; it also needs {library}"
    raise programs.not_built(path, missing, f"apt-get install {package} && ")


def _write(text: str, file: Path) -> None:
    """Replace the content of a file atomically."""
    if file.exists() and not file.is_file():  # a device or a pipe
        file.write_text(text)
        return
    target = str(file.resolve())
    temporary = Path(placing.temporary_path(target, str(os.getpid())))
    try:
        temporary.write_text(text)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _run(
    name: str,
    nprocs: int,
    said: Enum,
    twin: bool,
    rounds: int,
    problem: list[str],
    json_file: Path | None,
    frames: str | None = None,
) -> None:
    version = said.value
    with options.errors_to_exit():
        if launch.inside_launcher():
            raise InvalidState(
                "datamover app starts its processes itself: run it without mpiexec or srun"
            )
        if version == "python":
            if twin or rounds > 1:
                raise InvalidArgument("--twin and --rounds are for the versions in C++")
            command = [sys.executable, program(f"{name}.py"), *problem]
        else:
            chosen = [version, *(other for other in twins(name) if twin and other != version)]
            command = [program(name), ",".join(chosen), *problem, str(rounds)]
        if frames is not None:
            from datamover.apps import shown

            if version == "python" or twin or rounds > 1 or json_file is not None:
                raise InvalidArgument("--frames shows one version in C++, once, without --json")
            raise typer.Exit(shown.run_command(nprocs, command, frames, typer.echo))
        if json_file is None:
            raise typer.Exit(launch.run_command(nprocs, command))
        with tempfile.TemporaryDirectory(prefix="datamover-") as directory:
            figures = Path(directory, "rows.json")
            code = launch.run_command(nprocs, [*command, str(figures)])
            text = figures.read_text() if figures.exists() else ""
        if text.rstrip().endswith("}"):  # otherwise the program was interrupted
            _write(text, json_file)
        raise typer.Exit(code)


@app.command("redblack3d")
def redblack3d(
    nprocs: options.Processes = 2,
    size: Annotated[
        int, typer.Option(min=1, max=10_000, help="Points along each edge of the grid.")
    ] = 128,
    iterations: Annotated[
        int, typer.Option(min=1, max=10**9, help="Sweeps over both colors.")
    ] = 20,
    version: _version_of("redblack3d") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
    frames: Frames = None,
) -> None:
    """Red-black Gauss-Seidel relaxation with a 7-point stencil in three dimensions."""
    _run(
        "redblack3d", nprocs, version, twin, rounds, [str(size), str(iterations)], json_file, frames
    )


@app.command("nas_ft")
def nas_ft(
    nprocs: options.Processes = 2,
    problem_class: Annotated[str, typer.Option("--class", help="Class of NAS: S, W or A.")] = "S",
    version: _version_of("nas_ft") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """NAS FT: a diffusion equation by Fourier transforms in three dimensions, class S, W or A."""
    _run("nas_ft", nprocs, version, twin, rounds, [problem_class], json_file)


@app.command("nas_mg")
def nas_mg(
    nprocs: options.Processes = 2,
    problem_class: Class = "S",
    version: _version_of("nas_mg") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """NAS MG: Poisson's equation by multigrid in three dimensions, class S, W, A or B."""
    _run("nas_mg", nprocs, version, twin, rounds, [problem_class], json_file)


@app.command("nas_lu")
def nas_lu(
    nprocs: options.Processes = 2,
    problem_class: Class = "S",
    iterations: Iterations = 20,
    version: _version_of("nas_lu") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """The communication of NAS LU: faces, and sweeps plane by plane. No solver."""
    problem = [problem_class, str(iterations)]
    _run("nas_lu", nprocs, version, twin, rounds, problem, json_file)


@app.command("nas_bt")
def nas_bt(
    nprocs: options.Processes = 4,
    problem_class: Class = "S",
    iterations: Iterations = 20,
    version: _version_of("nas_bt") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """The communication of NAS BT: faces of cells, and sweeps cell by cell. No solver.

    Runs on a square number of processes: 1, 4, 9, ...
    """
    problem = [problem_class, str(iterations)]
    _run("nas_bt", nprocs, version, twin, rounds, problem, json_file)


@app.command("nas_sp")
def nas_sp(
    nprocs: options.Processes = 4,
    problem_class: Class = "S",
    iterations: Iterations = 20,
    version: _version_of("nas_sp") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """The communication of NAS SP: that of BT, with a separate array for each value. No solver.

    Runs on a square number of processes: 1, 4, 9, ...
    """
    problem = [problem_class, str(iterations)]
    _run("nas_sp", nprocs, version, twin, rounds, problem, json_file)


@app.command("summa")
def summa(
    nprocs: options.Processes = 2,
    size: Annotated[
        str,
        typer.Option(
            help="Rows and columns of the matrices, or MxKxN: M x K times K x N elements."
        ),
    ] = "700",
    block: Annotated[
        int, typer.Option(min=1, max=20_000, help="Rows and columns of the distributed blocks.")
    ] = 64,
    version: _version_of("summa") = "datamover",
    twin: Twin = False,
    rounds: Rounds = 1,
    json_file: options.JsonFile = None,
) -> None:
    """The product of two matrices in a two-dimensional block-cyclic layout, by SUMMA."""
    _run("summa", nprocs, version, twin, rounds, [size, str(block)], json_file)


def run(arguments: list[str]) -> None:
    """Run `datamover app ARGUMENTS`."""
    names = [str(command.name) for command in app.registered_commands]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        raise typer.BadParameter(
            f"there is no application {arguments[0]!r}; there are {', '.join(names)}"
        )
    app(args=arguments, prog_name="datamover app")
