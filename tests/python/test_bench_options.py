# SPDX-License-Identifier: BSD-3-Clause
"""Output options of benchmarks: a file that cannot be written is rejected before measuring."""

import json
import os

import pytest
from typer.testing import CliRunner

from datamover.bench import programs
from datamover.bench.command import app

NAMES = sorted(command.name for command in app.registered_commands if command.name != "all")


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("it has measured")

    monkeypatch.setattr(programs, "run", fail)
    monkeypatch.setattr(programs, "own_mpi", fail)


def refused(*words):
    done = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "300"})
    assert done.exit_code == 2, done.output
    assert "it has measured" not in repr(done.exception)
    return done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["speeds.foo", "speeds", "no/folder/speeds.png"])
def test_a_picture_that_cannot_be_drawn(tmp_path, name, file):
    words = "cannot be written" if file.endswith(".png") else "does not end in .png, .pdf, .svg"
    assert words in refused(name, "--png", tmp_path / file)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_without_matplotlib(tmp_path, monkeypatch, name):
    monkeypatch.setattr("datamover.picture.find_spec", lambda module: None)
    assert "pip install 'datamover[plot]'" in refused(name, "--png", tmp_path / "speeds.png")


@pytest.mark.parametrize("name", NAMES)
def test_figures_that_cannot_be_written(tmp_path, name):
    assert "cannot be written" in refused(name, "--json", tmp_path)
    assert "cannot be written" in refused(name, "--json", tmp_path / "no" / "rows.json")
    assert os.listdir(tmp_path) == []


ROW = {"case": "a", "phase": "move", "contender": "x", "processes": 2, "seconds": 1.0}
OTHER_FILES = [
    ("", ""),
    ("[" * 100_000, "recursion"),
    ([], "the file is []"),
    ({}, "rows is None"),
    ({"rows": 1}, "rows is 1"),
    ({"rows": [{}]}, "case of row 0 is None"),
    ({"rows": [1]}, "row 0 is 1"),
    *(({"rows": [], name: None}, f"{name} is None") for name in ("machine", "versions")),
    *(({"rows": [ROW, ROW | {name: ["x"]}]}, f"{name} of row 1 is ['x']") for name in ROW),
    *(({"rows": [ROW | {"seconds": x}]}, "seconds of row 0 is") for x in (-1, float("nan"))),
    ({"rows": [ROW | {"seconds": float("inf")}]}, "seconds of row 0 is inf"),
    ({"rows": [ROW | {"seconds": 10**400}]}, "seconds of row 0 is 1000"),
]


def test_a_file_that_does_not_exist_cannot_be_compared(tmp_path):
    assert "does not exist" in refused("halo", "--compare", tmp_path / "old.json")


@pytest.mark.parametrize(("content", "named"), OTHER_FILES)
def test_figures_that_cannot_be_compared(tmp_path, content, named):
    old = tmp_path / "old.json"
    old.write_text(content if isinstance(content, str) else json.dumps(content))
    done = CliRunner().invoke(app, ["halo", "--compare", str(old)], env={"COLUMNS": "300"})
    assert done.exit_code == 1
    assert "was not written by datamover bench --json" in done.stderr
    assert named in done.stderr
