# SPDX-License-Identifier: BSD-3-Clause
"""Pytest plugin for the tests of other packages: draw equal cases, and report the failed tests.

The environment variable `PEERS_FAILED` is the path of the file that failed tests are written to, by
all processes.
"""

import os
import sys

import numpy as np
from mpi4py import MPI

# mpi4py-fft's own tests need h5py to be built with MPI, or not to be there.
sys.modules["h5py"] = None


def pytest_collection(session):
    """Let all processes draw the same cases: shenfun's tests draw theirs when they are imported."""
    np.random.seed(1)


def pytest_collection_finish(session):
    """Let processes draw different values in the tests."""
    np.random.seed(1 + MPI.COMM_WORLD.rank)


def pytest_runtest_logreport(report):
    """Append the name of a test that failed on this process."""
    if report.failed:
        with open(os.environ["PEERS_FAILED"], "a") as file:
            file.write(f"{report.nodeid}\n")
