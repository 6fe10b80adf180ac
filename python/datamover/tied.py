# SPDX-License-Identifier: BSD-3-Clause
"""Processes that end with their parent, even if it is killed.

The kernel ensures it (Linux). As a program, `python -I -S tied.py PID PROGRAM ...`, it becomes
another program that ends with process PID. This needs no step between fork and exec, where a
process with threads must not run Python.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int | None = None, number: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when the thread that started it has ended."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:  # it had ended before
        os._exit(1)


def start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a program that gets SIGTERM when this thread ends, however it does.

    Ctrl-C during its start ends it without a traceback of the Python in between.
    """
    words = [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(words, env=environment)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become(parent_pid: int, command: list[str]) -> None:
    """Become a program, with signals as if it had been started without Python."""
    die_with_parent(parent_pid, signal.SIGTERM)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # as `start` had it blocked
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
