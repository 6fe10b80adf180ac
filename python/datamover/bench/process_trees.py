# SPDX-License-Identifier: BSD-3-Clause
"""Running a program and its children: output, time and peak memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Exit code of a contender that is not installed.
NOT_INSTALLED = 3
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Ended:
    """A program that ended: exit code (None: killed after the limit), output, seconds, memory."""

    code: int | None
    printed: str
    errors: str
    seconds: float
    peak_bytes: int

    def failure(self) -> str | None:
        """Return the reason why it does not count; None if it does."""
        if self.code == 0:
            return None
        if self.code == NOT_INSTALLED:
            return self.errors.strip()
        last = (self.errors.strip().splitlines() or [f"exit code {self.code}"])[-1]
        return f"failed: {last}"


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    looks: bool = True,
    limit: float | None = None,
) -> Ended:
    """Run a program until it and its output end; an interrupt or a limit ends its whole tree.

    Parameters
    ----------
    command : sequence of str
    environment : mapping, optional
        Variables in addition to those of this process.
    looks : bool
        Whether to sample memory, which takes some of a core's time; peak 0 if not.
    limit : float, optional
        Seconds after which the program is killed.
    """
    begin = time.perf_counter()
    # A session of its own, so that all processes can be ended together.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    watch = _Watch(process.pid) if looks else None
    code: int | None = None
    try:
        printed, errors = process.communicate(timeout=limit)
        code = process.returncode
    except BaseException as e:
        os.killpg(process.pid, signal.SIGKILL)
        printed, errors = process.communicate()
        if not isinstance(e, subprocess.TimeoutExpired):
            raise
    finally:
        seconds = time.perf_counter() - begin
        peak_bytes = watch.end() if watch else 0
    return Ended(code, printed, errors, seconds, peak_bytes)


class _Watch(threading.Thread):
    """Samples the memory of a process and all its descendants."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.peak_bytes = 0
        self.start()

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, _tree(self._pid))))

    def end(self) -> int:
        self._over.set()
        self.join()
        return self.peak_bytes


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += map(int, children.split())
    return found


def _pss_bytes(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
