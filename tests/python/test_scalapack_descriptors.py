# SPDX-License-Identifier: BSD-3-Clause
"""ScaLAPACK descriptors of layouts: read and written as the ScaLAPACK Users' Guide defines them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datamover as dm


@st.composite
def matrices(draw):
    """A descriptor, the grid it is for, and how BLACS numbers that grid."""
    grid = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    m, n = draw(st.integers(1, 30)), draw(st.integers(1, 20))
    mb, nb = draw(st.integers(1, m)), draw(st.integers(1, n))
    rsrc, csrc = (draw(st.integers(0, p - 1)) for p in grid)
    descriptor = [1, draw(st.integers(0, 9)), m, n, mb, nb, rsrc, csrc, m + draw(st.integers(0, 3))]
    return descriptor, grid, draw(st.sampled_from("CF"))


def place(i, block, first, processes):
    """Who holds global index i along one dimension, and where: INDXG2P and INDXG2L, from 0."""
    return (first + i // block) % processes, i // (block * processes) * block + i % block


@given(matrices())
def test_owners_and_places(drawn):
    descriptor, grid, order = drawn
    _, context, m, n, mb, nb, rsrc, csrc, lld = descriptor
    nprocs = grid[0] * grid[1]
    layout = dm.BlockCyclic.from_scalapack(descriptor, grid, nprocs, grid_order=order)
    for i in range(m):
        for j in range(n):
            row, local_i = place(i, mb, rsrc, grid[0])
            column, local_j = place(j, nb, csrc, grid[1])
            rank = row * grid[1] + column if order == "C" else row + column * grid[0]
            assert layout.owner_of((i, j)) == rank
            assert layout.local_index((i, j)) == (local_i, local_j)
    for rank in range(nprocs):
        again = layout.scalapack_descriptor(rank, context, lld=lld)
        assert again.dtype == np.int32
        assert again.tolist() == descriptor
        assert layout.scalapack_descriptor(rank)[8] == max(1, layout.local_shape(rank)[0])


def test_what_makes_no_sense():
    good = [1, 0, 9, 9, 2, 2, 0, 0, 9]
    read = dm.BlockCyclic.from_scalapack

    def with_entry(place, value):
        return [*good[:place], value, *good[place + 1 :]]

    for place_, value in [(2, -1), (4, 0), (5, -1), (6, 2), (7, 3), (6, -1)]:
        with pytest.raises(dm.errors.InvalidArgument):
            read(with_entry(place_, value), (2, 3), 6)
    with pytest.raises(dm.errors.Unsupported):
        read(with_entry(0, 2), (2, 3), 6)
    with pytest.raises(dm.errors.OutOfRange):
        read(with_entry(2, 2**31), (2, 3), 6)
    with pytest.raises(dm.errors.InvalidArgument, match="9 entries"):
        read(good[:8], (2, 3), 6)
    with pytest.raises(dm.errors.InvalidArgument, match="2 dimensions"):
        read(good, (2, 3, 1), 6)
    with pytest.raises(dm.errors.InvalidArgument, match="processes"):
        read(good, (2, 3), 5)
    with pytest.raises(dm.errors.InvalidArgument):
        dm.BlockCyclic(9, "block", nprocs=2).scalapack_descriptor(0)
    huge = dm.BlockCyclic((2**33, 2), "(block, *)", nprocs=2)
    with pytest.raises(dm.errors.OutOfRange):
        huge.scalapack_descriptor(0)
