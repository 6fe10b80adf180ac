# SPDX-License-Identifier: BSD-3-Clause
"""Large moves: more than 2^31 bytes and elements (in `make test-long`; otherwise some millions)."""

import numpy as np
import pytest

import datamover as dm

MEGABYTE = 1 << 20


def test_one_large_message(comm, cases):
    if comm.size > 3:
        pytest.skip("takes few processes: it is large")
    size = (2049 if cases > 1 else 3) * MEGABYTE
    there = dm.FloorPlan([dm.Region((0,), (size,))], [0], comm.size)
    here = dm.FloorPlan([dm.Region((0,), (size,))], [comm.size - 1], comm.size)
    a, b = dm.Array(there, "u1", comm=comm), dm.Array(here, "u1", comm=comm)
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


def test_more_elements_than_an_int_counts(comm, cases):
    if comm.size != 2:
        pytest.skip("takes two processes: it is large")
    n = (2049 if cases > 1 else 3) * MEGABYTE
    mine = n if comm.rank == 0 else 5
    targets = np.full(mine, 1 - comm.rank, "i1")
    targets[:3] = comm.rank
    elements = np.resize(np.arange(251, dtype="u1"), mine)
    out = np.empty(8 if comm.rank == 0 else n, "u1")
    for method in ("partition", "alltoallv"):
        d = dm.Migration(targets, method=method, comm=comm)
        assert d.received == (5 if comm.rank == 0 else n)
        out[...] = 255
        arrived = d.move(elements, out=out)
        if comm.rank == 0:
            np.testing.assert_array_equal(arrived, [0, 1, 2, 3, 4])
        else:
            np.testing.assert_array_equal(arrived[-3:], [0, 1, 2])
            # Element k + 3 of process 0 is element k here.
            row = np.roll(np.arange(251, dtype="u1"), -3)
            whole = arrived[: (n - 3) // 251 * 251].reshape(-1, 251)
            for begin in range(0, len(whole), MEGABYTE):
                assert (whole[begin : begin + MEGABYTE] == row).all()
