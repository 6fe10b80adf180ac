# SPDX-License-Identifier: BSD-3-Clause
"""Parallel work: several threads of a process handle a list of items, such as chunks."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from datamover.errors import Timeout

#: Approximate bytes of the pieces, one per thread, of boxes of flat files.
PIECE_BYTES = 8 << 20

#: Seconds of a wait for threads before they are counted again.
PATIENCE_SECONDS = 0.5


#: Whether the process only moves files, so that its memory may be managed for that alone.
IS_OWN_PROCESS = False
#: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of the C library's mallopt.
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
#: The largest block that glibc can be told to keep.
MOST_KEPT_BYTES = 32 << 20

_returns_large_blocks = False


def keep_large_blocks() -> None:
    """Let the C library keep the memory that codecs free, for the next chunk of their thread.

    By default it returns a MiB or more to the system with every chunk, and the pages of the next
    one must be cleared again: in a move with zstd that took a thirtieth of the time.
    """
    if not _returns_large_blocks:
        _tell_malloc({MMAP_THRESHOLD: MOST_KEPT_BYTES, TRIM_THRESHOLD: 1 << 30})


def return_large_blocks() -> None:
    """Let the C library return blocks of a MiB or more to the system as soon as they are free.

    By default it raises that limit to the size of a freed block, up to 32 MiB. If threads of
    several libraries allocate and free large blocks, much more memory is held than used.
    """
    global _returns_large_blocks
    _returns_large_blocks = True
    _tell_malloc({MMAP_THRESHOLD: 1 << 20, TRIM_THRESHOLD: 1 << 20})


def _tell_malloc(said: dict[int, int]) -> None:
    if IS_OWN_PROCESS:
        with contextlib.suppress(AttributeError):  # another C library
            for name, nbytes in said.items():
                ctypes.CDLL(None).mallopt(name, nbytes)


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def share_of_cores(processes_on_node: int) -> int:
    """Count the cores for this process, among the processes of its node."""
    mine = cores()
    bound = mine < (os.cpu_count() or mine)
    return mine if bound else max(1, mine // processes_on_node)


def do_all(tasks: Iterable[Any], work: Callable[[Any], None], threads: int) -> None:
    """Call `work` for each task, by several threads; the first error is raised when all have ended.

    Parameters
    ----------
    tasks : iterable
        Iterated by one thread at a time.
    work : callable
    threads : int

    Examples
    --------
    >>> from datamover.files.at_work import do_all
    >>> found = []
    >>> do_all(range(5), lambda n: found.append(n * n), threads=2)
    >>> sorted(found)
    [0, 1, 4, 9, 16]
    """
    todo = (functools.partial(work, task) for task in tasks)
    Crew(lambda: next(todo, None)).run_by(threads)


Task = Callable[[], None]


class GivenUp(Exception):
    """Another process has failed."""


class Crew:
    """Threads that take tasks and call them until none is left or one has failed.

    Parameters
    ----------
    take : callable
        Returns the next task, or None when all are done; called by one thread at a time.
    """

    def __init__(self, take: Callable[[], Task | None]):
        self._take_next = take
        self._changed = threading.Condition()
        self._running = 0  # threads without the caller's
        self._done = False
        self._ended = threading.Lock()  # free when no thread is left
        self._ended.acquire()
        self._failure: BaseException | None = None

    def run_by(self, threads: int, gives_up: Callable[[], bool] | None = None) -> None:
        """Do all tasks; even after an interrupt, return when all threads have stopped.

        `gives_up` is called repeatedly, by this thread; it returns whether to give up.

        Raises
        ------
        BaseException
            The first error of any thread.
        GivenUp
            `gives_up` returned True.
        """
        try:
            if threads == 1 and gives_up is None:
                self._work()
            else:
                for _ in range(threads):
                    threading.Thread(target=self._help).start()
        except BaseException as e:
            self._fail(e)
        # Not by `join`: if a signal interrupts it, Python 3.11 considers the thread ended.
        # A thread that starts later finds nothing to do.
        while self._running > 0 or not (self._done or self._failure is not None):
            try:
                self._ended.acquire(timeout=PATIENCE_SECONDS)
                if gives_up is not None and self._failure is None and gives_up():
                    raise GivenUp
            except BaseException as e:
                self._fail(e)
        if self._failure is not None:
            raise self._failure

    def _help(self) -> None:
        with self._changed:
            if self._failure is not None:
                return
            self._running += 1
        self._work()
        with self._changed:
            self._running -= 1
            if self._running == 0 and self._ended.locked():
                self._ended.release()

    def _work(self) -> None:
        try:
            while (task := self._next()) is not None:
                task()
        except BaseException as e:
            self._fail(e)

    def _next(self) -> Task | None:
        with self._changed:
            task = None if self._failure is not None else self._take_next()
            if task is None:
                self._done = True
                self._changed.notify_all()
            return task

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._failure is None:
                self._failure = error
            self._changed.notify_all()


class Background:
    """Work of another thread, whose error is kept until all processes are notified.

    Attributes
    ----------
    failure : BaseException or None
    """

    def __init__(self, work: Callable[[], None]):
        self.failure: BaseException | None = None
        self._done = threading.Event()
        try:
            threading.Thread(target=self._run, args=(work,)).start()
        except RuntimeError:  # the system has no further thread: others wait for this work
            self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:
            self.failure = e
        finally:
            self._done.set()

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended."""
        return not self._done.is_set()

    def test(self) -> bool:
        """Return whether it has ended."""
        return not self.in_flight

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        if not self._done.wait(timeout):
            raise Timeout(f"a file was read or written for more than {timeout} seconds")


def threads_within(threads: int, files: Iterable[Any], most_bytes: int) -> int:
    """Return how many of the threads can decode or encode chunks of files within a memory limit."""
    scratch = [
        2 * max(math.prod(file.granule) * file.spec.dtype.itemsize, 1)
        if math.prod(file.granule) > 1
        else PIECE_BYTES
        for file in files
    ]
    return max(1, min(threads, most_bytes // max(scratch, default=1)))
