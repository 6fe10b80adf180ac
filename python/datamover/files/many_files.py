# SPDX-License-Identifier: BSD-3-Clause
"""Moves of many NetCDF or HDF5 files, or Zarr groups, to one, joined along a dimension.

Groups, attributes and everything without the dimension are those of the first file. All other files
must agree with it, except that times may have other units, which are converted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Mismatch, Unsupported, WrongType
from datamover.files import addresses, cf_time, format_choice, formats, hdf5, names, zarr_group
from datamover.files.chunk_boxes import DEFAULT_CHUNK_BYTES
from datamover.files.chunk_grid import several_extents
from datamover.files.formats import ArraySpec, MoveOptions, log
from datamover.files.hdf5_alike import Alike
from datamover.files.hdf5_chunks import GrowingOptions
from datamover.files.hdf5_format import open_dataset
from datamover.files.joined import (
    MEANING,
    OF_BOUNDS,
    Described,
    JoinedArray,
    Part,
    digest_of,
    elements,
    inexact,
    named,
    with_length,
    zarr_contents,
)
from datamover.files.whole import OfOne, Way

#: Attributes by which some elements of times are not times.
NOT_PLAIN = {"scale_factor", "add_offset", "missing_value"}
#: A step between two files that is this many times the largest within a file is a gap.
GAP = 1.5


def files_of(source: Any) -> tuple[str, ...]:
    """Return the real paths of a pattern, in order of their names, or of a list.

    Raises
    ------
    InvalidArgument, IoFailed
        Nothing matches the pattern; a name is not that of a file.
    """
    if isinstance(source, str | os.PathLike):
        pattern = os.fspath(source)
        given = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not given and not addresses.is_address(pattern):
            raise IoFailed(f"no file matches {pattern}")
        given = given or [pattern]
    elif isinstance(source, Sequence):
        given = [os.fspath(name) for name in source]
    else:
        raise WrongType(f"the input is {source!r}; it must be a pattern or a list of files")
    if not given:
        raise InvalidArgument("there are no input files")
    found = tuple(map(names.place_of, given))
    for path in found:
        if addresses.is_address(path):
            raise Unsupported(f"{path}: {formats.option('along')} joins files at paths only")
        format_choice.check_input_kind(path)
        if not hdf5.recognizes(path) and not zarr_group.is_group(path):
            what = "neither NetCDF4 nor HDF5 nor a Zarr group"
            raise Unsupported(format_choice.advice(path) or f"{path} is {what}")
    if len(set(found)) < len(found):
        twice = next(path for path, count in Counter(found).items() if count > 1)
        raise InvalidArgument(f"{twice} is named twice")
    return found


class Many(Way):
    """Many files of one kind, in front of the way of the first (`whole.Way`), which creates them.

    Attributes
    ----------
    base : str
        With which all files must agree.
    """

    leaves_out = False  # what is compared is moved

    def __init__(self, paths: Sequence[str], output: str, options: MoveOptions):
        super().__init__(paths[0])
        self._paths, self._along = paths, str(options.along)
        to_hdf5 = format_choice.of_output(output, options).name == "hdf5"
        self._alike = Alike(self._along, as_stored=to_hdf5)
        self._joined: dict[str, tuple[int, list[Part]]] = {}  # the axis and the parts, by name
        self._length = 0  # of the arrays of `base` along the joined dimension
        self.base = self.source

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open the first file, and compare all others with it."""
        with super().opened():
            if not self._joined:
                self._join()
            self._set_arrays()
            yield

    def _set_arrays(self) -> None:
        for name, (axis, parts) in self._joined.items():
            length = self.lengths[self._along] = _total(parts)
            if name in self.copied:  # since it has no elements in the first file
                self.arrays[name] = self.copied.pop(name).shape
            if name in self.arrays:  # not if it is another name of an array
                self.arrays[name] = with_length(self.arrays[name], axis, length)

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one array, and the opener of one from all files."""
        source, said, opener = super().of_one(name, options)
        if name not in self._joined:
            return source, said, opener
        axis, parts = self._joined[name]
        if isinstance(said, GrowingOptions) and said.most and said.most[axis] is not None:
            most = with_length(said.most, axis, _total(parts))
            said = dataclasses.replace(said, most=most)
        return source, said, partial(self._open, name)

    def _open(self, name: str, source: str, options: MoveOptions) -> JoinedArray:
        axis, parts = self._joined[name]
        return JoinedArray(name, parts, axis, self._spec_of(name, source, options), options)

    def _tell_of_growing(self) -> None:
        """Do nothing: the dimension that grows is the joined one."""

    def _join(self) -> None:
        with self._contents(self.base) as first:
            digests = {n: digest_of(d) for n, d in first.items() if self._along not in d.dims}
        axes = {n: d.dims.index(self._along) for n, d in first.items() if self._along in d.dims}
        if not axes:
            known = sorted({dim for found in first.values() for dim in found.dims if dim})
            raise InvalidArgument(
                f"nothing in {self.base} has a dimension {self._along!r}; there are "
                f"{', '.join(known) or 'none with names'}"
            )
        self._check_axes(first, axes)
        parts: dict[str, list[Part]] = {name: [] for name in axes}
        self._length = _length(self.base, first, axes, self._along)
        times = {
            name: self._times_before(name)
            for name in axes
            if name.rpartition("/")[2] == self._along
            and first[name].dims == (self._along,)
            and first[name].dtype.kind in "iuf"
        }
        wanted = _units(first)
        for path in self._paths:
            openers: dict[str, Any] | None = self._alike.twin(path)
            if openers is not None:  # what was found of the file before holds
                values = {n: _read(openers[n]) for n in times}
            else:
                with self._contents(path) as found:
                    self._compare(path, first, found, digests)
                    length = _length(path, found, axes, self._along)
                    if length == 0:
                        raise IoFailed(f"{path} has no records along {self._along!r}; leave it out")
                    units = wanted if _is_alike(found, first) else _units(found)
                    conversions = {
                        n: self._conversion(path, n, found[n], units[n], wanted[n]) for n in axes
                    }
                    openers = {n: found[n].open or partial(_opened, path, n) for n in axes}
                    values = {n: elements(found[n]) for n in times}
                    self._alike.remember(path, found)
            for name, convert in conversions.items():
                parts[name].append(Part(path, length, openers[name], convert))
            for name, of_file in values.items():
                times[name].append((path, self._times(path, name, of_file, conversions[name])))
        for name, of_files in times.items():
            is_time = cf_time.is_time(first[name].attributes.get("units"))
            self._check_order(name, is_time, *zip(*of_files, strict=True))
        for name, axis in axes.items():
            self._joined[name] = axis, [*self._parts_before(name, axis), *parts[name]]

    def _contents(self, path: str) -> contextlib.AbstractContextManager[dict[str, Described]]:
        """Open a file or a group; give the descriptions of its arrays, by name."""
        return zarr_contents(path) if os.path.isdir(path) else self._alike.contents(path)

    def _check_axes(self, first: dict[str, Described], axes: dict[str, int]) -> None:
        """Reject arrays that cannot be joined."""
        for name in axes:
            where, times = named(self.base, name), first[name].dims.count(self._along)
            if times > 1:
                raise Unsupported(
                    f"{where} has the dimension {self._along!r} {times} times: it cannot be "
                    "joined; leave it out of the files"
                )
            if first[name].dtype.hasobject or (
                name in self.texts and first[name].dtype.kind == "U"
            ):
                raise Unsupported(
                    f"{where} has elements without a fixed size along {self._along!r}: these "
                    "cannot be joined"
                )

    def _times_before(self, name: str) -> list[tuple[str, np.ndarray]]:
        """Return the last values of a coordinate before the files, and where they are."""
        return []

    def _parts_before(self, name: str, axis: int) -> list[Part]:
        """Return what is joined before the files."""
        return []

    def _spec_of(self, name: str, source: str, options: MoveOptions) -> ArraySpec:
        """Return the spec of the output, except for its length."""
        file_format = format_choice.named(str(options.input_format))
        with contextlib.closing(file_format.open_reader(source, options)) as first:
            spec = first.spec
        axis, parts = self._joined[name]
        return dataclasses.replace(spec, kept=_long(spec, axis, _total(parts)))

    def _compare(
        self,
        path: str,
        first: dict[str, Described],
        found: dict[str, Described],
        digests: dict[str, bytes],
    ) -> None:
        """Raise unless a file agrees with the first one."""
        for name in sorted(first.keys() ^ found.keys()):
            has, lacks = (self.base, path) if name in first else (path, self.base)
            raise Mismatch(f"{lacks} has no {name!r}, which {has} has")
        for name, one in found.items():
            wanted = first[name]
            axis = len(one.dims) if name in digests else wanted.dims.index(self._along)
            pairs: dict[str, Any] = {
                "dimensions": (one.dims, wanted.dims),
                "shape": tuple(d.shape[:axis] + d.shape[axis + 1 :] for d in (one, wanted)),
            }
            if one.attributes is not wanted.attributes:  # those of another type
                pairs["dtype"] = one.dtype, wanted.dtype
                pairs |= {
                    word: (one.attributes.get(word), wanted.attributes.get(word))
                    for word in MEANING
                    if word != "units" or name in digests
                }
            for what, (here, there) in pairs.items():
                if here != there and repr(here) != repr(there):  # NaN differs from itself
                    raise Mismatch(f"{named(path, name)} has {what} {here}, {there} in {self.base}")
            if one.kind and wanted.kind and one.kind != wanted.kind:
                raise Mismatch(f"{named(path, name)} has another HDF5 type than in {self.base}")
            if name in digests and digest_of(one) != digests[name]:
                raise Mismatch(
                    f"{named(path, name)} has other elements than in {self.base}"
                    f"{self._way_of_difference(name, one)}; without the dimension "
                    f"{self._along!r} they must be the same"
                )

    def _way_of_difference(self, name: str, one: Described) -> str:
        if one.kind is not None or one.dtype.hasobject:
            return ""
        here = elements(one)
        with self._contents(self.base) as first:
            there = elements(first[name])
        return ", in reverse order" if np.array_equal(np.flip(here), there) else ""

    def _conversion(
        self,
        path: str,
        name: str,
        found: Described,
        here: tuple[Any, Any],
        there: tuple[Any, Any],
    ) -> cf_time.Conversion | None:
        """Return how to convert times to the units of the first file; None if they are the same."""
        if here == there:
            return None
        where, (units, calendar), (wanted, its_calendar) = named(path, name), here, there
        are_times = cf_time.is_time(units) and cf_time.is_time(wanted)
        are_plain = not found.attributes.keys() & NOT_PLAIN
        if are_times and calendar != its_calendar:
            raise Mismatch(f"{where} has calendar {calendar}, {its_calendar} in {self.base}")
        convert = cf_time.conversion(units, wanted, calendar) if are_times and are_plain else None
        if convert is None or found.dtype.kind not in "iuf":
            raise Mismatch(f"{where} has units {units!r}, {wanted!r} in {self.base}")
        if convert == cf_time.SAME:
            return None
        return dataclasses.replace(convert, missing=found.attributes.get("_FillValue"))

    def _times(self, path: str, name: str, times: np.ndarray, convert: Any) -> np.ndarray:
        """Return the values of a coordinate along the joined dimension."""
        try:
            return exact(times if convert is None else convert(times))
        except ValueError as e:
            raise Mismatch(inexact(path, name, e, self.base)) from None

    def _check_order(
        self, name: str, is_time: bool, paths: Sequence[str], times: Sequence[np.ndarray]
    ) -> None:
        """Raise unless the coordinates of all files ascend, or all descend; log gaps.

        Times of which each file has only one must ascend.
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


def _is_alike(here: dict[str, Described], there: dict[str, Described]) -> bool:
    """Return whether all arrays store the same attributes (`hdf5_alike`)."""
    return all(one.attributes is there[name].attributes for name, one in here.items())


def _units(of: dict[str, Described]) -> dict[str, tuple[Any, Any]]:
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


def _read(opener: Any) -> np.ndarray:
    """Read a small array."""
    with contextlib.closing(opener(MoveOptions())) as reader:
        found = np.empty(reader.spec.shape, reader.spec.dtype)
        reader.read((0,) * found.ndim, found)
    return found


def exact(times: np.ndarray) -> np.ndarray:
    """Return coordinates as numbers whose differences do not overflow."""
    return times.astype(object) if times.dtype.kind in "iu" else times


def _total(parts: list[Part]) -> int:
    return sum(part.length for part in parts)


def _long(spec: ArraySpec, axis: int, length: int) -> Any:
    """Return properties with longer chunks if they are small: a file may hold a single record."""
    chunks = tuple(map(int, spec.kept.chunks))  # the largest ones, if they have several extents
    if spec.kept.shards and not several_extents(spec.kept.shards):
        return spec.kept
    times = DEFAULT_CHUNK_BYTES // max(1, math.prod(chunks) * spec.dtype.itemsize)
    longer = max(chunks[axis], min(length, chunks[axis] * max(1, times)))
    chunks = with_length(chunks, axis, longer)
    return dataclasses.replace(spec.kept, chunks=chunks, shards=None)


def _length(path: str, found: dict[str, Described], axes: dict[str, int], along: str) -> int:
    """Return the length of a file along the joined dimension."""
    lengths = {found[name].shape[axis]: name for name, axis in axes.items()}
    if len(lengths) > 1:
        raise Mismatch(f"{path} has several lengths along {along!r}: {lengths}")
    return next(iter(lengths))


def _opened(path: str, name: str, options: MoveOptions) -> Any:
    """Return a `Reader` of an array of one file."""
    if os.path.isdir(path):
        return format_choice.named("zarr").open_reader(named(path, name), options)
    return open_dataset(path, name, as_stored=options.output_format == "hdf5")
