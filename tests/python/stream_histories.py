# SPDX-License-Identifier: BSD-3-Clause
"""Schedules of programs that share a stream, and the checks of the histories that they leave.

A history is a list of entries `(time, kind, values...)` of one process, and a deed is an entry
`(time, kind, program, rank)` of what was done to it. Times are those of CLOCK_MONOTONIC, which the
processes of a machine share. The functions here need neither a stream nor a process.
"""

import functools
import itertools
import zlib
from dataclasses import dataclass, field

import numpy as np

#: After how many seconds processes of one program give up a wait for one another.
PEER_SECONDS = 10.0
#: How long a receiving process waits for a step before it asks again, and to connect.
STEP_SECONDS = 2.0
CONNECT_SECONDS = 20.0
#: After how many seconds a consumer ends if the sending end detects a damaged message.
DETECTION_SECONDS = 10.0
#: What a busy machine may add to every deadline.
SLACK_SECONDS = 30.0
SENDER = "sender"
#: What ends the history of a process that was not killed.
ENDS = ("end", "left", "closed", "error")


@dataclass(frozen=True)
class Sender:
    """The sending program: its processes, its arrays (elements, distribution) and its stream."""

    processes: int
    arrays: dict
    policy: str = "block"
    consumers: int = 0
    queue_steps: int = 2
    pathways: int = 1
    timeout: float = 1.0
    close_seconds: float = 60.0
    local: bool = True
    pace: float = 0.0  # mean seconds that it computes for a step
    sparse: str | None = None  # an array that only odd steps have
    ends_steps: bool = False

    def arrays_of(self, step):
        return [name for name in self.arrays if name != self.sparse or step % 2]


@dataclass(frozen=True)
class Receiver:
    """A receiving program: its processes, what it requests and how it behaves."""

    processes: int
    wanted: dict  # name: distribution
    whole: bool = False  # whether it requests every array, each as a step of its own
    newest: bool = False
    in_place: bool = False  # whether it receives into an `Array`
    local: bool = True
    ahead: int | None = None
    relayed: bool = False
    delay: float = 0.0
    pace: float = 0.0
    leaves_after: int | None = None  # steps
    leaver: int | None = None  # the only process that leaves; None for all


@dataclass(frozen=True)
class Event:
    """Something that is done to a process, or to all connections of a program.

    It is done `wait` seconds after the process has written an entry of the kind `stage`.
    """

    kind: str
    program: str
    rank: int = 0
    stage: str = "joined"
    wait: float = 0.0
    seconds: float = 0.0


#: Events after which all processes of a program must raise an error.
HARMFUL = ("kill", "stop and kill", "cut", "damage")


@dataclass(frozen=True)
class Schedule:
    """All of one run. `strangers` connect meanwhile, with the stream's token or without."""

    sender: Sender
    receivers: dict
    events: list = field(default_factory=list)
    strangers: int = 0
    with_token: bool = False


def values(name, elems, step):
    """The elements of an array in a step."""
    first = zlib.crc32(f"{name} {step}".encode())
    return np.arange(elems, dtype="u4") * np.uint32(2654435761) + np.uint32(first)


def part(whole, distribution, rank, processes):
    """Return a process's part of an array whose size the number of processes divides."""
    if distribution == "cyclic":
        return np.ascontiguousarray(whole[rank::processes])
    return whole.reshape(processes, -1)[rank]


@functools.lru_cache(100_000)
def checksum(name, elems, step, distribution, rank, processes):
    return zlib.crc32(part(values(name, elems, step), distribution, rank, processes))


def of_kind(history, *kinds):
    return [entry for entry in history if entry[1] in kinds]


def end_of(history):
    """The entry that ends a history; None if it has none."""
    return next(iter(of_kind(history, *ENDS)), None)


def violations(schedule, histories, deeds):
    """Everything that a run did against what docs/streams.md promises, as sentences.

    Parameters
    ----------
    schedule : Schedule
    histories : dict of (program, rank) to history
    deeds : list
    """
    found = [*_of_sender(schedule, histories, deeds)]
    for name in schedule.receivers:
        found += _of_receiver(schedule, name, histories, deeds)
    ends = histories[SENDER, 0] and end_of(histories[SENDER, 0])
    if ends and ends[1] == "closed":
        found += _of_counters(schedule, histories, deeds, ends[2])
    return found


def _position(sender, receiver, step, names=()):
    """The number of steps for a receiver before one, or before one with these names."""
    if receiver.whole:
        before = step * len(sender.arrays) - (step + 1) // 2 * (sender.sparse is not None)
        sent = sender.arrays_of(step)
        return before + sum(sent.index(name) for name in names if name in sent)
    return step // 2 if set(receiver.wanted) == {sender.sparse} else step


def _harm(name, deeds):
    """When a program was first harmed; None if it was not."""
    return min((d[0] for d in deeds if d[1] in HARMFUL and d[2] == name), default=None)


def _is_parted(name, deeds):
    return any(deed[1:3] == ("part", name) for deed in deeds)


def _killed(name, deeds):
    return {d[3] for d in deeds if d[1] in ("kill", "stop and kill") and d[2] == name}


def _late(what, since, seconds, entry):
    """The sentence that an error is missing or late."""
    if entry is None:
        return [f"{what} has no error"]
    late = entry[0] - since - seconds - SLACK_SECONDS
    return [f"{what} has its error {late:.1f} s too late"] if late > 0 else []


def _of_sender(schedule, histories, deeds):
    sender, killed = schedule.sender, _killed(SENDER, deeds)
    calls = []
    for rank in range(sender.processes):
        history, what = histories[SENDER, rank], f"process {rank} of the sender"
        sent = [entry[2] for entry in of_kind(history, "sent")]
        if sent != list(range(len(sent))):
            yield f"{what} sent steps {sent}"
        for entry in of_kind(history, "timeout"):
            if entry[3] > sender.timeout + SLACK_SECONDS:
                yield f"{what}: a timeout of {sender.timeout} s took {entry[3]:.1f} s"
        calls.append([entry[1:3] for entry in of_kind(history, "sent", "timeout")])
        if rank in killed:
            continue
        end = end_of(history)
        if killed:
            error = end if end and end[1] == "error" else None
            yield from _late(what, _harm(SENDER, deeds), PEER_SECONDS + sender.timeout, error)
        elif end is None or end[1] != "closed":
            yield f"{what} ended with {end}"
        elif end[0] - of_kind(history, "closing")[0][0] > sender.close_seconds + SLACK_SECONDS:
            yield f"{what} did not close its stream in {sender.close_seconds} s"
        elif end[2]["bytes_kept"]:
            yield f"{what} has closed its stream and keeps {end[2]['bytes_kept']} bytes"
    if not killed and any(call != calls[0] for call in calls):
        yield "the sending processes had steps or timeouts of different calls"


def _first_steps(schedule, name, histories):
    """The first step for a consumer: the least and the greatest that it may be."""
    mine = [histories[name, rank] for rank in range(schedule.receivers[name].processes)]
    asked = [entry[0] for history in mine for entry in of_kind(history, "subscribing")]
    joined = [entry[0] for history in mine for entry in of_kind(history, "joined")]
    theirs = [histories[SENDER, rank] for rank in range(schedule.sender.processes)]
    sent = [e[2] for history in theirs for e in of_kind(history, "sent") if e[0] < min(asked)]
    begins = [(e[2], e[0]) for history in theirs for e in of_kind(history, "send")]
    before = {step for step, begin in begins if begin <= min(joined)}  # on any sending process
    begun = {step for step, _ in begins} - before
    # A step after the last one begins never.
    return max(sent, default=-1) + 1, min(begun, default=len(of_kind(theirs[0], "send")))


def _of_receiver(schedule, name, histories, deeds):
    receiver = schedule.receivers[name]
    mine = [histories[name, rank] for rank in range(receiver.processes)]
    steps = [[entry[2] for entry in of_kind(history, "got")] for history in mine]
    for rank, history in enumerate(mine):
        what = f"process {rank} of {name}"
        yield from _of_data(schedule, receiver, rank, history, what)
        if of_kind(history, "joined"):
            yield from _of_steps(schedule, name, histories, rank, what)
        yield from _of_end(schedule, name, histories, deeds, rank, what)
    longest = max(steps, key=len)
    for rank, own in enumerate(steps):
        if own != longest[: len(own)]:
            yield f"process {rank} of {name} got {own}, another one {longest}"
        if (end := end_of(mine[rank])) and end[1] == "end" and len(own) < len(longest):
            yield f"process {rank} of {name} ended {len(longest) - len(own)} steps early"
    dropped = {end[2] for end in map(end_of, mine) if end and end[1] == "end"}
    if len(dropped) > 1:
        yield f"the processes of {name} count {dropped} dropped steps"


def _of_data(schedule, receiver, rank, history, what):
    for entry in of_kind(history, "got"):
        right = {
            name: checksum(
                name, schedule.sender.arrays[name][0], entry[2], kind, rank, receiver.processes
            )
            for name, kind in receiver.wanted.items()
            if name in schedule.sender.arrays_of(entry[2])
            and (name in entry[3] or not receiver.whole)
        }
        if entry[3] != right or (receiver.whole and len(right) != 1):
            yield f"{what} got wrong data in step {entry[2]}"
    for entry in of_kind(history, "timeout"):
        # Before an array's first step it connects, for at most 10 s for each sending process.
        if entry[2] > STEP_SECONDS + 10 * schedule.sender.processes + SLACK_SECONDS:
            yield f"{what}: a timeout of {STEP_SECONDS} s took {entry[2]:.1f} s"


def _of_steps(schedule, name, histories, rank, what):
    """Each step exactly once and in order, or counted as dropped."""
    history, receiver = histories[name, rank], schedule.receivers[name]
    position = functools.partial(_position, schedule.sender, receiver)
    got = [position(entry[2], entry[3]) for entry in of_kind(history, "got")]
    least, greatest = map(position, _first_steps(schedule, name, histories))
    for one, other in itertools.pairwise(got):
        if other <= one:
            yield f"{what} got its step {other} after step {one}"
    if got and got[0] < least:
        yield f"{what} got its step {got[0]}, which was sent before it asked"
    keeps = schedule.sender.policy == "block" and not receiver.newest
    for number, entry in enumerate(of_kind(history, "got")):
        missing = got[number] - greatest - number
        gaps = got[number] - got[0] - number
        if max(missing, gaps) > (0 if keeps else entry[4]):
            yield f"{what} misses {max(missing, gaps)} steps at {entry[2]}, {entry[4]} dropped"
            break
    end = end_of(history)
    if end is None or end[1] == "error":
        return
    if keeps and end[2]:
        yield f"{what} counts {end[2]} dropped steps"
    sent = position(len(of_kind(histories[SENDER, 0], "send")))
    if end[1] == "end" and not least <= sent - len(got) - end[2] <= greatest:
        yield (
            f"{what} got {len(got)} steps and counts {end[2]} dropped ones; {sent} were sent, and"
            f" the first one for it is {least} to {greatest}"
        )


def _of_end(schedule, name, histories, deeds, rank, what):
    """An error on every process of a program that was harmed, and on no other."""
    receiver, end = schedule.receivers[name], end_of(histories[name, rank])
    if rank in _killed(name, deeds):
        return
    started = histories[name, rank][0][0] if histories[name, rank] else 0
    harms = [(t, DETECTION_SECONDS) for t in [_harm(name, deeds)] if t is not None]
    if (gone := _harm(SENDER, deeds)) is not None:
        harms.append((max(gone, started), PEER_SECONDS + CONNECT_SECONDS))
    if receiver.leaver not in (None, rank):
        left = end_of(histories[name, receiver.leaver])
        harms += [(left[0], STEP_SECONDS)] if left and left[1] == "left" else []
    if not harms:
        # A partition until the stream is closed may be an error.
        if end is None or not (_is_parted(name, deeds) or end[1] in ("end", "left")):
            yield f"{what} ended with {end}"
        return
    if end is not None and (end[0] < min(harms)[0] or end[1] == "left"):
        return  # before, or content with what it had
    error = end if end and end[1] == "error" else None
    yield from _late(what, *min(harms), error)


def _of_counters(schedule, histories, deeds, counters):
    """The counters of the sending end agree with those of the receiving ends."""
    came, lost, left = (counters[f"consumers_{how}"] for how in ("came", "lost", "left"))
    if came != lost + left + counters["consumers"]:
        yield f"the sender's counters do not add up: {counters}"
    uninvited = schedule.strangers if schedule.with_token else 0
    served, harmed, ended, dropped = 0, 0, 0, 0
    for name, receiver in schedule.receivers.items():
        mine = [histories[name, rank] for rank in range(receiver.processes)]
        ends = [end_of(history) for history in mine]
        served += any(of_kind(history, "got") for history in mine)
        is_whole = all(end and end[1] in ("end", "left") for end in ends)
        harmed += not is_whole or _is_parted(name, deeds)
        ended += is_whole and all(end[1] == "end" for end in ends)
        last = [of_kind(history, "got")[-1:] for history in mine]
        counts = [entry[4] for (entry,) in filter(None, last)]
        counts += [end[2] for end in ends if end and end[1] in ("end", "left")]
        dropped += max(counts, default=0)
    if not served <= came <= len(schedule.receivers) + uninvited:
        yield f"{served} consumers got steps; the sender counts {came}"
    if lost > harmed + uninvited:
        yield f"{harmed} consumers were harmed; the sender counts {lost}"
    exact = ended == len(schedule.receivers) and not uninvited
    # A step that `close` interrupts while it is sent is counted by its consumer only.
    parted = any(_is_parted(name, deeds) for name in schedule.receivers)
    fits = counters["steps_dropped"] == dropped or (
        not exact and counters["steps_dropped"] > dropped
    )
    if not parted and not fits:
        yield f"the consumers count {dropped} dropped steps, the sender {counters}"
    keeps = schedule.sender.policy == "block"
    if keeps and counters["steps_dropped"] and not any(
        receiver.newest for receiver in schedule.receivers.values()
    ):  # fmt: skip
        yield f"the sender dropped steps with the policy block: {counters}"
