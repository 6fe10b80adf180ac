# SPDX-License-Identifier: BSD-3-Clause
"""Programs that end during a save or with an open file: all waiting processes end too."""

import os
import subprocess
import sys

import pytest

from datamover.launch import outer_environment

SAVES = """
import sys
import numpy as np, datamover as dm
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = dm.BlockCyclic((9, 11), "(block, *)", nprocs=comm.size)
part = np.ones(rows.local_shape(comm.rank))
saving = dm.save(sys.argv[1], {"u": (part, rows)}, comm=comm, wait=False)
if comm.rank == 0:
    try:
        saving.wait()
    except dm.PeerFailed as error:
        print(error)
"""

OPENS = """
import sys
import datamover as dm
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = dm.BlockCyclic((9, 11), "(block, *)", nprocs=comm.size)
file = dm.files.open(sys.argv[1], rows, comm=comm, mode="w", dtype="f8", ranks=1)
if comm.rank == 0:
    try:
        file.close()
    except dm.PeerFailed as error:
        print(error)
"""

APPENDS = """
import sys
import numpy as np, datamover as dm
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = dm.BlockCyclic((9, 11), "(block, *)", nprocs=comm.size)
part = np.ones(rows.local_shape(comm.rank))
series = dm.series(sys.argv[1], {"u": (part, rows)}, comm=comm)
if comm.rank == 0:
    try:
        series.close()
    except dm.PeerFailed as error:
        print(error)
"""


def name_of(program):
    return "series.zarr" if program == APPENDS else "a.zarr"


def names_in(directory):
    """Name what is left, except for a series: its complete steps stay."""
    return [name for name in os.listdir(directory) if name != "series.zarr"]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SAVES, "was not waited for on process"),
        (OPENS, "was not closed on"),
        (APPENDS, "series.zarr was not closed on"),
    ],
)
def test_a_process_that_ends_its_program_is_heard_by_those_that_wait(tmp_path, program, words):
    done = subprocess.run(
        [
            os.environ.get("MPIEXEC", "mpiexec"), "-n", "3",
            sys.executable, "-c", program, str(tmp_path / name_of(program)),
        ],
        capture_output=True, text=True, timeout=100, check=False, env=outer_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert words in done.stdout and not done.stderr
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("program", [SAVES, OPENS, APPENDS])
@pytest.mark.parametrize("nprocs", ["1", "2"])
def test_what_nobody_ends_is_removed_with_the_program(tmp_path, program, nprocs):
    done = subprocess.run(
        [
            os.environ.get("MPIEXEC", "mpiexec"), "-n", nprocs, sys.executable, "-c",
            program.partition("if comm.rank == 0")[0], str(tmp_path / name_of(program)),
        ],
        capture_output=True, text=True, timeout=100, check=False, env=outer_environment(),
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert names_in(tmp_path) == []
