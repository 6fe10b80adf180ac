# SPDX-License-Identifier: BSD-3-Clause
"""Transport rates measured by `bench model`: later programs use them to choose transports."""

import os
import subprocess
import sys

import pytest
from figures import bench

from datamover.launch import outer_environment

#: Ghosts in short rows and arrays of the program's own: the reasons that are shown.
PROGRAM = """
import numpy as np
from mpi4py import MPI
import datamover as dm
comm = MPI.COMM_WORLD
there = dm.FloorPlan.uniform((8, 16), (2, 1), 2)
u = dm.Array(there, ghost=1, comm=comm)
own = np.zeros((4, 16)), np.zeros((4, 16))
swap = dm.redistribute(there, there.with_owners([1, 0]))
for mover in dm.Mover(dm.halo(there, 1), u, u), dm.Mover(swap, *own, comm=comm):
    if comm.rank == 0:
        print(*(pair["why"] for pair in mover.explain() if pair["peer"] == 1), sep=chr(10))
"""


def reasons(tuning_file):
    mpiexec = os.environ.get("MPIEXEC", "mpiexec")
    environment = outer_environment() | {"DATAMOVER_TUNING_FILE": str(tuning_file)}
    command = [mpiexec, "-n", "2", sys.executable, "-c", PROGRAM]
    return subprocess.check_output(command, env=environment, text=True, timeout=100)


def test_rates_that_are_kept_are_used(tmp_path, monkeypatch):
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    kept = tmp_path / "tuning"
    monkeypatch.setenv("DATAMOVER_TUNING_FILE", str(kept))
    monkeypatch.setenv("DATAMOVER_MODEL", str(tmp_path / "model.json"))
    document = bench("model", tmp_path / "figures.json", "--case", "transpose-1024")
    rates = document["transport_rates"]
    # Beside other work a line through what was measured may be level.
    assert "shared_line" in rates and all(rate >= 0 for rate in rates.values())
    for case in document["transport_cases"]:
        assert case["measured_us"] > 0 and case["predicted_us"] >= 0
    assert {c["way"] for c in document["transport_cases"]} <= {"shared", "staged", "read"}
    said = reasons(kept)
    assert "by measured rates" in said and "by built-in rates" not in said
    words = kept.read_text().split()
    kept.write_text(kept.read_text().replace(words[-2], "1,2,nan"))
    assert "by built-in rates" in reasons(kept)


def test_nothing_is_kept_where_nothing_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("DATAMOVER_TUNING_FILE", str(tmp_path / "tuning"))
    monkeypatch.setenv("DATAMOVER_MODEL", str(tmp_path / "model.json"))
    figures = tmp_path / "figures.json"
    bench("model", figures, "--case", "transpose-1024", "--no-keep")
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
