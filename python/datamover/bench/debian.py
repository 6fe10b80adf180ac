# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that are compiled during a run, with Debian's libraries for Open MPI."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamover.bench import programs
from datamover.bench.benchmark import Player, Run

SOURCES = Path(__file__).parent / "sources"
MPIEXEC = "mpiexec.openmpi"


def player(
    run: Run, name: str, sources: Sequence[str], packages: str, flags: str, **how: Any
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
    flags : str
        A command of the shell that prints the options for the compiler and linker.
    **how
        As `Run.player` takes it.
    """
    target = run.scratch / name
    files = shlex.join([str(target), *(str(SOURCES / source) for source in sources)])
    script = (
        f"set -e; {MPIEXEC} --version > /dev/null; flags=$({flags}); "
        f"mpicxx.openmpi -std=c++20 -O3 -o {files} $flags"
    )
    ended = programs.run_tree(["sh", "-c", script], looks=False)
    if ended.code != 0:
        reason = f"it does not compile here (Debian: {packages}): {ended.last_words()}"
        run.lines.append({"left_out": name, "reason": reason})
        return []
    return [run.player(str(target), mpi=programs.Mpi("Open MPI", MPIEXEC), **how)]


def petsc(run: Run, source: str, **how: Any) -> list[Player]:
    """Compile a program with PETSc, which pkg-config knows by one of two names; as `player`."""
    flags = " || ".join(f"pkg-config --cflags --libs {name}" for name in ("PETSc", "petsc"))
    packages = "petsc-dev, pkg-config and openmpi-bin"
    return player(run, "petsc", (source,), packages, flags, **how)
