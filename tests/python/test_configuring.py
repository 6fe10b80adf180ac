# SPDX-License-Identifier: BSD-3-Clause
"""CMake messages when a dependency of the build is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CMAKE = Path(sys.executable).parent / "cmake"


@pytest.mark.skipif(not CMAKE.exists(), reason="no CMake in this environment")
def test_missing_headers_of_python_are_reported_with_their_package(tmp_path):
    options = {
        "CMAKE_MAKE_PROGRAM": CMAKE.parent / "ninja",
        "DATAMOVER_MPI": "OFF",
        "DATAMOVER_PYTHON": "ON",
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": tmp_path / "missing",
    }
    done = subprocess.run(
        [
            CMAKE,
            "-S",
            ROOT,
            "-B",
            tmp_path,
            "-G",
            "Ninja",
            *(f"-D{k}={v}" for k, v in options.items()),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    message = "Python's headers are missing. Debian, Ubuntu: apt-get install python3-dev"
    lines = [" ".join(line.split()) for line in done.stderr.splitlines()]
    assert lines.count(message) == 1, done.stderr
