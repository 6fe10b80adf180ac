# SPDX-License-Identifier: BSD-3-Clause
"""Decorators by which a collective call that ends outside an agreement ends on all processes.

Python refuses a call whose arguments its function does not take (a keyword that there is not, an
argument too few) before a line of the function runs, and an interrupt may come at any line. So the
functions are wrapped, where that costs nothing but a frame.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from .daemon_threads import stay_where_the_program_ends
from .errors import Error
from .mpi import comm_address, core, take_part_with, tell_that_left

if TYPE_CHECKING:
    from mpi4py import MPI

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
#: Takes part in the call that the others make, and raises.
Refuse = Callable[[tuple[Any, ...], Mapping[str, Any], BaseException], NoReturn]


def refused_by(refuse: Refuse) -> Callable[[Callable[Arguments, Result]], Callable]:
    """Decorate a collective function: `refuse` is called where it does not take its arguments.

    What else is raised, and is no error that was agreed on, the others hear as from a process that
    has left the call.
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
                if isinstance(error, TypeError) and error.__traceback__.tb_next is None:
                    refuse(given, said, _naming(function, error))  # not by the function
                comm = _communicator(given, said)
                if comm is not None:
                    tell_that_left(comm, error)
                raise

        return called

    return decorate


def _naming(function: Callable[..., Any], error: TypeError) -> TypeError:
    """Add to an error of too many arguments which of them are given by name."""
    names = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    if not names or " given" not in str(error) or " positional argument" not in str(error):
        return error
    return TypeError(f"{error}; by name are given {', '.join(f'{name}=' for name in names)}")


def _telling(entry: str) -> Refuse:
    """Tell the others by an entry of the core, where they make the call that it belongs to."""

    def refuse(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
        comm = _communicator(given, said)
        if comm is None:
            raise error  # there is nobody to tell it to
        take_part_with(getattr(core(), entry), comm_address(comm), error)

    return refuse


def address_of(comm: MPI.Comm, refuse: Refuse, arrays: Any) -> int:
    """Give the address of a communicator; if it is wrong, tell the processes of the arrays'."""
    try:
        return comm_address(comm)
    except Error as error:
        refuse((arrays,), {}, error)


def leaving(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
    """Leave the call: it has nothing in which a refusal could be told."""
    comm = _communicator(given, said)
    if comm is not None:
        tell_that_left(comm, error)
    raise error


def ending(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
    """Agree as `agreeing`, where the call ends its object: `_end_refused` does so here too."""
    if not given or given[0]._is_over:
        raise error  # the others' calls are over at once
    given[0]._end_refused(lambda: agreeing(given, said, error))


#: The others agree on their arguments first.
agreeing = _telling("agree")
#: The others bind a mover.
binding = _telling("refuse_binding")
#: The others make index lists.
listing = _telling("refuse_index_lists")


def _communicator(given: tuple[Any, ...], said: Mapping[str, Any]) -> MPI.Comm | None:
    """Give the one that a call is for: a file's, what is said, those that arrays live on."""
    files = [v for v in (*given, *said.values()) if getattr(v, "is_file_array", False)]
    return next(_communicators((*files, said.get("comm"), *given, *said.values())), None)


def _communicators(values: Any) -> Iterator[MPI.Comm]:
    """Find them among arguments, also those of arrays, alone and in lists."""
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
