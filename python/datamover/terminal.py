# SPDX-License-Identifier: BSD-3-Clause
"""Output of the commands on a terminal, also from processes under mpiexec: errors, bold words."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datamover.errors import Error

if TYPE_CHECKING:
    from rich.console import Console

#: Tells launched processes the widths of the terminals of standard output and standard error.
WIDTHS = "DATAMOVER_TERMINAL_WIDTHS"


def widths() -> str:
    """Return the value of `WIDTHS` for processes that this one launches; 0 for no terminal."""
    found = []
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            from rich.console import Console

            found.append(Console(file=stream).width)
        else:
            found.append(0)
    return ",".join(map(str, found))


def is_terminal(stderr: bool = False) -> bool:
    """Return whether the output ends on a terminal, also under mpiexec."""
    width = _width_of_launcher(stderr)
    return (sys.stderr if stderr else sys.stdout).isatty() if width is None else width > 0


def _width_of_launcher(stderr: bool) -> int | None:
    """Return the width of the terminal of an output, 0 for none; None if not launched."""
    widths = os.environ.get(WIDTHS)
    return None if widths is None else int(widths.split(",")[1 if stderr else 0])


def console(stderr: bool = False) -> Console:
    """Return a console that is a terminal if the output ends on one, also under mpiexec."""
    from rich.console import Console

    width = _width_of_launcher(stderr)
    if width is None:
        return Console(stderr=stderr)
    return Console(stderr=stderr, force_terminal=width > 0, width=width or None)


def bold(text: str) -> str:
    """Return a text in bold if a terminal shows it."""
    return f"\x1b[1m{text}\x1b[0m" if is_terminal() else text


def print_error(e: BaseException | str) -> None:
    """Print an error in one line, without changes, in color if a terminal shows it."""
    word = "\x1b[1;31merror:\x1b[0m" if is_terminal(stderr=True) else "error:"
    print(f"{word} {e}", file=sys.stderr)


@contextlib.contextmanager
def errors_to_exit() -> Iterator[None]:
    """Print an error of the library or the system, and let Typer's command exit with 1."""
    import typer

    try:
        yield
    except (Error, OSError) as e:
        if isinstance(e, Error) or e.filename is None:
            print_error(e)
        else:
            print_error(f"{e.filename}: {e.strerror}")
        raise typer.Exit(1) from e
