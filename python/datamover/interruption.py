# SPDX-License-Identifier: BSD-3-Clause
"""Interrupts while the command `datamover` loads.

It ends by the signal, as other programs do: for a shell that is 130. Python would tell in which of
its imports it was. So this is the first module that the package loads.
"""

import os
import signal
import sys


def end_without_words() -> None:
    """Have an interrupt end this process, where it would be a KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Have an interrupt be a KeyboardInterrupt, where it would end this process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Tell whether this process was started as `datamover` or `python -m datamover`."""
    words = getattr(sys, "argv", None) or [""]
    if words[0] != "-m":  # what Python has there until it has found the module
        return os.path.basename(words[0]) == "datamover"
    given = sys.orig_argv
    return given[given.index("-m") + 1 :][:1] == ["datamover"] if "-m" in given else False


if _is_command():
    try:  # noqa: SIM105  (contextlib takes its time to load)
        end_without_words()
    except ValueError:  # another program of this name loads it in a thread
        pass
