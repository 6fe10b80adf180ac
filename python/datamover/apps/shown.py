# SPDX-License-Identifier: BSD-3-Clause
"""Showing the field that an application computes in a web page."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable

from datamover import launch
from datamover.stream.frames import Frames, served
from datamover.stream.wire import TOKEN_VARIABLE

#: Environment variable with the address to which the application sends its field.
ADDRESS_VARIABLE = "DATAMOVER_STREAM"


def run_command(nprocs: int, command: list[str], at: str, announce: Callable[[str], None]) -> int:
    """Run an application on `nprocs` processes and serve a page of its stream.

    If the program succeeds, the page stays, with the last step, until this is interrupted.

    Parameters
    ----------
    nprocs : int
    command : list of str
        A program and its arguments.
    at : str
        The page's address, "http://host:port".
    announce : callable
        Called with lines for the user.

    Returns
    -------
    int
        The program's exit code, as `launch.run_command`.

    Raises
    ------
    Error
        As `stream.frames.show` and `launch.run_command`.
    """
    os.environ[ADDRESS_VARIABLE] = address = _free_address()
    os.environ[TOKEN_VARIABLE] = secrets.token_urlsafe(24)
    code = 130
    with contextlib.suppress(KeyboardInterrupt), served(Frames(address, at)) as page:
        announce(f"the page is at {page}")
        code = launch.run_command(nprocs, command)
        if code == 0:
            announce("the program has ended; Ctrl-C ends the page")
            threading.Event().wait()
    return code


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"
