# SPDX-License-Identifier: BSD-3-Clause
"""The command line of datamover. `datamover explain`, `move`, `stream`, `bench` and `app`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from datamover import __version__, move_command, stream_command, terminal
from datamover.arguments import MOST_BYTES
from datamover.command_options import App, option
from datamover.errors import InvalidArgument
from datamover.terminal import errors_to_exit

_PICTURE = "Draw which process owns which elements, and how much each sends to every other."
app = App(
    "Moves the elements of distributed arrays from one layout to another.",
    "datamover move in.npy out.zarr --chunks 64,64,64",
    'datamover explain --shape 4096,4096 --from "(block,*)" --to "(*,block)" -n 4',
    "datamover stream view tcp://127.0.0.1:5777",
    "datamover bench redistribute -n 2",
    name="datamover",
    add_completion=True,
)


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.replace("x", ",").split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} are not integers such as 64,64,64") from None


def _check_sizes(given: dict[str, int | None]) -> None:
    for name, value in given.items():
        if value is not None and abs(value) > MOST_BYTES:
            raise InvalidArgument(f"{name} {value} does not fit 64 bits")


def _versions() -> None:
    from datamover.versions import show_versions

    show_versions()


def _report(show: Callable[[], None], help: str, name: str) -> Any:
    """Return the option that only prints something."""

    def called(wanted: bool) -> None:
        if wanted:
            show()
            raise typer.Exit

    return option(bool, help, name, callback=called, is_eager=True)


@app.callback()
def _options(
    version: _report(
        lambda: typer.echo(f"datamover {__version__}"), "Show the version.", "--version"
    ) = False,
    versions: _report(
        _versions, "Show all versions that a bug report needs.", "--versions"
    ) = False,
) -> None:
    pass


def _numbers(help: str, metavar: str = "N,N,...") -> Any:
    return option(Any, help, parser=_integers, metavar=metavar)


@app.command(
    "explain",
    'datamover explain --shape 4096,4096 --from "(block,*)" --to "(*,block)" -n 4',
    'datamover explain --shape 6,4 --from "(block,*)" --to "(*,block)" -n 4 --png p.png',
)
def explain(
    shape: _numbers("Extents of the array."),
    source: option(str, 'Layout before, such as "(block, *)".', "--from", metavar="DIST"),
    destination: option(str, 'Layout after, "(cyclic(64), cyclic(64))".', "--to", metavar="DIST"),
    nprocs: option(int, "Number of processes.", "-n", "--nprocs", min=1),
    rank: option(int | None, "Show what this process sends and receives.") = None,
    from_grid: _numbers("Process grid before.") = None,
    to_grid: _numbers("Process grid after.") = None,
    axes: _numbers(
        r"Dimension k after is dimension AXES\[k] before, as in numpy.transpose.", "K,K,..."
    ) = None,
    itemsize: option(int, "Bytes per element.", min=1) = 8,
    node_size: option(
        int | None, "Processes per node. By default, all are on one node.", min=1
    ) = None,
    top: option(int, "Number of peers or pairs to list.", min=1) = 10,
    verbose: option(bool, "Show how address relations are encoded.", "-v", "--verbose") = False,
    json_file: option(
        Path | None, "Write JSON to a file; - writes to standard output.", "--json", metavar="FILE"
    ) = None,
    png_file: option(Path | None, _PICTURE, "--png", metavar="FILE") = None,
) -> None:
    """Show what a redistribution would do: messages, bytes, balance, encodings, transports.

    Needs no MPI and no data; a million processes are fine. Transports shown are those of dm.Array.
    """
    import datamover as dm
    from datamover.explanation import explain as explain_plan
    from datamover.explanation_tables import as_tables
    from datamover.picture import check_drawable, draw

    with errors_to_exit():
        if png_file is not None:
            check_drawable(png_file)
        _check_sizes(
            {"-n": nprocs, "--rank": rank, "--itemsize": itemsize, "--node-size": node_size}
        )
        axes = tuple(range(len(shape))) if axes is None else axes
        if sorted(axes) != list(range(len(shape))):
            raise InvalidArgument(f"axes {axes} are not a permutation of 0 .. {len(shape) - 1}")
        before = dm.BlockCyclic(shape, source, nprocs=nprocs, grid=from_grid)
        after = dm.BlockCyclic(
            tuple(shape[a] for a in axes), destination, nprocs=nprocs, grid=to_grid
        )
        plan = dm.redistribute(before, after, axes=axes)
        found = explain_plan(plan, rank=rank, elem_bytes=itemsize, node_size=node_size)
        if str(json_file) == "-":
            typer.echo(found.dumps())
        else:
            terminal.console().print(as_tables(found, top, verbose))
            if json_file is not None:
                json_file.write_text(found.dumps())
        if png_file is not None:
            draw(plan, found, png_file)


#: Settings of a command that passes all arguments to another command line.
_PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,  # keeps a "--"
    "help_option_names": [],
}


@app.command(context_settings=_PASSED_ON)
def move(ctx: typer.Context) -> None:
    """Move an array, or a whole file, in parallel: `datamover move INPUT OUTPUT`."""
    raise typer.Exit(move_command.run(ctx.args))


app.add_typer(stream_command.app, name="stream")


@app.command(context_settings=_PASSED_ON)
def bench(ctx: typer.Context) -> None:
    """Compare the speed with other libraries and MPI: `datamover bench NAME -n P --json FILE`."""
    from datamover.bench.command import app as bench_app

    bench_app(args=ctx.args, prog_name="datamover bench")


@app.command("app", context_settings=_PASSED_ON)
def application(ctx: typer.Context) -> None:
    """Run a complete application and its hand-written twin: `datamover app NAME -n P --twin`."""
    from datamover.apps import command

    command.run(ctx.args)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
