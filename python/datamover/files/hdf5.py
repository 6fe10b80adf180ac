# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in HDF5 files: finding, creating and reading them, without a parallel HDF5.

A contiguous dataset is a range of bytes of its file: all processes read and write it like a flat
file, at its offset. Chunks whose filters are supported are also read at their offsets
(`hdf5_chunks`). h5py reads everything else. Files at an address are read in the same ways.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from datamover.errors import Error, IoFailed, Unsupported
from datamover.files import addresses, hdf5_types
from datamover.files.addresses import AddressBlocks, AddressFile
from datamover.files.chunk_boxes import chunk_shape
from datamover.files.flat import reserve
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape
from datamover.files.hdf5_types import h5py
from datamover.files.names import is_utf8
from datamover.files.space import ENCODED, check_room_to_grow, naming_no_space, raise_no_space

SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: Beginning of the attribute NAME of a NetCDF dataset that is not a variable.
DIMENSION_WITHOUT_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
#: Beginning of the name of a NetCDF variable that is called like a dimension, but is not its
#: coordinate.
NON_COORDINATE = "_nc4_non_coord_"
#: The attribute that lists the scales of a dataset's dimensions.
SCALES = b"DIMENSION_LIST"
#: Maximum depth of virtual datasets, through which HDF5 recurses.
MAX_VIRTUAL_DEPTH = 16
#: Bytes that HDF5 writes in addition to elements, groups and attributes of ordinary size.
MOST_METADATA_BYTES = 1 << 16


def recognizes(path: str) -> bool:
    """Return whether this is an HDF5 file, with its signature at 0, or at 512, 1024, 2048, ...

    Raises
    ------
    IoFailed
        The file cannot be read.
    """
    if not os.path.isfile(path):
        return False
    with addresses.failing(f"{path} cannot be read"), open(path, "rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            file.seek(at)
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return True
            at = max(512, 2 * at)
    return False


def bytes_at(path: str) -> AddressBlocks | None:
    """Return the bytes of an object at an address; None for a file.

    Raises
    ------
    IoFailed
        The object does not exist.
    """
    return AddressBlocks(path) if addresses.is_address(path) else None


def open_file(path: str, data: AddressBlocks | None = None) -> Any:
    """Open a file for reading; at an address by its `data`, if it is given.

    Raises
    ------
    IoFailed
        It is not an HDF5 file, or broken.
    """
    data = data or bytes_at(path)
    with reading(path):
        if data is not None:
            return h5py.File(AddressFile(data), "r")
        # As h5py opens it, in two thirds of the time.
        return h5py.File(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY, _access()))


@functools.cache
def _access() -> Any:
    """Return HDF5's properties that open a file, and lock it if its file system has locks."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_file_locking(True, True)
    return access


@dataclasses.dataclass
class Tree:
    """Contents of a group, with all levels below it.

    Attributes
    ----------
    groups, datasets, dimensions, datatypes : dict
        Objects by name. A dataset has the names of all its (hard) links, other objects only the
        first. `dimensions` are datasets without elements that represent a NetCDF dimension.
    same : dict
        The first name of an object, by each of its further names.
    links : dict
        Links to other places by name, as h5py objects; None for a kind that h5py does not have.
    order : list of str
        All names, in the order of each group, groups before their contents.
    first_names : dict
        First names of all objects, by their place in the file.
    """

    groups: dict[str, Any] = dataclasses.field(default_factory=dict)
    datasets: dict[str, Any] = dataclasses.field(default_factory=dict)
    dimensions: dict[str, Any] = dataclasses.field(default_factory=dict)
    datatypes: dict[str, Any] = dataclasses.field(default_factory=dict)
    same: dict[str, str] = dataclasses.field(default_factory=dict)
    links: dict[str, Any] = dataclasses.field(default_factory=dict)
    order: list[str] = dataclasses.field(default_factory=list)
    first_names: dict[int, str] = dataclasses.field(default_factory=dict)


def reading(where: str) -> contextlib.AbstractContextManager[None]:
    """Convert HDF5's many kinds of errors to one line that names the file, or its object.

    Raises
    ------
    IoFailed
    """
    kind = "object" if re.search(":/(?!/)", where) else "file"
    words = f"{where} is not a readable HDF5 {kind}"
    return addresses.failing(words, of=(OSError, RuntimeError, LookupError, ValueError))


def tree(group: Any, as_stored: bool = False) -> Tree:
    """Return all links of an open file or group. Soft and external links are not followed.

    Variables have their names in NetCDF, or those in the file with `as_stored`.
    """
    with reading(str(group.file.filename)):
        found = walked(group)
        all_datasets = {name: h5py.Dataset(held) for name, held in found.datasets.items()}
        dimensions = {n: d for n, d in all_datasets.items() if is_only_a_dimension(d)}
    found = dataclasses.replace(
        found,
        groups={name: h5py.Group(held) for name, held in found.groups.items()},
        datasets={n: d for n, d in all_datasets.items() if n not in dimensions},
        dimensions={n: d for n, d in dimensions.items() if n not in found.same},
        datatypes={name: h5py.Datatype(held) for name, held in found.datatypes.items()},
    )
    shown = {name: _name_in_netcdf(name, found) for name in found.datasets}
    if as_stored or all(own == name for name, own in shown.items()):
        return found
    return dataclasses.replace(
        found,
        datasets={shown[name]: held for name, held in found.datasets.items()},
        same={shown.get(name, name): shown.get(of, of) for name, of in found.same.items()},
        order=[shown.get(name, name) for name in found.order],
    )


def _name_in_netcdf(name: str, found: Tree) -> str:
    """Return the name of a variable; a prefix in the file keeps it apart from a dimension."""
    above, slash, own = name.rpartition("/")
    plain = above + slash + own.removeprefix(NON_COORDINATE)
    return plain if plain in found.dimensions else name


def walked(group: Any) -> Tree:
    """Return all links of a group, with identifiers for objects, and dimensions as datasets.

    By HDF5's own functions: those of h5py's objects take far longer.
    """
    root = h5py.h5g.open(group.id, b".")  # a file's own identifier does not report its order
    found = Tree(first_names={place_of(root): ""})
    left = _links_in(root, "")  # groups may be deeper than Python's recursion limit
    while left:
        above, key, name, kind, place = left.pop()
        found.order.append(name)
        if kind != h5py.h5l.TYPE_HARD or not is_utf8(name):
            found.links[name] = _link(above, key)
            continue
        held, first = h5py.h5o.open(above, key), found.first_names.setdefault(place, name)
        if first != name:
            found.same[name] = first
        if isinstance(held, h5py.h5d.DatasetID):
            found.datasets[name] = held
        elif first == name and isinstance(held, h5py.h5g.GroupID):
            found.groups[name] = held
            left += _links_in(held, name + "/")
        elif first == name:
            found.datatypes[name] = held
    return found


def _links_in(group: Any, above: str) -> list[tuple[Any, bytes, str, int, int]]:
    """Return the links of a group, the last one first: group, key, full name, kind and place."""
    found: list[tuple[Any, bytes, str, int, int]] = []
    said = group.get_create_plist().get_link_creation_order()
    order = h5py.h5.INDEX_CRT_ORDER if said & h5py.h5p.CRT_ORDER_TRACKED else h5py.h5.INDEX_NAME

    def add(key: bytes, info: Any) -> None:
        found.append((group, key, above + key.decode(errors="surrogateescape"), info.type, info.u))

    group.links.iterate(add, info=True, idx_type=order)
    return found[::-1]


def _link(group: Any, key: bytes) -> Any:
    """Return a link to another place; None for a kind, or a name, that h5py does not have."""
    with contextlib.suppress(TypeError, UnicodeError):
        return h5py.Group(group).get(key.decode(), getlink=True)
    return None


def place_of(held: Any) -> int:
    """Return the place of an object in its file, by its identifier."""
    return h5py.h5o.get_info(held).addr


def has_scales(dataset: Any) -> bool:
    """Return whether a dataset, by its identifier, has a list of the scales of its dimensions.

    HDF5 does not check the type of the attribute that is the list, and crashes on others.
    """
    if not h5py.h5a.exists(dataset, SCALES):
        return False
    held = h5py.h5a.open(dataset, SCALES)
    lists = held.get_type()
    return (
        held.shape == (dataset.rank,)
        and lists.get_class() == h5py.h5t.VLEN
        and lists.get_super().get_class() == h5py.h5t.REFERENCE
    )


def words_of(link: Any) -> str:
    """Describe a link to another place."""
    if isinstance(link, h5py.SoftLink):
        return f"a soft link to {link.path}"
    if isinstance(link, h5py.ExternalLink):
        return f"a link to {link.path} in {link.filename}"
    return "a link of another kind"


def is_only_a_dimension(dataset: Any) -> bool:
    """Return whether a dataset is a NetCDF dimension without coordinates, which has no data."""
    if not dataset.is_scale:
        return False
    said = dataset.attrs.get("NAME", b"")
    return isinstance(said, bytes) and said.startswith(DIMENSION_WITHOUT_VARIABLE.encode())


def datasets(file: Any) -> dict[str, Any]:
    """Return all datasets of an open file, by each of their names. Other links are not followed."""
    return tree(file).datasets


@dataclasses.dataclass(eq=False)
class OpenDataset(Reader):
    """A dataset and its open file, which closing it closes.

    Attributes
    ----------
    _file, _dataset
        Of h5py.
    _place : tuple of str
        Path of the file, and name of the dataset.
    spec : ArraySpec
    _data : AddressBlocks, optional
        The bytes of an object at an address.
    """

    _file: Any
    _dataset: Any
    _place: tuple[str, str]
    spec: ArraySpec
    _data: AddressBlocks | None = None

    def __post_init__(self) -> None:
        """Prepare reading, in subclasses."""

    @property
    def _where(self) -> str:
        return ":/".join(self._place)

    def check_unchanged(self) -> None:
        """Raise if an object at an address has changed since it was opened; open files cannot."""
        if self._data is not None:
            self._data.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        file, self._file, self._dataset = self._file, None, None
        if file is not None:
            file.close()
        if self._data is not None:
            self._data.block.cache_clear()

    def reopen(self) -> None:
        """Open the file again after `close`."""
        self._file, self._dataset = reopened(*self._place, self._data)


class OpenOutput(OpenDataset):
    """A dataset and its file, open for writing by one process.

    Parameters
    ----------
    path, name : str
        An empty path is for planning only.
    spec : ArraySpec
    """

    def __init__(self, path: str, name: str, spec: ArraySpec):
        # The writer has locked it already, in a way that HDF5 does not recognize.
        file = h5py.File(path, "r+", locking=False) if path else None
        super().__init__(file, file and file[name], (path, name), spec)

    def naming_errors(self) -> contextlib.AbstractContextManager[None]:
        """Convert HDF5's errors in a block."""
        path = self._place[0]
        return writing(f"{path} cannot be written", path, self.spec.nbytes, ENCODED)

    def close(self) -> None:
        """Close the file, to which HDF5 writes everything that it has buffered."""
        with self.naming_errors():
            super().close()


class DatasetReader(OpenDataset):
    """A dataset that h5py reads because it is not plain (`hdf5_types.is_plain`) or not yet written.

    Any number of threads may read; h5py admits one at a time.
    """

    def __post_init__(self) -> None:
        # Datasets without chunks, such as those of several files, are read in pieces of a megabyte.
        self.granule: Shape = tuple(self._dataset.chunks or chunk_shape(self.spec, MoveOptions()))

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        values = np.zeros(out.shape, self.spec.dtype)
        with addresses.failing(f"{self._where} cannot be read at {lo}"):
            read_box(self._dataset.id, lo, values)
            out.view(self.spec.dtype)[...] = values


def read_box(held: Any, lo: Shape, out: np.ndarray) -> None:
    """Fill `out` from a dataset, by its identifier; opaque elements are read as stored."""
    kind = held.get_type() if hdf5_types.is_opaque(out.dtype) else h5py.h5t.py_create(out.dtype)
    here, memory = selection(held, lo, out.shape)
    held.read(memory, here, out, kind)


def selection(held: Any, lo: Shape, shape: Shape) -> tuple[Any, Any]:
    """Return HDF5's spaces of a box of a dataset, by its identifier, and of the box in memory."""
    here = held.get_space()
    if lo:
        here.select_hyperslab(lo, shape)
    return here, space_of(shape)


def reopened(path: str, name: str, data: AddressBlocks | None) -> tuple[Any, Any]:
    """Open a file again; return it, and its dataset of a name."""
    file = open_file(path, data)
    return file, named_dataset(file, path, name, is_here=data is None)[1]


def named_dataset(file: Any, path: str, name: str | None, is_here: bool) -> tuple[str, Any]:
    """Return a dataset of an open file and its name; None is that of the only one.

    Raises
    ------
    IoFailed
        It does not exist.
    """
    if name is None:
        names = list(datasets(file))
        if len(names) != 1:
            there = ", ".join(names) or "none"
            raise IoFailed(
                f"{path} has {len(names)} datasets; name one, as {path}:/NAME, of: {there}"
            )
        name = names[0]
    find = file.__getitem__ if is_here else functools.partial(_by_hard_links, file, path)
    try:
        found = find(name)
        if isinstance(found, h5py.Dataset) and is_only_a_dimension(found):
            above, slash, own = name.rpartition("/")
            with contextlib.suppress(KeyError):
                found = find(f"{above}{slash}{NON_COORDINATE}{own}")
    except Error:
        raise
    except (KeyError, OSError, RuntimeError) as e:
        there = ", ".join(datasets(file)) or "none"
        raise IoFailed(f"{path} has no dataset {name!r}; there are {there}") from e
    if isinstance(found, h5py.Datatype):
        raise IoFailed(f"{path}:/{name} is a datatype, not a dataset")
    if not isinstance(found, h5py.Dataset):
        below = ", ".join(f"{name}/{n}" for n in datasets(found)) or "none"
        raise IoFailed(f"{path}:/{name} is a group; name one of its datasets: {below}")
    return name, found


def _by_hard_links(file: Any, path: str, name: str) -> Any:
    """Find an object of a file at an address; for links, HDF5 would open local files."""
    found = file
    for part in name.split("/"):
        if part in ("", "."):  # as in a path
            continue
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            raise KeyError(name)
        if not isinstance(link, h5py.HardLink):
            raise Unsupported(f"{path}:/{name} is reached through a link; name its target instead")
        found = found[part]
    return found


def check_sources(
    path: str, dataset: Any, where: str, above: tuple[tuple[str, str], ...] = ()
) -> None:
    """Reject a virtual dataset with a missing or broken file, of which HDF5 reads fill values.

    Also reject one that leads to itself, from which HDF5 would never return. Names with %b stand
    for any number of files.
    """
    above = (*above, (os.path.realpath(path), dataset.name))
    named = {(s.file_name, s.dset_name) for s in dataset.virtual_sources()}
    folders = [os.path.dirname(path), os.getcwd(), os.environ.get("HDF5_VDS_PREFIX") or "/"]
    for file_name, name in sorted(named):
        if "%b" in file_name + name:
            continue
        file_name, name = file_name.replace("%%", "%"), name.replace("%%", "%")
        candidates = [os.path.join(folder, file_name) for folder in folders]
        found = path if file_name == "." else next(filter(os.path.isfile, candidates), None)
        if found is None:
            raise IoFailed(
                f"{where} is a virtual dataset, of which the file {file_name} is missing"
            )
        with open_file(found) as file:
            source = file.get(name)
            if source is None:
                raise IoFailed(
                    f"{where} is a virtual dataset, of which {name} is missing in the file {found}"
                )
            if (os.path.realpath(found), source.name) in above or len(above) > MAX_VIRTUAL_DEPTH:
                raise IoFailed(f"{where} is a virtual dataset that leads to itself, by {found}")
            if getattr(source, "is_virtual", False):
                check_sources(found, source, where, above)


def create(file: Any, name: str, kind: Any, space: Any, properties: Any) -> Any:
    """Create a dataset with all given properties, and the groups above it.

    h5py alone leaves out some: how the place of a single element is settled, and the order of
    attributes.
    """
    record_order(properties)
    made = h5py.h5d.create(
        file.id, name.encode(), kind, space, dcpl=properties, lcpl=link_properties()
    )
    return h5py.Dataset(made)


def space_of(shape: Shape, most: tuple[int | None, ...] | None = None) -> Any:
    """Return HDF5's space of a shape, which may grow to extents of `most`; None is unlimited."""
    ends = most and tuple(h5py.h5s.UNLIMITED if n is None else n for n in most)
    return h5py.h5s.create_simple(shape, ends)


def record_order(properties: Any) -> None:
    """Let an object record the order of its attributes, which may then be many and large.

    In the default header, an attribute has less than 64 KB, and they are searched one by one. No
    times are recorded: the same input gives the same bytes.
    """
    properties.set_obj_track_times(False)
    properties.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)


def link_properties() -> Any:
    """Return HDF5's properties that create a name and the groups above it."""
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5py.h5t.CSET_UTF8)
    return links


def create_file(path: str, fill: Any, needed_bytes: int) -> None:
    """Create a file, call `fill` with it, and reserve the disk's space for all its contents."""
    with writing(f"{path} cannot be created", path, needed_bytes):
        # The writer has locked it already, in a way that HDF5 does not recognize.
        with h5py.File(path, "w", locking=False, track_order=True) as file:
            fill(file)
        size_bytes = os.path.getsize(path)
        reserve(path, size_bytes, max(size_bytes, needed_bytes))


def check_growth(file: Any, nbytes: int) -> None:
    """Raise if an open file has no room to grow: HDF5 may crash if it detects this itself.

    Raises
    ------
    IoFailed
    """
    path = file.filename
    needed_bytes = file.id.get_filesize() + nbytes + MOST_METADATA_BYTES
    with naming_no_space(path, needed_bytes):
        check_room_to_grow(path, needed_bytes)


@contextlib.contextmanager
def writing(words: str, path: str, needed_bytes: int, more: str = "") -> Iterator[None]:
    """Convert HDF5's errors to one line, of `words` or about the full disk.

    The messages of HDF5 have the number of the system's error behind them.
    """
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError) as e:
        if found := re.search(r"errno = (\d+)", str(e)):
            raise_no_space(OSError(int(found[1]), ""), path, needed_bytes, more)
        raise_no_space(e, path, needed_bytes, more)
        raise IoFailed(f"{words}: {e}") from e


def values_of(attributes: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield attributes of these names that are numbers, strings or arrays of these."""
    for name in names:
        try:
            if hdf5_types.are_lists_misread(attributes.get_id(name).get_type()):
                continue
            value = attributes[name]
        except Error:  # of a server
            raise
        except (OSError, TypeError, RuntimeError, ValueError):  # NumPy does not have the type
            continue
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        elif isinstance(value, np.ndarray) and value.dtype.kind == "S":
            value = np.char.decode(value, "utf-8", "backslashreplace")
        elif isinstance(value, np.generic) and value.dtype.kind in "biufc":
            value = value.item()
        if isinstance(value, (bool, int, float, complex, str, np.ndarray)):
            yield name, value
