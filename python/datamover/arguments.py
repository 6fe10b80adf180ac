# SPDX-License-Identifier: BSD-3-Clause
"""Checks of arguments: texts, flags, numbers, operations, timeouts and memory limits."""

from __future__ import annotations

import inspect
import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from .errors import InvalidArgument, OutOfRange, WrongType

if TYPE_CHECKING:
    import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

#: The engine counts bytes with 63 bits.
MOST_BYTES = 2**63 - 1
#: The names of operations, with NumPy's and MPI's for each.
_OPERATIONS = {
    "replace": (None, "REPLACE"),
    "add": ("add", "SUM"),
    "multiply": ("multiply", "PROD"),
    "min": ("minimum", "MIN"),
    "max": ("maximum", "MAX"),
}


def options_of(
    other: Callable[..., Any], without: Sequence[str] = ()
) -> Callable[[Function], Function]:
    """Show the options of another function in the signature, in place of ``**options``."""

    def shown(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = [
            p.replace(kind=p.KEYWORD_ONLY)
            for name, p in inspect.signature(other).parameters.items()
            if name not in (*signature.parameters, *without) and not name.startswith("_")
        ]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *options]
        )
        return function

    return shown


def text(value: Any, name: str) -> str:
    """Return a string that every language of the library can represent."""
    if not isinstance(value, str):
        raise WrongType(f"{name} is {value!r}, it must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} is {value!r}, which is not valid text") from None
    return value


def word(value: Any, name: str) -> str:
    """Return a text without line ends and null characters, because one-line errors contain it."""
    if "\0" in text(value, name) or "".join(value.splitlines()) != value:
        raise InvalidArgument(f"{name} is {value!r}; it must be text in one line")
    return value


def flag(value: Any, name: str) -> bool:
    """Return a bool, also of NumPy's; a text such as "no", which is true in Python, is rejected."""
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise WrongType(f"{name} is {value!r}, it must be True or False")


def _converted(convert: Callable[[Any], Result], value: Any, name: str, wanted: str) -> Result:
    """Return a converted value; raise, with its name, if its type does not allow that."""
    try:
        return convert(value)
    except TypeError:
        raise WrongType(f"{name} is {value!r}, it must be {wanted}") from None


def _no_text(value: Any) -> Any:
    """Return None for a text, which Python would read as a number."""
    return None if isinstance(value, (str, bytes, bytearray)) else value


def number(value: Any, name: str) -> complex:
    """Return any number as a complex one."""
    return _converted(lambda value: complex(_no_text(value)), value, name, "a number")


def operation(value: Any, name: str = "op") -> str:
    """Return the name of an operation that is given by name, as a NumPy ufunc or as an MPI.Op.

    Examples
    --------
    >>> import numpy as np
    >>> operation(np.maximum), operation("add"), operation(None)
    ('max', 'add', 'replace')
    """
    if value is None:
        return "replace"
    if isinstance(value, str):
        if value in _OPERATIONS:
            return value
        raise InvalidArgument(f"{name}={value!r} is unknown; known are None, {_known_operations()}")
    for operation, (ufunc, mpi) in _OPERATIONS.items():
        for module, attribute in (("numpy", ufunc), ("mpi4py.MPI", mpi)):
            known = attribute and getattr(sys.modules.get(module), attribute, None)
            if type(value) is type(known) and value == known:
                return operation
    raise WrongType(f"{name}={value!r} is not supported; pass None, {_known_operations()}")


def _known_operations() -> str:
    names = ", ".join(f'"{operation}"' for operation in _OPERATIONS)
    return f"{names}, or NumPy's or MPI's operation of the same kind (np.add, MPI.SUM)"


def is_several(value: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether this is a sequence or an array with dimensions, not one number."""
    if isinstance(value, Sequence):
        return getattr(value, "ndim", 1) > 0
    # Detects an array without loading NumPy, which is loaded if there is an array.
    return hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0


def integer(value: Any, name: str) -> int:
    """Return one integer of Python's or NumPy's."""
    return _converted(operator.index, value, name, "an integer")


def integers(value: Any, name: str) -> tuple[int, ...]:
    """Return one or several integers as a tuple."""

    def convert(value: Any) -> tuple[int, ...]:
        return tuple(map(operator.index, value if is_several(value) else (value,)))

    return _converted(convert, value, name, "an integer or a sequence of integers")


def refuse_mask(value: Any, name: str) -> None:
    """Reject a masked array, because bytes are moved and stored, and the mask would be lost."""
    import numpy as np  # late, because plans do not need it

    if isinstance(value, np.ma.MaskedArray):
        raise WrongType(
            f"{name} is a masked array, and its mask would be lost: give .filled(value), or .data "
            "and .mask as two arrays"
        )


def as_array(value: Any, name: str) -> np.ndarray:
    """Return an array; raise, with its name, if the value is not an array or has a mask."""
    import numpy as np

    if not isinstance(value, (list, tuple, range)):
        from .dlpack import array_of  # takes longer than to convert a short list

        refuse_mask(value, name)
        value = array_of(value, name)
    try:
        return np.asarray(value)
    except ValueError:
        raise InvalidArgument(
            f"{name} must be an array, or lists in which all rows have the same length"
        ) from None


def int64_array(values: Any, what: str) -> np.ndarray:
    """Return integers with 64 bits; raise for values that would be rounded or truncated.

    Parameters
    ----------
    values : array_like of int
        The values of the user.
    what : str
        Their name in the error.

    Raises
    ------
    WrongType
        Values are not integers.
    OutOfRange
        Integers do not fit 64 bits.
    """
    import numpy as np

    given = as_array(values, what)
    if given.dtype.kind == "O" and all(isinstance(n, int) for n in given.flat):
        wrong = [n for n in given.flat if not -(2**63) <= n < 2**63]
        if wrong:
            raise OutOfRange(f"{what} contain {max(wrong, key=abs)}, which does not fit 64 bits")
    if given.size and given.dtype.kind not in "iu":
        raise WrongType(f"{what} must be integers, not of dtype {given.dtype}")
    if given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
        raise OutOfRange(f"{what} go up to {given.max()}; they must be below 2**63")
    return np.ascontiguousarray(given, dtype=np.int64)


def memory_limit(value: Any, name: str = "max_bytes") -> int:
    """Return a memory limit in the engine's form: 0 for no limit."""
    return 0 if value is None else byte_count(value, name, "; None is no limit")


def byte_count(value: Any, name: str, otherwise: str = "") -> int:
    """Return a positive number of bytes that the engine can count."""
    count = _converted(operator.index, value, name, f"a number of bytes{otherwise}")
    if not 1 <= count <= MOST_BYTES:
        raise InvalidArgument(f"{name} is {count}; it must be positive and below 2**63{otherwise}")
    return count


def seconds(value: Any, name: str = "timeout") -> float | None:
    """Return a timeout; None stands for the default."""
    if value is None:
        return None
    try:
        time = _converted(lambda value: float(_no_text(value)), value, name, "a number of seconds")
    except OverflowError:
        time = math.inf
    if not (time > 0 and math.isfinite(time)):
        raise InvalidArgument(f"{name} is {time} s; it must be above 0 s and finite")
    return time
