# SPDX-License-Identifier: BSD-3-Clause
"""Errors and their codes.

Each kind of failure has an exception class. All derive from `Error`, and also from the built-in
exception that a Python programmer expects. `code` is the stable name of the kind, the same in C++.

>>> import datamover as dm
>>> try:
...     dm.BlockCyclic((4, -4), "(block, block)", nprocs=2)
... except dm.Error as e:
...     print(e.code, isinstance(e, ValueError))
invalid_argument True
"""

from typing import ClassVar

from .lazy_names import attributes


class Error(Exception):
    """Base class of all errors that the library raises; `code` names the kind."""

    code: ClassVar[str] = "error"


class InvalidArgument(Error, ValueError):
    """A value is not valid, such as a negative shape or a block of zero."""

    code = "invalid_argument"


class OutOfRange(Error, IndexError):
    """An index, region, rank or address is out of bounds."""

    code = "out_of_range"


class WrongType(Error, TypeError):
    """Element types or element sizes do not fit each other."""

    code = "wrong_type"


class Mismatch(Error, ValueError):
    """Shapes, plans, lengths or layouts that must agree differ."""

    code = "mismatch"


class NoMemory(Error, MemoryError):
    """Memory, shared memory or a given limit does not suffice."""

    code = "no_memory"


class IoFailed(Error, OSError):
    """A file cannot be read or written, or is not valid."""

    code = "io"


class MpiFailed(Error, RuntimeError):
    """An MPI call failed, or MPI is not usable as it was started."""

    code = "mpi"


class PeerFailed(Error, RuntimeError):
    """Another process of the operation failed."""

    code = "peer_failed"


class Timeout(Error, TimeoutError):
    """A timeout expired."""

    code = "timeout"


class InvalidState(Error, RuntimeError):
    """A call was made at the wrong time: a second start, or a use after free."""

    code = "invalid_state"


class Unsupported(Error, NotImplementedError):
    """A combination is not supported by this build, transport or file format."""

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


__getattr__ = attributes(globals(), {})
