# SPDX-License-Identifier: BSD-3-Clause
"""`bench relations`: the contenders written in Python do what their names claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamover.bench import meshes, relations
from datamover.errors import Unsupported


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200))
def test_further_encodings_hold_the_indices(index):
    index = np.array(index)
    for nbytes, decode in relations.candidates(index).values():
        np.testing.assert_array_equal(decode(), index)
        assert nbytes > 0


@pytest.mark.parametrize("name", relations.REDISTRIBUTIONS)
def test_both_programs_measure_the_same_pairs(name):
    """NumPy's strided views hold the pairs of the plan's relation of process 0 to itself."""
    n = 64
    ni, nj, source, destination = relations.PATTERNS[name](n, n // 4)
    whole = relations.relations(name, n)[0]
    i, j = np.meshgrid(np.arange(ni), np.arange(nj))
    pairs = [(8 * (i * s[0] + j * s[1])).ravel() for s in (source, destination)]
    expected = sorted(zip(*map(np.ndarray.tolist, pairs), strict=True))
    assert sorted(zip(*map(np.ndarray.tolist, whole.to_pairs()), strict=True)) == expected


@pytest.mark.parametrize("mesh", meshes.MESHES)
def test_a_reordering_keeps_the_matrix(mesh):
    try:
        natural, rcm = (meshes.columns(f"mesh-{mesh}-{order}") for order in meshes.ORDERS)
    except Unsupported as missing:
        pytest.skip(str(missing))
    counts = [np.sort(np.bincount(columns)) for columns in (natural, rcm)]
    np.testing.assert_array_equal(*counts)
