# SPDX-License-Identifier: BSD-3-Clause
"""Daemon threads in library calls: the program exits cleanly."""

import subprocess
import sys
import textwrap

import pytest

from datamover.launch import outer_environment

PROGRAM = """
    import threading, time, numpy as np, datamover as dm
    def forever(call):
        def run():
            step = call()
            while True:
                step()
        threading.Thread(target=run, daemon=True).start()
"""
CALLS = {
    "movers": """
        from mpi4py import MPI
        line = dm.BlockCyclic(1000, "block", nprocs=1)
        def call():
            on = MPI.COMM_SELF.Dup()
            return dm.Mover(dm.redistribute(line, line), np.ones(1000), np.zeros(1000), comm=on)
        for _ in range(3):
            forever(call)
    """,
    "streams": """
        line = dm.BlockCyclic(1000, "block", nprocs=1)
        def call():
            out = dm.Stream("tcp://127.0.0.1:0", policy="drop_oldest")
            return lambda: out.send("u", np.zeros(1000), layout=line)
        for _ in range(3):
            forever(call)
    """,
    "relations": """
        pairs = np.arange(1000, dtype="i8")
        relation = dm.advanced.AddressRelation.from_pairs(pairs, pairs, elem_bytes=1)
        def call():
            source, destination = np.ones(1000, "u1"), np.zeros(1000, "u1")
            return lambda: relation.copy(source, destination)
        for _ in range(3):
            forever(call)
    """,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_program_ends_while_daemon_threads_call(name):
    end = "time.sleep(0.2)\nprint('ended')\n"
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(CALLS[name]) + end
    finished = subprocess.run(
        [sys.executable, "-c", program], env=outer_environment() | {"PYTHONUNBUFFERED": ""},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert finished.stdout == "ended\n"
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
