# SPDX-License-Identifier: BSD-3-Clause
"""How does Ctrl-C wait until something is whole that must not be left half done?"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Have Ctrl-C wait until the block has ended; a second one does not."""
    handler: Callable[..., Any] | Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[Any, ...]] = []

    def keep(*signaled: Any) -> None:
        came.append(signaled)
        if len(came) > 1:
            handler(*signaled)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
