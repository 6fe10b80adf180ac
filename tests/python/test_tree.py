# SPDX-License-Identifier: BSD-3-Clause
"""Rules of the source tree."""

import re
import tomllib
from itertools import chain, takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/datamover"
ROOMS_WITHOUT_MPI = ("src/geometry", "src/layout", "src/plan", "src/relation", "bindings/plan")


def sources(*places):
    """Return the source files below some directories."""
    found = chain.from_iterable((ROOT / place).rglob("*") for place in places)
    return [path for path in sorted(found) if path.suffix in {".hpp", ".h", ".cpp", ".py"}]


def included(path):
    """Return the headers that a file includes."""
    return set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE))


def reached(path):
    """Return the headers that a file includes, directly or through public headers."""
    seen, todo = set(), [path]
    while todo:
        for name in included(todo.pop()) - seen:
            seen.add(name)
            if (ROOT / "include" / name).exists():
                todo.append(ROOT / "include" / name)
    return seen


def test_one_header_includes_all():
    public = {f"datamover/{path.relative_to(HEADERS)}" for path in HEADERS.rglob("*.hpp")}
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


def head(text):
    """Return the first comment of a file after its license, or its docstring."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if "SPDX-License-Identifier" in line), -1) + 1
    if lines[first].startswith('"""'):
        return "\n".join(lines[first:]).split('"""')[1]
    comment = re.compile(r"(//|/\*| \*|! |# |#$)")
    return "\n".join(takewhile(comment.match, lines[first:]))


def test_heads_are_statements():
    places = ["include", "src", "bindings", "bench", "apps", "python", "tests", "examples"]
    places += ["scripts", "cmake", "docs", ".ci"]
    below = chain.from_iterable((ROOT / place).rglob("*") for place in places)
    for path in [*below, ROOT / "CMakeLists.txt", ROOT / "Makefile"]:
        if path.is_file() and b"SPDX-License-Identifier" in path.read_bytes()[:200]:
            assert not re.search(r"\?(\s|$)", head(path.read_text())), path


def test_recipes_require_what_the_package_requires():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(
        r"project\(datamover VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    spack = (ROOT / "packaging/spack/package.py").read_text()
    conda = (ROOT / "packaging/conda/recipe.yaml").read_text()
    assert f'version("{version[1]}")' in spack and f'version: "{version[1]}"' in conda
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["files"]]:
        name, least = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
        assert f'depends_on("py-{name}@{least}:"' in spack, requirement
        assert f"- {name} >={least}\n" in conda, requirement
