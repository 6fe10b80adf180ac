# SPDX-License-Identifier: BSD-3-Clause
"""Chart of `bench distribute`: shows the measured values and nothing else."""

import warnings

import pytest
from figures import bench

from datamover.bench import chart, distribute
from datamover.errors import InvalidArgument

figure = pytest.importorskip("matplotlib.figure")

TITLES = {
    ("A", "once"): "Example A: set-up and move",
    ("A", "again"): "Example A: a plan used again",
    ("C-inplace", "once"): "Example C-inplace: set-up and move",
    ("B", "once"): "Example B: set-up and move",
    ("C", "once"): "Example C: set-up and move",
    ("C", "again"): "Example C: a plan used again",
}


def row(example, phase, count, contender, processes):
    milliseconds = processes * (2.0 if contender == "memcpy" else 3.0)
    case = f"{example}-{count}"
    return {
        "case": case, "phase": phase, "contender": contender,
        "processes": processes, "seconds": milliseconds * 1e-3,
    }  # fmt: skip


@pytest.mark.parametrize(
    "measured",
    [
        [("A", "once", 100)],
        [("C-inplace", "once", 100), ("C", "again", 100)],
        [("B", "once", 100), ("C", "once", 100)],
        [("A", "once", 100), ("A", "again", 100), ("A", "once", 7000), ("B", "once", 7000)],
    ],
)
def test_panels_of_what_was_measured(tmp_path, monkeypatch, measured):
    drawn, save = [], figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda f, *a, **k: (drawn.append(f), save(f, *a, **k))
    )
    contenders = ("datamover:auto", "memcpy")
    rows = [row(*of, contender, p) for of in measured for contender in contenders for p in (1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chart.draw(distribute.panels(rows), tmp_path / "times.png")
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    panels = [panel for panel in drawn[0].axes if panel.axison]
    expected = {
        f"{TITLES[e, phase]}, {count:,} elements per process" for e, phase, count in measured
    }
    assert sorted(panel.get_title("left") for panel in panels) == sorted(expected)
    for panel in panels:
        heights = {y for line in panel.get_lines() for y in line.get_ydata()}
        assert sorted(heights) == pytest.approx([2, 3, 4, 6])
        names = [text.get_text() for text in panel.get_legend().get_texts()]
        assert sorted(names) == ["auto", "memcpy"]


def test_every_program_plays_a_case_of_a_size_that_is_not_listed(tmp_path):
    document = bench(
        "distribute",
        tmp_path / "figures.json",
        *("-n", 2, "--seconds", 0, "--case", "A-500", "--case", "B-inplace-300"),
        *("--png", tmp_path / "times.png"),
    )
    assert document["left_out"] == []
    found = {(row["case"], row["phase"], row["contender"]) for row in document["rows"]}
    for contender in ("datamover:auto", "counting_sort_alltoallv"):
        assert {("A-500", "first", contender), ("A-500", "once", contender)} <= found
    assert ("A-500", "once", "numpy") in found
    assert any(case == "B-inplace-300" for case, *_ in found)
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["", "A", "A-", "A-0", "A--1", "D-5", "C-inplace", "A-\u0665"])
def test_names_that_are_not_cases(name):
    with pytest.raises(InvalidArgument, match="is not a case"):
        distribute.parse(name)
