# SPDX-License-Identifier: BSD-3-Clause
"""The layout protocol: the reference reader, this library and the schema agree."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import datamover as dm

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))

from layout_reader import elements_of  # noqa: E402 (its directory is not a package)

CASES = json.loads((ROOT / "tests" / "conformance" / "layouts.json").read_text())
SCHEMA = json.loads((ROOT / "docs" / "reference" / "layout_protocol.schema.json").read_text())


def held(layout, rank):
    """The global indices that a rank holds, in the order of its local arrays."""
    shape = layout.domain.shape
    if isinstance(layout, dm.IndexList | dm.FlatCyclic):
        flat = layout.indices_of(rank)
        return list(zip(*np.unravel_index(flat, shape), strict=True)) if flat.size else []
    found = []
    for block in layout.blocks_of(rank):
        if isinstance(layout, dm.FloorPlan):
            region = layout.region(block)
            axes = [range(a, b) for a, b in zip(region.lo, region.hi, strict=True)]
        else:
            axes = layout.global_indices(rank)
        grids = np.meshgrid(*axes, indexing="ij")
        found += list(zip(*(grid.ravel().tolist() for grid in grids), strict=True))
    return found


def fits_schema(described):
    """Check the rules that the schema has for the keys of a layout."""
    assert set(described) <= set(SCHEMA["properties"]) and set(SCHEMA["required"]) <= set(described)
    kinds = [all(key in described for key in kind["required"]) for kind in SCHEMA["oneOf"]]
    assert sum(kinds) == 1


def random_layout(rng):
    shape = tuple(rng.integers(1, 8, rng.integers(1, 4)).tolist())
    nprocs = int(rng.integers(1, 5))
    size = int(np.prod(shape))
    kind = int(rng.integers(4))
    if kind == 0:
        grid = [1] * len(shape)
        grid[int(rng.integers(len(shape)))] = nprocs
        words = ", ".join(str(rng.choice(["block", "cyclic", "cyclic(2)"])) for _ in shape)
        return dm.BlockCyclic(
            shape,
            f"({words})",
            nprocs=nprocs,
            grid=grid,
            first_process=[int(rng.integers(p)) for p in grid],
            grid_order=str(rng.choice(["C", "F"])),
            ranks=rng.permutation(nprocs),
        )
    if kind == 1:
        boxes = np.sort(rng.integers(-3, 5, (nprocs + 2, 2, len(shape))), axis=1)
        return dm.FloorPlan(boxes, rng.integers(0, nprocs, len(boxes)), nprocs)
    if kind == 2:
        return dm.FlatCyclic(shape, int(rng.integers(1, 5)), nprocs, rng.permutation(nprocs))
    owners = rng.integers(0, nprocs, size)
    return dm.IndexList(
        shape, [rng.permutation(np.flatnonzero(owners == r)) for r in range(nprocs)]
    )


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_cases_are_read_alike(case):
    described, expected = case["layout"], case["expected"]
    fits_schema(described)
    layout = dm.layouts.from_json(json.dumps(described))
    shape = described["shape"]
    for rank, flat in enumerate(expected):
        axes = np.unravel_index(np.array(flat, np.intp), shape)
        indices = [tuple(map(int, i)) for i in zip(*axes, strict=True)]
        assert elements_of(described, rank) == indices
        assert [tuple(map(int, i)) for i in held(layout, rank)] == indices


def test_random_layouts_survive_and_are_read_by_the_reference_reader():
    rng = np.random.default_rng(2)
    for _ in range(200):
        layout = random_layout(rng)
        described = json.loads(json.dumps(dm.layouts.to_json(layout)))
        fits_schema(described)
        again = dm.layouts.from_json(described)
        for rank in range(layout.nprocs):
            mine = [tuple(map(int, i)) for i in held(layout, rank)]
            assert [tuple(map(int, i)) for i in held(again, rank)] == mine
            assert elements_of(described, rank) == mine


def test_a_layout_without_boxes_survives():
    plan = dm.FloorPlan(np.zeros((0, 2, 3), int), [], 2)
    again = dm.layouts.from_json(dm.layouts.to_json(plan))
    assert again == plan and again.domain.dims == 3


HEAD = {"layout": "1.0", "shape": [6], "processes": 1}
LISTS = {**HEAD, "indices": [[0, 1, 2, 3, 4, 5]]}
BOXES = {**HEAD, "boxes": [[[0], [6]]], "ranks": [0]}
BLOCKS = {**HEAD, "block": [6], "grid": [1], "ranks": [0]}
BAD = {
    "deep text": ("[" * 100_000, dm.errors.InvalidArgument, "JSON"),
    "a key twice": (
        '{"layout": "1.0", "shape": [3], "shape": [2], "processes": 1, "indices": [[0, 1]]}',
        dm.errors.InvalidArgument,
        "'shape' occurs twice",
    ),
    "two kinds": ({**LISTS, "flat_block": 2, "ranks": [0]}, dm.errors.InvalidArgument, "one kind"),
    "another shape": ({**BOXES, "shape": [7]}, dm.errors.InvalidArgument, r"shape \[7\]"),
    "no elements": ({**BOXES, "boxes": [[[2], [2]]]}, dm.errors.InvalidArgument, r"shape \[6\]"),
    "another origin": ({**BOXES, "origin": [1]}, dm.errors.InvalidArgument, r"from \[1\] on"),
    "a long origin": ({**BOXES, "origin": [0, 0]}, dm.errors.InvalidArgument, "origin.*length"),
    "boxes of other dimensions": (
        {**BOXES, "boxes": [[[0, 0], [6, 1]]]},
        dm.errors.InvalidArgument,
        "start and a stop",
    ),
    "a reversed box": (
        {**BOXES, "boxes": [[[0], [6]], [[4], [2]]], "ranks": [0, 0]},
        dm.errors.InvalidArgument,
        "stops before it starts",
    ),
    "a version in numbers": ({**LISTS, "layout": 1.9}, dm.errors.WrongType, "1.9"),
    "a version in words": (
        {**LISTS, "layout": "1.0\n"},
        dm.errors.InvalidArgument,
        "must be as '1.0'",
    ),
    "fractions": ({**LISTS, "processes": 1.0}, dm.errors.WrongType, "processes has 1.0"),
    "a bool": ({**LISTS, "processes": True}, dm.errors.WrongType, "processes has True"),
    "a bool in a list": ({**BLOCKS, "grid": [True]}, dm.errors.WrongType, "grid has True"),
    "a text": ({**BLOCKS, "block": [" 6 "]}, dm.errors.WrongType, "block has ' 6 '"),
    "half an element": ({**BLOCKS, "block": [6.5]}, dm.errors.WrongType, "block has 6.5"),
    "infinity": (
        json.dumps({**BLOCKS, "block": [float("inf")]}),
        dm.errors.WrongType,
        "block has inf",
    ),
    "nested indices": (
        {**LISTS, "indices": [[[0, 1, 2], [3, 4, 5]]]},
        dm.errors.WrongType,
        r"has \[0, 1, 2\]",
    ),
    "a large number": ({**BOXES, "boxes": [[[0], [2**63]]]}, dm.errors.OutOfRange, "64 bits"),
    "no JSON": ("{", dm.errors.InvalidArgument, "JSON"),
    "no mapping": ([1], dm.errors.WrongType, "mapping"),
    "a later version": ({"layout": "2.0"}, dm.errors.Unsupported, "2.0"),
    "no version": ({"shape": [3]}, dm.errors.InvalidArgument, "'layout'"),
    "no kind": (
        {"layout": "1.0", "shape": [3], "processes": 1},
        dm.errors.InvalidArgument,
        "'block'",
    ),
    "too few lists": (
        {"layout": "1.0", "shape": [3], "processes": 2, "indices": [[0]]},
        dm.errors.InvalidArgument,
        "1 lists",
    ),
    "an index outside": (
        {"layout": "1.0", "shape": [3], "processes": 1, "indices": [[3]]},
        dm.errors.OutOfRange,
        "3",
    ),
    "a rank outside": (
        {"layout": "1.0", "shape": [3], "processes": 1, "boxes": [[[0], [3]]], "ranks": [1]},
        dm.errors.OutOfRange,
        "1",
    ),
    "a grid of nothing": (
        {"layout": "1.0", "shape": [3], "processes": 1, "block": [1], "grid": [0], "ranks": []},
        dm.errors.InvalidArgument,
        "grid",
    ),
    "other dimensions": (
        {"layout": "1.0", "shape": [3], "processes": 1, "block": [1, 1], "grid": [1], "ranks": [0]},
        dm.errors.InvalidArgument,
        "differ in length",
    ),
    "words": (
        {"layout": "1.0", "shape": "abc", "processes": 1, "indices": [[0]]},
        dm.errors.WrongType,
        "must be a list",
    ),
    "ragged boxes": (
        {"layout": "1.0", "shape": [3], "processes": 1, "boxes": [[[0], [3, 1]]], "ranks": [0]},
        dm.errors.InvalidArgument,
        "start and a stop",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_layout_is_refused(case):
    described, error, words = BAD[case]
    with pytest.raises(error, match=words):
        dm.layouts.from_json(described)
