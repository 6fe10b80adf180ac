# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that are compiled during a run, with Debian's libraries for Open MPI."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamover.bench import programs
from datamover.bench.benchmark import Player, Run

SOURCES = Path(__file__).parent / "sources"
COMPILER, MPIEXEC = "mpicxx.openmpi", "mpiexec.openmpi"


def player(
    run: Run,
    name: str,
    sources: Sequence[str],
    packages: str,
    libraries: Sequence[str] = (),
    modules: Sequence[str] = (),
    **how: Any,
) -> list[Player]:
    """Compile a program and return its player; none, and a note, if that is not possible.

    Parameters
    ----------
    run : Run
    name : str
        As which it is noted.
    sources : sequence of str
        Files that are installed with the benchmarks.
    packages : str
        Debian's packages that it needs.
    libraries : sequence of str
        Linked libraries.
    modules : sequence of str
        Names that pkg-config may know the library by.
    **how
        As `Run.player` takes it.
    """
    target = run.scratch / name
    try:
        compiler, mpiexec = _needed(COMPILER, packages), _needed(MPIEXEC, packages)
        flags = [f"-l{library}" for library in libraries] + _package_flags(modules, packages)
        files = [str(SOURCES / source) for source in sources]
        command = [compiler, "-std=c++20", "-O3", "-o", str(target), *files, *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["the compiler failed"])[-1]
            raise LookupError(f"it does not compile here (Debian: {packages}): {last}")
    except LookupError as e:
        run.results.leave_out(name, str(e.args[0]))
        return []
    return [run.player(str(target), mpi=programs.Mpi("Open MPI", mpiexec), **how)]


def petsc(run: Run, source: str, **how: Any) -> list[Player]:
    """Return the player of a program with PETSc, as `player`."""
    packages = "petsc-dev, pkg-config and openmpi-bin"
    return player(run, "petsc", (source,), packages, modules=("PETSc", "petsc"), **how)


def _package_flags(modules: Sequence[str], packages: str) -> list[str]:
    """Return the flags that pkg-config has for the first module that it knows."""
    for module in modules:
        command = [_needed("pkg-config", packages), "--cflags", "--libs", module]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return shlex.split(found.stdout)
    if modules:
        raise LookupError(f"pkg-config knows no {modules[0]} (Debian: {packages})")
    return []


def _needed(program: str, packages: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise LookupError(f"{program} is not installed (Debian: {packages})")
    return path
