# SPDX-License-Identifier: BSD-3-Clause
"""Names of files, datasets, addresses and dimensions, and their parsing.

The module imports little, because the process that starts others for a move needs only this part of
the file support.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from datamover.errors import InvalidArgument, IoFailed, WrongType
from datamover.files import addresses

HDF5_SUFFIXES = (".h5", ".hdf5", ".he5", ".nc", ".nc4")

#: Directories to which, for example, /dev/stdout and /dev/fd lead.
SYSTEM_FOLDERS = ("/proc/", "/sys/")

#: Names that an array or group in a directory cannot have.
NOT_IN_ZARR = {".", "..", "zarr.json"}
NOT_IN_ZARR_2 = NOT_IN_ZARR | {".zarray", ".zgroup", ".zattrs", ".zmetadata"}


def can_be_in_zarr(name: str, zarr_format: int = 3) -> bool:
    r"""Return whether a member of a Zarr group can have a name; zarr converts \ to a slash.

    Examples
    --------
    >>> from datamover.files.names import can_be_in_zarr
    >>> can_be_in_zarr("fields/u"), can_be_in_zarr("fields\\u")
    (True, False)
    """
    taken = NOT_IN_ZARR_2 if zarr_format == 2 else NOT_IN_ZARR
    return taken.isdisjoint(name.split("/")) and "\\" not in name


def is_utf8(name: str) -> bool:
    """Return whether a name from a file system or file was valid UTF-8."""
    return name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name)


def split_member(name: str | os.PathLike[str]) -> tuple[str, str | None]:
    """Split `run.h5:/fields/u` into file and dataset; None if no dataset is named.

    Examples
    --------
    >>> from datamover.files.names import split_member
    >>> split_member("run.h5:/fields/u"), split_member("run.h5")
    (('run.h5', 'fields/u'), ('run.h5', None))
    """
    text = os.fspath(name)
    path, found, member = text.rpartition(":/")
    if not found or member.startswith("/") or os.path.lexists(text):
        return text, None
    member = member.strip("/")
    if not path.lower().endswith(HDF5_SUFFIXES) and not os.path.isfile(path):
        return text, None
    if not member:
        return path, None
    if any(part in ("", ".", "..") for part in member.split("/")) or "\0" in member:
        raise InvalidArgument(f"{member!r} is not a valid name of a dataset")
    return path, member


def place_of(name: str | os.PathLike[str]) -> str:
    """Return the real path of a name, which may also be a file:// address, or its address.

    Raises
    ------
    InvalidArgument
        The name is empty, or an address of an unknown kind.
    """
    text = os.fspath(name)
    if addresses.is_address(text):
        return addresses.checked(text)
    scheme, found, rest = text.partition("://")
    if found and scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost") or not slash:
            raise InvalidArgument(f"{text} is not a file of this machine; write file:///path")
        text = urllib.parse.unquote("/" + path)
    elif found and scheme.isalnum() and not os.path.lexists(text):
        known = ", ".join(addresses.SCHEMES)
        raise InvalidArgument(f"{text}: {scheme} addresses are unknown; there are file, {known}")
    if not text or "\0" in text:
        raise InvalidArgument(f"{text!r} is not a valid name of a file")
    return os.path.realpath(text)


def is_special(path: str) -> bool:
    """Return whether a name, or its link target, is neither a file nor a directory.

    Examples
    --------
    >>> from datamover.files.names import is_special
    >>> is_special("/dev/null"), is_special("/"), is_special("/nothing")
    (True, False, False)
    """
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def place_of_output(name: str | os.PathLike[str]) -> str:
    """Return the place of an output, as `place_of`.

    Raises
    ------
    IoFailed
        It is a device, a pipe or a socket, or in a virtual directory of the system.
    """
    text = os.fspath(name)
    place = place_of(text)
    if addresses.is_address(place):
        return place
    # The target of /dev/stdout has no path.
    if any(is_special(path) for path in (text, place)):
        raise IoFailed(f"{text} is a device, a pipe or a socket: it is not replaced")
    if place.startswith(SYSTEM_FOLDERS):
        raise IoFailed(f"{text} is in a virtual directory of the system, which cannot hold files")
    return place


#: Names of the dimensions of an array.
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


def checked_names(array: str, names: Any, shape: tuple[int, ...]) -> Names | None:
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


def own_names(array: str, shape: tuple[int, ...]) -> Names:
    """Return names for the dimensions of an array for which none are given."""
    return tuple(f"{array.rsplit('/', 1)[-1]}_{d}" for d in range(len(shape)))


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
