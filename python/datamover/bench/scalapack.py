# SPDX-License-Identifier: BSD-3-Clause
"""Where does the contender `pdgemr2d` come from? Debian's ScaLAPACK, on Debian's Open MPI."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "sources"
COMPILER = "mpicxx.openmpi"
LIBRARY = "scalapack-openmpi"
PACKAGES = "libscalapack-openmpi-dev and openmpi-bin"


def compile_pdgemr2d(directory: Path) -> tuple[str, str]:
    """Compile the program, if what it takes is installed.

    Parameters
    ----------
    directory : Path
        Where the program is put.

    Returns
    -------
    (str, str)
        The program's path and "", or "" and why there is none.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        return "", f"{COMPILER} is not installed (Debian: {PACKAGES})"
    if not SOURCES.exists():
        return "", f"its source is not there: {SOURCES}"
    target = directory / "pdgemr2d"
    sources = [str(SOURCES / f) for f in ("scalapack_pdgemr2d.cpp", "redistribute_case.cpp")]
    command = [compiler, "-std=c++20", "-O3", "-o", str(target), *sources, f"-l{LIBRARY}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["the compiler failed"])[-1]
        return "", f"it does not compile here (Debian: {PACKAGES}): {last}"
    return str(target), ""
