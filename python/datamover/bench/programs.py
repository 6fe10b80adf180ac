# SPDX-License-Identifier: BSD-3-Clause
"""Running benchmark programs, under mpiexec: their output, time and peak memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamover import launch
from datamover.errors import IoFailed, MpiFailed, Timeout

#: Time that a program may take in addition to what it measures.
PATIENCE_SECONDS = 600.0

#: A line of JSON that a program printed: a row, a note, or its MPI and compiler.
Line = dict[str, Any]

PROGRAMS = Path(__file__).parent / "bin"


@dataclass(frozen=True)
class Mpi:
    """An MPI with which programs can be started."""

    name: str
    mpiexec: str
    options: tuple[str, ...] = ()

    def settings(self, processes: int) -> dict[str, str]:
        """Return the environment variables for a launcher of this number of processes."""
        settings = launch.open_mpi_environment()
        # Yielding costs latency if every process has a core of its own.
        spared = () if processes > len(os.sched_getaffinity(0)) else ("idle",)
        return {k: v for k, v in settings.items() if not k.endswith(("binding_policy", *spared))}


def own_mpi(launcher: str | None = None) -> Mpi:
    """Return the MPI that mpi4py loads here, which is the one that datamover is built against.

    Parameters
    ----------
    launcher : str, optional
        The user's command that starts processes, with its options, instead of that MPI's mpiexec.

    Raises
    ------
    MpiFailed
        Its mpiexec is not found.
    InvalidState
        This process was itself started by a launcher.
    """
    launch.refuse_launcher("datamover bench")
    mpiexec, *words = shlex.split(launcher or "") or [launch.fitting_mpiexec()]
    from mpi4py import MPI

    vendor, version = MPI.get_vendor()
    return Mpi(f"{vendor} {'.'.join(map(str, version))}", mpiexec, tuple(words))


def short_mpi_name(library_version: str) -> str:
    """Shorten the text of MPI_Get_library_version to "MPICH 5.0.2" or "Open MPI 4.1.4".

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


def program(name: str, place: Path = PROGRAMS, library: tuple[str, str] | None = None) -> str:
    """Return the path of a program.

    Parameters
    ----------
    name : str
    place : Path
        By default, that of the benchmarks.
    library : tuple of str, optional
        Another library that it needs, and Debian's package of it.

    Raises
    ------
    IoFailed
        This installation was built without it.
    """
    path, missing, before = place / name, "DATAMOVER_BENCH=ON", ""
    if path.exists():
        return str(path)
    if library is not None:
        needed, package = library
        # With DATAMOVER_BENCH=ON there are at least the applications in Python.
        missing = needed if place.exists() else f"{missing}; it also needs {needed}"
        before = f"apt-get install {package} && "
    raise IoFailed(
        f"there is no {path}: datamover was built without {missing}. "
        f"In a clone, on Debian or Ubuntu: {before}make install DATAMOVER_BENCH=ON"
    )


def run(
    mpi: Mpi | None,
    processes: int,
    command: Sequence[str],
    seconds: float,
    environment: dict[str, str] | None = None,
) -> list[Line]:
    """Run a program and return the lines that it printed, including those before a timeout.

    Parameters
    ----------
    mpi : Mpi or None
        None: without a launcher, on one process.
    processes : int
    command : sequence of str
    seconds : float
        How long the program should measure. It is killed `PATIENCE_SECONDS` after that, and the
        contenders after its last row are noted as left out.
    environment : dict, optional
        In addition to this process's.

    Raises
    ------
    MpiFailed
        The program failed.
    Timeout
        It did not end in time, and printed no row.
    """
    full, variables, name = list(command), dict(environment or {}), ""
    if mpi is not None:
        full = [mpi.mpiexec, *mpi.options, "-n", str(processes), *command]
        variables, name = mpi.settings(processes) | variables, mpi.name
    limit = seconds + PATIENCE_SECONDS
    ended = run_tree(full, variables, looks=False, limit=limit)
    if ended.code is None:
        reason = f"{Path(command[0]).name} did not end in {limit:.0f} s"
        return cut_short(ended.printed, name, reason)
    if ended.code != 0:
        tail = "\n".join((ended.printed + ended.errors).strip().splitlines()[-6:])
        raise MpiFailed(f"{' '.join(full[:6])} … ended with {ended.code}:\n{tail}")
    return _parse(ended.printed, name)


def cut_short(out: str, mpi: str, reason: str) -> list[Line]:
    """Read the output of a program that was killed, perhaps within a line.

    Parameters
    ----------
    out : str
    mpi : str
        Name of its MPI.
    reason : str
        Why it was killed; noted for the contenders after the last row.

    Raises
    ------
    Timeout
        No row was printed.
    """
    lines = _parse(out[: out.rfind("\n") + 1], mpi)
    rows = [line for line in lines if "contender" in line]
    if not rows:
        raise Timeout(reason)
    after = {"left_out": f"what comes after {rows[-1]['contender']}", "case": rows[-1]["case"]}
    return [*lines, {**after, "reason": reason}]


def _parse(out: str, mpi: str) -> list[Line]:
    """Read JSON lines; each row gets the MPI of the header before it."""
    lines = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
    for line in lines:
        if "contender" in line:
            line.setdefault("mpi", mpi)
        elif "left_out" not in line and "mpi" in line:
            mpi = line["mpi"] = short_mpi_name(line["mpi"])
    return lines


#: Exit code of a contender that is not installed.
NOT_INSTALLED = 3
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Ended:
    """A program that ended: exit code (None: killed after the limit), output, seconds, memory."""

    code: int | None
    printed: str
    errors: str
    seconds: float
    peak_bytes: int

    def failure(self) -> str | None:
        """Return the reason why it does not count; None if it does."""
        if self.code == 0:
            return None
        return self.errors.strip() if self.code == NOT_INSTALLED else f"failed: {self.last_words()}"

    def last_words(self) -> str:
        """Return the last line that it wrote as an error, or its exit code."""
        return (self.errors.strip().splitlines() or [f"exit code {self.code}"])[-1]


def run_tree(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    looks: bool = True,
    limit: float | None = None,
) -> Ended:
    """Run a program until it and its output end; an interrupt or a limit ends its whole tree.

    Parameters
    ----------
    command : sequence of str
    environment : mapping, optional
        Variables in addition to those of this process.
    looks : bool
        Whether to sample memory, which takes some of a core's time; peak 0 if not.
    limit : float, optional
        Seconds after which the program is killed.
    """
    begin, peak_bytes = time.perf_counter(), 0
    # A session of its own, so that all processes can be ended together.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    code: int | None = None
    try:
        while code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                printed, errors = process.communicate(timeout=LOOK_SECONDS if looks else limit)
                code = process.returncode
            if code is None and limit is not None and time.perf_counter() - begin >= limit:
                break
            if looks:
                peak_bytes = max(peak_bytes, sum(map(_pss_bytes, _tree(process.pid))))
    finally:
        if code is None:
            os.killpg(process.pid, signal.SIGKILL)
            printed, errors = process.communicate()
    return Ended(code, printed, errors, time.perf_counter() - begin, peak_bytes)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += map(int, children.split())
    return found


def _pss_bytes(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
