# SPDX-License-Identifier: BSD-3-Clause
"""Names and arguments that version 0.1 replaced: they still work, with a `DeprecationWarning`.

The only module that contains them. Decision 0021 lists the new names.

>>> import warnings, datamover as dm
>>> with warnings.catch_warnings(record=True) as caught:
...     warnings.simplefilter("always")
...     dm.MpiError is dm.errors.MpiFailed
True
>>> str(caught[0].message)
'datamover.MpiError is deprecated: use datamover.errors.MpiFailed'
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import datamover

from . import errors
from .errors import InvalidArgument

#: The new name of an error.
_ERRORS = {"IoError": "IoFailed", "MpiError": "MpiFailed"}
#: Errors that are in `datamover.errors` only.
_KINDS = (
    "InvalidArgument",
    "InvalidState",
    "NoMemory",
    "OutOfRange",
    "Unsupported",
    "WrongType",
)


def _warn(old: str, new: str, depth: int) -> None:
    """Warn where the user's program is, `depth` calls above this one."""
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=depth + 2)


def attribute(module: str, name: str) -> Any:
    """Return what a deprecated name of a module stands for; raise AttributeError for others."""
    value, new = None, ""
    from . import advanced

    if module == "datamover" and name in advanced.__all__:
        value, new = getattr(advanced, name), f"datamover.advanced.{name}"
    elif module == "datamover" and name in _REPLACED:
        value, new = _REPLACED[name]
    elif name in _ERRORS or (module == "datamover" and name in _KINDS):
        kind = _ERRORS.get(name, name)
        value, new = getattr(errors, kind), f"datamover.errors.{kind}"
    if value is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    _warn(f"{module}.{name}", new, 2)
    return value


def array(comm: Any, layout: Any, dtype: Any = "f8", order: str = "C", ghost: Any = 0) -> Any:
    """Make an `Array`; the communicator was the first argument."""
    return datamover.Array(layout, dtype, order=order, ghost=ghost, comm=comm)


def mover_set(moves: Any, **options: Any) -> datamover.Mover:
    """Make a `Mover` of several plans, which are executed together."""
    return datamover.Mover(moves, together=True, **options)


def phases(moves: Any, **options: Any) -> datamover.Mover:
    """Make a `Mover` of several plans, which are executed one after the other."""
    return datamover.Mover(moves, together=False, **options)


def distribution(comm: Any, ranks: Any, **options: Any) -> datamover.Migration:
    """Make a `Migration`; the communicator was the first argument."""
    return datamover.Migration(ranks, comm=comm, **options)


def distribute(comm: Any, elements: Any, target: Any, **options: Any) -> Any:
    """Call `migrate`; the communicator was the first argument."""
    return datamover.migrate(elements, target, comm=comm, **options)


class _OldClass(type):
    """A class that has another name by now: calls take the old arguments."""

    make: Callable[..., Any]
    new: str

    def __call__(cls, *given: Any, **said: Any) -> Any:
        return cls.make(*given, **said)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, getattr(datamover, cls.new))


def _old_class(old: str, new: str, make: Callable[..., Any]) -> type:
    return _OldClass(old, (), {"new": new, "make": staticmethod(make), "__doc__": make.__doc__})


#: Names of the package that are replaced by others: what they stand for, and what to use.
_REPLACED = {
    "XArray": (_old_class("XArray", "Array", array), "datamover.Array(layout, dtype, comm=comm)"),
    "MoverSet": (_old_class("MoverSet", "Mover", mover_set), "datamover.Mover(moves)"),
    "Phases": (_old_class("Phases", "Mover", phases), "datamover.Mover(moves, together=False)"),
    "Distribution": (
        _old_class("Distribution", "Migration", distribution),
        "datamover.Migration(ranks, comm=comm)",
    ),
    "distribute": (distribute, "datamover.migrate(elements, target, comm=comm)"),
}


class WithFree:
    """Objects whose `close` was named `free`."""

    close: Callable[[], None]

    def free(self) -> None:
        """Call `close`. Deprecated."""
        _warn(f"{type(self).__name__}.free", "close", 1)
        self.close()


def copy(plan: Any, *given: Any, **said: Any) -> None:
    """Call `add_section`. Deprecated."""
    _warn("MotionPlan.copy", "add_section", 1)
    plan.add_section(*given, **said)


def colours(exchange: Any) -> int:
    """Return `colors`. Deprecated."""
    _warn("HaloExchange.colours", "colors", 1)
    return exchange.colors


def colour(exchange: Any) -> int:
    """Return `color`. Deprecated."""
    _warn("HaloExchange.colour", "color", 1)
    return exchange.color


def comm_by_place(place: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function whose argument at a place, before 0.1, was the communicator or None."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*given: Any, **said: Any) -> Any:
            if len(given) > place and "comm" not in said:
                comm = given[place]
                if comm is None or hasattr(type(comm), "Get_rank"):
                    _warn("a communicator without its name", "comm=", 1)
                    return function(*given[:place], *given[place + 1 :], comm=comm, **said)
            return function(*given, **said)

        return called

    return decorate


def halo_arguments(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a builder of plans that had these arguments: `wraps` and the British spelling."""
    spelled = {"colours": "colors", "colour": "color"}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*given: Any, **said: Any) -> Any:
            by_place = names[names.index("wraps") : len(given)]
            old = {"wraps", *spelled}.intersection(said)
            if len(given) > len(names) or not (by_place or old):
                return function(*given, **said)
            _warn(
                f"{function.__name__} with {', '.join(sorted(old) or by_place)}",
                "periodic=(True, False, ...), colors= and color=, by name",
                1,
            )
            said = dict(zip(names, given, strict=False)) | said
            said = {spelled.get(name, name): value for name, value in said.items()}
            if (wraps := said.pop("wraps", None)) is not None:
                said["periodic"] = _partly_periodic(said.get("periodic"), wraps)
            return function(**said)

        return called

    return decorate


def _partly_periodic(periodic: Any, wraps: Sequence[bool]) -> Any:
    """Return the argument that stands for a periodic domain and its periodic dimensions."""
    if periodic is True:
        return tuple(wraps)
    if periodic is not None and periodic is not False:
        return periodic, tuple(wraps)
    if any(wraps):
        raise InvalidArgument(f"wraps={wraps!r} needs periodic=True, or a Region")
    return None
