# SPDX-License-Identifier: BSD-3-Clause
"""Streams between Python and Fortran programs, in both directions."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import datamover as dm
from datamover.launch import outer_environment

PROGRAM = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build")) / "tests/fortran/streams"
LIMIT_SECONDS = 60
SHAPE = (13, 7)
TOKEN = "known to both programs"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="there was no Fortran compiler")


@contextlib.contextmanager
def started(processes, *arguments):
    """The program while it runs; it has to succeed."""
    process = subprocess.Popen(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), PROGRAM, *arguments],
        env=outer_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
            said, _ = process.communicate(timeout=LIMIT_SECONDS)
            assert process.returncode == 0, said
        finally:
            process.kill()


def address_in(path, process):
    """Wait until the program has written the line that says where it listens."""
    until = time.monotonic() + LIMIT_SECONDS
    while not path.exists() or not path.read_text().endswith("\n"):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    return path.read_text().strip()


def numbered():
    """Element (i, j), counted from 1, is 100 i + j."""
    rows, columns = np.indices(SHAPE) + 1
    return 100 * rows + columns


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_both_ends_in_one(processes):
    with started(processes):
        pass


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_stream_of_fortran(tmp_path, processes):
    path = tmp_path / "address"
    grid = dm.BlockCyclic(SHAPE, "(*, *)", nprocs=1)
    came = []
    with started(processes, "send", path) as process:
        address = address_in(path, process)
        with pytest.raises(dm.errors.InvalidArgument, match="token"):
            dm.stream.connect(address, token="known to one of them")
        with dm.stream.connect(address, token=TOKEN) as consumer:
            for step, arrays in consumer.steps({"u": grid, "v": grid}, LIMIT_SECONDS):
                number = len(came)
                came.append((step, set(arrays)))
                assert arrays["u"].dtype == np.float64
                np.testing.assert_array_equal(arrays["u"], numbered() + 10000 * number + 0.5)
                if "v" in arrays:
                    assert arrays["v"].dtype == np.int32
                    # Fortran cuts off towards 0.
                    expected = np.trunc(numbered() - 10000 * number + 0.5)
                    np.testing.assert_array_equal(arrays["v"], expected)
    assert came == [(0, {"u", "v"}), (5, {"u", "v"}), (10, {"u", "v"}), (2**40, {"u"})]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_stream_to_fortran(processes):
    grid = dm.BlockCyclic(SHAPE, "(*, *)", nprocs=1)
    with (
        dm.Stream("tcp://127.0.0.1:0", token=TOKEN, consumers=1, timeout=LIMIT_SECONDS) as out,
        started(processes, "receive", out.address),
    ):
        for number in range(4):
            u = numbered() + 10000 * number + 0.5
            out.send("u", u, layout=grid, step=number * 2**33)
            if number % 2 == 0:
                v = np.trunc(numbered() - 10000 * number + 0.5).astype("i4")
                out.send("v", v, layout=grid, step=number * 2**33)
            out.end_step()
        out.close(LIMIT_SECONDS)
