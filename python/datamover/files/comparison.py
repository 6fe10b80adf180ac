# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of many files, or Zarr groups, with the first of them, before they are joined."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Mismatch, Unsupported
from datamover.files import cf_time, format_choice
from datamover.files.formats import MoveOptions, log
from datamover.files.hdf5_alike import Alike
from datamover.files.hdf5_format import open_dataset
from datamover.files.joined import (
    MEANING,
    OF_BOUNDS,
    Described,
    Part,
    digest_of,
    elements,
    inexact,
    named,
    zarr_contents,
)

#: Attributes by which some elements of times are not times.
NOT_PLAIN = {"scale_factor", "add_offset", "missing_value"}
#: A step between two files that is this many times the largest within a file is a gap.
GAP = 1.5

#: Units and calendar; None if the array has none.
Units = tuple[Any, Any]
#: The parts of a file by the names of arrays, and the values of its coordinates along the joined
#: dimension.
Compared = tuple[dict[str, Part], dict[str, np.ndarray]]


class Comparison:
    """The first file, with which others are compared.

    Parameters
    ----------
    base : str
        The first file.
    along : str
        The joined dimension.
    as_stored : bool
        That of `hdf5_types.dtype_of`.

    Attributes
    ----------
    axes : dict of int
        The joined dimension of each array that has it.
    length : int
        The length of the first file along it.
    times : dict of bool
        Names of the coordinates along it, and whether they are times.

    Raises
    ------
    InvalidArgument, Unsupported
        No array has the dimension, or an array cannot be joined along it.
    """

    def __init__(self, base: str, along: str, as_stored: bool):
        self._base, self._along = base, along
        self._alike = Alike(along, as_stored)
        with self._contents(base) as first:
            self._digests = {n: digest_of(d) for n, d in first.items() if along not in d.dims}
        self._first, self._units = first, _units(first)
        self.axes = {n: d.dims.index(along) for n, d in first.items() if along in d.dims}
        if not self.axes:
            known = sorted({dim for found in first.values() for dim in found.dims if dim})
            raise InvalidArgument(
                f"nothing in {base} has a dimension {along!r}; there are "
                f"{', '.join(known) or 'none with names'}"
            )
        for name in self.axes:
            if (times := first[name].dims.count(along)) > 1:
                raise Unsupported(
                    f"{named(base, name)} has the dimension {along!r} {times} times: it cannot be "
                    "joined; leave it out of the files"
                )
        self.length = self._length(base, first)
        self.times = {
            name: cf_time.is_time(first[name].attributes.get("units"))
            for name in self.axes
            if name.rpartition("/")[2] == along
            and first[name].dims == (along,)
            and first[name].dtype.kind in "iuf"
        }

    def files(self, paths: Iterable[str]) -> Iterator[Compared]:
        """Compare files, in their order; yield what is joined of each.

        Raises
        ------
        Mismatch, IoFailed
            A file differs, or cannot be read.
        """
        first = self._first
        for path in paths:
            openers: dict[str, Any] | None = self._alike.twin(path)
            if openers is not None:  # what was found of the file before holds
                values = {n: _read(openers[n]) for n in self.times}
            else:
                with self._contents(path) as found:
                    self._compare(path, found)
                    if not (length := self._length(path, found)):
                        raise IoFailed(f"{path} has no records along {self._along!r}; leave it out")
                    are_alike = all(d.attributes is first[n].attributes for n, d in found.items())
                    units = self._units if are_alike else _units(found)
                    convert = {n: self._conversion(path, n, found[n], units[n]) for n in self.axes}
                    openers = {n: found[n].open or partial(_opened, path, n) for n in self.axes}
                    values = {n: elements(found[n]) for n in self.times}
                    self._alike.remember(path, found)
            yield (
                {n: Part(path, length, openers[n], convert[n]) for n in self.axes},
                {n: self._converted(path, n, v, convert[n]) for n, v in values.items()},
            )

    def _contents(self, path: str) -> contextlib.AbstractContextManager[dict[str, Described]]:
        """Open a file or a group; give the descriptions of its arrays, by name."""
        return zarr_contents(path) if os.path.isdir(path) else self._alike.contents(path)

    def _length(self, path: str, found: dict[str, Described]) -> int:
        """Return the length of a file along the joined dimension."""
        lengths = {found[name].shape[axis]: name for name, axis in self.axes.items()}
        if len(lengths) > 1:
            raise Mismatch(f"{path} has several lengths along {self._along!r}: {lengths}")
        return next(iter(lengths))

    def _compare(self, path: str, found: dict[str, Described]) -> None:
        """Raise unless a file agrees with the first one."""
        base = self._base
        for name in sorted(self._first.keys() ^ found.keys()):
            has, lacks = (base, path) if name in self._first else (path, base)
            raise Mismatch(f"{lacks} has no {name!r}, which {has} has")
        for name, one in found.items():
            first, axis = self._first[name], self.axes.get(name)
            is_alike = one.attributes is first.attributes  # decoded once for both
            wanted = _properties(first, axis, is_alike)
            for what, here in _properties(one, axis, is_alike).items():
                there = wanted[what]
                if here != there and repr(here) != repr(there):  # NaN differs from itself
                    raise Mismatch(f"{named(path, name)} has {what} {here}, {there} in {base}")
            if one.kind and first.kind and one.kind != first.kind:
                raise Mismatch(f"{named(path, name)} has another HDF5 type than in {base}")
            if axis is None and digest_of(one) != (digest := self._digests[name]):
                is_reversed = digest_of(one, reverse=True) == digest
                raise Mismatch(
                    f"{named(path, name)} has other elements than in {base}"
                    f"{', in reverse order' * is_reversed}; without the dimension {self._along!r} "
                    "they must be the same"
                )

    def _conversion(
        self, path: str, name: str, found: Described, here: Units
    ) -> cf_time.Conversion | None:
        """Return how to convert times to the units of the first file; None if they are the same."""
        there = self._units[name]
        if here == there:
            return None
        where, (units, calendar), (wanted, its_calendar) = named(path, name), here, there
        are_times = cf_time.is_time(units) and cf_time.is_time(wanted)
        are_plain = not found.attributes.keys() & NOT_PLAIN
        if are_times and calendar != its_calendar:
            raise Mismatch(f"{where} has calendar {calendar}, {its_calendar} in {self._base}")
        convert = cf_time.conversion(units, wanted, calendar) if are_times and are_plain else None
        if convert is None or found.dtype.kind not in "iuf":
            raise Mismatch(f"{where} has units {units!r}, {wanted!r} in {self._base}")
        if convert == cf_time.SAME:
            return None
        return dataclasses.replace(convert, missing=found.attributes.get("_FillValue"))

    def _converted(self, path: str, name: str, times: np.ndarray, convert: Any) -> np.ndarray:
        """Return the values of a coordinate along the joined dimension, in its units."""
        try:
            return exact(times if convert is None else convert(times))
        except ValueError as e:
            raise Mismatch(inexact(path, name, e, self._base)) from None


def _properties(one: Described, axis: int | None, is_alike: bool) -> dict[str, Any]:
    """Return what is the same in all files, by its name; `axis` is the joined dimension."""
    shape = one.shape if axis is None else one.shape[:axis] + one.shape[axis + 1 :]
    words = () if is_alike else [word for word in MEANING if word != "units" or axis is None]
    said = {word: one.attributes.get(word) for word in words}
    return {"dimensions": one.dims, "shape": shape, "dtype": one.dtype, **said}


def _units(of: dict[str, Described]) -> dict[str, Units]:
    """Return units and calendar of each array; bounds have those of their coordinate."""
    of_bounds = {
        f"{name[: name.rfind('/') + 1]}{one.attributes[word]}": one.attributes
        for name, one in of.items()
        for word in OF_BOUNDS
        if word in one.attributes
    }
    found = {}
    for name, one in of.items():
        said = {word: of_bounds.get(name, {}).get(word) for word in ("units", "calendar")}
        said |= one.attributes
        calendar = cf_time.calendar_of(said["calendar"])
        found[name] = (said["units"], calendar if cf_time.is_time(said["units"]) else None)
    return found


def _opened(path: str, name: str, options: MoveOptions) -> Any:
    """Return a `Reader` of an array of one file."""
    if os.path.isdir(path):
        return format_choice.named("zarr").open_reader(named(path, name), options)
    return open_dataset(path, name, as_stored=options.output_format == "hdf5")


def _read(opener: Any) -> np.ndarray:
    """Read a small array."""
    with contextlib.closing(opener(MoveOptions())) as reader:
        found = np.empty(reader.spec.shape, reader.spec.dtype)
        reader.read((0,) * found.ndim, found)
    return found


def exact(times: np.ndarray) -> np.ndarray:
    """Return coordinates as numbers whose differences do not overflow."""
    return times.astype(object) if times.dtype.kind in "iu" else times


def check_order(
    name: str, is_time: bool, paths: Sequence[str], times: Sequence[np.ndarray]
) -> None:
    """Raise unless the coordinates of all files ascend, or all descend; log gaps.

    Times of which each file has only one must ascend.

    Raises
    ------
    Mismatch
    """
    steps: list[Any] = [np.diff(t) for t in times]
    ends: list[Any] = [b[0] - a[-1] for a, b in itertools.pairwise(times)]
    between = [] if is_time else [ends]
    sign = np.sign(next((s[0] for s in [*steps, *between] if len(s)), 1))
    for path, of_file in zip(paths, steps, strict=True):
        if not (of_file * sign > 0).all():
            raise Mismatch(f"{named(path, name)} is neither ascending nor descending")
    for k, end in enumerate(ends):
        here, there = paths[k : k + 2]
        if not end * sign > 0:
            raise Mismatch(
                f"{there} begins at {name}={times[k + 1][0]}, and {here}, before it, ends at "
                f"{times[k][-1]}: the files overlap, or are in the wrong order"
            )
    within = [float(abs(s).max()) for s in steps if len(s)]
    usual = max(within) if within else float(np.median(np.abs(ends or [0])))
    for k, end in enumerate(ends):
        if abs(end) > GAP * usual:
            log.warning(
                "there is a gap between %s, which ends at %s=%s, and %s, which begins at %s",
                paths[k], name, times[k][-1], paths[k + 1], times[k + 1][0],
            )  # fmt: skip
