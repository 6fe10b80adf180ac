# SPDX-License-Identifier: BSD-3-Clause
"""Names of the dimensions of saved arrays, for xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datamover.errors import InvalidArgument, Mismatch, WrongType
from datamover.files import hdf5_attributes
from datamover.files.formats import ArraySpec, Shape

Names = tuple[str, ...]


def names_said(given: Any) -> dict[str, Names]:
    """Read the names of dimensions, by names of arrays. Local.

    Raises
    ------
    WrongType, InvalidArgument
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise WrongType(f"dimensions are {given!r}, they must be a mapping of arrays to names")
    return {str(array): _checked(repr(array), names) for array, names in given.items()}


def checked_names(array: str, names: Any, shape: Shape) -> Names | None:
    """Return the names of an array's dimensions, one for each; None if none are given. Local.

    Raises
    ------
    WrongType, InvalidArgument
    """
    if names is None:
        return None
    found = _checked(array, names)
    if len(found) != len(shape):
        raise InvalidArgument(f"dimensions of {array} are {found}; it has the shape {shape}")
    return found


def _checked(array: str, names: Any) -> Names:
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or not all(isinstance(name, str) for name in names):
        raise WrongType(f"dimensions of {array} are {names!r}, they must be a list of names")
    for name in names:
        if not name or "/" in name or not name.isprintable():
            raise InvalidArgument(f"{name!r} is not a valid name for a dimension of {array}")
    if len(set(names)) != len(names):
        raise InvalidArgument(f"two dimensions of {array} have one name: {tuple(names)}")
    return tuple(names)


def named(said: dict[str, Names], specs: dict[str, ArraySpec]) -> dict[str, Names]:
    """Return the names of all dimensions of all arrays; an empty dictionary if none were given.

    The dimensions of other arrays are named after the array: xarray does not read a group in which
    an array has no names.

    Raises
    ------
    InvalidArgument
        An array is not saved, or has too many or few names.
    Mismatch
        A dimension is longer in one array of a group than in another.
    """
    if not said:
        return {}
    shapes = {array: spec.shape for array, spec in specs.items()}
    for array, names in said.items():
        if array not in shapes:
            raise InvalidArgument(f"dimensions name the array {array!r}, which is not saved")
        checked_names(repr(array), names, shapes[array])
    found = {array: said.get(array, _own(array, len(shapes[array]))) for array in shapes}
    _check_lengths(found, shapes)
    return found


def _own(array: str, count: int) -> Names:
    return tuple(f"{array.rsplit('/', 1)[-1]}_{d}" for d in range(count))


def _check_lengths(named: dict[str, Names], shapes: dict[str, Shape]) -> None:
    groups = {array[:end] for array in named for end, c in enumerate(array) if c == "/"}
    first: dict[str, tuple[str, int]] = {}
    for array, names in named.items():
        for name, extent in zip(names, shapes[array], strict=True):
            place = hdf5_attributes.scale_of(array, name)
            other, length = first.setdefault(place, (array, extent))
            if length != extent:
                raise Mismatch(
                    f"dimension {name!r} has {length} elements in {other!r}, {extent} in {array!r}"
                )
            if place in groups:
                raise InvalidArgument(f"dimension {name!r} of {array!r} has the name of a group")
            if place in named and named[place] != (name,):
                raise InvalidArgument(
                    f"dimension {name!r} of {array!r} has the name of another array, whose "
                    f"dimensions are {named[place]}"
                )
