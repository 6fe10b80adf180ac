# SPDX-License-Identifier: BSD-3-Clause
"""Errors of daemon threads when the program ends are not raised.

Python ends daemon threads when they return from a call. Before that, open objects are closed, and
the call fails. A thread that raises this error while Python ends may end the program by a signal.
"""

import threading
import time


def stay_where_the_program_ends() -> None:
    """Block forever in a daemon thread if the program's main thread has ended. Local."""
    if threading.current_thread().daemon and not threading.main_thread().is_alive():
        while True:
            time.sleep(3600)
