# SPDX-License-Identifier: BSD-3-Clause
"""The help of `datamover move`, in the form of the other commands' help, which Typer writes."""

from __future__ import annotations

import argparse
import inspect
from typing import Annotated, Any, cast

import typer
from rich.markup import escape


def show(parser: argparse.ArgumentParser) -> None:
    """Print the help of a parser."""

    def command(**_: Any) -> None:
        """Stand in for the command of the parser's arguments."""

    # Typer reads the command line from the signature of a function.
    parameters = [_parameter(action) for action in parser._actions if action.dest != "help"]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    names = {"help_option_names": ["-h", "--help"]}
    app.command(help=parser.description, context_settings=names)(command)
    app(["--help"], prog_name=parser.prog, standalone_mode=False)


def _parameter(action: argparse.Action) -> inspect.Parameter:
    """Return an option or argument as a parameter in a signature for Typer."""
    words = escape(action.help or "")
    metavar, default = cast(str, action.metavar), cast(Any, None)
    if not action.option_strings:
        default = inspect.Parameter.empty
        annotation: Any = Annotated[str, typer.Argument(metavar=metavar, help=words)]
    elif action.nargs == 0:
        default = False
        annotation = Annotated[bool, typer.Option(*action.option_strings, metavar="", help=words)]
    else:
        option = typer.Option(*action.option_strings, metavar=metavar, help=words)
        annotation = Annotated[str | None, option]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(action.dest, kind, default=default, annotation=annotation)
