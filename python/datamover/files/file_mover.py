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
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from datamover.arguments import seconds
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
from datamover.files.agreement import agree_on, together
from datamover.files.array_steps import StagedMove, Step, steps_of
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


class FileMover(Mover):
    """A mover whose source or destination is on the disk; created as a `Mover`.

    Differences from a `Mover`: Data that exceeds the file's `max_bytes` is moved in several steps.
    `start` and `test` may then wait for other processes, because a mover is bound for each step.
    Read errors are raised before any element of that step is moved, write errors on all processes
    after the step, when the destination may be partly moved. If movers of files are in flight at
    the same time, all processes must wait for them in the same order; while one writes a file, no
    other reads or writes it.
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
        self._file = cast(FileArray, destination if self._to_file else source)
        self._comm = self._file.comm
        self._address = comm_address(self._comm)
        self._plans = [plan]
        self._said = said
        self._round: Iterator[Any] | None = None
        self._awaited: Any = None
        self._moves = cast(StagedMoves, None)  # until they are made
        self._flags = cast(_Flags, None)  # likewise, and when they are freed
        self._rounds = 0
        self._bytes = {"read_bytes": 0, "written_bytes": 0}

        def prepare() -> StagedMove:
            self._check(plan, source, destination, comm)
            file, array = self._file, source if self._to_file else destination
            order, most_bytes = file._open_file.spec.order, file.max_bytes // 2
            move = StagedMove(file.path, file.path, array, file.dtype, order)
            return steps_of(plan, move, file._open_file, self._to_file, file.ranks, most_bytes)

        move = collectively(self._address, prepare)
        self._steps: list[Step] = move.steps
        agree_on(self._address, {"plans": (len(self._steps), self._to_file)})
        try:
            self._flags = _Flags(self._comm)
            self._moves = StagedMoves(
                self._comm, [move] if self._steps else [], self._to_file,
                self._file.max_bytes // 4, keeps=True, **self._said,
            )  # fmt: skip
            self._moves.bind()
        except BaseException:
            self._free()
            raise

    def _check(self, plan: Any, source: Any, destination: Any, comm: Any) -> None:
        if not isinstance(plan, MotionPlan):
            raise WrongType(f"a {type(plan).__name__} was given, it must be a MotionPlan")
        if isinstance(source, FileArray) and isinstance(destination, FileArray):
            raise Unsupported(
                "source and destination are both files: move between files with datamover.move, "
                "or by an Array"
            )
        if isinstance(source if self._to_file else destination, (list, tuple)):
            raise Unsupported(
                "a file cannot be moved together with several arrays: use one mover each"
            )
        if comm is not None and comm.size != self._comm.size:
            raise Mismatch("the file was opened by another communicator")
        layout = plan.destination if self._to_file else plan.source
        if layout != self._file.layout:
            raise Mismatch(
                f"the plan's {'destination' if self._to_file else 'source'} is {layout!r}, the "
                f"file was opened as {self._file.layout!r}"
            )
        if isinstance(plan.source if self._to_file else plan.destination, IndexList):
            # Steps do not cover elements of the list outside the file.
            (plan.outgoing if self._to_file else plan.incoming)(self._comm.rank)
        if self._to_file and self._file.mode == "r":
            raise InvalidArgument(f'{self._file.path} was opened with mode "r", to be read')
        # Arriving elements are combined with the existing ones, or replace them.
        self._replaces = MoverOptions(**self._said).op == "replace"

    def _transfer(self, k: int, writes: bool) -> None:
        parts, file = list(self._moves.parts(k)), self._file
        files = {file.path: file._open_file}
        transfer(parts, files, writes, file._threads, file.max_bytes // 4)
        nbytes = sum(part.nbytes for _, _, part in parts)
        self._bytes["written_bytes" if writes else "read_bytes"] += nbytes

    def _steps_of_round(self) -> Iterator[Any]:
        """Yield the tasks of a round, each of which is waited for before the next."""
        for k, step in enumerate(self._steps):
            mover = self._moves.mover(k)
            if not (step.is_covered and self._replaces):  # elements that are not written stay
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
            with together(self._comm):
                if task.failure is not None:
                    raise task.failure

    def _advance(self) -> bool:
        """Go on to the next task; return False when all are complete."""
        with uninterrupted():
            try:
                self._awaited = next(cast(Iterator[Any], self._round), None)
            except BaseException as e:
                if not isinstance(e, Exception):  # which the others do not notice otherwise
                    self._flags.leave()
                self._end_round(failed=True)
                raise
            if self._awaited is None:
                self._end_round(failed=False)
                self._rounds += 1
        return self._awaited is not None

    def _end_round(self, failed: bool) -> None:
        self._round = self._awaited = None
        self._file._end_round(self, failed)

    def start(self) -> None:
        """Start the move: reading begins, or the elements to write are sent."""
        if self._round is not None:
            raise InvalidState("the mover is in flight")
        if self._flags is None:
            raise InvalidState("the mover is closed")
        with uninterrupted():  # otherwise the file would wait forever for the end of the round
            self._file._begin_round(self)
            self._round = self._steps_of_round()
        if self._steps:
            self._advance()

    def test(self) -> bool:
        """Make progress; return whether the move is complete here."""
        if self._round is None:
            raise InvalidState("the mover is not in flight")
        while not self._waits or self._awaited.test():
            if not self._advance():
                return True
        return False

    def wait(self, timeout: float | None = None) -> None:
        """Return when the destination is complete here and the source may be overwritten."""
        if self._round is None:
            raise InvalidState("the mover is not in flight")
        timeout = seconds(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                # An earlier wait may have been interrupted after the task had completed.
                if self._waits and (left is None or left > 0):
                    self._awaited.wait(left)
                elif self._waits and not self._awaited.test():
                    raise Timeout(f"the move was not complete after {timeout} seconds")
            except (Timeout, KeyboardInterrupt):
                raise
            except BaseException:  # an error of a mover: this round is lost
                self._end_round(failed=True)
                raise
            if not self._advance():
                return

    @property
    def _waits(self) -> bool:
        """Whether there is a task that was not complete before."""
        return self._awaited is not None and self._awaited.in_flight

    def __call__(self, timeout: float | None = None) -> None:
        """Start and wait."""
        self.start()
        if self._round is not None:
            self.wait(timeout)

    @property
    def in_flight(self) -> bool:
        """Whether the mover was started and is not yet complete."""
        return self._round is not None

    @refused_by(agreeing)
    def rebind(self, source: Arrays | FileArray, destination: Arrays | FileArray) -> None:
        """Bind another array to the same plan; the file stays. Collective."""
        file, array = (destination, source) if self._to_file else (source, destination)

        def check() -> None:
            if self._round is not None:
                raise InvalidState("the mover is in flight")
            if file is not self._file:
                raise InvalidArgument("a mover cannot be bound to another file: create a new mover")

        collectively(self._address, check)
        self._moves.rebind(array)

    @refused_by(lambda given, said, error: given[0]._refuse_tuning(given, said, error))
    def tune(self, seconds: float = 0.2) -> None:
        """Measure transports between the arrays and staging memory; see `Mover`. Collective."""
        for mover in self._moves.bound:
            mover.tune(seconds)

    def _refuse_tuning(self, given: Any, said: Any, error: BaseException) -> NoReturn:
        if not self._moves.bound:  # no process waits for another
            raise error
        agreeing(given, said, error)

    def explain(self) -> MoverPairs:
        """Return the transport of each pair of the first bound step. Local."""
        for mover in self._moves.bound:
            return mover.explain()
        return MoverPairs([], [])

    def counters(self) -> dict[str, int | float]:
        """Return steps, rounds, and bytes read and written by this process so far. Local."""
        return {"steps": len(self._steps), "rounds": self._rounds, **self._bytes}

    def close(self) -> None:
        """Free memory and movers. Local. InvalidState in flight."""
        if self._round is not None:
            raise InvalidState("the mover is in flight")
        self._free()

    def _free(self) -> None:
        if self._moves is not None:
            self._moves.close()
        if self._flags is not None:
            self._flags.close()
            self._flags = cast(_Flags, None)

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Close the mover; one left in flight has failed, and all processes are notified."""
        left = self._round is not None
        self.give_up()
        if left and kind is None:
            raise InvalidArgument("a mover was left in flight at the end of its with block")

    def give_up(self) -> None:
        """Free all; notify the others of a round left in flight. Not for users. Local."""
        if self._round is not None:
            if isinstance(self._awaited, Background):
                self._awaited.wait()
            if self._flags is not None:
                self._flags.leave()
            for mover in self._moves.bound:
                mover._core.give_up()
            self._end_round(failed=True)
        self._free()

    def __del__(self) -> None:
        if getattr(self, "_round", None) is not None:
            self.give_up()

    def __repr__(self) -> str:
        way = "to" if self._to_file else "from"
        flying = ", in flight" if self.in_flight else ""
        return f"FileMover({way} {self._file.path}, {counted(len(self._steps), 'step')}{flying})"
