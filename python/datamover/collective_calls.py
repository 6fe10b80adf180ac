# SPDX-License-Identifier: BSD-3-Clause
"""Decorators that end a collective call on all processes if it ends on one outside an agreement.

Python rejects a call whose arguments do not fit (an unknown keyword, a missing argument) before
the function runs, and an interrupt may arrive at any line. The functions are therefore wrapped,
which only costs a frame.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from .errors import Error
from .mpi import comm_address, core, take_part_with, tell_that_left

if TYPE_CHECKING:
    from mpi4py import MPI

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
#: Takes part in the call of the other processes, and raises.
Refuse = Callable[[tuple[Any, ...], Mapping[str, Any], BaseException], NoReturn]


def stay_where_the_program_ends() -> None:
    """Block forever in a daemon thread if the program's main thread has ended. Local.

    Python ends daemon threads when they return from a call. Before that, open objects are closed,
    and the call fails. A thread that raises this error while Python ends may end the program by a
    signal.
    """
    if threading.current_thread().daemon and not threading.main_thread().is_alive():
        while True:
            time.sleep(3600)


def refused_by(refuse: Refuse) -> Callable[[Callable[Arguments, Result]], Callable]:
    """Decorate a collective function: `refuse` is called if its arguments do not fit.

    The other processes get any other error that was not agreed on as from a process that has left
    the call.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def called(*given: Arguments.args, **said: Arguments.kwargs) -> Result:
            try:
                return function(*given, **said)
            except Error:
                stay_where_the_program_ends()
                raise  # agreed on
            except BaseException as error:
                at = error.__traceback__
                if isinstance(error, TypeError) and at is not None and at.tb_next is None:
                    refuse(given, said, _naming(function, error))  # raised before the function ran
                comm = _communicator(given, said)
                if comm is not None:
                    tell_that_left(comm, error)
                raise

        return called

    return decorate


def _naming(function: Callable[..., Any], error: TypeError) -> TypeError:
    """Add the names of the keyword arguments to an error about too many arguments."""
    names = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    if not names or " given" not in str(error) or " positional argument" not in str(error):
        return error
    return TypeError(f"{error}; by name are given {', '.join(f'{name}=' for name in names)}")


def _telling(entry: str) -> Refuse:
    """Notify the others by an entry of the core, while they make the call that it belongs to."""

    def refuse(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
        comm = _communicator(given, said)
        if comm is None:
            raise error  # there are no other processes
        take_part_with(getattr(core(), entry), comm_address(comm), error)

    return refuse


def address_of(comm: MPI.Comm, refuse: Refuse, arrays: Any) -> int:
    """Return the address of a communicator; if it is invalid, notify those of the arrays."""
    try:
        return comm_address(comm)
    except Error as error:
        refuse((arrays,), {}, error)


def leaving(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
    """Leave the call, which has no agreement that could carry the error."""
    comm = _communicator(given, said)
    if comm is not None:
        tell_that_left(comm, error)
    raise error


def ending(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
    """Agree like `agreeing` in a call that ends its object, which `_finish` does here too."""
    if given and not given[0].closed:
        given[0]._finish(lambda: agreeing(given, said, error))
    raise error  # the calls of the others end at once


#: For calls in which the others agree on their arguments first.
agreeing = _telling("agree")
#: For calls in which the others bind a mover.
binding = _telling("refuse_binding")
#: For calls in which the others make index lists.
listing = _telling("refuse_index_lists")


def _communicator(given: tuple[Any, ...], said: Mapping[str, Any]) -> MPI.Comm | None:
    """Return the communicator of a call: a file's, the argument, or that of the arrays."""
    files = [v for v in (*given, *said.values()) if getattr(v, "is_file_array", False)]
    return next(_communicators((*files, said.get("comm"), *given, *said.values())), None)


def _communicators(values: Any) -> Iterator[MPI.Comm]:
    """Find communicators among arguments, also those of arrays, alone and in lists."""
    from mpi4py import MPI

    for value in values:
        if isinstance(value, MPI.Comm):
            yield value
        elif isinstance(comm := getattr(value, "comm", getattr(value, "_comm", None)), MPI.Comm):
            yield comm
        elif isinstance(value, (list, tuple)):
            yield from _communicators(value)
        elif isinstance(value, Mapping):
            yield from _communicators(value.values())
