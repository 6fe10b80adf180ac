# SPDX-License-Identifier: BSD-3-Clause
"""Eighths of the tests, for runs that divide them between each other."""

import itertools
import os
import zlib


def is_in_eighths(name, eighths):
    """Whether a test is in one of these eighths, 0 to 7; if more cases are wanted, in all."""
    is_long = int(os.environ.get("DATAMOVER_TEST_CASES", "1")) > 1
    return is_long or zlib.crc32(name.encode()) % 8 in eighths


def take_eighths(config, items, variable, first_cases_too=lambda item: False):
    """Keep the tests of the eighths that an environment variable lists, or all if it is not set.

    Every case of a test belongs to one eighth. If `first_cases_too` is true of the first case of a
    test, that case is kept whatever its eighth.
    """
    if variable not in os.environ:
        return
    eighths = set(map(int, os.environ[variable].split(",")))
    seen = set()

    def is_mine(item):
        test = item.nodeid.partition("[")[0]
        is_first = test not in seen and first_cases_too(item)
        seen.add(test)
        return is_first or is_in_eighths(item.nodeid, eighths)

    mine = [is_mine(item) for item in items]
    others = itertools.compress(items, (not is_in for is_in in mine))
    config.hook.pytest_deselected(items=list(others))
    items[:] = itertools.compress(items, mine)
