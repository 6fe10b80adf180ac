# SPDX-License-Identifier: BSD-3-Clause
"""Identity of the processes that write an output, and a check whether they are still running.

It is used for incomplete outputs at an address, which no lock can protect. The answer is certain
only on the machine on which all of these processes run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import cache
from typing import Any

from datamover.mpi import gathered

#: Field of /proc/PID/stat, counted behind the name, that says when a process began; and its state.
BEGIN_FIELD, STATE_FIELD = 19, 0
#: States of processes that do nothing any more.
ENDED = ("Z", "X")


def described(address: int | None) -> dict[str, Any] | None:
    """Describe the processes of a communicator so that `are_gone` finds them. Collective.

    `address` is that of the communicator; None where this process is alone. None where they are of
    several machines, or the system does not tell.
    """
    mine = [_machine(), os.getpid(), _begin(os.getpid()) or 0]
    found = [mine] if address is None else [one.tolist() for one in gathered(address, mine)]
    machine = found[0][0]
    if machine == 0 or any(one[0] != machine or one[2] == 0 for one in found):
        return None
    return {"machine": machine, "processes": [one[1:] for one in found]}


def are_gone(description: Any) -> bool:
    """Tell whether it is certain that none is there of the processes that `described` told of.

    Examples
    --------
    >>> from datamover.files.writers import are_gone, described
    >>> are_gone(described(None)), are_gone({"machine": 1, "processes": []}), are_gone(None)
    (False, False, False)
    """
    if not isinstance(description, dict) or description.get("machine") != (_machine() or None):
        return False
    processes = description.get("processes")
    if not isinstance(processes, list) or not processes:
        return False
    return all(
        isinstance(one, list) and [type(n) for n in one] == [int, int] and _is_gone(*one)
        for one in processes
    )


def _is_gone(pid: int, begin: int) -> bool:
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # of another user: /proc may not show it
        pass
    found = _begin(pid)
    return found is not None and found != begin


def _begin(pid: int) -> int | None:
    """Say when a process began; None where the system does not tell, 0 where it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return 0 if fields[STATE_FIELD] in ENDED else int(fields[BEGIN_FIELD])
    return None


@cache
def _machine() -> int:
    """Give 63 bits of the machine since it was started, and of its numbers of processes; 0: none.

    A container has numbers of processes of its own.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        words = boot + str(os.stat("/proc/self/ns/pid").st_ino).encode()
    except OSError:
        return 0
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "little") >> 1
