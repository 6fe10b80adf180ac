# SPDX-License-Identifier: BSD-3-Clause
"""Files of C programs: NumPy reads what they save, and they load what NumPy saves."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from datamover.launch import outer_environment

PROGRAM = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build")) / "tests/mpi/mpi_c_face_files"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C programs were not built")


@pytest.mark.parametrize(
    ("processes", "dtype", "order", "version"),
    [(1, "f8", "C", (1, 0)), (3, "f4", "F", (2, 0)), (2, "i2", "C", (3, 0))],
)
def test_files_of_c(tmp_path, processes, dtype, order, version):
    given = 10 * np.arange(5)[:, None] + np.arange(8)
    with open(tmp_path / "given.npy", "wb") as file:
        np.lib.format.write_array(file, np.asarray(given, dtype, order=order), version)
    done = subprocess.run(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), PROGRAM, tmp_path],
        env=outer_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = 100.0 * np.arange(5)[:, None] + np.arange(8) / 4
    stored = np.load(tmp_path / "c.npy")
    assert stored.dtype == np.float64 and stored.flags.c_contiguous
    np.testing.assert_array_equal(stored, expected)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "c.raw").reshape(5, 8), expected)
    assert {entry.name for entry in tmp_path.iterdir()} == {"given.npy", "c.npy", "c.raw"}
