# SPDX-License-Identifier: BSD-3-Clause
"""Does the source tree keep its own rules?"""

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/datamover"
ROOMS_WITHOUT_MPI = ("src/geometry", "src/layout", "src/plan", "src/relation", "bindings/plan")


def sources(*places):
    """The files of our own below some directories."""
    found = chain.from_iterable((ROOT / place).rglob("*") for place in places)
    return [path for path in sorted(found) if path.suffix in {".hpp", ".h", ".cpp", ".py"}]


def included(path):
    """The headers that a file names."""
    return set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE))


def reached(path):
    """The headers that a file names, and public ones of ours that those name, and so on."""
    seen, todo = set(), [path]
    while todo:
        for name in included(todo.pop()) - seen:
            seen.add(name)
            if (ROOT / "include" / name).exists():
                todo.append(ROOT / "include" / name)
    return seen


def test_one_header_includes_all():
    public = {f"datamover/{path.name}" for path in HEADERS.glob("*.hpp")}
    of_both_languages = {"datamover/version.h"}
    offered = public - {"datamover/datamover.hpp"} | of_both_languages
    assert included(HEADERS / "datamover.hpp") == offered


@pytest.mark.parametrize("room", ROOMS_WITHOUT_MPI)
def test_room_without_mpi(room):
    for path in sources(room):
        assert not any(name.startswith("mpi") for name in reached(path)), path


def test_licence_comes_first():
    for path in sources("include", "src", "bindings", "bench", "apps", "python", "tests"):
        assert "SPDX-License-Identifier: BSD-3-Clause" in path.read_text()[:100], path
