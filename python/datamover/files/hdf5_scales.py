# SPDX-License-Identifier: BSD-3-Clause
"""Names of dimensions in HDF5: scales, as in NetCDF4, or labels if scales are not possible.

A scale is a dataset next to the array that has the name of the dimension: its coordinates, or a
dataset without elements. xarray reads scales only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datamover.files.formats import Shape
from datamover.files.hdf5 import DIMENSION_WITHOUT_VARIABLE


def beside(array: str, dimension: str) -> str:
    """Return the name of the scale of a dimension, in the group of the array."""
    above, slash, _ = array.rpartition("/")
    return above + slash + dimension


def attach(file: Any, named: Mapping[str, Sequence[Any]]) -> None:
    """Set the names of dimensions by scales; an array with that name is its scale."""
    for array, names in named.items():
        for d, name in enumerate(names):
            place = beside(array, name)
            if place not in file:
                _make_scale(file, place, file[array].shape[d])
            elif place == array and not file[place].is_scale:
                file[place].make_scale(name)
    for array, names in named.items():
        for d, name in enumerate(names):
            place = beside(array, name)
            if place != array:
                file[array].dims[d].attach_scale(file[place])


def _make_scale(file: Any, place: str, extent: int) -> None:
    """Create a scale without values; no elements are stored."""
    scale = file.create_dataset(place, (extent,), ">f4")
    scale.make_scale(f"{DIMENSION_WITHOUT_VARIABLE}. {extent:10d}")


def name_dimensions(file: Any, named: Mapping[str, Sequence[str | None]]) -> list[str]:
    """Set the names of the dimensions of arrays in an open file.

    Returns
    -------
    list of str
        Arrays whose dimensions all have names, but only as labels.
    """
    given = {array: names for array, names in named.items() if not file[array].is_scale}
    shapes = {array: file[array].shape for array in given}
    scaled = usable(given, shapes, file)
    attach(file, {array: given[array] for array in scaled})
    labelled = []
    for array, names in named.items():
        dataset = file[array]
        if array in scaled or (dataset.is_scale and dataset.ndim == 1):
            continue  # a scale gives its dimension its own name
        for dim, label in zip(dataset.dims, names, strict=False):
            dim.label = label or ""
        if names and all(names):
            labelled.append(array)
    return labelled


def usable(
    named: Mapping[str, Sequence[str | None]], shapes: Mapping[str, Shape], there: Any
) -> list[str]:
    """Return the arrays whose dimensions can all have scales with their names.

    `there` are the other names in use, next to the arrays.

    Examples
    --------
    >>> from datamover.files.hdf5_scales import usable
    >>> named = {"u": ("y", "x"), "x": ("x",), "g/u": ("x",), "v": ("y", None), "w": ("z",)}
    >>> shapes = {"u": (2, 3), "x": (3,), "g/u": (5,), "v": (2, 4), "w": (7,)}
    >>> usable(named, shapes, {"z"})
    ['u', 'x', 'g/u']
    """
    found = {
        array: [beside(array, str(name)) for name in names]
        for array, names in named.items()
        if len(names) == len(shapes[array]) and all(map(_can_be_scale, names))
    }
    extents: dict[str, set[int]] = {}
    for array, places in found.items():
        for place, extent in zip(places, shapes[array], strict=True):
            extents.setdefault(place, set()).add(extent)
    good = {
        place
        for place, of_place in extents.items()
        if len(of_place) == 1 and (place not in there or found.get(place) == [place])
    }
    return [array for array, places in found.items() if good.issuperset(places)]


def _can_be_scale(name: Any) -> bool:
    is_text = isinstance(name, str) and name.isprintable() and "/" not in name
    return is_text and name not in ("", ".", "..")
