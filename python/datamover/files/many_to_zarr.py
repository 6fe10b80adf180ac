# SPDX-License-Identifier: BSD-3-Clause
"""Move of many NetCDF or HDF5 files to one Zarr group, joined along a dimension.

Groups, attributes and everything without the dimension are those of the first file. All other files
must agree with it, except that times may have other units, which are converted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import itertools
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoFailed, Mismatch, Unsupported, WrongType
from datamover.files import (
    addresses,
    cf_time,
    foreign,
    formats,
    hdf5,
    hdf5_format,
    hdf5_types,
    names,
)
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.joined import JoinedArray, Part
from datamover.files.whole_hdf5 import Hdf5ToZarr
from datamover.files.zarr_output import DEFAULT_CHUNK_BYTES

log = logging.getLogger("datamover")

#: Attributes that determine what elements mean, besides units of time.
MEANING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units")
#: By which coordinates name their bounds.
OF_BOUNDS = ("bounds", "climatology")
OF_MEANING = (*MEANING, "calendar", *OF_BOUNDS)
#: Attributes by which some elements of times are not times.
NOT_PLAIN = {"scale_factor", "add_offset", "missing_value"}
#: Bytes of a piece in which elements are compared.
PIECE_BYTES = 1 << 24
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
        given = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern, recursive=True))
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
        formats.check_input_kind(path)
        if not formats.named("hdf5").recognizes(path):
            raise Unsupported(foreign.advice(path) or f"{path} is neither NetCDF4 nor HDF5")
    if len(set(found)) < len(found):
        twice = next(path for path, count in Counter(found).items() if count > 1)
        raise InvalidArgument(f"{twice} is named twice")
    return found


@dataclasses.dataclass(frozen=True)
class Described:
    """The description of a dataset in one file.

    Attributes
    ----------
    shape, dtype, dims
    attributes : dict
        Those in `MEANING`, and the calendar.
    digest : bytes or None
        Of the elements, without the joined dimension.
    """

    shape: tuple[int, ...]
    dtype: Any
    dims: tuple[str | None, ...]
    attributes: dict[str, Any]
    digest: bytes | None


class Variable(str):
    """A joined dataset, as an input of a move; as text, its first file.

    Attributes
    ----------
    name : str
    parts : list of Part
    axis : int
        The joined dimension.
    spec_of : callable
        (Variable, options) -> the `ArraySpec` of the output, except for its length.
    """

    name: str
    parts: list[Part]
    axis: int
    spec_of: Callable[[Variable, MoveOptions], ArraySpec]

    @property
    def length(self) -> int:
        """The length along the joined dimension."""
        return sum(part.length for part in self.parts)

    @property
    def file_format(self) -> formats.Format:
        """The format of its files, which opens all of them."""
        return dataclasses.replace(formats.named("hdf5"), open_reader=self._opened)

    def _opened(self, path: str, options: MoveOptions) -> JoinedArray:
        return JoinedArray(self.name, self.parts, self.axis, self.spec_of(self, options))


class ManyToZarr(Hdf5ToZarr):
    """See `whole.Way`."""

    def __init__(self, paths: Sequence[str], along: str):
        super().__init__(paths[0])
        self._paths, self._along = paths, along
        self._joined: dict[str, Variable] = {}
        #: With which all files must agree.
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
        for name, variable in self._joined.items():
            shape = list(self.arrays[name])
            shape[variable.axis] = variable.length
            self.arrays[name] = tuple(shape)

    def input_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the input of one array, and its options."""
        source, said = super().input_of(name)
        return self._joined.get(name, source), said

    def _tell_of_growing(self) -> None:
        """Do nothing: the dimension that grows is the joined one."""

    def _join(self) -> None:
        with hdf5.reading(self.source):
            own = self._described(self.source, self.file)
        first = self._base(own)
        axes = {n: d.dims.index(self._along) for n, d in first.items() if self._along in d.dims}
        if not axes:
            known = sorted({dim for found in first.values() for dim in found.dims if dim})
            raise InvalidArgument(
                f"nothing in {self.base} has a dimension {self._along!r}; there are "
                f"{', '.join(known) or 'none with names'}"
            )
        parts: dict[str, list[Part]] = {name: [] for name in axes}
        times: list[tuple[str, np.ndarray | None]] = self._times_before()
        for path in self._paths:
            with hdf5.reading(path), contextlib.ExitStack() as open_files:
                file = self.file
                if path != self.source:
                    file = open_files.enter_context(hdf5.open_file(path))
                found = own if path == self.source else self._described(path, file)
                self._compare(path, first, found, axes)
                length = _length(path, found, axes, self._along)
                conversions = {n: self._conversion(path, n, first, found) for n in axes}
                for name, convert in conversions.items():
                    parts[name].append(Part(path, length, convert))
                times.append((path, self._times(path, file, conversions)))
        if all(found is not None for _, found in times):
            self._check_order(*zip(*times, strict=True))
        for name, axis in axes.items():
            variable = self._joined[name] = Variable(self.source)
            variable.name, variable.axis, variable.spec_of = name, axis, self._spec_of
            variable.parts = [*self._parts_before(name, axis), *parts[name]]

    def _base(self, own: dict[str, Described]) -> dict[str, Described]:
        """Return that with which all files must agree: what is in the first file."""
        return own

    def _times_before(self) -> list[tuple[str, np.ndarray | None]]:
        """Return the last coordinates before the files, and where they are."""
        return []

    def _parts_before(self, name: str, axis: int) -> list[Part]:
        """Return what is joined before the files."""
        return []

    def _spec_of(self, variable: Variable, options: MoveOptions) -> ArraySpec:
        with contextlib.closing(hdf5_format.open_reader(self.source, options)) as first:
            spec = first.spec
        return dataclasses.replace(spec, kept=_long(spec, variable))

    def _described(self, path: str, file: Any) -> dict[str, Described]:
        tree = self.tree if file is self.file else hdf5.tree(file)
        return {n: self._of(path, n, d) for n, d in tree.datasets.items() if d.shape is not None}

    def _of(self, path: str, name: str, dataset: Any) -> Described:
        dims = tuple(hdf5_format.dimension_names(dataset, name) or (None,) * dataset.ndim)
        said = hdf5_format.json_attributes(dataset, of_netcdf=True)
        kept = {word: said[word] for word in OF_MEANING if word in said}
        dtype = hdf5_types.dtype_of(dataset.id.get_type(), f"{path}:/{name}")
        is_joined = self._along in dims
        if dims.count(self._along) > 1:
            raise Unsupported(
                f"{path}:/{name} has the dimension {self._along!r} {dims.count(self._along)} "
                "times: it cannot be joined; leave it out of the files"
            )
        if is_joined and dtype.hasobject:
            raise Unsupported(
                f"{path}:/{name} has elements without a fixed size along {self._along!r}: these "
                "cannot be joined"
            )
        digest = None if is_joined else digest_of(dataset)
        return Described(tuple(dataset.shape), dtype, dims, kept, digest)

    def _compare(
        self,
        path: str,
        first: dict[str, Described],
        found: dict[str, Described],
        axes: dict[str, int],
    ) -> None:
        """Raise unless a file agrees with the first one."""
        for name in sorted(first.keys() ^ found.keys()):
            has, lacks = (self.base, path) if name in first else (path, self.base)
            raise Mismatch(f"{lacks} has no {name!r}, which {has} has")
        for name, one in found.items():
            wanted = first[name]
            shapes = [_without(d.shape, axes.get(name)) for d in (one, wanted)]
            pairs = {
                "dimensions": (one.dims, wanted.dims),
                "shape": tuple(shapes),
                "dtype": (one.dtype, wanted.dtype),
            } | {
                word: (one.attributes.get(word), wanted.attributes.get(word))
                for word in MEANING
                if word != "units" or name not in axes
            }
            for what, (here, there) in pairs.items():
                if here != there and repr(here) != repr(there):  # NaN differs from itself
                    raise Mismatch(f"{path}:/{name} has {what} {here}, {there} in {self.base}")
            if one.digest != wanted.digest:
                raise Mismatch(
                    f"{path}:/{name} has other elements than in {self.base}"
                    f"{self._way_of_difference(path, name)}; without the dimension "
                    f"{self._along!r} they must be the same"
                )

    def _way_of_difference(self, path: str, name: str) -> str:
        with hdf5.open_file(path) as file:
            here, there = file[name][()], self._base_array(name)[()]
        return ", in reverse order" if np.array_equal(np.flip(here), there) else ""

    def _base_array(self, name: str) -> Any:
        return self.file[name]

    def _conversion(
        self, path: str, name: str, first: dict[str, Described], found: dict[str, Described]
    ) -> cf_time.Conversion | None:
        """Return how to convert times to the units of the first file; None if they are the same."""
        here, there = (self._units(name, of) for of in (found, first))
        if here == there:
            return None
        (units, calendar), (wanted, its_calendar) = here, there
        are_times = cf_time.is_time(units) and cf_time.is_time(wanted)
        are_plain = not found[name].attributes.keys() & NOT_PLAIN
        where = f"{path}:/{name}"
        if are_times and calendar != its_calendar:
            raise Mismatch(f"{where} has calendar {calendar}, {its_calendar} in {self.base}")
        convert = cf_time.conversion(units, wanted, calendar) if are_times and are_plain else None
        if convert is None or found[name].dtype.kind not in "iuf":
            raise Mismatch(f"{where} has units {units!r}, {wanted!r} in {self.base}")
        if convert == cf_time.SAME:
            return None
        return dataclasses.replace(convert, missing=found[name].attributes.get("_FillValue"))

    def _units(self, name: str, of: dict[str, Described]) -> tuple[Any, Any]:
        """Return units and calendar; bounds have those of their coordinate."""
        group, _, own_name = name.rpartition("/")
        said = of[name].attributes
        for other, described in of.items():
            its = described.attributes
            if other.rpartition("/")[0] == group and own_name in map(its.get, OF_BOUNDS):
                said = {word: its[word] for word in ("units", "calendar") if word in its} | said
        calendar = cf_time.calendar_of(said.get("calendar"))
        return said.get("units"), calendar if cf_time.is_time(said.get("units")) else None

    def _times(self, path: str, file: Any, conversions: dict[str, Any]) -> np.ndarray | None:
        """Return the coordinate along the joined dimension; None if there is none."""
        if self._along not in conversions or file[self._along].dtype.kind not in "iuf":
            return None
        times, convert = file[self._along][()], conversions[self._along]
        if times.ndim != 1:
            return None
        try:
            return exact(times if convert is None else convert(times))
        except ValueError as e:
            raise Mismatch(
                f"{path}:/{self._along}: {e} has no exact value in the units of {self.base}"
            ) from None

    def _check_order(self, paths: Sequence[str], times: Sequence[np.ndarray]) -> None:
        """Raise unless the coordinates of all files ascend, or all descend; log gaps."""
        steps: list[Any] = [np.diff(t) for t in times]
        ends: list[Any] = [b[0] - a[-1] for a, b in itertools.pairwise(times)]
        sign = np.sign(next((s[0] for s in [*steps, ends] if len(s)), 1))
        for path, of_file in zip(paths, steps, strict=True):
            if not (of_file * sign > 0).all():
                raise Mismatch(f"{path}:/{self._along} is neither ascending nor descending")
        for k, end in enumerate(ends):
            here, there = paths[k : k + 2]
            if not end * sign > 0:
                raise Mismatch(
                    f"{there} begins at {self._along}={times[k + 1][0]}, and {here}, before it, "
                    f"ends at {times[k][-1]}: the files overlap, or are in the wrong order"
                )
        within = [float(abs(s).max()) for s in steps if len(s)]
        usual = max(within) if within else float(np.median(np.abs(ends or [0])))
        for k, end in enumerate(ends):
            if abs(end) > GAP * usual:
                log.warning(
                    "there is a gap between %s, which ends at %s=%s, and %s, which begins at %s",
                    paths[k], self._along, times[k][-1], paths[k + 1], times[k + 1][0],
                )  # fmt: skip


def exact(times: np.ndarray) -> np.ndarray:
    """Return coordinates as numbers whose differences do not overflow."""
    return times.astype(object) if times.dtype.kind in "iu" else times


def _long(spec: ArraySpec, variable: Variable) -> Any:
    """Return properties with longer chunks if they are small: a file may hold a single record."""
    chunks = list(spec.kept.chunks)
    times = DEFAULT_CHUNK_BYTES // max(1, math.prod(chunks) * spec.dtype.itemsize)
    longer = min(variable.length, chunks[variable.axis] * max(1, times))
    chunks[variable.axis] = max(chunks[variable.axis], longer)
    return dataclasses.replace(spec.kept, chunks=tuple(chunks))


def _length(path: str, found: dict[str, Described], axes: dict[str, int], along: str) -> int:
    """Return the length of a file along the joined dimension."""
    lengths = {found[name].shape[axis]: name for name, axis in axes.items()}
    if len(lengths) > 1:
        raise Mismatch(f"{path} has several lengths along {along!r}: {lengths}")
    (length,) = lengths
    if length == 0:
        raise IoFailed(f"{path} has no records along {along!r}; leave it out")
    return length


def _without(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d != axis)


def digest_of(dataset: Any) -> bytes:
    """Return a digest of all elements of an open HDF5 dataset or Zarr array."""
    if not dataset.ndim or dataset.dtype.kind in "OT":
        found = np.ravel(np.asarray(dataset[()])).tolist()
        return repr([w.decode() if isinstance(w, bytes) else w for w in found]).encode()
    digest = hashlib.sha256()
    row_bytes = dataset.nbytes // max(1, dataset.shape[0])
    rows = max(1, PIECE_BYTES // max(1, row_bytes))
    for k in range(0, dataset.shape[0], rows):
        digest.update(dataset[k : k + rows].tobytes())
    return digest.digest()
