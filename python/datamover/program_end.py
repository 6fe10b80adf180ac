# SPDX-License-Identifier: BSD-3-Clause
"""Notification of other processes when an exception ends the program.

Otherwise its MPI waits for theirs at the end, and they wait for it in a collective call, forever.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable


def tell_when_the_program_ends(tell: Callable[[str], None]) -> None:
    """Call `tell` with a message for the others if an uncaught exception ends the program."""
    atexit.register(_tell, tell)


def _tell(tell: Callable[[str], None]) -> None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is not None:
        tell(f"its program was ended by {type(error).__name__}")
