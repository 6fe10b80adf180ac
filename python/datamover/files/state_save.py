# SPDX-License-Identifier: BSD-3-Clause
"""Saving of arrays: captures them, writes them, and names the output when it is complete."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, cast

from datamover.collective_calls import ending, refused_by
from datamover.errors import InvalidState, NoMemory
from datamover.files import address_place, placing
from datamover.files.agreement import Unfinished, together
from datamover.files.array_steps import StagedMove
from datamover.files.at_work import Background
from datamover.files.staged_moves import StagedMoves, Work
from datamover.files.state_stores import Target
from datamover.lifeline import uninterrupted
from datamover.mpi import Comm, comm_address


class Save:
    """One save on one process."""

    def __init__(self, comm: Comm, output: str, work: Work, overwrite: bool):
        self.comm, self.output, self._work = comm, output, work
        token = placing.token(comm_address(comm))
        self._place: Any = address_place.place_of(None, output, token, overwrite, overwrite)
        self._captured: list[StagedMoves] = []
        self._one_of_both = [None]  # thread and program: the first that lets go takes it

    def run(self, target: Target, waits: bool) -> Saving | None:
        """Create the output, or capture the arrays and continue in a thread. Collective."""
        work = self._work
        with contextlib.ExitStack() as at_end:
            at_end.callback(self.close)
            placing.begin(self.comm, self._place, target.is_directory, target.create)
            open_array = functools.partial(target.open, self._place.path)
            groups = work.plan(open_array, 0 if waits else work.max_bytes)
            if not waits:
                self._capture(groups)
                with uninterrupted():  # from here on, `let_go` closes it
                    at_end.pop_all()
                    return Saving(self)
            work.transfer(groups)
            with together(self.comm):
                self._place.sync()
            self.finish()
        return None

    def _capture(self, groups: list[list[StagedMove]]) -> None:
        """Copy all arrays to the processes that write them. Collective."""
        held = sum(move.most_bytes * len(move.steps) for group in groups for move in group)
        with together(self.comm):
            if held > self._work.max_bytes // 2:
                raise NoMemory(
                    "with wait=False, everything is captured at once: max_bytes must be at least "
                    f"{2 * held:,}; it is {self._work.max_bytes:,}"
                )
        for group in groups:
            for moves in _by_steps(group):  # each step has staging memory of its own
                self._captured.append(self._work.staged(moves))
                self._captured[-1].mover(0)()
                self._captured[-1].free_movers()

    def write_captured(self) -> None:
        """Write everything, in a thread, while a program continues or has dropped the save. Local.

        No MPI.
        """
        try:
            for moves in self._captured:
                self._work.transfer_parts(moves.parts(0))
            self._place.sync()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Release memory and place if both thread and program have let go. Local.

        Without a lock: the garbage collector may call it within itself.
        """
        if self._one_of_both:
            with contextlib.suppress(IndexError):  # the other one was as fast
                self._one_of_both.pop()
                return
        self.close()

    def finish(self) -> None:
        """Give the complete output its name. Collective."""
        placing.finish(self.comm, self._place)

    def close(self) -> None:
        """Release memory; remove the old output, or a new one that is not complete. Local."""
        while self._captured:
            self._captured.pop().close()
        if self._place is not None:
            self._place.give_back()
            self._place = None


def _by_steps(group: list[StagedMove]) -> Iterator[list[StagedMove]]:
    """Iterate over the steps of moves, each step as moves of one step."""
    for k in range(max(len(move.steps) for move in group)):
        yield [
            dataclasses.replace(move, steps=[step])
            for move in group
            for step in move.steps[k : k + 1]
        ]


class Saving(Unfinished):
    """A save in progress: the arrays are captured, and threads write the files.

    Created by `save` with ``wait=False``. All processes must wait for it, in the order of their
    saves; the wait creates the output. If a save is never waited for, it leaves no output, and a
    `ResourceWarning` reports it. If a process leaves its ``with`` block by an exception of its own,
    or ends its program, the others raise `PeerFailed`. If a process drops the save and continues,
    the others wait for it; see `set_timeout`.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> u = np.ones((4, 6))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     saving = dm.save(place + "/u.npy", {"u": (u, rows)}, comm=MPI.COMM_SELF, wait=False)
    ...     u[...] = 0  # the program goes on
    ...     saving.wait()
    ...     np.load(place + "/u.npy").sum()
    np.float64(24.0)
    """

    # On the class: after an interrupt, an object may lack its own.
    _job: Save | None = None
    _output = ""

    def __init__(self, job: Save):
        self._comm, self._output = job.comm, job.output
        words = f"the save of {job.output} was not waited for"
        self._begin(job.comm, job.output, words, "; there is no new output")
        self._job = job
        self.closed = False
        self._task = Background(job.write_captured)

    @property
    def done(self) -> bool:
        """Whether everything that this process writes is written, or has failed. Local."""
        return not self._task.in_flight

    @refused_by(ending)
    def wait(self) -> None:
        """Wait until the output is complete on all processes, and give it its name. Collective.

        Raises
        ------
        Error
            As `save`, on all processes. No new output is created, and an older one stays.
        PeerFailed
            A process left its ``with`` block by an exception, or ended.
        Timeout
            A process does not wait for it, if `set_timeout` is set.
        InvalidState
            `wait` was already called.

        If one process passes wrong arguments to this call, it raises on all, and no output is
        created.
        """
        if self.closed:
            raise InvalidState(f"wait() was already called for this save of {self._output}")
        self._finish_writing()  # an interrupt of it leaves it to be waited for again
        self._finish()

    def _end(self) -> None:
        with together(self._comm):
            if self._task.failure is not None:
                raise self._task.failure
        cast(Save, self._job).finish()

    def _finish_writing(self) -> None:
        self._task.wait()

    def _release(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.let_go()

    def __repr__(self) -> str:
        if self.closed:
            return f"Saving({self._output!r}, ended)"
        state = "to be waited for" if self.done else "being written"
        return f"Saving({self._output!r}, {state})"
