# SPDX-License-Identifier: BSD-3-Clause
"""Chart of `bench distribute`: shows the measured values and nothing else."""

import warnings

import pytest
from typer.testing import CliRunner

from datamover.bench import programs
from datamover.bench.command import app

figure = pytest.importorskip("matplotlib.figure")

TITLES = {
    ("A", "once"): "Example A: set-up and move",
    ("A", "again"): "Example A: a plan used again",
    ("C-inplace", "once"): "Example C: in place",
    ("B", "once"): "Examples B (solid) and C (hatched): set-up and move",
    ("C", "once"): "Examples B (solid) and C (hatched): set-up and move",
    ("C", "again"): "Examples B (solid) and C (hatched): a plan used again",
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
    from datamover.bench.plot_distribute import draw

    drawn, save = [], figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda f, *a, **k: (drawn.append(f), save(f, *a, **k))
    )
    contenders = ("datamover:auto", "memcpy")
    rows = [row(*of, contender, p) for of in measured for contender in contenders for p in (1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(rows, tmp_path / "times.png")
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    panels = [panel for panel in drawn[0].axes if panel.axison]
    expected = {
        f"{TITLES[e, phase]}, {count:,} elements per process" for e, phase, count in measured
    }
    assert sorted(panel.get_title("left") for panel in panels) == sorted(expected)
    for panel in panels:
        heights = {y for line in panel.get_lines() for y in line.get_ydata()}
        heights |= {bar.get_height() for bar in panel.patches if bar.get_height() > 0}
        assert sorted(heights) == pytest.approx([2, 3, 4, 6])
        names = [text.get_text() for text in panel.get_legend().get_texts()]
        assert sorted(names) == ["auto", "memcpy"]


def test_what_is_not_drawn_is_refused_before_it_is_measured(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("it has measured")

    monkeypatch.setattr(programs, "own_mpi", fail)
    words = ["distribute", "--case", "md-frames", "--png", str(tmp_path / "times.png")]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "md-frames is not drawn" in done.stderr
