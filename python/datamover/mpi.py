# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a process's MPI.

This module loads `mpi4py` and the library's own MPI module on first use, so that planning needs no
MPI.
"""

from __future__ import annotations

import atexit
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from .errors import (
    Error,
    InvalidArgument,
    IoFailed,
    MpiFailed,
    NoMemory,
    OutOfRange,
    PeerFailed,
    WrongType,
)
from .launch import check_launch
from .mpi_modules import load, load_mpi4py

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import numpy as np
    from mpi4py import MPI

#: A communicator, for modules that do not load mpi4py.
Comm: TypeAlias = "MPI.Comm"
#: The library's codes for built-in exceptions; the first that fits is used.
_KINDS = (
    (MemoryError, NoMemory),
    (OSError, IoFailed),
    (LookupError, OutOfRange),
    ((TypeError, AttributeError), WrongType),
    ((ValueError, ArithmeticError), InvalidArgument),
)


def _loaded_mpi_libraries() -> set[str]:
    """Return the files of all MPI libraries in this process."""
    paths = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        name = path.rsplit("/", 1)[-1]
        if name.startswith(("libmpi.so", "libmpi_abi.so", "libmpich.so")):
            paths.add(path)
    return paths


@cache
def core() -> ModuleType:
    """Load the library's MPI module after mpi4py, and check that both use the same MPI.

    Raises
    ------
    MpiFailed
        They use different ones; names the remedy.
    """
    MPI = load_mpi4py()
    _mover = load(MPI)
    loaded = _loaded_mpi_libraries()
    same = _mover.mpi_library_version().rstrip("\0") == MPI.Get_library_version().rstrip("\0")
    if len(loaded) > 1 or not same or _mover.comm_handle_bytes != MPI._sizeof(MPI.Comm):
        raise MpiFailed(
            "mpi4py and datamover use different MPI libraries "
            f"({', '.join(sorted(loaded)) or 'unknown'}); build datamover with the mpicxx of the "
            "MPI that mpi4py loads, or choose mpi4py's with the environment variable MPI4PY_MPIABI"
        )
    atexit.register(_tell_end, _mover.fail_all)
    return _mover


def _tell_end(tell: Callable[[str], None]) -> None:
    """Call `tell` with a message for the others if an uncaught exception ends the program.

    Otherwise its MPI waits for theirs at the end, and they wait for it in a collective call,
    forever.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is not None:
        tell(f"its program was ended by {type(error).__name__}")


def comm_address(comm: MPI.Comm) -> int:
    """Return the address of a communicator's handle, after the checks of this module. Local.

    Raises
    ------
    WrongType
        `comm` is not an mpi4py communicator.
    InvalidArgument
        It is MPI.COMM_NULL, or was freed.
    MpiFailed
        The launcher belongs to another MPI, which leaves each process alone, or MPI has ended.
    """
    MPI = load_mpi4py()
    if not isinstance(comm, MPI.Comm):
        raise WrongType(f"comm is of type {type(comm).__name__}, it must be an mpi4py communicator")
    if comm == MPI.COMM_NULL:
        raise InvalidArgument("comm is MPI.COMM_NULL, or a communicator that was freed")
    core().check_running()
    check_launch(comm)
    return MPI._addressof(comm)


def error_of(error: BaseException) -> Error:
    """Convert an exception of any kind to an error of the library, for other processes.

    Examples
    --------
    >>> error_of(TypeError("a list is not a number")).code
    'wrong_type'
    """
    if isinstance(error, Error):
        return error
    words = str(error) or type(error).__name__
    for builtin, kind in _KINDS:
        if isinstance(error, builtin):
            return kind(words)
    return PeerFailed(f"{type(error).__name__}: {words}")


def told(error: BaseException) -> tuple[str, str]:
    """Return the code and the message of an error for other processes."""
    said = error_of(error)
    # Half a pair of surrogates, from a user's string, cannot be encoded.
    words = str(said).encode(errors="backslashreplace").decode()
    return said.code, words.replace("\0", "\\x00")  # C++ would end the text there


def collectively(address: int, work: Callable[[], Any]) -> Any:
    """Run `work` on every process; if it raises on one, raise that on all. Collective.

    An exception that is not an error of the library becomes one. Exceptions that end a program
    (KeyboardInterrupt, SystemExit) continue on their process, and are an error on the others.
    """
    with Refusing(partial(core().agree, address)):
        result = work()
    core().agree(address, None, "")
    return result


def gathered(address: int, numbers: Any) -> list[np.ndarray]:
    """Return the int64 numbers of every process, by rank. Collective; waits as movers do."""
    return core().gather(address, numbers)


def take_part_with(
    agree: Callable[[int, str, str], None], address: int, error: BaseException
) -> NoReturn:
    """Do `join_as_failed` by a function of the core that takes a communicator's address too."""
    join_as_failed(partial(agree, address), error)


def join_as_failed(refuse: Callable[[str, str], None], error: BaseException) -> NoReturn:
    """Pass an error to the others in their collective call; raise it here. Collective."""
    try:
        refuse(*told(error))
    except Error as agreed:
        set_told(error)
        if isinstance(error, Exception):
            raise agreed from (None if isinstance(error, Error) else error)
    raise error


class Refusing:
    """A block in which an error is passed to the others in their collective call, by `refuse`."""

    def __init__(self, refuse: Callable[[str, str], None]):
        self._refuse = refuse

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        if error is not None:
            join_as_failed(self._refuse, error)


def tell_that_left(comm: MPI.Comm, error: BaseException) -> None:
    """Notify the others that this process left a collective call, unless already done. Local.

    An interrupt may arrive at any time, and the progress of the others is then unknown. From now on
    they raise PeerFailed in every call on this communicator.
    """
    if comm.size > 1 and not getattr(error, "is_told", False):
        core().fail(comm_address(comm), f"{type(error).__name__} in a call of all processes")
        set_told(error)


def set_told(error: BaseException) -> None:
    """Mark an error that the others know, which `tell_that_left` then leaves alone."""
    error.is_told = True  # type: ignore[attr-defined]
