#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run mpi4py-fft's tests with its exchanges replaced by `datamover.fft.Transfer`.

Usage: `python tests/peers/mpi4py_fft.py [PROCESSES ...]`, by default 1 2 3 4, with the Python that
datamover and pytest are installed for. It installs mpi4py-fft in build/peers_fft, which needs the
headers of FFTW (Debian: libfftw3-dev), and takes the tests from its source distribution. `MPIEXEC`
in the environment is the launcher. The exit code is 1 if a test fails.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

PLACE = Path(__file__).resolve().parents[2] / "build/peers_fft"
TESTS = ["test_pencil.py", "test_darray.py", "test_mpifft.py"]
#: Their tests need h5py to be built with MPI, or not to be there.
CONFTEST = """
import sys

import mpi4py_fft.pencil

import datamover.fft

sys.modules["h5py"] = None
mpi4py_fft.pencil.Transfer = datamover.fft.Transfer
"""


def prepare():
    """Install mpi4py-fft, and put its tests into a directory with our conftest."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    name, options = "mpi4py-fft", ["--no-deps", "--no-binary", "mpi4py-fft"]
    if not (PLACE / "mpi4py_fft").exists():
        subprocess.run([*pip, "install", *options, "--target", PLACE, name], check=True)
    tests = PLACE / "tests"
    tests.mkdir(exist_ok=True)
    if not all((tests / test).exists() for test in TESTS):
        subprocess.run([*pip, "download", *options, "-d", PLACE, name], check=True)
        archive = next(PLACE.glob("mpi4py_fft-*.tar.gz"))
        with tarfile.open(archive) as opened:
            for member in opened:
                if Path(member.name).name in TESTS:
                    found = opened.extractfile(member).read()
                    (tests / Path(member.name).name).write_bytes(found)
    (tests / "conftest.py").write_text(CONFTEST)
    return tests


def main(counts):
    """Run the tests on each number of processes; return the exit code."""
    tests = prepare()
    paths = [str(PLACE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    failed = 0
    for count in counts:
        command = [
            os.environ.get("MPIEXEC", "mpiexec"),
            "-n",
            count,
            sys.executable,
            "-m",
            "pytest",
        ]
        command += ["-q", "-p", "no:cacheprovider", "--rootdir", str(tests), *TESTS]
        print(f"{count} processes", flush=True)
        failed |= subprocess.run(command, env=environment, cwd=tests).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["1", "2", "3", "4"]))
