# SPDX-License-Identifier: BSD-3-Clause
"""Half of the tests, for runs that divide them between each other."""

import os
import zlib


def take_half(config, items, half, *, only_of_cases=False):
    """Leave the other half out, unless more cases than usual are asked for.

    The halves, 0 and 1, are drawn by the names of tests, each case of one for itself. With
    `only_of_cases`, a test without cases is in both.
    """
    if int(os.environ.get("DATAMOVER_TEST_CASES", "1")) > 1:
        return

    def is_mine(item):
        is_in_both = only_of_cases and "[" not in item.name
        return is_in_both or zlib.crc32(item.nodeid.encode()) % 2 == half

    config.hook.pytest_deselected(items=[item for item in items if not is_mine(item)])
    items[:] = filter(is_mine, items)
