# SPDX-License-Identifier: BSD-3-Clause
"""The help of `datamover move`, in the form of the other commands' help, which Typer writes."""

from __future__ import annotations

import argparse
import inspect
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from datamover.bench import options


def show(parser: argparse.ArgumentParser) -> None:
    """Print the help of a parser."""

    def command(**_: Any) -> None:
        """Stand in for the command of the parser's arguments."""

    actions = [action for action in parser._actions if action.dest != "help"]
    options.give(command, {action.dest: _option(action) for action in actions})
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    names = {"help_option_names": ["-h", "--help"]}
    app.command(help=parser.description, context_settings=names)(command)
    app(["--help"], prog_name=parser.prog, standalone_mode=False)


def _option(action: argparse.Action) -> tuple[Any, Any]:
    """Return an option or argument, and its default, as Typer reads them."""
    words = escape(action.help or "")
    metavar = cast(str, action.metavar)
    if not action.option_strings:
        return Annotated[str, typer.Argument(metavar=metavar, help=words)], inspect.Parameter.empty
    if action.nargs == 0:
        return Annotated[bool, typer.Option(*action.option_strings, metavar="", help=words)], False
    option = typer.Option(*action.option_strings, metavar=metavar, help=words)
    return Annotated[str | None, option], None
