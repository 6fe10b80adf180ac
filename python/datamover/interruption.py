# SPDX-License-Identifier: BSD-3-Clause
"""Interrupts while the command `datamover` loads.

The command ends by the signal, as other programs do; a shell reports 130. Python would print a
traceback of its imports. This is therefore the first module that the package loads.
"""

import os
import signal
import sys


def end_without_words() -> None:
    """Let an interrupt end this process instead of raising KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Let an interrupt raise KeyboardInterrupt instead of ending this process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Return whether this process was started as `datamover` or `python -m datamover`."""
    words = getattr(sys, "argv", None) or [""]
    if words[0] != "-m":  # Python's value until it has found the module
        return os.path.basename(words[0]) == "datamover"
    given = sys.orig_argv
    return given[given.index("-m") + 1 :][:1] == ["datamover"] if "-m" in given else False


if _is_command():
    try:  # noqa: SIM105  (contextlib takes its time to load)
        end_without_words()
    except ValueError:  # another program of this name loads the package in a thread
        pass
