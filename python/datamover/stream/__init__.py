# SPDX-License-Identifier: BSD-3-Clause
"""How does a distributed program send its arrays to another program while both run?

`Stream` opens the sending end on any number of processes, `connect` the receiving end in another
program, on any number of its own. Each receiving process gets its part of an array straight from
the processes that hold it. Neither end needs MPI to have more than one process at the other.
"""

from .consumer import Consumer, connect
from .manager import Manager
from .producer import Stream

__all__ = ["Consumer", "Manager", "Stream", "connect"]
