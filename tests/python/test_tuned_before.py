# SPDX-License-Identifier: BSD-3-Clause
"""Measurements of an earlier program: the conditions under which a later one reuses them."""

import os
import subprocess
import sys
import textwrap

import pytest

from datamover.launch import outer_environment

PROGRAM = textwrap.dedent("""
    import os, sys
    if len(sys.argv) > 1:
        os.sched_setaffinity(0, {int(sys.argv[1])})
    import datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rows = dm.BlockCyclic((8, 8), "(block, *)", comm.size)
    columns = dm.BlockCyclic((8, 8), "(*, block)", comm.size)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    mover = dm.Mover(dm.redistribute(rows, columns), a, b, transport="measure")
    if comm.rank == 0:
        print(bool(mover.explain().trials))
""")


def measures(tuning_file, *arguments):
    """Whether a program of two processes measures, as it says itself."""
    mpiexec = os.environ.get("MPIEXEC", "mpiexec")
    environment = outer_environment() | {"DATAMOVER_TUNING_FILE": str(tuning_file)}
    command = [mpiexec, "-n", "2", sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.check_output(command, env=environment, text=True, timeout=100).split()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processors are chosen on Linux")
def test_not_where_there_are_fewer_processors(tmp_path):
    allowed = os.sched_getaffinity(0)
    if len(allowed) == 1:
        pytest.skip("there is one processor")
    file = tmp_path / "choices"
    assert measures(file) == ["True"]
    assert measures(file) == ["False"]
    assert measures(file, str(min(allowed))) == ["True"]
    assert measures(file, str(min(allowed))) == ["False"]
