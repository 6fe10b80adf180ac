# SPDX-License-Identifier: BSD-3-Clause
"""How do others hear of a collective call whose arguments its function does not take?

Python refuses such a call (a keyword that there is not, an argument too few) before a line of the
function runs. So the functions are wrapped, where that costs nothing but a frame.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from .mpi import comm_address, core, take_part_with

if TYPE_CHECKING:
    from mpi4py import MPI

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
#: Takes part in the call that the others make, and raises.
Refuse = Callable[[tuple[Any, ...], Mapping[str, Any], BaseException], NoReturn]


def refused_by(refuse: Refuse) -> Callable[[Callable[Arguments, Result]], Callable]:
    """Decorate a collective function: `refuse` is called where it does not take its arguments."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def called(*given: Arguments.args, **said: Arguments.kwargs) -> Result:
            try:
                return function(*given, **said)
            except TypeError as error:
                if error.__traceback__.tb_next is not None:
                    raise  # by the function
                refuse(given, said, error)

        return called

    return decorate


def _telling(entry: str) -> Refuse:
    """Tell the others by an entry of the core, where they make the call that it belongs to."""

    def refuse(given: tuple[Any, ...], said: Mapping[str, Any], error: BaseException) -> NoReturn:
        comm = next(_communicators((said.get("comm"), *given, *said.values())), None)
        if comm is None:
            raise error  # there is nobody to tell it to
        take_part_with(getattr(core(), entry), comm_address(comm), error)

    return refuse


#: The others agree on their arguments first.
agreeing = _telling("agree")
#: The others bind a mover.
binding = _telling("refuse_binding")
#: The others make index lists.
listing = _telling("refuse_index_lists")


def _communicators(values: Any) -> Iterator[MPI.Comm]:
    """Find them among arguments, also those of arrays, alone and in lists."""
    from mpi4py import MPI

    for value in values:
        if isinstance(value, MPI.Comm):
            yield value
        elif isinstance(comm := getattr(value, "comm", None), MPI.Comm):
            yield comm
        elif isinstance(value, (list, tuple)):
            yield from _communicators(value)
