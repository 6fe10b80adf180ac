# SPDX-License-Identifier: BSD-3-Clause
"""Relay: a network between the two ends of a stream, which a test partitions and damages."""

import contextlib
import socket
import threading
import time

from stream_words import close, read_frame, said


class Relay:
    """Forwards every connection of a consumer, and replaces the senders' addresses by its own.

    Attributes
    ----------
    address : str
        To which the consumer connects.
    """

    def __init__(self, address):
        self._open, self._lock = [], threading.Lock()
        self._flows, self._is_cut = threading.Event(), False
        self._flows.set()
        self._is_parted = self._damages = False
        self.damaged_at = None  # time
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        self.address = f"tcp://127.0.0.1:{self._listen((host, int(port)), is_control=True)}"

    def hold(self):
        """Forward nothing until `release`."""
        self._flows.clear()

    def release(self):
        if not self._is_parted:
            self._flows.set()

    def part(self):
        """Forward nothing until `join`."""
        self._is_parted = True
        self.hold()

    def join(self):
        self._is_parted = False
        self.release()

    def damage(self):
        """Change one bit of what is forwarded next."""
        self._damages = True

    def cut(self):
        """Close all connections, and accept no others."""
        with self._lock:
            self._is_cut = True
        for sock in self._open:
            close(sock)
        self._flows.set()

    def _keep(self, sock):
        with self._lock:
            if self._is_cut:
                close(sock)
            self._open.append(sock)
        return sock

    def _listen(self, target, is_control=False):
        listener = self._keep(socket.create_server(("127.0.0.1", 0)))
        _start(self._accept, listener, target, is_control)
        return listener.getsockname()[1]

    def _accept(self, listener, target, is_control):
        while True:
            here = self._keep(listener.accept()[0])
            _start(self._serve, here, target, is_control)

    def _serve(self, here, target, is_control):
        try:
            there = self._keep(socket.create_connection(target))
        except OSError:
            close(here)
            raise
        for sock in (here, there):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_control:
            here.sendall(said(read_frame(there)))  # the greeting
            hello = read_frame(here)
            there.sendall(said(hello))
            if hello.get("role") == "control":
                here.sendall(said(self._with_own_addresses(read_frame(there))))
            for sock in (here, there):
                sock.settimeout(None)
        _start(self._forward, here, there)
        self._forward(there, here)

    def _with_own_addresses(self, answer):
        """Return a stream's answer with the relay's addresses, without those of local sockets."""
        found = [
            ["127.0.0.1", self._listen((host, port)), ""]
            for host, port, _ in answer.get("producers", [])
        ]
        return {**answer, "producers": found} if found else answer

    def _forward(self, source, target):
        try:
            while data := source.recv(1 << 16):
                self._flows.wait()
                target.sendall(self._damaged(data))
        finally:
            target.shutdown(socket.SHUT_WR)

    def _damaged(self, data):
        with self._lock:
            if not self._damages:
                return data
            self._damages, self.damaged_at = False, time.monotonic()
        at = len(data) // 2
        return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def _start(work, *arguments):
    """Run a part of a relay in a thread that ends with its connection."""

    def run():
        with contextlib.suppress(OSError):  # of connections that were closed
            work(*arguments)

    threading.Thread(target=run, daemon=True).start()
