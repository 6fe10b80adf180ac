# SPDX-License-Identifier: BSD-3-Clause
"""Files of Fortran programs: NumPy reads what they save, and they load what NumPy saves."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from datamover.launch import outer_environment

PROGRAM = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build")) / "tests/fortran/files"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="there was no Fortran compiler")


def run(processes, directory, mode):
    done = subprocess.run(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), PROGRAM, directory, mode],
        env=outer_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def matrix():
    """Element (i, j), counted from 1, is 1000 i + j."""
    return 1000.0 * np.arange(1, 14)[:, None] + np.arange(1, 8)


@pytest.mark.parametrize(("writers", "readers", "order"), [(1, 2, "C"), (2, 3, "F"), (3, 1, "C")])
def test_files_of_fortran(tmp_path, writers, readers, order):
    run(writers, tmp_path, "save")
    for name in ("matrix.npy", "matrix.data"):
        stored = np.load(tmp_path / name)
        assert stored.dtype == np.float64 and stored.flags.c_contiguous
        np.testing.assert_array_equal(stored, matrix())
    np.testing.assert_array_equal(np.fromfile(tmp_path / "matrix.dat").reshape(13, 7), matrix())
    i, j, k = np.meshgrid(np.arange(-1, 5), np.arange(3, 8), np.arange(1, 5), indexing="ij")
    field = np.fromfile(tmp_path / "field", "i4").reshape(6, 5, 4)
    np.testing.assert_array_equal(field, 10000 * i + 100 * j + k)
    line = np.load(tmp_path / "line.npy")
    assert line.dtype == np.complex64
    np.testing.assert_array_equal(line, np.arange(max(1, writers - 1)) - 0.5j)
    names = {"matrix.npy", "matrix.data", "matrix.dat", "field", "line.npy", "alone.dat"}
    assert {entry.name for entry in tmp_path.iterdir()} == names

    np.save(tmp_path / "given.npy", np.asarray(matrix() + 0.25, "f4", order=order))
    run(readers, tmp_path, "load")
