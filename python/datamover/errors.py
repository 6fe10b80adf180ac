# SPDX-License-Identifier: BSD-3-Clause
"""Errors and their codes.

There is one exception class per kind of failure. All derive from `Error`, and also from the
built-in exception that a Python programmer expects. `code` is the stable name of the kind, the same
in C++.

>>> import datamover as dm
>>> try:
...     dm.BlockCyclic((4, -4), "(block, block)", nprocs=2)
... except dm.Error as e:
...     print(e.code, isinstance(e, ValueError))
invalid_argument True
"""

from typing import ClassVar


class Error(Exception):
    """Every error that the library raises; `code` names its kind."""

    code: ClassVar[str] = "error"


class InvalidArgument(Error, ValueError):
    """A value that makes no sense, such as a negative shape or a block of zero."""

    code = "invalid_argument"


class OutOfRange(Error, IndexError):
    """An index, region, rank or address outside what it must lie in."""

    code = "out_of_range"


class WrongType(Error, TypeError):
    """Element types or element sizes that do not fit each other."""

    code = "wrong_type"


class Mismatch(Error, ValueError):
    """Things that must agree do not: shapes, plans, lengths, layouts."""

    code = "mismatch"


class NoMemory(Error, MemoryError):
    """Memory, shared memory or a given limit does not suffice."""

    code = "no_memory"


class IoError(Error, OSError):
    """A file cannot be read or written, or holds something else."""

    code = "io"


class MpiError(Error, RuntimeError):
    """An MPI call failed, or MPI is not usable as it was started."""

    code = "mpi"


class PeerFailed(Error, RuntimeError):
    """Another process of the operation failed."""

    code = "peer_failed"


class Timeout(Error, TimeoutError):
    """A deadline passed."""

    code = "timeout"


class InvalidState(Error, RuntimeError):
    """A call at the wrong time: started twice, used after it was freed."""

    code = "invalid_state"


class Unsupported(Error, NotImplementedError):
    """A combination that this build or transport cannot do."""

    code = "unsupported"


_CLASSES = {c.code: c for c in Error.__subclasses__()}


def class_of(code: str) -> type[Error]:
    """Return the exception class of a code; `Error` itself for an unknown one.

    Examples
    --------
    >>> class_of("timeout").__name__
    'Timeout'
    """
    return _CLASSES.get(code, Error)
