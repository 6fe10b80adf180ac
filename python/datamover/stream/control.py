# SPDX-License-Identifier: BSD-3-Clause
"""How are frames sent without waiting for whoever is to read them?"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from typing import Any

from datamover.errors import Error
from datamover.stream import endpoint, wire


class FrameWriter:
    """Sends frames of one connection from a thread, in order.

    What is said is bounded by the credits of the other end, so that what waits here is, too.
    """

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, words: dict[str, Any]) -> None:
        """Send a frame; return at once."""
        self._frames.put(wire.frame(words))

    def finish(self, seconds: float = 5.0) -> None:
        """Wait until all has been handed to the system, but not for ever."""
        self._frames.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (frame := self._frames.get()) is not None:
            try:
                wire.write_all(self._sock, frame)
            except Error:
                endpoint.close(self._sock)
                return
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
