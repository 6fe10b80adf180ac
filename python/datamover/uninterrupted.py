# SPDX-License-Identifier: BSD-3-Clause
"""Deferring Ctrl-C and other signals until an output is complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def uninterrupted(*signals: signal.Signals) -> Iterator[None]:
    """Defer Ctrl-C, or these signals, until the block has ended; a second one is not deferred."""
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in signals or (signal.SIGINT,):
                stack.enter_context(_held(number))
        yield


@contextlib.contextmanager
def _held(number: signal.Signals) -> Iterator[None]:
    handler = signal.getsignal(number)
    if handler in (None, signal.SIG_IGN):
        yield
        return
    came: list[int] = []

    def keep(*_: Any) -> None:
        came.append(number)
        if len(came) > 1:
            go_on()

    def go_on() -> None:
        signal.signal(number, handler)
        signal.raise_signal(number)

    signal.signal(number, keep)
    try:
        yield
    finally:
        signal.signal(number, handler)
        if came:
            signal.raise_signal(number)
