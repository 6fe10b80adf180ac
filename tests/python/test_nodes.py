# SPDX-License-Identifier: BSD-3-Clause
"""Nodes with and without shared memory in one run."""

import os
import subprocess
import sys
import textwrap

from datamover.launch import outer_environment

PROGRAM = textwrap.dedent("""
    import os, sys
    rank = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "-1")))
    lacking = rank >= 2
    if lacking:
        os.environ["DATAMOVER_SHARED_BYTES"] = "0"
    import datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    assert comm.rank == rank
    rows = dm.BlockCyclic((8, 8), "(block, *)", comm.size)
    columns = dm.BlockCyclic((8, 8), "(*, block)", comm.size)
    a, b = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    a.local[...] = 3
    mover = dm.Mover(dm.redistribute(rows, columns), a, b)
    mover()
    assert (b.local == 3).all()
    pairs = [p for p in mover.explain() if p["peer"] != rank]
    neighbours = {p["transport"] for p in pairs if p["peer"] // 2 == rank // 2}
    assert neighbours == ({"p2p"} if lacking else {"shared"}), pairs
    if lacking:
        assert all("DATAMOVER_SHARED_BYTES" in p["why"] for p in pairs), pairs
""")


def test_one_of_two_nodes_lacks_shared_memory():
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", "4", sys.executable, "-c", PROGRAM]
    environment = outer_environment() | {"DATAMOVER_NODE_SIZE": "2"}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
