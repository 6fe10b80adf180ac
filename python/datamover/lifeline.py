# SPDX-License-Identifier: BSD-3-Clause
"""Signals, deferred or ending the program, and the end of the processes that it has launched."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

#: Signals after which everything is ended.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds that processes may take to end after they were killed.
PATIENCE_SECONDS = 20.0
#: Seconds between two looks for processes that have not ended.
LOOK_SECONDS = 0.005
#: Signals by which launchers pass Ctrl-C on.
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
#: Seconds that processes wait after Ctrl-C for the message of the first one.
WORDS_SECONDS = 1.0
#: Seconds after which a signal that was ignored comes again: the callback has ended.
AGAIN_SECONDS = 0.05


def end_all(mark: str) -> None:
    """End all other processes of this machine and user with a mark in their environment.

    A process hands its environment on to those that it starts, even if they outlive it. Returns
    when none is left.

    Parameters
    ----------
    mark : str
        A variable and its value, "NAME=value", that other processes do not have.
    """
    deadline, empty_looks = time.monotonic() + PATIENCE_SECONDS, 0
    # A process that becomes another program has no environment for a moment: a look is repeated.
    while empty_looks < 2 and time.monotonic() < deadline:
        left = _marked(mark.encode())
        empty_looks = 0 if left else empty_looks + 1
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def _marked(mark: bytes) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        pid = int(file.parent.name)
        with contextlib.suppress(OSError):  # of another user, or it has ended
            if pid != os.getpid() and mark in file.read_bytes():
                found.append(pid)
    return found


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Leave out the signals that this process was started to ignore, as by nohup."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


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


def have_last_words(rank: int, report: Callable[[signal.Signals], None]) -> None:
    """Let Ctrl-C end this process at once, whatever it does, after a message of the first one.

    Launchers pass it on to all processes, as SIGINT or SIGTERM, and end all when one has ended: the
    others wait for the message. Must be called by the main thread.

    Parameters
    ----------
    rank : int
        Rank of this process.
    report : callable
        Prints the message; called on the first process.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())  # written at once, whichever thread gets the signal
    for number in PASSED_ON:
        signal.signal(number, lambda number, frame: None)

    def wait(_kept: socket.socket) -> None:
        while (number := receiver.recv(1)[0]) not in PASSED_ON:
            pass
        if rank == 0:
            report(signal.Signals(number))
        else:
            time.sleep(WORDS_SECONDS)
        os._exit(128 + number)

    threading.Thread(target=wait, args=(sender,), daemon=True).start()


@contextlib.contextmanager
def uninterrupted(*signals: signal.Signals, insist: bool = True) -> Iterator[None]:
    """Defer Ctrl-C, or these signals, until the block has ended.

    Without effect in other threads, which get no signals. With `insist`, a second signal is not
    deferred.
    """
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in signals or (signal.SIGINT,):
                stack.enter_context(_held(number, insist))
        yield


@contextlib.contextmanager
def _held(number: signal.Signals, insist: bool) -> Iterator[None]:
    handler = signal.getsignal(number)
    if handler in (None, signal.SIG_IGN):
        yield
        return
    came: list[int] = []

    def keep(*_: Any) -> None:
        came.append(number)
        if insist and len(came) > 1:
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


def all_deferred() -> contextlib.AbstractContextManager[None]:
    """Defer the signals after which everything is ended until the end of this block.

    For the removal of files, which would otherwise stay.
    """
    return uninterrupted(*ENDING, insist=False)


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
            raise KeyboardInterrupt

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
