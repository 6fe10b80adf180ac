# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover move`, its options and its output.

It is often used for small files, so it loads little, and no MPI unless several processes are
requested.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from datamover import launch, lifeline, terminal, tied
from datamover.errors import Error, InvalidArgument, IoFailed
from datamover.terminal import bold, print_error

#: A progress bar appears when the work has taken this long.
PATIENCE_SECONDS = 1.0

DESCRIPTION = (
    "Move an array, or all of an HDF5 file or Zarr group, to another file in parallel.\n\n"
    "The output appears under its name when it is complete. By default, one process works with a "
    "thread per core and without MPI; -n starts several. Under mpiexec or srun, the started "
    "processes are used."
)
EXAMPLES = """\
datamover move in.npy out.zarr --chunks 64,64,64
datamover move run.h5:/u u.npy --region 0:10,:,: --output-dtype f4
datamover move tas_*.nc tas.zarr --along time --chunks 8760,72,144 -n 2"""


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line, like all other errors, without listing all options."""

    def print_help(self, file: Any = None) -> None:
        """Load the modules for the help, which a move does not need."""
        from datamover import command_options

        command_options.show(self)

    def error(self, message: str) -> NoReturn:
        """Print an error and exit. `message` is argparse's, which calls options arguments."""
        print_error(f"{message.removeprefix('argument ')}; all options: {self.prog} --help")
        raise SystemExit(2)

    def parse_all(self, words: list[str]) -> argparse.Namespace:
        """Parse all arguments. Exits if one is wrong."""
        try:
            said, others = self.parse_known_intermixed_args(words)
        except argparse.ArgumentError as e:
            self.error(self._words_of(e))
        if others:
            self.error(self._words_of_unknown(others[0].partition("=")[0]))
        return said

    def _words_of(self, e: argparse.ArgumentError) -> str:
        """Return the message for an option whose value is missing, or which has one too many."""
        action = self._option_string_actions.get((e.argument_name or "").split("/")[0])
        if action is not None and action.nargs == 0:
            return f"{e.argument_name} takes no value"
        if action is None or not str(e.message).startswith("expected"):
            return str(e)
        return f"{e.argument_name} needs a value: {action.option_strings[-1]} {action.metavar}"

    def _words_of_unknown(self, word: str) -> str:
        import difflib

        near = difflib.get_close_matches(word, self._option_string_actions, n=1)
        return f"there is no option {word}" + "".join(f"; there is {name}" for name in near)


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.replace("x", ",").split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are not integers such as 64,64,64") from None


def _chunks(text: str) -> tuple[Any, ...]:
    """Read extents such as 64,64; chunks of several extents along a dimension as 3+5+2,64."""
    try:
        found = [tuple(map(int, one.split("+"))) for one in text.replace("x", ",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} are not integers such as 64,64,64 or 3+5+2,64"
        ) from None
    return tuple(sizes[0] if len(sizes) == 1 else sizes for sizes in found)


def _order(text: str) -> str:
    if text not in ("C", "F"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither C nor F")
    return text


def _count_of(what: str) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what}, at least 1")
        return int(text)

    return count


def _region(text: str) -> tuple[tuple[int | None, int | None], ...]:
    """Read a box such as 0:100,:,-5: in NumPy's notation, without steps."""
    pairs: list[tuple[int | None, int | None]] = []
    for word in text.split(","):
        found = re.fullmatch(r"(-?\d+)?:(-?\d+)?", word.strip())
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not a region such as 0:100,:,5:9")
        begin, end = (None if n is None else int(n) for n in found.groups())
        pairs.append((begin, end))
    return tuple(pairs)


def _bytes(text: str) -> int:
    """Read a size such as 1000000, 512M or 1.5GiB; K, M, G, T are powers of 1024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(?:([KMGT])(?:i?B)?|B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512M")
    number, unit = found.groups()
    factor = 1 << (10 * (1 + "KMGT".index(unit.upper())) if unit else 0)
    size = int(number) * factor if number.isdigit() else int(float(number) * factor)
    if not 1 <= size < 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1 to 2**63 bytes")
    return size


def _parser() -> _Parser:
    parser = _Parser(
        "datamover move",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        allow_abbrev=False,
        exit_on_error=False,
    )
    # A value such as -2,3 or -5: would otherwise count as an option.
    parser._negative_number_matcher = re.compile(r"-\d")
    add = parser.add_argument
    extents: dict[str, Any] = {"type": _integers, "metavar": "N,N,..."}
    dtype: dict[str, Any] = {"metavar": "DTYPE"}
    order: dict[str, Any] = {"type": _order, "metavar": "C|F"}
    file_format: dict[str, Any] = {"metavar": "npy|raw|zarr|hdf5"}
    read = "An .npy, raw, Zarr or HDF5 file, or a dataset run.h5:/u. Addresses (https://...) too."
    add("inputs", nargs="+", metavar="INPUT...", help=f"{read} Several files with --along.")
    add("output", metavar="OUTPUT", help=".npy, raw, Zarr (also s3://...), HDF5, run.h5:/u.")
    processes = "Number of processes to start (not under mpiexec or srun)."
    add("-n", "--nprocs", type=_count_of("processes"), metavar="N", help=processes)
    add(
        "--chunks",
        type=_chunks,
        metavar="N,N,...",
        help="Output chunk shape (Zarr, HDF5). For a whole file or group: applies to arrays with "
        "this many dimensions. For Zarr, 3+5+2 lists the sizes of all chunks along a dimension.",
    )
    add("--shards", **extents, help="Shard shape of a Zarr output.")
    compressor = "For Zarr: auto, none, zstd, gzip, blosc; for HDF5: none, gzip."
    add("--compressor", metavar="NAME", help=compressor)
    of_format = "Format of a Zarr output; by default that of its group, or 3."
    add("--zarr-format", type=int, metavar="2|3", help=of_format)
    add("--shape", **extents, help="Extents of a raw input.")
    of_raw = "Element type of a raw input. For other inputs, the same as --output-dtype."
    add("--dtype", **dtype, help=of_raw)
    add("--output-dtype", **dtype, help="Convert numbers to this type, such as f4.")
    add("--region", type=_region, metavar="A:B,:,...", help="Move only this part of the input.")
    add("--check", metavar="crc32c", help="Read the output again and compare checksums.")
    add("--order", **order, help="Order of a raw input.")
    add("--input-format", **file_format, help="Format of the input, if its name has no extension.")
    add("--format", **file_format, dest="output_format", help="Format of the output.")
    add("--output-order", **order, help="Order of an .npy or raw output.")
    transposed = "Output dimension k is input dimension AXES[k], as in numpy.transpose."
    add("--axes", type=_integers, metavar="K,K,...", help=transposed)
    names = "Names of the output's dimensions (Zarr, HDF5), such as t,y,x."
    add("--dims", type=lambda text: tuple(text.split(",")), metavar="NAME,...", help=names)
    joined = "Join the inputs along this dimension. INPUT may be a pattern in quotes, 'tas_*.nc'."
    add("--along", metavar="NAME", help=joined)
    appended = "With --along: append the files to the existing Zarr group."
    add("--append", action="store_true", help=appended)
    add("--overwrite", action="store_true", help="Replace an existing output.")
    whole_group = "Replace an existing Zarr group too, with all its arrays."
    add("--overwrite-group", action="store_true", help=whole_group)
    memory = "Memory per process. By default 256M, or one chunk if that is larger (at most 2G)."
    add("--max-bytes", type=_bytes, default=argparse.SUPPRESS, metavar="SIZE", help=memory)
    place = "Directory for the intermediate of a move in two passes; by default that of the output."
    add("--temporary", metavar="DIR", help=place)
    add("--dry-run", action="store_true", help="Show the plan and write nothing.")
    add("--json", action="store_true", help="Print the report, or the plan, as JSON.")
    add("-q", "--quiet", action="store_true", help="Print errors only.")
    return parser


class Output:
    """An output as it was before the move.

    Parameters
    ----------
    path : str
        The result of `names.place_of`, without a dataset.
    temporary : str, optional
        Directory for the intermediate of a move in two passes.
    """

    def __init__(self, path: str, temporary: str | None = None):
        self.path, self._temporary = path, temporary
        self._before = _identity(path)
        self._token = ""

    def is_for_processes(self) -> str:
        """Name the output of the processes that this one starts, so that it can remove it.

        Returns the variable of their environment, "NAME=value".
        """
        self._token = os.environ[launch.MOVE_TOKEN] = launch.new_token()
        return f"{launch.MOVE_TOKEN}={self._token}"

    def clean_up(self) -> None:
        """Remove what killed or failed processes have left at a path."""
        from datamover.files import addresses, intermediate, unfinished

        directory = intermediate.directory_for(self.path, self._temporary)
        intermediate.clean_up(directory, self._token)
        if not addresses.is_address(self.path):
            unfinished.clean_up(unfinished.temporary_path(self.path, self._token), self.path)

    def words(self) -> str:
        """Return the state of the output; at an address, leftovers are removed first."""
        from datamover.files import addresses

        if addresses.is_address(self.path):
            return self._words_of_address()
        after = _identity(self.path)
        if after != self._before:
            return f"{self.path} is complete"
        return f"{self.path} was not written" if after is None else f"{self.path} is as it was"

    def _words_of_address(self) -> str:
        from datamover.files import address_place

        try:
            is_there = address_place.clean_up(self.path, self._token)
        except (Error, OSError):
            return self.words_of_left()
        return f"{self.path} is as it was, or complete" if is_there else f"{self.path} is not there"

    def words_of_left(self) -> str:
        """Return what may be left of an output at an address, if no process removes it."""
        return (
            f"{self.path} may hold chunks of it, which a move there with --overwrite removes; if "
            "it holds zarr.json, .zarray or .zgroup, it is complete"
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def run(words: list[str]) -> int:
    """Run the command with the arguments after `move`; return the exit code."""
    parser = _parser()
    said = parser.parse_all(words)
    said.source = said.inputs[0] if len(said.inputs) == 1 else said.inputs
    several = launch.inside_launcher() or (said.nprocs or 1) > 1
    if said.dry_run and launch.inside_launcher():
        parser.error("--dry-run: it works in a single process only; pass -n for a plan for several")
    if not said.dry_run and not launch.inside_launcher() and several:
        _check_count(parser, said.nprocs)
        return _start_processes(said)
    if any("://" in name for name in (*said.inputs, said.output)):
        import logging

        # zarr-python makes several requests to a store, and raises one error.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    from datamover.files.formats import speaking_of_options

    with speaking_of_options():
        return _run(said, several)


def _check_count(parser: _Parser, nprocs: int) -> None:
    """Reject a number of processes that would overload the machine."""
    too_many = launch.too_many(nprocs)
    if too_many:
        parser.error(
            f"-n/--nprocs: {too_many}. Without -n each core has a thread; "
            "for several machines, use mpiexec or srun"
        )


def _run(said: argparse.Namespace, several: bool) -> int:
    """Show the plan, or move as this process; return the exit code."""
    from datamover.files import at_work

    at_work.IS_OWN_PROCESS = True
    options = _options_of(said)
    if not said.dry_run:
        return (_move_as_one_of_several if several else _move_alone)(said, options)
    try:
        _show_intention(said, options)
    except (Error, OSError) as e:
        print_error(e)
        return 1
    return 0


def _options_of(said: argparse.Namespace) -> Any:
    from datamover.files.formats import MoveOptions

    others = ("inputs", "source", "output", "nprocs", "dry_run", "json", "quiet")
    return MoveOptions(**{k: v for k, v in vars(said).items() if k not in others})


def _start_processes(said: argparse.Namespace) -> int:
    """Move with newly started processes; return the exit code."""
    shown = Output(said.output)
    with lifeline.signals_interrupt() as caught:
        try:
            shown = _output_of(said.output, said.temporary)
            _check_file_limit(said)
            mark, status = shown.is_for_processes(), None
            try:
                code, status = launch.run_processes(said.nprocs, sys.argv[1:], mark)
            finally:
                if status != 0:  # also if they were killed
                    with lifeline.all_deferred():
                        shown.clean_up()
        except (Error, OSError) as e:
            print_error(e)
            return 1
        except KeyboardInterrupt:
            if not caught:
                raise
            return _tell_interruption(caught[0], shown)
    if status is None and code != 0:
        return _tell_early_end(code, shown)
    return code if status is None else status


def _file_limit_bytes() -> int | None:
    """Return the size limit of files that this process and its children write; None for none."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _check_file_limit(said: argparse.Namespace) -> None:
    """Reject an output in one file beyond the size limit: MPI would first fail at its own files."""
    limit = _file_limit_bytes()
    if limit is None:
        return
    from datamover.files import intend, space
    from datamover.files.format_choice import of_output
    from datamover.files.formats import speaking_of_options

    options = _options_of(said)
    with speaking_of_options():
        found = intend(said.source, said.output, options, said.nprocs)
    needed_bytes = found.figures().get("bytes", found.spec.nbytes)
    output = _output_of(said.output).path
    if needed_bytes > limit and not of_output(output, options).is_directory:
        raise IoFailed(space.no_space(output, OSError(errno.EFBIG, ""), needed_bytes))


def _output_of(name: str, temporary: str | None = None) -> Output:
    from datamover.files import names

    return Output(names.place_of(names.split_member(name)[0]), temporary)


def _tell_early_end(code: int, output: Output) -> int:
    why = f"signal {-code}" if code < 0 else f"exit code {code}"
    limit = _file_limit_bytes()
    if limit is not None:
        why += f"; files may have {limit:,} bytes (ulimit -f), those of MPI too; -n 1 needs no MPI"
    print_error(f"the processes ended early ({why}); {output.words()}")
    return code if code > 0 else 128 - code


def _tell_interruption(number: signal.Signals, output: Output) -> int:
    print_error(f"interrupted by {number.name}; {output.words()}")
    return 128 + number


def _move_alone(said: argparse.Namespace, options: Any) -> int:
    """Move with this process, without MPI; return the exit code."""
    there = Output(said.output)
    with lifeline.signals_interrupt() as caught:
        try:
            with _progress_bar(not said.quiet) as begin:
                from datamover.files import move as move_files

                there = _output_of(said.output)
                report = move_files(said.source, said.output, options, progress=begin)
        except (Error, OSError) as e:
            print_error(e)
            return 1
        except KeyboardInterrupt:
            if not caught:
                raise
            return _tell_interruption(caught[0], there)
    _show(report, said)
    return 0


def _move_as_one_of_several(said: argparse.Namespace, options: Any) -> int:
    """Do this process's part; return the exit code."""
    tied.die_with_parent()
    with lifeline.kernel_ends():
        from mpi4py import MPI

    comm = MPI.COMM_WORLD
    is_first = comm.rank == 0
    if launch.STATUS_FILE not in os.environ:  # a user's launcher
        _have_last_words(comm.rank, said.output)
    from datamover.files import move as move_files

    try:
        launch.check_launch(comm)
        if said.nprocs is not None and said.nprocs != comm.size:
            raise InvalidArgument(
                f"-n {said.nprocs} was given inside a launch of {comm.size} processes; leave -n "
                "away"
            )
        with _progress_bar(is_first and not said.quiet) as bar:
            begin = bar if is_first else None
            report = move_files(said.source, said.output, options, progress=begin, comm=comm)
    except Error as e:
        if is_first:
            print_error(e)
        return launch.leave(1, comm.rank)
    except Exception:
        if comm.size == 1:
            raise
        traceback.print_exc()
        comm.Abort(1)
        raise
    if is_first:
        _show(report, said)
    return launch.leave(0, comm.rank)


def _have_last_words(rank: int, output: str) -> None:
    """Let Ctrl-C end the processes of a user's launcher, of which at most one prints a message."""
    from datamover.files import addresses

    def say(number: signal.Signals) -> None:
        if addresses.is_address(output):
            print_error(f"interrupted by {number.name}; {_output_of(output).words_of_left()}")

    lifeline.have_last_words(rank, say)


@contextlib.contextmanager
def _progress_bar(wanted: bool) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Show the progress of rank 0, on a terminal and only if it takes long.

    Gives what takes the total of bytes, and returns what takes each part of it.
    """
    begin, done_bytes = time.monotonic(), 0
    bar: Any = None
    wanted = wanted and terminal.is_terminal(stderr=True)

    def start(total_bytes: int) -> Callable[[int], None]:
        def tell(nbytes: int) -> None:
            nonlocal bar, done_bytes
            done_bytes += nbytes
            if wanted and bar is None and time.monotonic() - begin > PATIENCE_SECONDS:
                bar = _shown_bar(total_bytes)
            if wanted and bar is not None:
                bar.update(bar.task_ids[0], completed=done_bytes)

        return tell

    try:
        yield start
    finally:
        wanted = False
        if bar is not None:
            bar.stop()


def _shown_bar(total_bytes: int) -> Any:
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("moving"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=terminal.console(stderr=True),
        transient=True,
    )
    bar.add_task("moving", total=total_bytes)
    bar.start()
    return bar


def _as_dict(spec: Any, output: str) -> dict[str, Any]:
    return {
        "output": output,
        "shape": list(spec.shape),
        "dtype": str(spec.dtype),
        "order": spec.order,
        "bytes": spec.nbytes,
    }


def _show(report: Any, said: argparse.Namespace) -> None:
    """Print the report of a move."""
    if said.quiet:
        return
    if said.json:
        figures = {k: v for k, v in vars(report).items() if k not in ("spec", "output")}
        print(json.dumps(_as_dict(report.spec, said.output) | figures))
        return
    from datamover.files.move_words import moved_words, time_words

    print(f"{bold(said.output)}  {moved_words(report)}")
    print(time_words(report, bold))


def _show_intention(said: argparse.Namespace, options: Any) -> None:
    """Print the plan of a move."""
    from datamover.files import intend

    found = intend(said.source, said.output, options, said.nprocs or 1)
    if said.quiet:
        return
    if said.json:
        print(json.dumps(_as_dict(found.spec, said.output) | found.figures()))
        return
    if found.members is None:
        _print_intention(found, said.output)
        return
    from datamover.files.format_choice import of_output

    sign = "/" if of_output(said.output, options).is_directory else ":/"
    for name, one in found.members.items():
        _print_intention(one, f"{said.output}{sign}{name}")


def _print_intention(found: Any, output: str) -> None:
    from datamover.files.move_words import array_words, intention_words

    print(f"{bold(output)}  {array_words(found.spec)}")
    print(intention_words(found))
