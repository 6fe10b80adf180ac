# SPDX-License-Identifier: BSD-3-Clause
"""Notebook output of layouts and plans: short, even for huge ones."""

import io
import xml.etree.ElementTree as xml
from base64 import b64decode

import numpy as np
import pytest
from matplotlib.image import imread

import datamover as dm


def rows_of(thing):
    """The cells of the HTML table that a notebook would show."""
    shown = xml.fromstring(thing._repr_html_())
    table = shown if shown.tag == "table" else shown.find("table")
    return table.find("caption").text, [
        ["".join(c.itertext()) for c in r] for r in table.iter("tr")
    ]


def test_layouts():
    caption, rows = rows_of(dm.BlockCyclic((8, 6), "(cyclic(2), *)", nprocs=4))
    assert caption == "BlockCyclic" and ["distribution", "(cyclic(2), *)"] in rows
    caption, rows = rows_of(dm.FloorPlan([dm.Region((0, 1), (4, 5))], [1], nprocs=3))
    assert rows[1] == ["0", "1", "[0:4, 1:5]", "(4, 4)"] and "3 processes" in caption
    caption, rows = rows_of(dm.IndexList(40, [[3, 1], list(range(20))]))
    assert rows[1] == ["0", "2", "3, 1"] and rows[2][2].endswith("7, …")
    caption, rows = rows_of(dm.FlatCyclic((8, 6), 5, nprocs=3, owners=[2, 0]))
    assert caption == "FlatCyclic" and ["owners", "2, 0"] in rows
    layout = dm.FloorPlan([dm.Region(0, 4)], [0])
    assert rows_of(dm.advanced.dense_memory(layout, 0, 8, ghost=1))[1][1] == [
        "0",
        "8",
        "(8,)",
        "[-1:5]",
    ]


def colors_of(layout):
    """The colors of the picture that a notebook would show of a layout."""
    _, _, text = xml.fromstring(layout._repr_html_()).find("img").get("src").partition(",")
    pixels = imread(io.BytesIO(b64decode(text)))
    return {tuple(c) for c in pixels[20:-20:3, 20:-20:3].reshape(-1, pixels.shape[-1]).tolist()}


def test_layouts_are_drawn():
    one, two = (dm.BlockCyclic((8, 6), "(block, *)", nprocs=n) for n in (1, 2))
    assert len(colors_of(two)) > len(colors_of(one))
    for layout in (
        dm.FloorPlan([dm.Region((0, 1, 2), (4, 5, 6))], [1], nprocs=3),
        dm.IndexList(40, [[3, 1], list(range(20))]),
        dm.FlatCyclic((6, 7), 5, nprocs=3),
        dm.BlockCyclic((5, 4, 3, 2), "(block, *, *, *)", nprocs=2),
    ):
        assert len(colors_of(layout)) > 1


@pytest.mark.parametrize("layout", [
    dm.BlockCyclic((0,), "block", nprocs=2),
    dm.BlockCyclic((3, 0, 4), "(block, *, *)", nprocs=2),
    dm.FloorPlan(np.zeros((0, 2, 3), int), [], nprocs=2),
    dm.IndexList(0, [[], []]),
    dm.FlatCyclic((0, 3), 2, nprocs=2),
])  # fmt: skip
def test_layouts_without_elements(layout):
    caption, _ = rows_of(layout)
    assert caption.startswith(type(layout).__name__)


def test_plans():
    halves = dm.FloorPlan([dm.Region((0, 0), (4, 4)), dm.Region((0, 4), (4, 8))], [0, 1])
    plan = dm.halo(halves, 1, periodic=True) + dm.redistribute(halves, halves, partial=True)
    plan.add_section(0, dm.Region((0, 0), (2, 3)), 1, dm.Region((0, 4), (3, 6)), axes=(1, 0))
    rows = rows_of(plan)[1][1:]
    assert [row[0] for row in rows] == ["halo", "partial redistribution", "section"]
    assert rows[2][1:] == ["block 0 [0:2, 0:3]", "block 1 [0:3, 4:6], axes (1, 0)"]
    assert rows_of(plan.reversed())[1][1][2] == "interiors"
    strided = dm.halo(halves, 1, colors=2, color=1)
    strided.add_section(
        0, dm.Region((0, 0), (4, 3)), 1, dm.Region((0, 4), (2, 7)), source_step=(2, 1)
    )
    rows = rows_of(strided)[1][1:]
    assert rows[0][2].endswith(", color 1 of 2")
    assert rows[1][1:] == ["block 0 [0:4:2, 0:3]", "block 1 [0:2, 4:7]"]


@pytest.mark.parametrize("make", [
    lambda n: dm.FloorPlan(np.stack([np.arange(n), np.arange(n) + 1], 1)[..., None], np.arange(n)),
    lambda n: dm.IndexList(n, np.arange(n)[:, None]),
    lambda n: dm.BlockCyclic(n, "block", nprocs=n, ranks=np.arange(n)[::-1]),
    lambda n: dm.FlatCyclic(n, 1, nprocs=n, owners=np.arange(n)[::-1]),
])  # fmt: skip
def test_large_ones_are_short(make):
    layout = make(5000)
    plan = dm.redistribute(layout, layout)
    for _ in range(4):
        plan = plan + plan
    for thing in (layout, plan, dm.advanced.dense_memory(layout, 0, 8)):
        assert len(repr(thing)) < 300 and "\n" not in repr(thing)
        table, _, picture = thing._repr_html_().partition("<img")
        assert len(table) < 4000 and len(picture) < 40_000
    assert "8 more terms" in plan._repr_html_()


def test_distributions():
    from mpi4py import MPI

    distribution = dm.Migration([0, -1, 0], comm=MPI.COMM_SELF)
    caption, rows = rows_of(distribution)
    assert caption == ("Migration, process 0 of 1: gives 3 elements, receives 2, drops 1") and rows[
        1:
    ] == [["0", "2", "2"]]
