# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover stream`: record, inspect or view a stream of another program."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from datamover.command_options import App, option
from datamover.terminal import errors_to_exit

app = App(
    "Record, inspect or view a stream from another program.\n\nBy default, the token of a stream "
    "of the same user on this machine is used. For any other stream, set the environment variable "
    "DATAMOVER_STREAM_TOKEN.",
    "datamover stream info tcp://127.0.0.1:5777",
    "datamover stream record tcp://127.0.0.1:5777 run.zarr --array u",
    "datamover stream view tcp://127.0.0.1:5777",
)

#: Seconds between two updates of the display of a recording.
SHOWN_SECONDS = 0.2

_Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help='Address, such as "tcp://127.0.0.1:5777".')
]
_Output = Annotated[
    str, typer.Argument(metavar="OUTPUT", help="A new Zarr group, such as run.zarr.")
]
_Timeout = option(
    float | None,
    "Timeout for the stream to open, and for each step. By default, wait forever.",
    metavar="SECONDS",
)


@app.command(
    "record",
    "datamover stream record tcp://127.0.0.1:5777 run.zarr",
    "datamover stream record tcp://127.0.0.1:5777 run.zarr --array u --steps 100",
)
def record(
    address: _Address,
    output: _Output,
    array: option(
        list[str] | None, "Only this array; repeat for several arrays.", metavar="NAME"
    ) = None,
    steps: option(int | None, "Number of steps to record.", min=1) = None,
    timeout: _Timeout = None,
) -> None:
    """Record the steps to a new Zarr group."""
    from datamover.stream import recorder

    with errors_to_exit(), _telling(address) as tell:
        recorded = recorder.record(address, output, array or [], steps, timeout, tell)
    typer.echo(recorded)


@app.command("info", "datamover stream info tcp://127.0.0.1:5777")
def info(address: _Address, timeout: _Timeout = None) -> None:
    """Print the arrays that were sent so far."""
    from datamover.stream import recorder

    with errors_to_exit(), _telling(address):
        said = recorder.describe(address, timeout)
    typer.echo(said)


@app.command("view", "datamover stream view tcp://127.0.0.1:5777 --page http://127.0.0.1:8000")
def view(
    address: _Address,
    page: option(str, "Address of the page.", metavar="http://HOST:PORT") = "http://127.0.0.1:8000",
    array: option(str | None, "The array to show first.", metavar="NAME") = None,
    open_: option(bool, "Serve the page without a token.", "--open") = False,
) -> None:
    """Serve a page that shows the stream in a browser."""
    from datamover.stream import frames

    with errors_to_exit():
        frames.show(
            address,
            page,
            array,
            lambda shown: typer.echo(f"the page is at {shown}"),
            open_to_all=open_,
        )


@contextlib.contextmanager
def _telling(address: str) -> Iterator[Callable[[Any], None]]:
    """Show the progress of a recording on a terminal, and its result if it is interrupted."""
    from rich.console import Console
    from rich.markup import escape

    so_far, shown_at = None, 0.0

    def tell(recorded: Any) -> None:
        nonlocal so_far, shown_at
        so_far = recorded
        if time.monotonic() > shown_at + SHOWN_SECONDS:
            shown_at = time.monotonic()
            status.update(escape(f"recorded {recorded}"))

    try:
        with Console(stderr=True).status(escape(f"waiting for {address}")) as status:
            yield tell
    except BaseException:
        if so_far is not None:
            typer.echo(f"recorded until then: {so_far}", err=True)
        raise
