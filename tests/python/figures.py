# SPDX-License-Identifier: BSD-3-Clause
"""Runs a benchmark and returns the figures that it writes."""

import json
import subprocess
import sys

from datamover import launch


def bench(name, file, *arguments):
    """Run `datamover bench NAME`, and return what it writes: rows, and who was left out."""
    command = [sys.executable, "-m", "datamover.cli", "bench", name, "--json", file]
    done = subprocess.run(
        [str(word) for word in (*command, *arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=launch.outer_environment() | launch.open_mpi_environment(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())
