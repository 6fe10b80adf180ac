# SPDX-License-Identifier: BSD-3-Clause
"""Load of the machine by other programs when a benchmark starts."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass
from pathlib import Path

#: Seconds of the observation.
LOOK_SECONDS = 0.3
#: Part of the cores that is in use on an idle machine.
USUAL_CORES = 0.25

#: The system's counters of its processors since it was started.
STATISTICS = Path("/proc/stat")
#: Columns of those in which a core works, and of those in which it waits.
_WORKING, _WAITING = (0, 1, 2, 5, 6, 7), (3, 4)


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
    >>> from datamover.bench.busy import Busy
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
    counts = [[int(n) for n in line[1:]] for line in lines if line and line[0] in names]
    working, waiting = (sum(c[i] for c in counts for i in kind) for kind in (_WORKING, _WAITING))
    return working, waiting
