# SPDX-License-Identifier: BSD-3-Clause
"""Does a message of more than 2^31 bytes arrive? (In `make test-long`; else of some megabytes.)"""

import numpy as np

import datamover as dm

MEGABYTE = 1 << 20


def test_one_large_message(comm, cases):
    if comm.size > 3:
        return
    size = (2049 if cases > 1 else 3) * MEGABYTE
    there = dm.FloorPlan([dm.Region((0,), (size,))], [0], comm.size)
    here = dm.FloorPlan([dm.Region((0,), (size,))], [comm.size - 1], comm.size)
    a, b = dm.XArray(comm, there, "u1"), dm.XArray(comm, here, "u1")
    for _, grid in a.grids():
        grid[...] = 0
        grid[-5:] = [1, 2, 3, 4, 5]
        grid[MEGABYTE] = 7
    for _, grid in b.grids():
        grid[...] = 9
    for transport in ("p2p", "auto"):
        dm.Mover(dm.redistribute(there, here), a, b, transport=transport)()
        for _, grid in b.grids():
            np.testing.assert_array_equal(grid[-5:], [1, 2, 3, 4, 5])
            assert grid[MEGABYTE] == 7 and np.count_nonzero(grid) == 6
            grid[...] = 9
