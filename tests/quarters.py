# SPDX-License-Identifier: BSD-3-Clause
"""Quarters of the tests, for runs that divide them between each other."""

import os
import zlib


def take_quarters(config, items, quarters, *, only_of_cases=False):
    """Leave the other quarters out, unless more cases than usual are asked for.

    The quarters, 0 to 3, are drawn by the names of tests, each case of one for itself. With
    `only_of_cases`, a test without cases is in all of them.
    """
    if int(os.environ.get("DATAMOVER_TEST_CASES", "1")) > 1:
        return

    def is_mine(item):
        is_in_all = only_of_cases and "[" not in item.name
        return is_in_all or zlib.crc32(item.nodeid.encode()) % 4 in quarters

    config.hook.pytest_deselected(items=[item for item in items if not is_mine(item)])
    items[:] = filter(is_mine, items)
