# SPDX-License-Identifier: BSD-3-Clause
"""Timing of contenders in Python on several processes: they take turns."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

#: Turns of a contender in any case.
LEAST_TURNS = 3
#: Maximum number of turns of a contender on one process, and the time limit for all of them.
TURNS, LONGEST_SECONDS = 9, 2.0


class Contest:
    """Contenders of one case; process 0 prints a line for each.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    seconds : float
        How long all contenders together are measured.
    barrier : callable, optional
        Meets all processes before each turn. By default, `comm.Barrier`.
    calls : int
        Number of calls of a contender in a turn; the time of one is their mean.
    **facts
        Entries of all rows: case, phase, bytes and others.
    """

    def __init__(
        self,
        comm: Any,
        seconds: float,
        barrier: Callable[[], Any] | None = None,
        calls: int = 1,
        **facts: Any,
    ):
        self.comm, self.seconds, self.calls, self.facts = comm, seconds, calls, facts
        self.barrier = barrier or comm.Barrier
        self.works: dict[str, Callable[[], Any]] = {}
        self.samples: dict[str, list[float]] = {}

    def add(
        self, name: str, work: Callable[[], Any], right: Callable[[], bool] | None = None
    ) -> None:
        """Let a contender take part if its first turn, which is not timed, does what it should.

        Parameters
        ----------
        name : str
        work : callable
            Called in each turn. If it returns False, on any process, the contender is left out.
        right : callable, optional
            Returns whether the first turn was right on this process.
        """
        fine = self._turn(work)[1]
        if all(self.comm.allgather(fine and (right is None or right()))):
            self.works[name], self.samples[name] = work, []
        else:
            self.leave_out(name, "wrong data")

    def add_copy(self, name: str, work: Callable[[], Any], wanted: Any, result: Any = None) -> None:
        """Let a contender take part that writes what is wanted to `result`, or returns it."""
        found = [result]

        def keep() -> None:
            found[:] = [work()]

        call = keep if result is None else work
        self.add(name, call, lambda: np.array_equal(found[0], wanted))

    def can_import(self, package: str) -> bool:
        """Return whether all processes can import a package; note why not."""
        name, why = package.replace("_", "-"), ""
        try:
            import_module(package)
        except Exception as e:  # whatever its own imports raise
            why = f"{type(e).__name__}: {e}"
            if isinstance(e, ModuleNotFoundError) and e.name == package:
                why = f"it is not installed (pip install {name})"
        reasons = set(self.comm.allgather(why)) - {""}
        for reason in reasons:
            self.leave_out(name, reason)
        return not reasons

    def leave_out(self, name: str, reason: str) -> None:
        """Note that a contender does not take part."""
        self._print({"left_out": name, "case": self.facts["case"], "reason": reason})

    def run(self) -> None:
        """Measure in turns until the time is over, after one turn of each that does not count."""
        self._take_turns()
        self.samples = {name: [] for name in self.works}
        begin, turns, late = time.perf_counter(), 0, False
        while self.works and (turns < LEAST_TURNS or not late):
            self._take_turns()
            turns += 1
            late = self.comm.bcast(time.perf_counter() - begin > self.seconds)

    def _take_turns(self) -> None:
        """Time a turn of each contender; leave out those that were wrong."""
        for name, work in list(self.works.items()):
            seconds, fine = self._turn(work)
            self.samples[name].append(seconds)
            if not fine:
                self.leave_out(name, "wrong data in a later turn")
                del self.works[name]

    def print(self, name: str, **more: Any) -> None:
        """Print the row of a contender that took part, with further entries."""
        row = {**self.facts, "contender": name, "processes": self.comm.size, **more}
        self._print({**row, "samples": self.samples[name]})

    def finish(self) -> None:
        """Measure, and print the rows of all that took part."""
        self.run()
        for name in self.works:
            self.print(name)

    def _turn(self, work: Callable[[], Any]) -> tuple[float, bool]:
        """Return the seconds of a call on the slowest process, and whether all were right."""
        self.barrier()
        begin = time.perf_counter()
        right = all([work() is not False for _ in range(self.calls)])
        mine = (time.perf_counter() - begin) / self.calls
        self.barrier()
        seconds, rights = zip(*self.comm.allgather((mine, right)), strict=True)
        return max(seconds), all(rights)

    def _print(self, line: dict[str, Any]) -> None:
        if self.comm.rank == 0:
            print(json.dumps(line), flush=True)


def timed(work: Callable[[], Any], **facts: Any) -> dict[str, Any]:
    """Return the row of a contender on one process, after a call that does not count.

    Short work is repeated within a turn for a millisecond; long work has fewer turns.

    Parameters
    ----------
    work : callable
    **facts
        Entries of the row: case, phase, contender, bytes and others.
    """
    work()
    samples: list[float] = []
    begin = time.perf_counter()
    while not samples or (len(samples) < TURNS and time.perf_counter() - begin < LONGEST_SECONDS):
        repeats, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < 1e-3 or repeats == 0:
            work()
            repeats += 1
        samples.append(elapsed / repeats)
    return {**facts, "processes": 1, "samples": samples}


def main() -> None:
    """Measure cases: the command line has a module, its function, and arguments of each call.

    A call's first argument is the communicator, which is not listed.
    """
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        print(json.dumps({"mpi": MPI.Get_library_version()}), flush=True)
    module, function, calls = sys.argv[1:]
    for arguments in json.loads(calls):
        getattr(import_module(module), function)(comm, *arguments)


if __name__ == "__main__":
    main()
