# SPDX-License-Identifier: BSD-3-Clause
"""Public names of Python: those of decision 0021, each with a level in the reference."""

import re
from pathlib import Path

import pytest

import datamover as dm

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECORD = (DOCS / "decisions/0021-public-names.md").read_text()
REFERENCE = (DOCS / "reference/python.md").read_text()


def names_in(text, first_cell):
    """The names in backticks in the second cell of the row of a table."""
    (row,) = re.findall(rf"^\| {re.escape(first_cell)} \| (.*) \|$", text, re.MULTILINE)
    return re.findall(r"`([\w.]+)`", row)


@pytest.mark.parametrize("module", [dm, dm.advanced])
def test_the_names_are_those_of_the_record(module):
    names = names_in(RECORD, f"`{module.__name__}`")
    assert sorted(names) == sorted(set(module.__all__) - {"__version__"})
    assert all(getattr(module, name) is not None for name in names)


def test_the_errors_are_those_of_the_record():
    classes = {
        name
        for name, value in vars(dm.errors).items()
        if isinstance(value, type) and issubclass(value, dm.Error)
    }
    assert sorted(names_in(RECORD, "`datamover.errors`")) == sorted(classes)


def test_each_name_has_one_level_and_a_page():
    levels = [names_in(REFERENCE, level) for level in ("beginner", "advanced", "experimental")]
    named = [name for level in levels for name in level if name != "datamover.advanced"]
    assert sorted(named) == sorted(set(dm.__all__) - {"__version__"})
    pages = set(re.findall(r"^   ([\w.]+)$", REFERENCE, re.MULTILINE))
    modules = {"advanced", "errors", "files", "fft", "stream", "targets"}
    listed = {name for name in dm.__all__ if name != "__version__"} - modules
    assert listed <= pages
    assert {f"advanced.{name}" for name in dm.advanced.__all__} <= pages
    classes = set(names_in(RECORD, "`datamover.errors`")) - set(dm.__all__)
    assert {f"errors.{name}" for name in classes} <= pages
