# SPDX-License-Identifier: BSD-3-Clause
"""Redistribution cases of benchmarks: well formed, and passed to the programs completely."""

import random
from math import prod

import numpy as np
import pytest

import datamover as dm
from datamover.bench.redistribute import fixed_cases, random_case, split

PROCESSES = [1, 2, 3, 4, 6, 7]


def layout(side, processes):
    words = [f"cyclic({b or n})" for b, n in zip(side.block, side.shape, strict=True)]
    return dm.BlockCyclic(side.shape, f"({', '.join(words)})", nprocs=processes, grid=side.grid)


@pytest.mark.parametrize("processes", PROCESSES)
def test_every_case_is_a_redistribution_that_the_library_accepts(processes):
    draw = random.Random(3)
    cases = fixed_cases(processes, 256)
    cases += [random_case(draw, f"random-{i}", processes) for i in range(20)]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        source, destination = layout(case.source, processes), layout(case.destination, processes)
        axes = case.axes or tuple(range(len(case.source.shape)))
        if case.extent is None:
            plan = dm.redistribute(source, destination, axes=axes)
        else:
            lo, to = case.source.section_begin, case.destination.section_begin
            region = dm.Region(lo, np.add(lo, case.extent).tolist())
            target = dm.Region(to, np.add(to, case.extent).tolist())
            plan = dm.redistribute(
                source, destination, source_region=region, destination_region=target
            )
        assert len(plan) == 1


@pytest.mark.parametrize("processes", PROCESSES)
def test_a_line_has_all_numbers_of_its_case(processes):
    for case in fixed_cases(processes, 256):
        order, dims, *numbers = case.words
        assert order == case.order
        assert len(numbers) == 12 * dims
        assert all(n >= 0 for n in numbers)


def test_there_is_a_case_beyond_a_gigabyte_and_at_least_twelve_of_the_usual_size():
    cases = fixed_cases(2)
    usual = [c for c in cases if c.source.shape == (4096, 4096)]
    assert len(usual) >= 12
    assert max(8 * prod(c.extent or c.source.shape) for c in cases) > 2**30


@pytest.mark.parametrize("processes", PROCESSES)
def test_the_grid_is_no_square(processes):
    rows, columns = split(processes)
    assert rows * columns == processes
    assert rows < columns or processes == 1
