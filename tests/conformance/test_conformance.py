# SPDX-License-Identifier: BSD-3-Clause
"""Conformance: C, C++, Python and the command line give the oracle's results for the same cases.

A case is one line of a JSON file: layouts in HPF notation (or the blocks of a halo), and the
elements of every process afterwards, each named by its flat index in the source. The command line
executes a redistribution only between files, so the test compares the messages that it reports.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import make_cases
import pytest
from typer.testing import CliRunner

from datamover import cli
from datamover.launch import outer_environment

HERE = Path(__file__).resolve().parent
CASES = {
    case["name"]: case
    for name in ("redistribute.json", "same_indices.json", "halo.json")
    for case in json.loads((HERE / name).read_text())
}
SECONDS = 120


def test_the_files_hold_what_the_oracle_says():
    for name, listed in make_cases.cases().items():
        assert (HERE / name).read_text() == make_cases.text_of(listed)


def words(case):
    """A case as the drivers in C and C++ read it (driver.h)."""

    def optional(value, *more):
        return [0] if value is None else [1, *more]

    def layout(said):
        if "regions" in said:
            boxes = zip(said["regions"], said["owners"], strict=True)
            words = [word for (lo, hi), owner in boxes for word in (*lo, *hi, owner)]
            return [len(said["regions"][0][0]), len(said["regions"]), *words]
        ranks = said.get("ranks", [])
        distribution = said["distribution"].replace(" ", "")
        place = [len(said["shape"]), 0, *said["shape"], distribution, *said["grid"]]
        return [*place, len(ranks), *ranks]

    name = case["name"].replace(" ", "_")
    if case["operation"] == "redistribute":
        axes, sections = case.get("axes"), case.get("source_section")
        bounds = [
            number
            for side in ("source_section", "destination_section")
            for point in case.get(side, [])
            for number in point
        ]
        said = [*layout(case["source"]), *layout(case["destination"])]
        said += [*optional(axes, *(axes or [])), *optional(sections, *bounds)]
        said.append(int(case.get("partial", False)))
    else:
        periodic, wraps = case.get("periodic"), case.get("wraps")
        lo, hi = case["region"]
        said = [len(lo), *lo, *hi, *case["grid"], *case["lower"], *case["upper"]]
        said += optional(periodic, *(n for point in periodic or [] for n in point))
        said += [*optional(wraps, *(wraps or [])), int(case["corners"])]
    return " ".join(map(str, [case["operation"], name, *said])) + "\n"


def driver(face):
    """The command that runs cases through a face, or why there is none."""
    if face == "Python":
        return [sys.executable, HERE / "python_driver.py"]
    build = os.environ.get("DATAMOVER_TEST_BUILD")
    if not build:
        pytest.skip("DATAMOVER_TEST_BUILD does not say where the drivers were built")
    program = Path(build) / "tests/conformance" / {"C": "c_driver", "C++": "cpp_driver"}[face]
    assert program.exists(), "build the tests first"
    return [program]


@functools.cache
def results(face, processes, directory):
    """What every process has afterwards, for all cases of so many processes: one start for all."""
    cases = [c for c in CASES.values() if c["processes"] == processes]
    said = json.dumps(cases) if face == "Python" else "".join(map(words, cases))
    (directory / "cases").write_text(said)
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", processes, *driver(face)]
    command += [directory / "cases", directory]
    ran = subprocess.run(
        list(map(str, command)),
        env=outer_environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    held = {}
    for rank in range(processes):
        for line in (directory / str(rank)).read_text().splitlines():
            name, *elements = line.split()
            held.setdefault(name.replace("_", " "), []).append(elements)
    return held


@pytest.mark.parametrize("face", ["C", "C++", "Python"])
@pytest.mark.parametrize("name", CASES)
def test_every_process_holds_what_the_oracle_says(face, name, tmp_path_factory):
    case = CASES[name]
    directory = tmp_path_factory.getbasetemp() / f"{face}-{case['processes']}"
    directory.mkdir(exist_ok=True)
    driver(face)  # skips where there is none
    held = results(face, case["processes"], directory)[name]
    elements = [
        [int(e) if e.lstrip("-").isdigit() else e.lower() for e in of_rank] for of_rank in held
    ]
    assert elements == case["expected"]


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_says_the_messages_of_the_oracle(name, tmp_path):
    case = CASES[name]
    if case["operation"] == "halo":
        pytest.skip("the command line has no halos")
    if "source_section" in case:
        pytest.skip("the command line has no sections")
    if "traffic" not in case:
        pytest.skip("the command line has one shape, and no boxes")
    source, destination = case["source"], case["destination"]
    if "ranks" in source or "ranks" in destination:
        pytest.skip("the command line numbers processes by their places in the grid")

    def listed(numbers):
        return ",".join(map(str, numbers))

    command = ["explain", "-n", case["processes"]]
    command += ["--shape", listed(source["shape"])]
    command += ["--from", source["distribution"], "--from-grid", listed(source["grid"])]
    command += ["--to", destination["distribution"], "--to-grid", listed(destination["grid"])]
    command += ["--itemsize", 1, "--json", tmp_path / "said.json"]
    if "axes" in case:
        command += ["--axes", listed(case["axes"])]
    ran = CliRunner().invoke(cli.app, list(map(str, command)))
    assert ran.exit_code == 0, ran.output
    pairs = json.loads((tmp_path / "said.json").read_text())["pairs"]
    said = zip(pairs["source"], pairs["destination"], pairs["bytes"], strict=True)
    assert sorted(map(list, said)) == case["traffic"]
