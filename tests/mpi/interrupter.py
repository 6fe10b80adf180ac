# SPDX-License-Identifier: BSD-3-Clause
"""Interruption of a collective call, as by Ctrl-C: at a chosen line, or while it waits."""

import contextlib
import gc
import os
import signal
import sys

import datamover

#: Where the library's modules are, and no tests, whatever the checkout is called.
LIBRARY = os.path.dirname(datamover.__file__) + os.sep


class Interrupter:
    """Interrupts at the n-th line of the library's Python within collective calls.

    Of the thread that enters it. Without `n` it counts: `lines` says how many there are. How often
    a call looks whether something has come differs from run to run: `came` says whether it did
    interrupt. What the garbage collector calls, at any time, is not counted.
    """

    def __init__(self, n=None):
        self.n, self.lines, self.came, self._depth = n, 0, False, 0

    def __enter__(self):
        gc.collect()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)
        gc.enable()

    def _trace(self, frame, event, _):
        code = frame.f_code
        if not code.co_filename.startswith(LIBRARY):
            return None
        # What wraps a collective function: outside of its body there is no call.
        if code.co_filename.endswith("/collective_calls.py"):
            if code.co_name != "called":
                return None
            self._depth += 1
            return self._left
        if self._depth > 0 and event == "line":
            self.lines += 1
            if not self.came and self.lines == self.n and _destroys(frame):
                self.n += 1
            if not self.came and self.lines == self.n:
                self.came = True
                raise KeyboardInterrupt
        return self._trace

    def _left(self, _frame, event, _):
        self._depth -= event == "return"
        return self._left


class AlarmError(Exception):
    """Raised by a signal's handler."""


@contextlib.contextmanager
def alarm_in_a_call():
    """Raise AlarmError by a signal within the library, and nowhere else.

    The first signal comes after the call has had time to begin its wait. Those that come before
    the call, or in what wraps it (see `Interrupter`), are followed by another.
    """

    def ring(_, frame):
        if _destroys(frame):
            return
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(LIBRARY) and not name.endswith("/collective_calls.py"):
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise AlarmError
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _destroys(frame):
    """Tell whether an object is destroyed: Python ends nothing for what is raised there."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
