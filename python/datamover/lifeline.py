# SPDX-License-Identifier: BSD-3-Clause
"""Ending launched processes when the process that started them ends.

Every started process keeps a connection to the process that started all. When it closes, because
that process gives up or has ended, they end at once. When all connections are closed, that process
knows that none is left. The kernel signals the launcher.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from datamover import tied

#: Where the starting process listens, as machine:name; in the environment of those it starts.
ADDRESS = "DATAMOVER_LIFELINE"
#: Signals after which everything is ended.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds that processes may take to end after they were terminated or killed.
PATIENCE_SECONDS = 20.0
#: Signals by which launchers pass Ctrl-C on.
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
#: Seconds that processes wait after Ctrl-C for the message of the first one.
WORDS_SECONDS = 1.0
#: Seconds after which a signal that was ignored comes again: the callback has ended.
AGAIN_SECONDS = 0.05
#: struct ucred of the process at the other end of a socket: pid, uid, gid.
CREDENTIALS = struct.Struct("3i")
#: Starts a program that ignores Ctrl-C from its first instruction on: launchers pass it on to each
#: process, which would then print a traceback.
DEAF = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
#: Output of MPICH's launcher that adds nothing to the message of this program.
LAUNCHER_BANNER = b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"


@dataclasses.dataclass(frozen=True)
class End:
    """Result of a run of processes.

    Attributes
    ----------
    code : int
        Exit code of the launcher; negative if a signal ended it.
    status : int or None
        The status that the first of the processes passed to `tell`.
    interrupted_by : signal.Signals or None
        The signal that this process received during the run.
    """

    code: int
    status: int | None
    interrupted_by: signal.Signals | None


def run(command: list[str], environment: dict[str, str]) -> End:
    """Run a launcher; return when it and all processes that it started here have ended.

    Its standard output is held back until it ends. A signal that would end this process ends the
    started processes, and so does the end of this process.

    Parameters
    ----------
    command : list of str
    environment : dict
        For the launcher; the processes that it starts must call `hold_on`.
    """
    with _Watch() as watch:
        watch.process = subprocess.Popen(
            command,
            env={**environment, ADDRESS: watch.address},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            preexec_fn=functools.partial(tied.die_with_parent, os.getpid()),
        )
        return watch.until_all_are_gone()


class _Watch:
    """The starting process's end of all connections, and its signals."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes]
        name = f"datamover-{secrets.token_hex(12)}"
        self.address = f"{os.uname().nodename}:{name}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + name)  # a name without a file, gone with this process
        self._listener.listen(4096)
        self._listener.setblocking(False)
        self._connections: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._told = b""
        self._printed = b""
        self._signal: signal.Signals | None = None
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> _Watch:
        self._exit.enter_context(self._selector)
        self._exit.enter_context(self._listener)
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)
            self._exit.enter_context(end)
        self._exit.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(waker.fileno()))
        for number in (*not_ignored(ENDING), signal.SIGCHLD):
            self._exit.callback(signal.signal, number, signal.signal(number, self._on_signal))
        self._selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(4096))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        return self

    def __exit__(self, *raised: object) -> None:
        self._exit.close()

    def until_all_are_gone(self) -> End:
        """Wait until the launcher and all connected processes have ended."""
        stdout: Any = self.process.stdout
        os.set_blocking(stdout.fileno(), False)
        self._selector.register(stdout, selectors.EVENT_READ, self._read_output)
        while self.process.poll() is None and self._signal is None:
            self._turn(None)
        if self._signal is not None:
            self.process.kill()
        self.process.wait()
        self._end_others()
        self._read_output()
        status = int(self._told) if self._told.isdigit() else None
        if self._signal is None:
            self._print()
        return End(self.process.returncode, status, self._signal)

    def _on_signal(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD and self._signal is None:
            self._signal = signal.Signals(number)

    def _turn(self, timeout_seconds: float | None) -> bool:
        """Handle events; return False if none arrived in that time."""
        ready = self._selector.select(timeout_seconds)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _accept(self) -> bool:
        """Take one connection, if there is one."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        size = CREDENTIALS.size
        other = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        if CREDENTIALS.unpack(other)[1] == os.getuid():
            self._connections.add(connection)
            self._selector.register(
                connection, selectors.EVENT_READ, lambda: self._hear(connection)
            )
        else:
            connection.close()
        return True

    def _hear(self, connection: socket.socket) -> None:
        words = b""
        with contextlib.suppress(ConnectionError):
            words = connection.recv(4096)
        self._told += words
        if not words:
            self._selector.unregister(connection)
            self._connections.remove(connection)
            connection.close()

    def _read_output(self) -> None:
        stdout: Any = self.process.stdout
        while not stdout.closed:
            read = stdout.read(1 << 16)
            if read is None:  # nothing more for now
                return
            self._printed += read
            if not read:
                self._selector.unregister(stdout)
                stdout.close()

    def _end_others(self) -> None:
        """End all connected processes, and wait until they have ended; accept no others."""
        while self._accept():
            pass
        self._selector.unregister(self._listener)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._connections and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())

    def _print(self) -> None:
        text, banner, _ = self._printed.partition(LAUNCHER_BANNER)
        if banner:
            text = text.rstrip(b"=\n")
            text += b"\n" if text else b""
        with contextlib.suppress(BrokenPipeError):
            _write_all(1, text)


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Leave out the signals that this process was started to ignore, as by nohup."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def _write_all(fd: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view) :]


_connection: socket.socket | None = None


def hold_on() -> None:
    """Connect to the process that started all, and end this one as soon as that one has ended."""
    global _connection
    machine, found, name = os.environ.get(ADDRESS, "").rpartition(":")
    if not found or machine != os.uname().nodename or _connection is not None:
        return
    _connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connection.connect("\0" + name)
    except OSError:
        os._exit(1)  # it had ended before this process connected
    threading.Thread(target=_end_with, args=(_connection,), daemon=True).start()


def _end_with(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(64):
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def is_held() -> bool:
    """Return whether this process is connected to one that started it."""
    return _connection is not None


def tell(status: int) -> None:
    """Pass the exit code to the process that started all."""
    cast(socket.socket, _connection).sendall(str(status).encode())


@contextlib.contextmanager
def _handled(numbers: Iterable[signal.Signals], handler: Any) -> Iterator[None]:
    """Install a handler for those signals that are not ignored; restore the previous ones after."""
    before = {number: signal.signal(number, handler) for number in not_ignored(numbers)}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def kernel_ends() -> Iterator[None]:
    """Let signals that launchers pass on end this process while no line of Python runs.

    MPI's start does not return to Python: if another process has ended, it waits for it forever.
    """
    with _handled(PASSED_ON, signal.SIG_DFL):
        yield


class LastWords:
    """Lets Ctrl-C end this process at once, whatever it does, after a message of the first one.

    Launchers pass it on to all processes, as SIGINT or SIGTERM, and end all when one has ended: the
    others wait for the message. Must be created by the main thread.

    Parameters
    ----------
    rank : int
        Rank of this process.
    report : callable
        Prints the message; called on the first process.
    """

    def __init__(self, rank: int, report: Callable[[signal.Signals], None]):
        self._rank, self._report = rank, report
        self._heard, heard = socket.socketpair()
        heard.setblocking(False)
        self._kept = heard
        signal.set_wakeup_fd(heard.fileno())  # written at once, whichever thread gets the signal
        for number in PASSED_ON:
            signal.signal(number, lambda number, frame: None)
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        while (number := self._heard.recv(1)[0]) not in PASSED_ON:
            pass
        if self._rank == 0:
            self._report(signal.Signals(number))
        else:
            time.sleep(WORDS_SECONDS)
        os._exit(128 + number)


#: Blocks of `uninterrupted` that the main thread is in.
_blocks = 0


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back the KeyboardInterrupt of `signals_interrupt` until the end of this block.

    For the removal of files, which would otherwise stay. Without effect in other threads, which
    get no signals, and outside `signals_interrupt`.
    """
    global _blocks
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1
        if _blocks == 0 and _held_back:
            _held_back.clear()
            raise KeyboardInterrupt


#: The signal that arrived in a block of `uninterrupted`.
_held_back: list[int] = []


@contextlib.contextmanager
def signals_interrupt() -> Iterator[list[signal.Signals]]:
    """Let the first signal that would end this process raise KeyboardInterrupt; ignore later ones.

    Yields a list that then contains the signal. Python ignores what is raised within a callback of
    its memory management, such as ``__del__``: the signal is then sent once more.
    """
    caught: list[signal.Signals] = []
    report = sys.unraisablehook

    def interrupt(number: int, frame: object) -> None:
        if not caught:
            caught.append(signal.Signals(number))
            if _blocks == 0:
                raise KeyboardInterrupt
            _held_back.append(number)

    def ignored(what: sys.UnraisableHookArgs) -> None:
        if not (caught and issubclass(what.exc_type, KeyboardInterrupt)):
            return report(what)
        again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), caught.pop()))
        again.daemon = True
        return again.start()

    sys.unraisablehook = ignored
    try:
        with _handled(ENDING, interrupt):
            yield caught
    finally:
        sys.unraisablehook = report
