# SPDX-License-Identifier: BSD-3-Clause
"""Calls after MPI has been finalized: they raise errors. MPI itself would end the process."""

import os
import subprocess
import sys
import textwrap

import pytest

from datamover.launch import outer_environment

PROGRAM = textwrap.dedent("""
    import numpy as np, datamover as dm
    from datamover.files import move
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    alone = comm.size == 1
    rows = dm.BlockCyclic((40, 8), "(block, *)", comm.size)
    tiles = dm.BlockCyclic((40, 8), "(cyclic(3), *)", comm.size)
    plan = dm.redistribute(rows, tiles)
    x, y = dm.Array(rows, comm=comm), dm.Array(tiles, comm=comm)
    bound = dm.Mover(plan, x, y)
    sent = dm.Mover(plan, x, y, transport="p2p")
    flying = dm.Mover(plan, x, y, transport="p2p")
    flying.start()
    moves = dm.Migration(np.arange(6) % comm.size, comm=comm)
    stream = dm.Stream("tcp://127.0.0.1:0", comm=comm)
    MPI.Finalize()
    calls = {
        "Array": lambda: dm.Array(rows, comm=comm),
        "Mover": lambda: dm.Mover(plan, x, y),
        "bound": bound,
        "sent": sent,
        "tune": bound.tune,
        "wait": flying.wait,
        "test": flying.test,
        "move": lambda: moves.move(np.arange(6)),
        "distribute": lambda: dm.migrate(np.arange(6), target=np.zeros(6, int), comm=comm),
        "send": lambda: stream.send("x", x),
        "Stream": lambda: dm.Stream("tcp://127.0.0.1:0", comm=comm),
        "save": lambda: dm.save("never.zarr", {"x": x}, comm=comm),
        "files.move": lambda: move("a.npy", "b.npy", comm=comm),
        "index_lists": lambda: dm.advanced.index_lists(4, np.arange(4), comm=comm),
        "progress_thread": lambda: dm.progress_thread(),
    }
    if alone:
        del calls["send"]  # nobody is to be asked
    for name, call in calls.items():
        try:
            call()
        except dm.errors.MpiFailed as error:
            assert "MPI" in str(error), name
        else:
            raise AssertionError(name)
    for free in (sent, bound, x, y):
        free.close()
""")

# A message that is never received keeps the progress thread at work.
IN_FLIGHT = textwrap.dedent("""
    import sys, time, numpy as np, datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rows, columns = (dm.BlockCyclic((64, 64), w, comm.size) for w in ("(block, *)", "(*, block)"))
    arrays = [np.ones(layout.local_shape(comm.rank)) for layout in (rows, columns)]
    plan = dm.redistribute(rows, columns)
    movers = [dm.Mover(plan, *arrays, comm=comm, transport=t) for t in ("p2p", "datatype")]
    threads = [dm.progress_thread() for _ in range(2)]
    if comm.rank == 0:
        for mover in movers:
            mover.start()
    MPI.Finalize()
    time.sleep(0.2)
    for thread in threads:
        thread.stop()
""")

# Long enough that the receiver takes it from the sender's memory.
LEFT_ALONE = textwrap.dedent("""
    import numpy as np, datamover as dm
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rows, columns = (dm.BlockCyclic((128,) * 2, w, comm.size) for w in ("(block, *)", "(*, block)"))
    arrays = [np.ones(layout.local_shape(comm.rank)) for layout in (rows, columns)]
    mover = dm.Mover(dm.redistribute(rows, columns), *arrays, comm=comm, transport="p2p")
    for _ in range(3):
        mover()
    if comm.rank == 0:
        dm.set_timeout(1)
        mover.start()
        try:
            mover.wait()
        except dm.Timeout:
            print("heard")
""")


@pytest.mark.parametrize("processes", [1, 2])
def test_calls_after_mpi_has_ended_are_errors(processes, tmp_path):
    run(PROGRAM, processes, tmp_path)


def test_mpi_ends_while_the_progress_thread_has_movers_in_flight(tmp_path):
    result = finished(IN_FLIGHT, 2, tmp_path)
    # MPICH takes locks no longer once MPI_Finalize has begun, so a thread that is in a call of MPI
    # at that moment never releases its lock; MPI_Finalize then ends the program.
    printed = result.stdout + result.stderr
    is_locked = "pthread_mutex_destroy: Device or resource busy" in printed
    assert result.returncode == 0 or is_locked, printed


def test_the_program_ends_while_another_process_still_waits_for_it(tmp_path):
    assert run(LEFT_ALONE, 2, tmp_path) == "heard\n"


def finished(program, processes, place):
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), sys.executable]
    return subprocess.run(
        [*command, "-c", program], env=outer_environment(), cwd=place,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def run(program, processes, place):
    result = finished(program, processes, place)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
