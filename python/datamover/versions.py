# SPDX-License-Identifier: BSD-3-Clause
"""Versions of everything that a bug report needs: `show_versions` and `datamover --versions`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import TextIO

from datamover import _plan, mpi_modules
from datamover.errors import MpiFailed
from datamover.machine_model import processor

#: Distributions whose versions matter, required ones first.
DISTRIBUTIONS = ("numpy", "mpi4py", "zarr", "numcodecs", "h5py", "obstore", "aiohttp", "matplotlib")


def _mpi_versions() -> dict[str, str]:
    try:
        MPI = mpi_modules.load_mpi4py()
    except MpiFailed as error:
        return {"MPI": f"cannot be loaded: {error.args[0].splitlines()[0]}"}
    library = " ".join(MPI.Get_library_version().rstrip("\0").splitlines()[0].split())
    shipped = mpi_modules.shipped()
    return {
        "MPI": f"{library} (binary interface: {mpi_modules.interface_of(MPI)})",
        "MPI modules": ", ".join(shipped) if shipped else "one, built from source",
    }


def installed(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Return versions by name; loads mpi4py, and reports an MPI that cannot be loaded as text."""
    usable = len(os.sched_getaffinity(0))
    return {
        "datamover": _plan.__version__,
        "Python": f"{platform.python_version()} ({sys.executable})",
        **_mpi_versions(),
        **{name: installed(name) or "not installed" for name in DISTRIBUTIONS},
        "system": f"{platform.platform()}, {' '.join(platform.libc_ver())}".rstrip(", "),
        "processor": f"{processor()}, {usable} usable; loops for {_plan.instruction_set}",
    }


def show_versions(file: TextIO | None = None) -> None:
    """Print the versions of datamover, MPI, Python packages, system and processor for a bug report.

    Local: one process is enough. Loads mpi4py, which initializes MPI.

    Parameters
    ----------
    file : file object, optional
        Text file to print to. By default, the standard output.

    Examples
    --------
    >>> import datamover as dm
    >>> dm.show_versions()
    datamover    ...
    Python       ...
    MPI          ...
    """
    found = versions()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value}", file=file)
