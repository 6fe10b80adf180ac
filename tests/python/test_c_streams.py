# SPDX-License-Identifier: BSD-3-Clause
"""Streams between Python and C programs, in both directions."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import datamover as dm
from datamover.launch import outer_environment

PROGRAMS = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build")) / "tests/mpi"
PROGRAM = PROGRAMS / "mpi_c_face_streams"
LIMIT_SECONDS = 60
SHAPE = (13, 7)

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C programs were not built")


def address_in(path, process):
    """Wait until the program has said where it listens."""
    until = time.monotonic() + LIMIT_SECONDS
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.parametrize("processes", [1, 3])
def test_stream_of_c(tmp_path, processes):
    path = tmp_path / "address"
    process = subprocess.Popen(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), PROGRAM, path],
        env=outer_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            address = address_in(path, process)
            with pytest.raises(dm.errors.InvalidArgument, match="token"):
                dm.stream.connect(address, token="known to one of them")
            grid = dm.BlockCyclic(SHAPE, "(*, *)", nprocs=1)
            rows, columns = np.indices(SHAPE)
            came = []
            with dm.stream.connect(address, token="known to both programs") as consumer:
                for step, arrays in consumer.steps({"u": grid, "v": grid}, LIMIT_SECONDS):
                    came.append(step)
                    expected = 100 * rows + columns
                    assert arrays["u"].dtype == np.int64
                    np.testing.assert_array_equal(arrays["u"], expected + 2000 * step)
                    np.testing.assert_array_equal(arrays["v"], expected - 2000 * step)
            assert came == [0, 5, 10]
            said, _ = process.communicate(timeout=LIMIT_SECONDS)
            assert process.returncode == 0, said
        finally:
            process.kill()


@pytest.mark.parametrize("processes", [1, 3])
def test_stream_to_c(processes):
    grid = dm.BlockCyclic(SHAPE, "(*, *)", nprocs=1)
    rows, columns = np.indices(SHAPE)
    with dm.Stream("tcp://127.0.0.1:0", consumers=1, timeout=LIMIT_SECONDS) as out:
        process = subprocess.Popen(
            [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes),
             PROGRAMS / "mpi_c_face_stream_sources", out.address],
            env=outer_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        with process:
            try:
                for step in range(3):
                    numbered = 100 * rows + columns
                    out.send("u", numbered + 10000 * step, layout=grid, step=5 * step)
                    out.send("v", numbered - 10000 * step, layout=grid, step=5 * step)
                out.close(LIMIT_SECONDS)
                said, _ = process.communicate(timeout=LIMIT_SECONDS)
                assert process.returncode == 0, said
            finally:
                process.kill()
