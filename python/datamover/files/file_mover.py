# SPDX-License-Identifier: BSD-3-Clause
"""File mover: executes a plan between arrays in memory and one on disk.

In each step (`array_steps`), the part of the file that the step needs is read into staging memory,
an ordinary mover moves data between staging memory and the arrays, and the result is written to the
file. Threads of this process read and write, so that `start` returns and the program continues.
After each step, all processes detect a failure of one of them, by a mover that sends a flag from
each process to each other one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from datamover.collective_calls import agreeing, refused_by
from datamover.counted import counted
from datamover.errors import (
    InvalidArgument,
    InvalidState,
    Mismatch,
    Timeout,
    Unsupported,
    WrongType,
)
from datamover.files.agreement import agree_on, is_agreed, together
from datamover.files.array_steps import StagedMove, steps_of
from datamover.files.at_work import Background
from datamover.files.file_array import FileArray
from datamover.files.staged_moves import StagedMoves, transfer
from datamover.layouts import BlockCyclic, FloorPlan, IndexList, Region
from datamover.lifeline import uninterrupted
from datamover.mover_pairs import MoverPairs
from datamover.movers import Mover, MoverOptions
from datamover.mpi import collectively, comm_address, core
from datamover.plans import MotionPlan, redistribute

if TYPE_CHECKING:
    from mpi4py import MPI

    from datamover.movers import Arrays


class _Flags:
    """Exchange of failures: a flag from each process to each."""

    def __init__(self, comm: MPI.Comm):
        self._comm, nprocs = comm, comm.size
        everybody = FloorPlan([Region(0, nprocs)] * nprocs, list(range(nprocs)))
        mine = BlockCyclic((nprocs,), "(block)", nprocs)
        self._own, self._all = np.zeros(1, "u1"), np.zeros(nprocs, "u1")
        self._mover = Mover(redistribute(mine, everybody), self._own, self._all, comm=comm)

    def start(self, failed: bool) -> Mover:
        """Send the flags; return the mover to wait for."""
        self._own[...] = failed
        self._mover.start()
        return self._mover

    def any(self) -> bool:
        """Return, after the wait, whether any process failed."""
        return bool(self._all.any())

    def leave(self) -> None:
        """Notify all processes that this one has left a round in flight."""
        # The flags alone cannot: if all others have sent theirs, this round of flags ends.
        words = f"process {self._comm.rank} left a mover of a file in flight"
        core().fail(comm_address(self._comm), words)
        self.close()

    def close(self) -> None:
        """Free the memory."""
        self._mover._core.give_up()


class FileRounds:
    """The rounds of a file mover, with the interface of the core of a `Mover`.

    Parameters
    ----------
    file : FileArray
    move : StagedMove
    to_file : bool
    options : dict
        Of the movers of the steps.
    """

    def __init__(self, file: FileArray, move: StagedMove, to_file: bool, options: dict[str, Any]):
        self._file, self._to_file = file, to_file
        # Per step: whether it reads the file first, because elements stay or are combined.
        replaces = MoverOptions(**options).op == "replace"
        self._needs_read = [not (step.is_covered and replaces) for step in move.steps]
        self._tasks: Iterator[Any] | None = None  # of the round in flight
        self._awaited: Any = None  # the task to wait for
        self._flags = cast(_Flags, None)  # until they are made, and when they are freed
        self.moves = cast(StagedMoves, None)  # likewise
        self._counters = {
            "steps": len(move.steps), "rounds": 0, "read_bytes": 0, "written_bytes": 0,
        }  # fmt: skip
        moves = [move] if move.steps else []
        try:
            self._flags = _Flags(file.comm)
            self.moves = StagedMoves(
                file.comm, moves, to_file, file.max_bytes // 4, keeps=True, **options
            )
            self.moves.bind()
        except BaseException:
            self.free()
            raise

    def _transfer(self, k: int, writes: bool) -> None:
        parts, file = list(self.moves.parts(k)), self._file
        files = {file.path: file._open_file}
        transfer(parts, files, writes, file._threads, file.max_bytes // 4)
        file._check_same(always=file.mode != "r")
        nbytes = sum(part.nbytes for _, _, part in parts)
        self._counters["written_bytes" if writes else "read_bytes"] += nbytes

    def _tasks_of_round(self) -> Iterator[Any]:
        """Yield the tasks of a round, each of which is waited for before the next."""
        for k, needs_read in enumerate(self._needs_read):
            mover = self.moves.mover(k)
            if needs_read:
                yield from self._transferred(k, writes=False)
            mover.start()
            yield mover
            if self._to_file:
                yield from self._transferred(k, writes=True)

    def _transferred(self, k: int, writes: bool) -> Iterator[Any]:
        """Read or write the parts of a step; raise the failure of one process on all of them."""
        task = Background(functools.partial(self._transfer, k, writes))
        yield task
        yield self._flags.start(task.failure is not None)
        if self._flags.any():
            with together(self._file.comm):
                if task.failure is not None:
                    raise task.failure

    def _advance(self) -> bool:
        """Go on to the next task; return False when all are complete."""
        with uninterrupted():
            try:
                self._awaited = next(cast(Iterator[Any], self._tasks), None)
            except BaseException as e:
                if not is_agreed(e):  # which the others do not notice otherwise
                    self._flags.leave()
                self._end_round(failed=True)
                raise
            if self._awaited is None:
                self._end_round(failed=False)
                self._counters["rounds"] += 1
        return self._awaited is not None

    def _end_round(self, failed: bool) -> None:
        self._tasks = self._awaited = None
        self._file._rounds.end(self, failed)

    def start(self) -> None:
        """Start a round: reading begins, or the elements to write are sent."""
        if self._tasks is not None:
            raise InvalidState("the mover is in flight")
        if self._flags is None:
            raise InvalidState("the mover is closed")
        self._file._open_file  # noqa: B018  (raises where it has been closed)
        with uninterrupted():  # otherwise the file would wait forever for the end of the round
            self._file._rounds.begin(self, self._to_file)
            self._tasks = self._tasks_of_round()
        if self._needs_read:
            self._advance()

    def test(self) -> bool:
        """Make progress; return whether the round is complete here."""
        if self._tasks is None:
            raise InvalidState("the mover is not in flight")
        while not _is_in_flight(self._awaited) or self._awaited.test():
            if not self._advance():
                return True
        return False

    def wait(self, timeout: float | None) -> None:
        """Return when the round is complete here."""
        if self._tasks is None:
            raise InvalidState("the mover is not in flight")
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                # An earlier wait may have been interrupted after the task had completed.
                waits = _is_in_flight(self._awaited)
                if waits and (left is None or left > 0):
                    self._awaited.wait(left)
                elif waits and not self._awaited.test():
                    raise Timeout(f"the move was not complete after {timeout} seconds")
            except (Timeout, KeyboardInterrupt):
                raise
            except BaseException:  # an error of a mover: this round is lost
                self._end_round(failed=True)
                raise
            if not self._advance():
                return

    def __call__(self, timeout: float | None) -> None:
        """Start and wait."""
        self.start()
        self.wait(timeout)

    @property
    def in_flight(self) -> bool:
        """Whether a round was started and is not yet complete."""
        return self._tasks is not None

    def refuse_tune(self, code: str | None, words: str) -> None:
        """Take part in `tune` of the other processes with an error. Collective."""
        core().agree(comm_address(self._file.comm), code, words)

    def tune(self, seconds: float) -> None:
        """Measure transports between the arrays and staging memory. Collective."""
        self.refuse_tune(None, "")
        for mover in self.moves.bound:
            mover.tune(seconds)

    def counters(self) -> dict[str, int | float]:
        """Return steps, rounds, and bytes read and written by this process so far. Local."""
        return {**self._counters}

    def free(self) -> None:
        """Free memory and movers. Local. InvalidState in flight."""
        if self._tasks is not None:
            raise InvalidState("the mover is in flight")
        if self.moves is not None:
            self.moves.close()
        if self._flags is not None:
            self._flags.close()
            self._flags = cast(_Flags, None)

    def give_up(self) -> None:
        """Free all; notify the others of a round left in flight. Local."""
        if self._tasks is not None:
            if isinstance(self._awaited, Background):
                self._awaited.wait()
            if self._flags is not None:
                self._flags.leave()
            for mover in self.moves.bound:
                mover._core.give_up()
            self._end_round(failed=True)
        self.free()

    def __del__(self) -> None:
        if getattr(self, "_tasks", None) is not None:
            self.give_up()


def _is_in_flight(task: Any) -> bool:
    """Return whether there is a task, and it was not complete before."""
    return task is not None and task.in_flight


class FileMover(Mover):
    """A mover whose source or destination is on the disk; created as a `Mover`.

    Differences from a `Mover`: Data that exceeds the file's `max_bytes` is moved in several steps.
    `start` and `test` may then wait for other processes, because a mover is bound for each step.
    Read errors are raised before any element of that step is moved, write errors on all processes
    after the step, when the destination may be partly moved. If movers of files are in flight at
    the same time, all processes must wait for them in the same order; while one writes a file, no
    other reads or writes it. `tune` and `explain` are about the movers between the arrays and
    staging memory; `counters` returns steps, rounds and bytes of the file.
    """

    @refused_by(agreeing)
    def __init__(
        self,
        plan: MotionPlan,
        source: Arrays | FileArray,
        destination: Arrays | FileArray,
        *,
        together: bool = True,
        comm: MPI.Comm | None = None,
        **said: Any,
    ):
        self._to_file = isinstance(destination, FileArray)
        self._file = file = cast(FileArray, destination if self._to_file else source)
        self._comm, self._plans = file.comm, [plan]
        address = comm_address(file.comm)

        def prepare() -> StagedMove:
            array = source if self._to_file else destination
            _check(plan, array, file, self._to_file, comm)
            MoverOptions(**said)
            order, most_bytes = file._open_file.spec.order, file.max_bytes // 2
            move = StagedMove(file.path, file.path, array, file.dtype, order)
            return steps_of(plan, move, file._open_file, self._to_file, file.ranks, most_bytes)

        move = collectively(address, prepare)
        agree_on(address, {"plans": (len(move.steps), self._to_file)})
        self._core: Any = FileRounds(file, move, self._to_file, said)

    @refused_by(agreeing)
    def rebind(self, source: Arrays | FileArray, destination: Arrays | FileArray) -> None:
        """Bind another array to the same plan; the file stays. Collective."""
        file, array = (destination, source) if self._to_file else (source, destination)

        def check() -> None:
            if self.in_flight:
                raise InvalidState("the mover is in flight")
            if file is not self._file:
                raise InvalidArgument("a mover cannot be bound to another file: create a new mover")

        collectively(comm_address(self._comm), check)
        self._core.moves.rebind(array)

    def explain(self) -> MoverPairs:
        """Return the transport of each pair of the first bound step. Local."""
        return next((mover.explain() for mover in self._core.moves.bound), MoverPairs([], []))

    def __repr__(self) -> str:
        way = "to" if self._to_file else "from"
        steps = counted(int(self.counters()["steps"]), "step")
        flying = ", in flight" if self.in_flight else ""
        return f"FileMover({way} {self._file.path}, {steps}{flying})"


def _check(plan: Any, array: Any, file: FileArray, to_file: bool, comm: Any) -> None:
    if not isinstance(plan, MotionPlan):
        raise WrongType(f"a {type(plan).__name__} was given, it must be a MotionPlan")
    if isinstance(array, FileArray):
        raise Unsupported(
            "source and destination are both files: move between files with datamover.move, or by "
            "an Array"
        )
    if isinstance(array, (list, tuple)):
        raise Unsupported("a file cannot be moved together with several arrays: use one mover each")
    if comm is not None and comm.size != file.comm.size:
        raise Mismatch("the file was opened by another communicator")
    layout = plan.destination if to_file else plan.source
    if layout != file.layout:
        raise Mismatch(
            f"the plan's {'destination' if to_file else 'source'} is {layout!r}, the file was "
            f"opened as {file.layout!r}"
        )
    if isinstance(plan.source if to_file else plan.destination, IndexList):
        # Steps do not cover elements of the list outside the file.
        (plan.outgoing if to_file else plan.incoming)(file.comm.rank)
    if to_file and file.mode == "r":
        raise InvalidArgument(f'{file.path} was opened with mode "r", to be read')
