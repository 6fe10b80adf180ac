# SPDX-License-Identifier: BSD-3-Clause
"""Streams: a distributed program sends its arrays to another program while both run.

`Stream` opens the sending end on any number of processes, `connect` the receiving end in another
program, on any number of its own. Each receiving process gets its part of an array directly from
the processes that hold it. An end with a single process does not need MPI, however many processes
the other end has.
"""

from .consumer import Consumer, connect
from .manager import Manager
from .producer import Stream

__all__ = ["Consumer", "Manager", "Stream", "connect"]
