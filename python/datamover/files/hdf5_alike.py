# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of the arrays of many HDF5 files, decoded once for all that store the same.

Files that are joined differ in little but their elements. HDF5's own functions read links, types
and attributes of a file as they are stored, in a fraction of the time of h5py's objects. Only what
was not seen before is decoded. The places of elements are kept: they are read without HDF5.

Of a file with the same bytes as the one before, except at the places of joined elements, HDF5 would
report the same: it is a twin, which HDF5 does not open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import math
import os
from collections.abc import Iterator
from typing import Any

from datamover.errors import IoFailed
from datamover.files import hdf5, hdf5_attributes, hdf5_chunks, hdf5_format, hdf5_types
from datamover.files.chunk_boxes import read_fully
from datamover.files.flat import FlatFile
from datamover.files.formats import MoveOptions, Reader, Shape, grid_of
from datamover.files.hdf5_types import h5py
from datamover.files.joined import OF_MEANING, Described, described
from datamover.files.space import opened

#: Attributes that determine a description, besides the names of scales.
OF_DESCRIPTION = {w.encode() for w in (*OF_MEANING, *hdf5_format.OF_SCALES, hdf5_format.LABELS)}
NUMBERS = hdf5_format.NUMBERS.encode()
#: Maximum number of chunks of an array in one file of which the places are kept.
MOST_CHUNKS = 64
#: Maximum number, and bytes together, of pieces that are compared with those of a twin.
MOST_GAPS, MOST_COMPARED_BYTES = 256, 1 << 22
#: After so many files in a row that are no twins, none is expected.
MOST_MISSES = 16
#: Begin and end of pieces of a file.
Runs = list[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Datasets of a name that store the same, except for elements and extents.

    Attributes
    ----------
    one : Described, optional
        None for what is not an array, as NetCDF's dimensions without values.
    properties
        Those with which the first was created.
    reader : FlatFile or ChunkedDataset, optional
        The reader of the first, closed; None if HDF5 is needed.
    """

    one: Described | None
    properties: Any
    reader: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array in a file that is not open; called, it opens them, as of a `Part`.

    Attributes
    ----------
    path : str
    stamp : tuple of int
        Identifies the state of the file, also on other nodes.
    reader : FlatFile or ChunkedDataset
        Closed, of an array that is stored in the same way.
    shape : tuple of int
    place
        The offset of a flat array, or the `hdf5_chunks.Rows`.
    """

    path: str
    stamp: tuple[int, int]
    reader: Any
    shape: Shape
    place: Any

    def __call__(self, options: MoveOptions) -> Reader:
        """Return an open reader, if the file is unchanged."""
        with hdf5.reading(self.path), contextlib.ExitStack() as opened:
            found = self.reader.at(self.path, self.shape, self.place)
            opened.callback(found.close)
            if _stamp(os.stat(self.path)) != self.stamp:
                raise IoFailed(f"{self.path} has changed since the move began")
            opened.pop_all()
        return found

    def runs(self) -> Runs:
        """Return begin and end of all pieces in the file."""
        if isinstance(self.place, int):
            return [(self.place, self.place + _nbytes(self.reader, self.shape))]
        return [(offset, offset + size) for *_, offset, size, _ in self.place]


class Alike:
    """Many files, which are read one after the other.

    Parameters
    ----------
    along : str
        The dimension of arrays of which the places are kept.
    as_stored : bool
        That of `hdf5_types.dtype_of`.
    """

    def __init__(self, along: str, as_stored: bool):
        self._along, self._as_stored = along, as_stored
        #: By the name, and what is stored: as many as there are variants.
        self._kinds: dict[Any, _Kind] = {}
        #: Of the file that was compared last: its bytes, the pieces between its joined arrays, what
        #: is in these, and the arrays.
        self._last: tuple[int, Runs, list[bytes], dict[str, Elements]] | None = None
        self._misses = 0

    @contextlib.contextmanager
    def contents(self, path: str) -> Iterator[dict[str, Described]]:
        """Open a file; yield the descriptions of its arrays, by name.

        Arrays that store the same as one before have the very same `attributes`.

        Raises
        ------
        IoFailed
            It cannot be read, also while it is open.
        """
        with hdf5.reading(path):
            stamp = _stamp(os.stat(path))
        with hdf5.reading(path), hdf5.open_file(path) as file:
            tree, found = hdf5.walked(file), dict[str, Described]()
            is_plain = file.userblock_size == 0 and file.id.get_intent() == h5py.h5f.ACC_RDONLY
            datasets = tree.datasets
            # HDF5 may name a scale by any of its names, and NetCDF shows some in another way.
            is_usual = not tree.same and not any(hdf5.NON_COORDINATE in name for name in datasets)
            if not is_usual:
                shown = hdf5.tree(file, self._as_stored).datasets
                datasets = {name: dataset.id for name, dataset in shown.items()}
            for name, held in datasets.items():
                said = _said(held, tree.first_names) if is_usual else None
                kind = self._kinds.get((name, said)) or self._learnt(path, name, held, said)
                if kind.one is None:
                    continue
                shape, opener = held.shape, None
                if kind.reader and is_plain and (place := _place(kind, held, stamp[0])) is not None:
                    opener = Elements(path, stamp, kind.reader, shape, place)
                found[name] = dataclasses.replace(kind.one, array=held, shape=shape, open=opener)
            yield found

    def remember(self, path: str, found: dict[str, Described]) -> None:
        """Let the next file be compared with this one, which is open, and as it must be."""
        self._last = None
        joined = {name: one.open for name, one in found.items() if self._along in one.dims}
        rest = [one.array for one in found.values() if self._along not in one.dims]
        if self._misses > MOST_MISSES or None in joined.values() or not all(map(_is_inside, rest)):
            return
        stamp, gaps, at = next(iter(joined.values())).stamp, [], 0
        for begin, end in sorted(run for one in joined.values() for run in one.runs()):
            if begin > at:
                gaps.append((at, begin))
            at = max(at, end)
        gaps.append((at, stamp[0]))
        if len(gaps) <= MOST_GAPS and sum(b - a for a, b in gaps) <= MOST_COMPARED_BYTES:
            with opened(path, os.O_RDONLY) as fd:
                self._last = stamp[0], gaps, _read_all(fd, gaps), joined
            if _stamp(os.stat(path)) != stamp:
                self._last = None

    def twin(self, path: str) -> dict[str, Elements] | None:
        """Return the joined arrays of a twin of the file that is remembered; None for others."""
        if self._last is None:
            return None
        nbytes, gaps, between, joined = self._last
        with contextlib.suppress(OSError), opened(path, os.O_RDONLY) as fd:  # HDF5 has the words
            _lock(fd)
            stamp = _stamp(os.fstat(fd))
            if stamp[0] == nbytes and _read_all(fd, gaps) == between:
                self._misses = 0
                return {
                    name: dataclasses.replace(one, path=path, stamp=stamp)
                    for name, one in joined.items()
                }
        self._misses += 1
        return None

    def _learnt(self, path: str, name: str, held: Any, said: Any) -> _Kind:
        """Describe a dataset, and all that store the same."""
        dataset, one, reader = h5py.Dataset(held), None, None
        if dataset.shape is not None and not hdf5.is_only_a_dimension(dataset):
            one = described(f"{path}:/{name}", name, dataset, self._as_stored)
            if said and self._along in one.dims and not one.dtype.hasobject:
                reader = hdf5_format.open_dataset(path, name, as_stored=self._as_stored)
                reader.close()
                if not isinstance(reader, FlatFile | hdf5_chunks.ChunkedDataset):
                    reader = None
        found = _Kind(one and dataclasses.replace(one, array=None), held.get_create_plist(), reader)
        if said is not None:
            self._kinds[name, said] = found
        return found


def _said(held: Any, by_place: dict[int, str]) -> Any:
    """Return what a dataset stores that determines its description; None for unusual types."""
    space, properties, attributes = held.get_space(), held.get_create_plist(), set[bytes]()
    is_chunked = properties.get_layout() == h5py.h5d.CHUNKED
    said = [held.get_type().encode(), space.get_simple_extent_type()]
    said += space.get_simple_extent_dims(True), is_chunked and properties.get_chunk()
    try:
        h5py.h5a.iterate(held, attributes.add)
        if held.rank > 1 and {NUMBERS, b"CLASS"} <= attributes:  # other objects have the names
            return None
        for name in sorted(attributes & OF_DESCRIPTION):
            said.append((name, *_bytes_of(h5py.h5a.open(held, name))))
        if hdf5.has_scales(held):
            for dim in range(held.rank):
                if h5py.h5ds.get_num_scales(held, dim) == 0:  # of which `iterate` is an error
                    said.append(None)
                    continue
                place = h5py.h5ds.iterate(held, dim, hdf5.place_of)
                said.append(by_place[place])
        return tuple(said)
    except (OSError, TypeError, ValueError, RuntimeError, LookupError):
        return None


def _bytes_of(attribute: Any) -> tuple[bytes, Shape, Any]:
    """Return type, shape and bytes of an attribute of numbers or strings."""
    kind = attribute.get_type()
    values, memory = hdf5_attributes.memory_for(kind, attribute.get_space())
    if values is None:
        return kind.encode(), (), None
    attribute.read(values, memory)
    if not values.dtype.hasobject:
        return kind.encode(), values.shape, values.tobytes()
    if kind.get_class() != h5py.h5t.STRING:
        raise TypeError
    return kind.encode(), values.shape, tuple(values.ravel().tolist())


def _place(kind: _Kind, held: Any, nbytes: int) -> Any:
    """Return the `place` of `Elements` in a file of a size; None if it is not known."""
    reader, shape, properties = kind.reader, held.shape, held.get_create_plist()
    if not properties.equal(kind.properties):
        return None
    if isinstance(reader, FlatFile):
        offset = held.get_offset()
        is_within = offset is not None and offset + _nbytes(reader, shape) <= nbytes
        return offset if is_within else None
    count = math.prod(grid_of(shape, reader.granule))
    has_usual_edges = hdf5_types.chunk_options(properties) == 0
    return hdf5_chunks.rows_of(held) if has_usual_edges and count <= MOST_CHUNKS else None


def _nbytes(reader: Reader, shape: Shape) -> int:
    return math.prod(shape) * reader.spec.dtype.itemsize


def _is_inside(held: Any) -> bool:
    """Return whether the elements of a dataset are in its file."""
    properties = held.get_create_plist()
    return properties.get_external_count() == 0 and properties.get_layout() != h5py.h5d.VIRTUAL


def _lock(fd: int) -> None:
    """Lock a file that is compared as HDF5 does, which raises OSError if it is being written."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno != errno.ENOSYS:  # the file system has locks
            raise


def _read_all(fd: int, gaps: Runs) -> list[bytes]:
    return [read_fully(fd, end - begin, begin) for begin, end in gaps]


def _stamp(found: os.stat_result) -> tuple[int, int]:
    """Identify the state of a file, for processes of all nodes.

    Nodes have different numbers for a device, and for a file in it if each has a copy.
    """
    return found.st_size, found.st_mtime_ns
