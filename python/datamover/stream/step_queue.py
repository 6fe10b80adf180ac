# SPDX-License-Identifier: BSD-3-Clause
"""Which steps wait for a consumer, which are on their way to it, and which does it not get?"""

from __future__ import annotations

import dataclasses
from collections import deque

POLICIES = ("block", "drop_oldest", "drop_newest")


@dataclasses.dataclass
class Step:
    """One step for one consumer: the arrays that were sent of it so far.

    Attributes
    ----------
    sequence : int
        Its place among all steps of the stream.
    number : int
        What the sending program calls it.
    place : int
        Its place among the steps that were ever added to this consumer's queue.
    """

    sequence: int
    number: int
    place: int
    arrays: list[int] = dataclasses.field(default_factory=list)
    nbytes: int = 0
    complete: bool = False


class StepQueue:
    """The steps of one consumer: waiting (bounded, may be dropped), then on their way.

    Pure bookkeeping: no sockets, no memory of arrays. A step stays in the queue until the consumer
    has granted a credit for it; then it is on its way and cannot be dropped any more.

    Parameters
    ----------
    policy : {"block", "drop_oldest", "drop_newest"}
    max_steps, max_bytes : int
        Of waiting steps. One step alone always has room.

    Examples
    --------
    >>> queue = StepQueue("drop_oldest", max_steps=1, max_bytes=100)
    >>> for sequence in range(3):
    ...     room, dropped = queue.make_room(sequence, nbytes=8)
    ...     place = queue.add(sequence, number=10 * sequence, array=0, nbytes=8)
    ...     queue.complete()
    >>> queue.dropped, [step.number for step in queue.waiting]
    (2, [20])
    """

    def __init__(self, policy: str, max_steps: int, max_bytes: int):
        self._policy, self._max_steps, self._max_bytes = policy, max_steps, max_bytes
        self.waiting: deque[Step] = deque()
        self.on_their_way: dict[int, Step] = {}
        self.dropped = 0
        self._refused = -1
        self._count = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self.waiting and not self.on_their_way

    def make_room(self, sequence: int, nbytes: int) -> tuple[bool | None, list[int]]:
        """Tell whether an array of a step may be added; drop what the policy drops for it.

        Returns
        -------
        room : bool or None
            None: not now, ask again. False: this step is dropped.
        dropped : list of int
            Places of steps that were dropped.
        """
        if sequence == self._refused:
            return False, []
        if self.waiting and self.waiting[-1].sequence == sequence:
            return True, []
        dropped = []
        while self.waiting and self._is_full(nbytes):
            if self._policy == "block":
                return None, dropped
            self.dropped += 1
            if self._policy == "drop_newest":
                self._refused = sequence
                return False, dropped
            dropped.append(self.waiting.popleft().place)
        return True, dropped

    def _is_full(self, nbytes: int) -> bool:
        held = sum(step.nbytes for step in self.waiting)
        return len(self.waiting) >= self._max_steps or held + nbytes > self._max_bytes

    def nbytes_of(self, sequence: int) -> int:
        """Count the bytes of a step that were added so far."""
        is_newest = self.waiting and self.waiting[-1].sequence == sequence
        return self.waiting[-1].nbytes if is_newest else 0

    def add(self, sequence: int, number: int, array: int, nbytes: int) -> int:
        """Add an array to its step; give the step's place."""
        if not self.waiting or self.waiting[-1].sequence != sequence:
            self.waiting.append(Step(sequence, number, self._count))
            self._count += 1
        step = self.waiting[-1]
        step.arrays.append(array)
        step.nbytes += nbytes
        return step.place

    def complete(self) -> None:
        """Say that nothing more comes of the newest step."""
        if self.waiting:
            self.waiting[-1].complete = True

    def next_to_send(self) -> Step | None:
        """Take the oldest complete step; it is on its way from now on.

        None where there is none, or where as many bytes are on their way as may wait.
        """
        if not self.waiting or not self.waiting[0].complete:
            return None
        travelling = sum(step.nbytes for step in self.on_their_way.values())
        if travelling and travelling + self.waiting[0].nbytes > self._max_bytes:
            return None
        step = self.waiting.popleft()
        self.on_their_way[step.place] = step
        return step
