# SPDX-License-Identifier: BSD-3-Clause
"""Fortran module: moves the right elements, and stops the program on errors without `stat`."""

import os
import subprocess
from pathlib import Path

import pytest

from datamover.launch import outer_environment

BUILD = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build"))
PROGRAMS = BUILD / "tests/fortran"

pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "moves").exists(), reason="there was no Fortran compiler"
)


def launched(processes, program, *arguments, **environment):
    return subprocess.run(
        [
            os.environ.get("MPIEXEC", "mpiexec"),
            "-n",
            str(processes),
            PROGRAMS / program,
            *arguments,
        ],
        env=outer_environment() | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("program", ["moves", "migrations"])
@pytest.mark.parametrize(("processes", "node_size"), [(1, 0), (3, 0), (4, 2)])
def test_program(program, processes, node_size):
    nodes = {"DATAMOVER_NODE_SIZE": str(node_size)} if node_size else {}
    done = launched(processes, program, **nodes)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_call_without_stat_stops_with_the_message():
    done = launched(1, "moves", "typo")
    assert done.returncode != 0
    assert "datamover: " in done.stderr and "blok" in done.stderr
