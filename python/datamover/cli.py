# SPDX-License-Identifier: BSD-3-Clause
"""What can be done from a shell? `datamover explain`, `move`, `bench` and `app`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from datamover import launch, lifeline
from datamover.errors import Error, InvalidArgument

app = typer.Typer(
    name="datamover",
    help="Moves the elements of distributed arrays from one layout to another.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: A progress bar appears when the work has taken this long.
PATIENCE_SECONDS = 1.0

#: Of the pictures that --png draws.
PICTURE_SUFFIXES = (".png", ".pdf", ".svg")


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.replace("x", ",").split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} are no integers such as 64,64,64") from None


def _bytes(text: str) -> int:
    """Read a size such as 1000000, 512M or 1.5GiB; K, M, G, T count in 1024s."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(?:([KMGT])(?:i?B)?|B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size such as 512M")
    number, unit = found.groups()
    factor = 1 << (10 * (1 + "KMGT".index(unit.upper())) if unit else 0)
    size = int(number) * factor if number.isdigit() else int(float(number) * factor)
    if not 1 <= size < 1 << 63:
        raise typer.BadParameter(f"{text!r} is no size from 1 to 2**63 bytes")
    return size


def _version(wanted: bool) -> None:
    if wanted:
        from datamover import _plan

        typer.echo(f"datamover {_plan.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def explain(
    shape: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Extents of the array.")
    ],
    source: Annotated[
        str, typer.Option("--from", metavar="DIST", help='Layout before, such as "(block, *)".')
    ],
    destination: Annotated[
        str, typer.Option("--to", metavar="DIST", help='Layout after, "(cyclic(64), cyclic(64))".')
    ],
    nprocs: Annotated[int, typer.Option("-n", "--nprocs", min=1, help="Number of processes.")],
    rank: Annotated[
        int | None, typer.Option(help="Show what this process sends and receives.")
    ] = None,
    from_grid: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Process grid before.")
    ] = None,
    to_grid: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Process grid after.")
    ] = None,
    axes: Annotated[
        Any,
        typer.Option(
            parser=_integers,
            metavar="K,K,...",
            help="Dimension k after is dimension AXES[k] before, as in numpy.transpose.",
        ),
    ] = None,
    itemsize: Annotated[int, typer.Option(min=1, help="Bytes per element.")] = 8,
    node_size: Annotated[
        int | None, typer.Option(min=1, help="Processes per node; all on one if not given.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of peers or pairs to list.")] = 10,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write everything as JSON; - is the output."),
    ] = None,
    png_file: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Draw holdings and traffic.")
    ] = None,
) -> None:
    """Show what a redistribution would do: messages, bytes, balance, encodings, transports.

    Needs no MPI and no data; a million processes are fine.
    """
    import datamover as dm
    from datamover.explanation import explain as explain_plan
    from datamover.explanation_tables import as_tables

    with _errors_to_exit():
        if png_file is not None and png_file.suffix.lower() not in PICTURE_SUFFIXES:
            raise InvalidArgument(f"{png_file} does not end in {', '.join(PICTURE_SUFFIXES)}")
        axes = tuple(range(len(shape))) if axes is None else axes
        if sorted(axes) != list(range(len(shape))):
            raise InvalidArgument(f"axes {axes} are no permutation of 0 .. {len(shape) - 1}")
        before = dm.BlockCyclic(shape, source, nprocs=nprocs, grid=from_grid)
        after = dm.BlockCyclic(
            tuple(shape[a] for a in axes), destination, nprocs=nprocs, grid=to_grid
        )
        plan = dm.redistribute(before, after, axes=axes)
        found = explain_plan(plan, rank=rank, elem_bytes=itemsize, node_size=node_size)
        if str(json_file) == "-":
            typer.echo(found.dumps())
        else:
            launch.console().print(as_tables(found, top))
            if json_file is not None:
                json_file.write_text(found.dumps())
        if png_file is not None:
            from datamover.picture import draw

            draw(plan, found, png_file)


@app.command()
def move(
    source: Annotated[str, typer.Argument(metavar="INPUT", help=".npy, raw or Zarr.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help=".npy, raw or Zarr v3.")],
    nprocs: Annotated[
        int | None,
        typer.Option("-n", "--nprocs", min=1, help="Processes to start (not under mpiexec, srun)."),
    ] = None,
    chunks: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Chunks of a Zarr output.")
    ] = None,
    shards: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Shards of a Zarr output.")
    ] = None,
    compressor: Annotated[
        str | None, typer.Option(help="Of a Zarr output: auto, none, zstd, gzip or blosc.")
    ] = None,
    shape: Annotated[
        Any, typer.Option(parser=_integers, metavar="N,N,...", help="Extents of a raw input.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="NumPy dtype of a raw input, as f8.")] = None,
    order: Annotated[str | None, typer.Option(help="C or F: order of a raw input.")] = None,
    input_format: Annotated[str | None, typer.Option(help="npy, raw or zarr.")] = None,
    output_format: Annotated[
        str | None, typer.Option("--format", help="Of the output: npy, raw or zarr.")
    ] = None,
    output_order: Annotated[
        str | None, typer.Option(help="C or F: order of an .npy or raw output.")
    ] = None,
    axes: Annotated[
        Any,
        typer.Option(
            parser=_integers,
            metavar="K,K,...",
            help="Output dimension k is input dimension AXES[k], as in numpy.transpose.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an output that is there.")] = False,
    overwrite_group: Annotated[
        bool, typer.Option(help="Replace it also where it is a Zarr group, with all its arrays.")
    ] = False,
    max_bytes: Annotated[
        Any,
        typer.Option(
            parser=_bytes, metavar="SIZE", help="Memory per process for its part, such as 512M."
        ),
    ] = "256M",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report, or the plan, as JSON.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Move an array from one file to another, in parallel.

    The output appears under its name when it is complete. One process with a thread per core, and
    no MPI, unless -n starts several; under mpiexec or srun it uses those that were started.
    """
    for name, value in (("--order", order), ("--output-order", output_order)):
        if value not in (None, "C", "F"):
            raise typer.BadParameter(f"{value!r} is neither C nor F", param_hint=name)
    several = launch.inside_launcher() or (nprocs or 1) > 1
    if dry_run and several:
        raise typer.BadParameter("it plans for one process: leave -n away", param_hint="--dry-run")
    if not launch.inside_launcher() and several:
        raise typer.Exit(_start_processes(nprocs, output))
    from datamover.files.formats import MoveOptions

    options = MoveOptions(
        shape=shape,
        dtype=dtype,
        order=order,
        input_format=input_format,
        output_format=output_format,
        output_order=output_order,
        chunks=chunks,
        shards=shards,
        compressor=compressor,
        axes=axes,
        overwrite=overwrite,
        overwrite_group=overwrite_group,
        max_bytes=max_bytes,
    )
    show = _show_nothing if quiet else _print_json if as_json else _print_report
    if dry_run:
        with _errors_to_exit():
            _show_intention(source, output, options, as_json, quiet)
        return
    if several:
        raise typer.Exit(_move_as_one_of_several(source, output, nprocs, options, show, quiet))
    raise typer.Exit(_move_alone(source, output, options, show, quiet))


def _start_processes(nprocs: int, output: str) -> int:
    from datamover.files import formats, placing
    from datamover.files.transfer import TOKEN

    token = os.urandom(6).hex()
    os.environ[TOKEN] = token
    with _errors_to_exit():
        path = formats.local_path(output)
        before = _identity(path)
        with lifeline.signals_interrupt() as caught:  # while a launcher is looked for
            try:
                end = launch.run_processes(nprocs, sys.argv[1:])
            except KeyboardInterrupt:
                return _tell_interruption(caught[0], path, before)
        if end.status != 0:  # also where they were killed
            placing.clean_up(placing.temporary_path(path, token), path)
    if end.interrupted_by is not None and end.status is None:
        return _tell_interruption(end.interrupted_by, path, before)
    if end.status is None and end.code != 0:
        why = f"signal {-end.code}" if end.code < 0 else f"exit code {end.code}"
        _print_error(f"the processes ended early ({why}); {_state(path, before)}")
        return end.code if end.code > 0 else 128 - end.code
    return end.code if end.status is None else end.status


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _state(path: str, before: tuple[int, int] | None) -> str:
    """Say what became of an output."""
    after = _identity(path)
    if after != before:
        return f"{path} is complete"
    return f"{path} was not written" if after is None else f"{path} is as it was"


def _tell_interruption(number: signal.Signals, path: str, before: tuple[int, int] | None) -> int:
    _print_error(f"interrupted by {number.name}; {_state(path, before)}")
    return 128 + number


def _move_alone(source: str, output: str, options: Any, show: Any, quiet: bool) -> int:
    """Move by this process, without MPI; return the code to exit with."""
    from datamover.files import move as move_files

    with lifeline.signals_interrupt() as caught:
        before = _identity(output)
        shown = _ProgressBar(quiet)
        try:
            report = move_files(None, source, output, options, progress=shown.begin)
        except Error as e:
            shown.end()
            _print_error(e)
            return 1
        except KeyboardInterrupt:
            if not caught:
                raise
            shown.end()
            return _tell_interruption(caught[0], output, before)
        finally:
            shown.end()
    show(report, output)
    return 0


def _move_as_one_of_several(
    source: str, output: str, nprocs: int | None, options: Any, show: Any, quiet: bool
) -> int:
    """Do this process's part; return the code to exit with."""
    lifeline.hold_on()
    lifeline.die_with_parent()
    if not lifeline.is_held():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no words from each of them
    from mpi4py import MPI

    from datamover.files import move as move_files

    comm = MPI.COMM_WORLD
    shown = _ProgressBar(quiet) if comm.rank == 0 else None
    try:
        launch.check_launch(comm)
        if nprocs is not None and nprocs != comm.size:
            raise InvalidArgument(
                f"-n {nprocs} was given inside a launch of {comm.size} processes; leave -n away"
            )
        report = move_files(comm, source, output, options, progress=shown.begin if shown else None)
    except Error as e:
        if shown:
            shown.end()
            _print_error(e)
        return launch.leave(1, comm.rank)
    except Exception:
        if comm.size == 1:
            raise
        traceback.print_exc()
        comm.Abort(1)
        raise
    finally:
        if shown:
            shown.end()
    if shown:
        show(report, output)
    return launch.leave(0, comm.rank)


class _ProgressBar:
    """Shows how far rank 0 is, on a terminal and only if it takes long."""

    def __init__(self, quiet: bool) -> None:
        self._wanted = not quiet and launch.is_terminal(stderr=True)
        self._bar: Any = None
        self._total_bytes = 0
        self._begin = time.monotonic()
        self._done_bytes = 0

    def begin(self, total_bytes: int):
        self._total_bytes = total_bytes
        return self.tell

    def tell(self, nbytes: int) -> None:
        self._done_bytes += nbytes
        if not self._wanted:
            return
        if self._bar is None and time.monotonic() - self._begin > PATIENCE_SECONDS:
            self._show()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done_bytes)

    def _show(self) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._bar = Progress(
            TextColumn("moving"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=launch.console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("moving", total=self._total_bytes)
        self._bar.start()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._wanted = False


def _size(nbytes: float) -> str:
    from rich.filesize import decimal

    return decimal(round(nbytes))


def _show_nothing(report: Any, output: str) -> None:
    """Be quiet."""


def _as_dict(spec: Any, output: str) -> dict[str, Any]:
    return {
        "output": output,
        "shape": list(spec.shape),
        "dtype": str(spec.dtype),
        "order": spec.order,
        "bytes": spec.nbytes,
    }


def _print_json(report: Any, output: str) -> None:
    figures = {k: v for k, v in vars(report).items() if k != "spec"}
    typer.echo(json.dumps(_as_dict(report.spec, output) | figures))


def _print_title(spec: Any, output: str) -> None:
    shape = " x ".join(f"{n:,}" for n in spec.shape) or "one element"
    _print(f"{_bold(output)}  {shape} of {spec.dtype}")


def _print_report(report: Any, output: str) -> None:
    many = f"{report.processes} process{'' if report.processes == 1 else 'es'}"
    if report.threads > 1:
        many += f" of {report.threads} threads"
    pieces = "passes" if report.reads else "slabs"
    in_slabs = f", in {report.slabs} {pieces}" if report.slabs > 1 else ""
    rate = _size(report.bytes / report.seconds)
    _print_title(report.spec, output)
    _print(
        f"{_bold(_size(report.bytes))} in {_bold(f'{report.seconds:.3g} s')}, "
        f"{_bold(f'{rate}/s')}, on {many}{in_slabs}: "
        f"set up {report.set_up_seconds:.3g} s, "
        f"read {report.read_seconds:.3g} s, redistribute {report.redistribute_seconds:.3g} s, "
        f"write {report.write_seconds:.3g} s, sync {report.sync_seconds:.3g} s"
    )


def _show_intention(source: str, output: str, options: Any, as_json: bool, quiet: bool) -> None:
    from datamover.files import intend

    found = intend(source, output, options)
    plan = found.plan
    if quiet:
        return
    if as_json:
        typer.echo(json.dumps(_as_dict(found.spec, output) | found.figures()))
        return
    _print_title(found.spec, output)
    if plan is None:
        _print("nothing to plan: no element, or one")
        return
    again = plan.reads / plan.source_chunks
    often = "each once" if plan.reads == plan.source_chunks else f"each {again:.3g} times"
    passes = f"{plan.passes:,} pass{'' if plan.passes == 1 else 'es'}"
    kind = "pieces" if plan.source.is_flat else "chunks"
    if plan.source.is_flat and plan.passes > 1:
        often = "cut at the ends of passes"
    _print(f"{passes} of {_extents(plan.box)}, on {plan.threads} threads")
    _print(
        f"reads    {plan.source_chunks:,} {kind} of {_extents(plan.source.chunk)}, {often}: "
        f"{_size(plan.read_bytes)}"
    )
    _print(
        f"writes   {plan.chunks:,} {'pieces' if plan.output.is_flat else 'chunks'} of "
        f"{_extents(plan.output.chunk)} to {found.files:,} file{'' if found.files == 1 else 's'}: "
        f"{_size(plan.written_bytes)} before encoding"
    )
    _print(
        f"memory   {_size(plan.memory_bytes)}: {plan.open_groups:,} x {_size(plan.group_bytes)} "
        f"of the output at a time, {_size(plan.scratch_bytes)} for the threads"
    )


def _extents(box: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in box)


#: Of a command whose words all go to another command line.
_PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@app.command(context_settings=_PASSED_ON)
def bench(ctx: typer.Context) -> None:
    """Measure against other ways to do the same: `datamover bench NAME -n P --json FILE`."""
    from datamover.bench.command import app as bench_app

    bench_app(args=ctx.args, prog_name="datamover bench")


@app.command("app", context_settings=_PASSED_ON)
def application(ctx: typer.Context) -> None:
    """Run a complete application beside its hand-written twin: `datamover app NAME -n P --twin`."""
    from datamover.apps import command

    command.run(ctx.args)


def _bold(text: str) -> str:
    return typer.style(text, bold=True)


def _print(text: str, stderr: bool = False) -> None:
    """Print as it stands, with colours where a terminal shows them."""
    typer.echo(text, err=stderr, color=launch.is_terminal(stderr))


def _print_error(e: BaseException | str) -> None:
    _print(f"{typer.style('error:', fg='red', bold=True)} {e}", stderr=True)


@contextlib.contextmanager
def _errors_to_exit() -> Iterator[None]:
    """Show an error of ours, or of the system, and exit with 1."""
    try:
        yield
    except (Error, OSError) as e:
        _print_error(e)
        raise typer.Exit(1) from e


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
