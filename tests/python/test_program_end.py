# SPDX-License-Identifier: BSD-3-Clause
"""Programs ended by an exception on one process: the other processes get an error."""

import os
import subprocess
import sys
import textwrap

import pytest

from datamover.launch import outer_environment

PROGRAM = textwrap.dedent("""
    import sys
    import numpy as np, datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rows = dm.BlockCyclic((40, 8), "(block, *)", comm.size)
    columns = dm.BlockCyclic((40, 8), "(*, block)", comm.size)
    plan = dm.redistribute(rows, columns)
    x, y = dm.Array(rows, comm=comm), dm.Array(columns, comm=comm)
    a, b = (np.zeros(layout.local_shape(comm.rank)) for layout in (rows, columns))
    moves = dm.Migration(np.arange(6) % comm.size, comm=comm)
    stream = dm.Stream("tcp://127.0.0.1:0", comm=comm.Dup())
    calls = {
        "library's": dm.Mover(plan, x, y),
        "user's": dm.Mover(plan, a, b, comm=comm),
        "p2p": dm.Mover(plan, a, b, comm=comm, transport="p2p"),
        "bind": lambda: dm.Mover(plan, x, y),
        "Array": lambda: dm.Array(rows, comm=comm),
        "distribution": lambda: moves.move(np.arange(6)),
        "stream": lambda: stream.send("x", a, layout=rows),
    }
    call = calls[sys.argv[1]]
    call()
    comm.Barrier()  # else some may wait for others in the first call when one ends
    if comm.rank == comm.size - 1:
        try:
            raise ZeroDivisionError("of the program's own")
        except ZeroDivisionError:
            if sys.argv[2] == "ends":
                raise
    try:
        for _ in range(3):
            call()
    except dm.PeerFailed as error:
        words = f"process {comm.size - 1} failed: its program was ended by ZeroDivisionError"
        assert str(error).startswith(words), error
        sys.stdout.write("told\\n")
""")
CALLS = ["library's", "user's", "p2p", "bind", "Array", "distribution", "stream"]


def run(nprocs, *arguments, node_size=0):
    pretended = {"DATAMOVER_NODE_SIZE": str(node_size)} if node_size else {}
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(nprocs), sys.executable]
    return subprocess.run(
        [*command, "-c", PROGRAM, *arguments],
        env=outer_environment() | pretended,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("nprocs", "node_size"), [(2, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("call", CALLS)
def test_who_waits_for_a_program_that_an_exception_ended_is_told(call, nprocs, node_size):
    done = run(nprocs, call, "ends", node_size=node_size)
    assert done.stdout.split() == ["told"] * (nprocs - 1), done.stderr
    assert "ZeroDivisionError: of the program's own" in done.stderr


def test_nobody_is_told_of_an_exception_that_the_program_caught():
    done = run(2, "p2p", "goes on")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
