# SPDX-License-Identifier: BSD-3-Clause
"""Environment and names of all Python tests."""

import os
import re

import pytest

#: What this machine's user has measured decides nothing here.
os.environ.setdefault("DATAMOVER_TUNING_FILE", "")
#: What decides how programs print and warn is the same wherever the tests are started.
for name in ("LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "TERMINAL_WIDTH", "PYTHONWARNINGS"):
    os.environ.pop(name, None)
os.environ |= {"TERM": "xterm", "COLUMNS": "80", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

#: A set of strings, whose order is another in each process, and an address.
DIFFERS = re.compile(r"\{'[^':]*'[,}]| at 0x[0-9a-f]")


def pytest_collection_modifyitems(items):
    """Refuse names of tests that another process would not give: workers then run none of them."""
    for item in items:
        if DIFFERS.search(item.name):
            raise pytest.UsageError(f"{item.nodeid} has another name in each process")
