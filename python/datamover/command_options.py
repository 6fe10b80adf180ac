# SPDX-License-Identifier: BSD-3-Clause
"""Options and help texts of commands, as Typer reads them."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from datamover.terminal import print_error


class _PlainHelp:
    """Help without braces around arguments, and without the type of flags, Typer's own included."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_PlainHelp, TyperCommand):
    """A command of `App`."""


class _Group(_PlainHelp, TyperGroup):
    """Commands that print errors of usage in one line, as `move` and the library print theirs."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command of the arguments, and exit unless `standalone_mode` is False."""
        standalone_mode = more.get("standalone_mode", True)
        options: dict[str, Any] = {**more, "standalone_mode": False}
        try:
            code = super().main(*args, **options)
        except Exception as e:
            message = getattr(e, "format_message", None)  # Click's, or those of Typer's copy of it
            if not standalone_mode or message is None:
                raise
            if type(e).__name__ != "NoArgsIsHelpError":  # has printed the help
                _print_usage_error(message().rstrip("."), getattr(e, "ctx", None))
            code = e.exit_code  # type: ignore[attr-defined]
        if not standalone_mode:
            return code
        sys.exit(code)


def _print_usage_error(message: str, ctx: Any) -> None:
    if not ctx:
        print_error(message)
        return
    listed = "commands" if hasattr(ctx.command, "list_commands") else "options"
    end = "" if message.endswith("?") else ";"
    print_error(f"{message}{end} all {listed}: {ctx.command_path} --help")


class App(typer.Typer):
    """Commands whose help ends with examples, and whose errors of usage are one line."""

    def __init__(self, help: str | None, *examples: str, **more: Any):
        super().__init__(
            help=help,
            epilog=_end(examples),
            cls=_Group,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **{"add_completion": False, **more},
        )

    def command(self, name: str | None = None, *examples: str, **more: Any) -> Any:
        """Add a command."""
        return super().command(name, cls=_Command, epilog=_end(examples), **more)


def _end(examples: Iterable[str]) -> str | None:
    """Return the end of a help text, with one example in each line."""
    lines = [escape(line) for line in examples]
    return "\n\n".join(["Examples:", *lines]) if lines else None


def option(kind: Any, help: str, *names: str, **more: Any) -> Any:
    """Return the annotation of an option: its type, help, names, and what else Typer takes."""
    return Annotated[kind, typer.Option(*names, help=help, **more)]


def give(command: Callable[..., Any], chosen: Mapping[str, tuple[Any, Any]]) -> None:
    """Give a function options by their names: annotations and defaults, as Typer reads them."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in chosen.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}


def show(parser: argparse.ArgumentParser) -> None:
    """Print the help of a parser in the form of the other commands' help, which Typer writes."""

    def command(**_: Any) -> None:
        """Stand in for the command of the parser's arguments."""

    actions = [action for action in parser._actions if action.dest != "help"]
    give(command, {action.dest: _option(action) for action in actions})
    app = App(None)
    app.command(None, *(parser.epilog or "").splitlines(), help=parser.description)(command)
    app(["--help"], prog_name=parser.prog, standalone_mode=False)


def _option(action: argparse.Action) -> tuple[Any, Any]:
    """Return an option or argument, and its default, as Typer reads them."""
    words = escape(action.help or "")
    metavar = cast(str, action.metavar)
    if not action.option_strings:
        return Annotated[str, typer.Argument(metavar=metavar, help=words)], inspect.Parameter.empty
    if action.nargs == 0:
        return Annotated[bool, typer.Option(*action.option_strings, help=words)], False
    option = typer.Option(*action.option_strings, metavar=metavar, help=words)
    return Annotated[str | None, option], None
