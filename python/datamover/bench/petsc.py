# SPDX-License-Identifier: BSD-3-Clause
"""Contender: PETSc. Debian's PETSc, on Debian's Open MPI."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from datamover.bench.debian import compile_contender

#: Possible names in pkg-config.
MODULES = ("PETSc", "petsc")
PACKAGES = "petsc-dev, pkg-config and openmpi-bin"


def compile_dmda(directory: Path) -> tuple[str, str]:
    """Compile the program, if its dependencies are installed.

    Parameters
    ----------
    directory : Path
        Directory for the program.

    Returns
    -------
    (str, str)
        The program's path and "", or "" and the reason why it is missing.
    """
    if shutil.which("pkg-config") is None:
        return "", f"pkg-config is not installed (Debian: {PACKAGES})"
    for module in MODULES:
        asked = subprocess.run(
            ["pkg-config", "--cflags", "--libs", module],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            flags = shlex.split(asked.stdout)
            return compile_contender(directory / "petsc", ("petsc_halo.cpp",), flags, PACKAGES)
    return "", f"pkg-config knows no PETSc (Debian: {PACKAGES})"
