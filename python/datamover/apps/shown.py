# SPDX-License-Identifier: BSD-3-Clause
"""How is what an application computes shown in a page, while it runs?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable

from datamover import launch
from datamover.stream.frames import Frames
from datamover.stream.wire import TOKEN_VARIABLE

#: Where the application is to send its field.
ADDRESS_VARIABLE = "DATAMOVER_STREAM"


def run_command(nprocs: int, command: list[str], at: str, announce: Callable[[str], None]) -> int:
    """Run an application on `nprocs` processes and serve a page of its stream.

    Where the program succeeds the page stays, with the last step, until this is interrupted.

    Parameters
    ----------
    nprocs : int
    command : list of str
        A program and its arguments.
    at : str
        The page's address, "http://host:port".
    announce : callable
        Gets lines for the user.

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
    codes: list[int] = []
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(Frames(address, at), nprocs, command, announce, codes))
    return codes[0] if codes else 130


async def _run(
    frames: Frames,
    nprocs: int,
    command: list[str],
    announce: Callable[[str], None],
    codes: list[int],
) -> None:
    try:
        announce(f"the page is at {await frames.start()}")
        codes.append(await asyncio.to_thread(launch.run_command, nprocs, command))
        if codes[0] == 0:
            announce("the program has ended; Ctrl-C ends the page")
            await asyncio.Event().wait()
    finally:
        await frames.close()


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"
