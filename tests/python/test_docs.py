# SPDX-License-Identifier: BSD-3-Clause
"""Code in README.md and docs/: it runs as written.

The ```python blocks of one file run in one process after the other, as one program, under mpiexec
if they use MPI. A block marked ```python file=NAME is saved under that name instead. In ```console
blocks, the commands that start with `$ datamover` or `$ mpiexec` run; in a block marked ```console
exact they must also print what the block shows. A page with a block marked ```python needs=PACKAGE
runs if that package is installed. A comment `<!-- not run: reason -->` above a block excludes it.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from datamover.launch import outer_environment

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?P<not_run><!-- not run:[^\n]*-->\n+)?"
    r"(?P<indent> *)```(?P<language>\w+)(?P<marks>[^\n]*)\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
PROCESSES = 4
LIMIT_SECONDS = 150
# A wheel (tests/try-wheel) comes without the programs that these commands start.
LEFT_OUT = ("datamover bench ", "datamover app ") if "DATAMOVER_TEST_WHEEL" in os.environ else ()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the number of the line before its first."""

    language: str
    marks: str
    text: str
    line: int

    @property
    def file(self):
        """The name under which a reader saves the block; none: it is part of the page's program."""
        return self._marked("file=")

    @property
    def needs(self):
        """The package without which the page's program is not run."""
        return self._marked("needs=")

    def _marked(self, word):
        return next((m.removeprefix(word) for m in self.marks.split() if word in m), None)


def blocks(page):
    """The blocks of a page that are to be run."""
    content = page.read_text()
    return [
        Block(
            found["language"],
            found["marks"],
            found["text"],
            content[: found.start("text")].count("\n"),
        )
        for found in BLOCK.finditer(content)
        if not found["not_run"]
    ]


def program(page):
    """The Python blocks of a page as one program, each line at the number it has on the page."""
    lines = []
    for block in blocks(page):
        if block.language == "python" and not block.file:
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    return "\n".join(lines)


def commands(block):
    """The `$ datamover` commands of a console block, each with the output shown below it."""
    joined = block.text.replace("\\\n", " ")
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        if command.startswith(("datamover ", "mpiexec ")) and not command.startswith(LEFT_OUT):
            words = shlex.split(command, comments=True)
            if words[0] == "mpiexec":
                words[0] = MPIEXEC
            yield words, output


def run(command, directory):
    """Run a command as a reader would, and return what it prints."""
    executables = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {"PATH": executables, "COLUMNS": "100", "NO_COLOR": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env=outer_environment() | plain,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",  # a launcher may cut a letter of several bytes by the lines of another
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def directory(tmp_path):
    """A directory with the input that the pages speak of: the brain volume's shape and type."""
    noise = np.random.default_rng(1).integers(0, 255, (197, 233, 189), dtype="u1")
    np.save(tmp_path / "brain.npy", noise)
    return tmp_path


def with_blocks(wanted):
    """The pages that have blocks of some kind, as test parameters."""
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if page.exists() and any(map(wanted, blocks(page)))
    ]


@pytest.mark.parametrize("page", with_blocks(lambda b: b.language == "python" and not b.file))
def test_python_blocks(page, directory):
    for package in filter(None, (block.needs for block in blocks(page))):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    source = program(page)
    script = directory / f"{page.stem}.py"
    script.write_text(source)
    start = []
    if "MPI" in source:
        start = [MPIEXEC, "-n", PROCESSES]
    run([*start, sys.executable, script], directory)


def lines(text):
    """The lines of an output, without the spaces at their ends."""
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", with_blocks(lambda b: b.language == "console"))
def test_console_blocks(page, directory):
    for block in blocks(page):
        if block.file:
            (directory / block.file).write_text(block.text)
        if block.language == "console":
            for command, shown in commands(block):
                printed = run(command, directory)
                if "exact" in block.marks.split():
                    assert lines(printed) == lines(shown), f"{page.name}: {shlex.join(command)}"
