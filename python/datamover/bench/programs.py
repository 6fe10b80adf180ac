# SPDX-License-Identifier: BSD-3-Clause
"""Running benchmark programs under mpiexec."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datamover import launch
from datamover.errors import InvalidState, IoError, MpiError, Timeout

#: Seconds that a program may take beyond its measuring time.
PATIENCE_SECONDS = 600.0

PROGRAMS = Path(__file__).parent / "bin"


@dataclass(frozen=True)
class Mpi:
    """An MPI with which programs can be started."""

    name: str
    mpiexec: str
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def started_by(self, launcher: str | None) -> Mpi:
        """Return the same MPI with a launcher of the user's, if there is one, and its options."""
        if launcher is None:
            return self
        mpiexec, *words = shlex.split(launcher)
        return replace(self, mpiexec=mpiexec, options=tuple(words))

    def settings(self, processes: int) -> dict[str, str]:
        """Return the environment variables of a launcher for a number of processes."""
        return {**_open_mpi_settings(processes), **self.environment}


@dataclass(frozen=True)
class Printed:
    """Output of a program: rows and notes, and their MPI and compiler."""

    lines: list[dict[str, Any]]
    mpi: str
    compiler: str = ""


def own_mpi() -> Mpi:
    """Return the MPI that mpi4py loads here, which is the one that datamover is built against.

    Raises
    ------
    MpiError
        Its mpiexec is not found.
    InvalidState
        This process was itself started by a launcher.
    """
    if launch.inside_launcher():
        raise InvalidState(
            "datamover bench starts its processes itself: run it without mpiexec or srun"
        )
    mpiexec = launch.find_mpiexec()
    if mpiexec is None:
        raise MpiError("no mpiexec of the MPI that mpi4py loads; install one (pip install mpich)")
    from mpi4py import MPI  # launch has configured it not to initialize MPI here

    vendor, version = MPI.get_vendor()
    return Mpi(f"{vendor} {'.'.join(map(str, version))}", mpiexec)


def debian_open_mpi() -> Mpi | None:
    """Return Debian's Open MPI; None if it is not installed."""
    mpiexec = shutil.which("mpiexec.openmpi")
    return None if mpiexec is None else Mpi("Open MPI", mpiexec)


def short_mpi_name(library_version: str) -> str:
    """Return "MPICH 5.0.2" or "Open MPI 4.1.4" from the result of MPI_Get_library_version.

    Examples
    --------
    >>> from datamover.bench.programs import short_mpi_name
    >>> short_mpi_name("MPICH Version:      5.0.2 MPICH Release date: today")
    'MPICH 5.0.2'
    >>> short_mpi_name("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4")
    'Open MPI 4.1.4'
    """
    found = re.match(r"\s*(Open MPI|[^\s:]+)[^\d]*?v?(\d+(?:\.\d+)*\w*)", library_version)
    return f"{found[1]} {found[2]}" if found else library_version.split(",")[0].strip()


def program(name: str) -> str:
    """Return the path of a benchmark program.

    Raises
    ------
    IoError
        This installation was built without the benchmark programs.
    """
    path = PROGRAMS / name
    if not path.exists():
        raise IoError(
            f"there is no {path}: datamover was built without DATAMOVER_BENCH=ON. "
            "In a clone, on Debian or Ubuntu: make install DATAMOVER_BENCH=ON"
        )
    return str(path)


def run(
    mpi: Mpi | None,
    processes: int,
    command: Sequence[str],
    seconds: float,
    environment: dict[str, str] | None = None,
) -> Printed:
    """Run a program and return its output, also if it did not end in time.

    Parameters
    ----------
    mpi : Mpi or None
        None: without a launcher, on one process.
    processes : int
    command : sequence of str
    seconds : float
        Measuring time of the program; it is ended `PATIENCE_SECONDS` after that, and everything
        after the last row is recorded as left out.
    environment : dict, optional
        In addition to this process's.

    Raises
    ------
    MpiError
        The program failed.
    Timeout
        It did not end in time, and printed no row.
    """
    full = list(command)
    variables = {**os.environ, **(environment or {})}
    if mpi is not None:
        full = [mpi.mpiexec, *mpi.options, "-n", str(processes), *command]
        variables |= mpi.settings(processes)
    # A session of its own, so that all processes can be ended together.
    started = subprocess.Popen(
        full,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit = seconds + PATIENCE_SECONDS
    try:
        out, err = started.communicate(timeout=limit)
    except BaseException as e:
        os.killpg(started.pid, signal.SIGKILL)
        out, _ = started.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            return cut_short(out, mpi, f"{Path(command[0]).name} did not end in {limit:.0f} s")
        raise
    if started.returncode != 0:
        tail = "\n".join((out + err).strip().splitlines()[-6:])
        raise MpiError(f"{' '.join(full[:6])} … ended with {started.returncode}:\n{tail}")
    return _parse(out, mpi.name if mpi is not None else "")


def cut_short(out: str, mpi: Mpi | None, reason: str) -> Printed:
    """Read the output of a program that was ended, perhaps within a line.

    Parameters
    ----------
    out : str
    mpi : Mpi or None
    reason : str
        Why it was ended; recorded for everything after the last row.

    Raises
    ------
    Timeout
        It printed no row.
    """
    printed = _parse(out[: out.rfind("\n") + 1], mpi.name if mpi is not None else "")
    rows = [line for line in printed.lines if "contender" in line]
    if not rows:
        raise Timeout(reason)
    after = {"left_out": f"what comes after {rows[-1]['contender']}", "case": rows[-1]["case"]}
    return replace(printed, lines=[*printed.lines, {**after, "reason": reason}])


def python_program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package as a program."""
    return [sys.executable, "-m", module, *arguments]


def _parse(out: str, mpi_name: str) -> Printed:
    lines, compiler = [], ""
    for text in out.splitlines():
        if not text.startswith("{"):
            continue
        line = json.loads(text)
        if "contender" not in line and "left_out" not in line and "mpi" in line:
            mpi_name, compiler = short_mpi_name(line["mpi"]), line.get("compiler", "")
        else:
            lines.append(line)
    return Printed(lines, mpi_name, compiler)


def _open_mpi_settings(processes: int) -> dict[str, str]:
    """Return settings that let Open MPI use more processes than cores, and root."""
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    # Yielding costs latency where every process has a core of its own.
    if processes > len(os.sched_getaffinity(0)):
        settings["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return settings
