# SPDX-License-Identifier: BSD-3-Clause
"""Leftovers of killed programs in a changed array: removed by the next program that opens it."""

import fcntl
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import zarr
from mpi4py import MPI

import datamover as dm

#: Doubles an array, and is killed when the second chunk is whole under its hidden name.
PROGRAM = """
import os, signal, sys
import numpy as np
from mpi4py import MPI
import datamover as dm

replace = os.replace
calls = []

def killed(*names):
    calls.append(names)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)

rows = dm.BlockCyclic((8, 6), "(block, *)", nprocs=1)
with dm.files.open(sys.argv[1], rows, comm=MPI.COMM_SELF, mode="r+") as file:
    os.replace = killed
    dm.Mover(dm.redistribute(rows, rows), np.ones((8, 6)), file, op="add")()
"""


@pytest.mark.parametrize("separator", ["/", "."])
def test_leftovers_of_a_killed_program_are_removed(tmp_path, separator):
    path = tmp_path / "a.zarr"
    before = np.arange(1.0, 49).reshape(8, 6)
    encoding = {"name": "default", "separator": separator}
    zarr.create_array(path, data=before, chunks=(2, 3), chunk_key_encoding=encoding)
    names = sorted(str(name) for name in path.rglob("*"))
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    left = set(path.rglob(".*"))  # each thread was at a chunk
    assert left
    held = path / ".chunk.0123456789ab.partial"
    held.touch()
    with open(held) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        rows = dm.BlockCyclic((8, 6), "(block, *)", nprocs=1)
        found = np.empty((8, 6))
        with dm.files.open(path, rows, comm=MPI.COMM_SELF, mode="r+") as file:
            dm.Mover(dm.redistribute(rows, rows), file, found)()
        assert set(path.rglob(".*")) == {held}
    os.unlink(held)
    assert sorted(str(name) for name in path.rglob("*")) == names
    # Each chunk is the old or the new, whole.
    changed = (found - before).reshape(4, 2, 2, 3).transpose(0, 2, 1, 3).reshape(8, 6)
    assert np.isin(changed, (0, 1)).all() and (changed == changed[:, :1]).all()
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], found)
