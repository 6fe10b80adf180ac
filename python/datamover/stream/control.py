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
    """Sends what one connection is told, in order, and never waits.

    What the system does not take at once is left to a thread. What is said is bounded by the
    credits of the other end, so that what waits here is, too.
    """

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._lock = threading.Lock()
        self._waiting = 0
        self._left: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_broken = False

    def say(self, words: dict[str, Any]) -> None:
        """Send a frame."""
        self.send(wire.frame(words))

    def send(self, data: bytes) -> None:
        """Send bytes. Where the connection has ended, its reader learns of it, not the caller."""
        with self._lock:
            if self._is_broken:
                return
            if self._waiting == 0:
                try:
                    data = data[self._sock.send(data, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self._is_broken = True
                    endpoint.wake(self._sock)
                    return
            if data:
                self._waiting += 1
                self._left.put(data)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, daemon=True)
                    self._thread.start()

    def finish(self, seconds: float = 5.0) -> None:
        """Wait until all has been handed to the system, but not for ever."""
        self._left.put(None)
        if self._thread is not None:
            self._thread.join(seconds)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """End the connection; what the system has taken still arrives."""
        endpoint.wake(self._sock)

    def _run(self) -> None:
        while (data := self._left.get()) is not None:
            try:
                wire.write_all(self._sock, data)
            except Error:
                self._is_broken = True
                endpoint.wake(self._sock)
                return
            with self._lock:
                self._waiting -= 1
