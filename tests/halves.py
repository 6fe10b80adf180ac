# SPDX-License-Identifier: BSD-3-Clause
"""Half of the cases of large tests, for runs that divide them between each other."""

import os
import zlib


def take_half(config, items, half):
    """Leave the cases of the other half out, unless more cases than usual are asked for.

    The halves, 0 and 1, are drawn by the names of the cases. A test without cases is in both.
    """
    if int(os.environ.get("DATAMOVER_TEST_CASES", "1")) > 1:
        return

    def is_mine(item):
        return "[" not in item.name or zlib.crc32(item.nodeid.encode()) % 2 == half

    config.hook.pytest_deselected(items=[item for item in items if not is_mine(item)])
    items[:] = filter(is_mine, items)
