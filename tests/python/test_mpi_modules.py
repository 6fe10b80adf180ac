# SPDX-License-Identifier: BSD-3-Clause
"""Choice of the extension module for the MPI of mpi4py, and the error if none fits."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

import datamover as dm
from datamover import mpi_modules
from datamover.launch import outer_environment


def mpi(handle_bytes, version, standard_abi=False):
    """What mpi4py.MPI says of an MPI library."""
    return SimpleNamespace(
        Comm=None,
        _sizeof=lambda kind: handle_bytes,
        Get_library_version=lambda: version,
        Get_abi_version=lambda: (1, 0) if standard_abi else (-1, -1),
    )


MPICH = mpi(4, "MPICH Version: 4.0.2\nrelease date: ...\0")
OPEN_MPI = mpi(8, "Open MPI v4.1.4, package: ...")
# MPICH with the standard's binary interface: the words are the same, the handles are pointers.
STANDARD = mpi(8, "MPICH Version: 5.0.2", standard_abi=True)


@pytest.fixture
def wheel(monkeypatch):
    """Makes the package look like a wheel for some interfaces; modules are named, not loaded."""

    def ship(*interfaces):
        monkeypatch.setattr(mpi_modules, "shipped", lambda: list(interfaces))
        monkeypatch.setattr(mpi_modules, "import_module", ModuleType)
        monkeypatch.setitem(sys.modules, "datamover._mover", ModuleType("replaced"))

    return ship


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env=outer_environment() | environment,
    )  # fmt: skip


def test_a_process_that_has_looked_for_a_launcher_can_start_mpi():
    done = run(
        "import sys\n"
        "from datamover import launch\n"
        "assert launch.find_mpiexec() and 'mpi4py.MPI' not in sys.modules\n"
        "from mpi4py import MPI\n"
        "assert MPI.Is_initialized() and launch.mpi_family() in MPI.Get_library_version()\n"
    )
    assert done.returncode == 0, done.stderr


def test_without_mpi_the_search_for_a_launcher_says_what_to_do():
    import mpi4py

    if not hasattr(mpi4py, "_mpiabi"):
        pytest.skip("mpi4py was built for one MPI, which its loader finds")
    program = "from datamover import launch; launch.find_mpiexec()"
    done = run(program, MPI4PY_LIBMPI="/nowhere/libmpi.so")
    assert "MpiFailed: mpi4py cannot be loaded" in done.stderr
    assert "pip install 'datamover[mpich]'" in done.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_search_for_a_launcher_that_is_killed_does_not_ask_for_an_mpi(name):
    done = run(
        "from datamover import launch\n"
        f"launch.ASK_VERSION = 'import os, signal; os.kill(os.getpid(), signal.{name})'\n"
        "launch.find_mpiexec()\n"
    )
    last = done.stderr.strip().rpartition("\n")[2]
    assert last.endswith(f"MpiFailed: the process that asks mpi4py for its MPI was ended by {name}")


@pytest.mark.parametrize(
    ("loaded", "module"),
    [(MPICH, "_mover_mpich"), (OPEN_MPI, "_mover_openmpi"), (STANDARD, "_mover_mpiabi")],
)
def test_a_wheel_chooses_by_binary_interface(wheel, loaded, module):
    wheel("mpich", "openmpi", "mpiabi")
    chosen = mpi_modules.load(loaded)
    assert chosen.__name__ == f"datamover.{module}"
    assert sys.modules["datamover._mover"] is chosen


def test_a_build_from_source_has_one_module(wheel):
    wheel()
    assert mpi_modules.load(OPEN_MPI).__name__ == "datamover._mover"


def test_a_wheel_without_a_module_says_which_it_has_and_what_to_do(wheel):
    wheel("mpich", "openmpi")
    with pytest.raises(dm.errors.MpiFailed, match=r"MPICH Version: 5.*mpich, openmpi.*--no-binary"):
        mpi_modules.load(STANDARD)


def test_a_missing_mpi_is_said_with_the_remedy():
    code = """
import os
os.environ["MPI4PY_LIBMPI"] = "/nowhere/libmpi.so"
import datamover as dm
try:
    dm.Array(dm.BlockCyclic((4,), "(block)", nprocs=1), dtype="f8", comm=None)
except dm.errors.MpiFailed as error:
    assert "pip install 'datamover[mpich]'" in str(error), error
else:
    raise SystemExit("no error")
"""
    import mpi4py

    if not hasattr(mpi4py, "_mpiabi"):
        pytest.skip("mpi4py was built for one MPI, which its loader finds")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
