# SPDX-License-Identifier: BSD-3-Clause
"""Compiling contenders against Debian's Open MPI libraries."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parent / "sources"
COMPILER = "mpicxx.openmpi"


def compile_contender(
    target: Path, sources: Sequence[str], flags: Sequence[str], packages: str
) -> tuple[str, str]:
    """Compile a program, if its dependencies are installed.

    Parameters
    ----------
    target : Path
        The program.
    sources : sequence of str
        Names of files that are installed with the benchmarks.
    flags : sequence of str
        Options for headers and libraries.
    packages : str
        Debian's names of the dependencies, for the reason.

    Returns
    -------
    (str, str)
        The program's path and "", or "" and the reason why it is missing.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        return "", f"{COMPILER} is not installed (Debian: {packages})"
    if not SOURCES.exists():
        return "", f"its source is not there: {SOURCES}"
    files = [str(SOURCES / name) for name in sources]
    command = [compiler, "-std=c++20", "-O3", "-o", str(target), *files, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["the compiler failed"])[-1]
        return "", f"it does not compile here (Debian: {packages}): {last}"
    return str(target), ""
