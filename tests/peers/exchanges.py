#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the tests of other MPI packages with their exchanges replaced by our movers.

Usage: `python tests/peers/exchanges.py [PACKAGE ...] [PROCESSES ...]`, by default all packages on
1, 2, 3 and 4 processes, with the Python that datamover, SciPy, matplotlib and pytest are installed
for. A package is installed in build/peers_PACKAGE; its tests are those of its source distribution,
or of its repository. To build mpi4py-fft, install the headers of FFTW (Debian: libfftw3-dev). heat
uses PyTorch of Debian 12 (python3-torchvision), which is for Python 3.11. `MPIEXEC` in the
environment is the launcher. Tests that fail are repeated with the package's own exchanges. The exit
code is 1 if a test fails only with our movers, or if a run does not end.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Time limit for one package on one number of processes.
LIMIT_SECONDS = 3600
#: Debian's packages for its Python.
DEBIAN = Path("/usr/lib/python3/dist-packages")


@dataclass(frozen=True)
class Suite:
    """A package, further packages that it needs, its tests, and a conftest.py that patches it.

    Attributes
    ----------
    package : str
    needs : tuple of str
        Requirements for pip.
    tests : tuple of str
        Files.
    conftest : str
    source : tuple of str, optional
        A git repository and its tag, for packages that are distributed without tests. They run
        in its root directory.
    of_system : tuple of str
        Packages of Debian's Python that it needs.
    separately : bool
        Whether each test is a run of its own, for suites that hang after a failure on one process.
    """

    package: str
    needs: tuple[str, ...]
    tests: tuple[str, ...]
    conftest: str
    source: tuple[str, str] | None = None
    of_system: tuple[str, ...] = ()
    separately: bool = False

    @property
    def place(self) -> Path:
        """The directory that the package and its tests are installed in."""
        return HERE.parents[1] / f"build/peers_{self.package.replace('-', '_')}"

    @property
    def tests_in(self) -> Path:
        """The directory that the tests run in."""
        return self.place if self.source else self.place / "tests"

    def prepare(self) -> None:
        """Install the package, and put its tests into a directory with our conftest."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        if not self.place.exists():
            packages = [*self.needs] if self.source else [self.package, *self.needs]
            if self.source:
                git = [
                    "git",
                    "-c",
                    "advice.detachedHead=false",
                    "clone",
                    "-q",
                    "--depth",
                    "1",
                    "--branch",
                    self.source[1],
                ]
                subprocess.run([*git, self.source[0], str(self.place)], check=True)
            target = ["--no-deps", "--target", str(self.place)]
            subprocess.run([*pip, "install", *target, *packages], check=True)
            for name in self.of_system:
                (self.place / name).symlink_to(DEBIAN / name)
        tests = self.tests_in
        tests.mkdir(exist_ok=True)
        if not all((tests / test).exists() for test in self.tests):
            source = ["--no-deps", "--no-binary", self.package, "-d", str(self.place), self.package]
            subprocess.run([*pip, "download", *source], check=True)
            archive = next(self.place.glob(f"{self.package.replace('-', '_')}-*.tar.gz"))
            with tarfile.open(archive) as opened:
                for member in opened:
                    if Path(member.name).name in self.tests and "/tests/" in member.name:
                        found = opened.extractfile(member).read()
                        (tests / Path(member.name).name).write_bytes(found)
        (tests / "conftest.py").write_text(self.conftest)

    def run(self, count: str) -> bool:
        """Run the tests on a number of processes; return whether none fails only with ours."""
        self.prepare()
        print(f"{self.package} on {count} processes", flush=True)
        runs = [[test] for test in self.listed()] if self.separately else [self.tests]
        passed = [self.is_as_good(count, tests) for tests in runs]
        print(
            f"{passed.count(True)} of {len(passed)} runs are as with its own exchanges", flush=True
        )
        return all(passed)

    def is_as_good(self, count: str, tests: Iterable[str]) -> bool:
        """Run tests with our movers; return whether what fails also fails without them."""
        ended, failed = self.failed_of(count, tests)
        if ended and not failed:
            return True
        again = sorted(failed) if ended else list(tests)
        print(f"failed: {' '.join(again)}; again with the package's own exchanges", flush=True)
        ended_without, failed_without = self.failed_of(count, again, "--noconftest")
        only_ours = failed - failed_without
        print(f"fail only with datamover: {', '.join(sorted(only_ours)) or 'none'}", flush=True)
        return not only_ours and (ended or not ended_without)

    def listed(self) -> list[str]:
        """Return the tests that pytest finds."""
        _, found = self.called([sys.executable], "--collect-only", *self.tests, capture=True)
        return [line for line in found.splitlines() if "::" in line]

    def failed_of(self, count: str, tests: Iterable[str], *more: str) -> tuple[bool, set[str]]:
        """Run tests; return whether the run ended, and the tests that failed on some process."""
        (self.place / "failed.txt").write_text("")
        launch = [os.environ.get("MPIEXEC", "mpiexec"), "-n", count, sys.executable]
        code, _ = self.called(launch, *more, *tests)
        if code not in (0, 1):  # pytest's, if tests passed or failed
            print(f"not ended within {self.limit_seconds} s, or a crash: code {code}", flush=True)
        return code in (0, 1), set((self.place / "failed.txt").read_text().splitlines())

    @property
    def limit_seconds(self) -> int:
        """The time limit of one run."""
        return LIMIT_SECONDS // 20 if self.separately else LIMIT_SECONDS

    def called(
        self, launch: list[str], *arguments: str, capture: bool = False
    ) -> tuple[int | None, str]:
        """Run pytest; return its exit code, None if the time was over, and what it printed."""
        paths = [str(self.place), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        given = {
            "PYTHONPATH": os.pathsep.join(paths),
            "PEERS_FAILED": str(self.place / "failed.txt"),
        }
        plugins = ["-p", "no:cacheprovider", "-p", "failed_tests"]
        plain = ["-c", os.devnull, "--rootdir", "."]  # not our pytest options
        command = [*launch, "-m", "pytest", "-q", "-W", "ignore", *plugins, *plain, *arguments]
        how = {"env": {**os.environ, **given}, "cwd": self.tests_in, "text": True}
        pipe = subprocess.PIPE if capture else None
        try:
            ended = subprocess.run(command, **how, stdout=pipe, timeout=self.limit_seconds)
        except subprocess.TimeoutExpired:
            return None, ""
        return ended.returncode, ended.stdout or ""


TRANSFERS = """
import mpi4py_fft.pencil

import datamover.fft

mpi4py_fft.pencil.Transfer = datamover.fft.Transfer
"""

SUITES = (
    Suite(
        "mpi4py-fft",
        (),
        ("test_pencil.py", "test_darray.py", "test_mpifft.py"),
        TRANSFERS,
    ),
    Suite(
        "shenfun",
        ("mpi4py-fft", "numba", "llvmlite", "sympy", "mpmath", "pyyaml"),
        ("test_curl.py", "test_lagrangian_particles.py", "test_tensorproductspace.py"),
        TRANSFERS,
    ),
    Suite(
        "pylops-mpi",
        ("mpi4py-fft", "pylops", "pyproximal", "numba", "llvmlite"),
        (
            "test_derivative.py",
            "test_distributedarray.py",
            "test_ffts.py",
            "test_halo.py",
            "test_nonstatconvolve.py",
            "test_solver.py",
            "test_stackedlinearop.py",
        ),
        "import pylops_moves\n\npylops_moves.patch()\n",
    ),
    Suite(
        "heat",
        ("numpy<2",),
        ("heat/core/tests/test_dndarray.py", "heat/core/tests/test_manipulations.py"),
        "import heat_moves\n\nheat_moves.patch()\n",
        source=("https://github.com/helmholtz-analytics/heat", "v1.3.1"),
        of_system=("torch", "torchvision"),
        separately=True,
    ),
)


def main(arguments: list[str]) -> int:
    """Run the packages of the command line on its numbers of processes; return the exit code."""
    names = [suite.package for suite in SUITES if suite.package in arguments]
    counts = [word for word in arguments if word not in names] or ["1", "2", "3", "4"]
    if not all(map(str.isdigit, counts)):
        print(f"error: packages are {', '.join(s.package for s in SUITES)}", file=sys.stderr)
        return 2
    chosen = [suite for suite in SUITES if not names or suite.package in names]
    return int(not all([suite.run(count) for suite in chosen for count in counts]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
