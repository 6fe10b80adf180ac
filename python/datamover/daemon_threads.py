# SPDX-License-Identifier: BSD-3-Clause
"""Calls of daemon threads when the program ends. Nothing.

Python ends such threads when they come back from a call. What the program has open is closed before
that, and the call fails: a thread that tells so while Python ends may end the program by a signal.
"""

import threading
import time


def stay_where_the_program_ends() -> None:
    """Do not return, in a daemon thread, where the program's main thread has ended. Local."""
    if threading.current_thread().daemon and not threading.main_thread().is_alive():
        while True:
            time.sleep(3600)
