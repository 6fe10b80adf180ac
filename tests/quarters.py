# SPDX-License-Identifier: BSD-3-Clause
"""Quarters of the tests, for runs that divide them between each other."""

import itertools
import os
import zlib


def is_in_quarters(name, quarters):
    """Whether a test is in one of these quarters, 0 to 3; if more cases are wanted, in all."""
    is_long = int(os.environ.get("DATAMOVER_TEST_CASES", "1")) > 1
    return is_long or zlib.crc32(name.encode()) % 4 in quarters


def take_quarters(config, items, quarters, first_cases_too=lambda item: False):
    """Leave the tests of the other quarters out.

    Each case of a test is in a quarter of its own; where `first_cases_too` says so of it, the first
    one is in all quarters.
    """
    seen = set()

    def is_mine(item):
        test = item.nodeid.partition("[")[0]
        is_first = test not in seen and first_cases_too(item)
        seen.add(test)
        return is_first or is_in_quarters(item.nodeid, quarters)

    mine = [is_mine(item) for item in items]
    others = itertools.compress(items, (not is_in for is_in in mine))
    config.hook.pytest_deselected(items=list(others))
    items[:] = itertools.compress(items, mine)
