# SPDX-License-Identifier: BSD-3-Clause
"""Contender: ScaLAPACK's `pdgemr2d`. Debian's ScaLAPACK, on Debian's Open MPI."""

from __future__ import annotations

from pathlib import Path

from datamover.bench.debian import compile_contender

LIBRARY = "scalapack-openmpi"
PACKAGES = "libscalapack-openmpi-dev and openmpi-bin"


def compile_pdgemr2d(directory: Path) -> tuple[str, str]:
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
    sources = ("scalapack_pdgemr2d.cpp", "redistribute_case.cpp")
    return compile_contender(directory / "pdgemr2d", sources, [f"-l{LIBRARY}"], PACKAGES)
